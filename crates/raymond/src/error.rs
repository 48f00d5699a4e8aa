//! Errors as users see them: what is wrong, what to do next, and the exit code.

use std::fmt;

/// How Raymond itself ends: its exit code, by meaning.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum ExitKind {
    Completed = 0,
    Failed = 1,
    Usage = 2,
    Waiting = 3,
    OverBudget = 4,
    Limited = 5,
    Interrupted = 130,
    Terminated = 143,
}

impl From<ExitKind> for std::process::ExitCode {
    fn from(exit: ExitKind) -> Self {
        Self::from(exit as u8)
    }
}

/// A message for the user. The text is a lower-case fragment without a full stop.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UserError {
    pub exit: ExitKind,
    pub message: String,
    /// What to do next, one line each.
    pub hints: Vec<String>,
    /// Whether another process drives the run that it is about.
    pub is_held: bool,
}

impl UserError {
    /// Wrong usage, or something that cannot be loaded.
    pub fn usage(message: impl Into<String>) -> Self {
        Self { exit: ExitKind::Usage, message: message.into(), hints: Vec::new(), is_held: false }
    }

    /// Something that went wrong while running.
    pub fn failed(message: impl Into<String>) -> Self {
        Self { exit: ExitKind::Failed, message: message.into(), hints: Vec::new(), is_held: false }
    }

    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hints.push(hint.into());
        self
    }
}

impl fmt::Display for UserError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for UserError {}
