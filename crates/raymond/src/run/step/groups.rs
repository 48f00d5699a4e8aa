//! The process groups of running steps, kept on disk. They are hints for the next process of the run, so that it finds
//! the steps' processes if this process is killed.
//!
//! There is one file for each run, with a record of fixed length for each running step. The record of a step that has
//! ended is used again. So a step costs one write and needs no file of its own. Without the hints, a step's processes
//! are still found by their token, unless they cleared their environment.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fs::File;
use std::io::{Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use raymond_core::name::AgentId;

use crate::files;
use crate::process::Target;

/// A token, a group and a line break always fit.
const RECORD_BYTES: usize = 128;
/// More than all records of a run: one for each agent that can be alive.
const MAX_HINTS_BYTES: u64 = 16 * 1024 * 1024;

/// The hints of a run.
#[derive(Debug)]
pub struct Groups {
    inner: RefCell<Inner>,
}

#[derive(Debug)]
struct Inner {
    path: PathBuf,
    /// Opened with the first hint.
    file: Option<File>,
    /// The record of each agent.
    places: BTreeMap<AgentId, u64>,
    /// Records that are free again.
    free: BTreeSet<u64>,
}

impl Groups {
    pub fn new(scratch: &Path) -> Self {
        let inner = Inner { path: file(scratch), file: None, places: BTreeMap::new(), free: BTreeSet::new() };
        Self { inner: RefCell::new(inner) }
    }

    /// Stores the group of an agent's step until it is forgotten or the agent has another one.
    pub(super) fn remember(&self, agent: &AgentId, token: &str, group: i32) {
        let mut inner = self.inner.borrow_mut();
        let place = inner.place_of(agent);
        // An error is ignored, because this is only a hint.
        let _ = inner.write(place, &format!("{token} {group}"));
    }

    /// The end of the agent's step is recorded, so its processes need not be found any more.
    pub fn forget(&self, agent: &AgentId) {
        let mut inner = self.inner.borrow_mut();
        if let Some(place) = inner.places.remove(agent) {
            inner.free.insert(place);
        }
    }
}

impl Inner {
    fn place_of(&mut self, agent: &AgentId) -> u64 {
        if let Some(place) = self.places.get(agent) {
            return *place;
        }
        let place = self.free.pop_first().unwrap_or(self.places.len() as u64);
        self.places.insert(agent.clone(), place);
        place
    }

    fn write(&mut self, place: u64, record: &str) -> std::io::Result<()> {
        let file = match &mut self.file {
            Some(file) => file,
            none => none.insert(open(&self.path)?),
        };
        file.seek(SeekFrom::Start(place * RECORD_BYTES as u64))?;
        let mut bytes = record.as_bytes().to_vec();
        bytes.resize(RECORD_BYTES - 1, b' ');
        bytes.push(b'\n');
        file.write_all(&bytes)
    }
}

/// The records of the previous process have been read by now.
fn open(path: &Path) -> std::io::Result<File> {
    let file = files::private_options().write(true).create(true).truncate(false).open(path)?;
    // Truncate only if needed: some file systems write such a file to the disk as soon as it is closed.
    if file.metadata()?.len() > 0 {
        file.set_len(0)?;
    }
    Ok(file)
}

/// What to end of the attempts of a process that died: by their tokens, and by their groups if these are known.
pub fn leftovers(scratch: &Path, tokens: Vec<String>) -> Vec<Target> {
    let hints = files::read(&file(scratch), MAX_HINTS_BYTES).unwrap_or_default();
    let hints = String::from_utf8_lossy(&hints);
    let mut groups = HashMap::new();
    for (token, group) in hints.lines().filter_map(|line| line.trim_end().split_once(' ')) {
        groups.extend(group.parse::<i32>().map(|group| (token, group)));
    }
    let target = |token: String| Target { group: groups.get(token.as_str()).copied(), token };
    tokens.into_iter().map(target).collect()
}

fn file(scratch: &Path) -> PathBuf {
    scratch.join("groups")
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn the_next_process_finds_the_groups_of_the_running_steps() {
        let folder = tempfile::tempdir().unwrap();
        let scratch = folder.path();
        let groups = Groups::new(scratch);
        let [first, second] = ["main", "main_a1"].map(AgentId::new);
        groups.remember(&first, "n-1-1", 101);
        groups.remember(&second, "n-2-1", 102);
        groups.forget(&first);
        groups.remember(&first, "n-3-1", 103);
        // The next attempt, while the last one was not forgotten.
        groups.remember(&second, "n-2-2", 104);
        let found = leftovers(scratch, ["n-1-1", "n-2-2", "n-3-1"].map(str::to_owned).to_vec());
        let found: Vec<Option<i32>> = found.into_iter().map(|target| target.group).collect();
        assert_eq!(found, [None, Some(104), Some(103)], "records are used again");
        assert_eq!(fs::metadata(file(scratch)).unwrap().len(), 2 * RECORD_BYTES as u64);
        Groups::new(scratch).remember(&first, "n-4-1", 105);
        let found = leftovers(scratch, ["n-2-2", "n-4-1"].map(str::to_owned).to_vec());
        let found: Vec<Option<i32>> = found.into_iter().map(|target| target.group).collect();
        assert_eq!(found, [None, Some(105)], "the next process starts with an empty file");
    }

    #[test]
    fn a_damaged_hint_is_ignored() {
        let folder = tempfile::tempdir().unwrap();
        let scratch = folder.path();
        fs::write(file(scratch), b"n-1-1 \xff\nn-2-1\nn-3-1 7x\n\n \n").unwrap();
        let found = leftovers(scratch, ["n-1-1", "n-2-1", "n-3-1"].map(str::to_owned).to_vec());
        assert!(found.iter().all(|target| target.group.is_none()), "{found:?}");
    }
}
