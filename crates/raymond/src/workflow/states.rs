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
use serde::{Deserialize, Serialize};

pub use preflight::{Reached, Start, check_all};

use crate::agent::DEFAULT_BACKEND;
use crate::workflow::manifest::Defaults;
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
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct TurnSettings {
    /// How long the agent program may be silent.
    pub timeout: Option<Duration>,
    /// Whether that limit was chosen, by the state or for the run.
    pub timeout_is_chosen: bool,
    /// How long it may run in all.
    pub max_time: Option<Duration>,
    pub model: Option<String>,
    pub effort: Option<String>,
    pub allow_tools: Vec<String>,
    pub deny_tools: Vec<String>,
    pub add_dirs: Vec<String>,
    pub mcp_config: Vec<String>,
    /// Whether the turn fails if one of its tool servers does not start.
    pub require_mcp: bool,
    /// The program's own, unless the workflow chose one.
    pub permission_mode: Option<String>,
}

/// The options of a run inside a workflow: what its manifest sets comes before the config file, and after the command
/// line.
pub fn options_in(scope: &Scope, options: &Options) -> Options {
    let manifest = scope.manifest();
    let Defaults { model, effort, timeout, .. } = &manifest.defaults;
    let unless = |is_given: bool, own: &Option<String>, run: &Option<String>| match (is_given, own) {
        (false, Some(own)) => Some(own.clone()),
        _ => run.clone(),
    };
    // Only the command line sets a limit for scripts.
    let timeout = timeout.filter(|_| options.script_timeout_ms.is_none()).map(milliseconds);
    Options {
        backend: unless(options.backend_is_given, &manifest.backend, &options.backend),
        model: unless(options.model_is_given, model, &options.model),
        effort: unless(options.effort_is_given, effort, &options.effort),
        timeout_ms: timeout.or(options.timeout_ms),
        script_timeout_ms: timeout.or(options.script_timeout_ms),
        ..options.clone()
    }
}

fn milliseconds(limit: Limit) -> u64 {
    limit.duration().map_or(0, |limit| u64::try_from(limit.as_millis()).unwrap_or(u64::MAX))
}

/// Reads what a state's file says about its execution. What it leaves open is filled in from the options of the run
/// inside the workflow ([`options_in`]) and from the workflow's defaults.
pub fn read_state(
    state: &StateFile,
    source: &Source,
    options: &Options,
    defaults: &Defaults,
) -> Result<StateText, String> {
    let name = &source.name;
    let text = String::from_utf8_lossy(&source.bytes);
    let wrong = |error: SourceError| {
        let position = source.in_file(&text, error.position);
        format!("{name}: {}", SourceError { position, ..error })
    };
    let (parts, warnings) = match &source.given {
        Given::Beside { plan: Beside::Prompt(settings), warnings, .. } => {
            (prompt((**settings).clone(), &text, options, defaults), warnings.clone())
        }
        Given::Beside { plan: Beside::Script(header), warnings, .. } => {
            (script(header.clone(), options, defaults), warnings.clone())
        }
        Given::InText | Given::InPart { .. } if state.kind().is_prompt() => {
            let parts = frontmatter::split_and_parse(&text).map_err(wrong)?;
            (prompt(parts.settings, parts.body, options, defaults), in_file(source, &text, parts.warnings))
        }
        Given::InText | Given::InPart { .. } => {
            let (header, warnings) = header::parse(state.kind(), &text).map_err(wrong)?;
            (script(header, options, defaults), in_file(source, &text, warnings))
        }
    };
    let (plan, turn, body) = parts;
    turn.iter().try_for_each(check_words).map_err(|error| format!("{name}: {error}"))?;
    let warnings = warnings.iter().map(|warning| format!("{name}: {warning}")).collect();
    Ok(StateText { hash: source.hash(), plan, turn, body, warnings })
}

/// Refuses a setting that an agent program would take for an option of its own: `-m --yolo` chooses no model, but skips permissions.
fn check_words(settings: &TurnSettings) -> Result<(), String> {
    let TurnSettings { model, effort, permission_mode, .. } = settings;
    let words = [("model", model), ("effort", effort), ("permission_mode", permission_mode)];
    let found = words
        .into_iter()
        .find_map(|(key, word)| Some((key, word.as_ref().filter(|word| word.starts_with('-'))?)));
    match found {
        Some((key, word)) => Err(format!(
            "the {key} `{}` begins with `-`, as an option of the agent program does",
            word.escape_debug()
        )),
        None => Ok(()),
    }
}

/// Warnings about a state's text with their places in its file.
fn in_file(source: &Source, text: &str, mut warnings: Vec<SourceWarning>) -> Vec<SourceWarning> {
    for warning in &mut warnings {
        warning.position = source.in_file(text, warning.position);
    }
    warnings
}

type Parts = (Plan, Option<TurnSettings>, String);

/// A script has no time limit unless it sets one, or the command line or its workflow does.
fn script(mut header: Header, options: &Options, defaults: &Defaults) -> Parts {
    let chosen = options.script_timeout_ms.map(Duration::from_millis).filter(|timeout| !timeout.is_zero());
    header.timeout = header.timeout.or(chosen.map(Limit::After));
    header.max_time = header.max_time.or(defaults.max_time);
    header.fatal = header.fatal.or(defaults.fatal);
    (Plan::Script(header), None, String::new())
}

/// The frontmatter overrides the run's options and the workflow's defaults.
fn prompt(settings: Settings, body: &str, options: &Options, defaults: &Defaults) -> Parts {
    let chosen = options.timeout_ms.map(Duration::from_millis).unwrap_or(DEFAULT_TIMEOUT);
    let timeout = match settings.timeout {
        Some(limit) => limit.duration(),
        None => Some(chosen).filter(|timeout| !timeout.is_zero()),
    };
    let timeout_is_chosen = settings.timeout.is_some() || options.timeout_ms.is_some();
    let backends = settings.backend.or(options.backend.clone()).unwrap_or_default();
    let names = backends.split(',').map(str::trim).filter(|name| !name.is_empty());
    let mut backends = names.map(str::to_owned);
    let plan = PromptPlan {
        policy: settings.allowed_transitions,
        force_implicit: settings.force_implicit,
        result_schema: settings.result_schema,
        max_visits: settings.max_visits,
        exclusive: settings.exclusive,
        backend: backends.next().unwrap_or_else(|| DEFAULT_BACKEND.to_owned()),
        model: None,
        fallbacks: backends.collect(),
        may_forget: settings.may_forget,
        program_chooses_session: false,
        continues_in_place: false,
        prompt_sha256: None,
        reply: None,
    };
    let turn = TurnSettings {
        timeout,
        timeout_is_chosen,
        max_time: settings.max_time.or(defaults.max_time).and_then(Limit::duration),
        model: settings.model.or(options.model.clone()),
        effort: settings.effort.or(options.effort.clone()),
        allow_tools: list(settings.allow_tools, &defaults.allow_tools),
        deny_tools: list(settings.deny_tools, &defaults.deny_tools),
        add_dirs: list(settings.add_dirs, &defaults.add_dirs),
        mcp_config: list(settings.mcp_config, &defaults.mcp_config),
        require_mcp: settings.require_mcp.or(defaults.require_mcp).unwrap_or(false),
        permission_mode: defaults.permission_mode.clone(),
    };
    (Plan::Prompt(Box::new(plan)), Some(turn), body.to_owned())
}

fn list(own: Option<Vec<String>>, default: &Option<Vec<String>>) -> Vec<String> {
    own.or_else(|| default.clone()).unwrap_or_default()
}
