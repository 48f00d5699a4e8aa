//! How far the workers of each agent are, by the state they were forked into. Derived from the workers and kept up to
//! date, because views show it after every commit.

use std::collections::BTreeMap;

use super::{Agent, Run, Status, Worker};
use crate::name::AgentId;
use crate::payload::Payload;
use crate::workflow::StateFile;

/// The workers that an agent has forked into one state and not joined yet. If it has ended, as long as some have not.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FanOut {
    pub workers: usize,
    pub done: usize,
    pub failed: usize,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct FanOuts(BTreeMap<AgentId, BTreeMap<StateFile, FanOut>>);

impl FanOuts {
    fn change(&mut self, parent: &AgentId, state: &StateFile, change: impl FnOnce(&mut FanOut)) {
        if !self.0.contains_key(parent) {
            self.0.insert(parent.clone(), BTreeMap::new());
        }
        let Some(states) = self.0.get_mut(parent) else { return };
        if !states.contains_key(state) {
            states.insert(state.clone(), FanOut::default());
        }
        let Some(fan_out) = states.get_mut(state) else { return };
        change(fan_out);
        if *fan_out == FanOut::default() {
            states.remove(state);
        }
    }

    fn add(&mut self, parent: &AgentId, worker: &Worker) {
        self.change(parent, &worker.state, |fan_out| {
            fan_out.workers += 1;
            fan_out.done += usize::from(worker.result.is_some());
        });
    }

    fn remove(&mut self, parent: &AgentId, worker: &Worker) {
        self.change(parent, &worker.state, |fan_out| {
            fan_out.workers = fan_out.workers.saturating_sub(1);
            fan_out.done = fan_out.done.saturating_sub(usize::from(worker.result.is_some()));
        });
    }
}

impl Run {
    /// The workers of each agent that are not joined yet, by the state they were forked into.
    pub fn fan_outs(&self) -> impl Iterator<Item = (&AgentId, &StateFile, FanOut)> {
        self.fan_outs
            .0
            .iter()
            .flat_map(|(agent, states)| states.iter().map(move |(state, fan_out)| (agent, state, *fan_out)))
    }

    pub(crate) fn add_worker(&mut self, parent: &AgentId, fork: u64, worker: Worker) {
        // A damaged journal may use the number of a fork twice.
        self.forget_worker(parent, fork);
        self.fan_outs.add(parent, &worker);
        let id = worker.agent.clone();
        self.workers.entry(parent.clone()).or_default().insert(fork, worker);
        self.count_if_failed(&id, parent, fork, true);
    }

    fn count_if_failed(&mut self, id: &AgentId, parent: &AgentId, fork: u64, present: bool) {
        let agent = self.agents.get(id);
        if let Some(agent) = agent.filter(|agent| agent.fork == fork && agent.parent.as_ref() == Some(parent))
        {
            Self::count_failed(&mut self.fan_outs, &self.workers, agent, present);
        }
    }

    /// Notes the result of a worker. It is kept if its parent can still join it.
    pub(crate) fn finish_worker(&mut self, parent: &AgentId, fork: u64, result: &Payload) {
        let can_be_joined = self.agents.contains_key(parent);
        let Some(worker) = self.workers.get_mut(parent).and_then(|workers| workers.get_mut(&fork)) else {
            return;
        };
        let result = if can_be_joined { result.clone() } else { Payload::Inline(String::new()) };
        if worker.result.replace(result).is_none() {
            self.fan_outs.change(parent, &worker.state, |fan_out| fan_out.done += 1);
        }
        if !can_be_joined && !self.has_unfinished_workers(parent) {
            self.forget_workers(parent);
        }
    }

    /// The agent has ended and cannot join its workers any more. Until they have all ended they are still counted, but
    /// their results are not kept.
    pub(crate) fn release_workers(&mut self, parent: &AgentId) {
        if !self.has_unfinished_workers(parent) {
            return self.forget_workers(parent);
        }
        for worker in self.workers.get_mut(parent).into_iter().flat_map(BTreeMap::values_mut) {
            if worker.result.is_some() {
                worker.result = Some(Payload::Inline(String::new()));
            }
        }
    }

    fn has_unfinished_workers(&self, parent: &AgentId) -> bool {
        let is_unfinished = |fan_out: &FanOut| fan_out.done < fan_out.workers;
        self.fan_outs.0.get(parent).is_some_and(|states| states.values().any(is_unfinished))
    }

    pub(crate) fn forget_worker(&mut self, parent: &AgentId, fork: u64) {
        let worker = self.workers.get(parent).and_then(|workers| workers.get(&fork));
        let Some(id) = worker.map(|worker| worker.agent.clone()) else { return };
        self.count_if_failed(&id, parent, fork, false);
        if let Some(worker) = self.workers.get_mut(parent).and_then(|workers| workers.remove(&fork)) {
            self.fan_outs.remove(parent, &worker);
        }
    }

    /// The agent has joined its workers, or they have all ended after it.
    pub(crate) fn forget_workers(&mut self, parent: &AgentId) {
        self.workers.remove(parent);
        self.fan_outs.0.remove(parent);
    }

    /// Counts a failed worker, or takes it back. Called for every change of an agent.
    pub(super) fn count_failed(
        fan_outs: &mut FanOuts,
        workers: &BTreeMap<AgentId, BTreeMap<u64, Worker>>,
        agent: &Agent,
        present: bool,
    ) {
        if !matches!(agent.status, Status::Failed { .. }) {
            return;
        }
        let Some(parent) = &agent.parent else { return };
        let worker = workers.get(parent).and_then(|workers| workers.get(&agent.fork));
        if let Some(worker) = worker.filter(|worker| worker.agent == agent.id) {
            fan_outs.change(parent, &worker.state, |fan_out| match present {
                true => fan_out.failed += 1,
                false => fan_out.failed = fan_out.failed.saturating_sub(1),
            });
        }
    }

    pub(super) fn rebuild_fan_outs(&mut self) {
        let mut fan_outs = FanOuts::default();
        for (parent, workers) in &self.workers {
            workers.values().for_each(|worker| fan_outs.add(parent, worker));
        }
        for agent in self.agents.values() {
            Self::count_failed(&mut fan_outs, &self.workers, agent, true);
        }
        self.fan_outs = fan_outs;
    }
}
