//! Takes secrets out of a program's output on its way into a debug file, piece by piece.
//!
//! What may be the beginning of a secret waits for the next piece: an unfinished line of JSON, an unfinished word that may
//! become a URL, and the beginning of a known value. Everything else goes on at once, so that a running step can be
//! followed. Bounds: [`MOST_WAITING_BYTES`]; what waits longer is masked as it is.

use memchr::memrchr;

use crate::process::secrets::Secrets;

/// The longest line of JSON, or word, that is waited for.
const MOST_WAITING_BYTES: usize = 1024 * 1024;

/// The longest word that may become a URL.
const LONGEST_URL_BYTES: usize = 4096;

/// What waits of one output.
#[derive(Debug)]
pub(super) struct Sieve {
    /// Whether the output is lines of JSON.
    is_json: bool,
    waiting: Vec<u8>,
}

impl Sieve {
    pub(super) fn new(is_json: bool) -> Self {
        Self { is_json, waiting: Vec::new() }
    }

    /// What can be written after this piece.
    pub(super) fn take(&mut self, piece: &[u8], secrets: &Secrets) -> Vec<u8> {
        self.waiting.extend_from_slice(piece);
        let end = match self.waiting.len() > MOST_WAITING_BYTES {
            true => self.waiting.len(),
            false => self.certain(secrets),
        };
        let rest = self.waiting.split_off(end);
        let certain = std::mem::replace(&mut self.waiting, rest);
        self.masked(certain, secrets)
    }

    /// What still waits, at the end of the output.
    pub(super) fn rest(&mut self, secrets: &Secrets) -> Vec<u8> {
        let rest = std::mem::take(&mut self.waiting);
        self.masked(rest, secrets)
    }

    /// How much of what waits cannot be a part of a secret that goes on.
    fn certain(&self, secrets: &Secrets) -> usize {
        let text = self.waiting.as_slice();
        let line = memrchr(b'\n', text).map_or(0, |at| at + 1);
        if self.is_json && text.get(line) == Some(&b'{') {
            return line;
        }
        let word = text.iter().rposition(u8::is_ascii_whitespace).map_or(0, |at| at + 1);
        let may_be_url = text.len() - word <= LONGEST_URL_BYTES && text[word..].contains(&b':');
        let end = if may_be_url { word } else { text.len() };
        end.min(secrets.begins_at(text))
    }

    /// Bytes that are no text stay as they are unless there is something to mask.
    fn masked(&self, bytes: Vec<u8>, secrets: &Secrets) -> Vec<u8> {
        let may_have_escapes = self.is_json && bytes.contains(&b'\\');
        if !may_have_escapes && !secrets.may_be_in_bytes(&bytes) {
            return bytes;
        }
        let text = match String::from_utf8(bytes) {
            Ok(text) => text,
            Err(error) => String::from_utf8_lossy(error.as_bytes()).into_owned(),
        };
        let masked = if self.is_json { secrets.hide_in_lines(text) } else { secrets.hide(text) };
        masked.into_bytes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sieved(is_json: bool, secrets: &Secrets, text: &[u8], size: usize) -> Vec<u8> {
        let mut sieve = Sieve::new(is_json);
        let mut written: Vec<u8> = text.chunks(size).flat_map(|piece| sieve.take(piece, secrets)).collect();
        written.extend(sieve.rest(secrets));
        written
    }

    fn secrets() -> Secrets {
        Secrets::of([("A_TOKEN", "first line\nsecond"), ("B_TOKEN", "se\"cret")])
    }

    #[test]
    fn however_an_output_is_cut_nothing_secret_is_left() {
        let text = "a first line\nsecond b\nit is se\"cret and se\\\"cret, at https://me:pw@host/?key=k, first line\nthird\n";
        let expected = "a *** b\nit is *** and ***, at https://me:***@host/?key=*** first line\nthird\n";
        for size in [1, 2, 3, 7, 1000] {
            let written = String::from_utf8(sieved(false, &secrets(), text.as_bytes(), size)).unwrap();
            assert_eq!(written.replace("***,", "***"), expected.replace("***,", "***"), "{size}");
        }
    }

    #[test]
    fn lines_of_json_stay_json() {
        let text = "{\"a\":\"se\\\"cret\",\"b\":1}\n{ \"c\" : 2 }\n{\"d\":\"first line\\nsecond\"}";
        let expected = "{\"a\":\"***\",\"b\":1}\n{ \"c\" : 2 }\n{\"d\":\"***\"}";
        for size in [1, 5, 1000] {
            let written = String::from_utf8(sieved(true, &secrets(), text.as_bytes(), size)).unwrap();
            assert_eq!(written, expected, "{size}");
        }
    }

    #[test]
    fn what_cannot_be_secret_is_written_at_once_and_as_it_is() {
        let mut sieve = Sieve::new(false);
        assert_eq!(sieve.take(b"50 % done", &secrets()), b"50 % done");
        assert_eq!(sieve.take(b"\xff\xfe\0 x", &secrets()), b"\xff\xfe\0 x");
        assert_eq!(sieve.take(b" fi", &secrets()), b" ", "a secret begins like this");
        assert_eq!(sieve.take(b"ne", &secrets()), b"fine");
        assert_eq!(Sieve::new(true).take(b"no JSON", &secrets()), b"no JSON");
    }

    #[test]
    fn what_waits_is_bounded() {
        let mut sieve = Sieve::new(true);
        let line = vec![b'{'; 3 * MOST_WAITING_BYTES];
        let written: usize = line.chunks(64 * 1024).map(|piece| sieve.take(piece, &secrets()).len()).sum();
        assert!(written >= 2 * MOST_WAITING_BYTES && sieve.waiting.len() <= MOST_WAITING_BYTES);
    }
}
