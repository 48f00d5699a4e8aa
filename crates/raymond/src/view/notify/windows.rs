//! Starting and ending a command of the user's on Windows.

use std::io;

use tokio::process::{Child, Command};

use crate::process::{Job, creation_flags};

/// A shell for the command. With `/s`, `cmd.exe` takes the text between the outer quotes literally.
pub(super) fn shell(command: &str) -> Command {
    let mut shell = Command::new("cmd.exe");
    shell.raw_arg(format!("/d /s /c \"{command}\"")).creation_flags(creation_flags());
    shell
}

/// The job of a command: the shell and all that it started. All of it ends when Raymond ends.
pub(super) struct CommandProcesses {
    job: Job,
}

impl CommandProcesses {
    pub(super) fn of(child: &Child) -> io::Result<Self> {
        let job = Job::create(None)?;
        job.assign_and_resume(child)?;
        Ok(Self { job })
    }

    pub(super) fn end(&self) {
        let _ = self.job.terminate();
    }
}
