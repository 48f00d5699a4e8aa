//! Events ↔ the journal: what the engine commits, and how a run is read back.

use raymond_core::event::{Body, Event, FORMAT_VERSION, SnapshotLine};
use raymond_core::evolve::evolve;
use raymond_core::payload::Payload;
use raymond_core::run::Run;
use serde::Serialize;

use crate::engine::{EventStore, StoreError};
use crate::error::UserError;
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
    let event: Event = serde_json::from_str(&line.text).map_err(|error| {
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

/// Adds events up.
pub fn fold(paths: &RunPaths, lines: &[Line]) -> Result<Run, UserError> {
    let mut run: Option<Run> = None;
    for line in lines {
        let event = to_event(paths, line)?;
        if let Some(run) = &run {
            check_order(paths, line, run.seq, event.seq)?;
        }
        run = evolve(run, &event);
    }
    run.ok_or_else(|| {
        UserError::usage(format!("{} does not begin with the start of a run", paths.segment(0).display()))
    })
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
