//! The process groups, output pipes and cgroups of running steps, kept on disk. They are hints for the next process of the run,
//! so that it finds the steps' processes if this process is killed.
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
use crate::process::{Cgroup, Target, Trace};

/// A token, a note about the program and a line break always fit.
const RECORD_BYTES: usize = 320;
/// More than all records of a run: one for each agent that can be alive.
const MAX_HINTS_BYTES: u64 = 64 * 1024 * 1024;
/// Stands where nothing is known about a program but that it was started.
const NO_NOTE: &str = "-";
/// Stands before the name of the cgroup, which comes last.
const BEFORE_CGROUP: &str = " @";

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

    /// Stores what is known about the program of an agent's step until it is forgotten or the agent has another one.
    pub(super) fn remember(&self, agent: &AgentId, token: &str, trace: Option<Trace>, cgroup: Option<&str>) {
        let mut inner = self.inner.borrow_mut();
        let place = inner.place_of(agent);
        let note = trace.and_then(Trace::to_note);
        let note = note.as_deref().unwrap_or(NO_NOTE);
        let cgroup = cgroup.map(|name| format!("{BEFORE_CGROUP}{name}")).unwrap_or_default();
        // An error is ignored, because this is only a hint.
        let _ = inner.write(place, &format!("{token} {note}{cgroup}"));
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
    let file = files::open_plain_as(files::private_options().write(true).create(true).truncate(false), path)?;
    // Truncate only if needed: some file systems write such a file to the disk as soon as it is closed.
    if file.metadata()?.len() > 0 {
        file.set_len(0)?;
    }
    Ok(file)
}

/// What is left of an attempt of a process that died.
#[derive(Debug)]
pub struct Leftover {
    /// Its token, and its group and pipes if these are known and can be trusted.
    pub target: Target,
    /// Whether its program is known to have been started.
    pub had_started: bool,
}

/// The programs of the attempts whose tokens begin like this, as far as they are known: those that run, and some that have
/// ended.
pub fn traces(scratch: &Path, token_prefix: &str) -> Vec<Trace> {
    let hints = files::read(&file(scratch), MAX_HINTS_BYTES).unwrap_or_default();
    let hints = String::from_utf8_lossy(&hints);
    let records = hints.lines().filter_map(|line| line.trim_end().split_once(' '));
    let notes = records.filter(|(token, _)| token.starts_with(token_prefix)).map(|(_, note)| note);
    notes
        .filter_map(|note| Trace::from_note(note.rsplit_once(BEFORE_CGROUP).map_or(note, |(note, _)| note)))
        .collect()
}

/// What to end of the attempts of a process that died.
pub fn leftovers(scratch: &Path, tokens: Vec<String>) -> Vec<Leftover> {
    let hints = files::read(&file(scratch), MAX_HINTS_BYTES).unwrap_or_default();
    let hints = String::from_utf8_lossy(&hints);
    let notes: HashMap<&str, &str> =
        hints.lines().filter_map(|line| line.trim_end().split_once(' ')).collect();
    let leftover = |token: String| {
        let Some(note) = notes.get(token.as_str()) else {
            return Leftover { had_started: false, target: Target::by_token(token) };
        };
        let (note, cgroup) = match note.rsplit_once(BEFORE_CGROUP) {
            Some((note, name)) => (note, Cgroup::left_behind(scratch, name)),
            None => (*note, None),
        };
        let target = Target { cgroup, ..Target::left_behind(token, Trace::from_note(note)) };
        Leftover { had_started: true, target }
    };
    tokens.into_iter().map(leftover).collect()
}

fn file(scratch: &Path) -> PathBuf {
    scratch.join("groups")
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use std::fs;

    use super::*;
    use crate::process::Group;

    fn trace(id: i32) -> Option<Trace> {
        Some(Trace { group: Group { id, session: i32::MAX, started: u64::MAX }, pipes: [u64::MAX; 2] })
    }

    fn groups_found(scratch: &Path, tokens: &[&str]) -> Vec<Option<i32>> {
        let found = leftovers(scratch, tokens.iter().map(|token| (*token).to_owned()).collect());
        found.into_iter().map(|left| left.target.group.map(|group| group.id)).collect()
    }

    #[test]
    fn the_next_process_finds_the_groups_of_the_running_steps() {
        let folder = tempfile::tempdir().unwrap();
        let scratch = folder.path();
        let groups = Groups::new(scratch);
        let [first, second] = ["main", "main_a1"].map(AgentId::new);
        groups.remember(&first, "n-1-1", trace(101), None);
        groups.remember(&second, "n-2-1", trace(102), None);
        groups.forget(&first);
        groups.remember(&first, "n-3-1", trace(103), None);
        // The next attempt, while the last one was not forgotten.
        groups.remember(&second, "n-2-2", trace(104), None);
        let found = groups_found(scratch, &["n-1-1", "n-2-2", "n-3-1"]);
        assert_eq!(found, [None, Some(104), Some(103)], "records are used again");
        assert_eq!(fs::metadata(file(scratch)).unwrap().len(), 2 * RECORD_BYTES as u64);
        Groups::new(scratch).remember(&first, "n-4-1", trace(i32::MAX), None);
        let found = groups_found(scratch, &["n-2-2", "n-4-1"]);
        assert_eq!(found, [None, Some(i32::MAX)], "the next process starts with an empty file");
    }

    #[test]
    fn the_longest_record_fits() {
        let folder = tempfile::tempdir().unwrap();
        let token = format!("{}-{}-{}-{}", uuid::Uuid::nil(), "f".repeat(16), u64::MAX, u32::MAX);
        Groups::new(folder.path()).remember(
            &AgentId::main(),
            &token,
            trace(i32::MAX),
            Some(&format!("01234567/{}", u32::MAX)),
        );
        assert_eq!(groups_found(folder.path(), &[&token]), [Some(i32::MAX)]);
    }

    #[test]
    fn a_hint_without_a_proof_says_only_that_the_program_was_started() {
        let folder = tempfile::tempdir().unwrap();
        let scratch = folder.path();
        // The first is of version 0.1.
        fs::write(file(scratch), b"n-1-1 101\nn-2-1 \xff\nn-3-1 -\nn-4-1\n\n \n").unwrap();
        let tokens = ["n-1-1", "n-2-1", "n-3-1", "n-4-1"];
        assert_eq!(groups_found(scratch, &tokens), [None; 4]);
        let found = leftovers(scratch, tokens.map(str::to_owned).to_vec());
        let started: Vec<bool> = found.iter().map(|left| left.had_started).collect();
        assert_eq!(started, [true, true, true, false]);
    }
}
