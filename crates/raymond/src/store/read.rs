//! Reading a run's journal: its end, all of it, or what comes in.
//!
//! Readers take no lock and change nothing. What a live Raymond is just writing looks like a torn
//! tail to them and is left out. Bounds: [`read_all`] holds one batch, [`Follower::poll`] about
//! [`POLL_BYTES`], [`visit_tail`] one batch, [`read_tail`] one segment.

use std::io::BufReader;
use std::iter::Peekable;
use std::vec::IntoIter;

use super::disk::DiskFile;
use super::error::JournalError;
use super::folder::RunPaths;
use super::segment::{Line, Position, SegmentReader, Torn};

/// After how much text a poll gives back what it has.
const POLL_BYTES: usize = 1024 * 1024;

type Reader = SegmentReader<BufReader<Box<dyn DiskFile>>>;

/// What the last segment holds: all that is needed to go on with a run.
#[derive(Debug)]
pub struct Tail {
    pub segment: u32,
    /// The lines of all whole batches, unless they were handed on; in a later segment the first is the snapshot.
    pub lines: Vec<Line>,
    /// How long that is.
    pub(super) snapshot_bytes: u64,
    /// What was left out at the end.
    pub torn: Option<Torn>,
    /// Where the last whole batch ends.
    pub(super) bytes: u64,
    pub(super) last_seq: Option<u64>,
}

/// Reads the last segment of a run.
pub fn read_tail(paths: &RunPaths) -> Result<Tail, JournalError> {
    let mut lines = Vec::new();
    let tail = visit_tail(paths, &mut |line| lines.push(line))?;
    Ok(Tail { lines, ..tail })
}

/// The same for who does not want to hold all lines at once: hands each on as it is read.
pub fn visit_tail(paths: &RunPaths, visit: &mut dyn FnMut(Line)) -> Result<Tail, JournalError> {
    let last = |paths| segments(paths).map(|numbers| numbers.last().copied().unwrap_or(0));
    let number = last(paths)?;
    match visit_segment(paths, number, visit) {
        // A live Raymond may rotate and delete this very segment between the two calls.
        Err(error) if error.is_not_found() => visit_segment(paths, last(paths)?, visit),
        other => other,
    }
}

/// Reads one segment of a run as if it were the last.
fn visit_segment(paths: &RunPaths, segment: u32, visit: &mut dyn FnMut(Line)) -> Result<Tail, JournalError> {
    let mut reader = Reader::open(paths, segment, Position::default())?;
    let mut snapshot_bytes = None;
    while let Some(batch) = reader.next_batch()? {
        snapshot_bytes = snapshot_bytes
            .or_else(|| batch.first().filter(|_| segment > 0).map(|line| line.text.len() as u64));
        batch.into_iter().for_each(&mut *visit);
    }
    let Position { offset: bytes, last_seq, lines } = reader.position();
    if lines == 0 {
        return Err(JournalError::Empty { file: paths.segment(segment) });
    }
    let snapshot_bytes = snapshot_bytes.unwrap_or(0);
    Ok(Tail { segment, lines: Vec::new(), snapshot_bytes, torn: reader.torn(), bytes, last_seq })
}

/// Reads all segments that are kept, in order and line by line.
pub fn read_all(paths: &RunPaths) -> Result<AllLines, JournalError> {
    let numbers = segments(paths)?;
    // Old segments are deleted from the second on, so only there may numbers be missing.
    let kept = numbers.get(1..).unwrap_or_default();
    if let Some(pair) = kept.windows(2).find(|pair| pair[1] != pair[0] + 1) {
        let lost = paths.segment(pair[0] + 1);
        return Err(JournalError::damaged(&lost, 0, "the file is missing", b""));
    }
    Ok(AllLines {
        paths: paths.clone(),
        segments: numbers.into_iter().peekable(),
        current: None,
        batch: Vec::new().into_iter(),
        last_seq: None,
        ended: false,
    })
}

/// The numbers of a run's segments; there is a first one.
fn segments(paths: &RunPaths) -> Result<Vec<u32>, JournalError> {
    let numbers = paths.segments().map_err(|error| JournalError::io(paths.dir(), "list", error))?;
    let first = paths.segment(0);
    match numbers.first() {
        None => Err(JournalError::Missing { file: first }),
        Some(0) => Ok(numbers),
        Some(_) => Err(JournalError::damaged(&first, 0, "the file is missing", b"")),
    }
}

/// The lines of all segments; ends after the first error.
pub struct AllLines {
    paths: RunPaths,
    /// Those not begun yet.
    segments: Peekable<IntoIter<u32>>,
    current: Option<Reader>,
    batch: IntoIter<Line>,
    last_seq: Option<u64>,
    ended: bool,
}

impl AllLines {
    /// The next batch of whichever segment; none at the end.
    fn next_batch(&mut self) -> Result<Option<Vec<Line>>, JournalError> {
        loop {
            if self.current.is_none() && !self.open_next()? {
                return Ok(None);
            }
            let Some(reader) = &mut self.current else {
                return Ok(None);
            };
            if let Some(batch) = reader.next_batch()? {
                self.last_seq = reader.position().last_seq;
                return Ok(Some(batch));
            }
            check_end(reader, self.segments.peek().is_some())?;
            self.current = None;
        }
    }

    /// Opens the next segment that is still there; false if there is none.
    fn open_next(&mut self) -> Result<bool, JournalError> {
        while let Some(number) = self.segments.next() {
            let start = Position { last_seq: self.last_seq, ..Position::default() };
            match Reader::open(&self.paths, number, start) {
                // A live Raymond deleted it since we listed the segments; a later one exists.
                Err(error) if error.is_not_found() && self.segments.peek().is_some() => {}
                other => {
                    self.current = Some(other?);
                    return Ok(true);
                }
            }
        }
        Ok(false)
    }
}

/// A segment may end torn only if it is the last, and the first must hold something.
fn check_end(reader: &Reader, later_ones_exist: bool) -> Result<(), JournalError> {
    let end = reader.position();
    if later_ones_exist && (reader.torn().is_some() || end.lines == 0) {
        let what = "a batch breaks off here, though a later segment exists";
        return Err(JournalError::damaged(reader.file(), end.lines + 1, what, b""));
    }
    if end.lines == 0 {
        return Err(JournalError::Empty { file: reader.file().to_owned() });
    }
    Ok(())
}

impl Iterator for AllLines {
    type Item = Result<Line, JournalError>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            if let Some(line) = self.batch.next() {
                return Some(Ok(line));
            }
            if self.ended {
                return None;
            }
            match self.next_batch() {
                Ok(Some(batch)) => self.batch = batch.into_iter(),
                Ok(None) => self.ended = true,
                Err(error) => {
                    self.ended = true;
                    return Some(Err(error));
                }
            }
        }
    }
}

/// Reads a journal while it is being written.
pub struct Follower {
    paths: RunPaths,
    segment: u32,
    position: Position,
}

impl Follower {
    /// Begins with the given segment: the first for the whole story, the last for what is new.
    pub fn new(paths: &RunPaths, segment: u32) -> Self {
        Self { paths: paths.clone(), segment, position: Position::default() }
    }

    /// The whole batches that were added since, or the first of them; nothing if there are none.
    pub fn poll(&mut self) -> Result<Vec<Line>, JournalError> {
        let mut lines = Vec::new();
        let mut bytes = 0;
        loop {
            // Looked for before reading: if there is a later segment, this one does not grow any more.
            let later = self.later_segment()?;
            match Reader::open(&self.paths, self.segment, self.position) {
                // Not begun yet, or deleted behind our back with a later one in its place.
                Err(error) if error.is_not_found() => {}
                reader => {
                    let mut reader = reader?;
                    while let Some(batch) = reader.next_batch()? {
                        bytes += batch.iter().map(|line| line.text.len()).sum::<usize>();
                        lines.extend(batch);
                        self.position = reader.position();
                        if bytes >= POLL_BYTES {
                            return Ok(lines);
                        }
                    }
                }
            }
            let Some(later) = later else { return Ok(lines) };
            self.segment = later;
            self.position = Position { last_seq: self.position.last_seq, ..Position::default() };
        }
    }

    fn later_segment(&self) -> Result<Option<u32>, JournalError> {
        // The usual next one costs one look; only where it is missing is the folder listed.
        let is_there = |segment| self.paths.disk().length(&self.paths.segment(segment)).is_some();
        if is_there(self.segment + 1) {
            return Ok(Some(self.segment + 1));
        }
        if is_there(self.segment) && self.segment > 0 {
            return Ok(None);
        }
        let numbers =
            self.paths.segments().map_err(|error| JournalError::io(self.paths.dir(), "list", error))?;
        Ok(numbers.into_iter().find(|number| *number > self.segment))
    }
}

#[cfg(test)]
mod tests {
    use super::super::Durability;
    use super::super::folder::StateDir;
    use super::super::journal::{Journal, JournalOptions};
    use super::super::lock::RunLock;
    use super::*;
    use std::fs;
    use std::io::Write;

    fn event(seq: u64) -> String {
        format!("{{\"event\":\"e\",\"seq\":{seq}}}")
    }

    fn snapshot(seq: u64) -> String {
        format!("{{\"event\":\"snapshot\",\"seq\":{seq}}}")
    }

    fn with_journal(keep_segments: Option<u32>, check: impl FnOnce(&RunPaths, &mut Journal)) {
        let dir = tempfile::tempdir().unwrap();
        let paths = StateDir::at(dir.path()).run("r").unwrap();
        let lock = RunLock::acquire(&paths.lock()).unwrap();
        let options =
            JournalOptions { durability: Durability::Process, keep_segments, ..JournalOptions::default() };
        let mut journal = Journal::create(&paths, options, &lock).unwrap();
        check(&paths, &mut journal);
    }

    fn poll(follower: &mut Follower) -> Vec<String> {
        follower.poll().unwrap().into_iter().map(|line| line.text).collect()
    }

    #[test]
    fn a_follower_sees_every_batch_once() {
        with_journal(None, |paths, journal| {
            let mut follower = Follower::new(paths, 0);
            assert!(poll(&mut follower).is_empty());
            journal.append(&[event(1)]).unwrap();
            assert_eq!(poll(&mut follower), [event(1)]);
            assert!(poll(&mut follower).is_empty());
            journal.append(&[event(2), event(3)]).unwrap();
            journal.rotate(snapshot(3)).unwrap();
            journal.append(&[event(4)]).unwrap();
            assert_eq!(poll(&mut follower), [event(2), event(3), snapshot(3), event(4)]);
            assert!(poll(&mut follower).is_empty());
        });
    }

    #[test]
    fn a_follower_waits_for_the_rest_of_a_batch() {
        with_journal(None, |paths, journal| {
            journal.append(&[event(1)]).unwrap();
            let mut follower = Follower::new(paths, 0);
            poll(&mut follower);
            let path = paths.segment(0);
            let before = fs::metadata(&path).unwrap().len();
            journal.append(&[event(2), event(3)]).unwrap();
            let whole = fs::read(&path).unwrap();
            for cut in before as usize..whole.len() {
                fs::write(&path, &whole[..cut]).unwrap();
                assert!(poll(&mut follower).is_empty());
            }
            let mut file = fs::OpenOptions::new().append(true).open(&path).unwrap();
            file.write_all(&whole[whole.len() - 1..]).unwrap();
            assert_eq!(poll(&mut follower), [event(2), event(3)]);
        });
    }

    #[test]
    fn a_follower_passes_over_deleted_segments() {
        with_journal(Some(1), |paths, journal| {
            journal.append(&[event(1)]).unwrap();
            let mut follower = Follower::new(paths, 0);
            assert_eq!(poll(&mut follower), [event(1)]);
            journal.rotate(snapshot(1)).unwrap();
            assert_eq!(poll(&mut follower), [snapshot(1)]);
            for seq in 2..=5 {
                journal.append(&[event(seq)]).unwrap();
                journal.rotate(snapshot(seq)).unwrap();
            }
            assert_eq!(poll(&mut follower), [snapshot(5)]);
            assert_eq!(poll(&mut Follower::new(paths, 0)), [event(1), snapshot(5)]);
        });
    }

    #[test]
    fn a_poll_is_bounded() {
        with_journal(None, |paths, journal| {
            let long = "x".repeat(POLL_BYTES / 2 + 1);
            for seq in 1..=5 {
                journal.append(&[format!("{{\"seq\":{seq},\"text\":\"{long}\"}}")]).unwrap();
            }
            let mut follower = Follower::new(paths, 0);
            let counts: Vec<usize> = (0..4).map(|_| poll(&mut follower).len()).collect();
            assert_eq!(counts, [2, 2, 1, 0]);
        });
    }

    #[test]
    fn reading_all_ends_after_an_error() {
        with_journal(None, |paths, journal| {
            journal.append(&[event(1)]).unwrap();
            let mut bytes = fs::read(paths.segment(0)).unwrap();
            bytes.extend(b"oops\n");
            fs::write(paths.segment(0), bytes).unwrap();
            let mut all = read_all(paths).unwrap();
            assert_eq!(all.next().unwrap().unwrap().text, event(1));
            let error = all.next().unwrap().unwrap_err().to_string();
            assert!(error.contains("r.jsonl line 2: this is not a JSON object; it begins: oops"), "{error}");
            assert!(all.next().is_none());
        });
    }

    #[test]
    fn seq_rises_across_segments() {
        with_journal(None, |paths, journal| {
            journal.append(&[event(1), event(2)]).unwrap();
            journal.rotate(snapshot(2)).unwrap();
            fs::copy(paths.segment(1), paths.segment(2)).unwrap();
            assert_eq!(read_all(paths).unwrap().count(), 4);
            journal.append(&[event(3)]).unwrap();
            let results: Vec<_> = read_all(paths).unwrap().collect();
            assert!(matches!(results.last(), Some(Err(JournalError::Damaged { line: 1, .. }))));
        });
    }
}
