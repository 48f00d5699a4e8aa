//! A run as `status` and `list` show it.

use std::collections::BTreeMap;

use jiff::Timestamp;
use raymond_core::money::Usd;
use raymond_core::run::{Agent, Ask, Frame, Run, RunStatus, Status, Wait};
use serde::Serialize;

use crate::store::Payloads;

#[derive(Debug, Serialize)]
pub struct RunView {
    pub run: String,
    pub workflow: String,
    pub status: RunStatus,
    pub steps: u64,
    pub cost_usd: Usd,
    /// Nothing means unlimited.
    pub budget_usd: Option<Usd>,
    pub started_at: Timestamp,
    pub ended_at: Option<Timestamp>,
    pub labels: BTreeMap<String, String>,
    pub result: Option<String>,
    pub agents: Vec<AgentView>,
    pub asks: Vec<AskView>,
}

#[derive(Debug, Serialize)]
pub struct AgentView {
    pub id: String,
    pub state: String,
    pub status: &'static str,
    pub session: Option<String>,
    pub cwd: String,
    pub stack: Vec<FrameView>,
    pub attributes: BTreeMap<String, String>,
    pub error: Option<String>,
    /// The last lines that a failed script wrote there.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stderr: Option<String>,
    /// Until when it waits.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub until: Option<Timestamp>,
}

#[derive(Debug, Serialize)]
pub struct FrameView {
    pub state: String,
    pub session: Option<String>,
}

/// A question that waits for a person.
#[derive(Debug, Serialize)]
pub struct AskView {
    pub id: String,
    pub agent: String,
    pub question: String,
    pub next: String,
    pub opened_at: Timestamp,
    pub deadline: Option<Timestamp>,
}

/// A run whose process is gone is not running, whatever its journal says last.
pub fn status_of(run: &Run, is_live: bool) -> RunStatus {
    match run.status {
        RunStatus::Running if !is_live => RunStatus::Interrupted,
        status => status,
    }
}

pub fn view(run: &Run, is_live: bool, payloads: &Payloads) -> RunView {
    RunView {
        run: run.id.clone(),
        workflow: run.workflow.clone(),
        status: status_of(run, is_live),
        steps: run.steps_completed,
        cost_usd: run.cost_usd,
        budget_usd: Some(run.options.budget_usd).filter(|budget| !budget.is_zero()),
        started_at: run.started_at,
        ended_at: run.ended_at,
        labels: run.labels.clone(),
        result: run.result.as_ref().and_then(|result| payloads.text_of(result).ok()),
        agents: run.agents_by_birth().into_iter().map(|agent| agent_view(agent, is_live)).collect(),
        asks: run.asks().into_iter().map(|(agent, ask)| ask_view(agent, ask, payloads)).collect(),
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
    let (error, stderr) = match &agent.status {
        Status::Failed { error, stderr, .. } => {
            (Some(error.clone()), Some(stderr.clone()).filter(|stderr| !stderr.is_empty()))
        }
        _ => (None, None),
    };
    let until = match &agent.status {
        Status::Waiting { until, .. } => Some(*until),
        Status::Asking { ask } => ask.deadline,
        _ => None,
    };
    AgentView {
        id: agent.id.to_string(),
        state: agent.state.to_string(),
        status: agent_status(agent, is_live),
        session: agent.session.as_ref().map(|session| session.id.clone()),
        cwd: agent.cwd.clone(),
        stack: agent.stack.iter().map(frame_view).collect(),
        attributes: agent.attributes.clone(),
        error,
        stderr,
        until,
    }
}

fn frame_view(frame: &Frame) -> FrameView {
    FrameView {
        state: frame.return_to.to_string(),
        session: frame.session.as_ref().map(|session| session.id.clone()),
    }
}

fn agent_status(agent: &Agent, is_live: bool) -> &'static str {
    match &agent.status {
        Status::Running { .. } if is_live => "running",
        Status::Ready { .. } | Status::Running { .. } | Status::Ending { .. } => "ready",
        Status::Waiting { why: Wait::Limit, .. } => "limited",
        Status::Waiting { .. } => "delayed",
        Status::Asking { .. } => "asking",
        Status::Joining { .. } => "joining",
        Status::Failed { .. } => "failed",
    }
}
