//! Workflows for the simulation: real state files, and what their programs do instead of running.

use std::cell::OnceCell;
use std::fs;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::time::Duration;

use raymond::author::convert::convert;
use raymond_core::event::{FORMAT_VERSION, RunStarted};
use raymond_core::input::FaultClass;
use raymond_core::money::Usd;
use raymond_core::run::{Agent, Options};
use raymond_core::workflow::StateFile;
use tempfile::TempDir;

use crate::course::Course;
use crate::host::NONCE;
use crate::library::own_scope;

/// The folder for the lock, which is a real file.
pub const LOCKS: &str = "locks";
/// Other folders beside the workflows, for a `cd` to name.
const FOLDERS: [&str; 4] = [LOCKS, "here", "there", "there/below"];

/// What one attempt does.
#[derive(Clone, Debug)]
pub enum Does {
    /// Prints this and exits with 0; for a prompt it is the final message.
    Says(String),
    Exits(i32),
    DiesBySignal(i32),
    /// Is silent until it times out.
    Hangs,
    /// Prints output until it times out.
    Overruns,
    /// Prints something that cannot be parsed, for this reason.
    Babbles(String),
    /// The turn of an agent fails with this message.
    Fails(FaultClass, String),
    /// The agent's turn ends at a usage limit that is reset this many seconds later.
    HitsLimit(u32),
    /// It is not known how it would have ended.
    GoesOn,
}

#[derive(Clone, Debug)]
pub struct Act {
    pub does: Does,
    pub cost: Usd,
    /// Its estimated cost if it was ended early.
    pub cost_if_lost: Usd,
    pub time: Duration,
    /// A child that keeps running after the program has ended.
    pub leaves_child: bool,
    /// Ends only when it is killed.
    pub is_stubborn: bool,
}

impl Act {
    pub fn new(does: Does) -> Self {
        let time = Duration::from_secs(1);
        let (cost, cost_if_lost) = (Usd::ZERO, Usd::ZERO);
        Self { does, cost, cost_if_lost, time, leaves_child: false, is_stubborn: false }
    }

    pub fn cents(self, cents: u32) -> Self {
        let cost = Usd::from_dollars(f64::from(cents) / 100.0);
        Self { cost, cost_if_lost: cost.divided_by(2), ..self }
    }

    pub fn seconds(self, seconds: u32) -> Self {
        Self { time: Duration::from_secs(u64::from(seconds)), ..self }
    }

    pub fn leaving_a_child(self) -> Self {
        Self { leaves_child: true, ..self }
    }

    pub fn stubborn(self) -> Self {
        Self { is_stubborn: true, ..self }
    }
}

/// Prints a text, in which `{input}`, `{visits}`, `{agent}`, `{place}`, `{home}` and `{big}` are replaced.
pub fn says(text: &str) -> Act {
    Act::new(Does::Says(text.to_owned()))
}

pub fn exits(code: i32) -> Act {
    Act::new(Does::Exits(code))
}

pub fn fails(class: FaultClass) -> Act {
    Act::new(Does::Fails(class, format!("{class:?}")))
}

#[derive(Clone, Debug)]
pub struct State {
    pub file: StateFile,
    /// The content of the file.
    pub text: String,
    /// What happens on each visit, at each try; the last ones are repeated.
    pub visits: Vec<Vec<Act>>,
}

/// One workflow, whose name says its form: a folder, an archive or one file.
#[derive(Clone, Debug)]
pub struct Workflow {
    pub name: String,
    pub states: Vec<State>,
}

/// A workflow with those that it enters, and how it is run.
#[derive(Clone, Debug)]
pub struct Program {
    pub name: String,
    /// The first is the run's own.
    pub workflows: Vec<Workflow>,
    /// The recording, for a program made from a case folder.
    pub course: Option<Rc<Course>>,
    pub options: Options,
    /// Whether open questions end the run until they are answered.
    pub pauses: bool,
    pub is_answered: bool,
    pub segment_bytes: u64,
    /// Whether the run is stored in memory instead of in files.
    pub lives_in_memory: bool,
    /// Whether the journal is synced.
    pub is_synced: bool,
    /// Whether its result contains no error messages.
    pub names_no_error: bool,
    /// The expected result, if it is known.
    pub result: Option<String>,
    home: Rc<OnceCell<TempDir>>,
}

impl Program {
    pub fn new(name: &str) -> Self {
        Self {
            name: name.to_owned(),
            workflows: vec![Workflow { name: "own".to_owned(), states: Vec::new() }],
            course: None,
            options: Options { budget_usd: Usd::ZERO, ..Options::default() },
            pauses: false,
            is_answered: true,
            segment_bytes: 8 * 1024 * 1024,
            lives_in_memory: false,
            is_synced: true,
            names_no_error: true,
            result: None,
            home: Rc::default(),
        }
    }

    /// Starts another workflow: the states that follow belong to it.
    pub fn workflow(mut self, name: &str) -> Self {
        self.workflows.push(Workflow { name: name.to_owned(), states: Vec::new() });
        self
    }

    /// A state that does the same at every visit and every try.
    pub fn state(self, file: &str, text: &str, act: Act) -> Self {
        self.visits(file, text, vec![vec![act]])
    }

    /// A state whose tries differ.
    pub fn tries(self, file: &str, text: &str, tries: Vec<Act>) -> Self {
        self.visits(file, text, vec![tries])
    }

    pub fn visits(mut self, file: &str, text: &str, visits: Vec<Vec<Act>>) -> Self {
        let file = StateFile::new(file).expect("a state's name");
        let workflow = self.workflows.last_mut().expect("there is always one");
        workflow.states.push(State { file, text: text.to_owned(), visits });
        self
    }

    pub fn with(mut self, change: impl FnOnce(&mut Self)) -> Self {
        change(&mut self);
        self
    }

    /// The folder of the workflows, written when it is first needed.
    pub fn home(&self) -> &Path {
        self.home
            .get_or_init(|| {
                let home = tempfile::tempdir().expect("a folder for the workflows");
                for folder in FOLDERS {
                    fs::create_dir_all(home.path().join(folder)).expect("a folder");
                }
                self.workflows.iter().for_each(|workflow| workflow.write(home.path()));
                home
            })
            .path()
    }

    pub fn own(&self) -> PathBuf {
        self.home().join(&self.workflows[0].name)
    }

    /// The first event of the journal.
    pub fn run_started(&self) -> RunStarted {
        if let Some(course) = &self.course {
            return course.started.clone();
        }
        let path = |path: &Path| path.to_str().expect("a path of this test").to_owned();
        let scope = own_scope(self);
        RunStarted {
            scope_hash: scope.hash().map(str::to_owned),
            version: FORMAT_VERSION,
            workflow: self.name.clone(),
            scope: path(&self.own()),
            entry: scope.entry().expect("every program has a first state"),
            cwd: path(self.home()),
            nonce: NONCE.to_owned(),
            inputs: Default::default(),
            labels: Default::default(),
            options: self.options.clone(),
            moved: Default::default(),
            origin: None,
        }
    }

    /// A state of the workflow that an agent is in.
    pub fn state_of(&self, agent: &Agent, file: &StateFile) -> &State {
        let own = &self.workflows[0].name;
        let name = agent.scope.as_ref().and_then(|path| Path::new(path).file_name()?.to_str()).unwrap_or(own);
        let workflow = self.workflows.iter().find(|workflow| workflow.name == name);
        let states = &workflow.expect("a workflow of the program").states;
        states.iter().find(|state| state.file == *file).expect("a state")
    }

    /// What the program of an agent's state does at a visit, after this many tries have ended.
    pub fn act(&self, agent: &Agent, visit: u64, tries: usize) -> Act {
        let visits = &self.state_of(agent, &agent.state).visits;
        let visit = (visit as usize).saturating_sub(1).min(visits.len() - 1);
        visits[visit][tries.min(visits[visit].len() - 1)].clone()
    }
}

impl State {
    /// Whether it matters how often an agent has entered it.
    pub fn counts_visits(&self) -> bool {
        let tells = |act: &Act| matches!(&act.does, Does::Says(text) if text.contains("{visits}"));
        self.visits.len() > 1 || self.text.contains("max_visits") || self.visits.iter().flatten().any(tells)
    }
}

impl Workflow {
    fn write(&self, home: &Path) {
        let path = home.join(&self.name);
        let folder = if self.is_folder() { path.clone() } else { path.with_extension("") };
        fs::create_dir_all(&folder).expect("a folder for the states");
        for state in &self.states {
            fs::write(folder.join(state.file.as_str()), &state.text).expect("a state");
        }
        if !self.is_folder() {
            convert(&folder, &path, false, false).expect("every form holds the same");
            fs::remove_dir_all(&folder).expect("the folder is not needed");
        }
    }

    fn is_folder(&self) -> bool {
        Path::new(&self.name).extension().is_none()
    }
}
