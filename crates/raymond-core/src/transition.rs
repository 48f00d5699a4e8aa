//! Makes one transition of the tags of a step, before its names are looked up.
//!
//! A step's output is valid only if its tags make exactly one transition. [`read`] returns it, or an error that tells
//! the author of the state what to write instead.

mod error;
mod reader;
#[cfg(test)]
mod tests;

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::payload::Payload;
use crate::tag::TagName;
use crate::worktree::Wanted;
pub use error::ProtocolError;
pub(crate) use error::beside_forks;
pub use reader::read;

/// A transition; state names, scopes and directories are as written, trimmed but not looked up.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Transition {
    Goto(Jump),
    Reset {
        jump: Jump,
        cd: Option<String>,
    },
    Call(Invoke),
    Function(Invoke),
    /// If `joins`, the agent continues only when all its workers have ended.
    Fork {
        forks: Vec<Fork>,
        next: Jump,
        joins: bool,
    },
    Result {
        payload: Payload,
    },
    Ask(Ask),
    Join {
        target: String,
        input: Option<Payload>,
    },
    CallWorkflow(InvokeWorkflow),
    FunctionWorkflow {
        invoke: InvokeWorkflow,
        cd: Option<String>,
    },
    ResetWorkflow {
        scope: String,
        input: Option<Payload>,
        inputs: Vec<(String, String)>,
        cd: Option<String>,
    },
}

/// The state in which the agent itself continues.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Jump {
    pub target: String,
    pub input: Option<Payload>,
    pub delay: Option<Duration>,
}

/// A called state, whose result goes to another state.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Invoke {
    pub target: String,
    pub return_to: String,
    pub input: Option<Payload>,
}

/// A called workflow, whose result goes to a state of this one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct InvokeWorkflow {
    pub scope: String,
    pub return_to: String,
    pub input: Option<Payload>,
    /// The values that it is given for its own inputs, in the order written.
    pub inputs: Vec<(String, String)>,
}

/// One worker to start.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fork {
    pub target: ForkTarget,
    pub input: Option<Payload>,
    pub cd: Option<String>,
    pub worktree: Option<Wanted>,
    /// In the order written; the names are valid, different and not reserved.
    pub variables: Vec<(String, String)>,
}

/// Where a worker starts.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ForkTarget {
    State(String),
    Workflow(String),
}

/// A question to a person.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ask {
    pub question: Payload,
    pub next: String,
    pub timeout: Option<Duration>,
    pub timeout_next: Option<String>,
    /// Whether an empty answer counts.
    pub empty_ok: bool,
}

/// One tag of a transition with the names in it, as they were written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Names<'t> {
    pub tag: TagName,
    /// A state or another workflow, depending on the tag; `None` if the content is text.
    pub target: Option<&'t str>,
    pub return_to: Option<&'t str>,
    /// Forks in one step all have the same one, no matter which of the tags has the attribute.
    pub next: Option<&'t str>,
    pub timeout_next: Option<&'t str>,
    pub cd: Option<&'t str>,
}

impl<'t> Names<'t> {
    fn none(tag: TagName) -> Self {
        Self { tag, target: None, return_to: None, next: None, timeout_next: None, cd: None }
    }

    fn to(tag: TagName, target: &'t str) -> Self {
        Self { target: Some(target), ..Self::none(tag) }
    }
}

impl Transition {
    /// The tags that make the transition; more than one only if they are forks.
    #[must_use]
    pub fn tags(&self) -> Vec<Names<'_>> {
        let one = match self {
            Self::Goto(jump) => Names::to(TagName::Goto, &jump.target),
            Self::Reset { jump, cd } => {
                Names { cd: cd.as_deref(), ..Names::to(TagName::Reset, &jump.target) }
            }
            Self::Call(invoke) => {
                Names { return_to: Some(&invoke.return_to), ..Names::to(TagName::Call, &invoke.target) }
            }
            Self::Function(invoke) => {
                Names { return_to: Some(&invoke.return_to), ..Names::to(TagName::Function, &invoke.target) }
            }
            Self::Fork { forks, next, joins: _ } => {
                return forks.iter().map(|fork| fork.names(next)).collect();
            }
            Self::Result { .. } => Names::none(TagName::Result),
            Self::Ask(ask) => Names {
                next: Some(&ask.next),
                timeout_next: ask.timeout_next.as_deref(),
                ..Names::none(TagName::Ask)
            },
            Self::Join { target, .. } => Names::to(TagName::Join, target),
            Self::CallWorkflow(invoke) => Names {
                return_to: Some(&invoke.return_to),
                ..Names::to(TagName::CallWorkflow, &invoke.scope)
            },
            Self::FunctionWorkflow { invoke, cd } => Names {
                return_to: Some(&invoke.return_to),
                cd: cd.as_deref(),
                ..Names::to(TagName::FunctionWorkflow, &invoke.scope)
            },
            Self::ResetWorkflow { scope, cd, .. } => {
                Names { cd: cd.as_deref(), ..Names::to(TagName::ResetWorkflow, scope) }
            }
        };
        vec![one]
    }

    /// The name of its tag; with forks, of the first.
    #[must_use]
    pub fn tag_name(&self) -> TagName {
        self.tags().first().map_or(TagName::Fork, |names| names.tag)
    }

    /// All names of states of this scope, targets first; a name that is used twice is listed twice.
    #[must_use]
    pub fn state_names(&self) -> Vec<&str> {
        let tags = self.tags();
        let targets = tags.iter().filter(|names| !names.tag.is_workflow()).filter_map(|names| names.target);
        // If there are several tags, these names are the same in all of them.
        let others = tags.first().map(|names| [names.return_to, names.next, names.timeout_next]);
        targets.chain(others.into_iter().flatten().flatten()).collect()
    }

    /// All other workflows that it names.
    #[must_use]
    pub fn scopes(&self) -> Vec<&str> {
        let tags = self.tags().into_iter().filter(|names| names.tag.is_workflow());
        tags.filter_map(|names| names.target).collect()
    }

    /// The values that it gives to other workflows, each with the workflow as it is named.
    #[must_use]
    pub fn inputs(&self) -> Vec<(&str, &[(String, String)])> {
        match self {
            Self::CallWorkflow(invoke) | Self::FunctionWorkflow { invoke, .. } => {
                vec![(&invoke.scope, &invoke.inputs)]
            }
            Self::ResetWorkflow { scope, inputs, .. } => vec![(scope, inputs)],
            Self::Fork { forks, .. } => forks.iter().filter_map(Fork::inputs).collect(),
            Self::Goto(_)
            | Self::Reset { .. }
            | Self::Call(_)
            | Self::Function(_)
            | Self::Result { .. }
            | Self::Ask(_)
            | Self::Join { .. } => Vec::new(),
        }
    }

    /// The worktrees that it asks for.
    #[must_use]
    pub fn worktrees(&self) -> Vec<&Wanted> {
        match self {
            Self::Fork { forks, .. } => forks.iter().filter_map(|fork| fork.worktree.as_ref()).collect(),
            Self::Goto(_)
            | Self::Reset { .. }
            | Self::Call(_)
            | Self::Function(_)
            | Self::Result { .. }
            | Self::Ask(_)
            | Self::Join { .. }
            | Self::CallWorkflow(_)
            | Self::FunctionWorkflow { .. }
            | Self::ResetWorkflow { .. } => Vec::new(),
        }
    }

    /// All texts that it passes on.
    pub fn payloads_mut(&mut self) -> Vec<&mut Payload> {
        match self {
            Self::Goto(jump) | Self::Reset { jump, .. } => jump.input.iter_mut().collect(),
            Self::Call(invoke) | Self::Function(invoke) => invoke.input.iter_mut().collect(),
            Self::CallWorkflow(invoke) | Self::FunctionWorkflow { invoke, .. } => {
                invoke.input.iter_mut().collect()
            }
            Self::Fork { forks, next, joins: _ } => {
                forks.iter_mut().filter_map(|fork| fork.input.as_mut()).chain(&mut next.input).collect()
            }
            Self::Result { payload } => vec![payload],
            Self::Ask(ask) => vec![&mut ask.question],
            Self::Join { input, .. } | Self::ResetWorkflow { input, .. } => input.iter_mut().collect(),
        }
    }

    /// All working directories that it names.
    #[must_use]
    pub fn directories(&self) -> Vec<&str> {
        self.tags().into_iter().filter_map(|names| names.cd).collect()
    }
}

impl Fork {
    fn inputs(&self) -> Option<(&str, &[(String, String)])> {
        match &self.target {
            ForkTarget::State(_) => None,
            ForkTarget::Workflow(scope) => Some((scope, &self.variables)),
        }
    }

    fn names<'t>(&'t self, next: &'t Jump) -> Names<'t> {
        let (tag, target) = match &self.target {
            ForkTarget::State(name) => (TagName::Fork, name),
            ForkTarget::Workflow(scope) => (TagName::ForkWorkflow, scope),
        };
        Names { next: Some(&next.target), cd: self.cd.as_deref(), ..Names::to(tag, target) }
    }
}

/// A transition, and warnings about how it was written.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reading {
    pub transition: Transition,
    pub warnings: Vec<String>,
}
