//! Text handed from state to state.

use serde::{Deserialize, Serialize};

use crate::limits::MAX_INLINE_PAYLOAD_BYTES;

/// A text, or where it lies. The core hands payloads on and never looks inside.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(untagged)]
pub enum Payload {
    Inline(String),
    /// A file beside the journal, named by what it holds.
    Stored {
        payload: String,
        bytes: u64,
    },
}

impl Payload {
    /// The text, if it must move into a file before an event may name it.
    pub fn oversized(&self) -> Option<&str> {
        match self {
            Payload::Inline(text) if text.len() > MAX_INLINE_PAYLOAD_BYTES => Some(text),
            _ => None,
        }
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
