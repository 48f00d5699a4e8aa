//! Starting a program on Linux without copying Raymond's memory.
//!
//! The standard library can do that too (`posix_spawn`), but not say what must happen between fork and exec: the
//! parent-death signal above all. With `pre_exec` it forks, which takes the longer the more memory there is: a step
//! of a run with thousands of agents would pay for all of them. So this does what `posix_spawn` does inside, with the
//! few things a step needs: the child borrows the parent's memory, on a stack of its own, while the parent stands
//! still until the child has become another program.

use std::cell::RefCell;
use std::ffi::{CString, OsStr, OsString, c_char, c_int, c_ulong, c_void};
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::ptr;
use std::sync::OnceLock;

use rustix::process::Signal;

use super::environment::Environment;

/// The child calls a few system calls and nothing deep.
const STACK_BYTES: usize = 64 * 1024;
thread_local! {
    /// For the next child; there is only one at a time that has not become its program.
    static STACK: RefCell<Vec<MaybeUninit<u8>>> = RefCell::new(Vec::with_capacity(STACK_BYTES));
}
/// The last signal that has a name. The numbered ones behind it are for programs that agree on them; Raymond has no
/// handler for any, and asking about each would be half of the system calls of a start.
const LAST_SIGNAL: c_int = 31;

/// A program to start, with everything it is given.
pub(super) struct Program<'a> {
    /// A name that is looked up on the PATH of `env`, or a path.
    pub(super) program: &'a OsStr,
    pub(super) args: &'a [OsString],
    pub(super) env: Environment,
    pub(super) cwd: &'a Path,
    /// What become the child's standard input, output and error output.
    pub(super) streams: [BorrowedFd<'a>; 3],
    /// Set to their defaults whatever Raymond was started with.
    pub(super) reset: &'a [c_int],
    /// How many files it may have open, if that is not what Raymond may.
    pub(super) file_limit: Option<libc::rlimit>,
    /// What the child is sent when the thread that starts it ends.
    pub(super) on_parent_death: Signal,
}

/// A child that runs in a process group of its own. Whoever has this has to wait for it.
pub(super) struct Started {
    pub(super) pid: rustix::process::Pid,
    pub(super) pidfd: OwnedFd,
}

/// Starts a program. `Unsupported` if the kernel is too old for it.
pub(super) fn start(program: &Program<'_>) -> io::Result<Started> {
    if !can_be_waited_for() {
        return Err(io::ErrorKind::Unsupported.into());
    }
    let prepared = Prepared::new(program)?;
    if prepared.streams.iter().any(|stream| *stream <= 2) {
        // Giving it the number it has already would leave it to be closed.
        return Err(io::ErrorKind::Unsupported.into());
    }
    let mut last_error = io::Error::from(io::ErrorKind::NotFound);
    for path in candidates(program)? {
        match prepared.start(&path) {
            // As a shell does: a file of that name which is not there, or not for us, may be in a later folder.
            Err(error) if is_elsewhere_perhaps(&error) => {
                if last_error.kind() != io::ErrorKind::PermissionDenied {
                    last_error = error;
                }
            }
            other => return other,
        }
    }
    Err(last_error)
}

fn is_elsewhere_perhaps(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::ENOENT | libc::EACCES | libc::ENOTDIR))
}

/// Older kernels than 5.3 take no notice of what is asked of them here, and give no pidfd or one that tells nothing.
fn can_be_waited_for() -> bool {
    static ANSWER: OnceLock<bool> = OnceLock::new();
    *ANSWER.get_or_init(|| {
        rustix::process::pidfd_open(rustix::process::getpid(), rustix::process::PidfdFlags::empty()).is_ok()
    })
}

/// The files that the program's name may mean, in order.
fn candidates(program: &Program<'_>) -> io::Result<Vec<CString>> {
    if program.program.as_bytes().contains(&b'/') {
        return Ok(vec![c_string(program.program.as_bytes())?]);
    }
    let path = program.env.path().unwrap_or(OsStr::new("/bin:/usr/bin"));
    std::env::split_paths(path)
        .map(|folder| if folder.as_os_str().is_empty() { PathBuf::from(".") } else { folder })
        .map(|folder| folder.join(program.program))
        // One that is missing for certain need not be tried in a child.
        .filter(|file| file.is_relative() || file.exists())
        .map(|file| c_string(file.as_os_str().as_bytes()))
        .collect()
}

pub(super) fn c_string(text: &[u8]) -> io::Result<CString> {
    CString::new(text).map_err(|_| io::Error::new(io::ErrorKind::InvalidInput, "a text with a zero byte"))
}

/// All that the child needs, laid out before it exists: it must not allocate.
struct Prepared<'a> {
    cwd: CString,
    streams: [RawFd; 3],
    /// Signals that are not as a program expects them.
    reset: Vec<c_int>,
    on_parent_death: c_int,
    file_limit: Option<libc::rlimit>,
    parent: c_int,
    args: Vec<*const c_char>,
    /// The arguments behind `/bin/sh` and a place for the file: for a script that does not say who runs it.
    shell_args: Vec<*const c_char>,
    env: Vec<*const c_char>,
    /// What the lists above point to.
    _texts: Vec<CString>,
    _env: &'a Environment,
}

impl<'a> Prepared<'a> {
    fn new(program: &'a Program<'_>) -> io::Result<Self> {
        let given = [program.program].into_iter().chain(program.args.iter().map(OsString::as_os_str));
        let texts: Vec<CString> = given.map(|text| c_string(text.as_bytes())).collect::<io::Result<_>>()?;
        let args: Vec<*const c_char> = texts.iter().map(|text| text.as_ptr()).chain([ptr::null()]).collect();
        Ok(Prepared {
            cwd: c_string(program.cwd.as_os_str().as_bytes())?,
            streams: program.streams.map(|stream| stream.as_raw_fd()),
            reset: changed_signals(program.reset),
            on_parent_death: program.on_parent_death.as_raw(),
            file_limit: program.file_limit,
            parent: rustix::process::getpid().as_raw_nonzero().get(),
            shell_args: [&[c"/bin/sh".as_ptr(), ptr::null()], &args[1..]].concat(),
            args,
            env: program.env.pointers(),
            _texts: texts,
            _env: &program.env,
        })
    }

    /// Starts exactly this file.
    #[expect(unsafe_code, reason = "no library offers a vfork with a parent-death signal")]
    fn start(&self, file: &CString) -> io::Result<Started> {
        let mut shell_args = self.shell_args.clone();
        shell_args[1] = file.as_ptr();
        let mut child =
            Child { prepared: self, file: file.as_ptr(), shell_args: shell_args.as_ptr(), error: 0 };
        let mut pidfd: c_int = -1;
        let flags = libc::CLONE_VM | libc::CLONE_VFORK | libc::CLONE_PIDFD | libc::SIGCHLD;
        let blocked = Blocked::all();
        // SAFETY: the child runs `become_program` on a stack of its own, aligned as every platform wants it, and is
        // the only user of `child` until it has ended or become another program: CLONE_VFORK makes this thread wait
        // for that. It calls system calls only, and changes no memory but `child.error` and its stack. No handler of
        // a signal can run in it, because all signals are blocked until it has removed every handler.
        let pid = STACK.with_borrow_mut(|stack| unsafe {
            let top = stack.as_mut_ptr().add(STACK_BYTES);
            let top = top.sub(top as usize % 16);
            libc::clone(become_program, top.cast(), flags, (&raw mut child).cast(), &raw mut pidfd)
        });
        let failed = io::Error::last_os_error();
        drop(blocked);
        if pid < 0 {
            return Err(match failed.raw_os_error() {
                // Too old a kernel, or a sandbox that does not know it.
                Some(libc::EINVAL | libc::ENOSYS | libc::EPERM) => io::ErrorKind::Unsupported.into(),
                _ => failed,
            });
        }
        let pid = rustix::process::Pid::from_raw(pid).ok_or(io::ErrorKind::Unsupported)?;
        // SAFETY: the kernel has just opened it for us.
        let pidfd = unsafe { OwnedFd::from_raw_fd(pidfd) };
        if child.error != 0 {
            // It has ended already.
            let _ = rustix::process::waitpid(Some(pid), rustix::process::WaitOptions::empty());
            return Err(io::Error::from_raw_os_error(child.error));
        }
        Ok(Started { pid, pidfd })
    }
}

/// What parent and child share.
struct Child<'a> {
    prepared: &'a Prepared<'a>,
    file: *const c_char,
    shell_args: *const *const c_char,
    /// Why the child could not become the program.
    error: c_int,
}

/// Runs in the child.
#[expect(unsafe_code, reason = "plain system calls, between vfork and exec")]
extern "C" fn become_program(child: *mut c_void) -> c_int {
    // SAFETY: `child` is the `Child` that the parent keeps until this has ended. Each call is given pointers that were
    // made for it in `Prepared` and `Prepared::start`.
    unsafe {
        let child = &mut *child.cast::<Child<'_>>();
        let prepared = child.prepared;
        // Out of the terminal's reach first: what a Ctrl-C sends to Raymond's group is not for the step.
        let is_ready = libc::setpgid(0, 0) == 0
            && libc::prctl(libc::PR_SET_PDEATHSIG, c_ulong::from(prepared.on_parent_death.unsigned_abs()))
                == 0
            && take_defaults(&prepared.reset)
            && take_file_limit(prepared.file_limit.as_ref())
            && take_streams(prepared.streams)
            && libc::chdir(prepared.cwd.as_ptr()) == 0;
        if !is_ready {
            child.error = *libc::__errno_location();
        } else if libc::getppid() != prepared.parent {
            // The parent died before the line above took effect; nobody would send the signal.
            child.error = libc::EPIPE;
        } else {
            libc::execve(child.file, prepared.args.as_ptr(), prepared.env.as_ptr());
            if *libc::__errno_location() == libc::ENOEXEC {
                libc::execve(c"/bin/sh".as_ptr(), child.shell_args, prepared.env.as_ptr());
            }
            child.error = *libc::__errno_location();
        }
        libc::_exit(127)
    }
}

/// The signals that have a handler, or are ignored and should not be. What else Raymond ignores stays ignored, as
/// `nohup` wants it; SIGPIPE is Rust's own doing. Asked for in the parent: some C libraries take a lock for it.
#[expect(unsafe_code, reason = "the standard library has no way to ask for a signal's disposition")]
fn changed_signals(reset: &[c_int]) -> Vec<c_int> {
    let is_changed = |signal: &c_int| {
        // SAFETY: all zeros is a valid `sigaction`, and the call only writes it. The C library keeps two signals for
        // itself and refuses to tell.
        let (told, now) = unsafe {
            let mut now: libc::sigaction = std::mem::zeroed();
            (libc::sigaction(*signal, ptr::null(), &raw mut now) == 0, now.sa_sigaction)
        };
        let stays = now == libc::SIG_IGN && *signal != libc::SIGPIPE && !reset.contains(signal);
        told && now != libc::SIG_DFL && !stays
    };
    (1..=LAST_SIGNAL).filter(is_changed).collect()
}

/// Removes every handler, so that none can run in memory that is not ours; then no signal is blocked any more.
#[expect(unsafe_code, reason = "plain system calls, between vfork and exec")]
unsafe fn take_defaults(reset: &[c_int]) -> bool {
    // SAFETY: all zeros is a valid `sigaction`, which means the default, and a valid set of signals.
    unsafe {
        let default: libc::sigaction = std::mem::zeroed();
        for signal in reset {
            if libc::sigaction(*signal, &raw const default, ptr::null_mut()) != 0 {
                return false;
            }
        }
        let mut none: libc::sigset_t = std::mem::zeroed();
        libc::sigemptyset(&raw mut none) == 0
            && libc::sigprocmask(libc::SIG_SETMASK, &raw const none, ptr::null_mut()) == 0
    }
}

#[expect(unsafe_code, reason = "plain system calls, between vfork and exec")]
unsafe fn take_file_limit(limit: Option<&libc::rlimit>) -> bool {
    // SAFETY: the call only reads what it is given.
    limit.is_none_or(|limit| unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, ptr::from_ref(limit)) } == 0)
}

/// The three streams get the numbers 0 to 2, and only they stay open.
#[expect(unsafe_code, reason = "plain system calls, between vfork and exec")]
unsafe fn take_streams(streams: [RawFd; 3]) -> bool {
    // SAFETY: numbers of descriptors are plain data.
    unsafe { (0..).zip(streams).all(|(number, stream)| libc::dup2(stream, number) >= 0) }
}

/// Blocks all signals for this thread, for as long as it lives.
struct Blocked {
    before: libc::sigset_t,
}

impl Blocked {
    #[expect(unsafe_code, reason = "the standard library cannot block signals")]
    fn all() -> Self {
        // SAFETY: both sets are valid places to write to.
        unsafe {
            let mut all: libc::sigset_t = std::mem::zeroed();
            let mut before: libc::sigset_t = std::mem::zeroed();
            libc::sigfillset(&raw mut all);
            libc::pthread_sigmask(libc::SIG_SETMASK, &raw const all, &raw mut before);
            Blocked { before }
        }
    }
}

impl Drop for Blocked {
    #[expect(unsafe_code, reason = "the standard library cannot block signals")]
    fn drop(&mut self) {
        // SAFETY: `before` was filled in by the system.
        unsafe {
            libc::pthread_sigmask(libc::SIG_SETMASK, &raw const self.before, ptr::null_mut());
        }
    }
}
