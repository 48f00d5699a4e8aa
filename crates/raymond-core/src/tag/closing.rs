//! Closing tags.

use super::TagName;

/// How many bytes of white space a closing tag may have before its `>`.
pub(super) const MAX_CLOSING_SPACE: usize = 16;

/// What stands at a `<`, as far as closing tags of one name go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum AtClosing {
    /// A closing tag of this length.
    Whole(usize),
    /// The text ends before that can be said.
    NeedsMore,
    Other,
}

/// Whether a text begins with the closing tag of a name; `is_same` compares the name.
pub(super) fn at_closing(text: &[u8], name: TagName, is_same: fn(&[u8], &[u8]) -> bool) -> AtClosing {
    let wanted = name.closing_start();
    let compared = text.get(..wanted.len()).unwrap_or(text);
    if !wanted.get(..compared.len()).is_some_and(|wanted| is_same(wanted, compared)) {
        return AtClosing::Other;
    }
    let after = text.get(wanted.len()..).unwrap_or_default();
    let spaces = after.iter().take(MAX_CLOSING_SPACE).take_while(|byte| byte.is_ascii_whitespace()).count();
    match after.get(spaces) {
        Some(b'>') => AtClosing::Whole(wanted.len() + spaces + 1),
        Some(_) => AtClosing::Other,
        None => AtClosing::NeedsMore,
    }
}

/// Whether a text holds a closing tag of a name.
pub(crate) fn holds_closing(text: &str, name: TagName) -> bool {
    let bytes = text.as_bytes();
    memchr::memmem::find_iter(bytes, name.closing_start()).any(|at| {
        matches!(at_closing(bytes.get(at..).unwrap_or_default(), name, <[u8]>::eq), AtClosing::Whole(_))
    })
}
