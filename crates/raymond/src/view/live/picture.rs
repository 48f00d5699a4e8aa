//! What the live view shows of a run: a small, owned part of the run's state. Nothing here looks at events.
//!
//! Making a picture costs time for the rows in it, not for all agents of the run: the run keeps its agents in queues.

use std::time::Duration;

use jiff::Timestamp;
use raymond_core::money::Usd;
use raymond_core::name::AgentId;
use raymond_core::payload::Payload;
use raymond_core::run::{Agent, Ask, FanOut, Halt, Run, Status};
use raymond_core::workflow::StateFile;

use crate::view::status::{Activity, FanOutView, budget_of, error_of, until_of};
use crate::view::text::{clean, one_line};

/// The most agents that are shown, however high the terminal is.
pub(super) const MOST_ROWS: usize = 100;
/// The most fan-outs that are shown.
const MOST_FAN_OUTS: usize = 3;
/// How much of a question or an error is kept.
const TEXT_CHARS: usize = 300;

/// A run as the view shows it.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Picture {
    pub(super) run: String,
    pub(super) steps: u64,
    pub(super) cost: Usd,
    pub(super) budget: Option<Usd>,
    pub(super) is_over_budget: bool,
    resumed_at: Timestamp,
    /// How many agents are doing what, in the order of [`Activity::ALL`].
    counts: [usize; Activity::ALL.len()],
    /// How far the first fan-outs are.
    pub(super) fan_outs: Vec<FanOutView>,
    /// The agents that are shown. If there is room for only some of them, these are the first.
    pub(super) rows: Vec<Row>,
}

/// One agent.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Row {
    pub(super) agent: AgentId,
    /// What it is called for people.
    pub(super) title: Option<String>,
    pub(super) state: StateFile,
    pub(super) activity: Activity,
    /// When it entered its state, or began to wait for something else than the state's program.
    pub(super) since: Timestamp,
    /// Until when it waits, if that is known.
    pub(super) until: Option<Timestamp>,
    /// Why it failed.
    pub(super) error: Option<String>,
    /// Why its last attempt is repeated.
    pub(super) retry: Option<String>,
    pub(super) question: Option<Question>,
    /// What it has cost.
    pub(super) cost: Usd,
    /// How many of its workers have neither ended nor failed.
    pub(super) workers: usize,
    /// Agents are shown in the order they were started.
    pub(super) birth: u64,
}

/// What an agent asks a person.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Question {
    pub(super) ask: String,
    pub(super) text: String,
}

impl Picture {
    pub(super) fn of(run: &Run) -> Self {
        Self::with_rows(run, MOST_ROWS)
    }

    /// A picture of a run with at most `most` of its agents.
    pub(super) fn with_rows(run: &Run, most: usize) -> Self {
        Self {
            run: run.id.clone(),
            steps: run.steps_completed,
            cost: run.cost_usd,
            budget: budget_of(run),
            is_over_budget: run.halt == Some(Halt::OverBudget),
            resumed_at: run.resumed_at,
            counts: Activity::ALL.map(|activity| count_of(run, activity)),
            fan_outs: fan_outs_of(run),
            rows: first_rows(run, most),
        }
    }

    /// How long this process has worked on the run.
    pub(super) fn elapsed(&self, now: Timestamp) -> Duration {
        since(self.resumed_at, now)
    }

    /// How many agents the run has, whether they are in the picture or not.
    pub(super) fn agents(&self) -> usize {
        self.counts.iter().sum()
    }

    /// How many agents are doing what.
    pub(super) fn counts(&self) -> impl Iterator<Item = (Activity, usize)> {
        Activity::ALL.into_iter().zip(self.counts)
    }
}

fn count_of(run: &Run, activity: Activity) -> usize {
    match activity {
        Activity::Asking => run.asking_agents().len(),
        Activity::Running => run.running(),
        Activity::Limited => run.limited(),
        Activity::Delayed => run.waiting_agents().len() - run.limited(),
        Activity::Failed => run.failed_agents().len(),
        Activity::Joining => run.joining_agents().len(),
        Activity::Ready => run.ending_agents().len() + run.ready(),
    }
}

/// Fan-outs that are done wait for their join, and the number of agents says nothing about them.
fn fan_outs_of(run: &Run) -> Vec<FanOutView> {
    let under_way = |fan_out: &FanOut| fan_out.workers >= FanOutView::LEAST && fan_out.done < fan_out.workers;
    let first = run.fan_outs().filter(|(_, _, fan_out)| under_way(fan_out)).take(MOST_FAN_OUTS);
    first.map(FanOutView::of).collect()
}

/// The queues are read in the order of [`Activity::ALL`], so that the first agents found are the ones to show.
fn first_rows(run: &Run, most: usize) -> Vec<Row> {
    let agents = run
        .asking_agents()
        .chain(run.running_agents())
        .chain(run.waiting_agents())
        .chain(run.failed_agents())
        .chain(run.joining_agents())
        .chain(run.ending_agents())
        .chain(run.ready_agents());
    let agents = agents.take(most).filter_map(|id| run.agents.get(id));
    let mut rows: Vec<Row> = agents.map(|agent| Row::of(run, agent)).collect();
    rows.sort_by_key(|row| (row.activity, row.since, row.birth));
    rows
}

impl Row {
    fn of(run: &Run, agent: &Agent) -> Self {
        Self {
            agent: agent.id.clone(),
            title: agent.title().map(|title| clean(&title).into_owned()),
            state: agent.state.clone(),
            activity: Activity::of(&agent.status, true),
            since: agent.since,
            until: until_of(&agent.status),
            error: error_of(&agent.status).map(|error| one_line(error, TEXT_CHARS)),
            retry: match &agent.status {
                Status::Waiting { error, .. } => error.as_ref().map(|error| one_line(error, TEXT_CHARS)),
                _ => None,
            },
            question: match &agent.status {
                Status::Asking { ask } => Some(Question::of(ask)),
                _ => None,
            },
            cost: agent.cost_usd,
            workers: run.live_workers(&agent.id),
            birth: agent.birth,
        }
    }
}

impl Question {
    fn of(ask: &Ask) -> Self {
        let text = match &ask.question {
            Payload::Inline(text) => one_line(text, TEXT_CHARS),
            Payload::Stored { bytes, .. } => format!("{bytes} bytes"),
        };
        Self { ask: ask.id.clone(), text }
    }
}

/// The time that has passed since then; none if the clock was set back.
pub(super) fn since(then: Timestamp, now: Timestamp) -> Duration {
    Duration::try_from(now.duration_since(then)).unwrap_or_default()
}

#[cfg(test)]
mod tests;
