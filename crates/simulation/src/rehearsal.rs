//! The first round of a recovery, tried without changing anything: the real one must have the same result.

use std::collections::BTreeMap;

use raymond::run::engine::Engine;
use raymond::store::{Payloads, RunWriter, StoreError, reference_to};
use raymond_core::event::{Event, SnapshotLine};
use raymond_core::input::Input;
use raymond_core::payload::Payload;
use raymond_core::run::Run;

use crate::host::Host;

/// A writer that stores nothing.
#[derive(Debug)]
struct Forgetful {
    stored: Payloads,
    kept: BTreeMap<String, String>,
}

impl RunWriter for Forgetful {
    fn incarnation(&self) -> &str {
        "rehearsal"
    }

    fn keep_payload(&mut self, text: &str) -> Result<Payload, StoreError> {
        let payload = reference_to(text)?;
        if let Payload::Stored { payload: hash, .. } = &payload {
            self.kept.insert(hash.clone(), text.to_owned());
        }
        Ok(payload)
    }

    fn load_payload(&self, payload: &Payload) -> Result<String, StoreError> {
        match payload {
            Payload::Stored { payload: hash, .. } if self.kept.contains_key(hash) => {
                Ok(self.kept[hash].clone())
            }
            other => self.stored.text_of(other),
        }
    }

    fn commit(&mut self, _batch: &[Event]) -> Result<(), StoreError> {
        Ok(())
    }

    fn rewind(&mut self, _start: &Event) -> Result<(), StoreError> {
        Ok(())
    }

    fn snapshot_if_long(&mut self, _snapshot: SnapshotLine<'_>) -> Result<(), StoreError> {
        Ok(())
    }
}

/// The events of the round; `None` if a payload cannot be read.
pub fn rehearse(host: &Host<'_>, run: Run, input: Input) -> Option<Vec<Event>> {
    let writer = Forgetful { stored: host.home.look().payloads(), kept: BTreeMap::new() };
    let mut engine = Engine::take_up(run, writer);
    engine.wait_for_answers(!host.pauses());
    let mut library = host.library.clone();
    engine.round(host.now(), [input], &mut library).ok().map(|round| round.events)
}
