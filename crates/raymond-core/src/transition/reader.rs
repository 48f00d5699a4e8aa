//! Reads the tags of a step: which of them may stand together, and which attributes each needs.

use std::collections::BTreeMap;
use std::time::Duration;

use super::{Ask, Fork, ForkTarget, Invoke, InvokeWorkflow, Jump, ProtocolError, Reading, Transition};
use crate::duration;
use crate::payload::Payload;
use crate::tag::{Attribute, Collected, NearMisses, Need, Tag, TagName, clip};
use crate::variable::{self, Rules, VariableError};
use crate::workflow::StateFile;
use crate::worktree::{self, Wanted};

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
            TagName::Result => Transition::Result { payload: tag.content.as_str().into() },
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
            question: fields.tag.content.as_str().into(),
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

    fn input(&self) -> Option<Payload> {
        self.get(Attribute::Input).map(Payload::from)
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
