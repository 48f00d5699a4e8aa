//! Reads lines that a person types. The wait for a line can be cancelled.

#[cfg(unix)]
mod unix;
#[cfg(windows)]
mod windows;

#[cfg(unix)]
pub(super) use unix::{CallOff, CalledOff, call_off, read_line};
#[cfg(windows)]
pub(super) use windows::{CallOff, CalledOff, call_off, read_line};

pub(super) enum Line {
    Text(String),
    /// The wait was cancelled: the question was answered in another way.
    CalledOff,
    /// The input has ended.
    End,
}
