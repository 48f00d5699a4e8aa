//! What happened in a run, as a table of its steps.
//!
//! Windows of steps, the timeline, money over time and how often each way was taken are all made of this table, for any
//! moment of the run. It is built from the events once, and only what is new is read later.
//!
//! Bounds of a story: the newest rows of its tables, [`MAX_MONEY`] amounts, [`MAX_PRINTS`] texts, and its agents. All other
//! rows are in files.

mod rows;
mod table;
mod telling;
mod ways;

use std::collections::{BTreeSet, HashMap, VecDeque};
use std::io;
use std::path::Path;
use std::sync::Arc;

use jiff::Timestamp;
use raymond_core::event::{Body, Event, Interrupted, LedTo, StepFinished, StepStarted};
use raymond_core::money::Usd;
use raymond_core::run::Run;

use self::rows::OldPrint;
pub use self::rows::{By, End, How, Pause, PauseKind, Step, Way};
use self::table::{Table, Texts};
pub use self::telling::Stories;
pub use self::ways::{END, input_in, node_of_workflow};
use crate::store::Payloads;
use crate::view::whereabouts::Whereabouts;

/// How many texts for people are kept.
pub const MAX_PRINTS: usize = 200;
/// How many amounts of money are kept at most.
const MAX_MONEY: usize = 8192;

/// A word that is used often, by its number.
pub type Word = u32;

/// An agent, from its start to its end.
#[derive(Clone, Copy, Debug)]
pub struct AgentRow {
    pub id: Word,
    /// What its fork called it.
    pub title: Option<Word>,
    pub parent: Option<Word>,
    /// The workflow that its fork named, if that is another one than that of its parent.
    pub entered: Option<Word>,
    pub started: Timestamp,
    pub started_seq: u64,
    pub ended: Option<(Timestamp, u64)>,
    /// When it failed, if it has not been tried again since.
    pub failed: Option<(Timestamp, u64)>,
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
pub struct Story {
    words: Vec<Arc<str>>,
    by_word: HashMap<Arc<str>, Word>,
    pub steps: Table<Step>,
    /// The steps that have not ended, by number.
    open_steps: BTreeSet<u64>,
    /// What those of them have cost whose attempts have ended or were interrupted.
    spent: HashMap<u64, Usd>,
    pub pauses: Table<Pause>,
    pub agents: Vec<AgentRow>,
    agent_rows: HashMap<Word, usize>,
    /// The state in which each agent finished its last step, with the workflow that it is in.
    left: HashMap<Word, (Option<Word>, Word)>,
    /// The pause that each agent is in.
    open_pauses: HashMap<Word, usize>,
    /// The workflow that each agent returns to, for each of its calls: the one that was called, if it is another.
    calls: HashMap<Word, Vec<Option<Word>>>,
    /// The event that handed each agent the input of its state.
    given: HashMap<Word, u64>,
    /// The ways of the graphs that were taken.
    pub ways: Table<Way>,
    /// The run's own workflow.
    own: Option<Word>,
    /// The other workflows that steps were in.
    pub scopes: BTreeSet<Word>,
    /// What the run had cost after events that cost something; of very many, some are left out.
    pub money: Vec<(u64, Timestamp, Usd)>,
    /// The last texts for people.
    prints: VecDeque<Print>,
    old_prints: Table<OldPrint>,
    old_texts: Texts,
    pub started: Option<Timestamp>,
    pub last: Option<Timestamp>,
    pub seq: u64,
    whereabouts: Whereabouts,
}

/// The last amount of each of so many equal pieces of the time since then, and of every piece that has one.
pub fn thinned(
    money: &[(u64, Timestamp, Usd)],
    from: Timestamp,
    pieces: usize,
) -> Vec<(u64, Timestamp, Usd)> {
    let Some((_, until, _)) = money.last() else { return Vec::new() };
    let whole = until.duration_since(from).as_nanos().max(1);
    let pieces = i128::try_from(pieces).unwrap_or(1);
    let piece = |time: Timestamp| (time.duration_since(from).as_nanos() * pieces / whole).min(pieces - 1);
    let groups = money.chunk_by(|one, next| piece(one.1) == piece(next.1));
    groups.filter_map(|group| group.last()).copied().collect()
}

impl Story {
    /// A story without events. Its long tables are kept in a folder.
    fn new(folder: &Arc<Path>) -> Self {
        Self {
            words: Vec::new(),
            by_word: HashMap::new(),
            steps: Table::new(Arc::clone(folder)),
            open_steps: BTreeSet::new(),
            spent: HashMap::new(),
            pauses: Table::new(Arc::clone(folder)),
            agents: Vec::new(),
            agent_rows: HashMap::new(),
            left: HashMap::new(),
            open_pauses: HashMap::new(),
            calls: HashMap::new(),
            given: HashMap::new(),
            ways: Table::new(Arc::clone(folder)),
            own: None,
            scopes: BTreeSet::new(),
            money: Vec::new(),
            prints: VecDeque::new(),
            old_prints: Table::new(Arc::clone(folder)),
            old_texts: Texts::new(Arc::clone(folder)),
            started: None,
            last: None,
            seq: 0,
            whereabouts: Whereabouts::default(),
        }
    }

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

    /// A step by its number.
    pub fn step(&self, number: u64) -> io::Result<Option<Step>> {
        let step = self.steps.get(self.place(number)?)?;
        Ok(step.filter(|step| step.number == number))
    }

    /// Where the first step from a number on is in the table. Numbers rise by one, but old events may have been deleted.
    pub fn place(&self, number: u64) -> io::Result<usize> {
        self.steps.partition_point(|step| step.number < number)
    }

    /// Changes a step, if there is one of this number.
    fn update_step(&mut self, number: u64, change: impl FnOnce(&mut Step)) -> io::Result<()> {
        let place = self.place(number)?;
        self.steps.update(place, |step| {
            if step.number == number {
                change(step);
            }
        })
    }

    fn end_step(&mut self, number: u64, end: End) -> io::Result<()> {
        self.open_steps.remove(&number);
        self.spent.remove(&number);
        self.update_step(number, |step| step.end = Some(end))
    }

    /// Whether a batch takes the run back to an event before the last that was told.
    fn is_told_anew_by(&self, batch: &[Event]) -> bool {
        let origin = batch.first().and_then(|event| match &event.body {
            Body::RunStarted(started) => started.origin.as_ref(),
            _ => None,
        });
        origin.is_some_and(|origin| origin.seq < self.seq)
    }

    fn take(&mut self, event: &Event, payloads: &Payloads) -> io::Result<()> {
        self.seq = event.seq;
        self.started.get_or_insert(event.time);
        self.last = Some(event.time);
        let cost = event.body.cost();
        if !cost.is_zero() {
            let before = self.money.last().map_or(Usd::default(), |(_, _, total)| *total);
            self.cost(event, before + cost);
        }
        self.tell(event, payloads)?;
        self.note_input(event);
        let before = self.scope_before(event);
        self.whereabouts.follow(event);
        self.note_ways(event, before);
        Ok(())
    }

    /// Notes what the run has cost. Too many amounts are thinned out evenly over the time.
    fn cost(&mut self, event: &Event, total: Usd) {
        self.money.push((event.seq, event.time, total));
        if self.money.len() >= MAX_MONEY {
            let from = self.started.unwrap_or(event.time);
            self.money = thinned(&self.money, from, MAX_MONEY / 2);
        }
    }

    fn tell(&mut self, event: &Event, payloads: &Payloads) -> io::Result<()> {
        if let Body::Retry(_) | Body::Reminder(_) | Body::LimitWaiting(_) = &event.body
            && let (Some(step), false) = (event.body.step(), event.body.cost().is_zero())
        {
            *self.spent.entry(step).or_default() += event.body.cost();
        }
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
                    entered: None,
                    started: event.time,
                    started_seq: event.seq,
                    ended: None,
                    failed: None,
                };
                self.agents.push(row);
            }
            Body::AgentFinished { agent, .. } => {
                let id = self.number_of(agent.as_str());
                self.end_pause(id, event)?;
                if let Some(row) = self.row_of(id) {
                    row.ended = Some((event.time, event.seq));
                }
            }
            Body::StepStarted(started) => self.start_step(event, started)?,
            Body::StepFinished(finished) => self.finish(event, finished)?,
            Body::StepFailed(failed) => {
                let id = self.number_of(failed.agent.as_str());
                if let Some(row) = self.row_of(id) {
                    row.failed = Some((event.time, event.seq));
                }
                let end = End {
                    at: event.time,
                    seq: event.seq,
                    duration_ms: failed.duration_ms,
                    cost: failed.cost_usd,
                    how: How::Failed,
                };
                if let Some(step) = failed.step {
                    self.end_step(step, end)?;
                }
            }
            Body::Retry(retry) => {
                self.pause(event, retry.agent.as_str(), retry.state.as_str(), PauseKind::Delay)?;
            }
            Body::LimitWaiting(wait) => {
                self.pause(event, wait.agent.as_str(), wait.state.as_str(), PauseKind::Limit)?;
            }
            Body::Delayed { agent, state, .. } => {
                self.pause(event, agent.as_str(), state.as_str(), PauseKind::Delay)?;
            }
            Body::ExclusiveWaiting { agent, state, .. } => {
                self.pause(event, agent.as_str(), state.as_str(), PauseKind::Wait)?;
            }
            Body::AskOpened(ask) => {
                self.pause(event, ask.agent.as_str(), ask.state.as_str(), PauseKind::Ask)?;
            }
            Body::AskClosed(ask) => {
                let agent = self.number_of(ask.agent.as_str());
                self.end_pause(agent, event)?;
            }
            Body::Joined { agent, .. }
            | Body::AgentRetried { agent, .. }
            | Body::AgentMoved { agent, .. } => {
                let agent = self.number_of(agent.as_str());
                self.end_pause(agent, event)?;
            }
            Body::Print { agent, text, .. } => {
                let agent = self.number_of(agent.as_str());
                let text = payloads.text_of(text).unwrap_or_default();
                self.prints.push_back(Print { seq: event.seq, time: event.time, agent, text });
                self.put_away_old_prints()?;
            }
            Body::RunStopped { interrupted, .. } => {
                interrupted.iter().try_for_each(|step| self.cut_off(event, step))?;
            }
            Body::RunResumed(resumed) => {
                resumed.interrupted.iter().try_for_each(|step| self.cut_off(event, step))?;
            }
            Body::RunStarted(started) => {
                self.own = Some(self.number_of(&started.scope));
                let Some(origin) = &started.origin else { return Ok(()) };
                let open = std::mem::take(&mut self.open_steps);
                open.into_iter().try_for_each(|step| self.interrupt(event, step))?;
                if origin.reset_cost {
                    self.cost(event, Usd::default());
                }
            }
            Body::SessionStarted(_)
            | Body::Reminder(_)
            | Body::Warning { .. }
            | Body::BudgetExceeded { .. }
            | Body::RunFinished { .. } => {}
            Body::Snapshot { state } => self.pass_over_deleted(event, state)?,
        }
        Ok(())
    }

    fn row_of(&mut self, agent: Word) -> Option<&mut AgentRow> {
        self.agent_rows.get(&agent).and_then(|row| self.agents.get_mut(*row))
    }

    fn put_away_old_prints(&mut self) -> io::Result<()> {
        while self.prints.len() > MAX_PRINTS {
            let Some(Print { seq, time, agent, text }) = self.prints.pop_front() else { break };
            let text = self.old_texts.push(&text)?;
            self.old_prints.push(OldPrint { seq, time, agent, text });
        }
        Ok(())
    }

    /// The last [`MAX_PRINTS`] texts for people up to an event.
    pub fn prints_until(&self, seq: u64) -> io::Result<Vec<Print>> {
        let recent: Vec<Print> = self.prints.iter().filter(|print| print.seq <= seq).cloned().collect();
        let old = self.old_prints.partition_point(|print| print.seq <= seq)?;
        let wanted = old.min(MAX_PRINTS - recent.len());
        let mut prints = Vec::new();
        for print in self.old_prints.rows(old - wanted).take(wanted) {
            let OldPrint { seq, time, agent, text } = print?;
            prints.push(Print { seq, time, agent, text: self.old_texts.get(text)? });
        }
        prints.extend(recent);
        Ok(prints)
    }

    /// Takes what a snapshot says of the events that were deleted: the agents and the cost. Their steps are lost.
    fn pass_over_deleted(&mut self, event: &Event, state: &Run) -> io::Result<()> {
        let is_over = |step: &u64| !state.is_under_way(*step);
        let over: Vec<u64> = self.open_steps.iter().copied().filter(is_over).collect();
        over.into_iter().try_for_each(|step| self.interrupt(event, step))?;
        for agent in state.agents_by_birth() {
            let id = self.number_of(agent.id.as_str());
            if self.agent_rows.contains_key(&id) {
                continue;
            }
            self.agent_rows.insert(id, self.agents.len());
            self.agents.push(AgentRow {
                id,
                title: None,
                parent: None,
                entered: None,
                started: event.time,
                started_seq: event.seq,
                ended: None,
                failed: None,
            });
            if agent.payload.is_some() {
                self.given.insert(id, event.seq);
            }
        }
        self.cost(event, state.cost_usd);
        Ok(())
    }

    fn start_step(&mut self, event: &Event, started: &StepStarted) -> io::Result<()> {
        let agent = self.number_of(started.agent.as_str());
        self.end_pause(agent, event)?;
        if let Some(row) = self.row_of(agent) {
            row.failed = None;
        }
        let state = self.number_of(started.state.as_str());
        let run = self.number_of(&event.run);
        let scope = self.whereabouts.scope_of(&started.agent).map(str::to_owned);
        let scope = scope.map(|scope| self.number_of(&scope));
        self.scopes.extend(scope);
        self.open_steps.insert(started.step);
        if self.step(started.step)?.is_none() {
            self.steps.push(Step {
                number: started.step,
                run,
                agent,
                state,
                scope,
                started: event.time,
                started_seq: event.seq,
                attempts: started.attempt,
                given_seq: self.given.get(&agent).copied(),
                end: None,
            });
            return Ok(());
        }
        self.update_step(started.step, |step| {
            step.attempts = step.attempts.max(started.attempt);
            step.end = None;
            step.run = run;
        })
    }

    fn finish(&mut self, event: &Event, finished: &StepFinished) -> io::Result<()> {
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
        self.end_step(finished.step, end)?;
        if let Some(step) = self.step(finished.step)? {
            self.left.insert(step.agent, (step.scope, step.state));
        }
        if matches!(finished.led_to, LedTo::Join { .. }) || parts.joins {
            self.pause(event, finished.agent.as_str(), finished.state.as_str(), PauseKind::Join)?;
        }
        Ok(())
    }

    /// A step was interrupted, and what its attempt has cost is known now.
    fn cut_off(&mut self, event: &Event, step: &Interrupted) -> io::Result<()> {
        *self.spent.entry(step.step).or_default() += step.estimated_cost_usd;
        self.interrupt(event, step.step)
    }

    /// It runs again, so what it has cost is kept.
    fn interrupt(&mut self, event: &Event, number: u64) -> io::Result<()> {
        self.open_steps.remove(&number);
        let cost = self.spent.get(&number).copied().unwrap_or_default();
        self.update_step(number, |step| {
            let duration = event.time.duration_since(step.started).as_millis();
            let end = step.end.get_or_insert(End {
                at: event.time,
                seq: event.seq,
                duration_ms: u64::try_from(duration).unwrap_or(0),
                cost,
                how: How::Interrupted,
            });
            if matches!(end.how, How::Interrupted) {
                end.cost = cost;
            }
        })
    }

    fn pause(&mut self, event: &Event, agent: &str, state: &str, kind: PauseKind) -> io::Result<()> {
        let (agent, state) = (self.number_of(agent), self.number_of(state));
        self.end_pause(agent, event)?;
        self.open_pauses.insert(agent, self.pauses.len());
        self.pauses.push(Pause { agent, state, kind, from: event.time, from_seq: event.seq, to: None });
        Ok(())
    }

    fn end_pause(&mut self, agent: Word, event: &Event) -> io::Result<()> {
        match self.open_pauses.remove(&agent) {
            Some(place) => self.pauses.update(place, |pause| pause.to = Some((event.time, event.seq))),
            None => Ok(()),
        }
    }
}
