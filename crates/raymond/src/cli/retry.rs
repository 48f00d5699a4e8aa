//! `raymond retry`

use raymond_core::input::Input;
use raymond_core::name::AgentId;
use raymond_core::run::{Run, Status};

use super::args::RetryArgs;
use super::choose::{Intent, choose};
use super::find::store;
use super::print::say;
use super::settings::{self, Change};
use super::still::{change, go_on, hold};
use crate::advice;
use crate::error::{ExitKind, UserError};
use crate::run::caller::Caller;

pub(super) fn retry(args: RetryArgs) -> Result<ExitKind, UserError> {
    let layers = settings::read()?;
    let store = store(&args.place)?;
    let stored = choose(&*store, args.run.as_deref(), Intent::Retry)?;
    Caller::Own.outside(&*store, &*stored, "retry")?;
    let means = Change { layers: &layers, is_trusted: args.options.trust, goes_on: !args.no_run };
    let (mut still, _) = hold(&*store, &stored, &args.place, means)?;
    let agents = failed(still.run(), args.agent.as_deref())?;
    change(&mut still, Input::Retry { agents: agents.clone() })?;
    drop(still);
    if !args.options.quiet {
        let names: Vec<&str> = agents.iter().map(AgentId::as_str).collect();
        let verb = if names.len() == 1 { "tries" } else { "try" };
        let when = if args.no_run { " with the next resume" } else { "" };
        say(&format!("{} {verb} again{when}", names.join(", ")));
    }
    go_on(stored.id(), !args.no_run, args.options, args.place)
}

/// The agent that is named, or all that have failed.
fn failed(run: &Run, named: Option<&str>) -> Result<Vec<AgentId>, UserError> {
    let failed: Vec<AgentId> = run.failed_agents().cloned().collect();
    let Some(name) = named else {
        return match failed.is_empty() {
            true => Err(UserError::usage(format!("no agent of {} has failed", run.id))),
            false => Ok(failed),
        };
    };
    let agent = agent(run, name)?;
    match &run.agents[&agent].status {
        Status::Failed { .. } => Ok(vec![agent]),
        _ => Err(UserError::usage(format!("{name} of {} has not failed", run.id)).hint(format!(
            "to send it elsewhere: {}",
            advice::command(&format!("jump {} {name} STATE", run.id))
        ))),
    }
}

/// An agent of the run that has not ended.
pub(super) fn agent(run: &Run, name: &str) -> Result<AgentId, UserError> {
    if let Some(id) = run.agents.keys().find(|id| id.as_str() == name) {
        return Ok(id.clone());
    }
    let names: Vec<&str> = run.agents.keys().map(AgentId::as_str).take(MOST_NAMED).collect();
    let error = UserError::usage(format!("{} has no agent `{name}` that could go on", run.id));
    Err(match names.is_empty() {
        true => error.hint("all its agents have ended"),
        false => error.hint(format!("there are: {}", names.join(", "))),
    })
}

/// How many agents an error names.
const MOST_NAMED: usize = 20;
