//! A program that was started, in whichever way this system does it best.

use std::io;
use std::process::ExitStatus;

use tokio::process::ChildStdin;

#[cfg(target_os = "linux")]
use super::quick::QuickChild;

pub(super) enum Child {
    /// By the runtime, as the standard library does it.
    Common(tokio::process::Child),
    /// Without a copy of Raymond's memory.
    #[cfg(target_os = "linux")]
    Quick(QuickChild),
}

impl Child {
    /// None once it has been waited for.
    pub(super) fn id(&self) -> Option<u32> {
        match self {
            Child::Common(child) => child.id(),
            #[cfg(target_os = "linux")]
            Child::Quick(child) => Some(child.id()),
        }
    }

    pub(super) fn take_stdin(&mut self) -> Option<ChildStdin> {
        match self {
            Child::Common(child) => child.stdin.take(),
            #[cfg(target_os = "linux")]
            Child::Quick(child) => child.stdin.take(),
        }
    }

    /// May be cancelled and called again.
    pub(super) async fn wait(&mut self) -> io::Result<ExitStatus> {
        match self {
            Child::Common(child) => child.wait().await,
            #[cfg(target_os = "linux")]
            Child::Quick(child) => child.wait().await,
        }
    }

    pub(super) fn try_wait(&mut self) -> io::Result<Option<ExitStatus>> {
        match self {
            Child::Common(child) => child.try_wait(),
            #[cfg(target_os = "linux")]
            Child::Quick(child) => child.try_wait(),
        }
    }
}
