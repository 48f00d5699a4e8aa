//! Runs one program at a time for a step, and ends everything a step has started.
//!
//! [`supervise`] starts a program, hands its output on in raw chunks, watches the time and says how it
//! ended. [`Reaper`] finds and ends whole process trees, including children that moved to another session.
//!
//! Bounds: two buffers of at most [`CHUNK_BYTES`] for each running program and nothing else grows with its output;
//! one thread and one look at the process table per tick, however many trees are being ended.
//!
//! Programs are started on the calling thread. That must be one that lives as long as Raymond itself (the
//! main thread, with a current-thread runtime), because the system tells a child of its parent's death when
//! the *thread* that started it ends.

mod child;
#[cfg(target_os = "linux")]
mod environment;
#[cfg(target_os = "linux")]
mod lent;
#[cfg(target_os = "linux")]
mod quick;
mod reaper;
pub mod secrets;
mod spawn;
mod stop;
mod streams;
mod supervise;
mod table;
mod tail;
#[cfg(unix)]
#[cfg(test)]
mod tests;
#[cfg(unix)]
mod unix;
#[cfg(target_os = "linux")]
mod vfork;
#[cfg(windows)]
mod windows;

pub use reaper::{Reaper, Target};
pub use spawn::{Launch, ParentDeath, SpawnError};
pub use stop::StopSignal;
pub use supervise::{AfterExit, Ending, Exit, Flow, Limits, Outcome, Sink, supervise};
pub use tail::Tail;
#[cfg(unix)]
pub use unix::is_hangup_ignored;
#[cfg(windows)]
pub use windows::{Job, Member, creation_flags, find_program};

/// What each system does in its own way.
#[cfg(unix)]
use unix as system;
#[cfg(windows)]
use windows as system;

pub use system::raise_file_limit;

/// The environment variable by which everything that a step has started is found again.
pub const TOKEN_VARIABLE: &str = "RAYMOND_STEP_TOKEN";

/// The largest piece of output that is handed on at once.
pub const CHUNK_BYTES: usize = 64 * 1024;
