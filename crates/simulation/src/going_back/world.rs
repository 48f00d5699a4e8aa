//! A machine with a repository, runs in it, and people; whatever is done to one of them is a numbered point.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::SystemTime;

use jiff::Timestamp;
use raymond::store::memory::MemoryStore;
use raymond::store::{
    Durability, JournalOptions, RunEntry, RunHandle, RunStore, RunWriter, Start, StoreError,
};
use raymond_core::event::{Body, Event, Origin};
use raymond_core::run::Run;

use super::defect::Defect;
use super::ground::{FIRST_WORK, Folder, Ground, Piece};
use super::rules;
use super::session::cents;
use super::work::Work;
use crate::disk::SimDisk;
use crate::fault::{Down, Fault, Kind, Site, Tape};
use crate::home::{Faulty, point};
use crate::rng::Rng;

/// When the clock starts, in seconds since 1970.
const EPOCH: i64 = 1_750_000_000;

/// Why a command did not do all that it was to do.
#[derive(Debug)]
pub enum Stop {
    Killed,
    /// It says why, and has changed nothing that matters.
    Refused(String),
}

pub type Done<T> = Result<T, Stop>;

pub struct World {
    pub ground: Ground,
    pub store: Runs,
    pub work: Work,
    pub disk: SimDisk,
    pub rng: Rng,
    pub defect: Option<Defect>,
    pub seconds: i64,
    pub runs_started: u32,
    last_piece: Piece,
    /// The runs as they were when they were last looked at, with the time of their last write.
    states: BTreeMap<String, (SystemTime, Run)>,
}

impl World {
    pub fn new(defect: Option<Defect>, keeps_log: bool) -> Self {
        let disk = SimDisk::new(Tape::new(&[], keeps_log));
        let store = Runs { inner: MemoryStore::default(), disk: disk.clone(), taken: Arc::default() };
        Self {
            ground: Ground::new(),
            store,
            work: Work::default(),
            disk,
            rng: Rng::new(0),
            defect,
            seconds: 0,
            runs_started: 0,
            last_piece: FIRST_WORK,
            states: BTreeMap::new(),
        }
    }

    pub fn has(&self, defect: Defect) -> bool {
        self.defect == Some(defect)
    }

    pub fn now(&self) -> Timestamp {
        Timestamp::from_second(EPOCH + self.seconds).unwrap_or_default()
    }

    /// Somebody is killed so many points from now.
    pub fn is_to_be_killed(&self, points: usize, after: bool) {
        let kind = if after { Kind::KillAfter } else { Kind::Kill };
        self.disk.tape(|tape| {
            let at = tape.sites.len() + points;
            tape.plan_also(Fault { at, kind });
        });
    }

    /// No more kills are planned.
    pub fn forgets_plans(&self) {
        self.disk.tape(Tape::forget_plan);
    }

    /// How many points there were.
    pub fn points(&self) -> usize {
        self.disk.tape(|tape| tape.sites.len())
    }

    /// Another process begins.
    pub fn restart(&self) {
        self.disk.tape(|tape| tape.down = None);
    }

    pub fn log(&self, line: impl FnOnce() -> String) {
        self.disk.log(line);
    }

    /// Does something, and may be killed before or after it.
    pub fn at<T>(&mut self, what: &str, path: &str, act: impl FnOnce(&mut Self) -> T) -> Done<T> {
        let kind = self.disk.tape(|tape| match tape.down {
            Some(_) => Some(Kind::Kill),
            None => tape.pass(Site::Effect, || format!("{what} {path}")),
        });
        self.seconds += 1;
        if kind == Some(Kind::Kill) {
            self.disk.tape(|tape| tape.go_down(Down::Killed));
            return Err(Stop::Killed);
        }
        let done = act(self);
        if kind == Some(Kind::KillAfter) {
            self.disk.tape(|tape| tape.go_down(Down::Killed));
            return Err(Stop::Killed);
        }
        Ok(done)
    }

    /// The store refuses because this process is dead, or for no good reason.
    pub fn stopped(&mut self, error: StoreError) -> Stop {
        if self.disk.tape(|tape| tape.down.is_some()) {
            return Stop::Killed;
        }
        self.work.broken.push(format!("the store refuses: {error}"));
        Stop::Refused(error.to_string())
    }

    pub fn new_piece(&mut self, what: &str) -> Piece {
        self.last_piece += 1;
        let piece = self.last_piece;
        self.work.made(piece, format!("{piece}, {what}"));
        piece
    }

    /// Looks at all runs. Those that were not written since are as they were.
    pub fn look(&mut self) {
        let mut states = BTreeMap::new();
        for entry in self.store.list().unwrap_or_default() {
            let id = entry.run.id().to_owned();
            let known = self.states.remove(&id).filter(|(modified, _)| *modified == entry.modified);
            let state = known.or_else(|| Some((entry.modified, entry.run.load().ok()?)));
            states.extend(state.map(|state| (id, state)));
        }
        self.states = states;
        // What was dropped is in a run that has its events and one more, until somebody goes on with it.
        let keeps = |run: &Run, origin: &Origin| origin.kept_from.is_some() && run.seq == origin.seq + 1;
        let keepers =
            self.runs().filter(|(_, run)| run.origin.as_ref().is_some_and(|origin| keeps(run, origin)));
        self.work.dropped = keepers.map(|(id, _)| id.clone()).collect();
    }

    /// All runs that there were at the last look, by their names.
    pub fn ids(&self) -> Vec<String> {
        self.states.keys().cloned().collect()
    }

    /// The same, with their states.
    pub fn runs(&self) -> impl Iterator<Item = (&String, &Run)> {
        self.states.iter().map(|(id, (_, run))| (id, run))
    }

    pub fn load(&self, id: &str) -> Option<Run> {
        self.store.run(id).ok()?.load().ok()
    }

    /// The steps of a run that have ended.
    pub fn steps(&self, id: &str) -> Vec<u64> {
        let mut steps = Vec::new();
        let Ok(mut events) = self.store.run(id).and_then(|run| run.events(Start::After(0))) else {
            return steps;
        };
        while let Ok(Some(batch)) = events.next_batch() {
            for event in batch {
                steps.extend(ended_step(&event));
            }
        }
        steps
    }

    /// The top folder of the worktree that a folder is in.
    pub fn top_of(&self, cwd: &str) -> Option<String> {
        let around = |path: &&String| {
            cwd.strip_prefix(path.as_str()).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        };
        self.ground.folders.keys().filter(around).max_by_key(|path| path.len()).cloned()
    }

    pub fn folder(&mut self, path: &str) -> Option<&mut Folder> {
        self.ground.folders.get_mut(path)
    }

    /// What must be true between any two commands, also after a kill.
    pub fn check(&mut self) {
        self.look();
        self.work.check(&self.ground);
        let mut owners: BTreeMap<&str, &str> = BTreeMap::new();
        for (id, (_, run)) in &self.states {
            for worktree in run.own_worktrees() {
                self.work.expect(worktree.path == rules::path_of(id, &worktree.name), || {
                    format!("the worktree {} of {id} is in {}", worktree.name, worktree.path)
                });
                if let Some(other) = owners.insert(&worktree.path, id) {
                    self.work.broken.push(format!("two owners: {other} and {id} have {}", worktree.path));
                }
            }
            for agent in run.agents.values() {
                if let Some(worktree) = agent.worktree.as_deref() {
                    self.work.expect(rules::is_own(id, worktree), || {
                        format!("two owners: {} of {id} works in {}", agent.id, worktree.path)
                    });
                    self.work.expect(agent.cwd.starts_with(&worktree.path), || {
                        format!("{} of {id} works in {} and not in {}", agent.id, agent.cwd, worktree.path)
                    });
                }
            }
            if let Some(budget) = self.work.budgets.get(id).copied() {
                let has = run.options.budget_usd;
                self.work.expect(has == cents(budget), || {
                    format!("{id} has the budget {has} instead of {budget} cents, as was given last")
                });
            }
            if let Some(place) = self.work.places.get(id).cloned() {
                self.work
                    .expect(run.cwd == place, || format!("{id} works in {} instead of {place}", run.cwd));
            }
        }
    }
}

/// The step that ended with an event.
pub fn ended_step(event: &Event) -> Option<u64> {
    match &event.body {
        Body::StepFinished(finished) => Some(finished.step),
        Body::StepFailed(failed) => failed.step,
        _ => None,
    }
}

pub const JOURNAL: JournalOptions =
    JournalOptions { durability: Durability::Power, segment_bytes: u64::MAX, keep_segments: None };

/// The runs in memory. Each write to them is a point.
#[derive(Clone, Debug)]
pub struct Runs {
    pub inner: MemoryStore,
    disk: SimDisk,
    /// Names of runs that were removed and have left something that bears their names.
    taken: Arc<Mutex<BTreeSet<String>>>,
}

impl Runs {
    pub fn taken(&self) -> MutexGuard<'_, BTreeSet<String>> {
        self.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn faulty(&self, inner: Box<dyn RunWriter>) -> Box<dyn RunWriter> {
        Box::new(Faulty { inner, disk: self.disk.clone() })
    }
}

impl RunStore for Runs {
    fn place(&self) -> String {
        self.inner.place()
    }

    fn list(&self) -> Result<Vec<RunEntry>, StoreError> {
        self.inner.list()
    }

    fn run(&self, id: &str) -> Result<Arc<dyn RunHandle>, StoreError> {
        self.inner.run(id)
    }

    fn create(&self, id: &str, options: JournalOptions) -> Result<Box<dyn RunWriter>, StoreError> {
        if self.taken().contains(id) {
            return Err(StoreError::Exists { run: id.to_owned() });
        }
        let inner = point(&self.disk, "create", || self.inner.create(id, options))?;
        Ok(self.faulty(inner))
    }
}
