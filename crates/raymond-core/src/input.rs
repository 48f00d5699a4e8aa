//! What reaches the core from outside. The shell looks everything up beforehand, so deciding needs no I/O.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::event::Interrupted;
use crate::header::Header;
use crate::money::Usd;
use crate::name::AgentId;
use crate::run::Options;
use crate::transition::Reading;
use crate::workflow::StateFile;

/// Something happened that may change the run.
#[derive(Debug)]
pub enum Input {
    /// A process takes the run up again. What was running when the last one died is known dead.
    Resume {
        options: Options,
        interrupted: Vec<Interrupted>,
    },
    /// It is this agent's turn; its state has been read.
    Launch {
        agent: AgentId,
        prepared: Result<Prepared, String>,
    },
    /// A step's program has ended.
    Ended(Box<Ended>),
    /// A step printed something for whoever watches.
    Print {
        agent: AgentId,
        step: u64,
        attempt: u32,
        text: String,
    },
    /// Something the user should know.
    Warning { agent: Option<AgentId>, message: String },
    /// This agent's result is final.
    End { agent: AgentId },
    /// Nothing is left to do, or a person asked to stop.
    Close { stop_requested: bool },
}

/// A state as its file stood when the step starts.
#[derive(Clone, Debug)]
pub struct Prepared {
    pub hash: String,
    pub plan: Plan,
    /// What the file's header says that Raymond does not understand.
    pub warnings: Vec<String>,
}

/// What a state asks of its execution.
#[derive(Clone, Debug)]
pub enum Plan {
    Script(Header),
}

impl Plan {
    pub fn max_visits(&self) -> Option<u64> {
        match self {
            Plan::Script(header) => header.max_visits,
        }
    }
}

/// How a step's program ended.
#[derive(Debug)]
pub struct Ended {
    pub agent: AgentId,
    pub step: u64,
    pub attempt: u32,
    pub duration_ms: u64,
    pub plan: Plan,
    pub outcome: Outcome,
    pub lookups: Lookups,
}

#[derive(Debug)]
pub enum Outcome {
    Script(ScriptOutcome),
    /// Ended because the run stops; `cost` is an estimate.
    Interrupted {
        cost: Usd,
    },
}

#[derive(Debug)]
pub enum ScriptOutcome {
    /// `reading` is what its output said comes next, or why that cannot be told.
    Exited {
        exit: Exit,
        reading: Result<Reading, String>,
        stderr: String,
    },
    /// Ended because its output broke a bound.
    BadOutput {
        error: String,
        stderr: String,
    },
    TimedOut {
        kind: TimeLimit,
        after: Duration,
        stderr: String,
    },
    NotStarted {
        error: String,
    },
}

/// How a program left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit {
    Code(i32),
    Signal(i32),
}

impl Exit {
    pub fn is_success(self) -> bool {
        self == Exit::Code(0)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TimeLimit {
    /// No output for too long.
    Idle,
    /// Too long in all.
    Total,
}

/// What the names in a step's output stand for: asked of the scope and the disk by the shell.
#[derive(Clone, Debug, Default)]
pub struct Lookups {
    pub states: BTreeMap<String, Result<StateFile, String>>,
    pub directories: BTreeMap<String, Result<String, String>>,
}

impl Lookups {
    /// Whether everything that was looked up is there.
    pub fn all_found(&self) -> bool {
        self.states.values().all(Result::is_ok) && self.directories.values().all(Result::is_ok)
    }

    pub fn state(&self, name: &str) -> Result<StateFile, String> {
        self.states
            .get(name)
            .cloned()
            .unwrap_or_else(|| Err(format!("`{name}` was not looked up")))
    }

    pub fn directory(&self, path: &str) -> Result<String, String> {
        self.directories
            .get(path)
            .cloned()
            .unwrap_or_else(|| Err(format!("`{path}` was not looked up")))
    }
}
