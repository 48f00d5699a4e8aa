//! Where runs and their settings are, and how one is found.

use std::path::{Path, PathBuf};

use raymond_core::workflow::Platform;

use super::args::Place;
use crate::config::{self, Config, Settings};
use crate::error::UserError;
use crate::store::{JournalError, JournalOptions, LockError, RunLock, RunPaths, StateDir, read_tail};
use crate::workflow::scope::Scope;
use crate::workflow::scopes::{Allowed, Scopes};

/// Where the user is.
pub(super) fn working_folder() -> Result<PathBuf, UserError> {
    std::env::current_dir()
        .map_err(|error| UserError::usage(format!("cannot tell the working directory: {error}")))
}

pub(super) fn state_dir(place: &Place) -> Result<StateDir, UserError> {
    let cwd = working_folder()?;
    match &place.state_dir {
        Some(dir) => Ok(StateDir::at(cwd.join(dir))),
        None => {
            StateDir::find(&cwd).map_err(|error| UserError::usage(format!("cannot find .raymond: {error}")))
        }
    }
}

/// The config file lies in `.raymond`, wherever the journals are.
pub(super) fn load_config() -> Result<Config, UserError> {
    let home = StateDir::find(&working_folder()?).ok().and_then(|dir| dir.home().map(Path::to_owned));
    home.map_or_else(|| Ok(Config::default()), |home| config::load(&home.join("config.toml")))
}

/// A run by its id or the start of it, or the latest.
pub(super) fn find_run(dir: &StateDir, given: Option<&str>) -> Result<RunPaths, UserError> {
    let id = match given {
        Some(given) => dir
            .lookup(given)
            .map_err(|error| UserError::usage(error.to_string()).hint("`raymond list` shows all runs"))?,
        None => latest(dir)?,
    };
    dir.run(&id).map_err(|error| UserError::usage(error.to_string()))
}

pub(super) fn acquire(paths: &RunPaths) -> Result<RunLock, UserError> {
    RunLock::acquire(&paths.lock()).map_err(|error| match error {
        LockError::Held { .. } => UserError::usage(format!("{}: {error}", paths.id()))
            .hint(format!("see what it does: raymond status {}", paths.id()))
            .hint(format!("or stop it first: raymond stop {}", paths.id())),
        LockError::Io { .. } => UserError::usage(error.to_string()),
    })
}

pub(super) fn journal_options(settings: &Settings) -> JournalOptions {
    JournalOptions {
        durability: settings.durability(),
        keep_segments: settings.keep_segments,
        ..Default::default()
    }
}

/// The latest run. One that died before anything was recorded does not count.
fn latest(dir: &StateDir) -> Result<String, UserError> {
    let runs = dir
        .runs()
        .map_err(|error| UserError::usage(format!("cannot read {}: {error}", dir.path().display())))?;
    let is_empty = |id: &str| {
        dir.run(id).is_ok_and(|paths| matches!(read_tail(&paths), Err(JournalError::Empty { .. })))
    };
    runs.into_iter().map(|run| run.id).find(|id| !is_empty(id)).ok_or_else(|| {
        UserError::usage(format!("there are no runs in {}", dir.path().display()))
            .hint("start one: raymond WORKFLOW")
    })
}

/// A run's workflow, and those it may enter.
pub(super) fn all_scopes(own: Scope, settings: &Settings) -> Result<Scopes, UserError> {
    let allowed = allowed_scopes(&own, settings)?;
    Ok(Scopes::new(own, Platform::current(), allowed))
}

/// Where workflows may be entered: in the project, and where config says.
pub(super) fn allowed_scopes(own: &Scope, settings: &Settings) -> Result<Allowed, UserError> {
    let cwd = working_folder()?;
    let home =
        StateDir::find(&cwd).ok().and_then(|dir| dir.home().and_then(Path::parent).map(Path::to_owned));
    Ok(Allowed::new(own, &home.unwrap_or(cwd), &settings.workflow_paths))
}
