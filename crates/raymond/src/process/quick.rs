//! A step's program on Linux, started by [`vfork`](super::vfork) and waited for by its pidfd.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;
use std::sync::{Mutex, OnceLock, PoisonError};

use rustix::process::{Pid, WaitOptions};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use tokio::process::{ChildStderr, ChildStdin, ChildStdout};

use super::TOKEN_VARIABLE;
use super::child::Child;
use super::environment::Environment;
use super::spawn::{Launch, ParentDeath};
use super::streams::Streams;
use super::unix::{RESET_IN_CHILD, first_file_limit};
use super::vfork::{self, Program};

pub(super) struct QuickChild {
    pid: Pid,
    pidfd: AsyncFd<OwnedFd>,
    pub(super) stdin: Option<ChildStdin>,
    status: Option<ExitStatus>,
}

/// `Unsupported` where the system is too old for it.
pub(super) fn start(launch: &Launch) -> io::Result<(Child, Streams)> {
    let (stdin, our_stdin) = input(launch)?.unzip();
    let (our_stdout, stdout) = io::pipe()?;
    let (our_stderr, stderr) = io::pipe()?;
    // Whatever can fail comes first: a program that runs must not be reported as one that could not be started.
    let our_stdout = ChildStdout::from_std(OwnedFd::from(our_stdout).into())?;
    let our_stderr = ChildStderr::from_std(OwnedFd::from(our_stderr).into())?;
    let our_stdin = our_stdin.map(|pipe| ChildStdin::from_std(pipe.into())).transpose()?;
    let stdin = match &stdin {
        Some(pipe) => pipe.as_fd(),
        None => null_device()?,
    };
    reap_the_dropped();
    let started = vfork::start(&Program {
        program: &launch.program,
        args: &launch.args,
        env: Environment::with(&launch.env, (TOKEN_VARIABLE, &launch.token))?,
        cwd: &launch.cwd,
        streams: [stdin, stdout.as_fd(), stderr.as_fd()],
        reset: &RESET_IN_CHILD,
        file_limit: first_file_limit(),
        on_parent_death: match launch.on_parent_death {
            ParentDeath::Terminate => rustix::process::Signal::TERM,
            ParentDeath::Kill => rustix::process::Signal::KILL,
        },
    })?;
    let pid = started.pid;
    let pidfd = watch(started.pidfd).inspect_err(|_| {
        let _ = rustix::process::kill_process_group(pid, rustix::process::Signal::KILL);
        let _ = rustix::process::waitpid(Some(pid), WaitOptions::empty());
    })?;
    let child = QuickChild { pid, pidfd, stdin: our_stdin, status: None };
    Ok((Child::Quick(child), Streams::new(Some(our_stdout), Some(our_stderr))))
}

#[expect(unsafe_code, reason = "the runtime cannot know that a descriptor is not closed behind its back")]
fn watch(pidfd: OwnedFd) -> io::Result<AsyncFd<OwnedFd>> {
    // SAFETY: an owned descriptor stays open, and is the same one, until it is dropped with the registration.
    let registered = unsafe { AsyncFd::register_with_interest(pidfd, Interest::READABLE) };
    Ok(registered?)
}

/// What the program reads from, and our end of it, if there is something to say.
fn input(launch: &Launch) -> io::Result<Option<(OwnedFd, OwnedFd)>> {
    if launch.stdin.is_empty() {
        return Ok(None);
    }
    let (theirs, ours) = io::pipe()?;
    Ok(Some((theirs.into(), ours.into())))
}

/// The null device, opened once: it has no position that a program could change for another.
fn null_device() -> io::Result<BorrowedFd<'static>> {
    static NULL: OnceLock<File> = OnceLock::new();
    if let Some(file) = NULL.get() {
        return Ok(file.as_fd());
    }
    let file = File::open("/dev/null")?;
    Ok(NULL.get_or_init(|| file).as_fd())
}

/// Children that nobody waited for, because whoever did was cancelled: dead or about to be.
static DROPPED: Mutex<Vec<Pid>> = Mutex::new(Vec::new());

/// The system keeps the dead until somebody asks for them.
fn reap_the_dropped() {
    let mut dropped = DROPPED.lock().unwrap_or_else(PoisonError::into_inner);
    dropped.retain(|pid| matches!(rustix::process::waitpid(Some(*pid), WaitOptions::NOHANG), Ok(None)));
}

impl Drop for QuickChild {
    fn drop(&mut self) {
        if matches!(self.try_wait(), Ok(None)) {
            DROPPED.lock().unwrap_or_else(PoisonError::into_inner).push(self.pid);
        }
    }
}

impl QuickChild {
    pub(super) fn id(&self) -> u32 {
        self.pid.as_raw_nonzero().get().unsigned_abs()
    }

    pub(super) async fn wait(&mut self) -> io::Result<ExitStatus> {
        if let Some(status) = self.status {
            return Ok(status);
        }
        loop {
            // Becomes readable once the process has ended; before that there is nothing to ask for.
            self.pidfd.readable().await?.clear_ready();
            if let Some(status) = self.try_wait()? {
                return Ok(status);
            }
        }
    }

    /// The pid is the child's for as long as it has not been waited for.
    pub(super) fn try_wait(&mut self) -> io::Result<Option<ExitStatus>> {
        if self.status.is_none() {
            let waited = rustix::process::waitpid(Some(self.pid), WaitOptions::NOHANG)?;
            self.status = waited.map(|(_, status)| ExitStatus::from_raw(status.as_raw()));
        }
        Ok(self.status)
    }
}
