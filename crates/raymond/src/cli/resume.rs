//! `raymond resume`

mod elsewhere;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use raymond_core::event::Body;
use raymond_core::input::Input;
use raymond_core::run::{Agent, Options, Run, RunStatus, Status};
use raymond_core::workflow::{Platform, StateFile};

use super::args::ResumeArgs;
use super::changed::show_changes;
use super::choose::{Intent, choose};
use super::declared::check_reachable;
use super::drive::{Manner, Ready, drive, kept_debug_files, tidy_worktrees};
use super::find::{
    all_scopes, journal_options, old_state_file, own_folder, project_folder, scratch_folder, store,
    working_folder, worktrees,
};
use super::options::override_with;
use super::print::{print_result, print_stdout, say};
use super::rewound::finish_rewind;
use super::settings;
use super::settled::{check_folders, settle};
use super::staging::{Staging, config_of_test, stage};
use crate::agent::registry::Backends;
use crate::config::Settings;
use crate::error::{ExitKind, UserError};
use crate::history::conversations::{deleted, forgotten};
use crate::process::Reaper;
use crate::run::caller::Caller;
use crate::run::engine::Engine;
use crate::run::recovery::take_over;
use crate::store::{Opened, RunHandle, Start};
use crate::view::json::event_line;
use crate::workflow::scope::Scope;

pub(super) fn resume(args: ResumeArgs) -> Result<ExitKind, UserError> {
    let stage = stage(&args.options)?;
    let layers = stage.is_none().then(settings::read).transpose()?.unwrap_or_default();
    let store = store(&args.place)?;
    let old_file =
        |error| args.run.as_ref().and_then(|run| old_state_file(&args.place, run)).unwrap_or(error);
    let stored = choose(&*store, args.run.as_deref(), Intent::Resume).map_err(old_file)?;
    if !args.diff {
        Caller::Own.outside(&*store, &*stored, "resume")?;
    }
    if let Some(mark) = stored.try_elsewhere()? {
        return elsewhere::resume(&args, store.into(), &*stored, &mark, &layers);
    }
    if args.diff {
        return show_changes(&stored.load()?);
    }
    let scratch = scratch_folder(&args.place, stored.id())?;
    let Opened { writer, run, moved, cut_bytes } =
        stored.open(journal_options(&layers.harmless(None)?.raymond))?;
    finish_rewind(&*store, &*stored, &run, &args.place)?;
    if run.status == RunStatus::Completed {
        tidy_worktrees(&run, &worktrees(&args.place, stored.id())?, args.options.quiet);
        return show_completed(&args, &run, &*stored);
    }
    if let Some(moved) = &moved {
        settle(&run, moved, args.options.quiet)?;
    }
    check_folders(&*store, &run)?;
    let mut scope = open_scope(&run)?;
    let config = match &stage {
        Some(stage) => config_of_test(stage),
        None => settings::of_resume(&layers, scope.path(), args.options.trust)?,
    };
    let settings = &config.raymond;
    let options = override_with(&args.options, run.options.clone());
    let staging = Staging::new(stage, &options)?;
    let backends = staging.backends(Backends::new(&config)?);
    check_what_is_ahead(&run, &mut scope, &options, settings, &backends)?;
    let forgotten = forgotten(deleted(&run, &backends), args.fresh)?;
    let reaper = Reaper::start()
        .map_err(|error| UserError::failed(format!("cannot watch over processes: {error}")))?;
    let manner = Manner::new(&args.options, &args.place, settings, stored.id());
    let kept = kept_debug_files(&args.place, stored.id());
    let (interrupted, warnings) = take_over(&run, &stored.identity(), &scratch, &reaper, &kept, &backends)?;
    let mut opening = vec![Input::Resume {
        options: Box::new(options.clone()),
        interrupted,
        forgotten,
        moved: moved.map(Box::new),
    }];
    opening.extend(warnings);
    opening.extend(Some(cut_bytes).filter(|bytes| *bytes > 0).map(torn));
    if !args.options.quiet
        && let Some(line) = workers_again(&run)
    {
        say(&line);
    }
    let incarnation = writer.incarnation().to_owned();
    let worktrees = worktrees(&args.place, stored.id())?;
    let cwd = Path::new(&run.cwd);
    let scopes = all_scopes(scope, settings, cwd, &run.labels)?.with_worktrees(worktrees.of_run_in(cwd));
    let project = project_folder(&working_folder()?);
    staging.complete_recording(&*stored, &args.place, &project)?;
    let staged = staging.go_on(&run, &*stored, &project)?;
    drive(Ready {
        staged,
        engine: Engine::take_up(run, writer),
        unseen: Vec::new(),
        opening,
        scopes,
        manner,
        run: stored,
        own_folder: own_folder(&args.place)?,
        scratch,
        reaper,
        backends,
        options,
        incarnation,
    })
}

/// How many failed workers of a fan-out the resume runs again; nothing if there are none.
fn workers_again(run: &Run) -> Option<String> {
    let is_failed = |agent: &&Agent| agent.parent.is_some() && matches!(agent.status, Status::Failed { .. });
    match run.agents.values().filter(is_failed).count() {
        _ if run.retries_are_named => None,
        0 => None,
        1 => Some("1 failed worker runs again".to_owned()),
        more => Some(format!("{more} failed workers run again")),
    }
}

/// A warning about the end of the journal that the last process was still writing when it died. Nothing had been done
/// because of it.
fn torn(bytes: u64) -> Input {
    let message = format!("the journal ended in {bytes} bytes of an unfinished write, which were cut off");
    Input::Warning { agent: None, message }
}

/// The run's workflow. An archive must be the same as when the run began: it has one hash, so it is not known which of
/// its states changed.
fn open_scope(run: &Run) -> Result<Scope, UserError> {
    let scope = Scope::open(Path::new(&run.scope), Platform::current())
        .map_err(|error| error.hint(format!("the run {} needs its workflow; put it back", run.id)))?;
    if scope.hash() != run.scope_hash.as_deref() {
        return Err(changed(&run.scope, run, "began"));
    }
    for (path, hash) in run.entered_archives() {
        // A missing archive is reported by the step that needs it.
        let other = Scope::open(Path::new(path), Platform::current());
        if other.is_ok_and(|other| other.hash() != Some(hash)) {
            return Err(changed(path, run, "entered it"));
        }
    }
    Ok(scope)
}

/// Checks the states from which agents go on, as before a new run: their files may have changed. What is only worth a
/// warning was one when the run began. Returns the workflows that can be reached.
fn check_what_is_ahead(
    run: &Run,
    scope: &mut Scope,
    options: &Options,
    settings: &Settings,
    backends: &Backends,
) -> Result<Vec<PathBuf>, UserError> {
    let mut ahead: BTreeMap<Option<&str>, BTreeSet<StateFile>> = BTreeMap::new();
    for agent in run.agents.values() {
        ahead.entry(agent.scope.as_deref()).or_default().insert(agent.state.clone());
        for frame in &agent.stack {
            ahead.entry(frame.scope.as_deref()).or_default().insert(frame.return_to.clone());
        }
    }
    let own = ahead.remove(&None).unwrap_or_default();
    let others = ahead.into_iter().filter_map(|(path, states)| {
        // A missing workflow is reported by the step that needs it.
        Some((Scope::open(Path::new(path?), Platform::current()).ok()?, states))
    });
    let checked = check_reachable(scope, &own, others.collect(), options, settings, backends, false)?;
    Ok(checked.reached)
}

fn changed(archive: &str, run: &Run, since: &str) -> UserError {
    UserError::usage(format!("{archive} has changed since the run {} {since}", run.id))
        .hint("put the archive back as it was, or start a new run")
}

/// Prints the result of a completed run again.
fn show_completed(args: &ResumeArgs, run: &Run, stored: &dyn RunHandle) -> Result<ExitKind, UserError> {
    let payloads = stored.payloads();
    if !args.options.json {
        if !args.options.quiet {
            say(&format!("{} is completed already; this is its result", run.id));
        }
        print_result(run, &payloads)?;
        return Ok(ExitKind::Completed);
    }
    let mut events = stored.events(Start::LATEST_SNAPSHOT)?;
    let mut last = None;
    while let Some(batch) = events.next_batch()? {
        last = batch.into_iter().rfind(|event| matches!(event.body, Body::RunFinished { .. })).or(last);
    }
    if let Some(event) = last {
        let line = event_line(&event, &payloads).unwrap_or_default();
        print_stdout(format!("{line}\n").as_bytes())?;
    }
    Ok(ExitKind::Completed)
}
