//! Adding up the events of a run as a store reads them.

use raymond_core::event::{Body, Event};
use raymond_core::evolve::{evolve, restore};
use raymond_core::run::Run;

use super::error::StoreError;

/// A run that is being added up, event by event.
#[derive(Debug, Default)]
pub struct Folding {
    run: Option<Run>,
}

impl Folding {
    /// Adds the next event. The place and the line are named if it does not follow the one before.
    pub fn take(&mut self, event: Event, place: &dyn Fn() -> String, line: u64) -> Result<(), StoreError> {
        if let Some(run) = &self.run {
            check_order(run.seq, &event, place, line)?;
        }
        self.run = match event.body {
            // Not by way of `evolve`, which would copy the state. It may be very large.
            Body::Snapshot { state } => Some(restore(*state, event.seq)),
            _ => evolve(self.run.take(), &event),
        };
        Ok(())
    }

    /// The state, unless there was no start of a run.
    pub fn finish(self, place: &dyn Fn() -> String) -> Result<Run, StoreError> {
        self.run.ok_or_else(|| StoreError::NoStart { place: place() })
    }
}

/// Events are numbered without a gap. Each may be whole, and still one may be lost or be there twice.
pub(super) fn check_order(
    before: u64,
    event: &Event,
    place: &dyn Fn() -> String,
    line: u64,
) -> Result<(), StoreError> {
    if before.checked_add(1) == Some(event.seq) {
        return Ok(());
    }
    Err(StoreError::OutOfOrder { place: place(), line, before, now: event.seq })
}
