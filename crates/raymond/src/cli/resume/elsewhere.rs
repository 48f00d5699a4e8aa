//! `raymond resume` of a run that other machines carry out.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use raymond_core::run::{Options, Run, RunStatus};
use raymond_core::workflow::Platform;

use super::{check_what_is_ahead, open_scope, show_completed};
use crate::advice;
use crate::agent::registry::Backends;
use crate::cli::args::{ResumeArgs, RunOptions};
use crate::cli::changed::show_changes;
use crate::cli::drive::Manner;
use crate::cli::elsewhere::ended_there;
use crate::cli::find::allowed_scopes;
use crate::cli::follow;
use crate::cli::options::{self, override_with};
use crate::cli::print::{print_stdout, say};
use crate::cli::settings;
use crate::config::{Config, Layers, Settings};
use crate::error::{ExitKind, UserError};
use crate::fleet::{Address, Resume, Workflows};
use crate::paths::shown;
use crate::store::{Elsewhere, RunHandle, RunStore};
use crate::workflow::scope::{Form, Scope, host_of};
use crate::workflow::states::check_all;

/// Lets the run go on where it is, and follows it.
pub(super) fn resume(
    args: &ResumeArgs,
    store: Arc<dyn RunStore>,
    stored: &dyn RunHandle,
    mark: &Elsewhere,
    layers: &Layers,
) -> Result<ExitKind, UserError> {
    let at = Address::parse(&mark.engine).map_err(UserError::usage)?;
    if !args.diff && stored.load()?.status != RunStatus::Completed && ended_there(stored).is_none() {
        follow::look_before_resume(&store, stored.id(), &at)?;
    }
    let run = stored.load()?;
    if args.diff {
        return diff(&run);
    }
    refuse_recordings(&args.options, &run.id, &at)?;
    if run.status == RunStatus::Completed {
        return show_completed(args, &run, stored);
    }
    if let Some(ended) = ended_there(stored) {
        return Err(UserError::usage(ended).hint("start the workflow again with `raymond run`"));
    }
    if let Some(mark) = stored.elsewhere()
        && let Some(why) = mark.why_wedged()
    {
        let error = format!("{} is wedged on {at}, so it does not go on there: {why}", run.id);
        let branch = advice::command(&format!("branch {} --at STEP", run.id));
        return Err(UserError::failed(error)
            .hint(format!("go on here from what has finished, as another run: {branch}"))
            .hint(format!("end it there: temporal workflow terminate --workflow-id {}", run.id)));
    }
    if stored.elsewhere().is_some_and(|mark| mark.is_open) {
        return Err(UserError::usage(format!("{} is running on {at}", run.id))
            .hint(format!("see it: {}", advice::command(&format!("log --follow {}", run.id)))));
    }
    let config = &settings::of_resume(layers, Path::new(&run.scope), args.options.trust)?;
    let options = override_with(&args.options, run.options.clone());
    let options = options::elsewhere(&args.options, &config.raymond, options);
    let workflows = workflows_here(&run, &options, config)?;
    if workflows.is_none() && !args.options.quiet {
        say(&format!("{}; {} goes on with the states that it has", not_here(&run), run.id));
    }
    let manner = Manner::elsewhere(&args.options, &args.place, &config.raymond, &run.id);
    // Without a choice the run waits for answers as it did before, unless they are typed here.
    let is_chosen = args.options.on_ask.or(config.raymond.on_ask).is_some() || manner.asks_here();
    let waits_for_answers = is_chosen.then(|| manner.waits_for_answers());
    follow::resume(&store, &run.id, &at, &Resume { options, waits_for_answers, workflows })?;
    follow::follow(&store, &run.id, run.seq, manner)
}

/// Turns are recorded and replayed by the process that drives the run.
fn refuse_recordings(options: &RunOptions, run: &str, at: &Address) -> Result<(), UserError> {
    match options.record.is_some() || options.replay.is_some() {
        true => Err(UserError::usage(format!("{run} is carried out by {at}"))
            .hint("only a run on this machine can be recorded or replayed; `raymond record` makes a recording of it")),
        false => Ok(()),
    }
}

/// Says which states a resume from here would change.
fn diff(run: &Run) -> Result<ExitKind, UserError> {
    if is_here(run) {
        return show_changes(run);
    }
    print_stdout(format!("{}; a resume from here changes no state\n", not_here(run)).as_bytes())?;
    Ok(ExitKind::Completed)
}

fn not_here(run: &Run) -> String {
    format!("{} is not on this machine", shown(Path::new(&run.scope)).display())
}

fn is_here(run: &Run) -> bool {
    let path = Path::new(&run.scope);
    Form::of(path).is_some() || host_of(path).is_some()
}

/// The run's workflows as they are on this machine, checked as before a local resume; nothing if they are not here.
fn workflows_here(run: &Run, options: &Options, config: &Config) -> Result<Option<Workflows>, UserError> {
    if !is_here(run) {
        return Ok(None);
    }
    let mut scope = open_scope(run)?;
    let backends = Backends::new(config)?;
    let options = known_here(options, &backends);
    let mut scopes = check_what_is_ahead(run, &mut scope, &options, &config.raymond, &backends)?;
    scopes.extend(named_before(run, &options, &config.raymond, &backends));
    let Settings { workflow_paths, cd_paths, .. } = config.raymond.clone();
    Ok(Some(Workflows { scopes, workflow_paths, cd_paths }))
}

/// The options that states are checked with here. Only workers may know the backend that was chosen for the run. They read the
/// states again, and say what is wrong with it.
fn known_here(options: &Options, backends: &Backends) -> Options {
    let names = options.backend.as_deref().unwrap_or_default().split(',').map(str::trim);
    if names.filter(|name| !name.is_empty()).all(|name| backends.get(name).is_ok()) {
        return options.clone();
    }
    Options {
        backend: None,
        backend_is_given: false,
        model: None,
        model_is_given: false,
        effort: None,
        effort_is_given: false,
        ..options.clone()
    }
}

/// The workflows that can be reached from the run's first state. An agent that is past the state that names one may still
/// enter it. States that no agent is ahead of may have mistakes.
fn named_before(run: &Run, options: &Options, settings: &Settings, backends: &Backends) -> Vec<PathBuf> {
    let Ok(mut scope) = Scope::open(Path::new(&run.scope), Platform::current()) else { return Vec::new() };
    let Ok(allowed) = allowed_scopes(&scope, settings) else { return Vec::new() };
    let first = BTreeSet::from([run.entry.clone()]);
    let found = check_all(&mut scope, &first, Vec::new(), options, backends, &allowed);
    found.map_or_else(|_| Vec::new(), |found| found.into_iter().map(|part| part.path).collect())
}
