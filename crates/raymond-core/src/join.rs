//! What a join hands over: a JSON array of what came of each worker, in the order they were forked.

use serde::Serialize;
use std::collections::BTreeMap;

use crate::limits::MAX_TAG_BYTES;
use crate::name::AgentId;
use crate::payload::Payload;
use crate::run::{Run, Status};

#[derive(Serialize)]
struct Joined<'a> {
    agent: &'a AgentId,
    state: &'a str,
    attributes: &'a BTreeMap<String, String>,
    status: &'static str,
    result: Option<String>,
    error: Option<&'a str>,
}

/// Puts the array together, or says why the workers' results cannot be handed over. `load` reads payloads that lie in
/// files; where that fails, it is nobody's fault in the workflow.
pub fn results<E>(
    run: &Run,
    agent: &AgentId,
    load: impl Fn(&Payload) -> Result<String, E>,
) -> Result<Result<String, String>, E> {
    let mut joined = Vec::new();
    for worker in run.workers.get(agent).into_iter().flat_map(BTreeMap::values) {
        let error = match run.agents.get(&worker.agent).map(|agent| &agent.status) {
            Some(Status::Failed { error, .. }) => Some(error.as_str()),
            _ => None,
        };
        joined.push(Joined {
            agent: &worker.agent,
            state: worker.state.as_str(),
            attributes: &worker.attributes,
            status: if error.is_some() { "failed" } else { "done" },
            result: worker.result.as_ref().map(&load).transpose()?,
            error,
        });
    }
    Ok(as_text(&joined))
}

fn as_text(joined: &[Joined<'_>]) -> Result<String, String> {
    let text = serde_json::to_string(joined)
        .map_err(|error| format!("the results of the workers cannot be put together: {error}"))?;
    if text.len() > MAX_TAG_BYTES {
        let most = MAX_TAG_BYTES / (1024 * 1024);
        return Err(format!(
            "the results of {} workers are longer than {most} MiB together; let them write files and return their names",
            joined.len()
        ));
    }
    Ok(text)
}
