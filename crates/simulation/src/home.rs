//! Where the simulated run is stored: in files on a disk with faults, or in memory, where every write may fail as a
//! whole.
//!
//! The first form tests the journal and its format. The second one tests the code above the store's trait, with fewer
//! points to try.

use std::sync::Arc;

use raymond::store::folder::{Lines, RunPaths};
use raymond::store::memory::MemoryStore;
use raymond::store::{
    Events, FolderStore, JournalOptions, Opened, Payloads, RunEntry, RunHandle, RunStore, RunWriter, Start,
    StateDir, StoreError,
};
use raymond_core::event::{Event, SnapshotLine};
use raymond_core::payload::Payload;

use crate::disk::SimDisk;
use crate::fault::{Down, Kind, Site, gone};
use crate::program::{LOCKS, Program};
use crate::view::View;

/// The run that is started. Others come from it.
pub const RUN: &str = "sim";

pub struct Home {
    /// The files, if the run is stored there, and in both cases the count of points.
    disk: SimDisk,
    dir: StateDir,
    /// Whether data counts as stored only if it survives a power cut.
    sees_safe: bool,
    memory: Option<MemoryStore>,
    /// The run that is driven.
    pub run: String,
}

impl Home {
    pub fn new(program: &Program, disk: SimDisk) -> Self {
        let dir = StateDir::at(program.home().join(LOCKS));
        let memory = program.lives_in_memory.then(MemoryStore::default);
        Self { disk, dir, sees_safe: program.is_synced, memory, run: RUN.to_owned() }
    }

    /// The run as the running Raymond creates it.
    pub fn create(&self, options: JournalOptions) -> Result<Box<dyn RunWriter>, StoreError> {
        match &self.memory {
            Some(memory) => {
                self.point("create", || memory.create(&self.run, options)).map(|writer| self.faulty(writer))
            }
            None => self.files(self.disk.clone()).create(&self.run, options),
        }
    }

    /// The run as the running Raymond opens it for a resume.
    pub fn open(&self, options: JournalOptions) -> Result<Opened, StoreError> {
        match &self.memory {
            Some(memory) => {
                let opened = self.point("open", || memory.run(&self.run)?.open(options))?;
                Ok(Opened { writer: self.faulty(opened.writer), ..opened })
            }
            None => self.files(self.disk.clone()).run(&self.run)?.open(options),
        }
    }

    /// All runs as a person's command finds and changes them.
    pub fn store(&self) -> Box<dyn RunStore> {
        match &self.memory {
            Some(memory) => Box::new(FaultyStore { inner: memory.clone(), disk: self.disk.clone() }),
            None => Box::new(self.files(self.disk.clone())),
        }
    }

    /// The run as it is now, for reading only: there are no faults, and nothing is changed.
    pub fn look(&self) -> Arc<dyn RunHandle> {
        self.look_at(&self.run)
    }

    /// The same for any run.
    pub fn look_at(&self, id: &str) -> Arc<dyn RunHandle> {
        let found = match &self.memory {
            Some(memory) => memory.run(id),
            None => self.files(self.disk.copy()).run(id),
        };
        found.expect("a run's id")
    }

    /// Reads everything that is durable, as it becomes durable. Of a branch, these are the events after that one.
    pub fn watch(&self, after: u64) -> Watched {
        match &self.memory {
            Some(_) => Watched::Memory { run: self.look(), after, events: None },
            None => {
                let paths = self.paths().on(Arc::new(self.view()));
                Watched::Files(Box::new(Lines::from_segment(&paths, 0)))
            }
        }
    }

    /// The payloads that are durable.
    pub fn safe_payloads(&self) -> Payloads {
        match &self.memory {
            Some(_) => self.look().payloads(),
            None => {
                let store = FolderStore::on(self.dir.clone(), Arc::new(self.view()));
                store.run(&self.run).expect("a run's id").payloads()
            }
        }
    }

    /// A person removes a run without any recorded event.
    pub fn remove_empty(&self) {
        match &self.memory {
            Some(memory) => memory.remove(&self.run),
            None => self.disk.delete(&self.paths().segment(0)),
        }
    }

    /// The machine starts again.
    pub fn restart(&self) {
        let down = self.disk.tape(|tape| tape.down);
        if let (Some(memory), Some(Down::PowerCut(_))) = (&self.memory, down) {
            memory.power_cut();
        }
        self.disk.restart();
    }

    fn files(&self, disk: SimDisk) -> FolderStore {
        FolderStore::on(self.dir.clone(), Arc::new(disk))
    }

    fn paths(&self) -> RunPaths {
        self.dir.run(&self.run).expect("a run's id")
    }

    fn view(&self) -> View {
        View { disk: self.disk.clone(), sees_safe: self.sees_safe }
    }

    fn faulty(&self, inner: Box<dyn RunWriter>) -> Box<dyn RunWriter> {
        Box::new(Faulty { inner, disk: self.disk.clone() })
    }

    fn point<T>(
        &self,
        what: &'static str,
        act: impl FnOnce() -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        point(&self.disk, what, act)
    }
}

/// A call to the store that may fail as a whole.
pub fn point<T>(
    disk: &SimDisk,
    what: &'static str,
    act: impl FnOnce() -> Result<T, StoreError>,
) -> Result<T, StoreError> {
    let failed =
        |source| StoreError::Io { place: "memory".to_owned(), action: what, source: Arc::new(source) };
    let kind = disk.tape(|tape| match tape.down {
        Some(_) => Err(failed(gone())),
        None => Ok(tape.pass(Site::Store, || what.to_owned())),
    })?;
    let (result, down) = match kind {
        Some(Kind::Kill) => (Err(failed(gone())), Some(Down::Killed)),
        Some(Kind::KillAfter) => (act().and(Err(failed(gone()))), Some(Down::Killed)),
        Some(Kind::Power(what_stays)) => (act().and(Err(failed(gone()))), Some(Down::PowerCut(what_stays))),
        Some(Kind::Refuse(refusal)) => (Err(failed(refusal.error())), None),
        _ => (act(), None),
    };
    if let Some(down) = down {
        disk.tape(|tape| tape.go_down(down));
    }
    result
}

/// A store in memory in which the making of a run is a point.
#[derive(Debug)]
struct FaultyStore {
    inner: MemoryStore,
    disk: SimDisk,
}

impl RunStore for FaultyStore {
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
        let inner = point(&self.disk, "create", || self.inner.create(id, options))?;
        Ok(Box::new(Faulty { inner, disk: self.disk.clone() }))
    }
}

/// A writer whose calls are points.
#[derive(Debug)]
pub struct Faulty {
    pub inner: Box<dyn RunWriter>,
    pub disk: SimDisk,
}

impl RunWriter for Faulty {
    fn incarnation(&self) -> &str {
        self.inner.incarnation()
    }

    fn keep_payload(&mut self, text: &str) -> Result<Payload, StoreError> {
        let Self { inner, disk } = self;
        point(disk, "keep", || inner.keep_payload(text))
    }

    fn load_payload(&self, payload: &Payload) -> Result<String, StoreError> {
        self.inner.load_payload(payload)
    }

    fn commit(&mut self, batch: &[Event]) -> Result<(), StoreError> {
        let Self { inner, disk } = self;
        point(disk, "commit", || inner.commit(batch))
    }

    fn rewind(&mut self, start: &Event) -> Result<(), StoreError> {
        let Self { inner, disk } = self;
        point(disk, "rewind", || inner.rewind(start))
    }

    fn snapshot_if_long(&mut self, snapshot: SnapshotLine<'_>) -> Result<(), StoreError> {
        self.inner.snapshot_if_long(snapshot)
    }
}

/// Reads durable events, from the beginning of the run.
pub enum Watched {
    /// Includes the snapshots, so that they can be compared with the fold of the events.
    Files(Box<Lines>),
    Memory {
        run: Arc<dyn RunHandle>,
        after: u64,
        /// None until there is a run.
        events: Option<Box<dyn Events>>,
    },
}

impl Watched {
    /// The next batch; `None` if nothing more is durable yet.
    pub fn next_batch(&mut self) -> Result<Option<Vec<Event>>, String> {
        match self {
            Watched::Files(lines) => {
                let batch = lines.next_batch().map_err(|error| error.to_string())?;
                let event = |text: &str| {
                    serde_json::from_str(text).map_err(|error| format!("not an event: {error}: {text}"))
                };
                batch.map(|lines| lines.iter().map(|line| event(&line.text)).collect()).transpose()
            }
            Watched::Memory { run, after, events } => {
                if events.is_none() {
                    *events = match run.events(Start::After(*after)) {
                        Err(StoreError::Missing { .. }) => return Ok(None),
                        other => Some(other.map_err(|error| error.to_string())?),
                    };
                }
                let Some(events) = events else { return Ok(None) };
                events.next_batch().map_err(|error| error.to_string())
            }
        }
    }
}
