//! Events ↔ lines of the journal.

use std::borrow::Cow;

use jiff::Timestamp;
use raymond_core::event::{BRANCH_FORMAT_VERSION, Body, Event, Origin};
use raymond_core::run::Run;
use serde::{Deserialize, Serialize};

use super::place::RunPaths;
use super::read::{Lines, first_batch, segment_behind, segments_of_parts, visit_tail};
use super::segment::Line;
use crate::store::error::StoreError;
use crate::store::fold::{FindOrigin, Folding, check_order};
use crate::store::home::Events;
use crate::store::lineage::{origin_of, state_at_origin};

pub(super) fn to_line(paths: &RunPaths, event: &impl Serialize) -> Result<String, StoreError> {
    serde_json::to_string(event)
        .map_err(|error| StoreError::refused(paths.segment(0).display(), format!("no JSON: {error}")))
}

/// The first event of a segment; none if it has no whole batch.
pub(super) fn first_event(paths: &RunPaths, segment: u32) -> Result<Option<Event>, StoreError> {
    let batch = first_batch(paths, segment)?;
    batch.as_ref().and_then(|batch| batch.first()).map(|line| to_event(paths, line)).transpose()
}

/// The oldest segment of a run that another run goes on from.
pub(super) fn oldest_needed(paths: &RunPaths) -> Result<Option<u32>, StoreError> {
    let mut oldest = None;
    let others = paths.others().map_err(|error| StoreError::io(paths.dir().display(), "list", error))?;
    for run in others.into_iter().filter(|run| run.own().has(run.id())) {
        for segment in segments_of_parts(&run)? {
            let first = first_event(&run, segment)?;
            let origin = first.as_ref().and_then(origin_of).filter(|origin| origin.run == paths.id());
            if let Some(origin) = origin {
                let needed = segment_behind(paths, origin.seq)?;
                oldest = Some(oldest.map_or(needed, |oldest: u32| oldest.min(needed)));
            }
        }
    }
    Ok(oldest)
}

/// One line of a journal as an event. The line is known to be whole, so it is of another version if it cannot be read.
fn to_event(paths: &RunPaths, line: &Line) -> Result<Event, StoreError> {
    let event = parse(&line.text).map_err(|error| StoreError::UnknownEvent {
        place: place_of(paths, line),
        line: line.number,
        what: error.to_string(),
    })?;
    match &event.body {
        Body::RunStarted(started) if started.version > BRANCH_FORMAT_VERSION => {
            return Err(StoreError::NewerFormat {
                run: event.run.clone(),
                version: started.version,
                newest_known: BRANCH_FORMAT_VERSION,
            });
        }
        // Every segment begins with one of these, so a journal that was put in the place of the run's is noticed.
        Body::RunStarted(started) => paths.own().check_nonce(paths.id(), &started.nonce)?,
        Body::Snapshot { state } => paths.own().check_nonce(paths.id(), &state.nonce)?,
        _ => {}
    }
    Ok(event)
}

/// Checks that a segment from which reading begins is one of the run.
pub(super) fn check_segment(paths: &RunPaths, segment: u32) -> Result<(), StoreError> {
    if !paths.own().is_strict() {
        return Ok(());
    }
    match first_batch(paths, segment)?.as_ref().and_then(|batch| batch.first()) {
        Some(line) if line.is_snapshot => check_passed(paths, line),
        Some(line) => to_event(paths, line).map(drop),
        None => paths.own().check(paths.id()),
    }
}

/// What is read of a snapshot that is passed over.
#[derive(Deserialize)]
struct PassedSnapshot<'line> {
    #[serde(borrow)]
    state: PassedState<'line>,
}

#[derive(Deserialize)]
struct PassedState<'line> {
    #[serde(borrow)]
    nonce: Cow<'line, str>,
}

/// Checks that a snapshot which is passed over is one of the run.
fn check_passed(paths: &RunPaths, line: &Line) -> Result<(), StoreError> {
    if !(line.is_snapshot && paths.own().is_strict()) {
        return Ok(());
    }
    match serde_json::from_str::<PassedSnapshot<'_>>(&line.text) {
        Ok(passed) => paths.own().check_nonce(paths.id(), &passed.state.nonce),
        // Then it is read as any other line, and the mistake is found there.
        Err(_) => to_event(paths, line).map(drop),
    }
}

fn place_of(paths: &RunPaths, line: &Line) -> String {
    paths.segment(line.segment).display().to_string()
}

/// The line of a snapshot; `event` says that it is one.
#[derive(Deserialize)]
struct Snapshot {
    seq: u64,
    time: Timestamp,
    run: String,
    state: Box<Run>,
}

/// What every event has.
#[derive(Deserialize)]
struct Head<'line> {
    seq: u64,
    time: Timestamp,
    run: String,
    #[serde(borrow)]
    event: Cow<'line, str>,
}

/// Reads an event. Which fields it has depends on one of them, so serde holds all of them until that one is known,
/// in several times the memory of the text. A snapshot may be megabytes long, so it is recognised by its beginning, and
/// most events of a long run are of a few kinds, which are read directly.
fn parse(text: &str) -> serde_json::Result<Event> {
    const BEGINNING: usize = 512;
    let beginning = &text.as_bytes()[..text.len().min(BEGINNING)];
    if memchr::memmem::find(beginning, br#""event":"snapshot""#).is_some()
        && let Ok(Snapshot { seq, time, run, state }) = serde_json::from_str(text)
    {
        return Ok(Event { seq, time, run, body: Body::Snapshot { state } });
    }
    frequent(text).map_or_else(|| serde_json::from_str(text), Ok)
}

/// An event of a frequent kind. None for all others, and for one with a mistake: that is found again by reading it like
/// the others.
fn frequent(text: &str) -> Option<Event> {
    let Head { seq, time, run, event } = serde_json::from_str(text).ok()?;
    let body = match &*event {
        "step_started" => Body::StepStarted(serde_json::from_str(text).ok()?),
        "step_finished" => Body::StepFinished(serde_json::from_str(text).ok()?),
        "agent_started" => Body::AgentStarted(serde_json::from_str(text).ok()?),
        "session_started" => Body::SessionStarted(serde_json::from_str(text).ok()?),
        _ => return None,
    };
    Some(Event { seq, time, run, body })
}

/// Adds up the lines of a journal. The first one that cannot be added is the error, and those behind it are ignored.
pub(super) struct LineFolding<'a> {
    paths: &'a RunPaths,
    folding: Result<Folding<'a>, StoreError>,
}

impl<'a> LineFolding<'a> {
    /// `find_origin` gives the state before the first line if that names an origin.
    pub(super) fn new(paths: &'a RunPaths, find_origin: FindOrigin<'a>) -> Self {
        Self { paths, folding: Ok(Folding::of_journal(find_origin)) }
    }

    pub(super) fn take(&mut self, line: &Line) {
        if let Ok(folding) = &mut self.folding {
            let paths = self.paths;
            let taken = to_event(paths, line)
                .and_then(|event| folding.take(event, &|| place_of(paths, line), line.number));
            if let Err(error) = taken {
                self.folding = Err(error);
            }
        }
    }

    pub(super) fn finish(self) -> Result<Run, StoreError> {
        self.folding?.finish(&|| self.paths.segment(0).display().to_string())
    }
}

/// What lines of a journal add up to.
pub fn fold(paths: &RunPaths, lines: &[Line]) -> Result<Run, StoreError> {
    let find_origin = |origin: &Origin| state_at_origin(paths, origin);
    let mut folding = LineFolding::new(paths, &find_origin);
    lines.iter().for_each(|line| folding.take(line));
    folding.finish()
}

/// What the last segment adds up to, read one batch at a time.
pub(super) fn load(paths: &RunPaths, newest: Option<u32>) -> Result<Run, StoreError> {
    let find_origin = |origin: &Origin| state_at_origin(paths, origin);
    let mut folding = LineFolding::new(paths, &find_origin);
    visit_tail(paths, newest, &mut |line| folding.take(&line))?;
    folding.finish()
}

/// The events of a journal behind some number.
#[derive(Debug)]
pub(super) struct JournalEvents {
    paths: RunPaths,
    lines: Lines,
    /// Events up to this one are not wanted.
    after: u64,
    /// The event that was given out last.
    last_seq: u64,
    /// What is wrong behind the batch that was given out last.
    trouble: Option<StoreError>,
}

impl JournalEvents {
    pub(super) fn new(paths: RunPaths, lines: Lines, after: u64) -> Self {
        Self { paths, lines, after, last_seq: after, trouble: None }
    }

    /// The event in a line, if it is wanted. A snapshot is wanted only where events are missing before it.
    fn wanted(&mut self, line: &Line) -> Result<Option<Event>, StoreError> {
        let known = if line.is_snapshot { self.last_seq } else { self.after };
        if line.seq.is_some_and(|seq| seq <= known) {
            check_passed(&self.paths, line)?;
            return Ok(None);
        }
        let event = to_event(&self.paths, line)?;
        if !line.is_snapshot {
            check_order(self.last_seq, &event, &|| place_of(&self.paths, line), line.number)?;
        }
        self.last_seq = event.seq;
        Ok(Some(event))
    }
}

impl Events for JournalEvents {
    fn next_batch(&mut self) -> Result<Option<Vec<Event>>, StoreError> {
        loop {
            if let Some(error) = &self.trouble {
                return Err(error.clone());
            }
            let Some(lines) = self.lines.next_batch()? else { return Ok(None) };
            let mut batch = Vec::with_capacity(lines.len());
            for line in lines {
                match self.wanted(&line) {
                    Ok(event) => batch.extend(event),
                    Err(error) => {
                        self.trouble = Some(error);
                        break;
                    }
                }
            }
            if !batch.is_empty() {
                return Ok(Some(batch));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use raymond_core::event::SnapshotLine;
    use raymond_core::evolve::evolve;

    const STARTED: &str = r#"{"seq":1,"time":"2026-01-01T00:00:00Z","run":"r","event":"run_started","version":1,"workflow":"w","scope":"/w","entry":"START.sh","cwd":"/","nonce":"n","options":{}}"#;
    const AGENT: &str = r#"{"seq":2,"time":"2026-01-01T00:00:00Z","run":"r","event":"agent_started","agent":"main_w1","state":"W.sh","cwd":"/","parent":"main","number":1,"fork":1,"attributes":{"event":"snapshot","state":"x"}}"#;

    #[test]
    fn a_snapshot_is_read_like_any_other_event() {
        let run = [STARTED, AGENT].iter().fold(None, |run, line| evolve(run, &parse(line).unwrap())).unwrap();
        let line = serde_json::to_string(&SnapshotLine::of(&run, run.started_at)).unwrap();
        let read = parse(&line).unwrap();
        assert_eq!(read, serde_json::from_str(&line).unwrap());
        assert!(matches!(read.body, Body::Snapshot { .. }));
    }

    #[test]
    fn frequent_events_are_read_like_all_others() {
        let finished = r#"{"seq":4,"time":"2026-01-01T00:00:00Z","run":"r","event":"step_finished","agent":"main","step":1,"state":"A.md","tag":"goto","target":"B.sh","input":"x","message":"m","session":{"id":"s","total_usd":0.25},"cost_usd":0.1,"cost_estimated":true,"duration_ms":5}"#;
        let started = r#"{"seq":3,"time":"2026-01-01T00:00:00Z","run":"r","event":"step_started","agent":"main","step":1,"attempt":2,"state":"A.md","visits":1,"hash":"h","backend":"claude","session":"s","turn":1,"share_usd":0.5}"#;
        let session = r#"{"seq":5,"time":"2026-01-01T00:00:00Z","run":"r","event":"session_started","agent":"main","step":1,"attempt":1,"state":"A.md","session":"s"}"#;
        for line in [started, finished, session, AGENT] {
            let read = frequent(line).unwrap_or_else(|| panic!("not read: {line}"));
            assert_eq!(read, serde_json::from_str(line).unwrap());
        }
        // A mistake is reported as it always was.
        let wrong = finished.replace("\"step\":1", "\"step\":\"x\"");
        let error = parse(&wrong).unwrap_err().to_string();
        assert_eq!(error, serde_json::from_str::<Event>(&wrong).unwrap_err().to_string());
    }

    #[test]
    fn what_only_looks_like_a_snapshot_is_none() {
        let read = parse(AGENT).unwrap();
        assert!(matches!(read.body, Body::AgentStarted(_)), "{read:?}");
        assert_eq!(read, serde_json::from_str(AGENT).unwrap());
    }
}
