//! A run in the folders that it goes on in: those of the project it was adopted in, if that was copied or moved.

use std::collections::BTreeSet;
use std::path::Path;

use raymond_core::event::ProjectMoved;
use raymond_core::run::{Agent, Run};

use super::print::say;
use crate::error::UserError;
use crate::git::relink::relink;
use crate::git::snapshots::finish_making;
use crate::history::files::check_owner;
use crate::store::RunStore;
use crate::view::text::clean;

/// Says that a run goes on elsewhere, and ties its worktrees to the repository that is there. The run has the new paths.
pub(super) fn settle(run: &Run, moved: &ProjectMoved, is_quiet: bool) -> Result<(), UserError> {
    let new = Path::new(&moved.to);
    let in_project = |worktree: &&_| -> bool {
        let worktree: &raymond_core::worktree::Worktree = worktree;
        Path::new(&worktree.path).starts_with(new) && Path::new(&worktree.path).exists()
    };
    for worktree in run.own_worktrees().filter(in_project) {
        relink(worktree).map_err(|error| {
            UserError::usage(format!(
                "the worktree {} of {} belongs to the project that it was copied from: {error}",
                worktree.path, run.id
            ))
            .hint("remove that folder; what is in it and not committed is lost then")
        })?;
    }
    if !is_quiet {
        say(&format!(
            "{} was recorded in {}; it goes on in {}",
            run.id,
            clean(&moved.from),
            clean(&moved.to)
        ));
    }
    Ok(())
}

/// Refuses to go on with agents whose folders are not there, or are another run's. A worktree is made before the first step in it.
pub(super) fn check_folders(store: &dyn RunStore, run: &Run) -> Result<(), UserError> {
    check_owners(store, run, &run.id)?;
    run.agents.values().for_each(|agent| finish_making(Path::new(&agent.cwd), &run.id));
    let is_lost = |agent: &&Agent| run.worktree_of(agent).is_none() && !Path::new(&agent.cwd).is_dir();
    match run.agents.values().find(is_lost) {
        None => Ok(()),
        Some(agent) => Err(UserError::usage(format!(
            "the folder {} in which {} of {} works is not there",
            clean(&agent.cwd),
            agent.id,
            run.id
        ))
        .hint("put it back, or go back to a step before it was entered: raymond rewind, raymond branch")),
    }
}

/// Refuses to work in folders that were made for another run.
pub(super) fn check_owners(store: &dyn RunStore, run: &Run, id: &str) -> Result<(), UserError> {
    let shared = run.agents.values().filter(|agent| run.worktree_of(agent).is_none());
    let folders: BTreeSet<&str> = shared.map(|agent| agent.cwd.as_str()).collect();
    folders.into_iter().try_for_each(|folder| check_owner(store, Path::new(folder), id))
}
