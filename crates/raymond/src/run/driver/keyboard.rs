//! Reads the answer that a person types. The wait for it can be cancelled.

#[cfg(unix)]
mod editor;
#[cfg(unix)]
mod unix;
#[cfg(windows)]
mod windows;

#[cfg(unix)]
pub(super) use unix::{CallOff, CalledOff, Keyboard, call_off};
#[cfg(windows)]
pub(super) use windows::{CallOff, CalledOff, Keyboard, call_off};

pub(super) enum Line {
    Text(String),
    /// The wait was cancelled: the question was answered in another way.
    CalledOff,
    /// The input has ended.
    End,
}
