//! Checking a workflow before anything is run or paid for.
//!
//! A folder may hold files that look like states and are not meant to be (a README), so only states that can be
//! reached are checked: the first one, and every state whose name stands in the text of one that can be.

use std::collections::{BTreeMap, BTreeSet};

use raymond_core::input::Plan;
use raymond_core::run::Options;
use raymond_core::workflow::StateFile;

use super::prepare;
use crate::backend::registry::{Backend, Backends};
use crate::error::UserError;
use crate::scope::{Given, Scope};

/// Finds what is wrong with the states that a run from `entry` may reach.
pub fn check_all(
    scope: &mut Scope,
    entry: &StateFile,
    options: &Options,
    backends: &Backends,
) -> Result<(), UserError> {
    let names = names(scope);
    let mut reached = BTreeSet::from([entry.clone()]);
    let mut to_check = vec![entry.clone()];
    while let Some(state) = to_check.pop() {
        let source = match scope.read(&state) {
            Ok(source) => source,
            Err(error) if state == *entry => return Err(UserError::usage(error)),
            // It may never be needed, or be written by a step before it is.
            Err(_) => continue,
        };
        let prepared = prepare(&state, &source, options).map_err(|error| {
            UserError::usage(error).hint("nothing was run; mend the file and start again")
        })?;
        if let Plan::Prompt(prompt) = &prepared.plan {
            check_backend(scope, &state, &prompt.backend, backends)?;
        }
        let text = String::from_utf8_lossy(&source.bytes);
        let beside = match &source.given {
            Given::Beside { text, .. } => text.as_str(),
            Given::InText | Given::InPart { .. } => "",
        };
        for mentioned in words(&text).chain(words(beside)).filter_map(|word| names.get(word)).flatten() {
            if reached.insert(mentioned.clone()) {
                to_check.push(mentioned.clone());
            }
        }
    }
    Ok(())
}

/// A state's prompt cannot be sent to a backend that is not there.
fn check_backend(scope: &Scope, state: &StateFile, name: &str, backends: &Backends) -> Result<(), UserError> {
    let backend = backends.get(name).map_err(|error| UserError::usage(format!("{state}: {error}")))?;
    if let Backend::Scripted { replies } = backend {
        scope.replies(replies.as_deref()).map_err(|error| UserError::usage(format!("{state}: {error}")))?;
    }
    Ok(())
}

/// Every state by the names it can be called.
fn names(scope: &Scope) -> BTreeMap<String, Vec<StateFile>> {
    let mut names: BTreeMap<String, Vec<StateFile>> = BTreeMap::new();
    for state in scope.states() {
        names.entry(state.name().to_owned()).or_default().push(state.clone());
        names.entry(state.as_str().to_owned()).or_default().push(state);
    }
    names
}

/// Everything in a text that could be the name of a state.
fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split(|c: char| !(c.is_alphanumeric() || matches!(c, '_' | '-' | '.'))).flat_map(|word| {
        // A name at the end of a sentence carries its full stop.
        [word, word.trim_end_matches('.')]
    })
}
