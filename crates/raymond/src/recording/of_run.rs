//! The recording of a run that was not recorded, made from its journal and its debug files.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use raymond_core::event::{Body, Event, StepStarted};
use raymond_core::evolve;
use raymond_core::money::Usd;
use raymond_core::payload::Payload;
use raymond_core::run::{Agent, Run};

use super::{Places, RecordedTurn, prompt_hash};
use crate::error::UserError;
use crate::files;
use crate::process::secrets::Secrets;
use crate::run::prepare::task_folder_of;
use crate::store::{Payloads, RunHandle, Start, StoreError};
use crate::view::debug::{DebugFolder, StepName};

const MAX_PROMPT_BYTES: u64 = 64 * 1024 * 1024;

/// What a run has left beside its journal.
pub struct Traces {
    pub debug: DebugFolder,
    /// The folder with the task folders of its agents.
    pub scratch: PathBuf,
}

/// All finished turns of a run, in the order in which they ended. Where the prompt was not kept, only its hash is known.
/// The history of a branch begins in another run, so there may be traces of more than one.
pub fn of_run(
    stored: &dyn RunHandle,
    traces_of: &dyn Fn(&str) -> Result<Traces, UserError>,
    project: &Path,
) -> Result<Vec<RecordedTurn>, UserError> {
    let secrets = Secrets::of(std::env::vars_os());
    let mut reading = Reading {
        payloads: stored.payloads(),
        traces_of,
        traces: BTreeMap::new(),
        project,
        secrets,
        run: None,
        attempts: BTreeMap::new(),
        turns: Vec::new(),
    };
    let mut events = stored.events(Start::After(0))?;
    while let Some(batch) = events.next_batch()? {
        for event in &batch {
            reading.take(event)?;
        }
    }
    Ok(reading.turns)
}

struct Reading<'a> {
    payloads: Payloads,
    traces_of: &'a dyn Fn(&str) -> Result<Traces, UserError>,
    /// Those of the runs that were met so far.
    traces: BTreeMap<String, Traces>,
    project: &'a Path,
    secrets: Secrets,
    run: Option<Run>,
    /// The last attempt of each agent.
    attempts: BTreeMap<String, StepStarted>,
    turns: Vec<RecordedTurn>,
}

/// What an event tells about a finished turn.
struct Ended<'e> {
    reply: &'e Payload,
    cost: Usd,
    session: Option<String>,
    duration_ms: u64,
}

impl Reading<'_> {
    fn take(&mut self, event: &Event) -> Result<(), UserError> {
        if let Body::StepStarted(started) = &event.body {
            self.attempts.insert(started.agent.to_string(), started.clone());
        }
        if let (Some(ended), Some(agent)) = (ended(&event.body), event.body.ended_attempt_of()) {
            let started = self.attempts.get(agent.as_str()).filter(|started| started.turn.is_some());
            let agent = self.run.as_ref().and_then(|run| run.agents.get(agent));
            if let (Some(run), Some(agent), Some(started)) = (&self.run, agent, started) {
                if !self.traces.contains_key(&run.id) {
                    self.traces.insert(run.id.clone(), (self.traces_of)(&run.id)?);
                }
                let traces = &self.traces[&run.id];
                let task_folder = task_folder_of(&traces.scratch, &agent.id);
                let places = Places::new(&run.id, &task_folder, &agent.cwd, self.project);
                let prompt = prompt_of(started, &traces.debug);
                let turn = self.turn(agent, started, (prompt, &places), ended)?;
                self.turns.push(turn);
            }
        }
        self.run = evolve::evolve(self.run.take(), event);
        Ok(())
    }

    fn turn(
        &self,
        agent: &Agent,
        started: &StepStarted,
        (prompt, places): (Option<String>, &Places),
        ended: Ended<'_>,
    ) -> Result<RecordedTurn, StoreError> {
        let secrets = self.secrets.joined(&Secrets::of(&agent.attributes));
        let hash = started.turn.as_ref().and_then(|turn| turn.prompt_sha256.clone()).unwrap_or_default();
        let (prompt_sha256, prompt) = match prompt {
            Some(prompt) => with_placeholders(&prompt, hash, places),
            None => (hash, None),
        };
        let reply = self.payloads.text_of(ended.reply)?;
        Ok(RecordedTurn {
            state: started.state.to_string(),
            visit: started.visits,
            agent: agent.id.to_string(),
            prompt_sha256,
            prompt: prompt.map(|prompt| secrets.hide(prompt)),
            reply: places.replace(&secrets.hide(reply), &[]),
            cost_usd: ended.cost,
            session: ended.session,
            duration_ms: ended.duration_ms,
            tools: Vec::new(),
        })
    }
}

/// The prompt of a turn, if it was kept.
fn prompt_of(started: &StepStarted, debug: &DebugFolder) -> Option<String> {
    let StepStarted { agent, state, step, attempt, .. } = started;
    let file = debug.prompt(StepName { agent, state, step: *step, attempt: *attempt })?;
    let bytes = files::read(&file, MAX_PROMPT_BYTES).ok()?;
    Some(String::from_utf8_lossy(&bytes).into_owned())
}

/// A prompt with placeholders, and its hash. Of a short id it is not known where it stands for the run and where it is
/// just a word, but the hash of the right text is in the journal. Journals of earlier versions have the hash of the
/// prompt as it was sent.
fn with_placeholders(prompt: &str, hash: String, places: &Places) -> (String, Option<String>) {
    let (plain, every_id) = (places.replace(prompt, &[]), places.replace_every_id(prompt));
    if hash.is_empty() || hash == prompt_hash(prompt) {
        return (prompt_hash(&plain), Some(plain));
    }
    let is_right = hash == prompt_hash(&every_id);
    (hash, Some(if is_right { every_id } else { plain }))
}

/// The finished turn that an event tells of. A turn whose program failed has no reply to replay.
fn ended(body: &Body) -> Option<Ended<'_>> {
    match body {
        Body::StepFinished(finished) => Some(Ended {
            reply: finished.message.as_ref()?,
            cost: finished.attempt_cost_usd,
            session: finished.session.as_ref().map(|session| session.id.clone()),
            duration_ms: finished.duration_ms,
        }),
        Body::Reminder(reminder) => Some(Ended {
            reply: reminder.message.as_ref()?,
            cost: reminder.attempt_cost_usd,
            session: Some(reminder.session.id.clone()),
            duration_ms: 0,
        }),
        // Only a message that made no transition is shown as output.
        Body::StepFailed(failed) if !failed.output.is_empty() => Some(Ended {
            reply: failed.message.as_ref()?,
            cost: failed.attempt_cost_usd,
            session: None,
            duration_ms: failed.duration_ms,
        }),
        _ => None,
    }
}
