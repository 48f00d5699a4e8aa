//! Signals that ask Raymond to stop.

use std::io;

use tokio::signal::unix::{Signal, SignalKind, signal};

use super::Stop;
use crate::error::Exit;

pub(super) struct Signals {
    interrupt: Signal,
    terminate: Signal,
    hangup: Signal,
}

impl Signals {
    pub(super) fn listen() -> io::Result<Self> {
        Ok(Self {
            interrupt: signal(SignalKind::interrupt())?,
            terminate: signal(SignalKind::terminate())?,
            hangup: signal(SignalKind::hangup())?,
        })
    }

    pub(super) async fn next(&mut self) -> (Stop, Exit) {
        tokio::select! {
            _ = self.interrupt.recv() => (Stop::Gently, Exit::Interrupted),
            _ = self.terminate.recv() => (Stop::Now, Exit::Terminated),
            // A terminal that went away cannot be asked twice.
            _ = self.hangup.recv() => (Stop::Now, Exit::Terminated),
        }
    }
}
