//! `raymond run`, and `raymond WORKFLOW`

use std::collections::{BTreeMap, BTreeSet};
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use raymond_core::decide;
use raymond_core::event::{Body, FORMAT_VERSION, RunStarted};
use raymond_core::limits::MAX_TAG_BYTES;
use raymond_core::named_inputs::{InputProblem, fill_in};
use raymond_core::run::Options;
use raymond_core::template::{name_and_path, placeholders};
use raymond_core::workflow::{Platform, StateFile};

use super::args::{Budget, RunArgs};
use super::declared::{Checked, check_reachable};
use super::drive::{Manner, Ready, drive};
use super::find::{
    all_scopes, debug_folder, journal_options, own_folder, project_folder, scratch_folder, store,
    working_folder, worktrees,
};
use super::follow::{self, engine_named};
use super::inputs::{ask_for_missing, refused};
use super::meant::hint_at_what_was_meant;
use super::options::{self, for_new_run};
use super::settings;
use super::staging::{Staging, config_of_test, stage};
use crate::agent::registry::Backends;
use crate::error::{ExitKind, UserError};
use crate::fleet::{Address, NewRun};
use crate::paths::shown;
use crate::process::Reaper;
use crate::run::driver::now;
use crate::run::engine::Engine;
use crate::store::{JournalOptions, RunStore, RunWriter, StoreError};
use crate::trust::workflows::check_content;
use crate::workflow::given_inputs::readable_file;
use crate::workflow::labels::check_labels;
use crate::workflow::manifest::{InputMode, InputRule};
use crate::workflow::scope::{Located, Scope, Source, locate};
use crate::workflow::scopes::declared_inputs;

/// How many ids are tried if they are taken.
const ID_TRIES: usize = 5;

pub(super) fn run(args: RunArgs) -> Result<ExitKind, UserError> {
    let Some(workflow) = &args.workflow else {
        return Err(UserError::usage("no workflow given")
            .hint("raymond WORKFLOW, where it is a folder or a state file"));
    };
    if let Some(Budget::More(dollars)) = args.options.budget {
        return Err(UserError::usage("a new run has no budget yet that could be raised")
            .hint(format!("give it one: --budget {dollars}")));
    }
    let cwd = working_folder()?;
    let stage = stage(&args.options)?;
    let layers = stage.is_none().then(settings::read).transpose()?.unwrap_or_default();
    let mut located = locate(workflow, &cwd, Platform::current())
        .map_err(|error| hint_at_what_was_meant(error, workflow, &cwd))?;
    let config = match &stage {
        Some(stage) => config_of_test(stage),
        None => {
            let engine = args.engine.on.as_deref();
            settings::of_new_run(&layers, &located.scope, engine, &args.options)?
        }
    };
    let settings = &config.raymond;
    let manifest = located.scope.manifest().clone();
    let mut options = for_new_run(&args.options, &manifest, settings);
    let is_elsewhere = args.engine.on.is_some();
    if is_elsewhere {
        options = options::elsewhere(&args.options, settings, options);
    }
    let staging = Staging::new(stage, &options)?;
    let backends = staging.backends(Backends::new(&config)?);
    let source = located.scope.read(&located.entry).map_err(UserError::usage)?;
    let has_input = args.input.is_some() || args.handed.input.is_some();
    let empty = if has_input { None } else { used_input(&located.entry, &source) };
    let entries = BTreeSet::from([located.entry.clone()]);
    let Checked { reached, warnings } = check_reachable(
        &mut located.scope,
        &entries,
        Vec::new(),
        &options,
        settings,
        &backends,
        is_elsewhere,
    )?;
    // What was read up to here is part of the content.
    let expected = args.trusted_content.as_ref();
    expected.map_or(Ok(()), |expected| check_content(located.scope.path(), expected))?;
    check_input(&manifest.input, has_input, workflow)?;
    let inputs = named_inputs(&args, workflow, &located.scope, &cwd)?;
    let cwd = first_folder(&located.scope, cwd)?;
    let input = match &args.handed.input {
        Some(text) => Some(as_input(text.as_bytes())?),
        None => args.input.as_deref().map(read_input).transpose()?,
    };
    let started = run_started(&args, &located, &cwd, inputs, options.clone())?;
    let mut opening = decide::start(started, input);
    opening.extend(manifest_warnings(&located.scope).chain(warnings).chain(empty).map(warning));
    let project = project_folder(&working_folder()?);
    if let Some(engine) = &args.engine.on {
        let engine = engine_named(engine, &config)?;
        let id = ids(args.id.as_deref(), || located.scope.new_run_id()).next().unwrap_or_default();
        let debug_folder = debug_folder(&args.place, &id).filter(|_| !options.no_debug).map(|(_, path)| path);
        let manner = Manner::elsewhere(&args.options, &args.place, &config.raymond, &id);
        let waits_for_answers = manner.waits_for_answers();
        let scopes = reached;
        let new = NewRun { id, opening, project, cwd, scopes, debug_folder, config, waits_for_answers };
        return run_elsewhere(&args, &engine, &new, manner);
    }
    let store = store(&args.place)?;
    let (id, writer) = begin(
        &*store,
        ids(args.id.as_deref(), || located.scope.new_run_id()),
        staging.journal_options(journal_options(settings)),
    )?;
    let incarnation = writer.incarnation().to_owned();
    let reaper = Reaper::start()
        .map_err(|error| UserError::failed(format!("cannot watch over processes: {error}")))?;
    let (engine, unseen) =
        Engine::create(&id, now(), opening, writer).map_err(|error| UserError::failed(error.to_string()))?;
    drive(Ready {
        staged: staging.begin(&project)?,
        engine,
        unseen,
        opening: Vec::new(),
        scopes: all_scopes(located.scope, settings, &cwd, &args.labels.iter().cloned().collect())?
            .with_worktrees(worktrees(&args.place, &id)?.of_run_in(&cwd)),
        manner: Manner::new(&args.options, &args.place, settings, &id),
        run: store.run(&id)?,
        own_folder: own_folder(&args.place)?,
        scratch: scratch_folder(&args.place, &id)?,
        reaper,
        backends,
        options,
        incarnation,
    })
}

/// Starts the run on other machines, and follows it.
fn run_elsewhere(
    args: &RunArgs,
    engine: &Address,
    new: &NewRun,
    manner: Manner,
) -> Result<ExitKind, UserError> {
    let store: Arc<dyn RunStore> = store(&args.place)?.into();
    if store.list()?.iter().any(|entry| entry.run.id() == new.id) {
        return Err(StoreError::Exists { run: new.id.clone() }.into());
    }
    follow::start(&store, engine, new)?;
    match args.engine.detach {
        true => follow::leave(&new.id),
        false => follow::follow(&store, &new.id, 0, manner),
    }
}

fn run_started(
    args: &RunArgs,
    located: &Located,
    cwd: &Path,
    inputs: BTreeMap<String, String>,
    options: Options,
) -> Result<RunStarted, UserError> {
    let labels: BTreeMap<String, String> = args.labels.iter().cloned().collect();
    check_labels(&labels).map_err(UserError::usage)?;
    Ok(RunStarted {
        version: FORMAT_VERSION,
        workflow: located.given.clone(),
        scope: as_text(located.scope.path())?,
        scope_hash: located.scope.hash().map(str::to_owned),
        entry: located.entry.clone(),
        cwd: as_text(cwd)?,
        nonce: args.handed.nonce.clone().unwrap_or_else(|| uuid::Uuid::new_v4().to_string()),
        inputs,
        labels,
        options,
        moved: Default::default(),
        origin: None,
    })
}

/// Checks the given input, or its absence, against the workflow's rule.
fn check_input(rule: &InputRule, is_given: bool, workflow: &str) -> Result<(), UserError> {
    match (rule.mode, is_given) {
        (InputMode::Required, false) => {
            let label = rule.label.as_ref().map(|label| format!(" ({label})")).unwrap_or_default();
            let about =
                rule.description.as_ref().map(|about| format!(": {}", about.trim())).unwrap_or_default();
            Err(UserError::usage(format!("{workflow} needs an input{label}{about}"))
                .hint("give it with --input TEXT, or --input - for stdin"))
        }
        (InputMode::None, true) => {
            Err(UserError::usage(format!("{workflow} takes no input")).hint("leave out --input"))
        }
        _ => Ok(()),
    }
}

/// A warning about a prompt that uses the input of a run that is given none.
fn used_input(entry: &StateFile, source: &Source) -> Option<String> {
    if !entry.kind().is_prompt() {
        return None;
    }
    let text = String::from_utf8_lossy(&source.bytes);
    let used = placeholders(&text).find(|used| matches!(name_and_path(used.name).0, "input" | "result"))?;
    Some(format!(
        "{entry} uses `{{{{{}}}}}`, and the run was given no input; give it with --input TEXT",
        used.name.escape_debug()
    ))
}

/// The values of the workflow's inputs, asked for on a terminal if some are missing.
fn named_inputs(
    args: &RunArgs,
    workflow: &str,
    scope: &Scope,
    cwd: &Path,
) -> Result<BTreeMap<String, String>, UserError> {
    let declared = declared_inputs(scope);
    let fill = |given: &[(String, String)]| fill_in(&declared, given, |path| readable_file(cwd, path));
    // The terminal is not there for questions if the input is read from it.
    let can_ask = args.input.as_deref() != Some("-");
    let is_missing = |problem: &InputProblem| matches!(problem, InputProblem::Missing(_));
    let filled = match fill(&args.set) {
        Err(problems) if can_ask && problems.iter().all(is_missing) => {
            let answers = ask_for_missing(&declared, &args.set, cwd)?;
            fill(&[args.set.clone(), answers].concat())
        }
        filled => filled,
    };
    filled.map_err(|problems| refused(workflow, &problems))
}

/// Where the first agent works: the manifest's `working_directory`, or else the user's current directory.
fn first_folder(scope: &Scope, cwd: PathBuf) -> Result<PathBuf, UserError> {
    scope.working_directory().unwrap_or(Ok(cwd))
}

fn manifest_warnings(scope: &Scope) -> impl Iterator<Item = String> {
    let file = scope.manifest_file();
    scope.manifest().warnings.iter().map(move |warning| format!("{}: {warning}", shown(&file).display()))
}

fn warning(message: String) -> Body {
    Body::Warning { agent: None, step: None, state: None, message }
}

/// Paths are recorded as text, so they have to be valid UTF-8.
fn as_text(path: &Path) -> Result<String, UserError> {
    path.to_str().map(str::to_owned).ok_or_else(|| {
        UserError::usage(format!("the path {} is not valid UTF-8", path.display())).hint("use another folder")
    })
}

/// Ids to try for a new run: the given one, or several made from the time and a random part, in case another run has
/// the same.
pub(super) fn ids(given: Option<&str>, new: impl Fn() -> String) -> impl Iterator<Item = String> {
    let tries = if given.is_some() { 1 } else { ID_TRIES };
    (0..tries).map(move |_| given.map_or_else(&new, str::to_owned))
}

/// Creates a run under the first of these ids that is not taken.
pub(super) fn begin(
    store: &dyn RunStore,
    ids: impl Iterator<Item = String>,
    options: JournalOptions,
) -> Result<(String, Box<dyn RunWriter>), UserError> {
    let mut refused = UserError::usage("no id for the run");
    for id in ids {
        match store.create(&id, options) {
            Ok(writer) => return Ok((id, writer)),
            Err(error @ (StoreError::Exists { .. } | StoreError::Held { .. } | StoreError::Taken { .. })) => {
                refused = error.into()
            }
            Err(error) => return Err(error.into()),
        }
    }
    Err(refused)
}

/// The first state's input: the given text, or all of stdin for `-`.
pub(super) fn read_input(given: &str) -> Result<String, UserError> {
    let mut bytes = Vec::new();
    if given == "-" {
        let limit = MAX_TAG_BYTES as u64 + 1;
        std::io::stdin()
            .take(limit)
            .read_to_end(&mut bytes)
            .map_err(|error| UserError::usage(format!("cannot read the input from stdin: {error}")))?;
    } else {
        bytes.extend_from_slice(given.as_bytes());
    }
    as_input(&bytes)
}

/// Text that the first state gets.
fn as_input(bytes: &[u8]) -> Result<String, UserError> {
    if bytes.len() > MAX_TAG_BYTES {
        return Err(UserError::usage(format!(
            "the input is longer than {} MiB",
            MAX_TAG_BYTES / (1024 * 1024)
        ))
        .hint("put it into a file and hand over the file's name"));
    }
    Ok(String::from_utf8_lossy(bytes).replace('\0', "\u{fffd}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::memory::MemoryStore;

    #[test]
    fn an_id_that_is_taken_is_passed_over() {
        let store = MemoryStore::default();
        let begin =
            || begin(&store, ["first", "second"].map(str::to_owned).into_iter(), JournalOptions::default());
        let first = begin().unwrap();
        let second = begin().unwrap();
        assert_eq!((first.0.as_str(), second.0.as_str()), ("first", "second"));
        assert!(begin().err().unwrap().message.contains("second"));
        // They never got an event, so they do not count as runs.
        drop((first, second));
        assert_eq!(begin().unwrap().0, "first");
    }
}
