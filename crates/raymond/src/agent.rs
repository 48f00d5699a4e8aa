//! Agent programs: how a turn is run with one, and what its result is.
//!
//! Each kind of program is an [`AgentProgram`]: a file or a folder below, and a line in [`KINDS`]. All other modules
//! use only the trait and the types of [`turn`] and [`fault`]; no other part of Raymond depends on a particular
//! program. There is little I/O here: [`session`] copies the files of a conversation, a program that answers in this
//! process may read its answers from the workflow, and Claude Code's part looks which files a prompt names and which
//! model its settings choose. Programs are started by `run::step::prompt`.

mod claude;
mod fault;
mod lines;
mod program;
mod reader;
pub mod registry;
pub mod scripted;
pub mod session;
#[cfg(test)]
mod suite;
#[cfg(test)]
pub(crate) mod testing;
mod turn;

pub use fault::{Class, TurnFault};
pub use program::{AgentProgram, Capabilities, TurnDecoder, WorkflowFile, WorkflowFiles};
pub use reader::TurnReader;
pub use turn::{
    Asked, Continued, Cost, Filled, Invocation, Plain, Tokens, Turn, TurnEnding, TurnEvent, TurnFailure,
    TurnReport,
};

use std::sync::Arc;

use crate::config::BackendSettings;

/// A kind of agent program: the value of `kind` in a table `[backend.NAME]`, and how a program is made from that table.
pub struct Kind {
    pub name: &'static str,
    make: fn(&BackendSettings) -> Arc<dyn AgentProgram>,
}

/// Every kind. Each is also a backend under its own name; the first is the default.
pub const KINDS: &[Kind] =
    &[Kind { name: "claude", make: claude::program }, Kind { name: "scripted", make: scripted::program }];

/// The backend that is used when none is chosen.
pub const DEFAULT_BACKEND: &str = KINDS[0].name;
