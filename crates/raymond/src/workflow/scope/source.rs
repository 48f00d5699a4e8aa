//! The current text and settings of a state.

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
    /// The state's own file on disk, if it has one; otherwise a private copy is written and run.
    pub file: Option<PathBuf>,
    pub given: Given,
}

/// Where a state's settings are.
#[derive(Clone, Debug)]
pub enum Given {
    /// In its text: a block at its top, or comments.
    InText,
    /// In its text, which is a part of a larger file.
    InPart { whole: Rc<str>, place: TextPlace },
    /// Beside its text, as in the one-file form.
    Beside {
        plan: Beside,
        /// The settings as text; a change in them is a change of the state.
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
    /// Turns a position in the state's text into a position in the file.
    pub fn in_file(&self, text: &str, position: Position) -> Position {
        match &self.given {
            Given::InPart { whole, place } => place.position_of(whole, text, position),
            Given::InText | Given::Beside { .. } => position,
        }
    }

    /// A hash of text and settings, to notice changes.
    pub fn hash(&self) -> String {
        let mut digest = Sha256::new();
        digest.update(&self.bytes);
        if let Given::Beside { text, .. } = &self.given {
            digest.update(text.as_bytes());
        }
        hexadecimal(&digest.finalize())
    }
}

/// The first digits of a digest, in hexadecimal.
pub fn hexadecimal(digest: &[u8]) -> String {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let digit = |half: u8| char::from(DIGITS[usize::from(half)]);
    let halves = digest.iter().flat_map(|byte| [byte >> 4, byte & 15]);
    halves.take(HASH_CHARS).map(digit).collect()
}
