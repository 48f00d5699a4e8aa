//! Conditions that every state of a run must meet.

use std::collections::BTreeSet;

use raymond_core::event::{Event, SnapshotLine};
use raymond_core::evolve::evolve;
use raymond_core::run::{Run, RunStatus, Status};

/// Returns the first condition that a state of a run does not meet.
pub fn is_legal(run: &Run, is_thorough: bool) -> Option<String> {
    let mut steps = BTreeSet::new();
    for agent in run.agents.values() {
        if let Some(work) = agent.work() {
            if !steps.insert(work.step) {
                return Some(format!("two agents are at step {}", work.step));
            }
            // A step that a branch starts anew has no attempt yet.
            let has_begun =
                work.attempt > 0 || (run.origin.is_some() && matches!(agent.status, Status::Ready { .. }));
            if work.step > run.steps_started || !has_begun {
                return Some(format!("{} is at step {}/{}", agent.id, work.step, work.attempt));
            }
        }
        if let Some(parent) = agent.parent.as_ref().filter(|parent| run.agents.contains_key(*parent)) {
            let worker = run.workers.get(parent).and_then(|workers| workers.get(&agent.fork));
            if !worker.is_some_and(|worker| worker.agent == agent.id && worker.result.is_none()) {
                return Some(format!("{parent} does not know its worker {}", agent.id));
            }
        }
    }
    let is_over = run.status == RunStatus::Completed;
    if is_over && !run.agents.is_empty() {
        return Some("the run has ended but still has agents".to_owned());
    }
    if run.status != RunStatus::Running && run.running() > 0 {
        return Some("steps run in a run that stopped".to_owned());
    }
    if run.running() > 0 && run.running_agents().any(|id| !run.agents.contains_key(id)) {
        return Some("a running agent does not exist".to_owned());
    }
    if is_thorough { survives_a_snapshot(run).err() } else { None }
}

/// Writing a state and reading it again gives the same state, including the queues.
fn survives_a_snapshot(run: &Run) -> Result<(), String> {
    let text = serde_json::to_string(&SnapshotLine::of(run, run.last_time))
        .map_err(|error| format!("cannot write a snapshot: {error}"))?;
    let event: Event =
        serde_json::from_str(&text).map_err(|error| format!("a snapshot cannot be read: {error}: {text}"))?;
    if serde_json::to_string(&event).is_ok_and(|again| again != text) {
        return Err(format!("a snapshot is not written like other events: {text}"));
    }
    match evolve(None, &event) {
        Some(read) if read == *run => Ok(()),
        other => Err(format!("a snapshot changes the state: {other:?} instead of {run:?}")),
    }
}
