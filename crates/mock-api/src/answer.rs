//! Sends an answer, as one body or as a stream of events.

use std::io;
use std::net::{Shutdown, TcpStream};
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use serde_json::{Value, json};

use crate::Shared;
use crate::http::{open_stream, send_chunk, send_json, wait_for_hangup};
use crate::price::Usage;
use crate::reply::{Block, Manner, Reply};

pub(crate) struct Answer<'a> {
    pub(crate) writer: &'a mut TcpStream,
    pub(crate) shared: &'a Shared,
    /// The number of the request.
    pub(crate) number: usize,
    pub(crate) model: String,
    pub(crate) reply: Reply,
}

impl Answer<'_> {
    /// Sends it, and returns whether the connection can be used again.
    pub(crate) fn send(&mut self, is_streamed: bool) -> io::Result<bool> {
        match &self.reply.manner {
            Manner::Refused { status, kind, message } => {
                let error = json!({ "type": "error", "error": { "type": kind, "message": message } });
                send_json(self.writer, *status, &self.reply.headers, &error)?;
                Ok(true)
            }
            Manner::Silent => {
                wait_for_hangup(self.writer, self.shared)?;
                Ok(false)
            }
            _ if is_streamed => self.stream(),
            _ => {
                let mut message = self.message(self.usage().output);
                message["content"] = self.reply.blocks.iter().map(content).collect();
                message["stop_reason"] = self.reply.stop_reason().into();
                self.shared.used(self.number, self.usage(), true);
                send_json(self.writer, 200, &self.reply.headers, &message)?;
                Ok(true)
            }
        }
    }

    fn usage(&self) -> Usage {
        self.reply.usage.unwrap_or_default()
    }

    fn message(&self, output: u64) -> Value {
        json!({
            "id": unique("msg"), "type": "message", "role": "assistant", "model": self.model, "content": [],
            "stop_reason": null, "stop_sequence": null, "usage": self.usage().json(output),
        })
    }

    fn stream(&mut self) -> io::Result<bool> {
        let usage = self.usage();
        open_stream(self.writer, &self.reply.headers)?;
        let start = self.message(1);
        self.shared.used(self.number, Usage { output: 1, ..usage }, false);
        self.event(json!({ "type": "message_start", "message": start }))?;
        let blocks = self.reply.blocks.clone();
        for (index, block) in blocks.iter().enumerate() {
            let mut empty = content(block);
            let deltas = deltas(block, &mut empty);
            self.event(json!({ "type": "content_block_start", "index": index, "content_block": empty }))?;
            for delta in deltas {
                self.event(json!({ "type": "content_block_delta", "index": index, "delta": delta }))?;
                if !self.goes_on()? {
                    return Ok(false);
                }
            }
            self.event(json!({ "type": "content_block_stop", "index": index }))?;
        }
        // From here on the answer counts as given, even if the client disconnects before its end.
        self.shared.used(self.number, usage, true);
        self.event(json!({
            "type": "message_delta", "usage": { "output_tokens": usage.output },
            "delta": { "stop_reason": self.reply.stop_reason(), "stop_sequence": null },
        }))?;
        self.event(json!({ "type": "message_stop" }))?;
        send_chunk(self.writer, "")?;
        Ok(true)
    }

    /// Waits, fails or continues after a piece, and returns whether there is another piece.
    fn goes_on(&mut self) -> io::Result<bool> {
        match self.reply.manner.clone() {
            Manner::Whole | Manner::Silent | Manner::Refused { .. } => return Ok(true),
            Manner::Slow(pause) => {
                thread::sleep(pause);
                return Ok(true);
            }
            Manner::Stuck => wait_for_hangup(self.writer, self.shared)?,
            Manner::Dropped => {
                // The client must be able to read the sent part before the connection is closed.
                thread::sleep(Duration::from_millis(200));
                self.writer.shutdown(Shutdown::Both)?;
            }
            Manner::Broken { kind, message } => {
                self.event(json!({ "type": "error", "error": { "type": kind, "message": message } }))?;
                send_chunk(self.writer, "")?;
            }
        }
        Ok(false)
    }

    fn event(&mut self, event: Value) -> io::Result<()> {
        let name = event["type"].as_str().unwrap_or_default();
        send_chunk(self.writer, &format!("event: {name}\ndata: {event}\n\n"))
    }
}

fn content(block: &Block) -> Value {
    match block {
        Block::Text(text) => json!({ "type": "text", "text": text }),
        Block::Tool { name, input } => {
            json!({ "type": "tool_use", "id": unique("toolu"), "name": name, "input": input })
        }
    }
}

/// Splits a block into pieces; `empty` becomes the start of the block.
fn deltas(block: &Block, empty: &mut Value) -> Vec<Value> {
    match block {
        Block::Text(text) => {
            empty["text"] = "".into();
            let characters: Vec<char> = text.chars().collect();
            let pieces = characters.chunks(characters.len().div_ceil(4).max(1));
            pieces
                .map(|piece| json!({ "type": "text_delta", "text": piece.iter().collect::<String>() }))
                .collect()
        }
        Block::Tool { input, .. } => {
            empty["input"] = json!({});
            vec![json!({ "type": "input_json_delta", "partial_json": input.to_string() })]
        }
    }
}

/// The program treats two messages with the same id as one, even in different conversations.
fn unique(kind: &str) -> String {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    let time = std::time::UNIX_EPOCH.elapsed().unwrap_or_default().as_nanos();
    format!("{kind}_{time:x}{:04x}", COUNT.fetch_add(1, Ordering::Relaxed))
}
