//! The first round of a recovery, tried without leaving a trace: the real one must come to the same.

use std::sync::Arc;

use raymond::run::engine::{Engine, EventStore, StoreError};
use raymond::store::{Durability, Payloads};
use raymond_core::event::{Event, SnapshotLine};
use raymond_core::input::Input;
use raymond_core::payload::Payload;
use raymond_core::run::Run;

use super::host::Host;

/// A store that forgets.
struct Forgetful(Payloads);

impl EventStore for Forgetful {
    fn keep_payload(&mut self, text: &str) -> Result<Payload, StoreError> {
        let stored = self.0.put(text).map_err(|error| StoreError(error.to_string()))?;
        Ok(Payload::Stored { payload: stored.hash, bytes: stored.bytes })
    }

    fn load_payload(&self, payload: &Payload) -> Result<String, StoreError> {
        self.0.text_of(payload).map_err(StoreError)
    }

    fn commit(&mut self, _batch: &[Event]) -> Result<(), StoreError> {
        Ok(())
    }

    fn rotate_if_long(&mut self, _snapshot: SnapshotLine<'_>) -> Result<(), StoreError> {
        Ok(())
    }
}

/// The events of the round; none where the disk makes it impossible.
pub fn rehearse(host: &Host<'_>, run: Run, input: Input) -> Option<Vec<Event>> {
    let copy = Arc::new(host.disk.copy());
    let payloads = Payloads::new(host.paths.payloads(), Durability::Process).on(copy);
    let mut engine = Engine::take_up(run, Forgetful(payloads));
    engine.wait_for_answers(!host.pauses());
    let mut library = host.library.clone();
    engine.round(host.now(), [input], &mut library).ok().map(|round| round.events)
}
