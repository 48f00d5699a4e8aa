//! Starting an agent's state, or the next attempt at it.

use crate::event::{Body, StepFailed, StepStarted};
use crate::input::Prepared;
use crate::money::Usd;
use crate::run::{Agent, Run};

pub(super) fn launch(run: &Run, agent: &Agent, prepared: Result<Prepared, String>) -> Vec<Body> {
    let prepared = match prepared {
        Ok(prepared) => prepared,
        Err(error) => return vec![cannot_start(agent, error)],
    };
    let visits = agent.visits_here();
    if let Some(most) = prepared.plan.max_visits().filter(|most| visits > *most) {
        let error = format!(
            "entered for the {} time, but its `max_visits` is {most}",
            ordinal(visits)
        );
        return vec![cannot_start(agent, error)];
    }
    let mut events = warnings(run, agent, &prepared);
    let (step, attempt) = match agent.work() {
        Some(work) => (work.step, work.attempt + 1),
        None => (run.steps_started + 1, 1),
    };
    events.push(Body::StepStarted(StepStarted {
        agent: agent.id.clone(),
        step,
        attempt,
        state: agent.state.clone(),
        visits,
        hash: prepared.hash,
        session: None,
        branch_of: None,
        share_usd: None,
    }));
    events
}

/// Says once, not at every visit, what is odd about a state's file, and that it changed under the run.
fn warnings(run: &Run, agent: &Agent, prepared: &Prepared) -> Vec<Body> {
    let known = run.hashes.get(&agent.state);
    if known == Some(&prepared.hash) {
        return Vec::new();
    }
    let changed = known.map(|_| {
        format!(
            "{} has changed since it last ran; the new text is used",
            agent.state
        )
    });
    changed
        .into_iter()
        .chain(prepared.warnings.iter().cloned())
        .map(|message| Body::Warning {
            agent: Some(agent.id.clone()),
            step: None,
            state: Some(agent.state.clone()),
            message,
        })
        .collect()
}

/// A state that cannot be started is its agent's failure alone: other agents may well finish their work.
fn cannot_start(agent: &Agent, error: String) -> Body {
    Body::StepFailed(StepFailed {
        agent: agent.id.clone(),
        step: None,
        state: agent.state.clone(),
        error,
        exit_code: None,
        stderr: String::new(),
        fatal: false,
        cost_usd: Usd::ZERO,
        cost_estimated: false,
        duration_ms: 0,
    })
}

fn ordinal(number: u64) -> String {
    let suffix = match (number % 100, number % 10) {
        (11..=13, _) => "th",
        (_, 1) => "st",
        (_, 2) => "nd",
        (_, 3) => "rd",
        _ => "th",
    };
    format!("{number}{suffix}")
}
