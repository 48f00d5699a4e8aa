//! Lines that a person types, waiting for which can be called off.

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
    /// Somebody answered elsewhere.
    CalledOff,
    /// The input has ended.
    End,
}
