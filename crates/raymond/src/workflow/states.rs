//! Reading a state when its step starts, so that an edit on disk counts from the next step on.

mod preflight;

use std::time::Duration;

use raymond_core::duration::Limit;
use raymond_core::frontmatter::{self, Settings};
use raymond_core::header::{self, Header};
use raymond_core::input::{Plan, PromptPlan};
use raymond_core::run::Options;
use raymond_core::workflow::StateFile;
use raymond_core::workflow::source::{SourceError, SourceWarning};

pub use preflight::{Reached, check_all};

use crate::agent::DEFAULT_BACKEND;
use crate::workflow::scope::{Beside, Given, Scope, Source};

/// How long an agent program may be silent by default.
const DEFAULT_TIMEOUT: Duration = Duration::from_secs(30 * 60);

/// A state's file, read and understood.
#[derive(Clone, Debug)]
pub struct StateText {
    pub hash: String,
    /// What deciding about the step needs.
    pub plan: Plan,
    /// What a prompt's turn needs.
    pub turn: Option<TurnSettings>,
    /// The text of a prompt below its frontmatter, with placeholders.
    pub body: String,
    /// Warnings about the file.
    pub warnings: Vec<String>,
}

impl StateText {
    /// How long the state's program may be silent.
    pub fn timeout(&self) -> Option<Duration> {
        match (&self.plan, &self.turn) {
            (_, Some(turn)) => turn.timeout,
            (Plan::Script(header), None) => header.timeout.and_then(Limit::duration),
            (Plan::Prompt(_), None) => None,
        }
    }
}

/// The settings of a turn, from the state's frontmatter, the command line or the config file.
#[derive(Clone, Debug, Default)]
pub struct TurnSettings {
    /// How long the agent program may be silent.
    pub timeout: Option<Duration>,
    /// How long it may run in all.
    pub max_time: Option<Duration>,
    pub model: Option<String>,
    pub effort: Option<String>,
    pub allow_tools: Vec<String>,
    pub deny_tools: Vec<String>,
    pub add_dirs: Vec<String>,
    pub mcp_config: Vec<String>,
}

/// The options of a run inside another workflow: that workflow's backend replaces the run's own, unless the command line
/// gave one.
pub fn options_in(scope: &Scope, options: &Options) -> Options {
    let own = scope.manifest().backend.clone().filter(|_| !options.backend_is_given);
    Options { backend: own.or(options.backend.clone()), ..options.clone() }
}

/// Reads what a state's file says about its execution, and fills in the options of the run for what it leaves open.
pub fn read_state(state: &StateFile, source: &Source, options: &Options) -> Result<StateText, String> {
    let name = &source.name;
    let text = String::from_utf8_lossy(&source.bytes);
    let wrong = |error: SourceError| {
        let position = source.in_file(&text, error.position);
        format!("{name}: {}", SourceError { position, ..error })
    };
    let (parts, warnings) = match &source.given {
        Given::Beside { plan: Beside::Prompt(settings), warnings, .. } => {
            (prompt((**settings).clone(), &text, options), warnings.clone())
        }
        Given::Beside { plan: Beside::Script(header), warnings, .. } => {
            (script(header.clone(), options), warnings.clone())
        }
        Given::InText | Given::InPart { .. } if state.kind().is_prompt() => {
            let parts = frontmatter::split_and_parse(&text).map_err(wrong)?;
            (prompt(parts.settings, parts.body, options), in_file(source, &text, parts.warnings))
        }
        Given::InText | Given::InPart { .. } => {
            let (header, warnings) = header::parse(state.kind(), &text).map_err(wrong)?;
            (script(header, options), in_file(source, &text, warnings))
        }
    };
    let (plan, turn, body) = parts;
    let warnings = warnings.iter().map(|warning| format!("{name}: {warning}")).collect();
    Ok(StateText { hash: source.hash(), plan, turn, body, warnings })
}

/// Warnings about a state's text with their places in its file.
fn in_file(source: &Source, text: &str, mut warnings: Vec<SourceWarning>) -> Vec<SourceWarning> {
    for warning in &mut warnings {
        warning.position = source.in_file(text, warning.position);
    }
    warnings
}

type Parts = (Plan, Option<TurnSettings>, String);

/// A script has no time limit unless it sets one, or the command line does.
fn script(mut header: Header, options: &Options) -> Parts {
    let chosen = options.script_timeout_ms.map(Duration::from_millis).filter(|timeout| !timeout.is_zero());
    header.timeout = header.timeout.or(chosen.map(Limit::After));
    (Plan::Script(header), None, String::new())
}

/// The frontmatter overrides the run's options, which come from the command line and the config file.
fn prompt(settings: Settings, body: &str, options: &Options) -> Parts {
    let chosen = options.timeout_ms.map(Duration::from_millis).unwrap_or(DEFAULT_TIMEOUT);
    let timeout = match settings.timeout {
        Some(limit) => limit.duration(),
        None => Some(chosen).filter(|timeout| !timeout.is_zero()),
    };
    let plan = PromptPlan {
        policy: settings.allowed_transitions,
        force_implicit: settings.force_implicit,
        max_visits: settings.max_visits,
        exclusive: settings.exclusive,
        backend: settings.backend.or(options.backend.clone()).unwrap_or_else(|| DEFAULT_BACKEND.to_owned()),
        program_chooses_session: false,
        prompt_sha256: None,
    };
    let turn = TurnSettings {
        timeout,
        max_time: settings.max_time.and_then(Limit::duration),
        model: settings.model.or(options.model.clone()),
        effort: settings.effort.or(options.effort.clone()),
        allow_tools: settings.allow_tools,
        deny_tools: settings.deny_tools,
        add_dirs: settings.add_dirs,
        mcp_config: settings.mcp_config,
    };
    (Plan::Prompt(Box::new(plan)), Some(turn), body.to_owned())
}
