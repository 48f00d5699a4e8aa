//! Starting a program on Linux without copying the parent's memory.
//!
//! The standard library does the same with `posix_spawn`, but `posix_spawn` cannot set a parent-death signal. With
//! `pre_exec` the standard library uses `fork`, which copies the page tables: the more memory the parent has, the longer
//! every start takes. So this module does what `posix_spawn` does internally and adds the parent-death signal. The child
//! shares the parent's memory and runs on a stack of its own; the calling thread is suspended until the child has called
//! `exec` or has ended.

mod child;
mod clone;
mod env_block;
#[cfg(test)]
mod tests;

use std::ffi::{CString, OsStr, OsString, c_char, c_int, c_void};
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::ptr;
use std::sync::OnceLock;

use rustix::process::{Pid, Resource, Signal, getpid, setrlimit};

use crate::unix::{self, Isolation, RESET_SIGNALS};
pub use child::VforkChild;
use clone::{Cloned, clone};
use env_block::EnvBlock;

/// The last standard signal. The real-time signals after it are left alone: few programs install handlers for them, and
/// asking about each one would double the system calls of a start.
const LAST_STANDARD_SIGNAL: c_int = 31;

/// A program to start.
#[derive(Clone, Copy, Debug)]
pub struct Spawn<'a> {
    /// A path, or a name that is looked up on the child's PATH.
    pub program: &'a OsStr,
    pub args: &'a [OsString],
    /// Changes to the inherited environment: `Some` sets a variable, `None` removes it, and later entries win. This
    /// process's own environment is read at the first start and assumed not to change afterwards.
    pub env: &'a [(&'a OsStr, Option<&'a OsStr>)],
    pub cwd: &'a Path,
    /// The child's standard input, output and error output.
    pub streams: [BorrowedFd<'a>; 3],
    pub isolation: Isolation,
    /// The folder of a cgroup (version 2) to start it in. If that does not work, it is started where this process is;
    /// [`VforkChild::is_in_cgroup`] tells which.
    pub cgroup: Option<BorrowedFd<'a>>,
}

impl Spawn<'_> {
    /// Starts the program. Must be called within a tokio runtime, on a thread that lives as long as the child may live.
    ///
    /// Fails with [`io::ErrorKind::Unsupported`] if the kernel cannot do it (before Linux 5.3, or in a sandbox). The caller can
    /// then use [`isolate`](crate::isolate) and the standard library.
    pub fn start(&self) -> io::Result<VforkChild> {
        if !has_pidfds() || self.streams.iter().any(|stream| stream.as_raw_fd() <= 2) {
            // `dup2` of a stream onto its own number would keep its close-on-exec flag.
            return Err(io::ErrorKind::Unsupported.into());
        }
        let env = EnvBlock::new(self.env)?;
        let prepared = Prepared::new(self, &env)?;
        let mut last_error = io::Error::from(io::ErrorKind::NotFound);
        for file in candidates(self.program, env.path())? {
            match prepared.start(&file) {
                // Like a shell: a file that is missing or not executable may be in a later folder of PATH.
                Err(error) if may_be_in_another_folder(&error) => {
                    if last_error.kind() != io::ErrorKind::PermissionDenied {
                        last_error = error;
                    }
                }
                Ok(cloned) => return VforkChild::new(cloned),
                Err(error) => return Err(error),
            }
        }
        Err(last_error)
    }
}

fn may_be_in_another_folder(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::ENOENT | libc::EACCES | libc::ENOTDIR))
}

/// Kernels before 5.3 ignore `CLONE_PIDFD`, or give a pidfd that cannot be polled.
fn has_pidfds() -> bool {
    static ANSWER: OnceLock<bool> = OnceLock::new();
    *ANSWER
        .get_or_init(|| rustix::process::pidfd_open(getpid(), rustix::process::PidfdFlags::empty()).is_ok())
}

/// The files that the program's name may mean, in order.
fn candidates(program: &OsStr, path: Option<&OsStr>) -> io::Result<Vec<CString>> {
    if program.as_bytes().contains(&b'/') {
        return Ok(vec![c_string(program.as_bytes())?]);
    }
    std::env::split_paths(path.unwrap_or(OsStr::new("/bin:/usr/bin")))
        .map(|folder| if folder.as_os_str().is_empty() { PathBuf::from(".") } else { folder })
        .map(|folder| folder.join(program))
        // Saves a child for every folder without such a file. Relative folders are relative to the child's `cwd`.
        .filter(|file| file.is_relative() || file.exists())
        .map(|file| c_string(file.as_os_str().as_bytes()))
        .collect()
}

fn c_string(text: &[u8]) -> io::Result<CString> {
    CString::new(text).map_err(|_| io::Error::new(io::ErrorKind::InvalidInput, "a text with a zero byte"))
}

/// Everything that the child needs, prepared in the parent, because the child must not allocate.
struct Prepared<'a> {
    cwd: CString,
    streams: [BorrowedFd<'a>; 3],
    /// Signals that have a handler, or are ignored and should not be.
    reset: Vec<Signal>,
    isolation: Isolation,
    cgroup: Option<BorrowedFd<'a>>,
    parent: Pid,
    args: Vec<*const c_char>,
    /// `/bin/sh`, a place for the script, and the other arguments: for a script without an interpreter line.
    shell_args: Vec<*const c_char>,
    env: Vec<*const c_char>,
    /// What the pointers in `args` point to.
    _texts: Vec<CString>,
    /// What the pointers in `env` point to.
    _env: &'a EnvBlock,
}

impl<'a> Prepared<'a> {
    fn new(spawn: &Spawn<'a>, env: &'a EnvBlock) -> io::Result<Self> {
        let words = [spawn.program].into_iter().chain(spawn.args.iter().map(OsString::as_os_str));
        let texts: Vec<CString> = words.map(|text| c_string(text.as_bytes())).collect::<io::Result<_>>()?;
        let args: Vec<*const c_char> = texts.iter().map(|text| text.as_ptr()).chain([ptr::null()]).collect();
        Ok(Prepared {
            cwd: c_string(spawn.cwd.as_os_str().as_bytes())?,
            streams: spawn.streams,
            reset: signals_to_reset(),
            isolation: spawn.isolation,
            cgroup: spawn.cgroup,
            parent: getpid(),
            shell_args: [&[c"/bin/sh".as_ptr(), ptr::null()], &args[1..]].concat(),
            args,
            env: env.pointers(),
            _texts: texts,
            _env: env,
        })
    }

    /// Starts exactly this file.
    #[expect(unsafe_code, reason = "no library offers vfork with a parent-death signal")]
    fn start(&self, file: &CString) -> io::Result<Cloned> {
        let mut shell_args = self.shell_args.clone();
        shell_args[1] = file.as_ptr();
        let mut shared =
            Shared { prepared: self, file: file.as_ptr(), shell_args: shell_args.as_ptr(), error: 0 };
        let blocked = BlockedSignals::all();
        // SAFETY: until the child has called exec or has ended it is the only user of `shared`. It makes system calls
        // only and changes no memory but `shared.error`, errno and its stack. No signal handler can run in it, because
        // all signals are blocked until it has removed every handler.
        let cloned = unsafe { clone(run_child, (&raw mut shared).cast(), self.cgroup) };
        drop(blocked);
        let cloned = cloned.map_err(|error| match error.raw_os_error() {
            // An old kernel, or a sandbox that forbids these flags.
            Some(libc::EINVAL | libc::ENOSYS | libc::EPERM) => io::ErrorKind::Unsupported.into(),
            _ => error,
        })?;
        if shared.error != 0 {
            // The child has ended; this removes the zombie.
            let _ = rustix::process::waitpid(Some(cloned.pid), rustix::process::WaitOptions::empty());
            return Err(io::Error::from_raw_os_error(shared.error));
        }
        Ok(cloned)
    }
}

/// What parent and child share.
struct Shared<'a> {
    prepared: &'a Prepared<'a>,
    file: *const c_char,
    shell_args: *const *const c_char,
    /// Why the child could not execute the file.
    error: c_int,
}

/// Runs in the child.
#[expect(unsafe_code, reason = "exec after vfork")]
extern "C" fn run_child(shared: *mut c_void) -> c_int {
    // SAFETY: `shared` is the `Shared` that the parent keeps until this has ended. The calls get pointers that were made
    // for them in `Prepared`.
    unsafe {
        let shared = &mut *shared.cast::<Shared<'_>>();
        let prepared = shared.prepared;
        if let Err(error) = set_up(prepared) {
            shared.error = error.raw_os_error().unwrap_or(libc::EINVAL);
            libc::_exit(127);
        }
        libc::execve(shared.file, prepared.args.as_ptr(), prepared.env.as_ptr());
        if *libc::__errno_location() == libc::ENOEXEC {
            libc::execve(c"/bin/sh".as_ptr(), shared.shell_args, prepared.env.as_ptr());
        }
        shared.error = *libc::__errno_location();
        libc::_exit(127)
    }
}

/// Runs in the child, so it makes system calls only: it must neither allocate nor take a lock.
fn set_up(prepared: &Prepared<'_>) -> io::Result<()> {
    // First, so that Ctrl-C in the terminal no longer reaches the child.
    rustix::process::setpgid(None, None)?;
    unix::die_with_parent(prepared.parent, prepared.isolation.parent_death_signal)?;
    prepared.reset.iter().copied().try_for_each(unix::set_default)?;
    unblock_all_signals()?;
    if let Some(limit) = prepared.isolation.file_limit {
        setrlimit(Resource::Nofile, limit)?;
    }
    // All other file descriptors are closed by exec.
    rustix::stdio::dup2_stdin(prepared.streams[0])?;
    rustix::stdio::dup2_stdout(prepared.streams[1])?;
    rustix::stdio::dup2_stderr(prepared.streams[2])?;
    Ok(rustix::process::chdir(&prepared.cwd)?)
}

/// Signals that the child must set to their defaults. Other ignored signals stay ignored, as `nohup` wants it; SIGPIPE is
/// ignored by Rust's runtime and not by the user. Read in the parent, because some C libraries take a lock for it.
fn signals_to_reset() -> Vec<Signal> {
    let needs_reset = |signal: &Signal| match unix::disposition(*signal) {
        None | Some(libc::SIG_DFL) => false,
        Some(libc::SIG_IGN) => *signal == Signal::PIPE || RESET_SIGNALS.contains(signal),
        Some(_) => true,
    };
    (1..=LAST_STANDARD_SIGNAL).filter_map(Signal::from_named_raw).filter(needs_reset).collect()
}

#[expect(unsafe_code, reason = "no safe function sets the signal mask")]
fn unblock_all_signals() -> io::Result<()> {
    // SAFETY: all zeros is a valid place for a set of signals, which `sigemptyset` fills in.
    let result = unsafe {
        let mut none: libc::sigset_t = std::mem::zeroed();
        libc::sigemptyset(&raw mut none);
        libc::sigprocmask(libc::SIG_SETMASK, &raw const none, ptr::null_mut())
    };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Blocks all signals for this thread until it is dropped.
struct BlockedSignals {
    before: libc::sigset_t,
}

impl BlockedSignals {
    #[expect(unsafe_code, reason = "no safe function sets the signal mask")]
    fn all() -> Self {
        // SAFETY: both sets are valid places to write to.
        unsafe {
            let mut all: libc::sigset_t = std::mem::zeroed();
            let mut before: libc::sigset_t = std::mem::zeroed();
            libc::sigfillset(&raw mut all);
            libc::pthread_sigmask(libc::SIG_SETMASK, &raw const all, &raw mut before);
            BlockedSignals { before }
        }
    }
}

impl Drop for BlockedSignals {
    #[expect(unsafe_code, reason = "no safe function sets the signal mask")]
    fn drop(&mut self) {
        // SAFETY: `before` was filled in by the system.
        unsafe {
            libc::pthread_sigmask(libc::SIG_SETMASK, &raw const self.before, ptr::null_mut());
        }
    }
}
