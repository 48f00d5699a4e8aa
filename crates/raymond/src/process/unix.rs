//! What needs `unsafe` or raw system calls on Unix, kept to a few lines each.

use std::ffi::OsStr;
use std::io;
/// What the end of a pipe has to be for [`read_ready`].
pub(super) use std::os::fd::AsFd as Output;
use std::os::unix::process::ExitStatusExt;
use std::process::{ExitStatus, Stdio};
use std::sync::OnceLock;

use rustix::process::Pid;
use tokio::process::{Child, Command};
pub(super) use tokio::process::{ChildStderr as Stderr, ChildStdout as Stdout};

use super::spawn::{Launch, ParentDeath};
use super::streams::Streams;
use super::supervise::Exit;

/// Dispositions that Raymond may have been started with (a shell's background job, `nohup`, a service
/// manager) and that would make a step deaf to being ended or to its own children.
pub(super) const RESET_IN_CHILD: [i32; 4] = [libc::SIGTERM, libc::SIGINT, libc::SIGQUIT, libc::SIGCHLD];

/// What a program writes to: pipes that the runtime makes.
pub(super) struct Outputs;

impl Outputs {
    pub(super) async fn of(command: &mut Command) -> io::Result<Self> {
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        Ok(Self)
    }
}

/// Takes what the runtime has made.
pub(super) fn adopt(mut child: Child, _outputs: Outputs, _launch: &Launch) -> io::Result<(Child, Streams)> {
    let streams = Streams::new(child.stdout.take(), child.stderr.take());
    Ok((child, streams))
}

/// Starting a program looks it up.
pub(super) fn program_of(launch: &Launch) -> &OsStr {
    &launch.program
}

/// Nothing ties what a step leaves behind to Raymond.
pub(super) fn let_live(_token: &str) {}

/// Makes the child leader of its own process group and ties its life to the calling thread's.
#[expect(unsafe_code, reason = "what happens between fork and exec can only be said with `pre_exec`")]
pub(super) fn isolate(command: &mut Command, on_parent_death: ParentDeath) {
    command.process_group(0);
    let parent = rustix::process::getpid();
    // SAFETY: the closure runs in the forked child, where only async-signal-safe calls are allowed. It makes
    // five kinds of plain system calls (signal, setrlimit, prctl, getppid), allocates nothing and takes no lock; an
    // `io::Error` made from an error number or a kind does not allocate either.
    unsafe {
        command.pre_exec(move || {
            reset_dispositions()?;
            lower_file_limit()?;
            die_with_parent(parent, on_parent_death)
        });
    }
}

fn lower_file_limit() -> io::Result<()> {
    use rustix::process::{Resource, Rlimit, setrlimit};
    let Some((current, maximum)) = FIRST_FILE_LIMIT.get() else { return Ok(()) };
    Ok(setrlimit(Resource::Nofile, Rlimit { current: *current, maximum: *maximum })?)
}

/// The signal mask and SIGPIPE are already reset by the standard library.
#[expect(unsafe_code, reason = "the standard library has no way to set a signal's disposition")]
fn reset_dispositions() -> io::Result<()> {
    for signal in RESET_IN_CHILD {
        // SAFETY: `signal` with SIG_DFL installs no handler and is async-signal-safe.
        if unsafe { libc::signal(signal, libc::SIG_DFL) } == libc::SIG_ERR {
            return Err(io::Error::last_os_error());
        }
    }
    Ok(())
}

#[cfg(target_os = "linux")]
fn die_with_parent(parent: Pid, on_parent_death: ParentDeath) -> io::Result<()> {
    let signal = match on_parent_death {
        ParentDeath::Terminate => rustix::process::Signal::TERM,
        ParentDeath::Kill => rustix::process::Signal::KILL,
    };
    rustix::process::set_parent_process_death_signal(Some(signal))?;
    // The parent may have died before the line above took effect; then nobody would send the signal.
    if rustix::process::getppid() != Some(parent) {
        return Err(io::ErrorKind::BrokenPipe.into());
    }
    Ok(())
}

/// Other systems have no such signal; what is left over there is found by the next Raymond, if at all.
#[cfg(not(target_os = "linux"))]
fn die_with_parent(_parent: Pid, _on_parent_death: ParentDeath) -> io::Result<()> {
    Ok(())
}

/// Whoever started Raymond may ignore SIGCHLD, and that is inherited. The system would then throw the exit
/// codes of our children away, so it is undone; a handler that is already there is left alone.
#[expect(unsafe_code, reason = "the standard library has no way to set a signal's disposition")]
pub(super) fn keep_exit_codes() {
    if is_ignored(libc::SIGCHLD) {
        // SAFETY: SIG_DFL installs no handler.
        unsafe {
            libc::signal(libc::SIGCHLD, libc::SIG_DFL);
        }
    }
}

/// Whether whoever started Raymond wants it to outlive its terminal, as `nohup` does.
pub fn is_hangup_ignored() -> bool {
    is_ignored(libc::SIGHUP)
}

#[expect(unsafe_code, reason = "the standard library has no way to ask for a signal's disposition")]
fn is_ignored(signal: i32) -> bool {
    // SAFETY: `action` is plain data for which all zeros is a valid value, and the call only writes it.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        libc::sigaction(signal, std::ptr::null(), &mut action) == 0 && action.sa_sigaction == libc::SIG_IGN
    }
}

/// How much a pipe holds once a program has shown that it prints a lot: the two then take turns less often.
#[cfg(target_os = "linux")]
const WIDE_PIPE_BYTES: usize = 512 * 1024;

/// Makes room in a pipe, as far as the system allows.
#[cfg(target_os = "linux")]
pub(super) fn widen(pipe: &impl Output) {
    let _ = rustix::pipe::fcntl_setpipe_size(pipe, WIDE_PIPE_BYTES);
}

#[cfg(not(target_os = "linux"))]
pub(super) fn widen(_pipe: &impl Output) {}

/// What can be read right now; nothing when that would mean waiting.
pub(super) fn read_ready(pipe: impl Output, buffer: &mut [u8]) -> usize {
    rustix::io::read(pipe, buffer).unwrap_or(0)
}

pub(super) fn exit_of(status: ExitStatus) -> Exit {
    match (status.code(), status.signal()) {
        (Some(code), _) => Exit::Code(code),
        (None, Some(signal)) => Exit::Signal(signal),
        (None, None) => Exit::Unknown,
    }
}

/// What Raymond was started with: programs that count on few descriptors, or close all there may be, get that.
static FIRST_FILE_LIMIT: OnceLock<(Option<u64>, Option<u64>)> = OnceLock::new();

#[cfg(target_os = "linux")]
pub(super) fn first_file_limit() -> Option<libc::rlimit> {
    let (current, maximum) = FIRST_FILE_LIMIT.get()?;
    let number = |limit: &Option<u64>| limit.map_or(libc::RLIM_INFINITY, |limit| limit);
    Some(libc::rlimit { rlim_cur: number(current), rlim_max: number(maximum) })
}

/// A script needs three descriptors, and hundreds may run at once; the usual soft limit is lower than it has to be.
pub fn raise_file_limit() {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let limit = getrlimit(Resource::Nofile);
    let _ = FIRST_FILE_LIMIT.set((limit.current, limit.maximum));
    // Where it cannot be raised, starting one script too many says so.
    let _ = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, maximum: limit.maximum });
}
