//! What people change in a run that stands still: a failed agent tries again, or an agent is sent elsewhere.

use jiff::Timestamp;

use super::ask::ask_again;
use crate::event::Body;
use crate::name::AgentId;
use crate::payload::Payload;
use crate::run::{Agent, Run, Status};
use crate::workflow::StateFile;

/// Failed agents can start again. The next resume retries no others.
pub(super) fn retry(run: &Run, now: Timestamp, agents: &[AgentId]) -> Vec<Body> {
    let failed = agents.iter().filter_map(|id| run.agents.get(id)).filter(|agent| has_failed(agent));
    failed.flat_map(|agent| [Some(retried(agent)), ask_again(agent, now)]).flatten().collect()
}

fn has_failed(agent: &Agent) -> bool {
    matches!(agent.status, Status::Failed { .. })
}

fn retried(agent: &Agent) -> Body {
    Body::AgentRetried { agent: agent.id.clone(), state: agent.state.clone() }
}

/// The agent goes on in another state, with its stack and its conversation.
pub(super) fn jump(agent: &Agent, target: StateFile, input: Option<String>) -> Vec<Body> {
    vec![Body::AgentMoved {
        agent: agent.id.clone(),
        state: agent.state.clone(),
        target,
        input: input.map(Payload::from),
    }]
}
