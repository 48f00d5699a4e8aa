//! Where runs and their settings are, and how one is found.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use raymond_core::run::RunStatus;
use raymond_core::workflow::Platform;

use super::args::Place;
use super::foreign::warn_of_foreign;
use crate::advice;
use crate::config::Settings;
use crate::error::UserError;
use crate::git::worktrees::Worktrees;
use crate::history::tasks::TaskFolders;
use crate::store::{FolderStore, JournalOptions, RunEntry, RunHandle, RunStore, StateDir, StoreError};
use crate::trust::check_owner;
use crate::workflow::labels::SCHEDULE_LABEL;
use crate::workflow::reach::Reach;
use crate::workflow::scope::Scope;
use crate::workflow::scopes::{Allowed, Scopes};

/// The current directory of this process.
pub(super) fn working_folder() -> Result<PathBuf, UserError> {
    std::env::current_dir()
        .map_err(|error| UserError::usage(format!("cannot tell the working directory: {error}")))
}

pub(super) fn state_dir(place: &Place) -> Result<StateDir, UserError> {
    let cwd = working_folder()?;
    match &place.state_dir {
        Some(dir) => Ok(StateDir::at(cwd.join(dir))),
        None => found_home(&cwd),
    }
}

/// The `.raymond` of the project, if it may be used: it is found by walking up, so it may be another user's.
pub(super) fn found_home(cwd: &Path) -> Result<StateDir, UserError> {
    let dir =
        StateDir::find(cwd).map_err(|error| UserError::usage(format!("cannot find .raymond: {error}")))?;
    dir.home().map_or(Ok(()), check_owner)?;
    Ok(dir)
}

/// The runs that a command is about. Those that lie there and do not count are told of.
pub(super) fn store(place: &Place) -> Result<Box<dyn RunStore>, UserError> {
    let store = FolderStore::new(state_dir(place)?);
    warn_of_foreign(&store);
    Ok(Box::new(store))
}

/// The same for the completions of a shell, which has no place for a warning.
pub(super) fn quiet_store() -> Result<Box<dyn RunStore>, UserError> {
    Ok(Box::new(FolderStore::new(state_dir(&Place::default())?)))
}

/// Where the steps of a run leave files that are not part of it.
pub(super) fn scratch_folder(place: &Place, run: &str) -> Result<PathBuf, UserError> {
    state_dir(place)?.scratch(run).map_err(|error| StoreError::BadId(error).into())
}

/// Where the task folders of a run are.
pub(super) fn task_folders(place: &Place, run: &str) -> Result<TaskFolders, UserError> {
    let (dir, bad_id) = (state_dir(place)?, |error| UserError::from(StoreError::BadId(error)));
    Ok(TaskFolders {
        folder: dir.scratch(run).map_err(bad_id)?,
        staged: dir.staged_scratch(run).map_err(bad_id)?,
    })
}

/// What to say about a run of which there is only one JSON file, as earlier programs of this name kept them.
pub(super) fn old_state_file(place: &Place, run: &str) -> Option<UserError> {
    let dir = state_dir(place).ok()?;
    dir.run(run).ok()?;
    let path = dir.path().join(format!("{run}.json"));
    path.is_file().then(|| {
        let message =
            format!("{} is the state file of an earlier program; it cannot be resumed", path.display());
        UserError::usage(message)
            .hint("this program keeps runs as journals, RUN.jsonl; start the workflow again")
    })
}

/// The folder that holds everything of Raymond's own: `.raymond`, or the folder of `--state-dir`.
pub(super) fn own_folder(place: &Place) -> Result<PathBuf, UserError> {
    let dir = state_dir(place)?;
    let folder = dir.home().unwrap_or(dir.path());
    Ok(folder.canonicalize().unwrap_or_else(|_| folder.to_owned()))
}

/// Where the worktrees of a run's workers are: in `.raymond`, or in the folder of `--state-dir`.
pub(super) fn worktrees(place: &Place, run: &str) -> Result<Worktrees, UserError> {
    let dir = state_dir(place)?;
    Ok(Worktrees::new(dir.worktrees(run), run))
}

/// The debug files of a run: in `.raymond`, or in the folder of `--state-dir`.
pub(super) fn debug_folder(place: &Place, run: &str) -> Option<(StateDir, PathBuf)> {
    Some((state_dir(place).ok()?, debug_root(place)?.join(run)))
}

/// The folder that holds the debug files of all runs.
pub(super) fn debug_root(place: &Place) -> Option<PathBuf> {
    Some(state_dir(place).ok()?.debug())
}

pub(super) fn journal_options(settings: &Settings) -> JournalOptions {
    JournalOptions {
        durability: settings.durability(),
        keep_segments: settings.keep_segments,
        ..Default::default()
    }
}

/// The latest run that a resume can continue: not completed, and no process drives it.
pub(super) fn latest_resumable(store: &dyn RunStore) -> Result<Arc<dyn RunHandle>, UserError> {
    let runs = store.list()?;
    let mut damage = None;
    for RunEntry { run, .. } in &runs {
        match run.load() {
            // What a rewind has dropped goes on only if it is named.
            Ok(state) if state.status == RunStatus::Completed || state.is_dropped() => {}
            Ok(_) => match run.holder() {
                Ok(Some(_)) => {}
                Ok(None) => return Ok(Arc::clone(run)),
                Err(error) => drop(damage.get_or_insert(error)),
            },
            Err(StoreError::Empty { .. }) => {}
            Err(error) => drop(damage.get_or_insert(error)),
        }
    }
    Err(match (damage, runs.is_empty()) {
        (Some(error), _) => error.into(),
        (None, true) => UserError::usage(format!("there are no runs in {}", store.place()))
            .hint("start one: raymond WORKFLOW"),
        (None, false) => UserError::usage(format!("no run in {} can go on", store.place())).hint(format!(
            "each is completed, or running, or keeps what a rewind has dropped; see: {}",
            advice::command("list")
        )),
    })
}

/// A run's workflow, those it may enter, and the folders that its models may choose. `began_in` is where its first
/// agent began. One that its schedule has started enters only what was trusted with it.
pub(super) fn all_scopes(
    own: Scope,
    settings: &Settings,
    began_in: &Path,
    labels: &BTreeMap<String, String>,
) -> Result<Scopes, UserError> {
    let allowed = allowed_scopes(&own, settings)?;
    let cwd = working_folder()?;
    let reach = Reach::new(&project_folder(&cwd), &[&cwd, began_in], &settings.cd_paths);
    let scopes = Scopes::new(own, Platform::current(), allowed).within(reach);
    match labels.contains_key(SCHEDULE_LABEL) {
        true => scopes.only_named(),
        false => Ok(scopes),
    }
}

/// Where workflows may be entered: in the project, and where config says.
pub(super) fn allowed_scopes(own: &Scope, settings: &Settings) -> Result<Allowed, UserError> {
    let project = project_folder(&working_folder()?);
    Ok(Allowed::new(own, &project, &settings.workflow_paths))
}

/// The folder that contains `.raymond`, or would.
pub(super) fn project_folder(cwd: &Path) -> PathBuf {
    let home = StateDir::find(cwd).ok().and_then(|dir| dir.home().and_then(Path::parent).map(Path::to_owned));
    home.unwrap_or_else(|| cwd.to_owned())
}
