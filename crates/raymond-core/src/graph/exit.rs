//! An edge out of a state: a tag with the states that it names.

use std::ops::Range;

use crate::tag::{Attribute, Need, StackEffect, TagName};
use crate::workflow::ResolveError;

/// A transition that a state may take.
#[derive(Clone, Debug)]
pub struct StateExit {
    pub tag: TagName,
    pub origin: Origin,
    /// Its place in the state's text.
    pub range: Range<usize>,
    pub target: Option<Reference>,
    pub return_to: Option<Reference>,
    pub next: Option<Reference>,
    pub timeout_next: Option<Reference>,
    /// Whether the agent waits before it continues.
    pub pauses: bool,
}

/// Where a possible transition was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// An entry of `allowed_transitions`, by its number.
    Policy(usize),
    /// A tag in the text, by its number among the state's tags.
    Tag(usize),
}

/// The role of a name in a tag.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Role {
    Target,
    Return,
    Next,
    TimeoutNext,
}

impl Role {
    /// The key that policies use.
    pub const fn as_str(self) -> &'static str {
        match self {
            Role::Target => "target",
            Role::Return => Attribute::Return.as_str(),
            Role::Next => Attribute::Next.as_str(),
            Role::TimeoutNext => Attribute::TimeoutNext.as_str(),
        }
    }
}

/// A name and the state it stands for.
#[derive(Clone, Debug)]
pub struct Reference {
    pub name: String,
    pub range: Range<usize>,
    pub leads: Leads,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Leads {
    /// A state, by its number in the graph.
    To(usize),
    Nowhere(ResolveError),
    /// Another workflow.
    Elsewhere,
    /// Only known when the workflow runs, as with `$TARGET` in a script.
    Unknown,
}

impl StateExit {
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

    /// The names of the states in which the same agent continues with an unchanged stack.
    pub fn continuations(&self) -> impl Iterator<Item = &Reference> {
        self.references().filter(|(role, _)| !self.starts_another(*role)).map(|(_, reference)| reference)
    }

    /// Whether a called state or a worker begins at this name, rather than the agent continuing there.
    pub fn starts_another(&self, role: Role) -> bool {
        role == Role::Target && (self.tag.is_call() || self.tag.is_fork() || self.tag.is_workflow())
    }

    /// Whether the agent ends, or a called state returns, with it.
    pub fn is_end(&self) -> bool {
        matches!(self.tag.facts().stack, StackEffect::Popped | StackEffect::Cleared)
    }

    /// Whether it gives a result, to the caller or as the result of the agent.
    pub fn gives_result(&self) -> bool {
        self.tag.facts().stack == StackEffect::Popped
    }

    /// Whether one of its names stands for no state.
    pub fn leads_nowhere(&self) -> bool {
        self.references().any(|(_, reference)| matches!(reference.leads, Leads::Nowhere(_)))
    }

    /// Whether it may lead to states that it does not name.
    pub fn is_open(&self) -> bool {
        let is_unknown = |(_, reference): (Role, &Reference)| reference.leads == Leads::Unknown;
        let requires = |attribute| self.tag.need(attribute) == Some(Need::Required);
        let lacks_target = self.target.is_none() && self.tag.has_target();
        let lacks_next = self.next.is_none() && requires(Attribute::Next);
        let lacks_return = self.return_to.is_none() && requires(Attribute::Return);
        lacks_target || lacks_next || lacks_return || self.references().any(is_unknown)
    }
}
