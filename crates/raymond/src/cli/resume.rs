//! `raymond resume`

use std::path::Path;

use raymond_core::event::Body;
use raymond_core::input::Input;
use raymond_core::run::{Run, RunStatus};
use raymond_core::workflow::Platform;

use super::args::ResumeArgs;
use super::drive::{Manner, Ready, drive, kept_debug_files};
use super::find::{acquire, all_scopes, find_run, journal_options, load_config, state_dir};
use super::options::override_with;
use super::print::{print_result, print_stdout, say};
use crate::agent::registry::Backends;
use crate::error::{Exit, UserError};
use crate::process::Reaper;
use crate::run::engine::Engine;
use crate::run::recovery::take_over;
use crate::store::events::{Folding, JournalStore, to_event};
use crate::store::{Journal, Payloads, RunPaths, Torn, read_tail};
use crate::view::json::event_line;
use crate::workflow::scope::Scope;

pub(super) fn resume(args: ResumeArgs) -> Result<Exit, UserError> {
    let config = load_config()?;
    let settings = &config.raymond;
    let backends = Backends::new(&config.backend)?;
    let dir = state_dir(&args.place)?;
    let paths = find_run(&dir, args.run.as_deref())?;
    let lock = acquire(&paths)?;
    let incarnation = lock.incarnation().to_owned();
    let journal_options = journal_options(settings);
    let mut folding = Folding::new(&paths);
    let (journal, tail) =
        Journal::open_visiting(&paths, journal_options, &lock, &mut |line| folding.take(&line))
            .map_err(|error| UserError::usage(error.to_string()))?;
    let run = folding.finish()?;
    let payloads = Payloads::new(paths.payloads(), journal_options.durability);
    if run.status == RunStatus::Completed {
        return show_completed(&args, &run, &paths, &payloads);
    }
    let scope = open_scope(&run)?;
    let reaper = Reaper::start()
        .map_err(|error| UserError::failed(format!("cannot watch over processes: {error}")))?;
    let manner = Manner::new(&args.options, settings, paths.id());
    let (interrupted, warnings) = take_over(&run, &paths, &reaper, &kept_debug_files(paths.id()), &backends)?;
    let options = override_with(&args.options, run.options.clone());
    let mut opening = vec![Input::Resume { options: options.clone(), interrupted }];
    opening.extend(warnings);
    opening.extend(tail.torn.as_ref().map(torn));
    drive(Ready {
        engine: Engine::take_up(run, JournalStore::new(journal, payloads.clone(), lock)),
        unseen: Vec::new(),
        opening,
        scopes: all_scopes(scope, settings)?,
        manner,
        paths,
        payloads,
        reaper,
        backends,
        options,
        incarnation,
    })
}

/// What the last process was writing when it died was never acted on.
fn torn(torn: &Torn) -> Input {
    let message =
        format!("the journal ended in {} bytes of an unfinished write, which were cut off", torn.bytes);
    Input::Warning { agent: None, message }
}

/// The run's workflow. An archive must be the one that the run began with: its parts cannot be told apart.
fn open_scope(run: &Run) -> Result<Scope, UserError> {
    let scope = Scope::open(Path::new(&run.scope), Platform::current())
        .map_err(|error| error.hint(format!("the run {} needs its workflow; put it back", run.id)))?;
    if scope.hash() != run.scope_hash.as_deref() {
        return Err(changed(&run.scope, run, "began"));
    }
    for (path, hash) in run.entered_archives() {
        // One that is gone is missed when it is needed, and by whom.
        let other = Scope::open(Path::new(path), Platform::current());
        if other.is_ok_and(|other| other.hash() != Some(hash)) {
            return Err(changed(path, run, "entered it"));
        }
    }
    Ok(scope)
}

fn changed(archive: &str, run: &Run, since: &str) -> UserError {
    UserError::usage(format!("{archive} has changed since the run {} {since}", run.id))
        .hint("put the archive back as it was, or start a new run")
}

/// A run that is over has nothing left to do but to say its result again.
fn show_completed(
    args: &ResumeArgs,
    run: &Run,
    paths: &RunPaths,
    payloads: &Payloads,
) -> Result<Exit, UserError> {
    if !args.options.json {
        if !args.options.quiet {
            say(&format!("{} is completed already; this is its result", run.id));
        }
        print_result(run, payloads)?;
        return Ok(Exit::Completed);
    }
    let tail = read_tail(paths).map_err(|error| UserError::usage(error.to_string()))?;
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
