//! A command of the user's on Windows.

use std::io;

use tokio::process::{Child, Command};

use crate::process::{Job, creation_flags};

/// A shell for the command. What stands between the outer quotes reaches it as it is.
pub(super) fn shell(command: &str) -> Command {
    let mut shell = Command::new("cmd.exe");
    shell.raw_arg(format!("/d /s /c \"{command}\"")).creation_flags(creation_flags());
    shell
}

/// A command with all that it started, which ends with Raymond unless it has ended before.
pub(super) struct Everything {
    job: Job,
}

impl Everything {
    pub(super) fn of(child: &Child) -> io::Result<Self> {
        let job = Job::create(None)?;
        job.take_in(child)?;
        Ok(Self { job })
    }

    pub(super) fn end(&self) {
        let _ = self.job.terminate();
    }
}
