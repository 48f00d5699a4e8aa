//! What the journal holds of the files that a step has left.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The files of a git worktree as they were when a step had ended, as a commit.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct FilesSnapshot {
    pub commit: String,
    /// The commit with the files as they were before: after an earlier step in this folder, or before the first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub before: Option<String>,
    /// The top folder of the worktree: an absolute path.
    pub folder: String,
    /// The folder in which git keeps the repository: an absolute path.
    pub repository: String,
    /// Whether other steps ran in the folder at that moment, so that the files may be half written.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub shared: bool,
    /// The files in the agent's task folder at that moment, as a tree.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task_folder: Option<String>,
}

/// What is kept of an agent's task folder as its last finished step has left it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TaskFiles {
    /// None: the agent has finished no step yet.
    Empty,
    /// A tree in a repository, which is named by the folder in which git keeps it.
    Tree { tree: String, repository: String },
}
