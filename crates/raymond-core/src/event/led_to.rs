//! The transition that a finished step made: one variant for each kind, with exactly its fields.
//!
//! On the wire it is flat, next to the other fields of `step_finished`: `tag`, and of `target`, `return`, `next`,
//! `input`, `result`, `cwd`, `scope` and `scope_hash` those that the tag has. [`LedTo::parts`] returns them, and
//! [`OwnedParts::into_led_to`] refuses missing and surplus fields.

#![warn(clippy::wildcard_enum_match_arm, reason = "a new kind of transition must be handled everywhere")]

use super::OtherWorkflow;
use crate::payload::Payload;
use crate::tag::TagName;
use crate::workflow::StateFile;

/// The transition of a finished step.
#[derive(Clone, Debug, PartialEq)]
pub enum LedTo {
    Goto {
        target: StateFile,
        input: Option<Payload>,
    },
    Reset {
        target: StateFile,
        input: Option<Payload>,
        cwd: Option<String>,
    },
    Call {
        target: StateFile,
        return_to: StateFile,
        input: Option<Payload>,
    },
    Function {
        target: StateFile,
        return_to: StateFile,
        input: Option<Payload>,
    },
    /// Each worker has its own `agent_started`.
    Fork {
        tag: ForkTag,
        /// The first worker's state.
        target: StateFile,
        /// The state in which the agent itself continues.
        next: StateFile,
        /// The input of that state.
        input: Option<Payload>,
        /// Whether it continues only when all its workers have ended.
        joins: bool,
    },
    /// A `result` that returns to a caller.
    Return {
        target: StateFile,
        input: Payload,
    },
    /// A `result` without a caller: the agent ends.
    End {
        result: Payload,
    },
    /// The question has its own `ask_opened`.
    Ask {
        next: StateFile,
    },
    Join {
        target: StateFile,
    },
    /// The called state continues the caller's conversation, and so works in the same folder.
    CallWorkflow {
        workflow: OtherWorkflow,
        target: StateFile,
        return_to: StateFile,
        input: Option<Payload>,
    },
    FunctionWorkflow {
        workflow: OtherWorkflow,
        target: StateFile,
        return_to: StateFile,
        input: Option<Payload>,
        cwd: Option<String>,
    },
    ResetWorkflow {
        workflow: OtherWorkflow,
        target: StateFile,
        input: Option<Payload>,
        cwd: Option<String>,
    },
}

/// The tag that started the first worker of a fork.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ForkTag {
    Fork,
    ForkWorkflow,
}

/// The fields of a transition, as on the wire.
#[derive(Clone, Copy, Debug)]
pub struct Parts<'a> {
    pub tag: TagName,
    /// The target state: for a fork the state of the worker, for a result the return state of the caller.
    pub target: Option<&'a StateFile>,
    pub return_to: Option<&'a StateFile>,
    pub next: Option<&'a StateFile>,
    pub input: Option<&'a Payload>,
    pub result: Option<&'a Payload>,
    pub cwd: Option<&'a str>,
    pub workflow: Option<&'a OtherWorkflow>,
    /// Whether the agent waits for its workers before it continues at `next`.
    pub joins: bool,
}

impl<'a> Parts<'a> {
    fn of(tag: TagName) -> Self {
        Self {
            tag,
            target: None,
            return_to: None,
            next: None,
            input: None,
            result: None,
            cwd: None,
            workflow: None,
            joins: false,
        }
    }

    fn to(tag: TagName, target: &'a StateFile, input: &'a Option<Payload>) -> Self {
        Self { target: Some(target), input: input.as_ref(), ..Self::of(tag) }
    }
}

impl LedTo {
    pub fn parts(&self) -> Parts<'_> {
        match self {
            LedTo::Goto { target, input } => Parts::to(TagName::Goto, target, input),
            LedTo::Reset { target, input, cwd } => {
                Parts { cwd: cwd.as_deref(), ..Parts::to(TagName::Reset, target, input) }
            }
            LedTo::Call { target, return_to, input } => {
                Parts { return_to: Some(return_to), ..Parts::to(TagName::Call, target, input) }
            }
            LedTo::Function { target, return_to, input } => {
                Parts { return_to: Some(return_to), ..Parts::to(TagName::Function, target, input) }
            }
            LedTo::Fork { tag, target, next, input, joins } => {
                let tag = match tag {
                    ForkTag::Fork => TagName::Fork,
                    ForkTag::ForkWorkflow => TagName::ForkWorkflow,
                };
                Parts { next: Some(next), joins: *joins, ..Parts::to(tag, target, input) }
            }
            LedTo::Return { target, input } => {
                Parts { target: Some(target), input: Some(input), ..Parts::of(TagName::Result) }
            }
            LedTo::End { result } => Parts { result: Some(result), ..Parts::of(TagName::Result) },
            LedTo::Ask { next } => Parts { next: Some(next), ..Parts::of(TagName::Ask) },
            LedTo::Join { target } => Parts { target: Some(target), ..Parts::of(TagName::Join) },
            LedTo::CallWorkflow { workflow, target, return_to, input } => Parts {
                workflow: Some(workflow),
                return_to: Some(return_to),
                ..Parts::to(TagName::CallWorkflow, target, input)
            },
            LedTo::FunctionWorkflow { workflow, target, return_to, input, cwd } => Parts {
                workflow: Some(workflow),
                return_to: Some(return_to),
                cwd: cwd.as_deref(),
                ..Parts::to(TagName::FunctionWorkflow, target, input)
            },
            LedTo::ResetWorkflow { workflow, target, input, cwd } => Parts {
                workflow: Some(workflow),
                cwd: cwd.as_deref(),
                ..Parts::to(TagName::ResetWorkflow, target, input)
            },
        }
    }

    /// The tag; with forks, the first.
    pub fn tag(&self) -> TagName {
        self.parts().tag
    }

    /// The state that the agent itself enters now. An agent that ends enters none, and an agent that asks enters one
    /// only after the answer.
    pub fn enters(&self) -> Option<&StateFile> {
        match self {
            LedTo::Goto { target, .. }
            | LedTo::Reset { target, .. }
            | LedTo::Call { target, .. }
            | LedTo::Function { target, .. }
            | LedTo::Return { target, .. }
            | LedTo::Join { target }
            | LedTo::CallWorkflow { target, .. }
            | LedTo::FunctionWorkflow { target, .. }
            | LedTo::ResetWorkflow { target, .. } => Some(target),
            LedTo::Fork { next, .. } => Some(next),
            LedTo::End { .. } | LedTo::Ask { .. } => None,
        }
    }

    /// The text that is passed on, if there is one.
    pub fn payload_mut(&mut self) -> Option<&mut Payload> {
        match self {
            LedTo::Goto { input, .. }
            | LedTo::Reset { input, .. }
            | LedTo::Call { input, .. }
            | LedTo::Function { input, .. }
            | LedTo::Fork { input, .. }
            | LedTo::CallWorkflow { input, .. }
            | LedTo::FunctionWorkflow { input, .. }
            | LedTo::ResetWorkflow { input, .. } => input.as_mut(),
            LedTo::Return { input, .. } => Some(input),
            LedTo::End { result } => Some(result),
            LedTo::Ask { .. } | LedTo::Join { .. } => None,
        }
    }
}

/// The fields as they were read, not checked yet.
#[derive(Debug)]
pub(super) struct OwnedParts {
    pub(super) tag: TagName,
    pub(super) target: Option<StateFile>,
    pub(super) return_to: Option<StateFile>,
    pub(super) next: Option<StateFile>,
    pub(super) input: Option<Payload>,
    pub(super) result: Option<Payload>,
    pub(super) cwd: Option<String>,
    pub(super) workflow: Option<OtherWorkflow>,
    pub(super) joins: bool,
}

impl OwnedParts {
    /// The transition that has these fields, or an error that names a missing or surplus field.
    pub(super) fn into_led_to(mut self) -> Result<LedTo, String> {
        let led_to = match self.tag {
            TagName::Goto => LedTo::Goto { target: self.target()?, input: self.input.take() },
            TagName::Reset => {
                LedTo::Reset { target: self.target()?, input: self.input.take(), cwd: self.cwd.take() }
            }
            TagName::Call => {
                LedTo::Call { target: self.target()?, return_to: self.return_to()?, input: self.input.take() }
            }
            TagName::Function => LedTo::Function {
                target: self.target()?,
                return_to: self.return_to()?,
                input: self.input.take(),
            },
            TagName::Fork => self.fork(ForkTag::Fork)?,
            TagName::ForkWorkflow => self.fork(ForkTag::ForkWorkflow)?,
            TagName::Result => match self.target.take() {
                Some(target) => LedTo::Return { target, input: needed(self.tag, "input", &mut self.input)? },
                None => LedTo::End { result: needed(self.tag, "result", &mut self.result)? },
            },
            TagName::Ask => LedTo::Ask { next: self.next()? },
            TagName::Join => LedTo::Join { target: self.target()? },
            TagName::CallWorkflow => LedTo::CallWorkflow {
                workflow: self.workflow()?,
                target: self.target()?,
                return_to: self.return_to()?,
                input: self.input.take(),
            },
            TagName::FunctionWorkflow => LedTo::FunctionWorkflow {
                workflow: self.workflow()?,
                target: self.target()?,
                return_to: self.return_to()?,
                input: self.input.take(),
                cwd: self.cwd.take(),
            },
            TagName::ResetWorkflow => LedTo::ResetWorkflow {
                workflow: self.workflow()?,
                target: self.target()?,
                input: self.input.take(),
                cwd: self.cwd.take(),
            },
            TagName::Print => return Err("no step ends with `print`".to_owned()),
        };
        match self.left_over() {
            Some(field) => Err(format!("a step that ended with `{}` has no `{field}`", self.tag)),
            None => Ok(led_to),
        }
    }

    fn fork(&mut self, tag: ForkTag) -> Result<LedTo, String> {
        let joins = std::mem::take(&mut self.joins);
        Ok(LedTo::Fork { tag, target: self.target()?, next: self.next()?, input: self.input.take(), joins })
    }

    fn target(&mut self) -> Result<StateFile, String> {
        needed(self.tag, "target", &mut self.target)
    }

    fn return_to(&mut self) -> Result<StateFile, String> {
        needed(self.tag, "return", &mut self.return_to)
    }

    fn next(&mut self) -> Result<StateFile, String> {
        needed(self.tag, "next", &mut self.next)
    }

    fn workflow(&mut self) -> Result<OtherWorkflow, String> {
        needed(self.tag, "scope", &mut self.workflow)
    }

    /// A field that the tag does not have.
    fn left_over(&self) -> Option<&'static str> {
        match self {
            OwnedParts { target: Some(_), .. } => Some("target"),
            OwnedParts { return_to: Some(_), .. } => Some("return"),
            OwnedParts { next: Some(_), .. } => Some("next"),
            OwnedParts { input: Some(_), .. } => Some("input"),
            OwnedParts { result: Some(_), .. } => Some("result"),
            OwnedParts { cwd: Some(_), .. } => Some("cwd"),
            OwnedParts { workflow: Some(_), .. } => Some("scope"),
            OwnedParts { joins: true, .. } => Some("joins"),
            OwnedParts {
                tag: _,
                target: None,
                return_to: None,
                next: None,
                input: None,
                result: None,
                cwd: None,
                workflow: None,
                joins: false,
            } => None,
        }
    }
}

fn needed<T>(tag: TagName, field: &str, value: &mut Option<T>) -> Result<T, String> {
    value.take().ok_or_else(|| format!("a step that ended with `{tag}` needs a `{field}`"))
}
