//! Failed steps.

use super::EndedStep;
use crate::event::{Body, StepFailed};
use crate::input::{ShownOutput, TurnCost};
use crate::payload::Payload;

/// The data of a failure.
pub(super) struct Fault {
    pub(super) error: String,
    pub(super) exit_code: Option<i32>,
    pub(super) stderr: String,
    /// Whether the whole run stops.
    pub(super) fatal: bool,
    pub(super) cost: TurnCost,
    /// The agent's final message.
    pub(super) message: Option<Payload>,
    /// The end of an output that made no transition.
    pub(super) shown: ShownOutput,
}

impl Fault {
    pub(super) fn new(error: impl Into<String>, fatal: bool) -> Self {
        Self {
            error: error.into(),
            exit_code: None,
            stderr: String::new(),
            fatal,
            cost: TurnCost::default(),
            message: None,
            shown: ShownOutput::default(),
        }
    }
}

pub(super) fn failed(step: &EndedStep<'_>, fault: Fault) -> Body {
    Body::StepFailed(StepFailed {
        agent: step.agent.id.clone(),
        title: step.agent.title(),
        step: Some(step.work.step),
        state: step.agent.state.clone(),
        error: fault.error,
        exit_code: fault.exit_code,
        stderr: fault.stderr,
        message: fault.message,
        output: fault.shown.last_lines,
        output_file: fault.shown.file,
        fatal: fault.fatal,
        cost_usd: step.work.cost_usd + fault.cost.usd(),
        attempt_cost_usd: fault.cost.usd(),
        cost_estimated: fault.cost.is_estimated(),
        tokens: fault.cost.tokens(),
        duration_ms: step.duration_ms,
    })
}
