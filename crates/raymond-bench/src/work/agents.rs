//! A turn of each real agent program that is installed, beside the same program started without Raymond. A stand-in
//! answers for the models.

#[expect(dead_code, clippy::unwrap_used, reason = "shared with the tests of the real programs")]
#[path = "../../../raymond/tests/real/programs.rs"]
mod programs;

use std::fs;
use std::io::{Read, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use mock_api::{Api, say};
use programs::Program;
use raymond::agent::registry::program;
use raymond::agent::{AgentProgram, Turn, TurnEnding, TurnReader};
use test_kit::rig::Rig as Place;

use crate::report::Row;
use crate::rig::Rig;
use crate::sample::{Sample, mebibytes};

/// How often each turn is taken.
const TURNS: u64 = 7;
/// How often its memory is watched.
const LOOKS_AT_MEMORY: u64 = 3;
/// How much of the bare program's time and memory a turn may take.
const MOST: f64 = 1.05;
/// A backend whose program answers at once, so that a turn takes only Raymond's own time.
const AT_ONCE: &str =
    "[backend.at-once]\nkind = \"command\"\ncommand = \"echo\"\nargs = [\"<result>done</result>\"]\n";
/// How long to wait between two looks at the memory of a program.
const LOOK_EVERY: Duration = Duration::from_millis(5);

pub fn measure(rig: &Rig) -> Result<Vec<Row>, String> {
    let mut rows = Vec::new();
    for program in Program::all().filter(Program::is_installed) {
        eprintln!("  {}", program.name());
        rows.extend(Stage::new(&program, rig.raymond_path()).measure()?);
    }
    Ok(rows)
}

/// A folder of its own in which one program takes turns.
struct Stage<'p> {
    program: &'p Program,
    place: Place,
    variables: Vec<(&'static str, String)>,
    /// It answers as long as it is there.
    _api: Api,
}

impl<'p> Stage<'p> {
    fn new(program: &'p Program, raymond: &Path) -> Self {
        let place = Place::new(raymond);
        let api = Api::start();
        api.on("begin", [say("<result>done</result>")]);
        let variables = program.set_up(&place, &api.url());
        let settings = program.settings();
        let name = program.backend();
        let model = if program.capabilities().model {
            format!("model = {:?}\n", program.kind.model)
        } else {
            String::new()
        };
        place.write(
            ".raymond/config.toml",
            format!(
                "[raymond]\nbackend = \"{name}\"\ndurability = \"process\"\n[backend.{name}]\ncommand = {:?}\n\
                 args = {:?}\nbranches = {}\n{model}{AT_ONCE}",
                settings.command.unwrap_or_default(),
                settings.args,
                settings.branches
            ),
        );
        place.state("START.md", "begin");
        Self { program, place, variables, _api: api }
    }

    /// The turns of both sides alternate.
    fn measure(&self) -> Result<Vec<Row>, String> {
        let (mut ours, mut own, mut bare) = (Sample::new(), Sample::new(), Sample::new());
        // The first turn of a program unpacks and caches things.
        self.bare_turn(0, |_| {})?;
        for number in 1..=TURNS {
            bare.add_time(self.bare_turn(number, |_| {})?);
            ours.add_time(self.run(&[], |_| {})?);
            own.add_time(self.run(&["--backend", "at-once"], |_| {})?);
        }
        let (mut our_memory, mut bare_memory) = (Sample::new(), Sample::new());
        for number in 1..=LOOKS_AT_MEMORY {
            self.bare_turn(TURNS + number, |child| bare_memory.add(self.watch(child, false)))?;
            self.run(&[], |child| our_memory.add(self.watch(child, true)))?;
        }
        let name = self.program.name();
        let in_mebibytes = |memory: &Sample| mebibytes(memory.median() as u64);
        Ok(vec![
            Row::ratio(
                &format!("a turn of {name}, less Raymond's own time"),
                &ours,
                format!("{bare} + {own}"),
                ours.less(&own).beside(&bare),
            )
            .at_most(MOST),
            Row::ratio(
                &format!("a turn of {name}: memory of its processes"),
                in_mebibytes(&our_memory),
                in_mebibytes(&bare_memory),
                our_memory.beside(&bare_memory),
            )
            .at_most(MOST),
        ])
    }

    /// A program of the stage, with the variables of the agent program.
    fn prepared(&self, mut command: Command) -> Command {
        command
            .envs(self.variables.iter().map(|(name, value)| (name, value)))
            .env("ANTHROPIC_API_KEY", "dummy");
        if let Some(node) = self.program.own_node() {
            let path = std::env::var("PATH").unwrap_or_default();
            command.env("PATH", format!("{}:{path}", node.display()));
        }
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        command
    }

    fn run(&self, options: &[&str], watch: impl FnOnce(&mut Child)) -> Result<Duration, String> {
        let args = [&["workflow", "--no-debug", "--quiet", "--budget", "0"], options].concat();
        let mut command = self.prepared(self.place.command(&args));
        let began = Instant::now();
        let mut child = command.spawn().map_err(|error| error.to_string())?;
        watch(&mut child);
        let status = child.wait().map_err(|error| error.to_string())?;
        let took = began.elapsed();
        match status.success() {
            true => Ok(took),
            false => {
                Err(format!("`raymond {}` with {} ended with {status}", args.join(" "), self.program.name()))
            }
        }
    }

    fn bare_turn(&self, number: u64, watch: impl FnOnce(&mut Child)) -> Result<Duration, String> {
        let agent =
            program(self.program.backend(), &self.program.settings()).map_err(|error| error.message)?;
        let can = agent.capabilities();
        let turn = Turn {
            prompt: "begin".to_owned(),
            cwd: self.place.work(),
            session: can.takes_session_id().then(|| format!("00000000-0000-4000-8000-{number:012}")),
            model: can.model.then(|| self.program.kind.model.to_owned()),
            ..Turn::default()
        };
        let invocation = agent.invocation(&turn)?;
        let mut command = self.prepared(self.place.program(&invocation.program));
        command.args(&invocation.args).envs(invocation.set).stdin(Stdio::piped()).stdout(Stdio::piped());
        for name in invocation.unset {
            command.env_remove(name);
        }
        let began = Instant::now();
        let mut child = command.spawn().map_err(|error| error.to_string())?;
        let talk = Talk { stdin: child.stdin.take(), stdout: child.stdout.take(), first: invocation.stdin };
        let talker = thread::scope(|scope| {
            let talker = scope.spawn(|| talk.until_its_end(&*agent, &turn));
            watch(&mut child);
            talker.join().map_err(|_| "the turn could not be read".to_owned())
        });
        let _ = child.wait();
        let took = began.elapsed();
        talker?.map(|()| took)
    }

    /// The most memory that the processes of the turn have at the same time, without Raymond's own.
    fn watch(&self, child: &mut Child, is_raymond: bool) -> f64 {
        let raymond = i32::try_from(child.id()).ok().filter(|_| is_raymond);
        let mut most = 0;
        while matches!(child.try_wait(), Ok(None)) {
            let processes = self.place.survivors().into_iter().filter(|(pid, _)| Some(*pid) != raymond);
            most = most.max(processes.map(|(pid, _)| resident(pid)).sum());
            thread::sleep(LOOK_EVERY);
        }
        most as f64
    }
}

/// A turn without Raymond: its program is told what it has to be told, and read to its end.
struct Talk {
    stdin: Option<std::process::ChildStdin>,
    stdout: Option<std::process::ChildStdout>,
    /// What is written before the program says anything.
    first: Vec<u8>,
}

impl Talk {
    fn until_its_end(self, agent: &dyn AgentProgram, turn: &Turn) -> Result<(), String> {
        let Talk { mut stdin, stdout, first } = self;
        let mut stdout = stdout.ok_or("no output")?;
        let mut reader = TurnReader::new(agent, turn);
        let mut piece = vec![0; 64 * 1024];
        let mut next = first;
        loop {
            let input = reader.input();
            next.extend(input.bytes);
            if let Some(open) = stdin.as_mut() {
                open.write_all(&next).map_err(|error| error.to_string())?;
            }
            next.clear();
            stdin = stdin.filter(|_| !input.is_last);
            match stdout.read(&mut piece).map_err(|error| error.to_string())? {
                0 => break,
                length => drop(reader.feed(&piece[..length])),
            }
        }
        reader.close();
        // The exit code is not known here; where a program is judged by it, its events agree.
        reader.finish(TurnEnding::Code(0), "").map(drop).map_err(|failed| failed.fault.to_string())
    }
}

/// The resident memory of a process, in bytes.
fn resident(pid: i32) -> u64 {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap_or_default();
    line.trim().trim_end_matches(" kB").parse::<u64>().unwrap_or(0) * 1024
}
