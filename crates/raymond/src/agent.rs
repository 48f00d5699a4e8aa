//! Agent programs: how a turn is taken with one, and what came of it.
//!
//! Each kind of program is an [`AgentProgram`]: a file or a folder below, and a line in [`KINDS`]. Everything outside
//! speaks to the trait and to the vocabulary of [`turn`] and [`fault`]; no other part of Raymond knows one program from
//! another. All of this is free of I/O, except that [`session`] copies the files of a conversation and that a program
//! which answers in this process may read its answers from the workflow. Starting programs is the business of
//! `run::step::prompt`.

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
    Asked, Continued, Cost, Invocation, Tokens, Turn, TurnEnding, TurnEvent, TurnFailure, TurnReport,
};

use std::sync::Arc;

use crate::config::BackendSettings;

/// A kind of agent program: what `kind` in a table `[backend.NAME]` names, and how it is made from that table.
pub struct Kind {
    pub name: &'static str,
    make: fn(&BackendSettings) -> Arc<dyn AgentProgram>,
}

/// Every kind. Each is a backend under its own name, too; the first is the default.
pub const KINDS: &[Kind] =
    &[Kind { name: "claude", make: claude::program }, Kind { name: "scripted", make: scripted::program }];

/// The backend when nothing else is chosen.
pub const DEFAULT_BACKEND: &str = KINDS[0].name;
