//! Generated workflows, run for real: recorded with prepared replies, and then replayed from the recording. The replayed
//! run must take the same path, with the same results and the same cost.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use raymond_core::workflow::Kind;
use serde_json::{Value, json};
use test_kit::rig::Rig;

use crate::program::{Act, Does, Program, State};

/// What each prompt says besides its settings. Agents of the same input have the same prompt, wherever they work.
const BODY: &str = " {{input}} in {{task_folder}} of {{run_id}}";

/// Records a run of the program with the program `raymond`, and replays it. An error says how the two differ.
pub fn replay(program: &Program, raymond: &Path) -> Result<(), String> {
    let real = for_real(program);
    let home = real.home().canonicalize().map_err(|error| error.to_string())?;
    let config = format!(
        "[raymond]\nbackend = \"prepared\"\n[backend.prepared]\nkind = \"scripted\"\nreplies = \"{}\"\n",
        home.join("replies.yaml").display()
    );
    let write =
        |name: &str, text: String| fs::write(home.join(name), text).map_err(|error| error.to_string());
    fs::create_dir_all(home.join(".raymond")).map_err(|error| error.to_string())?;
    write(".raymond/config.toml", config)?;
    write("replies.yaml", replies(program, &home).to_string())?;
    let own = home.join(&real.workflows[0].name);
    let stage = Stage { rig: Rig::new(raymond), home: &home, own: &own.to_string_lossy() };
    let recorded = stage.run("first", &["--record", "turns.rec.jsonl"])?;
    // Without replies, only the recording can answer.
    fs::remove_file(home.join("replies.yaml")).map_err(|error| error.to_string())?;
    let replayed = stage.run("second", &["--replay", "turns.rec.jsonl"])?;
    match recorded == replayed {
        true => Ok(()),
        false => Err(format!("{}: recorded {recorded:#?}\nreplayed {replayed:#?}", program.name)),
    }
}

/// What is compared of a run.
#[derive(Debug, PartialEq)]
struct Course {
    exit: i32,
    result: Value,
    cost_usd: Value,
    /// The transitions of each agent.
    paths: BTreeMap<String, Vec<String>>,
}

struct Stage<'a> {
    rig: Rig,
    home: &'a Path,
    own: &'a str,
}

impl Stage<'_> {
    /// Runs the workflow to its end; every question is answered.
    fn run(&self, id: &str, how: &[&str]) -> Result<Course, String> {
        let mut exit = self.raymond(&[&["run", self.own, "--id", id][..], how].concat()).0;
        while exit == 3 {
            let asks = self.status(id)?["asks"].as_array().cloned().unwrap_or_default();
            for ask in asks.iter().filter_map(|ask| ask["id"].as_str()) {
                self.raymond(&["answer", id, ask, "yes"]);
            }
            exit = self.raymond(&["resume", id]).0;
        }
        let status = self.status(id)?;
        let log = self.raymond(&["log", id, "--json"]).1;
        let mut paths: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for event in log.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok()) {
            if event["event"] == "step_finished" {
                let text = |key: &str| event[key].as_str().unwrap_or_default().to_owned();
                let step = format!("{} {} {}", text("state"), text("tag"), text("target"));
                paths.entry(text("agent")).or_default().push(step);
            }
        }
        Ok(Course { exit, result: status["result"].clone(), cost_usd: status["cost_usd"].clone(), paths })
    }

    fn status(&self, id: &str) -> Result<Value, String> {
        let (_, shown) = self.raymond(&["status", id, "--json"]);
        serde_json::from_str(&shown).map_err(|error| format!("{}: {error}", self.own))
    }

    fn raymond(&self, args: &[&str]) -> (i32, String) {
        let mut command = self.rig.command(args);
        // Deep in the project, so that `..` is still in it.
        command.current_dir(self.home.join("there/below"));
        let done = self.rig.launch(command).wait();
        (done.exit, done.stdout)
    }
}

/// The same program with scripts that can be run, and without long waits.
fn for_real(program: &Program) -> Program {
    let mut real = Program::new(&program.name);
    real.workflows = program.workflows.clone();
    for state in real.workflows.iter_mut().flat_map(|workflow| &mut workflow.states) {
        state.text = match state.file.kind() {
            Kind::Prompt => format!("{}{BODY}", state.text),
            _ => script(state),
        };
    }
    real
}

/// A script that prints what the state says at each visit. Its failures would only make it run again.
fn script(state: &State) -> String {
    let mut text = format!("{}\ncase $RAYMOND_VISITS in\n", state.text);
    for (number, tries) in state.visits.iter().enumerate() {
        let visit = if number + 1 == state.visits.len() { "*".to_owned() } else { (number + 1).to_string() };
        let says = tries.last().and_then(said).unwrap_or_default();
        let says = without_waits(says)
            .replace("{home}", "${RAYMOND_STATE_DIR%/*}")
            .replace("{place}", "$PWD")
            .replace("{visits}", "$RAYMOND_VISITS")
            .replace("{agent}", "$RAYMOND_AGENT_ID")
            .replace("{input}", "$RAYMOND_INPUT");
        text += &format!("{visit}) cat <<END\n{says}\nEND\n;;\n");
    }
    text + "esac\n"
}

/// What agents say, by state: at each visit first what makes no transition, then what does.
fn replies(program: &Program, home: &Path) -> Value {
    let states = program.workflows.iter().flat_map(|workflow| &workflow.states);
    let prompts = states.filter(|state| state.file.kind().is_prompt());
    let by_state = prompts.map(|state| {
        let acts = state.visits.iter().flatten().filter_map(|act| Some((said(act)?, act.cost)));
        let replies = acts.map(|(says, cost)| {
            let says = without_waits(says).replace("{home}", &home.to_string_lossy());
            json!({ "reply": says, "cost": cost.dollars() })
        });
        (state.file.name().to_owned(), Value::Array(replies.collect()))
    });
    Value::Object(by_state.collect())
}

fn said(act: &Act) -> Option<&str> {
    match &act.does {
        Does::Says(text) => Some(text),
        _ => None,
    }
}

/// The text with short delays.
fn without_waits(text: &str) -> String {
    const DELAY: &str = "delay=\"";
    let Some((before, rest)) = text.split_once(DELAY) else { return text.to_owned() };
    let after = rest.split_once('"').map_or("", |(_, after)| after);
    format!("{before}{DELAY}1ms\"{after}")
}
