//! One attempt at a step, as the machine is told that carries it out.

use std::collections::BTreeMap;
use std::path::Path;

use raymond_core::event::{RunStarted, StepStarted};
use raymond_core::input::Plan;
use raymond_core::run::Agent;
use serde::{Deserialize, Serialize};

use super::IDENTITY;
use super::roots::as_text;
use crate::run::job::token;
use crate::view::debug::StepName;

/// One attempt at a step, as the machine is told that carries it out. All paths are those of the run.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct StepOrder {
    pub id: String,
    pub run: Box<RunStarted>,
    /// The folder of the project in which the run was started.
    pub project: String,
    /// Folders, beside the project, whose workflows may be entered.
    pub workflow_paths: Vec<String>,
    /// Folders, beside the project, that models may choose.
    pub cd_paths: Vec<String>,
    pub agent: Agent,
    pub started: StepStarted,
    pub plan: Plan,
    /// The long texts that the step is handed, by their hashes: those that its run has itself, and for the machine that
    /// carries it out all of them.
    pub payloads: BTreeMap<String, String>,
    /// The run's folder of debug files, where it was started.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub debug_folder: Option<String>,
    /// The branches that the step needs, by the names of their worktrees: that of its own worktree, and those that its input
    /// names.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub branches: BTreeMap<String, Branch>,
}

/// The branch of a worktree, as the last step of its worker left it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Branch {
    pub commit: String,
    /// Where its commits are kept. Without it, the commit is one of those that worktrees or the run began with.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub blob: Option<String>,
}

impl StepOrder {
    /// The mark of the attempt: on its processes, and in the records of the machine that carries it out.
    pub fn token(&self) -> String {
        token(&self.run.nonce, IDENTITY, self.started.step, self.started.attempt)
    }

    /// The attempt that debug files belong to.
    pub(super) fn attempt(&self) -> StepName<'_> {
        let StepStarted { agent, state, step, attempt, .. } = &self.started;
        StepName { agent, state, step: *step, attempt: *attempt }
    }

    /// Where a debug file of this machine is found in the end.
    pub(super) fn place_of(&self, debug_file: &str) -> Option<String> {
        let (folder, name) = (self.debug_folder.as_ref()?, Path::new(debug_file).file_name()?);
        Some(as_text(&Path::new(folder).join(name)))
    }
}
