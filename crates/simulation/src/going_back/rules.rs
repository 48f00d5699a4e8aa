//! The decisions of Raymond about worktrees and folders when somebody goes back, with the rules of them that can be broken.
//!
//! A worktree below `.raymond/worktrees/RUN` belongs to that run, and so does its branch. A run that is not the owner gets
//! another one.

use std::path::PathBuf;

use raymond::git::worktrees::Worktrees;
use raymond::history::files::{folders_since, given_up, handed_over, moved_back, worktrees_of_branch};
use raymond::store::{RunHandle, RunStore, StoreError};
use raymond_core::event::Moved;
use raymond_core::run::Run;
use raymond_core::worktree::{Worktree, branch};

use super::defect::Defect;
use super::ground::PROJECT;

/// The folder in the place of another one.
pub type Folder = Option<(String, String)>;

/// Where the worktrees of a run are.
fn places(run: &str) -> Worktrees {
    Worktrees::new(PathBuf::from(format!("{PROJECT}/.raymond/worktrees/{run}")), run)
}

pub fn path_of(run: &str, name: &str) -> String {
    format!("{PROJECT}/.raymond/worktrees/{run}/{name}")
}

pub fn is_own(run: &str, worktree: &Worktree) -> bool {
    worktree.branch == branch(run, &worktree.name)
}

/// The same worktree, as that of another run.
pub fn as_of(run: &str, old: &Worktree) -> Worktree {
    Worktree { path: path_of(run, &old.name), branch: branch(run, &old.name), ..old.clone() }
}

/// The folders of a branch. `folder` was made for it.
pub fn of_branch(store: &dyn RunStore, point: &Run, id: &str, folder: Folder) -> Result<Moved, StoreError> {
    let mut moved = worktrees_of_branch(store, point, id, &places(id))?;
    moved.folders.extend(folder);
    Ok(moved)
}

/// The folders of a run that is taken back from its end to a point.
pub fn of_rewind(
    store: &dyn RunStore,
    stored: &dyn RunHandle,
    (point, end): (&Run, &Run),
    folder: Folder,
    defect: Option<Defect>,
) -> Result<Moved, StoreError> {
    let mut folders = match defect {
        Some(Defect::ForgetsItsFolder) => Default::default(),
        _ => folders_since(stored, point.seq)?,
    };
    folders.extend(folder);
    let given_up = given_up(point, end);
    let mut moved = moved_back(store, (point, end), folders, &given_up, &places(&end.id))?;
    if defect == Some(Defect::TakesOriginsWorktree) {
        moved.worktrees.clear();
        moved.folders.retain(|_, to| !to.contains("/.raymond/worktrees/"));
    }
    Ok(moved)
}

/// The worktrees that the run that keeps what is dropped gets.
pub fn dropped_ones(point: &Run, end: &Run) -> Vec<Worktree> {
    given_up(point, end)
}

/// The folders of that run.
pub fn of_dropped((point, end): (&Run, &Run), id: &str, defect: Option<Defect>) -> Moved {
    let given_up = given_up(point, end);
    let mut moved = handed_over(end, &given_up, id, &places(id));
    if defect == Some(Defect::DroppedSharesWorktree) {
        let is_given_up = |path: &String| given_up.iter().any(|worktree| worktree.path == *path);
        moved.folders.retain(|from, _| is_given_up(from));
        let kept: Vec<String> = moved.folders.values().cloned().collect();
        moved.worktrees.retain(|_, worktree| kept.contains(&worktree.path));
    }
    moved
}
