//! The process groups of the steps that run, remembered on disk: hints by which a successor finds what is left of
//! them, should this process be killed.
//!
//! One file for a run, with a record of fixed length for each step that runs; a step that ends leaves its place to a
//! later one. So a step costs a write and no file of its own. Without the hints, a step's processes are still found by
//! their token, unless they cleaned their environment.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::fs::{self, File, OpenOptions};
use std::io::{Seek, SeekFrom, Write};
use std::path::PathBuf;
use std::rc::Rc;

use crate::process::Target;
use crate::store::RunPaths;

/// A token, a group and a line break always fit.
const RECORD_BYTES: usize = 128;

/// The hints of a run. Clones share them.
#[derive(Clone, Debug)]
pub struct Groups {
    inner: Rc<RefCell<Inner>>,
}

#[derive(Debug)]
struct Inner {
    path: PathBuf,
    /// Opened with the first hint.
    file: Option<File>,
    /// Places that were used and are free again.
    free: BTreeSet<u64>,
    used: u64,
}

/// The place of a step that runs. Dropping it frees the place.
#[derive(Debug)]
pub(super) struct Place {
    inner: Rc<RefCell<Inner>>,
    index: u64,
}

impl Groups {
    pub fn new(paths: &RunPaths) -> Self {
        let inner = Inner { path: file(paths), file: None, free: BTreeSet::new(), used: 0 };
        Self { inner: Rc::new(RefCell::new(inner)) }
    }

    /// Remembers the group of a step for as long as the place is kept.
    pub(super) fn remember(&self, token: &str, group: i32) -> Place {
        let mut inner = self.inner.borrow_mut();
        let index = inner.free.pop_first().unwrap_or_else(|| {
            inner.used += 1;
            inner.used - 1
        });
        // It is only a hint.
        let _ = inner.write(index, &format!("{token} {group}"));
        Place { inner: Rc::clone(&self.inner), index }
    }
}

impl Inner {
    fn write(&mut self, index: u64, record: &str) -> std::io::Result<()> {
        let file = match &mut self.file {
            Some(file) => file,
            // Never emptied: a file that is may be sent to the disk as soon as it is closed.
            none => {
                let mut options = OpenOptions::new();
                none.insert(options.write(true).create(true).truncate(false).open(&self.path)?)
            }
        };
        file.seek(SeekFrom::Start(index * RECORD_BYTES as u64))?;
        file.write_all(format!("{record:<width$}\n", width = RECORD_BYTES - 1).as_bytes())
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.inner.borrow_mut().free.insert(self.index);
    }
}

/// What is left of attempts of a process that died: by their tokens, and by their groups where these are known.
pub fn leftovers(paths: &RunPaths, tokens: Vec<String>) -> Vec<Target> {
    let hints = fs::read(file(paths)).unwrap_or_default();
    let hints = String::from_utf8_lossy(&hints);
    let mut groups = std::collections::HashMap::new();
    for (token, group) in hints.lines().filter_map(|line| line.trim_end().split_once(' ')) {
        groups.extend(group.parse::<i32>().map(|group| (token, group)));
    }
    let target = |token: String| Target { group: groups.get(token.as_str()).copied(), token };
    tokens.into_iter().map(target).collect()
}

fn file(paths: &RunPaths) -> PathBuf {
    paths.tasks().join("groups")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::StateDir;

    #[test]
    fn a_successor_finds_the_groups_of_the_steps_that_ran() {
        let folder = tempfile::tempdir().unwrap();
        let paths = StateDir::at(folder.path()).run("r").unwrap();
        fs::create_dir_all(paths.tasks()).unwrap();
        let groups = Groups::new(&paths);
        let first = groups.remember("n-1-1", 101);
        let _second = groups.remember("n-2-1", 102);
        drop(first);
        let _third = groups.remember("n-3-1", 103);
        let found = leftovers(&paths, vec!["n-1-1".to_owned(), "n-2-1".to_owned(), "n-3-1".to_owned()]);
        let found: Vec<Option<i32>> = found.into_iter().map(|target| target.group).collect();
        assert_eq!(found, [None, Some(102), Some(103)], "the third step took the first one's place");
        assert_eq!(fs::metadata(file(&paths)).unwrap().len(), 2 * RECORD_BYTES as u64);
    }

    #[test]
    fn a_damaged_hint_is_no_hint() {
        let folder = tempfile::tempdir().unwrap();
        let paths = StateDir::at(folder.path()).run("r").unwrap();
        fs::create_dir_all(paths.tasks()).unwrap();
        fs::write(file(&paths), b"n-1-1 \xff\nn-2-1\nn-3-1 7x\n\n \n").unwrap();
        let found = leftovers(&paths, ["n-1-1", "n-2-1", "n-3-1"].map(str::to_owned).to_vec());
        assert!(found.iter().all(|target| target.group.is_none()), "{found:?}");
    }
}
