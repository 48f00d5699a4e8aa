//! Starting an agent's state, or the next attempt at it.

use jiff::Timestamp;
use uuid::Uuid;

use crate::event::{Body, StepFailed, StepStarted, TurnStarted};
use crate::input::{Plan, Prepared};
use crate::money::Usd;
use crate::run::{Agent, Run, Status, Work};
use crate::tokens::Tokens;

pub(super) fn launch(
    run: &Run,
    agent: &Agent,
    now: Timestamp,
    prepared: Result<Prepared, String>,
) -> Vec<Body> {
    if !may_start(&agent.status, now) {
        return Vec::new();
    }
    let prepared = match prepared {
        Ok(prepared) => prepared,
        Err(error) => return vec![cannot_start(agent, error)],
    };
    let visits = agent.visits_here();
    if let Some(most) = prepared.plan.max_visits().filter(|most| visits > *most) {
        let error = format!(
            "entered for the {} time, but its `max_visits` is {most}; raise it to go on",
            ordinal(visits)
        );
        return vec![cannot_start(agent, error)];
    }
    if let Some(waits) = waits_for_name(run, agent, &prepared.plan) {
        return waits;
    }
    let mut events = warnings(run, agent, &prepared);
    let work = agent.work().cloned().unwrap_or_else(|| Work::first(run.steps_started + 1));
    let attempt = work.attempt.saturating_add(1);
    let mut started = StepStarted {
        agent: agent.id.clone(),
        step: work.step,
        attempt,
        state: agent.state.clone(),
        visits,
        hash: prepared.hash,
        exclusive: exclusive_name(agent, &prepared.plan).map(str::to_owned),
        turn: None,
    };
    if let Plan::Prompt(prompt) = &prepared.plan {
        let conversation = work.conversation(agent);
        let goes_on = conversation.filter(|session| session.is_of(&prompt.backend));
        let in_place = goes_on.filter(|_| prompt.continues_in_place).map(|session| session.id.clone());
        let chosen = || (!prompt.program_chooses_session).then(|| session_id(run, work.step, attempt));
        started.turn = Some(TurnStarted {
            backend: Some(prompt.backend.clone()),
            model: prompt.model.clone(),
            session: in_place.or_else(chosen),
            number: run.next_turn(agent),
            branch_of: goes_on.map(|session| session.id.clone()),
            share_usd: run.budget_share(),
            prompt_sha256: prompt.prompt_sha256.clone(),
            reply: prompt.reply,
        });
        if conversation.is_some() && goes_on.is_none() {
            let message = format!(
                "the backend `{}` cannot continue a conversation of another backend; it starts a new one",
                prompt.backend
            );
            events.push(warning(agent, message));
        }
    }
    events.push(Body::StepStarted(started));
    events
}

/// The `exclusive` name of a step. It is settled when the step begins: if an edit could change it between two attempts,
/// two steps could each wait for the name of the other.
fn exclusive_name<'a>(agent: &'a Agent, plan: &'a Plan) -> Option<&'a str> {
    match agent.work() {
        Some(work) => work.exclusive.as_deref(),
        None => plan.exclusive(),
    }
}

/// What happens instead of a start if another step has the name, or another agent has waited longer for it.
fn waits_for_name(run: &Run, agent: &Agent, plan: &Plan) -> Option<Vec<Body>> {
    let name = exclusive_name(agent, plan).filter(|_| agent.work().is_none())?;
    if run.may_take(name, agent) {
        return None;
    }
    let is_known = agent.waits_for_name.as_deref() == Some(name);
    let (agent, state) = (agent.id.clone(), agent.state.clone());
    let waits = Body::ExclusiveWaiting { agent, state, exclusive: name.to_owned() };
    Some((!is_known).then_some(waits).into_iter().collect())
}

fn may_start(status: &Status, now: Timestamp) -> bool {
    match status {
        Status::Ready { .. } => true,
        Status::Waiting { until, .. } => *until <= now,
        Status::Running { .. }
        | Status::Asking { .. }
        | Status::Joining { .. }
        | Status::Ending { .. }
        | Status::Failed { .. } => false,
    }
}

/// The id of an attempt's session, known before its program starts and never the same twice.
fn session_id(run: &Run, step: u64, attempt: u32) -> String {
    let namespace = Uuid::parse_str(&run.nonce).unwrap_or(Uuid::NAMESPACE_OID);
    Uuid::new_v5(&namespace, format!("{step}/{attempt}").as_bytes()).to_string()
}

/// Warns about problems in a state's file, and about changes of the file; once, not at every visit.
fn warnings(run: &Run, agent: &Agent, prepared: &Prepared) -> Vec<Body> {
    let known = run.hashes.get(&agent.place());
    if known == Some(&prepared.hash) {
        return Vec::new();
    }
    let changed =
        known.map(|_| format!("{} has changed since it last ran; the new text is used", agent.state));
    changed
        .into_iter()
        .chain(prepared.warnings.iter().cloned())
        .map(|message| warning(agent, message))
        .collect()
}

fn warning(agent: &Agent, message: String) -> Body {
    Body::Warning { agent: Some(agent.id.clone()), step: None, state: Some(agent.state.clone()), message }
}

/// A state that cannot be started fails only its agent: other agents can still finish their work.
pub(super) fn cannot_start(agent: &Agent, error: String) -> Body {
    Body::StepFailed(StepFailed {
        agent: agent.id.clone(),
        title: agent.title(),
        step: agent.work().map(|work| work.step),
        state: agent.state.clone(),
        error,
        exit_code: None,
        stderr: String::new(),
        message: None,
        output: String::new(),
        output_file: None,
        fatal: false,
        cost_usd: agent.work().map_or(Usd::ZERO, |work| work.cost_usd),
        attempt_cost_usd: Usd::ZERO,
        cost_estimated: false,
        tokens: Tokens::default(),
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
