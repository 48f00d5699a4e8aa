//! The marks of runs that are carried out elsewhere: one file a run, in a folder beside the journals.
//!
//! When such a run is removed here, the engine may still list it. A second file then keeps it from being copied again.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use raymond_core::name::AgentId;

use super::disk::{create_private_dir, private_options};
use super::own::Own;
use crate::files::{self, open_own_as};
use crate::store::elsewhere::Elsewhere;
use crate::store::id::check_run_id;

/// Ids of runs never begin with a dot, so no run has files of this name.
pub(super) const FOLDER: &str = ".elsewhere";
const ENDING: &str = ".json";
const REMOVED: &str = ".removed";
/// What these files are to [`Own`].
const KIND: &str = "elsewhere";

/// How much of a mark may be the names of agents and of the machines that they are on. A mark is written twice a second while
/// its run is followed, and only `status` shows the names.
const MAX_HOSTS_BYTES: usize = 256 * 1024;
/// How long a mark may be. Earlier versions wrote all hosts of a run.
const MAX_MARK_BYTES: u64 = 16 * 1024 * 1024;

pub(super) fn path_of(dir: &Path, run: &str) -> PathBuf {
    dir.join(FOLDER).join(format!("{run}{ENDING}"))
}

fn removed_path_of(dir: &Path, run: &str) -> PathBuf {
    dir.join(FOLDER).join(format!("{run}{REMOVED}"))
}

/// The mark of a run, if it has one that this user's Raymond has made.
pub(super) fn read(dir: &Path, run: &str, own: &Own) -> io::Result<Option<Elsewhere>> {
    match files::read(&path_of(dir, run), MAX_MARK_BYTES) {
        // What was half written by Raymond itself must not count as nothing: the run may go on elsewhere.
        Ok(bytes) => match own.unseal(KIND, run, &bytes) {
            None if own.has(run) => {
                Err(io::Error::new(io::ErrorKind::InvalidData, "your Raymond has not made it"))
            }
            None => Ok(None),
            Some(content) => Ok(Some(serde_json::from_slice(&content)?)),
        },
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// Whether a run has a mark that this user's Raymond has made.
pub(super) fn is_own(dir: &Path, run: &str, own: &Own) -> bool {
    let sealed = files::read(&path_of(dir, run), MAX_MARK_BYTES);
    sealed.is_ok_and(|sealed| own.unseal(KIND, run, &sealed).is_some())
}

/// Writes a mark as a whole: under another name first. Of very many hosts, only some are written.
pub(super) fn write(dir: &Path, run: &str, mark: &Elsewhere, own: &Own) -> io::Result<()> {
    let mark = Elsewhere { hosts: some_of(&mark.hosts), ..mark.clone() };
    create_private_dir(&dir.join(FOLDER))?;
    let path = path_of(dir, run);
    let unfinished = dir.join(FOLDER).join(format!(".{run}-{}", uuid::Uuid::new_v4()));
    let sealed = own.seal(KIND, run, &serde_json::to_vec(&mark)?);
    let written = write_new(&unfinished, &sealed, !path.exists());
    if let Err(error) = written.and_then(|()| std::fs::rename(&unfinished, path)) {
        let _ = std::fs::remove_file(&unfinished);
        return Err(error);
    }
    no_file_is_fine(std::fs::remove_file(removed_path_of(dir, run)))
}

/// The first mark of a run is synced: without one, the run would be taken for one of this machine.
fn write_new(path: &Path, sealed: &[u8], is_first: bool) -> io::Result<()> {
    let mut file = open_own_as(private_options().write(true).create_new(true), path)?;
    file.write_all(sealed)?;
    if is_first { file.sync_all() } else { Ok(()) }
}

/// As many hosts as fit in [`MAX_HOSTS_BYTES`], the first ones by the names of their agents.
fn some_of(hosts: &BTreeMap<AgentId, String>) -> BTreeMap<AgentId, String> {
    let mut bytes = 0;
    let fitting = hosts.iter().take_while(|(agent, host)| {
        bytes += agent.as_str().len() + host.len();
        bytes <= MAX_HOSTS_BYTES
    });
    fitting.map(|(agent, host)| (agent.clone(), host.clone())).collect()
}

/// Notes that a run with a mark is removed.
pub(super) fn note_removal(dir: &Path, run: &str) -> io::Result<()> {
    no_file_is_fine(files::copy(&path_of(dir, run), &removed_path_of(dir, run)).map(drop))
}

pub(super) fn was_removed(dir: &Path, run: &str, own: &Own) -> bool {
    removal(dir, run, own).is_some()
}

/// The mark of a run that was removed.
fn removal(dir: &Path, run: &str, own: &Own) -> Option<Vec<u8>> {
    own.unseal(KIND, run, &files::read(&removed_path_of(dir, run), MAX_MARK_BYTES).ok()?)
}

/// The mark of a run whose copy was removed.
pub(super) fn removed(dir: &Path, run: &str, own: &Own) -> Option<Elsewhere> {
    serde_json::from_slice(&removal(dir, run, own)?).ok()
}

/// Forgets that a run was removed.
pub(super) fn forget_removal(dir: &Path, run: &str) -> io::Result<()> {
    no_file_is_fine(std::fs::remove_file(removed_path_of(dir, run)))
}

/// Forgets the removed runs of an engine that it does not list any more.
pub(super) fn forget_removals(
    dir: &Path,
    engine: &str,
    listed: &BTreeSet<&str>,
    own: &Own,
) -> io::Result<()> {
    for run in named(dir, REMOVED)? {
        let path = removed_path_of(dir, &run);
        let Some(mark) = removal(dir, &run, own) else { continue };
        let mark = serde_json::from_slice::<Elsewhere>(&mark).ok();
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
    use crate::store::{FolderStore, RunStore, StateDir};

    #[test]
    fn a_run_with_very_many_hosts_keeps_its_mark() {
        let dir = tempfile::tempdir().unwrap();
        let host =
            |n: usize| (AgentId::new(format!("main_review{n:06}")), format!("worker-{n}.example.internal"));
        let hosts: BTreeMap<AgentId, String> = (0..40_000).map(host).collect();
        let mark = Elsewhere { hosts, ..Elsewhere::open("one".to_owned(), jiff::Timestamp::UNIX_EPOCH) };
        write(dir.path(), "r", &mark, &Own::default()).unwrap();
        let read = read(dir.path(), "r", &Own::default()).unwrap().expect("a mark");
        assert_eq!(read.engine, "one");
        assert!(
            read.hosts.len() > 5_000 && read.hosts.iter().all(|(agent, host)| mark.hosts[agent] == *host)
        );
        assert!(path_of(dir.path(), "r").metadata().unwrap().len() < 1024 * 1024);
    }

    /// It may go on elsewhere, so it counts neither as one of this machine nor as one that no process drives.
    #[test]
    fn a_run_whose_mark_cannot_be_read_is_not_taken_for_one_of_this_machine() {
        let dir = tempfile::tempdir().unwrap();
        let store = FolderStore::new(StateDir::at(dir.path()));
        let run = store.run("r").unwrap();
        assert!(run.try_elsewhere().unwrap().is_none());
        store.mark_elsewhere("r", &Elsewhere::open("one".to_owned(), jiff::Timestamp::UNIX_EPOCH)).unwrap();
        std::fs::write(path_of(dir.path(), "r"), "").unwrap();
        let error = run.try_elsewhere().unwrap_err().to_string();
        assert!(error.contains("r.json: EOF while parsing"), "{error}");
        assert!(run.holder().is_err());
    }

    #[test]
    fn a_removal_is_remembered_until_its_engine_forgets_the_run_or_the_run_is_there_again() {
        let dir = tempfile::tempdir().unwrap();
        let mark = |engine: &str| Elsewhere::open(engine.to_owned(), jiff::Timestamp::UNIX_EPOCH);
        for (run, engine) in [("a", "one"), ("b", "one"), ("c", "other"), ("d", "one")] {
            write(dir.path(), run, &mark(engine), &Own::default()).unwrap();
            note_removal(dir.path(), run).unwrap();
        }
        write(dir.path(), "d", &mark("one"), &Own::default()).unwrap();
        forget_removals(dir.path(), "one", &BTreeSet::from(["a"]), &Own::default()).unwrap();
        let removed = ["a", "b", "c", "d"].map(|run| was_removed(dir.path(), run, &Own::default()));
        assert_eq!(removed, [true, false, true, false]);
        note_removal(dir.path(), "of-this-machine").unwrap();
        assert!(!was_removed(dir.path(), "of-this-machine", &Own::default()));
    }
}
