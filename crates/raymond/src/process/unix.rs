//! What is different about processes on Unix.

use std::ffi::OsStr;
use std::io;
/// What the end of a pipe has to be for [`read_ready`].
pub(super) use std::os::fd::AsFd as Output;
use std::os::unix::process::ExitStatusExt;
use std::process::{ExitStatus, Stdio};
use std::sync::OnceLock;

use os_process::Isolation;
use rustix::process::{Resource, Rlimit, Signal, getrlimit, setrlimit};
use tokio::process::{Child, Command};
pub(super) use tokio::process::{ChildStderr as Stderr, ChildStdout as Stdout};

use super::spawn::{ParentDeath, ProgramSpec};
use super::streams::Streams;
use super::supervise::ProcessExit;

/// The pipes for a program's output, which tokio makes.
pub(super) struct Outputs;

impl Outputs {
    pub(super) async fn of(command: &mut Command) -> io::Result<Self> {
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        Ok(Self)
    }
}

/// Takes the pipes that tokio has made.
pub(super) fn adopt(
    mut child: Child,
    _outputs: Outputs,
    _launch: &ProgramSpec,
) -> io::Result<(Child, Streams)> {
    let streams = Streams::new(child.stdout.take(), child.stderr.take());
    Ok((child, streams))
}

/// The system looks the program up.
pub(super) fn program_of(spec: &ProgramSpec) -> &OsStr {
    &spec.program
}

/// Background children of a step are not tied to Raymond.
pub(super) fn let_live(_token: &str) {}

/// Makes the child the leader of its own process group, and ends it when the calling thread ends.
pub(super) fn isolate(command: &mut Command, on_parent_death: ParentDeath) {
    os_process::isolate(command.as_std_mut(), isolation(on_parent_death));
}

pub(super) fn isolation(on_parent_death: ParentDeath) -> Isolation {
    let parent_death_signal = match on_parent_death {
        ParentDeath::Terminate => Signal::TERM,
        ParentDeath::Kill => Signal::KILL,
    };
    Isolation { parent_death_signal, file_limit: INITIAL_FILE_LIMIT.get().copied() }
}

/// Whether services, containers and terminals are stopped by this signal.
pub(super) fn is_stop_signal(signal: i32) -> bool {
    [Signal::TERM, Signal::INT, Signal::HUP, Signal::KILL].iter().any(|known| known.as_raw() == signal)
}

/// The parent process may ignore SIGCHLD, and Raymond inherits that. The system would then discard the exit codes of
/// our children.
pub(super) fn keep_exit_codes() {
    let _ = os_process::stop_ignoring(Signal::CHILD);
}

/// A journal that may not become larger is an error that is reported, and not a silent death.
pub fn survive_file_size_limit() {
    let _ = os_process::survive_file_size_limit();
}

/// Whether Raymond was started to outlive its terminal, for example by `nohup`.
pub fn is_hangup_ignored() -> bool {
    os_process::is_ignored(Signal::HUP)
}

/// Whether Raymond was started by a program that does not let it be suspended from the terminal.
pub fn is_suspension_ignored() -> bool {
    os_process::is_ignored(Signal::TSTP)
}

/// The size of the pipe of a program that prints a lot. Raymond and the program then switch less often.
#[cfg(target_os = "linux")]
const LARGE_PIPE_BYTES: usize = 512 * 1024;

/// Enlarges a pipe, as far as the system allows.
#[cfg(target_os = "linux")]
pub(super) fn widen(pipe: &impl Output) {
    let _ = rustix::pipe::fcntl_setpipe_size(pipe, LARGE_PIPE_BYTES);
}

#[cfg(not(target_os = "linux"))]
pub(super) fn widen(_pipe: &impl Output) {}

/// The number that both ends of a pipe share; zero if it is not known.
#[cfg(target_os = "linux")]
pub(super) fn pipe_number(pipe: &impl Output) -> u64 {
    rustix::fs::fstat(pipe).map_or(0, |stat| stat.st_ino)
}

#[cfg(not(target_os = "linux"))]
pub(super) fn pipe_number(_pipe: &impl Output) -> u64 {
    0
}

/// Reads what is in the pipe, without waiting; 0 if it is empty.
pub(super) fn read_ready(pipe: impl Output, buffer: &mut [u8]) -> usize {
    rustix::io::read(pipe, buffer).unwrap_or(0)
}

pub(super) fn exit_of(status: ExitStatus) -> ProcessExit {
    match (status.code(), status.signal()) {
        (Some(code), _) => ProcessExit::Code(code),
        (None, Some(signal)) => ProcessExit::Signal(signal),
        (None, None) => ProcessExit::Unknown,
    }
}

/// Whether the host has too little of something at the moment to start a program.
pub(super) fn is_shortage(error: &io::Error) -> bool {
    use rustix::io::Errno;
    const SHORTAGES: [Errno; 4] = [Errno::AGAIN, Errno::MFILE, Errno::NFILE, Errno::NOMEM];
    Errno::from_io_error(error).is_some_and(|error| SHORTAGES.contains(&error))
}

/// How many files Raymond may open.
pub fn file_limit() -> Option<u64> {
    getrlimit(Resource::Nofile).current
}

/// The limit that Raymond was started with. Programs get it back, because some expect a low limit or close every file
/// descriptor up to it.
static INITIAL_FILE_LIMIT: OnceLock<Rlimit> = OnceLock::new();

/// Raises the number of files that Raymond may open. Every running program needs three, and hundreds may run at once.
pub fn raise_file_limit() {
    let limit = getrlimit(Resource::Nofile);
    let _ = INITIAL_FILE_LIMIT.set(limit);
    // If it cannot be raised, starting too many programs reports it.
    let _ = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, maximum: limit.maximum });
}
