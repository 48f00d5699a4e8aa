//! A command of the user's on Unix.

use std::io;

use rustix::process::{Pid, Signal, kill_process_group};
use tokio::process::{Child, Command};

/// A shell for the command, in a group of its own, so that Ctrl-C in the terminal does not reach it and all of it can
/// be ended.
pub(super) fn shell(command: &str) -> Command {
    let mut shell = Command::new("/bin/sh");
    shell.args(["-c", command]).process_group(0);
    shell
}

/// A command with all that it started.
pub(super) struct Everything {
    group: Option<Pid>,
}

impl Everything {
    pub(super) fn of(child: &Child) -> io::Result<Self> {
        let group = child.id().and_then(|id| i32::try_from(id).ok()).and_then(Pid::from_raw);
        Ok(Self { group })
    }

    /// To be called before the child was waited for: until then the number can be nobody else's.
    pub(super) fn end(&self) {
        if let Some(group) = self.group {
            let _ = kill_process_group(group, Signal::KILL);
        }
    }
}
