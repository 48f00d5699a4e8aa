//! Reads output that is one JSON object a line, for programs whose turn is told by such events.

use std::fmt;

use serde_json::Value;

use super::ending::after_skipping;
use super::lines::{Line, Lines};
use super::{TurnDecoder, TurnEnding, TurnEvent, TurnFailure, TurnReport};
use crate::process::Input;

/// A longer message is cut, so that memory is bounded.
const LONGEST_MESSAGE: usize = 16 * 1024 * 1024;

/// What a program's events mean.
pub(super) trait EventReader: fmt::Debug + Send {
    fn event(&mut self, event: &Value) -> Vec<TurnEvent>;

    /// Whether the turn is over.
    fn is_final(&self) -> bool;

    /// See [`TurnDecoder::feed_stderr`].
    fn stderr(&mut self, _text: &mut Vec<u8>) -> Vec<TurnEvent> {
        Vec::new()
    }

    /// See [`TurnDecoder::waits_for_service`].
    fn waits_for_service(&self) -> bool {
        false
    }

    fn input(&mut self) -> Input {
        Input::default()
    }

    fn cost_so_far(&self) -> f64 {
        0.0
    }

    /// See [`TurnDecoder::model`].
    fn model(&self) -> Option<&str> {
        None
    }

    fn finish(self, ending: TurnEnding, stderr: &str) -> Result<TurnReport, Box<TurnFailure>>;
}

/// Splits output into events for an [`EventReader`].
#[derive(Debug)]
pub(super) struct EventDecoder<R> {
    lines: Lines,
    reader: R,
}

impl<R> EventDecoder<R> {
    pub(super) fn new(reader: R) -> Self {
        Self { lines: Lines::default(), reader }
    }
}

impl<R: EventReader> EventDecoder<R> {
    fn line(&mut self, line: Line) -> Vec<TurnEvent> {
        match line {
            Line::Event(event) => self.reader.event(&event),
            Line::Unreadable(start) => vec![TurnEvent::Unreadable(start)],
        }
    }
}

impl<R: EventReader> TurnDecoder for EventDecoder<R> {
    fn feed(&mut self, bytes: &[u8]) -> Vec<TurnEvent> {
        let lines = self.lines.feed(bytes);
        lines.into_iter().flat_map(|line| self.line(line)).collect()
    }

    fn close(&mut self) -> Vec<TurnEvent> {
        self.lines.end_line().map(|line| self.line(line)).unwrap_or_default()
    }

    fn is_final(&self) -> bool {
        self.reader.is_final()
    }

    fn feed_stderr(&mut self, text: &mut Vec<u8>) -> Vec<TurnEvent> {
        self.reader.stderr(text)
    }

    fn waits_for_service(&self) -> bool {
        self.reader.waits_for_service()
    }

    fn input(&mut self) -> Input {
        self.reader.input()
    }

    fn cost_so_far(&self) -> f64 {
        self.reader.cost_so_far()
    }

    fn model(&self) -> Option<&str> {
        self.reader.model()
    }

    fn finish(self: Box<Self>, ending: TurnEnding, stderr: &str) -> Result<TurnReport, Box<TurnFailure>> {
        let has_skipped = self.lines.has_skipped();
        self.reader.finish(ending, stderr).map_err(|failure| after_skipping(has_skipped, failure))
    }
}

/// The text of a field, or nothing.
pub(super) fn text<'a>(event: &'a Value, pointer: &str) -> &'a str {
    event.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}

/// The count in a field, or 0.
pub(super) fn count(event: &Value, pointer: &str) -> u64 {
    event.pointer(pointer).and_then(Value::as_u64).unwrap_or(0)
}

/// An amount in a field that can be one.
pub(super) fn amount(event: &Value, pointer: &str) -> f64 {
    let amount = event.pointer(pointer).and_then(Value::as_f64).unwrap_or(0.0);
    if amount.is_finite() && amount >= 0.0 { amount } else { 0.0 }
}

/// Adds to a message, up to the longest.
pub(super) fn append(message: &mut String, more: &str) {
    if message.len() + more.len() <= LONGEST_MESSAGE {
        message.push_str(more);
    }
}

/// What to show of a tool's arguments.
pub(super) fn summary(arguments: &Value) -> String {
    const LONGEST: usize = 200;
    let telling = ["command", "file_path", "filePath", "path", "pattern", "url", "query"];
    let found = telling.iter().find_map(|name| arguments.get(*name)?.as_str());
    super::lines::shortened(found.unwrap_or_default(), LONGEST)
}
