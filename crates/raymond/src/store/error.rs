//! What can be wrong with a journal, in words that say what to do about it.

use std::error::Error;
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

use super::disk::excerpt;

/// How many characters of a damaged line a message quotes.
const EXCERPT_CHARS: usize = 80;

/// Why a journal cannot be created, read or written.
#[derive(Debug)]
pub enum JournalError {
    /// A run of this id exists.
    Exists { file: PathBuf },
    /// There is no such run.
    Missing { file: PathBuf },
    /// Raymond died before the first batch was whole.
    Empty { file: PathBuf },
    /// The file holds something that no interrupted write explains. Line 0 stands for the whole file.
    Damaged { file: PathBuf, line: u64, what: String, excerpt: String },
    /// An earlier write failed, so what the file holds is not known any more.
    Poisoned { file: PathBuf },
    /// The caller asked for something that a reader would call damage; nothing was written.
    Refused { file: PathBuf, what: String },
    /// The system refused a call.
    Io { file: PathBuf, action: &'static str, source: io::Error },
}

impl JournalError {
    pub(super) fn io(file: &Path, action: &'static str, source: io::Error) -> Self {
        Self::Io { file: file.to_owned(), action, source }
    }

    pub(super) fn damaged(file: &Path, line: u64, what: impl Into<String>, bytes: &[u8]) -> Self {
        Self::Damaged {
            file: file.to_owned(),
            line,
            what: what.into(),
            excerpt: excerpt(bytes, EXCERPT_CHARS),
        }
    }

    pub(super) fn refused(file: &Path, what: impl Into<String>) -> Self {
        Self::Refused { file: file.to_owned(), what: what.into() }
    }

    /// Whether the file that the error is about was not there.
    pub(super) fn is_not_found(&self) -> bool {
        matches!(self, Self::Io { source, .. } if source.kind() == io::ErrorKind::NotFound)
    }
}

impl fmt::Display for JournalError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Exists { file } => write!(out, "{} exists already", file.display()),
            Self::Missing { file } => write!(out, "there is no {}", file.display()),
            Self::Empty { file } => {
                write!(out, "{} holds no complete event; nothing ran: remove it", file.display())
            }
            Self::Damaged { file, line, what, excerpt } => {
                write!(out, "{}", file.display())?;
                if *line > 0 {
                    write!(out, " line {line}")?;
                }
                write!(out, ": {what}")?;
                if !excerpt.is_empty() {
                    write!(out, "; it begins: {excerpt}")?;
                }
                write!(out, "\nrestore the file from a copy, or move it away to give the run up")
            }
            Self::Poisoned { file } => {
                write!(out, "an earlier write to {} failed; the run has to be resumed", file.display())
            }
            Self::Refused { file, what } => write!(out, "not written to {}: {what}", file.display()),
            Self::Io { file, action, source } => {
                write!(out, "cannot {action} {}: {source}", file.display())
            }
        }
    }
}

impl Error for JournalError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::Io { source, .. } => Some(source),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn damage_names_the_place_and_the_way_out() {
        let error = JournalError::damaged(Path::new("s/a.jsonl"), 7, "this is not JSON", b"{\"a\x07");
        assert_eq!(
            error.to_string(),
            "s/a.jsonl line 7: this is not JSON; it begins: {\"a\\u{7}\n\
             restore the file from a copy, or move it away to give the run up"
        );
    }

    #[test]
    fn a_whole_file_has_no_line() {
        let error = JournalError::damaged(Path::new("a.jsonl"), 0, "the file is missing", b"");
        assert!(error.to_string().starts_with("a.jsonl: the file is missing\n"));
    }
}
