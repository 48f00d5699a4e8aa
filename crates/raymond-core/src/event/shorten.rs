//! What a batch comes down to when the disk has no room for all of it.
//!
//! The process ends after such a batch, so it may leave out what the run's state in memory already has: the state is
//! computed again from the journal. What was paid for is never left out.

use super::{Body, Event, Reminder, StepFailed, StepFinished};
use crate::money::Usd;
use crate::name::AgentId;
use crate::tokens::Tokens;
use crate::workflow::StateFile;

/// How much of an error message is kept.
const ERROR_CHARS: usize = 300;

/// The batch without the texts that only people read, and without new steps.
pub fn without_messages(batch: &[Event]) -> Vec<Event> {
    let is_start = |event: &&Event| matches!(event.body, Body::StepStarted(_));
    let kept = batch.iter().filter(|event| !is_start(event));
    renumber(batch, kept.map(|event| drop_messages(event.body.clone())))
}

/// Only how attempts ended and what they cost. A step whose outcome was longer has failed, with this error.
pub fn only_costs(batch: &[Event], error: &str) -> Vec<Event> {
    renumber(batch, batch.iter().filter_map(|event| only_cost(event.body.clone(), error)))
}

fn renumber(batch: &[Event], bodies: impl Iterator<Item = Body>) -> Vec<Event> {
    let Some(first) = batch.first() else { return Vec::new() };
    let numbered = (first.seq..).zip(bodies);
    numbered.map(|(seq, body)| Event { seq, body, time: first.time, run: first.run.clone() }).collect()
}

fn drop_messages(mut body: Body) -> Body {
    match &mut body {
        Body::StepFinished(finished) => finished.message = None,
        Body::StepFailed(failed) => {
            failed.message = None;
            failed.stderr.clear();
            failed.output.clear();
            clip(&mut failed.error);
        }
        Body::Retry(retry) => {
            retry.message = None;
            retry.stderr.clear();
            clip(&mut retry.error);
        }
        Body::Reminder(reminder) => reminder.message = None,
        Body::LimitWaiting(limit) => {
            limit.message = None;
            clip(&mut limit.error);
        }
        Body::RunStarted(_)
        | Body::AgentStarted(_)
        | Body::StepStarted(_)
        | Body::SessionStarted(_)
        | Body::Delayed { .. }
        | Body::ExclusiveWaiting { .. }
        | Body::AgentFinished { .. }
        | Body::Joined { .. }
        | Body::AskOpened(_)
        | Body::AskClosed(_)
        | Body::Print { .. }
        | Body::Warning { .. }
        | Body::BudgetExceeded { .. }
        | Body::AgentRetried { .. }
        | Body::AgentMoved { .. }
        | Body::RunResumed(_)
        | Body::RunFinished { .. }
        | Body::RunStopped { .. }
        | Body::Snapshot { .. } => {}
    }
    body
}

fn only_cost(body: Body, error: &str) -> Option<Body> {
    body.ended_attempt_of()?;
    let body = drop_messages(body);
    if let Body::StepFinished(finished) = body {
        return Some(Body::StepFailed(not_recorded(*finished, error)));
    }
    if let Body::Reminder(reminder) = body {
        return Some(Body::StepFailed(not_reminded(reminder, error)));
    }
    Some(body)
}

fn not_recorded(finished: StepFinished, error: &str) -> StepFailed {
    StepFailed {
        cost_usd: finished.cost_usd,
        duration_ms: finished.duration_ms,
        ..failed(
            (finished.agent, finished.step, finished.state),
            (finished.attempt_cost_usd, finished.cost_estimated, finished.tokens),
            error,
        )
    }
}

fn not_reminded(reminder: Reminder, error: &str) -> StepFailed {
    failed(
        (reminder.agent, reminder.step, reminder.state),
        (reminder.attempt_cost_usd, reminder.cost_estimated, reminder.tokens),
        error,
    )
}

/// A failure of which only its place, its cost and this error are known.
fn failed(
    (agent, step, state): (AgentId, u64, StateFile),
    (cost_usd, cost_estimated, tokens): (Usd, bool, Tokens),
    error: &str,
) -> StepFailed {
    StepFailed {
        agent,
        title: None,
        step: Some(step),
        state,
        error: error.to_owned(),
        exit_code: None,
        stderr: String::new(),
        message: None,
        output: String::new(),
        output_file: None,
        fatal: false,
        cost_usd,
        attempt_cost_usd: cost_usd,
        cost_estimated,
        tokens,
        duration_ms: 0,
    }
}

fn clip(text: &mut String) {
    if let Some((end, _)) = text.char_indices().nth(ERROR_CHARS) {
        text.truncate(end);
    }
}
