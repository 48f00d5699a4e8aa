//! What other processes ask of a live run, through files in its inbox.

use std::path::PathBuf;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::Stop;
use crate::store::{Content, Watch, remove, take_all};

/// How often the inbox is looked at. A look is one `stat`.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// Names of messages that ask for a stop begin like this.
pub const STOP_MESSAGE: &str = "stop";

/// The content of a stop message.
#[derive(Debug, Serialize, Deserialize)]
pub struct StopRequest {
    /// The process that is to stop; a request for an earlier one means nothing any more.
    pub incarnation: Option<String>,
    pub now: bool,
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

    /// Waits for the next request to stop.
    pub(super) async fn next(&mut self) -> Stop {
        loop {
            if self.watch.changed()
                && let Some(stop) = self.take()
            {
                return stop;
            }
            tokio::time::sleep(LOOK_EVERY).await;
        }
    }

    /// Takes all stop requests; the most eager one counts.
    fn take(&mut self) -> Option<Stop> {
        let mut most_eager = None;
        for message in take_all(&self.folder).unwrap_or_default() {
            if !message.name.starts_with(STOP_MESSAGE) {
                continue;
            }
            if let Content::Text(text) = &message.content
                && let Ok(request) = serde_json::from_str::<StopRequest>(text)
                && request.incarnation.is_none_or(|incarnation| incarnation == self.incarnation)
            {
                most_eager = most_eager.max(Some(if request.now { Stop::Now } else { Stop::Gently }));
            }
            // A stop is not part of the run's state: it is taken back when it has been heard.
            let _ = remove(&self.folder, &message.name);
        }
        most_eager
    }
}
