//! Runs: all of them, or one.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use jiff::Timestamp;
use raymond_core::money::Usd;
use raymond_core::run::{Run, RunStatus, Status};
use raymond_core::tokens::Tokens;
use schemars::JsonSchema;
use serde::Serialize;

use crate::serve::Server;
use crate::serve::index::{NoState, drives, holds, is_live};
use crate::serve::problem::Problem;
use crate::serve::route::{Answer, Call};
use crate::serve::schedule::held_back;
use crate::store::{RunEntry, RunHandle, StoreError};
use crate::view::debug::kept_attempts;
use crate::view::status::{AskView, RunView, STATUSES, no_worker, view};
use crate::view::summary::{Brief, Summary};

const USUAL_RUNS: usize = 100;
const MOST_RUNS: usize = 1000;

/// Some runs, the one that was active last first.
#[derive(Serialize, JsonSchema)]
pub struct Runs {
    runs: Vec<Item>,
    /// What to give as `before` to get those that follow; null at the end.
    next: Option<String>,
}

#[derive(Serialize, JsonSchema)]
#[serde(untagged)]
enum Item {
    Run(Box<RunItem>),
    Damaged(Damaged),
}

/// A run in a list.
#[derive(Serialize, JsonSchema)]
struct RunItem {
    run: String,
    workflow: String,
    /// The id of its workflow, if that is below a root.
    workflow_id: Option<String>,
    status: RunStatus,
    /// Whether a process drives it.
    live: bool,
    /// Why what is shown of a run on other machines may be old.
    #[serde(skip_serializing_if = "Option::is_none")]
    stale: Option<String>,
    /// How many steps are completed.
    steps: u64,
    cost_usd: Usd,
    /// What it has cost itself, without the history that it has in common with another run.
    own_cost_usd: Usd,
    /// Null means unlimited.
    budget_usd: Option<Usd>,
    /// What its models have read and written, as far as agent programs told.
    tokens: Tokens,
    started_at: Timestamp,
    ended_at: Option<Timestamp>,
    /// When something happened last.
    last_at: Timestamp,
    last_seq: u64,
    labels: BTreeMap<String, String>,
    result: Option<String>,
    /// How many agents have not ended.
    live_agents: usize,
    /// Since when its schedule waits for its end.
    #[serde(skip_serializing_if = "Option::is_none")]
    schedule_waits_since: Option<Timestamp>,
    /// How many workers have failed whose failures joins have taken.
    #[serde(skip_serializing_if = "no_worker")]
    #[schemars(default)]
    failed_workers: u64,
    asks: Vec<AskView>,
}

/// A run whose journal cannot be read.
#[derive(Serialize, JsonSchema)]
struct Damaged {
    run: String,
    /// Always `damaged`.
    status: &'static str,
    live: bool,
    error: String,
}

pub fn list(server: &Arc<Server>, call: &Call) -> Result<Answer, Problem> {
    let wanted = Wanted::read(call)?;
    let before = call.text("before").map(Place::parse).transpose()?;
    let limit = call.limit(USUAL_RUNS, MOST_RUNS)?;
    let entries = server.index.list()?;
    let held_back = held_back(&server.state, |run| server.index.is_held(run));
    let (mut runs, mut next) = (Vec::new(), None);
    let mut last: Option<Place> = None;
    for entry in &entries {
        let place = Place::of(entry);
        if before.as_ref().is_some_and(|before| place >= *before) {
            continue;
        }
        let summary = match server.index.summary(entry) {
            Err(StoreError::Empty { .. }) => continue,
            other => other,
        };
        let is_live = summary.as_ref().is_ok_and(|summary| is_live(summary, &*entry.run));
        if !wanted.fits(server, &*entry.run, summary.as_deref().ok(), is_live) {
            continue;
        }
        if runs.len() == limit {
            next = last.map(|place| place.to_string());
            break;
        }
        runs.push(match summary {
            Ok(summary) => {
                let since = held_back.get(entry.run.id()).map(|held| held.since);
                let item = item(server, &entry.run, &summary, is_live);
                Item::Run(Box::new(RunItem { schedule_waits_since: since, ..item }))
            }
            Err(error) => Item::Damaged(Damaged {
                run: entry.run.id().to_owned(),
                status: "damaged",
                live: false,
                error: error.to_string(),
            }),
        });
        last = Some(place);
    }
    server.index.save(&entries);
    Answer::json(&Runs { runs, next })
}

fn item(server: &Server, handle: &Arc<dyn RunHandle>, summary: &Summary, live: bool) -> RunItem {
    // What is long or rare is not kept, so it is read where it is shown.
    let needs_state = summary.open_asks > 0 || summary.result == Brief::Long;
    let shown = needs_state
        .then(|| server.index.with_run(handle, |run| view(run, live, &handle.payloads())).ok())
        .flatten();
    let (result, asks) = match (shown, &summary.result) {
        (Some(shown), _) => (shown.result, shown.asks),
        (None, Brief::Text(text)) => (Some(text.clone()), Vec::new()),
        (None, Brief::None | Brief::Long) => (None, Vec::new()),
    };
    RunItem {
        run: handle.id().to_owned(),
        workflow: summary.workflow.clone(),
        workflow_id: server.workflow_id(&summary.scope),
        status: summary.status_of(&**handle, live),
        live,
        stale: live.then(|| handle.elsewhere()?.silence).flatten().map(|silence| silence.to_string()),
        steps: summary.steps,
        cost_usd: summary.cost_usd,
        own_cost_usd: summary.own().cost_usd,
        budget_usd: summary.budget_usd,
        tokens: summary.tokens,
        started_at: summary.started_at,
        ended_at: summary.ended_at,
        last_at: summary.last_at,
        last_seq: summary.seq,
        labels: summary.labels.clone(),
        result,
        live_agents: summary.agents,
        schedule_waits_since: None,
        failed_workers: summary.failed_workers,
        asks,
    }
}

/// Where a run is in the list. Later is larger.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Place {
    nanos: u128,
    id: String,
}

impl Place {
    fn of(entry: &RunEntry) -> Self {
        let nanos = entry.modified.duration_since(UNIX_EPOCH).map_or(0, |time| time.as_nanos());
        debug_assert!(entry.modified >= SystemTime::UNIX_EPOCH || nanos == 0);
        Self { nanos, id: entry.run.id().to_owned() }
    }

    fn parse(text: &str) -> Result<Self, Problem> {
        let parts = text.split_once('-').and_then(|(nanos, id)| Some((nanos.parse().ok()?, id.to_owned())));
        let (nanos, id) = parts.ok_or_else(|| Problem::malformed("`before` is not a `next` of this list"))?;
        Ok(Self { nanos, id })
    }
}

impl std::fmt::Display for Place {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(out, "{}-{}", self.nanos, self.id)
    }
}

/// Which runs are asked for.
struct Wanted {
    status: Option<String>,
    workflow: Option<String>,
    labels: Vec<(String, String)>,
    text: Option<String>,
}

impl Wanted {
    fn read(call: &Call) -> Result<Self, Problem> {
        let status = call.text("status").map(|status| status.replace([' ', '-'], "_"));
        if let Some(status) = &status
            && !STATUSES.contains(&status.as_str())
        {
            let all = STATUSES.join(", ");
            return Err(Problem::malformed(format!("there is no status `{status}`; a run is one of: {all}")));
        }
        let label = |text: &str| {
            let parts = text.split_once('=').map(|(key, value)| (key.to_owned(), value.to_owned()));
            parts.ok_or_else(|| Problem::malformed("a label is written KEY=VALUE"))
        };
        Ok(Self {
            status,
            workflow: call.text("workflow").map(|workflow| workflow.trim_end_matches('/').to_owned()),
            labels: call.texts("label").map(label).collect::<Result<_, _>>()?,
            text: call.text("q").map(str::to_lowercase),
        })
    }

    fn fits(&self, server: &Server, run: &dyn RunHandle, summary: Option<&Summary>, is_live: bool) -> bool {
        let id = run.id();
        let Some(summary) = summary else {
            let is_any = self.workflow.is_none() && self.labels.is_empty();
            let has_text = self.text.as_ref().is_none_or(|text| id.to_lowercase().contains(text));
            return is_any && has_text && self.status.as_ref().is_none_or(|status| status == "damaged");
        };
        let same_status = |wanted: &String| wanted == summary.status_of(run, is_live).as_str();
        let same_workflow = |wanted: &String| {
            let workflow = summary.workflow.trim_end_matches('/');
            workflow == wanted
                || workflow.rsplit('/').next() == Some(wanted)
                || server.workflow_id(&summary.scope).as_ref() == Some(wanted)
        };
        self.status.as_ref().is_none_or(same_status)
            && self.workflow.as_ref().is_none_or(same_workflow)
            && self.labels.iter().all(|(key, value)| summary.labels.get(key) == Some(value))
            && self.text.as_ref().is_none_or(|text| holds_text(id, summary, text))
    }
}

fn holds_text(id: &str, summary: &Summary, text: &str) -> bool {
    let result = match &summary.result {
        Brief::Text(result) => result,
        Brief::None | Brief::Long => "",
    };
    let labels = summary.labels.iter().map(|(key, value)| format!("{key}={value}"));
    let places = [id.to_owned(), summary.workflow.clone(), result.to_owned()];
    places.into_iter().chain(labels).any(|place| place.to_lowercase().contains(text))
}

/// A run, as `raymond status --json` prints it, and a little more.
#[derive(Serialize, JsonSchema)]
pub struct RunObject {
    #[serde(flatten)]
    view: RunView,
    /// The id of its workflow, if that is below a root.
    workflow_id: Option<String>,
    /// Where its states are: an absolute path.
    scope: String,
    /// Whether a process drives it.
    live: bool,
    first_seq: u64,
    last_seq: u64,
    /// Why it failed.
    error: Option<String>,
}

pub fn one(server: &Arc<Server>, call: &Call) -> Result<Answer, Problem> {
    let handle = server.index.find(call.part("run"))?;
    if let Some(at) = call.number("at")? {
        let run = server.index.state_at(&handle, at).map_err(|error| no_state(error, at))?;
        // It was live when that event happened.
        let is_live = run.status == RunStatus::Running;
        return Answer::json(&object(server, &run, &*handle, is_live, None));
    }
    Answer::json(&of(server, &handle)?)
}

/// A run as it is now.
pub fn of(server: &Server, handle: &Arc<dyn RunHandle>) -> Result<RunObject, Problem> {
    // The lease is read first: a run that ends between the two reads shows as ended, not as interrupted.
    let is_held = holds(&**handle);
    let branches = server.index.branches_of(handle.id())?;
    let held_back = held_back(&server.state, |run| server.index.is_held(run));
    Ok(server.index.with_run(handle, |run| {
        let is_live = drives(run, is_held);
        let mut object = object(server, run, &**handle, is_live, Some(server.debug_folder(handle.id())));
        object.view.containment = server.containment(handle.id());
        object.view.schedule_waits_since = held_back.get(handle.id()).map(|held| held.since);
        object.view.branches = branches;
        object.view.tell_origin(&**handle).map(|()| object)
    })??)
}

/// Why there is no state at an event.
pub fn no_state(error: NoState, at: u64) -> Problem {
    match error {
        NoState::Beyond(last) => {
            Problem::not_found(format!("there is no event {at}; the last one is {last}"))
        }
        NoState::Deleted(next) => super::events::deleted(at, next),
        NoState::Store(error) => error.into(),
    }
}

/// A run in some state.
pub fn object(
    server: &Server,
    run: &Run,
    handle: &dyn RunHandle,
    live: bool,
    debug: Option<std::path::PathBuf>,
) -> RunObject {
    let mut view = view(run, live, &handle.payloads());
    if let Some(elsewhere) = handle.elsewhere() {
        view.tell_where(&elsewhere);
    }
    let running = run.agents_by_birth();
    for (agent, shown) in running.into_iter().zip(&mut view.agents).filter(|_| live) {
        if let Status::Running { work, started } = &agent.status {
            shown.step = Some(work.step);
            shown.running_since = Some(*started);
            shown.last_output_at = debug.as_deref().and_then(|folder| last_output_at(folder, work.step));
        }
    }
    let error = (view.status == RunStatus::Failed)
        .then(|| view.agents.iter().find_map(|agent| agent.error.clone()))
        .flatten();
    RunObject {
        workflow_id: server.workflow_id(&run.scope),
        scope: run.scope.clone(),
        live,
        first_seq: 1,
        last_seq: run.seq,
        error,
        view,
    }
}

/// When a step has last written something.
pub fn last_output_at(folder: &std::path::Path, step: u64) -> Option<Timestamp> {
    let files = kept_attempts(folder, step).into_iter();
    let files = files.flat_map(|kept| [kept.stream, kept.stdout, kept.stderr]).flatten();
    let written = files.filter_map(|file| std::fs::metadata(file).ok()?.modified().ok()).max()?;
    let since_1970 = written.duration_since(std::time::UNIX_EPOCH).ok()?;
    Timestamp::from_millisecond(i64::try_from(since_1970.as_millis()).ok()?).ok()
}
