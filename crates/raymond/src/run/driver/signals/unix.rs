//! Signals that ask Raymond to stop on Unix.

use std::io;

use tokio::signal::unix::{Signal, SignalKind, signal};

use super::Asked;
use crate::error::ExitKind;
use crate::process::{is_hangup_ignored, is_suspension_ignored};
use crate::run::stop::Stop;

pub(in crate::run::driver) struct Signals {
    interrupt: Signal,
    terminate: Signal,
    /// Absent under `nohup`.
    hangup: Option<Signal>,
    /// Ctrl-Z. Absent if it was ignored when Raymond was started.
    suspend: Option<Signal>,
}

impl Signals {
    pub(in crate::run::driver) fn listen() -> io::Result<Self> {
        let suspension = SignalKind::from_raw(rustix::process::Signal::TSTP.as_raw());
        Ok(Self {
            interrupt: signal(SignalKind::interrupt())?,
            terminate: signal(SignalKind::terminate())?,
            hangup: if is_hangup_ignored() { None } else { Some(signal(SignalKind::hangup())?) },
            suspend: if is_suspension_ignored() { None } else { Some(signal(suspension)?) },
        })
    }

    pub(in crate::run::driver) async fn next(&mut self) -> Asked {
        tokio::select! {
            _ = self.interrupt.recv() => Asked::ToStop(Stop::Gently, ExitKind::Interrupted),
            _ = self.terminate.recv() => Asked::ToStop(Stop::Now, ExitKind::Terminated),
            // The terminal is gone, so there can be no second Ctrl-C.
            () = received(&mut self.hangup) => Asked::ToStop(Stop::Now, ExitKind::Terminated),
            () = received(&mut self.suspend) => Asked::ToSuspend,
        }
    }
}

/// Waits for a signal that is perhaps not listened for.
async fn received(signal: &mut Option<Signal>) {
    match signal {
        Some(signal) => drop(signal.recv().await),
        None => std::future::pending().await,
    }
}
