//! The output of running steps as it is written, from their debug files.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use axum::body::Bytes;
use serde::Serialize;
use tokio::time::{Instant, sleep};

use super::Server;
use super::lanes::Lane;
use super::sse::{COMMENT, HEARTBEAT, Sender, frame};
use crate::agent::registry::Backends;
use crate::agent::{Continued, DEFAULT_BACKEND, Turn, TurnDecoder, TurnEvent};
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

/// The stream of what an agent says.
const REPLY: &str = "reply";

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
            let turn = turn_of(&server, &run, step);
            let is_running = turn.is_some();
            if scans || !is_running {
                find_files(&folder, step, &mut tails, |stream| {
                    Reads::of(stream, turn.as_ref(), &server.backends)
                });
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

/// The turn that a running step takes: its backend and the conversation that it continues. Nothing if it does not run.
#[derive(Clone, Debug, Default)]
struct Taking {
    backend: Option<String>,
    session: Option<String>,
    continues: Option<String>,
}

fn turn_of(server: &Server, run: &Arc<dyn RunHandle>, step: u64) -> Option<Taking> {
    let taking = |state: &raymond_core::run::Run| {
        let mut working = state.agents.values().filter_map(|agent| Some((agent, agent.work()?)));
        let (agent, work) = working.find(|(_, work)| work.step == step)?;
        let continues = agent.session.as_ref().map(|session| session.id.clone());
        Some(Taking { backend: work.backend.clone(), session: work.session.clone(), continues })
    };
    if !super::index::holds(&**run) {
        return None;
    }
    server.index.with_run(run, taking).ok().flatten()
}

/// How the bytes of a file become text for people.
#[derive(Debug)]
enum Reads {
    /// As they are.
    Plainly,
    /// By the decoder of the agent program.
    By(Box<dyn TurnDecoder>),
}

impl Reads {
    fn of(stream: &str, turn: Option<&Taking>, backends: &Backends) -> Self {
        let name = turn.and_then(|turn| turn.backend.as_deref()).unwrap_or(DEFAULT_BACKEND);
        match backends.get(name) {
            Ok(program) if stream == REPLY && !program.prints_plain_text() => {
                let turn = turn.cloned().unwrap_or_default();
                let continues = turn.continues.map(|session| Continued { session, ..Continued::default() });
                Self::By(program.decoder(&Turn { session: turn.session, continues, ..Turn::default() }))
            }
            _ => Self::Plainly,
        }
    }
}

/// How far a file was read.
struct Tail {
    offset: u64,
    stream: &'static str,
    reads: Reads,
    has_begun: bool,
    /// The beginning of a character that is not whole yet.
    rest: Vec<u8>,
}

/// Finds the files of the step's last attempt.
fn find_files(
    folder: &Path,
    step: u64,
    tails: &mut BTreeMap<PathBuf, Tail>,
    reads: impl Fn(&'static str) -> Reads,
) {
    let attempts = kept_attempts(folder, step);
    let Some(last) = attempts.last() else { return };
    let files = [(&last.stdout, "stdout"), (&last.stderr, "stderr"), (&last.stream, REPLY)];
    for (file, stream) in files {
        let Some(file) = file else { continue };
        tails.entry(file.clone()).or_insert_with(|| Tail::new(file, stream, reads(stream)));
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
    fn new(file: &Path, stream: &'static str, reads: Reads) -> Self {
        let length = std::fs::metadata(file).map_or(0, |data| data.len());
        // What a decoder reads means something only from its beginning on.
        let offset = match reads {
            Reads::Plainly => length.saturating_sub(MOST_BEFORE),
            Reads::By(_) => 0,
        };
        Self { offset, stream, reads, has_begun: false, rest: Vec::new() }
    }

    /// The next piece of the file; nothing at its end.
    fn read_on(&mut self, file: &Path) -> Option<String> {
        let mut open: File = open_plain(file).ok()?;
        open.seek(SeekFrom::Start(self.offset)).ok()?;
        let mut read = open.take(MOST_AT_ONCE);
        let before = self.rest.len();
        let length = read.read_to_end(&mut self.rest).ok()?;
        self.offset += length as u64;
        if self.rest.len() == before {
            return None;
        }
        match &mut self.reads {
            Reads::Plainly => Some(whole_characters(&mut self.rest)),
            Reads::By(decoder) => {
                Some(decoder.feed(&std::mem::take(&mut self.rest)).iter().filter_map(said).collect())
            }
        }
    }
}

/// All but the first bytes of a character whose others are not written yet.
fn whole_characters(rest: &mut Vec<u8>) -> String {
    let end = match std::str::from_utf8(rest) {
        Err(error) if error.error_len().is_none() => error.valid_up_to(),
        _ => rest.len(),
    };
    let bytes: Vec<u8> = rest.drain(..end).collect();
    String::from_utf8_lossy(&bytes).into_owned()
}

/// What an agent says or does, as a person reads it.
fn said(event: &TurnEvent) -> Option<String> {
    match event {
        TurnEvent::Text(text) => Some(format!("{text}\n")),
        TurnEvent::ToolUse { name, .. } => Some(format!("[uses {name}]\n")),
        TurnEvent::ToolRefused { tool } => Some(format!("[{tool} was refused]\n")),
        TurnEvent::Retrying { error, .. } => Some(format!("[tries again: {error}]\n")),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::agent::suite::{of_kind, reply_of, samples};

    /// Whatever the program says and uses in a recorded turn is shown, as its file grows.
    #[test]
    fn the_output_of_every_kind_of_program_is_shown() {
        for kind in ["acp", "claude", "codex", "command", "copilot", "gemini", "opencode", "pi", "scripted"] {
            let program = of_kind(kind);
            let (mut shown, mut all) = (0, 0);
            for sample in samples(kind) {
                let folder = tempfile::tempdir().unwrap();
                let file = folder.path().join("stream");
                let (half, whole) = (sample.stdout.len() / 2, &sample.stdout);
                let reads = match program.prints_plain_text() {
                    true => Reads::Plainly,
                    false => Reads::By(program.decoder(&Turn::default())),
                };
                let mut tail = Tail::new(&file, REPLY, reads);
                let mut told = String::new();
                for written in [&whole[..half], &whole[..]] {
                    std::fs::write(&file, written).unwrap();
                    while let Some(text) = tail.read_on(&file) {
                        told.push_str(&text);
                    }
                }
                let reply = reply_of(&*program, &sample).unwrap_or_default();
                let reply = reply.trim();
                if reply.is_empty() {
                    continue;
                }
                all += 1;
                shown += usize::from(told.contains(reply));
            }
            // Some print nothing but a report at their end, give their reply to a tool, or do not end their last line.
            assert!(shown * 2 >= all && shown > 0, "of {all} replies of {kind}, {shown} were shown");
        }
    }
}
