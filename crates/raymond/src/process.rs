//! Runs the programs of steps, and ends everything that they have started.
//!
//! [`supervise`] starts a program, passes its output on in raw chunks, enforces the time limits and reports how it
//! ended. [`Reaper`] finds and ends whole process trees, including children that moved to another session.
//!
//! Bounds: two buffers of at most [`CHUNK_BYTES`] for each running program; nothing else grows with its output. One
//! thread and one scan of the process table per tick, however many trees are being ended.
//!
//! Programs must be started on a thread that lives as long as Raymond itself (the main thread, with a current-thread
//! runtime), because Linux sends the parent-death signal when the *thread* that started a child ends.

#[cfg(target_os = "linux")]
mod cgroup;
mod child;
mod containment;
mod descent;
#[cfg(target_os = "linux")]
mod linux;
mod lookup;
#[cfg(not(target_os = "linux"))]
mod no_cgroup;
#[cfg(target_os = "linux")]
mod orphans;
#[cfg(target_os = "linux")]
mod peer;
mod reaper;
pub mod secrets;
mod sight;
mod spawn;
mod stop;
mod streams;
mod supervise;
mod suspend;
mod table;
mod tail;
#[cfg(unix)]
#[cfg(test)]
mod tests;
mod trace;
#[cfg(unix)]
mod unix;
#[cfg(windows)]
mod windows;

pub use cgroup::Cgroup;
pub use containment::Containment;
pub use descent::{RunMarks, Sign, has_token, sign_of};
pub use lookup::program_on_path;
#[cfg(target_os = "linux")]
pub use orphans::{adopt_orphans, remove_dead_orphans};
#[cfg(windows)]
pub use os_process::{Job, creation_flags};
#[cfg(target_os = "linux")]
pub use peer::{Connection, Peer, peer_of};
pub use reaper::{Reaper, Target};
pub use sight::{Blind, check_sight, check_user_namespace};
pub use spawn::{ParentDeath, ProgramSpec, SpawnError};
pub use stop::StopSignal;
pub use supervise::{
    AfterExit, Ending, Flow, Input, ProcessExit, Sink, Started, Supervised, TimeLimits, supervise,
};
pub use suspend::suspend;
pub use tail::OutputTail;
pub use trace::{Group, Trace};
#[cfg(unix)]
pub use unix::{is_hangup_ignored, is_suspension_ignored};
#[cfg(windows)]
pub use windows::find_program;

#[cfg(not(target_os = "linux"))]
use no_cgroup as cgroup;

/// What differs between systems.
#[cfg(unix)]
use unix as system;
#[cfg(windows)]
use windows as system;

pub use system::{file_limit, raise_file_limit, survive_file_size_limit};

/// The environment variable that marks all processes of a step, so that they can be found.
pub const TOKEN_VARIABLE: &str = "RAYMOND_STEP_TOKEN";

/// The largest chunk of output that is passed on at once.
pub const CHUNK_BYTES: usize = 64 * 1024;
