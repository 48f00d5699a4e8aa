//! Starting workflows when their manifests say so.
//!
//! When each of them was last due is kept in a file. So a time that passed while no `serve` ran is noticed, and of all
//! such times one is made up for.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use jiff::tz::TimeZone;
use raymond_core::workflow::Platform;
use serde::{Deserialize, Serialize};

use super::Server;
use super::api::changes::{NewRun, begin};
use super::cron::Cron;
use super::discover::{Found, Workflows};
use super::index::holds;
use crate::store::SealedFile;
use crate::workflow::scope::Scope;

/// How often the clock is looked at. A schedule has minutes, so this is often enough.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// How often manifests are read again, in looks.
const READ_EVERY: u32 = 20;
/// How long the file may be that says what was started.
const MOST_KNOWN: u64 = 16 * 1024 * 1024;
/// The label of runs that were started by their schedule.
const LABEL: &str = "schedule";

/// What is kept of a workflow with a schedule, by its path.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Known {
    /// Up to when all times were seen to.
    until: Timestamp,
    /// The run that was started last.
    run: Option<String>,
    /// A schedule that was changed has missed nothing.
    schedule: String,
}

/// A workflow with a schedule.
struct Scheduled {
    found: Found,
    text: String,
    cron: Cron,
    zone: TimeZone,
}

/// Starts workflows when they are due, for ever.
pub async fn keep(server: Arc<Server>) {
    let mut looks = 0;
    let mut all: Arc<Vec<Scheduled>> = Arc::default();
    loop {
        let (worker, known) = (Arc::clone(&server), Arc::clone(&all));
        let is_new = looks % READ_EVERY == 0;
        let looked = tokio::task::spawn_blocking(move || {
            let known = if is_new { Arc::new(read(&worker)) } else { known };
            look(&worker, &known, crate::clock::now());
            known
        });
        if let Ok(known) = looked.await {
            all = known;
        }
        looks += 1;
        tokio::time::sleep(LOOK_EVERY).await;
    }
}

/// A workflow with a schedule, and what is wrong with the schedule.
#[derive(Debug)]
pub struct ScheduledWorkflow {
    pub id: String,
    pub problem: Option<String>,
}

/// All workflows that have a schedule.
pub fn all_of(workflows: &Workflows) -> Vec<ScheduledWorkflow> {
    let listing = workflows.list();
    let read = listing.all.iter().filter_map(|found| Some((found, schedule_of(found)?)));
    read.map(|(found, read)| ScheduledWorkflow { id: found.id.clone(), problem: read.err() }).collect()
}

/// All workflows whose schedules can be kept. What is wrong with one is told once it is read.
fn read(server: &Server) -> Vec<Scheduled> {
    let mut all = Vec::new();
    for found in server.workflows.list().all.iter() {
        match schedule_of(found) {
            Some(Ok(scheduled)) => all.push(scheduled),
            Some(Err(error)) => tracing::warn!(workflow = found.id, error, "cannot keep a schedule"),
            None => {}
        }
    }
    all
}

/// The schedule of a workflow, if it has one.
fn schedule_of(found: &Found) -> Option<Result<Scheduled, String>> {
    let scope = Scope::open(&found.path, Platform::current()).ok()?;
    let manifest = scope.manifest();
    let text = manifest.schedule.clone()?;
    let zone = manifest.schedule_timezone.as_deref().map_or(Ok(TimeZone::UTC), TimeZone::get);
    Some(match (Cron::parse(&text), zone) {
        (Ok(cron), Ok(zone)) => Ok(Scheduled { found: found.clone(), text, cron, zone }),
        (Err(error), _) => Err(error),
        (_, Err(error)) => Err(error.to_string()),
    })
}

/// Starts what is due.
fn look(server: &Server, all: &[Scheduled], now: Timestamp) {
    let file = file(server);
    let text = file.read(MOST_KNOWN).unwrap_or_default();
    let mut known: BTreeMap<PathBuf, Known> = serde_json::from_slice(&text).unwrap_or_default();
    let mut has_changed = false;
    for scheduled in all {
        let path = scheduled.found.path.clone();
        let before = known.get(&path).filter(|known| known.schedule == scheduled.text);
        let Some(before) = before else {
            // Only times from now on count.
            known.insert(path, Known { until: now, run: None, schedule: scheduled.text.clone() });
            has_changed = true;
            continue;
        };
        let is_due = scheduled.cron.next(before.until, &scheduled.zone).is_some_and(|time| time <= now);
        if !is_due {
            continue;
        }
        let mut entry = Known { until: now, ..before.clone() };
        let still_runs = before.run.as_ref().is_some_and(|run| is_running(server, run));
        if still_runs {
            tracing::info!(workflow = scheduled.found.id, "it still runs, so it is not started again");
        } else {
            entry.run = start(server, scheduled);
        }
        known.insert(path, entry);
        has_changed = true;
    }
    if has_changed {
        let text = serde_json::to_vec_pretty(&known).unwrap_or_default();
        if let Err(error) = file.write(&text) {
            tracing::warn!(%error, "cannot write down what was started");
        }
    }
}

fn file(server: &Server) -> SealedFile {
    server.state.own_file("serve.schedules")
}

fn is_running(server: &Server, run: &str) -> bool {
    server.index.find(run).is_ok_and(|run| holds(&*run))
}

/// Starts a workflow that is due; nothing if that does not work. It is tried again at its next time.
fn start(server: &Server, scheduled: &Scheduled) -> Option<String> {
    let labels = BTreeMap::from([(LABEL.to_owned(), scheduled.text.clone())]);
    match begin(server, NewRun::of(&scheduled.found.id, labels)) {
        Ok(run) => Some(run),
        Err(problem) => {
            tracing::warn!(workflow = scheduled.found.id, problem = problem.detail, "cannot start it");
            eprintln!(
                "{}: cannot be started: {}",
                scheduled.found.id,
                crate::view::text::clean(&problem.detail)
            );
            None
        }
    }
}
