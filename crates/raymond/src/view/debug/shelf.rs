//! The steps that have files, by age.

use std::collections::{BTreeMap, HashSet};
use std::fs;
use std::io;
use std::path::Path;

use super::name::{self, Suffix};

/// The steps whose files may be removed one day. Those of failed steps never are, so they are not listed.
#[derive(Debug, Default)]
pub(super) struct Shelf {
    /// Steps that have not ended: how they end decides whether their files may be removed.
    running: BTreeMap<u64, Record>,
    settled: BTreeMap<u64, Record>,
}

/// The files of a step.
#[derive(Debug, Default)]
pub(super) struct Record {
    /// For each attempt, what the names of its files start with.
    pub(super) stems: Vec<Box<str>>,
    /// Whether an earlier process wrote them, so that it is not known how the step ended.
    pub(super) is_earlier: bool,
}

impl Shelf {
    /// Reads from the names of the files what an earlier process left.
    pub(super) fn scan(folder: &Path) -> io::Result<Self> {
        let mut shelf = Shelf::default();
        let mut failed = HashSet::new();
        for entry in fs::read_dir(folder)? {
            let file_name = entry?.file_name();
            let Some((stem, suffix)) = file_name.to_str().and_then(name::split) else {
                continue;
            };
            let Some((step, _, _)) = name::place(stem) else {
                continue;
            };
            if suffix == Suffix::Error {
                failed.insert(step);
            }
            shelf.settled.entry(step).or_default().found(stem);
        }
        shelf.settled.retain(|step, _| !failed.contains(step));
        Ok(shelf)
    }

    /// An attempt of a step starts.
    pub(super) fn take(&mut self, step: u64, stem: &str) {
        let earlier = self.settled.remove(&step).unwrap_or_default();
        let record = self.running.entry(step).or_insert(earlier);
        record.stems.push(stem.into());
    }

    /// A step has ended without failing.
    pub(super) fn settle(&mut self, step: u64) {
        if let Some(mut record) = self.running.remove(&step) {
            record.is_earlier = false;
            self.settled.insert(step, record);
        }
    }

    /// A step has failed. Returns the stem of its last attempt.
    pub(super) fn fail(&mut self, step: u64) -> Option<Box<str>> {
        self.running.remove(&step)?.stems.pop()
    }

    /// Takes out the oldest step, if there are more than are to be kept.
    pub(super) fn surplus(&mut self, keep: usize) -> Option<Record> {
        if self.settled.len() <= keep {
            return None;
        }
        self.settled.pop_first().map(|(_, record)| record)
    }
}

impl Record {
    fn found(&mut self, stem: &str) {
        self.is_earlier = true;
        if !self.stems.iter().any(|known| **known == *stem) {
            self.stems.push(stem.into());
        }
    }
}
