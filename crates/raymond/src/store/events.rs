//! Events ↔ the journal: what the engine commits, and how a run is read back.

use jiff::Timestamp;
use raymond_core::event::{Body, Event, FORMAT_VERSION, SnapshotLine};
use raymond_core::evolve::{evolve, restore};
use raymond_core::payload::Payload;
use raymond_core::run::Run;
use serde::{Deserialize, Serialize};

use crate::error::UserError;
use crate::run::engine::{EventStore, StoreError};
use crate::store::{Journal, JournalError, Line, Payloads, RunLock, RunPaths};

pub struct JournalStore {
    journal: Journal,
    payloads: Payloads,
    /// Held as long as the journal is written.
    _lock: RunLock,
}

impl JournalStore {
    pub fn new(journal: Journal, payloads: Payloads, lock: RunLock) -> Self {
        Self { journal, payloads, _lock: lock }
    }
}

impl EventStore for JournalStore {
    fn keep_payload(&mut self, text: &str) -> Result<Payload, StoreError> {
        let stored = self.payloads.put(text).map_err(|error| StoreError(error.to_string()))?;
        Ok(Payload::Stored { payload: stored.hash, bytes: stored.bytes })
    }

    fn load_payload(&self, payload: &Payload) -> Result<String, StoreError> {
        self.payloads.text_of(payload).map_err(StoreError)
    }

    fn commit(&mut self, batch: &[Event]) -> Result<(), StoreError> {
        let lines: Vec<String> = batch.iter().map(to_line).collect::<Result<_, _>>()?;
        self.journal.append(&lines).map_err(|error| StoreError(error.to_string()))
    }

    fn rotate_if_long(&mut self, snapshot: SnapshotLine<'_>) -> Result<(), StoreError> {
        if !self.journal.should_rotate() {
            return Ok(());
        }
        match self.journal.rotate(to_line(&snapshot)?) {
            // A state too large for one line stays in a segment that is longer than usual.
            Err(JournalError::Refused { .. }) => Ok(()),
            other => other.map_err(|error| StoreError(error.to_string())),
        }
    }
}

fn to_line(event: &impl Serialize) -> Result<String, StoreError> {
    serde_json::to_string(event).map_err(|error| StoreError(format!("cannot write an event: {error}")))
}

/// One line of a journal as an event. The line is known to be whole, so what cannot be read is of another version.
pub fn to_event(paths: &RunPaths, line: &Line) -> Result<Event, UserError> {
    let event = parse(&line.text).map_err(|error| {
        let file = paths.segment(line.segment);
        UserError::usage(format!(
            "{} line {}: not an event this version knows: {error}",
            file.display(),
            line.number
        ))
        .hint("it was probably written by a newer Raymond; use that one")
    })?;
    match &event.body {
        Body::RunStarted(started) if started.version > FORMAT_VERSION => {
            let error = format!(
                "the run {} has the format {}, this version reads up to {FORMAT_VERSION}",
                event.run, started.version
            );
            Err(UserError::usage(error).hint("use a newer Raymond"))
        }
        _ => Ok(event),
    }
}

/// The line of a snapshot; `event` says that it is one.
#[derive(Deserialize)]
struct Snapshot {
    seq: u64,
    time: Timestamp,
    run: String,
    state: Box<Run>,
}

/// Reads an event. Which fields it has depends on one of them, so all are held until that one is known, in several
/// times the memory of the text; a snapshot may be megabytes long and is known by its beginning.
fn parse(text: &str) -> serde_json::Result<Event> {
    const BEGINNING: usize = 512;
    let beginning = &text.as_bytes()[..text.len().min(BEGINNING)];
    if memchr::memmem::find(beginning, br#""event":"snapshot""#).is_some()
        && let Ok(Snapshot { seq, time, run, state }) = serde_json::from_str(text)
    {
        return Ok(Event { seq, time, run, body: Body::Snapshot { state } });
    }
    serde_json::from_str(text)
}

/// Adds events up.
pub fn fold(paths: &RunPaths, lines: &[Line]) -> Result<Run, UserError> {
    let mut folding = Folding::new(paths);
    lines.iter().for_each(|line| folding.take(line));
    folding.finish()
}

/// A run that is being added up, line by line.
pub struct Folding<'a> {
    paths: &'a RunPaths,
    /// Or what is wrong with the first line that cannot be taken.
    run: Result<Option<Run>, UserError>,
}

impl<'a> Folding<'a> {
    pub fn new(paths: &'a RunPaths) -> Self {
        Self { paths, run: Ok(None) }
    }

    pub fn take(&mut self, line: &Line) {
        if let Ok(run) = &mut self.run {
            let run = run.take();
            self.run = Self::add(self.paths, run, line);
        }
    }

    fn add(paths: &RunPaths, run: Option<Run>, line: &Line) -> Result<Option<Run>, UserError> {
        let event = to_event(paths, line)?;
        if let Some(run) = &run {
            check_order(paths, line, run.seq, event.seq)?;
        }
        Ok(match event.body {
            // Not by way of `evolve`, which would copy what may be the largest thing there is.
            Body::Snapshot { state } => Some(restore(*state, event.seq)),
            _ => evolve(run, &event),
        })
    }

    pub fn finish(self) -> Result<Run, UserError> {
        let first = self.paths.segment(0);
        self.run?.ok_or_else(|| {
            UserError::usage(format!("{} does not begin with the start of a run", first.display()))
        })
    }
}

/// Events are numbered without a gap: each line may be whole, and still one may be lost or stand twice.
pub fn check_order(paths: &RunPaths, line: &Line, before: u64, now: u64) -> Result<(), UserError> {
    if before.checked_add(1) == Some(now) {
        return Ok(());
    }
    let file = paths.segment(line.segment);
    let error = format!("{} line {}: event {now} follows event {before}", file.display(), line.number);
    Err(UserError::usage(format!("{error}; events are missing or out of order"))
        .hint("restore the file from a copy, or move it away to give the run up"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const STARTED: &str = r#"{"seq":1,"time":"2026-01-01T00:00:00Z","run":"r","event":"run_started","version":1,"workflow":"w","scope":"/w","entry":"START.sh","cwd":"/","nonce":"n","options":{}}"#;
    const AGENT: &str = r#"{"seq":2,"time":"2026-01-01T00:00:00Z","run":"r","event":"agent_started","agent":"main_w1","state":"W.sh","cwd":"/","parent":"main","number":1,"fork":1,"attributes":{"event":"snapshot","state":"x"}}"#;

    #[test]
    fn a_snapshot_is_read_like_any_other_event() {
        let run = [STARTED, AGENT].iter().fold(None, |run, line| evolve(run, &parse(line).unwrap())).unwrap();
        let line = to_line(&SnapshotLine::of(&run, run.started_at)).unwrap();
        let read = parse(&line).unwrap();
        assert_eq!(read, serde_json::from_str(&line).unwrap());
        assert!(matches!(read.body, Body::Snapshot { .. }));
    }

    #[test]
    fn what_only_looks_like_a_snapshot_is_none() {
        let read = parse(AGENT).unwrap();
        assert!(matches!(read.body, Body::AgentStarted(_)), "{read:?}");
        assert_eq!(read, serde_json::from_str(AGENT).unwrap());
    }
}
