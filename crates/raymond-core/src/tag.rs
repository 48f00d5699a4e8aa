//! Reads tags from text, incrementally.
//!
//! [`TagReader`] is fed the bytes a program prints, in pieces of any size, and returns each tag as soon as it is
//! complete. Text between tags is skipped, never copied; it buffers at most one tag that may still become complete, so
//! a program may print gigabytes. The work is linear in the bytes fed: a search continues where it stopped when more
//! bytes arrive, and no byte is read more than a few times. The tags depend only on the bytes, not on how they were cut
//! into pieces.
//!
//! [`TagCollector`] uses it and keeps the transitions of one step, within the limits of a step. The meaning of each tag
//! is in the table of [`TagName::facts`].

mod closing;
mod collector;
mod located;
#[cfg(test)]
mod near_tests;
mod opener;
mod reader;
mod schema;
mod table;
#[cfg(test)]
mod tests;
mod trouble;

use std::fmt;

pub(crate) use closing::holds_closing;
pub use collector::{Collected, TagCollector};
pub use located::{Found, Located, locate};
pub use reader::TagReader;
pub use schema::schema_of;
pub use table::{
    Applies, Attribute, AttributeFacts, Content, Need, SessionEffect, Spelling, StackEffect, TagFacts,
    TagName, Together, Value, Waits,
};
pub use trouble::{Meant, NearMiss, NearMissReason, NearMisses, TagError};

/// One complete tag as read from the text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tag {
    pub name: TagName,
    /// In the order written, values decoded; a name written twice is here twice.
    pub attributes: Vec<(String, String)>,
    /// The text between the opening and the closing tag, unchanged.
    pub content: String,
}

impl Tag {
    /// The tag as it would be written, clipped so that it fits into a message.
    #[must_use]
    pub fn brief(&self) -> String {
        // Each part is clipped first, so that a tag of 8 MiB is not copied for a message.
        let mut text = String::from(self.name.opening());
        for (name, value) in &self.attributes {
            if text.len() > 4 * MAX_BRIEF_CHARS {
                break;
            }
            let value = escape_attribute(&clip(value));
            text.push_str(&format!(" {}=\"{value}\"", clip(name)));
        }
        text.push_str(&format!(">{}{}", clip(&self.content), self.name.closing()));
        clip(&text)
    }

    fn bytes(&self) -> usize {
        let attributes = self.attributes.iter().map(|(name, value)| name.len() + value.len());
        attributes.sum::<usize>() + self.content.len()
    }
}

/// The tag as it would be written, in full; reading it gives the same tag again unless its content holds its own
/// closing tag.
impl fmt::Display for Tag {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name.opening())?;
        for (name, value) in &self.attributes {
            write!(f, " {name}=\"{}\"", escape_attribute(value))?;
        }
        write!(f, ">{}{}", self.content, self.name.closing())
    }
}

/// The entities in attribute values and the characters they stand for.
const ENTITIES: [(&str, char); 5] =
    [("&lt;", '<'), ("&gt;", '>'), ("&amp;", '&'), ("&quot;", '"'), ("&apos;", '\'')];

/// Escapes a value so that it can be put between quotes of either kind.
#[must_use]
pub fn escape_attribute(value: &str) -> String {
    let mut escaped = String::with_capacity(value.len());
    for letter in value.chars() {
        match ENTITIES.iter().find(|(_, meant)| *meant == letter) {
            Some((entity, _)) => escaped.push_str(entity),
            None => escaped.push(letter),
        }
    }
    escaped
}

/// Decodes entities in one pass, so that `&amp;lt;` becomes `&lt;`; anything else after `&` stays as written.
fn unescape_attribute(value: &str) -> String {
    let mut decoded = String::with_capacity(value.len());
    let mut rest = value;
    while let Some((before, after_ampersand)) = rest.split_once('&') {
        decoded.push_str(before);
        let entity = ENTITIES.iter().find_map(|(entity, meant)| {
            let after = after_ampersand.strip_prefix(entity.strip_prefix('&')?)?;
            Some((*meant, after))
        });
        let (letter, after) = entity.unwrap_or(('&', after_ampersand));
        decoded.push(letter);
        rest = after;
    }
    decoded.push_str(rest);
    decoded
}

/// Bytes to text: invalid UTF-8 and NUL become U+FFFD.
fn decode(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(bytes);
    if text.contains('\0') { text.replace('\0', "\u{fffd}") } else { text.into_owned() }
}

/// How many characters of a tag or a value a message quotes.
const MAX_BRIEF_CHARS: usize = 80;

/// Shortens a text for a message and puts it on one line.
pub(crate) fn clip(text: &str) -> String {
    let on_one_line = |letter: char| if letter.is_control() { ' ' } else { letter };
    if text.chars().nth(MAX_BRIEF_CHARS).is_none() {
        return text.chars().map(on_one_line).collect();
    }
    text.chars().take(MAX_BRIEF_CHARS - 1).map(on_one_line).chain(['…']).collect()
}
