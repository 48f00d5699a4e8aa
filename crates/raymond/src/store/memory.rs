//! Runs in the memory of this process, for simulations and tests.
//!
//! It keeps every promise of the seam but one: nothing outlives the process. Leases keep a second writer out, segments
//! are begun and deleted as the options say, and [`MemoryStore::power_cut`] takes away what was not synced.

use std::collections::BTreeMap;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::SystemTime;

use raymond_core::event::{Body, Event, Origin, SnapshotLine};
use raymond_core::payload::Payload;
use raymond_core::run::Run;

use super::error::StoreError;
use super::fold::{Folding, check_order};
use super::home::{
    Durability, Events, Holder, JournalOptions, Lease, Opened, RunEntry, RunHandle, RunStore, RunWriter,
    Start,
};
use super::id::{check_new_run_id, check_run_id};
use super::inbox::{
    Content, Inbox, MAX_MESSAGE_BYTES, MAX_MESSAGES_AT_ONCE, Message, Posted, Watch, is_message_name,
};
use super::lineage::{self, Journals, Part, SharedPayloads};
use super::payload::{Payloads, check_hash, reference_to};

/// All runs of this process. Clones share them.
#[derive(Clone, Debug, Default)]
pub struct MemoryStore(Arc<Mutex<Memory>>);

#[derive(Debug, Default)]
struct Memory {
    runs: BTreeMap<String, Stored>,
    /// Counts all writes, so that runs can be put in order.
    writes: u64,
}

/// One run.
#[derive(Debug, Default)]
struct Stored {
    /// None until the run is created; it may have a lease and messages before.
    journal: Option<Journal>,
    payloads: BTreeMap<String, String>,
    holder: Option<Holder>,
    /// Messages in the order in which they came.
    messages: Vec<(String, String)>,
    /// How many were ever posted.
    posted: u64,
    /// What was not synced, newest last.
    unsynced: Vec<Unsynced>,
    damage: Option<String>,
    /// The number and the time of the last write.
    written: Option<(u64, SystemTime)>,
}

#[derive(Debug)]
enum Unsynced {
    Batch,
    Payload(String),
}

#[derive(Debug)]
struct Journal {
    /// Rising by their numbers; the first is always there.
    segments: Vec<Segment>,
}

#[derive(Debug)]
struct Segment {
    number: u32,
    /// None in the first.
    snapshot: Option<Event>,
    batches: Vec<Vec<Event>>,
    bytes: u64,
}

impl Segment {
    fn begun_with(number: u32, snapshot: Option<Event>) -> Self {
        Self { number, snapshot, batches: Vec::new(), bytes: 0 }
    }

    /// The number of its first event.
    fn first_seq(&self) -> Option<u64> {
        self.snapshot.as_ref().or_else(|| self.batches.first()?.first()).map(|event| event.seq)
    }
}

impl Journal {
    fn is_empty(&self) -> bool {
        self.segments.iter().all(|segment| segment.batches.is_empty())
    }

    fn last_seq(&self) -> u64 {
        let mut batches = self.segments.iter().flat_map(|segment| &segment.batches);
        batches.next_back().and_then(|batch| batch.last()).map_or(0, |event| event.seq)
    }

    fn current(&mut self) -> &mut Segment {
        let last = self.segments.len() - 1;
        &mut self.segments[last]
    }
}

impl MemoryStore {
    fn memory(&self) -> MutexGuard<'_, Memory> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn run_of(&self, id: &str) -> MemoryRun {
        MemoryRun { store: self.clone(), id: id.to_owned() }
    }

    /// The machine loses its power: what was not synced is gone, and so is every process that had a lease.
    pub fn power_cut(&self) {
        for stored in self.memory().runs.values_mut() {
            stored.holder = None;
            while let Some(lost) = stored.unsynced.pop() {
                match lost {
                    Unsynced::Batch => {
                        stored.journal.as_mut().and_then(|journal| journal.current().batches.pop());
                    }
                    Unsynced::Payload(hash) => {
                        stored.payloads.remove(&hash);
                    }
                }
            }
        }
    }

    /// Removes a run with everything that belongs to it, if there is one.
    pub fn remove(&self, id: &str) {
        self.memory().runs.remove(id);
    }

    /// From now on the run can be found and not be read.
    pub fn damage(&self, id: &str, what: &str) {
        self.run_of(id).with(|stored| stored.damage = Some(what.to_owned()));
    }
}

impl RunStore for MemoryStore {
    fn place(&self) -> String {
        "memory".to_owned()
    }

    fn list(&self) -> Result<Vec<RunEntry>, StoreError> {
        let memory = self.memory();
        let exists = |(_, stored): &(&String, &Stored)| stored.journal.is_some();
        let mut runs: Vec<_> = memory.runs.iter().filter(exists).collect();
        runs.sort_by_key(|(_, stored)| std::cmp::Reverse(stored.written));
        let entry = |(id, stored): (&String, &Stored)| RunEntry {
            run: Arc::new(self.run_of(id)),
            modified: stored.written.map_or(SystemTime::UNIX_EPOCH, |(_, time)| time),
            version: None,
        };
        Ok(runs.into_iter().map(entry).collect())
    }

    fn run(&self, id: &str) -> Result<Arc<dyn RunHandle>, StoreError> {
        check_run_id(id).map_err(StoreError::BadId)?;
        Ok(Arc::new(self.run_of(id)))
    }

    fn create(&self, id: &str, options: JournalOptions) -> Result<Box<dyn RunWriter>, StoreError> {
        check_new_run_id(id).map_err(StoreError::BadId)?;
        let run = self.run_of(id);
        let lease = run.take_lease()?;
        run.with(|stored| match &stored.journal {
            Some(journal) if !journal.is_empty() => Err(StoreError::Exists { run: id.to_owned() }),
            _ => {
                stored.journal = Some(Journal { segments: vec![Segment::begun_with(0, None)] });
                Ok(())
            }
        })?;
        run.note_write();
        Ok(Box::new(MemoryWriter { lease, options, is_poisoned: false }))
    }
}

/// A handle on one run.
#[derive(Clone, Debug)]
struct MemoryRun {
    store: MemoryStore,
    id: String,
}

impl MemoryRun {
    fn with<T>(&self, look: impl FnOnce(&mut Stored) -> T) -> T {
        look(self.store.memory().runs.entry(self.id.clone()).or_default())
    }

    fn with_journal<T>(&self, look: impl FnOnce(&mut Journal) -> T) -> Result<T, StoreError> {
        self.with(|stored| match (&stored.damage, &mut stored.journal) {
            (Some(what), _) => Err(StoreError::damaged(self.place(), 0, what, b"")),
            (None, Some(journal)) => Ok(look(journal)),
            (None, None) => Err(StoreError::Missing { place: self.place() }),
        })
    }

    /// The last segment that begins with an event up to this one, or the first.
    fn segment_up_to(&self, seq: u64) -> Result<u32, StoreError> {
        self.with_journal(|journal| {
            let begins_up_to = |segment: &&Segment| segment.first_seq().is_some_and(|first| first <= seq);
            journal.segments.iter().rev().find(begins_up_to).map_or(0, |segment| segment.number)
        })
    }

    fn note_write(&self) {
        let mut memory = self.store.memory();
        memory.writes += 1;
        let written = Some((memory.writes, SystemTime::now()));
        memory.runs.entry(self.id.clone()).or_default().written = written;
    }

    fn take_lease(&self) -> Result<MemoryLease, StoreError> {
        let incarnation = uuid::Uuid::new_v4().to_string();
        self.with(|stored| match &stored.holder {
            Some(holder) => Err(StoreError::Held { run: self.id.clone(), holder: holder.clone() }),
            None => {
                stored.holder = Some(Holder {
                    pid: Some(std::process::id()),
                    pid_namespace: None,
                    incarnation: Some(incarnation.clone()),
                    since: Some(crate::clock::now().to_string()),
                });
                Ok(())
            }
        })?;
        Ok(MemoryLease { run: self.clone(), incarnation })
    }

    fn refused(&self, kind: io::ErrorKind, why: &'static str) -> StoreError {
        StoreError::io(self.place(), "write to", io::Error::new(kind, why))
    }
}

impl RunHandle for MemoryRun {
    fn id(&self) -> &str {
        &self.id
    }

    fn place(&self) -> String {
        format!("the run {} in memory", self.id)
    }

    /// It cannot be copied.
    fn identity(&self) -> String {
        "memory".to_owned()
    }

    fn origins(&self) -> Result<Vec<Origin>, StoreError> {
        lineage::origins(self)
    }

    fn events(&self, start: Start) -> Result<Box<dyn Events>, StoreError> {
        Ok(Box::new(lineage::events(self, start)?))
    }

    fn load(&self) -> Result<Run, StoreError> {
        let mut events = self.events(Start::LATEST_SNAPSHOT)?;
        let mut folding = Folding::default();
        let mut is_empty = true;
        while let Some(batch) = events.next_batch()? {
            is_empty = false;
            for event in batch {
                folding.take(event, &|| self.place(), 0)?;
            }
        }
        match is_empty {
            true => Err(StoreError::Empty { place: self.place() }),
            false => folding.finish(&|| self.place()),
        }
    }

    fn state_after(&self, seq: u64) -> Result<Run, StoreError> {
        lineage::state_after(self, seq)
    }

    fn holder(&self) -> Result<Option<Holder>, StoreError> {
        Ok(self.with(|stored| stored.holder.clone()))
    }

    fn lease(&self) -> Result<Box<dyn Lease>, StoreError> {
        Ok(Box::new(self.take_lease()?))
    }

    fn open(&self, options: JournalOptions) -> Result<Opened, StoreError> {
        let lease = self.take_lease()?;
        let run = self.load()?;
        // What is about to be acted upon must not be lost any more.
        if options.durability == Durability::Power {
            self.with(|stored| stored.unsynced.clear());
        }
        let writer = MemoryWriter { lease, options, is_poisoned: false };
        Ok(Opened { writer: Box::new(writer), run, moved: None, cut_bytes: 0 })
    }

    fn payloads(&self) -> Payloads {
        Payloads::new(SharedPayloads(self.clone()))
    }

    fn inbox(&self) -> Arc<dyn Inbox> {
        Arc::new(self.clone())
    }
}

impl Journals for MemoryRun {
    fn run_id(&self) -> &str {
        &self.id
    }

    fn shown_place(&self) -> String {
        self.place()
    }

    fn other(&self, id: &str) -> Result<Self, StoreError> {
        check_run_id(id).map_err(StoreError::BadId)?;
        Ok(self.store.run_of(id))
    }

    fn part(&self, up_to: u64) -> Result<Part, StoreError> {
        self.with_journal(|journal| {
            let begins_part = |segment: &&Segment| {
                segment.snapshot.is_none() && segment.first_seq().is_some_and(|first| first <= up_to)
            };
            let found = journal.segments.iter().rev().find(begins_part);
            Part { segment: found.map_or(0, |segment| segment.number) }
        })
    }

    fn first_of(&self, part: Part) -> Result<Option<Event>, StoreError> {
        self.with_journal(|journal| {
            let segment = journal.segments.iter().find(|segment| segment.number == part.segment)?;
            segment.batches.first()?.first().cloned()
        })
    }

    fn has_snapshot(&self, part: Part, up_to: u64) -> Result<bool, StoreError> {
        Ok(self.segment_up_to(up_to)? > part.segment)
    }

    fn events_of(&self, part: Part, start: Start) -> Result<Box<dyn Events>, StoreError> {
        let (seq, after) = match start {
            Start::After(seq) => (seq, seq),
            Start::SnapshotUpTo(seq) => (seq, 0),
        };
        let segment = self.segment_up_to(seq)?.max(part.segment);
        Ok(Box::new(MemoryEvents { run: self.clone(), segment, next: 0, after, last_seq: after }))
    }

    fn own_payload(&self, hash: &str) -> Result<String, StoreError> {
        check_hash(hash)?;
        let place = || format!("the payload {hash} of {}", self.place());
        self.with(|stored| stored.payloads.get(hash).cloned())
            .ok_or_else(|| StoreError::PayloadMissing { place: place() })
    }
}

/// The right to write a run.
#[derive(Debug)]
struct MemoryLease {
    run: MemoryRun,
    incarnation: String,
}

impl MemoryLease {
    /// After a power cut another process may have the lease, and this one is only a leftover of a dead one.
    fn is_held(&self) -> bool {
        let holder = self.run.with(|stored| stored.holder.clone());
        holder.and_then(|holder| holder.incarnation).as_ref() == Some(&self.incarnation)
    }
}

impl Lease for MemoryLease {}

impl Drop for MemoryLease {
    fn drop(&mut self) {
        if self.is_held() {
            self.run.with(|stored| stored.holder = None);
        }
    }
}

/// Reads a run's events.
#[derive(Debug)]
struct MemoryEvents {
    run: MemoryRun,
    segment: u32,
    /// The next batch of that segment; a snapshot is the first.
    next: usize,
    /// Events up to this one are not wanted.
    after: u64,
    /// The event that was given out last.
    last_seq: u64,
}

impl MemoryEvents {
    /// The next batch as it was stored; a snapshot is a batch of its own.
    fn stored_batch(&mut self) -> Result<Option<Vec<Event>>, StoreError> {
        let (mut at, mut next) = (self.segment, self.next);
        let found = self.run.with_journal(|journal| {
            for segment in journal.segments.iter().filter(|segment| segment.number >= self.segment) {
                if segment.number != at {
                    (at, next) = (segment.number, 0);
                }
                let snapshot = segment.snapshot.iter().map(std::slice::from_ref);
                let mut batches = snapshot.chain(segment.batches.iter().map(Vec::as_slice));
                if let Some(batch) = batches.nth(next) {
                    next += 1;
                    return Some(batch.to_vec());
                }
            }
            None
        })?;
        (self.segment, self.next) = (at, next);
        Ok(found)
    }

    /// Whether an event was not read before. A snapshot is wanted only where events are missing before it.
    fn is_wanted(&mut self, event: &Event) -> Result<bool, StoreError> {
        let is_snapshot = matches!(event.body, Body::Snapshot { .. });
        if event.seq <= if is_snapshot { self.last_seq } else { self.after } {
            return Ok(false);
        }
        if !is_snapshot {
            check_order(self.last_seq, event, &|| self.run.place(), 0)?;
        }
        self.last_seq = event.seq;
        Ok(true)
    }
}

impl Events for MemoryEvents {
    fn next_batch(&mut self) -> Result<Option<Vec<Event>>, StoreError> {
        while let Some(stored) = self.stored_batch()? {
            let mut batch = Vec::new();
            for event in stored {
                if self.is_wanted(&event)? {
                    batch.push(event);
                }
            }
            if !batch.is_empty() {
                return Ok(Some(batch));
            }
        }
        Ok(None)
    }
}

/// Writes a run.
#[derive(Debug)]
struct MemoryWriter {
    lease: MemoryLease,
    options: JournalOptions,
    is_poisoned: bool,
}

impl MemoryWriter {
    fn refuse_if_poisoned(&mut self) -> Result<(), StoreError> {
        self.is_poisoned |= !self.lease.is_held();
        match self.is_poisoned {
            true => Err(StoreError::Poisoned { place: self.lease.run.place() }),
            false => Ok(()),
        }
    }

    fn note_unsynced(&self, what: Unsynced) {
        self.lease.run.with(|stored| match self.options.durability {
            Durability::Process => stored.unsynced.push(what),
            Durability::Power => stored.unsynced.clear(),
        });
    }
}

impl RunWriter for MemoryWriter {
    fn abandon(&mut self) {
        self.lease.run.with(|stored| stored.journal.take_if(|journal| journal.is_empty()));
    }

    fn incarnation(&self) -> &str {
        &self.lease.incarnation
    }

    fn keep_payload(&mut self, text: &str) -> Result<Payload, StoreError> {
        self.refuse_if_poisoned()?;
        let payload = reference_to(text)?;
        if let Payload::Stored { payload: hash, .. } = &payload {
            let old = self.lease.run.with(|stored| stored.payloads.insert(hash.clone(), text.to_owned()));
            if old.is_none() && self.options.durability == Durability::Process {
                self.note_unsynced(Unsynced::Payload(hash.clone()));
            }
        }
        Ok(payload)
    }

    fn load_payload(&self, payload: &Payload) -> Result<String, StoreError> {
        self.lease.run.payloads().text_of(payload)
    }

    fn commit(&mut self, batch: &[Event]) -> Result<(), StoreError> {
        self.refuse_if_poisoned()?;
        let mut last = self.lease.run.with_journal(|journal| journal.last_seq())?;
        for event in batch {
            if event.seq <= last {
                let what = format!("its seq is {} where more than {last} is due", event.seq);
                return Err(StoreError::refused(self.lease.run.place(), what));
            }
            last = event.seq;
        }
        if batch.is_empty() {
            return Err(StoreError::refused(self.lease.run.place(), "a batch needs an event"));
        }
        let bytes: usize = batch.iter().map(|event| json_length(event) + 1).sum();
        self.lease.run.with_journal(|journal| {
            let segment = journal.current();
            segment.batches.push(batch.to_vec());
            segment.bytes += bytes as u64;
        })?;
        self.note_unsynced(Unsynced::Batch);
        self.lease.run.note_write();
        Ok(())
    }

    fn rewind(&mut self, start: &Event) -> Result<(), StoreError> {
        self.refuse_if_poisoned()?;
        self.lease.run.with_journal(|journal| {
            let number = journal.current().number + 1;
            let mut segment = Segment::begun_with(number, None);
            segment.batches.push(vec![start.clone()]);
            segment.bytes = json_length(start) as u64;
            journal.segments.push(segment);
        })?;
        // A new segment is begun only when all before it is safe.
        self.lease.run.with(|stored| stored.unsynced.clear());
        self.lease.run.note_write();
        Ok(())
    }

    fn snapshot_if_long(&mut self, snapshot: SnapshotLine<'_>) -> Result<(), StoreError> {
        self.refuse_if_poisoned()?;
        let options = self.options;
        let is_long =
            self.lease.run.with_journal(|journal| journal.current().bytes > options.segment_bytes)?;
        if !is_long {
            return Ok(());
        }
        let SnapshotLine { seq, time, run, state, .. } = snapshot;
        let body = Body::Snapshot { state: Box::new(state.clone()) };
        let event = Event { seq, time, run: run.to_owned(), body };
        self.lease.run.with_journal(|journal| {
            let number = journal.current().number + 1;
            journal.segments.push(Segment::begun_with(number, Some(event)));
            if let Some(keep) = options.keep_segments {
                let oldest_kept = (number + 1).saturating_sub(keep.max(1));
                journal.segments.retain(|segment| segment.number == 0 || segment.number >= oldest_kept);
            }
        })?;
        // A new segment is begun only when all before it is safe.
        self.lease.run.with(|stored| stored.unsynced.clear());
        Ok(())
    }
}

/// How long an event would be in a file. What cannot be written there takes no room.
fn json_length(event: &Event) -> usize {
    serde_json::to_string(event).map_or(0, |text| text.len())
}

impl Inbox for MemoryRun {
    fn post(&self, name: &str, content: &str) -> Result<Posted, StoreError> {
        if !is_message_name(name) {
            let why = "this cannot be the name of a message";
            return Err(self.refused(io::ErrorKind::InvalidInput, why));
        }
        if content.len() as u64 > MAX_MESSAGE_BYTES {
            return Err(self.refused(io::ErrorKind::FileTooLarge, "the message is too long"));
        }
        Ok(self.with(|stored| {
            if stored.messages.iter().any(|(other, _)| other == name) {
                return Posted::AlreadyThere;
            }
            stored.messages.push((name.to_owned(), content.to_owned()));
            stored.posted += 1;
            Posted::Posted
        }))
    }

    fn messages(&self) -> Result<Vec<Message>, StoreError> {
        let message = |(name, text): &(String, String)| Message {
            name: name.clone(),
            content: Content::Text(text.clone()),
        };
        Ok(self.with(|stored| stored.messages.iter().take(MAX_MESSAGES_AT_ONCE).map(message).collect()))
    }

    fn contains(&self, name: &str) -> bool {
        self.with(|stored| stored.messages.iter().any(|(other, _)| other == name))
    }

    fn remove(&self, name: &str) -> Result<(), StoreError> {
        if !is_message_name(name) {
            let why = "this cannot be the name of a message";
            return Err(self.refused(io::ErrorKind::InvalidInput, why));
        }
        self.with(|stored| stored.messages.retain(|(other, _)| other != name));
        Ok(())
    }

    fn watch(&self) -> Box<dyn Watch> {
        Box::new(MemoryWatch { run: self.clone(), seen: 0 })
    }
}

#[derive(Debug)]
struct MemoryWatch {
    run: MemoryRun,
    seen: u64,
}

impl Watch for MemoryWatch {
    fn changed(&mut self) -> bool {
        let posted = self.run.with(|stored| stored.posted);
        std::mem::replace(&mut self.seen, posted) != posted
    }
}

#[cfg(test)]
mod tests {
    use super::super::suite::{opening, run_suite, warnings};
    use super::*;

    #[test]
    fn it_keeps_the_promises_of_the_seam() {
        run_suite(&|| ((), Box::new(MemoryStore::default())));
    }

    fn texts(run: &dyn RunHandle) -> Vec<u64> {
        let mut events = run.events(Start::After(0)).unwrap();
        std::iter::from_fn(|| events.next_batch().unwrap()).flatten().map(|event| event.seq).collect()
    }

    #[test]
    fn a_power_cut_takes_what_was_not_synced() {
        for (durability, left) in [(Durability::Power, 5), (Durability::Process, 3)] {
            let store = MemoryStore::default();
            let mut writer = store.create("r", JournalOptions::default()).unwrap();
            let opening = opening("r");
            writer.commit(&opening).unwrap();
            writer.commit(&warnings("r", 3..=3)).unwrap();
            assert_eq!(opening.len(), 2);
            drop(writer);
            let run = store.run("r").unwrap();
            let options = JournalOptions { durability, ..JournalOptions::default() };
            let mut writer = run.open(options).unwrap().writer;
            writer.commit(&warnings("r", 4..=5)).unwrap();
            assert_eq!(texts(&*run), [1, 2, 3, 4, 5]);
            store.power_cut();
            assert_eq!(texts(&*run).len(), left);
            let error = writer.commit(&warnings("r", 6..=6)).unwrap_err();
            assert!(matches!(error, StoreError::Poisoned { .. }), "{error}");
            let second = run.open(options).unwrap();
            drop(writer);
            assert!(run.holder().unwrap().is_some(), "the dead writer has given away the lease of another");
            assert_eq!(second.run.seq as usize, left);
        }
    }

    #[test]
    fn a_damaged_run_is_listed_and_named() {
        let store = MemoryStore::default();
        store.create("r", JournalOptions::default()).unwrap().commit(&opening("r")).unwrap();
        store.damage("r", "a test damaged it");
        let run = &store.list().unwrap()[0].run;
        assert_eq!(run.id(), "r");
        let error = run.load().unwrap_err().to_string();
        assert!(error.starts_with("the run r in memory: a test damaged it"), "{error}");
        assert!(run.events(Start::After(0)).is_err());
    }
}
