//! Makes sure that a value in a prompt is only text for the program.
//!
//! Two things in a prompt are more than text for the program: a `/` at the very start makes the prompt one of the
//! program's commands, and `@path` after white space makes the program read that file. An author may write both. A
//! value may come from a model or from an unknown person, so it must stay text. The smallest change that works, tested
//! with the real program, is a space before the slash and an invisible character before the `@`.

use std::borrow::Cow;

/// ZERO WIDTH SPACE. The program does not treat it as white space, so an `@` after it is plain text.
const INVISIBLE: char = '\u{200B}';

/// A value as it may be put into a prompt after the text `before`.
pub fn plain<'v>(value: &'v str, before: &str) -> Cow<'v, str> {
    let is_command = before.is_empty() && value.starts_with('/');
    if !is_command && !value.contains('@') {
        return value.into();
    }
    let mut safe = String::with_capacity(value.len() + 3);
    if is_command {
        safe.push(' ');
    }
    let mut previous = before.chars().next_back();
    let mut characters = value.chars().peekable();
    while let Some(character) = characters.next() {
        // With the text after the value, an `@` at its end could become a path.
        let may_name_a_file = character == '@' && !characters.peek().is_some_and(|next| next.is_whitespace());
        if may_name_a_file && previous.is_none_or(is_boundary) {
            safe.push(INVISIBLE);
        }
        safe.push(character);
        previous = Some(character);
    }
    safe.into()
}

/// Whether `@path` may begin after this character: after all kinds of white space, and after some punctuation of other
/// scripts. The program accepts less punctuation than this, but the set differs between releases.
fn is_boundary(character: char) -> bool {
    let is_foreign_sign = !character.is_ascii() && !character.is_alphanumeric() && character != INVISIBLE;
    character.is_whitespace() || is_foreign_sign
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn only_commands_and_file_references_are_changed() {
        let cases = [
            ("", "", ""),
            ("", "/cost", " /cost"),
            ("see ", "/cost", "/cost"),
            ("", " /cost", " /cost"),
            ("", "a/b", "a/b"),
            ("", "@a", "\u{200B}@a"),
            ("see ", "@a", "\u{200B}@a"),
            ("see:", "@a", "@a"),
            ("", "a@b.example", "a@b.example"),
            ("", "x @a (@b) \"@c\"\n@d", "x \u{200B}@a (@b) \"@c\"\n\u{200B}@d"),
            ("", "5 @ 3", "5 @ 3"),
            ("", "ends with @", "ends with \u{200B}@"),
            ("", "x\u{A0}@a\u{3002}@b\u{FEFF}@c", "x\u{A0}\u{200B}@a\u{3002}\u{200B}@b\u{FEFF}\u{200B}@c"),
            ("", "/@a", " /@a"),
            ("", "ä@b", "ä@b"),
        ];
        for (before, value, expected) in cases {
            assert_eq!(plain(value, before), expected, "{value:?} after {before:?}");
        }
    }

    proptest! {
        #[test]
        fn nothing_is_lost_and_twice_is_once(value in "[/@ a\n.]{0,12}") {
            let once = plain(&value, "");
            prop_assert_eq!(plain(&once, ""), once.clone());
            let visible: String = once.chars().filter(|character| *character != INVISIBLE).collect();
            prop_assert_eq!(visible.strip_prefix(' ').filter(|_| value.starts_with('/')).unwrap_or(&visible), value);
        }
    }
}
