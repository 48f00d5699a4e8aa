//! Signals that ask Raymond to stop on Unix.

use std::io;

use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::error::Exit;
use crate::process::is_hangup_ignored;
use crate::run::stop::Stop;

pub(in crate::run::driver) struct Signals {
    interrupt: Signal,
    terminate: Signal,
    /// Absent under `nohup`.
    hangup: Option<Signal>,
}

impl Signals {
    pub(in crate::run::driver) fn listen() -> io::Result<Self> {
        Ok(Self {
            interrupt: signal(SignalKind::interrupt())?,
            terminate: signal(SignalKind::terminate())?,
            hangup: if is_hangup_ignored() { None } else { Some(signal(SignalKind::hangup())?) },
        })
    }

    pub(in crate::run::driver) async fn next(&mut self) -> (Stop, Exit) {
        let hangup = async {
            match &mut self.hangup {
                Some(hangup) => hangup.recv().await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            _ = self.interrupt.recv() => (Stop::Gently, Exit::Interrupted),
            _ = self.terminate.recv() => (Stop::Now, Exit::Terminated),
            // A terminal that went away cannot be asked twice.
            _ = hangup => (Stop::Now, Exit::Terminated),
        }
    }
}
