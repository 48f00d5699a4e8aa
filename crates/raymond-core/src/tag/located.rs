//! The tags of a whole text with their positions, for tools that point at them.

use std::ops::Range;

use super::reader::{Item, Scanner};
use super::{NearMiss, Tag};

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

/// All tags of a text, and all text that only looks like tags, in order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Found {
    pub tags: Vec<Located>,
    pub missed: Vec<NearMiss>,
}

/// Finds all tags of a text; the search ends at a tag that is too long for any step.
#[must_use]
pub fn locate(text: &str) -> Found {
    let mut found = Found::default();
    let mut scanner = Scanner::default();
    let mut sink = |item| match item {
        Item::Tag(located) => found.tags.push(located),
        Item::Missed(missed) => found.missed.push(missed),
    };
    if scanner.feed(text.as_bytes(), &mut sink).is_ok() {
        // Nothing is left to do about a tag that is too long.
        let _ = scanner.finish(&mut sink);
    }
    found.missed.sort_by_key(|missed| missed.range.start);
    found
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
        assert_eq!(missed, ["<goto>", "<Goto>"]);
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
