//! The files of a branch: worktrees of its own for its workers, and the working folder as it was.
//!
//! What is made here is made before the branch: the first event of the branch names it, and no other run uses it.

use std::path::{Path, PathBuf};

use jiff::Timestamp;
use raymond_core::event::Moved;
use raymond_core::run::Run;
use raymond_core::worktree::{Worktree, branch};

use super::clean::KEPT_REFS;
use crate::error::UserError;
use crate::git::making::finish;
use crate::git::snapshots::{Purpose, Restoring};
use crate::git::worktrees::Worktrees;
use crate::git::{Git, GitError};
use crate::store::{RunStore, StoreError};

/// Where the files of a point are restored.
#[derive(Clone, Debug)]
pub enum Place {
    /// In a new worktree, which an event will name.
    Worktree { dir: PathBuf, purpose: Purpose },
    /// Where they were. What is there and not saved anywhere is only replaced by force.
    InPlace { force: bool },
}

/// New worktrees for the workers of a branch, which are made before their next steps. A worker begins with the commit that
/// its branch was at, as far as git remembers that.
pub fn worktrees_of_branch(state: &Run, id: &str, places: &Worktrees) -> Moved {
    let mut moved = Moved::default();
    for agent in state.agents.values() {
        let Some(old) = agent.worktree.as_deref() else { continue };
        let path = places.folder().join(&old.name).to_string_lossy().into_owned();
        moved.folders.insert(old.path.clone(), path.clone());
        let base = commit_at(old, state.last_time).unwrap_or_else(|| old.base.clone());
        let new = Worktree { path, branch: branch(id, &old.name), base, ..old.clone() };
        moved.worktrees.insert(agent.id.clone(), new);
    }
    moved
}

/// The worktrees that a run has made after a point of its history.
pub fn worktrees_since(point: &Run, end: &Run) -> Vec<Worktree> {
    let is_new = |worktree: &&Worktree| !point.worktrees.contains_key(&worktree.name.to_ascii_lowercase());
    end.own_worktrees().filter(is_new).cloned().collect()
}

/// What worktrees are for the run that keeps what a rewind drops.
pub fn handed_over(end: &Run, worktrees: &[Worktree], id: &str, places: &Worktrees) -> Moved {
    let mut moved = Moved::default();
    let workers = end.workers.values().flat_map(|workers| workers.values());
    let live = end.agents.values().map(|agent| (&agent.id, agent.worktree.as_deref()));
    let users: Vec<_> =
        workers.map(|worker| (&worker.agent, worker.worktree.as_deref())).chain(live).collect();
    for old in worktrees {
        let new = taken_over(old, id, places);
        moved.folders.insert(old.path.clone(), new.path.clone());
        let of_old = users.iter().filter(|(_, used)| *used == Some(old));
        moved.worktrees.extend(of_old.map(|(agent, _)| ((*agent).clone(), new.clone())));
    }
    moved
}

fn taken_over(old: &Worktree, id: &str, places: &Worktrees) -> Worktree {
    let path = places.folder().join(&old.name).to_string_lossy().into_owned();
    Worktree { path, branch: branch(id, &old.name), ..old.clone() }
}

/// Gives the worktree, its branch and its mark to the run that keeps what a rewind drops, so that their names are free
/// again. What is done already is left as it is.
pub fn hand_over(old: &Worktree, from: &Worktrees, (id, to): (&str, &Worktrees)) -> Result<(), String> {
    let new = taken_over(old, id, to);
    let git = Git::of_repository(Path::new(&old.repository));
    let exists = |branch: &str| {
        git.text(&["rev-parse", "--verify", "--quiet", &format!("refs/heads/{branch}")]).is_ok()
    };
    let words = |error: GitError| error.to_string();
    if exists(&old.branch) && !exists(&new.branch) {
        git.text(&["branch", "-m", &old.branch, &new.branch]).map_err(words)?;
        // Git renames it in HEAD of the worktrees that were added, and of the first one it sees only a copy.
        let in_head = git.text(&["symbolic-ref", "--quiet", "HEAD"]);
        if in_head.is_ok_and(|name| name == format!("refs/heads/{}", old.branch)) {
            git.text(&["symbolic-ref", "HEAD", &format!("refs/heads/{}", new.branch)]).map_err(words)?;
        }
    }
    if from.mark(&old.name).exists() {
        crate::files::create_private_folders(to.folder()).map_err(|error| error.to_string())?;
        // Without its mark, the worktree would count as half made, and be made again.
        finish(&to.mark(&old.name)).map_err(|error| error.to_string())?;
    }
    if Path::new(&old.path).exists() && !Path::new(&new.path).exists() {
        crate::files::create_private_folders(to.folder()).map_err(|error| error.to_string())?;
        git.text(&["worktree", "move", "--", &old.path, &new.path]).map_err(words)?;
    }
    let _ = std::fs::remove_file(from.mark(&old.name));
    from.remove_folder_if_empty();
    Ok(())
}

/// The commit that a worker's branch was at.
fn commit_at(worktree: &Worktree, time: Timestamp) -> Option<String> {
    let name = format!("refs/heads/{}@{{{}}}", worktree.branch, seconds(time));
    let git = Git::of_repository(Path::new(&worktree.repository));
    git.text(&["rev-parse", "--verify", "--quiet", &name]).ok().filter(|commit| !commit.is_empty())
}

fn seconds(time: Timestamp) -> String {
    Timestamp::from_second(time.as_second()).unwrap_or(time).to_string()
}

/// Restores the files that a point of a run has, and returns the folder that they were in, where they are now, and the
/// ref that has what was replaced.
pub fn restore(
    store: &dyn RunStore,
    (state, end): (&Run, &Run),
    place: &Place,
    (own, indexes): (&Path, &Path),
) -> Result<(String, PathBuf, Option<String>), UserError> {
    let cwd = Path::new(&state.cwd);
    let around = state.snapshots.iter().filter(|(folder, _)| cwd.starts_with(folder));
    let (folder, commit) = around.max_by_key(|(folder, _)| folder.len()).ok_or_else(|| {
        UserError::usage(format!("there is no snapshot of {} up to that step", cwd.display()))
            .hint("only runs with --snapshots keep the files of their steps")
    })?;
    let failed = |error: GitError| UserError::failed(format!("cannot restore the files: {error}"));
    let restoring = Restoring::new(Path::new(folder), own.to_owned(), indexes.to_owned()).map_err(failed)?;
    match place {
        Place::Worktree { dir, purpose } => {
            let dir = std::path::absolute(dir).unwrap_or_else(|_| dir.clone());
            remove_half_made(store, &restoring, &dir)?;
            restoring.into_worktree(commit, &dir, &seconds(state.last_time), purpose).map_err(failed)?;
            Ok((folder.clone(), dir.canonicalize().unwrap_or(dir), None))
        }
        Place::InPlace { force } => {
            let saved: Vec<&String> = end.snapshots.get(folder).into_iter().collect();
            let kept = format!("{KEPT_REFS}/{}", end.id);
            let kept = restoring.in_place(commit, &saved, &kept, *force).map_err(failed)?;
            let kept = kept.map_err(|unsaved| {
                UserError::usage(format!("{folder} has changes that are not committed: {unsaved}"))
                    .hint("--force replaces the files and keeps what is there now under refs/raymond-kept")
                    .hint("--worktree DIR restores them in another folder")
            })?;
            Ok((folder.clone(), PathBuf::from(folder), kept))
        }
    }
}

/// Removes the worktree that a killed command has left in a folder: it is locked for an event that was never written.
/// Anything else that is there is an error.
fn remove_half_made(store: &dyn RunStore, restoring: &Restoring, dir: &Path) -> Result<(), UserError> {
    let other = "give another folder: --worktree DIR";
    let Some(Purpose { run, seq }) = restoring.purpose_of(dir) else {
        let is_used = std::fs::read_dir(dir).is_ok_and(|mut entries| entries.next().is_some());
        return match is_used {
            true => Err(UserError::usage(format!("{} is not empty", dir.display())).hint(other)),
            false => Ok(()),
        };
    };
    let is_used = match store.run(&run)?.load() {
        Ok(run) => run.seq >= seq,
        Err(StoreError::Missing { .. } | StoreError::Empty { .. }) => false,
        Err(_) => true,
    };
    if is_used {
        return Err(UserError::usage(format!("{} is a folder of the run {run}", dir.display())).hint(other));
    }
    let failed = |error| UserError::failed(format!("cannot remove {}: {error}", dir.display()));
    restoring.remove_worktree(dir).map_err(failed)
}
