//! Text passed from state to state.

use serde::{Deserialize, Serialize};

use crate::limits::MAX_INLINE_PAYLOAD_BYTES;

/// A text, or a reference to the file with it. The core passes payloads on and never reads them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(untagged)]
pub enum Payload {
    Inline(String),
    /// A file next to the journal, named by the hash of its content.
    Stored {
        payload: String,
        bytes: u64,
    },
}

impl Payload {
    /// The text, if it is too long for an event and must be moved into a file first.
    pub fn oversized(&self) -> Option<&str> {
        self.text().filter(|text| text.len() > MAX_INLINE_PAYLOAD_BYTES)
    }

    /// Its text, if that is here.
    pub fn text(&self) -> Option<&str> {
        match self {
            Payload::Inline(text) => Some(text),
            Payload::Stored { .. } => None,
        }
    }

    /// How long its text is.
    pub fn bytes(&self) -> u64 {
        match self {
            Payload::Inline(text) => text.len() as u64,
            Payload::Stored { bytes, .. } => *bytes,
        }
    }
}

/// An empty text.
impl Default for Payload {
    fn default() -> Self {
        Payload::Inline(String::new())
    }
}

impl From<&str> for Payload {
    fn from(text: &str) -> Self {
        Payload::Inline(text.to_owned())
    }
}

impl From<String> for Payload {
    fn from(text: String) -> Self {
        Payload::Inline(text)
    }
}
