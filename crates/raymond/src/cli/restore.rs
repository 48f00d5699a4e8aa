//! What `branch` and `rewind` do with `--files`.

use std::collections::BTreeMap;

use raymond_core::run::Run;

use super::args::{Place, RestoreArgs};
use super::find::{own_folder, scratch_folder};
use super::print::say;
use crate::error::UserError;
use crate::git::snapshots::{INDEXES, Purpose};
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
