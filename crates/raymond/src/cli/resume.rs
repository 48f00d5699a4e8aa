//! `raymond resume`

use std::path::Path;

use raymond_core::event::{Body, Interrupted};
use raymond_core::input::Input;
use raymond_core::run::{Run, RunStatus, Status};
use raymond_core::workflow::Platform;

use super::args::ResumeArgs;
use super::drive::{Manner, Ready, drive};
use super::find::{acquire, find_run, journal_options, load_config, state_dir};
use super::options::override_with;
use super::print::{print_result, print_stdout};
use crate::backend::registry::Backends;
use crate::engine::Engine;
use crate::error::{Exit, UserError};
use crate::journal_store::{JournalStore, fold, to_event};
use crate::observe::json::event_line;
use crate::process::Reaper;
use crate::scope::Scope;
use crate::step::{leftovers, token};
use crate::store::{Journal, Payloads, RunPaths, Tail};

pub(super) fn resume(args: ResumeArgs) -> Result<Exit, UserError> {
    let config = load_config()?;
    let settings = &config.raymond;
    let backends = Backends::new(&config.backend)?;
    let dir = state_dir(&args.place)?;
    let paths = find_run(&dir, args.run.as_deref())?;
    let lock = acquire(&paths)?;
    let incarnation = lock.incarnation().to_owned();
    let journal_options = journal_options(settings);
    let (journal, tail) =
        Journal::open(&paths, journal_options, &lock).map_err(|error| UserError::usage(error.to_string()))?;
    let run = fold(&paths, &tail.lines)?;
    let payloads = Payloads::new(paths.payloads(), journal_options.durability);
    if run.status == RunStatus::Completed {
        return show_completed(&args, &run, &paths, &payloads, &tail);
    }
    let scope = open_scope(&run)?;
    let reaper = Reaper::start()
        .map_err(|error| UserError::failed(format!("cannot watch over processes: {error}")))?;
    let interrupted = end_leftovers(&run, &paths, &reaper)?;
    let options = override_with(&args.options, run.options.clone());
    let opening = vec![Input::Resume { options: options.clone(), interrupted }];
    drive(Ready {
        engine: Engine::take_up(run, JournalStore::new(journal, payloads.clone(), lock)),
        unseen: Vec::new(),
        opening,
        scope,
        paths,
        payloads,
        reaper,
        backends,
        options,
        incarnation,
        manner: Manner::new(&args.options, settings),
    })
}

/// The run's workflow. An archive must be the one that the run began with: its parts cannot be told apart.
fn open_scope(run: &Run) -> Result<Scope, UserError> {
    let scope = Scope::open(Path::new(&run.scope), Platform::current())
        .map_err(|error| error.hint(format!("the run {} needs its workflow; put it back", run.id)))?;
    if scope.hash() == run.scope_hash.as_deref() {
        return Ok(scope);
    }
    Err(UserError::usage(format!("{} has changed since the run {} began", run.scope, run.id))
        .hint("put the archive back as it was, or start a new run"))
}

/// Ends what is left of steps that were running when the last process died, so that none gets a twin.
fn end_leftovers(run: &Run, paths: &RunPaths, reaper: &Reaper) -> Result<Vec<Interrupted>, UserError> {
    let mut targets = Vec::new();
    let mut interrupted = run.interrupted();
    for agent in run.agents_by_birth() {
        if let Status::Running { work, .. } = &agent.status {
            targets.push(leftovers(paths, &agent.id, token(&run.nonce, work.step, work.attempt)));
            interrupted.push(Interrupted {
                agent: agent.id.clone(),
                step: work.step,
                state: agent.state.clone(),
                estimated_cost_usd: Default::default(),
            });
        }
    }
    if targets.is_empty() {
        return Ok(interrupted);
    }
    let survivors = reaper.end_blocking(targets);
    if survivors.is_empty() {
        return Ok(interrupted);
    }
    Err(UserError::failed(format!("processes of the interrupted steps could not be ended: {survivors:?}"))
        .hint("end them yourself, then resume again"))
}

/// A run that is over has nothing left to do but to say its result again.
fn show_completed(
    args: &ResumeArgs,
    run: &Run,
    paths: &RunPaths,
    payloads: &Payloads,
    tail: &Tail,
) -> Result<Exit, UserError> {
    if !args.options.json {
        print_result(run, payloads)?;
        return Ok(Exit::Completed);
    }
    for line in tail.lines.iter().rev() {
        let event = to_event(paths, line)?;
        if matches!(event.body, Body::RunFinished { .. }) {
            let line = event_line(&event, payloads).unwrap_or_default();
            print_stdout(format!("{line}\n").as_bytes())?;
            break;
        }
    }
    Ok(Exit::Completed)
}
