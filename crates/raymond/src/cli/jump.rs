//! `raymond jump`

use std::path::Path;

use raymond_core::input::Input;
use raymond_core::run::Agent;
use raymond_core::workflow::{Platform, StateFile};

use super::args::JumpArgs;
use super::choose::{Intent, choose};
use super::find::store;
use super::print::say;
use super::retry::agent;
use super::run::read_input;
use super::settings::{self, Change};
use super::still::{change, go_on, hold};
use crate::error::{ExitKind, UserError};
use crate::run::caller::Caller;
use crate::workflow::scope::Scope;

pub(super) fn jump(args: JumpArgs) -> Result<ExitKind, UserError> {
    let layers = settings::read()?;
    let store = store(&args.place)?;
    let stored = choose(&*store, Some(&args.run), Intent::Change)?;
    Caller::Own.outside(&*store, &*stored, "jump")?;
    let means = Change { layers: &layers, is_trusted: args.options.trust, goes_on: !args.no_run };
    let (mut still, _) = hold(&*store, &stored, &args.place, means)?;
    let id = agent(still.run(), &args.agent)?;
    let target = state(&still.run().agents[&id], &still.run().scope, &args.state)?;
    let input = args.input.as_deref().map(read_input).transpose()?;
    change(&mut still, Input::Jump { agent: id, target: target.clone(), input })?;
    drop(still);
    if !args.options.quiet {
        let when = if args.no_run { " with the next resume" } else { "" };
        say(&format!("{} goes on in {target}{when}", args.agent));
    }
    go_on(stored.id(), !args.no_run, args.options, args.place)
}

/// A state of the workflow that the agent is in.
fn state(agent: &Agent, own: &str, name: &str) -> Result<StateFile, UserError> {
    let path = agent.scope.as_deref().unwrap_or(own);
    let mut scope = Scope::open(Path::new(path), Platform::current())?;
    let state = scope.resolve(name).map_err(UserError::usage)?;
    scope.read(&state).map_err(UserError::usage)?;
    Ok(state)
}
