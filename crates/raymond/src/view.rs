//! Those who watch a run. They are told what is committed, and never drive anything.

pub mod console;
mod costs;
pub mod debug;
pub mod json;
mod live;
pub mod notify;
pub(crate) mod output;
pub(crate) mod status;
pub(crate) mod text;
mod wording;

use raymond_core::event::Event;
use raymond_core::name::AgentId;

pub use console::{Console, Detail};
pub use json::JsonLines;
pub use live::{LiveView, draw_again_after_a_pause, is_wanted as is_live_view_wanted};

use crate::run::driver::Stop;

/// Where a line of output came from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Stream {
    Stdout,
    Stderr,
}

pub trait Observer {
    /// A committed event.
    fn event(&mut self, event: &Event);
    /// A piece of a step's output: telemetry, not part of the run's state.
    fn output(&mut self, _agent: &AgentId, _stream: Stream, _bytes: &[u8]) {}
    /// The run was asked to stop while so many steps run.
    fn stopping(&mut self, _how: Stop, _running: usize) {}
}
