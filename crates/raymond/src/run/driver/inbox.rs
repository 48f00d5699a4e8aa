//! What other processes ask of a run, through files in its inbox.
//!
//! A message stays in its file until what follows from it is recorded, so nothing is lost if the engine dies between.

use std::path::PathBuf;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::Stop;
use crate::store::{Content, Message, Watch, remove, take_all};

/// How often the inbox is looked at. A look is one `stat`.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// Names of messages that ask for a stop begin like this.
pub const STOP_MESSAGE: &str = "stop";
/// Names of messages that answer a question begin like this, so that the first answer keeps others out.
pub const ANSWER_MESSAGE: &str = "answer-";

/// The content of a stop message.
#[derive(Debug, Serialize, Deserialize)]
pub struct StopRequest {
    /// The process that is to stop; a request for an earlier one means nothing any more.
    pub incarnation: Option<String>,
    pub now: bool,
}

/// The content of an answer.
#[derive(Debug, Serialize, Deserialize)]
pub struct Answer {
    pub ask: String,
    pub text: String,
    /// By which whoever answered can tell whether it was taken.
    pub answer_id: String,
}

/// What was found.
#[derive(Debug, Default)]
pub(super) struct Found {
    pub(super) stop: Option<Stop>,
    pub(super) answers: Vec<Answer>,
    /// The files to remove once what follows from them is recorded.
    pub(super) names: Vec<String>,
}

pub(super) struct Inbox {
    folder: PathBuf,
    incarnation: String,
    watch: Watch,
}

impl Inbox {
    pub(super) fn new(folder: PathBuf, incarnation: String) -> Self {
        let watch = Watch::new(&folder);
        Self { folder, incarnation, watch }
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

    /// Everything that lies in the inbox now.
    pub(super) fn look(&self) -> Found {
        let mut found = Found::default();
        for message in take_all(&self.folder).unwrap_or_default() {
            self.read(&message, &mut found);
            found.names.push(message.name);
        }
        found
    }

    /// What cannot be read is no message of Raymond's and is cleared away.
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
            // One that stays is taken again and then comes too late.
            let _ = remove(&self.folder, name);
        }
    }
}
