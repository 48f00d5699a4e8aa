//! How all processes of a step are known.

use std::path::Path;

use serde::Serialize;

use super::cgroup;

/// What holds the processes of a run's steps together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, schemars::JsonSchema)]
pub enum Containment {
    /// A cgroup, which no process can leave.
    #[serde(rename = "cgroup")]
    Cgroup,
    /// A process group, with the other signs by which processes that left it are found.
    #[serde(rename = "process group")]
    ProcessGroup,
    /// A job object of Windows, which no process can leave.
    #[serde(rename = "job object")]
    JobObject,
}

impl Containment {
    /// What the last process of a run had, by the folder for files of its steps.
    pub fn of_run(scratch: &Path) -> Self {
        if cfg!(windows) {
            Self::JobObject
        } else if cgroup::is_noted(scratch) {
            Self::Cgroup
        } else {
            Self::ProcessGroup
        }
    }

    /// What a run would have that is started here.
    pub fn here() -> Self {
        if cfg!(windows) {
            Self::JobObject
        } else if cgroup::is_possible() {
            Self::Cgroup
        } else {
            Self::ProcessGroup
        }
    }

    pub fn as_str(self) -> &'static str {
        match self {
            Self::Cgroup => "cgroup",
            Self::ProcessGroup => "process group",
            Self::JobObject => "job object",
        }
    }
}
