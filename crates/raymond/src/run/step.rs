//! One attempt at a step, from its program's start to the report about its end.

mod groups;
mod interpreter;
mod prompt;
mod runnable;
mod script;
mod unpacked;
mod variables;

use std::cell::RefCell;
use std::fs;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use raymond_core::input::{Ended, Input, Outcome, Plan, ScriptOutcome, TurnOutcome};
use raymond_core::money::Usd;
use raymond_core::name::AgentId;
use raymond_core::payload::Payload;
use raymond_core::run::Agent;
use raymond_core::workflow::Platform;

pub use groups::{Groups, leftovers};
pub use runnable::as_it_lies;
pub use unpacked::Unpacked;

use crate::agent::registry::Backends;
use crate::process::secrets::Secrets;
use crate::process::{Reaper, StopSignal};
use crate::run::engine::Launch;
use crate::run::mailbox::{Message, Sender};
use crate::store::{Payloads, RunPaths};
use crate::view::debug::{DebugFolder, Status, Verdict};
use crate::view::{LiveView, Stream};
use crate::workflow::scopes::Scopes;

/// What all steps of a run share.
pub struct StepContext {
    pub run_id: String,
    pub nonce: String,
    pub platform: Platform,
    pub scopes: Rc<RefCell<Scopes>>,
    pub paths: RunPaths,
    pub unpacked: Unpacked,
    pub groups: Groups,
    pub payloads: Payloads,
    pub reaper: Reaper,
    pub debug: DebugFolder,
    /// Those that every program inherits.
    pub secrets: Secrets,
    pub backends: Backends,
    pub skip_permissions: bool,
    pub messages: Sender,
    /// Whether anybody wants to see all output.
    pub shows_output: bool,
    /// Who wants to see only the end of it.
    pub view: Option<LiveView>,
}

/// The mark by which everything that an attempt started is found again.
pub fn token(nonce: &str, step: u64, attempt: u32) -> String {
    format!("{nonce}-{step}-{attempt}")
}

impl StepContext {
    /// Runs an attempt to its end and reports it.
    pub async fn run(&self, launch: Launch, stop: StopSignal) {
        let clock = tokio::time::Instant::now();
        let mut files = self.debug.begin((&launch.started).into());
        let (outcome, lookups) = match &launch.plan {
            Plan::Script(header) => script::run(self, &launch, header, stop, &mut files).await,
            // In a box, because a turn is far larger than a script, and thousands of scripts may run.
            Plan::Prompt(plan) => Box::pin(prompt::run(self, &launch, plan, stop, &mut files)).await,
        };
        // Not everybody runs the file that was kept ready.
        self.scopes.borrow_mut().take_ready(&launch.agent.id);
        files.finish(verdict(&outcome));
        if let Some(message) = self.debug.take_warning() {
            self.send(Message::Input(Input::Warning { agent: None, message }));
        }
        let ended = Ended {
            agent: launch.agent.id,
            step: launch.started.step,
            attempt: launch.started.attempt,
            duration_ms: u64::try_from(clock.elapsed().as_millis()).unwrap_or(u64::MAX),
            plan: launch.plan,
            outcome,
            lookups,
        };
        self.send(Message::Input(Input::Ended(Box::new(ended))));
    }

    fn send(&self, message: Message) {
        self.messages.send(message);
    }

    /// Shows a piece of output, if anybody wants to see it.
    fn show(&self, agent: &AgentId, stream: Stream, bytes: &[u8]) {
        if let Some(view) = &self.view {
            view.glimpse(agent, bytes);
        }
        if self.shows_output {
            self.send(Message::Output { agent: agent.clone(), stream, bytes: bytes.to_vec() });
        }
    }

    fn text_of(&self, payload: &Payload) -> Result<String, NotReady> {
        self.payloads.text_of(payload).map_err(NotReady::Store)
    }

    /// A text as it may be recorded: without the secrets that the agent's programs find in their environment.
    fn without_secrets(&self, agent: &Agent, text: String) -> String {
        if text.is_empty() {
            return text;
        }
        let mut scopes = self.scopes.borrow_mut();
        let of_scope = scopes.of(agent).ok().map(|scope| &scope.manifest().environment);
        self.secrets.and(of_scope.into_iter().flatten().chain(&agent.attributes)).hide(text)
    }

    /// The run ends, and this step is left to a resume.
    fn give_up(&self, error: String) -> Outcome {
        self.send(Message::Trouble(error));
        Outcome::Interrupted { cost: Usd::ZERO }
    }

    /// Leaves a hint by which a successor finds what is left of this attempt, should this process be killed.
    fn remember_group(&self, launch: &Launch, group: i32) {
        let token = token(&self.nonce, launch.started.step, launch.started.attempt);
        self.groups.remember(&launch.agent.id, &token, group);
    }

    /// The agent's own folder, made on first use.
    fn task_folder(&self, agent: &Agent) -> Result<PathBuf, NotReady> {
        let folder = self.paths.tasks().join(file_name_of(&agent.id));
        create_private_folder(&folder)
            .map_err(|error| NotReady::Store(format!("cannot make {}: {error}", folder.display())))?;
        Ok(folder)
    }

    /// The payload handed to the agent's state, and a file of the agent's own that holds it.
    fn handed(&self, agent: &Agent) -> Result<Option<(String, PathBuf)>, NotReady> {
        let Some(payload) = &agent.payload else { return Ok(None) };
        let text = self.text_of(payload)?;
        let file = self.paths.tasks().join(format!("{}.input", file_name_of(&agent.id)));
        // The last state may have made the file its own.
        let _ = fs::remove_file(&file);
        fs::write(&file, &text)
            .map_err(|error| NotReady::Store(format!("cannot write {}: {error}", file.display())))?;
        Ok(Some((text, file)))
    }
}

/// Agent names grow with each generation of forks; file systems stop at 255 bytes.
fn file_name_of(agent: &AgentId) -> String {
    const MOST: usize = 120;
    let name = agent.as_str();
    if name.len() <= MOST {
        return name.to_owned();
    }
    let start: String = name.chars().take(MOST / 4).collect();
    format!("{start}-{:08x}", crc32fast::hash(name.as_bytes()))
}

fn create_private_folder(folder: &Path) -> std::io::Result<()> {
    let mut builder = fs::DirBuilder::new();
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    match builder.create(folder) {
        Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists && folder.is_dir() => Ok(()),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => builder.recursive(true).create(folder),
        other => other,
    }
}

/// What became of an attempt, as far as it can be told before it is decided about.
fn verdict(outcome: &Outcome) -> Verdict {
    let failed =
        |error: &str, cost_usd| Verdict { status: Status::Failed, error: Some(error.to_owned()), cost_usd };
    match outcome {
        Outcome::Interrupted { cost } => {
            Verdict { status: Status::Interrupted, error: None, cost_usd: *cost }
        }
        Outcome::Script(ScriptOutcome::Exited { exit, reading, .. }) => match reading {
            _ if !exit.is_success() => failed(&exit.to_string(), Usd::ZERO),
            Ok(_) => Verdict { status: Status::Succeeded, error: None, cost_usd: Usd::ZERO },
            Err(error) => failed(error, Usd::ZERO),
        },
        Outcome::Script(ScriptOutcome::TimedOut { .. }) => failed("timed out", Usd::ZERO),
        Outcome::Script(ScriptOutcome::BadOutput { error, .. } | ScriptOutcome::NotStarted { error }) => {
            failed(error, Usd::ZERO)
        }
        Outcome::Turn(TurnOutcome::Failed(turn)) => failed(&turn.error, turn.cost.usd),
        Outcome::Turn(TurnOutcome::Completed(turn)) => match &turn.reading {
            Err(message) if !message.has_no_tag => failed(&message.problem, turn.cost.usd),
            _ => Verdict { status: Status::Succeeded, error: None, cost_usd: turn.cost.usd },
        },
    }
}

/// Why a step's program is not even started.
enum NotReady {
    /// The step fails.
    Step(String),
    /// What Raymond keeps cannot be read or written. That is nothing a workflow could handle, so the run ends.
    Store(String),
}

impl From<String> for NotReady {
    fn from(error: String) -> Self {
        Self::Step(error)
    }
}
