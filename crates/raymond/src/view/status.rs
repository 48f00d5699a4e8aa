//! A run as it is shown to people: `status` and `list` print all of it, the live view the part that changes. What both
//! of them say about an agent comes from [`Activity::of`], [`until_of`] and [`error_of`], so that they say the same.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use jiff::Timestamp;
use raymond_core::event::Origin;
use raymond_core::money::Usd;
use raymond_core::name::{AgentId, MAIN};
use raymond_core::run::{Agent, Ask, FanOut, Frame, Run, RunStatus, Status, Wait};
use raymond_core::tokens::Tokens;
use raymond_core::workflow::StateFile;
use schemars::JsonSchema;
use serde::Serialize;

use crate::history::branch::branched_off;
use crate::process::Containment;
use crate::store::{Elsewhere, Payloads, RunHandle, StoreError};
use crate::view::summary::own_cost;

#[derive(Debug, Serialize, JsonSchema)]
pub struct RunView {
    pub run: String,
    pub workflow: String,
    pub status: RunStatus,
    pub steps: u64,
    pub cost_usd: Usd,
    /// What it has cost itself, without the history that it has in common with another run. Nothing if that is not known.
    pub own_cost_usd: Option<Usd>,
    /// Nothing means unlimited.
    pub budget_usd: Option<Usd>,
    /// What its models have read and written, as far as agent programs told.
    #[serde(skip_serializing_if = "Tokens::is_zero")]
    #[schemars(default)]
    pub tokens: Tokens,
    pub started_at: Timestamp,
    pub ended_at: Option<Timestamp>,
    /// What holds the processes of its steps together, where that is asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub containment: Option<Containment>,
    /// The engine that carries it out, if that is on other machines.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub engine: Option<String>,
    /// When all that had happened there was last known here.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub seen_at: Option<Timestamp>,
    /// Why nothing has been heard of it since then, if it goes on there.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stale: Option<String>,
    /// How its engine has ended it without asking it, such as `was terminated`. It cannot go on then.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ended_there: Option<String>,
    pub labels: BTreeMap<String, String>,
    /// The run and the step that it goes on from, if its history does not begin with it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub origin: Option<Origin>,
    /// The other run that it once branched off, if it was rewound since.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub branched_off: Option<Origin>,
    /// The runs that go on from this one.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(default)]
    pub branches: Vec<BranchView>,
    pub result: Option<String>,
    /// How many workers have failed whose failures joins have taken.
    #[serde(skip_serializing_if = "no_worker")]
    #[schemars(default)]
    pub failed_workers: u64,
    pub agents: Vec<AgentView>,
    /// How far the workers are that no join has taken yet.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(default)]
    pub fan_outs: Vec<FanOutView>,
    pub asks: Vec<AskView>,
    /// Since when its schedule waits for its end.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub schedule_waits_since: Option<Timestamp>,
    /// How long processes have worked on it.
    #[serde(skip)]
    pub elapsed: Duration,
    /// The limit of steps, if it is reached.
    #[serde(skip)]
    pub steps_used_up: Option<u64>,
}

/// Whether a number of workers is left out.
pub fn no_worker(number: &u64) -> bool {
    *number == 0
}

/// Failed workers, in words.
pub fn workers_failed(number: u64) -> String {
    format!("{number} worker{} failed", if number == 1 { "" } else { "s" })
}

/// All that can be shown as the status of a run.
pub const STATUSES: [&str; 9] = [
    "running",
    "completed",
    "failed",
    "waiting",
    "over_budget",
    "limited",
    "interrupted",
    "wedged",
    "damaged",
];

/// The status of a run for people. A run that is completed says how many of its workers have failed.
pub fn status_words(status: &str, failed_workers: u64) -> String {
    let words = status.replace('_', " ");
    match failed_workers {
        failed if failed > 0 && status == RunStatus::Completed.as_str() => {
            format!("{words}, {}", workers_failed(failed))
        }
        _ => words,
    }
}

/// A run that goes on from another one.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct BranchView {
    pub run: String,
    /// The last step that both have; nothing if it has the whole history of the other one.
    pub step: Option<u64>,
}

impl BranchView {
    pub fn of((run, origin): (String, Origin)) -> Self {
        Self { run, step: origin.step }
    }
}

#[derive(Debug, Serialize, JsonSchema)]
pub struct AgentView {
    pub id: String,
    /// What a worker is called for people.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    pub state: String,
    /// The workflow that it is in, if that is not the run's own.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub scope: Option<String>,
    pub status: Activity,
    pub session: Option<String>,
    pub cwd: String,
    /// The machine that it is on, if the run is carried out on other machines.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub host: Option<String>,
    /// The folder and the branch of the git worktree that was made for it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub worktree: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub branch: Option<String>,
    pub stack: Vec<FrameView>,
    pub attributes: BTreeMap<String, String>,
    /// Why it failed.
    pub error: Option<String>,
    /// The last lines that a failed script wrote to stderr.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stderr: Option<String>,
    /// The last lines of an output that made no transition, and the file that has all of it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub output: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub output_file: Option<String>,
    /// Until when it waits.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub until: Option<Timestamp>,
    /// The step that it runs, since when, and when that has last written something. Only `serve` tells them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub step: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub running_since: Option<Timestamp>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_output_at: Option<Timestamp>,
}

/// The workers that an agent has forked into one state.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct FanOutView {
    /// The agent that forked them.
    pub agent: String,
    pub state: String,
    pub workers: usize,
    pub done: usize,
    pub failed: usize,
}

impl FanOutView {
    /// A single worker is no fan-out.
    pub const LEAST: usize = 2;

    pub fn of((agent, state, fan_out): (&AgentId, &StateFile, FanOut)) -> Self {
        let FanOut { workers, done, failed } = fan_out;
        Self { agent: agent.to_string(), state: state.to_string(), workers, done, failed }
    }
}

impl RunView {
    /// Adds where the run comes from, if its own origin tells only of a rewind, and what it has cost since then.
    pub fn tell_origin(&mut self, run: &dyn RunHandle) -> Result<(), StoreError> {
        if self.origin.as_ref().is_some_and(|origin| origin.run == self.run) {
            self.branched_off = branched_off(run)?;
        }
        if self.origin.is_some() {
            self.own_cost_usd = own_cost(run, self.cost_usd);
        }
        Ok(())
    }

    /// Adds where the run is carried out.
    pub fn tell_where(&mut self, elsewhere: &Elsewhere) {
        self.engine = Some(elsewhere.engine.clone());
        self.seen_at = Some(elsewhere.seen_at);
        self.stale = elsewhere.silence.as_ref().map(ToString::to_string);
        self.ended_there = elsewhere.ended.clone();
        if self.status == RunStatus::Running && elsewhere.why_wedged().is_some() {
            self.status = RunStatus::Wedged;
        }
        for agent in &mut self.agents {
            agent.host = elsewhere.hosts.get(agent.id.as_str()).cloned();
        }
    }
}

impl fmt::Display for FanOutView {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let FanOutView { agent, state, workers, done, failed } = self;
        let failed = if *failed > 0 { format!(", {failed} failed") } else { String::new() };
        let by = if agent == MAIN { String::new() } else { format!(" (of {agent})") };
        write!(formatter, "{state} {done} of {workers} done{failed}{by}")
    }
}

/// What an agent is doing, in one word.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Activity {
    Asking,
    Running,
    Limited,
    Delayed,
    Failed,
    Joining,
    Ready,
}

impl Activity {
    /// The agents that need a person come first, then those that are busy: the live view shows them in this order.
    pub const ALL: [Self; 7] =
        [Self::Asking, Self::Running, Self::Limited, Self::Delayed, Self::Failed, Self::Joining, Self::Ready];

    /// If no process drives the run, none of its steps is running, even if the last event of the journal started one.
    pub fn of(status: &Status, is_live: bool) -> Self {
        match status {
            Status::Running { .. } if is_live => Self::Running,
            Status::Ready { .. } | Status::Running { .. } | Status::Ending { .. } => Self::Ready,
            Status::Waiting { why: Wait::Limit, .. } => Self::Limited,
            Status::Waiting { why: Wait::Delay | Wait::Retry, .. } => Self::Delayed,
            Status::Asking { .. } => Self::Asking,
            Status::Joining { .. } => Self::Joining,
            Status::Failed { .. } => Self::Failed,
        }
    }

    pub fn as_str(self) -> &'static str {
        match self {
            Self::Asking => "asking",
            Self::Running => "running",
            Self::Limited => "limited",
            Self::Delayed => "delayed",
            Self::Failed => "failed",
            Self::Joining => "joining",
            Self::Ready => "ready",
        }
    }
}

impl fmt::Display for Activity {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.pad(self.as_str())
    }
}

#[derive(Debug, Serialize, JsonSchema)]
pub struct FrameView {
    pub state: String,
    pub session: Option<String>,
}

/// A question that waits for a person.
#[derive(Debug, Serialize, JsonSchema)]
pub struct AskView {
    pub id: String,
    pub agent: String,
    pub question: String,
    pub next: String,
    pub opened_at: Timestamp,
    pub deadline: Option<Timestamp>,
}

/// A run whose process is gone is not running, even if its journal ends without saying so.
pub fn status_of(recorded: RunStatus, is_live: bool) -> RunStatus {
    match recorded {
        RunStatus::Running if !is_live => RunStatus::Interrupted,
        status => status,
    }
}

pub fn view(run: &Run, is_live: bool, payloads: &Payloads) -> RunView {
    let asks = run.asks().into_iter().filter(|_| !run.is_dropped());
    RunView {
        run: run.id.clone(),
        workflow: run.workflow.clone(),
        status: status_of(run.status, is_live),
        steps: run.steps_completed,
        cost_usd: run.cost_usd,
        own_cost_usd: run.origin.is_none().then_some(run.cost_usd),
        budget_usd: budget_of(run),
        tokens: run.tokens,
        started_at: run.started_at,
        ended_at: run.ended_at,
        labels: run.labels.clone(),
        origin: run.origin.clone(),
        branched_off: None,
        branches: Vec::new(),
        result: run.result.as_ref().and_then(|result| payloads.text_of(result).ok()),
        failed_workers: run.failed_workers,
        agents: run.agents_by_birth().into_iter().map(|agent| agent_view(agent, is_live)).collect(),
        fan_outs: fan_outs_of(run),
        asks: asks.map(|(agent, ask)| ask_view(agent, ask, payloads)).collect(),
        schedule_waits_since: None,
        containment: None,
        engine: None,
        seen_at: None,
        stale: None,
        ended_there: None,
        elapsed: elapsed(run, is_live),
        steps_used_up: run.options.max_steps.filter(|_| run.is_out_of_steps()),
    }
}

fn fan_outs_of(run: &Run) -> Vec<FanOutView> {
    let wide = run.fan_outs().filter(|(_, _, fan_out)| fan_out.workers >= FanOutView::LEAST);
    wide.map(FanOutView::of).collect()
}

/// Of a process that died, the time until its last event counts.
fn elapsed(run: &Run, is_live: bool) -> Duration {
    let until = if is_live { crate::clock::now() } else { run.last_time };
    Duration::from_millis(run.duration_ms(until))
}

/// Nothing if the run may spend any amount.
pub(super) fn budget_of(run: &Run) -> Option<Usd> {
    Some(run.options.budget_usd).filter(|budget| !budget.is_zero())
}

/// Until when an agent waits, if that is known.
pub(super) fn until_of(status: &Status) -> Option<Timestamp> {
    match status {
        Status::Waiting { until, .. } => Some(*until),
        Status::Asking { ask } => ask.deadline,
        Status::Ready { .. }
        | Status::Running { .. }
        | Status::Joining { .. }
        | Status::Ending { .. }
        | Status::Failed { .. } => None,
    }
}

/// Why an agent failed.
pub(super) fn error_of(status: &Status) -> Option<&str> {
    match status {
        Status::Failed { error, .. } => Some(error),
        Status::Ready { .. }
        | Status::Running { .. }
        | Status::Waiting { .. }
        | Status::Asking { .. }
        | Status::Joining { .. }
        | Status::Ending { .. } => None,
    }
}

fn ask_view(agent: &Agent, ask: &Ask, payloads: &Payloads) -> AskView {
    AskView {
        id: ask.id.clone(),
        agent: agent.id.to_string(),
        question: payloads.text_of(&ask.question).unwrap_or_default(),
        next: ask.next.to_string(),
        opened_at: ask.opened_at,
        deadline: ask.deadline,
    }
}

fn agent_view(agent: &Agent, is_live: bool) -> AgentView {
    let (stderr, output) = match &agent.status {
        Status::Failed { stderr, output, .. } => {
            (Some(stderr.clone()).filter(|stderr| !stderr.is_empty()), output.as_deref())
        }
        _ => (None, None),
    };
    AgentView {
        id: agent.id.to_string(),
        title: agent.title(),
        state: agent.state.to_string(),
        scope: agent.scope.clone(),
        status: Activity::of(&agent.status, is_live),
        session: agent.session.as_ref().map(|session| session.id.clone()),
        cwd: agent.cwd.clone(),
        host: None,
        worktree: agent.worktree.as_ref().map(|worktree| worktree.path.clone()),
        branch: agent.worktree.as_ref().map(|worktree| worktree.branch.clone()),
        stack: agent.stack.iter().map(frame_view).collect(),
        attributes: agent.attributes.clone(),
        error: error_of(&agent.status).map(str::to_owned),
        stderr,
        output: output.map(|output| output.lines.clone()),
        output_file: output.and_then(|output| output.file.clone()),
        until: until_of(&agent.status),
        step: None,
        running_since: None,
        last_output_at: None,
    }
}

fn frame_view(frame: &Frame) -> FrameView {
    FrameView {
        state: frame.return_to.to_string(),
        session: frame.session.as_ref().map(|session| session.id.clone()),
    }
}
