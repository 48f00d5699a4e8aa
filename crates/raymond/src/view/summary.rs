//! What a list shows of a run, and a file that remembers it so that journals need not be read again.
//!
//! The journals are the truth: a summary counts only for the version of the journal that it was made of, and the whole
//! file may be deleted at any time. Trouble with it is ignored.

use std::collections::BTreeMap;

use jiff::Timestamp;
use raymond_core::event::{Body, Origin};
use raymond_core::money::Usd;
use raymond_core::payload::Payload;
use raymond_core::run::{Agent, Halt, Run, RunStatus, Status};
use raymond_core::tokens::Tokens;
use serde::{Deserialize, Serialize};

use super::status::{budget_of, status_of};
use crate::history::branch::branched_off;
use crate::store::{RunHandle, SealedFile, Start};
use crate::view::text::one_line;

/// Longer results are not remembered; they are read from the journal when they are shown.
const MAX_RESULT_BYTES: usize = 512;

/// Raised when the meaning of an entry changes.
const FORMAT: u32 = 6;
/// How long the file may be: that of some 100,000 runs.
const MAX_CACHE_BYTES: u64 = 256 * 1024 * 1024;

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
    /// What it is about, in one line: its title or its input.
    #[serde(default)]
    pub about: String,
    /// What is wrong with it or what it asks, in one line.
    #[serde(default)]
    pub trouble: String,
    /// Agents that have not ended.
    pub agents: usize,
    pub open_asks: usize,
    /// Workers that have failed, and whose failures joins have taken.
    pub failed_workers: u64,
    pub result: Brief,
    /// Where it left the run that it goes on from, if it is a branch.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub branched_off: Option<Origin>,
    /// What of the numbers above is the history of another run, and counts there.
    pub shared: Numbers,
}

/// What is counted in a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Numbers {
    pub steps: u64,
    pub turns: u64,
    pub cost_usd: Usd,
    pub tokens: Tokens,
}

impl Numbers {
    fn of(run: &Run) -> Self {
        let turns = run.turns.values().sum();
        Self { steps: run.steps_completed, turns, cost_usd: run.cost_usd, tokens: run.tokens }
    }

    /// What a run has in common with the one that it goes on from. A run that keeps what a rewind dropped has that for
    /// itself.
    fn shared(handle: &dyn RunHandle, origin: &Origin) -> Option<Self> {
        let shared = origin.kept_from.map_or(origin.seq, |kept| kept.min(origin.seq));
        let state = handle.state_after(shared).ok()?;
        // A turn that was under way is begun again.
        let is_turn =
            |agent: &&Agent| matches!(agent.status, Status::Running { .. }) && agent.state.kind().is_prompt();
        let under_way = state.agents.values().filter(is_turn).count() as u64;
        let all = Self::of(&state);
        let cost_usd = if origin.reset_cost { Usd::ZERO } else { all.cost_usd };
        Some(Self { turns: all.turns.saturating_sub(under_way), cost_usd, ..all })
    }
}

/// What a run has cost itself, without the history that it has in common with the run that it goes on from.
pub fn own_cost(handle: &dyn RunHandle, cost: Usd) -> Option<Usd> {
    let shared = match branched_off(handle).ok()? {
        Some(origin) => Numbers::shared(handle, &origin)?.cost_usd,
        None => Usd::ZERO,
    };
    Some(cost.saturating_sub(shared))
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
        let branched_off = run.origin.as_ref().and_then(|_| branched_off(handle).ok().flatten());
        let shared = branched_off.as_ref().and_then(|origin| Numbers::shared(handle, origin));
        let waits = |status: &Status| {
            matches!(status, Status::Asking { .. } | Status::Joining { .. } | Status::Failed { .. })
        };
        let open_asks = if run.is_dropped() { 0 } else { run.asking_agents().len() };
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
            about: about(run, handle),
            trouble: trouble(run, handle),
            agents: run.agents.len(),
            open_asks,
            failed_workers: run.failed_workers,
            result: match &run.result {
                None => Brief::None,
                Some(Payload::Inline(text)) if text.len() <= MAX_RESULT_BYTES => Brief::Text(text.clone()),
                Some(_) => Brief::Long,
            },
            branched_off,
            shared: shared.unwrap_or_default(),
        }
    }

    /// What counts in this run and in no other one.
    pub fn own(&self) -> Numbers {
        let Numbers { steps, turns, cost_usd, tokens } = self.shared;
        Numbers {
            steps: self.steps.saturating_sub(steps),
            turns: self.turns.saturating_sub(turns),
            cost_usd: self.cost_usd.saturating_sub(cost_usd),
            tokens: self.tokens.since(tokens).unwrap_or_default(),
        }
    }

    /// The status of this run as a list shows it. Its engine may know that it is wedged.
    pub fn status_of(&self, run: &dyn RunHandle, is_live: bool) -> RunStatus {
        match is_live && run.elsewhere().is_some_and(|mark| mark.why_wedged().is_some()) {
            true => RunStatus::Wedged,
            false => self.status(is_live),
        }
    }

    /// The status as a journal shows it: a run that can only go on once a person has answered is waiting.
    pub fn status(&self, is_live: bool) -> RunStatus {
        match status_of(self.recorded, is_live) {
            RunStatus::Running if self.only_asks => RunStatus::Waiting,
            status => status,
        }
    }
}

/// How much of a title, an input, an error or a question a list shows.
const MAX_LINE_CHARS: usize = 160;

/// The label `title` of a run, or the input that it began with, or the values of its named inputs.
fn about(run: &Run, handle: &dyn RunHandle) -> String {
    if let Some(title) = run.labels.get("title") {
        return one_line(title, MAX_LINE_CHARS);
    }
    let input = first_input(handle).and_then(|input| handle.payloads().text_of(&input).ok());
    let named = || {
        let values = run.inputs.values.iter().map(|(name, value)| format!("{name}={value}"));
        values.collect::<Vec<_>>().join(" ")
    };
    one_line(&input.unwrap_or_else(named), MAX_LINE_CHARS)
}

/// What the first agent was handed when it began.
fn first_input(handle: &dyn RunHandle) -> Option<Payload> {
    let mut events = handle.events(Start::After(0)).ok()?;
    let batch = events.next_batch().ok()??;
    batch.into_iter().find_map(|event| match event.body {
        Body::AgentStarted(started) if started.forked.is_none() => started.input,
        _ => None,
    })
}

/// Why an agent has failed or the run has stopped, or else the question that has waited longest.
fn trouble(run: &Run, handle: &dyn RunHandle) -> String {
    if run.status == RunStatus::Completed {
        return String::new();
    }
    let failed = run.agents_by_birth().into_iter().find_map(|agent| match &agent.status {
        Status::Failed { error, .. } => Some(error.clone()),
        _ => None,
    });
    let halted = || match run.halt.as_ref()? {
        Halt::Failed { error } | Halt::Limited { error } => Some(error.clone()),
        Halt::OverBudget => Some(format!("{} of {} are spent", run.cost_usd, run.options.budget_usd)),
    };
    let asked = || {
        let asks = run.asks();
        let (_, ask) = asks.first()?;
        let question = handle.payloads().text_of(&ask.question).ok()?;
        Some(format!("asks: {}", question.trim_start()))
    };
    one_line(&failed.or_else(halted).or_else(asked).unwrap_or_default(), MAX_LINE_CHARS)
}

#[derive(Default, Serialize, Deserialize)]
struct Known {
    format: u32,
    runs: BTreeMap<String, (String, Summary)>,
}

/// The file that remembers summaries.
pub struct Cache {
    file: Option<SealedFile>,
    known: Known,
    /// What the next list will find. Runs that are gone are not in it.
    seen: BTreeMap<String, (String, Summary)>,
    has_changed: bool,
}

impl Cache {
    /// The cache in this file; without one, nothing is remembered.
    pub fn open(file: Option<SealedFile>) -> Self {
        let runs = file.as_ref().map(read).unwrap_or_default();
        let known = Known { format: FORMAT, runs };
        Self { file, known, seen: BTreeMap::new(), has_changed: false }
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
        if let Some(file) = self.file.filter(|_| self.has_changed) {
            write(&file, self.seen);
        }
    }
}

/// All that a file remembers, by run, each with the version of its journal.
pub fn read(file: &SealedFile) -> BTreeMap<String, (String, Summary)> {
    let known = file.read(MAX_CACHE_BYTES).and_then(|text| serde_json::from_slice::<Known>(&text).ok());
    known.filter(|known| known.format == FORMAT).map(|known| known.runs).unwrap_or_default()
}

/// Replaces what a file remembers. Nothing depends on it.
pub fn write(file: &SealedFile, runs: BTreeMap<String, (String, Summary)>) {
    if let Ok(text) = serde_json::to_vec(&Known { format: FORMAT, runs }) {
        let _ = file.write(&text);
    }
}
