//! A run that goes on in another folder than the one it was recorded in: its project was copied or moved.

use std::collections::BTreeMap;

use crate::event::ProjectMoved;
use crate::name::AgentId;
use crate::run::{Agent, Run};
use crate::snapshot::TaskFiles;
use crate::worktree::Worktree;

/// Replaces all paths in the old project by those in the new one. A run that is there already stays as it is, and so do
/// paths that lead elsewhere. Conversations stay where the agent program has them.
pub fn relocate(run: &mut Run, moved: &ProjectMoved) {
    if run.project.as_ref() == Some(&moved.to) {
        return;
    }
    run.project = Some(moved.to.clone());
    place(moved, &mut run.cwd);
    place(moved, &mut run.scope);
    run.options.record.iter_mut().for_each(|path| place(moved, path));
    run.options.replay.iter_mut().for_each(|path| place(moved, path));
    keys(moved, &mut run.scope_hashes);
    keys(moved, &mut run.hashes);
    keys(moved, &mut run.turns);
    keys(moved, &mut run.snapshots);
    run.worktrees.values_mut().for_each(|worktree| worktree_of(moved, worktree));
    let workers = run.workers.values_mut().flat_map(BTreeMap::values_mut);
    workers
        .filter_map(|worker| worker.worktree.as_deref_mut())
        .for_each(|worktree| worktree_of(moved, worktree));
    let ids: Vec<AgentId> = run.agents.keys().cloned().collect();
    for id in ids {
        run.update(&id, |agent| agent_of(moved, agent));
    }
}

fn agent_of(moved: &ProjectMoved, agent: &mut Agent) {
    place(moved, &mut agent.cwd);
    agent.scope.iter_mut().for_each(|path| place(moved, path));
    keys(moved, &mut agent.visits);
    for frame in &mut agent.stack {
        place(moved, &mut frame.cwd);
        frame.scope.iter_mut().for_each(|path| place(moved, path));
    }
    if let Some(worktree) = agent.worktree.as_deref_mut() {
        worktree_of(moved, worktree);
    }
    if let Some(TaskFiles::Tree { repository, .. }) = agent.task_files.as_deref_mut() {
        place(moved, repository);
    }
}

fn worktree_of(moved: &ProjectMoved, worktree: &mut Worktree) {
    place(moved, &mut worktree.path);
    place(moved, &mut worktree.repository);
}

fn place(moved: &ProjectMoved, path: &mut String) {
    if let Some(place) = moved.place_of(path) {
        *path = place;
    }
}

/// Some tables have paths as their keys, or keys that begin with one.
fn keys<V>(moved: &ProjectMoved, table: &mut BTreeMap<String, V>) {
    let old = std::mem::take(table);
    table.extend(old.into_iter().map(|(key, value)| (moved.place_of(&key).unwrap_or(key), value)));
}
