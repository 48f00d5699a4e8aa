//! Debug files: the prompt, the output and the cost of every attempt of a step, for a person to read later.
//!
//! They are written at once, so that they are there if Raymond is killed, but never synced. Nothing depends on them: the
//! first error is a warning, and no more files are written after it.
//!
//! Bounds: [`MOST_FILE_BYTES`] for a file; in a folder, as many steps as [`DebugFolder::open`] is told to keep and every
//! failed one. In memory, a kept step is its number and the names of its attempts; failed steps take no memory.

#![warn(clippy::wildcard_enum_match_arm, reason = "a new event has to be answered here")]

mod file;
mod kept;
mod log;
mod meta;
mod name;
mod packed;
mod shelf;
mod sieve;
#[cfg(test)]
mod tests;

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::time::Instant;

use raymond_core::event::{Body, Event};
use raymond_core::name::AgentId;
use raymond_core::run::Run;
use raymond_core::workflow::StateFile;

pub use file::MOST_FILE_BYTES;
pub use kept::{KeptAttempt, kept_attempts, kept_steps};
pub use meta::{Status, Verdict};
pub use packed::{BroughtFiles, LeftFiles, MOST_ARCHIVE_BYTES};

use crate::files::{self, MAX_SETTINGS_BYTES, private_options};
use crate::process;
use crate::process::secrets::Secrets;
use crate::view::View;
use file::BoundedFile;
use meta::{Environment, Invocation, ProgramEnd};
use name::Suffix;
use shelf::{Record, Shelf};
use sieve::Sieve;

/// How many steps are kept unless the config says otherwise.
pub const DEFAULT_KEPT_STEPS: usize = 1000;

/// How many old steps are removed after a finished step. More than one, so that a folder shrinks after the number of
/// kept steps was lowered; not all, so that no step has to wait for many deletions.
const MOST_PRUNED_AT_ONCE: usize = 4;

/// How every warning about debug files ends.
const NO_MORE_FILES: &str = "no more debug files are written";

const TRANSITIONS: &str = "transitions.log";

/// The attempt that files belong to.
#[derive(Clone, Copy, Debug)]
pub struct StepName<'a> {
    pub agent: &'a AgentId,
    pub state: &'a StateFile,
    pub step: u64,
    pub attempt: u32,
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
    /// The environment that every program inherits, read once because it does not change.
    inherited: Environment,
    access: RefCell<Access>,
}

/// Whether the folder is written to.
#[derive(Debug)]
struct Access {
    is_on: bool,
    warning: Option<String>,
    /// Absent until the first write, so that a run without steps leaves no folder.
    opened: Option<Opened>,
}

/// A folder that is written to.
#[derive(Debug)]
struct Opened {
    shelf: Shelf,
    transitions: File,
}

/// An error message for the user.
type Trouble = String;

/// The files of an attempt that are still there.
#[derive(Debug, Default)]
pub struct KeptFiles {
    pub prompt: Option<PathBuf>,
    /// What an agent program streamed.
    pub stream: Option<PathBuf>,
    pub stdout: Option<PathBuf>,
    pub stderr: Option<PathBuf>,
    pub meta: Option<PathBuf>,
}

/// Finds the files of an attempt in the debug folder of its run; of one that ran several times, those of the last.
pub fn kept_files(folder: &Path, name: StepName<'_>) -> KeptFiles {
    let stem = name::stem(&name);
    let round = last_round(folder, &stem, stream_of(name.state));
    let kept = |suffix| Some(file::path(folder, &stem, round, suffix)).filter(|path| path.is_file());
    KeptFiles {
        prompt: kept(Suffix::Prompt),
        stream: kept(Suffix::Stream),
        stdout: kept(Suffix::Stdout),
        stderr: kept(Suffix::Stderr),
        meta: kept(Suffix::Meta),
    }
}

/// The same for a step that a run may have in common with another one. `ran_in` is the run whose process started it. Its
/// files are there, unless a rewind of that run has moved them here.
pub fn shared_files(debug: &Path, run: &str, ran_in: &str, name: StepName<'_>) -> KeptFiles {
    let own = kept_files(&debug.join(run), name);
    match own.is_empty() && run != ran_in {
        true => kept_files(&debug.join(ran_in), name),
        false => own,
    }
}

/// Whether all files of an attempt are here that ran on another machine. The meta file is the last that is written.
pub fn is_whole(folder: &Path, name: StepName<'_>) -> bool {
    file::path(folder, &name::stem(&name), 1, Suffix::Meta).is_file()
}

/// How often an attempt has left a file here, but at least 1.
fn last_round(folder: &Path, stem: &str, suffix: Suffix) -> u32 {
    let is_there = |round: &u32| file::path(folder, stem, *round, suffix).is_file();
    (1..=file::MOST_ROUNDS).take_while(is_there).last().unwrap_or(1)
}

/// Moves the files of steps that belong to another run now, because this one was taken back to an earlier step. What
/// cannot be moved stays.
pub fn move_steps(from: &Path, to: &Path, is_meant: impl Fn(u64) -> bool) {
    hand_on(from, to, is_meant, |file, new| fs::rename(file, new));
}

/// Gives the files of steps also to another run that has these steps.
pub fn share_steps(from: &Path, to: &Path, is_meant: impl Fn(u64) -> bool) {
    hand_on(from, to, is_meant, |file, new| {
        fs::hard_link(file, new).or_else(|_| files::copy(file, new).map(drop))
    });
}

fn hand_on(
    from: &Path,
    to: &Path,
    is_meant: impl Fn(u64) -> bool,
    hand: impl Fn(&Path, &Path) -> io::Result<()>,
) {
    for entry in fs::read_dir(from).into_iter().flatten().flatten() {
        let file_name = entry.file_name();
        let place = file_name.to_str().and_then(name::split).and_then(|(stem, _)| name::place(stem));
        if place.is_some_and(|(step, ..)| is_meant(step)) && files::create_private_folders(to).is_ok() {
            let _ = hand(&entry.path(), &to.join(&file_name));
        }
    }
}

impl KeptFiles {
    fn is_empty(&self) -> bool {
        let Self { prompt, stream, stdout, stderr, meta } = self;
        [prompt, stream, stdout, stderr, meta].iter().all(|file| file.is_none())
    }
}

impl DebugFolder {
    /// Does not access the disk: the folder is created, or its files listed, at the first write.
    pub fn open(path: PathBuf, keep: usize) -> Self {
        Self::with_environment(path, keep, std::env::vars_os(), true)
    }

    /// For `--no-debug`: ignores everything.
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
                access: RefCell::new(Access { is_on, warning: None, opened: None }),
            }),
        }
    }

    /// The folder, and for how many steps files are kept in it; nothing for `--no-debug`.
    pub fn kept_in(&self) -> Option<(&Path, usize)> {
        let Shared { path, keep, .. } = &*self.shared;
        (!path.as_os_str().is_empty()).then_some((path, *keep))
    }

    /// Starts the files of an attempt. The first of them is created now, which reserves the name.
    pub fn begin(&self, name: StepName<'_>) -> StepFiles {
        let open = self.work(|opened| {
            let stream = stream_of(name.state);
            let stem = name::stem(&name);
            let (file, round) = file::create(&self.shared.path, &stem, 1, stream)?;
            opened.shelf.take(name.step, &name::in_round(&stem, round));
            Ok(OpenFiles { stem, round, files: BTreeMap::from([(stream, file)]), stream })
        });
        StepFiles {
            folder: self.clone(),
            attempt: meta::Attempt::new(&name),
            clock: Instant::now(),
            program: None,
            changed_values: Vec::new(),
            ended: None,
            secrets: self.shared.inherited.secrets().clone(),
            sieves: BTreeMap::new(),
            open,
        }
    }

    /// Records where a step led, and that it has ended: only then may its files be removed later.
    pub fn transition(&self, event: &Event) {
        match &event.body {
            Body::StepFinished(finished) => self.work(|opened| {
                self.log(opened, &log::finished_line(event.time, finished))?;
                opened.shelf.settle(finished.step);
                self.prune(opened)
            }),
            Body::StepFailed(failed) => self.work(|opened| {
                self.log(opened, &log::failed_line(event.time, failed))?;
                match failed.step.and_then(|step| opened.shelf.fail(step)) {
                    Some(stem) => self.mark_failed(&stem, &failed.error),
                    None => Ok(()),
                }
            }),
            Body::RunStarted(_)
            | Body::AgentStarted(_)
            | Body::StepStarted(_)
            | Body::SessionStarted(_)
            | Body::Retry(_)
            | Body::Reminder(_)
            | Body::LimitWaiting(_)
            | Body::Delayed { .. }
            | Body::ExclusiveWaiting { .. }
            | Body::AgentFinished { .. }
            | Body::Joined { .. }
            | Body::AskOpened(_)
            | Body::AskClosed(_)
            | Body::Print { .. }
            | Body::Warning { .. }
            | Body::BudgetExceeded { .. }
            | Body::AgentRetried { .. }
            | Body::AgentMoved { .. }
            | Body::RunResumed(_)
            | Body::RunFinished { .. }
            | Body::RunStopped { .. }
            | Body::Snapshot { .. } => None,
        };
    }

    /// The files of an attempt that has ended, to be shown on another machine. Those that are not removed are kept as the
    /// files of steps that have not failed.
    pub fn left_by(&self, name: StepName<'_>) -> Option<LeftFiles> {
        let (folder, _) = self.kept_in()?;
        self.work(|opened| {
            opened.shelf.settle(name.step);
            self.prune(opened)
        });
        let stem = name::stem(&name);
        LeftFiles::find(folder, &stem, last_round(folder, &stem, stream_of(name.state)))
    }

    /// Puts the files of an attempt here that ran on another machine.
    pub fn bring(&self, name: StepName<'_>, files: &BroughtFiles) {
        self.work(|opened| {
            let stem = name::stem(&name);
            opened.shelf.take(name.step, &stem);
            files.write(&self.shared.path, &stem)
        });
    }

    fn log(&self, opened: &mut Opened, line: &str) -> Result<(), Trouble> {
        log::append(&mut opened.transitions, line)
            .map_err(|error| cannot_write(&self.shared.path.join(TRANSITIONS), &error))
    }

    /// The file with what an earlier attempt streamed, possibly in an earlier process; the latest, if it ran several
    /// times.
    pub fn streamed(&self, name: StepName<'_>) -> Option<PathBuf> {
        self.kept(name, stream_of(name.state))
    }

    /// The file with what an earlier attempt wrote to stderr.
    pub fn stderr(&self, name: StepName<'_>) -> Option<PathBuf> {
        self.kept(name, Suffix::Stderr)
    }

    /// The file with the prompt of an earlier attempt.
    pub fn prompt(&self, name: StepName<'_>) -> Option<PathBuf> {
        self.kept(name, Suffix::Prompt)
    }

    fn kept(&self, name: StepName<'_>, suffix: Suffix) -> Option<PathBuf> {
        // An error ends only the writing. With `--no-debug` there is no folder to read from either.
        self.kept_in()?;
        let stem = name::stem(&name);
        (1..=file::MOST_ROUNDS)
            .map(|round| file::path(&self.shared.path, &stem, round, suffix))
            .take_while(|path| path.is_file())
            .last()
    }

    /// The warning about the first error; returned once.
    pub fn take_warning(&self) -> Option<String> {
        self.shared.access.borrow_mut().warning.take()
    }

    /// Does something in the folder, unless it is switched off. An error switches it off.
    fn work<T>(&self, work: impl FnOnce(&mut Opened) -> Result<T, Trouble>) -> Option<T> {
        let mut access = self.shared.access.borrow_mut();
        if !access.is_on {
            return None;
        }
        let done = match &mut access.opened {
            Some(opened) => work(opened),
            empty => Opened::new(&self.shared.path).and_then(|opened| work(empty.insert(opened))),
        };
        done.map_err(|trouble| access.give_up(trouble)).ok()
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

    /// Whether a step failed without being marked, because Raymond was killed in between. The meta file of the step shows it.
    fn failed_unmarked(&self, record: &Record) -> bool {
        let last = record.stems.iter().max_by_key(|stem| name::place(stem));
        last.and_then(|stem| {
            files::read(&file::path(&self.shared.path, stem, 1, Suffix::Meta), MAX_SETTINGS_BYTES).ok()
        })
        .is_some_and(|bytes| meta::says_failed(&bytes))
    }

    /// Writes the file that says why a step failed, and by which a later process knows that its files must be kept.
    fn mark_failed(&self, stem: &str, error: &str) -> Result<(), Trouble> {
        let (mut file, _) = file::create(&self.shared.path, stem, 1, Suffix::Error)?;
        file.write(format!("{}\n", error.trim_end()).as_bytes())
    }
}

impl View for DebugFolder {
    fn event(&mut self, _run: &Run, event: &Event) {
        self.transition(event);
    }
}

impl Access {
    fn give_up(&mut self, trouble: Trouble) {
        if self.is_on {
            self.is_on = false;
            self.opened = None;
            self.warning = Some(format!("{trouble}; {NO_MORE_FILES}"));
        }
    }
}

impl Opened {
    fn new(folder: &Path) -> Result<Self, Trouble> {
        let shelf = if folder.is_dir() {
            Shelf::scan(folder).map_err(|error| format!("cannot read {}: {error}", folder.display()))?
        } else {
            files::create_private_folders(folder)
                .map_err(|error| format!("cannot create the folder {}: {error}", folder.display()))?;
            Shelf::default()
        };
        let log = folder.join(TRANSITIONS);
        let transitions = files::open_plain_as(private_options().append(true).create(true), &log)
            .map_err(|error| cannot_write(&log, &error))?;
        Ok(Self { shelf, transitions })
    }
}

/// The files of one attempt. If dropped without [`StepFiles::finish`], they stay, without a meta file.
#[derive(Debug)]
pub struct StepFiles {
    folder: DebugFolder,
    attempt: meta::Attempt,
    clock: Instant,
    program: Option<Invocation>,
    changed_values: Vec<String>,
    ended: Option<ProgramEnd>,
    /// What no file may show.
    secrets: Secrets,
    /// What of each output is not written yet.
    sieves: BTreeMap<Suffix, Sieve>,
    /// Absent if nothing is to be written.
    open: Option<OpenFiles>,
}

#[derive(Debug)]
struct OpenFiles {
    stem: String,
    round: u32,
    files: BTreeMap<Suffix, BoundedFile>,
    /// The file that stdout is written to.
    stream: Suffix,
}

impl StepFiles {
    /// Neither shows these secrets, besides those in Raymond's own environment.
    pub fn hide(&mut self, secrets: &Secrets) {
        self.secrets = self.secrets.joined(secrets);
    }

    /// The prompt that the agent gets, and which pieces of values are not in it as they were.
    pub fn prompt(&mut self, text: &str, changed_values: &[String]) {
        self.changed_values = changed_values.to_vec();
        let text = self.secrets.hide(text.to_owned());
        self.write(Suffix::Prompt, text.as_bytes());
    }

    /// The program that is about to be started, for the meta file.
    pub fn program(&mut self, spec: &process::ProgramSpec) {
        if self.open.is_some() {
            self.program = Some(Invocation::new(spec, &self.folder.shared.inherited));
        }
    }

    pub fn stdout(&mut self, bytes: &[u8]) {
        if let Some(stream) = self.open.as_ref().map(|files| files.stream) {
            self.write_output(stream, bytes);
        }
    }

    /// The file with what the program printed, if there is one.
    pub fn output_path(&self) -> Option<String> {
        let open = self.open.as_ref()?;
        let path = file::path(&self.folder.shared.path, &open.stem, open.round, open.stream);
        Some(path.to_string_lossy().into_owned())
    }

    pub fn stderr(&mut self, bytes: &[u8]) {
        self.write_output(Suffix::Stderr, bytes);
    }

    fn write_output(&mut self, suffix: Suffix, bytes: &[u8]) {
        if self.open.is_none() {
            return;
        }
        let sieve = self.sieves.entry(suffix).or_insert_with(|| Sieve::new(suffix == Suffix::Stream));
        let certain = sieve.take(bytes, &self.secrets);
        self.write(suffix, &certain);
    }

    /// Writes what has waited for the rest of an output.
    fn write_rests(&mut self) {
        for (suffix, mut sieve) in std::mem::take(&mut self.sieves) {
            let rest = sieve.rest(&self.secrets);
            if !rest.is_empty() {
                self.write(suffix, &rest);
            }
        }
    }

    /// How the program ended, for the meta file.
    pub fn ended(&mut self, ending: &process::Ending) {
        self.ended = Some(ProgramEnd::new(ending));
    }

    /// Writes the meta file. The verdict on the attempt is known only after its output was read.
    pub fn finish(mut self, verdict: Verdict) {
        self.write_rests();
        let is_script = self.open.as_ref().is_some_and(|files| files.stream == Suffix::Stdout);
        if is_script {
            // An empty file shows that the script wrote nothing to stderr; a missing one could mean anything.
            self.write(Suffix::Stderr, b"");
        }
        if self.open.is_none() {
            return;
        }
        let meta = meta::text(
            &self.attempt,
            self.program.as_ref(),
            &self.changed_values,
            self.ended.as_ref(),
            &self.folder.shared.inherited,
            &verdict,
            self.clock.elapsed(),
        );
        self.write(Suffix::Meta, meta.as_bytes());
    }

    fn write(&mut self, suffix: Suffix, bytes: &[u8]) {
        let Some(files) = &mut self.open else { return };
        let folder = &self.folder;
        let written = folder.work(|_| files.write(&folder.shared.path, suffix, bytes));
        if written.is_none() {
            self.open = None;
        }
    }
}

impl OpenFiles {
    /// Creates a file when there is something to write to it, so that a running step has few open files.
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

/// An agent program writes a stream of JSON to stdout, a script text.
fn stream_of(state: &StateFile) -> Suffix {
    if state.kind().is_prompt() { Suffix::Stream } else { Suffix::Stdout }
}

fn cannot_write(path: &Path, error: &std::io::Error) -> Trouble {
    format!("cannot write {}: {error}", path.display())
}
