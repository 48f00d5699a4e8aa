//! Waiting for workers.

use super::launch::cannot_start;
use crate::event::Body;
use crate::payload::Payload;
use crate::run::{Agent, Run};

/// The workers have ended. `result` was built by the shell, which can read long payloads.
pub(super) fn joined(run: &Run, agent: &Agent, result: Result<Payload, String>) -> Vec<Body> {
    if !run.is_joinable(&agent.id) {
        return Vec::new();
    }
    let workers = run
        .workers
        .get(&agent.id)
        .map(|workers| workers.values().map(|worker| worker.agent.clone()).collect());
    match result {
        Ok(result) => vec![Body::Joined {
            agent: agent.id.clone(),
            state: agent.state.clone(),
            workers: workers.unwrap_or_default(),
            result,
        }],
        Err(error) => vec![cannot_start(agent, error)],
    }
}
