//! One way out of a state: a tag with the states that it names.

use std::ops::Range;

use crate::tag::TagName;
use crate::workflow::ResolveError;

/// A transition that a state may take.
#[derive(Clone, Debug)]
pub struct Exit {
    pub tag: TagName,
    pub origin: Origin,
    /// Where it stands in the state's text.
    pub range: Range<usize>,
    pub target: Option<Reference>,
    pub return_to: Option<Reference>,
    pub next: Option<Reference>,
    pub timeout_next: Option<Reference>,
    /// Whether the agent waits before it goes on.
    pub pauses: bool,
}

/// Who says so.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// An entry of `allowed_transitions`, by its number.
    Policy(usize),
    /// A tag in the text, by its number among the state's tags.
    Tag(usize),
}

/// What a name is there for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Role {
    Target,
    Return,
    Next,
    TimeoutNext,
}

impl Role {
    /// As it is called in policies.
    pub const fn as_str(self) -> &'static str {
        match self {
            Role::Target => "target",
            Role::Return => "return",
            Role::Next => "next",
            Role::TimeoutNext => "timeout_next",
        }
    }
}

/// A name and where it leads.
#[derive(Clone, Debug)]
pub struct Reference {
    pub name: String,
    pub range: Range<usize>,
    pub leads: Leads,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Leads {
    /// To a state, by its number in the graph.
    To(usize),
    Nowhere(ResolveError),
    /// To another workflow.
    Elsewhere,
    /// Where only a run can tell, as with `$TARGET` in a script.
    Unknown,
}

impl Exit {
    /// All names, the target first.
    pub fn references(&self) -> impl Iterator<Item = (Role, &Reference)> {
        let roles = [
            (Role::Target, &self.target),
            (Role::Return, &self.return_to),
            (Role::Next, &self.next),
            (Role::TimeoutNext, &self.timeout_next),
        ];
        roles.into_iter().filter_map(|(role, reference)| Some((role, reference.as_ref()?)))
    }

    /// The names at which the same agent goes on, with its stack as it was.
    pub fn continuations(&self) -> impl Iterator<Item = &Reference> {
        self.references().filter(|(role, _)| !self.starts_another(*role)).map(|(_, reference)| reference)
    }

    /// Whether a name is where a callee or a worker begins instead of where the agent goes on.
    pub fn starts_another(&self, role: Role) -> bool {
        role == Role::Target && (self.is_call() || self.tag.is_fork() || self.tag.is_workflow())
    }

    pub fn is_call(&self) -> bool {
        use TagName::{Call, CallWorkflow, Function, FunctionWorkflow};
        matches!(self.tag, Call | Function | CallWorkflow | FunctionWorkflow)
    }

    /// Whether the agent, or its callee, ends there.
    pub fn is_end(&self) -> bool {
        matches!(self.tag, TagName::Result | TagName::ResetWorkflow)
    }

    /// Whether it may lead to states that it does not name.
    pub fn is_open(&self) -> bool {
        let is_unknown = |(_, reference): (Role, &Reference)| reference.leads == Leads::Unknown;
        let lacks_target = self.target.is_none() && !matches!(self.tag, TagName::Result | TagName::Ask);
        let lacks_next = self.next.is_none() && self.tag == TagName::Ask;
        let lacks_return = self.return_to.is_none() && self.is_call();
        lacks_target || lacks_next || lacks_return || self.references().any(is_unknown)
    }
}
