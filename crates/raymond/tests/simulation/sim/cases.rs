//! The case folders as programs: each is run once for real, and what its steps did is played again.

#[path = "../../it/case.rs"]
mod case;
#[path = "../../it/fake.rs"]
#[expect(dead_code, reason = "the tests that drive the real program need more of it")]
mod fake;
#[path = "../../it/needs.rs"]
mod needs;
#[path = "../../it/rig.rs"]
#[expect(dead_code, reason = "the tests that drive the real program need more of it")]
mod rig;

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use raymond::scope::Scope;
use raymond::scopes::Scopes;
use raymond::states::ScopeStates;
use raymond::store::{Durability, Payloads, RunPaths, StateDir, read_all};
use raymond_core::event::{Body, Event};
use raymond_core::payload::Payload;
use raymond_core::run::Options;
use raymond_core::workflow::Platform;

pub(crate) use case::{Case, all_cases};

use super::program::Program;
use super::recording::{Means, Recorder, Unplayable};

/// The runs of a case.
pub struct Runs {
    pub programs: Vec<Program>,
    /// Those that cannot be played again, and why.
    pub left_out: Vec<(String, Unplayable)>,
}

/// Runs a case and records its runs; none where an interpreter is not installed.
pub(crate) fn record(case: &Case) -> Option<Runs> {
    if needs::lacks_an_interpreter(&case.folder, &format!("the simulation of the case {}", case.name)) {
        return None;
    }
    let rig = case.lay_out();
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
        let paths = run_of(&lock);
        let name = format!("{} ({})", case.name, paths.id());
        match recorder.and_then(|recorder| recorder.finish(&text_of(&paths))) {
            Ok(course) => runs.programs.push(program(&name, course)),
            // A run that was refused has a lock and nothing else.
            Err(_) if !paths.segment(0).exists() => {}
            Err(why) => runs.left_out.push((name, why)),
        }
    }
    Some(runs)
}

fn program(name: &str, course: super::course::Course) -> Program {
    Program::new(name).with(|program| {
        program.options = course.parts[0].options.clone();
        // Every other journal is cut into segments.
        program.segment_bytes = if name.len() % 2 == 0 { 900 } else { program.segment_bytes };
        program.course = Some(Rc::new(course));
    })
}

/// Where runs are, by their locks.
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

fn run_of(lock: &Path) -> RunPaths {
    let id = lock.file_stem().unwrap_or_default().to_string_lossy().into_owned();
    StateDir::at(lock.parent().unwrap_or(lock)).run(&id).expect("a run's id")
}

fn text_of(paths: &RunPaths) -> impl Fn(&Payload) -> String + use<> {
    let payloads = Payloads::new(paths.payloads(), Durability::Process);
    move |payload| payloads.text_of(payload).unwrap_or_else(|error| error)
}

/// What a process has added to a run.
fn take_in(recorder: &mut Recorder, lock: &Path) -> Result<(), Unplayable> {
    let paths = run_of(lock);
    let Ok(lines) = read_all(&paths) else { return Ok(()) };
    let mut events: Vec<Event> = Vec::new();
    for line in lines {
        let line = line.map_err(|error| error.to_string())?;
        events.push(serde_json::from_str(&line.text).map_err(|error| error.to_string())?);
    }
    events.retain(|event| !matches!(event.body, Body::Snapshot { .. }));
    let new = events.split_off(recorder.seen().min(events.len()));
    if new.is_empty() {
        return Ok(());
    }
    let started = events.first().or(new.first()).map(|event| &event.body);
    let Some(Body::RunStarted(started)) = started else { return Err("it has no start".to_owned()) };
    let options = new.iter().fold(started.options.clone(), |options, event| match &event.body {
        Body::RunResumed(resumed) => resumed.options.clone(),
        _ => options,
    });
    let states = &mut states(&started.scope, options)?;
    recorder.take(&new, &mut Means { text_of: &text_of(&paths), states })
}

fn states(scope: &str, options: Options) -> Result<ScopeStates, Unplayable> {
    let own = Scope::open(Path::new(scope), Platform::Unix)
        .map_err(|error| format!("its workflow is gone: {}", error.message))?;
    let scopes = Scopes::new(own, Platform::Unix, Path::new("/"), &[]);
    Ok(ScopeStates { scopes: Rc::new(RefCell::new(scopes)), options })
}
