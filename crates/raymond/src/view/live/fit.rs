//! The width of text on a terminal, and text cut to a width.
//!
//! Where terminals differ, as for joined emoji, the larger width is taken: a line that is too short does no harm.

use unicode_width::UnicodeWidthChar;

/// The variation selector that makes the character before it an emoji, which is two columns wide.
const EMOJI_MARK: char = '\u{fe0f}';

/// The most columns that a text takes.
pub(super) fn width(text: &str) -> usize {
    text.chars().map(columns).sum()
}

fn columns(character: char) -> usize {
    if character == EMOJI_MARK { 1 } else { character.width().unwrap_or(0) }
}

/// The text, or as much of its beginning as fits, followed by `…`.
pub(super) fn clip(text: &str, most: usize) -> String {
    if width(text) <= most {
        return text.to_owned();
    }
    let Some(room) = most.checked_sub(1) else { return String::new() };
    let mut taken = 0;
    let fits = |character: &char| {
        taken += columns(*character);
        taken <= room
    };
    let start: String = text.chars().take_while(fits).collect();
    format!("{}…", start.trim_end())
}

/// The text, or as much of its end as fits, after `…`: the names of workers differ at the end.
pub(super) fn clip_start(text: &str, most: usize) -> String {
    let mut start = 0;
    let mut left = width(text);
    if left <= most {
        return text.to_owned();
    }
    for character in text.chars() {
        // A combining mark is removed with the character it belongs to.
        if left < most && columns(character) > 0 {
            break;
        }
        left -= columns(character);
        start += character.len_utf8();
    }
    if most == 0 { String::new() } else { format!("…{}", &text[start..]) }
}

/// The text, cut or padded to exactly this many columns.
pub(super) fn column(text: &str, columns: usize) -> String {
    let text = clip(text, columns);
    let missing = columns.saturating_sub(width(&text));
    format!("{text}{}", " ".repeat(missing))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn text_is_cut_between_whole_characters() {
        for (text, most, expected) in [
            ("short", 5, "short"),
            ("longer", 5, "long…"),
            ("two words", 5, "two…"),
            ("日本語", 6, "日本語"),
            ("日本語", 5, "日本…"),
            ("日本語", 4, "日…"),
            ("e\u{301}e\u{301}e\u{301}", 3, "e\u{301}e\u{301}e\u{301}"),
            ("e\u{301}e\u{301}e\u{301}", 2, "e\u{301}…"),
            ("❤\u{fe0f}❤\u{fe0f}", 3, "❤\u{fe0f}…"),
            ("anything", 1, "…"),
            ("anything", 0, ""),
        ] {
            assert_eq!(clip(text, most), expected, "{text} in {most}");
        }
    }

    #[test]
    fn names_are_cut_at_the_front() {
        for (text, most, expected) in [
            ("main_worker12", 13, "main_worker12"),
            ("main_worker12", 6, "…ker12"),
            ("日本語", 5, "…本語"),
            ("日本語", 4, "…語"),
            ("ae\u{301}b", 2, "…b"),
            ("anything", 1, "…"),
            ("anything", 0, ""),
        ] {
            assert_eq!(clip_start(text, most), expected, "{text} in {most}");
        }
    }

    proptest! {
        #[test]
        fn no_text_is_wider_than_allowed(text in "\\PC{0,40}", most in 0usize..30) {
            prop_assert!(width(&clip(&text, most)) <= most);
            prop_assert!(width(&clip_start(&text, most)) <= most);
            prop_assert_eq!(width(&column(&text, most)), most);
        }
    }
}
