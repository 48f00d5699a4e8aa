//! Keeping text that was put into a prompt from doing anything there.
//!
//! Two things in a prompt are more than text to the program: a `/` at its very start makes it one of the program's
//! commands, and `@path` after a blank has that file read in. An author may write both. What a value brings along, and
//! may have been said by a model or a stranger, must stay text. The least change that does this, as seen with the real
//! program, is a blank before the slash and an invisible character before the `@`.

use std::borrow::Cow;

/// ZERO WIDTH SPACE. It is no blank to the program, so that an `@` behind it begins nothing.
const INVISIBLE: char = '\u{200B}';

/// A value as it may stand in a prompt after what is there already.
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
        // What comes after a value may make a path of an `@` at its end.
        let may_name_a_file = character == '@' && !characters.peek().is_some_and(|next| next.is_whitespace());
        if may_name_a_file && previous.is_none_or(is_boundary) {
            safe.push(INVISIBLE);
        }
        safe.push(character);
        previous = Some(character);
    }
    safe.into()
}

/// Whether a name may begin after this character: blanks of all kinds, and some signs of other scripts. Of the signs
/// the program takes fewer than this, but which ones differs from release to release.
fn is_boundary(character: char) -> bool {
    let is_foreign_sign = !character.is_ascii() && !character.is_alphanumeric() && character != INVISIBLE;
    character.is_whitespace() || is_foreign_sign
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn only_what_would_do_something_is_changed() {
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
