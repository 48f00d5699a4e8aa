//! Runs with a long past, made by the real engine and the real journal without starting a single program.

use std::collections::BTreeMap;
use std::path::Path;

use jiff::Timestamp;
use raymond::run::engine::{Command, Engine};
use raymond::store::events::JournalStore;
use raymond::store::{Durability, Journal, JournalOptions, Payloads, RunLock, StateDir};
use raymond_core::decide;
use raymond_core::event::{FORMAT_VERSION, RunStarted};
use raymond_core::header::Header;
use raymond_core::input::{Ended, Exit, Input, Lookups, Outcome, Plan, Prepared, ScriptOutcome};
use raymond_core::run::{Agent, Options};
use raymond_core::tag::TagCollector;
use raymond_core::transition;
use raymond_core::workflow::StateFile;

struct AnyState;

impl raymond::run::engine::States for AnyState {
    fn prepare(&mut self, _agent: &Agent) -> Result<Prepared, String> {
        Ok(Prepared { hash: "0".repeat(64), plan: Plan::Script(Header::default()), warnings: Vec::new() })
    }
}

/// Writes the journal of a run named `r` in which each state printed what `prints` says, until `steps` steps have
/// been started. The steps that were under way then are what a resume begins with.
pub fn write(
    project: &Path,
    workflow: &str,
    steps: u64,
    prints: &dyn Fn(&str, u64) -> String,
) -> Result<(), String> {
    let dir = StateDir::find(project).map_err(|error| error.to_string())?;
    dir.create().map_err(|error| error.to_string())?;
    let paths = dir.run("r").map_err(|error| error.to_string())?;
    let lock = RunLock::acquire(&paths.lock()).map_err(|error| error.to_string())?;
    let options = JournalOptions { durability: Durability::Process, ..Default::default() };
    let journal = Journal::create(&paths, options, &lock).map_err(|error| error.to_string())?;
    let payloads = Payloads::new(paths.payloads(), Durability::Process);
    let started = RunStarted {
        version: FORMAT_VERSION,
        workflow: workflow.to_owned(),
        scope: project.join(workflow).to_string_lossy().into_owned(),
        scope_hash: None,
        entry: StateFile::new("START.sh").ok_or("START.sh is a state")?,
        cwd: project.to_string_lossy().into_owned(),
        nonce: "bench".to_owned(),
        labels: BTreeMap::new(),
        options: Options::default(),
    };
    let now = Timestamp::now();
    let store = JournalStore::new(journal, payloads, lock);
    let (mut engine, _) =
        Engine::create("r", now, decide::start(started, None), store).map_err(|error| error.0)?;
    let mut inputs = Vec::new();
    loop {
        let round = engine.round(now, std::mem::take(&mut inputs), &mut AnyState).map_err(|error| error.0)?;
        for command in round.commands {
            if let Command::Launch(launch) = command
                && launch.started.step < steps
            {
                inputs.push(ended(&launch.agent, launch.started.step, launch.plan, prints)?);
            }
        }
        if inputs.is_empty() {
            return Ok(());
        }
    }
}

fn ended(
    agent: &Agent,
    step: u64,
    plan: Plan,
    prints: &dyn Fn(&str, u64) -> String,
) -> Result<Input, String> {
    let mut tags = TagCollector::new();
    let text = prints(agent.state.name(), step);
    tags.feed(text.as_bytes(), &mut drop).map_err(|error| error.to_string())?;
    let collected = tags.finish(&mut drop).map_err(|error| error.to_string())?;
    let reading = transition::read(collected, false).map_err(|error| error.to_string())?;
    let file = |name: &str| StateFile::new(&format!("{name}.sh")).ok_or_else(|| name.to_owned());
    let states =
        reading.transition.state_names().into_iter().map(|name| (name.to_owned(), file(name))).collect();
    Ok(Input::Ended(Box::new(Ended {
        agent: agent.id.clone(),
        step,
        attempt: 1,
        duration_ms: 1,
        plan,
        outcome: Outcome::Script(ScriptOutcome::Exited {
            exit: Exit::Code(0),
            reading: Ok(reading),
            stderr: String::new(),
        }),
        lookups: Lookups { states, ..Default::default() },
    })))
}
