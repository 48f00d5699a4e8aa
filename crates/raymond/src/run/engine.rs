//! The core of the program: the single owner of the run's state. It takes inputs and commits before anything is done.
//!
//! It is synchronous and uses no runtime: the driver passes inputs in and carries out what it returns. A simulation can
//! do the same.

#![warn(clippy::wildcard_enum_match_arm, reason = "a new event has to be handled here")]

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use raymond_core::decide::decide;
use raymond_core::event::{Body, Event, Interrupted, SnapshotLine, StepStarted, shorten};
use raymond_core::evolve;
use raymond_core::input::{Ended, Input, Plan, Prepared, StepOutcome};
use raymond_core::join;
use raymond_core::limits::STEP_ROOM_BYTES;
use raymond_core::name::AgentId;
use raymond_core::payload::Payload;
use raymond_core::run::{Agent, Due, Mode, Run, Status};

use crate::store::{Room, RunWriter, StoreError};

/// Where states are read when a step starts.
pub trait States {
    /// What the step's executor needs; the engine only passes it on.
    type Job;
    /// Reads the state that an agent is in. A state that cannot be started fails its agent; a store that cannot be read
    /// ends the program.
    fn prepare(&mut self, run: &Run, agent: &Agent) -> Result<Preparation<Self::Job>, StoreError>;
}

/// A state that is ready to start, or why it cannot be started.
pub type Preparation<J> = Result<(Prepared, J), String>;

/// What the driver has to do next. It is recorded already.
#[derive(Debug)]
pub enum Command<J> {
    Launch(Box<StepLaunch<J>>),
    /// A script failed for the whole run: the other scripts are ended, but the turns of agents may finish.
    EndScripts,
    /// Everything is done.
    Finish,
}

/// A step's attempt to start.
#[derive(Debug)]
pub struct StepLaunch<J> {
    pub started: StepStarted,
    pub agent: Agent,
    pub plan: Plan,
    pub job: J,
}

/// The result of a round of inputs.
#[derive(Debug)]
pub struct Round<J> {
    pub events: Vec<Event>,
    pub commands: Vec<Command<J>>,
    /// Agents whose workers' results cannot be put together here. The engine waits for an [`Input::Join`] of each; until it
    /// comes, or the engine ends, nothing else happens to them.
    pub joins_elsewhere: Vec<AgentId>,
    /// Why the run cannot go on although everything that happened is recorded: a payload could not be read. This is not
    /// a failure that the workflow could handle, so the program must end.
    pub trouble: Option<StoreError>,
}

#[derive(Debug)]
pub struct Engine<S> {
    run: Run,
    store: S,
    mode: Mode,
    /// Whether the process was told to end at once.
    is_terminated: bool,
    /// Running attempts that were ended because the run stops.
    interrupted: Vec<Interrupted>,
    /// Agents whose workers' results are being put together elsewhere.
    joining: BTreeSet<AgentId>,
}

/// What a due thing leads to.
enum Next {
    Input(Input),
    JoinElsewhere(AgentId),
}

impl<S: RunWriter> Engine<S> {
    /// All texts of the run's state, to be replaced by references to the same texts.
    pub fn payloads_mut(&mut self) -> Vec<&mut Payload> {
        self.run.payloads_mut()
    }

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
        let run = run.ok_or_else(|| StoreError::NoStart { place: id.to_owned() })?;
        Ok((Self::take_up(run, store), events))
    }

    /// Continues a run from its journal.
    pub fn take_up(run: Run, store: S) -> Self {
        Self {
            run,
            store,
            mode: Mode::default(),
            is_terminated: false,
            interrupted: Vec::new(),
            joining: BTreeSet::new(),
        }
    }

    pub fn run(&self) -> &Run {
        &self.run
    }

    /// The state and the writer, to do something else with them.
    pub fn into_parts(self) -> (Run, S) {
        (self.run, self.store)
    }

    /// From now on nothing new starts.
    pub fn drain(&mut self) {
        self.mode.draining = true;
    }

    /// The process was told to end at once, and the last event says so.
    pub fn terminated(&mut self) {
        self.is_terminated = true;
    }

    /// Whether open questions keep the run going.
    pub fn wait_for_answers(&mut self, wait: bool) {
        self.mode.waits_for_answers = wait;
    }

    /// Decides about each input, then about everything that is due. Appends and syncs once, then returns what to do.
    pub fn round<J>(
        &mut self,
        now: Timestamp,
        inputs: impl IntoIterator<Item = Input>,
        states: &mut dyn States<Job = J>,
    ) -> Result<Round<J>, StoreError> {
        let mut batch = Vec::new();
        let mut ready = BTreeMap::new();
        for input in inputs {
            self.accept(now, input, &mut batch)?;
        }
        let mut trouble = None;
        let mut joins_elsewhere = Vec::new();
        while trouble.is_none()
            && let Some(due) = self.run.next_due_beside(&self.joining, now, self.mode)
        {
            match self.next(due, states, &mut ready) {
                Ok(Next::Input(input)) => self.accept(now, input, &mut batch)?,
                Ok(Next::JoinElsewhere(agent)) => {
                    self.joining.insert(agent.clone());
                    joins_elsewhere.push(agent);
                }
                Err(error) => trouble = Some(error),
            }
        }
        if !batch.is_empty() {
            tracing::debug!(events = batch.len(), last = self.run.seq, "commit");
            self.store.set_aside(STEP_ROOM_BYTES * self.run.running() as u64);
            match self.store.commit(&batch) {
                Err(full @ StoreError::Full { .. }) => {
                    batch = self.commit_what_fits(&batch)?;
                    trouble = Some(full);
                }
                other => {
                    other?;
                    self.snapshot_if_long(now)?;
                }
            }
        }
        let commands = match trouble {
            Some(_) => Vec::new(),
            None => batch.iter().filter_map(|event| self.command(event, &mut ready)).collect(),
        };
        Ok(Round { events: batch, commands, joins_elsewhere, trouble })
    }

    /// The disk is full. What was paid for is recorded in the room that was set aside for it.
    fn commit_what_fits(&mut self, batch: &[Event]) -> Result<Vec<Event>, StoreError> {
        self.store.set_aside(0);
        let short = shorten::without_messages(batch);
        match self.store.commit(&short) {
            Err(StoreError::Full { .. }) => {}
            other => return other.map(|()| short),
        }
        let costs =
            shorten::only_costs(batch, "the disk was full, so what the step returned could not be recorded");
        if !costs.is_empty() {
            self.store.commit(&costs)?;
        }
        Ok(costs)
    }

    fn accept(&mut self, now: Timestamp, input: Input, batch: &mut Vec<Event>) -> Result<(), StoreError> {
        if let Input::Ended(ended) = &input {
            self.note_interruption(ended);
        }
        if let Input::Join { agent, .. } = &input {
            self.joining.remove(agent);
        }
        // What has reported that it was interrupted is recorded by the event that ends the run.
        if matches!(&input, Input::Lost { agent, .. } if self.is_interrupted(agent)) {
            return Ok(());
        }
        for mut body in decide(&self.run, now, input) {
            keep_long_payloads(&mut self.store, &mut body)?;
            let event = Event { seq: self.run.seq + 1, time: now, run: self.run.id.clone(), body };
            evolve::apply(&mut self.run, &event);
            batch.push(event);
        }
        Ok(())
    }

    /// An attempt that was ended because the run stops. It is recorded in the event that ends the run.
    fn note_interruption(&mut self, ended: &Ended) {
        let StepOutcome::Interrupted { cost } = ended.outcome else { return };
        let Some(agent) = self.run.agents.get(&ended.agent) else { return };
        let is_current = matches!(&agent.status, Status::Running { work, .. }
            if (work.step, work.attempt) == (ended.step, ended.attempt));
        if is_current && !self.is_interrupted(&agent.id) {
            self.interrupted.push(Interrupted {
                agent: agent.id.clone(),
                step: ended.step,
                state: agent.state.clone(),
                estimated_cost_usd: cost,
            });
            self.mode.interrupted = self.interrupted.len();
        }
    }

    /// Whether steps have been interrupted since the run was taken up. Only the event that ends the run records them.
    pub fn has_interrupted_steps(&self) -> bool {
        !self.interrupted.is_empty()
    }

    fn is_interrupted(&self, agent: &AgentId) -> bool {
        self.interrupted.iter().any(|known| known.agent == *agent)
    }

    fn next<J>(
        &self,
        due: Due,
        states: &mut dyn States<Job = J>,
        ready: &mut BTreeMap<AgentId, (Plan, J)>,
    ) -> Result<Next, StoreError> {
        Ok(Next::Input(match due {
            Due::Launch(agent) => {
                let prepared = match self.run.agents.get(&agent) {
                    Some(agent) => states.prepare(&self.run, agent)?,
                    None => Err("the agent is gone".to_owned()),
                };
                let prepared = prepared.map(|(prepared, job)| {
                    ready.insert(agent.clone(), (prepared.plan.clone(), job));
                    prepared
                });
                Input::Launch { agent, prepared }
            }
            Due::End(agent) => Input::End { agent },
            Due::Join(agent) => match self.joined(&agent)? {
                Some(result) => Input::Join { agent, result },
                None => return Ok(Next::JoinElsewhere(agent)),
            },
            Due::AskTimeout(agent) => Input::AskTimeout { agent },
            Due::Close => Input::Close {
                stop_requested: self.mode.draining,
                terminated: self.is_terminated,
                interrupted: self.interrupted.clone(),
            },
        }))
    }

    /// The results of an agent's workers, or why they cannot be delivered. Nothing if they must be put together elsewhere.
    fn joined(&self, agent: &AgentId) -> Result<Option<Result<Payload, String>>, StoreError> {
        let load = |payload: &Payload| self.store.load_payload(payload);
        let text = match join::results(&self.run, agent, load) {
            Err(StoreError::PayloadElsewhere { .. }) => return Ok(None),
            other => other?,
        };
        Ok(match text {
            Err(error) => Some(Err(error)),
            Ok(text) => match self.store.room_for(&text) {
                Room::Here => Some(Ok(text.into())),
                Room::Elsewhere => None,
                Room::Nowhere => {
                    Some(Err(format!("the workers' results are too long together ({} bytes)", text.len())))
                }
            },
        })
    }

    fn command<J>(&self, event: &Event, ready: &mut BTreeMap<AgentId, (Plan, J)>) -> Option<Command<J>> {
        match &event.body {
            Body::StepStarted(started) => {
                let agent = self.run.agents.get(&started.agent)?;
                let (plan, job) = ready.remove(&started.agent)?;
                let started = started.clone();
                Some(Command::Launch(Box::new(StepLaunch { started, agent: agent.clone(), plan, job })))
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
            | Body::ExclusiveWaiting { .. }
            | Body::AgentFinished { .. }
            | Body::Joined { .. }
            | Body::AskOpened(_)
            | Body::AskClosed(_)
            | Body::Print { .. }
            | Body::Warning { .. }
            | Body::BudgetExceeded { .. }
            | Body::AgentRetried { .. }
            | Body::AgentMoved { .. }
            | Body::RunResumed(_)
            | Body::Snapshot { .. } => None,
        }
    }

    fn snapshot_if_long(&mut self, now: Timestamp) -> Result<(), StoreError> {
        self.store.snapshot_if_long(SnapshotLine::of(&self.run, now))
    }
}

fn keep_long_payloads(store: &mut impl RunWriter, body: &mut Body) -> Result<(), StoreError> {
    for payload in body.payloads_mut() {
        if let Some(text) = payload.oversized() {
            *payload = store.keep_payload(text)?;
        }
    }
    Ok(())
}
