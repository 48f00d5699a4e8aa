//! The marks of runs that are carried out elsewhere: one file a run, in a folder beside the journals.
//!
//! When such a run is removed here, the engine may still list it. A second file then keeps it from being copied again.

use std::collections::BTreeSet;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use super::disk::{create_private_dir, private_options};
use crate::files;
use crate::store::elsewhere::Elsewhere;
use crate::store::id::check_run_id;

/// Ids of runs never begin with a dot, so no run has files of this name.
pub(super) const FOLDER: &str = ".elsewhere";
const ENDING: &str = ".json";
const REMOVED: &str = ".removed";

pub(super) fn path_of(dir: &Path, run: &str) -> PathBuf {
    dir.join(FOLDER).join(format!("{run}{ENDING}"))
}

fn removed_path_of(dir: &Path, run: &str) -> PathBuf {
    dir.join(FOLDER).join(format!("{run}{REMOVED}"))
}

/// The mark of a run. One that cannot be read counts as none, because the copy can be looked at without it.
pub(super) fn read(dir: &Path, run: &str) -> Option<Elsewhere> {
    let bytes = files::read(&path_of(dir, run), files::MAX_SETTINGS_BYTES).ok()?;
    serde_json::from_slice(&bytes).ok()
}

/// Writes a mark as a whole: under another name first.
pub(super) fn write(dir: &Path, run: &str, mark: &Elsewhere) -> io::Result<()> {
    create_private_dir(&dir.join(FOLDER))?;
    let path = path_of(dir, run);
    let unfinished = dir.join(FOLDER).join(format!(".{run}-{}", uuid::Uuid::new_v4()));
    let mut file = private_options().write(true).create_new(true).open(&unfinished)?;
    serde_json::to_writer(&mut file, mark)?;
    file.write_all(b"\n")?;
    std::fs::rename(&unfinished, path)?;
    no_file_is_fine(std::fs::remove_file(removed_path_of(dir, run)))
}

/// Notes that a run with a mark is removed.
pub(super) fn note_removal(dir: &Path, run: &str) -> io::Result<()> {
    no_file_is_fine(std::fs::copy(path_of(dir, run), removed_path_of(dir, run)).map(drop))
}

pub(super) fn was_removed(dir: &Path, run: &str) -> bool {
    removed_path_of(dir, run).exists()
}

/// Forgets the removed runs of an engine that it does not list any more.
pub(super) fn forget_removals(dir: &Path, engine: &str, listed: &BTreeSet<&str>) -> io::Result<()> {
    for run in named(dir, REMOVED)? {
        let path = removed_path_of(dir, &run);
        let mark = files::read(&path, files::MAX_SETTINGS_BYTES).ok();
        let mark = mark.and_then(|bytes| serde_json::from_slice::<Elsewhere>(&bytes).ok());
        if !listed.contains(run.as_str()) && mark.is_none_or(|mark| mark.engine == engine) {
            no_file_is_fine(std::fs::remove_file(path))?;
        }
    }
    Ok(())
}

fn no_file_is_fine(done: io::Result<()>) -> io::Result<()> {
    match done {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        other => other,
    }
}

/// All runs that have a mark.
pub(super) fn marked(dir: &Path) -> io::Result<Vec<String>> {
    named(dir, ENDING)
}

/// All runs that have a file with this ending.
fn named(dir: &Path, ending: &str) -> io::Result<Vec<String>> {
    let entries = match std::fs::read_dir(dir.join(FOLDER)) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(error),
    };
    let mut runs = Vec::new();
    for entry in entries {
        let name = entry?.file_name();
        let run = name.to_str().and_then(|name| name.strip_suffix(ending));
        runs.extend(run.filter(|run| check_run_id(run).is_ok()).map(str::to_owned));
    }
    runs.sort();
    Ok(runs)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_removal_is_remembered_until_its_engine_forgets_the_run_or_the_run_is_there_again() {
        let dir = tempfile::tempdir().unwrap();
        let mark = |engine: &str| Elsewhere::open(engine.to_owned(), jiff::Timestamp::UNIX_EPOCH);
        for (run, engine) in [("a", "one"), ("b", "one"), ("c", "other"), ("d", "one")] {
            write(dir.path(), run, &mark(engine)).unwrap();
            note_removal(dir.path(), run).unwrap();
        }
        write(dir.path(), "d", &mark("one")).unwrap();
        forget_removals(dir.path(), "one", &BTreeSet::from(["a"])).unwrap();
        let removed = ["a", "b", "c", "d"].map(|run| was_removed(dir.path(), run));
        assert_eq!(removed, [true, false, true, false]);
        note_removal(dir.path(), "of-this-machine").unwrap();
        assert!(!was_removed(dir.path(), "of-this-machine"));
    }
}
