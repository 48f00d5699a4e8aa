//! Collects the transition tags of one step, within the limits of a step.

use super::{NearMisses, Tag, TagError, TagReader, clip};
use crate::limits::{MAX_TAG_BYTES_PER_STEP, MAX_TAGS_PER_STEP};

/// The transition tags of one step's output.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Collected {
    /// In the order written, without `print`; only the first few if there are too many for a transition.
    pub tags: Vec<Tag>,
    /// How many there were.
    pub total: u64,
    /// The first `print` tags with attributes, their texts shortened: each attribute is worth a warning.
    pub prints: Vec<Tag>,
    /// Text that looks like a tag but is not one.
    pub near: NearMisses,
}

impl Collected {
    /// The result for an output with only this tag.
    #[must_use]
    pub fn single(tag: Tag) -> Self {
        Self { tags: vec![tag], total: 1, ..Self::default() }
    }
}

/// How many tags are kept to show in the message when they cannot be a transition together.
pub(super) const MAX_SURPLUS_TAGS: usize = 10;

/// How many `print` tags with attributes are kept, and how many of their attributes.
const MAX_ODD_PRINTS: usize = 3;

/// Collects the transition tags of one step, and passes on the text of `<print>` tags.
#[derive(Debug, Default)]
pub struct TagCollector {
    reader: TagReader,
    kept: Kept,
}

impl TagCollector {
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Takes the next bytes of the output; the text of every `<print>` that they complete goes to `on_print`.
    ///
    /// # Errors
    ///
    /// When a limit is exceeded; every later call then fails in the same way.
    pub fn feed(&mut self, bytes: &[u8], on_print: &mut dyn FnMut(String)) -> Result<(), TagError> {
        self.kept.check()?;
        let kept = &mut self.kept;
        self.reader.feed(bytes, &mut |tag| kept.sort(tag, on_print))?;
        self.kept.check()
    }

    /// Ends the output.
    ///
    /// # Errors
    ///
    /// When a limit is exceeded, now or earlier.
    pub fn finish(mut self, on_print: &mut dyn FnMut(String)) -> Result<Collected, TagError> {
        self.kept.check()?;
        let kept = &mut self.kept;
        let near = self.reader.finish(&mut |tag| kept.sort(tag, on_print))?;
        self.kept.check()?;
        Ok(Collected { tags: self.kept.tags, total: self.kept.total, prints: self.kept.prints, near })
    }
}

/// What a collector has kept so far.
#[derive(Debug, Default)]
struct Kept {
    tags: Vec<Tag>,
    bytes: usize,
    total: u64,
    prints: Vec<Tag>,
    /// How many tags are not forks; two of them never make a transition.
    singles: u64,
    failed: Option<TagError>,
}

impl Kept {
    fn check(&self) -> Result<(), TagError> {
        self.failed.clone().map_or(Ok(()), Err)
    }

    fn sort(&mut self, tag: Tag, on_print: &mut dyn FnMut(String)) {
        if !tag.name.is_transition() {
            if !tag.attributes.is_empty() && self.prints.len() < MAX_ODD_PRINTS {
                self.prints.push(shortened(&tag));
            }
            on_print(tag.content);
        } else if self.failed.is_none() {
            self.keep(tag);
        }
    }

    fn keep(&mut self, tag: Tag) {
        self.total += 1;
        self.singles += u64::from(!tag.name.is_fork());
        let bytes = self.bytes.saturating_add(tag.bytes());
        let is_too_much = bytes > MAX_TAG_BYTES_PER_STEP;
        let cannot_be_a_transition = self.singles > 1;
        if cannot_be_a_transition && (is_too_much || self.tags.len() >= MAX_SURPLUS_TAGS) {
            return;
        }
        if is_too_much {
            self.failed = Some(TagError::TooMuch { limit: MAX_TAG_BYTES_PER_STEP });
        } else if self.tags.len() == MAX_TAGS_PER_STEP {
            self.failed = Some(TagError::TooMany { limit: MAX_TAGS_PER_STEP });
        } else {
            self.bytes = bytes;
            self.tags.push(tag);
        }
    }
}

/// A tag as far as a message quotes it.
fn shortened(tag: &Tag) -> Tag {
    let attributes = tag.attributes.iter().take(MAX_ODD_PRINTS);
    Tag {
        name: tag.name,
        attributes: attributes.map(|(name, value)| (clip(name), clip(value))).collect(),
        content: clip(&tag.content),
    }
}
