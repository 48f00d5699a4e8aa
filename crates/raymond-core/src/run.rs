//! The state of a run: the fold of its events.

mod agent;
mod due;
mod fan_outs;
mod options;
mod queues;
mod shares;
mod workers;

use std::collections::{BTreeMap, BTreeSet};

use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};

use crate::event::{Interrupted, Origin};
use crate::money::Usd;
use crate::name::{AgentId, UsedNames};
use crate::named_inputs::InputValues;
use crate::payload::Payload;
use crate::tokens::Tokens;
use crate::workflow::StateFile;
use crate::worktree::{Worktree, branch};
use agent::unknown_time;
pub use agent::{Agent, Ask, Frame, LastOutput, Refusal, Say, Session, Status, Wait, Work, Worker};
pub use due::{Due, Mode, later, later_if_possible};
pub use fan_outs::FanOut;
use fan_outs::FanOuts;
pub use options::Options;
use queues::Queues;

/// The status of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum RunStatus {
    Running,
    Completed,
    Failed,
    Waiting,
    OverBudget,
    Limited,
    Interrupted,
    /// Its engine cannot have it decided any further. No journal says so: only the engine knows it.
    Wedged,
}

impl RunStatus {
    pub fn as_str(self) -> &'static str {
        match self {
            RunStatus::Running => "running",
            RunStatus::Completed => "completed",
            RunStatus::Failed => "failed",
            RunStatus::Waiting => "waiting",
            RunStatus::OverBudget => "over_budget",
            RunStatus::Limited => "limited",
            RunStatus::Interrupted => "interrupted",
            RunStatus::Wedged => "wedged",
        }
    }
}

/// The reason why nothing new starts although there is work left.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "halt", rename_all = "snake_case")]
pub enum Halt {
    Failed { error: String },
    OverBudget,
    Limited { error: String },
}

/// The state of a run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Run {
    pub id: String,
    pub seq: u64,
    pub workflow: String,
    pub scope: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scope_hash: Option<String>,
    /// The hashes of the archives that were entered, by path.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub scope_hashes: BTreeMap<String, String>,
    pub entry: StateFile,
    pub cwd: String,
    /// The folder of its project, if that is not the one it was recorded in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub project: Option<String>,
    pub nonce: String,
    /// Where its history is, if it does not begin with this run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub origin: Option<Origin>,
    pub labels: BTreeMap<String, String>,
    /// The values of the inputs of its workflow.
    #[serde(default, skip_serializing_if = "InputValues::is_empty")]
    pub inputs: InputValues,
    pub options: Options,
    pub status: RunStatus,
    pub halt: Option<Halt>,
    /// Whether the last process was told to end at once.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub was_terminated: bool,
    pub started_at: Timestamp,
    pub ended_at: Option<Timestamp>,
    /// When the last event happened.
    pub last_time: Timestamp,
    /// The time spent by earlier processes; the current one began at `resumed_at`.
    pub spent_ms: u64,
    pub resumed_at: Timestamp,
    pub steps_started: u64,
    pub steps_completed: u64,
    /// Workers that have failed, and whose failures joins have taken.
    #[serde(default, skip_serializing_if = "none_failed")]
    pub failed_workers: u64,
    pub agents_started: u64,
    pub cost_usd: Usd,
    /// What its models have read and written, as far as agent programs told; journals of earlier versions do not say.
    #[serde(default, skip_serializing_if = "Tokens::is_zero")]
    pub tokens: Tokens,
    pub result: Option<Payload>,
    pub agents: BTreeMap<AgentId, Agent>,
    pub used_names: UsedNames,
    /// The hash of each state's file when it last ran, by [`place`].
    pub hashes: BTreeMap<String, String>,
    /// How many turns each prompt state has begun.
    pub turns: BTreeMap<String, u64>,
    pub asks_opened: u64,
    /// The workers of each agent that are not joined yet, by the number of the fork.
    #[serde(with = "workers")]
    pub workers: BTreeMap<AgentId, BTreeMap<u64, Worker>>,
    /// The prepared replies that turns have used up, in a test or a replay. An interrupted turn gives its reply back.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub used_replies: BTreeSet<u64>,
    /// Every worktree of the run, also of workers that have ended, by its name in lower case.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub worktrees: BTreeMap<String, Worktree>,
    /// The last snapshot of each folder: a commit.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub snapshots: BTreeMap<String, String>,
    /// Whether a person has said which failed agents try again, so that the next resume retries no others.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub retries_are_named: bool,
    #[serde(skip)]
    queues: Queues,
    #[serde(skip)]
    fan_outs: FanOuts,
}

impl Run {
    /// The values of the inputs of the workflow that an agent is in.
    pub fn inputs_of<'r>(&'r self, agent: &'r Agent) -> Option<&'r InputValues> {
        match agent.scope {
            None => Some(&self.inputs),
            Some(_) => agent.inputs.as_deref(),
        }
    }

    /// True for a run that keeps what a rewind has dropped, until it is resumed by name. Its questions take no answers.
    pub fn is_dropped(&self) -> bool {
        let keeper = self.origin.as_ref().filter(|origin| origin.kept_from.is_some());
        keeper.is_some_and(|origin| self.seq == origin.seq + 1)
    }

    /// The worktrees that were made for this run. A branch also knows those of its origin.
    pub fn own_worktrees(&self) -> impl Iterator<Item = &Worktree> {
        self.worktrees.values().filter(|worktree| worktree.branch == branch(&self.id, &worktree.name))
    }

    /// The worktree that an agent works in: its own, or one of the run that its folder is in.
    pub fn worktree_of<'r>(&'r self, agent: &'r Agent) -> Option<&'r Worktree> {
        let around = || self.own_worktrees().find(|worktree| worktree.has_inside(&agent.cwd));
        agent.worktree.as_deref().or_else(around)
    }

    /// The conversations that agents go on with, now or when a call returns.
    pub fn conversations(&self) -> impl Iterator<Item = (&Agent, &Session)> {
        self.agents.values().flat_map(|agent| {
            let returns = agent.stack.iter().filter_map(|frame| frame.session.as_ref());
            agent.conversation().into_iter().chain(returns).map(move |session| (agent, session))
        })
    }

    /// The archives that agents are in or will return to, with their hashes when they were entered.
    pub fn entered_archives(&self) -> impl Iterator<Item = (&str, &str)> {
        let scopes = |agent: &'_ Agent| {
            let frames = agent.stack.iter().filter_map(|frame| frame.scope.clone());
            frames.chain(agent.scope.clone()).collect::<Vec<String>>()
        };
        let needed: BTreeSet<String> = match self.scope_hashes.is_empty() {
            true => BTreeSet::new(),
            false => self.agents.values().flat_map(scopes).collect(),
        };
        let entered = self.scope_hashes.iter().map(|(path, hash)| (path.as_str(), hash.as_str()));
        entered.filter(move |(path, _)| needed.contains(*path))
    }

    pub(crate) fn new(id: String, started: &crate::event::RunStarted, time: Timestamp) -> Self {
        Self {
            id,
            seq: 0,
            workflow: started.workflow.clone(),
            scope: started.scope.clone(),
            scope_hash: started.scope_hash.clone(),
            scope_hashes: BTreeMap::new(),
            entry: started.entry.clone(),
            cwd: started.cwd.clone(),
            project: None,
            nonce: started.nonce.clone(),
            origin: started.origin.clone(),
            labels: started.labels.clone(),
            inputs: InputValues { values: started.inputs.clone(), ..InputValues::default() },
            options: started.options.clone(),
            status: RunStatus::Running,
            halt: None,
            was_terminated: false,
            started_at: time,
            ended_at: None,
            last_time: time,
            spent_ms: 0,
            resumed_at: time,
            steps_started: 0,
            steps_completed: 0,
            failed_workers: 0,
            agents_started: 0,
            cost_usd: Usd::ZERO,
            tokens: Tokens::default(),
            result: None,
            agents: BTreeMap::new(),
            used_names: UsedNames::default(),
            hashes: BTreeMap::new(),
            turns: BTreeMap::new(),
            asks_opened: 0,
            workers: BTreeMap::new(),
            used_replies: BTreeSet::new(),
            worktrees: BTreeMap::new(),
            snapshots: BTreeMap::new(),
            retries_are_named: false,
            queues: Queues::default(),
            fan_outs: FanOuts::default(),
        }
    }

    /// The number of an agent's next turn among all turns of the run in its state; a repeated turn keeps its number.
    pub fn next_turn(&self, agent: &Agent) -> u64 {
        let begun = agent.work().and_then(|work| work.turn);
        begun.unwrap_or_else(|| self.turns.get(&agent.place()).copied().unwrap_or(0) + 1)
    }

    /// Builds the queues again after the run was read from a snapshot.
    pub(crate) fn rebuild_queues(&mut self) {
        let mut queues = Queues::default();
        for agent in self.agents.values() {
            queues.insert(agent);
        }
        self.queues = queues;
        self.rebuild_fan_outs();
    }

    /// Fills in the fields of agents that are missing in the snapshot of an earlier version.
    pub(crate) fn fill_in(&mut self) {
        for agent in self.agents.values_mut().filter(|agent| agent.since == unknown_time()) {
            agent.since = self.last_time;
        }
    }

    /// Changes an agent. Every change of status goes through here, so that the queues stay correct.
    pub(crate) fn update(&mut self, id: &AgentId, change: impl FnOnce(&mut Agent)) {
        if let Some(agent) = self.agents.get_mut(id) {
            self.queues.remove(agent);
            Self::count_failed(&mut self.fan_outs, &self.workers, agent, false);
            change(agent);
            self.queues.insert(agent);
            Self::count_failed(&mut self.fan_outs, &self.workers, agent, true);
        }
    }

    /// Adds an agent. A damaged journal may start the same agent twice; then the first is replaced.
    pub(crate) fn add(&mut self, agent: Agent) {
        self.remove(&agent.id);
        self.queues.insert(&agent);
        Self::count_failed(&mut self.fan_outs, &self.workers, &agent, true);
        self.agents.insert(agent.id.clone(), agent);
    }

    pub(crate) fn remove(&mut self, id: &AgentId) {
        if let Some(agent) = self.agents.remove(id) {
            self.queues.remove(&agent);
            Self::count_failed(&mut self.fan_outs, &self.workers, &agent, false);
        }
    }

    /// All texts of the state. A text may be replaced by a reference to the same text, and the other way round: nothing that is
    /// decided depends on that.
    pub fn payloads_mut(&mut self) -> Vec<&mut Payload> {
        let agents = self.agents.values_mut().flat_map(Agent::payloads_mut);
        let workers = self.workers.values_mut().flat_map(BTreeMap::values_mut);
        agents.chain(workers.filter_map(|worker| worker.result.as_mut())).chain(&mut self.result).collect()
    }

    /// Whether a step has started and not ended.
    pub fn is_under_way(&self, step: u64) -> bool {
        self.agents.values().any(|agent| agent.work().is_some_and(|work| work.step == step))
    }

    /// Agents in the order they were started.
    pub fn agents_by_birth(&self) -> Vec<&Agent> {
        let mut agents: Vec<_> = self.agents.values().collect();
        agents.sort_by_key(|agent| agent.birth);
        agents
    }

    /// Lets agents whose time has come queue up. Every event does that, with its own time.
    pub(crate) fn wake(&mut self, now: Timestamp) {
        while let Some((until, id)) = self.queues.waiting.first().cloned()
            && until <= now
        {
            self.update(&id, |agent| {
                if let Status::Waiting { since, work, .. } = &mut agent.status {
                    agent.status = Status::Ready { since: *since, work: work.take() };
                }
            });
        }
    }

    /// Steps whose last attempt was ended before its time.
    pub fn interrupted(&self) -> Vec<Interrupted> {
        self.agents_by_birth()
            .into_iter()
            .filter_map(|agent| {
                let work = agent.work()?;
                Some(Interrupted {
                    agent: agent.id.clone(),
                    step: work.step,
                    state: agent.state.clone(),
                    estimated_cost_usd: work.interrupted?,
                })
            })
            .collect()
    }

    pub fn running(&self) -> usize {
        self.queues.running_scripts.len() + self.queues.running_prompts.len()
    }

    pub fn running_scripts(&self) -> impl Iterator<Item = &AgentId> {
        self.queues.running_scripts.iter()
    }

    pub fn running_agents(&self) -> impl Iterator<Item = &AgentId> {
        self.queues.running_scripts.iter().chain(&self.queues.running_prompts)
    }

    pub fn failed_agents(&self) -> impl ExactSizeIterator<Item = &AgentId> {
        self.queues.failed.iter()
    }

    /// Agents that wait for a person, the longest waiting first.
    pub fn asking_agents(&self) -> impl ExactSizeIterator<Item = &AgentId> {
        self.queues.asking.iter().map(|(_, id)| id)
    }

    /// Agents that may not start before a certain time, the earliest first.
    pub fn waiting_agents(&self) -> impl ExactSizeIterator<Item = &AgentId> {
        self.queues.waiting.iter().map(|(_, id)| id)
    }

    /// How many of the waiting agents wait for the end of a usage limit.
    pub fn limited(&self) -> usize {
        self.queues.limited
    }

    pub fn joining_agents(&self) -> impl ExactSizeIterator<Item = &AgentId> {
        self.queues.joining.iter()
    }

    /// Agents whose last step is done.
    pub fn ending_agents(&self) -> impl ExactSizeIterator<Item = &AgentId> {
        self.queues.ending.iter()
    }

    /// Agents that are ready but not started: scripts, then prompts, in the order in which they will start, then those
    /// that wait for an `exclusive` name.
    pub fn ready_agents(&self) -> impl Iterator<Item = &AgentId> {
        let named = self.queues.named.values().flatten();
        self.queues.scripts.iter().chain(&self.queues.prompts).chain(named).map(|(_, id)| id)
    }

    /// How many of an agent's workers have neither ended nor failed.
    pub fn live_workers(&self, parent: &AgentId) -> usize {
        self.queues.live_workers.get(parent).copied().unwrap_or(0)
    }

    /// Open questions, the oldest first.
    pub fn asks(&self) -> Vec<(&Agent, &Ask)> {
        let mut asks: Vec<(&Agent, &Ask)> = self
            .queues
            .asking
            .iter()
            .filter_map(|(_, id)| {
                let agent = self.agents.get(id)?;
                match &agent.status {
                    Status::Asking { ask } => Some((agent, ask.as_ref())),
                    _ => None,
                }
            })
            .collect();
        asks.sort_by_key(|(_, ask)| (ask.opened_at, ask.id.len(), &ask.id));
        asks
    }

    /// The agent that asks this question.
    pub fn asker(&self, ask_id: &str) -> Option<&Agent> {
        self.asks().into_iter().find(|(_, ask)| ask.id == ask_id).map(|(agent, _)| agent)
    }

    /// Whether all workers that a join of this agent waits for have ended.
    pub fn is_joinable(&self, agent: &AgentId) -> bool {
        self.queues.joinable.contains(agent)
    }

    /// How many agents are ready but not started.
    pub fn ready(&self) -> usize {
        let named: usize = self.queues.named.values().map(BTreeSet::len).sum();
        self.queues.scripts.len() + self.queues.prompts.len() + named
    }

    /// The time that processes have worked on this run.
    pub fn duration_ms(&self, now: Timestamp) -> u64 {
        let present = now.duration_since(self.resumed_at).max(SignedDuration::ZERO);
        self.spent_ms.saturating_add(u64::try_from(present.as_millis()).unwrap_or(0))
    }
}

/// Whether a number of failed workers is left out where it is written.
pub(crate) fn none_failed(number: &u64) -> bool {
    *number == 0
}

/// The key of a state, which also distinguishes states of the same name in other workflows.
pub fn place(scope: Option<&str>, state: &StateFile) -> String {
    match scope {
        None => state.to_string(),
        Some(scope) => format!("{scope}/{state}"),
    }
}
