//! The table of tags: what each tag is and does, and what each attribute holds.
//!
//! Everything that needs to know something about a tag reads it here: the reader of tags and transitions, policies and
//! their reminders, the fold of events, graphs, lint rules, diagrams and schemas. The tests of the documentation compare
//! its tables with this one. A new tag is a variant of [`TagName`] and a row in [`TagName::facts`]; a new attribute is a
//! variant of [`Attribute`], a row in [`Attribute::facts`], and a mention in the rows of the tags that take it.

use std::fmt;

use serde::{Deserialize, Serialize};
use strum::VariantArray;

/// The names of all tags; anything else is text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, VariantArray)]
#[serde(rename_all = "kebab-case")]
pub enum TagName {
    Goto,
    Reset,
    Call,
    Function,
    Fork,
    Result,
    Ask,
    Join,
    CallWorkflow,
    FunctionWorkflow,
    ForkWorkflow,
    ResetWorkflow,
    Print,
}

/// One row of the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TagFacts {
    pub spelling: Spelling,
    pub content: Content,
    /// The attributes that mean something to Raymond on this tag, in the order in which messages list them.
    pub attributes: &'static [(Attribute, Need)],
    /// Whether attributes that Raymond does not know become variables of the new agent; elsewhere they are ignored.
    pub takes_variables: bool,
    pub together: Together,
    pub waits: Waits,
    pub session: SessionEffect,
    pub stack: StackEffect,
    /// What the tag does, in one sentence for the authors of workflows.
    pub about: &'static str,
}

/// How a tag is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Spelling {
    pub name: &'static str,
    /// The beginning of the opening tag, up to its attributes.
    pub opening: &'static str,
    pub closing: &'static str,
}

/// The content between a tag's opening and closing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Content {
    /// The name of a state of the same workflow.
    State,
    /// The path of another workflow.
    Scope,
    /// Text, not changed.
    Text {
        /// The text that an example shows in its place.
        placeholder: &'static str,
    },
}

/// Whether a tag needs an attribute.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Need {
    /// It must have it.
    Required,
    /// One tag of the step must have it; others may leave it out.
    OncePerStep,
    Optional,
}

/// Which other tags may be in the output of the same step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Together {
    /// No other transition.
    Alone,
    /// No other transition, or only forks: then it names the state in which the forking agent continues, and there may
    /// be only one such tag.
    AloneOrBesideForks,
    /// Any number of forks, each of which starts a new agent.
    Forks,
    /// All tags in any number, because this one is not a transition: its content is only shown.
    Anything,
}

/// What must happen before the agent continues.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Waits {
    /// Nothing.
    No,
    /// A person must answer.
    ForAnswer,
    /// All agents that this one has forked must end.
    ForWorkers,
}

/// The effect on the agent's conversation. An agent that a fork starts has none yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SessionEffect {
    Kept,
    /// The next prompt begins a new one.
    Fresh,
    /// The next prompt continues a branch of it; the stack keeps the original.
    Branched,
    /// The caller's conversation is restored.
    Restored,
}

/// The effect on the agent's stack of callers. An agent that a fork starts has an empty stack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StackEffect {
    Kept,
    Pushed,
    /// The top frame is removed; if there is none, the agent ends.
    Popped,
    Cleared,
}

/// The attributes that mean something to Raymond.
#[derive(Clone, Copy, Debug, PartialEq, Eq, VariantArray)]
pub enum Attribute {
    Input,
    Delay,
    Cd,
    Return,
    Next,
    Timeout,
    TimeoutNext,
    Empty,
    Worktree,
    From,
}

/// The name and the meaning of an attribute.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AttributeFacts {
    pub name: &'static str,
    pub value: Value,
    /// Where the name means this attribute; everywhere else it is a name like any other.
    pub applies: Applies,
    /// What the attribute says, in one sentence for the authors of workflows.
    pub about: &'static str,
}

/// Where a name means an attribute.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Applies {
    /// On every tag; one that does not take it is refused.
    Everywhere,
    /// On the tags that take it.
    WhereTaken,
    /// On the tags that take it, if they also have another attribute.
    Beside(Attribute),
}

/// The kind of an attribute's value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Value {
    /// The name of a state of the same workflow.
    State,
    Directory,
    /// Such as `90s`.
    Duration,
    /// The word `ok`.
    Ok,
    /// Text, not changed.
    Text,
}

/// The spelling of a tag, from its name alone.
macro_rules! spelling {
    ($name:literal) => {
        Spelling { name: $name, opening: concat!("<", $name), closing: concat!("</", $name, ">") }
    };
}

impl TagName {
    /// Every tag, in the order of the enum.
    pub const ALL: &'static [TagName] = TagName::VARIANTS;

    /// The row of this tag.
    #[must_use]
    pub const fn facts(self) -> &'static TagFacts {
        use Attribute::{Cd, Delay, Empty, From, Input, Next, Return, Timeout, TimeoutNext, Worktree};
        use Need::{OncePerStep, Optional, Required};
        match self {
            TagName::Goto => &TagFacts {
                spelling: spelling!("goto"),
                content: Content::State,
                attributes: &[(Input, Optional), (Delay, Optional)],
                takes_variables: false,
                together: Together::AloneOrBesideForks,
                waits: Waits::No,
                session: SessionEffect::Kept,
                stack: StackEffect::Kept,
                about: "Go on at another state, in the same conversation.",
            },
            TagName::Reset => &TagFacts {
                spelling: spelling!("reset"),
                content: Content::State,
                attributes: &[(Input, Optional), (Delay, Optional), (Cd, Optional)],
                takes_variables: false,
                together: Together::Alone,
                waits: Waits::No,
                session: SessionEffect::Fresh,
                stack: StackEffect::Kept,
                about: "Go on at another state with a new conversation; calls still return.",
            },
            TagName::Call => &TagFacts {
                spelling: spelling!("call"),
                content: Content::State,
                attributes: &[(Return, Required), (Input, Optional)],
                takes_variables: false,
                together: Together::Alone,
                waits: Waits::No,
                session: SessionEffect::Branched,
                stack: StackEffect::Pushed,
                about: "Call a state that knows this conversation; its result goes to the state named by `return`.",
            },
            TagName::Function => &TagFacts {
                spelling: spelling!("function"),
                content: Content::State,
                attributes: &[(Return, Required), (Input, Optional)],
                takes_variables: false,
                together: Together::Alone,
                waits: Waits::No,
                session: SessionEffect::Fresh,
                stack: StackEffect::Pushed,
                about: "Call a state with a new conversation; its result goes to the state named by `return`.",
            },
            TagName::Fork => &TagFacts {
                spelling: spelling!("fork"),
                content: Content::State,
                attributes: &[
                    (Next, OncePerStep),
                    (Input, Optional),
                    (Cd, Optional),
                    (Worktree, Optional),
                    (From, Optional),
                ],
                takes_variables: true,
                together: Together::Forks,
                waits: Waits::No,
                session: SessionEffect::Kept,
                stack: StackEffect::Kept,
                about: "Start a new agent at a state; this agent goes on at `next` at the same time.",
            },
            TagName::Result => &TagFacts {
                spelling: spelling!("result"),
                content: Content::Text { placeholder: "your result" },
                attributes: &[],
                takes_variables: false,
                together: Together::Alone,
                waits: Waits::No,
                session: SessionEffect::Restored,
                stack: StackEffect::Popped,
                about: "Return a result to the caller, or end the agent with it if there is no caller.",
            },
            TagName::Ask => &TagFacts {
                spelling: spelling!("ask"),
                content: Content::Text { placeholder: "your question" },
                attributes: &[
                    (Next, Required),
                    (Timeout, Optional),
                    (TimeoutNext, Optional),
                    (Empty, Optional),
                ],
                takes_variables: false,
                together: Together::Alone,
                waits: Waits::ForAnswer,
                session: SessionEffect::Kept,
                stack: StackEffect::Kept,
                about: "Ask a person a question; the agent goes on at `next` with the answer.",
            },
            TagName::Join => &TagFacts {
                spelling: spelling!("join"),
                content: Content::State,
                attributes: &[(Input, Optional)],
                takes_variables: false,
                together: Together::AloneOrBesideForks,
                waits: Waits::ForWorkers,
                session: SessionEffect::Kept,
                stack: StackEffect::Kept,
                about: "Wait until all agents that this one forked have ended, then go on at a state with their results.",
            },
            TagName::CallWorkflow => &TagFacts {
                spelling: spelling!("call-workflow"),
                content: Content::Scope,
                attributes: &[(Return, Required), (Input, Optional)],
                takes_variables: false,
                together: Together::Alone,
                waits: Waits::No,
                session: SessionEffect::Branched,
                stack: StackEffect::Pushed,
                about: "Call another workflow that knows this conversation; its result goes to the state named by \
                        `return`.",
            },
            TagName::FunctionWorkflow => &TagFacts {
                spelling: spelling!("function-workflow"),
                content: Content::Scope,
                attributes: &[(Return, Required), (Input, Optional), (Cd, Optional)],
                takes_variables: false,
                together: Together::Alone,
                waits: Waits::No,
                session: SessionEffect::Fresh,
                stack: StackEffect::Pushed,
                about: "Call another workflow with a new conversation; its result goes to the state named by `return`.",
            },
            TagName::ForkWorkflow => &TagFacts {
                spelling: spelling!("fork-workflow"),
                content: Content::Scope,
                attributes: &[
                    (Next, OncePerStep),
                    (Input, Optional),
                    (Cd, Optional),
                    (Worktree, Optional),
                    (From, Optional),
                ],
                takes_variables: true,
                together: Together::Forks,
                waits: Waits::No,
                session: SessionEffect::Kept,
                stack: StackEffect::Kept,
                about: "Start a new agent in another workflow; this agent goes on at `next` at the same time.",
            },
            TagName::ResetWorkflow => &TagFacts {
                spelling: spelling!("reset-workflow"),
                content: Content::Scope,
                attributes: &[(Input, Optional), (Cd, Optional)],
                takes_variables: false,
                together: Together::Alone,
                waits: Waits::No,
                session: SessionEffect::Fresh,
                stack: StackEffect::Cleared,
                about: "Go on in another workflow with a new conversation; calls no longer return.",
            },
            TagName::Print => &TagFacts {
                spelling: spelling!("print"),
                content: Content::Text { placeholder: "your text" },
                attributes: &[],
                takes_variables: false,
                together: Together::Anything,
                waits: Waits::No,
                session: SessionEffect::Kept,
                stack: StackEffect::Kept,
                about: "Show a text to the people who watch the run; this is not a transition.",
            },
        }
    }

    /// Every tag that is a transition.
    pub fn transitions() -> impl Iterator<Item = TagName> {
        Self::ALL.iter().copied().filter(|tag| tag.is_transition())
    }

    /// The tags that are allowed beside forks, to name the state in which the forking agent continues.
    pub fn beside_forks() -> impl Iterator<Item = TagName> {
        Self::ALL.iter().copied().filter(|tag| tag.may_stand_beside_forks())
    }

    /// The tag of this name; case matters.
    #[must_use]
    pub fn from_name(name: &str) -> Option<TagName> {
        Self::ALL.iter().copied().find(|tag| tag.as_str() == name)
    }

    /// The name as it is written in a tag.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        self.facts().spelling.name
    }

    #[must_use]
    pub fn is_transition(self) -> bool {
        self.facts().together != Together::Anything
    }

    /// Whether this tag starts a new agent; only such tags may be repeated.
    #[must_use]
    pub fn is_fork(self) -> bool {
        self.facts().together == Together::Forks
    }

    #[must_use]
    pub fn may_stand_beside_forks(self) -> bool {
        self.facts().together == Together::AloneOrBesideForks
    }

    /// Whether this tag's result goes to a state that it names.
    #[must_use]
    pub fn is_call(self) -> bool {
        self.facts().stack == StackEffect::Pushed
    }

    /// Whether this tag's target is another workflow instead of a state.
    #[must_use]
    pub fn is_workflow(self) -> bool {
        self.facts().content == Content::Scope
    }

    /// Whether the content is the name of a state or a workflow, not text.
    #[must_use]
    pub fn has_target(self) -> bool {
        match self.facts().content {
            Content::State | Content::Scope => true,
            Content::Text { .. } => false,
        }
    }

    /// Whether this tag can be implicit, when a policy permits nothing else. Tags with text cannot: the text is
    /// unknown.
    #[must_use]
    pub fn can_be_implicit(self) -> bool {
        self.is_transition() && self.has_target()
    }

    /// Whether this tag needs an attribute; `None` if it does not take it.
    #[must_use]
    pub fn need(self, attribute: Attribute) -> Option<Need> {
        self.facts().attributes.iter().find(|(taken, _)| *taken == attribute).map(|(_, need)| *need)
    }

    #[must_use]
    pub fn takes(self, attribute: Attribute) -> bool {
        self.need(attribute).is_some()
    }

    /// Whether an attribute of this name means something on this tag.
    pub(super) fn gives_meaning_to(self, attribute: &[u8]) -> bool {
        let taken = self.facts().attributes.iter();
        self.facts().takes_variables
            || taken.into_iter().any(|(taken, _)| taken.as_str().as_bytes() == attribute)
    }

    pub(crate) const fn opening(self) -> &'static str {
        self.facts().spelling.opening
    }

    pub(crate) const fn closing(self) -> &'static str {
        self.facts().spelling.closing
    }

    /// The closing tag without its `>`.
    pub(super) fn closing_start(self) -> &'static [u8] {
        self.closing().as_bytes().strip_suffix(b">").unwrap_or_default()
    }

    /// The length of the longest name.
    pub(super) const MAX_NAME_BYTES: usize = {
        let mut longest = 0;
        let mut index = 0;
        while index < Self::ALL.len() {
            let length = Self::ALL[index].as_str().len();
            longest = if length > longest { length } else { longest };
            index += 1;
        }
        longest
    };

    /// The bit of this tag in a set of tags.
    pub(super) fn bit(self) -> u16 {
        const { assert!(TagName::ALL.len() <= u16::BITS as usize, "a set of tags needs more bits") };
        1 << (self as u16)
    }
}

impl fmt::Display for TagName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl Attribute {
    /// Every attribute, in the order of the enum.
    pub const ALL: &'static [Attribute] = Attribute::VARIANTS;

    /// The row of this attribute.
    #[must_use]
    pub const fn facts(self) -> &'static AttributeFacts {
        match self {
            Attribute::Input => &AttributeFacts {
                name: "input",
                value: Value::Text,
                applies: Applies::Everywhere,
                about: "The text that the target gets as `{{input}}`.",
            },
            Attribute::Delay => &AttributeFacts {
                name: "delay",
                value: Value::Duration,
                applies: Applies::Everywhere,
                about: "How long Raymond waits before the target starts, such as `90s`.",
            },
            Attribute::Cd => &AttributeFacts {
                name: "cd",
                value: Value::Directory,
                applies: Applies::Everywhere,
                about: "The agent's working directory from now on.",
            },
            Attribute::Return => &AttributeFacts {
                name: "return",
                value: Value::State,
                applies: Applies::Everywhere,
                about: "The state that gets the result.",
            },
            Attribute::Next => &AttributeFacts {
                name: "next",
                value: Value::State,
                applies: Applies::Everywhere,
                about: "The state at which this agent goes on.",
            },
            Attribute::Timeout => &AttributeFacts {
                name: "timeout",
                value: Value::Duration,
                applies: Applies::Everywhere,
                about: "How long to wait for an answer, such as `2h`.",
            },
            Attribute::TimeoutNext => &AttributeFacts {
                name: "timeout_next",
                value: Value::State,
                applies: Applies::Everywhere,
                about: "The state at which this agent goes on when no answer has come in time.",
            },
            Attribute::Empty => &AttributeFacts {
                name: "empty",
                value: Value::Ok,
                applies: Applies::Everywhere,
                about: "Whether an empty answer counts, as `ok`; otherwise the question stays open.",
            },
            Attribute::Worktree => &AttributeFacts {
                name: "worktree",
                value: Value::Text,
                applies: Applies::WhereTaken,
                about: "The name of a git worktree that is made for the worker, on a branch of its own.",
            },
            Attribute::From => &AttributeFacts {
                name: "from",
                value: Value::Text,
                applies: Applies::Beside(Attribute::Worktree),
                about: "The commit with which the worker's worktree begins; otherwise the current one.",
            },
        }
    }

    /// The attribute of this name.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Attribute> {
        Self::ALL.iter().copied().find(|attribute| attribute.as_str() == name)
    }

    /// The attribute that a name means on a tag with these attributes.
    #[must_use]
    pub fn meant_by(name: &str, tag: TagName, attributes: &[(String, String)]) -> Option<Attribute> {
        let attribute = Self::from_name(name)?;
        let is_meant = match attribute.facts().applies {
            Applies::Everywhere => true,
            Applies::WhereTaken => tag.takes(attribute),
            Applies::Beside(other) => {
                tag.takes(attribute) && attributes.iter().any(|(name, _)| name == other.as_str())
            }
        };
        is_meant.then_some(attribute)
    }

    #[must_use]
    pub const fn as_str(self) -> &'static str {
        self.facts().name
    }
}

impl fmt::Display for Attribute {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tags_are_named_in_journals_as_they_are_written() {
        for tag in TagName::ALL {
            assert_eq!(serde_json::to_value(tag).unwrap(), tag.as_str());
            assert_eq!(TagName::from_name(tag.as_str()), Some(*tag));
        }
        for attribute in Attribute::ALL {
            assert_eq!(Attribute::from_name(attribute.as_str()), Some(*attribute));
        }
    }

    /// Readers of the table rely on these.
    #[test]
    fn rows_do_not_contradict_themselves() {
        for tag in TagName::ALL {
            let facts = tag.facts();
            assert_eq!(
                tag.is_call(),
                tag.takes(Attribute::Return),
                "{tag}: a call, and only it, says where to return"
            );
            assert_eq!(tag.is_fork(), facts.takes_variables, "{tag}: only a new agent has variables");
            assert_eq!(
                facts.session == SessionEffect::Restored,
                facts.stack == StackEffect::Popped,
                "{tag}: the caller's conversation comes from the stack"
            );
            assert!(
                tag.is_transition() || facts.attributes.is_empty(),
                "{tag}: its attributes are never read"
            );
            let names: Vec<Attribute> = facts.attributes.iter().map(|(attribute, _)| *attribute).collect();
            assert!(
                names.iter().all(|name| names.iter().filter(|other| *other == name).count() == 1),
                "{tag}"
            );
        }
    }

    #[test]
    fn descriptions_are_sentences() {
        let tags = TagName::ALL.iter().map(|tag| tag.facts().about);
        let attributes = Attribute::ALL.iter().map(|attribute| attribute.facts().about);
        for about in tags.chain(attributes) {
            assert!(about.starts_with(char::is_uppercase) && about.ends_with('.'), "{about}");
            assert!(!about.contains(['\n', '<']) && about.len() <= 120, "{about}");
        }
    }
}
