//! Turns inputs into events. Pure and total, and the only place where the next steps of a run are decided.

#![warn(clippy::wildcard_enum_match_arm, reason = "a new input, event or tag must be handled here and below")]

mod again;
mod ask;
mod close;
mod fault;
mod join;
mod launch;
mod lost;
mod script;
mod transition;
mod turn;

use jiff::Timestamp;

use crate::event::{
    AgentStarted, BRANCH_FORMAT_VERSION, Body, Moved, Origin, RunResumed, RunStarted, SessionStarted,
};
use crate::input::{Ended, Input, Lookups, Plan, StepOutcome};
use crate::money::Usd;
use crate::name::AgentId;
use crate::payload::Payload;
use crate::run::{Agent, Halt, Options, Run, RunStatus, Status, Work};

/// The events that open a run.
pub fn start(started: RunStarted, input: Option<String>) -> Vec<Body> {
    let main = AgentStarted {
        agent: AgentId::main(),
        state: started.entry.clone(),
        cwd: started.cwd.clone(),
        workflow: None,
        forked: None,
        worktree: None,
        input: input.map(Payload::from),
    };
    vec![Body::RunStarted(Box::new(started)), Body::AgentStarted(Box::new(main))]
}

/// The event with which a run begins whose history is that of `at`, up to the last event that is in it. The nonce differs
/// from that of every other run, so that no session or process of one is taken for that of the other.
pub fn branch(at: &Run, nonce: String, origin: Origin, moved: Moved) -> Body {
    Body::RunStarted(Box::new(RunStarted {
        version: BRANCH_FORMAT_VERSION,
        workflow: at.workflow.clone(),
        scope: at.scope.clone(),
        scope_hash: at.scope_hash.clone(),
        entry: at.entry.clone(),
        cwd: at.cwd.clone(),
        nonce,
        labels: at.labels.clone(),
        inputs: at.inputs.values.clone(),
        options: at.options.clone(),
        moved,
        origin: Some(origin),
    }))
}

/// The events that follow from an input. An input that no longer fits the run gives none.
pub fn decide(run: &Run, now: Timestamp, input: Input) -> Vec<Body> {
    match input {
        Input::Resume { options, interrupted, forgotten, moved } => {
            resume(run, now, RunResumed { options: *options, interrupted, forgotten, moved })
        }
        Input::Retry { agents } if run.status != RunStatus::Running => again::retry(run, now, &agents),
        Input::Jump { agent, target, input } if run.status != RunStatus::Running => {
            with_agent(run, &agent, |agent| again::jump(agent, target, input))
        }
        Input::Retry { .. } | Input::Jump { .. } => Vec::new(),
        _ if run.status != RunStatus::Running => Vec::new(),
        Input::Launch { agent, prepared } => {
            with_agent(run, &agent, |agent| launch::launch(run, agent, now, prepared))
        }
        Input::SessionKnown { agent, step, attempt, session } => {
            with_attempt(run, &agent, (step, attempt), |agent, work| session_known(agent, work, session))
        }
        Input::Ended(ended) => with_budget(run, step_ended(run, now, *ended)),
        Input::Lost { agent, step, attempt, error, cost } => {
            let events = with_attempt(run, &agent, (step, attempt), |agent, work| {
                let step = EndedStep { run, agent, work, now, duration_ms: 0, lookups: &Lookups::default() };
                vec![lost::lost(&step, error, cost)]
            });
            with_budget(run, events)
        }
        Input::Print { agent, step, attempt, text } => {
            with_attempt(run, &agent, (step, attempt), |agent, _| {
                let (agent, state) = (agent.id.clone(), agent.state.clone());
                vec![Body::Print { agent, step, state, text }]
            })
        }
        Input::Warning { agent, message } => vec![Body::Warning { agent, step: None, state: None, message }],
        Input::End { agent } => with_agent(run, &agent, |agent| {
            let Status::Ending { result } = &agent.status else { return Vec::new() };
            vec![Body::AgentFinished {
                agent: agent.id.clone(),
                title: agent.title(),
                result: result.clone(),
            }]
        }),
        Input::Join { agent, result } => with_agent(run, &agent, |agent| join::joined(run, agent, result)),
        Input::Answer(answer) => ask::answered(run, answer),
        Input::AskTimeout { agent } => with_agent(run, &agent, |agent| ask::timed_out(agent, now)),
        Input::Close { stop_requested, terminated, interrupted } => {
            match interrupted.len() == run.running() {
                true => vec![close::close(run, now, (stop_requested, terminated), interrupted)],
                false => Vec::new(),
            }
        }
    }
}

/// A run over its budget stays stopped until it is resumed with a higher budget.
fn resume(run: &Run, now: Timestamp, resumed: RunResumed) -> Vec<Body> {
    let options = resumed.options.clone();
    let resumed = Body::RunResumed(resumed);
    let exceeded = exceeded(&options, run.cost_usd + resumed.cost());
    [resumed].into_iter().chain(ask::asked_again(run, now)).chain(exceeded).collect()
}

/// Once the total cost is over the budget, nothing new starts, even if the state asked for it.
fn with_budget(run: &Run, mut events: Vec<Body>) -> Vec<Body> {
    if run.halt != Some(Halt::OverBudget) {
        let cost = run.cost_usd + events.iter().map(Body::cost).sum();
        events.extend(exceeded(&run.options, cost));
    }
    events
}

fn exceeded(options: &Options, cost_usd: Usd) -> Option<Body> {
    let budget_usd = options.budget_usd;
    (!budget_usd.is_zero() && cost_usd > budget_usd).then_some(Body::BudgetExceeded { cost_usd, budget_usd })
}

/// What the running attempt did not know already. A program may say it more than once.
fn session_known(agent: &Agent, work: &Work, session: String) -> Vec<Body> {
    if work.session.as_ref() == Some(&session) {
        return Vec::new();
    }
    let (agent, state) = (agent.id.clone(), agent.state.clone());
    let (step, attempt) = (work.step, work.attempt);
    vec![Body::SessionStarted(SessionStarted { agent, step, attempt, state, session })]
}

fn step_ended(run: &Run, now: Timestamp, ended: Ended) -> Vec<Body> {
    let attempt = (ended.step, ended.attempt);
    with_attempt(run, &ended.agent.clone(), attempt, |agent, work| {
        let Ended { duration_ms, plan, outcome, lookups, .. } = ended;
        let step = EndedStep { run, agent, work, now, duration_ms, lookups: &lookups };
        match (outcome, plan) {
            (StepOutcome::Script(outcome), Plan::Script(header)) => script::ended(&step, &header, outcome),
            (StepOutcome::Turn(outcome), Plan::Prompt(plan)) => turn::ended(&step, &plan, outcome),
            // The event that ends the run records it.
            (StepOutcome::Interrupted { .. }, _) => Vec::new(),
            (StepOutcome::Script(_), Plan::Prompt(_)) | (StepOutcome::Turn(_), Plan::Script(_)) => Vec::new(),
        }
    })
}

/// A step that ended, with all data needed to decide what follows.
struct EndedStep<'a> {
    run: &'a Run,
    agent: &'a Agent,
    work: &'a Work,
    now: Timestamp,
    duration_ms: u64,
    lookups: &'a Lookups,
}

/// A report counts only for the attempt that runs now: one about an earlier attempt is ignored.
fn with_attempt(
    run: &Run,
    id: &AgentId,
    attempt: (u64, u32),
    decide: impl FnOnce(&Agent, &Work) -> Vec<Body>,
) -> Vec<Body> {
    with_agent(run, id, |agent| {
        let Status::Running { work, .. } = &agent.status else { return Vec::new() };
        match (work.step, work.attempt) == attempt {
            true => decide(agent, work),
            false => Vec::new(),
        }
    })
}

fn with_agent(run: &Run, id: &AgentId, decide: impl FnOnce(&Agent) -> Vec<Body>) -> Vec<Body> {
    run.agents.get(id).map(decide).unwrap_or_default()
}
