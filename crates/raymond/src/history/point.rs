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
    /// The events of the step were deleted; the events from the first number to the second are gone.
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
                (Body::Snapshot { state }, _) if state.steps_started >= step => {
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
        Some(events) if !has_begun => NoPoint::Deleted { run, step, events },
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
