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
    fn long_and_many_lines_are_clipped() {
        assert_eq!(one_line("  short \n", 20), "short");
        assert_eq!(one_line("first\nsecond", 20), "first …");
        assert_eq!(one_line("abcdef", 3), "abc …");
    }
}
