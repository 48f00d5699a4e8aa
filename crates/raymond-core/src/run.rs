//! The state of a run: what its events add up to.

mod queues;
mod workers;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};

use crate::event::Interrupted;
use crate::limits::MAX_PARALLEL_SCRIPTS;
use crate::money::Usd;
use crate::name::{AgentId, UsedNames};
use crate::payload::Payload;
use crate::workflow::StateFile;
use queues::Queues;

/// A turn that found less than this unpromised would stop at once; it waits for others to end instead.
const SHARE_WORTH_STARTING: Usd = Usd::cent();
/// What a turn is given when nothing at all is left: programs refuse a limit of zero.
const SMALLEST_SHARE: Usd = Usd::millionth();

/// What was chosen for a run: by its command line, its config file or by default.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(default)]
pub struct Options {
    /// Zero is unlimited.
    pub budget_usd: Usd,
    pub max_parallel: usize,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_steps: Option<u64>,
    /// Whether a usage limit stops the run instead of being waited out.
    pub no_wait: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub effort: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub backend: Option<String>,
    /// Whether the command line chose the backend: then no workflow does.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub backend_is_given: bool,
    /// How long a prompt that sets no limit may be silent; zero is no limit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timeout_ms: Option<u64>,
    /// The same for scripts, which have no limit unless the command line gives one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub script_timeout_ms: Option<u64>,
    pub skip_permissions: bool,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            budget_usd: Usd::from_dollars(10.0),
            max_parallel: 8,
            max_steps: None,
            no_wait: false,
            model: None,
            effort: None,
            backend: None,
            backend_is_given: false,
            timeout_ms: None,
            script_timeout_ms: None,
            skip_permissions: false,
        }
    }
}

/// How a run stands, or ended.
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
        }
    }
}

/// A conversation as it was after a completed turn; a later turn branches off it, so it never changes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Session {
    pub id: String,
    /// What the program last reported as the conversation's cost so far, where it reports sums.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub total_usd: Option<Usd>,
    /// The backend that holds the conversation; another one knows nothing of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub backend: Option<String>,
}

impl Session {
    /// Whether a backend can go on with the conversation.
    pub fn is_of(&self, backend: &str) -> bool {
        self.backend.as_deref().is_none_or(|own| own == backend)
    }
}

/// Where a called state returns to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Frame {
    pub return_to: StateFile,
    pub session: Option<Session>,
    pub cwd: String,
    /// The workflow to return to, if that is another one than the run's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scope: Option<String>,
}

/// One thread of execution.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Agent {
    pub id: AgentId,
    pub parent: Option<AgentId>,
    /// Agents are shown in the order they were born.
    pub birth: u64,
    pub state: StateFile,
    pub payload: Option<Payload>,
    pub cwd: String,
    /// The workflow it is in, if that is another one than the run's.
    pub scope: Option<String>,
    pub session: Option<Session>,
    pub stack: Vec<Frame>,
    pub attributes: BTreeMap<String, String>,
    /// How often it has entered each state, by [`place`].
    pub visits: BTreeMap<String, u64>,
    /// How many workers it has forked.
    pub forks: u64,
    /// Which of its parent's forks it is.
    pub fork: u64,
    /// The question whose answer its state was handed.
    pub ask_id: Option<String>,
    /// When it entered its state, or began to wait for something else than its state's program.
    #[serde(default = "unknown_time")]
    pub since: Timestamp,
    /// What all its attempts have cost so far.
    #[serde(default, skip_serializing_if = "Usd::is_zero")]
    pub cost_usd: Usd,
    pub status: Status,
}

/// The `since` of an agent in a snapshot of an earlier version, until [`Run::fill_in`] has replaced it.
fn unknown_time() -> Timestamp {
    Timestamp::MIN
}

impl Agent {
    /// The state it is in, told apart from states of that name in other workflows.
    pub fn place(&self) -> String {
        place(self.scope.as_deref(), &self.state)
    }

    /// How often the agent has entered the state it is in.
    pub fn visits_here(&self) -> u64 {
        self.visits.get(&self.place()).copied().unwrap_or(0)
    }

    /// The step that was begun here and has not ended.
    pub fn work(&self) -> Option<&Work> {
        match &self.status {
            Status::Ready { work, .. } | Status::Waiting { work, .. } => work.as_ref(),
            Status::Running { work, .. } => Some(work),
            Status::Asking { .. }
            | Status::Joining { .. }
            | Status::Ending { .. }
            | Status::Failed { .. } => None,
        }
    }

    /// The conversation that its next turn goes on from.
    pub fn conversation(&self) -> Option<&Session> {
        match self.work() {
            Some(work) => work.conversation(self),
            None => self.session.as_ref(),
        }
    }

    /// The parent that a join would still have to wait for this agent.
    fn live_worker_of(&self) -> Option<&AgentId> {
        self.parent.as_ref().filter(|_| !matches!(self.status, Status::Failed { .. }))
    }
}

/// What an agent is doing. Each variant carries what only it needs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "is", rename_all = "snake_case")]
pub enum Status {
    /// It could start now and waits for its turn, in the order of `since`.
    Ready {
        since: u64,
        work: Option<Work>,
    },
    Running {
        work: Work,
        started: Timestamp,
    },
    /// It may not start before `until`.
    Waiting {
        until: Timestamp,
        why: Wait,
        since: u64,
        work: Option<Work>,
        /// Why its last attempt is repeated.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        error: Option<String>,
    },
    /// It waits for a person.
    Asking {
        ask: Ask,
    },
    /// It waits until every worker it forked has ended.
    Joining {
        since: u64,
    },
    /// Its last step is done; it ends with this result as soon as the run may go on.
    Ending {
        result: Payload,
    },
    Failed {
        error: String,
        /// The last lines that its script wrote there.
        #[serde(default, skip_serializing_if = "String::is_empty")]
        stderr: String,
        /// What it was waiting for when it failed, and waits for again after a resume.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        waited: Option<Box<Status>>,
    },
}

/// A question to a person.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ask {
    pub id: String,
    pub question: Payload,
    pub next: StateFile,
    pub opened_at: Timestamp,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout_ms: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deadline: Option<Timestamp>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout_next: Option<StateFile>,
}

/// A worker as its parent will find it when it joins.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Worker {
    pub agent: AgentId,
    /// The state it was forked into.
    pub state: StateFile,
    pub attributes: BTreeMap<String, String>,
    /// Its result, once it has ended.
    pub result: Option<Payload>,
}

/// What an agent waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Wait {
    Delay,
    Retry,
    Limit,
}

/// How far a step has come. It outlives a crash: an interrupted attempt is repeated, not the attempts before it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Work {
    pub step: u64,
    /// The attempt that runs, or ran last.
    pub attempt: u32,
    pub retries: u32,
    pub reminders: u32,
    /// What the next turn says, and from where it goes on.
    pub say: Say,
    /// Which of the run's turns in this state it is; a turn that is repeated keeps its number.
    pub turn: Option<u64>,
    /// The backend of the turn that runs, or ran last, and its session as far as that is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub backend: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session: Option<String>,
    /// How much of the budget the running turn may use.
    pub share_usd: Option<Usd>,
    /// What the attempts before the next one cost.
    pub cost_usd: Usd,
    /// Set when the last attempt was ended before its time, with what it is thought to have cost.
    pub interrupted: Option<Usd>,
}

impl Work {
    pub fn first(step: u64) -> Self {
        Self {
            step,
            attempt: 0,
            retries: 0,
            reminders: 0,
            say: Say::Prompt,
            turn: None,
            backend: None,
            session: None,
            share_usd: None,
            cost_usd: Usd::ZERO,
            interrupted: None,
        }
    }
}

impl Work {
    /// The conversation that the next turn goes on from.
    pub fn conversation<'a>(&'a self, agent: &'a Agent) -> Option<&'a Session> {
        match &self.say {
            Say::Prompt => agent.session.as_ref(),
            Say::Reminder { session, .. } | Say::GoOn { session } => Some(session),
        }
    }
}

/// What a prompt step's next turn is sent.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "say", rename_all = "snake_case")]
pub enum Say {
    /// The state's rendered body, in the agent's conversation.
    Prompt,
    /// A reminder, in the conversation of the turn it is about.
    Reminder { text: Payload, session: Session },
    /// To go on, after the program stopped at its share of the budget.
    GoOn { session: Session },
}

/// Why nothing new starts although there is work left.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "halt", rename_all = "snake_case")]
pub enum Halt {
    Failed { error: String },
    OverBudget,
    Limited { error: String },
}

/// Something that is to be done now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Due {
    /// Start this agent's state, or its next attempt.
    Launch(AgentId),
    /// This agent's result is final.
    End(AgentId),
    /// All workers of this agent have ended.
    Join(AgentId),
    /// Nobody answered this agent in time.
    AskTimeout(AgentId),
    /// Nothing is left to do: the run, or this process's part in it, is over.
    Close,
}

/// How the process that drives a run wants it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Mode {
    /// Nothing new may start.
    pub draining: bool,
    /// Open questions keep the run going; otherwise it ends when nothing else is left to do.
    pub waits_for_answers: bool,
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
    /// What the archives held that were entered, by their paths.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub scope_hashes: BTreeMap<String, String>,
    pub entry: StateFile,
    pub cwd: String,
    pub nonce: String,
    pub labels: BTreeMap<String, String>,
    pub options: Options,
    pub status: RunStatus,
    pub halt: Option<Halt>,
    pub started_at: Timestamp,
    pub ended_at: Option<Timestamp>,
    /// When the last event happened.
    pub last_time: Timestamp,
    /// Time spent by earlier processes, and when the present one began.
    pub spent_ms: u64,
    pub resumed_at: Timestamp,
    pub steps_started: u64,
    pub steps_completed: u64,
    pub agents_started: u64,
    pub cost_usd: Usd,
    pub result: Option<Payload>,
    pub agents: BTreeMap<AgentId, Agent>,
    pub used_names: UsedNames,
    /// What each state's file held when it last ran, by [`place`].
    pub hashes: BTreeMap<String, String>,
    /// How many turns each prompt state has begun.
    pub turns: BTreeMap<String, u64>,
    pub asks_opened: u64,
    /// The workers of each agent that it has not joined, by the number of the fork.
    #[serde(with = "workers")]
    pub workers: BTreeMap<AgentId, BTreeMap<u64, Worker>>,
    #[serde(skip)]
    queues: Queues,
}

impl Run {
    /// The archives that agents are in or return to, with what they held when they were entered.
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
            nonce: started.nonce.clone(),
            labels: started.labels.clone(),
            options: started.options.clone(),
            status: RunStatus::Running,
            halt: None,
            started_at: time,
            ended_at: None,
            last_time: time,
            spent_ms: 0,
            resumed_at: time,
            steps_started: 0,
            steps_completed: 0,
            agents_started: 0,
            cost_usd: Usd::ZERO,
            result: None,
            agents: BTreeMap::new(),
            used_names: UsedNames::default(),
            hashes: BTreeMap::new(),
            turns: BTreeMap::new(),
            asks_opened: 0,
            workers: BTreeMap::new(),
            queues: Queues::default(),
        }
    }

    /// Which of the run's turns in its state an agent takes next; a turn that is repeated keeps its number.
    pub fn next_turn(&self, agent: &Agent) -> u64 {
        let begun = agent.work().and_then(|work| work.turn);
        begun.unwrap_or_else(|| self.turns.get(&agent.place()).copied().unwrap_or(0) + 1)
    }

    /// Derives the queues again, after the run was read from a snapshot.
    pub(crate) fn rebuild_queues(&mut self) {
        let mut queues = Queues::default();
        for agent in self.agents.values() {
            queues.insert(agent);
        }
        self.queues = queues;
    }

    /// Gives agents of a snapshot that an earlier version wrote what it did not record.
    pub(crate) fn fill_in(&mut self) {
        for agent in self.agents.values_mut().filter(|agent| agent.since == unknown_time()) {
            agent.since = self.last_time;
        }
    }

    /// Changes an agent. Every change of status goes through here, so that the queues stay true.
    pub(crate) fn update(&mut self, id: &AgentId, change: impl FnOnce(&mut Agent)) {
        if let Some(agent) = self.agents.get_mut(id) {
            self.queues.remove(agent);
            change(agent);
            self.queues.insert(agent);
        }
    }

    /// Adds an agent. A journal that is damaged may start the same agent twice; the first is replaced.
    pub(crate) fn add(&mut self, agent: Agent) {
        self.remove(&agent.id);
        self.queues.insert(&agent);
        self.agents.insert(agent.id.clone(), agent);
    }

    pub(crate) fn remove(&mut self, id: &AgentId) {
        if let Some(agent) = self.agents.remove(id) {
            self.queues.remove(&agent);
        }
    }

    /// Agents in the order they were born.
    pub fn agents_by_birth(&self) -> Vec<&Agent> {
        let mut agents: Vec<_> = self.agents.values().collect();
        agents.sort_by_key(|agent| agent.birth);
        agents
    }

    /// Lets agents whose time has come queue up. Derived from the clock, so it needs no event.
    pub fn wake(&mut self, now: Timestamp) {
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

    /// Takes back an attempt that was ended because the run stops. The event that ends the run records it.
    pub fn interrupt(&mut self, id: &AgentId, step: u64, cost: Usd) {
        self.update(id, |agent| {
            if let Status::Running { work, .. } = &agent.status
                && work.step == step
            {
                let work = Work { interrupted: Some(cost), share_usd: None, ..work.clone() };
                agent.status = Status::Ready { since: work.step, work: Some(work) };
            }
        });
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

    /// When there is something to do next, after a look at `now`.
    pub fn next_wake(&self, now: Timestamp) -> Option<Timestamp> {
        // What is past has been dealt with, or is held up by something that will end.
        let next = |queue: &BTreeSet<(Timestamp, AgentId)>| {
            queue.iter().map(|(time, _)| *time).find(|time| *time > now)
        };
        [next(&self.queues.waiting), next(&self.queues.deadlines)].into_iter().flatten().min()
    }

    /// What is to be done now.
    pub fn next_due(&self, now: Timestamp, mode: Mode) -> Option<Due> {
        if self.status != RunStatus::Running {
            return None;
        }
        let stopped = mode.draining || self.halt.is_some();
        // What is done is done, whoever asked to stop. Only over budget even an end is put off: it was overridden.
        if self.halt != Some(Halt::OverBudget)
            && let Some(agent) = self.queues.ending.first()
        {
            return Some(Due::End(agent.clone()));
        }
        if !stopped {
            if let Some(agent) = self.queues.joinable.first() {
                return Some(Due::Join(agent.clone()));
            }
            if let Some((_, agent)) = self.queues.deadlines.first().filter(|(deadline, _)| *deadline <= now) {
                return Some(Due::AskTimeout(agent.clone()));
            }
            if let Some(agent) = self.launchable() {
                return Some(Due::Launch(agent.clone()));
            }
        }
        let idle = self.running() == 0;
        (idle && (stopped || !self.has_more_to_come(mode))).then_some(Due::Close)
    }

    /// Whether waiting can lead to anything: to an answer, which is taken in any case, or to a step. When `max_steps` is
    /// reached, only one that has begun can go on.
    fn has_more_to_come(&self, mode: Mode) -> bool {
        let mut waiting = self.queues.waiting.iter().map(|(_, agent)| agent);
        let waits_for_a_person = mode.waits_for_answers && !self.queues.asking.is_empty();
        waits_for_a_person || waiting.any(|agent| !self.is_out_of_steps() || self.has_begun(agent))
    }

    /// Whether an agent is in the middle of a step: between two attempts at it, say.
    fn has_begun(&self, agent: &AgentId) -> bool {
        self.agents.get(agent).is_some_and(|agent| agent.work().is_some())
    }

    fn launchable(&self) -> Option<&AgentId> {
        let script =
            self.first_of(&self.queues.scripts, self.queues.running_scripts.len() < MAX_PARALLEL_SCRIPTS);
        let prompt = self.first_of(
            &self.queues.prompts,
            self.queues.running_prompts.len() < self.options.max_parallel.max(1) && self.has_money_to_share(),
        );
        script.or(prompt)
    }

    /// The first in a queue that may start. When `max_steps` is reached, only a step that has begun may go on.
    fn first_of<'a>(&self, queue: &'a BTreeSet<(u64, AgentId)>, has_room: bool) -> Option<&'a AgentId> {
        let out_of_steps = self.is_out_of_steps();
        let mut ids = queue.iter().filter(|_| has_room).map(|(_, id)| id);
        ids.find(|id| !out_of_steps || self.has_begun(id))
    }

    pub fn is_out_of_steps(&self) -> bool {
        self.options.max_steps.is_some_and(|most| self.steps_started >= most)
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

    /// Agents that wait for a person, those first that have waited longest.
    pub fn asking_agents(&self) -> impl ExactSizeIterator<Item = &AgentId> {
        self.queues.asking.iter().map(|(_, id)| id)
    }

    /// Agents that may not start before a time, those first whose time comes first.
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

    /// Agents that could start now and do not: scripts, then prompts, in the order in which they will.
    pub fn ready_agents(&self) -> impl Iterator<Item = &AgentId> {
        self.queues.scripts.iter().chain(&self.queues.prompts).map(|(_, id)| id)
    }

    /// How many of an agent's workers have neither ended nor failed.
    pub fn live_workers(&self, parent: &AgentId) -> usize {
        self.queues.live_workers.get(parent).copied().unwrap_or(0)
    }

    /// Open questions, the oldest first.
    pub fn asks(&self) -> Vec<(&Agent, &Ask)> {
        let mut asks: Vec<_> = self
            .queues
            .asking
            .iter()
            .filter_map(|(_, id)| {
                let agent = self.agents.get(id)?;
                match &agent.status {
                    Status::Asking { ask } => Some((agent, ask)),
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

    /// Whether a join of this agent has nobody left to wait for.
    pub fn is_joinable(&self, agent: &AgentId) -> bool {
        self.queues.joinable.contains(agent)
    }

    /// How many agents could start now and do not.
    pub fn ready(&self) -> usize {
        self.queues.scripts.len() + self.queues.prompts.len()
    }

    /// Time this run has been worked on.
    pub fn duration_ms(&self, now: Timestamp) -> u64 {
        let present = now.duration_since(self.resumed_at).max(SignedDuration::ZERO);
        self.spent_ms.saturating_add(u64::try_from(present.as_millis()).unwrap_or(0))
    }

    /// The part of the budget that a turn starting now may use, so that all running turns together keep to it.
    pub fn budget_share(&self) -> Option<Usd> {
        let left = self.unreserved_budget()?;
        let free_slots = self.options.max_parallel.saturating_sub(self.queues.running_prompts.len());
        let starters = self.agents.len().saturating_sub(self.queues.running_prompts.len());
        Some(left.divided_by(starters.min(free_slots)).max(SMALLEST_SHARE))
    }

    /// Whether another turn may start. One that found everything promised to others would only stop at once, and eat
    /// into what they were promised; it waits until one of them has ended.
    fn has_money_to_share(&self) -> bool {
        self.queues.running_prompts.is_empty()
            || self.unreserved_budget().is_none_or(|left| left >= SHARE_WORTH_STARTING)
    }

    /// What no running turn was promised; nothing if there is no budget.
    fn unreserved_budget(&self) -> Option<Usd> {
        if self.options.budget_usd.is_zero() {
            return None;
        }
        let shares =
            self.queues.running_prompts.iter().filter_map(|id| self.agents.get(id)?.work()?.share_usd);
        let reserved: Usd = shares.sum();
        Some(self.options.budget_usd.saturating_sub(self.cost_usd).saturating_sub(reserved))
    }
}

/// A state's name, told apart from states of that name in other workflows.
pub fn place(scope: Option<&str>, state: &StateFile) -> String {
    match scope {
        None => state.to_string(),
        Some(scope) => format!("{scope}/{state}"),
    }
}

/// A time after now; what is too far off is never.
pub fn later(now: Timestamp, wait: Duration) -> Timestamp {
    let wait = SignedDuration::try_from(wait).unwrap_or(SignedDuration::MAX);
    now.saturating_add(wait).unwrap_or(Timestamp::MAX)
}
