//! Requests from other processes, through the run's inbox.
//!
//! A message stays there until its consequences are recorded, so nothing is lost if this process dies before that.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use raymond_core::input;
use raymond_core::payload::Payload;
use serde::{Deserialize, Serialize};

use super::Stop;
use crate::store::{self, Content, Message, RunHandle, Watch};

/// How often the inbox is checked. A check is one `stat`.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// Names of messages that ask for a stop begin with this.
pub const STOP_MESSAGE: &str = "stop";
/// Names of messages that answer a question: this, then the question's id. A name can be posted once, so only the
/// first answer gets in.
pub const ANSWER_MESSAGE: &str = "answer-";

/// The content of a stop message.
#[derive(Debug, Serialize, Deserialize)]
pub struct StopRequest {
    /// The process that is to stop. A request for an earlier process of the run is ignored.
    pub incarnation: Option<String>,
    /// The last event that was known of a run that other machines carry out. A request from before the run's last resume is
    /// ignored: it may have waited for hours until the engine could be reached. One that reaches the engine at once has none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seen: Option<u64>,
    pub now: bool,
}

impl StopRequest {
    /// A request to stop the run as it is now. It is for the process that drives the run, or for the machines that carry it out.
    pub fn for_run(run: &dyn RunHandle, incarnation: Option<String>, now: bool) -> Self {
        let seen = run.elsewhere().and_then(|_| run.load().ok()).map(|state| state.seq);
        Self { incarnation, seen, now }
    }

    /// The name of the message. A name can be posted once, so a gentle request must not have the name of an urgent one,
    /// nor a request from before a resume that of one from after it.
    pub fn name(&self) -> String {
        let how = if self.now { "-now" } else { "" };
        let who = match (&self.incarnation, self.seen) {
            (Some(incarnation), _) => incarnation.clone(),
            (None, Some(seen)) => format!("after-{seen}"),
            (None, None) => "any".to_owned(),
        };
        format!("{STOP_MESSAGE}{how}-{who}")
    }
}

/// The way in which an answer came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// Typed where the run was started.
    Terminal,
    /// `raymond answer`.
    Command,
    /// The page of `raymond serve`, or another program that uses its API.
    Api,
}

impl Way {
    const ALL: [(Self, &'static str, &'static str); 3] = [
        (Self::Terminal, "terminal", "on the terminal of the run"),
        (Self::Command, "command", "by `raymond answer`"),
        (Self::Api, "api", "on the page or through the API"),
    ];

    /// One word for programs.
    pub fn as_str(self) -> &'static str {
        Self::ALL.into_iter().find(|(way, ..)| *way == self).map_or("", |(_, word, _)| word)
    }

    /// The same for people.
    pub fn told(self) -> &'static str {
        Self::ALL.into_iter().find(|(way, ..)| *way == self).map_or("", |(.., told)| told)
    }

    /// The way of the answer with this id. Ids of earlier versions do not tell.
    pub fn of(answer_id: &str) -> Option<Self> {
        let (word, _) = answer_id.split_once('-')?;
        Self::ALL.into_iter().find(|(_, known, _)| *known == word).map(|(way, ..)| way)
    }
}

/// The content of an answer.
#[derive(Debug, Serialize, Deserialize)]
pub struct Answer {
    pub ask: String,
    pub text: Payload,
    /// Tells the process that answered whether its answer was taken. It begins with the way in which the answer came.
    pub answer_id: String,
    /// When it was given, which may be long before a run takes it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub given_at: Option<Timestamp>,
    /// When the question was asked, so that no other one with its number is answered.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub asked_at: Option<Timestamp>,
}

impl Answer {
    /// An answer that is given now to a question that was asked at this time.
    pub fn new((ask, asked_at): (&str, Timestamp), text: String, way: Way) -> Self {
        let answer_id = format!("{}-{}", way.as_str(), uuid::Uuid::new_v4());
        let (given_at, asked_at) = (Some(super::now()), Some(asked_at));
        Self { ask: ask.to_owned(), text: text.into(), answer_id, given_at, asked_at }
    }
}

impl From<Answer> for input::Answer {
    fn from(Answer { ask, text, answer_id, given_at, asked_at }: Answer) -> Self {
        Self { ask, text, answer_id: Some(answer_id), given_at, asked_at }
    }
}

/// The messages that were found.
#[derive(Debug, Default)]
pub(super) struct Found {
    pub(super) stop: Option<Stop>,
    pub(super) answers: Vec<Answer>,
    /// The messages to remove once their consequences are recorded.
    pub(super) names: Vec<String>,
}

pub(super) struct Inbox {
    messages: Arc<dyn store::Inbox>,
    incarnation: String,
    watch: Box<dyn Watch>,
}

impl Inbox {
    pub(super) fn new(messages: Arc<dyn store::Inbox>, incarnation: String) -> Self {
        let watch = messages.watch();
        Self { messages, incarnation, watch }
    }

    /// Waits for the next messages.
    pub(super) async fn next(&mut self) -> Found {
        loop {
            if self.watch.changed() {
                let found = self.look();
                if !found.names.is_empty() {
                    return found;
                }
            }
            tokio::time::sleep(LOOK_EVERY).await;
        }
    }

    /// Everything that is in the inbox now.
    pub(super) fn look(&self) -> Found {
        let mut found = Found::default();
        for message in self.messages.messages().unwrap_or_default() {
            self.read(&message, &mut found);
            found.names.push(message.name);
        }
        found
    }

    /// A message that cannot be read is not from Raymond, and is removed.
    fn read(&self, message: &Message, found: &mut Found) {
        let Content::Text(text) = &message.content else { return };
        if message.name.starts_with(ANSWER_MESSAGE) {
            found.answers.extend(serde_json::from_str::<Answer>(text));
        } else if message.name.starts_with(STOP_MESSAGE)
            && let Ok(request) = serde_json::from_str::<StopRequest>(text)
            && request.incarnation.is_none_or(|incarnation| incarnation == self.incarnation)
        {
            found.stop = found.stop.max(Some(if request.now { Stop::Now } else { Stop::Gently }));
        }
    }

    pub(super) fn remove(&self, names: &[String]) {
        for name in names {
            // If this fails, the message is read again, and then it is too late and has no effect.
            let _ = self.messages.remove(name);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::RunStore;
    use crate::store::memory::MemoryStore;

    #[test]
    fn messages_for_this_process_are_found_and_the_rest_is_removed() {
        let messages = MemoryStore::default().run("r").unwrap().inbox();
        let inbox = Inbox::new(Arc::clone(&messages), "mine".to_owned());
        for (name, content) in [
            ("answer-ask1", r#"{"ask":"ask1","text":"yes","answer_id":"a"}"#),
            ("answer-ask2", "not JSON"),
            ("stop", r#"{"incarnation":"another","now":true}"#),
            ("unknown", "x"),
        ] {
            messages.post(name, content).unwrap();
        }
        let found = inbox.look();
        let answers: Vec<(&str, &str)> = found
            .answers
            .iter()
            .map(|answer| (answer.ask.as_str(), answer.text.text().unwrap_or_default()))
            .collect();
        assert_eq!((answers, found.stop), (vec![("ask1", "yes")], None));
        assert_eq!(found.names.len(), 4, "all are removed once the round is recorded");
        inbox.remove(&found.names);
        messages.post("stop", r#"{"incarnation":"mine","now":false}"#).unwrap();
        messages.post("stop-now", r#"{"incarnation":"mine","now":true}"#).unwrap();
        assert_eq!(inbox.look().stop, Some(Stop::Now));
    }
}
