//! What `list` has read of journals before, so that it need not read them again.
//!
//! The journals are the truth: an entry counts only for the version of the journal that it was made of, and the whole
//! file may be deleted at any time. Trouble with it is ignored.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::Summary;

/// Raised when the meaning of an entry changes.
const FORMAT: u32 = 1;

#[derive(Default, Serialize, Deserialize)]
struct Known {
    format: u32,
    runs: BTreeMap<String, (String, Summary)>,
}

pub(super) struct Cache {
    path: Option<PathBuf>,
    known: Known,
    /// What the next list will find. Runs that are gone are not in it.
    seen: BTreeMap<String, (String, Summary)>,
    has_changed: bool,
}

impl Cache {
    /// The cache in this file; without one, nothing is remembered.
    pub(super) fn open(path: Option<PathBuf>) -> Self {
        let known = path.as_ref().and_then(|path| std::fs::read(path).ok());
        let known: Option<Known> = known.and_then(|text| serde_json::from_slice(&text).ok());
        let known = known.filter(|known| known.format == FORMAT).unwrap_or_default();
        Self { path, known, seen: BTreeMap::new(), has_changed: false }
    }

    /// What is known of a run whose journal has this version.
    pub(super) fn get(&mut self, run: &str, version: &str) -> Option<Summary> {
        let entry = self.known.runs.remove(run).filter(|(known, _)| known == version)?;
        let summary = entry.1.clone();
        self.seen.insert(run.to_owned(), entry);
        Some(summary)
    }

    pub(super) fn put(&mut self, run: &str, version: &str, summary: Summary) {
        self.has_changed = true;
        self.seen.insert(run.to_owned(), (version.to_owned(), summary));
    }

    /// Writes what was seen, if that is more than was known.
    pub(super) fn keep(self) {
        let Some(path) = self.path.filter(|_| self.has_changed) else { return };
        let Ok(text) = serde_json::to_vec(&Known { format: FORMAT, runs: self.seen }) else { return };
        let unfinished = path.with_extension(format!("{}.tmp", std::process::id()));
        if std::fs::write(&unfinished, text).and_then(|()| std::fs::rename(&unfinished, &path)).is_err() {
            let _ = std::fs::remove_file(&unfinished);
        }
    }
}
