//! Starting workflows when their manifests say so.
//!
//! When each of them was last due is kept in a file. So a time that passed while no `serve` ran is noticed, and of all
//! such times one is made up for.
//!
//! Nobody looks when a workflow starts by itself, so that only one is started that the user trusts, as it was when they looked
//! at it (`raymond trust`). Any other with a schedule is held, which is told once for each of its versions.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::{Arc, MutexGuard, PoisonError};
use std::time::Duration;

use jiff::Timestamp;
use jiff::tz::TimeZone;
use raymond_core::workflow::Platform;
use serde::{Deserialize, Serialize};

use super::Server;
use super::api::changes::{NewRun, begin};
use super::discover::{Found, Workflows};
use super::index::holds;
use super::lanes::Lane;
use crate::config;
use crate::store::{SealedFile, StateDir};
use crate::trust::workflows::{Standing, TrustedList};
use crate::view::notify;
use crate::view::text::clean;
use crate::workflow::cron::{Cron, Rhythm};
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
    /// Since when it is due and not started, because the run that was started last has not ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    held_back: Option<Timestamp>,
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
    let mut wrong: Arc<BTreeSet<String>> = Arc::default();
    loop {
        let (worker, known) = (Arc::clone(&server), Arc::clone(&all));
        let (is_new, before) = (looks % READ_EVERY == 0, Arc::clone(&wrong));
        let looked = server.lanes.work(Lane::Own, move || {
            let (known, wrong) = if is_new { read(&worker, &before) } else { (known, before) };
            let told = look(&worker, &known, crate::clock::now());
            (known, wrong, told)
        });
        if let Ok((known, problems, told)) = looked.await {
            (all, wrong) = (known, problems);
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

/// All workflows whose schedules can be kept, and what is wrong with others. That is told when it is found first.
fn read(server: &Server, told: &BTreeSet<String>) -> (Arc<Vec<Scheduled>>, Arc<BTreeSet<String>>) {
    let (mut all, mut wrong) = (Vec::new(), BTreeSet::new());
    for found in server.workflows.list().all.iter() {
        match schedule_of(found) {
            Some(Ok(scheduled)) => all.push(scheduled),
            Some(Err(error)) => {
                wrong.insert(format!("{}: its schedule cannot be kept: {error}", found.id));
            }
            None => {}
        }
    }
    for line in wrong.difference(told) {
        eprintln!("{}", clean(line));
    }
    (Arc::new(all), Arc::new(wrong))
}

/// The schedule of a workflow, if it has one.
fn schedule_of(found: &Found) -> Option<Result<Scheduled, String>> {
    let scope = Scope::open(&found.path, Platform::current()).ok()?;
    let manifest = scope.manifest();
    let text = manifest.schedule.clone()?;
    Some(match Rhythm::read(manifest)? {
        Ok(Rhythm { cron, zone }) => {
            let standing = Standing::of(&found.path);
            Ok(Scheduled { found: found.clone(), text, cron, zone, standing })
        }
        Err(wrong) => Err(wrong.message),
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
        let new =
            || Known { until: now, run: None, schedule: scheduled.text.clone(), told: None, held_back: None };
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
            entry.held_back.get_or_insert(now);
            tracing::info!(workflow = scheduled.found.id, "it still runs, so it is not started again");
            return standing;
        }
        Standing::Trusted { content } => entry.run = start(server, scheduled, content),
        Standing::Unknown | Standing::Changed { .. } | Standing::Unreadable { .. } => entry.run = None,
    }
    entry.held_back = None;
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
    file_in(&server.state)
}

fn file_in(state: &StateDir) -> SealedFile {
    state.own_file("serve.schedules")
}

/// A schedule that waits until its last run has ended.
#[derive(Clone, Debug)]
pub struct HeldBack {
    pub workflow: PathBuf,
    /// When it was due first.
    pub since: Timestamp,
}

/// The runs that hold back the schedules by which they were started. `is_live` says whether a process drives a run.
pub fn held_back(state: &StateDir, is_live: impl Fn(&str) -> bool) -> BTreeMap<String, HeldBack> {
    let text = file_in(state).read(MOST_KNOWN).unwrap_or_default();
    let known: BTreeMap<PathBuf, Known> = serde_json::from_slice(&text).unwrap_or_default();
    let held = known.into_iter().filter_map(|(workflow, known)| {
        let (run, since) = (known.run?, known.held_back?);
        is_live(&run).then_some((run, HeldBack { workflow, since }))
    });
    held.collect()
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
