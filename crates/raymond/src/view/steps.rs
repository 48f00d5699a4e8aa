//! The steps of a run, put together from its events: what `show` and `log --step` tell about them.
//!
//! Steps come out in the order of their numbers, each as soon as it and all before it have ended. So memory holds the
//! steps that run at the same time, not all steps of a run.

use std::collections::BTreeMap;

use jiff::Timestamp;
use raymond_core::event::{Body, Event, Interrupted, StepFailed, StepFinished, StepStarted};
use raymond_core::evolve;
use raymond_core::money::Usd;
use raymond_core::name::AgentId;
use raymond_core::payload::Payload;
use raymond_core::run::Run;
use raymond_core::workflow::StateFile;

/// One step and all that the journal says about it.
#[derive(Debug)]
pub struct Step {
    pub number: u64,
    pub agent: AgentId,
    pub title: Option<String>,
    pub state: StateFile,
    /// The run that has its debug files: this one, or the origin of its history.
    pub run: String,
    /// Where its program ran, if that is known.
    pub cwd: Option<String>,
    pub started_at: Option<Timestamp>,
    pub attempts: Vec<Attempt>,
    /// What its attempts have cost so far, as long as it has not ended.
    pub spent: Usd,
    pub outcome: Outcome,
}

/// One attempt at a step.
#[derive(Debug)]
pub struct Attempt {
    pub number: u32,
    pub backend: Option<String>,
    pub session: Option<String>,
    /// The session that it continued.
    pub branch_of: Option<String>,
    /// The agent's last message in it.
    pub message: Option<Payload>,
    pub end: AttemptEnd,
}

/// How an attempt ended.
#[derive(Debug)]
pub enum AttemptEnd {
    /// It has not ended, or Raymond was ended before it.
    Open,
    /// With the step.
    Final,
    /// The agent was reminded.
    Reminded { problem: String },
    /// It failed and was tried again.
    Retried { error: String },
    /// A usage limit was reached.
    Limited { error: String },
}

/// How a step ended.
#[derive(Debug)]
pub enum Outcome {
    /// It has not ended.
    Open,
    /// It has ended, and the events from the first number to the second were deleted.
    Deleted(u64, u64),
    Finished(Box<StepFinished>),
    Failed(Box<StepFailed>),
}

impl Step {
    pub fn cost(&self) -> Option<Usd> {
        match &self.outcome {
            Outcome::Open | Outcome::Deleted(..) => Some(self.spent).filter(|spent| !spent.is_zero()),
            Outcome::Finished(finished) => Some(finished.cost_usd),
            Outcome::Failed(failed) => Some(failed.cost_usd),
        }
    }

    /// How long it took, retries and reminders included.
    pub fn duration_ms(&self) -> Option<u64> {
        match &self.outcome {
            Outcome::Open | Outcome::Deleted(..) => None,
            Outcome::Finished(finished) => Some(finished.duration_ms),
            Outcome::Failed(failed) => Some(failed.duration_ms),
        }
    }

    /// The conversation that it left: its session, and the backend that has it.
    pub fn conversation(&self) -> Option<(&str, Option<&str>)> {
        let last = self.attempts.last();
        let backend = last.and_then(|attempt| attempt.backend.as_deref());
        match &self.outcome {
            Outcome::Finished(finished) => {
                let session = finished.session.as_ref()?;
                Some((&session.id, session.backend.as_deref().or(backend)))
            }
            Outcome::Open | Outcome::Deleted(..) | Outcome::Failed(_) => {
                let session = last?.session.as_deref()?;
                Some((session, backend))
            }
        }
    }

    fn new(number: u64, agent: &AgentId, state: &StateFile, run: Option<&Run>) -> Self {
        let known = run.and_then(|run| run.agents.get(agent));
        Self {
            number,
            agent: agent.clone(),
            title: known.and_then(|agent| agent.title()),
            state: state.clone(),
            run: String::new(),
            cwd: known.map(|agent| agent.cwd.clone()),
            started_at: None,
            attempts: Vec::new(),
            spent: Usd::ZERO,
            outcome: Outcome::Open,
        }
    }
}

/// Puts steps together.
#[derive(Debug, Default)]
pub struct Steps {
    run: Option<Run>,
    open: BTreeMap<u64, Step>,
}

impl Steps {
    /// The run as it is after the last event.
    pub fn run(&self) -> Option<&Run> {
        self.run.as_ref()
    }

    /// Takes the next event, and returns the steps that are complete by it.
    pub fn take(&mut self, event: &Event) -> Vec<Step> {
        // Before the event is applied, its agent is still where the step was.
        self.note(event);
        self.run = evolve::evolve(self.run.take(), event);
        self.complete()
    }

    /// The steps that have not ended, and those behind them.
    pub fn rest(self) -> impl Iterator<Item = Step> {
        self.open.into_values()
    }

    fn complete(&mut self) -> Vec<Step> {
        let mut done = Vec::new();
        while let Some(first) =
            self.open.first_entry().filter(|entry| !matches!(entry.get().outcome, Outcome::Open))
        {
            done.push(first.remove());
        }
        done
    }

    fn note(&mut self, event: &Event) {
        if let Some(step) = event.body.step().and_then(|step| self.open.get_mut(&step)) {
            step.spent += event.body.cost();
        }
        match &event.body {
            Body::RunStopped { interrupted, .. } => self.cut_off(interrupted),
            Body::RunResumed(resumed) => self.cut_off(&resumed.interrupted),
            Body::StepStarted(started) => self.started(event, started),
            Body::SessionStarted(known) => {
                if let Some(attempt) = self.attempt(known.step) {
                    attempt.session = Some(known.session.clone());
                }
            }
            Body::Reminder(reminder) => {
                let end = AttemptEnd::Reminded { problem: reminder.problem.clone() };
                self.ended(reminder.step, reminder.message.as_ref(), end);
            }
            Body::Retry(retry) => {
                let end = AttemptEnd::Retried { error: retry.error.clone() };
                self.ended(retry.step, retry.message.as_ref(), end);
            }
            Body::LimitWaiting(limit) => {
                let end = AttemptEnd::Limited { error: limit.error.clone() };
                self.ended(limit.step, limit.message.as_ref(), end);
            }
            Body::StepFinished(finished) => {
                self.ended(finished.step, finished.message.as_ref(), AttemptEnd::Final);
                self.step(finished.step, &finished.agent, &finished.state).outcome =
                    Outcome::Finished(finished.clone());
            }
            Body::StepFailed(failed) => {
                let Some(number) = failed.step else { return };
                self.ended(number, failed.message.as_ref(), AttemptEnd::Final);
                self.step(number, &failed.agent, &failed.state).outcome =
                    Outcome::Failed(Box::new(failed.clone()));
            }
            Body::Snapshot { state } => {
                let first = self.run.as_ref().map_or(1, |run| run.seq + 1);
                let is_over = |step: &&mut Step| {
                    matches!(step.outcome, Outcome::Open) && !state.is_under_way(step.number)
                };
                for step in self.open.values_mut().filter(is_over) {
                    step.outcome = Outcome::Deleted(first, event.seq);
                }
            }
            _ => {}
        }
    }

    /// What a turn has cost that was cut off.
    fn cut_off(&mut self, interrupted: &[Interrupted]) {
        for cut in interrupted {
            if let Some(step) = self.open.get_mut(&cut.step) {
                step.spent += cut.estimated_cost_usd;
            }
        }
    }

    /// A failed step that a resume tries again has a number of its own.
    fn started(&mut self, event: &Event, started: &StepStarted) {
        let turn = started.turn.as_ref();
        let attempt = Attempt {
            number: started.attempt,
            backend: turn.and_then(|turn| turn.backend.clone()),
            session: turn.and_then(|turn| turn.session.clone()),
            branch_of: turn.and_then(|turn| turn.branch_of.clone()),
            message: None,
            end: AttemptEnd::Open,
        };
        let step = self.step(started.step, &started.agent, &started.state);
        step.started_at.get_or_insert(event.time);
        step.run.clone_from(&event.run);
        // An attempt that was interrupted runs again under its number.
        step.attempts.retain(|known| known.number != attempt.number);
        step.attempts.push(attempt);
    }

    fn step(&mut self, number: u64, agent: &AgentId, state: &StateFile) -> &mut Step {
        let run = self.run.as_ref();
        self.open.entry(number).or_insert_with(|| Step::new(number, agent, state, run))
    }

    fn attempt(&mut self, step: u64) -> Option<&mut Attempt> {
        self.open.get_mut(&step)?.attempts.last_mut()
    }

    fn ended(&mut self, step: u64, message: Option<&Payload>, end: AttemptEnd) {
        if let Some(attempt) = self.attempt(step) {
            attempt.message = message.cloned();
            attempt.end = end;
        }
    }
}
