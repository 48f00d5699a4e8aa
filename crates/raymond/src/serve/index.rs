//! The runs of the project, with what is known of each.
//!
//! The journals are the truth. What was read of one is kept for as long as the journal does not change, and the states of
//! the runs that were asked for last are kept so that only new events have to be read.
//!
//! Bounds: a summary a run, [`MAX_FOLLOWED`] states, and those of [`Moments`].

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::SystemTime;

use raymond_core::event::{Body, Event};
use raymond_core::evolve::{apply, evolve, restore};
use raymond_core::run::{Run, RunStatus};

use super::counters::Counters;
use crate::store::{Events, FolderStore, RunEntry, RunHandle, RunStore, Start, StateDir, StoreError};
use crate::view::status::BranchView;
use crate::view::summary::{self, Summary};

/// How many states are kept.
const MAX_FOLLOWED: usize = 16;

pub struct Index {
    pub counters: Counters,
    store: FolderStore,
    /// The runs that the last listing showed.
    listed: Mutex<HashMap<String, Arc<dyn RunHandle>>>,
    summaries: Mutex<Summaries>,
    /// The one that was asked for last is at the end.
    followed: Mutex<Vec<(String, Arc<Mutex<Followed>>)>>,
    moments: Moments,
    branches: Mutex<Option<Branches>>,
}

/// The branches of all runs, by the run that they go on from.
struct Branches {
    /// When the folder had changed before it was listed.
    changed: SystemTime,
    of_runs: HashMap<String, Vec<BranchView>>,
}

/// What is known of runs, each with the version of its journal.
#[derive(Default)]
struct Summaries {
    known: HashMap<String, (String, Arc<Summary>)>,
    /// Whether the file of an earlier process was read.
    is_loaded: bool,
    /// How many journals had to be read since the file was written.
    unsaved: usize,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Index {
    pub fn new(dir: StateDir) -> Self {
        Self {
            counters: Counters::new(dir.own_file("serve.counters")),
            store: FolderStore::new(dir),
            listed: Mutex::default(),
            summaries: Mutex::default(),
            followed: Mutex::default(),
            moments: Moments::default(),
            branches: Mutex::default(),
        }
    }

    /// Where the runs are.
    pub fn store(&self) -> &dyn RunStore {
        &self.store
    }

    /// All runs, the one written last first.
    pub fn list(&self) -> Result<Vec<RunEntry>, StoreError> {
        let entries = self.store.list()?;
        let handles = entries.iter().map(|entry| (entry.run.id().to_owned(), Arc::clone(&entry.run)));
        *lock(&self.listed) = handles.collect();
        Ok(entries)
    }

    /// The run of exactly this id. It is looked up in a listing, so that no text from outside becomes a path.
    pub fn find(&self, id: &str) -> Result<Arc<dyn RunHandle>, StoreError> {
        let known = || self.known(id);
        if let Some(run) = known() {
            return Ok(run);
        }
        let entries = self.list()?;
        let existing = || entries.iter().map(|entry| entry.run.id().to_owned()).collect();
        known().ok_or_else(|| StoreError::Unknown { given: id.to_owned(), existing: existing() })
    }

    /// Whether a process has the lease of a run that may have no event yet.
    pub fn is_held(&self, id: &str) -> bool {
        self.store.run(id).is_ok_and(|run| holds(&*run))
    }

    /// The run of this id, if the last listing showed it.
    pub fn known(&self, id: &str) -> Option<Arc<dyn RunHandle>> {
        lock(&self.listed).get(id).cloned()
    }

    /// What a list shows of a run.
    pub fn summary(&self, entry: &RunEntry) -> Result<Arc<Summary>, StoreError> {
        let id = entry.run.id();
        let known = {
            let mut summaries = lock(&self.summaries);
            self.load_once(&mut summaries);
            summaries.known.get(id).cloned()
        };
        let version = entry.version.as_deref().unwrap_or_default();
        if let Some((known, summary)) = &known
            && known == version
        {
            return Ok(Arc::clone(summary));
        }
        // A journal that changes is probably read again soon, so its state is kept. Most others never change.
        let summary = Arc::new(match known.is_some() {
            true => self.with_run(&entry.run, |run| Summary::of(run, &*entry.run))?,
            false => Summary::of(&entry.run.load()?, &*entry.run),
        });
        let mut summaries = lock(&self.summaries);
        summaries.known.insert(id.to_owned(), (version.to_owned(), Arc::clone(&summary)));
        summaries.unsaved += 1;
        Ok(summary)
    }

    /// The runs that go on from this one. They are looked for again when a file was added to the folder.
    pub fn branches_of(&self, id: &str) -> Result<Vec<BranchView>, StoreError> {
        let changed = self.store.changed();
        let mut known = lock(&self.branches);
        let branches = match known.take().filter(|known| changed == Some(known.changed)) {
            Some(branches) => branches,
            None => {
                Branches { changed: changed.unwrap_or(SystemTime::UNIX_EPOCH), of_runs: self.all_branches()? }
            }
        };
        Ok(known.insert(branches).of_runs.get(id).cloned().unwrap_or_default())
    }

    fn all_branches(&self) -> Result<HashMap<String, Vec<BranchView>>, StoreError> {
        let mut of_runs: HashMap<String, Vec<BranchView>> = HashMap::new();
        let entries = self.list()?;
        for entry in &entries {
            let origin = self.summary(entry).ok().and_then(|summary| summary.branched_off.clone());
            if let Some(origin) = origin {
                let branch = BranchView { run: entry.run.id().to_owned(), step: origin.step };
                of_runs.entry(origin.run).or_default().push(branch);
            }
        }
        self.save(&entries);
        Ok(of_runs)
    }

    fn load_once(&self, summaries: &mut Summaries) {
        if std::mem::replace(&mut summaries.is_loaded, true) {
            return;
        }
        let earlier = self.store.cache().map(|file| summary::read(&file)).unwrap_or_default();
        summaries.known =
            earlier.into_iter().map(|(id, (version, known))| (id, (version, Arc::new(known)))).collect();
    }

    /// Writes what is known to a file, for the next process and for `raymond list`, if that saves reading journals.
    pub fn save(&self, entries: &[RunEntry]) {
        const WORTH_WRITING: usize = 50;
        let mut summaries = lock(&self.summaries);
        let Some(file) = self.store.cache().filter(|_| summaries.unsaved >= WORTH_WRITING) else { return };
        summaries.unsaved = 0;
        let listed: std::collections::HashSet<&str> = entries.iter().map(|entry| entry.run.id()).collect();
        summaries.known.retain(|id, _| listed.contains(id.as_str()));
        let all = summaries.known.iter();
        summary::write(
            &file,
            all.map(|(id, (version, known))| (id.clone(), (version.clone(), (**known).clone()))).collect(),
        );
    }

    /// Shows the present state of a run to a function.
    pub fn with_run<T>(
        &self,
        run: &Arc<dyn RunHandle>,
        show: impl FnOnce(&Run) -> T,
    ) -> Result<T, StoreError> {
        let followed = self.followed(run);
        let mut state = lock(&followed);
        match state.catch_up(&**run) {
            Ok(run) => Ok(show(run)),
            Err(error) => {
                // It is read from the start the next time: the journal may have been repaired.
                state.reading = None;
                Err(error)
            }
        }
    }

    /// The state after an event, or after the batch that it is in.
    pub fn state_at(&self, handle: &Arc<dyn RunHandle>, seq: u64) -> Result<Run, NoState> {
        // A run that was deleted and begun again has another nonce.
        let nonce = self.with_run(handle, |run| run.nonce.clone())?;
        let key = format!("{} {nonce}", handle.id());
        let mut run = self.moments.before(&key, seq);
        let mut events = match &run {
            Some(known) if known.seq == seq => return Ok(known.clone()),
            Some(known) => handle.events(Start::After(known.seq))?,
            None => handle.events(Start::SnapshotUpTo(seq))?,
        };
        let mut is_first = run.is_none();
        let mut kept = run.as_ref().map_or(0, |run| run.seq);
        while let Some(batch) = events.next_batch()? {
            for event in batch {
                let is_snapshot = matches!(event.body, Body::Snapshot { .. });
                if is_snapshot && event.seq > seq && !is_first {
                    return Err(NoState::Deleted(event.seq));
                }
                is_first = false;
                take(&mut run, event);
            }
            let Some(state) = &run else { continue };
            if state.seq >= kept + MOMENT_EVERY {
                kept = state.seq;
                self.moments.keep(&key, state);
            }
            if state.seq >= seq {
                break;
            }
        }
        match run {
            None => Err(StoreError::Empty { place: handle.place() }.into()),
            Some(run) if run.seq < seq => Err(NoState::Beyond(run.seq)),
            Some(run) => Ok(run),
        }
    }

    fn followed(&self, run: &Arc<dyn RunHandle>) -> Arc<Mutex<Followed>> {
        let mut all = lock(&self.followed);
        let found = match all.iter().position(|(id, _)| id == run.id()) {
            Some(place) => all.remove(place),
            None => (run.id().to_owned(), Arc::default()),
        };
        if all.len() >= MAX_FOLLOWED {
            all.remove(0);
        }
        let state = Arc::clone(&found.1);
        all.push(found);
        state
    }
}

/// Whether a process drives a run that its journal calls running.
pub fn is_live(summary: &Summary, run: &dyn RunHandle) -> bool {
    summary.recorded == RunStatus::Running && holds(run)
}

/// Whether a process drives a run in this state. One whose end is recorded is not driven any more, though its process may hold
/// the lease for another moment.
pub fn drives(run: &Run, is_held: bool) -> bool {
    is_held && run.status == RunStatus::Running
}

/// Whether a process has the run's lease.
pub fn holds(run: &dyn RunHandle) -> bool {
    run.holder().is_ok_and(|holder| holder.is_some())
}

/// The state of a run, up to the last event that was read.
#[derive(Default)]
struct Followed {
    reading: Option<(Option<Run>, Box<dyn Events>)>,
}

impl Followed {
    /// Reads what was added to the journal.
    fn catch_up(&mut self, handle: &dyn RunHandle) -> Result<&Run, StoreError> {
        let (run, events) = match &mut self.reading {
            Some(reading) => reading,
            none => none.insert((None, handle.events(Start::LATEST_SNAPSHOT)?)),
        };
        while let Some(batch) = events.next_batch()? {
            batch.into_iter().for_each(|event| take(run, event));
        }
        run.as_ref().ok_or_else(|| StoreError::Empty { place: handle.place() })
    }
}

/// Adds an event to a state.
pub fn take(run: &mut Option<Run>, event: Event) {
    match (event.body, &mut *run) {
        (Body::Snapshot { state }, _) => *run = Some(restore(*state, event.seq)),
        (body, Some(run)) => apply(run, &Event { body, ..event }),
        (body, None) => *run = evolve(None, &Event { body, ..event }),
    }
}

/// Why the state after an event cannot be shown.
#[derive(Debug)]
pub enum NoState {
    /// The run has no event of this number; its last one.
    Beyond(u64),
    /// The event is in a segment that was deleted; the first event behind it that can be shown.
    Deleted(u64),
    Store(StoreError),
}

impl From<StoreError> for NoState {
    fn from(error: StoreError) -> Self {
        Self::Store(error)
    }
}

/// States that runs were in, near the moments that were asked for, so that only what came behind the nearest one has to
/// be read. By run, the one that was asked for last at the end.
#[derive(Default)]
struct Moments(Mutex<Vec<(String, Vec<Run>)>>);

/// How many runs have such states, and how many agents all states of one run may have together.
const MAX_MOMENT_RUNS: usize = 4;
const MAX_MOMENT_AGENTS: usize = 5000;
/// How many events lie between two states, and how far a state may be from the event that is asked for. A snapshot may be
/// nearer than one that is further away.
const MOMENT_EVERY: u64 = 1000;
const NEAR_MOMENT: u64 = 8 * MOMENT_EVERY;

impl Moments {
    /// The last known state of a run up to an event, if it is near.
    fn before(&self, run: &str, seq: u64) -> Option<Run> {
        let all = lock(&self.0);
        let (_, states) = all.iter().find(|(id, _)| id == run)?;
        let end = states.partition_point(|state| state.seq <= seq);
        states[..end].last().filter(|state| seq - state.seq <= NEAR_MOMENT).cloned()
    }

    /// Keeps a state, and lets go of those that are furthest from it.
    fn keep(&self, run: &str, state: &Run) {
        let mut all = lock(&self.0);
        let (id, mut states) = match all.iter().position(|(id, _)| id == run) {
            Some(place) => all.remove(place),
            None => (run.to_owned(), Vec::new()),
        };
        let place = states.partition_point(|known| known.seq < state.seq);
        if states.get(place).is_none_or(|known| known.seq != state.seq) {
            states.insert(place, state.clone());
        }
        let size = |state: &Run| state.agents.len() + 10;
        while states.iter().map(size).sum::<usize>() > MAX_MOMENT_AGENTS {
            let distance = |place: Option<&Run>| place.map_or(0, |known| known.seq.abs_diff(state.seq));
            let is_first_further = distance(states.first()) > distance(states.last());
            if is_first_further { drop(states.remove(0)) } else { drop(states.pop()) }
        }
        if all.len() >= MAX_MOMENT_RUNS {
            all.remove(0);
        }
        all.push((id, states));
    }
}

/// The folder of the debug files of all runs.
pub fn debug_folder(dir: &StateDir) -> PathBuf {
    dir.home().unwrap_or(dir.path()).join("debug")
}
