//! Texts too long for the journal, found again by their hash.

use std::fmt::Debug;
use std::sync::Arc;

use raymond_core::payload::Payload;
use sha2::{Digest, Sha256};

use super::error::StoreError;

/// The longest payload; more than all tags of one step may hold together.
pub const MAX_PAYLOAD_BYTES: u64 = 64 * 1024 * 1024;

/// Finds texts by their hash.
pub trait PayloadSource: Debug + Send + Sync {
    /// The text that was stored under a hash, checked to be that text.
    fn get(&self, hash: &str) -> Result<String, StoreError>;
}

/// The payloads of one run, to be read.
#[derive(Clone, Debug)]
pub struct Payloads(Arc<dyn PayloadSource>);

impl Payloads {
    pub fn new(source: impl PayloadSource + 'static) -> Self {
        Self(Arc::new(source))
    }

    /// Those of a run that has stored none.
    #[cfg(test)]
    pub(crate) fn none() -> Self {
        #[derive(Debug)]
        struct None;
        impl PayloadSource for None {
            fn get(&self, _: &str) -> Result<String, StoreError> {
                Err(StoreError::NotAHash)
            }
        }
        Self::new(None)
    }

    /// The text that was stored under a hash, checked to be that text.
    pub fn get(&self, hash: &str) -> Result<String, StoreError> {
        self.0.get(hash)
    }

    /// A payload's text, whether it is in the event or stored.
    pub fn text_of(&self, payload: &Payload) -> Result<String, StoreError> {
        match payload {
            Payload::Inline(text) => Ok(text.clone()),
            Payload::Stored { payload: hash, .. } => self.get(hash),
        }
    }
}

/// What an event says to find a text again: its SHA-256 and its length.
pub fn reference_to(text: &str) -> Result<Payload, StoreError> {
    let bytes = text.len() as u64;
    if bytes > MAX_PAYLOAD_BYTES {
        return Err(StoreError::PayloadTooLong { bytes });
    }
    Ok(Payload::Stored { payload: hash_of(text.as_bytes()), bytes })
}

/// SHA-256 in lower-case hexadecimal digits.
pub(crate) fn hash_of(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}

/// A name from a journal is looked up only if it is a hash; it might be anything else, a path for example.
pub(super) fn check_hash(hash: &str) -> Result<(), StoreError> {
    let is_hash = hash.len() == 64 && hash.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
    if is_hash { Ok(()) } else { Err(StoreError::NotAHash) }
}
