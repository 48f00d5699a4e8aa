//! The event stream for programs: one JSON object a line on stdout.

#![warn(clippy::wildcard_enum_match_arm, reason = "a new event has to be answered here")]

use std::io::Write;

use raymond_core::event::Event;
use raymond_core::payload::Payload;

use super::Observer;
use crate::store::Payloads;
use crate::view::output::Output;

pub struct JsonLines {
    out: Output,
    payloads: Payloads,
}

impl JsonLines {
    pub fn new(out: Output, payloads: Payloads) -> Self {
        Self { out, payloads }
    }
}

impl Observer for JsonLines {
    fn event(&mut self, event: &Event) {
        if let Some(line) = event_line(event, &self.payloads) {
            // What goes wrong with the stream is told when the run has ended.
            let _ = writeln!(self.out, "{line}");
        }
    }
}

/// An event as others see it: long texts are in it, and a payload that is lost is left as its reference.
pub fn event_line(event: &Event, payloads: &Payloads) -> Option<String> {
    let mut event = event.clone();
    for payload in event.body.payloads_mut() {
        if let Payload::Stored { payload: hash, .. } = payload
            && let Ok(text) = payloads.get(hash)
        {
            *payload = Payload::Inline(text);
        }
    }
    serde_json::to_string(&event).ok()
}
