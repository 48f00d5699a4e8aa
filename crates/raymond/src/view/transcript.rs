//! A step as a person reads it: what was sent, which tools were used, what came back, and where it led.
//!
//! The journal has messages, costs and transitions of every step; prompts, tool calls and the output of scripts are in
//! debug files, which may be gone. What is not kept is said so.
//!
//! Bound: of each debug file, the first [`MOST_SHOWN_BYTES`] are read.

use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

use raymond_core::payload::Payload;
use raymond_core::snapshot::FilesSnapshot;
use serde_json::{Map, Value};

use super::debug::{KeptFiles, StepName, shared_files};
use super::steps::{Attempt, AttemptEnd, Outcome, Step};
use super::text::{clean, indented, local_time, one_line};
use super::tokens::{fullness, in_words};
use super::wording::{BAD, BOLD, DIM, GOOD, NOTE, led_to, titled, took, who};
use crate::agent::registry::Backends;
use crate::agent::{Turn, TurnEvent};
use crate::files::open_plain;
use crate::git::snapshots::diff;
use crate::store::Payloads;

/// How much of a file is shown.
const MOST_SHOWN_BYTES: u64 = 1024 * 1024;
/// How much of a stream is searched for tool calls.
const MOST_STREAM_BYTES: u64 = 64 * 1024 * 1024;
/// How much of the changes of a step is shown.
const MOST_DIFF_BYTES: usize = 256 * 1024;
/// How much of a tool call is shown.
const TOOL_CHARS: usize = 200;

/// Where the texts of steps are, and how much is told.
pub struct Transcript {
    /// The folder of all debug files, if there is one.
    pub debug: Option<PathBuf>,
    /// The run whose steps they are. Those that it has in common with another run may have their files there.
    pub run: String,
    pub payloads: Payloads,
    pub backends: Backends,
    /// Whether sessions, commands and environments are told, too.
    pub has_details: bool,
}

impl Transcript {
    pub fn write(&self, out: &mut impl Write, step: &Step) -> io::Result<()> {
        let cost = step.cost().filter(|cost| !cost.is_zero()).map(|cost| format!(" {cost}"));
        let time = step.duration_ms().map(|milliseconds| format!("  {}", took(milliseconds)));
        writeln!(
            out,
            "{BOLD}step {}{BOLD:#}  {}{} {}{DIM}{}{}{DIM:#}",
            step.number,
            who(&step.agent),
            titled(step.title.as_deref()),
            clean(step.state.as_str()),
            time.unwrap_or_default(),
            cost.unwrap_or_default()
        )?;
        if self.has_details {
            write_details(out, step)?;
        }
        for attempt in &step.attempts {
            self.write_attempt(out, step, attempt)?;
        }
        if step.attempts.is_empty() {
            note(out, "its beginning is in a part of the journal that was deleted")?;
        }
        write_outcome(out, step)?;
        if self.has_details {
            write_changes(out, step)?;
        }
        writeln!(out)
    }

    fn write_attempt(&self, out: &mut impl Write, step: &Step, attempt: &Attempt) -> io::Result<()> {
        let name =
            StepName { agent: &step.agent, state: &step.state, step: step.number, attempt: attempt.number };
        let kept = self.debug.as_ref().map(|debug| shared_files(debug, &self.run, &step.run, name));
        let kept = kept.unwrap_or_default();
        if step.attempts.len() > 1 {
            writeln!(out, "  {NOTE}attempt {}{NOTE:#}", attempt.number)?;
        }
        let meta = kept.meta.as_deref().filter(|_| self.has_details).and_then(read_meta);
        if self.has_details {
            write_program(out, attempt, meta.as_ref())?;
        }
        match step.state.kind().is_prompt() {
            true => self.write_turn(out, attempt, &kept)?,
            false => {
                write_file(out, "output", kept.stdout.as_deref())?;
                if kept.stderr.as_deref().is_some_and(has_text) {
                    write_file(out, "stderr", kept.stderr.as_deref())?;
                }
            }
        }
        if let Some(Value::Object(environment)) = meta.as_ref().and_then(|meta| meta.get("environment")) {
            write_environment(out, environment)?;
        }
        match &attempt.end {
            AttemptEnd::Open | AttemptEnd::Final => Ok(()),
            AttemptEnd::Reminded { problem } => {
                writeln!(out, "  {NOTE}reminded{NOTE:#}: {}", indented(problem))
            }
            AttemptEnd::Retried { error } => {
                writeln!(out, "  {NOTE}tried again{NOTE:#}: {}", indented(error))
            }
            AttemptEnd::Limited { error } => {
                writeln!(out, "  {NOTE}usage limit{NOTE:#}: {}", indented(error))
            }
        }
    }

    fn write_turn(&self, out: &mut impl Write, attempt: &Attempt, kept: &KeptFiles) -> io::Result<()> {
        write_file(out, "prompt", kept.prompt.as_deref())?;
        match &kept.stream {
            Some(stream) => {
                let tools = self.tools_in(stream, attempt.backend.as_deref());
                if !tools.is_empty() {
                    heading(out, "tools")?;
                    tools.iter().try_for_each(|tool| writeln!(out, "    {tool}"))?;
                }
            }
            None => note(out, "tool calls are not kept")?,
        }
        match &attempt.message {
            Some(message) => self.write_message(out, message),
            None if matches!(attempt.end, AttemptEnd::Open) => Ok(()),
            None => note(out, "there was no reply"),
        }
    }

    fn write_message(&self, out: &mut impl Write, message: &Payload) -> io::Result<()> {
        match self.payloads.text_of(message) {
            Ok(text) => {
                heading(out, "reply")?;
                write_text(out, &text)
            }
            Err(error) => note(out, &format!("the reply cannot be read: {error}")),
        }
    }

    /// One line for each tool that the agent used, from the stream of its program.
    fn tools_in(&self, stream: &Path, backend: Option<&str>) -> Vec<String> {
        let Some(program) = self.backends.get(backend.unwrap_or(crate::agent::DEFAULT_BACKEND)).ok() else {
            return Vec::new();
        };
        let Ok(file) = open_plain(stream) else { return Vec::new() };
        let mut file = file.take(MOST_STREAM_BYTES);
        let mut decoder = program.decoder(&Turn::default());
        let mut piece = vec![0; 64 * 1024];
        let mut tools = Vec::new();
        let mut add = |events: Vec<TurnEvent>| {
            tools.extend(events.iter().filter_map(|event| match event {
                TurnEvent::ToolUse { name, summary } => {
                    Some(one_line(&format!("{name} {summary}"), TOOL_CHARS))
                }
                TurnEvent::ToolRefused { tool } => Some(one_line(&format!("{tool} was refused"), TOOL_CHARS)),
                _ => None,
            }));
        };
        while let Ok(length @ 1..) = file.read(&mut piece) {
            add(decoder.feed(&piece[..length]));
        }
        add(decoder.close());
        tools
    }
}

fn write_details(out: &mut impl Write, step: &Step) -> io::Result<()> {
    if let Some(started) = step.started_at {
        writeln!(out, "  {DIM}started{DIM:#}   {}", local_time(started))?;
    }
    match &step.cwd {
        Some(cwd) => writeln!(out, "  {DIM}folder{DIM:#}    {}", indented(cwd)),
        None => Ok(()),
    }
}

/// What is known about the program of an attempt: its session from the journal, the rest from its meta file.
fn write_program(
    out: &mut impl Write,
    attempt: &Attempt,
    meta: Option<&Map<String, Value>>,
) -> io::Result<()> {
    let mut fact = |name: &str, value: &str| writeln!(out, "  {DIM}{name:<9}{DIM:#} {}", indented(value));
    if let Some(backend) = &attempt.backend {
        fact("backend", backend)?;
    }
    if let Some(session) = &attempt.session {
        let continued = attempt.branch_of.as_ref().map(|session| format!(", a branch of {session}"));
        fact("session", &format!("{session}{}", continued.unwrap_or_default()))?;
    }
    let Some(meta) = meta else { return note(out, "command and environment are not kept") };
    if let Some(command) = meta.get("command").and_then(Value::as_array).filter(|command| !command.is_empty())
    {
        fact("command", &command.iter().map(text).collect::<Vec<_>>().join(" "))?;
    }
    match meta.get("exit_code").filter(|value| !value.is_null()) {
        Some(code) => fact("exit code", &text(code)),
        None => Ok(()),
    }
}

fn read_meta(path: &Path) -> Option<Map<String, Value>> {
    let (bytes, _) = read(path).ok()?;
    serde_json::from_slice(&bytes).ok()
}

/// A text as it is, anything else as JSON.
fn text(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

fn write_environment(out: &mut impl Write, environment: &Map<String, Value>) -> io::Result<()> {
    heading(out, "environment")?;
    environment.iter().try_for_each(|(name, value)| {
        writeln!(out, "    {}={}", clean(name), clean(&text(value).replace('\n', "\\n")))
    })
}

fn write_outcome(out: &mut impl Write, step: &Step) -> io::Result<()> {
    match &step.outcome {
        Outcome::Open => writeln!(out, "  {NOTE}has not ended{NOTE:#}"),
        Outcome::Deleted(first, last) => {
            writeln!(
                out,
                "  {NOTE}has ended; the events {first} to {last} are in segments that were deleted{NOTE:#}"
            )
        }
        Outcome::Finished(finished) => {
            let tokens = (!finished.tokens.is_zero()).then(|| in_words(finished.tokens));
            let window = finished.context.map(|context| format!("context {}", fullness(context)));
            let compacted = finished.compacted.then(|| "it was summarised".to_owned());
            let told: Vec<String> = tokens.into_iter().chain(window).chain(compacted).collect();
            if !told.is_empty() {
                writeln!(out, "  {DIM}tokens: {}{DIM:#}", told.join("; "))?;
            }
            writeln!(out, "  {GOOD}→{GOOD:#} {}", led_to(finished))
        }
        Outcome::Failed(failed) => {
            writeln!(out, "  {BAD}failed{BAD:#}: {}", indented(&failed.error))?;
            failed.stderr.lines().try_for_each(|line| writeln!(out, "    {}", clean(line)))
        }
    }
}

/// What the step has changed, if there are snapshots.
fn write_changes(out: &mut impl Write, step: &Step) -> io::Result<()> {
    let Outcome::Finished(finished) = &step.outcome else { return Ok(()) };
    let Some(FilesSnapshot { commit, before, folder, repository, shared, .. }) = finished.files.as_deref()
    else {
        return Ok(());
    };
    heading(out, "changed files")?;
    note(out, &format!("in {folder}, as commit {commit}"))?;
    if *shared {
        note(out, "other agents worked in this folder at the same time; some changes may be theirs")?;
    }
    let Some(before) = before.as_ref().filter(|before| *before != commit) else {
        return note(out, "none");
    };
    match diff(Path::new(repository), before, commit, MOST_DIFF_BYTES) {
        Ok((text, is_cut)) => {
            write_text(out, &text)?;
            let more = format!("there is more: git diff {before} {commit}");
            if is_cut { note(out, &more) } else { Ok(()) }
        }
        Err(error) => note(out, &error.to_string()),
    }
}

fn heading(out: &mut impl Write, what: &str) -> io::Result<()> {
    writeln!(out, "  {BOLD}{what}{BOLD:#}")
}

fn note(out: &mut impl Write, what: &str) -> io::Result<()> {
    writeln!(out, "  {DIM}({}){DIM:#}", indented(what))
}

fn write_text(out: &mut impl Write, text: &str) -> io::Result<()> {
    text.trim_end().lines().try_for_each(|line| match line.is_empty() {
        true => writeln!(out),
        false => writeln!(out, "    {}", clean(line)),
    })
}

fn has_text(path: &Path) -> bool {
    path.metadata().is_ok_and(|data| data.len() > 0)
}

fn write_file(out: &mut impl Write, what: &str, path: Option<&Path>) -> io::Result<()> {
    let Some(path) = path else { return note(out, &format!("the {what} is not kept")) };
    match read(path) {
        Ok((bytes, is_whole)) => {
            heading(out, what)?;
            write_text(out, &String::from_utf8_lossy(&bytes))?;
            if is_whole { Ok(()) } else { note(out, &format!("the rest of it is in {}", path.display())) }
        }
        Err(error) => note(out, &format!("the {what} cannot be read: {error}")),
    }
}

/// The beginning of a file, and whether that is all of it.
fn read(path: &Path) -> io::Result<(Vec<u8>, bool)> {
    let mut bytes = Vec::new();
    open_plain(path)?.take(MOST_SHOWN_BYTES + 1).read_to_end(&mut bytes)?;
    let is_whole = bytes.len() as u64 <= MOST_SHOWN_BYTES;
    bytes.truncate(usize::try_from(MOST_SHOWN_BYTES).unwrap_or(usize::MAX));
    Ok((bytes, is_whole))
}
