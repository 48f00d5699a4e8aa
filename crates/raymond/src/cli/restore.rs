//! What `branch` and `rewind` do with files: with those that steps have left, with `--files`, and with task folders.

use std::collections::BTreeMap;

use raymond_core::run::Run;

use super::args::{Place, RestoreArgs};
use super::find::{own_folder, scratch_folder, task_folders};
use super::print::say;
use crate::error::UserError;
use crate::git::snapshots::{INDEXES, Purpose, first_of};
use crate::history::tasks::{Source, Staged, discard, stage};
use crate::history::{Point, files};
use crate::store::RunStore;

/// Restores the files of a point, and returns the folder that they were in with the one that has them now, if it is
/// another one. `end` is the newest state of the run, `folders` has where it works now by where it worked then, and the
/// purpose names the event that goes on with the files.
pub(super) fn restore(
    args: &RestoreArgs,
    store: &dyn RunStore,
    (point, end): (&Point, &Run),
    folders: &BTreeMap<String, String>,
    purpose: Purpose,
    place: &Place,
    quiet: bool,
) -> Result<Option<(String, String)>, UserError> {
    if !args.files {
        return Ok(None);
    }
    let target = match &args.worktree {
        Some(dir) => files::Place::Worktree { dir: dir.clone(), purpose },
        None => files::Place::InPlace { force: args.force },
    };
    let own = own_folder(place)?;
    let indexes = scratch_folder(place, &end.id)?.join(format!("{INDEXES}restore"));
    let (from, to, kept) = files::restore(store, (&point.state, end), folders, &target, (&own, &indexes))?;
    if !quiet {
        let after = point.step.map_or_else(|| "its end".to_owned(), |step| format!("step {step}"));
        say(&format!("the files are as they were after {after}, in {}", to.display()));
        kept.iter().for_each(|kept| say(&format!("what was there before is kept as {kept}")));
    }
    Ok(Some((from, to.to_string_lossy().into_owned())).filter(|(from, to)| from != to))
}

/// Puts the task folders together with which a run goes on from a point of another one, or of its own: as the step left them, or as
/// they are now. The purpose names the event after which they take their place.
pub(super) fn stage_tasks(
    args: &RestoreArgs,
    (point, origin): (&Point, &str),
    purpose: &Purpose,
    place: &Place,
) -> Result<Staged, UserError> {
    let source = if args.files { Source::Snapshots } else { Source::Now };
    let from = scratch_folder(place, origin)?;
    let to = task_folders(place, &purpose.run)?;
    stage(&point.state, &from, &to, purpose.seq, source).map_err(|error| {
        let _ = discard(&to);
        UserError::failed(error)
    })
}

/// Says what the task folders of a run are that goes on.
pub(super) fn tell_of_tasks(staged: &Staged, run: &str, origin: &str) {
    let Staged { copied, lost } = staged;
    let agents = first_of(copied);
    match run == origin {
        _ if copied.is_empty() => {}
        true => say(&format!("{run} keeps its task folders as they are now: those of {agents}")),
        false => {
            say(&format!("{run} has copies of the task folders that {origin} has now: those of {agents}"))
        }
    }
    if !lost.is_empty() {
        let lost = first_of(lost);
        say(&format!("warning: no snapshot has the files of repositories in task folders: {lost}"));
    }
}
