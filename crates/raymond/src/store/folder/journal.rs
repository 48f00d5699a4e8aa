//! Writing a run's journal: whole batches, appended and synced; segments once it grows long.
//!
//! A batch is one write and, with [`Durability::Power`], one sync; only then does `append` return. After a
//! call that failed it is not known what the disk holds, so the journal refuses all further calls. Opening it
//! again reads what is really there.
//!
//! Bound: a new segment is begun soon after `segment_bytes` of [`JournalOptions`], unless the snapshot is so large
//! that writing it that often would cost more than the events themselves.

use std::io;
use std::path::{Path, PathBuf};

use super::disk::DiskFile;
use super::lock::RunLock;
use super::place::RunPaths;
use super::read::{Tail, visit_tail};
use super::rescue;
use super::room::Room;
use super::segment::{Line, SNAPSHOT_EVENT, check_lines, encode_batch, is_snapshot};
use crate::store::error::StoreError;
use crate::store::home::{Durability, JournalOptions};

/// A segment grows to at least so many times its snapshot, so that snapshots stay a small part of the work.
const SNAPSHOT_SHARE: u64 = 4;

/// The current segment of a run, open for appending.
#[derive(Debug)]
pub struct Journal {
    paths: RunPaths,
    options: JournalOptions,
    segment: u32,
    file: Box<dyn DiskFile>,
    /// How long the current segment is.
    bytes: u64,
    /// How long the snapshot at its start is; 0 in the first segment.
    snapshot_bytes: u64,
    last_seq: Option<u64>,
    room: Room,
    poisoned: bool,
}

impl Journal {
    /// Begins the journal of a new run. The folder exists, and the lock is the one of this run.
    pub fn create(paths: &RunPaths, options: JournalOptions, lock: &RunLock) -> Result<Self, StoreError> {
        debug_assert_eq!(lock.path(), paths.lock(), "this is the lock of another run");
        let path = paths.segment(0);
        let file = match paths.disk().create(&path, false) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                return Err(StoreError::Exists { run: paths.id().to_owned() });
            }
            other => other.map_err(|error| StoreError::io(path.display(), "create", error))?,
        };
        if options.durability == Durability::Power {
            file.sync_all()
                .and_then(|()| paths.disk().sync_dir(paths.dir()))
                .map_err(|error| StoreError::io(path.display(), "sync", error))?;
        }
        let paths = paths.clone();
        Ok(Self {
            paths,
            options,
            segment: 0,
            file,
            bytes: 0,
            snapshot_bytes: 0,
            last_seq: None,
            room: Room::default(),
            poisoned: false,
        })
    }

    /// Opens the journal of a run to go on with it, and gives what its last segment holds.
    ///
    /// A torn tail is cut off here and nowhere else: only the holder of the lock knows that no other process is still
    /// writing it.
    pub fn open(
        paths: &RunPaths,
        options: JournalOptions,
        lock: &RunLock,
    ) -> Result<(Self, Tail), StoreError> {
        let mut lines = Vec::new();
        let (journal, tail) = Self::open_visiting(paths, options, lock, &mut |line| lines.push(line))?;
        Ok((journal, Tail { lines, ..tail }))
    }

    /// The same, with each line handed on as it is read.
    pub fn open_visiting(
        paths: &RunPaths,
        options: JournalOptions,
        lock: &RunLock,
        visit: &mut dyn FnMut(Line),
    ) -> Result<(Self, Tail), StoreError> {
        debug_assert_eq!(lock.path(), paths.lock(), "this is the lock of another run");
        let tail = visit_tail(paths, None, visit)?;
        let path = paths.segment(tail.segment);
        let mut file =
            paths.disk().append(&path).map_err(|error| StoreError::io(path.display(), "open", error))?;
        if tail.lacks_line_break {
            file.write_all(b"\n").map_err(|error| StoreError::io(path.display(), "write", error))?;
        }
        if let Some(torn) = tail.torn {
            file.set_len(torn.offset).map_err(|error| StoreError::io(path.display(), "cut", error))?;
        }
        // After a power cut the cut-off tail must not be back behind what is written next. And a Raymond that was killed
        // between write and sync left batches that are acted upon from now on, but may not be on the disk yet.
        if tail.torn.is_some() || options.durability == Durability::Power {
            file.sync_all()
                .and_then(|()| paths.disk().sync_dir(paths.dir()))
                .map_err(|error| StoreError::io(path.display(), "sync", error))?;
        }
        // A crash before the rename left only this file, which no reader opens.
        let unfinished = paths.unfinished_segment(tail.segment + 1);
        paths
            .disk()
            .remove(&unfinished)
            .map_err(|error| StoreError::io(unfinished.display(), "remove", error))?;
        let journal = Self {
            paths: paths.clone(),
            options,
            segment: tail.segment,
            file,
            bytes: tail.bytes + u64::from(tail.lacks_line_break),
            snapshot_bytes: tail.snapshot_bytes,
            last_seq: tail.last_seq,
            room: Room::default(),
            poisoned: false,
        };
        Ok((journal, tail))
    }

    /// Writes one batch. After a crash it is there as a whole or not at all.
    pub fn append(&mut self, lines: &[String]) -> Result<(), StoreError> {
        self.refuse_if_poisoned()?;
        let file = self.current_file();
        let last_seq =
            check_lines(lines, self.last_seq).map_err(|what| StoreError::refused(file.display(), what))?;
        let batch = encode_batch(lines);
        self.room
            .ensure(&*self.file, self.bytes, batch.len() as u64)
            .map_err(|why| StoreError::Full { place: file.display().to_string(), why })?;
        // Set before the call, so that it is also set if the function returns early.
        self.poisoned = true;
        self.file.write_all(&batch).map_err(|error| StoreError::io(file.display(), "write", error))?;
        if self.options.durability == Durability::Power {
            self.file.sync_data().map_err(|error| StoreError::io(file.display(), "sync", error))?;
        }
        self.poisoned = false;
        self.bytes += batch.len() as u64;
        self.last_seq = last_seq;
        Ok(())
    }

    /// How much room the following batches must leave free behind them.
    pub fn set_aside(&mut self, bytes: u64) {
        self.room.aside = bytes;
    }

    /// Gives back the room that was reserved and not used. Nothing depends on it.
    pub fn release_room(&mut self) {
        if self.room.release(self.bytes) {
            let _ = self.file.set_len(self.bytes);
        }
    }

    /// Whether the current segment is still where readers look for it.
    pub fn is_in_place(&self) -> bool {
        self.file.is_at(&self.current_file())
    }

    /// Gives up a journal that was deleted or replaced, and copies it, with a batch behind it, to another place.
    pub fn rescue(&mut self, lines: &[String]) -> StoreError {
        self.poisoned = true;
        let rescued = rescue::write(&self.paths, &*self.file, &encode_batch(lines));
        StoreError::JournalGone {
            run: self.paths.id().to_owned(),
            place: self.paths.segment(0).display().to_string(),
            rescued: rescued.map(|path| path.display().to_string()).map_err(|error| error.to_string()),
        }
    }

    /// Refuses all further calls because the lock file was deleted or replaced.
    pub fn close(&mut self, lock: &Path) -> StoreError {
        self.poisoned = true;
        StoreError::LockGone { place: lock.display().to_string() }
    }

    /// Whether the current segment is long enough for a new one.
    pub fn should_rotate(&self) -> bool {
        let amortised = self.snapshot_bytes.saturating_mul(SNAPSHOT_SHARE);
        self.bytes > self.options.segment_bytes.max(amortised)
    }

    /// Begins a new segment with a snapshot of the run, from which it can be read without the ones before.
    ///
    /// A crash leaves the old segment or the new one as the last, because the new one gets its
    /// name only once it is whole and on disk.
    pub fn rotate(&mut self, snapshot_line: String) -> Result<(), StoreError> {
        self.refuse_if_poisoned()?;
        let next = self.segment + 1;
        let path = self.paths.segment(next);
        let snapshot_bytes = snapshot_line.len() as u64;
        // A snapshot that is refused counts, too. Otherwise every step would make another one that is refused.
        self.snapshot_bytes = snapshot_bytes;
        let lines = [snapshot_line];
        let last_seq = check_snapshot(&lines, self.last_seq)
            .map_err(|what| StoreError::refused(path.display(), what))?;
        let batch = encode_batch(&lines);
        self.poisoned = true;
        // A torn tail before a later segment would be damage, so the old segment is synced with any durability.
        let old = self.current_file();
        self.file.sync_data().map_err(|error| StoreError::io(old.display(), "sync", error))?;
        self.file = self
            .put_in_place(&batch, &path)
            .map_err(|error| StoreError::io(path.display(), "create", error))?;
        self.poisoned = false;
        self.room.begin_file();
        self.segment = next;
        self.bytes = batch.len() as u64;
        self.last_seq = last_seq;
        self.delete_old_segments();
        Ok(())
    }

    /// The number of the current segment.
    pub fn segment(&self) -> u32 {
        self.segment
    }

    /// How long the current segment is.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    fn current_file(&self) -> PathBuf {
        self.paths.segment(self.segment)
    }

    fn refuse_if_poisoned(&self) -> Result<(), StoreError> {
        match self.poisoned {
            true => Err(StoreError::Poisoned { place: self.current_file().display().to_string() }),
            false => Ok(()),
        }
    }

    /// Writes a new segment under a temporary name, syncs it, and renames it.
    fn put_in_place(&self, batch: &[u8], path: &Path) -> io::Result<Box<dyn DiskFile>> {
        let disk = self.paths.disk();
        let unfinished = self.paths.unfinished_segment(self.segment + 1);
        disk.remove(&unfinished)?;
        let mut file = disk.create(&unfinished, false)?;
        file.write_all(batch)?;
        file.sync_all()?;
        disk.rename(&unfinished, path)?;
        disk.sync_dir(self.paths.dir())?;
        Ok(file)
    }

    /// Deletes the segments that `keep_segments` does not keep, oldest first, so that those that are left have no gap.
    ///
    /// Nothing depends on it. A file that cannot be deleted is tried again after the next segment.
    fn delete_old_segments(&self) {
        let Some(keep) = self.options.keep_segments else {
            return;
        };
        let Ok(segments) = self.paths.segments() else {
            return;
        };
        let oldest_kept = (self.segment + 1).saturating_sub(keep.max(1));
        for number in segments.into_iter().filter(|number| (1..oldest_kept).contains(number)) {
            if self.paths.disk().remove(&self.paths.segment(number)).is_err() {
                return;
            }
        }
    }
}

fn check_snapshot(lines: &[String; 1], last_seq: Option<u64>) -> Result<Option<u64>, String> {
    let last_seq = check_lines(lines, last_seq)?;
    match is_snapshot(&lines[0]) {
        true => Ok(last_seq),
        false => Err(format!("a segment must begin with an event '{SNAPSHOT_EVENT}'")),
    }
}

#[cfg(test)]
mod tests {
    use super::super::place::StateDir;
    use super::super::read::read_all;
    use super::super::read::read_tail;
    use super::*;
    use std::fs;
    use tempfile::{TempDir, tempdir};

    struct Fixture {
        _dir: TempDir,
        paths: RunPaths,
        lock: RunLock,
    }

    fn fixture() -> Fixture {
        let dir = tempdir().unwrap();
        let paths = StateDir::at(dir.path()).run("r").unwrap();
        let lock = RunLock::acquire(&paths.lock()).unwrap();
        Fixture { _dir: dir, paths, lock }
    }

    impl Fixture {
        fn create(&self, options: JournalOptions) -> Journal {
            Journal::create(&self.paths, options, &self.lock).unwrap()
        }

        fn open(&self) -> Result<(Journal, Tail), StoreError> {
            Journal::open(&self.paths, unsynced(), &self.lock)
        }

        fn texts(&self) -> Result<Vec<String>, StoreError> {
            let mut all = read_all(&self.paths)?;
            let mut texts = Vec::new();
            while let Some(batch) = all.next_batch()? {
                texts.extend(batch.into_iter().map(|line| line.text));
            }
            Ok(texts)
        }

        fn names(&self) -> Vec<String> {
            let mut names: Vec<String> = fs::read_dir(self.paths.dir())
                .unwrap()
                .map(|entry| entry.unwrap().file_name().into_string().unwrap())
                .filter(|name| name.contains("jsonl"))
                .collect();
            names.sort();
            names
        }
    }

    fn unsynced() -> JournalOptions {
        JournalOptions { durability: Durability::Process, ..JournalOptions::default() }
    }

    fn small(keep_segments: Option<u32>) -> JournalOptions {
        JournalOptions { segment_bytes: 100, keep_segments, ..unsynced() }
    }

    fn event(seq: u64) -> String {
        format!("{{\"event\":\"e\",\"seq\":{seq},\"text\":\"ä\\n\"}}")
    }

    fn snapshot(seq: u64) -> String {
        format!("{{\"event\":\"snapshot\",\"seq\":{seq}}}")
    }

    fn events(range: std::ops::RangeInclusive<u64>) -> Vec<String> {
        range.map(event).collect()
    }

    #[test]
    fn what_is_appended_is_read_again() {
        for durability in [Durability::Power, Durability::Process] {
            let run = fixture();
            let mut journal = run.create(JournalOptions { durability, ..JournalOptions::default() });
            journal.append(&events(1..=1)).unwrap();
            journal.append(&events(2..=4)).unwrap();
            assert_eq!(run.texts().unwrap(), events(1..=4));
            let (mut journal, tail) = run.open().unwrap();
            assert_eq!(tail.torn, None);
            let batches: Vec<bool> = tail.lines.iter().map(|line| line.ends_batch).collect();
            assert_eq!(batches, [true, false, false, true]);
            journal.append(&events(5..=5)).unwrap();
            assert_eq!(run.texts().unwrap(), events(1..=5));
        }
    }

    #[test]
    fn an_existing_run_is_not_begun_again() {
        let run = fixture();
        run.create(unsynced()).append(&events(1..=1)).unwrap();
        let error = Journal::create(&run.paths, unsynced(), &run.lock).unwrap_err();
        assert!(matches!(error, StoreError::Exists { .. }), "{error}");
        assert_eq!(run.texts().unwrap(), events(1..=1));
    }

    #[test]
    fn missing_and_empty_journals_say_so() {
        let run = fixture();
        assert!(matches!(run.open(), Err(StoreError::Missing { .. })));
        drop(run.create(unsynced()));
        assert!(matches!(run.open(), Err(StoreError::Empty { .. })));
        fs::write(run.paths.segment(0), &encode_batch(&events(1..=1))[..20]).unwrap();
        let error = run.open().unwrap_err().to_string();
        assert!(error.ends_with("r.jsonl holds no complete event; nothing ran: remove it"), "{error}");
    }

    #[cfg(unix)]
    #[test]
    fn journals_are_for_the_owner() {
        use std::os::unix::fs::PermissionsExt;
        let run = fixture();
        let mut journal = run.create(small(None));
        journal.append(&events(1..=1)).unwrap();
        journal.rotate(snapshot(1)).unwrap();
        for segment in [0, 1] {
            let mode = fs::metadata(run.paths.segment(segment)).unwrap().permissions().mode();
            assert_eq!(mode & 0o777, 0o600);
        }
    }

    #[test]
    fn cut_at_every_byte_the_journal_goes_on_from_the_whole_batches() {
        let run = fixture();
        let mut journal = run.create(unsynced());
        for batch in [events(1..=1), events(2..=4), events(5..=6)] {
            journal.append(&batch).unwrap();
        }
        let path = run.paths.segment(0);
        let whole = fs::read(&path).unwrap();
        let first_batch = encode_batch(&events(1..=1)).len();
        for cut in 0..whole.len() {
            fs::write(&path, &whole[..cut]).unwrap();
            if cut < first_batch - 1 {
                assert!(matches!(run.open(), Err(StoreError::Empty { .. })));
                continue;
            }
            let (mut journal, tail) = run.open().unwrap();
            let kept = tail.lines.len() as u64;
            assert!([1, 4, 6].contains(&kept));
            let texts: Vec<&String> = tail.lines.iter().map(|line| &line.text).collect();
            assert_eq!(texts, events(1..=kept).iter().collect::<Vec<_>>());
            journal.append(&events(kept + 1..=kept + 2)).unwrap();
            assert_eq!(run.texts().unwrap(), events(1..=kept + 2), "cut {cut}");
        }
    }

    #[test]
    fn reading_does_not_cut() {
        let run = fixture();
        run.create(unsynced()).append(&events(1..=1)).unwrap();
        let path = run.paths.segment(0);
        let mut bytes = fs::read(&path).unwrap();
        bytes.extend(b"{\"seq\":2");
        fs::write(&path, &bytes).unwrap();
        let tail = read_tail(&run.paths).unwrap();
        assert_eq!(tail.torn.unwrap().bytes, 8);
        assert_eq!(run.texts().unwrap(), events(1..=1));
        assert_eq!(fs::read(&path).unwrap(), bytes);
        drop(run.open().unwrap());
        assert_eq!(fs::read(&path).unwrap(), bytes[..bytes.len() - 8]);
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn a_failed_write_poisons() {
        let run = fixture();
        let mut journal = run.create(unsynced());
        journal.append(&events(1..=1)).unwrap();
        let good = std::mem::replace(
            &mut journal.file,
            Box::new(fs::File::options().write(true).open("/dev/full").unwrap()),
        );
        assert!(matches!(journal.append(&events(2..=2)), Err(StoreError::Io { action: "write", .. })));
        journal.file = good;
        assert!(matches!(journal.append(&events(2..=2)), Err(StoreError::Poisoned { .. })));
        assert!(matches!(journal.rotate(snapshot(2)), Err(StoreError::Poisoned { .. })));
        assert_eq!(run.texts().unwrap(), events(1..=1));
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn a_failed_sync_poisons() {
        let run = fixture();
        let mut journal = run.create(JournalOptions::default());
        // Writing to /dev/null works and syncing it does not.
        journal.file = Box::new(fs::File::options().write(true).open("/dev/null").unwrap());
        assert!(matches!(journal.append(&events(1..=1)), Err(StoreError::Io { action: "sync", .. })));
        assert!(matches!(journal.append(&events(1..=1)), Err(StoreError::Poisoned { .. })));
    }

    #[test]
    fn what_is_refused_leaves_the_journal_usable() {
        let run = fixture();
        let mut journal = run.create(unsynced());
        journal.append(&events(1..=1)).unwrap();
        for bad in [vec![], vec!["x".to_owned()], events(1..=1)] {
            assert!(matches!(journal.append(&bad), Err(StoreError::Refused { .. })));
        }
        assert!(matches!(journal.rotate(event(2)), Err(StoreError::Refused { .. })));
        journal.append(&events(2..=2)).unwrap();
        assert_eq!(run.texts().unwrap(), events(1..=2));
        assert_eq!(run.names(), ["r.jsonl"]);
    }

    #[test]
    fn rotation_begins_a_segment_that_stands_alone() {
        let run = fixture();
        let mut journal = run.create(small(None));
        journal.append(&events(1..=1)).unwrap();
        assert!(!journal.should_rotate());
        journal.append(&events(2..=3)).unwrap();
        assert!(journal.should_rotate());
        journal.rotate(snapshot(3)).unwrap();
        assert!(!journal.should_rotate());
        journal.append(&events(4..=5)).unwrap();
        let (mut journal, tail) = run.open().unwrap();
        assert_eq!(tail.segment, 1);
        let texts: Vec<String> = tail.lines.into_iter().map(|line| line.text).collect();
        assert_eq!(texts, [snapshot(3), event(4), event(5)]);
        journal.append(&events(6..=6)).unwrap();
        let all = [events(1..=3), vec![snapshot(3)], events(4..=6)].concat();
        assert_eq!(run.texts().unwrap(), all);
        assert_eq!(run.names(), ["r.0001.jsonl", "r.jsonl"]);
    }

    #[test]
    fn large_snapshots_are_made_less_often() {
        let run = fixture();
        let mut journal = run.create(small(None));
        journal.append(&events(1..=5)).unwrap();
        let large = format!("{{\"event\":\"snapshot\",\"state\":\"{}\"}}", "x".repeat(1000));
        journal.rotate(large).unwrap();
        let mut seq = 5;
        while !journal.should_rotate() {
            seq += 1;
            journal.append(&[event(seq)]).unwrap();
        }
        assert!(journal.bytes() > 4000);
        let (reopened, _) = run.open().unwrap();
        assert_eq!(reopened.snapshot_bytes, journal.snapshot_bytes);
    }

    #[test]
    fn a_crash_before_the_rename_leaves_the_old_segment() {
        let run = fixture();
        let mut journal = run.create(small(None));
        journal.append(&events(1..=3)).unwrap();
        let batch = encode_batch(&[snapshot(3)]);
        for cut in 0..=batch.len() {
            fs::write(run.paths.unfinished_segment(1), &batch[..cut]).unwrap();
            assert_eq!(read_tail(&run.paths).unwrap().segment, 0);
            let (_, tail) = run.open().unwrap();
            assert_eq!((tail.segment, tail.lines.len()), (0, 3));
            assert_eq!(run.names(), ["r.jsonl"]);
        }
        fs::write(run.paths.unfinished_segment(1), &batch[..9]).unwrap();
        journal.rotate(snapshot(3)).unwrap();
        assert_eq!(run.names(), ["r.0001.jsonl", "r.jsonl"]);
    }

    #[test]
    fn a_later_segment_without_a_whole_snapshot_is_damage() {
        let run = fixture();
        run.create(small(None)).append(&events(1..=3)).unwrap();
        let batch = encode_batch(&[snapshot(3)]);
        for cut in 0..batch.len() - 1 {
            fs::write(run.paths.segment(1), &batch[..cut]).unwrap();
            assert!(matches!(run.open(), Err(StoreError::Damaged { line: 1, .. })), "cut {cut}");
        }
        fs::write(run.paths.segment(1), encode_batch(&[event(4)])).unwrap();
        assert!(matches!(run.open(), Err(StoreError::Damaged { line: 1, .. })));
    }

    #[test]
    fn a_torn_end_before_a_later_segment_is_damage_for_who_reads_all() {
        let run = fixture();
        let mut journal = run.create(small(None));
        journal.append(&events(1..=3)).unwrap();
        journal.rotate(snapshot(3)).unwrap();
        let path = run.paths.segment(0);
        let mut bytes = fs::read(&path).unwrap();
        bytes.extend(b"{\"seq\":4}\n");
        fs::write(&path, bytes).unwrap();
        let Err(StoreError::Damaged { place, line, .. }) = run.texts() else { panic!() };
        assert_eq!((place, line), (path.display().to_string(), 4));
        assert!(run.open().is_ok());
    }

    #[test]
    fn lost_segments_are_damage() {
        let run = fixture();
        let mut journal = run.create(small(None));
        journal.append(&events(1..=1)).unwrap();
        for _ in 0..3 {
            journal.rotate(snapshot(1)).unwrap();
        }
        fs::remove_file(run.paths.segment(2)).unwrap();
        assert!(matches!(run.texts(), Err(StoreError::Damaged { line: 0, .. })));
        fs::remove_file(run.paths.segment(0)).unwrap();
        assert!(matches!(run.open(), Err(StoreError::Damaged { line: 0, .. })));
    }

    #[test]
    fn old_segments_go_but_never_the_first_or_the_current() {
        for (keep, expected) in [
            (None, vec![0, 1, 2, 3, 4]),
            (Some(0), vec![0, 4]),
            (Some(1), vec![0, 4]),
            (Some(2), vec![0, 3, 4]),
            (Some(9), vec![0, 1, 2, 3, 4]),
        ] {
            let run = fixture();
            let mut journal = run.create(small(keep));
            for seq in 1..=4 {
                journal.append(&[event(seq)]).unwrap();
                journal.rotate(snapshot(seq)).unwrap();
            }
            assert_eq!(run.paths.segments().unwrap(), expected);
            assert_eq!(run.open().unwrap().1.segment, 4);
            let all = run.texts().unwrap();
            assert_eq!(all.last(), Some(&snapshot(4)));
        }
    }
}
