//! Starting workflows when their manifests say so.
//!
//! When each of them was last due is kept in a file. So a time that passed while no `serve` ran is noticed, and of all
//! such times one is made up for.
//!
//! Nobody looks when a workflow starts by itself, so that only one is started that the user trusts, as it was when they looked
//! at it (`raymond trust`). Any other with a schedule is held, which is told once for each of its versions.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, MutexGuard, PoisonError};
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
use super::lanes::Lane;
use crate::config;
use crate::store::SealedFile;
use crate::trust::workflows::{Standing, TrustedList};
use crate::view::notify;
use crate::view::text::clean;
use crate::workflow::labels::SCHEDULE_LABEL;
use crate::workflow::scope::Scope;

/// How often the clock is looked at. A schedule has minutes, so this is often enough.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// How often manifests are read again, in looks.
const READ_EVERY: u32 = 20;
/// How long the file may be that says what was started.
const MOST_KNOWN: u64 = 16 * 1024 * 1024;
/// What the notify command is told of a workflow that is held.
const EVENT: &str = "untrusted";
/// Of how many it is told at a time; the inbox and stderr name all of them.
const MOST_TOLD: usize = 16;

/// What is kept of a workflow with a schedule, by its path.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Known {
    /// Up to when all times were seen to.
    until: Timestamp,
    /// The run that was started last.
    run: Option<String>,
    /// A schedule that was changed has missed nothing.
    schedule: String,
    /// The version of it that was told of as held.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    told: Option<String>,
}

/// A workflow whose schedule is not kept, because it is not trusted as it is.
#[derive(Clone, Debug)]
pub struct Held {
    pub id: String,
    pub path: PathBuf,
    pub why: String,
    pub since: Timestamp,
    standing: Standing,
}

impl Held {
    fn of(found: &Found, standing: &Standing, since: Timestamp) -> Option<Self> {
        let why = standing.problem()?;
        let standing = standing.clone();
        Some(Self { id: found.id.clone(), path: found.path.clone(), why, since, standing })
    }

    /// What to do about it.
    pub fn advice(path: &Path) -> String {
        format!("look at what it may do: raymond trust {}", path.display())
    }

    fn notice(&self) -> String {
        let Self { id, path, why, since, standing: _ } = self;
        let advice = Self::advice(path);
        serde_json::json!({
            "event": EVENT, "workflow": id, "path": path.display().to_string(), "error": why, "advice": advice, "time": since,
        })
        .to_string()
    }
}

/// A workflow with a schedule.
struct Scheduled {
    found: Found,
    text: String,
    cron: Cron,
    zone: TimeZone,
    standing: Standing,
}

/// Starts workflows when they are due, for ever.
pub async fn keep(server: Arc<Server>) {
    let mut looks = 0;
    let mut all: Arc<Vec<Scheduled>> = Arc::default();
    loop {
        let (worker, known) = (Arc::clone(&server), Arc::clone(&all));
        let is_new = looks % READ_EVERY == 0;
        let looked = server.lanes.work(Lane::Own, move || {
            let known = if is_new { Arc::new(read(&worker)) } else { known };
            let told = look(&worker, &known, crate::clock::now());
            (known, told)
        });
        if let Ok((known, told)) = looked.await {
            all = known;
            tokio::spawn(tell(told));
        }
        looks += 1;
        tokio::time::sleep(LOOK_EVERY).await;
    }
}

/// Tells the user of workflows that are held: by the command of their own config file. That of a project is not theirs.
async fn tell(all: Vec<Held>) {
    let own = config::user_file().and_then(|file| config::load(&file).ok());
    let Some(command) = own.and_then(|config| config.raymond.notify) else { return };
    for held in all.into_iter().take(MOST_TOLD) {
        if let Err(error) = notify::tell_alone(&command, EVENT, held.notice()).await {
            tracing::warn!(workflow = held.id, error, "the notify command has failed");
        }
    }
}

/// A workflow with a schedule, and why it is not kept.
#[derive(Debug)]
pub struct ScheduledWorkflow {
    pub id: String,
    pub path: PathBuf,
    /// What is wrong with the schedule.
    pub problem: Option<String>,
    pub standing: Standing,
}

/// All workflows that have a schedule.
pub fn all_of(workflows: &Workflows) -> Vec<ScheduledWorkflow> {
    let listing = workflows.list();
    let read = listing.all.iter().filter_map(|found| Some((found, schedule_of(found)?)));
    read.map(|(found, read)| ScheduledWorkflow {
        id: found.id.clone(),
        path: found.path.clone(),
        problem: read.err(),
        standing: Standing::of(&found.path),
    })
    .collect()
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
        (Ok(cron), Ok(zone)) => {
            let standing = Standing::of(&found.path);
            Ok(Scheduled { found: found.clone(), text, cron, zone, standing })
        }
        (Err(error), _) => Err(error),
        (_, Err(error)) => Err(error.to_string()),
    })
}

/// Starts what is due. Returns the workflows that are held and were not told of.
fn look(server: &Server, all: &[Scheduled], now: Timestamp) -> Vec<Held> {
    let file = file(server);
    let text = file.read(MOST_KNOWN).unwrap_or_default();
    let mut known: BTreeMap<PathBuf, Known> = serde_json::from_slice(&text).unwrap_or_default();
    let mut has_changed = false;
    let (mut all_held, mut untold) = (Vec::new(), Vec::new());
    for scheduled in all {
        let before = known.get(&scheduled.found.path).filter(|known| known.schedule == scheduled.text);
        // Only times from now on count.
        let new = || Known { until: now, run: None, schedule: scheduled.text.clone(), told: None };
        let mut entry = before.cloned().unwrap_or_else(new);
        let standing = keep_one(server, scheduled, &mut entry, now);
        let held = Held::of(&scheduled.found, &standing, now);
        let version = held.as_ref().map(|held| held.standing.version().to_owned());
        if version != entry.told {
            entry.told = version;
            untold.extend(held.clone());
        }
        all_held.extend(held);
        if before != Some(&entry) {
            known.insert(scheduled.found.path.clone(), entry);
            has_changed = true;
        }
    }
    for held in &untold {
        let line =
            format!("{} is not started by its schedule: {}; {}", held.id, held.why, Held::advice(&held.path));
        eprintln!("{}", clean(&line));
    }
    note_held(server, all_held);
    if has_changed {
        let text = serde_json::to_vec_pretty(&known).unwrap_or_default();
        if let Err(error) = file.write(&text) {
            tracing::warn!(%error, "cannot write down what was started");
        }
    }
    untold
}

/// Starts a workflow if it is due and trusted. Its standing is looked at again then, and once more by the process that is
/// started: its files may change at any moment.
fn keep_one(server: &Server, scheduled: &Scheduled, entry: &mut Known, now: Timestamp) -> Standing {
    let is_due = scheduled.cron.next(entry.until, &scheduled.zone).is_some_and(|time| time <= now);
    if !is_due {
        return scheduled.standing.clone();
    }
    entry.until = now;
    let standing = Standing::of(&scheduled.found.path);
    let still_runs = entry.run.as_ref().is_some_and(|run| is_running(server, run));
    match &standing {
        _ if still_runs => {
            tracing::info!(workflow = scheduled.found.id, "it still runs, so it is not started again");
        }
        Standing::Trusted { content } => entry.run = start(server, scheduled, content),
        Standing::Unknown | Standing::Changed { .. } | Standing::Unreadable { .. } => entry.run = None,
    }
    standing
}

/// The workflows that are held. One that was seen to be trusted since then is left out.
pub fn held(server: &Server) -> Vec<Held> {
    let all = lock_held(server).clone();
    let list = TrustedList::read();
    all.into_iter().filter(|held| !held.standing.is_outdated(&held.path, &list)).collect()
}

fn note_held(server: &Server, mut all: Vec<Held>) {
    let mut known = lock_held(server);
    for held in &mut all {
        let same = known.iter().find(|before| before.path == held.path && before.standing == held.standing);
        held.since = same.map_or(held.since, |before| before.since);
    }
    *known = all;
}

fn lock_held(server: &Server) -> MutexGuard<'_, Vec<Held>> {
    server.held.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Whether a run was started by a schedule and its workflow is not trusted as it is now.
pub fn is_held(labels: &BTreeMap<String, String>, workflow: &str) -> bool {
    labels.contains_key(SCHEDULE_LABEL) && !Standing::of(Path::new(workflow)).is_trusted()
}

fn file(server: &Server) -> SealedFile {
    server.state.own_file("serve.schedules")
}

fn is_running(server: &Server, run: &str) -> bool {
    server.index.find(run).is_ok_and(|run| holds(&*run))
}

/// Starts a workflow that is due; nothing if that does not work. It is tried again at its next time.
fn start(server: &Server, scheduled: &Scheduled, content: &str) -> Option<String> {
    let labels = BTreeMap::from([(SCHEDULE_LABEL.to_owned(), scheduled.text.clone())]);
    match begin(server, NewRun::of(&scheduled.found.id, labels, content)) {
        Ok(run) => Some(run),
        Err(problem) => {
            tracing::warn!(workflow = scheduled.found.id, problem = problem.detail, "cannot start it");
            eprintln!("{}: cannot be started: {}", clean(&scheduled.found.id), clean(&problem.detail));
            None
        }
    }
}
