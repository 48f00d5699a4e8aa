//! The tags of a whole text with their positions, for tools that point at them.
//!
//! It uses the same parts as [`super::TagReader`] to recognize a tag; a test checks that both find the same tags.

use std::ops::Range;

use memchr::{memchr, memmem};

use super::opener::{Opener, Reading, Span};
use super::reader::{Beginning, beginning, complete};
use super::{NearMissReason, Tag};
use crate::limits::MAX_TAG_BYTES;

/// A tag and its positions in the text, in bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Located {
    pub tag: Tag,
    /// From the opening to the end of the closing tag.
    pub range: Range<usize>,
    /// The content between the two.
    pub content: Range<usize>,
    /// The name and the value of each attribute, the value without its quotes.
    pub attributes: Vec<(Range<usize>, Range<usize>)>,
}

/// Text that looks like a tag but is not one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Missed {
    pub why: NearMissReason,
    pub range: Range<usize>,
}

/// All tags of a text, and all text that only looks like tags, in order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Found {
    pub tags: Vec<Located>,
    pub missed: Vec<Missed>,
}

/// Finds all tags of a text; the search ends at a tag that is too long for any step.
#[must_use]
pub fn locate(text: &str) -> Found {
    let bytes = text.as_bytes();
    let mut locator = Locator::default();
    let mut at = 0;
    while let Some(skipped) = bytes.get(at..).and_then(|rest| memchr(b'<', rest)) {
        at += skipped;
        match locator.advance(bytes.get(at..).unwrap_or_default(), at) {
            Some(length) => at += length,
            None => break,
        }
    }
    locator.found
}

#[derive(Default)]
struct Locator {
    found: Found,
    /// The names (as bits) whose closing tag does not occur in the rest of the text.
    unclosable: u16,
}

impl Locator {
    /// Handles the text at the `<` of `rest` and returns its length, or `None` if the search ends here.
    fn advance(&mut self, rest: &[u8], offset: usize) -> Option<usize> {
        match beginning(rest) {
            Beginning::Tag(name) => self.read_tag(rest, offset, Opener::new(name)),
            Beginning::WrongCase(name) => {
                let length = name.opening().len();
                self.miss(NearMissReason::WrongCase(name), offset..offset + length);
                Some(length)
            }
            Beginning::NeedsMore | Beginning::Text => Some(1),
        }
    }

    fn read_tag(&mut self, rest: &[u8], offset: usize, mut opener: Opener) -> Option<usize> {
        let name = opener.name;
        let why = match opener.read(rest) {
            Reading::Complete if self.unclosable & name.bit() != 0 => {
                self.miss(NearMissReason::NeverClosed(name), offset..offset + opener.at);
                return Some(opener.at);
            }
            Reading::Complete => return self.read_content(rest, offset, &opener),
            Reading::NeedsMore => NearMissReason::NoEnd,
            Reading::Malformed(why) => why,
            Reading::TooManyAttributes => return None,
        };
        self.miss(why, offset..offset + opener.at.min(rest.len()));
        Some(name.opening().len())
    }

    fn read_content(&mut self, rest: &[u8], offset: usize, opener: &Opener) -> Option<usize> {
        let start = opener.at;
        let closing = opener.name.closing().as_bytes();
        let Some(length) = rest.get(start..).and_then(|content| memmem::find(content, closing)) else {
            self.unclosable |= opener.name.bit();
            self.miss(NearMissReason::NeverClosed(opener.name), offset..offset + start);
            return Some(start);
        };
        if length > MAX_TAG_BYTES {
            return None;
        }
        let content = Span { start, end: start + length };
        let end = content.end + closing.len();
        let shifted = |span: &Span| offset + span.start..offset + span.end;
        self.found.tags.push(Located {
            tag: complete(rest, opener, content).ok()?,
            range: offset..offset + end,
            content: shifted(&content),
            attributes: opener
                .attributes
                .iter()
                .map(|(name, value)| (shifted(name), shifted(value)))
                .collect(),
        });
        Some(end)
    }

    fn miss(&mut self, why: NearMissReason, range: Range<usize>) {
        self.found.missed.push(Missed { why, range });
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::tag::TagReader;

    #[test]
    fn positions_are_those_of_the_text() {
        let text = "ä <call return=\"BACK\"> PLAN </call> and <goto> alone, <Goto>X</Goto>";
        let found = locate(text);
        let [call] = found.tags.as_slice() else { panic!("not one tag: {found:?}") };
        assert_eq!(&text[call.range.clone()], "<call return=\"BACK\"> PLAN </call>");
        assert_eq!(&text[call.content.clone()], " PLAN ");
        let (name, value) = &call.attributes[0];
        assert_eq!((&text[name.clone()], &text[value.clone()]), ("return", "BACK"));
        let missed: Vec<&str> = found.missed.iter().map(|missed| &text[missed.range.clone()]).collect();
        assert_eq!(missed, ["<goto>", "<Goto"]);
    }

    fn read(text: &str) -> Vec<Tag> {
        let mut tags = Vec::new();
        let mut reader = TagReader::new();
        reader.feed(text.as_bytes(), &mut |tag| tags.push(tag)).unwrap();
        reader.finish(&mut |tag| tags.push(tag)).unwrap();
        tags
    }

    proptest! {
        #[test]
        fn the_reader_finds_the_same_tags(
            parts in prop::collection::vec(
                prop::sample::select(vec![
                    "<goto>", "</goto>", "<goto", ">", "A", " ", "<result>", "</result>", "<call return='R'>",
                    "</call>", "<Goto>", "<fork x=\"<goto>\"", "'", "\"", "/", "<print>", "</print>", "ü", "=", "<",
                ]),
                0..24,
            )
        ) {
            let text = parts.concat();
            let located: Vec<Tag> = locate(&text).tags.into_iter().map(|located| located.tag).collect();
            prop_assert_eq!(located, read(&text));
        }
    }
}
