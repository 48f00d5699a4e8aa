//! Splits the bytes of a program's output into lines of JSON, in bounded memory. A line that cannot be read is passed
//! on as unreadable.

use serde_json::Value;

/// A longer line is skipped. The largest that matter hold a final message, which may be 8 MiB before escaping.
pub(super) const LONGEST_LINE: usize = 16 * 1024 * 1024;
/// A longer line of stderr that is not for people is skipped.
const LONGEST_LINE_OF_STDERR: usize = 64 * 1024;

/// One line of the program's output.
#[derive(Debug, PartialEq)]
pub(super) enum Line {
    Event(Value),
    /// Not a JSON object; the start of the line, to be shown.
    Unreadable(String),
}

/// Splits output into lines. The pieces may be of any size.
#[derive(Debug, Default)]
pub(super) struct Lines {
    partial: Vec<u8>,
    /// Whether the current line has become too long, so that the rest of it is dropped.
    skipping: bool,
    has_skipped: bool,
}

impl Lines {
    pub(super) fn feed(&mut self, mut bytes: &[u8]) -> Vec<Line> {
        let mut lines = Vec::new();
        while let Some(end) = bytes.iter().position(|&byte| byte == b'\n') {
            let (head, rest) = bytes.split_at(end);
            self.take(head);
            lines.extend(self.end_line());
            bytes = &rest[1..];
        }
        self.take(bytes);
        lines
    }

    /// Whether any line was too long.
    pub(super) fn has_skipped(&self) -> bool {
        self.has_skipped
    }

    /// The end of the output also ends its last line.
    pub(super) fn end_line(&mut self) -> Option<Line> {
        let bytes = std::mem::take(&mut self.partial);
        if std::mem::take(&mut self.skipping) {
            return Some(Line::Unreadable(format!("a line over {} MiB", LONGEST_LINE >> 20)));
        }
        if bytes.trim_ascii().is_empty() { None } else { Some(read(&bytes)) }
    }

    fn take(&mut self, bytes: &[u8]) {
        if self.skipping {
            return;
        }
        if self.partial.len() + bytes.len() > LONGEST_LINE {
            self.skipping = true;
            self.has_skipped = true;
            self.partial = Vec::new();
        } else {
            self.partial.extend_from_slice(bytes);
        }
    }
}

fn read(bytes: &[u8]) -> Line {
    let text = String::from_utf8_lossy(bytes);
    let mended = || mend_numbers(&mend_surrogates(&text));
    let parsed = serde_json::from_str(&text).or_else(|_| serde_json::from_str(&mended()));
    match parsed {
        Ok(event @ Value::Object(_)) => Line::Event(event),
        _ => Line::Unreadable(shortened(text.trim(), 200)),
    }
}

/// `NaN`, `Infinity` and numbers such as `1e400` are not JSON, or not numbers that can be held. They become `null`, so
/// that one wrong figure does not lose the message beside it.
fn mend_numbers(text: &str) -> String {
    let mut mended = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let length = match first {
            '"' => string_length(rest),
            '-' | '0'..='9' | 'A'..='Z' => {
                let is_part = |letter: char| letter.is_ascii_alphanumeric() || "+-.".contains(letter);
                let length = rest.find(|letter| !is_part(letter)).unwrap_or(rest.len());
                let is_number = serde_json::from_str::<serde_json::Number>(&rest[..length]).is_ok();
                if !is_number {
                    mended.push_str("null");
                    rest = &rest[length..];
                    continue;
                }
                length
            }
            other => other.len_utf8(),
        };
        mended.push_str(&rest[..length]);
        rest = &rest[length..];
    }
    mended
}

/// The length of the JSON string at the start of `text`, with its quotes.
fn string_length(text: &str) -> usize {
    let mut escaped = false;
    let mut inside = text.char_indices().skip(1);
    let end = inside.find(|(_, letter)| {
        let is_end = *letter == '"' && !escaped;
        escaped = *letter == '\\' && !escaped;
        is_end
    });
    end.map_or(text.len(), |(at, _)| at + 1)
}

/// JavaScript can cut a string between the two halves of a surrogate pair. It writes the half as an escape, which is
/// not valid text in any encoding. Such a half is replaced by U+FFFD, so that one cut emoji does not fail a whole turn.
fn mend_surrogates(text: &str) -> String {
    let mut mended = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('\\') {
        mended.push_str(&rest[..at]);
        rest = &rest[at..];
        let length = match (escaped_unit(rest), rest.get(6..).and_then(escaped_unit)) {
            (Some(0xD800..=0xDBFF), Some(0xDC00..=0xDFFF)) => 12,
            (Some(0xD800..=0xDFFF), _) => {
                mended.push('\u{FFFD}');
                rest = &rest[6..];
                continue;
            }
            // The escaped character is copied too, so that an escaped backslash does not start another escape.
            _ => 1 + rest[1..].chars().next().map_or(0, char::len_utf8),
        };
        mended.push_str(&rest[..length]);
        rest = &rest[length..];
    }
    mended.push_str(rest);
    mended
}

/// The UTF-16 unit of a `\uXXXX` escape at the start of `text`.
fn escaped_unit(text: &str) -> Option<u16> {
    let digits = text.strip_prefix("\\u")?.get(..4)?;
    if !digits.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return None;
    }
    u16::from_str_radix(digits, 16).ok()
}

/// At most `length` characters of `text`, with a mark if it was cut.
pub(super) fn shortened(text: &str, length: usize) -> String {
    match text.char_indices().nth(length) {
        Some((at, _)) => format!("{}…", &text[..at]),
        None => text.to_owned(),
    }
}

/// Takes the whole lines that begin like this out of a piece of stderr. The start of one that goes on in the next piece waits in
/// `partial`.
pub(super) fn take_lines(partial: &mut Vec<u8>, text: &mut Vec<u8>, beginning: &[u8]) -> Vec<String> {
    let all = [std::mem::take(partial), std::mem::take(text)].concat();
    let mut lines = Vec::new();
    for line in all.split_inclusive(|byte| *byte == b'\n') {
        let is_whole = line.ends_with(b"\n");
        match line.starts_with(beginning) || beginning.starts_with(line) {
            true if is_whole => lines.push(String::from_utf8_lossy(line).into_owned()),
            true if line.len() <= LONGEST_LINE_OF_STDERR => *partial = line.to_vec(),
            true => {}
            false => text.extend_from_slice(line),
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_line_may_arrive_in_pieces_and_end_with_the_output() {
        let mut lines = Lines::default();
        assert_eq!(lines.feed(b"{\"a\":"), []);
        assert_eq!(lines.feed(b"1}\r\n\n{\"b\":2}"), [Line::Event(json!({"a": 1}))]);
        assert_eq!(lines.end_line(), Some(Line::Event(json!({"b": 2}))));
        assert_eq!(lines.end_line(), None);
    }

    #[test]
    fn a_number_that_cannot_be_does_not_lose_the_line() {
        for number in ["NaN", "Infinity", "-Infinity", "1e400", "-1e999", "nan1"] {
            let line = format!(r#"{{"n":{number},"a":[1.5e3,-2,true],"s":"NaN \\\" {number}"}}"#);
            let read = read(line.as_bytes());
            let expected = json!({"n": null, "a": [1.5e3, -2, true], "s": format!("NaN \\\" {number}")});
            if number == "nan1" {
                assert!(matches!(read, Line::Unreadable(_)), "other words are not numbers");
            } else {
                assert_eq!(read, Line::Event(expected), "{number}");
            }
        }
    }

    #[test]
    fn an_endless_line_is_skipped_in_bounded_memory() {
        let mut lines = Lines::default();
        for _ in 0..40 {
            assert_eq!(lines.feed(&vec![b'x'; 1024 * 1024]), []);
        }
        assert!(lines.partial.capacity() <= LONGEST_LINE);
        let read = lines.feed(b"\n{\"a\":1}\n");
        assert_eq!(read, [Line::Unreadable("a line over 16 MiB".to_owned()), Line::Event(json!({"a": 1}))]);
    }

    #[test]
    fn half_a_surrogate_pair_is_replaced() {
        for (written, meant) in [
            (r#""cut \ud83d""#, "cut \u{FFFD}"),
            (r#""\ude00\ud83d\ude00\ud83dx""#, "\u{FFFD}😀\u{FFFD}x"),
            (r#""\\ud83d \ud83d""#, "\\ud83d \u{FFFD}"),
        ] {
            let line = format!("{{\"t\":{written}}}\n");
            assert_eq!(Lines::default().feed(line.as_bytes()), [Line::Event(json!({"t": meant}))]);
        }
    }

    #[test]
    fn a_line_that_is_not_an_object_is_shortened() {
        assert_eq!(Lines::default().feed(b"[1]\n"), [Line::Unreadable("[1]".to_owned())]);
        let long = "é".repeat(300);
        let expected = format!("{}…", "é".repeat(200));
        assert_eq!(Lines::default().feed(format!("{long}\n").as_bytes()), [Line::Unreadable(expected)]);
    }
}
