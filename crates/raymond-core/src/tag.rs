//! Text → tags, incrementally.
//!
//! [`TagReader`] is fed the bytes a program prints, in whatever pieces they arrive, and hands out each tag as soon as
//! it is complete. Text between tags is only skipped over, never copied; what is held back is at most one tag that may
//! still become complete, so a program may print gigabytes. The work is linear in the bytes fed: a search goes on
//! where it stopped when more bytes arrive, and no byte is read more than a few times. What comes out depends on the
//! bytes alone, never on how they were cut into pieces.
//!
//! [`TagCollector`] sits on top and keeps the transitions of one step, within the bounds of a step. What each tag is and
//! does stands in the table of [`TagName::facts`].

mod collector;
mod located;
mod opener;
mod reader;
mod schema;
mod table;
#[cfg(test)]
mod tests;
mod trouble;

use std::fmt;

pub use collector::{Collected, TagCollector};
pub use located::{Found, Located, Missed, locate};
pub use reader::TagReader;
pub use schema::schema_of;
pub use table::{
    Attribute, AttributeFacts, Content, Need, SessionEffect, Spelling, StackEffect, TagFacts, TagName,
    Together, Value, Waits,
};
pub use trouble::{NearMiss, NearMissReason, TagError};

/// One complete tag as it stood in the text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tag {
    pub name: TagName,
    /// In the order written, values decoded; a name written twice is here twice.
    pub attributes: Vec<(String, String)>,
    /// What stands between the opening and the closing tag, untouched.
    pub content: String,
}

impl Tag {
    /// The tag as it would be written, clipped so that it fits into a message.
    #[must_use]
    pub fn brief(&self) -> String {
        // Every part is clipped before it is put together, so that a tag of 8 MiB is not copied for a message.
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

/// What an attribute's value may be written as, with what it stands for.
const ENTITIES: [(&str, char); 5] =
    [("&lt;", '<'), ("&gt;", '>'), ("&amp;", '&'), ("&quot;", '"'), ("&apos;", '\'')];

/// Writes a value so that it can stand between quotes of either kind.
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

/// Bytes to text: what is no UTF-8, and NUL, becomes U+FFFD.
fn decode(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(bytes);
    if text.contains('\0') { text.replace('\0', "\u{fffd}") } else { text.into_owned() }
}

/// How much of a tag or a value a message quotes.
const MAX_BRIEF_CHARS: usize = 80;

/// Shortens a text for a message and puts it on one line.
pub(crate) fn clip(text: &str) -> String {
    let on_one_line = |letter: char| if letter.is_control() { ' ' } else { letter };
    if text.chars().nth(MAX_BRIEF_CHARS).is_none() {
        return text.chars().map(on_one_line).collect();
    }
    text.chars().take(MAX_BRIEF_CHARS - 1).map(on_one_line).chain(['…']).collect()
}
