//! A line that a person edits: what each key does to it, and how it is drawn.
//!
//! Pure: bytes go in, escape sequences come out. The terminal gives each key as it is pressed and shows nothing itself.

use unicode_width::UnicodeWidthChar;

/// More is not taken in; the inbox would refuse a longer answer.
const MOST_BYTES: usize = 1024 * 1024;
/// The longest escape sequence that a key sends. A longer one is none.
const MOST_SEQUENCE: usize = 16;

const PASTE_BEGINS: &[u8] = b"[200~";
const PASTE_ENDS: &[u8] = b"[201~";

/// What a key leads to.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Edited {
    /// The line is still being written.
    More,
    Done(String),
    /// Ctrl-D on an empty line.
    End,
}

/// A line and the cursor in it.
#[derive(Debug, Default)]
pub(super) struct Editor {
    text: Vec<char>,
    bytes: usize,
    /// Before which character the cursor is.
    cursor: usize,
    /// The bytes of a character or escape sequence that is not complete.
    pending: Vec<u8>,
    is_pasting: bool,
    /// In which row of the drawn line the terminal's cursor is.
    row: usize,
}

impl Editor {
    /// Whether this byte ends the line. In pasted text it does not.
    pub(super) fn is_enter(&self, byte: u8) -> bool {
        matches!(byte, b'\r' | b'\n') && !self.is_pasting && self.pending.is_empty()
    }

    pub(super) fn press(&mut self, byte: u8) -> Edited {
        if !self.pending.is_empty() || byte == 0x1b || byte >= 0x80 {
            self.pending.push(byte);
            self.take_pending();
            return Edited::More;
        }
        match byte {
            b'\r' | b'\n' if self.is_pasting => self.insert('\n'),
            b'\r' | b'\n' => return Edited::Done(std::mem::take(&mut self.text).into_iter().collect()),
            b'\t' => self.insert(' '),
            0x04 if self.text.is_empty() => return Edited::End,
            0x01 => self.cursor = 0,
            0x02 => self.cursor = self.cursor.saturating_sub(1),
            0x04 => self.delete(self.cursor..self.cursor + 1),
            0x05 => self.cursor = self.text.len(),
            0x06 => self.cursor = (self.cursor + 1).min(self.text.len()),
            0x08 | 0x7f => self.delete(self.cursor.saturating_sub(1)..self.cursor),
            0x0b => self.delete(self.cursor..self.text.len()),
            0x15 => self.delete(0..self.cursor),
            0x17 => self.delete(self.word_before()..self.cursor),
            _ if byte < 0x20 => {}
            _ => self.insert(char::from(byte)),
        }
        Edited::More
    }

    /// Takes a character or an escape sequence once it is complete.
    fn take_pending(&mut self) {
        match self.pending.as_slice() {
            [0x1b] | [0x1b, b'[' | b'O'] => {}
            [0x1b, b'[' | b'O', .., last] if !(0x40..=0x7e).contains(last) => {
                if self.pending.len() > MOST_SEQUENCE {
                    self.pending.clear();
                }
            }
            [0x1b, sequence @ ..] => {
                let sequence = sequence.to_vec();
                self.pending.clear();
                self.take_sequence(&sequence);
            }
            bytes => match std::str::from_utf8(bytes) {
                Ok(text) => {
                    let typed = text.chars().next();
                    self.pending.clear();
                    typed.into_iter().for_each(|typed| self.insert(typed));
                }
                Err(error) if error.error_len().is_some() => {
                    self.pending.clear();
                    self.insert('\u{fffd}');
                }
                Err(_) => {}
            },
        }
    }

    fn take_sequence(&mut self, sequence: &[u8]) {
        match sequence {
            b"[D" | b"OD" => self.cursor = self.cursor.saturating_sub(1),
            b"[C" | b"OC" => self.cursor = (self.cursor + 1).min(self.text.len()),
            b"[H" | b"OH" | b"[1~" | b"[7~" => self.cursor = 0,
            b"[F" | b"OF" | b"[4~" | b"[8~" => self.cursor = self.text.len(),
            b"[3~" => self.delete(self.cursor..self.cursor + 1),
            b"b" | b"[1;5D" | b"[1;3D" => self.cursor = self.word_before(),
            b"f" | b"[1;5C" | b"[1;3C" => self.cursor = self.word_after(),
            PASTE_BEGINS => self.is_pasting = true,
            PASTE_ENDS => self.is_pasting = false,
            _ => {}
        }
    }

    fn insert(&mut self, character: char) {
        let is_shown = character == '\n' || !character.is_control();
        if is_shown && self.bytes + character.len_utf8() <= MOST_BYTES {
            self.text.insert(self.cursor, character);
            self.bytes += character.len_utf8();
            self.cursor += 1;
        }
    }

    fn delete(&mut self, range: std::ops::Range<usize>) {
        let range = range.start..range.end.min(self.text.len());
        if !range.is_empty() {
            self.cursor = range.start;
            let deleted = self.text.drain(range).map(char::len_utf8).sum();
            self.bytes = self.bytes.saturating_sub(deleted);
        }
    }

    fn word_before(&self) -> usize {
        let before = &self.text[..self.cursor];
        let end = before.iter().rposition(|character| !character.is_whitespace()).unwrap_or(0);
        before[..end].iter().rposition(|character| character.is_whitespace()).map_or(0, |space| space + 1)
    }

    fn word_after(&self) -> usize {
        let after = &self.text[self.cursor..];
        let start = after.iter().position(|character| !character.is_whitespace()).unwrap_or(after.len());
        let length = after[start..].iter().position(|character| character.is_whitespace());
        self.cursor + start + length.unwrap_or(after.len() - start)
    }

    /// Draws the line again from its first row, which begins with the prompt, and puts the cursor in its place.
    pub(super) fn draw(&mut self, prompt: &str, columns: usize) -> String {
        let mut out = self.erase();
        let mut place = Place::default();
        let mut cursor = place;
        for (index, character) in prompt.chars().chain(self.text.iter().copied()).enumerate() {
            if index == prompt.chars().count() + self.cursor {
                cursor = place;
            }
            place = place.after(character, columns);
            match character {
                '\n' => out.push_str("\r\n"),
                _ => out.push(character),
            }
        }
        if place.column == 0 && !self.text.ends_with(&['\n']) {
            // The terminal goes to the next row only with the next character.
            out.push_str("\r\n");
        }
        if self.cursor == self.text.len() {
            cursor = place;
        }
        out.push_str(&up(place.row - cursor.row));
        out.push('\r');
        if cursor.column > 0 {
            out.push_str(&format!("\x1b[{}C", cursor.column));
        }
        self.row = cursor.row;
        out
    }

    /// Draws the line with the cursor behind it, and ends it.
    pub(super) fn leave(&mut self, prompt: &str, columns: usize) -> String {
        self.cursor = self.text.len();
        let drawn = self.draw(prompt, columns);
        self.row = 0;
        format!("{drawn}\r\n")
    }

    /// Takes the line off the screen.
    pub(super) fn erase(&mut self) -> String {
        format!("\r{}\x1b[J", up(std::mem::take(&mut self.row)))
    }

    /// Another program has written to the terminal: the next drawing begins in a new place.
    pub(super) fn forget_place(&mut self) {
        self.row = 0;
    }
}

fn up(rows: usize) -> String {
    if rows == 0 { String::new() } else { format!("\x1b[{rows}A") }
}

/// A place on the terminal, relative to the beginning of the prompt.
#[derive(Clone, Copy, Default)]
struct Place {
    row: usize,
    column: usize,
}

impl Place {
    fn after(self, character: char, columns: usize) -> Self {
        let width = character.width().unwrap_or(0);
        let next_row = Self { row: self.row + 1, column: 0 };
        if character == '\n' {
            return next_row;
        }
        // A wide character that does not fit goes to the next row as a whole.
        let Self { row, column } = if self.column + width > columns { next_row } else { self };
        if column + width >= columns {
            Self { row: row + 1, column: 0 }
        } else {
            Self { row, column: column + width }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Presses keys, draws after each on a terminal of these columns, and returns what it shows, the cursor, and the end.
    fn typed(keys: &str, columns: u16) -> (String, (u16, u16), Edited) {
        let mut screen = vt100::Parser::new(8.try_into().unwrap(), columns.try_into().unwrap(), 0);
        let mut editor = Editor::default();
        let mut draw = |editor: &mut Editor| {
            screen.process(editor.draw("> ", columns.into()).as_bytes());
            (screen.screen().contents(), screen.screen().cursor_position())
        };
        let mut shown = draw(&mut editor);
        for byte in keys.bytes() {
            match editor.press(byte) {
                Edited::More => shown = draw(&mut editor),
                end => return (shown.0, shown.1, end),
            }
        }
        (shown.0, shown.1, Edited::More)
    }

    #[test]
    fn keys_edit_the_line() {
        for (keys, expected) in [
            ("yes\r", "yes"),
            ("yess\x7f\r", "yes"),
            ("es\x1b[Hy\r", "yes"),
            ("ys\x1b[De\r", "yes"),
            ("ys\x1bODe\r", "yes"),
            ("yees\x1b[D\x1b[D\x1b[3~\r", "yes"),
            ("yes\x01\x1b[C\x0b\r", "y"),
            ("no yes\x01\x06\x06\x06\x15\r", "yes"),
            ("yes please\x17\x7f\r", "yes"),
            ("a c\x1b[1;5Db \x05!\r", "a b c!"),
            ("a b\x01\x1bf,\r", "a, b"),
            ("gr\u{fc}n \u{1f600}\u{7f}\r", "gr\u{fc}n "),
            ("\x1b[A\x1b[B\x1b[15~up\x07\r", "up"),
            ("\x1b[200~one\ntwo\x1b[201~ three\r", "one\ntwo three"),
            ("x\x04y\x01\x04\r", "y"),
        ] {
            assert_eq!(typed(keys, 80).2, Edited::Done(expected.to_owned()), "{keys:?}");
        }
        assert_eq!(typed("\x04", 80).2, Edited::End);
        assert_eq!(typed("a\x7f\x04", 80).2, Edited::End);
    }

    #[test]
    fn the_line_is_drawn_as_it_is_with_the_cursor_in_its_place() {
        for (keys, columns, shown, cursor) in [
            ("", 10, "> ", (0, 2)),
            ("abc", 10, "> abc", (0, 5)),
            ("abc\x1b[D\x1b[D", 10, "> abc", (0, 3)),
            ("abcdefgh", 10, "> abcdefgh", (1, 0)),
            ("abcdefghij", 10, "> abcdefghij", (1, 2)),
            ("abcdefghij\x01", 10, "> abcdefghij", (0, 2)),
            ("abcdefghij\x01\x0b", 10, "> ", (0, 2)),
            ("abcdefghij\x7f\x7f\x7f", 10, "> abcdefg", (0, 9)),
            ("abcdefg\u{65e5}", 10, "> abcdefg\n\u{65e5}", (1, 2)),
            ("\x1b[200~a\nb", 10, "> a\nb", (1, 1)),
        ] {
            let (contents, place, _) = typed(keys, columns);
            assert_eq!((contents.trim_end(), place), (shown.trim_end(), cursor), "{keys:?}");
        }
    }
}
