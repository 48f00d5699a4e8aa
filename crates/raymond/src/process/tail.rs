//! The end of a program's output, kept for error messages and the live view.
//!
//! Bound: at most twice the wanted bytes are kept, so that the front is rarely cut off.

use raymond_core::limits::MAX_STDERR_TAIL_BYTES;

/// Keeps the last bytes of a stream of any length.
#[derive(Debug)]
pub struct OutputTail {
    kept: Vec<u8>,
    wanted: usize,
    cut: bool,
}

impl OutputTail {
    pub fn new(wanted: usize) -> Self {
        OutputTail { kept: Vec::new(), wanted, cut: false }
    }

    pub fn push(&mut self, bytes: &[u8]) {
        let useful = &bytes[bytes.len().saturating_sub(self.wanted)..];
        self.cut |= useful.len() < bytes.len();
        self.kept.extend_from_slice(useful);
        if self.kept.len() > 2 * self.wanted {
            self.cut = true;
            self.kept.drain(..self.kept.len() - self.wanted);
        }
    }

    pub fn is_empty(&self) -> bool {
        self.kept.is_empty()
    }

    /// The last lines, at most `count` of them, with invalid UTF-8 replaced. A first line whose beginning was cut off is
    /// left out, unless it is the only one.
    pub fn last_lines(&self, count: usize) -> String {
        let start = self.kept.len().saturating_sub(self.wanted);
        let text = String::from_utf8_lossy(skip_broken_character(&self.kept[start..])).into_owned();
        let mut lines: Vec<&str> = text.lines().collect();
        if (self.cut || start > 0) && lines.len() > 1 {
            lines.remove(0);
        }
        lines[lines.len().saturating_sub(count)..].join("\n")
    }
}

impl Default for OutputTail {
    fn default() -> Self {
        OutputTail::new(MAX_STDERR_TAIL_BYTES)
    }
}

/// Cutting between bytes may leave the end of a character at the front; it has at most three bytes.
fn skip_broken_character(bytes: &[u8]) -> &[u8] {
    let broken = bytes.iter().take(3).take_while(|byte| **byte & 0b1100_0000 == 0b1000_0000).count();
    &bytes[broken..]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_short_stream_is_kept_whole() {
        let mut tail = OutputTail::new(100);
        tail.push(b"one\ntwo\n");
        tail.push(b"three");
        assert_eq!(tail.last_lines(10), "one\ntwo\nthree");
        assert_eq!(tail.last_lines(2), "two\nthree");
        assert_eq!(tail.last_lines(0), "");
    }

    #[test]
    fn a_long_stream_is_bounded_and_starts_with_a_whole_line() {
        let mut tail = OutputTail::new(64);
        for number in 0..100_000 {
            tail.push(format!("line {number}\n").as_bytes());
            assert!(tail.kept.len() <= 128);
        }
        let text = tail.last_lines(100);
        assert!(text.starts_with("line 9999"), "{text}");
        assert!(text.ends_with("line 99999"), "{text}");
        assert!(text.len() <= 64);
    }

    #[test]
    fn one_huge_chunk_keeps_only_its_end() {
        let mut tail = OutputTail::new(8);
        tail.push(&[b'x'; 1000]);
        assert_eq!(tail.last_lines(5), "xxxxxxxx");
    }

    #[test]
    fn characters_cut_in_half_and_bad_bytes_do_no_harm() {
        let mut tail = OutputTail::new(5);
        tail.push("äöü".as_bytes());
        assert_eq!(tail.last_lines(1), "öü");
        let mut tail = OutputTail::new(5);
        tail.push(b"a\xFFb");
        assert_eq!(tail.last_lines(1), "a\u{FFFD}b");
        assert_eq!(OutputTail::default().last_lines(3), "");
    }
}
