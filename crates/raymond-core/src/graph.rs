//! The graph of a workflow, for everything that needs the workflow as a whole: its states and the transitions between
//! them.
//!
//! The transitions of a prompt come from its policy and, where the policy leaves something open, from the tags in its
//! text. Scripts are programs, so only tags with literal names in their text are used; a script with other tags may
//! lead to any state. The platform is a value, so a graph can be built for either platform on any machine. Building the
//! graph takes time linear in the size of the workflow.

mod build;
mod emitted;
mod exit;
pub mod reach;
mod scan;
mod source;

use std::collections::HashMap;

pub use exit::{Leads, Origin, Reference, Role, StateExit};
pub use scan::scan;
pub use source::{EntryPlaces, Notice, PromptSettings, Source, Told, Trouble};

use crate::tag::{Found, Located, NearMiss};
use crate::workflow::{Listing, Platform, ResolveError, StateFile};
use reach::{Edges, reachable, reversed};

/// A state's file.
#[derive(Clone, Debug)]
pub struct SourceFile {
    pub state: StateFile,
    pub text: String,
}

/// A state's file whose settings and tags were read.
#[derive(Clone, Debug)]
pub struct ReadFile {
    pub state: StateFile,
    pub text: String,
    pub source: Source,
    pub found: Found,
}

impl ReadFile {
    pub fn new(state: StateFile, text: String) -> ReadFile {
        let source = Source::read(&state, &text);
        let found = scan(state.kind(), &text, source.body.clone());
        ReadFile { state, text, source, found }
    }
}

impl From<SourceFile> for ReadFile {
    fn from(file: SourceFile) -> ReadFile {
        ReadFile::new(file.state, file.text)
    }
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
    /// From each state to the states in which the same agent continues with an unchanged stack.
    pub continuing: Edges,
    /// From each state to all states that it names.
    pub leading: Edges,
}

/// One state and the data read from its text.
#[derive(Debug)]
pub struct StateNode {
    pub file: StateFile,
    pub text: String,
    pub source: Source,
    /// The transition tags in its body.
    pub tags: Vec<Located>,
    /// Text in its body that looks like a tag but is not.
    pub missed: Vec<NearMiss>,
    /// The transitions that it may take.
    pub exits: Vec<StateExit>,
    /// Transitions in its text that its policy forbids.
    pub forbidden: Vec<StateExit>,
    /// Whether it may lead to states that its text does not name.
    pub is_opaque: bool,
    /// Whether it can run on the graph's platform.
    pub runs_here: bool,
}

impl StateNode {
    pub fn body(&self) -> &str {
        self.text.get(self.source.body.clone()).unwrap_or_default()
    }

    /// Whether an agent may end, or a called state may return, here.
    pub fn may_end(&self) -> bool {
        self.exits.iter().any(StateExit::is_end)
    }
}

impl Graph {
    /// Builds the graph of a workflow; `entry` is the first state if that is not the default one.
    pub fn read(files: Vec<SourceFile>, entry: Option<&StateFile>, platform: Platform) -> Graph {
        Self::read_part(files.into_iter().map(ReadFile::from).collect(), &[], entry, platform)
    }

    /// Builds the graph of some states of a workflow; `others` are its other states, which can be named.
    pub fn read_part(
        files: Vec<ReadFile>,
        others: &[StateFile],
        entry: Option<&StateFile>,
        platform: Platform,
    ) -> Graph {
        build::build(files, others, entry, platform)
    }

    pub fn state(&self, number: usize) -> Option<&StateNode> {
        self.states.get(number)
    }

    /// Which states a run may reach; `None` if its first state is not known.
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

    /// Which states can reach a state for which `is_wanted` is true, without leaving the agent's frame.
    pub fn lead_on_to(&self, is_wanted: impl Fn(&StateNode) -> bool) -> Vec<bool> {
        let wanted = self.states.iter().enumerate().filter(|(_, state)| is_wanted(state));
        reachable(&reversed(&self.continuing), wanted.map(|(number, _)| number))
    }

    /// The states of each name, for all platforms.
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
