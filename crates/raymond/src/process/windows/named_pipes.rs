//! The pipes for a program's output.
//!
//! Tokio reads anonymous pipes with a blocking thread for each. Such a thread could not end while a background child
//! keeps the pipe open. Named pipes support asynchronous reads and need no threads.

use std::fs::{File, OpenOptions};
use std::io;
use std::process::Stdio;

use tokio::net::windows::named_pipe::{NamedPipeServer, ServerOptions};
use tokio::process::Command;

use super::Streams;

pub(in crate::process) type Stdout = NamedPipeServer;
pub(in crate::process) type Stderr = NamedPipeServer;

/// Our ends of a program's output pipes, created before it starts.
pub(in crate::process) struct Outputs {
    stdout: NamedPipeServer,
    stderr: NamedPipeServer,
}

impl Outputs {
    /// The command holds the other ends. It must be dropped, or the pipes never reach EOF.
    pub(in crate::process) async fn of(command: &mut Command) -> io::Result<Self> {
        let (stdout, stdout_end) = pipe().await?;
        let (stderr, stderr_end) = pipe().await?;
        command.stdout(Stdio::from(stdout_end)).stderr(Stdio::from(stderr_end));
        Ok(Self { stdout, stderr })
    }

    pub(in crate::process) fn streams(self) -> Streams {
        Streams::new(Some(self.stdout), Some(self.stderr))
    }
}

/// A pipe with a random name and one writer, which is connected when this returns.
async fn pipe() -> io::Result<(NamedPipeServer, File)> {
    let name = format!(r"\\.\pipe\raymond-{}", uuid::Uuid::new_v4());
    let ours = ServerOptions::new()
        .access_outbound(false)
        .first_pipe_instance(true)
        .max_instances(1)
        .create(&name)?;
    let theirs = OpenOptions::new().write(true).open(&name)?;
    // The writer is already connected; this tells tokio.
    ours.connect().await?;
    Ok((ours, theirs))
}

/// What the end of a pipe has to be for [`read_ready`].
pub(in crate::process) trait Output {
    fn try_read(&self, buffer: &mut [u8]) -> io::Result<usize>;
}

impl Output for NamedPipeServer {
    fn try_read(&self, buffer: &mut [u8]) -> io::Result<usize> {
        NamedPipeServer::try_read(self, buffer)
    }
}

/// Reads what has arrived, without waiting. Tokio reads ahead by a few kilobytes and learns of more only when it runs.
/// That is enough: it has been reading until now, and the program's own output came before that of background children.
pub(in crate::process) fn read_ready(pipe: &impl Output, buffer: &mut [u8]) -> usize {
    pipe.try_read(buffer).unwrap_or(0)
}

/// The size of a named pipe cannot be changed.
pub(in crate::process) fn widen(_pipe: &impl Output) {}
