//! Text from outside, made safe to print on a terminal.

use std::borrow::Cow;

/// Text from a model, a script or a file name, with control characters escaped so that a terminal does not interpret
/// them. Line breaks and tabs stay.
pub fn clean(text: &str) -> Cow<'_, str> {
    if !text.chars().any(is_dangerous) {
        return Cow::Borrowed(text);
    }
    let mut clean = String::with_capacity(text.len());
    for character in text.chars() {
        if is_dangerous(character) {
            clean.extend(character.escape_default());
        } else {
            clean.push(character);
        }
    }
    Cow::Owned(clean)
}

/// Text from outside that has to stay in its line, such as a path in a table: cleaned, with line breaks and tabs escaped, too.
pub fn in_one_line(text: &str) -> String {
    clean(text).replace('\n', "\\n").replace('\t', "\\t")
}

/// What later lines of a text from outside begin with, so that none looks like a line of Raymond's own.
const BELOW: &str = "\n    ";

/// Text from outside within a line of Raymond's own: cleaned, with its later lines indented. Doing it twice indents twice.
pub fn indented(text: &str) -> String {
    below(&clean(text))
}

/// The later lines of a cleaned text indented.
pub fn below(text: &str) -> String {
    let mut lines = text.split('\n');
    let first = lines.next().unwrap_or_default().to_owned();
    lines.fold(first, |above, line| above + if line.is_empty() { "\n" } else { BELOW } + line)
}

/// JSON whose strings are the same to a program, but harmless to a terminal: what JSON itself leaves as it is (DEL,
/// further control characters, direction marks) is written as `\\uXXXX`.
pub fn clean_json(json: String) -> String {
    // Nothing else in JSON is dangerous, and most lines have none of the bytes that these characters begin with.
    let may_be = |byte: &u8| matches!(byte, 0x7f | 0xc2 | 0xd8 | 0xe2);
    if !json.as_bytes().iter().any(may_be) || !json.chars().any(is_dangerous) {
        return json;
    }
    let mut clean = String::with_capacity(json.len() + 64);
    for character in json.chars() {
        match is_dangerous(character) {
            true => clean.push_str(&format!("\\u{:04x}", u32::from(character))),
            false => clean.push(character),
        }
    }
    clean
}

/// A line of a file with other characters in place of those that are dangerous, each as long as the one it replaces, so
/// that places in the line stay the same.
pub fn clean_line(line: &str) -> String {
    let harmless = |character: char| match (is_dangerous(character), character.len_utf8()) {
        (false, _) => character,
        (true, 1) => '?',
        (true, 2) => '\u{bf}',
        (true, _) => char::REPLACEMENT_CHARACTER,
    };
    line.chars().map(harmless).collect()
}

/// A time in the zone of this machine, with the zone's name.
pub fn local_time(time: jiff::Timestamp) -> String {
    time.to_zoned(local_zone()).strftime("%Y-%m-%d %H:%M:%S %Z").to_string()
}

/// The zone of this machine; UTC if it says none.
pub fn local_zone() -> jiff::tz::TimeZone {
    jiff::tz::TimeZone::try_system().unwrap_or(jiff::tz::TimeZone::UTC)
}

/// The first line of a text, made safe and cut to at most `most` characters.
pub fn one_line(text: &str, most: usize) -> String {
    let first = text.trim().lines().next().unwrap_or("");
    let clipped: String = first.chars().take(most).collect();
    let is_whole = clipped.len() == text.trim().len();
    format!("{}{}", clean(&clipped), if is_whole { "" } else { " …" })
}

/// Control characters are commands to a terminal; direction marks make text look different from what it is.
fn is_dangerous(character: char) -> bool {
    match character {
        '\n' | '\t' => false,
        '\u{202a}'..='\u{202e}'
        | '\u{2066}'..='\u{2069}'
        | '\u{200e}'
        | '\u{200f}'
        | '\u{061c}'
        | '\u{2028}'
        | '\u{2029}' => true,
        other => other.is_control(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn escapes_are_shown_not_sent() {
        assert_eq!(clean("a\x1b[31mred\x07"), "a\\u{1b}[31mred\\u{7}");
        assert_eq!(clean("\u{9b}2J \u{202e}txt"), "\\u{9b}2J \\u{202e}txt");
        assert_eq!(clean("plain\ttext\nübrig"), "plain\ttext\nübrig");
        assert_eq!(clean("over\rwritten"), "over\\rwritten");
    }

    #[test]
    fn later_lines_are_indented() {
        assert_eq!(indented("a\x07\n[main] done: b\r\n\n\nc"), "a\\u{7}\n    [main] done: b\\r\n\n\n    c");
        assert_eq!(indented("one"), "one");
    }

    #[test]
    fn json_keeps_its_meaning() {
        let text = "a\x1b\x7f\u{9b}\u{202e}\u{2066}\u{200f}\u{61c}\u{2028} ü→\u{1f600}\n";
        let json = clean_json(serde_json::to_string(text).unwrap());
        assert_eq!(json, r#""a\u001b\u007f\u009b\u202e\u2066\u200f\u061c\u2028 ü→😀\n""#);
        assert_eq!(serde_json::from_str::<String>(&json).unwrap(), text);
    }

    #[test]
    fn places_in_a_cleaned_line_stay() {
        let line = "a\x1bb\u{9b}c\u{202e}d";
        assert_eq!(clean_line(line), "a?b¿c\u{fffd}d");
        assert_eq!(clean_line(line).len(), line.len());
    }

    #[test]
    fn long_and_many_lines_are_clipped() {
        assert_eq!(one_line("  short \n", 20), "short");
        assert_eq!(one_line("first\nsecond", 20), "first …");
        assert_eq!(one_line("abcdef", 3), "abc …");
    }
}
