//! The heart of the program: one owner of the state, fed with inputs, that commits before anything is done.
//!
//! It is synchronous and knows no runtime: the driver feeds it and carries out what it returns, and a simulation can
//! do the same.

#![warn(clippy::wildcard_enum_match_arm, reason = "a new event has to be answered here")]

use std::collections::BTreeMap;

use jiff::Timestamp;
use raymond_core::decide::decide;
use raymond_core::event::{Body, Event, SnapshotLine, StepStarted};
use raymond_core::evolve;
use raymond_core::input::{Input, Outcome, Plan, Prepared};
use raymond_core::join;
use raymond_core::name::AgentId;
use raymond_core::payload::Payload;
use raymond_core::run::{Agent, Due, Mode, Run};

/// The journal could not be written, so that what it holds is not known any more, or a payload could not be read back.
/// That is no failure of the workflow's, which might handle it and go on: the program must end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoreError(pub String);

/// Where events are kept.
pub trait EventStore {
    /// Moves a long text into a file of its own, synced before an event may name it.
    fn keep_payload(&mut self, text: &str) -> Result<Payload, StoreError>;
    /// Reads a text back.
    fn load_payload(&self, payload: &Payload) -> Result<String, StoreError>;
    /// Writes a batch, all or nothing. When it returns, the batch is as durable as was asked for.
    fn commit(&mut self, batch: &[Event]) -> Result<(), StoreError>;
    /// Begins a new segment if the present one is long enough.
    fn rotate_if_long(&mut self, snapshot: SnapshotLine<'_>) -> Result<(), StoreError>;
}

/// Where states are read when a step starts.
pub trait States {
    fn prepare(&mut self, agent: &Agent) -> Result<Prepared, String>;
}

/// What the driver has to do next, now that it is recorded.
#[derive(Debug)]
pub enum Command {
    Launch(Box<Launch>),
    /// A script failed for the whole run: the other scripts are ended, turns of agents finish.
    EndScripts,
    /// Everything is done.
    Finish,
}

/// A step's attempt to start.
#[derive(Debug)]
pub struct Launch {
    pub started: StepStarted,
    pub agent: Agent,
    pub plan: Plan,
}

/// What a round of inputs led to.
#[derive(Debug, Default)]
pub struct Round {
    pub events: Vec<Event>,
    pub commands: Vec<Command>,
    /// Why nothing more can be done, although what happened is recorded.
    pub trouble: Option<StoreError>,
}

#[derive(Debug)]
pub struct Engine<S> {
    run: Run,
    store: S,
    mode: Mode,
}

impl<S: EventStore> Engine<S> {
    /// Opens a new run with the events that start it.
    pub fn create(
        id: &str,
        now: Timestamp,
        opening: Vec<Body>,
        mut store: S,
    ) -> Result<(Self, Vec<Event>), StoreError> {
        let mut events = Vec::new();
        let mut run = None;
        for mut body in opening {
            keep_long_payloads(&mut store, &mut body)?;
            let event = Event { seq: events.len() as u64 + 1, time: now, run: id.to_owned(), body };
            run = evolve::evolve(run, &event);
            events.push(event);
        }
        store.commit(&events)?;
        let run = run.ok_or_else(|| StoreError("a run must open with `run_started`".to_owned()))?;
        Ok((Self { run, store, mode: Mode::default() }, events))
    }

    /// Takes up a run as its journal left it.
    pub fn take_up(run: Run, store: S) -> Self {
        Self { run, store, mode: Mode::default() }
    }

    pub fn run(&self) -> &Run {
        &self.run
    }

    /// From now on nothing new starts.
    pub fn drain(&mut self) {
        self.mode.draining = true;
    }

    /// Whether open questions keep the run going.
    pub fn wait_for_answers(&mut self, wait: bool) {
        self.mode.waits_for_answers = wait;
    }

    /// Decides about each input, then about everything that is due; one append, one sync; and says what to do.
    pub fn round(
        &mut self,
        now: Timestamp,
        inputs: impl IntoIterator<Item = Input>,
        states: &mut dyn States,
    ) -> Result<Round, StoreError> {
        let mut batch = Vec::new();
        let mut plans = BTreeMap::new();
        for input in inputs {
            self.accept(now, input, &mut batch)?;
        }
        self.run.wake(now);
        let mut trouble = None;
        while trouble.is_none()
            && let Some(due) = self.run.next_due(now, self.mode)
        {
            match self.due_input(due, states, &mut plans) {
                Ok(input) => self.accept(now, input, &mut batch)?,
                Err(error) => trouble = Some(error),
            }
        }
        if !batch.is_empty() {
            self.store.commit(&batch)?;
            self.rotate_if_long(now)?;
        }
        let commands = match trouble {
            Some(_) => Vec::new(),
            None => batch.iter().filter_map(|event| self.command(event, &mut plans)).collect(),
        };
        Ok(Round { events: batch, commands, trouble })
    }

    fn accept(&mut self, now: Timestamp, input: Input, batch: &mut Vec<Event>) -> Result<(), StoreError> {
        if let Input::Ended(ended) = &input
            && let Outcome::Interrupted { cost } = ended.outcome
        {
            self.run.interrupt(&ended.agent, ended.step, cost);
        }
        for mut body in decide(&self.run, now, input) {
            keep_long_payloads(&mut self.store, &mut body)?;
            let event = Event { seq: self.run.seq + 1, time: now, run: self.run.id.clone(), body };
            evolve::apply(&mut self.run, &event);
            batch.push(event);
        }
        Ok(())
    }

    fn due_input(
        &self,
        due: Due,
        states: &mut dyn States,
        plans: &mut BTreeMap<AgentId, Plan>,
    ) -> Result<Input, StoreError> {
        Ok(match due {
            Due::Launch(agent) => {
                let prepared = match self.run.agents.get(&agent) {
                    Some(agent) => states.prepare(agent),
                    None => Err("the agent is gone".to_owned()),
                };
                if let Ok(prepared) = &prepared {
                    plans.insert(agent.clone(), prepared.plan.clone());
                }
                Input::Launch { agent, prepared }
            }
            Due::End(agent) => Input::End { agent },
            Due::Join(agent) => {
                let result = join::results(&self.run, &agent, |payload| self.store.load_payload(payload))?;
                Input::Join { agent, result }
            }
            Due::AskTimeout(agent) => Input::AskTimeout { agent },
            Due::Close => Input::Close { stop_requested: self.mode.draining },
        })
    }

    fn command(&self, event: &Event, plans: &mut BTreeMap<AgentId, Plan>) -> Option<Command> {
        match &event.body {
            Body::StepStarted(started) => {
                let agent = self.run.agents.get(&started.agent)?;
                let plan = plans.remove(&started.agent)?;
                Some(Command::Launch(Box::new(Launch {
                    started: started.clone(),
                    agent: agent.clone(),
                    plan,
                })))
            }
            Body::StepFailed(failed) => failed.fatal.then_some(Command::EndScripts),
            Body::RunFinished { .. } | Body::RunStopped { .. } => Some(Command::Finish),
            Body::RunStarted(_)
            | Body::AgentStarted(_)
            | Body::SessionStarted(_)
            | Body::StepFinished(_)
            | Body::Retry(_)
            | Body::Reminder(_)
            | Body::LimitWaiting(_)
            | Body::Delayed { .. }
            | Body::AgentFinished { .. }
            | Body::Joined { .. }
            | Body::AskOpened(_)
            | Body::AskClosed(_)
            | Body::Print { .. }
            | Body::Warning { .. }
            | Body::BudgetExceeded { .. }
            | Body::RunResumed(_)
            | Body::Snapshot { .. } => None,
        }
    }

    fn rotate_if_long(&mut self, now: Timestamp) -> Result<(), StoreError> {
        self.store.rotate_if_long(SnapshotLine::of(&self.run, now))
    }
}

fn keep_long_payloads(store: &mut impl EventStore, body: &mut Body) -> Result<(), StoreError> {
    for payload in body.payloads_mut() {
        if let Some(text) = payload.oversized() {
            *payload = store.keep_payload(text)?;
        }
    }
    Ok(())
}
