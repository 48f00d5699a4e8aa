//! One attempt at a step, from its program's start to the report about its end.

mod prompt;
mod script;

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use raymond_core::input::{Ended, Input, Lookups, Outcome, Plan};
use raymond_core::name::AgentId;
use raymond_core::payload::Payload;
use raymond_core::run::Agent;
use raymond_core::transition::Transition;
use raymond_core::workflow::Platform;
use tokio::sync::mpsc::UnboundedSender;

use crate::backend::registry::Backends;
use crate::engine::Launch;
use crate::observe::Stream;
use crate::paths::normalise;
use crate::process::{Reaper, StopSignal};
use crate::scope::Folder;
use crate::store::{Payloads, RunPaths};

/// What a step tells the driver.
#[derive(Debug)]
pub enum Message {
    Input(Input),
    /// Output to show; it drives nothing.
    Output {
        agent: AgentId,
        stream: Stream,
        bytes: Vec<u8>,
    },
}

/// What all steps of a run share.
pub struct StepContext {
    pub run_id: String,
    pub nonce: String,
    pub platform: Platform,
    pub scope: Rc<RefCell<Folder>>,
    pub paths: RunPaths,
    pub payloads: Payloads,
    pub reaper: Reaper,
    pub backends: Backends,
    pub skip_permissions: bool,
    pub messages: UnboundedSender<Message>,
    /// Whether anybody wants to see output.
    pub shows_output: bool,
}

/// The mark by which everything that an attempt started is found again.
pub fn token(nonce: &str, step: u64, attempt: u32) -> String {
    format!("{nonce}-{step}-{attempt}")
}

impl StepContext {
    /// Runs an attempt to its end and reports it.
    pub async fn run(&self, launch: Launch, stop: StopSignal) {
        let clock = tokio::time::Instant::now();
        let (outcome, lookups) = match &launch.plan {
            Plan::Script(header) => script::run(self, &launch, header, stop).await,
            Plan::Prompt(plan) => prompt::run(self, &launch, plan, stop).await,
        };
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

    /// The driver outlives its steps; if it is gone, nobody is left to tell.
    fn send(&self, message: Message) {
        let _ = self.messages.send(message);
    }

    /// Shows a piece of output, if anybody wants to see it.
    fn show(&self, agent: &AgentId, stream: Stream, bytes: &[u8]) {
        if self.shows_output {
            self.send(Message::Output { agent: agent.clone(), stream, bytes: bytes.to_vec() });
        }
    }

    fn text_of(&self, payload: &Payload) -> Result<String, String> {
        match payload {
            Payload::Inline(text) => Ok(text.clone()),
            Payload::Stored { payload, .. } => self.payloads.get(payload).map_err(|error| error.to_string()),
        }
    }

    /// Looks up every name in a transition, so that deciding about it needs no disk.
    fn look_up(&self, agent: &Agent, transition: &Transition) -> Lookups {
        let mut scope = self.scope.borrow_mut();
        let states: BTreeSet<&str> = transition.state_names().into_iter().collect();
        let directories: BTreeSet<&str> = transition.directories().into_iter().collect();
        Lookups {
            states: states.into_iter().map(|name| (name.to_owned(), scope.resolve(name))).collect(),
            directories: directories
                .into_iter()
                .map(|path| (path.to_owned(), directory(&agent.cwd, path)))
                .collect(),
        }
    }

    /// The agent's own folder, made on first use.
    fn task_folder(&self, agent: &Agent) -> Result<PathBuf, String> {
        let folder = self.paths.tasks().join(file_name_of(&agent.id));
        create_private_folder(&folder)
            .map_err(|error| format!("cannot make {}: {error}", folder.display()))?;
        Ok(folder)
    }

    /// The payload handed to the agent's state, and a file that holds it.
    fn handed(&self, agent: &Agent) -> Result<Option<(String, PathBuf)>, String> {
        match &agent.payload {
            None => Ok(None),
            Some(stored @ Payload::Stored { payload, .. }) => {
                Ok(Some((self.text_of(stored)?, self.paths.payloads().join(payload))))
            }
            Some(Payload::Inline(text)) => {
                let file = self.paths.tasks().join(format!("{}.input", file_name_of(&agent.id)));
                fs::write(&file, text)
                    .map_err(|error| format!("cannot write {}: {error}", file.display()))?;
                Ok(Some((text.clone(), file)))
            }
        }
    }
}

/// A working directory as the next steps will use it. It must exist now: later would be too late to say so.
fn directory(cwd: &str, path: &str) -> Result<String, String> {
    let folder = normalise(Path::new(cwd), Path::new(path));
    if !folder.is_dir() {
        return Err(format!("`cd=\"{path}\"`: there is no folder {}", folder.display()));
    }
    folder
        .into_os_string()
        .into_string()
        .map_err(|path| format!("the name of the folder {} is not text", path.display()))
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
    if folder.is_dir() {
        return Ok(());
    }
    let mut builder = fs::DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(folder)
}

/// What a step that never ran reports.
fn not_started(error: String) -> (Outcome, Lookups) {
    (Outcome::Script(raymond_core::input::ScriptOutcome::NotStarted { error }), Lookups::default())
}
