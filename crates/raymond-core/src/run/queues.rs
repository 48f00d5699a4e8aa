//! What can be derived from the agents, kept up to date so that no step has to look at every agent.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;

use super::{Agent, Status, Wait};
use crate::name::AgentId;

#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Queues {
    /// Agents that could start, in the order they became ready.
    pub(super) scripts: BTreeSet<(u64, AgentId)>,
    pub(super) prompts: BTreeSet<(u64, AgentId)>,
    pub(super) running_scripts: BTreeSet<AgentId>,
    pub(super) running_prompts: BTreeSet<AgentId>,
    /// Agents that may not start before a time.
    pub(super) waiting: BTreeSet<(Timestamp, AgentId)>,
    /// How many of them wait for the end of a usage limit.
    pub(super) limited: usize,
    pub(super) ending: BTreeSet<AgentId>,
    pub(super) failed: BTreeSet<AgentId>,
    /// Agents that ask, with the time of their questions.
    pub(super) asking: BTreeSet<(Timestamp, AgentId)>,
    /// When open questions close unanswered.
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

    /// Puts an agent into, or takes it out of, the queues its status belongs to.
    fn place(&mut self, agent: &Agent, present: bool) {
        let id = agent.id.clone();
        let is_prompt = agent.state.kind().is_prompt();
        match &agent.status {
            Status::Ready { since, .. } if is_prompt => set(&mut self.prompts, (*since, id), present),
            Status::Ready { since, .. } => set(&mut self.scripts, (*since, id), present),
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

fn set<T: Ord>(set: &mut BTreeSet<T>, item: T, present: bool) {
    if present {
        set.insert(item);
    } else {
        set.remove(&item);
    }
}
