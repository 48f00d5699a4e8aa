//! What people changed in a run that stands still.

use crate::event::Event;
use crate::name::AgentId;
use crate::payload::Payload;
use crate::run::{Run, RunStatus, Status};
use crate::workflow::StateFile;

use super::{enter, status_after_resume};

/// A failed agent tries again with the next resume, and those that are not named do not.
pub(super) fn retried(run: &mut Run, event: &Event, agent: &AgentId) {
    run.retries_are_named = true;
    run.update(agent, |agent| {
        if let Status::Failed { .. } = &agent.status {
            agent.status = status_after_resume(agent, event);
        }
    });
    settle(run);
}

/// The agent enters another state. What it was about to do is left undone.
pub(super) fn moved(run: &mut Run, seq: u64, agent: &AgentId, target: &StateFile, input: Option<&Payload>) {
    run.update(agent, |agent| enter(agent, seq, target, input));
    settle(run);
}

/// A run that stopped because of agents that can now go on waits only for a resume.
fn settle(run: &mut Run) {
    let can_go_on = match run.status {
        RunStatus::Failed => run.failed_agents().len() == 0,
        RunStatus::Waiting => run.asking_agents().len() == 0,
        RunStatus::Running
        | RunStatus::Completed
        | RunStatus::OverBudget
        | RunStatus::Limited
        | RunStatus::Interrupted
        | RunStatus::Wedged => false,
    };
    if can_go_on {
        run.status = RunStatus::Interrupted;
        run.halt = None;
    }
}
