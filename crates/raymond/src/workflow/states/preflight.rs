//! Checking a workflow before anything is run or paid for.
//!
//! A folder may hold files that look like states and are not meant to be (a README), so only states that can be
//! reached are checked: the first one, and every state whose name stands in the text of one that can be. The same goes
//! for other workflows that such states name and that are there; one that is not may be made by a step.

mod needs;

use std::collections::{BTreeSet, HashMap};
use std::path::{Path, PathBuf};

use raymond_core::graph::{ReadFile, Told};
use raymond_core::input::{Plan, PromptPlan};
use raymond_core::run::Options;
use raymond_core::tag::Located;
use raymond_core::workflow::StateFile;

use super::{Parts, TurnSettings, options_in, prompt, read_state, script};
use crate::agent::registry::Backends;
use crate::error::UserError;
use crate::paths::{normalise, shown};
use crate::workflow::manifest::Defaults;
use crate::workflow::named::{in_policy, in_tags};
use crate::workflow::scope::{Form, Given, Scope, Source};
use crate::workflow::scopes::Allowed;
use needs::Conversations;

/// How many other workflows are checked; mistakes in further ones are found when they are entered.
const MAX_OTHERS: usize = 200;

/// A workflow that a run may be in, and the states of it that the run may reach.
#[derive(Debug)]
pub struct Reached {
    pub path: PathBuf,
    pub entries: BTreeSet<StateFile>,
    pub states: BTreeSet<StateFile>,
    /// The same states as they were read, if each is a text of its own.
    pub read: Option<Vec<ReadFile>>,
    /// The workflow's other states, which can be named.
    pub others: Vec<StateFile>,
    /// The options of the run inside this workflow.
    pub options: Options,
    /// The backends of its prompts.
    pub backends: BTreeSet<String>,
    /// Each of its prompts with the backends that may take it.
    pub prompts: Vec<(StateFile, Vec<String>)>,
    /// From each state to those that it surely means: by its policy or a tag.
    leading: HashMap<StateFile, BTreeSet<StateFile>>,
}

impl Reached {
    /// The states to which policies and tags lead. Of the others only a word in some text is the name, as in `cat NOTE.md`.
    pub fn surely(&self) -> BTreeSet<&StateFile> {
        let mut surely: BTreeSet<&StateFile> = self.entries.iter().collect();
        let mut to_visit: Vec<&StateFile> = self.entries.iter().collect();
        while let Some(state) = to_visit.pop() {
            let next = self.leading.get(state).into_iter().flatten();
            to_visit.extend(next.filter(|next| surely.insert(next)));
        }
        surely
    }
}

/// A workflow and the states of it in which agents begin or go on.
pub type Start = (Scope, BTreeSet<StateFile>);

/// Finds what is wrong with the states that a run may reach, in its own workflow and in others: from the states
/// `entries` of its own, and from those of `others`.
pub fn check_all(
    scope: &mut Scope,
    entries: &BTreeSet<StateFile>,
    others: Vec<Start>,
    options: &Options,
    backends: &Backends,
    allowed: &Allowed,
) -> Result<Vec<Reached>, UserError> {
    let is_known = |(scope, entries): (&Scope, &BTreeSet<StateFile>)| {
        entries.iter().map(|entry| (scope.path().to_owned(), entry.clone())).collect::<Vec<_>>()
    };
    let mut known = BTreeSet::from_iter(is_known((scope, entries)));
    known.extend(others.iter().flat_map(|(scope, entries)| is_known((scope, entries))));
    let mut to_enter = others;
    let (first, named) = check_scope(scope, entries, &options_in(scope, options), backends)?;
    let mut reached = vec![first];
    find_others(scope, &named, allowed, &mut known, &mut to_enter)?;
    while let Some((mut scope, entries)) = to_enter.pop() {
        let options = options_in(&scope, options);
        let (next, named) = check_scope(&mut scope, &entries, &options, backends)?;
        reached.push(next);
        find_others(&scope, &named, allowed, &mut known, &mut to_enter)?;
    }
    Ok(reached)
}

/// Opens the workflows that states name, those that were not looked into yet.
fn find_others(
    scope: &Scope,
    named: &BTreeSet<String>,
    allowed: &Allowed,
    known: &mut BTreeSet<(PathBuf, StateFile)>,
    to_enter: &mut Vec<Start>,
) -> Result<(), UserError> {
    for name in named {
        let path = normalise(scope.path(), Path::new(name));
        let is_there = Form::of(&path).or_else(|| Form::of(path.parent()?)).is_some();
        if !is_there || !allowed.permits(&path) || known.len() > MAX_OTHERS {
            continue;
        }
        match Scope::open_relative(scope.path(), name, scope.platform()) {
            Ok(located) => {
                if known.insert((located.scope.path().to_owned(), located.entry.clone())) {
                    to_enter.push((located.scope, BTreeSet::from([located.entry])));
                }
            }
            // A step may still write a folder's missing files; a broken archive or file stays broken.
            Err(error) if matches!(Form::of(&path), Some(Form::Archive | Form::OneFile)) => {
                let needed = format!("{} names it as another workflow", shown(scope.path()).display());
                return Err(error.hint(needed));
            }
            Err(_) => {}
        }
    }
    Ok(())
}

/// Checks the states of one workflow, and says which others they name.
fn check_scope(
    scope: &mut Scope,
    entries: &BTreeSet<StateFile>,
    options: &Options,
    backends: &Backends,
) -> Result<(Reached, BTreeSet<String>), UserError> {
    let names = names(scope);
    let mut reached = entries.clone();
    let mut to_check: Vec<StateFile> = entries.iter().cloned().collect();
    let mut others = BTreeSet::new();
    let mut conversations = Conversations::default();
    let mut ready_backends = BTreeSet::new();
    let mut prompts = Vec::new();
    let mut leading: HashMap<StateFile, BTreeSet<StateFile>> = HashMap::new();
    let (mut read, mut each_is_a_text) = (Vec::new(), true);
    while let Some(state) = to_check.pop() {
        // A state that is gone may never be needed, or a step may write it before it is.
        let Ok(source) = scope.read(&state) else { continue };
        let file = ReadFile::new(state.clone(), String::from_utf8_lossy(&source.bytes).into_owned());
        let (plan, turn, _) = settings_of(&file, &source, options, &scope.manifest().defaults)
            .map_err(|error| UserError::usage(error).hint("nothing was run; fix the file and start again"))?;
        let tags = &file.found.tags;
        if let (Plan::Prompt(prompt), Some(settings)) = (&plan, &turn) {
            check_backend(scope, &state, (prompt, settings), options, backends, &mut ready_backends)?;
            conversations.add(&state, prompt, tags);
            let names = std::iter::once(&prompt.backend).chain(&prompt.fallbacks).cloned().collect();
            prompts.push((state.clone(), names));
            others.extend(prompt.policy.iter().flat_map(in_policy));
        }
        others.extend(in_tags(tags));
        let meant = targets(&plan, tags).filter_map(|name| names.get(name)).flatten().cloned();
        leading.insert(state.clone(), meant.collect());
        let beside = match &source.given {
            Given::Beside { text, .. } => text.as_str(),
            Given::InText | Given::InPart { .. } => "",
        };
        for mentioned in words(&file.text).chain(words(beside)).filter_map(|word| names.get(word)).flatten() {
            if reached.insert(mentioned.clone()) {
                to_check.push(mentioned.clone());
            }
        }
        match source.given {
            Given::InText => read.push(file),
            Given::InPart { .. } | Given::Beside { .. } => each_is_a_text = false,
        }
    }
    conversations.check(&names, |backend| backends.get(backend).ok())?;
    let found = Reached {
        path: scope.path().to_owned(),
        entries: entries.clone(),
        others: scope.states().filter(|state| !reached.contains(state)).collect(),
        states: reached,
        read: each_is_a_text.then_some(read),
        options: options.clone(),
        backends: ready_backends,
        prompts,
        leading,
    };
    Ok((found, others))
}

/// The names of states that a policy or a tag has.
fn targets<'a>(plan: &'a Plan, tags: &'a [Located]) -> impl Iterator<Item = &'a str> {
    const NAMING: [&str; 3] = ["next", "return", "timeout_next"];
    let policy = match plan {
        Plan::Prompt(prompt) => prompt.policy.as_ref(),
        Plan::Script(_) => None,
    };
    let in_entries = policy.into_iter().flat_map(|policy| &policy.entries).flat_map(|entry| {
        [&entry.target, &entry.return_to, &entry.next, &entry.timeout_next].into_iter().flatten()
    });
    let in_tags = tags.iter().flat_map(|located| {
        let named = located.tag.attributes.iter().filter(|(name, _)| NAMING.contains(&name.as_str()));
        std::iter::once(located.tag.content.trim()).chain(named.map(|(_, value)| value.as_str()))
    });
    in_entries.map(String::as_str).chain(in_tags)
}

/// What a state says about its execution. What was read with places serves here too, because reading takes time; where
/// that failed, reading it as a step does gives the error.
fn settings_of(
    file: &ReadFile,
    source: &Source,
    options: &Options,
    defaults: &Defaults,
) -> Result<Parts, String> {
    match (&source.given, &file.source.settings) {
        (Given::InText, Told::Prompt(read)) => Ok(prompt(read.settings.clone(), "", options, defaults)),
        (Given::InText, Told::Script(header)) => Ok(script(header.clone(), options, defaults)),
        _ => {
            let read = read_state(&file.state, source, options, defaults)?;
            Ok((read.plan, read.turn, read.body))
        }
    }
}

/// A state's prompt cannot be sent to a backend that is not there, or that cannot do what the state needs. Backends
/// that are ready for this workflow are remembered in `ready`: finding that out may mean reading files.
fn check_backend(
    scope: &Scope,
    state: &StateFile,
    (prompt, settings): (&PromptPlan, &TurnSettings),
    options: &Options,
    backends: &Backends,
    ready: &mut BTreeSet<String>,
) -> Result<(), UserError> {
    let in_state = |error| UserError::usage(format!("{state}: {error}"));
    for (number, name) in std::iter::once(&prompt.backend).chain(&prompt.fallbacks).enumerate() {
        let program = backends.get(name).map_err(in_state)?;
        let model = program.model_of(settings.model.clone(), number > 0);
        needs::check(state, name, &TurnSettings { model, ..settings.clone() }, options, backends)?;
        if !ready.contains(name) {
            program.check(scope).map_err(in_state)?;
            ready.insert(name.clone());
        }
    }
    Ok(())
}

/// States by name. Every word of every text is looked up in it.
type Names = HashMap<String, Vec<StateFile>>;

/// Every state by the names it can be called.
fn names(scope: &Scope) -> Names {
    let mut names = Names::new();
    for state in scope.states() {
        names.entry(state.name().to_owned()).or_default().push(state.clone());
        names.entry(state.as_str().to_owned()).or_default().push(state);
    }
    names
}

/// Everything in a text that could be the name of a state.
fn words(text: &str) -> impl Iterator<Item = &str> {
    let words = text.split(|c: char| !(c.is_alphanumeric() || matches!(c, '_' | '-' | '.')));
    words.filter(|word| !word.is_empty()).flat_map(|word| {
        // A name at the end of a sentence carries its full stop.
        let plain = word.ends_with('.').then(|| word.trim_end_matches('.'));
        [word].into_iter().chain(plain)
    })
}

#[cfg(test)]
mod tests;
