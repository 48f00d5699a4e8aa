//! What happened in a run, as a table of its steps.
//!
//! Windows of steps, the timeline, money over time and how often each way was taken are all made of this table, for any
//! moment of the run. It is built from the events once, and only what is new is read later.
//!
//! Bounds: [`MAX_STORIES`] tables, about 100 bytes a step.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, PoisonError};

use jiff::Timestamp;
use raymond_core::event::{Body, Event, LedTo, StepFinished};
use raymond_core::money::Usd;
use raymond_core::tag::TagName;

use crate::store::{Events, Payloads, RunHandle, Start, StoreError};
use crate::view::whereabouts::Whereabouts;

/// How many tables are kept.
const MAX_STORIES: usize = 4;
/// How many texts for people are kept.
pub const MAX_PRINTS: usize = 200;

/// A word that is used often, by its number.
pub type Word = u32;

/// One step.
#[derive(Clone, Debug)]
pub struct Step {
    pub number: u64,
    /// The run whose process started it last: this one, or the origin of its history.
    pub run: Word,
    pub agent: Word,
    pub state: Word,
    /// The workflow it is in, if that is not the run's own.
    pub scope: Option<Word>,
    pub started: Timestamp,
    pub started_seq: u64,
    pub attempts: u32,
    pub end: Option<End>,
}

/// How a step ended.
#[derive(Clone, Debug)]
pub struct End {
    pub at: Timestamp,
    pub seq: u64,
    pub duration_ms: u64,
    pub cost: Usd,
    pub how: How,
}

#[derive(Clone, Debug)]
pub enum How {
    Done {
        tag: TagName,
        target: Option<Word>,
        next: Option<Word>,
    },
    Failed,
    /// Its program was ended before it was done; it runs again when the run is resumed.
    Interrupted,
}

/// A time in which an agent ran no step.
#[derive(Clone, Debug)]
pub struct Pause {
    pub agent: Word,
    pub state: Word,
    pub kind: PauseKind,
    pub from: Timestamp,
    pub from_seq: u64,
    /// When it ended, and with which event.
    pub to: Option<(Timestamp, u64)>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PauseKind {
    Wait,
    Ask,
    Join,
    Delay,
    Limit,
}

impl PauseKind {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Wait => "wait",
            Self::Ask => "ask",
            Self::Join => "join",
            Self::Delay => "delay",
            Self::Limit => "limit",
        }
    }
}

/// An agent, from its start to its end.
#[derive(Clone, Debug)]
pub struct AgentRow {
    pub id: Word,
    /// What its fork called it.
    pub title: Option<Word>,
    pub parent: Option<Word>,
    /// The state whose step forked it, with the workflow that it is in.
    pub forked_at: Option<(Option<Word>, Word)>,
    /// Its first state.
    pub state: Word,
    pub started: Timestamp,
    pub started_seq: u64,
    pub ended: Option<(Timestamp, u64)>,
}

/// A text for people.
#[derive(Clone, Debug)]
pub struct Print {
    pub seq: u64,
    pub time: Timestamp,
    pub agent: Word,
    pub text: String,
}

/// The table of a run.
#[derive(Debug, Default)]
pub struct Story {
    words: Vec<Arc<str>>,
    by_word: HashMap<Arc<str>, Word>,
    pub steps: Vec<Step>,
    pub pauses: Vec<Pause>,
    pub agents: Vec<AgentRow>,
    agent_rows: HashMap<Word, usize>,
    /// The state in which each agent finished its last step, with the workflow that it is in.
    left: HashMap<Word, (Option<Word>, Word)>,
    /// The pause that each agent is in.
    open_pauses: HashMap<Word, usize>,
    /// What the run had cost after events that cost something.
    pub money: Vec<(u64, Timestamp, Usd)>,
    pub prints: VecDeque<Print>,
    pub started: Option<Timestamp>,
    pub last: Option<Timestamp>,
    pub seq: u64,
    whereabouts: Whereabouts,
}

impl Story {
    pub fn word(&self, word: Word) -> &str {
        self.words.get(word as usize).map_or("", |text| text)
    }

    fn number_of(&mut self, text: &str) -> Word {
        if let Some(word) = self.by_word.get(text) {
            return *word;
        }
        let word = Word::try_from(self.words.len()).unwrap_or(Word::MAX);
        let text: Arc<str> = text.into();
        self.words.push(Arc::clone(&text));
        self.by_word.insert(text, word);
        word
    }

    /// A step by its number. Numbers rise by one, but old events may have been deleted.
    pub fn step(&self, number: u64) -> Option<&Step> {
        self.steps.get(self.place(number)?)
    }

    /// Where a step is in the table.
    pub fn place(&self, number: u64) -> Option<usize> {
        self.steps.binary_search_by_key(&number, |step| step.number).ok()
    }

    fn step_mut(&mut self, number: u64) -> Option<&mut Step> {
        let place = self.place(number)?;
        self.steps.get_mut(place)
    }

    /// Whether a batch takes the run back to an event before the last that was told.
    fn is_told_anew_by(&self, batch: &[Event]) -> bool {
        let origin = batch.first().and_then(|event| match &event.body {
            Body::RunStarted(started) => started.origin.as_ref(),
            _ => None,
        });
        origin.is_some_and(|origin| origin.seq < self.seq)
    }

    fn take(&mut self, event: &Event, payloads: &Payloads) {
        self.seq = event.seq;
        self.started.get_or_insert(event.time);
        self.last = Some(event.time);
        let cost = event.body.cost();
        if !cost.is_zero() {
            let before = self.money.last().map_or(Usd::default(), |(_, _, total)| *total);
            self.money.push((event.seq, event.time, before + cost));
        }
        self.tell(event, payloads);
        self.whereabouts.follow(event);
    }

    fn tell(&mut self, event: &Event, payloads: &Payloads) {
        match &event.body {
            Body::AgentStarted(started) => {
                let id = self.number_of(started.agent.as_str());
                let parent = started.parent().map(|parent| parent.as_str().to_owned());
                let parent = parent.map(|parent| self.number_of(&parent));
                let title = started.title();
                let title = title.map(|title| self.number_of(&title));
                self.agent_rows.insert(id, self.agents.len());
                let row = AgentRow {
                    id,
                    title,
                    parent,
                    forked_at: parent.and_then(|parent| self.left.get(&parent).copied()),
                    state: self.number_of(started.state.as_str()),
                    started: event.time,
                    started_seq: event.seq,
                    ended: None,
                };
                self.agents.push(row);
            }
            Body::AgentFinished { agent, .. } => {
                let id = self.number_of(agent.as_str());
                self.end_pause(id, event);
                if let Some(row) = self.agent_rows.get(&id).and_then(|row| self.agents.get_mut(*row)) {
                    row.ended = Some((event.time, event.seq));
                }
            }
            Body::StepStarted(started) => {
                let agent = self.number_of(started.agent.as_str());
                self.end_pause(agent, event);
                let state = self.number_of(started.state.as_str());
                let run = self.number_of(&event.run);
                let scope = self.whereabouts.scope_of(&started.agent).map(str::to_owned);
                let scope = scope.map(|scope| self.number_of(&scope));
                match self.step_mut(started.step) {
                    Some(step) => {
                        step.attempts = step.attempts.max(started.attempt);
                        step.end = None;
                        step.run = run;
                    }
                    None => self.steps.push(Step {
                        number: started.step,
                        run,
                        agent,
                        state,
                        scope,
                        started: event.time,
                        started_seq: event.seq,
                        attempts: started.attempt,
                        end: None,
                    }),
                }
            }
            Body::StepFinished(finished) => self.finish(event, finished),
            Body::StepFailed(failed) => {
                let end = End {
                    at: event.time,
                    seq: event.seq,
                    duration_ms: failed.duration_ms,
                    cost: failed.cost_usd,
                    how: How::Failed,
                };
                if let Some(step) = failed.step.and_then(|step| self.step_mut(step)) {
                    step.end = Some(end);
                }
            }
            Body::Retry(retry) => {
                self.pause(event, retry.agent.as_str(), retry.state.as_str(), PauseKind::Delay)
            }
            Body::LimitWaiting(wait) => {
                self.pause(event, wait.agent.as_str(), wait.state.as_str(), PauseKind::Limit);
            }
            Body::Delayed { agent, state, .. } => {
                self.pause(event, agent.as_str(), state.as_str(), PauseKind::Delay);
            }
            Body::ExclusiveWaiting { agent, state, .. } => {
                self.pause(event, agent.as_str(), state.as_str(), PauseKind::Wait);
            }
            Body::AskOpened(ask) => self.pause(event, ask.agent.as_str(), ask.state.as_str(), PauseKind::Ask),
            Body::AskClosed(ask) => {
                let agent = self.number_of(ask.agent.as_str());
                self.end_pause(agent, event);
            }
            Body::Joined { agent, .. }
            | Body::AgentRetried { agent, .. }
            | Body::AgentMoved { agent, .. } => {
                let agent = self.number_of(agent.as_str());
                self.end_pause(agent, event);
            }
            Body::Print { agent, text, .. } => {
                let agent = self.number_of(agent.as_str());
                let text = payloads.text_of(text).unwrap_or_default();
                self.prints.push_back(Print { seq: event.seq, time: event.time, agent, text });
                if self.prints.len() > MAX_PRINTS {
                    self.prints.pop_front();
                }
            }
            Body::RunStopped { interrupted, .. } => {
                interrupted.iter().for_each(|step| self.interrupt(event, step.step));
            }
            Body::RunResumed(resumed) => {
                resumed.interrupted.iter().for_each(|step| self.interrupt(event, step.step));
            }
            Body::RunStarted(started) => {
                let Some(origin) = &started.origin else { return };
                let open = self.steps.iter().filter(|step| step.end.is_none()).map(|step| step.number);
                open.collect::<Vec<u64>>().into_iter().for_each(|step| self.interrupt(event, step));
                if origin.reset_cost {
                    self.money.push((event.seq, event.time, Usd::default()));
                }
            }
            Body::SessionStarted(_)
            | Body::Reminder(_)
            | Body::Warning { .. }
            | Body::BudgetExceeded { .. }
            | Body::RunFinished { .. }
            | Body::Snapshot { .. } => {}
        }
    }

    fn finish(&mut self, event: &Event, finished: &StepFinished) {
        let parts = finished.led_to.parts();
        let target = parts.target.map(|state| state.to_string());
        let next = parts.next.map(|state| state.to_string());
        let (target, next) =
            (target.map(|name| self.number_of(&name)), next.map(|name| self.number_of(&name)));
        let end = End {
            at: event.time,
            seq: event.seq,
            duration_ms: finished.duration_ms,
            cost: finished.cost_usd,
            how: How::Done { tag: parts.tag, target, next },
        };
        if let Some(step) = self.step_mut(finished.step) {
            step.end = Some(end);
            let left = (step.agent, (step.scope, step.state));
            self.left.insert(left.0, left.1);
        }
        if matches!(finished.led_to, LedTo::Join { .. }) || parts.joins {
            self.pause(event, finished.agent.as_str(), finished.state.as_str(), PauseKind::Join);
        }
    }

    fn interrupt(&mut self, event: &Event, step: u64) {
        if let Some(step) = self.step_mut(step) {
            let duration = event.time.duration_since(step.started).as_millis();
            step.end.get_or_insert(End {
                at: event.time,
                seq: event.seq,
                duration_ms: u64::try_from(duration).unwrap_or(0),
                cost: Usd::default(),
                how: How::Interrupted,
            });
        }
    }

    fn pause(&mut self, event: &Event, agent: &str, state: &str, kind: PauseKind) {
        let (agent, state) = (self.number_of(agent), self.number_of(state));
        self.end_pause(agent, event);
        self.open_pauses.insert(agent, self.pauses.len());
        self.pauses.push(Pause { agent, state, kind, from: event.time, from_seq: event.seq, to: None });
    }

    fn end_pause(&mut self, agent: Word, event: &Event) {
        if let Some(pause) = self.open_pauses.remove(&agent).and_then(|place| self.pauses.get_mut(place)) {
            pause.to = Some((event.time, event.seq));
        }
    }
}

/// A story that is read on.
#[derive(Default)]
struct Telling {
    story: Story,
    events: Option<Box<dyn Events>>,
}

/// The stories that were asked for last.
#[derive(Default)]
pub struct Stories(Mutex<Vec<(String, Arc<Mutex<Telling>>)>>);

impl Stories {
    /// Shows the story of a run up to now to a function.
    pub fn with<T>(&self, run: &Arc<dyn RunHandle>, show: impl FnOnce(&Story) -> T) -> Result<T, StoreError> {
        let telling = self.telling(run.id());
        let mut telling = telling.lock().unwrap_or_else(PoisonError::into_inner);
        let telling = &mut *telling;
        let payloads = run.payloads();
        let events = match &mut telling.events {
            Some(events) => events,
            none => none.insert(run.events(Start::After(0))?),
        };
        loop {
            match events.next_batch() {
                Ok(Some(batch)) if telling.story.is_told_anew_by(&batch) => {
                    telling.story = Story::default();
                    *events = run.events(Start::After(0))?;
                }
                Ok(Some(batch)) => batch.iter().for_each(|event| telling.story.take(event, &payloads)),
                Ok(None) => break,
                Err(error) => {
                    *telling = Telling::default();
                    return Err(error);
                }
            }
        }
        Ok(show(&telling.story))
    }

    fn telling(&self, run: &str) -> Arc<Mutex<Telling>> {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let found = match all.iter().position(|(id, _)| id == run) {
            Some(place) => all.remove(place),
            None => (run.to_owned(), Arc::default()),
        };
        if all.len() >= MAX_STORIES {
            all.remove(0);
        }
        let telling = Arc::clone(&found.1);
        all.push(found);
        telling
    }
}
