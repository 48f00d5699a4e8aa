//! Reading a state when its step starts, so that an edit on disk counts from the next step on.

mod preflight;

use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;

use raymond_core::duration::Limit;
use raymond_core::frontmatter::{self, Settings};
use raymond_core::header;
use raymond_core::input::{Plan, Prepared, PromptPlan};
use raymond_core::run::{Agent, Options};
use raymond_core::workflow::StateFile;
use raymond_core::workflow::source::{SourceError, SourceWarning};

pub use preflight::check_all;

use crate::agent::DEFAULT_BACKEND;
use crate::agent::registry::Backends;
use crate::run::engine::States;
use crate::run::step::as_it_lies;
use crate::workflow::scope::{Beside, Given, Scope, Source};
use crate::workflow::scopes::Scopes;

/// How long an agent program may be silent when nobody chose a time.
const DEFAULT_TIMEOUT: Duration = Duration::from_secs(30 * 60);

/// The states of a run's scope.
pub struct ScopeStates {
    pub scopes: Rc<RefCell<Scopes>>,
    pub options: Options,
    pub backends: Backends,
}

impl States for ScopeStates {
    fn prepare(&mut self, agent: &Agent) -> Result<Prepared, String> {
        let mut scopes = self.scopes.borrow_mut();
        let needed = |error| format!("{error} ({} needs it)", agent.id);
        let scope = scopes.of(agent).map_err(needed)?;
        let source = scope.read(&agent.state).map_err(needed)?;
        let prepared = match agent.scope.is_some() {
            true => prepare(&agent.state, &source, &options_in(scope, &self.options)),
            false => prepare(&agent.state, &source, &self.options),
        };
        let prepared = prepared.map(|prepared| for_program(prepared, &self.backends));
        let ready = as_it_lies(agent.state.kind(), &source).filter(|_| prepared.is_ok());
        scopes.set_ready(&agent.id, ready);
        prepared
    }
}

/// What a turn's beginning depends on besides its state: what the backend's program can do. A backend that is not there
/// fails the step when it comes to its turn.
fn for_program(mut prepared: Prepared, backends: &Backends) -> Prepared {
    if let Plan::Prompt(prompt) = &mut prepared.plan
        && let Ok(program) = backends.get(&prompt.backend)
    {
        prompt.program_chooses_session = !program.capabilities().own_session_id;
    }
    prepared
}

/// The options of a run as they are in another workflow: that was written for a backend of its own. The command line
/// comes before it.
fn options_in(scope: &Scope, options: &Options) -> Options {
    let own = scope.manifest().backend.clone().filter(|_| !options.backend_is_given);
    Options { backend: own.or(options.backend.clone()), ..options.clone() }
}

/// What a state's file says about its execution, with everything that it leaves open chosen.
fn prepare(state: &StateFile, source: &Source, options: &Options) -> Result<Prepared, String> {
    let name = &source.name;
    let text = String::from_utf8_lossy(&source.bytes);
    let wrong = |error: SourceError| {
        let position = source.in_file(&text, error.position);
        format!("{name}: {}", SourceError { position, ..error })
    };
    let prompt = |settings, body: &str| Plan::Prompt(Box::new(prompt_plan(settings, body, options)));
    let (plan, warnings) = match &source.given {
        Given::Beside { plan: Beside::Prompt(settings), warnings, .. } => {
            (prompt((**settings).clone(), &text), warnings.clone())
        }
        Given::Beside { plan: Beside::Script(header), warnings, .. } => {
            (Plan::Script(header.clone()), warnings.clone())
        }
        Given::InText | Given::InPart { .. } if state.kind().is_prompt() => {
            let parts = frontmatter::split_and_parse(&text).map_err(wrong)?;
            (prompt(parts.settings, parts.body), in_file(source, &text, parts.warnings))
        }
        Given::InText | Given::InPart { .. } => {
            let (header, warnings) = header::parse(state.kind(), &text).map_err(wrong)?;
            (Plan::Script(header), in_file(source, &text, warnings))
        }
    };
    let plan = with_chosen_timeout(plan, options);
    let warnings = warnings.iter().map(|warning| format!("{name}: {warning}")).collect();
    Ok(Prepared { hash: source.hash(), plan, warnings })
}

/// Warnings about a state's text with their places in its file.
fn in_file(source: &Source, text: &str, mut warnings: Vec<SourceWarning>) -> Vec<SourceWarning> {
    for warning in &mut warnings {
        warning.position = source.in_file(text, warning.position);
    }
    warnings
}

/// A script has no time limit unless it sets one, or the command line does.
fn with_chosen_timeout(mut plan: Plan, options: &Options) -> Plan {
    if let Plan::Script(header) = &mut plan {
        let chosen =
            options.script_timeout_ms.map(Duration::from_millis).filter(|timeout| !timeout.is_zero());
        header.timeout = header.timeout.or(chosen.map(Limit::After));
    }
    plan
}

/// The frontmatter comes before the run's options, which hold what the command line and the config file say.
fn prompt_plan(settings: Settings, body: &str, options: &Options) -> PromptPlan {
    let chosen = options.timeout_ms.map(Duration::from_millis).unwrap_or(DEFAULT_TIMEOUT);
    let timeout = match settings.timeout {
        Some(limit) => limit.duration(),
        None => Some(chosen).filter(|timeout| !timeout.is_zero()),
    };
    PromptPlan {
        body: body.to_owned(),
        policy: settings.allowed_transitions,
        force_implicit: settings.force_implicit,
        max_visits: settings.max_visits,
        timeout,
        max_time: settings.max_time.and_then(Limit::duration),
        backend: settings.backend.or(options.backend.clone()).unwrap_or_else(|| DEFAULT_BACKEND.to_owned()),
        program_chooses_session: false,
        model: settings.model.or(options.model.clone()),
        effort: settings.effort.or(options.effort.clone()),
        allow_tools: settings.allow_tools,
        deny_tools: settings.deny_tools,
        add_dirs: settings.add_dirs,
        mcp_config: settings.mcp_config,
    }
}
