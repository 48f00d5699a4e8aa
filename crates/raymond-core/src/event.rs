//! What has happened: the lines of the journal, and of `--json`.
//!
//! Events hold resolved names and everything [`crate::evolve`] needs, so a journal can be folded without its
//! workflow. Their names and fields are the public format: fields may be added, never renamed or reused.

use std::collections::BTreeMap;

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::money::Usd;
use crate::name::AgentId;
use crate::payload::Payload;
use crate::run::{Options, Run, RunStatus, Session};
use crate::tag::TagName;
use crate::workflow::StateFile;

/// The version of the journal's format that this program writes.
pub const FORMAT_VERSION: u32 = 1;

/// One line of the journal.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Event {
    pub seq: u64,
    pub time: Timestamp,
    pub run: String,
    #[serde(flatten)]
    pub body: Body,
}

/// The kinds of event.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum Body {
    RunStarted(Box<RunStarted>),
    AgentStarted(Box<AgentStarted>),
    StepStarted(StepStarted),
    StepFinished(Box<StepFinished>),
    StepFailed(StepFailed),
    /// The step's program is tried again, after a while.
    Retry(Retry),
    /// The agent is reminded, in the same conversation, of what it may answer.
    Reminder(Reminder),
    /// A usage limit is waited out.
    LimitWaiting(LimitWaiting),
    /// The agent waits before its state starts.
    Delayed {
        agent: AgentId,
        state: StateFile,
        until: Timestamp,
    },
    AgentFinished {
        agent: AgentId,
        result: Payload,
    },
    /// All workers of the agent have ended, and it has what came of them.
    Joined {
        agent: AgentId,
        state: StateFile,
        /// Those that it has joined.
        workers: Vec<AgentId>,
        result: Payload,
    },
    AskOpened(AskOpened),
    AskClosed(AskClosed),
    /// Text for whoever watches; no part of the run's state.
    Print {
        agent: AgentId,
        step: u64,
        state: StateFile,
        text: Payload,
    },
    Warning {
        #[serde(skip_serializing_if = "Option::is_none")]
        agent: Option<AgentId>,
        #[serde(skip_serializing_if = "Option::is_none")]
        step: Option<u64>,
        #[serde(skip_serializing_if = "Option::is_none")]
        state: Option<StateFile>,
        message: String,
    },
    BudgetExceeded {
        cost_usd: Usd,
        budget_usd: Usd,
    },
    RunResumed(RunResumed),
    RunFinished {
        status: RunStatus,
        #[serde(skip_serializing_if = "Option::is_none")]
        result: Option<Payload>,
        #[serde(flatten)]
        totals: Totals,
    },
    RunStopped {
        status: RunStatus,
        #[serde(skip_serializing_if = "Option::is_none")]
        error: Option<String>,
        /// Questions that wait for a person.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        asks: Vec<OpenAsk>,
        /// Steps that were ended before their time; a resume runs them again.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        interrupted: Vec<Interrupted>,
        #[serde(flatten)]
        totals: Totals,
    },
    /// The whole state, first line of every later segment of a long journal.
    Snapshot {
        #[schemars(with = "serde_json::Map<String, serde_json::Value>")]
        state: Box<Run>,
    },
}

/// The line of a [`Body::Snapshot`], written without a copy of the state: that can be as large as all else together.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct SnapshotLine<'a> {
    pub seq: u64,
    pub time: Timestamp,
    pub run: &'a str,
    event: &'static str,
    pub state: &'a Run,
}

impl<'a> SnapshotLine<'a> {
    pub fn of(run: &'a Run, time: Timestamp) -> Self {
        Self { seq: run.seq, time, run: &run.id, event: "snapshot", state: run }
    }
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RunStarted {
    pub version: u32,
    /// The workflow as the user named it.
    pub workflow: String,
    /// Where its states are: an absolute path.
    pub scope: String,
    /// What the scope held, where it may not change while the run lasts: an archive.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scope_hash: Option<String>,
    /// Its first state.
    pub entry: StateFile,
    pub cwd: String,
    /// What makes this run's session ids and tokens its own.
    pub nonce: String,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
    pub options: Options,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct AgentStarted {
    pub agent: AgentId,
    pub state: StateFile,
    pub cwd: String,
    /// Its workflow, if that is another one than the run's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scope: Option<String>,
    /// What that held when it was entered, if it is an archive.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scope_hash: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent: Option<AgentId>,
    /// The number in a worker's name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub number: Option<u64>,
    /// Which of its parent's forks it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fork: Option<u64>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub attributes: BTreeMap<String, String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub input: Option<Payload>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct StepStarted {
    pub agent: AgentId,
    pub step: u64,
    pub attempt: u32,
    pub state: StateFile,
    pub visits: u64,
    /// What the state's file held.
    pub hash: String,
    /// The session chosen for this attempt of a prompt.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session: Option<String>,
    /// Which of the run's turns in this state it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub turn: Option<u64>,
    /// The session this attempt goes on from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub branch_of: Option<String>,
    /// How much of the budget this turn may use.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub share_usd: Option<Usd>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct StepFinished {
    pub agent: AgentId,
    pub step: u64,
    pub state: StateFile,
    pub tag: TagName,
    /// Where the tag leads: for a fork the worker's state, for a result the caller's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target: Option<StateFile>,
    #[serde(default, rename = "return", skip_serializing_if = "Option::is_none")]
    pub return_to: Option<StateFile>,
    /// Where a forking parent goes on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<StateFile>,
    /// What the agent's next state is handed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub input: Option<Payload>,
    /// What an agent that ends leaves behind.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub result: Option<Payload>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cwd: Option<String>,
    /// The workflow that the agent enters.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scope: Option<String>,
    /// What that held then, if it is an archive.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scope_hash: Option<String>,
    /// The conversation as it is after this step.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session: Option<Session>,
    /// Whether the state's only permitted transition was taken without a tag.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub implicit: bool,
    /// What the step cost in all, reminders and failed attempts included.
    pub cost_usd: Usd,
    /// What its last attempt cost; earlier attempts are in their own events.
    #[serde(default, skip_serializing_if = "Usd::is_zero")]
    pub attempt_cost_usd: Usd,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub cost_estimated: bool,
    pub duration_ms: u64,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct StepFailed {
    pub agent: AgentId,
    /// Absent when the state could not even be started.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub step: Option<u64>,
    pub state: StateFile,
    pub error: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exit_code: Option<i32>,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub stderr: String,
    /// Whether the failure stops the whole run.
    pub fatal: bool,
    /// What the step cost in all.
    #[serde(default)]
    pub cost_usd: Usd,
    #[serde(default, skip_serializing_if = "Usd::is_zero")]
    pub attempt_cost_usd: Usd,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub cost_estimated: bool,
    #[serde(default)]
    pub duration_ms: u64,
}

/// Why an attempt was not the step's last.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Retry {
    pub agent: AgentId,
    pub step: u64,
    pub state: StateFile,
    /// The attempt that comes next.
    pub attempt: u32,
    pub until: Timestamp,
    pub error: String,
    #[serde(default, skip_serializing_if = "Usd::is_zero")]
    pub attempt_cost_usd: Usd,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub cost_estimated: bool,
    /// Set when the conversation goes on from where this attempt stopped, at its share of the budget.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session: Option<Session>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Reminder {
    pub agent: AgentId,
    pub step: u64,
    pub state: StateFile,
    /// The attempt that comes next.
    pub attempt: u32,
    /// Which reminder of this step it is.
    pub number: u32,
    /// What was wrong with the agent's message.
    #[serde(default)]
    pub problem: String,
    pub text: Payload,
    /// The conversation that the reminder goes on.
    pub session: Session,
    #[serde(default, skip_serializing_if = "Usd::is_zero")]
    pub attempt_cost_usd: Usd,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub cost_estimated: bool,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct LimitWaiting {
    pub agent: AgentId,
    pub step: u64,
    pub state: StateFile,
    pub attempt: u32,
    pub until: Timestamp,
    pub error: String,
    #[serde(default, skip_serializing_if = "Usd::is_zero")]
    pub attempt_cost_usd: Usd,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub cost_estimated: bool,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RunResumed {
    pub options: Options,
    /// Steps that were running when the run was last left; they run again.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub interrupted: Vec<Interrupted>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct AskOpened {
    pub agent: AgentId,
    pub ask: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub step: Option<u64>,
    /// The state that asks.
    pub state: StateFile,
    pub question: Payload,
    pub next: StateFile,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout_ms: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deadline: Option<Timestamp>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout_next: Option<StateFile>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct AskClosed {
    pub agent: AgentId,
    pub ask: String,
    /// The state that asked.
    pub state: StateFile,
    pub by: ClosedBy,
    /// Where the agent goes on, unless it fails.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target: Option<StateFile>,
    pub answer: Payload,
    /// Distinguishes answers that race.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub answer_id: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ClosedBy {
    Answer,
    Timeout,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct OpenAsk {
    pub ask: String,
    pub agent: AgentId,
    pub question: Payload,
}

/// A step that was ended before its time.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Interrupted {
    pub agent: AgentId,
    pub step: u64,
    pub state: StateFile,
    /// What the lost attempt is thought to have cost.
    #[serde(default, skip_serializing_if = "Usd::is_zero")]
    pub estimated_cost_usd: Usd,
}

/// What a run adds up to.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Totals {
    pub steps: u64,
    pub agents: u64,
    pub cost_usd: Usd,
    pub duration_ms: u64,
}

impl Body {
    /// All texts that may have to move into files of their own.
    pub fn payloads_mut(&mut self) -> Vec<&mut Payload> {
        match self {
            Body::AgentStarted(started) => started.input.iter_mut().collect(),
            Body::StepFinished(finished) => finished.input.iter_mut().chain(&mut finished.result).collect(),
            Body::AgentFinished { result, .. } | Body::Joined { result, .. } => vec![result],
            Body::AskOpened(opened) => vec![&mut opened.question],
            Body::AskClosed(closed) => vec![&mut closed.answer],
            Body::RunStopped { asks, .. } => asks.iter_mut().map(|ask| &mut ask.question).collect(),
            Body::Print { text, .. } => vec![text],
            Body::Reminder(reminder) => vec![&mut reminder.text],
            Body::RunFinished { result, .. } => result.iter_mut().collect(),
            _ => Vec::new(),
        }
    }

    /// The agent whose attempt at a step ended with this event.
    pub fn ended_attempt_of(&self) -> Option<&AgentId> {
        match self {
            Body::StepFinished(finished) => Some(&finished.agent),
            Body::StepFailed(failed) => Some(&failed.agent),
            Body::Retry(retry) => Some(&retry.agent),
            Body::Reminder(reminder) => Some(&reminder.agent),
            Body::LimitWaiting(limit) => Some(&limit.agent),
            _ => None,
        }
    }

    /// What the event adds to the run's cost.
    pub fn cost(&self) -> Usd {
        match self {
            Body::StepFinished(finished) => finished.attempt_cost_usd,
            Body::StepFailed(failed) => failed.attempt_cost_usd,
            Body::Retry(retry) => retry.attempt_cost_usd,
            Body::Reminder(reminder) => reminder.attempt_cost_usd,
            Body::LimitWaiting(limit) => limit.attempt_cost_usd,
            Body::RunResumed(resumed) => resumed.interrupted.iter().map(|step| step.estimated_cost_usd).sum(),
            Body::RunStopped { interrupted, .. } => {
                interrupted.iter().map(|step| step.estimated_cost_usd).sum()
            }
            _ => Usd::ZERO,
        }
    }

    /// Whether this event ends what one process does for a run.
    pub fn is_last(&self) -> bool {
        matches!(self, Body::RunFinished { .. } | Body::RunStopped { .. })
    }
}
