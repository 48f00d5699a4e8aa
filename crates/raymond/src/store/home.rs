//! The seam between Raymond and the place where runs live.
//!
//! The rest of the program holds these handles and no paths. A [`RunStore`] is a place with many runs, a [`RunHandle`]
//! one of them, to be looked at by any number of processes. Only the process that has a run's lease may write it,
//! and a [`RunWriter`] holds that lease. Events go in and come out as values, in the batches in which they were
//! committed; how they are laid out is the business of each form.
//!
//! To add a form, implement these traits and run it through the cases in `suite.rs`.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Debug;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::SystemTime;

use raymond_core::event::{Event, Origin, ProjectMoved, SnapshotLine};
use raymond_core::payload::Payload;
use raymond_core::run::Run;
use serde::{Deserialize, Serialize};

use super::elsewhere::Elsewhere;
use super::error::StoreError;
use super::folder::SealedFile;
use super::inbox::Inbox;
use super::payload::Payloads;

/// A place with many runs.
pub trait RunStore: Debug + Send + Sync {
    /// Where the runs are, in words for people.
    fn place(&self) -> String;

    /// All runs, the one written last first. A run whose journal is damaged is among them.
    fn list(&self) -> Result<Vec<RunEntry>, StoreError>;

    /// A file in which a list of runs may be cached.
    fn cache(&self) -> Option<SealedFile> {
        None
    }

    /// The runs that other machines carry out, and of which copies are here.
    fn elsewhere(&self) -> Result<Vec<String>, StoreError> {
        Ok(Vec::new())
    }

    /// Notes that a run is carried out elsewhere, or what has become of it there.
    fn mark_elsewhere(&self, id: &str, _mark: &Elsewhere) -> Result<(), StoreError> {
        Err(StoreError::Unknown { given: id.to_owned(), existing: Vec::new() })
    }

    /// Notes that a run which is carried out elsewhere is removed here, so that it is not copied again.
    fn note_removal(&self, _id: &str) -> Result<(), StoreError> {
        Ok(())
    }

    /// Whether a run which is carried out elsewhere was removed here.
    fn was_removed(&self, _id: &str) -> bool {
        false
    }

    /// Forgets the removed runs of an engine that it does not list any more.
    fn forget_removals(&self, _engine: &str, _listed: &BTreeSet<&str>) -> Result<(), StoreError> {
        Ok(())
    }

    /// A handle on the run of this id, whether it exists or not. Creates nothing.
    fn run(&self, id: &str) -> Result<Arc<dyn RunHandle>, StoreError>;

    /// Creates a run that has no events yet, and takes its lease. A run that never got an event does not count as one that
    /// is there.
    fn create(&self, id: &str, options: JournalOptions) -> Result<Box<dyn RunWriter>, StoreError>;

    /// The runs whose history is partly in this one. They cannot be read without it.
    fn branches_of(&self, id: &str) -> Result<Vec<String>, StoreError> {
        let needs_it = |run: &Arc<dyn RunHandle>| {
            let origins = run.origins().unwrap_or_default();
            run.id() != id && origins.iter().any(|origin| origin.run == id)
        };
        let runs = self.list()?.into_iter().map(|entry| entry.run);
        Ok(runs.filter(needs_it).map(|run| run.id().to_owned()).collect())
    }

    /// For each run whose history begins in other runs, those in which parts of its journal begin. They may have origins themselves.
    fn origins_of_all(&self) -> Result<BTreeMap<String, BTreeSet<String>>, StoreError> {
        let others = |run: &Arc<dyn RunHandle>| {
            let origins = run.origins().unwrap_or_default().into_iter().map(|origin| origin.run);
            let others: BTreeSet<String> = origins.filter(|origin| origin != run.id()).collect();
            (!others.is_empty()).then(|| (run.id().to_owned(), others))
        };
        Ok(self.list()?.iter().filter_map(|entry| others(&entry.run)).collect())
    }

    /// The run with this id, or the only one whose id begins or ends like this.
    fn find(&self, given: &str) -> Result<Arc<dyn RunHandle>, StoreError> {
        find_among(self.list()?, given)
    }
}

/// How much of an id has to be given.
const SHORTEST_PART: usize = 2;

/// Whether a text is the start or the end of a run's id, and long enough to stand for it.
pub fn is_part_of_id(given: &str, id: &str) -> bool {
    given.len() >= SHORTEST_PART && (id.starts_with(given) || id.ends_with(given))
}

/// The run with this id, or the only one whose id begins or ends like this.
pub(super) fn find_among(entries: Vec<RunEntry>, given: &str) -> Result<Arc<dyn RunHandle>, StoreError> {
    let mut runs: Vec<Arc<dyn RunHandle>> = entries.into_iter().map(|entry| entry.run).collect();
    if let Some(at) = runs.iter().position(|run| run.id() == given) {
        return Ok(runs.swap_remove(at));
    }
    let ids = |runs: &[Arc<dyn RunHandle>]| runs.iter().map(|run| run.id().to_owned()).collect();
    let mut matches: Vec<_> = runs.iter().filter(|run| is_part_of_id(given, run.id())).cloned().collect();
    match matches.len() {
        0 => Err(StoreError::Unknown { given: given.to_owned(), existing: ids(&runs) }),
        1 => Ok(matches.remove(0)),
        _ => Err(StoreError::Ambiguous { given: given.to_owned(), matches: ids(&matches) }),
    }
}

/// One run in the list of all runs.
#[derive(Clone, Debug)]
pub struct RunEntry {
    pub run: Arc<dyn RunHandle>,
    /// When the run was last written.
    pub modified: SystemTime,
    /// Something that changes whenever the run is written, if the store can tell without reading it.
    pub version: Option<String>,
}

/// One run, for all processes that read it or leave a message for it. They need no lease.
pub trait RunHandle: Debug + Send + Sync {
    fn id(&self) -> &str;

    /// Where the run is, in words for people.
    fn place(&self) -> String;

    /// A short text that differs between this run and a copy of it, and stays the same as long as the run is where it
    /// is. Letters and digits.
    fn identity(&self) -> String;

    /// Where its history begins, if that is not in the run itself: its origin, the origin of that, and so on. A run that
    /// was rewound is among its own origins.
    fn origins(&self) -> Result<Vec<Origin>, StoreError>;

    /// Reads committed events, batch by batch, first those that it has in common with its origins.
    fn events(&self, start: Start) -> Result<Box<dyn Events>, StoreError>;

    /// The present state: what all committed events add up to.
    fn load(&self) -> Result<Run, StoreError>;

    /// The state after an event, which is the last of its batch.
    fn state_after(&self, seq: u64) -> Result<Run, StoreError>;

    /// Where the run is carried out, if that is on other machines. It is an error if that is noted and cannot be read: such a
    /// run must not be driven here, because it may go on there.
    fn try_elsewhere(&self) -> Result<Option<Elsewhere>, StoreError> {
        Ok(None)
    }

    /// The same for those who only look at the run. A note that cannot be read counts as none.
    fn elsewhere(&self) -> Option<Elsewhere> {
        self.try_elsewhere().ok().flatten()
    }

    /// The process that writes the run now, if there is one. A run that goes on elsewhere has one that is not named.
    fn holder(&self) -> Result<Option<Holder>, StoreError>;

    /// The process that has the lease now, if there is one: also one that only copies a run that goes on elsewhere.
    fn lease_holder(&self) -> Result<Option<Holder>, StoreError> {
        self.holder()
    }

    /// Takes the lease only to keep others from writing the run; it must exist.
    fn lease(&self) -> Result<Box<dyn Lease>, StoreError>;

    /// Takes the lease and opens the run to go on with it.
    fn open(&self, options: JournalOptions) -> Result<Opened, StoreError>;

    fn payloads(&self) -> Payloads;

    fn inbox(&self) -> Arc<dyn Inbox>;

    /// The folder in which its steps leave files on this machine, if there is one.
    fn scratch(&self) -> Option<PathBuf> {
        None
    }
}

/// Which process has a run's lease. The fields are missing in the moment between taking it and writing them down.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Holder {
    pub pid: Option<u32>,
    /// The namespace of that pid: in a container the same number means another process.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pid_namespace: Option<String>,
    /// Differs for every process that ever had the lease; pids are used again.
    pub incarnation: Option<String>,
    /// RFC 3339, UTC.
    pub since: Option<String>,
}

impl Holder {
    /// Whether its pid means the same process here.
    pub fn is_in_this_namespace(&self) -> bool {
        self.pid_namespace.is_none() || self.pid_namespace == pid_namespace()
    }
}

/// The pid namespace of this process, on systems that have them.
pub fn pid_namespace() -> Option<String> {
    let namespace = std::fs::read_link("/proc/self/ns/pid").ok()?;
    Some(namespace.to_string_lossy().into_owned())
}

/// The right to write a run. It is given back when this is dropped or the process ends, however it ends.
pub trait Lease: Debug + Send {}

/// A run that was opened to go on with it.
#[derive(Debug)]
pub struct Opened {
    pub writer: Box<dyn RunWriter>,
    /// The state that its events add up to, with the paths of the project that it is in now.
    pub run: Run,
    /// How its project has moved, if no event says it yet.
    pub moved: Option<ProjectMoved>,
    /// How many bytes of an interrupted write were cut off.
    pub cut_bytes: u64,
}

/// Where reading begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Start {
    /// With the event behind the one of this number; 0 stands for the beginning of the run.
    After(u64),
    /// With the newest snapshot up to the event of this number, or with the beginning of the run: all that is needed
    /// to compute the state after that event.
    SnapshotUpTo(u64),
}

impl Start {
    /// All that is needed to compute the present state.
    pub const LATEST_SNAPSHOT: Self = Self::SnapshotUpTo(u64::MAX);
}

/// Reads the events of a run in order.
///
/// The numbers of events rise by one. Only where old events were deleted, a [`Body::Snapshot`] takes their place: its
/// number is that of the last event it stands for. Where a run was rewound, the numbers of the dropped events are missing;
/// a reader that has seen some of them gets a [`Body::Snapshot`] of the state before them.
///
/// [`Body::Snapshot`]: raymond_core::event::Body::Snapshot
pub trait Events: Debug + Send {
    /// The next batch; none at the present end. A later call goes on there, so that a run can be followed.
    ///
    /// A batch is what was committed at once. The first one is cut short if reading begins inside it.
    fn next_batch(&mut self) -> Result<Option<Vec<Event>>, StoreError>;
}

/// Where a text can be put together, kept and handed on. Where runs are decided elsewhere, messages have a limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Room {
    Here,
    /// On a machine that hands on a reference to it.
    Elsewhere,
    /// It is too long.
    Nowhere,
}

/// The lease of a run, and the only way to add to it.
///
/// After an error from `commit` or `snapshot_if_long` it is not known what was stored. So the writer refuses all
/// further writes, and the run has to be opened again.
pub trait RunWriter: Debug {
    /// Differs for every writer that the run ever had.
    fn incarnation(&self) -> &str;

    /// Stores a long text. It is as durable as a batch before an event may name it.
    fn keep_payload(&mut self, text: &str) -> Result<Payload, StoreError>;

    /// Reads a text back.
    fn load_payload(&self, payload: &Payload) -> Result<String, StoreError>;

    /// Where the results of workers can be put together, if they are this text.
    fn room_for(&self, _text: &str) -> Room {
        Room::Here
    }

    /// Writes a batch, all or nothing. When it returns, the batch is as durable as was asked for.
    fn commit(&mut self, batch: &[Event]) -> Result<(), StoreError>;

    /// Goes on from an earlier event: the event that begins the run anew names the run itself as its origin. All or
    /// nothing, like a batch. What came after that event stays readable for runs that have it as their origin.
    fn rewind(&mut self, start: &Event) -> Result<(), StoreError>;

    /// How much room the following commits must leave free for what running steps will report. A commit that cannot is
    /// refused with [`StoreError::Full`] before anything is written, so that a shorter one can be tried.
    fn set_aside(&mut self, _bytes: u64) {}

    /// Stores a snapshot of the present state if so much was written since the last one that reading takes long.
    fn snapshot_if_long(&mut self, snapshot: SnapshotLine<'_>) -> Result<(), StoreError>;

    /// Takes back the creation of a run that has no events.
    fn abandon(&mut self) {}
}

impl<W: RunWriter + ?Sized> RunWriter for Box<W> {
    fn incarnation(&self) -> &str {
        (**self).incarnation()
    }

    fn keep_payload(&mut self, text: &str) -> Result<Payload, StoreError> {
        (**self).keep_payload(text)
    }

    fn load_payload(&self, payload: &Payload) -> Result<String, StoreError> {
        (**self).load_payload(payload)
    }

    fn room_for(&self, text: &str) -> Room {
        (**self).room_for(text)
    }

    fn commit(&mut self, batch: &[Event]) -> Result<(), StoreError> {
        (**self).commit(batch)
    }

    fn rewind(&mut self, start: &Event) -> Result<(), StoreError> {
        (**self).rewind(start)
    }

    fn set_aside(&mut self, bytes: u64) {
        (**self).set_aside(bytes);
    }

    fn snapshot_if_long(&mut self, snapshot: SnapshotLine<'_>) -> Result<(), StoreError> {
        (**self).snapshot_if_long(snapshot)
    }

    fn abandon(&mut self) {
        (**self).abandon();
    }
}

/// What a committed batch survives.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Durability {
    /// A power cut: every batch is synced before the call returns.
    #[default]
    Power,
    /// The death of this process: the system has the bytes, but the disk may not have them yet.
    Process,
}

/// How large a segment grows before a new one is begun.
pub const SEGMENT_BYTES: u64 = 8 * 1024 * 1024;

/// How a run's journal is written. A segment is what lies between two snapshots.
#[derive(Clone, Copy, Debug)]
pub struct JournalOptions {
    pub durability: Durability,
    /// How large a segment grows before a new one is begun.
    pub segment_bytes: u64,
    /// How many of the newest segments stay, the current one among them; all if not given. The first always stays.
    pub keep_segments: Option<u32>,
}

impl Default for JournalOptions {
    fn default() -> Self {
        Self { durability: Durability::default(), segment_bytes: SEGMENT_BYTES, keep_segments: None }
    }
}
