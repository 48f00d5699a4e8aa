//! The event stream for programs: one JSON object per line on stdout.

#![warn(clippy::wildcard_enum_match_arm, reason = "a new event has to be answered here")]

use std::io::Write;

use raymond_core::event::Event;
use raymond_core::payload::Payload;
use raymond_core::run::Run;

use super::View;
use crate::store::Payloads;
use crate::view::output::Output;
use crate::view::text::clean_json;

pub struct JsonLines {
    out: Output,
    payloads: Payloads,
}

impl JsonLines {
    pub fn new(out: Output, payloads: Payloads) -> Self {
        Self { out, payloads }
    }
}

impl View for JsonLines {
    fn event(&mut self, _run: &Run, event: &Event) {
        if let Some(line) = event_line(event, &self.payloads) {
            // An error of the stream is reported when the run has ended.
            let _ = writeln!(self.out, "{line}");
        }
    }
}

/// An event as a line of JSON, with long texts inserted. A payload that cannot be read stays a reference.
pub fn event_line(event: &Event, payloads: &Payloads) -> Option<String> {
    let mut event = event.clone();
    for payload in event.body.payloads_mut() {
        if let Payload::Stored { payload: hash, .. } = payload
            && let Ok(text) = payloads.get(hash)
        {
            *payload = Payload::Inline(text);
        }
    }
    serde_json::to_string(&event).ok().map(clean_json)
}
