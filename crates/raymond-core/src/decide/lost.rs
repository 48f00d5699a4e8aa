//! The loss of a running attempt, together with the machine that it ran on.

use super::EndedStep;
use super::fault::{Fault, failed};
use super::turn::pause_after_stops;
use crate::event::{Body, NextTry, Retry};
use crate::input::TurnCost;
use crate::limits::MAX_LOSSES;
use crate::money::Usd;
use crate::run::later;
use crate::tokens::Tokens;

/// The step runs again from its start, at once the first times, and later as long as it costs nothing. That is not
/// one of its own retries: it has not failed.
pub(super) fn lost(step: &EndedStep<'_>, error: String, cost: Usd) -> Body {
    let cost = match cost.is_zero() {
        true => TurnCost::default(),
        false => TurnCost::estimated(cost, Tokens::default()),
    };
    if step.work.losses >= MAX_LOSSES {
        let error = format!("{error}; it was lost {MAX_LOSSES} times before, so it may be the cause itself");
        return failed(step, Fault { cost, ..Fault::new(error, false) });
    }
    Body::Retry(Retry {
        agent: step.agent.id.clone(),
        step: step.work.step,
        state: step.agent.state.clone(),
        attempt: step.work.attempt.saturating_add(1),
        until: later(step.now, pause_after_stops(step.work.losses, cost)),
        error,
        stderr: String::new(),
        message: None,
        attempt_cost_usd: cost.usd(),
        cost_estimated: cost.is_estimated(),
        tokens: cost.tokens(),
        next_try: NextTry::AfterLoss,
    })
}
