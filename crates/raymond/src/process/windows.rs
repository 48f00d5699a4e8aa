//! What is different about processes on Windows.
//!
//! Each step runs in a job object of its own, which no process of the step can leave. When the last handle of a job is
//! closed, the system ends its processes. Raymond has the only handle, so the end of Raymond ends its steps.

mod named_pipes;
mod program_lookup;
mod step_jobs;
#[cfg(test)]
mod tests;

use std::ffi::OsString;
use std::io;
use std::process::ExitStatus;

use tokio::process::{Child, Command};

pub(super) use named_pipes::{Output, Outputs, Stderr, Stdout, read_ready, widen};
pub use program_lookup::find_program;
pub(super) use step_jobs::{let_live, living, terminate};

use super::spawn::{ParentDeath, ProgramSpec};
use super::streams::Streams;
use super::supervise::ProcessExit;

/// The program is created suspended and runs when it is in its job. Ctrl-C in the terminal does not reach it.
pub(super) fn isolate(command: &mut Command, _on_parent_death: ParentDeath) {
    command.creation_flags(os_process::creation_flags());
}

/// Puts the suspended program into its job, and lets it run.
pub(super) fn adopt(mut child: Child, outputs: Outputs, spec: &ProgramSpec) -> io::Result<(Child, Streams)> {
    if let Err(error) = step_jobs::begin(&child, &spec.token) {
        // It is still suspended and has not run.
        let _ = child.start_kill();
        return Err(error);
    }
    Ok((child, outputs.streams()))
}

/// The system itself finds only `.exe` files on PATH.
pub(super) fn program_of(spec: &ProgramSpec) -> OsString {
    program_lookup::find(spec).map_or_else(|| spec.program.clone(), OsString::from)
}

/// A crash is also reported as an exit code.
pub(super) fn exit_of(status: ExitStatus) -> ProcessExit {
    status.code().map_or(ProcessExit::Unknown, ProcessExit::Code)
}

/// Nothing is looked for by its pipes here.
pub(super) fn pipe_number(_pipe: &impl Output) -> u64 {
    0
}

/// Programs are not ended by signals here.
pub(super) fn is_stop_signal(_signal: i32) -> bool {
    false
}

/// The system always keeps them.
pub(super) fn keep_exit_codes() {}

/// Windows has no such limit.
pub fn survive_file_size_limit() {}

/// Windows has no such limit.
pub fn raise_file_limit() {}

/// There is none here.
pub fn file_limit() -> Option<u64> {
    None
}

/// Whether the host has too little of something at the moment to start a program: open files, memory, resources of the
/// system, or the commit limit.
pub(super) fn is_shortage(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(4 | 8 | 14 | 1450 | 1455))
}
