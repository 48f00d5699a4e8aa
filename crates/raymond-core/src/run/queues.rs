//! Queues derived from the agents and kept up to date, so that no step has to visit every agent.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;

use super::{Agent, Status, Wait};
use crate::name::AgentId;

#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Queues {
    /// Agents that can start, in the order they became ready.
    pub(super) scripts: BTreeSet<(u64, AgentId)>,
    pub(super) prompts: BTreeSet<(u64, AgentId)>,
    /// Agents that can start as soon as an `exclusive` name is free, by that name.
    pub(super) named: BTreeMap<String, BTreeSet<(u64, AgentId)>>,
    /// The `exclusive` names of steps that have begun, and whose steps they are.
    holders: BTreeMap<String, BTreeSet<AgentId>>,
    pub(super) running_scripts: BTreeSet<AgentId>,
    pub(super) running_prompts: BTreeSet<AgentId>,
    /// Agents that may not start before a certain time.
    pub(super) waiting: BTreeSet<(Timestamp, AgentId)>,
    /// How many of them wait for the end of a usage limit.
    pub(super) limited: usize,
    pub(super) ending: BTreeSet<AgentId>,
    pub(super) failed: BTreeSet<AgentId>,
    /// Agents that ask, with the time of their questions.
    pub(super) asking: BTreeSet<(Timestamp, AgentId)>,
    /// The deadlines of open questions.
    pub(super) deadlines: BTreeSet<(Timestamp, AgentId)>,
    pub(super) joining: BTreeSet<AgentId>,
    /// Agents that join and whose workers have all ended.
    pub(super) joinable: BTreeSet<AgentId>,
    /// How many workers of each agent have neither ended nor failed.
    pub(super) live_workers: BTreeMap<AgentId, usize>,
}

impl Queues {
    pub(super) fn insert(&mut self, agent: &Agent) {
        self.place(agent, true);
        if let Some(parent) = agent.live_worker_of() {
            *self.live_workers.entry(parent.clone()).or_default() += 1;
            self.check_join(parent);
        }
        self.check_join(&agent.id);
    }

    pub(super) fn remove(&mut self, agent: &Agent) {
        self.place(agent, false);
        if let Some(parent) = agent.live_worker_of() {
            if let Some(count) = self.live_workers.get_mut(parent) {
                *count -= 1;
                if *count == 0 {
                    self.live_workers.remove(parent);
                }
            }
            self.check_join(parent);
        }
        self.check_join(&agent.id);
    }

    pub(super) fn is_held(&self, name: &str) -> bool {
        self.holders.contains_key(name)
    }

    pub(super) fn first_waiting_for(&self, name: &str) -> Option<&(u64, AgentId)> {
        self.named.get(name)?.first()
    }

    /// The queues for the names that no step has.
    pub(super) fn free_names(&self) -> impl Iterator<Item = &BTreeSet<(u64, AgentId)>> {
        self.named.iter().filter(|(name, _)| !self.is_held(name)).map(|(_, waiting)| waiting)
    }

    /// Adds an agent to the queues of its status, or removes it.
    fn place(&mut self, agent: &Agent, present: bool) {
        let id = agent.id.clone();
        let is_prompt = agent.state.kind().is_prompt();
        if let Some(name) = agent.held_name() {
            set_by_name(&mut self.holders, name, id.clone(), present);
        }
        match &agent.status {
            Status::Ready { since, .. } => {
                let item = (*since, id);
                match (&agent.waits_for_name, is_prompt) {
                    (Some(name), _) => set_by_name(&mut self.named, name, item, present),
                    (None, true) => set(&mut self.prompts, item, present),
                    (None, false) => set(&mut self.scripts, item, present),
                }
            }
            Status::Running { .. } if is_prompt => set(&mut self.running_prompts, id, present),
            Status::Running { .. } => set(&mut self.running_scripts, id, present),
            Status::Waiting { until, why, .. } => {
                set(&mut self.waiting, (*until, id), present);
                match (why, present) {
                    (Wait::Limit, true) => self.limited += 1,
                    (Wait::Limit, false) => self.limited -= 1,
                    (Wait::Delay | Wait::Retry, _) => {}
                }
            }
            Status::Asking { ask } => {
                if let Some(deadline) = ask.deadline {
                    set(&mut self.deadlines, (deadline, id.clone()), present);
                }
                set(&mut self.asking, (ask.opened_at, id), present);
            }
            Status::Joining { .. } => set(&mut self.joining, id, present),
            Status::Ending { .. } => set(&mut self.ending, id, present),
            Status::Failed { .. } => set(&mut self.failed, id, present),
        }
    }

    fn check_join(&mut self, agent: &AgentId) {
        let is_joinable = self.joining.contains(agent) && !self.live_workers.contains_key(agent);
        set(&mut self.joinable, agent.clone(), is_joinable);
    }
}

fn set_by_name<T: Ord>(sets: &mut BTreeMap<String, BTreeSet<T>>, name: &str, item: T, present: bool) {
    if !sets.contains_key(name) {
        sets.insert(name.to_owned(), BTreeSet::new());
    }
    if let Some(of_name) = sets.get_mut(name) {
        set(of_name, item, present);
        if of_name.is_empty() {
            sets.remove(name);
        }
    }
}

fn set<T: Ord>(set: &mut BTreeSet<T>, item: T, present: bool) {
    if present {
        set.insert(item);
    } else {
        set.remove(&item);
    }
}
