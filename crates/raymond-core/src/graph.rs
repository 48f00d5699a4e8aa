//! One picture of a workflow for everything that looks at it as a whole: its states, and which leads to which.
//!
//! Prompts say where they lead by their policy, and where that leaves something open by the tags in their text.
//! Scripts are programs, so only tags with literal names in their text are believed; what cannot be read that way may
//! lead anywhere. The platform is a value, so a workflow can be looked at as either platform sees it. Building the
//! graph takes time linear in the size of the workflow.

mod build;
mod exit;
pub mod reach;
mod scan;
mod source;

use std::collections::HashMap;

pub use exit::{Leads, Origin, Reference, Role, StateExit};
pub use scan::scan;
pub use source::{EntryPlaces, Notice, PromptSettings, Source, Told, Trouble};

use crate::tag::{Located, Missed};
use crate::workflow::{Listing, Platform, ResolveError, StateFile};
use reach::{Edges, reachable, reversed};

/// A state's file.
#[derive(Clone, Debug)]
pub struct SourceFile {
    pub state: StateFile,
    pub text: String,
}

/// A workflow as a whole.
#[derive(Debug)]
pub struct Graph {
    pub platform: Platform,
    pub listing: Listing,
    /// Sorted by name.
    pub states: Vec<StateNode>,
    /// Where a run begins.
    pub entry: Result<usize, ResolveError>,
    /// From each state to those at which the same agent goes on, with its stack as it was.
    pub continuing: Edges,
    /// From each state to all that it names.
    pub leading: Edges,
}

/// One state and what its text says.
#[derive(Debug)]
pub struct StateNode {
    pub file: StateFile,
    pub text: String,
    pub source: Source,
    /// The transition tags that stand in its body.
    pub tags: Vec<Located>,
    /// What looks like a tag there and is none.
    pub missed: Vec<Missed>,
    /// Where it may lead.
    pub exits: Vec<StateExit>,
    /// What its text shows and its policy forbids.
    pub forbidden: Vec<StateExit>,
    /// Whether it may lead to states that cannot be read from its text.
    pub is_opaque: bool,
    /// Whether it is a state on the graph's platform.
    pub runs_here: bool,
}

impl StateNode {
    pub fn body(&self) -> &str {
        self.text.get(self.source.body.clone()).unwrap_or_default()
    }

    /// Whether an agent, or a callee, may end here.
    pub fn may_end(&self) -> bool {
        self.exits.iter().any(StateExit::is_end)
    }
}

impl Graph {
    /// Reads a workflow; `entry` is the state to begin with where that is not the usual one.
    pub fn read(files: Vec<SourceFile>, entry: Option<&StateFile>, platform: Platform) -> Graph {
        build::build(files, entry, platform)
    }

    pub fn state(&self, number: usize) -> Option<&StateNode> {
        self.states.get(number)
    }

    /// Which states a run may come to; nothing if it is not known where it begins.
    pub fn reached(&self) -> Option<Vec<bool>> {
        let entry = *self.entry.as_ref().ok()?;
        let reached = reachable(&self.leading, [entry]);
        let leads_anywhere =
            |(state, reached): (&StateNode, &bool)| *reached && state.is_opaque && state.runs_here;
        if self.states.iter().zip(&reached).any(leads_anywhere) {
            return Some(vec![true; self.states.len()]);
        }
        Some(reached)
    }

    /// Which states lead on to one of those that `is_wanted` says, without leaving the agent's frame.
    pub fn lead_on_to(&self, is_wanted: impl Fn(&StateNode) -> bool) -> Vec<bool> {
        let wanted = self.states.iter().enumerate().filter(|(_, state)| is_wanted(state));
        reachable(&reversed(&self.continuing), wanted.map(|(number, _)| number))
    }

    /// All states of one name, whatever they run on.
    pub fn by_name(&self) -> HashMap<&str, Vec<usize>> {
        let mut by_name: HashMap<&str, Vec<usize>> = HashMap::new();
        for (number, state) in self.states.iter().enumerate() {
            by_name.entry(state.file.name()).or_default().push(number);
        }
        by_name
    }
}

#[cfg(test)]
mod tests;
