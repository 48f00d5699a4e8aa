//! The format of one journal segment: batches of lines, each closed by a commit mark.
//!
//! The last line of a batch has its closing `}` replaced by `,"commit":"<crc32>"}`; the checksum
//! covers every byte of the batch before the mark. So a batch is there as a whole or not at all, and every line of
//! the file is one JSON object. Reading holds one batch at a time.
//!
//! What follows the last whole batch is a *torn tail* if an interrupted write explains it: an
//! unfinished line, lines without a mark, or zeros where the data had not reached the disk yet.
//! Anything else is damage and is reported, because cutting it off would lose committed events. In particular, a
//! line with a field `commit` was the end of a batch once. If the mark does not hold any more, another program has
//! changed the file, for example its line ends. A batch that lacks only its last line break is whole.

use std::borrow::Cow;
use std::io::{self, BufRead, BufReader, Read};
use std::path::{Path, PathBuf};

use serde::Deserialize;
use serde::de::IgnoredAny;

use super::disk::DiskFile;
use super::place::RunPaths;
use crate::store::error::StoreError;

/// The longest line that is written or read.
pub const MAX_LINE_BYTES: usize = 64 * 1024 * 1024;

/// The longest batch that is written or read.
pub const MAX_BATCH_BYTES: usize = 256 * 1024 * 1024;

/// What the `event` field of the first line of a later segment says.
pub const SNAPSHOT_EVENT: &str = "snapshot";

/// What it says in the first segment, and in a later one that goes on from an earlier event.
pub(super) const START_EVENT: &str = "run_started";

/// What is said of a line whose commit mark another program has moved or rewritten.
const CHANGED: &str =
    "its commit mark does not hold; another program has changed line ends, blanks or the JSON";

const MARK_START: &[u8] = b",\"commit\":\"";
const MARK_END: &[u8] = b"\"}";
const DIGITS: usize = 8;
const MARK_BYTES: usize = MARK_START.len() + DIGITS + MARK_END.len();

/// One event of a committed batch, as it was given to the journal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Line {
    pub segment: u32,
    /// Counted from 1 within the segment.
    pub number: u64,
    /// Without the commit mark.
    pub text: String,
    /// Whether a batch ends here, so that folding up to here gives a state that was once current.
    pub ends_batch: bool,
    pub(super) seq: Option<u64>,
    pub(super) is_snapshot: bool,
}

/// What an interrupted write left behind the last whole batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Torn {
    /// Where the last whole batch ends.
    pub offset: u64,
    pub bytes: u64,
}

/// Joins lines to one batch with its commit mark. They have passed `check_lines`.
pub(super) fn encode_batch(lines: &[String]) -> Vec<u8> {
    let mut batch = lines.join("\n").into_bytes();
    batch.pop();
    let digits = format!("{:08x}", crc32fast::hash(&batch));
    batch.extend_from_slice(MARK_START);
    batch.extend_from_slice(digits.as_bytes());
    batch.extend_from_slice(MARK_END);
    batch.push(b'\n');
    batch
}

/// The last `seq` after these lines, or why a reader would not accept them as a batch.
pub(super) fn check_lines(lines: &[String], mut last_seq: Option<u64>) -> Result<Option<u64>, String> {
    if lines.is_empty() {
        return Err("a batch needs a line".to_owned());
    }
    let total: usize = lines.iter().map(|line| line.len() + 1).sum();
    if total + MARK_BYTES > MAX_BATCH_BYTES {
        return Err(format!("a batch of {total} bytes is too long"));
    }
    for line in lines {
        last_seq = follow_seq(last_seq, check_line(line)?)?;
    }
    let mut batch = Pending::default();
    if lines[..lines.len() - 1].iter().any(|line| !matches!(batch.judge(line.as_bytes()), Mark::None)) {
        return Err("the text of a line happens to be its own checksum".to_owned());
    }
    Ok(last_seq)
}

fn check_line(line: &str) -> Result<Fields, String> {
    if line.len() + MARK_BYTES > MAX_LINE_BYTES {
        return Err(format!("a line of {} bytes is too long", line.len()));
    }
    if line.contains('\n') {
        return Err("a line must not hold a line break".to_owned());
    }
    if !line.ends_with('}') || line.trim_start_matches('{').trim_start().starts_with('}') {
        return Err("a line must be an object that is not empty".to_owned());
    }
    let fields = probe(line)?;
    match fields.has_mark {
        true => Err("an event must not have a field 'commit'".to_owned()),
        false => Ok(fields),
    }
}

/// The fields of an event that the format rests on: `seq` must rise, and a later segment begins with a snapshot, or with
/// the event that starts a run if the run was rewound.
#[derive(Clone, Copy)]
struct Fields {
    seq: Option<u64>,
    is_snapshot: bool,
    is_start: bool,
    /// Whether there is a field `commit`, wherever it stands in the line.
    has_mark: bool,
}

#[derive(Deserialize)]
struct Event<'line> {
    #[serde(default)]
    seq: Option<u64>,
    #[serde(default, borrow)]
    event: Cow<'line, str>,
    #[serde(default)]
    commit: Option<IgnoredAny>,
}

/// Reads the few fields that are needed. The rest of the line is only checked to be JSON.
fn probe(line: &str) -> Result<Fields, String> {
    // serde would read an array into the same structure, so the first character is checked.
    if !line.starts_with('{') {
        return Err("this is not a JSON object".to_owned());
    }
    match serde_json::from_str::<Event<'_>>(line) {
        Ok(Event { seq, event, commit }) => Ok(Fields {
            seq,
            is_snapshot: event == SNAPSHOT_EVENT,
            is_start: event == START_EVENT,
            has_mark: commit.is_some(),
        }),
        Err(error) => Err(format!("this is not a JSON event ({error})")),
    }
}

/// Whether a line is one that a later segment may begin with.
pub(super) fn may_begin_segment(line: &str) -> bool {
    probe(line).is_ok_and(|fields| fields.is_snapshot || fields.is_start)
}

/// The last `seq` after a line. A snapshot may repeat the number of the event that it was taken after.
fn follow_seq(last: Option<u64>, fields: Fields) -> Result<Option<u64>, String> {
    match (last, fields.seq) {
        (Some(last), Some(next)) if next < last || (next == last && !fields.is_snapshot) => {
            Err(format!("its seq is {next} where more than {last} is due"))
        }
        _ => Ok(fields.seq.or(last)),
    }
}

/// Splits a line where a commit mark would begin.
fn split_mark(line: &[u8]) -> Option<(&[u8], &[u8])> {
    line.len().checked_sub(MARK_BYTES).map(|start| line.split_at(start))
}

/// The part of a mark where the checksum is, whatever is around it.
fn digits_place(mark: &[u8]) -> &[u8] {
    &mark[MARK_START.len()..MARK_START.len() + DIGITS]
}

/// The checksum of a mark, if the rest of the mark is intact.
fn mark_digits(mark: &[u8]) -> Option<&[u8]> {
    (mark.starts_with(MARK_START) && mark.ends_with(MARK_END)).then(|| digits_place(mark))
}

/// Whether a line ends like the last one of a batch. Whether the mark is right is not checked.
pub(super) fn has_mark(line: &[u8]) -> bool {
    split_mark(line).is_some_and(|(_, mark)| mark_digits(mark).is_some())
}

/// What the end of a line says about its batch.
enum Mark {
    /// The line is not the last of its batch.
    None,
    /// The batch is whole.
    Good,
    /// There is a mark, and it or the batch has changed.
    Bad,
}

/// The batch that is being read.
#[derive(Default)]
struct Pending {
    crc: crc32fast::Hasher,
    bytes: u64,
    lines: Vec<(String, Fields)>,
}

impl Pending {
    /// A batch with the same checksum so far, to examine a line that is perhaps not the next one.
    fn fork(&self) -> Self {
        Self { crc: self.crc.clone(), bytes: self.bytes, lines: Vec::new() }
    }

    /// Adds a line to the checksum and examines its end.
    fn judge(&mut self, line: &[u8]) -> Mark {
        self.bytes += line.len() as u64 + 1;
        let Some((head, mark)) = split_mark(line) else {
            self.crc.update(line);
            self.crc.update(b"\n");
            return Mark::None;
        };
        self.crc.update(head);
        let expected = format!("{:08x}", self.crc.clone().finalize());
        let digits_match = digits_place(mark) == expected.as_bytes();
        self.crc.update(mark);
        self.crc.update(b"\n");
        match mark_digits(mark) {
            Some(_) if digits_match => Mark::Good,
            Some(_) => Mark::Bad,
            // The right checksum is in the right place, so this was a mark, and one of its other bytes has changed.
            None if digits_match => Mark::Bad,
            None => Mark::None,
        }
    }
}

/// The end of a whole batch: where reading can go on later.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Position {
    pub(super) offset: u64,
    /// How many lines are before it.
    pub(super) lines: u64,
    pub(super) last_seq: Option<u64>,
    /// Whether the line break of the last line was missing when it was read. It may be written any moment.
    pub(super) lacks_line_break: bool,
}

enum Found {
    Line,
    Unfinished,
    End,
}

/// Reads the whole batches of one segment in order.
#[derive(Debug)]
pub(super) struct SegmentReader<R> {
    input: R,
    file: PathBuf,
    segment: u32,
    position: Position,
    torn: Option<Torn>,
    /// The line read last, without its line break.
    line: Vec<u8>,
    max_line: usize,
}

impl SegmentReader<BufReader<Box<dyn DiskFile>>> {
    /// Opens a segment behind a batch that was read before, or at its start.
    pub(super) fn open(paths: &RunPaths, segment: u32, position: Position) -> Result<Self, StoreError> {
        let path = paths.segment(segment);
        let file = paths
            .disk()
            .read(&path, position.offset)
            .map_err(|error| StoreError::io(path.display(), "open", error))?;
        Ok(Self::new(BufReader::with_capacity(128 * 1024, file), &path, segment, position))
    }
}

impl<R: BufRead> SegmentReader<R> {
    fn new(input: R, file: &Path, segment: u32, position: Position) -> Self {
        let file = file.to_owned();
        Self { input, file, segment, position, torn: None, line: Vec::new(), max_line: MAX_LINE_BYTES }
    }

    /// The end of the last batch given out.
    pub(super) fn position(&self) -> Position {
        self.position
    }

    /// What followed the last batch; known once `next_batch` has given none.
    pub(super) fn torn(&self) -> Option<Torn> {
        self.torn
    }

    pub(super) fn file(&self) -> &Path {
        &self.file
    }

    /// The next whole batch; none at the end or before a torn tail.
    pub(super) fn next_batch(&mut self) -> Result<Option<Vec<Line>>, StoreError> {
        let mut batch = Pending::default();
        self.skip_late_line_break()?;
        loop {
            match self.read_line(&batch)? {
                Found::End => return self.finish(&batch, 0),
                Found::Unfinished => return self.finish_unfinished(batch),
                Found::Line if self.line.contains(&0) => return self.finish_zeros(batch),
                Found::Line => {
                    if self.accept(&mut batch)? {
                        return self.give_out(batch).map(Some);
                    }
                }
            }
        }
    }

    /// Passes over the line break of the batch that was given out without it, if it has been written meanwhile.
    fn skip_late_line_break(&mut self) -> Result<(), StoreError> {
        if self.position.lacks_line_break {
            let io = |error: io::Error| StoreError::io(self.file.display(), "read", error);
            if self.input.fill_buf().map_err(io)?.first() == Some(&b'\n') {
                self.input.consume(1);
                self.position.offset += 1;
                self.position.lacks_line_break = false;
            }
        }
        Ok(())
    }

    /// Reads one line into `self.line`, never more than the bounds of a line and of a batch allow.
    fn read_line(&mut self, batch: &Pending) -> Result<Found, StoreError> {
        self.line.clear();
        let most = self.max_line as u64 + 1;
        let read = self.input.by_ref().take(most).read_until(b'\n', &mut self.line);
        read.map_err(|error: io::Error| StoreError::io(self.file.display(), "read", error))?;
        if self.line.is_empty() {
            return Ok(Found::End);
        }
        let finished = self.line.last() == Some(&b'\n');
        if finished {
            self.line.pop();
        } else if self.line.len() > self.max_line {
            return Err(self.damage(batch, "this line is longer than any that Raymond writes"));
        }
        if batch.bytes + self.line.len() as u64 >= MAX_BATCH_BYTES as u64 {
            return Err(self.damage(batch, "this batch is longer than any that Raymond writes"));
        }
        Ok(if finished { Found::Line } else { Found::Unfinished })
    }

    /// Adds `self.line` to the batch. True if it is the last line of the batch.
    fn accept(&mut self, batch: &mut Pending) -> Result<bool, StoreError> {
        let Ok(text) = std::str::from_utf8(&self.line) else {
            return Err(self.damage(batch, "this is not UTF-8"));
        };
        let fields = probe(text).map_err(|what| self.damage(batch, what))?;
        let mut text = text.to_owned();
        match batch.judge(&self.line) {
            Mark::Bad => {
                let first = self.position.lines + 1;
                let what = match batch.lines.len() as u64 {
                    0 => "the checksum does not match".to_owned(),
                    more => format!("the checksum of lines {first} to {} does not match", first + more),
                };
                Err(self.damage(batch, what))
            }
            Mark::None if fields.has_mark => Err(self.damage(batch, CHANGED)),
            Mark::None => {
                batch.lines.push((text, fields));
                Ok(false)
            }
            Mark::Good => {
                text.truncate(text.len() - MARK_BYTES);
                text.push('}');
                batch.lines.push((text, fields));
                Ok(true)
            }
        }
    }

    /// Checks what a checksum cannot show, and moves the position behind the batch.
    fn give_out(&mut self, batch: Pending) -> Result<Vec<Line>, StoreError> {
        let at_start = self.position.lines == 0;
        let may_begin = match &batch.lines[..] {
            [(_, only)] => only.is_snapshot || only.is_start,
            _ => false,
        };
        if at_start && self.segment > 0 && !may_begin {
            let first = batch.lines.first().map_or("", |(text, _)| text);
            let what = "a snapshot should be here";
            return Err(StoreError::damaged(self.file.display(), 1, what, first.as_bytes()));
        }
        let count = batch.lines.len();
        let mut lines = Vec::with_capacity(count);
        for (index, (text, fields)) in batch.lines.into_iter().enumerate() {
            let number = self.position.lines + 1;
            self.position.last_seq = follow_seq(self.position.last_seq, fields)
                .map_err(|what| StoreError::damaged(self.file.display(), number, what, text.as_bytes()))?;
            self.position.lines = number;
            let Fields { seq, is_snapshot, .. } = fields;
            let ends_batch = index + 1 == count;
            lines.push(Line { segment: self.segment, number, text, ends_batch, seq, is_snapshot });
        }
        self.position.offset += batch.bytes;
        Ok(lines)
    }

    /// The end of the file, perhaps behind lines without a mark.
    fn finish(&mut self, batch: &Pending, more: u64) -> Result<Option<Vec<Line>>, StoreError> {
        let bytes = batch.bytes + more;
        if self.position.lines == 0 && self.segment > 0 {
            let first = batch.lines.first().map_or(self.line.as_slice(), |(text, _)| text.as_bytes());
            return Err(StoreError::damaged(
                self.file.display(),
                1,
                "a whole snapshot should be here",
                first,
            ));
        }
        self.torn = (bytes > 0).then_some(Torn { offset: self.position.offset, bytes });
        Ok(None)
    }

    /// The end of the file behind a line without a line break.
    fn finish_unfinished(&mut self, mut batch: Pending) -> Result<Option<Vec<Line>>, StoreError> {
        if matches!(batch.fork().judge(&self.line), Mark::Good) {
            self.accept(&mut batch)?;
            batch.bytes -= 1;
            let lines = self.give_out(batch)?;
            self.position.lacks_line_break = true;
            return Ok(Some(lines));
        }
        if let Some(what) = self.what_no_interrupted_write_leaves(&batch) {
            return Err(self.damage(&batch, what));
        }
        let more = self.line.len() as u64;
        self.finish(&batch, more)
    }

    /// An interrupted write ends early, and may leave zeros from a block that never reached the disk. It adds nothing,
    /// and puts no other byte in the place of one.
    fn what_no_interrupted_write_leaves(&self, batch: &Pending) -> Option<&'static str> {
        let (last, whole) = self.line.split_last()?;
        if *last != 0 && matches!(batch.fork().judge(whole), Mark::Good) {
            return Some("the line break behind this line has changed");
        }
        let is_whole_event =
            std::str::from_utf8(&self.line).is_ok_and(|text| probe(text).is_ok_and(|fields| fields.has_mark));
        // JSON escapes control characters, so these are not from an event: they are the line ends of another program.
        let has_other_line_ends = self.line.iter().any(|byte| matches!(byte, 1..0x20));
        (is_whole_event || has_other_line_ends).then_some(CHANGED)
    }

    /// Zeros are a torn tail, unless a whole batch was written behind them.
    fn finish_zeros(&mut self, batch: Pending) -> Result<Option<Vec<Line>>, StoreError> {
        let damage = self.damage(&batch, "this line holds zero bytes");
        let mut bytes = batch.bytes;
        // Every place where a batch may have begun: right behind the zeros, in the line after
        // them, and after each mark.
        let mut begun: Vec<Pending> = Vec::new();
        loop {
            bytes += self.line.len() as u64 + 1;
            let behind = self.line.iter().rposition(|byte| *byte == 0).map_or(0, |last| last + 1);
            let holds_zeros = behind > 0;
            if holds_zeros {
                begun = vec![Pending::default()];
            }
            let rest = &self.line[behind..];
            if begun.iter_mut().any(|batch| matches!(batch.judge(rest), Mark::Good)) {
                return Err(damage);
            }
            if self.ends_with_mark() {
                begun = vec![Pending::default()];
            } else if holds_zeros {
                begun.push(Pending::default());
            }
            if !matches!(self.read_line(&Pending::default())?, Found::Line) {
                return self.finish(&Pending::default(), bytes + self.line.len() as u64);
            }
        }
    }

    fn ends_with_mark(&self) -> bool {
        split_mark(&self.line).is_some_and(|(_, mark)| mark_digits(mark).is_some())
    }

    /// Damage in the line read last, which follows the lines of the batch.
    fn damage(&self, batch: &Pending, what: impl Into<String>) -> StoreError {
        let number = self.position.lines + batch.lines.len() as u64 + 1;
        StoreError::damaged(self.file.display(), number, what, &self.line)
    }
}

#[cfg(test)]
mod tests;
