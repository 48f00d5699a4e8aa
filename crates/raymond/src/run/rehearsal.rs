//! What is different about the run of a test: its clock, its answers to questions, and where it is killed.
//!
//! The clock is virtual: where a run would wait, and nothing else can happen, the clock jumps to the next moment at
//! which something is due. It begins at the last time in the journal, so it survives a kill.

use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet};

use jiff::{SignedDuration, Timestamp};
use raymond_core::event::{Body, Event};
use raymond_core::input;
use raymond_core::run::Run;
use serde::{Deserialize, Serialize};

use crate::clock;

/// The clock of a run.
#[derive(Debug, Default)]
pub struct Clock {
    /// How far it is ahead of the system's; only a virtual clock is.
    ahead: Cell<SignedDuration>,
}

impl Clock {
    /// A virtual clock that shows at least this time.
    pub fn not_before(time: Timestamp) -> Self {
        let behind = time.duration_since(clock::now());
        Self { ahead: Cell::new(behind.max(SignedDuration::ZERO)) }
    }

    /// The time as events tell it: milliseconds are enough.
    pub fn now(&self) -> Timestamp {
        let now = clock::now();
        let now = now.checked_add(self.ahead.get()).unwrap_or(now);
        Timestamp::from_millisecond(now.as_millisecond()).unwrap_or(now)
    }

    fn jump_to(&self, time: Timestamp) {
        let wait = time.duration_since(self.now()).max(SignedDuration::ZERO);
        // Events tell milliseconds, so a part of one must not be missing.
        let wait = wait.saturating_add(SignedDuration::from_millis(1));
        self.ahead.set(self.ahead.get().saturating_add(wait));
    }
}

/// Answers to the questions of a run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Answers {
    /// In the order of the questions.
    InOrder(Vec<String>),
    /// By the state that comes after the question, without extension.
    ByNext(BTreeMap<String, NextAnswers>),
}

impl Default for Answers {
    fn default() -> Self {
        Self::InOrder(Vec::new())
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum NextAnswers {
    /// The same to every question.
    Always(String),
    InOrder(Vec<String>),
}

/// How a run is rehearsed.
#[derive(Debug)]
pub struct Rehearsal {
    answers: Answers,
    /// The process kills itself once this many steps have finished.
    kill_at: Option<u64>,
    /// The answer to each question that was opened; `None` if there is none left.
    answer_of: BTreeMap<String, Option<String>>,
    /// How many questions with this next state were opened.
    opened: BTreeMap<String, usize>,
    given: BTreeSet<String>,
    /// Whether open questions are left open at the end, even if they have a time limit.
    stops_at_questions: bool,
}

impl Rehearsal {
    /// `finished` is how many steps of the run had finished when this process began.
    pub fn new(answers: Answers, kill_after: &[u64], finished: u64, stops_at_questions: bool) -> Self {
        Self {
            answers,
            kill_at: kill_after.iter().copied().filter(|steps| *steps > finished).min(),
            answer_of: BTreeMap::new(),
            opened: BTreeMap::new(),
            given: BTreeSet::new(),
            stops_at_questions,
        }
    }

    /// Takes note of the questions among these events, of this process or an earlier one.
    pub fn note(&mut self, events: &[Event]) {
        for event in events {
            let Body::AskOpened(opened) = &event.body else { continue };
            // A question that timed out is opened again by a resume; it keeps its answer.
            if self.answer_of.contains_key(&opened.ask) {
                continue;
            }
            let next = opened.next.name().to_owned();
            let answer = match &self.answers {
                Answers::InOrder(answers) => answers.get(self.answer_of.len()),
                Answers::ByNext(by_next) => match by_next.get(&next) {
                    Some(NextAnswers::Always(answer)) => Some(answer),
                    Some(NextAnswers::InOrder(answers)) => {
                        answers.get(self.opened.get(&next).copied().unwrap_or(0))
                    }
                    None => None,
                },
            };
            self.answer_of.insert(opened.ask.clone(), answer.cloned());
            *self.opened.entry(next).or_default() += 1;
        }
    }

    /// Kills this process, as the test wants, if enough steps have finished.
    pub fn kill_if_due(&self, run: &Run) {
        if self.kill_at.is_some_and(|steps| run.steps_completed >= steps) {
            die();
        }
    }

    /// The answers to open questions that were not given yet.
    pub fn answer(&mut self, run: &Run, now: Timestamp) -> Vec<input::Answer> {
        let mut answers = Vec::new();
        for (_, ask) in run.asks() {
            let Some(Some(text)) = self.answer_of.get(&ask.id) else { continue };
            if self.given.insert(ask.id.clone()) {
                let text = text.clone().into();
                answers.push(input::Answer {
                    ask: ask.id.clone(),
                    text,
                    answer_id: None,
                    given_at: Some(now),
                    asked_at: None,
                });
            }
        }
        answers
    }

    /// Nothing happens before something is due. Returns whether the clock could jump there.
    pub fn pass_time(&self, run: &Run, clock: &Clock, looked_at: Timestamp) -> bool {
        let next = match self.stops_at_questions {
            false => run.next_wake(looked_at),
            true => run
                .agents
                .values()
                .filter_map(|agent| agent.wakes_at())
                .filter(|time| *time > looked_at)
                .min(),
        };
        match next {
            Some(time) => {
                clock.jump_to(time);
                true
            }
            None => false,
        }
    }
}

/// Ends this process as a power cut would: nothing is tidied up.
fn die() {
    #[cfg(unix)]
    {
        let _ = rustix::process::kill_process(rustix::process::getpid(), rustix::process::Signal::KILL);
        // The signal is on its way.
        loop {
            std::thread::park();
        }
    }
    #[cfg(not(unix))]
    std::process::abort();
}
