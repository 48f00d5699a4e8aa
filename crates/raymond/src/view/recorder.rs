//! Records the finished turns of a run in a file.
//!
//! What a turn said is known when it ends, and is written once its end is committed: a turn that is taken again after
//! a crash is in the recording once. The first error is a warning, and nothing more is written after it.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::time::Duration;

use raymond_core::event::{Body, Event};
use raymond_core::money::Usd;
use raymond_core::name::AgentId;
use raymond_core::run::Run;

use crate::files::open_plain_as;
use crate::recording::{RecordedTurn, prompt_hash};
use crate::run::job::StepJob;
use crate::view::View;

/// A handle to the recording; clones write to the same one.
#[derive(Clone, Debug)]
pub struct Recorder {
    shared: Rc<RefCell<Shared>>,
}

#[derive(Debug)]
struct Shared {
    path: PathBuf,
    /// Absent after an error.
    file: Option<File>,
    /// Turns whose end is not committed yet, or not published: the next turn of an agent may end before that. By agent,
    /// step and attempt.
    ended: BTreeMap<(AgentId, u64, u32), RecordedTurn>,
    warning: Option<String>,
}

/// What a completed turn said.
pub struct Said<'a> {
    /// Without secrets.
    pub reply: &'a str,
    pub cost: Usd,
    pub session: Option<String>,
    pub duration: Duration,
    pub tools: Vec<String>,
}

impl Recorder {
    /// A run that goes on adds to its recording; a new one replaces what is there.
    pub fn open(path: &Path, goes_on: bool) -> std::io::Result<Self> {
        let mut options = OpenOptions::new();
        options.create(true);
        match goes_on {
            true => options.append(true),
            false => options.write(true).truncate(true),
        };
        let shared = Shared {
            path: path.to_owned(),
            file: Some(open_plain_as(&mut options, path)?),
            ended: BTreeMap::new(),
            warning: None,
        };
        Ok(Self { shared: Rc::new(RefCell::new(shared)) })
    }

    /// A turn has completed; it is written when that is committed.
    pub fn completed(&self, job: &StepJob, said: Said<'_>, hide: impl Fn(String) -> String) {
        let Some(needs) = &job.needs.turn else { return };
        let Some(prompt) = &needs.portable else { return };
        let turn = RecordedTurn {
            state: job.attempt.state.to_string(),
            visit: needs.visit,
            agent: job.attempt.agent.to_string(),
            prompt_sha256: prompt_hash(&prompt.text),
            prompt: Some(hide(prompt.text.clone())),
            reply: prompt.places.replace(said.reply, &[]),
            cost_usd: said.cost,
            session: said.session,
            duration_ms: u64::try_from(said.duration.as_millis()).unwrap_or(u64::MAX),
            tools: said.tools,
        };
        let attempt = &job.attempt;
        let key = (attempt.agent.clone(), attempt.step, attempt.number);
        self.shared.borrow_mut().ended.insert(key, turn);
    }

    /// The warning about the first error; returned once.
    pub fn take_warning(&self) -> Option<String> {
        self.shared.borrow_mut().warning.take()
    }
}

impl View for Recorder {
    fn event(&mut self, _run: &Run, event: &Event) {
        let Some((agent, step, attempt)) = ended_attempt(&event.body) else { return };
        let mut shared = self.shared.borrow_mut();
        let is_it = |key: &(AgentId, u64, u32)| {
            key.0 == *agent && key.1 == step && attempt.is_none_or(|attempt| attempt == key.2)
        };
        let Some(key) = shared.ended.keys().find(|key| is_it(key)).cloned() else { return };
        let Some(turn) = shared.ended.remove(&key) else { return };
        let written = shared.file.as_mut().map(|file| file.write_all(turn.line().as_bytes()));
        if let Some(Err(error)) = written {
            shared.file = None;
            shared.warning =
                Some(format!("cannot write {}: {error}; nothing more is recorded", shared.path.display()));
        }
    }
}

/// The attempt that an event ends: its agent, its step and, unless the step ends with it, its number.
fn ended_attempt(body: &Body) -> Option<(&AgentId, u64, Option<u32>)> {
    match body {
        Body::StepFinished(finished) => Some((&finished.agent, finished.step, None)),
        Body::StepFailed(failed) => Some((&failed.agent, failed.step?, None)),
        Body::Reminder(reminder) => {
            Some((&reminder.agent, reminder.step, Some(reminder.attempt.saturating_sub(1))))
        }
        Body::Retry(retry) => Some((&retry.agent, retry.step, Some(retry.attempt.saturating_sub(1)))),
        Body::LimitWaiting(limit) => Some((&limit.agent, limit.step, Some(limit.attempt.saturating_sub(1)))),
        _ => None,
    }
}
