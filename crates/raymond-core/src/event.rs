//! Events: the lines of the journal, and of `--json`.
//!
//! Events hold resolved names and everything [`crate::evolve`] needs, so a journal can be folded without its workflow.
//! Their names and fields are the public format: fields may be added, never renamed or reused. Fields that only make
//! sense together are one value here, so that no event can have only some of them; the module `wire` writes them flat.

#![warn(clippy::wildcard_enum_match_arm, reason = "a new event must be handled everywhere")]

mod about;
mod led_to;
pub mod shorten;
#[cfg(test)]
mod tests;
mod wire;

use std::collections::BTreeMap;

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::money::Usd;
use crate::name::AgentId;
use crate::named_inputs::InputValues;
use crate::payload::Payload;
use crate::run::{Options, Run, RunStatus, Session};
use crate::snapshot::FilesSnapshot;
use crate::title::title;
use crate::tokens::{Context, Tokens};
use crate::workflow::StateFile;
use crate::worktree::Worktree;

pub use led_to::{ForkTag, LedTo, Parts};

/// The version of the journal's format in which a run begins that has no history before it.
pub const FORMAT_VERSION: u32 = 1;

/// The version in which a run begins whose history begins elsewhere, and the newest that this program reads. Programs
/// that do not know it would take such a run for an empty one.
pub const BRANCH_FORMAT_VERSION: u32 = 2;

/// Which folders of a branch are not those of its origin.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Moved {
    /// Folders of the origin, and those that the branch has in their place.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub folders: BTreeMap<String, String>,
    /// The worktrees of its workers.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub worktrees: BTreeMap<AgentId, Worktree>,
}

impl Moved {
    pub fn is_empty(&self) -> bool {
        self.folders.is_empty() && self.worktrees.is_empty()
    }

    /// Where a folder of the origin is in the branch.
    pub fn place_of(&self, path: &str) -> Option<String> {
        let inside = |(from, to): (&String, &String)| Some((from.len(), place_in(from, to, path)?));
        self.folders.iter().filter_map(inside).max().map(|(_, place)| place)
    }
}

/// The place in `to` of a path that is `from` or lies in it.
fn place_in(from: &str, to: &str, path: &str) -> Option<String> {
    let rest = path.strip_prefix(from)?;
    (rest.is_empty() || rest.starts_with(['/', '\\'])).then(|| format!("{to}{rest}"))
}

/// The folder of a run's project is another one than before: it was copied or moved.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ProjectMoved {
    pub from: String,
    pub to: String,
}

impl ProjectMoved {
    /// Where a path of the old project is now.
    pub fn place_of(&self, path: &str) -> Option<String> {
        place_in(&self.from, &self.to, path)
    }
}

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
    AgentStarted(#[schemars(with = "wire::AgentStartedFields<'static>")] Box<AgentStarted>),
    StepStarted(#[schemars(with = "wire::StepStartedFields<'static>")] StepStarted),
    /// An agent program that chooses its sessions itself has told which one a turn runs in.
    SessionStarted(SessionStarted),
    StepFinished(#[schemars(with = "wire::StepFinishedFields<'static>")] Box<StepFinished>),
    StepFailed(StepFailed),
    /// The step's program is tried again, after a while.
    Retry(Retry),
    /// The agent is reminded, in the same conversation, of what it may answer.
    Reminder(Reminder),
    /// The agent waits until a usage limit ends.
    LimitWaiting(LimitWaiting),
    /// The agent waits before its state starts.
    Delayed {
        agent: AgentId,
        state: StateFile,
        until: Timestamp,
    },
    /// The agent's state waits until no other step with its `exclusive` name is left before it.
    ExclusiveWaiting {
        agent: AgentId,
        state: StateFile,
        exclusive: String,
    },
    AgentFinished {
        agent: AgentId,
        /// What a worker is called for people.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        title: Option<String>,
        result: Payload,
    },
    /// All workers of the agent have ended, and it has received their results.
    Joined {
        agent: AgentId,
        state: StateFile,
        /// The workers that it has joined.
        workers: Vec<AgentId>,
        result: Payload,
    },
    AskOpened(AskOpened),
    AskClosed(#[schemars(with = "wire::AskClosedFields<'static>")] AskClosed),
    /// Text to show to people; not part of the run's state.
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
    /// A person lets a failed agent try again.
    AgentRetried {
        agent: AgentId,
        state: StateFile,
    },
    /// A person sends an agent to another state. Its stack and its conversation stay.
    AgentMoved {
        agent: AgentId,
        /// The state that it leaves.
        state: StateFile,
        target: StateFile,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        input: Option<Payload>,
    },
    RunResumed(RunResumed),
    RunFinished {
        status: FinishedStatus,
        #[serde(skip_serializing_if = "Option::is_none")]
        result: Option<Payload>,
        #[serde(flatten)]
        totals: Totals,
    },
    RunStopped {
        status: StoppedStatus,
        #[serde(skip_serializing_if = "Option::is_none")]
        error: Option<String>,
        /// Questions that wait for a person.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        asks: Vec<OpenAsk>,
        /// Steps that were interrupted; a resume runs them again.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        interrupted: Vec<Interrupted>,
        /// Whether the process was told to end at once, not by the terminal's user; it then exits with another code.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        terminated: bool,
        #[serde(flatten)]
        totals: Totals,
    },
    /// The whole state of the run: the first line of every segment of a long journal except its first segment.
    Snapshot {
        #[schemars(with = "serde_json::Map<String, serde_json::Value>")]
        state: Box<Run>,
    },
}

/// The line of a [`Body::Snapshot`], written without copying the state, which can be very large.
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
    /// The hash of the scope if it is an archive, which must not change during the run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scope_hash: Option<String>,
    /// Its first state.
    pub entry: StateFile,
    pub cwd: String,
    /// Makes the session ids and tokens of this run different from those of other runs.
    pub nonce: String,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
    /// The values of the inputs that the workflow declares.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub inputs: BTreeMap<String, String>,
    pub options: Options,
    /// The folders of a branch that are not those of its origin.
    #[serde(default, skip_serializing_if = "Moved::is_empty")]
    pub moved: Moved,
    /// Where its history is, if it does not begin here.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub origin: Option<Origin>,
}

/// The point in the history of a run from which another one goes on, or the same run again.
///
/// A run with an origin has all events of the origin up to this point, and behind them its own.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Origin {
    pub run: String,
    /// The last event that both have. It is the last of its batch.
    pub seq: u64,
    /// The step that was asked for, which ended in that batch; absent if the whole history of the origin is kept.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub step: Option<u64>,
    /// Whether the cost of the history does not count.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub reset_cost: bool,
    /// Sessions that the new run does not continue. Their agents begin new conversations.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub forgotten: Vec<String>,
    /// The run that keeps what a rewind dropped.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dropped: Option<String>,
    /// In the run that keeps what a rewind dropped: the last event that the rewound run still has.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kept_from: Option<u64>,
}

#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(try_from = "wire::AgentStartedFields<'static>")]
pub struct AgentStarted {
    pub agent: AgentId,
    pub state: StateFile,
    pub cwd: String,
    /// Its workflow, if that is not the run's own.
    pub workflow: Option<OtherWorkflow>,
    /// How it was forked; `None` only for the first agent.
    pub forked: Option<Forked>,
    /// The worktree that is made for it before its first step.
    pub worktree: Option<Box<Worktree>>,
    pub input: Option<Payload>,
}

/// How a worker was forked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Forked {
    pub parent: AgentId,
    /// The number in its name.
    pub number: u64,
    /// The number of this fork among all forks of its parent.
    pub fork: u64,
    pub attributes: BTreeMap<String, String>,
    /// Whether a model emitted the fork; journals of earlier versions do not say it.
    pub from_model: bool,
}

impl AgentStarted {
    pub fn parent(&self) -> Option<&AgentId> {
        self.forked.as_ref().map(|forked| &forked.parent)
    }

    /// What a worker is called for people.
    pub fn title(&self) -> Option<String> {
        self.forked.as_ref().and_then(|forked| title(&forked.attributes))
    }
}

/// A workflow that is not the run's own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OtherWorkflow {
    /// Where its states are: an absolute path.
    pub scope: String,
    /// The hash of the archive when it was entered, if it is one.
    pub scope_hash: Option<String>,
    /// The values of its inputs, if it declares any.
    pub inputs: Option<Box<InputValues>>,
}

#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(try_from = "wire::StepStartedFields<'static>")]
pub struct StepStarted {
    pub agent: AgentId,
    pub step: u64,
    pub attempt: u32,
    pub state: StateFile,
    pub visits: u64,
    /// The hash of the state's file.
    pub hash: String,
    /// No other step with this name starts before this one has ended.
    pub exclusive: Option<String>,
    /// Set only for prompts.
    pub turn: Option<TurnStarted>,
}

/// The turn that an attempt at a prompt takes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TurnStarted {
    /// The backend that takes the turn; journals of version 0.1 do not tell.
    pub backend: Option<String>,
    /// The model that it is told to use.
    pub model: Option<String>,
    /// The session chosen for this attempt. Where the program chooses, [`SessionStarted`] tells it later.
    pub session: Option<String>,
    /// Which of the run's turns in this state it is.
    pub number: u64,
    /// The session that this attempt continues.
    pub branch_of: Option<String>,
    /// How much of the budget this turn may use.
    pub share_usd: Option<Usd>,
    /// The SHA-256 of the prompt, with placeholders for what differs from run to run, in hexadecimal digits.
    pub prompt_sha256: Option<String>,
    /// The number of the reply that the turn uses up, if replies were prepared for the run.
    pub reply: Option<u64>,
}

#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(try_from = "wire::StepFinishedFields<'static>")]
pub struct StepFinished {
    pub agent: AgentId,
    pub step: u64,
    pub state: StateFile,
    pub led_to: LedTo,
    /// The agent's final message.
    pub message: Option<Payload>,
    /// The conversation after this step.
    pub session: Option<Session>,
    /// Whether the state's only permitted transition was taken without a tag.
    pub implicit: bool,
    /// The total cost of the step, with reminders and failed attempts.
    pub cost_usd: Usd,
    /// The cost of its last attempt; the costs of earlier attempts are in their own events.
    pub attempt_cost_usd: Usd,
    pub cost_estimated: bool,
    /// What the model read and wrote in the last attempt.
    pub tokens: Tokens,
    /// How full the model's window is after it, if the program tells.
    pub context: Option<Context>,
    /// Whether the program has summarised the conversation within it.
    pub compacted: bool,
    pub duration_ms: u64,
    /// The files that it has left, if the run takes snapshots.
    pub files: Option<Box<FilesSnapshot>>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct StepFailed {
    pub agent: AgentId,
    /// What a worker is called for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// Absent when the state could not be started.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub step: Option<u64>,
    pub state: StateFile,
    pub error: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exit_code: Option<i32>,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub stderr: String,
    /// The agent's final message, if it gave one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<Payload>,
    /// The last lines of an output that made no transition.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub output: String,
    /// The file that has all of that output.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output_file: Option<String>,
    /// Whether the failure stops the whole run.
    pub fatal: bool,
    /// The total cost of the step.
    #[serde(default)]
    pub cost_usd: Usd,
    #[serde(default, skip_serializing_if = "Usd::is_zero")]
    pub attempt_cost_usd: Usd,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub cost_estimated: bool,
    /// What the model read and wrote in the last attempt.
    #[serde(default, skip_serializing_if = "Tokens::is_zero")]
    pub tokens: Tokens,
    #[serde(default)]
    pub duration_ms: u64,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SessionStarted {
    pub agent: AgentId,
    pub step: u64,
    pub attempt: u32,
    pub state: StateFile,
    pub session: String,
}

/// An attempt failed, and the step is tried again.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Retry {
    pub agent: AgentId,
    pub step: u64,
    pub state: StateFile,
    /// The attempt that comes next.
    pub attempt: u32,
    pub until: Timestamp,
    pub error: String,
    /// The last lines that a script wrote to stderr.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub stderr: String,
    /// The agent's final message, if it gave one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<Payload>,
    #[serde(default, skip_serializing_if = "Usd::is_zero")]
    pub attempt_cost_usd: Usd,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub cost_estimated: bool,
    /// What the model read and wrote in the last attempt.
    #[serde(default, skip_serializing_if = "Tokens::is_zero")]
    pub tokens: Tokens,
    #[serde(flatten)]
    #[schemars(with = "wire::NextTryFields")]
    pub next_try: NextTry,
}

/// Where the next attempt continues.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "wire::NextTryFields", into = "wire::NextTryFields")]
pub enum NextTry {
    /// Where this attempt began. It counts as one of the retries.
    #[default]
    FromTheStart,
    /// Where this attempt stopped, because it had used its share of the budget.
    GoOn(Session),
    /// Where this attempt began, because it was lost together with the machine that it ran on. It counts as none of the
    /// retries.
    AfterLoss,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Reminder {
    pub agent: AgentId,
    pub step: u64,
    pub state: StateFile,
    /// The attempt that comes next.
    pub attempt: u32,
    /// The number of this reminder within the step.
    pub number: u32,
    /// The problem with the agent's message.
    #[serde(default)]
    pub problem: String,
    /// The message itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<Payload>,
    pub text: Payload,
    /// The conversation that the reminder continues.
    pub session: Session,
    #[serde(default, skip_serializing_if = "Usd::is_zero")]
    pub attempt_cost_usd: Usd,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub cost_estimated: bool,
    /// What the model read and wrote in the last attempt.
    #[serde(default, skip_serializing_if = "Tokens::is_zero")]
    pub tokens: Tokens,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct LimitWaiting {
    pub agent: AgentId,
    pub step: u64,
    pub state: StateFile,
    pub attempt: u32,
    /// When the limit ends. With a `fallback` the agent does not wait for it.
    pub until: Timestamp,
    /// The backend that takes the next attempt, at once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fallback: Option<String>,
    pub error: String,
    /// The agent's final message, if it gave one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<Payload>,
    #[serde(default, skip_serializing_if = "Usd::is_zero")]
    pub attempt_cost_usd: Usd,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub cost_estimated: bool,
    /// What the model read and wrote in the last attempt.
    #[serde(default, skip_serializing_if = "Tokens::is_zero")]
    pub tokens: Tokens,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RunResumed {
    pub options: Options,
    /// Steps that were running when the last process ended; they run again.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub interrupted: Vec<Interrupted>,
    /// Sessions that the agent programs no longer have. Their agents begin new conversations.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub forgotten: Vec<String>,
    /// Where the project of the run is now, if that is not where the run has been so far.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub moved: Option<Box<ProjectMoved>>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct AskOpened {
    pub agent: AgentId,
    /// What a worker is called for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
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
    /// Whether an empty answer counts.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub empty_ok: bool,
}

#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(try_from = "wire::AskClosedFields<'static>")]
pub struct AskClosed {
    pub agent: AgentId,
    pub ask: String,
    /// The state that asked.
    pub state: StateFile,
    pub how: Closed,
}

/// How a question was closed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Closed {
    Answered {
        target: StateFile,
        answer: Payload,
        /// Distinguishes answers that were given at the same time.
        answer_id: Option<String>,
    },
    /// It timed out, and the agent continues without an answer.
    TimedOut { target: StateFile },
    /// It timed out, and the agent fails.
    Unanswered,
}

impl Closed {
    /// The state in which the agent continues, unless it fails.
    pub fn target(&self) -> Option<&StateFile> {
        match self {
            Closed::Answered { target, .. } | Closed::TimedOut { target } => Some(target),
            Closed::Unanswered => None,
        }
    }
}

/// The one status of a run that is finished.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum FinishedStatus {
    Completed,
}

/// Why a run stopped before it was finished.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum StoppedStatus {
    Failed,
    Waiting,
    OverBudget,
    Limited,
    Interrupted,
}

impl From<FinishedStatus> for RunStatus {
    fn from(status: FinishedStatus) -> Self {
        match status {
            FinishedStatus::Completed => RunStatus::Completed,
        }
    }
}

impl From<StoppedStatus> for RunStatus {
    fn from(status: StoppedStatus) -> Self {
        match status {
            StoppedStatus::Failed => RunStatus::Failed,
            StoppedStatus::Waiting => RunStatus::Waiting,
            StoppedStatus::OverBudget => RunStatus::OverBudget,
            StoppedStatus::Limited => RunStatus::Limited,
            StoppedStatus::Interrupted => RunStatus::Interrupted,
        }
    }
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct OpenAsk {
    pub ask: String,
    pub agent: AgentId,
    /// What a worker is called for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    pub question: Payload,
}

/// A step that was interrupted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Interrupted {
    pub agent: AgentId,
    pub step: u64,
    pub state: StateFile,
    /// The estimated cost of the lost attempt.
    #[serde(default, skip_serializing_if = "Usd::is_zero")]
    pub estimated_cost_usd: Usd,
}

/// The totals of a run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Totals {
    pub steps: u64,
    pub agents: u64,
    pub cost_usd: Usd,
    pub duration_ms: u64,
    /// Workers that have failed, and whose failures joins have taken.
    #[serde(default, skip_serializing_if = "crate::run::none_failed")]
    pub failed_workers: u64,
}
