//! Text that looks like a tag but is not one, and errors that stop the reader.

use serde::{Deserialize, Serialize};
use std::fmt;
use std::ops::Range;

use super::TagName;

/// Text that looks like a tag but is not one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NearMiss {
    /// Its beginning, on one line and at most 80 characters.
    pub text: String,
    pub why: NearMissReason,
    pub meant: Meant,
    /// Its place in the text, in bytes, as far as it was read.
    pub range: Range<usize>,
    /// Its place for people; both count from 1, columns in characters.
    pub line: u64,
    pub column: u64,
}

/// What a text that looks like a tag was meant to be.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Meant {
    /// Text, as far as anyone can tell; it only helps to explain why no tag was found.
    Text,
    /// A tag; it must not be ignored.
    Tag,
    /// A tag, if this is the name of a state.
    TagIfState(String),
}

impl NearMiss {
    /// What is wrong and how to write it, for an output that must not be used.
    #[must_use]
    pub fn mistake(&self) -> String {
        let Self { line, column, .. } = self;
        format!(
            "line {line}, column {column} of the output: {self}; correct it, or write `&lt;` for its `<` if it is only \
             text"
        )
    }
}

impl fmt::Display for NearMiss {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{}` looks like a tag, but {}", self.text, self.why)
    }
}

/// How many tags in another case are kept for the look-up of their states.
const MAX_IF_STATE: usize = 100;

/// All that looks like a tag in an output, as far as it matters.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NearMisses {
    /// The first of all, to explain why no tag was found.
    pub first: Option<NearMiss>,
    /// The first that cannot be text.
    pub mistake: Option<NearMiss>,
    /// Those that cannot be text if their content is the name of a state; the first of each content.
    pub if_state: Vec<NearMiss>,
}

impl NearMisses {
    pub(super) fn note(&mut self, miss: NearMiss) {
        match &miss.meant {
            Meant::Text => {}
            Meant::Tag => keep_first(&mut self.mistake, &miss),
            Meant::TagIfState(_) => {
                let is_new = self.if_state.iter().all(|kept| kept.meant != miss.meant);
                if is_new && self.if_state.len() < MAX_IF_STATE {
                    self.if_state.push(miss.clone());
                }
            }
        }
        keep_first(&mut self.first, &miss);
    }
}

/// An opening tag is reported late if it depends on what follows.
fn keep_first(kept: &mut Option<NearMiss>, miss: &NearMiss) {
    if kept.as_ref().is_none_or(|kept| miss.range.start < kept.range.start) {
        *kept = Some(miss.clone());
    }
}

/// Why a text that looks like a tag is not one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum NearMissReason {
    WrongCase(TagName),
    UnquotedValue,
    NoValue { attribute: String },
    NoSpace,
    SelfClosing(TagName),
    NotAnAttribute,
    NoEnd,
    NeverClosed(TagName),
    NeverOpened(TagName),
}

impl fmt::Display for NearMissReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::WrongCase(name) => write!(f, "tag names are lower case: `<{name}>…</{name}>`"),
            Self::UnquotedValue => f.write_str("attribute values need quotes: `name=\"value\"`"),
            Self::NoValue { attribute } => {
                write!(f, "its attribute `{attribute}` has no value: `{attribute}=\"value\"`")
            }
            Self::NoSpace => f.write_str(
                "attributes need a space between them (a quote inside a value is written `&quot;` or `&apos;`)",
            ),
            Self::SelfClosing(name) => {
                write!(f, "a tag needs a closing tag of its own: `<{name}>…</{name}>`")
            }
            Self::NotAnAttribute => f.write_str(
                "attributes are written `name=\"value\"` (a quote inside a value is written `&quot;` or `&apos;`)",
            ),
            Self::NoEnd => f.write_str(
                "its opening tag has no end; a quote may be missing (one inside a value is written `&quot;` or \
                 `&apos;`)",
            ),
            Self::NeverClosed(name) => write!(f, "its closing tag `</{name}>` is missing"),
            Self::NeverOpened(name) => write!(f, "its opening tag `<{name}>` is missing"),
        }
    }
}

/// Why reading tags had to stop.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TagError {
    /// A tag's opening or content is longer than any tag may be.
    TooLong {
        name: TagName,
        limit: usize,
    },
    TooManyAttributes {
        name: TagName,
        limit: usize,
    },
    /// One step emitted too many transition tags.
    TooMany {
        limit: usize,
    },
    /// The transition tags of one step contain too much text in total.
    TooMuch {
        limit: usize,
    },
}

impl fmt::Display for TagError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooLong { name, limit } => {
                write!(f, "a `<{name}>` tag runs past {} without its end `</{name}>`", Size(*limit))
            }
            Self::TooManyAttributes { name, limit } => {
                write!(f, "a `<{name}>` tag has more than {limit} attributes")
            }
            Self::TooMany { limit } => {
                write!(f, "the output holds more than {limit} transition tags")
            }
            Self::TooMuch { limit } => {
                write!(f, "the transition tags of the output hold more than {} of text", Size(*limit))
            }
        }
    }
}

impl std::error::Error for TagError {}

/// A number of bytes, formatted for people.
struct Size(usize);

impl fmt::Display for Size {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const MIB: usize = 1024 * 1024;
        if self.0.is_multiple_of(MIB) {
            write!(f, "{} MiB", self.0 / MIB)
        } else {
            write!(f, "{} bytes", self.0)
        }
    }
}
