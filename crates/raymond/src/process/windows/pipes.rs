//! The pipes that a program's output comes through.
//!
//! The runtime's own would need a thread for each, which waits for as long as anybody holds the other end, be it a
//! background child for ever. A named pipe can be waited for without one.

use std::fs::{File, OpenOptions};
use std::io;
use std::process::Stdio;

use tokio::net::windows::named_pipe::{NamedPipeServer, ServerOptions};
use tokio::process::Command;

use super::Streams;

pub(in crate::process) type Stdout = NamedPipeServer;
pub(in crate::process) type Stderr = NamedPipeServer;

/// Our ends of a program's output, made before it starts.
pub(in crate::process) struct Outputs {
    stdout: NamedPipeServer,
    stderr: NamedPipeServer,
}

impl Outputs {
    /// The command holds the other ends, so it has to go before the pipes can end.
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

/// A pipe with a name that nobody can guess and that takes one writer, who is there when this returns.
async fn pipe() -> io::Result<(NamedPipeServer, File)> {
    let name = format!(r"\\.\pipe\raymond-{}", uuid::Uuid::new_v4());
    let ours = ServerOptions::new()
        .access_outbound(false)
        .first_pipe_instance(true)
        .max_instances(1)
        .create(&name)?;
    let theirs = OpenOptions::new().write(true).open(&name)?;
    // Both ends are there, so this only tells the runtime so.
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

/// What can be read right now. The runtime reads ahead by a few kilobytes, and knows of more only when it has run; but
/// it has been reading until now, and what the program itself wrote came before all else.
pub(in crate::process) fn read_ready(pipe: &impl Output, buffer: &mut [u8]) -> usize {
    pipe.try_read(buffer).unwrap_or(0)
}

/// A named pipe is made as wide as it stays.
pub(in crate::process) fn widen(_pipe: &impl Output) {}
