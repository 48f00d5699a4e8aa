//! A run that goes on from a point in the history of another one, or again from an earlier point of its own.

use crate::event::{Event, Moved, RunStarted};
use crate::money::Usd;
use crate::name::AgentId;
use crate::run::{Agent, Run, RunStatus, Status, Work};
use crate::worktree::branch;

use super::{forget, give_reply_back};

/// Turns the state at that point into the state of the new run. A start without an origin does not fit a run that exists.
pub(super) fn begun(run: &mut Run, event: &Event, started: &RunStarted) {
    let Some(origin) = &started.origin else { return };
    if run.status == RunStatus::Running {
        run.spent_ms = run.duration_ms(run.last_time);
        stop(run, event);
    }
    if origin.reset_cost {
        run.cost_usd = Usd::ZERO;
        if run.status == RunStatus::OverBudget {
            stop(run, event);
        }
    }
    // A run that keeps what a rewind dropped does not wait for answers.
    if origin.kept_from.is_some() && run.status == RunStatus::Waiting {
        stop(run, event);
    }
    if origin.run != event.run {
        run.started_at = event.time;
    }
    run.id.clone_from(&event.run);
    run.nonce.clone_from(&started.nonce);
    run.options = started.options.clone();
    run.resumed_at = event.time;
    run.origin = Some(origin.clone());
    move_folders(run, &started.moved);
    let ids: Vec<AgentId> = run.agents.keys().cloned().collect();
    for id in ids {
        give_reply_back(run, &id);
        run.update(&id, |agent| {
            start_anew(agent);
            forget(agent, &origin.forgotten);
            if origin.reset_cost {
                agent.cost_usd = Usd::ZERO;
            }
        });
    }
}

/// Agents of a branch work in its own folders.
fn move_folders(run: &mut Run, moved: &Moved) {
    if moved.is_empty() {
        return;
    }
    // A worktree lies in the folder of the project and does not move with it: only what is said of itself moves it.
    let mut places = moved.clone();
    for worktree in run.worktrees.values() {
        places.folders.entry(worktree.path.clone()).or_insert_with(|| worktree.path.clone());
    }
    let place = |path: &mut String| {
        if let Some(place) = places.place_of(path) {
            *path = place;
        }
    };
    place(&mut run.cwd);
    let ids: Vec<AgentId> = run.agents.keys().cloned().collect();
    for id in ids {
        run.update(&id, |agent| {
            place(&mut agent.cwd);
            agent.stack.iter_mut().for_each(|frame| place(&mut frame.cwd));
            if let Some(worktree) = moved.worktrees.get(&id) {
                agent.worktree = Some(Box::new(worktree.clone()));
            }
        });
    }
    // Workers that were joined are gone, but their worktrees may be there.
    for worktree in run.worktrees.values_mut() {
        if let Some(path) = moved.folders.get(&worktree.path) {
            worktree.branch = branch(&run.id, &worktree.name);
            worktree.path.clone_from(path);
        }
    }
    for worktree in moved.worktrees.values() {
        run.worktrees.insert(worktree.name.to_ascii_lowercase(), worktree.clone());
    }
    for worker in run.workers.values_mut().flat_map(|workers| workers.values_mut()) {
        if let Some(worktree) = moved.worktrees.get(&worker.agent) {
            worker.worktree = Some(Box::new(worktree.clone()));
        }
    }
}

/// The new run waits to be resumed, whatever kept the other one from going on.
fn stop(run: &mut Run, event: &Event) {
    run.status = RunStatus::Interrupted;
    run.ended_at = Some(event.time);
    run.halt = None;
    run.was_terminated = false;
}

/// A step that was under way is started again. The attempt that was running belongs to the other run, so this one has
/// not made it yet.
fn start_anew(agent: &mut Agent) {
    if let Status::Running { work, .. } = &agent.status {
        let attempt = work.attempt.saturating_sub(1);
        let work = Work { attempt, session: None, share_usd: None, ..(**work).clone() };
        agent.status = Status::Ready { since: work.step, work: Some(Box::new(work)) };
    }
}
