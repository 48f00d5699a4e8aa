//! The files of a branch: worktrees of its own for its workers, and the working folder as it was.
//!
//! What is made here is made before the branch: the first event of the branch names it, and no other run uses it.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use jiff::Timestamp;
use raymond_core::event::{Body, Moved};
use raymond_core::run::{Agent, Run, Status};
use raymond_core::worktree::{Worktree, branch};

use super::branch::keepers_of;
use super::clean::KEPT_REFS;
use crate::error::UserError;
use crate::git::making::finish;
use crate::git::snapshots::{Purpose, Restoring, made_for};
use crate::git::worktrees::Worktrees;
use crate::git::{Git, GitError};
use crate::store::{RunHandle, RunStore, Start, StoreError};
use crate::view::text::clean;

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
pub fn worktrees_of_branch(
    store: &dyn RunStore,
    point: &Run,
    id: &str,
    places: &Worktrees,
) -> Result<Moved, StoreError> {
    let mut moved = Moved::default();
    for old in point.worktrees.values().filter(|old| is_used(point, old)) {
        let base = commit_then(store, point, old)?;
        replace(&mut moved, point, old, anew(old, id, places, base));
    }
    Ok(moved)
}

/// The worktrees of a run that become those of the run that keeps what a rewind drops: the run made them after the point, or
/// worked in them since. One that was left as it is stays.
pub fn given_up(point: &Run, end: &Run) -> Vec<Worktree> {
    let is_given_up = |worktree: &&Worktree| match point.worktrees.get(&key(worktree)) {
        None => true,
        Some(then) => is_used(point, then) && !users(point, then).eq(users(end, worktree)),
    };
    end.own_worktrees().filter(is_given_up).cloned().collect()
}

/// The folders of a run that is taken back to a point. In those that it was given meanwhile, it goes on: `folders` has what
/// its own events say about that. Its workers get new worktrees in the place of those that are given up, or were never its own.
pub fn moved_back(
    store: &dyn RunStore,
    (point, end): (&Run, &Run),
    folders: BTreeMap<String, String>,
    given_up: &[Worktree],
    places: &Worktrees,
) -> Result<Moved, StoreError> {
    let mut moved = Moved { folders, ..Moved::default() };
    for old in point.worktrees.values() {
        moved.folders.remove(&old.path);
        let now = end.worktrees.get(&key(old));
        let own = now.filter(|now| end.own_worktrees().any(|own| own == *now) && !given_up.contains(now));
        match own {
            Some(own) => replace(&mut moved, point, old, own.clone()),
            None if is_used(point, old) => {
                let base = commit_then(store, point, old)?;
                replace(&mut moved, point, old, anew(old, &end.id, places, base));
            }
            None => {}
        }
    }
    Ok(moved)
}

/// What worktrees are for the run that keeps what a rewind drops. Workers in those that stay with the other run get new ones.
pub fn handed_over(end: &Run, given_up: &[Worktree], id: &str, places: &Worktrees) -> Moved {
    let mut moved = Moved::default();
    for old in end.worktrees.values() {
        if given_up.contains(old) {
            replace(&mut moved, end, old, taken_over(old, id, places));
        } else if is_used(end, old) {
            let base = tip_of(old).unwrap_or_else(|| old.base.clone());
            replace(&mut moved, end, old, anew(old, id, places, base));
        }
    }
    moved
}

/// Where a run has its folders, since an event, by where they were then.
pub fn folders_since(run: &dyn RunHandle, seq: u64) -> Result<BTreeMap<String, String>, StoreError> {
    let mut folders = BTreeMap::<String, String>::new();
    let mut events = run.events(Start::After(seq))?;
    while let Some(batch) = events.next_batch()? {
        for event in batch {
            match event.body {
                Body::RunStarted(started) => {
                    let place_of = |folder: String| started.moved.place_of(&folder).unwrap_or(folder);
                    folders = folders.into_iter().map(|(then, now)| (then, place_of(now))).collect();
                    for (from, to) in started.moved.folders {
                        folders.entry(from).or_insert(to);
                    }
                }
                Body::RunResumed(resumed) => {
                    let Some(moved) = resumed.moved else { continue };
                    let place_of = |folder: String| moved.place_of(&folder).unwrap_or(folder);
                    folders =
                        folders.into_iter().map(|(then, now)| (place_of(then), place_of(now))).collect();
                }
                _ => {}
            }
        }
    }
    Ok(folders)
}

/// How a run knows a worktree.
fn key(worktree: &Worktree) -> String {
    worktree.name.to_ascii_lowercase()
}

fn is_used(run: &Run, worktree: &Worktree) -> bool {
    users(run, worktree).next().is_some()
}

/// The agents that work in a worktree now, or when a call returns.
fn users<'r>(run: &'r Run, worktree: &'r Worktree) -> impl Iterator<Item = &'r Agent> {
    run.agents.values().filter(move |agent| {
        agent.worktree.as_deref() == Some(worktree)
            || worktree.has_inside(&agent.cwd)
            || agent.stack.iter().any(|frame| worktree.has_inside(&frame.cwd))
    })
}

/// Notes what a run has in the place of a worktree, if that is something else.
fn replace(moved: &mut Moved, run: &Run, old: &Worktree, new: Worktree) {
    if *old == new {
        return;
    }
    if old.path != new.path {
        moved.folders.insert(old.path.clone(), new.path.clone());
    }
    let workers = run.workers.values().flat_map(|workers| workers.values());
    let workers = workers.map(|worker| (&worker.agent, worker.worktree.as_deref()));
    let live = run.agents.values().map(|agent| (&agent.id, agent.worktree.as_deref()));
    let of_old = workers.chain(live).filter(|(_, used)| *used == Some(old));
    moved.worktrees.extend(of_old.map(|(agent, _)| (agent.clone(), new.clone())));
}

/// One of the same name for another run, which begins with a commit.
fn anew(old: &Worktree, id: &str, places: &Worktrees, base: String) -> Worktree {
    Worktree { base, ..taken_over(old, id, places) }
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
    // If git cannot move it, no other run must work in it.
    if from.mark(&old.name).exists() {
        finish(&from.mark(&old.name), &new.branch).map_err(|error| error.to_string())?;
    }
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
        finish(&to.mark(&old.name), &new.branch).map_err(|error| error.to_string())?;
    }
    if Path::new(&old.path).exists() && !Path::new(&new.path).exists() {
        crate::files::create_private_folders(to.folder()).map_err(|error| error.to_string())?;
        git.text(&["worktree", "move", "--", &old.path, &new.path]).map_err(words)?;
    }
    let _ = std::fs::remove_file(from.mark(&old.name));
    from.remove_folder_if_empty();
    Ok(())
}

/// The commit that a worktree was at: where its branch was when the step began that its worker was in, or otherwise at the
/// end of the state. Before its first step it is the one that it began with.
fn commit_then(store: &dyn RunStore, state: &Run, then: &Worktree) -> Result<String, StoreError> {
    let worker = state.agents.values().find(|agent| agent.worktree.as_deref() == Some(then));
    let is_running = |worker: &&Agent| matches!(worker.status, Status::Running { .. });
    let is_new = |worker: &&Agent| {
        let is_ahead = matches!(worker.status, Status::Ready { work: None, .. }) || is_running(worker);
        is_ahead && worker.visits.values().sum::<u64>() <= 1
    };
    if worker.is_some_and(|worker| is_new(&worker)) {
        return Ok(then.base.clone());
    }
    let time = worker.filter(is_running).map_or(state.last_time, |worker| worker.since);
    if let Some(commit) = commit_at(then, &then.branch, time) {
        return Ok(commit);
    }
    // Rewinds may have given its branch to other runs since. What is called so now is younger.
    let given_to = keepers_of(store, then.run())?;
    let found = given_to.iter().find_map(|keeper| commit_at(then, &branch(keeper, &then.name), time));
    Ok(found.unwrap_or_else(|| then.base.clone()))
}

/// The commit that a branch was at, if git remembers that. Git counts seconds; within one, the time at which a commit was
/// written tells.
fn commit_at(worktree: &Worktree, branch: &str, time: Timestamp) -> Option<String> {
    let repository = Path::new(&worktree.repository);
    if !repository.is_dir() {
        return None;
    }
    let name = format!("refs/heads/{branch}");
    let log = ["log", "--walk-reflogs", "--date=unix", "--format=%H %gd", &name, "--"];
    let log = Git::of_repository(repository).text(&log).ok()?;
    let is_before = |commit: &str, second: i64| {
        let (start, rest) = commit.split_at_checked(2).unwrap_or((commit, ""));
        let written =
            || std::fs::metadata(repository.join("objects").join(start).join(rest)).ok()?.modified().ok();
        match second == time.as_second() {
            true => written().is_none_or(|written| written <= SystemTime::from(time)),
            false => second < time.as_second(),
        }
    };
    let moves = log.lines().filter_map(|line| {
        let (commit, name) = line.split_once(' ')?;
        let second = name.rsplit_once("@{")?.1.strip_suffix('}')?.parse().ok()?;
        Some((commit, second))
    });
    let mut before = moves.filter(|(commit, second)| is_before(commit, *second));
    before.next().map(|(commit, _)| commit.to_owned())
}

/// The commit that a worktree's branch is at.
fn tip_of(worktree: &Worktree) -> Option<String> {
    let repository = Path::new(&worktree.repository);
    if !repository.is_dir() {
        return None;
    }
    let git = Git::of_repository(repository);
    git.text(&["rev-parse", "--verify", "--quiet", &format!("refs/heads/{}", worktree.branch)]).ok()
}

fn seconds(time: Timestamp) -> String {
    Timestamp::from_second(time.as_second()).unwrap_or(time).to_string()
}

/// Restores the files that a point of a run has, and returns the folder that they were in, where they are now, and the
/// ref that has what was replaced. `folders` has where the run works now, by where it worked then.
pub fn restore(
    store: &dyn RunStore,
    (state, end): (&Run, &Run),
    folders: &BTreeMap<String, String>,
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
    let now = folders.get(folder).unwrap_or(folder);
    let restoring = Restoring::new(Path::new(now), own.to_owned(), indexes.to_owned()).map_err(failed)?;
    match place {
        Place::Worktree { dir, purpose } => {
            let dir = std::path::absolute(dir).unwrap_or_else(|_| dir.clone());
            remove_half_made(store, &restoring, &dir)?;
            restoring.into_worktree(commit, &dir, &seconds(state.last_time), purpose).map_err(failed)?;
            Ok((folder.clone(), dir.canonicalize().unwrap_or(dir), None))
        }
        Place::InPlace { force } => {
            check_owner(store, Path::new(now), &end.id)?;
            let saved: Vec<&String> = end.snapshots.get(now).into_iter().collect();
            let kept = format!("{KEPT_REFS}/{}", end.id);
            let kept = restoring.in_place(commit, &saved, &kept, *force).map_err(failed)?;
            let kept = kept.map_err(|unsaved| {
                UserError::usage(format!("{now} has changes that are not committed: {unsaved}"))
                    .hint("--force replaces the files and keeps what is there now under refs/raymond-kept")
                    .hint("--worktree DIR restores them in another folder")
            })?;
            Ok((folder.clone(), PathBuf::from(now), kept))
        }
    }
}

/// Refuses a folder that was made for another run, with `--worktree`. What is written there is that run's, as long as the run is
/// there.
pub fn check_owner(store: &dyn RunStore, folder: &Path, id: &str) -> Result<(), UserError> {
    let Some((folder, owner)) = made_for(folder).filter(|(_, owner)| owner != id) else { return Ok(()) };
    if store.run(&owner).and_then(|owner| owner.load()).is_err() {
        return Ok(());
    }
    let (folder, owner) = (folder.to_string_lossy(), clean(&owner));
    Err(UserError::usage(format!("{} is the folder of {owner}, so {id} cannot go on in it", clean(&folder)))
        .hint("give it one of its own: raymond branch RUN STEP --files --worktree DIR"))
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
