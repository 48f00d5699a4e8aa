//! What a process of this program is told by the one that starts it, where that must not stand on its command line.
//!
//! Every user of a machine can read the arguments of all processes, and their length is limited. So `serve` starts
//! `raymond --handed-over`, and puts the words of the command line into a file without a name, which only its owner can
//! read and which is the new process' stdin. They are parsed like any others: there is no second way to start a run.

use std::io::{self, Read};
use std::sync::OnceLock;

use serde::{Deserialize, Serialize};

use crate::error::UserError;

/// The only argument of a process that reads the others from its stdin.
pub const ARGUMENT: &str = "--handed-over";

/// How long it may be. The body of a request, from which most of it comes, is shorter even if all of it is escaped.
const MOST_BYTES: u64 = 64 * 1024 * 1024;

/// Why a process did not begin what it was told, as its starter has to know it: the exit code instead of the one that people
/// get.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum NotBegun {
    /// A word of the command line is wrong.
    WrongWord = 64,
    /// Another process drives the run.
    Held = 75,
}

impl From<NotBegun> for std::process::ExitCode {
    fn from(why: NotBegun) -> Self {
        Self::from(why as u8)
    }
}

/// A command line with what belongs to it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Handover {
    /// The words behind the name of the program.
    pub words: Vec<String>,
    /// The input of a new run's first state.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub input: Option<String>,
    /// The nonce of a new run, by which its starter knows it from another one of the same id.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nonce: Option<String>,
}

/// What this process was handed, as it came.
static TEXT: OnceLock<Vec<u8>> = OnceLock::new();

impl Handover {
    /// What this process was handed; nothing if it has an ordinary command line.
    pub fn take() -> Result<Option<Self>, UserError> {
        let mut arguments = std::env::args_os().skip(1);
        if arguments.next().is_none_or(|first| first != ARGUMENT) || arguments.next().is_some() {
            return Ok(None);
        }
        let mut text = Vec::new();
        let read = io::stdin().lock().take(MOST_BYTES).read_to_end(&mut text);
        read.map_err(|error| UserError::usage(format!("cannot read what is handed over: {error}")))?;
        let handed = serde_json::from_slice(&text)
            .map_err(|error| UserError::usage(format!("what is handed over on stdin is wrong: {error}")))?;
        let _ = TEXT.set(text);
        Ok(Some(handed))
    }

    pub fn to_json(&self) -> io::Result<Vec<u8>> {
        serde_json::to_vec(self).map_err(io::Error::other)
    }
}

/// What this process was handed, for another program that goes on in its place. That program reads it from the same stdin,
/// which is set back to its start where that is possible.
pub fn hand_on() -> Option<&'static [u8]> {
    let text = TEXT.get()?;
    #[cfg(unix)]
    let _ = rustix::fs::seek(io::stdin(), rustix::fs::SeekFrom::Start(0));
    Some(text)
}
