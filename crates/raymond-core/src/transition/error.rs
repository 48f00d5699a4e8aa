//! Why tags make no transition, in words that tell what to write instead.

use std::fmt;

use crate::tag::{Attribute, NearMiss, TagName};
use crate::variable::VariableError;
use crate::worktree;

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
