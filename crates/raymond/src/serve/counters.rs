//! The counters of `/metrics`, which never fall: what was counted of a run stays counted when the run is gone.
//!
//! A file beside the runs remembers it, so that a server that is started again goes on from there. Like every file of
//! numbers it may be deleted; then counting begins with the runs that are there. Trouble with it is ignored.
//!
//! Bound: an entry for each run that is there.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use serde::{Deserialize, Serialize};

use crate::store::SealedFile;
use crate::view::summary::Numbers;

/// The upper bounds of the histogram of durations, in seconds.
pub const BOUNDS: [u64; 9] = [1, 10, 60, 300, 900, 3600, 4 * 3600, 12 * 3600, 24 * 3600];

/// Beyond this the file is not read.
const MAX_FILE_BYTES: u64 = 64 * 1024 * 1024;

/// What is counted of a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Counted {
    pub numbers: Numbers,
    /// How long a run took that was completed, in milliseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub completed_ms: Option<u64>,
}

/// Durations of completed runs, by the bounds of the histogram. The last count is that of all.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Durations {
    pub up_to: [u64; BOUNDS.len()],
    pub count: u64,
    pub sum_ms: u64,
}

impl Durations {
    fn add(&mut self, milliseconds: u64) {
        for (count, bound) in self.up_to.iter_mut().zip(BOUNDS) {
            *count += u64::from(milliseconds <= bound.saturating_mul(1000));
        }
        self.count += 1;
        self.sum_ms = self.sum_ms.saturating_add(milliseconds);
    }
}

/// What all runs add up to, those that are gone among them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Totals {
    pub numbers: Numbers,
    pub durations: Durations,
}

impl Totals {
    fn add(&mut self, counted: &Counted) {
        let (all, one) = (&mut self.numbers, counted.numbers);
        *all = Numbers {
            steps: all.steps.saturating_add(one.steps),
            turns: all.turns.saturating_add(one.turns),
            cost_usd: all.cost_usd + one.cost_usd,
            tokens: all.tokens.plus(one.tokens),
        };
        counted.completed_ms.into_iter().for_each(|took| self.durations.add(took));
    }

    /// In each part the larger of both.
    fn at_least(self, other: Totals) -> Totals {
        let (ours, theirs) = (self.numbers, other.numbers);
        let (mut durations, shown) = (self.durations, other.durations);
        for (count, shown) in durations.up_to.iter_mut().zip(shown.up_to) {
            *count = shown.max(*count);
        }
        Totals {
            numbers: Numbers {
                steps: ours.steps.max(theirs.steps),
                turns: ours.turns.max(theirs.turns),
                cost_usd: ours.cost_usd.max(theirs.cost_usd),
                tokens: ours.tokens.at_least(theirs.tokens),
            },
            durations: Durations {
                count: durations.count.max(shown.count),
                sum_ms: durations.sum_ms.max(shown.sum_ms),
                ..durations
            },
        }
    }
}

/// What is remembered.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
struct Known {
    /// What was last counted of each run that was there.
    runs: BTreeMap<String, Counted>,
    /// What was counted of runs that are gone.
    gone: Totals,
    /// What was told last.
    shown: Totals,
}

#[derive(Debug)]
pub struct Counters {
    file: SealedFile,
    known: Mutex<Option<Known>>,
}

impl Counters {
    pub fn new(file: SealedFile) -> Self {
        Self { file, known: Mutex::default() }
    }

    /// Counts the runs that are there now; of one that cannot be read nothing is known, and what was counted of it stays.
    pub fn count(&self, runs: impl IntoIterator<Item = (String, Option<Counted>)>) -> Totals {
        let mut guard = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let before = guard.take().unwrap_or_else(|| self.read());
        let mut now = Known { gone: before.gone, ..Known::default() };
        let mut earlier = before.runs.clone();
        for (run, counted) in runs {
            let last = earlier.remove(&run);
            // A run that was completed once and goes on is still one that was completed.
            let kept = last.and_then(|last| last.completed_ms);
            let counted = counted.map(|now| Counted { completed_ms: now.completed_ms.or(kept), ..now });
            if let Some(counted) = counted.or(last) {
                now.runs.insert(run, counted);
            }
        }
        earlier.values().for_each(|gone| now.gone.add(gone));
        let mut totals = now.gone;
        now.runs.values().for_each(|run| totals.add(run));
        now.shown = totals.at_least(before.shown);
        if now != before {
            self.write(&now);
        }
        guard.insert(now).shown
    }

    fn read(&self) -> Known {
        let text = self.file.read(MAX_FILE_BYTES);
        text.and_then(|text| serde_json::from_slice(&text).ok()).unwrap_or_default()
    }

    fn write(&self, known: &Known) {
        if let Ok(text) = serde_json::to_vec(known) {
            let _ = self.file.write(&text);
        }
    }
}

#[cfg(test)]
mod tests {
    use raymond_core::money::Usd;

    use super::*;
    use crate::store::StateDir;

    fn counted(dollars: f64, took: Option<u64>) -> Option<Counted> {
        let numbers = Numbers { steps: 1, cost_usd: Usd::from_dollars(dollars), ..Numbers::default() };
        Some(Counted { numbers, completed_ms: took })
    }

    #[test]
    fn counters_never_fall() {
        let folder = tempfile::tempdir().unwrap();
        let file = || StateDir::at(folder.path()).own_file("serve.counters");
        let counters = Counters::new(file());
        let run = |name: &str, counted| (name.to_owned(), counted);
        let told = counters.count([run("a", counted(1.0, Some(5000))), run("b", counted(2.0, None))]);
        assert_eq!((told.numbers.cost_usd, told.durations.count), (Usd::from_dollars(3.0), 1));
        // One is cleaned, one cannot be read, and one is new.
        let told = counters.count([run("b", None), run("c", counted(0.5, None))]);
        assert_eq!((told.numbers.cost_usd, told.numbers.steps), (Usd::from_dollars(3.5), 3));
        // Another process goes on from there, and a run of the same name is another run.
        let counters = Counters::new(file());
        assert_eq!(counters.count([]).numbers.cost_usd, Usd::from_dollars(3.5));
        let told = counters.count([run("a", counted(1.0, Some(500)))]);
        assert_eq!(
            (told.numbers.cost_usd, told.durations.up_to[0], told.durations.count),
            (Usd::from_dollars(4.5), 1, 2)
        );
        // A rewind takes steps away for the moment.
        assert_eq!(counters.count([run("a", counted(0.25, None))]).numbers.cost_usd, Usd::from_dollars(4.5));
    }
}
