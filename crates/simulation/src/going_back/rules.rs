//! What becomes of worktrees and folders when somebody goes back: pure functions of two states of a run.
//!
//! A worktree below `.raymond/worktrees/RUN` belongs to that run, and so does its branch. A run that is not the owner gets
//! another one, from the commit that its branch was at.

use raymond_core::event::Moved;
use raymond_core::run::Run;
use raymond_core::worktree::{Worktree, branch};

use super::defect::Defect;
use super::ground::PROJECT;

/// Where a branch was when a run was in a state, as far as git remembers.
pub type CommitAt<'a> = &'a dyn Fn(&Worktree, &Run) -> Option<String>;

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

/// New worktrees for the agents of a run that work in those of another one.
fn new_ones(state: &Run, id: &str, commit_at: CommitAt<'_>, moved: &mut Moved) {
    for agent in state.agents.values() {
        let Some(old) = agent.worktree.as_deref().filter(|old| !is_own(id, old)) else { continue };
        if moved.worktrees.contains_key(&agent.id) {
            continue;
        }
        let base = commit_at(old, state).unwrap_or_else(|| old.base.clone());
        let new = Worktree { base, ..as_of(id, old) };
        moved.folders.insert(old.path.clone(), new.path.clone());
        moved.worktrees.insert(agent.id.clone(), new);
    }
}

/// The folders of a branch. `folder` is the one that was made for it, in the place of the first.
pub fn of_branch(point: &Run, id: &str, commit_at: CommitAt<'_>, folder: Option<(String, String)>) -> Moved {
    let mut moved = Moved::default();
    new_ones(point, id, commit_at, &mut moved);
    moved.folders.extend(folder);
    moved
}

/// The folders of a run that is taken back from its end to a point.
pub fn of_rewind(
    (point, end): (&Run, &Run),
    commit_at: CommitAt<'_>,
    folder: Option<(String, String)>,
    defect: Option<Defect>,
) -> Moved {
    let mut moved = Moved::default();
    if defect != Some(Defect::TakesOriginsWorktree) {
        new_ones(point, &end.id, commit_at, &mut moved);
    }
    let stays = (point.cwd.clone(), end.cwd.clone());
    let stays = Some(stays).filter(|(then, now)| then != now && defect != Some(Defect::ForgetsItsFolder));
    if let Some((then, now)) = folder.or(stays) {
        // The run's own worktrees lie in the project, and do not move with it.
        let own = point.worktrees.values().filter(|worktree| is_own(&end.id, worktree));
        moved.folders.extend(own.map(|own| (own.path.clone(), own.path.clone())));
        moved.folders.insert(then, now);
    }
    moved
}

/// The worktrees that a run has made since a point. The run that keeps what is dropped gets them.
pub fn made_since(point: &Run, end: &Run) -> Vec<Worktree> {
    let is_known = |path: &str| point.worktrees.values().any(|known| known.path == path);
    end.own_worktrees().filter(|worktree| !is_known(&worktree.path)).cloned().collect()
}

/// The folders of the run that keeps what a rewind drops.
pub fn of_dropped(
    (point, end): (&Run, &Run),
    id: &str,
    commit_at: CommitAt<'_>,
    defect: Option<Defect>,
) -> Moved {
    let mut moved = Moved::default();
    let live = end.agents.values().map(|agent| (&agent.id, agent.worktree.as_deref()));
    let ended = end.workers.values().flat_map(|workers| workers.values());
    let ended = ended.map(|worker| (&worker.agent, worker.worktree.as_deref()));
    let users: Vec<_> = live.chain(ended).collect();
    for old in made_since(point, end) {
        let new = as_of(id, &old);
        moved.folders.insert(old.path.clone(), new.path.clone());
        let of_old = users.iter().filter(|(_, used)| *used == Some(&old));
        moved.worktrees.extend(of_old.map(|(agent, _)| ((*agent).clone(), new.clone())));
    }
    if defect != Some(Defect::DroppedSharesWorktree) {
        new_ones(end, id, commit_at, &mut moved);
    }
    moved
}
