//! The names of agents, and how workers get their names.

use std::borrow::Borrow;
use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};

use crate::workflow::StateFile;

/// The agent every run starts with.
pub const MAIN: &str = "main";

/// How many characters of a state's name go into its worker's name.
const STATE_PART_CHARS: usize = 6;

/// How many separate ranges of numbers are kept for one prefix.
const MAX_RANGES: usize = 64;

/// The name of an agent. It is unique in its run and never used again.
#[derive(
    Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, schemars::JsonSchema,
)]
#[serde(transparent)]
pub struct AgentId(String);

impl AgentId {
    pub fn main() -> Self {
        Self(MAIN.to_owned())
    }

    pub fn new(name: impl Into<String>) -> Self {
        Self(name.into())
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl Borrow<str> for AgentId {
    fn borrow(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for AgentId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Every worker name a run has ever used.
///
/// A name is a prefix (parent and state) and a number. Numbers of one prefix are kept as ranges,
/// so a dispatcher that forks the same state a million times costs one entry, not a million.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct UsedNames {
    ranges: BTreeMap<String, Vec<(u64, u64)>>,
}

impl UsedNames {
    /// The name of the worker that `parent`'s `count`-th fork starts in `state`. The number increases until the name is
    /// free, here and in `new`, the names given in the same step.
    pub fn next(&self, new: &UsedNames, parent: &AgentId, state: &StateFile, count: u64) -> (AgentId, u64) {
        let prefix = worker_prefix(parent, state);
        let mut number = count;
        loop {
            let name = format!("{prefix}{number}");
            if !self.contains(&name) && !new.contains(&name) {
                return (AgentId(name), number);
            }
            number = number.saturating_add(1);
        }
    }

    /// Adds a name that [`UsedNames::next`] returned.
    pub fn insert(&mut self, name: &AgentId, number: u64) {
        let digits = number.to_string();
        let prefix = name.0.strip_suffix(&digits).unwrap_or(&name.0);
        insert_number(self.ranges.entry(prefix.to_owned()).or_default(), number);
    }

    /// Whether a name was used. `work11` may be the 11th `work` or the first `work1`, so every split is checked.
    fn contains(&self, name: &str) -> bool {
        let digits = name.bytes().rev().take_while(u8::is_ascii_digit).count();
        (name.len() - digits..name.len()).any(|cut| {
            let (prefix, number) = name.split_at(cut);
            !number.starts_with('0')
                && number.parse().is_ok_and(|number: u64| {
                    self.ranges.get(prefix).is_some_and(|ranges| has_number(ranges, number))
                })
        })
    }
}

fn worker_prefix(parent: &AgentId, state: &StateFile) -> String {
    let part: String = state.name().chars().take(STATE_PART_CHARS).flat_map(char::to_lowercase).collect();
    format!("{parent}_{part}")
}

fn has_number(ranges: &[(u64, u64)], number: u64) -> bool {
    ranges
        .binary_search_by(|&(first, last)| {
            if last < number {
                std::cmp::Ordering::Less
            } else if first > number {
                std::cmp::Ordering::Greater
            } else {
                std::cmp::Ordering::Equal
            }
        })
        .is_ok()
}

/// Adds a number to sorted ranges. Numbers usually increase, so usually the last range is extended.
fn insert_number(ranges: &mut Vec<(u64, u64)>, number: u64) {
    if has_number(ranges, number) {
        return;
    }
    let at = ranges.partition_point(|&(_, last)| last < number);
    match at.checked_sub(1).and_then(|before| ranges.get_mut(before)) {
        Some((_, last)) if last.checked_add(1) == Some(number) => *last = number,
        _ => ranges.insert(at, (number, number)),
    }
    if ranges.len() > MAX_RANGES {
        // Marking a few free names as used limits the memory, and still no name is given twice.
        let (first, _) = ranges.remove(0);
        if let Some(next) = ranges.first_mut() {
            next.0 = first;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn state(name: &str) -> StateFile {
        StateFile::new(name).unwrap()
    }

    fn fork(used: &mut UsedNames, parent: &str, target: &str, count: u64) -> String {
        let (name, number) = used.next(&UsedNames::default(), &AgentId::new(parent), &state(target), count);
        used.insert(&name, number);
        name.to_string()
    }

    #[test]
    fn names_count_the_parents_forks() {
        let mut used = UsedNames::default();
        assert_eq!(fork(&mut used, "main", "WORKER.md", 1), "main_worker1");
        assert_eq!(fork(&mut used, "main", "ANALYZE.sh", 2), "main_analyz2");
        assert_eq!(fork(&mut used, "main", "WORKER.md", 3), "main_worker3");
        assert_eq!(fork(&mut used, "main_worker1", "ANALYZE.md", 1), "main_worker1_analyz1");
    }

    #[test]
    fn a_used_name_is_never_given_again() {
        let mut used = UsedNames::default();
        assert_eq!(fork(&mut used, "main", "WORK1.md", 1), "main_work11");
        assert_eq!(fork(&mut used, "main", "WORK.md", 11), "main_work12", "the 11th `work` would be taken");
        assert_eq!(fork(&mut used, "main", "A1_B.md", 2), "main_a1_b2");
        assert_eq!(fork(&mut used, "main_a1", "B.md", 2), "main_a1_b3", "another parent's name counts too");
    }

    #[test]
    fn many_forks_of_one_state_are_one_range() {
        let mut used = UsedNames::default();
        for count in 1..=10_000 {
            fork(&mut used, "main", "WORKER.sh", count);
        }
        assert_eq!(used.ranges.values().map(Vec::len).sum::<usize>(), 1);
    }

    #[test]
    fn short_and_non_ascii_state_names_are_cut_by_characters() {
        let mut used = UsedNames::default();
        assert_eq!(fork(&mut used, "main", "ÄÖÜßÄÖÜ.md", 1), "main_äöüßäö1");
        assert_eq!(fork(&mut used, "main", "X.md", 2), "main_x2");
    }
}
