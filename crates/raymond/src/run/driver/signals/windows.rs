//! What asks Raymond to stop on Windows.

use std::io;

use tokio::signal::windows::{
    CtrlBreak, CtrlC, CtrlClose, CtrlLogoff, CtrlShutdown, ctrl_break, ctrl_c, ctrl_close, ctrl_logoff,
    ctrl_shutdown,
};

use crate::error::Exit;
use crate::run::stop::Stop;

pub(in crate::run::driver) struct Signals {
    interrupt: CtrlC,
    terminate: CtrlBreak,
    /// The window was closed, or the person or the machine leaves: the system allows a few seconds.
    close: CtrlClose,
    logoff: CtrlLogoff,
    shutdown: CtrlShutdown,
}

impl Signals {
    pub(in crate::run::driver) fn listen() -> io::Result<Self> {
        Ok(Self {
            interrupt: ctrl_c()?,
            terminate: ctrl_break()?,
            close: ctrl_close()?,
            logoff: ctrl_logoff()?,
            shutdown: ctrl_shutdown()?,
        })
    }

    pub(in crate::run::driver) async fn next(&mut self) -> (Stop, Exit) {
        tokio::select! {
            _ = self.interrupt.recv() => (Stop::Gently, Exit::Interrupted),
            _ = self.terminate.recv() => (Stop::Now, Exit::Terminated),
            _ = self.close.recv() => (Stop::Now, Exit::Terminated),
            _ = self.logoff.recv() => (Stop::Now, Exit::Terminated),
            _ = self.shutdown.recv() => (Stop::Now, Exit::Terminated),
        }
    }
}
