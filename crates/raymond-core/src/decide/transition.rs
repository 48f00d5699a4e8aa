//! The effect of a transition on its agent, and on the workers that it forks.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use super::EndedStep;
use crate::event::{AgentStarted, Body, ForkTag, Forked, LedTo, OtherWorkflow, StepFinished};
use crate::input::{NewWorktree, ScopeEntry, TurnCost};
use crate::limits::{MAX_AGENTS, MAX_ENVIRONMENT_PAYLOAD_BYTES, MAX_STACK_DEPTH, MAX_WORKTREES};
use crate::name::UsedNames;
use crate::named_inputs::{InputProblem, InputValues, fill_in};
use crate::payload::Payload;
use crate::run::{Session, later_if_possible};
use crate::transition::{Fork, ForkTarget, Invoke, InvokeWorkflow, Jump, Transition};
use crate::workflow::StateFile;
use crate::workflow::wording::quoted;
use crate::worktree::Wanted;

/// The message, cost and conversation of a step.
#[derive(Clone, Debug, Default)]
pub(super) struct Turn {
    pub(super) message: Option<Payload>,
    pub(super) session: Option<Session>,
    pub(super) cost: TurnCost,
    pub(super) implicit: bool,
}

impl Turn {
    /// A script costs nothing and does not change the conversation.
    pub(super) fn free() -> Self {
        Self::default()
    }
}

/// The events of a transition, or why it cannot be taken.
pub(super) fn take(step: &EndedStep<'_>, transition: Transition, turn: Turn) -> Result<Vec<Body>, String> {
    let mut others = Vec::new();
    let led_to = match transition {
        Transition::Goto(jump) => {
            let (target, input) = go(step, &mut others, jump)?;
            LedTo::Goto { target, input }
        }
        Transition::Reset { jump, cd } => {
            let cwd = cd.map(|cd| step.lookups.directory(&cd)).transpose()?;
            let (target, input) = go(step, &mut others, jump)?;
            LedTo::Reset { target, input, cwd }
        }
        Transition::Call(invoke) => {
            let Called { target, return_to, input } = call(step, invoke)?;
            LedTo::Call { target, return_to, input }
        }
        Transition::Function(invoke) => {
            let Called { target, return_to, input } = call(step, invoke)?;
            LedTo::Function { target, return_to, input }
        }
        Transition::Fork { forks, next, joins } => fork(step, &mut others, forks, next, joins)?,
        Transition::Result { payload } => result(step, payload),
        Transition::Join { target, input } => join(step, &mut others, &target, input.is_some())?,
        Transition::Ask(ask) => {
            let (led_to, opened) = super::ask::ask(step, ask)?;
            others.push(opened);
            led_to
        }
        // The called state continues the caller's conversation, which belongs to its folder.
        Transition::CallWorkflow(invoke) => {
            let (return_to, entered) = call_workflow(step, &mut others, invoke, Folder::Kept)?;
            let Entered { workflow, target, input, cwd: _ } = entered;
            LedTo::CallWorkflow { workflow, target, return_to, input }
        }
        Transition::FunctionWorkflow { invoke, cd } => {
            let (return_to, entered) = call_workflow(step, &mut others, invoke, Folder::Own { cd })?;
            let Entered { workflow, target, input, cwd } = entered;
            LedTo::FunctionWorkflow { workflow, target, return_to, input, cwd }
        }
        Transition::ResetWorkflow { scope, input, inputs, cd } => {
            let handed = Handed { input, inputs };
            let Entered { workflow, target, input, cwd } =
                enter_workflow(step, &mut others, &scope, handed, Folder::Own { cd })?;
            LedTo::ResetWorkflow { workflow, target, input, cwd }
        }
    };
    let mut events = vec![Body::StepFinished(Box::new(finished(step, led_to, turn)))];
    events.extend(others);
    Ok(events)
}

/// Warnings about how the transition was written.
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

fn finished(step: &EndedStep<'_>, led_to: LedTo, turn: Turn) -> StepFinished {
    StepFinished {
        agent: step.agent.id.clone(),
        step: step.work.step,
        state: step.agent.state.clone(),
        led_to,
        message: turn.message,
        session: turn.session,
        implicit: turn.implicit,
        cost_usd: step.work.cost_usd + turn.cost.usd(),
        attempt_cost_usd: turn.cost.usd(),
        cost_estimated: turn.cost.is_estimated(),
        tokens: turn.cost.tokens(),
        context: turn.cost.context(),
        compacted: turn.cost.is_compacted(),
        duration_ms: step.duration_ms,
        files: step.lookups.snapshot.clone(),
    }
}

fn go(
    step: &EndedStep<'_>,
    others: &mut Vec<Body>,
    jump: Jump,
) -> Result<(StateFile, Option<Payload>), String> {
    let target = step.lookups.state(&jump.target)?;
    others.extend(delayed(step, &target, jump.delay)?);
    Ok((target, jump.input))
}

/// A wait before the next state starts.
fn delayed(step: &EndedStep<'_>, state: &StateFile, delay: Option<Duration>) -> Result<Option<Body>, String> {
    let Some(delay) = delay.filter(|delay| !delay.is_zero()) else { return Ok(None) };
    let until = later_if_possible(step.now, delay, "delay")?;
    Ok(Some(Body::Delayed { agent: step.agent.id.clone(), state: state.clone(), until }))
}

fn join(
    step: &EndedStep<'_>,
    others: &mut Vec<Body>,
    target: &str,
    has_input: bool,
) -> Result<LedTo, String> {
    let target = step.lookups.state(target)?;
    if has_input {
        others.extend(input_is_ignored(step));
    }
    Ok(LedTo::Join { target })
}

fn input_is_ignored(step: &EndedStep<'_>) -> Vec<Body> {
    let message = "`input` on `<join>` is ignored: the target gets the results of the workers".to_owned();
    warnings(step, vec![message])
}

/// A called state, with its names resolved.
struct Called {
    target: StateFile,
    return_to: StateFile,
    input: Option<Payload>,
}

fn call(step: &EndedStep<'_>, invoke: Invoke) -> Result<Called, String> {
    check_depth(step)?;
    Ok(Called {
        target: step.lookups.state(&invoke.target)?,
        return_to: step.lookups.state(&invoke.return_to)?,
        input: invoke.input,
    })
}

fn check_depth(step: &EndedStep<'_>) -> Result<(), String> {
    if step.agent.stack.len() < MAX_STACK_DEPTH {
        return Ok(());
    }
    Err(format!("calls are nested {MAX_STACK_DEPTH} deep already; return with `<result>` first"))
}

/// The working directory of an agent in the workflow that it enters.
enum Folder {
    /// The current one.
    Kept,
    /// From the tag, else from the workflow, else the current one.
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

/// Another workflow in which the agent continues.
struct Entered {
    workflow: OtherWorkflow,
    target: StateFile,
    input: Option<Payload>,
    cwd: Option<String>,
}

/// What a workflow is given that an agent enters.
struct Handed {
    input: Option<Payload>,
    inputs: Vec<(String, String)>,
}

fn call_workflow(
    step: &EndedStep<'_>,
    others: &mut Vec<Body>,
    invoke: InvokeWorkflow,
    folder: Folder,
) -> Result<(StateFile, Entered), String> {
    check_depth(step)?;
    // The return state belongs to the calling workflow.
    let return_to = step.lookups.state(&invoke.return_to)?;
    let handed = Handed { input: invoke.input, inputs: invoke.inputs };
    Ok((return_to, enter_workflow(step, others, &invoke.scope, handed, folder)?))
}

fn enter_workflow(
    step: &EndedStep<'_>,
    others: &mut Vec<Body>,
    scope: &str,
    Handed { input, inputs }: Handed,
    folder: Folder,
) -> Result<Entered, String> {
    let entry = step.lookups.scope(scope)?;
    entry.check_input(scope, input.is_some())?;
    let inputs = match entry.inputs.is_empty() {
        true => {
            others.extend(warnings(step, ignored(scope, &inputs)));
            None
        }
        false => Some(Box::new(input_values(step, scope, &entry, inputs)?)),
    };
    let cwd = folder.find(step, &entry)?;
    let workflow = OtherWorkflow { scope: entry.scope, scope_hash: entry.hash, inputs };
    Ok(Entered { workflow, target: entry.entry, input, cwd })
}

/// Warnings about attributes for a workflow without inputs.
fn ignored(scope: &str, inputs: &[(String, String)]) -> Vec<String> {
    let warn = |(name, _): &(String, String)| {
        format!("the attribute {} is ignored: the workflow {} has no inputs", quoted(name), quoted(scope))
    };
    inputs.iter().map(warn).collect()
}

/// The values of the inputs of a workflow that is entered.
fn input_values(
    step: &EndedStep<'_>,
    scope: &str,
    entry: &ScopeEntry,
    given: Vec<(String, String)>,
) -> Result<InputValues, String> {
    let values = fill_in(&entry.inputs, &given, |path| step.lookups.file(path)).map_err(|problems| {
        let problems: Vec<String> = problems.iter().map(InputProblem::to_string).collect();
        format!("the workflow {}: {}", quoted(scope), problems.join("; "))
    })?;
    let is_from_model = step.agent.state.kind().is_prompt();
    let from_model = given.into_iter().map(|(name, _)| name).filter(|_| is_from_model).collect();
    Ok(InputValues { values, from_model })
}

/// A result goes to the caller's return state; without a caller the agent ends with it.
fn result(step: &EndedStep<'_>, payload: Payload) -> LedTo {
    match step.agent.stack.last() {
        Some(frame) => LedTo::Return { target: frame.return_to.clone(), input: payload },
        None => LedTo::End { result: payload },
    }
}

fn fork(
    step: &EndedStep<'_>,
    others: &mut Vec<Body>,
    forks: Vec<Fork>,
    mut next: Jump,
    joins: bool,
) -> Result<LedTo, String> {
    if step.run.agents.len() + forks.len() > MAX_AGENTS {
        return Err(format!("{} more agents would make more than {MAX_AGENTS} at once", forks.len()));
    }
    let tag = match forks.first().map(|fork| &fork.target) {
        Some(ForkTarget::Workflow(_)) => ForkTag::ForkWorkflow,
        Some(ForkTarget::State(_)) | None => ForkTag::Fork,
    };
    if joins && next.input.take().is_some() {
        others.extend(input_is_ignored(step));
    }
    let (next, input) = go(step, others, next)?;
    let mut target = None;
    let mut new_names = UsedNames::default();
    let mut new_worktrees = BTreeSet::new();
    for (index, fork) in forks.into_iter().enumerate() {
        let worktree =
            fork.worktree.as_ref().map(|wanted| worktree(step, &mut new_worktrees, wanted)).transpose()?;
        let WorkerPlace { state, cwd, workflow } = worker_place(step, &fork, worktree.as_ref())?;
        let attributes = attributes(&fork, workflow.as_ref());
        check_variables(&attributes)?;
        target.get_or_insert_with(|| state.clone());
        let count = step.agent.forks + index as u64 + 1;
        let (agent, number) = step.run.used_names.next(&new_names, &step.agent.id, &state, count);
        new_names.insert(&agent, number);
        others.push(Body::AgentStarted(Box::new(AgentStarted {
            agent,
            state,
            cwd,
            workflow,
            forked: Some(Forked {
                parent: step.agent.id.clone(),
                number,
                fork: count,
                attributes,
                from_model: step.agent.state.kind().is_prompt(),
            }),
            worktree: worktree.map(|new| Box::new(new.worktree)),
            input: fork.input,
        })));
    }
    let target = target.ok_or_else(|| "a fork needs a worker".to_owned())?;
    Ok(LedTo::Fork { tag, target, next, input, joins })
}

/// The worktree of a new worker. Its name must not have been used in the run; file systems may ignore case.
fn worktree(
    step: &EndedStep<'_>,
    new: &mut BTreeSet<String>,
    wanted: &Wanted,
) -> Result<NewWorktree, String> {
    let key = wanted.name.to_ascii_lowercase();
    if step.run.worktrees.contains_key(&key) || !new.insert(key) {
        return Err(format!("there is a worktree `{}` in this run already; use another name", wanted.name));
    }
    if step.run.worktrees.len() + new.len() > MAX_WORKTREES {
        return Err(format!("a run has at most {MAX_WORKTREES} worktrees"));
    }
    step.lookups.worktree(wanted)
}

/// Where a worker begins.
struct WorkerPlace {
    state: StateFile,
    cwd: String,
    workflow: Option<OtherWorkflow>,
}

fn worker_place(
    step: &EndedStep<'_>,
    fork: &Fork,
    worktree: Option<&NewWorktree>,
) -> Result<WorkerPlace, String> {
    let in_worktree = worktree.map(|new| new.cwd.clone());
    match &fork.target {
        ForkTarget::State(name) => {
            let state = step.lookups.state(name)?;
            let cwd = match (in_worktree, &fork.cd) {
                (Some(cwd), _) => cwd,
                (None, Some(cd)) => step.lookups.directory(cd)?,
                (None, None) => step.agent.cwd.clone(),
            };
            let scope = step.agent.scope.clone();
            let inputs = step.agent.inputs.clone();
            let workflow = scope.map(|scope| OtherWorkflow { scope, scope_hash: None, inputs });
            Ok(WorkerPlace { state, cwd, workflow })
        }
        ForkTarget::Workflow(written) => {
            let entry = step.lookups.scope(written)?;
            entry.check_input(written, fork.input.is_some())?;
            let is_input = |name: &str| entry.inputs.iter().any(|input| input.name == name);
            // All other attributes are variables of the worker alone.
            let given = fork.variables.iter().filter(|(name, _)| is_input(name)).cloned().collect();
            let inputs = match entry.inputs.is_empty() {
                true => None,
                false => Some(Box::new(input_values(step, written, &entry, given)?)),
            };
            let folder = Folder::Own { cd: fork.cd.clone() };
            let cwd = match in_worktree {
                Some(cwd) => cwd,
                None => folder.find(step, &entry)?.unwrap_or_else(|| step.agent.cwd.clone()),
            };
            let workflow = Some(OtherWorkflow { scope: entry.scope, scope_hash: entry.hash, inputs });
            Ok(WorkerPlace { state: entry.entry, cwd, workflow })
        }
    }
}

/// The variables of a worker. One that is an input of the workflow that it is forked into has the value of that input:
/// the path of a file is absolute.
fn attributes(fork: &Fork, entered: Option<&OtherWorkflow>) -> BTreeMap<String, String> {
    let entered = entered.filter(|_| matches!(fork.target, ForkTarget::Workflow(_)));
    let inputs = entered.and_then(|workflow| workflow.inputs.as_ref());
    let input = |name: &str| inputs.and_then(|inputs| inputs.values.get(name));
    fork.variables.iter().map(|(name, value)| (name.clone(), input(name).unwrap_or(value).clone())).collect()
}

/// Variables become environment variables of the worker's scripts, and the system limits their size.
fn check_variables(variables: &BTreeMap<String, String>) -> Result<(), String> {
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
