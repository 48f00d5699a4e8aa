//! Starting and ending processes in ways that the standard library does not offer.
//!
//! - Unix: [`isolate`] adds to a [`std::process::Command`] what a supervised program needs: a process group, a
//!   parent-death signal (Linux), a file limit, and signals that are not ignored.
//! - Linux: [`Spawn`] starts a program with the same properties, but with `vfork`, so that the time does not grow with
//!   the memory of the parent process; if wanted, in another cgroup.
//! - macOS: `start_time` and `boot_session` distinguish processes with the same number.
//! - Windows: [`Job`] is a job object, which ends a program together with everything that it has started.
//!
//! This is the only crate of the workspace with `unsafe` code. Everything that it exports is safe to call.

#[cfg(windows)]
mod job;
#[cfg(target_os = "macos")]
mod macos;
#[cfg(unix)]
mod unix;
#[cfg(target_os = "linux")]
mod vfork;

#[cfg(windows)]
pub use job::{Job, Member, creation_flags, send_ctrl_break};
#[cfg(target_os = "macos")]
pub use macos::{boot_session, parent, start_time};
#[cfg(unix)]
pub use unix::{
    Isolation, detach, is_ignored, isolate, restore_signals, stop_ignoring, survive_file_size_limit,
};
#[cfg(target_os = "linux")]
pub use vfork::{Spawn, VforkChild};
