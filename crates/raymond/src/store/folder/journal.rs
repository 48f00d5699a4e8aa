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
use super::lines::oldest_needed;
use super::lock::RunLock;
use super::place::RunPaths;
use super::read::{Tail, visit_tail};
use super::rescue;
use super::room::Room;
use super::segment::{Line, check_lines, encode_batch, may_begin_segment};
use super::skip::begins_with_start;
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
    /// Begins the journal of a new run. The folder exists, and the lock is the one of this run. A process that was killed
    /// before its first event may have left an empty file, which is used.
    pub fn create(paths: &RunPaths, options: JournalOptions, lock: &RunLock) -> Result<Self, StoreError> {
        debug_assert_eq!(lock.path(), paths.lock(), "this is the lock of another run");
        let path = paths.segment(0);
        let file = match paths.disk().create(&path, false) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => without_events(paths)?,
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
            is_marked: self.paths.own().is_strict(),
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
        // A snapshot that is refused counts, too. Otherwise every step would make another one that is refused.
        self.snapshot_bytes = snapshot_line.len() as u64;
        self.begin_segment(snapshot_line)?;
        self.delete_old_segments();
        Ok(())
    }

    /// Begins a new segment with an event that goes on from an earlier one. What was written since then stays, and is
    /// no part of the run any more.
    pub fn rewind(&mut self, start_line: String) -> Result<(), StoreError> {
        self.refuse_if_poisoned()?;
        self.snapshot_bytes = 0;
        self.begin_segment(start_line)
    }

    fn begin_segment(&mut self, first_line: String) -> Result<(), StoreError> {
        let next = self.segment + 1;
        let path = self.paths.segment(next);
        let lines = [first_line];
        let last_seq =
            check_first(&lines, self.last_seq).map_err(|what| StoreError::refused(path.display(), what))?;
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

    /// Removes the journal again if it has no events.
    pub fn abandon(&self) {
        if self.last_seq.is_none() {
            // What stays has no events and can be used for a new run.
            let _ = self.paths.disk().remove(&self.paths.segment(0));
        }
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
    /// Segments that other runs go on from stay, with those behind them, and so does a segment with which the run was
    /// rewound. Nothing depends on it. A file that cannot be deleted is tried again after the next segment.
    fn delete_old_segments(&self) {
        let Some(keep) = self.options.keep_segments else {
            return;
        };
        let Ok(segments) = self.paths.segments() else {
            return;
        };
        let oldest_kept = (self.segment + 1).saturating_sub(keep.max(1));
        let old: Vec<u32> = segments.into_iter().filter(|number| (1..oldest_kept).contains(number)).collect();
        if old.is_empty() {
            return;
        }
        let Ok(needed) = oldest_needed(&self.paths) else {
            return;
        };
        let is_needed = |number: &u32| needed.is_some_and(|needed| *number >= needed);
        for number in old.into_iter().filter(|number| !is_needed(number)) {
            if !begins_with_start(&self.paths, number).is_ok_and(|begins_part| !begins_part) {
                continue;
            }
            if self.paths.disk().remove(&self.paths.segment(number)).is_err() {
                return;
            }
        }
    }
}

fn check_first(lines: &[String; 1], last_seq: Option<u64>) -> Result<Option<u64>, String> {
    let last_seq = check_lines(lines, last_seq)?;
    match may_begin_segment(&lines[0]) {
        true => Ok(last_seq),
        false => Err("a segment must begin with a snapshot or the start of a run".to_owned()),
    }
}

/// The journal of a run that never began. A file with anything in it is never written over.
fn without_events(paths: &RunPaths) -> Result<Box<dyn DiskFile>, StoreError> {
    let path = paths.segment(0);
    let is_only_one = paths.segments().is_ok_and(|numbers| numbers == [0]);
    if !is_only_one || paths.disk().length(&path) != Some(0) {
        return Err(StoreError::Exists { run: paths.id().to_owned() });
    }
    paths.disk().append(&path).map_err(|error| StoreError::io(path.display(), "open", error))
}

#[cfg(test)]
mod tests;
