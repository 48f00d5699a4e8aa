//! The end of a rewind: what is not in a journal is given to the run that keeps what was dropped.
//!
//! This follows the event that takes the run back, so a kill may come before it. Whatever goes on with one of the two runs
//! finishes it first. What has been done already is not done again.

use std::path::Path;

use raymond_core::event::{Body, Origin};
use raymond_core::run::Run;

use super::args::Place;
use super::find::{debug_root, task_folders, worktrees};
use super::print::say;
use crate::error::UserError;
use crate::history::files::{given_up, hand_over};
use crate::history::move_answers;
use crate::history::tasks::{discard, settle};
use crate::store::{RunHandle, RunStore, Start, StoreError};
use crate::view::debug::{move_steps, share_steps};

/// Finishes a rewind of this run, the one whose dropped events this run keeps, or the making of a branch. The caller has the lease of
/// the run, unless it has just made it.
pub(super) fn finish_rewind(
    store: &dyn RunStore,
    stored: &dyn RunHandle,
    run: &Run,
    place: &Place,
) -> Result<(), UserError> {
    let of_itself = |origin: &&Origin| origin.run == run.id;
    if let Some(origin) = run.origin.as_ref().filter(of_itself)
        && was_just_rewound(stored, run)?
    {
        return hand_everything_over(store, stored, (run, origin), place);
    }
    let tasks = task_folders(place, &run.id)?;
    let began = run.origin.as_ref().filter(|origin| origin.run != run.id && run.seq == origin.seq + 1);
    let Some(origin) = began else { return discard(&tasks).map_err(|error| cannot_settle(&run.id, &error)) };
    settle(&tasks, run.seq, None).map_err(|error| cannot_settle(&run.id, &error))?;
    let other = store.run(&origin.run)?;
    // A process that drives the other run has finished the rewind.
    let Ok(_lease) = other.lease() else { return Ok(()) };
    let rewound = other.load()?;
    let keeps = |origin: &&Origin| origin.dropped.as_ref() == Some(&run.id);
    match rewound.origin.as_ref().filter(keeps) {
        Some(origin) if was_just_rewound(&*other, &rewound)? => {
            hand_everything_over(store, &*other, (&rewound, origin), place)
        }
        _ => Ok(()),
    }
}

fn cannot_settle(run: &str, error: &std::io::Error) -> UserError {
    UserError::failed(format!("cannot put the task folders of {run} in their place: {error}"))
}

/// Whether nothing has happened to a run since it was rewound.
pub(super) fn was_just_rewound(stored: &dyn RunHandle, run: &Run) -> Result<bool, StoreError> {
    if run.origin.as_ref().is_none_or(|origin| origin.dropped.is_none()) {
        return Ok(false);
    }
    let last = stored.events(Start::After(run.seq - 1))?.next_batch()?;
    Ok(last.is_some_and(|batch| batch.iter().any(|event| matches!(event.body, Body::RunStarted(_)))))
}

fn hand_everything_over(
    store: &dyn RunStore,
    stored: &dyn RunHandle,
    (run, origin): (&Run, &Origin),
    place: &Place,
) -> Result<(), UserError> {
    let Some(dropped) = &origin.dropped else { return Ok(()) };
    move_answers(&*stored.inbox(), &*store.run(dropped)?.inbox(), run.last_time);
    // The event before is the last one that was dropped.
    let (point, end) = (stored.state_after(origin.seq)?, stored.state_after(run.seq - 1)?);
    let (from, to) = (worktrees(place, stored.id())?, worktrees(place, dropped)?);
    for worktree in given_up(&point, &end) {
        if let Err(error) = hand_over(&worktree, &from, (dropped, &to)) {
            say(&format!("warning: the worktree `{}` cannot be given to {dropped}: {error}", worktree.name));
        }
    }
    let (tasks, of_dropped) = (task_folders(place, stored.id())?, task_folders(place, dropped)?);
    settle(&tasks, run.seq, Some(&of_dropped.folder)).map_err(|error| cannot_settle(&run.id, &error))?;
    if let Some(debug) = debug_root(place) {
        share_debug_files(store, stored, (run, origin.seq), &debug)?;
        move_steps(&debug.join(stored.id()), &debug.join(dropped), |step| !has_ended(run, step));
    }
    Ok(())
}

/// Branches of what is dropped have their own copies of the debug files: the run will write others under the same names.
fn share_debug_files(
    store: &dyn RunStore,
    stored: &dyn RunHandle,
    (run, seq): (&Run, u64),
    debug: &Path,
) -> Result<(), UserError> {
    let keeper = run.origin.as_ref().and_then(|origin| origin.dropped.as_ref());
    let branches = store.branches_of(stored.id())?;
    for branch in branches.iter().filter(|branch| Some(*branch) != keeper) {
        let origins = store.run(branch)?.origins()?;
        let up_to = origins.iter().position(|origin| origin.run == stored.id());
        let common = up_to.and_then(|last| origins[..=last].iter().map(|origin| origin.seq).min());
        let Some(common) = common.filter(|common| *common > seq) else { continue };
        let state = stored.state_after(common)?;
        share_steps(&debug.join(stored.id()), &debug.join(branch), |step| {
            !has_ended(run, step) && has_ended(&state, step)
        });
    }
    Ok(())
}

/// Whether a step is behind the run.
fn has_ended(run: &Run, step: u64) -> bool {
    step <= run.steps_started && !run.is_under_way(step)
}
