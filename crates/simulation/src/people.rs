//! People who answer questions through the run's inbox, several at once and more than once.

use std::collections::{BTreeMap, BTreeSet};

use raymond_core::input::{Answer, Input};
use raymond_core::run::Ask;

use crate::fault::Down;

/// How long a person needs for an answer, in milliseconds, and when the other people answer.
const THINKING: [u64; 3] = [700, 701, 4_000];

#[derive(Clone, Debug)]
struct Message {
    ask: String,
    text: String,
    answer_id: String,
}

#[derive(Clone, Debug, Default)]
pub struct People {
    /// Answers that are still to be given, by time.
    plans: Vec<(u64, Message)>,
    /// The messages in the inbox, by name: a second message with the same name is refused.
    inbox: BTreeMap<String, Message>,
    /// Messages that were removed and would be there again after a power cut.
    removed: BTreeMap<String, Message>,
    known: BTreeMap<String, usize>,
    /// The first answer that was posted to each question.
    pub first: BTreeMap<String, String>,
}

impl People {
    /// A person reads a question and will answer it; so will another person.
    pub fn read(&mut self, ask: &Ask, agent: &str, now: u64) {
        if self.known.insert(ask.id.clone(), 0).is_some() {
            return;
        }
        for (number, wait) in THINKING.into_iter().enumerate() {
            let text = answer_for(agent);
            let answer_id = format!("{}-{number}", ask.id);
            self.plans.push((now + wait, Message { ask: ask.id.clone(), text, answer_id }));
        }
    }

    /// A person answers at once, and another person answers too late.
    pub fn post(&mut self, ask: &str, text: &str) {
        for number in 0..2 {
            let answer_id = format!("{ask}-{number}");
            let message = Message { ask: ask.to_owned(), text: text.to_owned(), answer_id };
            self.plans.push((0, message));
        }
        self.act(0);
    }

    /// When the next answer comes.
    pub fn next(&self) -> Option<u64> {
        self.plans.iter().map(|(time, _)| *time).min()
    }

    /// Answers whose time has come are posted.
    pub fn act(&mut self, now: u64) {
        let (due, later): (Vec<_>, Vec<_>) = self.plans.drain(..).partition(|(time, _)| *time <= now);
        self.plans = later;
        for (_, message) in due {
            self.first.entry(message.ask.clone()).or_insert(message.answer_id.clone());
            self.inbox.entry(format!("answer-{}", message.ask)).or_insert(message);
        }
    }

    /// The messages in the inbox, which stay there until they are removed.
    pub fn look(&self) -> (Vec<String>, Vec<Input>) {
        let answer = |message: &Message| {
            Input::Answer(Answer {
                ask: message.ask.clone(),
                text: message.text.clone().into(),
                answer_id: Some(message.answer_id.clone()),
                given_at: None,
                asked_at: None,
            })
        };
        // Each message may be read twice.
        let answers = self.inbox.values().chain(self.inbox.values()).map(answer).collect();
        (self.inbox.keys().cloned().collect(), answers)
    }

    pub fn remove(&mut self, names: &[String]) {
        for name in names {
            if let Some(message) = self.inbox.remove(name) {
                self.removed.insert(name.clone(), message);
            }
        }
    }

    /// The run goes on from an earlier point: questions that were not closed there are asked anew.
    pub fn go_back(&mut self, closed: &BTreeSet<String>) {
        self.plans.clear();
        self.inbox.clear();
        self.removed.clear();
        self.known.retain(|ask, _| closed.contains(ask));
        self.first.retain(|ask, _| closed.contains(ask));
    }

    /// The removal of a file is not synced, so the file may be there again.
    pub fn power_cut(&mut self, down: Option<Down>) {
        let removed = std::mem::take(&mut self.removed);
        if down != Some(Down::PowerCut(1)) {
            for (name, message) in removed {
                self.inbox.entry(name).or_insert(message);
            }
        }
    }
}

/// The answer to any question of an agent. It does not depend on the order of the questions, so that a run's result does
/// not either.
pub fn answer_for(agent: &str) -> String {
    format!("answer for {agent}")
}
