//! What happens in all runs, in one order.
//!
//! The feed numbers what was added to the journals in the order in which it was noticed: an entry is a run and the
//! numbers of its new events. A place in it is a short text (a *cursor*), with which a reader that was cut off goes on
//! without gap or repetition. The entries are kept in a file, so that cursors hold after a restart. The events themselves
//! are always read from the journals. Without the file, or where the two do not fit together, readers are told to begin
//! anew.
//!
//! Bounds: [`MAX_ENTRIES`] entries, [`MAX_TEXT_BYTES`] of encoded events, [`MAX_READERS`] journals that are followed.

use std::collections::{HashMap, HashSet, VecDeque};
use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use axum::body::Bytes;
use raymond_core::event::Body;
use serde::{Deserialize, Serialize};
use tokio::sync::watch;

use super::index::Index;
use crate::files::{MAX_KEPT_BYTES, open_plain_as, private_options, read_text};
use crate::store::{Events, RunEntry, RunHandle, Start, StoreError};
use crate::view::json::event_line;

/// How many entries are kept. Half of them are dropped when there are more.
const MAX_ENTRIES: usize = 50_000;
/// How much encoded text of the newest entries is kept, so that many readers need not read the same journal.
const MAX_TEXT_BYTES: usize = 4 * 1024 * 1024;
/// How many journals are read on from where they were read last.
const MAX_READERS: usize = 256;

/// Events that were added to a run at once.
#[derive(Clone, Debug)]
pub struct Entry {
    pub run: Arc<str>,
    pub from: u64,
    pub to: u64,
    /// The events as lines of JSON, each with its number. Old entries have lost them.
    lines: Option<Arc<Vec<(u64, String)>>>,
}

/// A place in the feed: behind one event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cursor {
    /// The number of the entry, and of the event in its run.
    pub entry: u64,
    pub seq: u64,
}

#[derive(Default)]
struct State {
    /// Differs for each file.
    id: String,
    /// The number of the first entry that is kept.
    first: u64,
    entries: VecDeque<Entry>,
    /// The last event of each run that is in the feed, with the version of the journal at that time.
    runs: HashMap<Arc<str>, (u64, String)>,
    readers: HashMap<Arc<str>, Box<dyn Events>>,
    text_bytes: usize,
    /// The first entry that may still have its lines.
    first_text: u64,
    log: Option<File>,
    is_open: bool,
}

pub struct Feed {
    path: PathBuf,
    state: Mutex<State>,
    /// Held while the file is opened: its lock can be taken only once, also by this process.
    opening: Mutex<()>,
    /// How often something was noticed.
    tick: watch::Sender<u64>,
    /// Held while a piece is read: the readers that wait want the same one.
    pub last_piece: tokio::sync::Mutex<Option<Piece>>,
}

/// What was read last, as it is sent.
pub struct Piece {
    /// The place that it follows, and the place at its end.
    pub behind: Cursor,
    pub end: Cursor,
    pub text: Bytes,
}

/// The first line of the file.
#[derive(Serialize, Deserialize)]
struct Head {
    feed: String,
    first: u64,
    /// The last event of each run before the first entry.
    runs: HashMap<String, u64>,
}

/// A further line: an entry.
type Row = (String, u64, u64);

fn row(run: &str, from: u64, to: u64) -> String {
    serde_json::to_string(&(run, from, to)).unwrap_or_default() + "\n"
}

impl Feed {
    /// A feed that keeps its entries in this file. It is opened when the first reader comes.
    pub fn new(path: PathBuf) -> Self {
        Self {
            path,
            state: Mutex::default(),
            opening: Mutex::default(),
            tick: watch::channel(0).0,
            last_piece: tokio::sync::Mutex::default(),
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Tells whenever something was added to some run.
    pub fn subscribe(&self) -> watch::Receiver<u64> {
        self.tick.subscribe()
    }

    /// How many readers wait for news.
    pub fn readers(&self) -> usize {
        self.tick.receiver_count()
    }

    /// The last event of a run that was noticed.
    pub fn last_seq(&self, run: &str) -> u64 {
        self.lock().runs.get(run).map_or(0, |(seq, _)| *seq)
    }

    /// The place behind everything that is known.
    pub fn end(&self) -> Cursor {
        let state = self.lock();
        match state.entries.back() {
            Some(entry) => Cursor { entry: state.next_number() - 1, seq: entry.to },
            None => Cursor { entry: state.first.saturating_sub(1), seq: 0 },
        }
    }

    /// A cursor as a short text.
    pub fn write(&self, cursor: &Cursor) -> String {
        let state = self.lock();
        let check = state.check(cursor).unwrap_or_default();
        format!("{}-{}-{}-{check:08x}", state.id, cursor.entry, cursor.seq)
    }

    /// The place that a text stands for; none if it is not a place in this feed.
    pub fn read(&self, text: &str) -> Option<Cursor> {
        let mut parts = text.split('-');
        let (id, entry, seq, check) = (parts.next()?, parts.next()?, parts.next()?, parts.next()?);
        let cursor = Cursor { entry: entry.parse().ok()?, seq: seq.parse().ok()? };
        let state = self.lock();
        let is_known = id == state.id && parts.next().is_none();
        let known = state.check(&cursor).filter(|_| is_known)?;
        (format!("{known:08x}") == check).then_some(cursor)
    }

    /// The events behind a place, up to some number of bytes, with the place behind each. None if they were dropped.
    pub fn behind(&self, cursor: &Cursor, index: &Index, most: usize) -> Option<Vec<(Cursor, String)>> {
        let mut found = Vec::new();
        let mut bytes = 0;
        let mut at = cursor.clone();
        while bytes < most {
            let Some((number, entry)) = self.next_entry(&at)? else { break };
            let after = if number == at.entry { at.seq } else { entry.from - 1 };
            let lines = match &entry.lines {
                Some(lines) => lines.iter().filter(|(seq, _)| *seq > after).cloned().collect(),
                None => read_lines(index, &entry, after),
            };
            for (seq, line) in lines {
                bytes += line.len();
                found.push((Cursor { entry: number, seq }, line));
            }
            at = Cursor { entry: number, seq: entry.to };
        }
        Some(found)
    }

    /// The entry in which the events behind a place are, if there are any; none if it was dropped.
    fn next_entry(&self, at: &Cursor) -> Option<Option<(u64, Entry)>> {
        let state = self.lock();
        if at.entry + 1 < state.first {
            return None;
        }
        let is_done = state.entry(at.entry).is_none_or(|entry| at.seq >= entry.to);
        let number = if is_done { at.entry + 1 } else { at.entry };
        Some(state.entry(number).map(|entry| (number, entry.clone())))
    }

    /// Looks which runs have changed, and adds what is new. Runs that are named are looked at first and cheaply.
    pub fn update(&self, index: &Index, named: Option<&HashSet<String>>) -> Result<(), StoreError> {
        self.open(index)?;
        let before = self.lock().next_number();
        match named {
            Some(named) => {
                for run in named {
                    // A run that is gone has nothing new.
                    if let Ok(handle) = index.find(run) {
                        let _ = self.follow(&handle, None);
                    }
                }
            }
            None => {
                for entry in index.list()? {
                    self.look_at(index, &entry);
                }
            }
        }
        let after = self.lock().next_number();
        if before != after {
            self.tick.send_modify(|tick| *tick += 1);
        }
        Ok(())
    }

    fn look_at(&self, index: &Index, entry: &RunEntry) {
        let version = entry.version.clone().unwrap_or_default();
        let known = self.lock().runs.get(entry.run.id()).cloned();
        match known {
            Some((_, known)) if known == version => {}
            // After a restart most runs are as they were, which is known without reading their journals.
            Some((seq, known))
                if known.is_empty() && index.summary(entry).is_ok_and(|summary| summary.seq == seq) =>
            {
                self.lock().runs.entry(entry.run.id().into()).or_default().1 = version;
            }
            // One damaged journal must not hide the others.
            _ => drop(self.follow(&entry.run, Some(version))),
        }
    }

    /// Reads what is new in a run.
    fn follow(&self, handle: &Arc<dyn RunHandle>, version: Option<String>) -> Result<(), StoreError> {
        let (known, reader) = {
            let mut state = self.lock();
            let known = state.runs.get(handle.id()).map_or(0, |(seq, _)| *seq);
            (known, state.readers.remove(handle.id()))
        };
        let mut reader = match reader {
            Some(reader) => reader,
            // What a branch has in common with its origin is not new.
            None => handle.events(Start::After(known.max(last_shared(&**handle)?)))?,
        };
        let payloads = handle.payloads();
        let run: Arc<str> = handle.id().into();
        while let Some(batch) = reader.next_batch()? {
            let events = batch.iter().filter(|event| !matches!(event.body, Body::Snapshot { .. }));
            let lines: Vec<(u64, String)> =
                events.map(|event| (event.seq, event_line(event, &payloads).unwrap_or_default())).collect();
            self.lock().add(&run, lines);
        }
        let mut state = self.lock();
        if state.readers.len() >= MAX_READERS {
            state.readers.clear();
        }
        state.readers.insert(Arc::clone(&run), reader);
        if let Some(version) = version {
            state.runs.entry(run).or_default().1 = version;
        }
        Ok(())
    }

    /// Opens the file, or begins a new one: then all that is in the journals now has been seen.
    fn open(&self, index: &Index) -> Result<(), StoreError> {
        if self.lock().is_open {
            return Ok(());
        }
        let _opening = self.opening.lock().unwrap_or_else(PoisonError::into_inner);
        if self.lock().is_open {
            return Ok(());
        }
        let entries = index.list()?;
        let mut state = State::default();
        if !state.load(&self.path) {
            // What could be read of an unusable file does not count.
            let id = uuid::Uuid::new_v4().simple().to_string();
            state = State { id, first: 1, log: state.log.take(), ..State::default() };
            for entry in &entries {
                let Ok(summary) = index.summary(entry) else { continue };
                let version = entry.version.clone().unwrap_or_default();
                state.runs.insert(entry.run.id().into(), (summary.seq, version));
            }
            index.save(&entries);
            state.begin(&self.path);
        }
        state.first_text = state.next_number();
        state.is_open = true;
        *self.lock() = state;
        Ok(())
    }
}

/// The last event that a run has in common with another one.
fn last_shared(run: &dyn RunHandle) -> Result<u64, StoreError> {
    let origins = run.origins()?;
    Ok(origins.iter().find(|origin| origin.run != run.id()).map_or(0, |origin| origin.seq))
}

impl State {
    /// The number that the next entry gets.
    fn next_number(&self) -> u64 {
        self.first + self.entries.len() as u64
    }

    fn entry(&self, number: u64) -> Option<&Entry> {
        let place = number.checked_sub(self.first)?;
        self.entries.get(usize::try_from(place).ok()?)
    }

    /// What tells a place from the same numbers in another feed. None if it is not in this one.
    fn check(&self, cursor: &Cursor) -> Option<u32> {
        match self.entry(cursor.entry) {
            Some(entry) if (entry.from..=entry.to).contains(&cursor.seq) => {
                Some(crc32fast::hash(entry.run.as_bytes()))
            }
            Some(_) => None,
            // The place before the first entry.
            None => (cursor.seq == 0 && cursor.entry + 1 == self.first).then_some(0),
        }
    }

    /// Adds events of a run that are new.
    fn add(&mut self, run: &Arc<str>, lines: Vec<(u64, String)>) {
        let known = self.runs.get(run).map_or(0, |(seq, _)| *seq);
        let lines: Vec<(u64, String)> = lines.into_iter().filter(|(seq, _)| *seq > known).collect();
        let (Some((from, _)), Some((to, _))) = (lines.first(), lines.last()) else { return };
        let (from, to) = (*from, *to);
        self.text_bytes += lines.iter().map(|(_, line)| line.len()).sum::<usize>();
        self.runs.entry(Arc::clone(run)).or_default().0 = to;
        self.entries.push_back(Entry { run: Arc::clone(run), from, to, lines: Some(Arc::new(lines)) });
        if let Some(log) = &mut self.log {
            // Without the file, cursors only hold as long as this process lives.
            if log.write_all(row(run, from, to).as_bytes()).is_err() {
                self.log = None;
            }
        }
        self.forget();
    }

    /// Keeps the bounds.
    fn forget(&mut self) {
        while self.text_bytes > MAX_TEXT_BYTES {
            let Some(place) = self.first_text.checked_sub(self.first) else { break };
            let Some(entry) = self.entries.get_mut(place as usize) else { break };
            if let Some(lines) = entry.lines.take() {
                self.text_bytes -= lines.iter().map(|(_, line)| line.len()).sum::<usize>();
            }
            self.first_text += 1;
        }
        if self.entries.len() > MAX_ENTRIES {
            for _ in 0..MAX_ENTRIES / 2 {
                self.entries.pop_front();
                self.first += 1;
            }
            self.first_text = self.first_text.max(self.first);
            let text = self.text();
            self.log = self.log.take().and_then(|log| write_anew(log, &text));
        }
    }

    /// The whole file.
    fn text(&self) -> String {
        let mut runs: HashMap<String, u64> =
            self.runs.iter().map(|(run, (seq, _))| (run.to_string(), *seq)).collect();
        for entry in self.entries.iter().rev() {
            runs.insert(entry.run.to_string(), entry.from - 1);
        }
        let head = Head { feed: self.id.clone(), first: self.first, runs };
        let mut text = serde_json::to_string(&head).unwrap_or_default() + "\n";
        for Entry { run, from, to, .. } in &self.entries {
            text += &row(run, *from, *to);
        }
        text
    }

    /// Reads the file of an earlier process, and takes it over. Of two processes only one can have it.
    fn load(&mut self, path: &Path) -> bool {
        let Ok(file) = open_plain_as(private_options().append(true).read(true), path) else { return false };
        if file.try_lock().is_err() {
            return false;
        }
        self.log = Some(file);
        let Ok(text) = read_text(path, MAX_KEPT_BYTES) else { return false };
        // The last line may be half written.
        let whole = text.rfind('\n').map_or("", |end| &text[..end]);
        let mut lines = whole.lines();
        let Some(head) = lines.next().and_then(|line| serde_json::from_str::<Head>(line).ok()) else {
            return false;
        };
        self.id = head.feed;
        self.first = head.first;
        self.runs = head.runs.into_iter().map(|(run, seq)| (run.into(), (seq, String::new()))).collect();
        for line in lines {
            let Ok((run, from, to)) = serde_json::from_str::<Row>(line) else { return false };
            let run: Arc<str> = run.into();
            self.runs.entry(Arc::clone(&run)).or_default().0 = to;
            self.entries.push_back(Entry { run, from, to, lines: None });
        }
        let is_whole = text.ends_with('\n');
        is_whole || self.log.as_mut().is_some_and(|log| log.set_len(whole.len() as u64 + 1).is_ok())
    }

    /// Begins a new file, unless another process has it.
    fn begin(&mut self, path: &Path) {
        let text = self.text();
        self.entries.clear();
        let log = self.log.take().or_else(|| {
            let file = open_plain_as(private_options().append(true).read(true).create(true), path).ok()?;
            file.try_lock().is_ok().then_some(file)
        });
        self.log = log.and_then(|log| write_anew(log, &text));
    }
}

/// Replaces what is in the file. Without it, cursors only hold as long as this process lives.
fn write_anew(mut log: File, text: &str) -> Option<File> {
    log.set_len(0).ok()?;
    log.write_all(text.as_bytes()).ok()?;
    Some(log)
}

/// Reads the events of an entry behind some number from the journal.
fn read_lines(index: &Index, entry: &Entry, after: u64) -> Vec<(u64, String)> {
    let mut lines = Vec::new();
    // A run that was deleted has nothing to tell.
    let Some(handle) = index.known(&entry.run) else { return lines };
    let (payloads, Ok(mut events)) = (handle.payloads(), handle.events(Start::After(after))) else {
        return lines;
    };
    while let Ok(Some(batch)) = events.next_batch() {
        for event in batch {
            if event.seq > entry.to {
                return lines;
            }
            if !matches!(event.body, Body::Snapshot { .. }) {
                lines.push((event.seq, event_line(&event, &payloads).unwrap_or_default()));
            }
        }
    }
    lines
}
