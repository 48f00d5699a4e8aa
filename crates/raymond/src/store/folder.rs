//! Runs as files in one folder: `.raymond/state`, or the one that the user named.
//!
//! A run's events are lines of JSON in `RUN.jsonl` and its later segments, beside them its lock, its inbox and its
//! payloads. Everything here is blocking `std::fs` code. The process that appends, cuts or rotates holds the run's
//! lock ([`RunLock`]). Readers need none, because whole batches never change once they are written.
//!
//! Bounds: [`MAX_LINE_BYTES`] a line, [`MAX_BATCH_BYTES`] a batch, and those of every form: see [`super`].

mod disk;
mod elsewhere;
mod inbox;
mod journal;
mod lines;
mod lock;
mod own;
mod payload;
mod place;
mod read;
mod rescue;
mod room;
mod segment;
mod skip;

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use raymond_core::event::{Body, Event, Origin, ProjectMoved, SnapshotLine};
use raymond_core::evolve::relocate;
use raymond_core::payload::Payload;
use raymond_core::run::Run;

#[cfg(test)]
pub(crate) use disk::LISTINGS;
pub use disk::{Disk, DiskFile};
pub use inbox::InboxFolder;
pub use journal::Journal;
pub use lines::fold;
pub use lock::RunLock;
pub use own::{Claim, Own, OwnRun, SealedFile};
pub use payload::PayloadFolder;
pub use place::{RunPaths, StateDir, Trace};
pub use read::{Lines, Tail, read_all, read_tail};
pub use segment::{Line, MAX_BATCH_BYTES, MAX_LINE_BYTES, SNAPSHOT_EVENT, Torn};

use super::elsewhere::Elsewhere;
use super::error::StoreError;
use super::home::{
    Durability, Events, Holder, JournalOptions, Lease, Opened, RunEntry, RunHandle, RunStore, RunWriter,
    Start, find_among,
};
use super::id::check_new_run_id;
use super::inbox::Inbox;
use super::lineage::{self, Journals, Part, SharedPayloads};
use super::payload::{PayloadSource, Payloads};
use disk::SystemDisk;
use lines::{JournalEvents, LineFolding, check_segment, first_event, load, to_line};
use lock::holder_of;
use read::{part_up_to, segment_behind};

/// All runs of a folder.
#[derive(Debug)]
pub struct FolderStore {
    dir: StateDir,
    disk: Arc<dyn Disk>,
    known: place::KnownSegments,
}

impl FolderStore {
    pub fn new(dir: StateDir) -> Self {
        Self::on(dir, Arc::new(SystemDisk))
    }

    /// The same with journals and payloads on another disk. Locks stay on the system's.
    pub fn on(dir: StateDir, disk: Arc<dyn Disk>) -> Self {
        Self { dir, disk, known: place::KnownSegments::default() }
    }

    /// The same for a process that removes many runs: the folder is listed once, and not again after each change.
    pub fn listed_once(self) -> Result<Self, StoreError> {
        let segments = self.dir.segments().map_err(|error| StoreError::io(self.place(), "read", error))?;
        Ok(Self { known: place::KnownSegments::listed(segments), ..self })
    }

    /// Where the runs are.
    pub fn dir(&self) -> &StateDir {
        &self.dir
    }

    /// When a file was last added to the folder or removed. None if that was a moment ago: a further change might not be
    /// seen by it.
    pub fn changed(&self) -> Option<std::time::SystemTime> {
        self.disk.changed(self.dir.path())
    }

    /// The mark of a run elsewhere whose copy was removed here.
    pub fn removed(&self, id: &str) -> Option<Elsewhere> {
        elsewhere::removed(self.dir.path(), self.paths(id).ok()?.id(), self.dir.own())
    }

    /// Forgets that the copy of a run was removed: its engine does not have the run any more.
    pub fn forget_removal(&self, id: &str) -> Result<(), StoreError> {
        let io = |error| StoreError::io(self.place(), "write", error);
        elsewhere::forget_removal(self.dir.path(), self.paths(id)?.id()).map_err(io)
    }

    fn paths(&self, id: &str) -> Result<RunPaths, StoreError> {
        let paths = self.dir.run(id).map_err(StoreError::BadId)?;
        Ok(paths.on(Arc::clone(&self.disk)).knowing(self.known.clone()))
    }

    /// All runs of which there is a journal.
    fn journals(&self) -> Result<Vec<place::Listed>, StoreError> {
        if self.dir.own().is_strict() && self.dir.stray_link().is_some() {
            return Ok(Vec::new());
        }
        self.dir.runs().map_err(|error| StoreError::io(self.place(), "read", error))
    }

    /// The runs that lie here and do not count, because this user's Raymond has not made them here: those with a journal,
    /// and those that other machines are said to carry out.
    pub fn foreign(&self) -> Result<Vec<String>, StoreError> {
        let own = self.dir.own();
        let mut ids: Vec<String> = match own.is_strict() {
            true => self.journals()?.into_iter().map(|run| run.id).filter(|id| !own.has(id)).collect(),
            false => return Ok(Vec::new()),
        };
        if self.dir.stray_link().is_none() {
            let io = |error| StoreError::io(self.place(), "read", error);
            let elsewhere = elsewhere::marked(self.dir.path()).map_err(io)?;
            let is_foreign = |id: &String| !elsewhere::is_own(self.dir.path(), id, own);
            ids.extend(elsewhere.into_iter().filter(is_foreign));
        }
        ids.sort();
        ids.dedup();
        Ok(ids)
    }

    /// Lets a run count that a person has looked at: its journal as it is now, and what is noted of it elsewhere.
    pub fn adopt(
        &self,
        id: &str,
        moved_from: Option<String>,
        elsewhere: Option<&Elsewhere>,
    ) -> Result<(), StoreError> {
        let whatever = self.dir.whatever_is_there().run(id).map_err(StoreError::BadId)?;
        let segments = whatever.segments().map_err(|error| StoreError::io(self.place(), "list", error))?;
        let mut nonces = Vec::new();
        let has_mark = self.dir.own().has(id);
        for segment in segments.into_iter().filter(|_| !has_mark) {
            nonces.extend(match first_event(&whatever, segment)?.map(|event| event.body) {
                Some(Body::RunStarted(started)) => Some(started.nonce),
                Some(Body::Snapshot { state }) => Some(state.nonce),
                _ => None,
            });
        }
        nonces.dedup();
        if let Some(mark) = elsewhere {
            self.mark_elsewhere(id, mark)?;
        }
        match nonces.is_empty() {
            true => Ok(()),
            false => self.dir.own().adopt(id, nonces, moved_from),
        }
    }

    /// Refuses to begin a run where something lies that this user's Raymond has not made. The lock and the empty journal of
    /// a process that died before its first event are fine.
    fn check_free(&self, paths: &RunPaths) -> Result<(), StoreError> {
        let id = paths.id();
        if !self.dir.own().is_strict()
            || self.dir.own().has(id)
            || elsewhere::is_own(self.dir.path(), id, self.dir.own())
        {
            return Ok(());
        }
        let mut files = self.dir.files_of(id).map_err(StoreError::BadId)?;
        // A branch removes what it finds there, so what a process has left that died before the first event is fine, too.
        let staged = self.dir.staged_scratch(id).map_err(StoreError::BadId)?;
        files.retain(|path| *path != staged);
        files.push(self.dir.worktrees(id));
        let is_left = |path: &std::path::Path| {
            let Ok(data) = std::fs::symlink_metadata(path) else { return true };
            data.is_file() && (path == paths.lock() || path == paths.segment(0) && data.len() == 0)
        };
        match files.iter().find(|path| !is_left(path)) {
            None => Ok(()),
            Some(path) => Err(StoreError::Taken { run: id.to_owned(), place: path.display().to_string() }),
        }
    }
}

impl RunStore for FolderStore {
    fn place(&self) -> String {
        self.dir.path().display().to_string()
    }

    fn list(&self) -> Result<Vec<RunEntry>, StoreError> {
        let own = self.dir.own();
        let listed = self.journals()?.into_iter().filter(|run| own.has(&run.id));
        let entry = |run: place::Listed| {
            let handle =
                FolderRun { paths: self.paths(&run.id)?, newest: Mutex::new(Some(run.last_segment)) };
            Ok(RunEntry { run: Arc::new(handle), modified: run.modified, version: run.version() })
        };
        listed.map(entry).collect()
    }

    fn origins_of_all(&self) -> Result<BTreeMap<String, BTreeSet<String>>, StoreError> {
        let segments = self.dir.segments().map_err(|error| StoreError::io(self.place(), "read", error))?;
        let mut origins: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
        for (id, segment) in segments.into_iter().filter(|(id, _)| self.dir.own().has(id)) {
            let paths = self.paths(&id)?;
            if segment > 0 && !skip::begins_with_start(&paths, segment).unwrap_or(false) {
                continue;
            }
            // One damaged journal must not hide the others.
            let first = first_event(&paths, segment).ok().flatten();
            let origin = first.as_ref().and_then(lineage::origin_of).filter(|origin| origin.run != id);
            if let Some(origin) = origin {
                origins.entry(id).or_default().insert(origin.run.clone());
            }
        }
        Ok(origins)
    }

    fn find(&self, given: &str) -> Result<Arc<dyn RunHandle>, StoreError> {
        match find_among(self.list()?, given) {
            Err(StoreError::Unknown { .. }) if self.foreign()?.iter().any(|id| id == given) => {
                Err(StoreError::NotOwn { run: given.to_owned(), place: self.place() })
            }
            other => other,
        }
    }

    fn cache(&self) -> Option<SealedFile> {
        // Ids never begin with a dot, so no run has this file.
        Some(SealedFile::new(self.dir.path().join(".list.json"), self.dir.own().clone()))
    }

    fn elsewhere(&self) -> Result<Vec<String>, StoreError> {
        let marked = elsewhere::marked(self.dir.path());
        let mut marked = marked.map_err(|error| StoreError::io(self.place(), "read", error))?;
        marked.retain(|id| elsewhere::is_own(self.dir.path(), id, self.dir.own()));
        Ok(marked)
    }

    fn mark_elsewhere(&self, id: &str, mark: &Elsewhere) -> Result<(), StoreError> {
        let paths = self.paths(id)?;
        self.dir.create().map_err(|error| StoreError::io(self.place(), "make", error))?;
        let io =
            |error| StoreError::io(elsewhere::path_of(self.dir.path(), paths.id()).display(), "write", error);
        self.dir.own().prepare()?;
        elsewhere::write(self.dir.path(), paths.id(), mark, self.dir.own()).map_err(io)
    }

    fn note_removal(&self, id: &str) -> Result<(), StoreError> {
        let io = |error| StoreError::io(self.place(), "write", error);
        elsewhere::note_removal(self.dir.path(), self.paths(id)?.id()).map_err(io)
    }

    fn was_removed(&self, id: &str) -> bool {
        self.paths(id).is_ok_and(|paths| elsewhere::was_removed(self.dir.path(), paths.id(), self.dir.own()))
    }

    fn forget_removals(&self, engine: &str, listed: &BTreeSet<&str>) -> Result<(), StoreError> {
        let io = |error| StoreError::io(self.place(), "write", error);
        elsewhere::forget_removals(self.dir.path(), engine, listed, self.dir.own()).map_err(io)
    }

    fn run(&self, id: &str) -> Result<Arc<dyn RunHandle>, StoreError> {
        Ok(Arc::new(FolderRun { paths: self.paths(id)?, newest: Mutex::default() }))
    }

    fn create(&self, id: &str, options: JournalOptions) -> Result<Box<dyn RunWriter>, StoreError> {
        check_new_run_id(id).map_err(StoreError::BadId)?;
        let paths = self.paths(id)?;
        self.dir.create().map_err(|error| StoreError::io(self.place(), "make", error))?;
        self.dir.own().prepare()?;
        self.check_free(&paths)?;
        let mut lock = RunLock::of_run(&paths)?;
        let journal = Journal::create(&paths, options, &lock)?;
        lock.include_journal(&paths)?;
        Ok(Box::new(FolderWriter::new(paths, journal, options.durability, lock)))
    }
}

/// One run of a folder.
#[derive(Debug)]
struct FolderRun {
    paths: RunPaths,
    /// The last segment when the folder was listed. It is used once, because a handle may be kept for long while
    /// segments are added and deleted.
    newest: Mutex<Option<u32>>,
}

impl FolderRun {
    /// Refuses a run that does not count. One on other machines has a note of its own until its copy begins.
    fn check_own(&self) -> Result<(), StoreError> {
        let (folder, id, own) = (self.paths.folder(), self.paths.id(), self.paths.own());
        match elsewhere::is_own(folder, id, own) && std::fs::symlink_metadata(self.paths.segment(0)).is_err()
        {
            true => Ok(()),
            false => own.check(id),
        }
    }

    /// A run that was adopted from another project works in this one. Until it is resumed, no event says so.
    fn where_it_is(&self, mut run: Run) -> (Run, Option<ProjectMoved>) {
        let here = self.paths.own().run(self.paths.id()).and_then(|own| Some((own.moved_from?, own.project)));
        let Some((from, to)) = here.filter(|(_, to)| run.project.as_ref() != Some(to)) else {
            return (run, None);
        };
        let moved = ProjectMoved { from: run.project.clone().unwrap_or(from), to };
        relocate(&mut run, &moved);
        (run, Some(moved))
    }
}

impl RunHandle for FolderRun {
    fn id(&self) -> &str {
        self.paths.id()
    }

    fn place(&self) -> String {
        self.paths.segment(0).display().to_string()
    }

    fn identity(&self) -> String {
        self.paths.identity()
    }

    fn scratch(&self) -> Option<PathBuf> {
        Some(self.paths.scratch())
    }

    fn origins(&self) -> Result<Vec<Origin>, StoreError> {
        lineage::origins(&self.paths)
    }

    fn events(&self, start: Start) -> Result<Box<dyn Events>, StoreError> {
        Ok(Box::new(lineage::events(&self.paths, start)?))
    }

    fn load(&self) -> Result<Run, StoreError> {
        let newest = self.newest.lock().unwrap_or_else(PoisonError::into_inner).take();
        load(&self.paths, newest).map(|run| self.where_it_is(run).0)
    }

    fn state_after(&self, seq: u64) -> Result<Run, StoreError> {
        lineage::state_after(&self.paths, seq).map(|run| self.where_it_is(run).0)
    }

    fn try_elsewhere(&self) -> Result<Option<Elsewhere>, StoreError> {
        let (folder, id) = (self.paths.folder(), self.paths.id());
        let io = |error| StoreError::io(elsewhere::path_of(folder, id).display(), "read", error);
        elsewhere::read(folder, id, self.paths.own()).map_err(io)
    }

    fn holder(&self) -> Result<Option<Holder>, StoreError> {
        // A process that copies such a run holds the lease of the copy, but does not drive the run.
        if let Some(mark) = self.try_elsewhere()? {
            return Ok(mark.is_open.then(Holder::default));
        }
        self.lease_holder()
    }

    fn lease_holder(&self) -> Result<Option<Holder>, StoreError> {
        holder_of(&self.paths).map_err(|error| StoreError::io(self.paths.lock().display(), "look at", error))
    }

    fn lease(&self) -> Result<Box<dyn Lease>, StoreError> {
        // What is left of a run without its journal may be cleared away.
        if std::fs::symlink_metadata(self.paths.segment(0)).is_ok() {
            self.check_own()?;
        }
        Ok(Box::new(RunLock::of_run(&self.paths)?))
    }

    fn open(&self, options: JournalOptions) -> Result<Opened, StoreError> {
        self.check_own()?;
        let lock = RunLock::of_run(&self.paths)?;
        let find_origin = |origin: &Origin| lineage::state_at_origin(&self.paths, origin);
        let mut folding = LineFolding::new(&self.paths, &find_origin);
        let (journal, tail) =
            Journal::open_visiting(&self.paths, options, &lock, &mut |line| folding.take(&line))?;
        let (run, moved) = self.where_it_is(folding.finish()?);
        let writer = FolderWriter::new(self.paths.clone(), journal, options.durability, lock);
        Ok(Opened { writer: Box::new(writer), run, moved, cut_bytes: tail.torn.map_or(0, |torn| torn.bytes) })
    }

    fn payloads(&self) -> Payloads {
        Payloads::new(SharedPayloads(self.paths.clone()))
    }

    fn inbox(&self) -> Arc<dyn Inbox> {
        let inbox = InboxFolder::new(self.paths.inbox());
        Arc::new(if self.check_own().is_ok() { inbox } else { inbox.closed() })
    }
}

impl Journals for RunPaths {
    fn run_id(&self) -> &str {
        RunPaths::id(self)
    }

    fn shown_place(&self) -> String {
        self.segment(0).display().to_string()
    }

    fn other(&self, id: &str) -> Result<Self, StoreError> {
        self.sibling(id).map_err(StoreError::BadId)
    }

    fn part(&self, up_to: u64) -> Result<Part, StoreError> {
        Ok(Part { segment: part_up_to(self, up_to)? })
    }

    fn first_of(&self, part: Part) -> Result<Option<Event>, StoreError> {
        first_event(self, part.segment)
    }

    fn has_snapshot(&self, part: Part, up_to: u64) -> Result<bool, StoreError> {
        Ok(segment_behind(self, up_to)? > part.segment)
    }

    fn events_of(&self, part: Part, start: Start) -> Result<Box<dyn Events>, StoreError> {
        let segment = |seq| {
            let segment = segment_behind(self, seq)?.max(part.segment);
            check_segment(self, segment).map(|()| segment)
        };
        let (lines, after) = match start {
            Start::After(seq) => (Lines::behind(self, segment(seq)?, seq), seq),
            Start::SnapshotUpTo(seq) => (Lines::from_segment(self, segment(seq)?), 0),
        };
        Ok(Box::new(JournalEvents::new(self.clone(), lines, after)))
    }

    fn own_payload(&self, hash: &str) -> Result<String, StoreError> {
        payload_folder(self, Durability::Process).get(hash)
    }
}

fn payload_folder(paths: &RunPaths, durability: Durability) -> PayloadFolder {
    PayloadFolder::new(paths.payloads(), durability, paths.shared_disk())
}

/// The journal and the payloads of a run, with its lock.
#[derive(Debug)]
struct FolderWriter {
    paths: RunPaths,
    journal: Journal,
    payloads: PayloadFolder,
    lock: RunLock,
    is_synced: bool,
}

impl FolderWriter {
    fn new(paths: RunPaths, journal: Journal, durability: Durability, lock: RunLock) -> Self {
        let payloads = payload_folder(&paths, durability);
        Self { paths, journal, payloads, lock, is_synced: durability == Durability::Power }
    }

    /// The mark of a run is there before the first event that it stands for.
    fn mark(&self, first: Option<&Event>) -> Result<(), StoreError> {
        match first.map(|event| &event.body) {
            Some(Body::RunStarted(started)) => {
                let origin = started.origin.as_ref().map(|origin| origin.run.as_str());
                self.paths.own().mark(self.paths.id(), &started.nonce, origin, self.is_synced)
            }
            _ => Ok(()),
        }
    }
}

impl RunWriter for FolderWriter {
    fn incarnation(&self) -> &str {
        self.lock.incarnation()
    }

    fn keep_payload(&mut self, text: &str) -> Result<Payload, StoreError> {
        match self.payloads.put(text) {
            // The next commit finds the journal gone, and rescues the text together with the event.
            Err(_) if !self.journal.is_in_place() => Ok(Payload::Inline(text.to_owned())),
            // The commit does not fit either, and is tried again without such texts.
            Err(error) if error.is_disk_full() => Ok(Payload::Inline(text.to_owned())),
            other => other,
        }
    }

    fn load_payload(&self, payload: &Payload) -> Result<String, StoreError> {
        match payload {
            Payload::Inline(text) => Ok(text.clone()),
            Payload::Stored { payload: hash, .. } => lineage::payload(&self.paths, hash),
        }
    }

    fn rewind(&mut self, start: &Event) -> Result<(), StoreError> {
        self.mark(Some(start))?;
        self.journal.rewind(to_line(&self.paths, start)?)
    }

    fn commit(&mut self, batch: &[Event]) -> Result<(), StoreError> {
        let lines: Vec<String> =
            batch.iter().map(|event| to_line(&self.paths, event)).collect::<Result<_, _>>()?;
        if !self.journal.is_in_place() {
            return Err(self.journal.rescue(&lines));
        }
        self.mark(batch.first())?;
        self.journal.append(&lines)?;
        if batch
            .last()
            .is_some_and(|event| matches!(event.body, Body::RunFinished { .. } | Body::RunStopped { .. }))
        {
            self.journal.release_room();
        }
        match self.lock.is_in_place() {
            true => Ok(()),
            false => Err(self.journal.close(self.lock.path())),
        }
    }

    fn abandon(&mut self) {
        self.journal.abandon();
    }

    fn set_aside(&mut self, bytes: u64) {
        self.journal.set_aside(bytes);
    }

    fn snapshot_if_long(&mut self, snapshot: SnapshotLine<'_>) -> Result<(), StoreError> {
        if !self.journal.should_rotate() {
            return Ok(());
        }
        match self.journal.rotate(to_line(&self.paths, &snapshot)?) {
            // A state too large for one line stays in a segment that is longer than usual.
            Err(StoreError::Refused { .. }) => Ok(()),
            other => other,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::suite::{opening, run_suite, warnings};
    use super::*;

    #[test]
    fn it_keeps_the_promises_of_the_seam() {
        run_suite(&|| {
            let dir = tempfile::tempdir().unwrap();
            let store = FolderStore::new(StateDir::at(dir.path()));
            (dir, Box::new(store))
        });
    }

    #[test]
    fn a_handle_from_a_list_stays_up_to_date() {
        let dir = tempfile::tempdir().unwrap();
        let store = FolderStore::new(StateDir::at(dir.path()));
        let options =
            JournalOptions { segment_bytes: 1, keep_segments: Some(1), ..JournalOptions::default() };
        let mut writer = store.create("r", options).unwrap();
        writer.commit(&opening("r")).unwrap();
        let run = store.list().unwrap().remove(0).run;
        assert_eq!(run.load().unwrap().seq, 2);
        for seq in 3..=6 {
            let state = run.load().unwrap();
            writer.snapshot_if_long(SnapshotLine::of(&state, state.started_at)).unwrap();
            writer.commit(&warnings("r", seq..=seq)).unwrap();
            assert_eq!(run.load().unwrap().seq, seq);
        }
        let mut names: Vec<String> = std::fs::read_dir(dir.path())
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .filter(|name| name.ends_with(".jsonl"))
            .collect();
        names.sort();
        assert_eq!(names, ["r.0004.jsonl", "r.jsonl"]);
    }
}
