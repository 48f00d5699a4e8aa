//! What a list shows of a run, and a file that remembers it so that journals need not be read again.
//!
//! The journals are the truth: a summary counts only for the version of the journal that it was made of, and the whole
//! file may be deleted at any time. Trouble with it is ignored.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use jiff::Timestamp;
use raymond_core::event::Origin;
use raymond_core::money::Usd;
use raymond_core::payload::Payload;
use raymond_core::run::{Run, RunStatus, Status};
use raymond_core::tokens::Tokens;
use serde::{Deserialize, Serialize};

use super::status::{budget_of, status_of};
use crate::history::branch::branched_off;
use crate::store::RunHandle;

/// Longer results are not remembered; they are read from the journal when they are shown.
const MAX_RESULT_BYTES: usize = 512;

/// Raised when the meaning of an entry changes.
const FORMAT: u32 = 4;

/// What a list shows of a run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Summary {
    pub workflow: String,
    /// Where its states are: an absolute path.
    pub scope: String,
    /// As the journal says it; whether a process drives the run is looked up each time.
    pub recorded: RunStatus,
    /// Whether nothing is left to do before a person has answered.
    pub only_asks: bool,
    pub steps: u64,
    /// How many turns agent programs have begun.
    pub turns: u64,
    pub cost_usd: Usd,
    /// What its models have read and written, as far as agent programs told.
    #[serde(default)]
    pub tokens: Tokens,
    /// Nothing means unlimited.
    pub budget_usd: Option<Usd>,
    pub started_at: Timestamp,
    pub ended_at: Option<Timestamp>,
    pub last_at: Timestamp,
    /// How long processes have worked on it.
    pub duration_ms: u64,
    /// The number of its last event.
    pub seq: u64,
    pub labels: BTreeMap<String, String>,
    /// Agents that have not ended.
    pub agents: usize,
    pub open_asks: usize,
    pub result: Brief,
    /// Where it left the run that it goes on from, if it is a branch.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub branched_off: Option<Origin>,
}

/// A result, unless it is long.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Brief {
    None,
    Text(String),
    /// It has to be read from the journal.
    Long,
}

impl Summary {
    pub fn of(run: &Run, handle: &dyn RunHandle) -> Self {
        let has_origin = run.origin.is_some();
        let waits = |status: &Status| {
            matches!(status, Status::Asking { .. } | Status::Joining { .. } | Status::Failed { .. })
        };
        let open_asks = run.asking_agents().len();
        Self {
            workflow: run.workflow.clone(),
            scope: run.scope.clone(),
            recorded: run.status,
            only_asks: open_asks > 0 && run.agents.values().all(|agent| waits(&agent.status)),
            steps: run.steps_completed,
            turns: run.turns.values().sum(),
            cost_usd: run.cost_usd,
            tokens: run.tokens,
            budget_usd: budget_of(run),
            started_at: run.started_at,
            ended_at: run.ended_at,
            last_at: run.last_time,
            duration_ms: run.duration_ms(run.last_time),
            seq: run.seq,
            labels: run.labels.clone(),
            agents: run.agents.len(),
            open_asks,
            result: match &run.result {
                None => Brief::None,
                Some(Payload::Inline(text)) if text.len() <= MAX_RESULT_BYTES => Brief::Text(text.clone()),
                Some(_) => Brief::Long,
            },
            branched_off: has_origin.then(|| branched_off(handle).ok().flatten()).flatten(),
        }
    }

    /// The status as a list shows it: a run that can only go on once a person has answered is waiting.
    pub fn status(&self, is_live: bool) -> RunStatus {
        match status_of(self.recorded, is_live) {
            RunStatus::Running if self.only_asks => RunStatus::Waiting,
            status => status,
        }
    }
}

#[derive(Default, Serialize, Deserialize)]
struct Known {
    format: u32,
    runs: BTreeMap<String, (String, Summary)>,
}

/// The file that remembers summaries.
pub struct Cache {
    path: Option<PathBuf>,
    known: Known,
    /// What the next list will find. Runs that are gone are not in it.
    seen: BTreeMap<String, (String, Summary)>,
    has_changed: bool,
}

impl Cache {
    /// The cache in this file; without one, nothing is remembered.
    pub fn open(path: Option<PathBuf>) -> Self {
        let runs = path.as_deref().map(read).unwrap_or_default();
        let known = Known { format: FORMAT, runs };
        Self { path, known, seen: BTreeMap::new(), has_changed: false }
    }

    /// What is known of a run whose journal has this version.
    pub fn get(&mut self, run: &str, version: &str) -> Option<Summary> {
        let entry = self.known.runs.remove(run).filter(|(known, _)| known == version)?;
        let summary = entry.1.clone();
        self.seen.insert(run.to_owned(), entry);
        Some(summary)
    }

    pub fn put(&mut self, run: &str, version: &str, summary: Summary) {
        self.has_changed = true;
        self.seen.insert(run.to_owned(), (version.to_owned(), summary));
    }

    /// Writes what was seen, if that is more than was known.
    pub fn keep(self) {
        if let Some(path) = self.path.filter(|_| self.has_changed) {
            write(&path, self.seen);
        }
    }
}

/// All that a file remembers, by run, each with the version of its journal.
pub fn read(path: &Path) -> BTreeMap<String, (String, Summary)> {
    let known: Option<Known> = std::fs::read(path).ok().and_then(|text| serde_json::from_slice(&text).ok());
    known.filter(|known| known.format == FORMAT).map(|known| known.runs).unwrap_or_default()
}

/// Replaces what a file remembers.
pub fn write(path: &Path, runs: BTreeMap<String, (String, Summary)>) {
    let Ok(text) = serde_json::to_vec(&Known { format: FORMAT, runs }) else { return };
    let unfinished = path.with_extension(format!("{}.tmp", std::process::id()));
    if std::fs::write(&unfinished, text).and_then(|()| std::fs::rename(&unfinished, path)).is_err() {
        let _ = std::fs::remove_file(&unfinished);
    }
}
