//! The course of a real run, read from its journal: what each attempt did, so that the same run can be replayed with
//! faults.

use std::collections::BTreeMap;

use jiff::Timestamp;
use raymond::workflow::states::StateText;
use raymond_core::event::RunStarted;
use raymond_core::folder::Folder;
use raymond_core::input::{Lookups, NewWorktree, ScopeEntry};
use raymond_core::name::AgentId;
use raymond_core::run::{Agent, Options, RunStatus};
use raymond_core::transition::Transition;
use raymond_core::workflow::StateFile;
use raymond_core::worktree::{Wanted, Worktree, branch};

use crate::check::Outcome;
use crate::program::Act;

/// Where an agent is: its id, its place, and how many times it has been there.
pub type Visit = (AgentId, String, u64);

#[derive(Debug)]
pub struct Course {
    pub began: Timestamp,
    pub started: RunStarted,
    pub input: Option<String>,
    /// What each process of Raymond did for the run; each process except the first was a resume.
    pub parts: Vec<Part>,
    /// Other workflows, by the names that were used for them.
    pub entered: BTreeMap<String, ScopeEntry>,
    pub outcome: Outcome,
    /// Whether the outcome depends on the order of agents: a run of several agents was halted.
    pub depends_on_order: bool,
}

#[derive(Debug)]
pub struct Part {
    pub options: Options,
    /// When it began, in milliseconds after the start of the run.
    pub begin: u64,
    pub pauses: bool,
    /// The answers since the last part.
    pub answers: Vec<(AgentId, String)>,
    /// States as they were read, by place.
    pub states: BTreeMap<String, Result<StateText, String>>,
    /// What the names in a prompt's policy resolved to, by place.
    pub policies: BTreeMap<String, Lookups>,
    /// What the names in an agent's messages resolved to.
    pub said: BTreeMap<Visit, Lookups>,
    /// What each try did.
    pub acts: BTreeMap<Visit, Vec<Act>>,
    pub end: RunStatus,
}

impl Course {
    pub fn last_end(&self) -> RunStatus {
        self.parts.last().map_or(RunStatus::Running, |part| part.end)
    }

    /// What a try does; an error if the recorded run had no such try.
    pub fn act(&self, part: usize, agent: &Agent, visit: u64, tries: usize) -> Option<Act> {
        let acts = self.parts[part].acts.get(&(agent.id.clone(), agent.place(), visit))?;
        // A failure is repeated.
        acts.get(tries).or(acts.last()).cloned()
    }

    pub fn state(&self, part: usize, agent: &Agent) -> Result<StateText, String> {
        let found = self.parts[part].states.get(&agent.place());
        found.cloned().unwrap_or_else(|| Err(format!("{} was never read", agent.place())))
    }

    /// Names in a script's output are already resolved.
    pub fn look_up(&self, transition: &Transition) -> Lookups {
        let state = |name: &str| StateFile::new(name).ok_or_else(|| format!("`{name}` is no state"));
        let names = transition.state_names();
        let given = transition.inputs();
        let given = given.iter().flat_map(|(_, values)| values.iter());
        Lookups {
            files: given.map(|(_, value)| (value.clone(), Ok(value.clone()))).collect(),
            states: names.into_iter().map(|name| (name.to_owned(), state(name))).collect(),
            directories: transition
                .directories()
                .into_iter()
                .map(|path| (path.to_owned(), Ok(Folder::permitted(path))))
                .collect(),
            scopes: transition.scopes().into_iter().map(|name| (name.to_owned(), self.enter(name))).collect(),
            result_problem: None,
            snapshot: None,
            worktrees: transition
                .worktrees()
                .into_iter()
                .map(|wanted| (wanted.clone(), Ok(made(wanted))))
                .collect(),
        }
    }

    fn enter(&self, name: &str) -> Result<ScopeEntry, String> {
        self.entered.get(name).cloned().ok_or_else(|| format!("`{name}` was never entered"))
    }

    pub fn look_up_turn(&self, part: usize, agent: &Agent, transition: Option<&Transition>) -> Lookups {
        let mut found = transition.map(|transition| self.look_up(transition)).unwrap_or_default();
        let visit = (agent.id.clone(), agent.place(), agent.visits_here());
        let part = &self.parts[part];
        for known in part.policies.get(&visit.1).into_iter().chain(part.said.get(&visit)) {
            add(&mut found, known);
        }
        found
    }
}

pub fn add(found: &mut Lookups, more: &Lookups) {
    found.states.extend(more.states.clone());
    found.directories.extend(more.directories.clone());
    found.scopes.extend(more.scopes.clone());
    found.files.extend(more.files.clone());
}

/// As if the worktree could be made; no program of the simulation works in it.
fn made(wanted: &Wanted) -> NewWorktree {
    let path = format!("/worktrees/{}", wanted.name);
    let worktree = Worktree {
        name: wanted.name.clone(),
        path: path.clone(),
        branch: branch("run", &wanted.name),
        base: String::new(),
        repository: String::new(),
    };
    NewWorktree { worktree, cwd: path }
}
