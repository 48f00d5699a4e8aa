//! What travels between the command line, the workflow and the machines. Fields may be added, with a default: runs that
//! are open were started by an earlier version.

use std::collections::BTreeMap;

use raymond::run::frozen::FrozenStates;
use raymond::run::hosted::{Branch, StepOrder, StepReport};
use raymond_core::event::{Body, Event};
use raymond_core::input::Input;
use raymond_core::join::Joined;
use raymond_core::money::Usd;
use raymond_core::name::AgentId;
use raymond_core::payload::Payload;
use raymond_core::run::{Options, Run};
use serde::{Deserialize, Serialize};

use crate::packed::Packed;
use crate::places::Places;

/// What a run is begun or continued with.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct RunInput {
    pub settings: Settings,
    pub from: Packed<From>,
}

/// What a run needs to know of its surroundings. Only a resume changes it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Settings {
    /// The queue of runs. Those of agents and machines have names that begin like it.
    pub queue: String,
    /// How long a machine may be silent.
    pub heartbeat_ms: u64,
    /// How long a step waits for the machine that its agent is on.
    pub patience_ms: u64,
    /// After so many events of the engine's history the run continues with a new one.
    pub continue_after: u32,
    /// Whether the run goes on for as long as only questions are left. A resume may choose anew.
    #[serde(default = "waits_for_answers")]
    pub waits_for_answers: bool,
    /// Whether the run's long texts lie in the store of blobs. Runs of earlier versions have them in their messages.
    #[serde(default)]
    pub keeps_texts: bool,
    pub files: FilesOfRun,
}

/// Runs that were started before there was a choice wait.
fn waits_for_answers() -> bool {
    true
}

/// The files that a machine needs for any step of a run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FilesOfRun {
    /// The blob with its workflows.
    pub bundle: String,
    /// The folder of the project, where the run was started.
    pub project: String,
    pub workflow_paths: Vec<String>,
    pub cd_paths: Vec<String>,
    pub repository: Option<Repository>,
    /// The run's folder of debug files, where the run was started.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub debug_folder: Option<String>,
}

/// The repository that a run was started in.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Repository {
    /// Its top folder, where the run was started.
    pub top: String,
    pub commit: String,
    /// The blob with the commit and its history.
    pub blob: String,
}

#[derive(Debug, Serialize, Deserialize)]
pub enum From {
    Start { opening: Vec<Body>, states: FrozenStates },
    Snapshot(Box<Snapshot>),
}

/// A run between two histories of the engine. No step runs.
#[derive(Debug, Serialize, Deserialize)]
pub struct Snapshot {
    pub run: Run,
    pub states: FrozenStates,
    #[serde(flatten)]
    pub places: Places,
    pub stop: Option<StopKind>,
    pub payloads: BTreeMap<String, String>,
    /// What came while the last steps were waited for.
    pub inputs: Vec<Input>,
    pub inbox: Vec<Mail>,
    /// The last event before the run was last resumed.
    #[serde(default)]
    pub resumed_after: u64,
}

/// The machine that an agent is on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Home {
    /// What it is called for people.
    pub host: String,
    /// The queue that it alone reads.
    pub queue: String,
    /// The backends whose programs it has, if that is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub backends: Option<Vec<String>>,
}

/// The blobs with what an agent has left. Each of their names is written once, so a machine that counts as lost cannot put
/// something old there.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Left {
    /// Its commit and its files in the repository, unless they are those that the run began with.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub files: Option<String>,
    /// Its files outside the repository, if there are some.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub loose: Option<String>,
}

/// What reaches a run from outside.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum Mail {
    /// A message with a name and content that a local inbox could hold.
    Message { name: String, content: String },
    Resume {
        options: Box<Options>,
        /// Whether the run goes on for as long as only questions are left; nothing leaves it as it was.
        #[serde(default)]
        waits_for_answers: Option<bool>,
        /// The run's workflows as they are now, if the machine that resumes it has them.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        workflows: Option<Box<WorkflowsNow>>,
    },
}

/// The workflows of a run as they are when it is resumed.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct WorkflowsNow {
    /// The blob with them.
    pub bundle: String,
    /// The paths of those that the run can reach.
    pub scopes: Vec<String>,
    pub workflow_paths: Vec<String>,
    pub cd_paths: Vec<String>,
}

/// The states of a run, to be read again for a resume.
#[derive(Debug, Serialize, Deserialize)]
pub struct StatesWanted {
    /// The blob with the run's workflows.
    pub bundle: String,
    /// The states as they are.
    pub states: Packed<FrozenStates>,
    /// The workflows to read, if they are others than those of `states`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scopes: Option<Vec<String>>,
    pub options: Box<Options>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum StopKind {
    /// Running steps finish.
    Gently,
    /// Running steps are ended.
    Now,
}

/// A step for the machine that its agent is on.
#[derive(Debug, Serialize, Deserialize)]
pub struct Delivery {
    pub order: Packed<StepOrder>,
    pub files: FilesOfRun,
    pub heartbeat_ms: u64,
    /// The queue of the machine on which the agent ended its last step. What any other machine still has of it is old.
    #[serde(default)]
    pub left_at: Option<String>,
    /// What its last step left. Nothing is known before its first step, and of steps that an earlier version carried out.
    #[serde(default)]
    pub left: Option<Left>,
    /// Whether the long texts of the report are kept in the store of blobs.
    #[serde(default)]
    pub keeps_texts: bool,
}

/// What a delivery leads to.
#[derive(Debug, Serialize, Deserialize)]
pub enum Delivered {
    Done {
        report: Packed<StepReport>,
        /// The machine takes no more steps.
        leaving: bool,
        /// What belongs to the agent from now on.
        #[serde(default)]
        left: Option<Left>,
        /// The branch of the agent's worktree.
        #[serde(default)]
        branch: Option<Branch>,
    },
    /// The attempt did not end by itself, and nothing of it runs any more.
    Lost {
        why: String,
        /// What it is thought to have cost, if that is known.
        cost: Option<Usd>,
        /// The machine takes no more steps, or none at the moment.
        leaving: bool,
    },
}

/// Some of the workers whose results a machine puts together.
#[derive(Debug, Serialize, Deserialize)]
pub struct JoinPart {
    pub run: String,
    /// How many workers are joined in all.
    pub count: usize,
    /// What was put together of the workers before these.
    pub before: Option<Payload>,
    pub workers: Packed<Vec<Joined>>,
}

/// Texts that a run has, to be kept in the store of blobs.
#[derive(Debug, Serialize, Deserialize)]
pub struct TextsPart {
    pub run: String,
    pub texts: Packed<Vec<String>>,
}

/// A part of a journal, to be kept in the store of blobs.
#[derive(Debug, Serialize, Deserialize)]
pub struct JournalPart {
    pub run: String,
    pub first: u64,
    pub part: Packed<Part>,
}

/// Committed batches, and those long texts of them that are not in the store of blobs.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Part {
    pub batches: Vec<Vec<Event>>,
    pub payloads: Vec<String>,
}

impl Part {
    /// The number of the last event.
    pub fn last(&self) -> Option<u64> {
        self.batches.last().and_then(|batch| batch.last()).map(|event| event.seq)
    }
}

/// What a run answers when it is asked for its journal.
#[derive(Debug, Serialize, Deserialize)]
pub struct Told {
    pub part: Packed<Part>,
    /// The first event that the run still has; earlier ones are in the store of blobs.
    pub first: u64,
    pub hosts: BTreeMap<AgentId, String>,
    pub is_open: bool,
    /// How many messages from outside it has taken.
    pub taken: u64,
    /// How many messages it has got and not taken yet.
    #[serde(default)]
    pub untaken: u64,
    /// Whether it goes on as soon as its states have been read again.
    #[serde(default)]
    pub is_about_to_go_on: bool,
    /// Why it could not go on when it was last told to.
    #[serde(default)]
    pub why_stopped: Option<String>,
}
