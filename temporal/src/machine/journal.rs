//! The journal of a run in memory, and the long texts that no store of blobs has.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use raymond::store::{PayloadSource, Room, RunWriter, StoreError, reference_to};
use raymond_core::event::{Event, SnapshotLine};
use raymond_core::limits::MAX_INLINE_PAYLOAD_BYTES;
use raymond_core::payload::Payload;
use raymond_core::run::Run;

use super::PART_BYTES;
use crate::messages::Part;
use crate::packed::{MOST_BYTES, Packed};

/// What is left in a message for the rest of an order, beside the text that the step is handed.
const ROOM_FOR_ORDER: usize = 200_000;

/// The journal of a run in memory. It can be made again from the engine's history, so nothing of it need be durable.
#[derive(Clone, Debug, Default)]
pub struct Journal {
    kept: Arc<Mutex<Kept>>,
    /// Whether long texts lie in the store of blobs.
    keeps_texts: bool,
}

#[derive(Debug, Default)]
pub struct Kept {
    pub batches: Vec<Vec<Event>>,
    pub bytes: usize,
    /// The number of the next event.
    pub next: u64,
    /// The long texts that are in no store of blobs: all of them in a run of an earlier version.
    pub payloads: BTreeMap<String, String>,
}

impl Kept {
    pub fn first(&self) -> u64 {
        self.batches.first().and_then(|batch| batch.first()).map_or(self.next, |event| event.seq)
    }

    /// The first of these batches, with the texts that they name.
    pub fn part(&self, batches: impl Iterator<Item = Vec<Event>>) -> Part {
        let mut part = Part::default();
        let mut bytes = 0;
        for batch in batches {
            bytes += self.length(&batch);
            if bytes > PART_BYTES && !part.batches.is_empty() {
                break;
            }
            part.payloads.extend(self.texts_of(&batch).into_iter().cloned());
            part.batches.push(batch);
        }
        part
    }

    /// About how long a batch is as text, with the texts that it names.
    pub fn length(&self, batch: &[Event]) -> usize {
        let events = batch.iter().map(|event| serde_json::to_string(event).map_or(0, |text| text.len()));
        events.sum::<usize>() + self.texts_of(batch).into_iter().map(String::len).sum::<usize>()
    }

    fn texts_of(&self, batch: &[Event]) -> Vec<&String> {
        let mut batch = batch.to_vec();
        let payloads = batch.iter_mut().flat_map(|event| event.body.payloads_mut());
        payloads
            .filter_map(|payload| match payload {
                Payload::Stored { payload, .. } => self.payloads.get(payload),
                Payload::Inline(_) => None,
            })
            .collect()
    }
}

impl Journal {
    pub fn new(keeps_texts: bool) -> Self {
        Self { keeps_texts, ..Self::default() }
    }

    pub fn kept(&self) -> MutexGuard<'_, Kept> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The long texts that the run may still hand on. Those that only its earlier events name stay with these.
    pub fn payloads_in(&self, run: &Run) -> anyhow::Result<BTreeMap<String, String>> {
        let run = serde_json::to_string(run)?;
        let mut payloads = self.kept().payloads.clone();
        payloads.retain(|hash, _| run.contains(hash));
        Ok(payloads)
    }

    /// Those of the texts that are here.
    pub fn texts_of<'p>(&self, payloads: impl Iterator<Item = &'p Payload>) -> BTreeMap<String, String> {
        let kept = self.kept();
        payloads
            .filter_map(|payload| match payload {
                Payload::Stored { payload: hash, .. } => {
                    kept.payloads.get(hash).map(|text| (hash.clone(), text.clone()))
                }
                Payload::Inline(_) => None,
            })
            .collect()
    }
}

impl PayloadSource for Journal {
    fn get(&self, hash: &str) -> Result<String, StoreError> {
        let text = self.kept().payloads.get(hash).cloned();
        text.ok_or_else(|| StoreError::PayloadElsewhere { hash: hash.to_owned() })
    }
}

impl RunWriter for Journal {
    fn incarnation(&self) -> &str {
        "engine"
    }

    fn keep_payload(&mut self, text: &str) -> Result<Payload, StoreError> {
        let reference = reference_to(text)?;
        if let Payload::Stored { payload, .. } = &reference {
            self.kept().payloads.insert(payload.clone(), text.to_owned());
        }
        Ok(reference)
    }

    fn load_payload(&self, payload: &Payload) -> Result<String, StoreError> {
        match payload {
            Payload::Inline(text) => Ok(text.clone()),
            Payload::Stored { payload, .. } => self.get(payload),
        }
    }

    fn room_for(&self, text: &str) -> Room {
        let fits = |packed: Packed<String>| packed.bytes() <= MOST_BYTES - ROOM_FOR_ORDER;
        if text.len() <= MAX_INLINE_PAYLOAD_BYTES {
            Room::Here
        } else if self.keeps_texts {
            Room::Elsewhere
        } else if text.len() <= PART_BYTES || Packed::new(&text.to_owned()).is_ok_and(fits) {
            Room::Here
        } else {
            Room::Nowhere
        }
    }

    fn commit(&mut self, batch: &[Event]) -> Result<(), StoreError> {
        let mut kept = self.kept();
        kept.next = batch.last().map_or(kept.next, |event| event.seq + 1);
        // The reports of several steps may be in one batch, and each of them may fill a message.
        let (mut piece, mut bytes) = (Vec::new(), 0);
        for event in batch {
            let length = kept.length(std::slice::from_ref(event));
            if bytes + length > PART_BYTES && !piece.is_empty() {
                kept.batches.push(std::mem::take(&mut piece));
                bytes = 0;
            }
            piece.push(event.clone());
            bytes += length;
            kept.bytes += length;
        }
        kept.batches.push(piece);
        Ok(())
    }

    fn rewind(&mut self, start: &Event) -> Result<(), StoreError> {
        self.commit(std::slice::from_ref(start))
    }

    fn snapshot_if_long(&mut self, _: SnapshotLine<'_>) -> Result<(), StoreError> {
        Ok(())
    }
}
