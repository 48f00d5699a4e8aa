//! An agent of a run: where it is, what it does, what it remembers.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::place;
use crate::money::Usd;
use crate::name::AgentId;
use crate::named_inputs::InputValues;
use crate::payload::Payload;
use crate::snapshot::TaskFiles;
use crate::title::title;
use crate::tokens::Tokens;
use crate::workflow::StateFile;
use crate::worktree::Worktree;

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
    /// The effort that its last turn was told to use, if it was told one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub effort: Option<String>,
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
    /// The files in its task folder, if snapshots of them are taken.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task_files: Option<Box<TaskFiles>>,
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
pub(super) fn unknown_time() -> Timestamp {
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

    /// The texts that its next step needs: what its state is handed, and a reminder.
    pub fn needed_payloads(&self) -> impl Iterator<Item = &Payload> {
        let reminder = match self.work().map(|work| &work.say) {
            Some(Say::Reminder { text, .. }) => Some(text),
            Some(Say::Prompt | Say::GoOn { .. }) | None => None,
        };
        self.payload.iter().chain(reminder)
    }

    pub(super) fn payloads_mut(&mut self) -> Vec<&mut Payload> {
        self.payload.iter_mut().chain(self.status.payload_mut()).collect()
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
    pub(super) fn live_worker_of(&self) -> Option<&AgentId> {
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

impl Status {
    fn payload_mut(&mut self) -> Option<&mut Payload> {
        let say = match self {
            Status::Ready { work, .. } | Status::Waiting { work, .. } => &mut work.as_mut()?.say,
            Status::Running { work, .. } => &mut work.say,
            Status::Asking { ask } => return Some(&mut ask.question),
            Status::Ending { result } => return Some(result),
            Status::Failed { waited, .. } => return waited.as_mut()?.payload_mut(),
            Status::Joining { .. } => return None,
        };
        match say {
            Say::Reminder { text, .. } => Some(text),
            Say::Prompt | Say::GoOn { .. } => None,
        }
    }
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
    pub fn refuses(&self, text: &Payload, given_at: Option<Timestamp>) -> Option<Refusal> {
        // Who stores an answer has looked at it.
        let is_empty = text.text().is_some_and(|text| text.trim().is_empty());
        if !self.empty_ok && is_empty {
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
    /// How often it has stopped at a share of the budget and gone on.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub shares: u32,
    /// How often that was long before the share was used up.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub early_stops: u32,
    /// How often it has met a usage limit after the service was paid for something.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub paid_limits: u32,
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
            shares: 0,
            early_stops: 0,
            paid_limits: 0,
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
    /// Whether the running turn, if it stopped at its share of the budget now, would have used too little of it: its
    /// program counts in another way, or does not do what it says.
    pub fn would_stop_early(&self, cost: Usd) -> bool {
        self.share_usd.is_some_and(|share| cost < share.divided_by(2))
    }

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

fn is_zero(number: &u32) -> bool {
    *number == 0
}
