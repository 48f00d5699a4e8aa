//! A state as it is now.

use std::path::PathBuf;
use std::rc::Rc;

use raymond_core::frontmatter::Settings;
use raymond_core::header::Header;
use raymond_core::workflow::source::{Position, SourceWarning};
use sha2::{Digest, Sha256};

use super::TextPlace;

/// How many characters of a hash are kept: enough to notice a change.
const HASH_CHARS: usize = 16;

#[derive(Debug)]
pub struct Source {
    /// What to call it in messages.
    pub name: String,
    pub bytes: Vec<u8>,
    /// The file itself, where it lies on disk as it is; of anything else a private copy has to be run.
    pub file: Option<PathBuf>,
    pub given: Given,
}

/// Where a state's settings are.
#[derive(Clone, Debug)]
pub enum Given {
    /// In its text: a block at its top, or comments.
    InText,
    /// In its text, which itself stands in a larger file.
    InPart { whole: Rc<str>, place: TextPlace },
    /// Beside its text, as in the one-file form.
    Beside {
        plan: Beside,
        /// The settings as text, which belongs to what the state says.
        text: String,
        warnings: Vec<SourceWarning>,
    },
}

#[derive(Clone, Debug)]
pub enum Beside {
    Prompt(Box<Settings>),
    Script(Header),
}

impl Source {
    /// The place in the file of a place in the state's text.
    pub fn in_file(&self, text: &str, position: Position) -> Position {
        match &self.given {
            Given::InPart { whole, place } => place.position_of(whole, text, position),
            Given::InText | Given::Beside { .. } => position,
        }
    }

    /// By which a change is noticed.
    pub fn hash(&self) -> String {
        let mut digest = Sha256::new();
        digest.update(&self.bytes);
        if let Given::Beside { text, .. } = &self.given {
            digest.update(text.as_bytes());
        }
        hexadecimal(&digest.finalize())
    }
}

/// The start of a digest, as text.
pub fn hexadecimal(digest: &[u8]) -> String {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let digit = |half: u8| char::from(DIGITS[usize::from(half)]);
    let halves = digest.iter().flat_map(|byte| [byte >> 4, byte & 15]);
    halves.take(HASH_CHARS).map(digit).collect()
}
