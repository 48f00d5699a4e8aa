//! A running program, however it was started.

use std::io;
use std::process::ExitStatus;

use tokio::process::ChildStdin;

pub(super) enum Child {
    /// Started by tokio and the standard library.
    Common(tokio::process::Child),
    /// Started without copying Raymond's memory.
    #[cfg(target_os = "linux")]
    Vfork(os_process::VforkChild, Option<ChildStdin>),
}

impl Child {
    /// The process id; `None` once the program has been waited for.
    pub(super) fn id(&self) -> Option<u32> {
        match self {
            Child::Common(child) => child.id(),
            #[cfg(target_os = "linux")]
            Child::Vfork(child, _) => Some(child.id()),
        }
    }

    /// Whether it was started in the cgroup that it was meant for.
    pub(super) fn is_in_cgroup(&self) -> bool {
        match self {
            Child::Common(_) => false,
            #[cfg(target_os = "linux")]
            Child::Vfork(child, _) => child.is_in_cgroup(),
        }
    }

    pub(super) fn take_stdin(&mut self) -> Option<ChildStdin> {
        match self {
            Child::Common(child) => child.stdin.take(),
            #[cfg(target_os = "linux")]
            Child::Vfork(_, stdin) => stdin.take(),
        }
    }

    /// May be cancelled and called again.
    pub(super) async fn wait(&mut self) -> io::Result<ExitStatus> {
        match self {
            Child::Common(child) => child.wait().await,
            #[cfg(target_os = "linux")]
            Child::Vfork(child, _) => child.wait().await,
        }
    }

    pub(super) fn try_wait(&mut self) -> io::Result<Option<ExitStatus>> {
        match self {
            Child::Common(child) => child.try_wait(),
            #[cfg(target_os = "linux")]
            Child::Vfork(child, _) => child.try_wait(),
        }
    }
}
