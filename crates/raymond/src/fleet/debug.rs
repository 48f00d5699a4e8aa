//! Debug files of steps that other machines carry out, copied into the debug folder that the run has here.
//!
//! The copy of the journal tells which attempts have ended. Their files are fetched behind it, so that no view of events
//! waits for them. From then on all views find them as those of a local run. How far they were copied is written in the
//! folder itself, and any process can go on there.
//!
//! Bounds: [`FETCHES_AT_ONCE`] archives are in memory. Of a run that is far ahead, the files of steps that would not be kept
//! are not fetched.

use std::collections::BTreeMap;
use std::fs::{self, File, TryLockError};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use raymond_core::event::{Body, Event, StepStarted};
use raymond_core::name::AgentId;
use raymond_core::workflow::StateFile;
use serde::{Deserialize, Serialize};

use super::{Address, Fleet, PATIENCE, Trouble};
use crate::files::{
    self, MAX_SETTINGS_BYTES, create_private_folders, open_plain_as, private_options, write_private,
};
use crate::store::{Events, RunHandle, RunStore, Start, StoreError};
use crate::view::debug::{BroughtFiles, DebugFolder, StepName, is_whole};

/// So many attempts are asked for at once.
const FETCHES_AT_ONCE: usize = 8;
/// How often a run that is followed is looked at, and how often all runs are.
const LOOK_AGAIN: Duration = Duration::from_millis(200);
const LOOK_AT_ALL_AGAIN: Duration = Duration::from_secs(2);
/// How long a store that is away is left alone.
const PAUSE: Duration = Duration::from_secs(5);
/// How often it is tried to take the lock of a folder.
const TRY_AGAIN: Duration = Duration::from_millis(10);

/// The file that says how far a folder's files were copied, and the one that is locked while some are.
const PROGRESS: &str = ".copied";
const LOCK: &str = ".copying";

/// Where debug files are kept here, and how many.
#[derive(Clone, Debug)]
pub struct Rules {
    /// The folder for the debug files of all runs.
    pub root: PathBuf,
    /// For how many steps files are kept, besides those that failed.
    pub keep: usize,
}

/// Why files were not copied, for people.
type Why = String;

/// An attempt at a step.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Attempt {
    agent: AgentId,
    state: StateFile,
    step: u64,
    attempt: u32,
}

impl Attempt {
    fn name(&self) -> StepName<'_> {
        StepName { agent: &self.agent, state: &self.state, step: self.step, attempt: self.attempt }
    }
}

impl From<&StepStarted> for Attempt {
    fn from(started: &StepStarted) -> Self {
        let StepStarted { agent, state, step, attempt, .. } = started.clone();
        Self { agent, state, step, attempt }
    }
}

/// What follows from the events up to one of them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
struct Progress {
    /// That event.
    seq: u64,
    /// The last attempt of each step that has not ended.
    begun: BTreeMap<AgentId, Attempt>,
    /// Whether the run leaves no debug files.
    no_debug: bool,
}

/// What an event leads to.
#[derive(Debug)]
enum Task {
    Fetch(Attempt),
    /// A line of the log of transitions, and the end of the step.
    Log(Box<Event>),
}

impl Progress {
    fn read(folder: &Path) -> Self {
        let bytes = files::read(&folder.join(PROGRESS), MAX_SETTINGS_BYTES).unwrap_or_default();
        serde_json::from_slice(&bytes).unwrap_or_default()
    }

    fn write(&self, folder: &Path) -> io::Result<()> {
        let unfinished = folder.join(format!("{PROGRESS}.new"));
        write_private(&unfinished, &serde_json::to_vec(self)?)?;
        fs::rename(unfinished, folder.join(PROGRESS))
    }

    /// Takes an event. The files of steps before `oldest` are wanted only if the step has failed.
    fn take(&mut self, event: &Event, oldest: u64, tasks: &mut Vec<Task>) {
        self.seq = event.seq;
        match &event.body {
            Body::RunStarted(started) => self.no_debug = started.options.no_debug,
            Body::RunResumed(resumed) => self.no_debug = resumed.options.no_debug,
            Body::StepStarted(started) => {
                self.begun.insert(started.agent.clone(), started.into());
            }
            body => {
                let ended = self.ended_by(body, oldest);
                if !self.no_debug {
                    tasks.extend(ended.into_iter().map(Task::Fetch));
                    tasks.extend(is_end_of_step(body).then(|| Task::Log(Box::new(event.clone()))));
                }
                if let Some(agent) = body.agent().filter(|_| is_end_of_step(body)) {
                    self.begun.remove(agent);
                }
            }
        }
    }

    /// The attempts whose files may be there now.
    fn ended_by(&self, body: &Body, oldest: u64) -> Vec<Attempt> {
        let is_kept = |attempt: &&Attempt| attempt.step >= oldest;
        if let Body::RunStopped { interrupted, .. } = body {
            let begun = interrupted.iter().filter_map(|step| self.begun.get(&step.agent));
            return begun.filter(is_kept).cloned().collect();
        }
        let Some(last) = body.ended_attempt_of().and_then(|agent| self.begun.get(agent)) else {
            return Vec::new();
        };
        // Files of earlier attempts may have come late, or were not wanted before the step had failed.
        let all = || (1..=last.attempt).map(|attempt| Attempt { attempt, ..last.clone() }).collect();
        match body {
            Body::StepFailed(failed) if failed.step == Some(last.step) => all(),
            Body::StepFailed(_) => Vec::new(),
            Body::StepFinished(_) if is_kept(&last) => all(),
            _ => Some(last).filter(is_kept).cloned().into_iter().collect(),
        }
    }
}

fn is_end_of_step(body: &Body) -> bool {
    matches!(body, Body::StepFinished(_) | Body::StepFailed(_))
}

/// What there is of an attempt.
enum Found {
    Nothing,
    /// It is here already.
    Here,
    Files(BroughtFiles),
}

/// Copies the debug files of one run.
pub struct DebugCopy {
    source: Source,
    keep: usize,
    open: Option<Open>,
}

/// Where the files of a run come from and go to.
struct Source {
    fleet: &'static dyn Fleet,
    run: Arc<dyn RunHandle>,
    at: Address,
    folder: PathBuf,
}

/// How far this process is.
struct Open {
    progress: Progress,
    /// What the folder says.
    written: Progress,
    events: Box<dyn Events>,
    files: DebugFolder,
    /// The first step whose files are kept although it did not fail, once that had to be known.
    oldest: Option<u64>,
}

impl DebugCopy {
    /// Nothing if the run is not carried out elsewhere.
    pub fn of(fleet: &'static dyn Fleet, run: Arc<dyn RunHandle>, rules: &Rules) -> Option<Self> {
        let keep = rules.keep;
        Source::of(fleet, run, rules).map(|source| Self { source, keep, open: None })
    }

    /// Copies the files of all attempts whose ends the journal here tells. False if `goes_on` has ended it before.
    pub fn catch_up(&mut self, goes_on: &dyn Fn() -> bool) -> Result<bool, Why> {
        while goes_on() {
            match self.copy_some() {
                Ok(true) => return Ok(true),
                Ok(false) => {}
                Err(why) => {
                    // What was read and not copied is read again.
                    self.open = None;
                    return Err(why);
                }
            }
        }
        Ok(false)
    }

    /// Copies the files of some attempts. True if there were none.
    fn copy_some(&mut self) -> Result<bool, Why> {
        let open = match &mut self.open {
            Some(open) => open,
            none => none.insert(Open::new(&self.source, self.keep).map_err(text)?),
        };
        let tasks = open.read_on(&self.source, self.keep).map_err(text)?;
        if tasks.is_empty() {
            return Ok(true);
        }
        create_private_folders(&self.source.folder).map_err(text)?;
        let _lock = lock(&self.source.folder)?;
        if Progress::read(&self.source.folder) != open.written {
            // Another process was faster.
            self.open = None;
            return Ok(false);
        }
        self.source.carry_out(&tasks, &open.files)?;
        open.progress.write(&self.source.folder).map_err(text)?;
        open.written = open.progress.clone();
        Ok(false)
    }
}

impl Open {
    fn new(source: &Source, keep: usize) -> Result<Self, StoreError> {
        let progress = Progress::read(&source.folder);
        let events = source.run.events(Start::After(progress.seq))?;
        let files = DebugFolder::open(source.folder.clone(), keep);
        Ok(Self { written: progress.clone(), progress, events, files, oldest: None })
    }

    /// What the next events lead to. Nothing at the present end of the journal.
    fn read_on(&mut self, source: &Source, keep: usize) -> Result<Vec<Task>, StoreError> {
        let mut tasks = Vec::new();
        while tasks.len() < FETCHES_AT_ONCE
            && let Some(batch) = self.events.next_batch()?
        {
            let oldest = match self.oldest {
                Some(oldest) => oldest,
                None => (source.run.load()?.steps_started + 1).saturating_sub(keep as u64),
            };
            self.oldest = Some(oldest);
            batch.iter().for_each(|event| self.progress.take(event, oldest, &mut tasks));
        }
        Ok(tasks)
    }
}

impl Source {
    fn of(fleet: &'static dyn Fleet, run: Arc<dyn RunHandle>, rules: &Rules) -> Option<Self> {
        let at = Address::parse(&run.elsewhere()?.engine).ok()?;
        let folder = rules.root.join(run.id());
        Some(Self { fleet, run, at, folder })
    }

    /// Carries out tasks in their order. A batch of events may lead to many of them.
    fn carry_out(&self, tasks: &[Task], files: &DebugFolder) -> Result<(), Why> {
        for some in tasks.chunks(FETCHES_AT_ONCE) {
            let found = self.fetch_all(some)?;
            for (task, found) in some.iter().zip(found) {
                match (task, found) {
                    (Task::Fetch(attempt), Found::Files(brought)) => files.bring(attempt.name(), &brought),
                    (Task::Fetch(attempt), Found::Here) => {
                        files.bring(attempt.name(), &BroughtFiles::default())
                    }
                    (Task::Fetch(_), Found::Nothing) => {}
                    (Task::Log(event), _) => files.transition(event),
                }
            }
            files.take_warning().map_or(Ok(()), Err)?;
        }
        Ok(())
    }

    /// What the tasks need, at the same time.
    fn fetch_all(&self, tasks: &[Task]) -> Result<Vec<Found>, Why> {
        std::thread::scope(|scope| {
            let asked: Vec<_> = tasks
                .iter()
                .map(|task| match task {
                    Task::Fetch(attempt) => Some(scope.spawn(|| self.fetch(attempt))),
                    Task::Log(_) => None,
                })
                .collect();
            let lost = |_| Err("a thread has failed".to_owned());
            let answer = |asked: Option<std::thread::ScopedJoinHandle<'_, Result<Found, Why>>>| match asked {
                Some(thread) => thread.join().unwrap_or_else(lost),
                None => Ok(Found::Nothing),
            };
            asked.into_iter().map(answer).collect()
        })
    }

    /// An archive that cannot be used counts as none, because it would be the same the next time.
    fn fetch(&self, attempt: &Attempt) -> Result<Found, Why> {
        let refused = |why: &dyn std::fmt::Display| {
            tracing::warn!(run = self.run.id(), step = attempt.step, %why, "debug files are refused");
            Ok(Found::Nothing)
        };
        match self.try_fetch(attempt) {
            Ok(found) => Ok(found),
            Err(Trouble::Refused(why)) => refused(&why),
            Err(away @ Trouble::Away(_)) => Err(away.to_string()),
        }
    }

    fn try_fetch(&self, attempt: &Attempt) -> Result<Found, Trouble> {
        if is_whole(&self.folder, attempt.name()) {
            return Ok(Found::Here);
        }
        let run = self.run.id();
        let Some(archive) = self.fleet.debug_files(&self.at, run, attempt.step, attempt.attempt)? else {
            return Ok(Found::Nothing);
        };
        BroughtFiles::unpack(&archive).map(Found::Files).map_err(Trouble::Refused)
    }
}

/// Brings the files of all attempts at one step that are not here yet. Those of a step that a run has in common with
/// another one come from that.
pub fn bring_step(
    fleet: &'static dyn Fleet,
    store: &dyn RunStore,
    run: &dyn RunHandle,
    step: u64,
    rules: &Rules,
) -> Result<(), Why> {
    let mut events = run.events(Start::After(0)).map_err(text)?;
    while let Some(batch) = events.next_batch().map_err(text)? {
        for event in batch {
            let Body::StepStarted(started) = &event.body else { continue };
            if started.step != step {
                continue;
            }
            let ran_in = store.run(&event.run).map_err(text)?;
            let Some(source) = Source::of(fleet, ran_in, rules) else { continue };
            let attempt = Attempt::from(started);
            if let Found::Files(brought) = source.try_fetch(&attempt).map_err(text)? {
                let files = DebugFolder::open(source.folder, rules.keep);
                files.bring(attempt.name(), &brought);
                files.take_warning().map_or(Ok(()), Err)?;
            }
        }
    }
    Ok(())
}

/// A thread that copies the debug files of a run while it goes on.
pub struct DebugKeeper {
    is_over: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl DebugKeeper {
    pub fn start(fleet: &'static dyn Fleet, run: Arc<dyn RunHandle>, rules: Rules) -> Self {
        let is_over = Arc::new(AtomicBool::new(false));
        let over = Arc::clone(&is_over);
        let work = move || {
            let Some(mut copy) = DebugCopy::of(fleet, run, &rules) else { return };
            loop {
                // Read first: what was committed before is copied below.
                let is_over = over.load(Ordering::Relaxed);
                let pause = match copy.catch_up(&|| true) {
                    Ok(_) => LOOK_AGAIN,
                    Err(why) => {
                        tracing::debug!(%why, "debug files are not copied");
                        PAUSE
                    }
                };
                if is_over {
                    return;
                }
                let until = Instant::now() + pause;
                while Instant::now() < until && !over.load(Ordering::Relaxed) {
                    std::thread::sleep(TRY_AGAIN);
                }
            }
        };
        let thread = std::thread::Builder::new().name("debug files".to_owned()).spawn(work).ok();
        Self { is_over, thread }
    }

    /// Waits until the files of all that has happened are here. What takes too long is fetched by a later command.
    pub fn finish(self) {
        self.is_over.store(true, Ordering::Relaxed);
        let until = Instant::now() + PATIENCE;
        while self.thread.as_ref().is_some_and(|thread| !thread.is_finished()) && Instant::now() < until {
            std::thread::sleep(TRY_AGAIN);
        }
    }
}

/// Copies the debug files of all runs from now on, those of ended runs too.
pub fn keep_all(fleet: &'static dyn Fleet, store: Arc<dyn RunStore>, rules: Rules) {
    std::thread::spawn(move || {
        // A run that is over and whose files are here has none.
        let mut copies: BTreeMap<String, Option<DebugCopy>> = BTreeMap::new();
        loop {
            for id in store.elsewhere().unwrap_or_default() {
                let Ok(run) = store.run(&id) else { continue };
                let is_open = run.elsewhere().is_some_and(|mark| mark.is_open);
                let copy = copies.entry(id).or_insert_with(|| DebugCopy::of(fleet, Arc::clone(&run), &rules));
                if is_open && copy.is_none() {
                    *copy = DebugCopy::of(fleet, run, &rules);
                }
                match copy.as_mut().map(|copy| copy.catch_up(&|| true)) {
                    Some(Ok(_)) if !is_open => *copy = None,
                    Some(Err(why)) => tracing::debug!(%why, "debug files are not copied"),
                    Some(Ok(_)) | None => {}
                }
            }
            std::thread::sleep(LOOK_AT_ALL_AGAIN);
        }
    });
}

/// Waits until no other process writes to a folder.
fn lock(folder: &Path) -> Result<File, Why> {
    let path = folder.join(LOCK);
    let file =
        open_plain_as(private_options().write(true).create(true).truncate(false), &path).map_err(text)?;
    let until = Instant::now() + PATIENCE;
    loop {
        match file.try_lock() {
            Ok(()) => return Ok(file),
            Err(TryLockError::WouldBlock) if Instant::now() < until => std::thread::sleep(TRY_AGAIN),
            Err(error) => return Err(format!("cannot lock {}: {error}", path.display())),
        }
    }
}

fn text(error: impl std::fmt::Display) -> Why {
    error.to_string()
}

#[cfg(test)]
mod tests;
