//! The state of a run: the fold of its events.

mod fan_outs;
mod queues;
mod workers;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};

use crate::event::{Interrupted, Origin};
use crate::limits::MAX_PARALLEL_SCRIPTS;
use crate::money::Usd;
use crate::name::{AgentId, UsedNames};
use crate::named_inputs::InputValues;
use crate::payload::Payload;
use crate::title::title;
use crate::tokens::Tokens;
use crate::workflow::StateFile;
use crate::worktree::{Worktree, branch};
pub use fan_outs::FanOut;
use fan_outs::FanOuts;
use queues::Queues;

/// A turn with a smaller share than this would stop at once, so it waits until other turns have ended.
const SHARE_WORTH_STARTING: Usd = Usd::cent();
/// The share of a turn when nothing is left; not zero, because programs refuse a limit of zero.
const SMALLEST_SHARE: Usd = Usd::millionth();

/// The options of a run: from its command line, its config file or the defaults.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(default)]
pub struct Options {
    /// Zero is unlimited.
    pub budget_usd: Usd,
    pub max_parallel: usize,
    #[serde(skip_serializing_if = "is_default_number_of_scripts")]
    pub max_parallel_scripts: usize,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_steps: Option<u64>,
    /// Whether a usage limit stops the run; otherwise the run waits until the limit ends.
    pub no_wait: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub effort: Option<String>,
    /// Whether the command line chose the model, which then comes before that of a workflow; the same for the effort.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub model_is_given: bool,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub effort_is_given: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub backend: Option<String>,
    /// Whether the backend was set on the command line, which has priority over workflows.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub backend_is_given: bool,
    /// How long a prompt without its own limit may produce no output; zero is no limit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timeout_ms: Option<u64>,
    /// The same for scripts, which have no limit unless the command line gives one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub script_timeout_ms: Option<u64>,
    pub skip_permissions: bool,
    /// Whether what the states declare is not checked before the run starts or goes on.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub no_lint: bool,
    /// The file to which finished turns are written.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub record: Option<String>,
    /// The recording from which prompts are answered.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub replay: Option<String>,
    /// What happens with a prompt that is not in it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub replay_missing: Option<String>,
    /// Whether each finished step leaves a snapshot of its files.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub snapshots: bool,
}

fn is_zero(number: &u32) -> bool {
    *number == 0
}

fn is_default_number_of_scripts(number: &usize) -> bool {
    *number == MAX_PARALLEL_SCRIPTS
}

impl Default for Options {
    fn default() -> Self {
        Self {
            budget_usd: Usd::from_dollars(10.0),
            max_parallel: 8,
            max_parallel_scripts: MAX_PARALLEL_SCRIPTS,
            max_steps: None,
            no_wait: false,
            model: None,
            effort: None,
            model_is_given: false,
            effort_is_given: false,
            backend: None,
            backend_is_given: false,
            timeout_ms: None,
            script_timeout_ms: None,
            skip_permissions: false,
            no_lint: false,
            record: None,
            replay: None,
            replay_missing: None,
            snapshots: false,
        }
    }
}

/// The status of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum RunStatus {
    Running,
    Completed,
    Failed,
    Waiting,
    OverBudget,
    Limited,
    Interrupted,
}

impl RunStatus {
    pub fn as_str(self) -> &'static str {
        match self {
            RunStatus::Running => "running",
            RunStatus::Completed => "completed",
            RunStatus::Failed => "failed",
            RunStatus::Waiting => "waiting",
            RunStatus::OverBudget => "over_budget",
            RunStatus::Limited => "limited",
            RunStatus::Interrupted => "interrupted",
        }
    }
}

/// A conversation after a completed turn. It does not change: a later turn makes a branch of it, unless its backend was
/// allowed to continue conversations themselves.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Session {
    pub id: String,
    /// The total cost of the conversation so far, for programs that report totals.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub total_usd: Option<Usd>,
    /// The backend that has the conversation; other backends cannot continue it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub backend: Option<String>,
    /// The model that its last turn was told to use, if it was told one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// The tokens of the conversation so far, for programs that report totals.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub total_tokens: Option<Tokens>,
    /// The folder of its turns, for programs that find a conversation only there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cwd: Option<String>,
}

impl Session {
    /// Whether a backend can continue the conversation.
    pub fn is_of(&self, backend: &str) -> bool {
        self.backend.as_deref().is_none_or(|own| own == backend)
    }
}

/// Where a called state returns to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Frame {
    pub return_to: StateFile,
    pub session: Option<Session>,
    pub cwd: String,
    /// The workflow to return to, if that is another one than the run's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scope: Option<String>,
    /// The values of that workflow's inputs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub inputs: Option<Box<InputValues>>,
}

/// One thread of execution.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Agent {
    pub id: AgentId,
    pub parent: Option<AgentId>,
    /// The order in which agents were started, and in which they are shown.
    pub birth: u64,
    pub state: StateFile,
    pub payload: Option<Payload>,
    pub cwd: String,
    /// The workflow it is in, if that is another one than the run's.
    pub scope: Option<String>,
    /// The values of that workflow's inputs; those of the run's own workflow are in [`Run::inputs`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub inputs: Option<Box<InputValues>>,
    pub session: Option<Session>,
    pub stack: Vec<Frame>,
    pub attributes: BTreeMap<String, String>,
    /// Whether a model gave it its attributes.
    #[serde(default)]
    pub attributes_from_model: bool,
    /// The git worktree that was made for it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub worktree: Option<Box<Worktree>>,
    /// How often it has entered each state, by [`place`].
    pub visits: BTreeMap<String, u64>,
    /// How many workers it has forked.
    pub forks: u64,
    /// The number of its fork among all forks of its parent.
    pub fork: u64,
    /// The question whose answer is the input of its state.
    pub ask_id: Option<String>,
    /// When it entered its state, or began to wait for something other than its state's program.
    #[serde(default = "unknown_time")]
    pub since: Timestamp,
    /// The cost of all its attempts so far.
    #[serde(default, skip_serializing_if = "Usd::is_zero")]
    pub cost_usd: Usd,
    /// The `exclusive` name of its state, if another step had that name when this one could have started.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub waits_for_name: Option<String>,
    pub status: Status,
}

/// The `since` of an agent in a snapshot of an earlier version, until [`Run::fill_in`] has replaced it.
fn unknown_time() -> Timestamp {
    Timestamp::MIN
}

impl Agent {
    /// The key of its state, which also distinguishes states of the same name in other workflows.
    pub fn place(&self) -> String {
        place(self.scope.as_deref(), &self.state)
    }

    /// How often the agent has entered the state it is in.
    pub fn visits_here(&self) -> u64 {
        self.visits.get(&self.place()).copied().unwrap_or(0)
    }

    /// What it is called for people, if it is a worker whose attributes say something.
    pub fn title(&self) -> Option<String> {
        title(&self.attributes)
    }

    /// Its name, and its title if it has one, for a sentence.
    pub fn named(&self) -> String {
        match self.title() {
            Some(title) => format!("{} ({title})", self.id),
            None => self.id.to_string(),
        }
    }

    /// The step that has begun here and not ended.
    pub fn work(&self) -> Option<&Work> {
        match &self.status {
            Status::Ready { work, .. } | Status::Waiting { work, .. } => work.as_deref(),
            Status::Running { work, .. } => Some(work),
            Status::Asking { .. }
            | Status::Joining { .. }
            | Status::Ending { .. }
            | Status::Failed { .. } => None,
        }
    }

    /// The `exclusive` name that its step has. A step keeps it between two attempts, because it has not ended.
    pub fn held_name(&self) -> Option<&str> {
        self.work()?.exclusive.as_deref()
    }

    /// Its place in the queue, if it can start now or later.
    pub(crate) fn ready_since(&self) -> Option<u64> {
        match self.status {
            Status::Ready { since, .. } | Status::Waiting { since, .. } => Some(since),
            Status::Running { .. }
            | Status::Asking { .. }
            | Status::Joining { .. }
            | Status::Ending { .. }
            | Status::Failed { .. } => None,
        }
    }

    /// When it goes on by itself, if it waits for that.
    pub fn wakes_at(&self) -> Option<Timestamp> {
        match self.status {
            Status::Waiting { until, .. } => Some(until),
            Status::Ready { .. }
            | Status::Running { .. }
            | Status::Asking { .. }
            | Status::Joining { .. }
            | Status::Ending { .. }
            | Status::Failed { .. } => None,
        }
    }

    /// The conversation that its next turn continues.
    pub fn conversation(&self) -> Option<&Session> {
        match self.work() {
            Some(work) => work.conversation(self),
            None => self.session.as_ref(),
        }
    }

    /// The parent, if a join of the parent would have to wait for this agent.
    fn live_worker_of(&self) -> Option<&AgentId> {
        self.parent.as_ref().filter(|_| !matches!(self.status, Status::Failed { .. }))
    }
}

/// The status of an agent. Each variant has only its own data. What is large is boxed: most agents of a large run wait,
/// and their memory counts.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "is", rename_all = "snake_case")]
pub enum Status {
    /// It can start now and waits in the queue, in the order of `since`.
    Ready {
        since: u64,
        work: Option<Box<Work>>,
    },
    Running {
        work: Box<Work>,
        started: Timestamp,
    },
    /// It may not start before `until`.
    Waiting {
        until: Timestamp,
        why: Wait,
        since: u64,
        work: Option<Box<Work>>,
        /// Why its last attempt is repeated.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        error: Option<String>,
    },
    /// It waits for a person.
    Asking {
        ask: Box<Ask>,
    },
    /// It waits until every worker it forked has ended.
    Joining {
        since: u64,
    },
    /// Its last step is done; it ends with this result, unless the run is over budget and other agents are left.
    Ending {
        result: Payload,
    },
    Failed {
        error: String,
        /// The last lines that its script wrote to stderr.
        #[serde(default, skip_serializing_if = "String::is_empty")]
        stderr: String,
        /// What it printed instead of a transition.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        output: Option<Box<LastOutput>>,
        /// The question or join it was waiting for when it failed; after a resume it waits for it again.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        waited: Option<Box<Status>>,
    },
}

/// The end of an output that made no transition.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LastOutput {
    pub lines: String,
    /// The file that has all of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub file: Option<String>,
}

/// A question to a person.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ask {
    pub id: String,
    pub question: Payload,
    pub next: StateFile,
    pub opened_at: Timestamp,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout_ms: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deadline: Option<Timestamp>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout_next: Option<StateFile>,
    /// Whether an empty answer counts.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub empty_ok: bool,
}

impl Ask {
    /// Why an answer that is given at this time cannot be taken.
    pub fn refuses(&self, text: &str, given_at: Option<Timestamp>) -> Option<Refusal> {
        if !self.empty_ok && text.trim().is_empty() {
            return Some(Refusal::Empty);
        }
        let deadline = self.deadline?;
        given_at.is_some_and(|given| given >= deadline).then_some(Refusal::Late { deadline })
    }
}

/// Why an answer to an open question is not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// An empty answer is none, unless the question says otherwise.
    Empty,
    Late {
        deadline: Timestamp,
    },
}

/// A worker, with the data that a join of its parent needs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Worker {
    pub agent: AgentId,
    /// The state it was forked into.
    pub state: StateFile,
    pub attributes: BTreeMap<String, String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub worktree: Option<Box<Worktree>>,
    /// Its result, once it has ended.
    pub result: Option<Payload>,
}

/// What an agent waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Wait {
    Delay,
    Retry,
    Limit,
}

/// The progress of a step. It is kept after a crash: only the interrupted attempt is repeated, not earlier ones.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Work {
    pub step: u64,
    /// The attempt that runs, or ran last.
    pub attempt: u32,
    pub retries: u32,
    pub reminders: u32,
    /// How many attempts were lost together with the machines that they ran on.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub losses: u32,
    /// The text of the next turn, and the conversation it continues.
    pub say: Say,
    /// The number of the turn among all turns of the run in this state; a repeated turn keeps its number.
    pub turn: Option<u64>,
    /// The backend of the turn that runs, or ran last, and its session as far as that is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub backend: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session: Option<String>,
    /// The model that the backend was told to use.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// The backend that takes the turn, because those before it in the state's list are at their usage limits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fallback: Option<String>,
    /// How much of the budget the running turn may use.
    pub share_usd: Option<Usd>,
    /// The cost of the attempts that have ended.
    pub cost_usd: Usd,
    /// Set when the last attempt was interrupted, with its estimated cost.
    pub interrupted: Option<Usd>,
    /// No other step with this name starts before this one has ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exclusive: Option<String>,
    /// The prepared reply that the running turn was given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reply: Option<u64>,
}

impl Work {
    pub fn first(step: u64) -> Self {
        Self {
            step,
            attempt: 0,
            retries: 0,
            reminders: 0,
            losses: 0,
            say: Say::Prompt,
            turn: None,
            backend: None,
            session: None,
            model: None,
            fallback: None,
            share_usd: None,
            cost_usd: Usd::ZERO,
            interrupted: None,
            exclusive: None,
            reply: None,
        }
    }
}

impl Work {
    /// The conversation that the next turn continues.
    pub fn conversation<'a>(&'a self, agent: &'a Agent) -> Option<&'a Session> {
        match &self.say {
            Say::Prompt => agent.session.as_ref(),
            Say::Reminder { session, .. } | Say::GoOn { session } => Some(session),
        }
    }
}

/// The text that the next turn of a prompt step sends.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "say", rename_all = "snake_case")]
pub enum Say {
    /// The state's rendered body, in the agent's conversation.
    Prompt,
    /// A reminder, in the conversation of the turn that was wrong.
    Reminder { text: Payload, session: Session },
    /// A request to continue, after the program stopped at its share of the budget.
    GoOn { session: Session },
}

/// The reason why nothing new starts although there is work left.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "halt", rename_all = "snake_case")]
pub enum Halt {
    Failed { error: String },
    OverBudget,
    Limited { error: String },
}

/// Something that must be done now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Due {
    /// Start this agent's state, or its next attempt.
    Launch(AgentId),
    /// This agent's result is final.
    End(AgentId),
    /// All workers of this agent have ended.
    Join(AgentId),
    /// This agent's question was not answered in time.
    AskTimeout(AgentId),
    /// There is nothing more to do: the run is over, or this process has to stop.
    Close,
}

/// How the process that drives a run wants it to continue.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Mode {
    /// Nothing new may start.
    pub draining: bool,
    /// Whether to wait for answers to open questions; otherwise the run ends when nothing else is left to do.
    pub waits_for_answers: bool,
    /// How many of the running steps were ended because the run stops. The event that ends the run records them.
    pub interrupted: usize,
}

/// The state of a run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Run {
    pub id: String,
    pub seq: u64,
    pub workflow: String,
    pub scope: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scope_hash: Option<String>,
    /// The hashes of the archives that were entered, by path.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub scope_hashes: BTreeMap<String, String>,
    pub entry: StateFile,
    pub cwd: String,
    pub nonce: String,
    /// Where its history is, if it does not begin with this run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub origin: Option<Origin>,
    pub labels: BTreeMap<String, String>,
    /// The values of the inputs of its workflow.
    #[serde(default, skip_serializing_if = "InputValues::is_empty")]
    pub inputs: InputValues,
    pub options: Options,
    pub status: RunStatus,
    pub halt: Option<Halt>,
    /// Whether the last process was told to end at once.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub was_terminated: bool,
    pub started_at: Timestamp,
    pub ended_at: Option<Timestamp>,
    /// When the last event happened.
    pub last_time: Timestamp,
    /// The time spent by earlier processes; the current one began at `resumed_at`.
    pub spent_ms: u64,
    pub resumed_at: Timestamp,
    pub steps_started: u64,
    pub steps_completed: u64,
    pub agents_started: u64,
    pub cost_usd: Usd,
    /// What its models have read and written, as far as agent programs told; journals of earlier versions do not say.
    #[serde(default, skip_serializing_if = "Tokens::is_zero")]
    pub tokens: Tokens,
    pub result: Option<Payload>,
    pub agents: BTreeMap<AgentId, Agent>,
    pub used_names: UsedNames,
    /// The hash of each state's file when it last ran, by [`place`].
    pub hashes: BTreeMap<String, String>,
    /// How many turns each prompt state has begun.
    pub turns: BTreeMap<String, u64>,
    pub asks_opened: u64,
    /// The workers of each agent that are not joined yet, by the number of the fork.
    #[serde(with = "workers")]
    pub workers: BTreeMap<AgentId, BTreeMap<u64, Worker>>,
    /// The prepared replies that turns have used up, in a test or a replay. An interrupted turn gives its reply back.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub used_replies: BTreeSet<u64>,
    /// Every worktree of the run, also of workers that have ended, by its name in lower case.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub worktrees: BTreeMap<String, Worktree>,
    /// The last snapshot of each folder: a commit.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub snapshots: BTreeMap<String, String>,
    /// Whether a person has said which failed agents try again, so that the next resume retries no others.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub retries_are_named: bool,
    #[serde(skip)]
    queues: Queues,
    #[serde(skip)]
    fan_outs: FanOuts,
}

impl Run {
    /// The values of the inputs of the workflow that an agent is in.
    pub fn inputs_of<'r>(&'r self, agent: &'r Agent) -> Option<&'r InputValues> {
        match agent.scope {
            None => Some(&self.inputs),
            Some(_) => agent.inputs.as_deref(),
        }
    }

    /// The worktrees that were made for this run. A branch also knows those of its origin.
    pub fn own_worktrees(&self) -> impl Iterator<Item = &Worktree> {
        self.worktrees.values().filter(|worktree| worktree.branch == branch(&self.id, &worktree.name))
    }

    /// The conversations that agents go on with, now or when a call returns.
    pub fn conversations(&self) -> impl Iterator<Item = (&Agent, &Session)> {
        self.agents.values().flat_map(|agent| {
            let returns = agent.stack.iter().filter_map(|frame| frame.session.as_ref());
            agent.conversation().into_iter().chain(returns).map(move |session| (agent, session))
        })
    }

    /// The archives that agents are in or will return to, with their hashes when they were entered.
    pub fn entered_archives(&self) -> impl Iterator<Item = (&str, &str)> {
        let scopes = |agent: &'_ Agent| {
            let frames = agent.stack.iter().filter_map(|frame| frame.scope.clone());
            frames.chain(agent.scope.clone()).collect::<Vec<String>>()
        };
        let needed: BTreeSet<String> = match self.scope_hashes.is_empty() {
            true => BTreeSet::new(),
            false => self.agents.values().flat_map(scopes).collect(),
        };
        let entered = self.scope_hashes.iter().map(|(path, hash)| (path.as_str(), hash.as_str()));
        entered.filter(move |(path, _)| needed.contains(*path))
    }

    pub(crate) fn new(id: String, started: &crate::event::RunStarted, time: Timestamp) -> Self {
        Self {
            id,
            seq: 0,
            workflow: started.workflow.clone(),
            scope: started.scope.clone(),
            scope_hash: started.scope_hash.clone(),
            scope_hashes: BTreeMap::new(),
            entry: started.entry.clone(),
            cwd: started.cwd.clone(),
            nonce: started.nonce.clone(),
            origin: started.origin.clone(),
            labels: started.labels.clone(),
            inputs: InputValues { values: started.inputs.clone(), ..InputValues::default() },
            options: started.options.clone(),
            status: RunStatus::Running,
            halt: None,
            was_terminated: false,
            started_at: time,
            ended_at: None,
            last_time: time,
            spent_ms: 0,
            resumed_at: time,
            steps_started: 0,
            steps_completed: 0,
            agents_started: 0,
            cost_usd: Usd::ZERO,
            tokens: Tokens::default(),
            result: None,
            agents: BTreeMap::new(),
            used_names: UsedNames::default(),
            hashes: BTreeMap::new(),
            turns: BTreeMap::new(),
            asks_opened: 0,
            workers: BTreeMap::new(),
            used_replies: BTreeSet::new(),
            worktrees: BTreeMap::new(),
            snapshots: BTreeMap::new(),
            retries_are_named: false,
            queues: Queues::default(),
            fan_outs: FanOuts::default(),
        }
    }

    /// The number of an agent's next turn among all turns of the run in its state; a repeated turn keeps its number.
    pub fn next_turn(&self, agent: &Agent) -> u64 {
        let begun = agent.work().and_then(|work| work.turn);
        begun.unwrap_or_else(|| self.turns.get(&agent.place()).copied().unwrap_or(0) + 1)
    }

    /// Builds the queues again after the run was read from a snapshot.
    pub(crate) fn rebuild_queues(&mut self) {
        let mut queues = Queues::default();
        for agent in self.agents.values() {
            queues.insert(agent);
        }
        self.queues = queues;
        self.rebuild_fan_outs();
    }

    /// Fills in the fields of agents that are missing in the snapshot of an earlier version.
    pub(crate) fn fill_in(&mut self) {
        for agent in self.agents.values_mut().filter(|agent| agent.since == unknown_time()) {
            agent.since = self.last_time;
        }
    }

    /// Changes an agent. Every change of status goes through here, so that the queues stay correct.
    pub(crate) fn update(&mut self, id: &AgentId, change: impl FnOnce(&mut Agent)) {
        if let Some(agent) = self.agents.get_mut(id) {
            self.queues.remove(agent);
            Self::count_failed(&mut self.fan_outs, &self.workers, agent, false);
            change(agent);
            self.queues.insert(agent);
            Self::count_failed(&mut self.fan_outs, &self.workers, agent, true);
        }
    }

    /// Adds an agent. A damaged journal may start the same agent twice; then the first is replaced.
    pub(crate) fn add(&mut self, agent: Agent) {
        self.remove(&agent.id);
        self.queues.insert(&agent);
        Self::count_failed(&mut self.fan_outs, &self.workers, &agent, true);
        self.agents.insert(agent.id.clone(), agent);
    }

    pub(crate) fn remove(&mut self, id: &AgentId) {
        if let Some(agent) = self.agents.remove(id) {
            self.queues.remove(&agent);
            Self::count_failed(&mut self.fan_outs, &self.workers, &agent, false);
        }
    }

    /// Agents in the order they were started.
    pub fn agents_by_birth(&self) -> Vec<&Agent> {
        let mut agents: Vec<_> = self.agents.values().collect();
        agents.sort_by_key(|agent| agent.birth);
        agents
    }

    /// Lets agents whose time has come queue up. Every event does that, with its own time.
    pub(crate) fn wake(&mut self, now: Timestamp) {
        while let Some((until, id)) = self.queues.waiting.first().cloned()
            && until <= now
        {
            self.update(&id, |agent| {
                if let Status::Waiting { since, work, .. } = &mut agent.status {
                    agent.status = Status::Ready { since: *since, work: work.take() };
                }
            });
        }
    }

    /// Steps whose last attempt was ended before its time.
    pub fn interrupted(&self) -> Vec<Interrupted> {
        self.agents_by_birth()
            .into_iter()
            .filter_map(|agent| {
                let work = agent.work()?;
                Some(Interrupted {
                    agent: agent.id.clone(),
                    step: work.step,
                    state: agent.state.clone(),
                    estimated_cost_usd: work.interrupted?,
                })
            })
            .collect()
    }

    /// Whether the time of an open question is over.
    pub fn has_overdue_question(&self, now: Timestamp) -> bool {
        self.queues.deadlines.first().is_some_and(|(deadline, _)| *deadline <= now)
    }

    /// The next time after `now` at which there is something to do.
    pub fn next_wake(&self, now: Timestamp) -> Option<Timestamp> {
        // An agent whose time is past has been handled, or waits for something else that will end.
        let next = |queue: &BTreeSet<(Timestamp, AgentId)>| {
            queue.iter().map(|(time, _)| *time).find(|time| *time > now)
        };
        [next(&self.queues.waiting), next(&self.queues.deadlines)].into_iter().flatten().min()
    }

    /// The next thing that must be done now.
    pub fn next_due(&self, now: Timestamp, mode: Mode) -> Option<Due> {
        if self.status != RunStatus::Running {
            return None;
        }
        let stopped = mode.draining || self.halt.is_some();
        // A finished agent ends even if a stop was requested. Over budget its end waits for a resume if other agents
        // are left: the budget has priority over the transition. If none is left, nothing more can be spent.
        if (self.halt != Some(Halt::OverBudget) || self.has_only_ended())
            && let Some(agent) = self.queues.ending.first()
        {
            return Some(Due::End(agent.clone()));
        }
        if !stopped {
            if let Some(agent) = self.queues.joinable.first() {
                return Some(Due::Join(agent.clone()));
            }
            if let Some((_, agent)) = self.queues.deadlines.first().filter(|(deadline, _)| *deadline <= now) {
                return Some(Due::AskTimeout(agent.clone()));
            }
            if let Some(agent) = self.launchable(now) {
                return Some(Due::Launch(agent.clone()));
            }
        }
        let idle = self.running() == mode.interrupted;
        (idle && (stopped || !self.has_more_to_come(mode))).then_some(Due::Close)
    }

    /// Whether every agent has done its last step or has failed.
    pub fn has_only_ended(&self) -> bool {
        self.queues.ending.len() + self.queues.failed.len() == self.agents.len()
    }

    /// Whether it makes sense to wait: an answer, which is always accepted, or a step may come. When `max_steps` is
    /// reached, only a step that has begun can continue.
    fn has_more_to_come(&self, mode: Mode) -> bool {
        let mut waiting = self.queues.waiting.iter().map(|(_, agent)| agent);
        let waits_for_a_person = mode.waits_for_answers && !self.queues.asking.is_empty();
        waits_for_a_person || waiting.any(|agent| self.may_begin(agent))
    }

    /// Whether an agent is in the middle of a step, for example between two attempts.
    fn has_begun(&self, agent: &AgentId) -> bool {
        self.agents.get(agent).is_some_and(|agent| agent.work().is_some())
    }

    fn launchable(&self, now: Timestamp) -> Option<&AgentId> {
        let script_room = self.queues.running_scripts.len() < self.options.max_parallel_scripts.max(1);
        let prompt_room =
            self.queues.running_prompts.len() < self.options.max_parallel.max(1) && self.has_money_to_share();
        let script = self.first_of(&self.queues.scripts, script_room, now, false);
        script.or_else(|| self.first_of(&self.queues.prompts, prompt_room, now, true))
    }

    /// The first in a queue that may start. Agents whose time has come since the last event belong to it, too: an
    /// event will put them there.
    fn first_of<'a>(
        &'a self,
        queue: &'a BTreeSet<(u64, AgentId)>,
        has_room: bool,
        now: Timestamp,
        is_prompt: bool,
    ) -> Option<&'a AgentId> {
        if !has_room {
            return None;
        }
        let ready = self.first_that_may_begin(queue);
        let named = self.queues.free_names().filter_map(|waiting| self.first_that_may_begin(waiting));
        let due = self.queues.waiting.iter().take_while(|(until, _)| *until <= now);
        let woken = due.filter_map(|(_, id)| {
            let agent = self.agents.get(id)?;
            let free = agent.waits_for_name.as_ref().is_none_or(|name| self.may_take(name, agent));
            (free && self.may_begin(id)).then_some((agent.ready_since()?, id))
        });
        let is_of_kind = |id: &AgentId| {
            self.agents.get(id).is_some_and(|agent| agent.state.kind().is_prompt() == is_prompt)
        };
        let others = named.chain(woken).filter(|(_, id)| is_of_kind(id));
        ready.into_iter().chain(others).min().map(|(_, id)| id)
    }

    fn first_that_may_begin<'a>(&self, queue: &'a BTreeSet<(u64, AgentId)>) -> Option<(u64, &'a AgentId)> {
        queue.iter().map(|(since, id)| (*since, id)).find(|(_, id)| self.may_begin(id))
    }

    /// Whether an agent's step may have an `exclusive` name now: no step has it, and no agent has waited longer for it.
    pub(crate) fn may_take(&self, name: &str, agent: &Agent) -> bool {
        let first = self.queues.first_waiting_for(name);
        let is_first = first.is_none_or(|(since, _)| agent.ready_since().is_some_and(|own| own <= *since));
        is_first && !self.queues.is_held(name)
    }

    /// When `max_steps` is reached, only a step that has begun may go on.
    fn may_begin(&self, agent: &AgentId) -> bool {
        !self.is_out_of_steps() || self.has_begun(agent)
    }

    pub fn is_out_of_steps(&self) -> bool {
        self.options.max_steps.is_some_and(|most| self.steps_started >= most)
    }

    pub fn running(&self) -> usize {
        self.queues.running_scripts.len() + self.queues.running_prompts.len()
    }

    pub fn running_scripts(&self) -> impl Iterator<Item = &AgentId> {
        self.queues.running_scripts.iter()
    }

    pub fn running_agents(&self) -> impl Iterator<Item = &AgentId> {
        self.queues.running_scripts.iter().chain(&self.queues.running_prompts)
    }

    pub fn failed_agents(&self) -> impl ExactSizeIterator<Item = &AgentId> {
        self.queues.failed.iter()
    }

    /// Agents that wait for a person, the longest waiting first.
    pub fn asking_agents(&self) -> impl ExactSizeIterator<Item = &AgentId> {
        self.queues.asking.iter().map(|(_, id)| id)
    }

    /// Agents that may not start before a certain time, the earliest first.
    pub fn waiting_agents(&self) -> impl ExactSizeIterator<Item = &AgentId> {
        self.queues.waiting.iter().map(|(_, id)| id)
    }

    /// How many of the waiting agents wait for the end of a usage limit.
    pub fn limited(&self) -> usize {
        self.queues.limited
    }

    pub fn joining_agents(&self) -> impl ExactSizeIterator<Item = &AgentId> {
        self.queues.joining.iter()
    }

    /// Agents whose last step is done.
    pub fn ending_agents(&self) -> impl ExactSizeIterator<Item = &AgentId> {
        self.queues.ending.iter()
    }

    /// Agents that are ready but not started: scripts, then prompts, in the order in which they will start, then those
    /// that wait for an `exclusive` name.
    pub fn ready_agents(&self) -> impl Iterator<Item = &AgentId> {
        let named = self.queues.named.values().flatten();
        self.queues.scripts.iter().chain(&self.queues.prompts).chain(named).map(|(_, id)| id)
    }

    /// How many of an agent's workers have neither ended nor failed.
    pub fn live_workers(&self, parent: &AgentId) -> usize {
        self.queues.live_workers.get(parent).copied().unwrap_or(0)
    }

    /// Open questions, the oldest first.
    pub fn asks(&self) -> Vec<(&Agent, &Ask)> {
        let mut asks: Vec<(&Agent, &Ask)> = self
            .queues
            .asking
            .iter()
            .filter_map(|(_, id)| {
                let agent = self.agents.get(id)?;
                match &agent.status {
                    Status::Asking { ask } => Some((agent, ask.as_ref())),
                    _ => None,
                }
            })
            .collect();
        asks.sort_by_key(|(_, ask)| (ask.opened_at, ask.id.len(), &ask.id));
        asks
    }

    /// The agent that asks this question.
    pub fn asker(&self, ask_id: &str) -> Option<&Agent> {
        self.asks().into_iter().find(|(_, ask)| ask.id == ask_id).map(|(agent, _)| agent)
    }

    /// Whether all workers that a join of this agent waits for have ended.
    pub fn is_joinable(&self, agent: &AgentId) -> bool {
        self.queues.joinable.contains(agent)
    }

    /// How many agents are ready but not started.
    pub fn ready(&self) -> usize {
        let named: usize = self.queues.named.values().map(BTreeSet::len).sum();
        self.queues.scripts.len() + self.queues.prompts.len() + named
    }

    /// The time that processes have worked on this run.
    pub fn duration_ms(&self, now: Timestamp) -> u64 {
        let present = now.duration_since(self.resumed_at).max(SignedDuration::ZERO);
        self.spent_ms.saturating_add(u64::try_from(present.as_millis()).unwrap_or(0))
    }

    /// The share of the budget that a turn starting now may use, so that all running turns together stay within it.
    pub fn budget_share(&self) -> Option<Usd> {
        let left = self.unreserved_budget()?;
        let free_slots = self.options.max_parallel.saturating_sub(self.queues.running_prompts.len());
        let starters = self.agents.len().saturating_sub(self.queues.running_prompts.len());
        Some(left.divided_by(starters.min(free_slots)).max(SMALLEST_SHARE))
    }

    /// Whether another turn may start. If the whole budget is reserved for other turns, a new turn would stop at once
    /// and use part of their shares, so it waits until one of them has ended.
    fn has_money_to_share(&self) -> bool {
        self.queues.running_prompts.is_empty()
            || self.unreserved_budget().is_none_or(|left| left >= SHARE_WORTH_STARTING)
    }

    /// The part of the budget that is not reserved for running turns; `None` without a budget.
    fn unreserved_budget(&self) -> Option<Usd> {
        if self.options.budget_usd.is_zero() {
            return None;
        }
        let shares =
            self.queues.running_prompts.iter().filter_map(|id| self.agents.get(id)?.work()?.share_usd);
        let reserved: Usd = shares.sum();
        Some(self.options.budget_usd.saturating_sub(self.cost_usd).saturating_sub(reserved))
    }
}

/// The key of a state, which also distinguishes states of the same name in other workflows.
pub fn place(scope: Option<&str>, state: &StateFile) -> String {
    match scope {
        None => state.to_string(),
        Some(scope) => format!("{scope}/{state}"),
    }
}

/// A time after now that a workflow asks for, or an error if it is too far away for a timestamp.
pub fn later_if_possible(now: Timestamp, wait: Duration, what: &str) -> Result<Timestamp, String> {
    let wait = SignedDuration::try_from(wait).unwrap_or(SignedDuration::MAX);
    now.checked_add(wait).map_err(|_| format!("`{what}` leads past the year 9999; give a shorter time"))
}

/// A time after now; if that is too far away for a timestamp, the latest possible time.
pub fn later(now: Timestamp, wait: Duration) -> Timestamp {
    let wait = SignedDuration::try_from(wait).unwrap_or(SignedDuration::MAX);
    now.saturating_add(wait).unwrap_or(Timestamp::MAX)
}
