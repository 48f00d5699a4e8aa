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
}
