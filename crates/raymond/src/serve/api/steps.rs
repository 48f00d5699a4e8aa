//! The steps of a run: windows of them, one with all that is kept of it, and its output while it runs.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use jiff::Timestamp;
use raymond_core::event::{Body, Event};
use raymond_core::money::Usd;
use raymond_core::snapshot::FilesSnapshot;
use raymond_core::tokens::{Context, Tokens};
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;

use crate::files;
use crate::git::snapshots::diff;
use crate::serve::Server;
use crate::serve::output::follow_step;
use crate::serve::problem::Problem;
use crate::serve::route::{Answer, Call};
use crate::serve::sse::Stream;
use crate::serve::story::{How, Step, Story, input_in};
use crate::store::{RunHandle, Start};
use crate::view::debug::{KeptAttempt, MOST_FILE_BYTES, kept_attempts};

const USUAL_STEPS: usize = 100;
const MOST_STEPS: usize = 1000;
/// How much of a text is sent. More can be read from the file itself.
const MOST_TEXT_BYTES: usize = 4 * 1024 * 1024;
/// How much of a diff is sent.
const MOST_DIFF_BYTES: usize = 1024 * 1024;

/// Some steps of a run, in order.
#[derive(Serialize, JsonSchema)]
pub struct Steps {
    steps: Vec<StepObject>,
    /// What to give as `from` to get those that follow; null at the end.
    next: Option<u64>,
}

/// A step.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct StepObject {
    pub step: u64,
    pub agent: String,
    pub state: String,
    /// The workflow it is in, if that is not the run's own.
    pub scope: Option<String>,
    pub started_at: Timestamp,
    pub duration_ms: Option<u64>,
    pub cost_usd: Usd,
    pub tag: Option<&'static str>,
    pub target: Option<String>,
    /// `running`, `done`, `failed` or `interrupted`.
    pub status: &'static str,
    pub attempts: u32,
    /// The events that started and ended it.
    pub started_seq: u64,
    pub ended_seq: Option<u64>,
    /// The event that handed it its input.
    #[serde(skip)]
    given_seq: Option<u64>,
}

/// A step as it was after some event.
pub fn object(story: &Story, step: &Step, at: u64, is_live: bool) -> StepObject {
    let end = step.end_at(at);
    let (tag, target) = match end.map(|end| &end.how) {
        Some(How::Done { tag, target, next }) => (Some(tag.as_str()), target.or(*next)),
        Some(How::Failed | How::Interrupted) | None => (None, None),
    };
    StepObject {
        step: step.number,
        agent: story.word(step.agent).to_owned(),
        state: story.word(step.state).to_owned(),
        scope: step.scope.map(|scope| story.word(scope).to_owned()),
        started_at: step.started,
        duration_ms: end.map(|end| end.duration_ms),
        cost_usd: end.map_or(Usd::default(), |end| end.cost),
        tag,
        target: target.map(|target| story.word(target).to_owned()),
        status: match end.map(|end| &end.how) {
            None if is_live => "running",
            // The process is gone, and the step with it.
            None | Some(How::Interrupted) => "interrupted",
            Some(How::Done { .. }) => "done",
            Some(How::Failed) => "failed",
        },
        attempts: step.attempts,
        started_seq: step.started_seq,
        ended_seq: end.map(|end| end.seq),
        given_seq: step.given_seq,
    }
}

pub fn list(server: &Arc<Server>, call: &Call) -> Result<Answer, Problem> {
    let run = server.index.find(call.part("run"))?;
    let from = call.number::<u64>("from")?.unwrap_or(0);
    let limit = call.limit(USUAL_STEPS, MOST_STEPS)?;
    let agent = call.text("agent");
    let at = call.number::<u64>("at")?;
    let is_live = at.is_some() || crate::serve::index::holds(&*run);
    let at = at.unwrap_or(u64::MAX);
    let window = server.stories.with(&run, |story| {
        let mut window = Steps { steps: Vec::new(), next: None };
        for step in story.steps.rows(story.place(from)?) {
            let step = step?;
            if step.started_seq > at {
                break;
            }
            if agent.is_some_and(|agent| story.word(step.agent) != agent) {
                continue;
            }
            if window.steps.len() == limit {
                window.next = Some(step.number);
                break;
            }
            window.steps.push(object(story, &step, at, is_live));
        }
        Ok(window)
    })?;
    Answer::json(&window)
}

/// A step with all that is kept of it.
#[derive(Serialize, JsonSchema)]
pub struct StepDetail {
    #[serde(flatten)]
    pub step: StepObject,
    /// The prompt as it was sent, in its last attempt.
    pub prompt: Option<String>,
    /// What the agent said at the end.
    pub reply: Option<String>,
    /// What a script wrote.
    pub stdout: Option<String>,
    pub stderr: Option<String>,
    /// What was handed to it.
    pub input: Option<String>,
    /// What it handed to the next state.
    pub handed_on: Option<String>,
    pub result: Option<String>,
    pub error: Option<String>,
    /// How its last attempt was started and how it ended.
    pub meta: Option<Value>,
    /// What its model read and wrote in the last attempt.
    #[serde(skip_serializing_if = "Tokens::is_zero")]
    #[schemars(default)]
    pub tokens: Tokens,
    /// How full the model's window was after it, if its program tells.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub context: Option<Context>,
    /// Whether its program has summarised the conversation within it.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    #[schemars(default)]
    pub compacted: bool,
    /// What it changed in its folder, if snapshots were taken.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub changes: Option<Changes>,
    #[serde(skip)]
    snapshot: Option<FilesSnapshot>,
    /// Whether its debug files are there.
    pub kept: bool,
}

/// What a step changed in its folder.
#[derive(Serialize, JsonSchema)]
pub struct Changes {
    /// The folder, and the commit with the files that the step left there.
    folder: String,
    commit: String,
    /// Whether other agents worked in the folder at the same time; some changes may be theirs.
    shared: bool,
    /// As git shows it, with a list of the files first. Null if git cannot tell it any more.
    diff: Option<String>,
    /// Whether there is more of it.
    cut: bool,
}

impl Changes {
    fn of(files: &FilesSnapshot) -> Self {
        let before = files.before.as_ref().filter(|before| **before != files.commit);
        let changes = match before {
            Some(before) => diff(Path::new(&files.repository), before, &files.commit, MOST_DIFF_BYTES).ok(),
            None => Some((String::new(), false)),
        };
        let cut = changes.as_ref().is_some_and(|(_, is_cut)| *is_cut);
        let FilesSnapshot { folder, commit, shared, .. } = files.clone();
        Self { folder, commit, shared, diff: changes.map(|(text, _)| text), cut }
    }
}

pub fn one(server: &Arc<Server>, call: &Call) -> Result<Answer, Problem> {
    let run = server.index.find(call.part("run"))?;
    let number = step_number(call)?;
    Answer::json(&detail(server, &run, number)?)
}

fn step_number(call: &Call) -> Result<u64, Problem> {
    call.part("n").parse().map_err(|_| Problem::not_found("a step has a number"))
}

/// Everything about one step.
pub fn detail(server: &Server, run: &Arc<dyn RunHandle>, number: u64) -> Result<StepDetail, Problem> {
    let is_live = crate::serve::index::holds(&**run);
    let found = server.stories.with(run, |story| {
        let step = story.step(number)?;
        Ok(step.map(|step| (object(story, &step, u64::MAX, is_live), story.word(step.run).to_owned())))
    })?;
    let (step, ran_in) = found.ok_or_else(|| Problem::not_found(format!("the run has no step {number}")))?;
    let mut kept = kept_attempts(&server.debug_folder(run.id()), number);
    // The files of a step that the run has in common with another one are there.
    if kept.is_empty() && ran_in != run.id() {
        kept = kept_attempts(&server.debug_folder(&ran_in), number);
    }
    let mut detail = detail_of(run, step, &kept);
    detail.changes = detail.snapshot.as_ref().map(Changes::of);
    Ok(detail)
}

/// Everything about a step, with the files that are kept of it.
pub fn detail_of(run: &Arc<dyn RunHandle>, step: StepObject, attempts: &[KeptAttempt]) -> StepDetail {
    let kept = attempts.iter().any(|attempt| attempt.stream.is_some() || attempt.stdout.is_some());
    let last = |file: fn(&KeptAttempt) -> Option<&PathBuf>| attempts.iter().rev().find_map(file);
    let said = said_in_journal(&**run, &step);
    StepDetail {
        prompt: last(|attempt| attempt.prompt.as_ref()).and_then(|file| read(file)),
        reply: said.reply,
        stdout: last(|attempt| attempt.stdout.as_ref()).and_then(|file| read(file)),
        stderr: last(|attempt| attempt.stderr.as_ref()).and_then(|file| read(file)).or(said.stderr),
        input: step.given_seq.and_then(|seq| input_of(&**run, &step.agent, seq)),
        handed_on: said.handed_on,
        result: said.result,
        error: said.error,
        meta: last(|attempt| attempt.meta.as_ref()).and_then(|file| serde_json::from_str(&read(file)?).ok()),
        tokens: said.tokens,
        context: said.context,
        compacted: said.compacted,
        changes: None,
        snapshot: said.files,
        kept,
        step,
    }
}

/// What the event that ended a step holds.
#[derive(Default)]
struct Said {
    reply: Option<String>,
    handed_on: Option<String>,
    result: Option<String>,
    error: Option<String>,
    stderr: Option<String>,
    files: Option<FilesSnapshot>,
    tokens: Tokens,
    context: Option<Context>,
    compacted: bool,
}

/// An event by its number, if it was not deleted.
fn event_of(run: &dyn RunHandle, seq: u64) -> Option<Event> {
    let batch = run.events(Start::After(seq.checked_sub(1)?)).and_then(|mut events| events.next_batch());
    batch.ok().flatten().and_then(|batch| batch.into_iter().find(|event| event.seq == seq))
}

/// The input that an event handed an agent.
fn input_of(run: &dyn RunHandle, agent: &str, seq: u64) -> Option<String> {
    let event = event_of(run, seq)?;
    run.payloads().text_of(input_in(&event, agent)?).ok().map(clipped)
}

fn said_in_journal(run: &dyn RunHandle, step: &StepObject) -> Said {
    let mut said = Said::default();
    let Some(seq) = step.ended_seq else { return said };
    let payloads = run.payloads();
    let text = |payload: &raymond_core::payload::Payload| payloads.text_of(payload).ok().map(clipped);
    match event_of(run, seq).map(|event| event.body) {
        Some(Body::StepFinished(finished)) => {
            let parts = finished.led_to.parts();
            said.reply = finished.message.as_ref().and_then(&text);
            said.handed_on = parts.input.and_then(&text);
            said.result = parts.result.and_then(&text);
            said.files = finished.files.as_deref().cloned();
            said.tokens = finished.tokens;
            said.context = finished.context;
            said.compacted = finished.compacted;
        }
        Some(Body::StepFailed(failed)) => {
            said.reply = failed.message.as_ref().and_then(&text);
            said.stderr = Some(failed.stderr).filter(|stderr| !stderr.is_empty());
            said.error = Some(failed.error);
            said.tokens = failed.tokens;
        }
        _ => {}
    }
    said
}

/// The text of a debug file, cut if it is long.
fn read(file: &Path) -> Option<String> {
    let bytes = files::read(file, 2 * MOST_FILE_BYTES).ok()?;
    Some(clipped(String::from_utf8_lossy(&bytes).into_owned()))
}

fn clipped(mut text: String) -> String {
    if text.len() > MOST_TEXT_BYTES {
        let mut end = MOST_TEXT_BYTES;
        while !text.is_char_boundary(end) {
            end -= 1;
        }
        let bytes = text.len();
        text.truncate(end);
        text.push_str(&format!("\n[the rest of {bytes} bytes is not shown here]\n"));
    }
    text
}

pub fn output(server: &Arc<Server>, call: &Call) -> Result<Answer, Problem> {
    let run = server.index.find(call.part("run"))?;
    let number = step_number(call)?;
    let known = server.stories.with(&run, |story| Ok(story.step(number)?.is_some()))?;
    if !known {
        return Err(Problem::not_found(format!("the run has no step {number}")));
    }
    Stream::start(server, |server, sender| follow_step(server, run, number, true, sender)).map(Answer::Stream)
}
