//! What every Unix can do: settings between `fork` and `exec`, and questions about signals.

use std::io;
use std::os::unix::process::CommandExt;
use std::process::Command;

use rustix::process::{Pid, Resource, Rlimit, Signal, getpid, setrlimit};

/// Signals that the parent process may have been started to ignore (by a shell's background job, `nohup` or a service
/// manager), or ignores itself (SIGXFSZ). A child that inherits this could not be asked to end, would not learn how its
/// own children ended, or would not be ended by a file that became too large.
pub(crate) const RESET_SIGNALS: [Signal; 5] =
    [Signal::TERM, Signal::INT, Signal::QUIT, Signal::CHILD, Signal::XFSZ];

/// What a child process gets beyond what [`Command`] can express. In addition it leads a process group of its own, and
/// does not ignore SIGTERM, SIGINT, SIGQUIT, SIGCHLD and SIGXFSZ.
#[derive(Clone, Copy, Debug)]
pub struct Isolation {
    /// Sent to the child when the thread that started it ends. Only Linux has this; elsewhere it is not used.
    pub parent_death_signal: Signal,
    /// How many files the child may open; `None` leaves the limit as it is.
    pub file_limit: Option<Rlimit>,
}

/// Adds the properties of an [`Isolation`] to a command. A command with this is started with `fork`, which takes longer
/// the more memory the parent process has.
#[expect(unsafe_code, reason = "only `pre_exec` can set this between fork and exec")]
pub fn isolate(command: &mut Command, isolation: Isolation) {
    command.process_group(0);
    let parent = getpid();
    // SAFETY: the closure runs in the forked child, where only async-signal-safe calls are allowed. It makes plain
    // system calls (sigaction, setrlimit, prctl, getppid), does not allocate and takes no lock. An `io::Error` made
    // from an error number does not allocate either.
    unsafe {
        command.pre_exec(move || {
            // The standard library has already reset the signal mask and SIGPIPE.
            RESET_SIGNALS.into_iter().try_for_each(set_default)?;
            if let Some(limit) = isolation.file_limit {
                setrlimit(Resource::Nofile, limit)?;
            }
            die_with_parent(parent, isolation.parent_death_signal)
        });
    }
}

/// Gives the program the default actions of the signals that this process may ignore, and nothing else.
#[expect(unsafe_code, reason = "only `pre_exec` can set this between fork and exec")]
pub fn restore_signals(command: &mut Command) {
    // SAFETY: as in `isolate`, the closure only makes plain system calls (sigaction).
    unsafe {
        command.pre_exec(|| RESET_SIGNALS.into_iter().try_for_each(set_default));
    }
}

/// Makes the program one that outlives this process: it leads a session of its own, so that no terminal and no signal to
/// this process' group reaches it, and it has the default actions of signals.
#[expect(unsafe_code, reason = "only `pre_exec` can set this between fork and exec")]
pub fn detach(command: &mut Command) {
    // SAFETY: as in `isolate`, the closure only makes plain system calls (sigaction, setsid).
    unsafe {
        command.pre_exec(|| {
            RESET_SIGNALS.into_iter().try_for_each(set_default)?;
            rustix::process::setsid()?;
            Ok(())
        });
    }
}

#[cfg(target_os = "linux")]
pub(crate) fn die_with_parent(parent: Pid, signal: Signal) -> io::Result<()> {
    rustix::process::set_parent_process_death_signal(Some(signal))?;
    // A race: if the parent died before the call above, no signal will come.
    if rustix::process::getppid() != Some(parent) {
        return Err(rustix::io::Errno::PIPE.into());
    }
    Ok(())
}

/// Other systems have no such signal.
#[cfg(not(target_os = "linux"))]
fn die_with_parent(_parent: Pid, _signal: Signal) -> io::Result<()> {
    Ok(())
}

/// Whether this process ignores a signal.
pub fn is_ignored(signal: Signal) -> bool {
    disposition(signal) == Some(libc::SIG_IGN)
}

/// Sets a signal to its default action if this process ignores it. A handler is left in place.
pub fn stop_ignoring(signal: Signal) -> io::Result<()> {
    if is_ignored(signal) { set_default(signal) } else { Ok(()) }
}

/// Makes writes past the limit for the size of files (`ulimit -f`) errors instead of the end of this process.
pub fn survive_file_size_limit() -> io::Result<()> {
    set_disposition(Signal::XFSZ, libc::SIG_IGN)
}

/// The address of the handler, or `SIG_DFL` or `SIG_IGN`. `None` for a signal that the C library keeps for itself.
#[expect(unsafe_code, reason = "no safe function reads a signal's disposition")]
pub(crate) fn disposition(signal: Signal) -> Option<libc::sighandler_t> {
    // SAFETY: `sigaction` is plain data for which all zeros is a valid value, and the call only writes to it.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        (libc::sigaction(signal.as_raw(), std::ptr::null(), &raw mut action) == 0)
            .then_some(action.sa_sigaction)
    }
}

/// Async-signal-safe. Not exported, because it would also remove a handler.
pub(crate) fn set_default(signal: Signal) -> io::Result<()> {
    set_disposition(signal, libc::SIG_DFL)
}

/// Async-signal-safe.
#[expect(unsafe_code, reason = "no safe function sets a signal's disposition")]
fn set_disposition(signal: Signal, disposition: libc::sighandler_t) -> io::Result<()> {
    debug_assert!(disposition == libc::SIG_DFL || disposition == libc::SIG_IGN);
    // SAFETY: all zeros is a valid `sigaction`; with `SIG_DFL` or `SIG_IGN` there is no handler to be called.
    let result = unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = disposition;
        libc::sigaction(signal.as_raw(), &raw const action, std::ptr::null_mut())
    };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}
