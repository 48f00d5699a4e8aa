//! Debug files: what every attempt of a step was asked, wrote and cost, for a person to read later.
//!
//! They are written as things happen, so that they outlive a killed Raymond, and never synced. They are a
//! help and nothing depends on them: trouble writing them is said once and switches them off.
//!
//! Bounds: [`MOST_FILE_BYTES`] a file, the steps of [`DebugFolder::open`]'s `keep` and every failed one in a
//! folder. In memory a kept step is its number and the names of its attempts; failed ones are not remembered.

mod file;
mod log;
mod meta;
mod name;
mod shelf;
#[cfg(test)]
mod tests;

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs::{self, File};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::time::Instant;

use raymond_core::event::{Body, Event, StepStarted};
use raymond_core::name::AgentId;
use raymond_core::workflow::{Kind, StateFile};

pub use file::MOST_FILE_BYTES;
pub use meta::{Status, Verdict};

use crate::process;
use crate::view::Observer;
use file::BoundedFile;
use meta::{Environment, Program, ProgramEnd};
use name::Suffix;
use shelf::{Record, Shelf};

/// How many steps are kept unless the config says otherwise.
pub const DEFAULT_KEPT_STEPS: usize = 1000;

/// How many steps one finished step may push out. More than one, so that a folder shrinks after `keep` was
/// lowered; not all, so that no step waits for a mass deletion.
const MOST_PRUNED_AT_ONCE: usize = 4;

const TRANSITIONS: &str = "transitions.log";

/// Which attempt files belong to.
#[derive(Clone, Copy, Debug)]
pub struct StepName<'a> {
    pub agent: &'a AgentId,
    pub state: &'a StateFile,
    pub step: u64,
    pub attempt: u32,
}

impl<'a> From<&'a StepStarted> for StepName<'a> {
    fn from(started: &'a StepStarted) -> Self {
        Self { agent: &started.agent, state: &started.state, step: started.step, attempt: started.attempt }
    }
}

/// The debug folder of a run. Clones are handles to the same folder.
#[derive(Clone, Debug)]
pub struct DebugFolder {
    shared: Rc<Shared>,
}

#[derive(Debug)]
struct Shared {
    path: PathBuf,
    keep: usize,
    /// What every program inherits, read once because it does not change.
    inherited: Environment,
    state: RefCell<State>,
}

#[derive(Debug)]
struct State {
    is_on: bool,
    warning: Option<String>,
    /// Absent until the first write: a run without steps leaves no folder behind.
    opened: Option<Opened>,
}

#[derive(Debug)]
struct Opened {
    shelf: Shelf,
    transitions: File,
}

/// What went wrong, in words for the user.
type Trouble = String;

impl DebugFolder {
    /// Touches no disk: the folder is made, or looked through, when it is first written to.
    pub fn open(path: PathBuf, keep: usize) -> Self {
        Self::with_environment(path, keep, std::env::vars_os(), true)
    }

    /// For `--no-debug`: takes everything and writes nothing.
    pub fn off() -> Self {
        Self::with_environment(PathBuf::new(), 0, [], false)
    }

    fn with_environment(
        path: PathBuf,
        keep: usize,
        inherited: impl IntoIterator<Item = (OsString, OsString)>,
        is_on: bool,
    ) -> Self {
        Self {
            shared: Rc::new(Shared {
                path,
                keep,
                inherited: Environment::inherited(inherited),
                state: RefCell::new(State { is_on, warning: None, opened: None }),
            }),
        }
    }

    /// Starts the files of an attempt. The first of them is made now, which reserves the name.
    pub fn begin(&self, name: StepName<'_>) -> StepFiles {
        let live = self.work(|opened| {
            let stream = stream_of(name.state);
            let stem = name::stem(&name);
            let (file, round) = file::create(&self.shared.path, &stem, 1, stream)?;
            opened.shelf.take(name.step, &name::in_round(&stem, round));
            Ok(Live { stem, round, files: BTreeMap::from([(stream, file)]), stream })
        });
        StepFiles {
            folder: self.clone(),
            attempt: meta::Attempt::new(&name),
            clock: Instant::now(),
            program: None,
            ended: None,
            live,
        }
    }

    /// Records where a step led, and that it is over: only then may its files go some day.
    pub fn transition(&self, event: &Event) {
        if !self.shared.state.borrow().is_on {
            return;
        }
        let Some(line) = log::line(event) else { return };
        self.work(|opened| {
            log::append(&mut opened.transitions, &line)
                .map_err(|error| cannot_write(&self.shared.path.join(TRANSITIONS), &error))?;
            match &event.body {
                Body::StepFinished(finished) => {
                    opened.shelf.settle(finished.step);
                    self.prune(opened)
                }
                Body::StepFailed(failed) => match failed.step.and_then(|step| opened.shelf.fail(step)) {
                    Some(stem) => self.mark_failed(&stem, &failed.error),
                    None => Ok(()),
                },
                _ => Ok(()),
            }
        });
    }

    /// What an earlier attempt streamed, also before a resume: the latest, if it ran several times.
    pub fn streamed(&self, name: StepName<'_>) -> Option<PathBuf> {
        // Trouble switches off writing, `--no-debug` leaves no folder to read from either.
        if self.shared.path.as_os_str().is_empty() {
            return None;
        }
        let stem = name::stem(&name);
        (1..=file::MOST_ROUNDS)
            .map(|round| file::path(&self.shared.path, &stem, round, stream_of(name.state)))
            .take_while(|path| path.is_file())
            .last()
    }

    /// The one warning about trouble, once.
    pub fn take_warning(&self) -> Option<String> {
        self.shared.state.borrow_mut().warning.take()
    }

    /// Does something in the folder, unless it is switched off; trouble switches it off.
    fn work<T>(&self, work: impl FnOnce(&mut Opened) -> Result<T, Trouble>) -> Option<T> {
        let mut state = self.shared.state.borrow_mut();
        if !state.is_on {
            return None;
        }
        let done = match &mut state.opened {
            Some(opened) => work(opened),
            empty => Opened::new(&self.shared.path).and_then(|opened| work(empty.insert(opened))),
        };
        done.map_err(|trouble| state.give_up(trouble)).ok()
    }

    fn prune(&self, opened: &mut Opened) -> Result<(), Trouble> {
        for _ in 0..MOST_PRUNED_AT_ONCE {
            match opened.shelf.surplus(self.shared.keep) {
                Some(record) => self.remove(&record)?,
                None => break,
            }
        }
        Ok(())
    }

    fn remove(&self, record: &Record) -> Result<(), Trouble> {
        if record.is_earlier && self.failed_unmarked(record) {
            return Ok(());
        }
        let paths = record
            .stems
            .iter()
            .flat_map(|stem| Suffix::ALL.map(|suffix| file::path(&self.shared.path, stem, 1, suffix)));
        for path in paths {
            match fs::remove_file(&path) {
                // An attempt has about half of the files that it may have.
                Err(error) if error.kind() != ErrorKind::NotFound => {
                    return Err(format!("cannot remove {}: {error}", path.display()));
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// A Raymond that was killed right after a failure had no time to mark it; its meta file still tells.
    fn failed_unmarked(&self, record: &Record) -> bool {
        let last = record.stems.iter().max_by_key(|stem| name::place(stem));
        last.and_then(|stem| fs::read(file::path(&self.shared.path, stem, 1, Suffix::Meta)).ok())
            .is_some_and(|bytes| meta::says_failed(&bytes))
    }

    /// The mark that keeps a step for good is a file that says why it failed.
    fn mark_failed(&self, stem: &str, error: &str) -> Result<(), Trouble> {
        let (mut file, _) = file::create(&self.shared.path, stem, 1, Suffix::Error)?;
        file.write(format!("{}\n", error.trim_end()).as_bytes())
    }
}

/// So that it can be told of events like everyone who watches.
impl Observer for DebugFolder {
    fn event(&mut self, event: &Event) {
        self.transition(event);
    }
}

impl State {
    fn give_up(&mut self, trouble: Trouble) {
        if self.is_on {
            self.is_on = false;
            self.opened = None;
            self.warning = Some(format!("{trouble}; no more debug files are written"));
        }
    }
}

impl Opened {
    fn new(folder: &Path) -> Result<Self, Trouble> {
        let shelf = if folder.is_dir() {
            Shelf::scan(folder).map_err(|error| format!("cannot read {}: {error}", folder.display()))?
        } else {
            file::create_private_folder(folder)
                .map_err(|error| format!("cannot make the folder {}: {error}", folder.display()))?;
            Shelf::default()
        };
        let log = folder.join(TRANSITIONS);
        let transitions = file::private_options()
            .append(true)
            .create(true)
            .open(&log)
            .map_err(|error| cannot_write(&log, &error))?;
        Ok(Self { shelf, transitions })
    }
}

/// The files of one attempt. Dropped without [`StepFiles::finish`] they stay as they are, without a meta file.
#[derive(Debug)]
pub struct StepFiles {
    folder: DebugFolder,
    attempt: meta::Attempt,
    clock: Instant,
    program: Option<Program>,
    ended: Option<ProgramEnd>,
    /// Absent when nothing is to be written.
    live: Option<Live>,
}

#[derive(Debug)]
struct Live {
    stem: String,
    round: u32,
    files: BTreeMap<Suffix, BoundedFile>,
    /// Where stdout goes.
    stream: Suffix,
}

impl StepFiles {
    /// What the agent is told.
    pub fn prompt(&mut self, text: &str) {
        self.write(Suffix::Prompt, text.as_bytes());
    }

    /// What is about to be started, for the meta file.
    pub fn program(&mut self, launch: &process::Launch) {
        if self.live.is_some() {
            self.program = Some(Program::new(launch));
        }
    }

    pub fn stdout(&mut self, bytes: &[u8]) {
        if let Some(stream) = self.live.as_ref().map(|live| live.stream) {
            self.write(stream, bytes);
        }
    }

    pub fn stderr(&mut self, bytes: &[u8]) {
        self.write(Suffix::Stderr, bytes);
    }

    /// How the program ended, for the meta file.
    pub fn ended(&mut self, ending: &process::Ending) {
        self.ended = Some(ProgramEnd::new(ending));
    }

    /// Writes the meta file; what became of the attempt is known only after its output was read.
    pub fn finish(mut self, verdict: Verdict) {
        let is_script = self.live.as_ref().is_some_and(|live| live.stream == Suffix::Stdout);
        if is_script {
            // An empty file says that there was nothing, a missing one would say nothing.
            self.write(Suffix::Stderr, b"");
        }
        if self.live.is_none() {
            return;
        }
        let meta = meta::text(
            &self.attempt,
            self.program.as_ref(),
            self.ended.as_ref(),
            &self.folder.shared.inherited,
            &verdict,
            self.clock.elapsed(),
        );
        self.write(Suffix::Meta, meta.as_bytes());
    }

    fn write(&mut self, suffix: Suffix, bytes: &[u8]) {
        let Some(live) = &mut self.live else { return };
        let folder = &self.folder;
        let written = folder.work(|_| live.write(&folder.shared.path, suffix, bytes));
        if written.is_none() {
            self.live = None;
        }
    }
}

impl Live {
    /// Files are made when there is something for them, so that a waiting step holds few of them open.
    fn write(&mut self, folder: &Path, suffix: Suffix, bytes: &[u8]) -> Result<(), Trouble> {
        use std::collections::btree_map::Entry;
        match self.files.entry(suffix) {
            Entry::Occupied(entry) => entry.into_mut().write(bytes),
            Entry::Vacant(entry) => {
                let (file, _) = file::create(folder, &self.stem, self.round, suffix)?;
                entry.insert(file).write(bytes)
            }
        }
    }
}

/// What an agent program streams is JSON, what a script writes is text.
fn stream_of(state: &StateFile) -> Suffix {
    match state.kind() {
        Kind::Prompt => Suffix::Stream,
        _ => Suffix::Stdout,
    }
}

fn cannot_write(path: &Path, error: &std::io::Error) -> Trouble {
    format!("cannot write {}: {error}", path.display())
}
