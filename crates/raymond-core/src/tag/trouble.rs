//! Text that looks like a tag but is not one, and errors that stop the reader.

use std::fmt;

use super::TagName;

/// Text that looks like a tag but is not one, kept to explain why no tag was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NearMiss {
    /// Its beginning, on one line and at most 80 characters.
    pub text: String,
    pub why: NearMissReason,
}

impl fmt::Display for NearMiss {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{}` looks like a tag, but {}", self.text, self.why)
    }
}

/// Why a text that looks like a tag is not one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NearMissReason {
    WrongCase(TagName),
    UnquotedValue,
    NoValue,
    NoSpace,
    SelfClosing(TagName),
    NotAnAttribute,
    NoEnd,
    NeverClosed(TagName),
}

impl fmt::Display for NearMissReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::WrongCase(name) => write!(f, "tag names are lower case: `<{name}>`"),
            Self::UnquotedValue => f.write_str("attribute values need quotes"),
            Self::NoValue => f.write_str("every attribute needs a value: `name=\"value\"`"),
            Self::NoSpace => f.write_str(
                "attributes need a space between them (a quote inside a value is written `&quot;` or `&apos;`)",
            ),
            Self::SelfClosing(name) => {
                write!(f, "a tag needs a closing tag of its own: `<{name}>…</{name}>`")
            }
            Self::NotAnAttribute => f.write_str("attributes are written `name=\"value\"`"),
            Self::NoEnd => f.write_str("its opening tag has no end"),
            Self::NeverClosed(name) => write!(f, "its closing tag `</{name}>` is missing"),
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
