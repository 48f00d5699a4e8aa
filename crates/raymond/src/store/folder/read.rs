//! Reading a run's journal: its end, all of it, or what is added while it is read.
//!
//! Readers take no lock and change nothing. What a live Raymond is just writing looks like a torn
//! tail to them and is left out. Bound: [`Lines`] and [`visit_tail`] hold one batch, [`read_tail`] one segment.

use std::io::{self, BufReader};

use super::disk::DiskFile;
use super::place::RunPaths;
use super::segment::{Line, Position, SegmentReader, Torn};
use super::skip::{begins_with_start, first_number, skip_to};
use crate::store::error::StoreError;

type Reader = SegmentReader<BufReader<Box<dyn DiskFile>>>;

/// How often the last segment is looked for anew because it was deleted before it could be opened.
const TRIES: usize = 100;

/// What the last segment holds: all that is needed to go on with a run.
#[derive(Debug)]
pub struct Tail {
    pub segment: u32,
    /// The lines of all whole batches, unless they were handed on; in a later segment the first is the snapshot.
    pub lines: Vec<Line>,
    /// How long that snapshot is.
    pub(super) snapshot_bytes: u64,
    /// What was left out at the end.
    pub torn: Option<Torn>,
    /// Where the last whole batch ends.
    pub(super) bytes: u64,
    pub(super) last_seq: Option<u64>,
    /// Whether that batch lacks its line break.
    pub(super) lacks_line_break: bool,
}

/// Reads the last segment of a run.
pub fn read_tail(paths: &RunPaths) -> Result<Tail, StoreError> {
    let mut lines = Vec::new();
    let tail = visit_tail(paths, None, &mut |line| lines.push(line))?;
    Ok(Tail { lines, ..tail })
}

/// The same without holding all lines at once: hands each on as it is read.
///
/// `newest` is the last segment as far as the caller knows, which saves listing the folder.
pub(super) fn visit_tail(
    paths: &RunPaths,
    newest: Option<u32>,
    visit: &mut dyn FnMut(Line),
) -> Result<Tail, StoreError> {
    let last = || segments(paths).map(|numbers| numbers.last().copied().unwrap_or(0));
    let is_there = |number| paths.disk().length(&paths.segment(number)).is_some();
    let number = match newest {
        Some(number) if is_there(number) && !is_there(number + 1) => number,
        _ => last()?,
    };
    let mut found = visit_segment(paths, number, visit);
    for _ in 0..TRIES {
        match found {
            // A live Raymond may begin a new segment and delete this one between the two calls.
            Err(error) if error.is_not_found() => found = visit_segment(paths, last()?, visit),
            other => return other,
        }
    }
    found
}

/// Reads one segment of a run as if it were the last.
fn visit_segment(paths: &RunPaths, segment: u32, visit: &mut dyn FnMut(Line)) -> Result<Tail, StoreError> {
    let mut reader = Reader::open(paths, segment, Position::default())?;
    let mut snapshot_bytes = None;
    while let Some(batch) = reader.next_batch()? {
        snapshot_bytes = snapshot_bytes
            .or_else(|| batch.first().filter(|_| segment > 0).map(|line| line.text.len() as u64));
        batch.into_iter().for_each(&mut *visit);
    }
    let Position { offset: bytes, last_seq, lines, lacks_line_break } = reader.position();
    if lines == 0 {
        return Err(StoreError::Empty { place: paths.segment(segment).display().to_string() });
    }
    let snapshot_bytes = snapshot_bytes.unwrap_or(0);
    Ok(Tail {
        segment,
        lines: Vec::new(),
        snapshot_bytes,
        torn: reader.torn(),
        bytes,
        last_seq,
        lacks_line_break,
    })
}

/// The numbers of a run's segments; there is a first one.
fn segments(paths: &RunPaths) -> Result<Vec<u32>, StoreError> {
    let numbers = paths.segments().map_err(|error| StoreError::io(paths.dir().display(), "list", error))?;
    let first = paths.segment(0);
    match numbers.first() {
        None => Err(StoreError::Missing { place: first.display().to_string() }),
        Some(0) => Ok(numbers),
        Some(_) => Err(StoreError::damaged(first.display(), 0, "the file is missing", b"")),
    }
}

/// The same for reading more than the last one: none that should be there is missing.
fn kept_segments(paths: &RunPaths) -> Result<Vec<u32>, StoreError> {
    let numbers = segments(paths)?;
    // Old segments are deleted from the second on, so only there may numbers be missing. A listing that was made while
    // a live Raymond deleted some may have one of those and lack a later one, so the disk is asked again.
    let is_there = |number| paths.disk().length(&paths.segment(number)).is_some();
    // A segment with which the run was rewound is never deleted, but those behind it may be.
    let begins_part = |number| begins_with_start(paths, number).unwrap_or(false);
    let is_gap = |pair: &&[u32]| {
        pair[1] != pair[0] + 1 && !is_there(pair[0] + 1) && is_there(pair[0]) && !begins_part(pair[0])
    };
    match numbers[1..].windows(2).find(is_gap) {
        Some(pair) => {
            let lost = paths.segment(pair[0] + 1);
            Err(StoreError::damaged(lost.display(), 0, "the file is missing", b""))
        }
        None => Ok(numbers),
    }
}

/// The segment in which the events behind the one of this number begin. Of deleted ones, the segment before them.
pub(super) fn segment_behind(paths: &RunPaths, seq: u64) -> Result<u32, StoreError> {
    let numbers = kept_segments(paths)?;
    if seq == 0 {
        return Ok(0);
    }
    // A later segment begins with a snapshot, which has the number of the event before it.
    let mut later = &numbers[1..];
    let mut found = 0;
    while let Some(number) = later.get(later.len() / 2) {
        let (before, behind) = later.split_at(later.len() / 2);
        let is_up_to = match first_seq(paths, *number) {
            // A live Raymond has just deleted it. Reading may always begin too early: it passes over what is not wanted.
            Err(error) if error.is_not_found() => false,
            other => other?.is_some_and(|first| first <= seq),
        };
        if is_up_to {
            found = *number;
            later = &behind[1..];
        } else {
            later = before;
        }
    }
    Ok(found)
}

fn first_seq(paths: &RunPaths, segment: u32) -> Result<Option<u64>, StoreError> {
    // A snapshot may be megabytes long, and its number is in its first bytes.
    if let Ok(Some(number)) = first_number(paths, segment) {
        return Ok(Some(number));
    }
    Ok(first_batch(paths, segment)?.as_ref().and_then(|batch| batch.first()).and_then(|line| line.seq))
}

/// The first batch of a segment, if it is whole.
pub(super) fn first_batch(paths: &RunPaths, segment: u32) -> Result<Option<Vec<Line>>, StoreError> {
    Reader::open(paths, segment, Position::default())?.next_batch()
}

/// The segment that begins the newest part of the journal up to an event: one in which the run was rewound, or the first.
pub(super) fn part_up_to(paths: &RunPaths, seq: u64) -> Result<u32, StoreError> {
    for number in segments_of_parts(paths)?.into_iter().skip(1).rev() {
        if first_seq(paths, number)?.is_some_and(|first| first <= seq) {
            return Ok(number);
        }
    }
    Ok(0)
}

/// The segments that begin with the start of a run: the first, and those in which the run was rewound.
pub(super) fn segments_of_parts(paths: &RunPaths) -> Result<Vec<u32>, StoreError> {
    let mut found = Vec::new();
    for number in kept_segments(paths)? {
        if number == 0 {
            found.push(number);
            continue;
        }
        let begins_part = match begins_with_start(paths, number) {
            // A live Raymond has just deleted it. It deletes none that begins a part.
            Err(error) if error.kind() == io::ErrorKind::NotFound => false,
            other => other.map_err(|error| StoreError::io(paths.segment(number).display(), "read", error))?,
        };
        if begins_part {
            found.push(number);
        }
    }
    Ok(found)
}

/// Reads the lines of a journal, segment after segment, also while they are being written.
#[derive(Debug)]
pub struct Lines {
    paths: RunPaths,
    segment: u32,
    /// The end of the last batch that was read.
    position: Position,
    /// The current segment, until its end is reached.
    reader: Option<Reader>,
    /// The segment that follows. Looked for before the current one is read: if there is one, the current one does not
    /// grow any more.
    later: Option<u32>,
}

impl Lines {
    /// Begins with the first line of a segment, which need not exist yet.
    pub fn from_segment(paths: &RunPaths, segment: u32) -> Self {
        Self { paths: paths.clone(), segment, position: Position::default(), reader: None, later: None }
    }

    /// Begins in a segment with a batch in which there are events behind the one of this number, or a little before it.
    pub(super) fn behind(paths: &RunPaths, segment: u32, seq: u64) -> Self {
        let lines = Self::from_segment(paths, segment);
        // Trouble with the file is reported when it is read.
        match skip_to(paths, segment, seq) {
            Ok(Some(position)) => Self { position, ..lines },
            Ok(None) | Err(_) => lines,
        }
    }

    /// The next whole batch; none at the present end. A later call goes on there.
    pub fn next_batch(&mut self) -> Result<Option<Vec<Line>>, StoreError> {
        loop {
            if self.reader.is_none() {
                self.later = self.later_segment()?;
                match Reader::open(&self.paths, self.segment, self.position) {
                    // Not begun yet, or deleted meanwhile with a later one in its place, which may have come after
                    // the first look.
                    Err(error) if error.is_not_found() => self.later = self.later_segment()?,
                    reader => self.reader = Some(reader?),
                }
            }
            if let Some(reader) = &mut self.reader {
                if let Some(batch) = reader.next_batch()? {
                    self.position = reader.position();
                    return Ok(Some(batch));
                }
                if self.later.is_some() {
                    check_end(reader)?;
                }
                // It may have read half a batch, so the next call opens the file again.
                self.reader = None;
            }
            let Some(later) = self.later.take() else { return Ok(None) };
            self.segment = later;
            self.position = Position { last_seq: self.position.last_seq, ..Position::default() };
        }
    }

    fn later_segment(&self) -> Result<Option<u32>, StoreError> {
        // The usual next one costs one look. Only where it is missing is the folder listed.
        let is_there = |segment| self.paths.disk().length(&self.paths.segment(segment)).is_some();
        if is_there(self.segment + 1) {
            return Ok(Some(self.segment + 1));
        }
        if is_there(self.segment) && self.segment > 0 {
            return Ok(None);
        }
        let numbers = self
            .paths
            .segments()
            .map_err(|error| StoreError::io(self.paths.dir().display(), "list", error))?;
        Ok(numbers.into_iter().find(|number| *number > self.segment))
    }
}

/// Only the last segment may end torn or hold nothing.
fn check_end(reader: &Reader) -> Result<(), StoreError> {
    let end = reader.position();
    if reader.torn().is_none() && end.lines > 0 {
        return Ok(());
    }
    let what = "a batch breaks off here, though a later segment exists";
    Err(StoreError::damaged(reader.file().display(), end.lines + 1, what, b""))
}

/// Reads all segments that are kept, in order.
pub fn read_all(paths: &RunPaths) -> Result<Lines, StoreError> {
    kept_segments(paths)?;
    Ok(Lines::from_segment(paths, 0))
}

#[cfg(test)]
mod tests {
    use super::super::journal::Journal;
    use super::super::lock::RunLock;
    use super::super::place::StateDir;
    use super::super::segment::encode_batch;
    use super::*;
    use crate::store::home::{Durability, JournalOptions};
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

    fn poll(lines: &mut Lines) -> Vec<String> {
        std::iter::from_fn(|| lines.next_batch().unwrap()).flatten().map(|line| line.text).collect()
    }

    #[test]
    fn every_batch_is_followed_once() {
        with_journal(None, |paths, journal| {
            let mut lines = Lines::from_segment(paths, 0);
            assert!(poll(&mut lines).is_empty());
            journal.append(&[event(1)]).unwrap();
            assert_eq!(poll(&mut lines), [event(1)]);
            assert!(poll(&mut lines).is_empty());
            journal.append(&[event(2), event(3)]).unwrap();
            journal.rotate(snapshot(3)).unwrap();
            journal.append(&[event(4)]).unwrap();
            assert_eq!(poll(&mut lines), [event(2), event(3), snapshot(3), event(4)]);
            assert!(poll(&mut lines).is_empty());
        });
    }

    #[test]
    fn segments_can_be_deleted_while_they_are_read() {
        const LAST: u64 = 250;
        with_journal(Some(1), |paths, journal| {
            journal.append(&[event(1)]).unwrap();
            std::thread::scope(|scope| {
                let readers: Vec<_> = (0..2)
                    .map(|_| {
                        scope.spawn(|| {
                            loop {
                                let start = read_tail(paths).unwrap().last_seq.unwrap();
                                let mut lines = read_all(paths).unwrap();
                                let mut seen = 0;
                                while let Some(batch) = lines.next_batch().unwrap() {
                                    seen = batch.last().and_then(|line| line.seq).unwrap();
                                }
                                assert!(seen >= start, "the end is missing: {seen} of {start}");
                                if start == LAST {
                                    break;
                                }
                            }
                        })
                    })
                    .collect();
                for seq in 2..=LAST {
                    journal.append(&[event(seq)]).unwrap();
                    journal.rotate(snapshot(seq)).unwrap();
                }
                readers.into_iter().for_each(|reader| reader.join().unwrap());
            });
        });
    }

    #[test]
    fn following_waits_for_the_rest_of_a_batch() {
        with_journal(None, |paths, journal| {
            journal.append(&[event(1)]).unwrap();
            let mut lines = Lines::from_segment(paths, 0);
            poll(&mut lines);
            let path = paths.segment(0);
            let before = fs::metadata(&path).unwrap().len();
            journal.append(&[event(2), event(3)]).unwrap();
            let whole = fs::read(&path).unwrap();
            let without_line_break = whole.len() - 1;
            for cut in before as usize..without_line_break {
                fs::write(&path, &whole[..cut]).unwrap();
                assert!(poll(&mut lines).is_empty());
            }
            fs::write(&path, &whole[..without_line_break]).unwrap();
            assert_eq!(poll(&mut lines), [event(2), event(3)]);
            assert!(poll(&mut lines).is_empty());
            let mut file = fs::OpenOptions::new().append(true).open(&path).unwrap();
            file.write_all(b"\n").unwrap();
            assert!(poll(&mut lines).is_empty());
            file.write_all(&encode_batch(&[event(4)])).unwrap();
            assert_eq!(poll(&mut lines), [event(4)]);
        });
    }

    #[test]
    fn following_passes_over_deleted_segments() {
        with_journal(Some(1), |paths, journal| {
            journal.append(&[event(1)]).unwrap();
            let mut lines = Lines::from_segment(paths, 0);
            assert_eq!(poll(&mut lines), [event(1)]);
            journal.rotate(snapshot(1)).unwrap();
            assert_eq!(poll(&mut lines), [snapshot(1)]);
            for seq in 2..=5 {
                journal.append(&[event(seq)]).unwrap();
                journal.rotate(snapshot(seq)).unwrap();
            }
            assert_eq!(poll(&mut lines), [snapshot(5)]);
            assert_eq!(poll(&mut Lines::from_segment(paths, 0)), [event(1), snapshot(5)]);
        });
    }

    #[test]
    fn what_comes_before_damage_is_read() {
        with_journal(None, |paths, journal| {
            journal.append(&[event(1)]).unwrap();
            let mut bytes = fs::read(paths.segment(0)).unwrap();
            bytes.extend(b"oops\n");
            fs::write(paths.segment(0), bytes).unwrap();
            let mut all = read_all(paths).unwrap();
            assert_eq!(all.next_batch().unwrap().unwrap()[0].text, event(1));
            let error = all.next_batch().unwrap_err().to_string();
            assert!(error.contains("r.jsonl line 2: this is not a JSON object; it begins: oops"), "{error}");
        });
    }

    #[test]
    fn seq_rises_across_segments() {
        with_journal(None, |paths, journal| {
            journal.append(&[event(1), event(2)]).unwrap();
            journal.rotate(snapshot(2)).unwrap();
            fs::copy(paths.segment(1), paths.segment(2)).unwrap();
            assert_eq!(poll(&mut read_all(paths).unwrap()).len(), 4);
            journal.append(&[event(3)]).unwrap();
            let mut all = read_all(paths).unwrap();
            let error = std::iter::repeat_with(|| all.next_batch()).find_map(Result::err);
            assert!(matches!(error, Some(StoreError::Damaged { line: 1, .. })), "{error:?}");
        });
    }

    #[test]
    fn reading_begins_near_any_event_and_misses_none() {
        with_journal(None, |paths, journal| {
            for seq in (1..=40).step_by(4) {
                journal.append(&[event(seq), event(seq + 1)]).unwrap();
                journal.append(&[event(seq + 2)]).unwrap();
                journal.append(&[event(seq + 3)]).unwrap();
            }
            // These events do not begin with their numbers, so the whole segment is read.
            assert_eq!(Lines::behind(paths, 0, 20).position, Position::default());
        });
        with_journal(None, |paths, journal| {
            let event = |seq: u64| format!("{{\"seq\":{seq},\"event\":\"e\"}}");
            for seq in (1..=40).step_by(4) {
                journal.append(&[event(seq), event(seq + 1)]).unwrap();
                journal.append(&[event(seq + 2)]).unwrap();
                journal.append(&[event(seq + 3)]).unwrap();
            }
            for after in 0..=41 {
                let texts = poll(&mut Lines::behind(paths, 0, after));
                let first = texts.first().map(|text| number(text));
                assert!(first.is_none_or(|first| first <= after + 1), "{first:?} behind {after}");
                assert!(texts.len() <= 42 - after as usize, "{} behind {after}", texts.len());
                assert_eq!(texts.last().map(|text| number(text)), first.map(|_| 40));
            }
        });
    }

    fn number(text: &str) -> u64 {
        text.trim_start_matches("{\"seq\":").split(',').next().unwrap().parse().unwrap()
    }

    #[test]
    fn the_segment_of_an_event_is_found() {
        with_journal(Some(3), |paths, journal| {
            for seq in 1..=6 {
                journal.append(&[event(seq)]).unwrap();
                journal.rotate(snapshot(seq)).unwrap();
            }
            assert_eq!(paths.segments().unwrap(), [0, 4, 5, 6]);
            let found: Vec<u32> = (0..=8).map(|seq| segment_behind(paths, seq).unwrap()).collect();
            assert_eq!(found, [0, 0, 0, 0, 4, 5, 6, 6, 6]);
        });
    }
}
