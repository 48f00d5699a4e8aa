//! A step's attempt as a value: everything its executor needs, and nothing that ties it to this process.
//!
//! A job needs neither the layout of the project, nor the engine's memory, nor Raymond's own state folder. The
//! folders in it are places to work in that were chosen for it.
//!
//! It can be written and read back, and then holds everything in clear, secret variables too: its program needs them. So a
//! written job is for its executor only.

use std::ffi::OsString;
use std::fmt;
use std::path::PathBuf;
use std::rc::Rc;

use raymond_core::event::{StepStarted, TurnStarted};
use raymond_core::input::Plan;
use raymond_core::name::AgentId;
use raymond_core::run::Session;
use raymond_core::workflow::StateFile;
use raymond_core::worktree::Worktree;
use serde::{Deserialize, Serialize};

use super::engine::StepLaunch;
use crate::agent::{Answer, Grants};
use crate::process::secrets::Secrets;
use crate::recording::Places;
use crate::wire;
use crate::workflow::scopes::PackedFiles;
use crate::workflow::states::TurnSettings;

/// One attempt at a step, ready to be carried out.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct StepJob {
    pub attempt: Attempt,
    /// Handed back with the attempt's end: deciding about that needs it.
    pub plan: Plan,
    pub needs: StepNeeds,
    /// What the journal says about a prompt's turn: its conversation and its share of the budget.
    pub turn: Option<TurnStarted>,
}

/// Which attempt at which step.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Attempt {
    pub agent: AgentId,
    pub state: StateFile,
    pub step: u64,
    pub number: u32,
    /// The mark in the environment of everything that the attempt starts, by which it is found again.
    pub token: String,
}

impl fmt::Display for Attempt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { agent, state, step, number, .. } = self;
        write!(f, "{agent} {state} step {step} attempt {number}")
    }
}

/// What was found for a step when its state was read.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct StepNeeds {
    /// Where its program runs.
    pub cwd: String,
    /// Variables to set, or to remove where there is no value; all others are inherited.
    #[serde(with = "wire::variables")]
    pub environment: VariableChanges,
    /// Values among the step's own variables that no record may show.
    pub secrets: Secrets,
    /// The agent's own folder, made on first use.
    pub task_folder: PathBuf,
    /// What a script is handed, and the file that is to hold it.
    pub handed: Option<Handed>,
    pub code: StateCode,
    #[serde(default)]
    pub workflow_files: WorkflowFiles,
    /// The worktree in which it runs, if the agent has one.
    pub worktree: Option<WorktreeNeeds>,
    /// Whether snapshots are taken of the files that it finds and leaves.
    pub takes_snapshots: bool,
    /// What a prompt's turn needs besides.
    pub turn: Option<TurnNeeds>,
}

pub type VariableChanges = Vec<(OsString, Option<OsString>)>;

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Handed {
    pub text: String,
    pub file: PathBuf,
}

/// A worktree that has to be whole before the program starts.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct WorktreeNeeds {
    pub worktree: Worktree,
    /// The file that says that it was made.
    pub mark: PathBuf,
}

/// A state's own file, with the files that belong beside it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum StateCode {
    /// It lies here and can be run as it is, among the files that belong to it.
    InPlace(PathBuf),
    /// It lies among its files, but something in its text would not run: a copy with this text runs instead.
    Copy(#[serde(with = "wire::bytes")] Vec<u8>),
    /// It is packed together with its files, and runs among them with this text.
    Packed {
        #[serde(with = "wire::shared")]
        files: Rc<PackedFiles>,
        #[serde(with = "wire::bytes")]
        text: Vec<u8>,
    },
}

/// Where the files of the workflow that the agent is in are.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub enum WorkflowFiles {
    /// The workflow is a folder.
    #[default]
    InFolder,
    /// They are packed together with the state.
    BesideState,
    /// They are packed, and the state is one of a workflow that this one extends.
    Packed(#[serde(with = "wire::shared")] Rc<PackedFiles>),
}

/// What a turn of an agent needs.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct TurnNeeds {
    pub backend: String,
    /// The rendered text that is sent.
    pub prompt: String,
    /// Pieces of values that were changed in it, because the program would have acted on them.
    pub changed_values: Vec<String>,
    pub settings: TurnSettings,
    /// The tools, folders and tool servers of the settings, with values in place of their placeholders.
    pub grants: Grants,
    pub skip_permissions: bool,
    /// The answer, where it is known beforehand and no program is asked, or why there is none.
    pub answer: Option<Result<Answer, String>>,
    /// How often the agent has entered the state.
    pub visit: u64,
    /// The prompt as a recording holds it, if there is one.
    pub portable: Option<PortablePrompt>,
    /// The agent's conversation, which the turn continues if its backend can.
    pub conversation: Option<Session>,
}

/// A prompt without what differs from machine to machine.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct PortablePrompt {
    pub text: String,
    /// What was replaced in it.
    pub places: Places,
}

impl StepJob {
    /// The job of an attempt whose start is recorded.
    pub fn new(nonce: &str, identity: &str, launch: StepLaunch<StepNeeds>) -> Self {
        let StepStarted { agent, step, attempt, state, turn, .. } = launch.started;
        let token = token(nonce, identity, step, attempt);
        Self {
            attempt: Attempt { agent, state, step, number: attempt, token },
            plan: launch.plan,
            needs: launch.job,
            turn,
        }
    }
}

/// The mark by which everything that an attempt started is found again. It follows from the journal and from the place
/// where the journal is, its [`identity`](crate::store::RunHandle::identity): a copy of a run must not find what the
/// original has started.
pub fn token(nonce: &str, identity: &str, step: u64, attempt: u32) -> String {
    format!("{}{identity}-{step}-{attempt}", token_prefix(nonce))
}

/// What the tokens of all attempts of a run begin with, wherever its journal is.
pub fn token_prefix(nonce: &str) -> String {
    format!("{nonce}-")
}
