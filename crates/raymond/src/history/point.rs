//! The point in a run's history at which a step had ended.

use std::fmt;

use raymond_core::event::{Body, Event};
use raymond_core::run::Run;

use crate::advice;
use crate::error::UserError;
use crate::store::{RunHandle, Start, StoreError};

/// A state that a run once had, at the end of a batch.
#[derive(Clone, Debug)]
pub struct Point {
    /// The last event of the batch.
    pub seq: u64,
    /// The step that ended in the batch; others may have, too.
    pub step: Option<u64>,
    pub state: Run,
}

/// Why there is no point after a step.
#[derive(Debug)]
pub enum NoPoint {
    /// The step has begun and not ended.
    Running {
        run: String,
        step: u64,
    },
    /// There is no such step; the last that has ended.
    Unknown {
        run: String,
        step: u64,
        last: Option<u64>,
    },
    /// The end of the step was deleted; the events from the first number to the second are gone.
    Deleted {
        run: String,
        step: u64,
        events: (u64, u64),
    },
    Store(StoreError),
}

impl From<StoreError> for NoPoint {
    fn from(error: StoreError) -> Self {
        Self::Store(error)
    }
}

impl Point {
    /// The end of the batch in which a step ended.
    pub fn after_step(run: &dyn RunHandle, step: u64) -> Result<Self, NoPoint> {
        let seq = end_of_step(run, step)?;
        Ok(Self { seq, step: Some(step), state: run.state_after(seq)? })
    }

    /// All that a run has recorded.
    pub fn at_end(state: Run) -> Self {
        Self { seq: state.seq, step: None, state }
    }
}

/// Says that the end of a step was deleted, if it was.
pub fn check_kept(run: &dyn RunHandle, step: u64) -> Result<(), NoPoint> {
    match end_of_step(run, step) {
        Err(NoPoint::Running { .. } | NoPoint::Unknown { .. }) => Ok(()),
        other => other.map(drop),
    }
}

/// The last event of the batch in which a step ended.
fn end_of_step(run: &dyn RunHandle, step: u64) -> Result<u64, NoPoint> {
    let mut events = run.events(Start::After(0))?;
    let (mut last_seq, mut last_ended, mut has_begun) = (0, None, false);
    let mut deleted = None;
    while let Some(batch) = events.next_batch()? {
        for event in &batch {
            match (&event.body, ended_step(event)) {
                (_, Some(ended)) => last_ended = last_ended.max(Some(ended)),
                (Body::StepStarted(started), _) => has_begun |= started.step == step,
                (Body::Snapshot { state }, _) if state.steps_started >= step && !state.is_under_way(step) => {
                    deleted.get_or_insert((last_seq + 1, event.seq));
                }
                _ => {}
            }
            last_seq = event.seq;
        }
        if batch.iter().any(|event| ended_step(event) == Some(step)) {
            return Ok(last_seq);
        }
    }
    let run = run.id().to_owned();
    Err(match deleted {
        Some(events) => NoPoint::Deleted { run, step, events },
        _ if has_begun => NoPoint::Running { run, step },
        _ => NoPoint::Unknown { run, step, last: last_ended },
    })
}

/// The step that ended with an event, whether it succeeded or not.
fn ended_step(event: &Event) -> Option<u64> {
    match &event.body {
        Body::StepFinished(finished) => Some(finished.step),
        Body::StepFailed(failed) => failed.step,
        _ => None,
    }
}

impl fmt::Display for NoPoint {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Running { run, step } => write!(out, "step {step} of {run} has not ended"),
            Self::Unknown { run, step, last: Some(last) } => {
                write!(out, "{run} has no step {step}; the last that has ended is {last}")
            }
            Self::Unknown { run, step, last: None } => {
                write!(out, "{run} has no step {step}; none has ended yet")
            }
            Self::Deleted { run, step, events: (first, last) } => write!(
                out,
                "step {step} of {run} cannot be reached: the events {first} to {last} are in segments that were deleted"
            ),
            Self::Store(error) => error.fmt(out),
        }
    }
}

impl From<NoPoint> for UserError {
    fn from(error: NoPoint) -> Self {
        let message = error.to_string();
        match error {
            NoPoint::Running { run, .. } | NoPoint::Unknown { run, .. } => UserError::usage(message)
                .hint(format!("see its steps: {}", advice::command(&format!("log {run}")))),
            NoPoint::Deleted { .. } => {
                UserError::usage(message).hint("`keep_segments` in the config says how many are kept")
            }
            NoPoint::Store(error) => error.into(),
        }
    }
}

#[cfg(test)]
mod tests {
    use raymond_core::event::SnapshotLine;
    use raymond_core::evolve::evolve;

    use super::*;
    use crate::store::memory::MemoryStore;
    use crate::store::suite::opening;
    use crate::store::{JournalOptions, RunStore, RunWriter};

    /// A run of three steps with a snapshot after each.
    fn three_steps(keep_segments: Option<u32>) -> std::sync::Arc<dyn RunHandle> {
        let store = MemoryStore::default();
        let options = JournalOptions { segment_bytes: 1, keep_segments, ..JournalOptions::default() };
        let mut writer = store.create("r", options).unwrap();
        let mut state = None;
        let mut commit = |batch: &[Event]| {
            writer.commit(batch).unwrap();
            state = batch.iter().fold(state.take(), evolve);
            let run = state.as_ref().unwrap();
            writer.snapshot_if_long(SnapshotLine::of(run, run.started_at)).unwrap();
        };
        commit(&opening("r"));
        for step in 1..=3 {
            let seq = 2 * step + 1;
            let line = |seq: u64, rest: &str| {
                let text = format!(
                    r#"{{"seq":{seq},"time":"1970-01-01T00:00:00Z","run":"r","agent":"main","step":{step},"state":"A.sh",{rest}}}"#
                );
                serde_json::from_str::<Event>(&text).unwrap()
            };
            commit(&[line(seq, r#""event":"step_started","attempt":1,"visits":1,"hash":"h""#)]);
            commit(&[line(
                seq + 1,
                r#""event":"step_finished","tag":"goto","target":"A.sh","cost_usd":0.0,"attempt_cost_usd":0.0,"duration_ms":1"#,
            )]);
        }
        store.run("r").unwrap()
    }

    #[test]
    fn a_step_is_found_by_the_batch_that_ended_it() {
        let run = three_steps(None);
        for step in 1..=3 {
            let point = Point::after_step(&*run, step).unwrap();
            assert_eq!((point.seq, point.state.steps_completed), (2 * step + 2, step));
        }
        let unknown = Point::after_step(&*run, 4).unwrap_err();
        assert!(matches!(unknown, NoPoint::Unknown { last: Some(3), .. }), "{unknown}");
    }

    #[test]
    fn a_step_in_a_deleted_segment_cannot_be_reached() {
        let run = three_steps(Some(2));
        assert_eq!(Point::after_step(&*run, 3).unwrap().seq, 8);
        let deleted = Point::after_step(&*run, 1).unwrap_err().to_string();
        assert!(deleted.starts_with("step 1 of r cannot be reached: the events "), "{deleted}");
        assert!(deleted.ends_with("are in segments that were deleted"), "{deleted}");
    }
}
