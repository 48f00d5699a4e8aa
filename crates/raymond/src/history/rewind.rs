//! A run that is taken back to an earlier point. What came after it stays readable as a run of its own.

use std::path::Path;

use jiff::Timestamp;
use raymond_core::decide;
use raymond_core::event::{Event, Moved, Origin};
use raymond_core::run::{Options, Run};
use raymond_core::worktree::{Worktree, branch as branch_of};

use super::branch::{Branch, branch};
use super::point::Point;
use crate::git::worktrees::has_branch;
use crate::store::{Content, Inbox, JournalOptions, RunHandle, RunStore, RunWriter, StoreError};

/// The longest id of a run.
const MAX_ID: usize = 64;

/// How a run is taken back.
pub struct Back<'p> {
    pub point: &'p Point,
    /// Sessions that it does not continue.
    pub forgotten: Vec<String>,
    /// The folders that are others from now on.
    pub moved: Moved,
    /// The folders of the run that has what is dropped, by its id.
    pub handed_over: &'p dyn Fn(&str) -> Moved,
}

/// Takes a run back, and returns the id of the run that has what is dropped. `end` is its state now, and the writer holds
/// its lease.
///
/// First the other run is made, which only names this one, then this one begins anew by a single event. A kill in between
/// leaves one run more, which the next try uses.
pub fn rewind(
    store: &dyn RunStore,
    writer: &mut dyn RunWriter,
    end: Run,
    Back { point, forgotten, moved, handed_over }: Back<'_>,
    journal: JournalOptions,
    now: Timestamp,
) -> Result<String, StoreError> {
    let (run, seq) = (end.id.clone(), end.seq);
    // What a person has said about the run since is no part of what is dropped.
    let mut state = point.state.clone();
    state.options = end.options.clone();
    let origins = store.run(&run)?.origins()?;
    let reset_cost = origins.iter().any(|origin| origin.reset_cost && origin.seq >= point.seq);
    let dropped = keep(store, (Point::at_end(end), point.seq), handed_over, journal, now)?;
    let origin = Origin {
        run: run.clone(),
        seq: point.seq,
        step: point.step,
        reset_cost,
        forgotten,
        dropped: Some(dropped.clone()),
        kept_from: None,
    };
    let nonce = uuid::Uuid::new_v4().to_string();
    let body = decide::branch(&state, nonce, origin, moved);
    writer.rewind(&Event { seq: seq + 1, time: now, run, body })?;
    Ok(dropped)
}

/// Makes a run that has the whole history of this one, which will have only the events up to `kept_from`.
fn keep(
    store: &dyn RunStore,
    (end, kept_from): (Point, u64),
    handed_over: &dyn Fn(&str) -> Moved,
    journal: JournalOptions,
    now: Timestamp,
) -> Result<String, StoreError> {
    let run = end.state.id.clone();
    // Its turns do not belong into the recording of the other one.
    let options = Options { record: None, ..end.state.options.clone() };
    for number in 1_u64.. {
        let id = dropped_id(&run, number);
        let moved = handed_over(&id);
        if has_left_something(store, &id, &end.state, &moved)? {
            continue;
        }
        let how = Branch {
            options: options.clone(),
            reset_cost: false,
            forgotten: Vec::new(),
            moved,
            kept_from: Some(kept_from),
        };
        match branch(store, &id, journal, now, (&run, &end), how) {
            Ok(()) => return Ok(id),
            Err(StoreError::Exists { .. }) if keeps(&*store.run(&id)?, &end, kept_from) => return Ok(id),
            Err(StoreError::Exists { .. } | StoreError::Held { .. }) => {}
            Err(error) => return Err(error),
        }
    }
    Err(StoreError::Exists { run })
}

/// Whether a run of this name was removed and has left something where its worktrees and branches would be.
fn has_left_something(store: &dyn RunStore, id: &str, end: &Run, moved: &Moved) -> Result<bool, StoreError> {
    if !matches!(store.run(id)?.load(), Err(StoreError::Missing { .. } | StoreError::Empty { .. })) {
        return Ok(false);
    }
    let is_moved = |worktree: &&Worktree| moved.folders.contains_key(&worktree.path);
    let of_name =
        |worktree: &Worktree| Worktree { branch: branch_of(id, &worktree.name), ..worktree.clone() };
    let has_folder = moved.folders.values().any(|path| Path::new(path).exists());
    Ok(has_folder || end.worktrees.values().filter(is_moved).any(|worktree| has_branch(&of_name(worktree))))
}

/// Whether a run has exactly the history of another one, because an earlier try was interrupted.
fn keeps(run: &dyn RunHandle, end: &Point, kept_from: u64) -> bool {
    let is_same = |origin: &Origin| {
        origin.run == end.state.id && origin.seq == end.seq && origin.kept_from == Some(kept_from)
    };
    let is_whole = run.origins().is_ok_and(|origins| origins.first().is_some_and(is_same));
    is_whole && run.load().is_ok_and(|state| state.seq == end.seq + 1)
}

/// The name of what a rewind drops. It does not begin like the run's own, so that a short form of that stays unique.
fn dropped_id(run: &str, number: u64) -> String {
    let id = format!("dropped-{number}-{run}");
    // A part of an id may end in ways that an id may not, such as in `.lock`.
    let is_short = id.len() <= MAX_ID;
    if is_short { id } else { id[..MAX_ID].replace('.', "-") }
}

/// Gives answers that were not taken yet to the run that has their questions. The same numbers will be asked again. What was given
/// after the run was taken back is for that run.
pub fn move_answers(from: &dyn Inbox, to: &dyn Inbox, rewound_at: Timestamp) {
    #[derive(serde::Deserialize)]
    struct Given {
        given_at: Option<Timestamp>,
    }
    for message in from.messages().unwrap_or_default() {
        if let Content::Text(text) = &message.content {
            let given_at = serde_json::from_str::<Given>(text).ok().and_then(|given| given.given_at);
            if given_at.is_some_and(|given_at| given_at > rewound_at) {
                continue;
            }
            // Without it, the question is only asked once more.
            let _ = to.post(&message.name, text);
        }
        let _ = from.remove(&message.name);
    }
}
