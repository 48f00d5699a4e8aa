//! Console events that ask Raymond to stop on Windows.

use std::io;

use tokio::signal::windows::{
    CtrlBreak, CtrlC, CtrlClose, CtrlLogoff, CtrlShutdown, ctrl_break, ctrl_c, ctrl_close, ctrl_logoff,
    ctrl_shutdown,
};

use super::Asked;
use crate::error::ExitKind;
use crate::run::stop::Stop;

pub(in crate::run::driver) struct Signals {
    interrupt: CtrlC,
    terminate: CtrlBreak,
    /// The window is closed, the user logs off, or the machine shuts down: the system allows a few seconds.
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

    pub(in crate::run::driver) async fn next(&mut self) -> Asked {
        tokio::select! {
            _ = self.interrupt.recv() => Asked::ToStop(Stop::Gently, ExitKind::Interrupted),
            _ = self.terminate.recv() => Asked::ToStop(Stop::Now, ExitKind::Terminated),
            _ = self.close.recv() => Asked::ToStop(Stop::Now, ExitKind::Terminated),
            _ = self.logoff.recv() => Asked::ToStop(Stop::Now, ExitKind::Terminated),
            _ = self.shutdown.recv() => Asked::ToStop(Stop::Now, ExitKind::Terminated),
        }
    }
}
