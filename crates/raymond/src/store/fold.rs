//! Adding up the events of a run as a store reads them.

use raymond_core::event::{Body, Event, Origin};
use raymond_core::evolve::{evolve, restore};
use raymond_core::run::Run;

use super::error::StoreError;
use super::lineage::origin_of;

/// Finds the state in which the history of a run leaves its origin.
pub(super) type FindOrigin<'a> = &'a dyn Fn(&Origin) -> Result<Run, StoreError>;

/// A run that is being added up, event by event.
#[derive(Default)]
pub struct Folding<'a> {
    run: Option<Run>,
    /// Where the state before the first event is, if that event names an origin.
    find_origin: Option<FindOrigin<'a>>,
}

impl<'a> Folding<'a> {
    /// For the events of one journal, without those of its origins.
    pub fn of_journal(find_origin: FindOrigin<'a>) -> Self {
        Self { run: None, find_origin: Some(find_origin) }
    }

    /// Adds the next event. The place and the line are named if it does not follow the one before.
    pub fn take(&mut self, event: Event, place: &dyn Fn() -> String, line: u64) -> Result<(), StoreError> {
        if let Some(run) = &self.run {
            check_order(run.seq, &event, place, line)?;
        } else if let (Some(origin), Some(find)) = (origin_of(&event), self.find_origin) {
            self.run = Some(find(origin)?);
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
    // What comes before the start of a branch is in another journal. In a run that was rewound, numbers are left out.
    let begins_part = origin_of(event).is_some() && before < event.seq;
    if begins_part || before.checked_add(1) == Some(event.seq) {
        return Ok(());
    }
    Err(StoreError::OutOfOrder { place: place(), line, before, now: event.seq })
}
