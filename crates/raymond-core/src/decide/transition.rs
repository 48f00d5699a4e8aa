//! What a transition does to its agent, and to those it forks.

use std::collections::BTreeMap;
use std::time::Duration;

use super::EndedStep;
use crate::event::{AgentStarted, Body, StepFinished};
use crate::input::{ScopeEntry, TurnCost};
use crate::limits::{MAX_AGENTS, MAX_ENVIRONMENT_PAYLOAD_BYTES, MAX_STACK_DEPTH};
use crate::name::UsedNames;
use crate::payload::Payload;
use crate::run::{Session, later};
use crate::tag::TagName;
use crate::transition::{Fork, ForkTarget, Invoke, InvokeWorkflow, Jump, Transition};
use crate::workflow::StateFile;

/// What a step cost and remembers, besides what it asked for.
#[derive(Clone, Debug, Default)]
pub(super) struct Turn {
    pub(super) session: Option<Session>,
    pub(super) cost: TurnCost,
    pub(super) implicit: bool,
}

impl Turn {
    /// A script costs nothing and leaves the conversation alone.
    pub(super) fn free() -> Self {
        Self::default()
    }
}

/// The events of a transition, or why it cannot be taken.
pub(super) fn take(step: &EndedStep<'_>, transition: Transition, turn: Turn) -> Result<Vec<Body>, String> {
    let mut finished = finished(step, transition.tag_name(), turn);
    let mut others = Vec::new();
    match transition {
        Transition::Goto(jump) => go(step, &mut finished, &mut others, jump)?,
        Transition::Reset { jump, cd } => {
            finished.cwd = cd.map(|cd| step.lookups.directory(&cd)).transpose()?;
            go(step, &mut finished, &mut others, jump)?;
        }
        Transition::Call(invoke) | Transition::Function(invoke) => call(step, &mut finished, invoke)?,
        Transition::Fork { forks, next } => fork(step, &mut finished, &mut others, forks, next)?,
        Transition::Result { payload } => result(step, &mut finished, payload),
        Transition::Join { target, input } => {
            join(step, &mut finished, &mut others, &target, input.is_some())?
        }
        Transition::Ask(ask) => super::ask::ask(step, &mut finished, &mut others, ask)?,
        // The callee goes on in the caller's conversation, which belongs to its folder.
        Transition::CallWorkflow(invoke) => call_workflow(step, &mut finished, invoke, Folder::Kept)?,
        Transition::FunctionWorkflow { invoke, cd } => {
            call_workflow(step, &mut finished, invoke, Folder::Own { cd })?;
        }
        Transition::ResetWorkflow { scope, input, cd } => {
            finished.input = input.map(Payload::from);
            enter_workflow(step, &mut finished, &scope, Folder::Own { cd })?;
        }
    }
    let mut events = vec![Body::StepFinished(Box::new(finished))];
    events.extend(others);
    Ok(events)
}

/// What was odd about how the transition was written.
pub(super) fn warnings(step: &EndedStep<'_>, messages: Vec<String>) -> Vec<Body> {
    messages
        .into_iter()
        .map(|message| Body::Warning {
            agent: Some(step.agent.id.clone()),
            step: Some(step.work.step),
            state: Some(step.agent.state.clone()),
            message,
        })
        .collect()
}

fn finished(step: &EndedStep<'_>, tag: TagName, turn: Turn) -> StepFinished {
    StepFinished {
        agent: step.agent.id.clone(),
        step: step.work.step,
        state: step.agent.state.clone(),
        tag,
        target: None,
        return_to: None,
        next: None,
        input: None,
        result: None,
        cwd: None,
        scope: None,
        scope_hash: None,
        session: turn.session,
        implicit: turn.implicit,
        cost_usd: step.work.cost_usd + turn.cost.usd,
        attempt_cost_usd: turn.cost.usd,
        cost_estimated: turn.cost.estimated,
        duration_ms: step.duration_ms,
    }
}

fn go(
    step: &EndedStep<'_>,
    finished: &mut StepFinished,
    others: &mut Vec<Body>,
    jump: Jump,
) -> Result<(), String> {
    let target = step.lookups.state(&jump.target)?;
    others.extend(delayed(step, &target, jump.delay));
    finished.target = Some(target);
    finished.input = jump.input.map(Payload::from);
    Ok(())
}

/// A wait before the next state starts.
fn delayed(step: &EndedStep<'_>, state: &StateFile, delay: Option<Duration>) -> Option<Body> {
    let delay = delay.filter(|delay| !delay.is_zero())?;
    let until = later(step.now, delay);
    Some(Body::Delayed { agent: step.agent.id.clone(), state: state.clone(), until })
}

fn join(
    step: &EndedStep<'_>,
    finished: &mut StepFinished,
    others: &mut Vec<Body>,
    target: &str,
    has_input: bool,
) -> Result<(), String> {
    finished.target = Some(step.lookups.state(target)?);
    if has_input {
        let message =
            "`input` on `<join>` is ignored: the target is handed what came of the workers".to_owned();
        others.extend(warnings(step, vec![message]));
    }
    Ok(())
}

fn call(step: &EndedStep<'_>, finished: &mut StepFinished, invoke: Invoke) -> Result<(), String> {
    check_depth(step)?;
    finished.target = Some(step.lookups.state(&invoke.target)?);
    finished.return_to = Some(step.lookups.state(&invoke.return_to)?);
    finished.input = invoke.input.map(Payload::from);
    Ok(())
}

fn check_depth(step: &EndedStep<'_>) -> Result<(), String> {
    if step.agent.stack.len() < MAX_STACK_DEPTH {
        return Ok(());
    }
    Err(format!("calls are nested {MAX_STACK_DEPTH} deep already; return with `<result>` first"))
}

/// Where an agent works in the workflow that it enters.
enum Folder {
    /// Where it is.
    Kept,
    /// Where the tag says, else where the workflow does, else where it is.
    Own { cd: Option<String> },
}

impl Folder {
    fn find(self, step: &EndedStep<'_>, entry: &ScopeEntry) -> Result<Option<String>, String> {
        match self {
            Folder::Kept => Ok(None),
            Folder::Own { cd: Some(cd) } => step.lookups.directory(&cd).map(Some),
            Folder::Own { cd: None } => entry.directory.clone().transpose(),
        }
    }
}

fn call_workflow(
    step: &EndedStep<'_>,
    finished: &mut StepFinished,
    invoke: InvokeWorkflow,
    folder: Folder,
) -> Result<(), String> {
    check_depth(step)?;
    // The return state is one of the calling workflow.
    finished.return_to = Some(step.lookups.state(&invoke.return_to)?);
    finished.input = invoke.input.map(Payload::from);
    enter_workflow(step, finished, &invoke.scope, folder)
}

fn enter_workflow(
    step: &EndedStep<'_>,
    finished: &mut StepFinished,
    scope: &str,
    folder: Folder,
) -> Result<(), String> {
    let entry = step.lookups.scope(scope)?;
    entry.check_input(scope, finished.input.is_some())?;
    finished.cwd = folder.find(step, &entry)?;
    finished.target = Some(entry.entry);
    finished.scope = Some(entry.scope);
    finished.scope_hash = entry.hash;
    Ok(())
}

/// A result goes to the caller's return state; without a caller the agent ends with it.
fn result(step: &EndedStep<'_>, finished: &mut StepFinished, payload: String) {
    match step.agent.stack.last() {
        Some(frame) => {
            finished.target = Some(frame.return_to.clone());
            finished.input = Some(payload.into());
        }
        None => finished.result = Some(payload.into()),
    }
}

fn fork(
    step: &EndedStep<'_>,
    finished: &mut StepFinished,
    others: &mut Vec<Body>,
    forks: Vec<Fork>,
    next: Jump,
) -> Result<(), String> {
    if step.run.agents.len() + forks.len() > MAX_AGENTS {
        return Err(format!("{} more agents would make more than {MAX_AGENTS} at once", forks.len()));
    }
    let next_state = step.lookups.state(&next.target)?;
    others.extend(delayed(step, &next_state, next.delay));
    finished.next = Some(next_state);
    finished.input = next.input.map(Payload::from);
    let mut new_names = UsedNames::default();
    for (index, fork) in forks.into_iter().enumerate() {
        check_variables(&fork.variables)?;
        let place = worker_place(step, &fork)?;
        let state = place.state;
        finished.target.get_or_insert_with(|| state.clone());
        let count = step.agent.forks + index as u64 + 1;
        let (agent, number) = step.run.used_names.next(&new_names, &step.agent.id, &state, count);
        new_names.insert(&agent, number);
        others.push(Body::AgentStarted(Box::new(AgentStarted {
            agent,
            state,
            cwd: place.cwd,
            scope: place.scope,
            scope_hash: place.scope_hash,
            parent: Some(step.agent.id.clone()),
            number: Some(number),
            fork: Some(count),
            attributes: fork.variables.into_iter().collect::<BTreeMap<_, _>>(),
            input: fork.input.map(Payload::from),
        })));
    }
    Ok(())
}

/// Where a worker begins.
struct WorkerPlace {
    state: StateFile,
    cwd: String,
    scope: Option<String>,
    scope_hash: Option<String>,
}

fn worker_place(step: &EndedStep<'_>, fork: &Fork) -> Result<WorkerPlace, String> {
    match &fork.target {
        ForkTarget::State(name) => {
            let state = step.lookups.state(name)?;
            let cwd = match &fork.cd {
                Some(cd) => step.lookups.directory(cd)?,
                None => step.agent.cwd.clone(),
            };
            Ok(WorkerPlace { state, cwd, scope: step.agent.scope.clone(), scope_hash: None })
        }
        ForkTarget::Workflow(written) => {
            let entry = step.lookups.scope(written)?;
            entry.check_input(written, fork.input.is_some())?;
            let folder = Folder::Own { cd: fork.cd.clone() };
            let cwd = folder.find(step, &entry)?.unwrap_or_else(|| step.agent.cwd.clone());
            let scope = Some(entry.scope);
            Ok(WorkerPlace { state: entry.entry, cwd, scope, scope_hash: entry.hash })
        }
    }
}

/// Variables go into the environment of every script of the worker, where the system bounds them.
fn check_variables(variables: &[(String, String)]) -> Result<(), String> {
    let mut bytes = 0;
    for (name, value) in variables {
        bytes += name.len() + value.len();
        if bytes > MAX_ENVIRONMENT_PAYLOAD_BYTES {
            return Err(format!(
                "with the attribute `{name}` the variables of the fork are longer than {} KiB; hand long texts over with `input`",
                MAX_ENVIRONMENT_PAYLOAD_BYTES / 1024
            ));
        }
    }
    Ok(())
}
