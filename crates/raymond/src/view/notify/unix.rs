//! Starting and ending a command of the user's on Unix.

use std::io;

use rustix::process::{Pid, Signal, kill_process_group};
use tokio::process::{Child, Command};

/// A shell for the command, in a process group of its own: Ctrl-C in the terminal does not reach it, and the whole
/// group can be ended.
pub(super) fn shell(command: &str) -> Command {
    let mut shell = Command::new("/bin/sh");
    shell.args(["-c", command]).process_group(0);
    os_process::restore_signals(shell.as_std_mut());
    shell
}

/// The process group of a command: the shell and all that it started.
pub(super) struct CommandProcesses {
    group: Option<Pid>,
}

impl CommandProcesses {
    pub(super) fn of(child: &Child) -> io::Result<Self> {
        let group = child.id().and_then(|id| i32::try_from(id).ok()).and_then(Pid::from_raw);
        Ok(Self { group })
    }

    /// Must be called before the child has been waited for: after that its number may belong to another process.
    pub(super) fn end(&self) {
        if let Some(group) = self.group {
            let _ = kill_process_group(group, Signal::KILL);
        }
    }
}
