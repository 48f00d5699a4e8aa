//! How a run is shown: on a terminal, as JSON, in debug files, by a command of the user's. Views are given what is
//! committed and change nothing.

pub mod console;
mod costs;
pub mod debug;
pub mod json;
mod live;
pub mod notify;
pub(crate) mod output;
mod progress;
pub mod recorder;
pub(crate) mod status;
pub(crate) mod steps;
pub(crate) mod summary;
pub(crate) mod text;
pub(crate) mod tokens;
pub(crate) mod transcript;
pub(crate) mod whereabouts;
mod wording;

use raymond_core::event::Event;
use raymond_core::name::AgentId;
use raymond_core::run::Run;

pub use console::{Console, Detail};
pub use json::JsonLines;
pub use live::{LiveView, draw_again_after_a_pause, is_wanted as is_live_view_wanted};

use crate::run::stop::Stop;

/// The stream that a piece of output came from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Stream {
    Stdout,
    Stderr,
}

/// Shows a run to a person, or reports it to a program. A view changes nothing about the run.
pub trait View {
    /// An event that is committed. The run is as it is after the last event of the same commit, `run.seq` being the
    /// number of that event: what is shown must be true when it is seen, not in the middle of a commit.
    fn event(&mut self, run: &Run, event: &Event);
    /// A piece of a step's output. It is not part of the run's state.
    fn output(&mut self, _agent: &AgentId, _stream: Stream, _bytes: &[u8]) {}
    /// The run was asked to stop, and this many steps are still running.
    fn stopping(&mut self, _how: Stop, _running: usize) {}
}
