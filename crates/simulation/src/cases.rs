//! The case folders as programs: each is run once for real, and its recorded steps are replayed.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use raymond::config;
use raymond::store::{FolderStore, RunHandle, RunStore, Start, StateDir, StoreError};
use raymond::workflow::scope::Scope;
use raymond::workflow::scopes::{Allowed, Scopes};
use raymond_core::event::{Body, Event};
use raymond_core::payload::Payload;
use raymond_core::run::Options;
use raymond_core::workflow::Platform;
use test_kit::case::{Case, all_cases};
use test_kit::needs;

use crate::check::report;
use crate::course::Course;
use crate::explore::{Tally, every_crash};
use crate::library::RealStates;
use crate::program::Program;
use crate::recording::{Means, Recorder, Unplayable};

/// How many cases are run and replayed at the same time.
const AT_ONCE: usize = 4;

/// The runs of a case.
struct Runs {
    programs: Vec<Program>,
    /// The runs that cannot be replayed, and why.
    left_out: Vec<(String, Unplayable)>,
}

/// The result of all cases.
#[derive(Debug, Default)]
pub struct Told {
    /// How many runs were replayed, and with how many crashes in total.
    pub played: usize,
    pub tally: Tally,
    /// Runs that cannot be replayed, and why.
    pub left_out: Vec<(String, Unplayable)>,
    /// Cases without a run.
    pub idle: Vec<String>,
    /// Cases that need an interpreter that is not installed.
    pub skipped: Vec<String>,
    /// Runs whose outcome is not compared with the recorded one, because it depends on the order of the agents. All
    /// other checks apply.
    pub by_order: Vec<String>,
    pub failures: Vec<String>,
}

impl fmt::Display for Told {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Tally { runs, off_course } = self.tally;
        writeln!(out, "{} runs of case folders replayed with {runs} crashes", self.played)?;
        writeln!(out, "{off_course} of these left the recorded course")?;
        writeln!(out, "{} cases without a run: {}", self.idle.len(), self.idle.join(", "))?;
        writeln!(out, "skipped because an interpreter is missing: {}", self.skipped.join(", "))?;
        writeln!(
            out,
            "outcome not compared, because it depends on the order of agents: {}",
            self.by_order.join(", ")
        )?;
        for (name, why) in &self.left_out {
            writeln!(out, "left out: {name}: {why}")?;
        }
        Ok(())
    }
}

/// Runs every case once with the program `raymond`, and replays its runs with crashes at this many points of each.
pub fn try_cases(raymond: &Path, points: usize) -> Told {
    let cases = all_cases();
    let next = AtomicUsize::new(0);
    let told = Mutex::new(Told::default());
    std::thread::scope(|scope| {
        for _ in 0..AT_ONCE {
            scope.spawn(|| {
                while let Some(case) = cases.get(next.fetch_add(1, Ordering::Relaxed)) {
                    try_case(case, raymond, points, &told);
                }
            });
        }
    });
    told.into_inner().unwrap_or_default()
}

fn try_case(case: &Case, raymond: &Path, points: usize, told: &Mutex<Told>) {
    let tell = || told.lock().expect("no thread panics while it holds the lock");
    let Some(runs) = record(case, raymond) else {
        return tell().skipped.push(case.name.clone());
    };
    if runs.programs.is_empty() && runs.left_out.is_empty() {
        tell().idle.push(case.name.clone());
    }
    tell().left_out.extend(runs.left_out);
    for program in runs.programs {
        let tried = every_crash(&program, points);
        let mut told = tell();
        told.played += 1;
        match tried {
            Ok(tally) => told.tally += tally,
            Err(failure) => told.failures.push(report(&program, &failure)),
        }
        if program.course.is_some_and(|course| course.depends_on_order) {
            told.by_order.push(program.name);
        }
    }
}

/// Runs a case and records its runs; there are none if an interpreter is not installed.
fn record(case: &Case, raymond: &Path) -> Option<Runs> {
    if needs::lacks_an_interpreter(&case.folder, &format!("the simulation of the case {}", case.name)) {
        return None;
    }
    let rig = case.lay_out(raymond);
    let mut recorders: BTreeMap<PathBuf, Result<Recorder, Unplayable>> = BTreeMap::new();
    for step in case.steps() {
        case.step(&rig, &step);
        for lock in locks(&rig.work()) {
            let recorder = recorders.entry(lock.clone()).or_insert_with(|| Ok(Recorder::default()));
            let taken = match recorder {
                Ok(recorder) => take_in(recorder, &lock),
                Err(_) => continue,
            };
            if let Err(why) = taken {
                *recorder = Err(why);
            }
        }
    }
    let mut runs = Runs { programs: Vec::new(), left_out: Vec::new() };
    for (lock, recorder) in recorders {
        let run = run_of(&lock);
        let name = format!("{} ({})", case.name, run.id());
        match recorder.and_then(|recorder| recorder.finish(&text_of(&*run))) {
            Ok(course) => runs.programs.push(program(&name, course)),
            // A run that was refused has only a lock.
            Err(_) if matches!(run.load(), Err(StoreError::Missing { .. })) => {}
            Err(why) => runs.left_out.push((name, why)),
        }
    }
    Some(runs)
}

fn program(name: &str, course: Course) -> Program {
    Program::new(name).with(|program| {
        program.options = course.parts[0].options.clone();
        // Some runs are kept in memory, and every second journal is split into segments.
        program.lives_in_memory = name.len().is_multiple_of(3);
        program.segment_bytes = if name.len().is_multiple_of(2) { 900 } else { program.segment_bytes };
        program.course = Some(Rc::new(course));
    })
}

/// Finds runs by their locks.
fn locks(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            found.extend(locks(&path));
        } else if path.extension().is_some_and(|extension| extension == "lock") {
            found.push(path);
        }
    }
    found.sort();
    found
}

fn run_of(lock: &Path) -> Arc<dyn RunHandle> {
    let id = lock.file_stem().unwrap_or_default().to_string_lossy().into_owned();
    FolderStore::new(StateDir::at(lock.parent().unwrap_or(lock))).run(&id).expect("a run's id")
}

fn text_of(run: &dyn RunHandle) -> impl Fn(&Payload) -> String + use<> {
    let payloads = run.payloads();
    move |payload| payloads.text_of(payload).unwrap_or_else(|error| error.to_string())
}

/// The events that a process has added to a run.
fn take_in(recorder: &mut Recorder, lock: &Path) -> Result<(), Unplayable> {
    let run = run_of(lock);
    let Ok(mut stored) = run.events(Start::After(0)) else { return Ok(()) };
    let mut events: Vec<Event> = Vec::new();
    while let Some(batch) = stored.next_batch().map_err(|error| error.to_string())? {
        events.extend(batch);
    }
    events.retain(|event| !matches!(event.body, Body::Snapshot { .. }));
    let new = events.split_off(recorder.seen().min(events.len()));
    if new.is_empty() {
        return Ok(());
    }
    let started = events.first().or(new.first()).map(|event| &event.body);
    let Some(Body::RunStarted(started)) = started else { return Err("its journal has no start".to_owned()) };
    let options = new.iter().fold(started.options.clone(), |options, event| match &event.body {
        Body::RunResumed(resumed) => resumed.options.clone(),
        _ => options,
    });
    let states = &mut states(&started.scope, options)?;
    recorder.take(&new, &mut Means { text_of: &text_of(&*run), states })
}

fn states(scope: &str, options: Options) -> Result<RealStates, Unplayable> {
    let own = Scope::open(Path::new(scope), Platform::Unix)
        .map_err(|error| format!("its workflow cannot be opened: {}", error.message))?;
    let home = StateDir::find(own.home()).ok().and_then(|dir| dir.home().map(Path::to_owned));
    let config = home.and_then(|home| Some((config::load(&home.join("config.toml")).ok()?, home)));
    let listed = config.iter().flat_map(|(config, home)| {
        config.raymond.workflow_paths.iter().map(move |path| home.join("..").join(path))
    });
    let listed: Vec<String> = listed.map(|path| path.to_string_lossy().into_owned()).collect();
    let allowed = Allowed::new(&own, Path::new("/"), &listed);
    let scopes = Scopes::new(own, Platform::Unix, allowed);
    Ok(RealStates { scopes: Rc::new(RefCell::new(scopes)), options })
}
