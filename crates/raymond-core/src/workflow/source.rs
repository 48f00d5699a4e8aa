//! Errors and warnings in a state file, with their positions.

use std::fmt;

use super::wording::quoted;

/// A place in a state file, counted from 1; columns count characters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Position {
    pub line: u32,
    pub column: u32,
}

impl fmt::Display for Position {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "line {}, column {}", self.line, self.column)
    }
}

/// An error in a state file; it stops the run before a turn is paid for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SourceError {
    pub position: Position,
    pub message: String,
    /// The line of the file.
    pub source_line: String,
}

impl std::error::Error for SourceError {}

impl fmt::Display for SourceError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}: {}", self.position, self.message)?;
        if self.source_line.trim().is_empty() {
            return Ok(());
        }
        let line = quoted(self.source_line.trim());
        match self.message.ends_with('?') {
            true => write!(formatter, " (in {line})"),
            false => write!(formatter, ", in {line}"),
        }
    }
}

/// A probable mistake in a state file; it never stops a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SourceWarning {
    pub position: Position,
    pub message: String,
}

impl fmt::Display for SourceWarning {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}: {}", self.position, self.message)
    }
}

/// A number of lines or characters as stored in a position; no real file reaches the maximum.
pub(crate) fn saturated(count: usize) -> u32 {
    u32::try_from(count).unwrap_or(u32::MAX)
}
