//! What `raymond test` hands to the process that runs a test: a JSON file, named by a hidden option.

use std::path::{Path, PathBuf};

use regex_lite::Regex;
use serde::{Deserialize, Serialize};

use crate::agent::prepared::{Missing, Prepared, Says, TestReply};
use crate::error::UserError;
use crate::files;
use crate::process::secrets::Secrets;
use crate::recording;
use crate::run::rehearsal::Answers;

/// The replies of a test file are in it, each of which may be as long as a tag.
const MAX_STAGE_BYTES: u64 = 64 * 1024 * 1024;

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Stage {
    pub replies: Vec<StagedReply>,
    pub recording: Option<PathBuf>,
    pub missing: Missing,
    pub answers: Answers,
    pub kill_after: Vec<u64>,
    /// Whether the run stops at an open question instead of letting its time pass.
    pub stops_at_questions: bool,
    /// The workflow's project, in which other workflows may be entered.
    pub project: PathBuf,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct StagedReply {
    /// The state's name without extension.
    pub state: String,
    pub when: Option<String>,
    pub says: Says,
    pub cost_usd: f64,
    pub is_lasting: bool,
}

impl Stage {
    pub fn read(path: &Path) -> Result<Self, UserError> {
        let wrong = |error: String| UserError::usage(format!("{}: {error}", path.display()));
        let text = files::read_text(path, MAX_STAGE_BYTES).map_err(|error| wrong(error.to_string()))?;
        serde_json::from_str(&text).map_err(|error| wrong(error.to_string()))
    }

    pub fn prepared(&self) -> Result<Prepared, UserError> {
        let replies: Result<Vec<TestReply>, _> = self.replies.iter().map(StagedReply::compiled).collect();
        let recorded = self.recording.as_deref().map(recording::read).transpose();
        Ok(Prepared {
            is_test: true,
            replies: replies.map_err(|error| UserError::usage(format!("a pattern is wrong: {error}")))?,
            recorded: recorded.map_err(|error| UserError::usage(error.to_string()))?.unwrap_or_default(),
            missing: self.missing,
            secrets: Secrets::of(std::env::vars_os()),
        })
    }
}

impl StagedReply {
    fn compiled(&self) -> Result<TestReply, regex_lite::Error> {
        Ok(TestReply {
            state: self.state.clone(),
            when: self.when.as_deref().map(Regex::new).transpose()?,
            says: self.says.clone(),
            cost_usd: self.cost_usd,
            is_lasting: self.is_lasting,
        })
    }
}
