//! Makes one transition of the tags of a step, before its names are looked up.
//!
//! A step's output is valid only if its tags make exactly one transition. [`read`] returns it, or an error that tells
//! the author of the state what to write instead.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use crate::duration;
use crate::tag::{Attribute, Collected, NearMiss, NearMisses, Need, Tag, TagName, clip};
use crate::variable::{self, Rules, VariableError};
use crate::workflow::StateFile;
use crate::worktree::{self, Wanted};

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
        payload: String,
    },
    Ask(Ask),
    Join {
        target: String,
        input: Option<String>,
    },
    CallWorkflow(InvokeWorkflow),
    FunctionWorkflow {
        invoke: InvokeWorkflow,
        cd: Option<String>,
    },
    ResetWorkflow {
        scope: String,
        input: Option<String>,
        inputs: Vec<(String, String)>,
        cd: Option<String>,
    },
}

/// The state in which the agent itself continues.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Jump {
    pub target: String,
    pub input: Option<String>,
    pub delay: Option<Duration>,
}

/// A called state, whose result goes to another state.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Invoke {
    pub target: String,
    pub return_to: String,
    pub input: Option<String>,
}

/// A called workflow, whose result goes to a state of this one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct InvokeWorkflow {
    pub scope: String,
    pub return_to: String,
    pub input: Option<String>,
    /// The values that it is given for its own inputs, in the order written.
    pub inputs: Vec<(String, String)>,
}

/// One worker to start.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fork {
    pub target: ForkTarget,
    pub input: Option<String>,
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
    pub question: String,
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

/// The reason why a step's tags make no transition. A `tag` is quoted as it would be written, clipped.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ProtocolError {
    NoTag {
        near_miss: Option<NearMiss>,
    },
    /// Text that was meant as a tag and cannot be read as one.
    NearTag(NearMiss),
    Several {
        tags: Vec<String>,
        total: u64,
    },
    UnexpectedAttribute {
        tag: String,
        name: TagName,
        attribute: Attribute,
    },
    DuplicateAttribute {
        tag: String,
        attribute: String,
    },
    /// Two attributes with different names that would be one variable of scripts.
    SameVariable {
        tag: String,
        other: String,
        attribute: String,
    },
    MissingAttribute {
        tag: String,
        name: TagName,
        attribute: Attribute,
    },
    EmptyAttribute {
        tag: String,
        attribute: Attribute,
    },
    EmptyTarget {
        tag: String,
        name: TagName,
    },
    BadDuration {
        tag: String,
        attribute: Attribute,
        why: String,
    },
    /// An attribute whose only value is `ok` has another.
    NotOk {
        tag: String,
        attribute: Attribute,
    },
    BadVariable {
        tag: String,
        why: VariableError,
    },
    /// The name of a worktree, or of the commit to begin with, is not valid.
    BadWorktree {
        tag: String,
        attribute: Attribute,
        why: worktree::Refused,
    },
    /// Both attributes say in which folder the worker begins.
    TwoFolders {
        tag: String,
    },
    ForkWithoutNext {
        tag: String,
    },
    ForkNextsDiffer {
        first: String,
        second: String,
    },
}

impl fmt::Display for ProtocolError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoTag { near_miss } => write_no_tag(f, near_miss.as_ref()),
            Self::NearTag(near) => f.write_str(&near.mistake()),
            Self::Several { tags, total } => write_several(f, tags, *total),
            Self::UnexpectedAttribute { tag, name, attribute } => {
                write!(f, "`{tag}`: `{attribute}` cannot be given on `{name}`; {}", Takes(*name))
            }
            Self::DuplicateAttribute { tag, attribute } => {
                write!(f, "`{tag}`: the attribute `{attribute}` is given twice; give it once")
            }
            Self::SameVariable { tag, other, attribute } => write!(
                f,
                "`{tag}`: the attributes `{other}` and `{attribute}` would be one variable of scripts; rename one of them"
            ),
            Self::MissingAttribute { tag, name, attribute } => write!(
                f,
                "`{tag}`: the attribute `{attribute}` is missing; write `<{name} {attribute}=\"STATE\">…</{name}>`"
            ),
            Self::EmptyAttribute { tag, attribute } => {
                write!(f, "`{tag}`: the attribute `{attribute}` is empty; give it a value or leave it out")
            }
            Self::EmptyTarget { tag, name } if name.is_workflow() => {
                write!(f, "`{tag}` names no workflow; write where it is between the tags")
            }
            Self::EmptyTarget { tag, .. } => {
                write!(f, "`{tag}` names no state; write the state's name between the tags")
            }
            Self::BadDuration { tag, attribute, why } => write!(f, "`{tag}`: `{attribute}`: {why}"),
            Self::NotOk { tag, attribute } => {
                write!(
                    f,
                    "`{tag}`: `{attribute}` can only be `ok`; write `{attribute}=\"ok\"` or leave it out"
                )
            }
            Self::BadVariable { tag, why } => write!(f, "`{tag}`: {why}"),
            Self::BadWorktree { tag, attribute, why } => write!(f, "`{tag}`: `{attribute}`: {why}"),
            Self::TwoFolders { tag } => write!(
                f,
                "`{tag}`: a worker begins in the folder of `cd` or in a worktree; leave out one of the two"
            ),
            Self::ForkWithoutNext { tag } => write!(
                f,
                "`{tag}`: fork without continuation; say where this agent itself goes on, with `next=\"STATE\"` on the \
                 fork or with one {} beside it",
                beside_forks(|tag| format!("`<{tag}>STATE</{tag}>`"))
            ),
            Self::ForkNextsDiffer { first, second } => write!(
                f,
                "`{first}` and `{second}` send this agent to different states; forks that stand together need the same \
                 continuation"
            ),
        }
    }
}

impl std::error::Error for ProtocolError {}

impl ProtocolError {
    /// What is wrong with an agent's message, without examples of tags that may not be permitted.
    #[must_use]
    pub fn problem(&self) -> String {
        match self {
            Self::NoTag { near_miss: None } => "the output holds no transition tag".to_owned(),
            other => other.to_string(),
        }
    }
}

fn write_no_tag(f: &mut fmt::Formatter<'_>, near_miss: Option<&NearMiss>) -> fmt::Result {
    f.write_str("the output holds no transition tag; ")?;
    if let Some(near_miss) = near_miss {
        return write!(f, "{near_miss}");
    }
    f.write_str("it needs exactly one, such as `<goto>STATE</goto>` or `<result>text</result>`")
}

fn write_several(f: &mut fmt::Formatter<'_>, tags: &[String], total: u64) -> fmt::Result {
    write!(f, "the output holds several transition tags ({total}) that do not go together: ")?;
    for (index, tag) in tags.iter().enumerate() {
        write!(f, "{}`{tag}`", if index == 0 { "" } else { ", " })?;
    }
    let unnamed = total.saturating_sub(tags.len() as u64);
    if unnamed > 0 {
        write!(f, " and {unnamed} more")?;
    }
    f.write_str("; keep exactly one")?;
    // Where no fork is meant, the rule about forks would only be a distraction.
    if tags.iter().any(|tag| tag.starts_with("<fork")) {
        let beside = beside_forks(|tag| format!("`<{tag}>`"));
        write!(f, " (only forks may stand together, with at most one {beside} beside them)")?;
    }
    Ok(())
}

/// A list of the tags that are allowed together with forks, each formatted by `shown`.
pub(crate) fn beside_forks(shown: impl Fn(TagName) -> String) -> String {
    TagName::beside_forks().map(shown).collect::<Vec<_>>().join(" or ")
}

/// The attributes of a tag, in words.
struct Takes(TagName);

impl fmt::Display for Takes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let facts = self.0.facts();
        let names: Vec<String> =
            facts.attributes.iter().map(|(attribute, _)| format!("`{attribute}`")).collect();
        match names.split_last() {
            None => f.write_str("it takes no attributes"),
            Some((only, [])) => write!(f, "it takes only {only}"),
            Some((last, others)) => write!(f, "it takes only {} and {last}", others.join(", ")),
        }?;
        if facts.takes_variables { f.write_str(", and variables of the worker") } else { Ok(()) }
    }
}

/// How many tags a message lists.
const MAX_NAMED_TAGS: usize = 3;

/// Returns the transition that the tags of one step make together.
///
/// `rules` are those for the variables of workers that it starts.
///
/// # Errors
///
/// When there is no tag, when there are several that cannot be combined, when one is not valid, or when there is text
/// that was meant as one.
pub fn read(collected: Collected, rules: Rules) -> Result<Reading, ProtocolError> {
    let Collected { tags, total, prints, near: NearMisses { first, mistake, .. } } = collected;
    if let Some(mistake) = mistake {
        return Err(ProtocolError::NearTag(mistake));
    }
    let mut reader = Reader { rules, warnings: Vec::new() };
    for print in &prints {
        reader.check(print)?;
    }
    let (forks, others): (Vec<&Tag>, Vec<&Tag>) = tags.iter().partition(|tag| tag.name.is_fork());
    let is_whole = total == tags.len() as u64;
    let transition = match (forks.as_slice(), others.as_slice()) {
        ([], []) => Err(ProtocolError::NoTag { near_miss: first }),
        ([], [tag]) if is_whole => reader.read_single(tag),
        ([_, ..], []) if is_whole => reader.read_forks(&forks, None),
        ([_, ..], [tag]) if is_whole && tag.name.may_stand_beside_forks() => {
            reader.read_forks(&forks, Some(tag))
        }
        _ => Err(several(&tags, total)),
    }?;
    Ok(Reading { transition, warnings: reader.warnings })
}

fn several(tags: &[Tag], total: u64) -> ProtocolError {
    ProtocolError::Several { tags: tags.iter().take(MAX_NAMED_TAGS).map(Tag::brief).collect(), total }
}

/// Reads the tags of one step in order and collects warnings.
struct Reader {
    rules: Rules,
    warnings: Vec<String>,
}

impl Reader {
    fn read_single(&mut self, tag: &Tag) -> Result<Transition, ProtocolError> {
        let fields = self.check(tag)?;
        Ok(match tag.name {
            TagName::Goto => Transition::Goto(fields.jump()?),
            TagName::Reset => Transition::Reset { jump: fields.jump()?, cd: fields.directory()? },
            TagName::Call => Transition::Call(fields.invoke()?),
            TagName::Function => Transition::Function(fields.invoke()?),
            TagName::Result => Transition::Result { payload: tag.content.clone() },
            TagName::Ask => Transition::Ask(self.read_ask(&fields)?),
            TagName::Join => Transition::Join { target: fields.target()?, input: fields.input() },
            TagName::CallWorkflow => Transition::CallWorkflow(fields.invoke_workflow()?),
            TagName::FunctionWorkflow => {
                Transition::FunctionWorkflow { invoke: fields.invoke_workflow()?, cd: fields.directory()? }
            }
            TagName::ResetWorkflow => Transition::ResetWorkflow {
                scope: fields.target()?,
                input: fields.input(),
                inputs: fields.variables(),
                cd: fields.directory()?,
            },
            // The caller handles forks, and a collector does not keep prints.
            TagName::Fork | TagName::ForkWorkflow | TagName::Print => {
                return Err(ProtocolError::NoTag { near_miss: None });
            }
        })
    }

    fn read_ask(&mut self, fields: &Fields<'_>) -> Result<Ask, ProtocolError> {
        let ask = Ask {
            question: fields.tag.content.clone(),
            next: fields.required_state(Attribute::Next)?,
            timeout: fields.duration(Attribute::Timeout)?,
            timeout_next: fields.state(Attribute::TimeoutNext)?,
            empty_ok: fields.ok(Attribute::Empty)?,
        };
        if ask.timeout_next.is_some() && ask.timeout.is_none() {
            let tag = fields.tag.brief();
            self.warnings.push(format!("`{tag}`: `timeout_next` means nothing without `timeout`"));
        }
        Ok(ask)
    }

    fn read_forks(&mut self, tags: &[&Tag], beside: Option<&Tag>) -> Result<Transition, ProtocolError> {
        let mut forks = Vec::with_capacity(tags.len());
        // The state in which the agent itself continues, with the first tag that names it.
        let mut continuation: Option<(Jump, &Tag)> = None;
        let mut joins = false;
        if let Some(tag) = beside {
            let (jump, is_join) = self.read_beside(tag)?;
            continuation = Some((jump, tag));
            joins = is_join;
        }
        for tag in tags {
            let fields = self.check(tag)?;
            forks.push(fields.fork()?);
            let Some(next) = fields.state(Attribute::Next)? else {
                continue;
            };
            match &continuation {
                Some((jump, first)) if !may_be_same_state(&jump.target, &next) => {
                    return Err(ProtocolError::ForkNextsDiffer { first: first.brief(), second: tag.brief() });
                }
                Some(_) => {}
                None => continuation = Some((Jump { target: next, input: None, delay: None }, tag)),
            }
        }
        match continuation {
            Some((next, _)) => Ok(Transition::Fork { forks, next, joins }),
            None => Err(ProtocolError::ForkWithoutNext {
                tag: tags.first().map(|tag| tag.brief()).unwrap_or_default(),
            }),
        }
    }

    /// The state in which the agent continues, from a tag that is used together with forks, and whether it waits for
    /// them first.
    fn read_beside(&mut self, tag: &Tag) -> Result<(Jump, bool), ProtocolError> {
        match self.read_single(tag)? {
            Transition::Goto(jump) => Ok((jump, false)),
            Transition::Join { target, input } => Ok((Jump { target, input, delay: None }, true)),
            Transition::Reset { .. }
            | Transition::Call(_)
            | Transition::Function(_)
            | Transition::Fork { .. }
            | Transition::Result { .. }
            | Transition::Ask(_)
            | Transition::CallWorkflow(_)
            | Transition::FunctionWorkflow { .. }
            | Transition::ResetWorkflow { .. } => Err(several(std::slice::from_ref(tag), 1)),
        }
    }

    /// Sorts a tag's attributes, and checks that each is allowed and that none is missing.
    fn check<'a>(&mut self, tag: &'a Tag) -> Result<Fields<'a>, ProtocolError> {
        let mut fields = Fields { tag, known: Vec::new(), variables: Vec::new() };
        let mut names: BTreeMap<String, &str> = BTreeMap::new();
        for (name, value) in &tag.attributes {
            match names.insert(self.compared(tag.name, name), name) {
                None => {}
                Some(other) if other == name => {
                    let attribute = clip(name);
                    return Err(ProtocolError::DuplicateAttribute { tag: tag.brief(), attribute });
                }
                Some(other) => {
                    let (other, attribute) = (clip(other), clip(name));
                    return Err(ProtocolError::SameVariable { tag: tag.brief(), other, attribute });
                }
            }
            match Attribute::meant_by(name, tag.name, &tag.attributes) {
                Some(attribute) if tag.name.takes(attribute) => fields.known.push((attribute, value)),
                Some(attribute) => {
                    return Err(ProtocolError::UnexpectedAttribute {
                        tag: tag.brief(),
                        name: tag.name,
                        attribute,
                    });
                }
                None if tag.name.facts().takes_variables => {
                    check_variable(name, tag, self.rules)
                        .map_err(|why| ProtocolError::BadVariable { tag: tag.brief(), why })?;
                    fields.variables.push((name, value));
                }
                // Which inputs the other workflow has is not known here.
                None if tag.name.is_workflow() => fields.variables.push((name, value)),
                None => self.warnings.push(format!(
                    "`{}`: the attribute `{}` is unknown and ignored",
                    tag.brief(),
                    clip(name)
                )),
            }
        }
        for (attribute, need) in tag.name.facts().attributes {
            if *need == Need::Required && fields.get(*attribute).is_none() {
                return Err(fields.missing(*attribute));
            }
        }
        Ok(fields)
    }

    /// The key by which attributes of a tag are compared; some become variables of scripts.
    fn compared(&self, tag: TagName, name: &str) -> String {
        match tag.facts().takes_variables {
            true if self.rules.case_insensitive => name.replace('-', "_").to_ascii_lowercase(),
            true => name.replace('-', "_"),
            false => name.to_owned(),
        }
    }
}

/// A tag whose attributes are all allowed.
struct Fields<'a> {
    tag: &'a Tag,
    known: Vec<(Attribute, &'a str)>,
    variables: Vec<(&'a str, &'a str)>,
}

impl Fields<'_> {
    fn get(&self, attribute: Attribute) -> Option<&str> {
        self.known.iter().find(|(known, _)| *known == attribute).map(|(_, value)| *value)
    }

    fn target(&self) -> Result<String, ProtocolError> {
        match self.tag.content.trim() {
            "" => Err(ProtocolError::EmptyTarget { tag: self.tag.brief(), name: self.tag.name }),
            target => Ok(target.to_owned()),
        }
    }

    fn input(&self) -> Option<String> {
        self.get(Attribute::Input).map(str::to_owned)
    }

    /// The directory as written, because a directory's name may begin or end with a space.
    fn directory(&self) -> Result<Option<String>, ProtocolError> {
        self.not_empty(Attribute::Cd, self.get(Attribute::Cd))
    }

    fn state(&self, attribute: Attribute) -> Result<Option<String>, ProtocolError> {
        self.not_empty(attribute, self.get(attribute).map(str::trim))
    }

    fn required_state(&self, attribute: Attribute) -> Result<String, ProtocolError> {
        self.state(attribute)?.ok_or_else(|| self.missing(attribute))
    }

    fn missing(&self, attribute: Attribute) -> ProtocolError {
        ProtocolError::MissingAttribute { tag: self.tag.brief(), name: self.tag.name, attribute }
    }

    fn not_empty(&self, attribute: Attribute, value: Option<&str>) -> Result<Option<String>, ProtocolError> {
        match value {
            Some(value) if value.trim().is_empty() => {
                Err(ProtocolError::EmptyAttribute { tag: self.tag.brief(), attribute })
            }
            value => Ok(value.map(str::to_owned)),
        }
    }

    fn duration(&self, attribute: Attribute) -> Result<Option<Duration>, ProtocolError> {
        let Some(text) = self.get(attribute) else {
            return Ok(None);
        };
        let bad = |why| ProtocolError::BadDuration { tag: self.tag.brief(), attribute, why };
        duration::parse(text.trim()).map(Some).map_err(|error| bad(error.to_string()))
    }

    /// Whether an attribute whose only value is `ok` is given.
    fn ok(&self, attribute: Attribute) -> Result<bool, ProtocolError> {
        match self.get(attribute).map(str::trim) {
            None => Ok(false),
            Some("ok") => Ok(true),
            Some(_) => Err(ProtocolError::NotOk { tag: self.tag.brief(), attribute }),
        }
    }

    fn jump(&self) -> Result<Jump, ProtocolError> {
        Ok(Jump { target: self.target()?, input: self.input(), delay: self.duration(Attribute::Delay)? })
    }

    fn invoke(&self) -> Result<Invoke, ProtocolError> {
        let return_to = self.required_state(Attribute::Return)?;
        Ok(Invoke { target: self.target()?, return_to, input: self.input() })
    }

    fn invoke_workflow(&self) -> Result<InvokeWorkflow, ProtocolError> {
        let Invoke { target, return_to, input } = self.invoke()?;
        Ok(InvokeWorkflow { scope: target, return_to, input, inputs: self.variables() })
    }

    fn variables(&self) -> Vec<(String, String)> {
        self.variables.iter().map(|(name, value)| ((*name).into(), (*value).into())).collect()
    }

    fn worktree(&self) -> Result<Option<Wanted>, ProtocolError> {
        let checked = |attribute, check: fn(&str) -> Result<(), worktree::Refused>| {
            let value = self.get(attribute).map(str::trim);
            let bad = |why| ProtocolError::BadWorktree { tag: self.tag.brief(), attribute, why };
            value.map(|value| check(value).map(|()| value.to_owned()).map_err(bad)).transpose()
        };
        let Some(name) = checked(Attribute::Worktree, worktree::check_name)? else { return Ok(None) };
        if self.get(Attribute::Cd).is_some() {
            return Err(ProtocolError::TwoFolders { tag: self.tag.brief() });
        }
        Ok(Some(Wanted { name, from: checked(Attribute::From, worktree::check_revision)? }))
    }

    fn fork(&self) -> Result<Fork, ProtocolError> {
        let target = self.target()?;
        let is_workflow = self.tag.name.is_workflow();
        Ok(Fork {
            target: if is_workflow { ForkTarget::Workflow(target) } else { ForkTarget::State(target) },
            input: self.input(),
            cd: self.directory()?,
            worktree: self.worktree()?,
            variables: self.variables(),
        })
    }
}

/// Checks the name of a worker's variable. Two more are set by Raymond if it has a worktree.
fn check_variable(name: &str, tag: &Tag, rules: Rules) -> Result<(), VariableError> {
    let has_worktree = tag.attributes.iter().any(|(name, _)| name == Attribute::Worktree.as_str());
    if has_worktree && variable::OF_WORKTREES.contains(&name) {
        return Err(VariableError::BuiltIn { name: name.to_owned() });
    }
    variable::check(name, rules)
}

/// Whether two names can stand for one state: `END` and `END.sh` can.
fn may_be_same_state(one: &str, other: &str) -> bool {
    let name = |text: &str| StateFile::new(text).map(|state| state.name().to_owned());
    one == other || name(one).as_deref() == Some(other) || name(other).as_deref() == Some(one)
}

#[cfg(test)]
mod tests;
