//! What reaches the core from outside. The shell looks everything up beforehand, so deciding needs no I/O.

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::Timestamp;

use crate::event::Interrupted;
use crate::header::Header;
use crate::money::Usd;
use crate::name::AgentId;
use crate::policy::Policy;
use crate::run::{Options, Session};
use crate::transition::Reading;
use crate::workflow::StateFile;

/// Something happened that may change the run.
#[derive(Debug)]
pub enum Input {
    /// A process takes the run up again. What was running when the last one died is known dead.
    Resume { options: Options, interrupted: Vec<Interrupted> },
    /// It is this agent's turn; its state has been read.
    Launch { agent: AgentId, prepared: Result<Prepared, String> },
    /// A turn's program has told the session that it runs in.
    SessionKnown { agent: AgentId, step: u64, attempt: u32, session: String },
    /// A step's program has ended.
    Ended(Box<Ended>),
    /// A step printed something for whoever watches.
    Print { agent: AgentId, step: u64, attempt: u32, text: String },
    /// Something the user should know.
    Warning { agent: Option<AgentId>, message: String },
    /// This agent's result is final.
    End { agent: AgentId },
    /// All workers of this agent have ended; `result` tells it what came of them.
    Join { agent: AgentId, result: Result<String, String> },
    /// Somebody answered a question.
    Answer { ask: String, text: String, answer_id: Option<String> },
    /// Nobody answered this agent in time.
    AskTimeout { agent: AgentId },
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
    Prompt(Box<PromptPlan>),
}

impl Plan {
    pub fn max_visits(&self) -> Option<u64> {
        match self {
            Plan::Script(header) => header.max_visits,
            Plan::Prompt(prompt) => prompt.max_visits,
        }
    }
}

/// What deciding about a prompt's turn needs. What is sent, and how, is the executor's business.
#[derive(Clone, Debug, Default)]
pub struct PromptPlan {
    /// Without one everything is permitted.
    pub policy: Option<Policy>,
    /// Whether the only permitted transition is taken without reading tags.
    pub force_implicit: bool,
    pub max_visits: Option<u64>,
    pub backend: String,
    /// Whether the backend's program chooses the ids of its sessions itself.
    pub program_chooses_session: bool,
    /// The SHA-256 of the text that is sent, in hexadecimal digits.
    pub prompt_sha256: Option<String>,
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
    Turn(TurnOutcome),
    /// Ended because the run stops; `cost` is an estimate.
    Interrupted {
        cost: Usd,
    },
}

impl Outcome {
    /// What came of the attempt, in a word.
    pub fn name(&self) -> &'static str {
        match self {
            Outcome::Script(ScriptOutcome::Exited { .. }) => "exited",
            Outcome::Script(ScriptOutcome::BadOutput { .. }) => "bad_output",
            Outcome::Script(ScriptOutcome::TimedOut { .. }) => "timed_out",
            Outcome::Script(ScriptOutcome::NotStarted { .. }) => "not_started",
            Outcome::Turn(TurnOutcome::Completed(_)) => "completed",
            Outcome::Turn(TurnOutcome::Failed(_)) => "failed",
            Outcome::Interrupted { .. } => "interrupted",
        }
    }
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

#[derive(Debug)]
pub enum TurnOutcome {
    /// The agent gave its final message.
    Completed(CompletedTurn),
    Failed(FailedTurn),
}

#[derive(Debug)]
pub struct CompletedTurn {
    /// What the final message says comes next, or why that cannot be told.
    pub reading: Result<Reading, BadMessage>,
    /// The final message as it may be recorded: without secrets.
    pub message: String,
    /// The conversation as it is now; nothing if the program has told none, so that it cannot go on.
    pub session: Option<Session>,
    pub cost: TurnCost,
    /// What the user should know about the turn.
    pub warnings: Vec<String>,
}

/// A final message that makes no transition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BadMessage {
    pub problem: String,
    /// Whether it has no tag at all, so that a transition may be implied.
    pub has_no_tag: bool,
}

#[derive(Debug)]
pub struct FailedTurn {
    pub error: String,
    pub class: FaultClass,
    pub cost: TurnCost,
    /// The conversation as far as it got, if it can go on from there.
    pub session: Option<Session>,
    pub exit_code: Option<i32>,
    /// The final message, if there was one, as it may be recorded: without secrets.
    pub message: Option<String>,
}

/// What to do about a turn that failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FaultClass {
    /// It may well work the next time.
    Retry,
    /// It will work once the usage limit is over.
    Limit { until: Option<Timestamp> },
    /// The program stopped at its share of the budget.
    ShareUsed,
    /// Somebody has to do something about it.
    Final,
}

/// What a turn was paid.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TurnCost {
    pub usd: Usd,
    pub estimated: bool,
}

/// How a program left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit {
    Code(i32),
    Signal(i32),
}

impl std::fmt::Display for Exit {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Exit::Code(code) => write!(f, "exited with code {code}"),
            Exit::Signal(signal) => write!(f, "was ended by signal {signal}"),
        }
    }
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
    /// Other workflows, by how they were written.
    pub scopes: BTreeMap<String, Result<ScopeEntry, String>>,
}

/// Another workflow, and where it begins.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScopeEntry {
    /// Its path, absolute.
    pub scope: String,
    pub entry: StateFile,
    /// What it holds, where that may not change while the run lasts: an archive.
    pub hash: Option<String>,
    /// Where its manifest wants it to work, if it says so and the folder is there.
    pub directory: Option<Result<String, String>>,
    pub input: InputWanted,
}

/// Whether a workflow has to be handed something.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum InputWanted {
    #[default]
    Optional,
    /// What it is called, if that has a name.
    Required {
        label: Option<String>,
    },
    Never,
}

impl ScopeEntry {
    /// Whether a tag may enter the workflow as it is written.
    pub fn check_input(&self, written: &str, is_given: bool) -> Result<(), String> {
        match &self.input {
            InputWanted::Required { label } if !is_given => {
                let label = label.as_ref().map(|label| format!(" ({label})")).unwrap_or_default();
                Err(format!("the workflow `{written}` needs an input{label}; give it with `input=\"…\"`"))
            }
            InputWanted::Never if is_given => {
                Err(format!("the workflow `{written}` takes no input; leave out `input`"))
            }
            _ => Ok(()),
        }
    }
}

impl Lookups {
    pub fn state(&self, name: &str) -> Result<StateFile, String> {
        self.states.get(name).cloned().unwrap_or_else(|| Err(format!("`{name}` was not looked up")))
    }

    pub fn directory(&self, path: &str) -> Result<String, String> {
        self.directories.get(path).cloned().unwrap_or_else(|| Err(format!("`{path}` was not looked up")))
    }

    pub fn scope(&self, written: &str) -> Result<ScopeEntry, String> {
        self.scopes.get(written).cloned().unwrap_or_else(|| Err(format!("`{written}` was not looked up")))
    }
}
