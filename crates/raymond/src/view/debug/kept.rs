//! The debug files of a step that are still there, for those who show it later.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use super::name::{self, Suffix};

/// The files of one attempt of a step. Those that are not there were never written, or removed to save room.
#[derive(Debug, Default)]
pub struct KeptAttempt {
    pub attempt: u32,
    /// How often the attempt was begun, each time after Raymond was killed.
    pub round: u32,
    pub prompt: Option<PathBuf>,
    /// What an agent program streamed.
    pub stream: Option<PathBuf>,
    pub stdout: Option<PathBuf>,
    pub stderr: Option<PathBuf>,
    pub meta: Option<PathBuf>,
    /// Why the step failed.
    pub error: Option<PathBuf>,
}

/// All attempts of a step that have left files in a run's debug folder, in order.
pub fn kept_attempts(folder: &Path, step: u64) -> Vec<KeptAttempt> {
    kept(folder, Some(step)).remove(&step).unwrap_or_default()
}

/// The same of all steps, by their numbers.
pub fn kept_steps(folder: &Path) -> BTreeMap<u64, Vec<KeptAttempt>> {
    kept(folder, None)
}

fn kept(folder: &Path, step: Option<u64>) -> BTreeMap<u64, Vec<KeptAttempt>> {
    let mut steps: BTreeMap<u64, Vec<KeptAttempt>> = BTreeMap::new();
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        let file_name = entry.file_name();
        let Some((stem, suffix)) = file_name.to_str().and_then(name::split) else { continue };
        let Some((of, attempt, round)) = name::place(stem) else { continue };
        if step.is_some_and(|step| step != of) {
            continue;
        }
        let found = steps.entry(of).or_default();
        let place = found.iter().position(|kept| (kept.attempt, kept.round) == (attempt, round));
        let place = place.unwrap_or_else(|| {
            found.push(KeptAttempt { attempt, round, ..KeptAttempt::default() });
            found.len() - 1
        });
        let kept = &mut found[place];
        let slot = match suffix {
            Suffix::Prompt => &mut kept.prompt,
            Suffix::Stream => &mut kept.stream,
            Suffix::Stdout => &mut kept.stdout,
            Suffix::Stderr => &mut kept.stderr,
            Suffix::Meta => &mut kept.meta,
            Suffix::Error => &mut kept.error,
        };
        *slot = Some(entry.path());
    }
    for attempts in steps.values_mut() {
        attempts.sort_by_key(|kept| (kept.attempt, kept.round));
    }
    steps
}
