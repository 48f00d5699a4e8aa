//! What the live view knows: the agents of a run and what each of them is doing, folded from events.
//!
//! Agents are kept in the order in which they deserve to be seen, so that drawing the first few costs the same however
//! many there are. Bound: of what a step prints, the last [`TAIL_BYTES`] or twice that.

#![warn(clippy::wildcard_enum_match_arm, reason = "a new event has to be answered here")]

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::Timestamp;
use raymond_core::event::{AgentStarted, Body, Event, LedTo, StepFinished, StepStarted};
use raymond_core::money::Usd;
use raymond_core::name::AgentId;
use raymond_core::payload::Payload;
use raymond_core::run::{Run, Status, Wait};
use raymond_core::workflow::StateFile;

use crate::process::Tail;
use crate::view::text::one_line;

/// How much of a running step's output is kept.
const TAIL_BYTES: usize = 1024;
/// How much of a question or an error is kept.
const TEXT_CHARS: usize = 300;

/// A run as the view shows it.
#[derive(Debug)]
pub(super) struct Model {
    pub(super) run: String,
    pub(super) steps: u64,
    pub(super) cost: Usd,
    pub(super) budget: Usd,
    /// Set when nothing new starts any more.
    pub(super) halted: Option<&'static str>,
    /// The time that earlier processes worked on the run, and when this one began.
    spent: Duration,
    began: Timestamp,
    agents: BTreeMap<AgentId, Row>,
    /// All agents, those first that deserve most to be seen.
    order: BTreeMap<Place, AgentId>,
    counts: [usize; Doing::WORDS.len()],
    births: u64,
    /// Whether anything is new since the last look.
    has_changed: bool,
}

/// What decides about an agent's place: what it does, since when, and when it was born.
type Place = (usize, Timestamp, u64);

/// One agent.
#[derive(Debug)]
pub(super) struct Row {
    pub(super) agent: AgentId,
    pub(super) state: StateFile,
    pub(super) doing: Doing,
    /// When it entered its state, or began to wait for something else than the state's program.
    pub(super) since: Timestamp,
    /// What it has cost since this process began.
    pub(super) cost: Usd,
    /// How many of its workers have not ended.
    pub(super) workers: usize,
    pub(super) birth: u64,
    parent: Option<AgentId>,
}

/// What an agent is doing, in the words of `raymond status`.
#[derive(Debug)]
pub(super) enum Doing {
    Asking {
        ask: String,
        question: String,
        deadline: Option<Timestamp>,
    },
    Running {
        output: Tail,
    },
    Limited {
        until: Timestamp,
    },
    /// `retry` is why its step is tried again.
    Delayed {
        until: Timestamp,
        retry: Option<String>,
    },
    Failed {
        error: String,
    },
    Joining,
    Ready,
}

impl Doing {
    /// Those that need somebody come first, then the busy ones.
    pub(super) const WORDS: [&'static str; 7] =
        ["asking", "running", "limited", "delayed", "failed", "joining", "ready"];

    fn rank(&self) -> usize {
        match self {
            Doing::Asking { .. } => 0,
            Doing::Running { .. } => 1,
            Doing::Limited { .. } => 2,
            Doing::Delayed { .. } => 3,
            Doing::Failed { .. } => 4,
            Doing::Joining => 5,
            Doing::Ready => 6,
        }
    }

    pub(super) fn word(&self) -> &'static str {
        Self::WORDS[self.rank()]
    }

    /// What a resume makes of a status that an earlier process left.
    fn resumed(status: &Status) -> Self {
        match status {
            Status::Asking { ask } => {
                Doing::Asking { ask: ask.id.clone(), question: brief(&ask.question), deadline: ask.deadline }
            }
            Status::Waiting { until, why: Wait::Delay | Wait::Retry, .. } => {
                Doing::Delayed { until: *until, retry: None }
            }
            Status::Joining { .. } => Doing::Joining,
            Status::Failed { waited: Some(waited), .. } => Self::resumed(waited),
            Status::Ready { .. }
            | Status::Running { .. }
            | Status::Waiting { why: Wait::Limit, .. }
            | Status::Ending { .. }
            | Status::Failed { waited: None, .. } => Doing::Ready,
        }
    }
}

impl Row {
    fn place(&self) -> Place {
        (self.doing.rank(), self.since, self.birth)
    }

    fn enter(&mut self, state: &StateFile, now: Timestamp) {
        self.state = state.clone();
        self.wait(Doing::Ready, now);
    }

    fn wait(&mut self, doing: Doing, now: Timestamp) {
        self.doing = doing;
        self.since = now;
    }
}

impl Model {
    /// A run that this process has begun or is about to take up.
    pub(super) fn of(run: &Run) -> Self {
        let mut model = Self {
            run: run.id.clone(),
            steps: run.steps_completed,
            cost: run.cost_usd,
            budget: run.options.budget_usd,
            halted: None,
            spent: Duration::from_millis(run.duration_ms(run.last_time)),
            began: run.last_time,
            agents: BTreeMap::new(),
            order: BTreeMap::new(),
            counts: [0; Doing::WORDS.len()],
            births: 0,
            has_changed: true,
        };
        for agent in run.agents_by_birth() {
            let doing = Doing::resumed(&agent.status);
            let since =
                if let Status::Asking { ask } = &agent.status { ask.opened_at } else { run.last_time };
            model.add(&agent.id, agent.parent.as_ref(), &agent.state, doing, since);
        }
        model
    }

    pub(super) fn apply(&mut self, event: &Event) {
        self.has_changed = true;
        let now = event.time;
        self.cost += event.body.cost();
        if let Some(agent) = event.body.ended_attempt_of() {
            let cost = event.body.cost();
            self.change(agent, |row| row.cost += cost);
        }
        match &event.body {
            Body::RunStarted(started) => self.budget = started.options.budget_usd,
            Body::RunResumed(resumed) => {
                self.budget = resumed.options.budget_usd;
                self.began = now;
            }
            Body::AgentStarted(started) => self.agent_started(started, now),
            Body::StepStarted(step) => self.step_started(step, now),
            Body::StepFinished(step) => self.step_finished(step, now),
            Body::StepFailed(failed) => {
                self.worker_ended(&failed.agent);
                let error = one_line(&failed.error, TEXT_CHARS);
                self.change(&failed.agent, |row| row.wait(Doing::Failed { error }, now));
            }
            Body::Retry(retry) => {
                let doing =
                    Doing::Delayed { until: retry.until, retry: Some(one_line(&retry.error, TEXT_CHARS)) };
                self.change(&retry.agent, |row| row.doing = doing);
            }
            Body::LimitWaiting(limit) => {
                self.change(&limit.agent, |row| row.doing = Doing::Limited { until: limit.until });
            }
            Body::Delayed { agent, until, .. } => {
                let doing = Doing::Delayed { until: *until, retry: None };
                self.change(agent, |row| row.wait(doing, now));
            }
            Body::AskOpened(opened) => {
                let doing = Doing::Asking {
                    ask: opened.ask.clone(),
                    question: brief(&opened.question),
                    deadline: opened.deadline,
                };
                self.change(&opened.agent, |row| row.wait(doing, now));
            }
            Body::AskClosed(closed) => {
                self.change(&closed.agent, |row| {
                    row.enter(closed.how.target().unwrap_or(&closed.state), now);
                });
            }
            Body::AgentFinished { agent, .. } => {
                self.worker_ended(agent);
                self.remove(agent);
            }
            Body::Joined { agent, state, workers, .. } => {
                for worker in workers {
                    self.remove(worker);
                }
                self.change(agent, |row| row.enter(state, now));
            }
            Body::BudgetExceeded { .. } => self.halted = Some("over budget"),
            Body::SessionStarted(_)
            | Body::Reminder(_)
            | Body::Print { .. }
            | Body::Warning { .. }
            | Body::RunFinished { .. }
            | Body::RunStopped { .. }
            | Body::Snapshot { .. } => {}
        }
    }

    pub(super) fn stopping(&mut self) {
        self.has_changed = true;
        self.halted = Some("stopping");
    }

    /// A piece of what a running step prints.
    pub(super) fn output(&mut self, agent: &AgentId, bytes: &[u8]) {
        if let Some(Row { doing: Doing::Running { output }, .. }) = self.agents.get_mut(agent) {
            output.push(bytes);
            self.has_changed = true;
        }
    }

    /// Whether anything is new since this was last asked.
    pub(super) fn take_change(&mut self) -> bool {
        std::mem::take(&mut self.has_changed)
    }

    pub(super) fn elapsed(&self, now: Timestamp) -> Duration {
        self.spent + since(self.began, now)
    }

    pub(super) fn agents(&self) -> usize {
        self.agents.len()
    }

    /// The agents that deserve most to be seen, at most so many.
    pub(super) fn first(&self, most: usize) -> Vec<&Row> {
        self.order.values().take(most).filter_map(|agent| self.agents.get(agent)).collect()
    }

    /// How many agents do what, with the words for it.
    pub(super) fn counts(&self) -> impl Iterator<Item = (&'static str, usize)> {
        Doing::WORDS.into_iter().zip(self.counts)
    }

    fn agent_started(&mut self, started: &AgentStarted, now: Timestamp) {
        if !self.agents.contains_key(&started.agent) {
            self.add(&started.agent, started.parent(), &started.state, Doing::Ready, now);
        }
    }

    fn step_started(&mut self, started: &StepStarted, now: Timestamp) {
        self.change(&started.agent, |row| {
            row.state = started.state.clone();
            // A further attempt is still the same stay in the state.
            if started.attempt <= 1 {
                row.since = now;
            }
            row.doing = Doing::Running { output: Tail::new(TAIL_BYTES) };
        });
    }

    fn step_finished(&mut self, step: &StepFinished, now: Timestamp) {
        self.steps += 1;
        self.change(&step.agent, |row| {
            row.enter(step.led_to.enters().unwrap_or(&step.state), now);
            if matches!(step.led_to, LedTo::Join { .. }) {
                row.doing = Doing::Joining;
            }
        });
    }

    /// A worker that ends or fails is nobody's to wait for.
    fn worker_ended(&mut self, agent: &AgentId) {
        let Some(row) = self.agents.get(agent) else { return };
        if matches!(row.doing, Doing::Failed { .. }) {
            return;
        }
        if let Some(parent) = row.parent.clone() {
            self.change(&parent, |parent| parent.workers = parent.workers.saturating_sub(1));
        }
    }

    fn add(
        &mut self,
        agent: &AgentId,
        parent: Option<&AgentId>,
        state: &StateFile,
        doing: Doing,
        since: Timestamp,
    ) {
        self.births += 1;
        let row = Row {
            agent: agent.clone(),
            state: state.clone(),
            doing,
            since,
            cost: Usd::ZERO,
            workers: 0,
            birth: self.births,
            parent: parent.cloned(),
        };
        if let Some(parent) = parent {
            self.change(parent, |parent| parent.workers += 1);
        }
        self.counts[row.doing.rank()] += 1;
        self.order.insert(row.place(), agent.clone());
        self.agents.insert(agent.clone(), row);
    }

    /// Changes an agent; every change goes through here, so that order and counts stay true.
    fn change(&mut self, agent: &AgentId, change: impl FnOnce(&mut Row)) {
        let Some(row) = self.agents.get_mut(agent) else { return };
        let before = row.place();
        change(row);
        let after = row.place();
        if before != after {
            self.counts[before.0] -= 1;
            self.counts[after.0] += 1;
            self.order.remove(&before);
            self.order.insert(after, agent.clone());
        }
    }

    fn remove(&mut self, agent: &AgentId) {
        if let Some(row) = self.agents.remove(agent) {
            self.counts[row.doing.rank()] -= 1;
            self.order.remove(&row.place());
        }
    }
}

fn brief(text: &Payload) -> String {
    match text {
        Payload::Inline(text) => one_line(text, TEXT_CHARS),
        Payload::Stored { bytes, .. } => format!("{bytes} bytes"),
    }
}

/// A clock that was set back has not run at all.
pub(super) fn since(then: Timestamp, now: Timestamp) -> Duration {
    Duration::try_from(now.duration_since(then)).unwrap_or_default()
}
