//! Runs with a long history, made by the real engine and the real journal without starting any program.

use std::collections::BTreeMap;
use std::path::Path;

use jiff::Timestamp;
use raymond::run::engine::{Command, Engine, Preparation};
use raymond::store::{Durability, FolderStore, JournalOptions, RunStore, StateDir, StoreError};
use raymond_core::decide;
use raymond_core::event::{FORMAT_VERSION, RunStarted};
use raymond_core::header::Header;
use raymond_core::input::{Ended, Input, Lookups, Plan, Prepared, ProcessExit, ScriptOutcome, StepOutcome};
use raymond_core::run::{Agent, Options, Run};
use raymond_core::tag::TagCollector;
use raymond_core::transition;
use raymond_core::variable::Rules;
use raymond_core::workflow::StateFile;

struct AnyState;

impl raymond::run::engine::States for AnyState {
    type Job = ();

    fn prepare(&mut self, _: &Run, _: &Agent) -> Result<Preparation<()>, StoreError> {
        let plan = Plan::Script(Header::default());
        Ok(Ok((Prepared { hash: "0".repeat(64), plan, warnings: Vec::new() }, ())))
    }
}

/// Writes the journal of a run named `r` in which each state printed the result of `prints`, until `steps` steps have
/// been started. A resume begins with the steps that were running then.
pub fn write(
    project: &Path,
    workflow: &str,
    steps: u64,
    prints: &dyn Fn(&str, u64) -> String,
) -> Result<(), String> {
    // The program that is measured has a key of its own, with which it marks the run later.
    let dir = StateDir::find(project).map_err(|error| error.to_string())?.whatever_is_there();
    let options = JournalOptions { durability: Durability::Process, ..Default::default() };
    let writer = FolderStore::new(dir).create("r", options).map_err(|error| error.to_string())?;
    let started = RunStarted {
        version: FORMAT_VERSION,
        workflow: workflow.to_owned(),
        scope: project.join(workflow).to_string_lossy().into_owned(),
        scope_hash: None,
        entry: StateFile::new("START.sh").ok_or("START.sh is a state")?,
        cwd: project.to_string_lossy().into_owned(),
        nonce: "bench".to_owned(),
        inputs: Default::default(),
        labels: BTreeMap::new(),
        options: Options::default(),
        moved: Default::default(),
        origin: None,
    };
    let now = Timestamp::now();
    let (mut engine, _) =
        Engine::create("r", now, decide::start(started, None), writer).map_err(|error| error.to_string())?;
    let mut inputs = Vec::new();
    loop {
        let round = engine
            .round(now, std::mem::take(&mut inputs), &mut AnyState)
            .map_err(|error| error.to_string())?;
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
    let reading = transition::read(collected, Rules { from_model: false, case_insensitive: false })
        .map_err(|error| error.to_string())?;
    let file = |name: &str| StateFile::new(&format!("{name}.sh")).ok_or_else(|| name.to_owned());
    let states =
        reading.transition.state_names().into_iter().map(|name| (name.to_owned(), file(name))).collect();
    Ok(Input::Ended(Box::new(Ended {
        agent: agent.id.clone(),
        step,
        attempt: 1,
        duration_ms: 1,
        plan,
        outcome: StepOutcome::Script(ScriptOutcome::Exited {
            exit: ProcessExit::Code(0),
            reading: Ok(reading),
            other_case: Vec::new(),
            stderr: String::new(),
            shown: Default::default(),
        }),
        lookups: Lookups { states, ..Default::default() },
    })))
}
