//! Requests that change something: starting, answering, stopping, resuming, branching.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError};

use raymond_core::named_inputs::{InputProblem, fill_in};
use raymond_core::workflow::Platform;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::address_of_run;
use super::workflows::findings;
use crate::author::report;
use crate::error::{ExitKind, UserError};
use crate::fleet::delivery::{Delivery, delivery_of};
use crate::fleet::{Address, ENGINE_PROGRAM, Fleet, installed};
use crate::handover::Handover;
use crate::run::answering::{Taker, give, is_dropped, was_asked, way_of_waiting};
use crate::run::caller::Outside;
use crate::run::driver::{StopRequest, Way};
use crate::serve::Server;
use crate::serve::index::{drives, holds};
use crate::serve::launch::{Claim, go_on_with_answer, resume as resume_run, text_of};
use crate::serve::problem::Problem;
use crate::serve::route::{Answer, Call};
use crate::serve::story::How;
use crate::store::{RunHandle, StateDir, StoreError, check_new_run_id};
use crate::workflow::given_inputs::readable_file;
use crate::workflow::labels::check_labels;
use crate::workflow::scope::{Scope, run_id_for};
use crate::workflow::scopes::declared_inputs;
use raymond_core::run::RunStatus;

/// The longest answer.
const MAX_ANSWER_BYTES: usize = 1024 * 1024;

/// What a new run is started with.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct NewRun {
    /// The id of a workflow below a root.
    workflow: String,
    /// The input of its first state.
    input: Option<String>,
    /// Values for its named inputs.
    #[serde(default)]
    inputs: BTreeMap<String, Value>,
    #[serde(default)]
    labels: BTreeMap<String, String>,
    /// An id for the run, which no other run has.
    id: Option<String>,
    /// Dollars; 0 is unlimited.
    budget: Option<Amount>,
    model: Option<String>,
    effort: Option<String>,
    backend: Option<String>,
    /// The hash of the only content with which it may start, if no person starts it.
    #[serde(skip)]
    trusted_content: Option<String>,
}

/// What the programs of runs get that start by themselves. Python would write into the folder of the workflow when a script
/// imports a module that lies beside it, and what was trusted would have changed.
const TRUSTED_ENVIRONMENT: &[(&str, &str)] = &[("PYTHONDONTWRITEBYTECODE", "1")];

impl NewRun {
    /// A run of a workflow with nothing but labels, if it still has this content when it starts.
    pub fn of(workflow: &str, labels: BTreeMap<String, String>, content: &str) -> Self {
        let trusted_content = Some(content.to_owned());
        Self { workflow: workflow.to_owned(), labels, trusted_content, ..Self::default() }
    }
}

/// What a run is resumed with. What is not given stays as it was.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Resuming {
    /// Dollars, or `"+5"` for so much more than before.
    budget: Option<Amount>,
    model: Option<String>,
    effort: Option<String>,
    backend: Option<String>,
    /// Stop once so many steps have been started.
    max_steps: Option<u64>,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(untagged)]
enum Amount {
    Number(f64),
    Text(String),
}

impl std::fmt::Display for Amount {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Number(dollars) => dollars.fmt(out),
            Self::Text(text) => text.fmt(out),
        }
    }
}

/// Options as words of the command line.
fn words(all: &[(&str, Option<String>)]) -> Result<Vec<String>, Problem> {
    all.iter().filter_map(|(name, value)| Some(word(name, value.as_ref()?))).collect()
}

/// An option with its value as one word, so that the value is never taken for an option.
fn word(name: &str, value: &str) -> Result<String, Problem> {
    match value.contains('\0') {
        true => Err(Problem::malformed(format!("`{name}` holds a zero byte"))),
        false => Ok(format!("--{name}={value}")),
    }
}

/// The run that was started.
#[derive(Serialize, JsonSchema)]
pub struct StartedRun {
    run: String,
}

pub fn start(server: &Arc<Server>, call: &Call) -> Result<Answer, Problem> {
    let wanted = call.json()?;
    refuse_steps(server, call, "start a run through this server")?;
    let run = begin(server, wanted)?;
    let location = address_of_run(&run);
    Answer::json_with(201, &StartedRun { run }, Some(location))
}

/// Refuses a caller inside a step of any run: a run that goes on as a process of this server is not known for one of that
/// step's any more.
fn refuse_steps(server: &Server, call: &Call, what: &str) -> Result<(), Problem> {
    call.caller.outside_all(server.index.store(), what).map_err(forbidden)
}

/// Refuses a caller inside a step of this run or of one that it goes on from.
fn refuse_own_steps(
    server: &Server,
    call: &Call,
    run: &dyn RunHandle,
    what: &str,
) -> Result<Outside, Problem> {
    call.caller.outside(server.index.store(), run, what).map_err(|error| match run.load() {
        Err(unusable) => unusable.into(),
        Ok(_) => forbidden(error),
    })
}

fn forbidden(error: UserError) -> Problem {
    Problem::new(403, error.message)
}

/// Starts a run. It can be seen when this returns; its id.
pub fn begin(server: &Server, wanted: NewRun) -> Result<String, Problem> {
    let found = server.workflows.find(&wanted.workflow);
    let found = found.ok_or_else(|| Problem::not_found("there is no workflow of this id below the roots"))?;
    let refused = |problem: Problem| {
        let findings: Value =
            serde_json::from_str(&report::json(&findings(server, &found))).unwrap_or_default();
        if problem.status == 422 { problem.with("findings", findings) } else { problem }
    };
    let scope = Scope::open(&found.path, Platform::current()).map_err(|error| refused(error.into()))?;
    check_labels(&wanted.labels).map_err(|error| Problem::new(422, error))?;
    let claim = free_id(server, wanted.id.as_deref(), || scope.new_run_id())?;
    let folder = folder_of(server, &found.path);
    let order =
        order_for(&claim.run, &found.path, &wanted, checked_inputs(server, &scope, &folder, &wanted)?)?;
    let nonce = order.nonce.clone().unwrap_or_default();
    // Another process may have made a run of this id meanwhile.
    let is_ours = || Some(server.index.find(&claim.run).ok()?.load().ok()?.nonce == nonce);
    let environment = wanted.trusted_content.as_ref().map_or(&[][..], |_| TRUSTED_ENVIRONMENT);
    let launched = server.launcher.launch(&claim.run, 0, order, (&folder, environment))?;
    let begun = server.launcher.wait(launched, || is_ours() == Some(true));
    begun.map_err(|problem| match is_ours() {
        Some(false) => is_taken(&claim.run),
        // It has not written its first event yet.
        None if server.index.is_held(&claim.run) => is_taken(&claim.run),
        _ => refused(problem),
    })?;
    Ok(claim.run.clone())
}

/// The command line of a new run.
fn order_for(
    id: &str,
    workflow: &Path,
    wanted: &NewRun,
    inputs: Vec<(String, String)>,
) -> Result<Handover, Problem> {
    let mut words = vec!["run".to_owned(), text_of(workflow)?, word("id", id)?];
    words.extend(self::words(&[
        ("budget", wanted.budget.as_ref().map(Amount::to_string)),
        ("model", wanted.model.clone()),
        ("effort", wanted.effort.clone()),
        ("backend", wanted.backend.clone()),
        ("trusted-content", wanted.trusted_content.clone()),
    ])?);
    for (key, value) in &wanted.labels {
        words.push(word("label", &format!("{key}={value}"))?);
    }
    for (name, value) in inputs {
        words.push(word("set", &format!("{name}={value}"))?);
    }
    let nonce = Some(uuid::Uuid::new_v4().to_string());
    Ok(Handover { words, input: wanted.input.clone(), nonce })
}

/// The values of named inputs that a request gives. The new process would refuse wrong ones too, but cannot tell which
/// field of a form they came from.
fn checked_inputs(
    server: &Server,
    scope: &Scope,
    folder: &Path,
    wanted: &NewRun,
) -> Result<Vec<(String, String)>, Problem> {
    let given: Vec<(String, String)> =
        wanted.inputs.iter().map(|(name, value)| (name.clone(), plain(value))).collect();
    let is_given = |path: &str| given.iter().any(|(_, value)| value == path);
    let file = |path: &str| match readable_file(folder, path) {
        Ok(file) if is_given(path) && !is_below_roots(server, &file) => {
            Err("it is not below the roots of this server".to_owned())
        }
        other => other,
    };
    match fill_in(&declared_inputs(scope), &given, file) {
        Ok(_) => Ok(given),
        Err(problems) => Err(unfit(&problems)),
    }
}

/// What is wrong with named inputs: in one sentence, and for each of them.
fn unfit(problems: &[InputProblem]) -> Problem {
    let about = |problem: &InputProblem| match problem {
        InputProblem::Wrong { name, why } => (name.clone(), why.clone()),
        InputProblem::Missing(input) => (input.name.clone(), "it is needed".to_owned()),
        InputProblem::Unknown { name, .. }
        | InputProblem::Twice { name }
        | InputProblem::TooLong { name } => (name.clone(), problem.to_string()),
    };
    let detail: Vec<String> = problems.iter().map(InputProblem::to_string).collect();
    let each: BTreeMap<String, String> = problems.iter().map(about).collect();
    Problem::new(422, detail.join("; ")).with("inputs", json!(each))
}

/// A file that a request names must lie below the roots, also where a link leads.
fn is_below_roots(server: &Server, file: &str) -> bool {
    let Ok(file) = Path::new(file).canonicalize() else { return false };
    let mut roots = server.workflows.roots.iter().filter_map(|root| root.canonicalize().ok());
    roots.any(|root| file.starts_with(root))
}

/// The value of a named input as the command line takes it.
fn plain(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

/// An id that is free, and stays so for others until the run is made.
fn free_id<'a>(
    server: &'a Server,
    given: Option<&str>,
    make: impl FnOnce() -> String,
) -> Result<Claim<'a>, Problem> {
    let id = match given {
        Some(id) => {
            check_new_run_id(id).map_err(StoreError::BadId)?;
            id.to_owned()
        }
        None => make(),
    };
    let claim = server.launcher.claim(&id)?;
    match server.index.find(&id) {
        Ok(_) => Err(is_taken(&id)),
        Err(_) => Ok(claim),
    }
}

fn is_taken(id: &str) -> Problem {
    Problem::conflict(format!("there is a run `{id}` already"))
}

/// The project folder of the root that a workflow is below.
fn folder_of(server: &Server, workflow: &std::path::Path) -> PathBuf {
    if workflow.starts_with(&server.project) {
        return server.project.clone();
    }
    let root = server.workflows.roots.iter().find(|root| workflow.starts_with(root));
    let home = root.and_then(|root| StateDir::find(root).ok());
    let project = home.as_ref().and_then(|dir| dir.home()?.parent());
    project.map_or_else(|| server.project.clone(), |project| project.to_owned())
}

/// An answer to a question.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct NewAnswer {
    ask: String,
    text: String,
}

/// What became of an answer.
#[derive(Serialize, JsonSchema)]
pub struct Taken {
    ask: String,
    /// Whether the run was stopped and goes on because of it.
    resumed: bool,
    /// Whether the run has already taken it up.
    taken: bool,
}

pub fn answer(server: &Arc<Server>, call: &Call) -> Result<Answer, Problem> {
    let run = server.index.find(call.part("run"))?;
    let NewAnswer { ask, text } = call.json()?;
    if text.len() > MAX_ANSWER_BYTES {
        return Err(Problem::new(413, "an answer may be 1 MiB long"));
    }
    check_engine(&*run)?;
    let outside = refuse_own_steps(server, call, &*run, "answer")?;
    if !holds(&*run) {
        refuse_steps(server, call, "let a run go on through this server")?;
    }
    let state = run.load()?;
    if state.is_dropped() {
        return Err(Problem::conflict(is_dropped(run.id()).message));
    }
    let is_known = state.asker(&ask).is_some() || was_asked(&state, &ask);
    if !is_known {
        return Err(Problem::not_found("the run has no question of this id"));
    }
    let text = text.replace('\0', "\u{fffd}");
    // Of many answers at the same time the first lets the run go on, and the others wait until they can be told so.
    let turn = server.answering.of(run.id());
    let _turn = turn.lock().unwrap_or_else(PoisonError::into_inner);
    let given = give(&*run, Some(&ask), text, Way::Api, &outside).map_err(|error| match error.exit {
        ExitKind::Failed => {
            let way = way_of_waiting(&*run, &ask).map(Way::as_str);
            Problem::conflict(error.message).with("by", way)
        }
        _ => Problem::malformed(error.message),
    })?;
    if let Taker::Away(why) = &given.to {
        return Err(left_here("answer", why));
    }
    let is_stopped = given.to == Taker::Stopped;
    if is_stopped {
        // It may have stopped meanwhile.
        refuse_steps(server, call, "let a run go on through this server")?;
    }
    let resumed = is_stopped && go_on_with_answer(server, &run, &ask)?;
    Answer::json(&Taken { ask, resumed, taken: given.to == Taker::Live })
}

/// How a run is stopped.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Stopping {
    /// Whether running steps are ended instead of let finish.
    #[serde(default)]
    now: bool,
}

pub fn stop(server: &Arc<Server>, call: &Call) -> Result<Answer, Problem> {
    let run = server.index.find(call.part("run"))?;
    let Stopping { now } = if call.body.is_empty() { Stopping::default() } else { call.json()? };
    let holder = run.holder()?;
    // A run that has ended may be held for another moment.
    let is_driven = server.index.with_run(&run, |state| drives(state, holder.is_some())).unwrap_or(true);
    let Some(holder) = holder.filter(|_| is_driven) else {
        return Err(Problem::conflict("no process drives the run, so there is nothing to stop"));
    };
    check_engine(&*run)?;
    let request = StopRequest::for_run(&*run, holder.incarnation, now);
    let name = request.name();
    run.inbox().post(&name, &serde_json::to_string(&request).map_err(Problem::internal)?)?;
    if run.elsewhere().is_some()
        && let Delivery::Waits(why) = delivery_of(&*run, &name)
    {
        return Err(left_here("request", &why));
    }
    Answer::json_with(202, &StartedRun { run: run.id().to_owned() }, None)
}

/// Refuses what is for a run on other machines if its engine has ended it or cannot be reached.
fn check_engine(run: &dyn RunHandle) -> Result<(), Problem> {
    let Some(mark) = run.elsewhere() else { return Ok(()) };
    let engine = &mark.engine;
    if let Some(how) = &mark.ended {
        return Err(Problem::conflict(format!("the run {how} on {engine}, so it does not go on")));
    }
    if let Some(why) = mark.why_wedged() {
        return Err(Problem::conflict(format!(
            "the run is wedged on {engine}, so nothing reaches it: {why}"
        )));
    }
    let (Some(fleet), Ok(at)) = (installed(), Address::parse(engine)) else {
        return Err(Problem::unavailable(format!(
            "the run is on {engine}, and {ENGINE_PROGRAM} was not found"
        )));
    };
    fleet
        .answers(&at)
        .map_err(|trouble| Problem::unavailable(format!("{engine} {trouble}; nothing was done")))
}

/// The engine went away after it had been looked for.
fn left_here(what: &str, why: &str) -> Problem {
    Problem::unavailable(format!("the engine does not answer: {why}; the {what} is kept here until it does"))
}

/// Where a new run leaves another one.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct NewBranch {
    /// The last step that both have. It has ended.
    step: u64,
    /// An id for the new run, which no other run has.
    id: Option<String>,
    /// Whether what the steps up to there have cost does not count.
    #[serde(default)]
    reset_cost: bool,
    /// Whether new conversations begin where the old ones cannot go on.
    #[serde(default)]
    fresh: bool,
    /// Whether the new run goes on at once.
    #[serde(default)]
    run: bool,
}

pub fn branch(server: &Arc<Server>, call: &Call) -> Result<Answer, Problem> {
    let origin = server.index.find(call.part("run"))?;
    let wanted: NewBranch = call.json()?;
    refuse_own_steps(server, call, &*origin, "branch")?;
    refuse_steps(server, call, "branch a run through this server")?;
    check_has_ended(server, &origin, wanted.step)?;
    let scope = server.index.with_run(&origin, |run| run.scope.clone())?;
    let claim = free_id(server, wanted.id.as_deref(), || run_id_for(Path::new(&scope)))?;
    let id = claim.run.clone();
    let mut args = vec!["branch".to_owned(), word("at", &wanted.step.to_string())?, word("id", &id)?];
    let flags = [("--reset-cost", wanted.reset_cost), ("--fresh", wanted.fresh)];
    args.extend(flags.into_iter().filter(|(_, is_given)| *is_given).map(|(flag, _)| flag.to_owned()));
    server.launcher.call(args, origin.id()).map_err(|problem| match server.index.find(&id) {
        Ok(_) => is_taken(&id),
        Err(_) => problem,
    })?;
    let branch = server.index.find(&id)?;
    let can_go_on = server.index.with_run(&branch, |run| run.status != RunStatus::Completed)?;
    if wanted.run && can_go_on {
        resume_run(server, &branch, Vec::new()).map_err(|problem| problem.with("run", id.clone()))?;
    }
    Answer::json_with(201, &StartedRun { run: id.clone() }, Some(address_of_run(&id)))
}

/// A branch begins behind a step that has ended.
fn check_has_ended(server: &Server, run: &Arc<dyn RunHandle>, number: u64) -> Result<(), Problem> {
    let (step, last) = server.stories.with(run, |story| {
        let last = story.steps.len().checked_sub(1).map(|last| story.steps.get(last)).transpose()?;
        Ok((story.step(number)?, last.flatten().map_or(0, |last| last.number)))
    })?;
    match step.map(|step| step.end.map(|end| end.how)) {
        Some(Some(How::Done { .. } | How::Failed)) => Ok(()),
        Some(Some(How::Interrupted) | None) => {
            Err(Problem::conflict(format!("step {number} has not ended; branch from one before it")))
        }
        None if number > 0 && number <= last => {
            Err(Problem::new(410, format!("the events of step {number} were deleted")))
        }
        None => Err(Problem::not_found(format!("the run has no step {number}; the last one is {last}"))),
    }
}

pub fn resume(server: &Arc<Server>, call: &Call) -> Result<Answer, Problem> {
    let run = server.index.find(call.part("run"))?;
    let wanted: Resuming = if call.body.is_empty() { Resuming::default() } else { call.json()? };
    refuse_own_steps(server, call, &*run, "resume")?;
    refuse_steps(server, call, "let a run go on through this server")?;
    let is_held = holds(&*run);
    let (is_driven, status) = server.index.with_run(&run, |state| (drives(state, is_held), state.status))?;
    if is_driven {
        return Err(Problem::conflict("a process drives the run already"));
    }
    if status == RunStatus::Completed {
        return Err(Problem::conflict("the run is completed"));
    }
    check_engine(&*run)?;
    let options = words(&[
        ("budget", wanted.budget.as_ref().map(Amount::to_string)),
        ("model", wanted.model),
        ("effort", wanted.effort),
        ("backend", wanted.backend),
        ("max-steps", wanted.max_steps.map(|steps| steps.to_string())),
    ])?;
    resume_run(server, &run, options)?;
    Answer::json_with(202, &StartedRun { run: run.id().to_owned() }, None)
}
