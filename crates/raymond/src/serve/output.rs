//! The output of running steps as it is written, from their debug files.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use axum::body::Bytes;
use serde::Serialize;
use serde_json::Value;
use tokio::time::{Instant, sleep};

use super::Server;
use super::lanes::Lane;
use super::sse::{COMMENT, HEARTBEAT, Sender, frame};
use crate::files::open_plain;
use crate::store::RunHandle;
use crate::view::debug::kept_attempts;

/// How often the files are looked at.
const LOOK_EVERY: Duration = Duration::from_millis(100);
/// How often new files are looked for. A step rarely begins another attempt, and there may be thousands of files.
const LOOK_FOR_FILES_EVERY: Duration = Duration::from_secs(1);
/// How much of what was written before is sent.
const MOST_BEFORE: u64 = 256 * 1024;
/// How much is sent at once.
const MOST_AT_ONCE: u64 = 64 * 1024;

/// A piece of output.
#[derive(Serialize)]
struct Piece<'a> {
    run: &'a str,
    step: u64,
    /// `stdout`, `stderr`, or `reply` for what an agent says.
    stream: &'static str,
    text: &'a str,
    /// Whether this replaces what was sent before: the stream begins, or the step begins another attempt.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    start: bool,
}

/// Sends the output of a step until it ends. `alone` says whether the stream ends with it.
pub async fn follow_step(
    server: Arc<Server>,
    run: Arc<dyn RunHandle>,
    step: u64,
    alone: bool,
    sender: Sender,
) {
    let folder = server.debug_folder(run.id());
    let mut tails: BTreeMap<PathBuf, Tail> = BTreeMap::new();
    let mut last_sent = Instant::now();
    let mut last_scan: Option<Instant> = None;
    loop {
        let scans = tails.is_empty() || last_scan.is_none_or(|last| last.elapsed() > LOOK_FOR_FILES_EVERY);
        if scans {
            last_scan = Some(Instant::now());
        }
        let worker = (Arc::clone(&server), Arc::clone(&run), folder.clone(), tails);
        let looked = server.lanes.work(Lane::Streams, move || {
            let (server, run, folder, mut tails) = worker;
            // First whether it runs, then what it wrote: so nothing is missed at its end.
            let is_running = is_running(&server, &run, step);
            if scans || !is_running {
                find_files(&folder, step, &mut tails);
            }
            let text = look(run.id(), step, &mut tails);
            (tails, text, is_running)
        });
        let Ok((known, text, is_running)) = looked.await else { return };
        tails = known;
        let is_over = text.is_empty() && !is_running;
        let mut send = text;
        if is_over && alone {
            send.push_str(&frame(None, Some("end"), &format!("{{\"step\":{step}}}")));
        } else if send.is_empty() && alone && last_sent.elapsed() > HEARTBEAT {
            send.push_str(COMMENT);
        }
        if !send.is_empty() {
            last_sent = Instant::now();
            if sender.send(Bytes::from(send)).await.is_err() {
                return;
            }
        }
        if is_over {
            return;
        }
        tokio::select! {
            () = sender.closed() => return,
            () = sleep(LOOK_EVERY) => {}
        }
    }
}

fn is_running(server: &Server, run: &Arc<dyn RunHandle>, step: u64) -> bool {
    let is_held = super::index::holds(&**run);
    let works = |state: &raymond_core::run::Run| {
        state.agents.values().any(|agent| agent.work().is_some_and(|work| work.step == step))
    };
    is_held && server.index.with_run(run, works).unwrap_or(false)
}

/// How far a file was read.
struct Tail {
    offset: u64,
    stream: &'static str,
    has_begun: bool,
    /// The beginning of a line or character that is not whole yet.
    rest: Vec<u8>,
}

/// Finds the files of the step's last attempt.
fn find_files(folder: &Path, step: u64, tails: &mut BTreeMap<PathBuf, Tail>) {
    let attempts = kept_attempts(folder, step);
    let Some(last) = attempts.last() else { return };
    let files = [(&last.stdout, "stdout"), (&last.stderr, "stderr"), (&last.stream, "reply")];
    for (file, stream) in files {
        let Some(file) = file else { continue };
        tails.entry(file.clone()).or_insert_with(|| {
            let length = std::fs::metadata(file).map_or(0, |data| data.len());
            Tail { offset: length.saturating_sub(MOST_BEFORE), stream, has_begun: false, rest: Vec::new() }
        });
    }
}

/// What was written since the last look.
fn look(run: &str, step: u64, tails: &mut BTreeMap<PathBuf, Tail>) -> String {
    let mut text = String::new();
    for (file, tail) in tails {
        while let Some(written) = tail.read_on(file) {
            let start = !std::mem::replace(&mut tail.has_begun, true);
            let piece = Piece { run, step, stream: tail.stream, text: &written, start };
            let data = serde_json::to_string(&piece).unwrap_or_default();
            text.push_str(&frame(None, Some("output"), &data));
        }
    }
    text
}

impl Tail {
    /// The next piece of the file; nothing at its end.
    fn read_on(&mut self, file: &Path) -> Option<String> {
        let mut open: File = open_plain(file).ok()?;
        open.seek(SeekFrom::Start(self.offset)).ok()?;
        let before = self.rest.len();
        open.take(MOST_AT_ONCE).read_to_end(&mut self.rest).ok()?;
        let read = self.rest.len() - before;
        self.offset += read as u64;
        if read == 0 {
            return None;
        }
        match self.stream {
            "reply" => Some(self.whole_lines().lines().filter_map(said).collect()),
            _ => Some(self.whole_characters()),
        }
    }

    fn whole_lines(&mut self) -> String {
        let end = self.rest.iter().rposition(|byte| *byte == b'\n').map_or(0, |place| place + 1);
        let lines: Vec<u8> = self.rest.drain(..end).collect();
        String::from_utf8_lossy(&lines).into_owned()
    }

    /// All but the first bytes of a character whose others are not written yet.
    fn whole_characters(&mut self) -> String {
        let end = match std::str::from_utf8(&self.rest) {
            Err(error) if error.error_len().is_none() => error.valid_up_to(),
            _ => self.rest.len(),
        };
        let bytes: Vec<u8> = self.rest.drain(..end).collect();
        String::from_utf8_lossy(&bytes).into_owned()
    }
}

/// What an agent says or does in a line of its program's stream, as a person reads it.
pub fn said(line: &str) -> Option<String> {
    let value: Value = serde_json::from_str(line).ok()?;
    let content = value.get("message")?.get("content")?.as_array()?;
    let is_agent = value.get("type").and_then(Value::as_str) == Some("assistant");
    let parts = content.iter().filter(|_| is_agent).filter_map(|part| {
        let text = part.get("text").and_then(Value::as_str).map(str::to_owned);
        let tool = part.get("name").and_then(Value::as_str);
        text.or_else(|| tool.map(|name| format!("[uses {name}]")))
    });
    let text: String = parts.map(|part| part + "\n").collect();
    (!text.is_empty()).then_some(text)
}
