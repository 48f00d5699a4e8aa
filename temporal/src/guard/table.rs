//! Which attempts may run, and until when.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use super::Message;

/// How long after an attempt was ended it is ended again, until the worker knows. A worker that was frozen just before it
/// started the program starts it when it goes on.
const END_AGAIN: Duration = Duration::from_millis(250);

/// What the processes of an attempt are found by.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Attempt {
    pub token: String,
    /// The folder in which its run keeps notes about running steps.
    pub scratch: PathBuf,
}

/// The attempts that run, by their tokens.
#[derive(Debug, Default)]
pub struct Table(BTreeMap<String, Entry>);

#[derive(Debug)]
struct Entry {
    attempt: Attempt,
    state: State,
    /// When its processes are ended next.
    due: Duration,
}

#[derive(Debug, PartialEq, Eq)]
enum State {
    MayRun,
    /// It was ended, and the worker does not know.
    Ended,
    /// It is to be ended, and the worker knows.
    Dropped,
}

impl Table {
    pub fn hear(&mut self, message: Message) {
        match message {
            Message::MayRun { token, scratch, until } => self.may_run(Attempt { token, scratch }, until),
            Message::Ended { token } => drop(self.0.remove(&token)),
            Message::Dropped { token } => {
                if let Some(entry) = self.0.get_mut(&token) {
                    (entry.state, entry.due) = (State::Dropped, Duration::ZERO);
                }
            }
        }
    }

    /// What was ended stays so, whatever comes late.
    fn may_run(&mut self, attempt: Attempt, until: Duration) {
        let new = |attempt| Entry { attempt, state: State::MayRun, due: until };
        let entry = self.0.entry(attempt.token.clone()).or_insert_with(|| new(attempt));
        if entry.state == State::MayRun {
            entry.due = entry.due.max(until);
        }
    }

    /// How long until an attempt is to be ended.
    pub fn pause(&self, now: Duration) -> Option<Duration> {
        self.0.values().map(|entry| entry.due.saturating_sub(now)).min()
    }

    /// Whether the time of an attempt is not over.
    pub fn may_any_run(&self) -> bool {
        self.0.values().any(|entry| entry.state == State::MayRun)
    }

    /// The attempts whose processes are to be ended now.
    pub fn take_due(&mut self, now: Duration) -> Vec<Attempt> {
        let mut due = Vec::new();
        for entry in self.0.values_mut().filter(|entry| entry.due <= now) {
            due.push(entry.attempt.clone());
            entry.due = now + END_AGAIN;
            if entry.state == State::MayRun {
                entry.state = State::Ended;
            }
        }
        // Those were due at once.
        self.0.retain(|_, entry| entry.state != State::Dropped);
        due
    }

    /// All that may still have processes.
    pub fn into_attempts(self) -> Vec<Attempt> {
        self.0.into_values().map(|entry| entry.attempt).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: f64) -> Duration {
        Duration::from_secs_f64(seconds)
    }

    fn may_run(token: &str, until: f64) -> Message {
        Message::MayRun { token: token.to_owned(), scratch: "/scratch".into(), until: at(until) }
    }

    fn ended(token: &str) -> Message {
        Message::Ended { token: token.to_owned() }
    }

    fn dropped(token: &str) -> Message {
        Message::Dropped { token: token.to_owned() }
    }

    /// What the table is told or asked at a time.
    enum Then<'a> {
        Hear(Message),
        /// These are ended.
        Due(&'a [&'a str]),
        /// These are ended if the worker is gone.
        Left(&'a [&'a str]),
    }
    use Then::{Due, Hear, Left};

    #[test]
    fn attempts_are_ended_when_their_time_is_over() {
        let cases: [(&str, &[(f64, Then<'_>)]); 7] = [
            (
                "each has its own time, and more after each heartbeat",
                &[
                    (0.0, Hear(may_run("a", 7.0))),
                    (1.0, Hear(may_run("b", 8.0))),
                    (6.0, Hear(may_run("a", 13.0))),
                    (7.5, Due(&[])),
                    (8.0, Due(&["b"])),
                    (13.0, Due(&["a", "b"])),
                ],
            ),
            (
                "one that has ended is left alone",
                &[(0.0, Hear(may_run("a", 7.0))), (1.0, Hear(ended("a"))), (9.0, Due(&[])), (9.0, Left(&[]))],
            ),
            (
                "it is ended again until the worker knows",
                &[
                    (0.0, Hear(may_run("a", 7.0))),
                    (7.0, Due(&["a"])),
                    (7.1, Due(&[])),
                    (7.3, Due(&["a"])),
                    (7.4, Left(&["a"])),
                    (7.4, Hear(ended("a"))),
                    (9.0, Due(&[])),
                ],
            ),
            (
                "what comes late does not let it run again",
                &[
                    (0.0, Hear(may_run("a", 7.0))),
                    (7.0, Due(&["a"])),
                    (7.1, Hear(may_run("a", 14.0))),
                    (7.3, Due(&["a"])),
                ],
            ),
            (
                "news that overtake each other take no time away",
                &[(0.0, Hear(may_run("a", 9.0))), (1.0, Hear(may_run("a", 7.0))), (8.0, Due(&[]))],
            ),
            (
                "one that the worker has dropped is ended once",
                &[
                    (0.0, Hear(may_run("a", 7.0))),
                    (1.0, Hear(dropped("a"))),
                    (1.0, Left(&["a"])),
                    (1.0, Due(&["a"])),
                    (2.0, Due(&[])),
                    (2.0, Left(&[])),
                ],
            ),
            (
                "what is not known is not ended",
                &[(0.0, Hear(ended("a"))), (0.0, Hear(dropped("a"))), (9.0, Due(&[]))],
            ),
        ];
        for (what, story) in cases {
            let mut table = Table::default();
            for (time, then) in story {
                let now = at(*time);
                match then {
                    Hear(message) => table.hear(message.clone()),
                    Due(expected) => {
                        let is_due = table.pause(now).is_some_and(|pause| pause.is_zero());
                        assert_eq!(is_due, !expected.is_empty(), "{what}, at {time}");
                        assert_eq!(tokens(&table.take_due(now)), *expected, "{what}, at {time}");
                    }
                    Left(expected) => {
                        let left: Vec<&str> = table.0.keys().map(String::as_str).collect();
                        assert_eq!(left, *expected, "{what}, at {time}");
                    }
                }
            }
        }
    }

    fn tokens(attempts: &[Attempt]) -> Vec<&str> {
        attempts.iter().map(|attempt| attempt.token.as_str()).collect()
    }
}
