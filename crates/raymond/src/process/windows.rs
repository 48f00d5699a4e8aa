//! What is different about processes on Windows.
//!
//! Each step runs in a job object of its own, which nothing that it starts can leave. The job is created so that
//! closing its last handle ends everything in it. Raymond holds the only one, so whatever ends Raymond ends its
//! steps as well.

mod jobs;
mod pipes;
mod program;
#[cfg(test)]
mod tests;

use std::ffi::OsString;
use std::io;
use std::process::ExitStatus;

use tokio::process::{Child, Command};

pub(super) use jobs::{let_live, living, terminate};
pub(super) use pipes::{Output, Outputs, Stderr, Stdout, read_ready, widen};
pub use program::find_program;

use super::spawn::{Launch, ParentDeath};
use super::streams::Streams;
use super::supervise::Exit;

/// The program starts when it is in its job, and Ctrl-C in the terminal reaches Raymond alone.
pub(super) fn isolate(command: &mut Command, _on_parent_death: ParentDeath) {
    command.creation_flags(os_process::creation_flags());
}

/// Puts a program that has not run yet into its job, and lets it run.
pub(super) fn adopt(mut child: Child, outputs: Outputs, launch: &Launch) -> io::Result<(Child, Streams)> {
    if let Err(error) = jobs::begin(&child, &launch.token) {
        // It never ran, and never will.
        let _ = child.start_kill();
        return Err(error);
    }
    Ok((child, outputs.streams()))
}

/// The system itself finds nothing but `.exe` files on the search path.
pub(super) fn program_of(launch: &Launch) -> OsString {
    program::find(launch).map_or_else(|| launch.program.clone(), OsString::from)
}

/// Exit codes are 32 bits, and a crash is one of them.
pub(super) fn exit_of(status: ExitStatus) -> Exit {
    status.code().map_or(Exit::Unknown, Exit::Code)
}

/// Nothing can throw them away here.
pub(super) fn keep_exit_codes() {}

/// There is no such limit here.
pub fn raise_file_limit() {}
