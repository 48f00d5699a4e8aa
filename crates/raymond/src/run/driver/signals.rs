//! Signals that ask Raymond to stop.

#[cfg(unix)]
mod unix;
#[cfg(windows)]
mod windows;

#[cfg(unix)]
pub(super) use unix::Signals;
#[cfg(windows)]
pub(super) use windows::Signals;
