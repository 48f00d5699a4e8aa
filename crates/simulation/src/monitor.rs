//! Observes a run from outside and reports what must never happen.
//!
//! It reads the journal as a power cut would leave it, keeps its own account of steps, questions and money, and
//! compares that with what Raymond shows, starts and keeps in memory.

use std::collections::{BTreeMap, BTreeSet};

use raymond::store::Payloads;
use raymond_core::event::{Body, Event, NextTry, Retry, StepStarted};
use raymond_core::evolve::evolve;
use raymond_core::money::Usd;
use raymond_core::name::AgentId;
use raymond_core::payload::Payload;
use raymond_core::run::Run;

use crate::account::Account;
use crate::compare::is_legal;
use crate::home::{Home, Watched};

pub struct Monitor {
    safe: Watched,
    payloads: Payloads,
    /// Those that were looked at.
    known_payloads: BTreeSet<String>,
    /// Every durable event in order, without snapshots.
    pub events: Vec<Event>,
    /// The last event of each batch.
    ends_of_batches: BTreeSet<u64>,
    /// The fold of the events.
    pub run: Option<Run>,
    pub account: Account,
    /// How many tries have ended since each agent entered its current state.
    tries: BTreeMap<AgentId, usize>,
    /// How many events Raymond was told are durable.
    acknowledged: usize,
    /// The number of the last event that was read.
    last_seq: u64,
    /// The state at the point to which the run was taken back, if the reader has told it.
    taken_back_to: Option<Run>,
    /// Whether to make all checks on every state.
    is_thorough: bool,
    /// What is wrong; the first entry causes the others.
    pub broken: Vec<String>,
}

impl Monitor {
    pub fn new(home: &Home, is_thorough: bool) -> Self {
        Self {
            safe: home.watch(0),
            payloads: home.safe_payloads(),
            known_payloads: BTreeSet::new(),
            events: Vec::new(),
            ends_of_batches: BTreeSet::new(),
            run: None,
            account: Account::default(),
            tries: BTreeMap::new(),
            acknowledged: 0,
            last_seq: 0,
            taken_back_to: None,
            is_thorough,
            broken: Vec::new(),
        }
    }

    /// The last event of the batch that an event is in.
    pub fn end_of_batch(&self, seq: u64) -> Option<u64> {
        self.ends_of_batches.range(seq..).next().copied()
    }

    /// Records that something is wrong unless a condition holds.
    pub fn expect(&mut self, holds: bool, what: impl FnOnce() -> String) {
        if !holds {
            self.broken.push(what());
        }
    }

    pub fn tries(&self, agent: &AgentId) -> usize {
        self.tries.get(agent).copied().unwrap_or(0)
    }

    /// A person may have fixed what failed.
    pub fn forget_tries(&mut self) {
        self.tries.clear();
    }

    /// Reads what has become durable.
    pub fn look(&mut self) {
        loop {
            match self.safe.next_batch() {
                Ok(Some(batch)) => {
                    self.ends_of_batches.extend(batch.last().map(|event| event.seq));
                    batch.into_iter().for_each(|event| self.take(event));
                }
                Ok(None) => break,
                Err(error) => {
                    self.broken.push(format!("the journal cannot be read: {error}"));
                    break;
                }
            }
        }
        if let Some(run) = &self.run {
            let wrong = is_legal(run, self.is_thorough);
            self.broken.extend(wrong);
        }
    }

    fn take(&mut self, mut event: Event) {
        if let Body::Snapshot { .. } = &event.body {
            // The event that takes the run back follows it.
            self.taken_back_to = evolve(None, &event).filter(|snapshot| Some(snapshot) != self.run.as_ref());
            return;
        }
        let seq = self.last_seq + 1;
        self.expect(event.seq == seq, || format!("event {} follows {}", event.seq, seq - 1));
        self.last_seq = event.seq;
        let mut told = self.taken_back_to.take();
        if let Body::RunStarted(started) = &event.body
            && let Some(origin) = &started.origin
        {
            self.go_back(origin.seq);
            // The reader goes on counting where the run was.
            told.iter_mut().for_each(|state| state.seq = origin.seq);
        }
        self.expect(told.is_none() || told == self.run, || {
            format!("a snapshot is not the fold of the events: {told:?}")
        });
        self.check_payloads(&mut event);
        self.broken.extend(self.account.check(self.run.as_ref(), &event));
        self.count_tries(&event.body);
        self.run = evolve(self.run.take(), &event);
        let (run, spent) = (self.run.as_ref().map(|run| run.cost_usd), self.account.spent);
        self.expect(run.is_none_or(|cost| cost == spent), || {
            format!("cost is {run:?}, but the programs cost {spent}")
        });
        self.events.push(event);
    }

    /// From now on only the events up to this one count.
    fn go_back(&mut self, seq: u64) {
        self.events.retain(|event| event.seq <= seq);
        let last = self.events.last().map(|event| event.seq);
        self.expect(last == Some(seq), || format!("it goes back to event {seq}, but {last:?} is there"));
        self.acknowledged = self.acknowledged.min(self.events.len());
        self.account = self.account.at(&self.events);
        self.run = self.events.iter().fold(None, evolve);
        self.tries.clear();
        for event in std::mem::take(&mut self.events) {
            self.count_tries(&event.body);
            self.events.push(event);
        }
    }

    /// Observes a branch of the run from now on.
    pub fn follow_branch(&mut self, home: &Home, seq: u64) {
        self.safe = home.watch(seq);
        self.payloads = home.safe_payloads();
        self.last_seq = seq;
        self.ends_of_batches.retain(|end| *end <= seq);
        self.look();
    }

    /// The payloads that an event names must be as durable as the event.
    fn check_payloads(&mut self, event: &mut Event) {
        for payload in event.body.payloads_mut() {
            if let Payload::Stored { payload: hash, .. } = payload
                && self.known_payloads.insert(hash.clone())
                && let Err(error) = self.payloads.text_of(payload)
            {
                self.broken.push(format!("event {} names a payload that is not durable: {error}", event.seq));
            }
        }
    }

    pub fn text_of(&self, payload: &Payload) -> String {
        self.payloads.text_of(payload).unwrap_or_else(|error| error.to_string())
    }

    fn count_tries(&mut self, body: &Body) {
        match body {
            Body::StepFinished(finished) => {
                self.tries.remove(&finished.agent);
            }
            // Only a program that ran counts: what the host refused to start is tried again in the same way.
            Body::StepFailed(failed) if failed.step.is_none() || failed.error.contains("refuses") => {}
            Body::Retry(Retry { next_try: NextTry::AfterLoss, .. }) => {}
            body => {
                if let Some(agent) = body.ended_attempt_of() {
                    *self.tries.entry(agent.clone()).or_default() += 1;
                }
            }
        }
    }

    /// Raymond acts on these events.
    pub fn acknowledged(&mut self, events: &[Event], believed: &Run) {
        self.look();
        for event in events {
            let at = self.events.binary_search_by_key(&event.seq, |safe| safe.seq).ok();
            let is_safe = at.is_some_and(|at| self.events[at] == *event);
            self.expect(is_safe, || format!("event {} is acted on but is not durable", event.seq));
            self.acknowledged = self.acknowledged.max(at.map_or(0, |at| at + 1));
        }
        let agrees = self.run.as_ref().is_some_and(|run| run == believed);
        self.expect(agrees, || "the state in Raymond's memory is not the fold of its journal".to_owned());
    }

    /// A journal was opened again: no committed event may be missing, and at most one batch may be new.
    pub fn recovered(&mut self, batches: &[Vec<Event>], believed: &Run) {
        // The run may have been taken back just before Raymond was killed.
        self.look();
        let mut last = 0;
        let mut new_batches = 0;
        for batch in batches {
            for event in batch {
                if let Some(safe) = self.events.get(last) {
                    let is_same = safe == event;
                    self.expect(is_same, || format!("event {} has changed", last + 1));
                }
                last += 1;
            }
            new_batches += usize::from(last > self.acknowledged);
        }
        let counted = self.acknowledged;
        self.expect(last >= counted, || {
            format!("events up to {counted} were committed, only {last} are left")
        });
        self.expect(new_batches <= 1, || format!("{new_batches} batches are new, at most one may be"));
        // From now on Raymond continues from it, so it counts as committed.
        self.acknowledged = last;
        self.look();
        let agrees = self.run.as_ref().is_some_and(|run| run == believed);
        self.expect(agrees, || "the recovered run is not the fold of the journal".to_owned());
    }

    /// A program is about to start: the durable journal must say so, and no other attempt of the step may be running.
    pub fn spawning(&mut self, started: &StepStarted, twins: usize) {
        let named = self.account.is_running(started.step, started.attempt);
        let (step, attempt) = (started.step, started.attempt);
        self.expect(named, || format!("step {step}/{attempt} starts, but the journal does not say so"));
        self.expect(twins == 0, || {
            format!("step {step}/{attempt} starts while {twins} other attempts of the step run")
        });
    }

    pub fn ended(&mut self, step: u64, attempt: u32, cost: Usd, estimate: Usd) {
        self.account.programs.insert((step, attempt), (cost, estimate));
    }
}
