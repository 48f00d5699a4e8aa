//! Signals that ask Raymond to stop or to pause.

#[cfg(unix)]
mod unix;
#[cfg(windows)]
mod windows;

#[cfg(unix)]
pub(super) use unix::Signals;
#[cfg(windows)]
pub(super) use windows::Signals;

use crate::error::ExitKind;
use crate::run::stop::Stop;

/// What a signal asks for.
#[derive(Clone, Copy, Debug)]
pub(super) enum Asked {
    ToStop(Stop, ExitKind),
    /// Ctrl-Z: this process is to be suspended.
    #[cfg_attr(windows, expect(dead_code, reason = "Windows cannot suspend a process from the terminal"))]
    ToSuspend,
}
