//! Questions to a person: opened by a step, closed by an answer or by time.

use std::time::Duration;

use jiff::Timestamp;

use super::EndedStep;
use crate::event::{AskClosed, AskOpened, Body, Closed, LedTo, StepFailed};
use crate::input::Answer;
use crate::money::Usd;
use crate::run::{Agent, Run, Status, later, later_if_possible};
use crate::tokens::Tokens;
use crate::transition;

/// The transition of an ask, and the event that opens the question.
pub(super) fn ask(step: &EndedStep<'_>, ask: transition::Ask) -> Result<(LedTo, Body), String> {
    let next = step.lookups.state(&ask.next)?;
    let led_to = LedTo::Ask { next: next.clone() };
    let opened = Body::AskOpened(AskOpened {
        agent: step.agent.id.clone(),
        title: step.agent.title(),
        ask: format!("ask{}", step.run.asks_opened + 1),
        step: Some(step.work.step),
        state: step.agent.state.clone(),
        question: ask.question,
        next,
        timeout_ms: ask.timeout.map(|timeout| u64::try_from(timeout.as_millis()).unwrap_or(u64::MAX)),
        deadline: ask.timeout.map(|timeout| later_if_possible(step.now, timeout, "timeout")).transpose()?,
        timeout_next: ask.timeout_next.map(|name| step.lookups.state(&name)).transpose()?,
        empty_ok: ask.empty_ok,
    });
    Ok((led_to, opened))
}

/// Opens the questions again that timed out and failed their agents; each gets its full time.
pub(super) fn asked_again(run: &Run, now: Timestamp) -> Vec<Body> {
    let failed = run.failed_agents().filter(|_| !run.retries_are_named).filter_map(|id| run.agents.get(id));
    failed.filter_map(|agent| ask_again(agent, now)).collect()
}

/// The question of an agent that failed because it was not answered in time.
pub(super) fn ask_again(agent: &Agent, now: Timestamp) -> Option<Body> {
    let Status::Failed { waited: Some(waited), .. } = &agent.status else { return None };
    let Status::Asking { ask } = &**waited else { return None };
    Some(Body::AskOpened(AskOpened {
        agent: agent.id.clone(),
        title: agent.title(),
        ask: ask.id.clone(),
        step: None,
        state: agent.state.clone(),
        question: ask.question.clone(),
        next: ask.next.clone(),
        timeout_ms: ask.timeout_ms,
        deadline: ask.timeout_ms.map(|timeout| later(now, Duration::from_millis(timeout))),
        timeout_next: ask.timeout_next.clone(),
        empty_ok: ask.empty_ok,
    }))
}

/// The first answer to this very question that is not empty and was given in time is taken; all others are ignored.
pub(super) fn answered(run: &Run, given: Answer) -> Vec<Body> {
    let Answer { ask, text, answer_id, given_at, asked_at } = given;
    let Some(agent) = run.asker(&ask) else { return Vec::new() };
    let Status::Asking { ask } = &agent.status else { return Vec::new() };
    let is_for_another = asked_at.is_some_and(|time| time != ask.opened_at);
    if is_for_another || ask.refuses(&text, given_at).is_some() {
        return Vec::new();
    }
    vec![Body::AskClosed(AskClosed {
        agent: agent.id.clone(),
        ask: ask.id.clone(),
        state: agent.state.clone(),
        how: Closed::Answered { target: ask.next.clone(), answer: text, answer_id },
    })]
}

/// A question that times out leads to `timeout_next` with an empty value, or fails its agent.
pub(super) fn timed_out(agent: &Agent, now: Timestamp) -> Vec<Body> {
    let Status::Asking { ask } = &agent.status else { return Vec::new() };
    if ask.deadline.is_none_or(|deadline| deadline > now) {
        return Vec::new();
    }
    let closed = |how| {
        Body::AskClosed(AskClosed {
            agent: agent.id.clone(),
            ask: ask.id.clone(),
            state: agent.state.clone(),
            how,
        })
    };
    if let Some(target) = ask.timeout_next.clone() {
        return vec![closed(Closed::TimedOut { target })];
    }
    let failed = Body::StepFailed(StepFailed {
        agent: agent.id.clone(),
        title: agent.title(),
        step: None,
        state: agent.state.clone(),
        error: format!("{} was not answered in time, and it has no `timeout_next`", ask.id),
        exit_code: None,
        stderr: String::new(),
        message: None,
        output: String::new(),
        output_file: None,
        fatal: false,
        cost_usd: Usd::ZERO,
        attempt_cost_usd: Usd::ZERO,
        cost_estimated: false,
        tokens: Tokens::default(),
        duration_ms: 0,
    });
    vec![closed(Closed::Unanswered), failed]
}
