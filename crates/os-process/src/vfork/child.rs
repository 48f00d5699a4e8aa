//! A running child and how it is waited for: its pidfd becomes readable when it has ended.

use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;
use std::sync::{Mutex, PoisonError};

use rustix::process::{Pid, Signal, WaitOptions, kill_process_group, waitpid};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

use super::clone::Cloned;

/// A child that leads a process group of its own. Dropping it does not end it.
#[derive(Debug)]
pub struct VforkChild {
    pid: Pid,
    pidfd: AsyncFd<OwnedFd>,
    is_in_cgroup: bool,
    status: Option<ExitStatus>,
}

impl VforkChild {
    /// If the child cannot be waited for, it is killed.
    pub(super) fn new(Cloned { pid, pidfd, is_in_cgroup }: Cloned) -> io::Result<Self> {
        reap_dropped();
        let pidfd = watch(pidfd).inspect_err(|_| {
            let _ = kill_process_group(pid, Signal::KILL);
            let _ = waitpid(Some(pid), WaitOptions::empty());
        })?;
        Ok(VforkChild { pid, pidfd, is_in_cgroup, status: None })
    }

    /// Whether it was started in the cgroup that it was meant for.
    pub fn is_in_cgroup(&self) -> bool {
        self.is_in_cgroup
    }

    /// The process id, which is also the id of its process group.
    pub fn id(&self) -> u32 {
        self.pid.as_raw_nonzero().get().unsigned_abs()
    }

    /// Waits until the child has ended. May be cancelled and called again.
    pub async fn wait(&mut self) -> io::Result<ExitStatus> {
        if let Some(status) = self.status {
            return Ok(status);
        }
        loop {
            self.pidfd.readable().await?.clear_ready();
            if let Some(status) = self.try_wait()? {
                return Ok(status);
            }
        }
    }

    /// How the child ended, if it has. Its pid cannot belong to another process before this has returned `Some`.
    pub fn try_wait(&mut self) -> io::Result<Option<ExitStatus>> {
        if self.status.is_none() {
            let waited = waitpid(Some(self.pid), WaitOptions::NOHANG)?;
            self.status = waited.map(|(_, status)| ExitStatus::from_raw(status.as_raw()));
        }
        Ok(self.status)
    }
}

#[expect(
    unsafe_code,
    reason = "tokio cannot know that the file descriptor is not closed while it is registered"
)]
fn watch(pidfd: OwnedFd) -> io::Result<AsyncFd<OwnedFd>> {
    // SAFETY: an `OwnedFd` stays open, with the same number, until it is dropped together with the registration.
    let registered = unsafe { AsyncFd::register_with_interest(pidfd, Interest::READABLE) };
    Ok(registered?)
}

/// Children that were dropped before they ended. They become zombies, which are removed at the next start.
static DROPPED: Mutex<Vec<Pid>> = Mutex::new(Vec::new());

impl Drop for VforkChild {
    fn drop(&mut self) {
        if matches!(self.try_wait(), Ok(None)) {
            DROPPED.lock().unwrap_or_else(PoisonError::into_inner).push(self.pid);
        }
    }
}

fn reap_dropped() {
    let mut dropped = DROPPED.lock().unwrap_or_else(PoisonError::into_inner);
    dropped.retain(|pid| matches!(waitpid(Some(*pid), WaitOptions::NOHANG), Ok(None)));
}
