//! What a step led to: one value for each way to go on, with exactly the fields of that way.
//!
//! On the wire it is flat, beside the other fields of `step_finished`: `tag`, and of `target`, `return`, `next`, `input`,
//! `result`, `cwd`, `scope` and `scope_hash` those that the tag has. [`LedTo::parts`] lays them out, and
//! [`OwnedParts::into_led_to`] refuses what lacks one of them or has one too many.

#![warn(clippy::wildcard_enum_match_arm, reason = "a new way to go on has to be answered everywhere")]

use super::OtherWorkflow;
use crate::payload::Payload;
use crate::tag::TagName;
use crate::workflow::StateFile;

/// Where a finished step sends its agent.
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
    /// Each worker has an `agent_started` of its own.
    Fork {
        tag: ForkTag,
        /// The first worker's state.
        target: StateFile,
        /// Where the agent itself goes on.
        next: StateFile,
        /// What the agent itself is handed there.
        input: Option<Payload>,
    },
    /// A `result` with a caller to go back to.
    Return {
        target: StateFile,
        input: Payload,
    },
    /// A `result` without one: the agent ends.
    End {
        result: Payload,
    },
    /// The question has an `ask_opened` of its own.
    Ask {
        next: StateFile,
    },
    Join {
        target: StateFile,
    },
    /// The callee goes on in the caller's conversation, and so in its folder.
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

/// Which tag started the first worker of a fork.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ForkTag {
    Fork,
    ForkWorkflow,
}

/// What a step led to, field by field as on the wire.
#[derive(Clone, Copy, Debug)]
pub struct Parts<'a> {
    pub tag: TagName,
    /// Where the tag leads: for a fork the worker's state, for a result the caller's.
    pub target: Option<&'a StateFile>,
    pub return_to: Option<&'a StateFile>,
    pub next: Option<&'a StateFile>,
    pub input: Option<&'a Payload>,
    pub result: Option<&'a Payload>,
    pub cwd: Option<&'a str>,
    pub workflow: Option<&'a OtherWorkflow>,
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
            LedTo::Fork { tag, target, next, input } => {
                let tag = match tag {
                    ForkTag::Fork => TagName::Fork,
                    ForkTag::ForkWorkflow => TagName::ForkWorkflow,
                };
                Parts { next: Some(next), ..Parts::to(tag, target, input) }
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

    /// The tag that was written; for forks the first one's.
    pub fn tag(&self) -> TagName {
        self.parts().tag
    }

    /// The state that the agent itself enters now. One that ends enters none, and one that asks only once it is
    /// answered.
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

    /// The text that is handed on, if there is one.
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

/// The fields as they were read, before it is known that they belong together.
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
}

impl OwnedParts {
    /// The one way to go on that has these fields, or which of them is missing or too many.
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
        Ok(LedTo::Fork { tag, target: self.target()?, next: self.next()?, input: self.input.take() })
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
            OwnedParts {
                tag: _,
                target: None,
                return_to: None,
                next: None,
                input: None,
                result: None,
                cwd: None,
                workflow: None,
            } => None,
        }
    }
}

fn needed<T>(tag: TagName, field: &str, value: &mut Option<T>) -> Result<T, String> {
    value.take().ok_or_else(|| format!("a step that ended with `{tag}` needs a `{field}`"))
}
