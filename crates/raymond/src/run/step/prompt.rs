//! A prompt state: one turn of an agent.

mod turn;

use std::borrow::Cow;
use std::path::Path;

use raymond_core::input::{
    BadMessage, CompletedTurn, FailedTurn, Lookups, Outcome, PromptPlan, TurnCost, TurnOutcome,
};
use raymond_core::input::{FaultClass, Input};
use raymond_core::money::Usd;
use raymond_core::run::{Agent, Say, Session};
use raymond_core::tag::{TagCollector, TagReader};
use raymond_core::template;
use raymond_core::transition::{self, ProtocolError, Reading};
use raymond_core::workflow::Platform;

use super::{NotReady, StepContext};
use crate::agent::AgentProgram;
use crate::process::StopSignal;
use crate::run::engine::Launch;
use crate::run::lookups;
use crate::run::mailbox::Message;
use crate::view::debug::StepFiles;

/// What an agent is told when its program stopped at its share of the budget and may go on.
const GO_ON: &str = "Please go on from where you stopped.";

/// How a turn ended, before anybody has read its final message.
enum Turned {
    Completed { text: String, session: Option<Session>, cost: TurnCost, warnings: Vec<String> },
    Failed(FailedTurn),
    Interrupted { cost: Usd },
}

pub(super) async fn run(
    context: &StepContext,
    launch: &Launch,
    plan: &PromptPlan,
    stop: StopSignal,
    files: &mut StepFiles,
) -> (Outcome, Lookups) {
    let turned = match turn(context, launch, plan, stop, files).await {
        Ok(turned) => turned,
        Err(NotReady::Store(error)) => return (context.give_up(error), Lookups::default()),
        Err(NotReady::Step(error)) => Turned::Failed(final_fault(error)),
    };
    let (outcome, reading) = match turned {
        Turned::Interrupted { cost } => return (Outcome::Interrupted { cost }, Lookups::default()),
        Turned::Failed(failed) => {
            let message = failed.message.map(|message| context.without_secrets(&launch.agent, message));
            (TurnOutcome::Failed(FailedTurn { message, ..failed }), None)
        }
        Turned::Completed { text, session, cost, warnings } => {
            let reading = read(&text, context.platform);
            let transition = reading.as_ref().ok().map(|reading| reading.transition.clone());
            let message = context.without_secrets(&launch.agent, text);
            (TurnOutcome::Completed(CompletedTurn { reading, message, session, cost, warnings }), transition)
        }
    };
    let lookups = lookups::of_turn(&mut context.scopes.borrow_mut(), &launch.agent, plan, reading.as_ref());
    (Outcome::Turn(outcome), lookups)
}

async fn turn(
    context: &StepContext,
    launch: &Launch,
    plan: &PromptPlan,
    stop: StopSignal,
    files: &mut StepFiles,
) -> Result<Turned, NotReady> {
    let started = launch.started.turn.as_ref().ok_or_else(|| "it was started like a script".to_owned())?;
    let program = context.backends.get(&plan.backend)?;
    let prompt = message(context, launch, plan, program)?;
    files.prompt(&prompt);
    turn::take(context, launch, turn::Asked { started, plan, program, prompt }, stop, files).await
}

/// What the agent is sent: the rendered body and nothing else, or what the step has to add to it.
fn message(
    context: &StepContext,
    launch: &Launch,
    plan: &PromptPlan,
    program: &dyn AgentProgram,
) -> Result<String, NotReady> {
    match launch.agent.work().map(|work| &work.say) {
        // A reminder quotes what the agent said.
        Some(Say::Reminder { text, .. }) => {
            context.text_of(text).map(|text| program.plain(&text, "").into_owned())
        }
        Some(Say::GoOn { .. }) => Ok(GO_ON.to_owned()),
        Some(Say::Prompt) | None => render(context, &launch.agent, &plan.body, program),
    }
}

fn render(
    context: &StepContext,
    agent: &Agent,
    body: &str,
    program: &dyn AgentProgram,
) -> Result<String, NotReady> {
    let input =
        agent.payload.as_ref().map(|payload| context.text_of(payload)).transpose()?.unwrap_or_default();
    let task_folder = context.task_folder(agent)?;
    let visits = agent.visits_here().to_string();
    let value = |name: &str| variable(context, agent, &input, &task_folder, &visits, name);
    Ok(template::render_after(body, |name, before| {
        Some(match value(name)? {
            Cow::Borrowed(value) => program.plain(value, before),
            Cow::Owned(value) => program.plain(&value, before).into_owned().into(),
        })
    }))
}

fn variable<'a>(
    context: &'a StepContext,
    agent: &'a Agent,
    input: &'a str,
    task_folder: &'a Path,
    visits: &'a str,
    name: &str,
) -> Option<Cow<'a, str>> {
    Some(match name {
        "result" | "input" => input.into(),
        "run_id" | "workflow_id" => context.run_id.as_str().into(),
        "agent_id" => agent.id.as_str().into(),
        "state" => agent.state.as_str().into(),
        "visits" => visits.into(),
        "task_folder" => task_folder.to_string_lossy(),
        "ask_id" => agent.ask_id.as_deref().unwrap_or_default().into(),
        other => agent.attributes.get(other)?.as_str().into(),
    })
}

/// What a final message says comes next.
fn read(text: &str, platform: Platform) -> Result<Reading, BadMessage> {
    let bad = |problem: String| BadMessage { problem, has_no_tag: false };
    let mut tags = TagCollector::new();
    // What it prints was shown as it came.
    tags.feed(text.as_bytes(), &mut |_| {}).map_err(|error| bad(error.to_string()))?;
    let collected = tags.finish(&mut |_| {}).map_err(|error| bad(error.to_string()))?;
    transition::read(collected, platform == Platform::Windows).map_err(|error| BadMessage {
        problem: error.to_string(),
        has_no_tag: matches!(error, ProtocolError::NoTag { .. }),
    })
}

/// Shows what a piece of the agent's text prints.
fn show_prints(context: &StepContext, launch: &Launch, text: &str) {
    let mut reader = TagReader::new();
    let mut show = |tag: raymond_core::tag::Tag| {
        if tag.name == raymond_core::tag::TagName::Print {
            let (step, attempt) = (launch.started.step, launch.started.attempt);
            let agent = launch.agent.id.clone();
            context.send(Message::Input(Input::Print { agent, step, attempt, text: tag.content }));
        }
    };
    // What is wrong with the tags is found when the final message is read.
    if reader.feed(text.as_bytes(), &mut show).is_ok() {
        let _ = reader.finish(&mut show);
    }
}

/// A turn that could not be taken, and that would fail again in the same way.
fn final_fault(error: String) -> FailedTurn {
    FailedTurn {
        error,
        class: FaultClass::Final,
        cost: TurnCost::default(),
        session: None,
        exit_code: None,
        message: None,
    }
}
