//! Opening tags, and the attributes in them.

use memchr::{memchr, memchr_iter};

use super::{NearMissReason, TagName, clip, decode};
use crate::limits::MAX_TAG_ATTRIBUTES;

/// A range of the bytes of one tag, counted from its `<`.
#[derive(Clone, Copy, Debug)]
pub(super) struct Span {
    pub(super) start: usize,
    pub(super) end: usize,
}

impl Span {
    pub(super) fn of(self, tag: &[u8]) -> &[u8] {
        tag.get(self.start..self.end).unwrap_or_default()
    }
}

/// Reads an opening tag byte by byte, each byte once.
///
/// If it is not an opening tag after all, the bytes after its name are read again as text, and another opening tag may
/// begin there. This cannot make the reader slow: of all readings that reach a given byte, at most one is outside of
/// quotes, one inside `"…"` and one inside `'…'`. Each reading begins outside of quotes, at a `<` where all earlier
/// readings must be inside quotes, and from there every quote changes the position of all of them, so that two are
/// never in the same one. So no byte is read more than three times.
#[derive(Debug)]
pub(super) struct Opener {
    pub(super) name: TagName,
    /// Whether the name is written in another case, so that this is text or a mistake.
    pub(super) is_other_case: bool,
    /// The next byte to read.
    pub(super) at: usize,
    expects: Expects,
    pub(super) attributes: Vec<(Span, Span)>,
}

/// What may come next in an opening tag.
#[derive(Clone, Copy, Debug)]
enum Expects {
    /// Right after the name or after white space.
    AttributeOrEnd,
    /// Right after a value's closing quote.
    SpaceOrEnd,
    RestOfName {
        start: usize,
    },
    Equals {
        name: Span,
    },
    Quote {
        name: Span,
    },
    RestOfValue {
        name: Span,
        quote: u8,
        start: usize,
    },
}

/// How far an opening tag could be read.
pub(super) enum Reading {
    Complete,
    NeedsMore,
    Malformed(NearMissReason),
    TooManyAttributes,
}

impl Opener {
    pub(super) fn new(name: TagName) -> Self {
        let at = name.opening().len();
        Self { name, is_other_case: false, at, expects: Expects::AttributeOrEnd, attributes: Vec::new() }
    }

    pub(super) fn in_other_case(name: TagName) -> Self {
        Self { is_other_case: true, ..Self::new(name) }
    }

    /// The names of all attributes, after the reading has failed: those that were read, the one at which it stopped,
    /// and every `name=` from there to `end`.
    pub(super) fn names_before<'t>(&self, tag: &'t [u8], end: usize) -> impl Iterator<Item = &'t [u8]> {
        let stopped_at = match self.expects {
            Expects::Quote { name } | Expects::RestOfValue { name, .. } => Some(name),
            Expects::AttributeOrEnd
            | Expects::SpaceOrEnd
            | Expects::RestOfName { .. }
            | Expects::Equals { .. } => None,
        };
        let read: Vec<Span> = self.attributes.iter().map(|(name, _)| *name).chain(stopped_at).collect();
        let unread = Span { start: self.at.min(end), end };
        let before = Span { start: self.name.opening().len(), end }.of(tag);
        let skipped = before.len() - unread.of(tag).len();
        let later = memchr_iter(b'=', unread.of(tag))
            .filter_map(move |equals| name_before(before.get(..skipped + equals).unwrap_or_default()));
        read.into_iter().map(|name| name.of(tag)).chain(later)
    }

    /// Reads on in `tag`, which starts with this opener's `<`; after `Complete`, the content begins at `self.at`.
    pub(super) fn read(&mut self, tag: &[u8]) -> Reading {
        while let Some(&byte) = tag.get(self.at) {
            if let Expects::RestOfValue { name, quote, start } = self.expects {
                let rest = tag.get(self.at..).unwrap_or_default();
                let Some(length) = memchr(quote, rest) else {
                    self.at = tag.len();
                    return Reading::NeedsMore;
                };
                if self.attributes.len() == MAX_TAG_ATTRIBUTES {
                    return Reading::TooManyAttributes;
                }
                let end = self.at + length;
                self.attributes.push((name, Span { start, end }));
                self.expects = Expects::SpaceOrEnd;
                self.at = end + 1;
                continue;
            }
            match self.expects_after(byte, tag) {
                Ok(Some(expects)) => self.expects = expects,
                Ok(None) => {
                    self.at += 1;
                    return Reading::Complete;
                }
                Err(reason) => return Reading::Malformed(reason),
            }
            self.at += 1;
        }
        Reading::NeedsMore
    }

    /// What is expected after `byte`, outside of values; `None` at the end of the opening tag.
    fn expects_after(&self, byte: u8, tag: &[u8]) -> Result<Option<Expects>, NearMissReason> {
        let at = self.at;
        let space = byte.is_ascii_whitespace();
        let no_value = |name: Span| NearMissReason::NoValue { attribute: clip(&decode(name.of(tag))) };
        let next = match self.expects {
            Expects::AttributeOrEnd | Expects::SpaceOrEnd if byte == b'>' => return Ok(None),
            Expects::AttributeOrEnd | Expects::SpaceOrEnd if byte == b'/' => {
                return Err(NearMissReason::SelfClosing(self.name));
            }
            Expects::AttributeOrEnd | Expects::SpaceOrEnd if space => Expects::AttributeOrEnd,
            Expects::AttributeOrEnd if byte.is_ascii_alphabetic() || byte == b'_' => {
                Expects::RestOfName { start: at }
            }
            Expects::AttributeOrEnd => return Err(NearMissReason::NotAnAttribute),
            Expects::SpaceOrEnd => return Err(NearMissReason::NoSpace),
            Expects::RestOfName { .. } if byte.is_ascii_alphanumeric() || b"_.-".contains(&byte) => {
                self.expects
            }
            Expects::RestOfName { start } if space => Expects::Equals { name: Span { start, end: at } },
            Expects::RestOfName { start } if byte == b'=' => Expects::Quote { name: Span { start, end: at } },
            Expects::RestOfName { start } if byte == b'>' => return Err(no_value(Span { start, end: at })),
            Expects::RestOfName { .. } => return Err(NearMissReason::NotAnAttribute),
            Expects::Equals { name } if byte == b'=' => Expects::Quote { name },
            Expects::Quote { name } if byte == b'"' || byte == b'\'' => {
                Expects::RestOfValue { name, quote: byte, start: at + 1 }
            }
            Expects::Equals { .. } | Expects::Quote { .. } if space => self.expects,
            Expects::Equals { name } => return Err(no_value(name)),
            Expects::Quote { .. } => return Err(NearMissReason::UnquotedValue),
            Expects::RestOfValue { .. } => self.expects,
        };
        Ok(Some(next))
    }
}

/// The name of an attribute at the end of a text, with white space or a quote before it.
fn name_before(text: &[u8]) -> Option<&[u8]> {
    let text = text.trim_ascii_end();
    let is_part = |byte: &u8| byte.is_ascii_alphanumeric() || b"_.-".contains(byte);
    let start = text.iter().rposition(|byte| !is_part(byte))?;
    let name = text.get(start + 1..).unwrap_or_default();
    let begins_well = name.first().is_some_and(|byte| byte.is_ascii_alphabetic() || *byte == b'_');
    let stands_alone =
        text.get(start).is_some_and(|byte| byte.is_ascii_whitespace() || b"'\"".contains(byte));
    (begins_well && stands_alone).then_some(name)
}
