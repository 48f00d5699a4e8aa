//! What happened in the run of a test, read from its journal and its debug files.

use std::collections::BTreeMap;
use std::path::Path;

use raymond_core::event::{Body, Event, StepStarted};
use raymond_core::evolve;
use raymond_core::money::Usd;
use raymond_core::payload::Payload;
use raymond_core::run::{Run, RunStatus, Status};

use crate::agent::prepared::NO_REPLY;
use crate::check::taken::{Taken, Transitions};
use crate::files;
use crate::store::{FolderStore, Payloads, RunStore, Start, StateDir, StoreError};
use crate::view::debug::{DEFAULT_KEPT_STEPS, DebugFolder, StepName};

/// The longest prompt that is read back.
const MAX_PROMPT_BYTES: u64 = 16 * 1024 * 1024;

/// The course of a run.
#[derive(Debug)]
pub struct Course {
    pub status: RunStatus,
    pub result: Option<String>,
    /// The errors that `status` shows: of failed agents, then of the run; then what is known about failed scripts.
    pub errors: Vec<String>,
    /// The states of each agent, in order.
    pub paths: BTreeMap<String, Vec<String>>,
    pub prompts: Vec<SentPrompt>,
    pub prints: Vec<String>,
    pub asks: Vec<String>,
    pub cost: Usd,
    /// How many turns agents finished.
    pub turns: u64,
    /// Prompts for which the test had no reply.
    pub unanswered: Vec<Unanswered>,
    pub taken: Vec<Taken>,
}

/// A prompt that an agent was sent.
#[derive(Clone, Debug)]
pub struct SentPrompt {
    /// Without extension.
    pub state: String,
    pub text: String,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unanswered {
    pub agent: String,
    pub state: String,
    pub error: String,
    pub prompt: Option<String>,
}

/// Reads the run of a test.
pub fn read(state_dir: &Path, run_id: &str) -> Result<Course, StoreError> {
    let stored = FolderStore::new(StateDir::at(state_dir)).run(run_id)?;
    let debug = DebugFolder::open(state_dir.join("debug").join(run_id), DEFAULT_KEPT_STEPS);
    let mut reading = Reading::new(stored.payloads(), debug);
    let mut events = stored.events(Start::After(0))?;
    while let Some(batch) = events.next_batch()? {
        for event in &batch {
            reading.take(event)?;
        }
    }
    reading.finish(run_id)
}

struct Reading {
    payloads: Payloads,
    debug: DebugFolder,
    run: Option<Run>,
    course: Course,
    transitions: Transitions,
    /// The last attempt of each agent.
    attempts: BTreeMap<String, StepStarted>,
    /// What is known about failed scripts.
    details: Vec<String>,
    /// The last prompt, with its step.
    last_prompt: Option<(u64, String)>,
}

impl Reading {
    fn new(payloads: Payloads, debug: DebugFolder) -> Self {
        let course = Course {
            status: RunStatus::Running,
            result: None,
            errors: Vec::new(),
            paths: BTreeMap::new(),
            prompts: Vec::new(),
            prints: Vec::new(),
            asks: Vec::new(),
            cost: Usd::ZERO,
            turns: 0,
            unanswered: Vec::new(),
            taken: Vec::new(),
        };
        let transitions = Transitions::default();
        Self {
            payloads,
            debug,
            run: None,
            course,
            transitions,
            attempts: BTreeMap::new(),
            details: Vec::new(),
            last_prompt: None,
        }
    }

    fn text(&self, payload: &Payload) -> Result<String, StoreError> {
        self.payloads.text_of(payload)
    }

    fn take(&mut self, event: &Event) -> Result<(), StoreError> {
        if let Some(run) = &self.run {
            self.transitions.take(run, event);
        }
        self.run = evolve::evolve(self.run.take(), event);
        match &event.body {
            Body::StepStarted(started) => self.started(started),
            Body::StepFinished(finished) if finished.state.kind().is_prompt() => self.course.turns += 1,
            Body::Reminder(_) => self.course.turns += 1,
            Body::StepFailed(failed) => {
                self.course.turns += u64::from(failed.message.is_some());
                if let Some(code) = failed.exit_code {
                    let stderr = &failed.stderr;
                    self.details
                        .push(format!("{}: {} (exit code {code})\n{stderr}", failed.state, failed.error));
                }
                if failed.error.starts_with(NO_REPLY) {
                    let attempt = self.attempts.get(failed.agent.as_str());
                    let unanswered = Unanswered {
                        agent: failed.agent.to_string(),
                        state: failed.state.to_string(),
                        error: failed.error.clone(),
                        prompt: attempt.and_then(|started| self.prompt(started)),
                    };
                    if !self.course.unanswered.contains(&unanswered) {
                        self.course.unanswered.push(unanswered);
                    }
                }
            }
            Body::Print { text, .. } => {
                let text = self.text(text)?;
                self.course.prints.push(text);
            }
            Body::AskOpened(opened) => {
                let question = self.text(&opened.question)?;
                self.course.asks.push(question);
            }
            Body::RunStopped { error: Some(error), .. } => self.course.errors = vec![error.clone()],
            _ => {}
        }
        Ok(())
    }

    fn started(&mut self, started: &StepStarted) {
        let path = self.course.paths.entry(started.agent.to_string()).or_default();
        // A further attempt is the same step.
        let last = self.attempts.insert(started.agent.to_string(), started.clone());
        if last.is_none_or(|last| last.step != started.step) {
            path.push(started.state.to_string());
        }
        if started.turn.is_none() {
            return;
        }
        let Some(text) = self.prompt(started) else { return };
        // A turn that is tried again sends the same prompt.
        if self.last_prompt.as_ref() != Some(&(started.step, text.clone())) {
            self.course
                .prompts
                .push(SentPrompt { state: started.state.name().to_owned(), text: text.clone() });
            self.last_prompt = Some((started.step, text));
        }
    }

    fn prompt(&self, started: &StepStarted) -> Option<String> {
        let StepStarted { agent, state, step, attempt, .. } = started;
        let file = self.debug.prompt(StepName { agent, state, step: *step, attempt: *attempt })?;
        let bytes = files::read(&file, MAX_PROMPT_BYTES).ok()?;
        Some(String::from_utf8_lossy(&bytes).into_owned())
    }

    fn finish(mut self, run_id: &str) -> Result<Course, StoreError> {
        let Some(run) = self.run else { return Err(StoreError::NoStart { place: run_id.to_owned() }) };
        self.course.status = run.status;
        self.course.cost = run.cost_usd;
        self.course.result = run.result.as_ref().map(|result| self.payloads.text_of(result)).transpose()?;
        let failed = run.agents_by_birth().into_iter().filter_map(|agent| match &agent.status {
            Status::Failed { error, .. } => Some(error.clone()),
            _ => None,
        });
        let of_run = std::mem::take(&mut self.course.errors);
        self.course.errors = failed.chain(of_run).collect();
        // A failure that was mended or joined is not shown.
        if !self.course.errors.is_empty() {
            self.course.errors.append(&mut self.details);
        }
        self.course.taken = self.transitions.finish();
        Ok(self.course)
    }
}
