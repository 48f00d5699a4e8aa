//! The options of a run.

use serde::{Deserialize, Serialize};

use crate::limits::MAX_PARALLEL_SCRIPTS;
use crate::money::Usd;

/// The options of a run: from its command line, its config file or the defaults.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(default)]
pub struct Options {
    /// Zero is unlimited.
    pub budget_usd: Usd,
    pub max_parallel: usize,
    #[serde(skip_serializing_if = "is_default_number_of_scripts")]
    pub max_parallel_scripts: usize,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_steps: Option<u64>,
    /// Whether a usage limit stops the run; otherwise the run waits until the limit ends.
    pub no_wait: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub effort: Option<String>,
    /// Whether the command line chose the model, which then comes before that of a workflow; the same for the effort.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub model_is_given: bool,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub effort_is_given: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub backend: Option<String>,
    /// Whether the backend was set on the command line, which has priority over workflows.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub backend_is_given: bool,
    /// How long a prompt without its own limit may produce no output; zero is no limit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timeout_ms: Option<u64>,
    /// The same for scripts, which have no limit unless the command line gives one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub script_timeout_ms: Option<u64>,
    pub skip_permissions: bool,
    /// Whether what the states declare is not checked before the run starts or goes on.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub no_lint: bool,
    /// The file to which finished turns are written.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub record: Option<String>,
    /// The recording from which prompts are answered.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub replay: Option<String>,
    /// What happens with a prompt that is not in it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub replay_missing: Option<String>,
    /// Whether each finished step leaves a snapshot of its files.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub snapshots: bool,
    /// Whether steps on other machines leave no debug files. A local run does not record it: it is for one process.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub no_debug: bool,
}

fn is_default_number_of_scripts(number: &usize) -> bool {
    *number == MAX_PARALLEL_SCRIPTS
}

impl Default for Options {
    fn default() -> Self {
        Self {
            budget_usd: Usd::from_dollars(10.0),
            max_parallel: 8,
            max_parallel_scripts: MAX_PARALLEL_SCRIPTS,
            max_steps: None,
            no_wait: false,
            model: None,
            effort: None,
            model_is_given: false,
            effort_is_given: false,
            backend: None,
            backend_is_given: false,
            timeout_ms: None,
            script_timeout_ms: None,
            skip_permissions: false,
            no_lint: false,
            record: None,
            replay: None,
            replay_missing: None,
            snapshots: false,
            no_debug: false,
        }
    }
}
