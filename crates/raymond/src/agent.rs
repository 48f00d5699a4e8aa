//! Agent programs: how a turn is run with one, and what its result is.
//!
//! Each kind of program is an [`AgentProgram`]: a file or a folder below, and a line in [`KINDS`]. All other modules
//! use only the trait and the types of [`turn`] and [`fault`]; no other part of Raymond depends on a particular
//! program. There is little I/O here: [`session`] copies the files of a conversation, which its program looks for, a
//! program that answers in this process may read its answers from the workflow, and Claude Code's part looks which files
//! a prompt names and which model its settings choose. Programs are started by `run::step::prompt`.

mod acp;
mod claude;
mod codex;
mod command;
mod copilot;
mod ending;
mod estimate;
mod events;
mod fault;
mod gemini;
mod grant;
mod kept;
mod launcher;
mod lines;
mod opencode;
mod pi;
pub mod prepared;
pub mod price;
mod program;
mod reader;
mod refusal;
pub mod registry;
mod reset_time;
mod rpc;
pub mod scripted;
pub mod session;
#[cfg(test)]
pub(crate) mod suite;
#[cfg(test)]
pub(crate) mod testing;
mod turn;

pub use fault::{Class, TurnFault};
pub use grant::{Given, Giver, Grant, GrantKey, Grants};
pub use program::{
    AgentProgram, Capabilities, Inspection, PromptLimit, SessionId, TokensTold, TurnDecoder, WorkflowFile,
    WorkflowFiles,
};
pub use reader::{Counting, Settled, TurnReader};
pub use turn::{
    Answer, Asked, Context, Continued, Cost, Filled, Invocation, Plain, Pricing, Tokens, Turn, TurnEnding,
    TurnEvent, TurnFailure, TurnReport,
};

use std::sync::Arc;

use crate::config::BackendSettings;

/// A kind of agent program: the value of `kind` in a table `[backend.NAME]`, and how a program is made from that table.
pub struct Kind {
    pub name: &'static str,
    /// An error says which setting is missing or wrong.
    make: fn(&BackendSettings) -> Result<Arc<dyn AgentProgram>, String>,
    /// What such a program obeys in its working folder: files, and folders with all that is in them.
    pub obeys: &'static [&'static str],
}

/// Every kind. Each that needs no settings is also a backend under its own name; the first is the default.
pub const KINDS: &[Kind] = &[
    Kind { name: "claude", make: claude::program, obeys: claude::OBEYED },
    Kind { name: "acp", make: acp::program, obeys: &[] },
    Kind { name: "codex", make: codex::program, obeys: codex::OBEYED },
    Kind { name: "command", make: command::program, obeys: &[] },
    Kind { name: "copilot", make: copilot::program, obeys: copilot::OBEYED },
    Kind { name: "gemini", make: gemini::program, obeys: gemini::OBEYED },
    Kind { name: "opencode", make: opencode::program, obeys: opencode::OBEYED },
    Kind { name: "pi", make: pi::program, obeys: pi::OBEYED },
    Kind { name: "scripted", make: scripted::program, obeys: &[] },
];

/// The backend that is used when none is chosen.
pub const DEFAULT_BACKEND: &str = KINDS[0].name;
