//! Inputs to the core. The shell looks everything up first, so deciding needs no I/O.
//!
//! Inputs are values that can be written and read back, so that they can come from other machines and be kept to decide
//! again. A field that is added must have a default.

mod pairs;

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

pub use crate::cost::TurnCost;
use crate::event::{Interrupted, ProjectMoved};
use crate::folder::Folder;
use crate::frontmatter::ResultSchema;
use crate::header::Header;
use crate::money::Usd;
use crate::name::AgentId;
use crate::named_inputs::DeclaredInput;
use crate::payload::Payload;
use crate::policy::Policy;
use crate::run::{Options, Session};
use crate::snapshot::FilesSnapshot;
use crate::tag::{Meant, NearMiss};
use crate::transition::{Reading, Transition};
use crate::workflow::StateFile;
use crate::workflow::wording::clipped_to;
use crate::worktree::{Wanted, Worktree};

/// Something happened that may change the run.
#[derive(Debug, Serialize, Deserialize)]
pub enum Input {
    /// A process resumes the run. All programs of the last process are known to be dead.
    Resume {
        options: Box<Options>,
        interrupted: Vec<Interrupted>,
        /// Sessions that the agent programs no longer have, and that are begun anew.
        forgotten: Vec<String>,
        /// Where its project is now, if that is not where the run has been so far.
        #[serde(default)]
        moved: Option<Box<ProjectMoved>>,
    },
    /// A person lets failed agents of a run that stands still try again.
    Retry { agents: Vec<AgentId> },
    /// A person sends an agent of a run that stands still to another state.
    Jump { agent: AgentId, target: StateFile, input: Option<String> },
    /// It is this agent's turn; its state has been read.
    Launch { agent: AgentId, prepared: Result<Prepared, String> },
    /// A turn's program has told the session that it runs in.
    SessionKnown { agent: AgentId, step: u64, attempt: u32, session: String },
    /// A step's program has ended.
    Ended(Box<Ended>),
    /// The machine that a step ran on was lost, and nothing of the step runs any more. What it is thought to have cost
    /// counts.
    Lost { agent: AgentId, step: u64, attempt: u32, error: String, cost: Usd },
    /// A step printed text to show to people.
    Print { agent: AgentId, step: u64, attempt: u32, text: Payload },
    /// Something the user should know.
    Warning { agent: Option<AgentId>, message: String },
    /// This agent's result is final.
    End { agent: AgentId },
    /// All workers of this agent have ended; `result` holds their results.
    Join { agent: AgentId, result: Result<Payload, String> },
    /// A question was answered.
    Answer(Answer),
    /// This agent's question was not answered in time.
    AskTimeout { agent: AgentId },
    /// Nothing is left to do, or a person asked to stop.
    Close {
        stop_requested: bool,
        /// Whether the request came as a signal to end, or said that running steps must not finish.
        terminated: bool,
        /// Running steps that were ended because the run stops.
        interrupted: Vec<Interrupted>,
    },
}

/// A person's answer to a question.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Answer {
    pub ask: String,
    pub text: Payload,
    /// Tells the process that answered whether its answer was taken.
    pub answer_id: Option<String>,
    /// When it was given, which may be long before it is taken. Messages of earlier versions do not say it; they count
    /// as given in time.
    pub given_at: Option<Timestamp>,
    /// When the question was asked. The number of a question can be that of another one, which a rewind has dropped.
    /// Messages of earlier versions do not say it; they count for the question that is open.
    #[serde(default)]
    pub asked_at: Option<Timestamp>,
}

/// A state as read from its file when the step starts.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Prepared {
    pub hash: String,
    pub plan: Plan,
    /// Problems in the file's header that do not stop the step.
    pub warnings: Vec<String>,
}

/// The settings of a state that deciding needs.
#[derive(Clone, Debug, Serialize, Deserialize)]
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

    /// The name of which no two steps run at the same time.
    pub fn exclusive(&self) -> Option<&str> {
        match self {
            Plan::Script(header) => header.exclusive.as_deref(),
            Plan::Prompt(prompt) => prompt.exclusive.as_deref(),
        }
    }
}

/// The settings of a prompt that deciding needs. The executor alone knows what is sent, and how.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct PromptPlan {
    /// Without a policy everything is permitted.
    pub policy: Option<Policy>,
    /// Whether the only permitted transition is taken without reading tags.
    pub force_implicit: bool,
    /// What a result has to match. The shell has read it if it is in a file.
    pub result_schema: Option<ResultSchema>,
    pub max_visits: Option<u64>,
    pub exclusive: Option<String>,
    pub backend: String,
    /// The model that it is told to use, if one is chosen.
    pub model: Option<String>,
    /// The backends that may take the turn if this one is at its usage limit, in their order.
    pub fallbacks: Vec<String>,
    /// Whether they may also take a turn of a conversation that has begun, and begin a new one.
    pub may_forget: bool,
    /// Whether the backend's program chooses the ids of its sessions itself.
    pub program_chooses_session: bool,
    /// Whether a conversation is continued itself, because the program cannot branch one and its backend may do so.
    pub continues_in_place: bool,
    /// The SHA-256 of the text that is sent, with placeholders for what differs from run to run, in hexadecimal digits.
    pub prompt_sha256: Option<String>,
    /// The number of the reply that the turn uses up, if replies were prepared for the run.
    pub reply: Option<u64>,
}

/// How a step's program ended.
#[derive(Debug, Serialize, Deserialize)]
pub struct Ended {
    pub agent: AgentId,
    pub step: u64,
    pub attempt: u32,
    pub duration_ms: u64,
    pub plan: Plan,
    pub outcome: StepOutcome,
    pub lookups: Lookups,
}

#[derive(Debug, Serialize, Deserialize)]
#[expect(clippy::large_enum_variant, reason = "there is one for each step, in a box")]
pub enum StepOutcome {
    Script(ScriptOutcome),
    Turn(TurnOutcome),
    /// Ended because the run stops; `cost` is an estimate.
    Interrupted {
        cost: Usd,
    },
}

impl StepOutcome {
    /// Whether the program did what was asked of it. What it said may still be refused.
    pub fn has_succeeded(&self) -> bool {
        match self {
            StepOutcome::Script(ScriptOutcome::Exited { exit, reading, .. }) => {
                exit.is_success() && reading.is_ok()
            }
            StepOutcome::Turn(TurnOutcome::Completed(_)) => true,
            StepOutcome::Script(_) | StepOutcome::Turn(_) | StepOutcome::Interrupted { .. } => false,
        }
    }

    /// All texts that are only told to people: nothing that goes on depends on them.
    pub fn told_mut(&mut self) -> Vec<&mut String> {
        match self {
            StepOutcome::Script(ScriptOutcome::Exited { reading, stderr, shown, .. }) => {
                reading.as_mut().err().into_iter().chain([stderr, &mut shown.last_lines]).collect()
            }
            StepOutcome::Script(ScriptOutcome::BadOutput { error, stderr }) => vec![error, stderr],
            StepOutcome::Script(ScriptOutcome::TimedOut { stderr, .. }) => vec![stderr],
            StepOutcome::Script(ScriptOutcome::NotStarted { error }) => vec![error],
            StepOutcome::Turn(TurnOutcome::Completed(turn)) => {
                let problem = turn.reading.as_mut().err().map(|bad| &mut bad.problem);
                turn.warnings.iter_mut().chain(problem).collect()
            }
            StepOutcome::Turn(TurnOutcome::Failed(failed)) => vec![&mut failed.error],
            StepOutcome::Interrupted { .. } => Vec::new(),
        }
    }

    /// All texts that may be stored elsewhere before the outcome is decided about.
    pub fn payloads_mut(&mut self) -> Vec<&mut Payload> {
        match self {
            StepOutcome::Script(ScriptOutcome::Exited { reading: Ok(reading), .. }) => {
                reading.transition.payloads_mut()
            }
            StepOutcome::Turn(TurnOutcome::Completed(turn)) => {
                let transition = turn.reading.as_mut().map(|reading| &mut reading.transition);
                let passed_on = transition.map(Transition::payloads_mut).unwrap_or_default();
                passed_on.into_iter().chain([&mut turn.message]).collect()
            }
            StepOutcome::Turn(TurnOutcome::Failed(turn)) => turn.message.iter_mut().collect(),
            StepOutcome::Script(_) | StepOutcome::Interrupted { .. } => Vec::new(),
        }
    }

    /// The outcome in one word.
    pub fn name(&self) -> &'static str {
        match self {
            StepOutcome::Script(ScriptOutcome::Exited { .. }) => "exited",
            StepOutcome::Script(ScriptOutcome::BadOutput { .. }) => "bad_output",
            StepOutcome::Script(ScriptOutcome::TimedOut { .. }) => "timed_out",
            StepOutcome::Script(ScriptOutcome::NotStarted { .. }) => "not_started",
            StepOutcome::Turn(TurnOutcome::Completed(_)) => "completed",
            StepOutcome::Turn(TurnOutcome::Failed(_)) => "failed",
            StepOutcome::Interrupted { .. } => "interrupted",
        }
    }
}

#[derive(Debug, Serialize, Deserialize)]
#[expect(clippy::large_enum_variant, reason = "there is one for each step, in a box")]
pub enum ScriptOutcome {
    /// `reading` is the transition in its output, or the reason why there is none.
    Exited {
        exit: ProcessExit,
        reading: Result<Reading, String>,
        /// Tags in another case, which are mistakes if they name states.
        other_case: Vec<NearMiss>,
        stderr: String,
        shown: ShownOutput,
    },
    /// Ended because its output exceeded a limit.
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

/// What an error about an output shows of it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ShownOutput {
    /// The last lines, with secrets removed.
    pub last_lines: String,
    /// The file that has all of it, if it is kept.
    pub file: Option<String>,
}

impl ShownOutput {
    /// The end of a message, with the file that has all that was said.
    #[must_use]
    pub fn of_message(message: &str, file: Option<String>) -> Self {
        let lines: Vec<&str> = message.trim_end().lines().collect();
        let last = lines.get(lines.len().saturating_sub(SHOWN_OUTPUT_LINES)..).unwrap_or_default();
        let shown: Vec<String> = last.iter().map(|line| clipped_to(SHOWN_LINE_CHARS, line)).collect();
        Self { last_lines: shown.join("\n"), file }
    }
}

/// How many lines of an output an error shows, and how much of a line.
pub const SHOWN_OUTPUT_LINES: usize = 5;
const SHOWN_LINE_CHARS: usize = 200;

#[derive(Debug, Serialize, Deserialize)]
pub enum TurnOutcome {
    /// The agent gave its final message.
    Completed(CompletedTurn),
    Failed(FailedTurn),
}

#[derive(Debug, Serialize, Deserialize)]
pub struct CompletedTurn {
    /// The transition in the final message, or the reason why there is none.
    pub reading: Result<Reading, BadMessage>,
    /// Tags in another case, which are mistakes if they name states.
    pub other_case: Vec<NearMiss>,
    /// The final message, with secrets removed, so it may be recorded.
    pub message: Payload,
    /// The last lines of a message that is stored.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_lines: Option<String>,
    /// The file that has all that the program said, if it is kept.
    pub file: Option<String>,
    /// The conversation as it is now; nothing if the program has told none, so that it cannot go on.
    pub session: Option<Session>,
    pub cost: TurnCost,
    /// Warnings about the turn for the user.
    pub warnings: Vec<String>,
}

/// A final message that makes no transition.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BadMessage {
    pub problem: String,
    /// Whether it has no tag at all, so that a transition may be implied.
    pub has_no_tag: bool,
}

#[derive(Debug, Serialize, Deserialize)]
pub struct FailedTurn {
    pub error: String,
    pub class: FaultClass,
    pub cost: TurnCost,
    /// The conversation up to the failure, if it can be continued.
    pub session: Option<Session>,
    pub exit_code: Option<i32>,
    /// The final message, if there was one, with secrets removed, so it may be recorded.
    pub message: Option<Payload>,
    /// Warnings about the turn for the user.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
}

/// What to do about a turn that failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum FaultClass {
    /// It may work the next time.
    Retry,
    /// It will work once the usage limit is over.
    Limit { until: Option<Timestamp> },
    /// The program stopped at its share of the budget.
    ShareUsed,
    /// The program is not on the machine that was to run it, so nothing was begun. The plan's other backends are those that
    /// are there.
    NotInstalled,
    /// A person has to act before it can work.
    Final,
}

/// How a process ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ProcessExit {
    Code(i32),
    Signal(i32),
}

impl std::fmt::Display for ProcessExit {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            ProcessExit::Code(code) => write!(f, "ended with exit code {code}"),
            ProcessExit::Signal(signal) => write!(f, "was ended by signal {signal}"),
        }
    }
}

impl ProcessExit {
    pub fn is_success(self) -> bool {
        self == ProcessExit::Code(0)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum TimeLimit {
    /// No output for too long.
    Idle,
    /// Too long in total.
    Total,
}

/// The meaning of the names in a step's output, looked up by the shell in the scope and on disk.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Lookups {
    pub states: BTreeMap<String, Result<StateFile, String>>,
    pub directories: BTreeMap<String, Result<Folder, String>>,
    /// Other workflows, by the text that named them.
    pub scopes: BTreeMap<String, Result<ScopeEntry, String>>,
    /// Why a result does not match the schema of its state.
    pub result_problem: Option<String>,
    /// Files that are given to other workflows, by the text that named them, with their absolute paths.
    pub files: BTreeMap<String, Result<String, String>>,
    #[serde(with = "pairs")]
    pub worktrees: BTreeMap<Wanted, Result<NewWorktree, String>>,
    /// The files that the step has left, if the run takes snapshots.
    pub snapshot: Option<Box<FilesSnapshot>>,
}

/// A worktree that can be made.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NewWorktree {
    pub worktree: Worktree,
    /// The folder in it in which the worker begins.
    pub cwd: String,
}

/// Another workflow and its first state.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ScopeEntry {
    /// Its path, absolute.
    pub scope: String,
    pub entry: StateFile,
    /// The hash of an archive, which must not change during the run.
    pub hash: Option<String>,
    /// The working directory that its manifest sets, or why that cannot be used.
    pub directory: Option<Result<String, String>>,
    pub input: InputWanted,
    /// The inputs that its manifest declares. The default of a file is an absolute path.
    pub inputs: Vec<DeclaredInput>,
    /// Why a model must not enter it by itself; nothing if the agent's own workflow names it, or the config file lists
    /// it. Scripts may enter it all the same.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unnamed: Option<String>,
}

/// Whether a workflow needs an input.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum InputWanted {
    #[default]
    Optional,
    /// The label of the input, if it has one.
    Required {
        label: Option<String>,
    },
    Never,
}

impl ScopeEntry {
    /// Checks whether a tag that gives an input, or gives none, may enter the workflow.
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
    /// The first of the tags in another case that names a state.
    pub fn mistake<'n>(&self, other_case: &'n [NearMiss]) -> Option<&'n NearMiss> {
        other_case.iter().find(|near| match &near.meant {
            Meant::TagIfState(name) => self.state(name).is_ok(),
            Meant::Text | Meant::Tag => false,
        })
    }

    pub fn state(&self, name: &str) -> Result<StateFile, String> {
        self.states.get(name).cloned().unwrap_or_else(|| Err(format!("`{name}` was not looked up")))
    }

    /// The path of a folder.
    pub fn directory(&self, path: &str) -> Result<String, String> {
        self.folder(path).map(|folder| folder.path.clone())
    }

    pub fn folder(&self, path: &str) -> Result<&Folder, String> {
        match self.directories.get(path) {
            Some(found) => found.as_ref().map_err(Clone::clone),
            None => Err(format!("`{path}` was not looked up")),
        }
    }

    /// The names of the inputs that another workflow needs.
    pub fn needed_inputs(&self, written: &str) -> Vec<String> {
        let Some(Ok(entry)) = self.scopes.get(written) else { return Vec::new() };
        entry.inputs.iter().filter(|input| input.is_needed()).map(|input| input.name.clone()).collect()
    }

    pub fn file(&self, path: &str) -> Result<String, String> {
        self.files.get(path).cloned().unwrap_or_else(|| Err(format!("`{path}` was not looked up")))
    }

    pub fn worktree(&self, wanted: &Wanted) -> Result<NewWorktree, String> {
        let not_looked_up = || Err(format!("the worktree `{}` was not looked up", wanted.name));
        self.worktrees.get(wanted).cloned().unwrap_or_else(not_looked_up)
    }

    pub fn scope(&self, written: &str) -> Result<ScopeEntry, String> {
        self.scopes.get(written).cloned().unwrap_or_else(|| Err(format!("`{written}` was not looked up")))
    }
}
