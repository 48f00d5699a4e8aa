use std::collections::BTreeSet;

use jiff::Timestamp;
use raymond_core::event::{LedTo, NextTry, Retry, RunStarted, StepFailed, StepFinished};
use raymond_core::money::Usd;
use tempfile::TempDir;

use super::*;
use crate::fleet::fake::FakeFleet;
use crate::run::driver::now;
use crate::store::suite::opening;
use crate::store::{Elsewhere, FolderStore, JournalOptions, RunWriter, StateDir};
use crate::view::debug::{Status, Verdict};

/// The copy of a run of which a test tells what has happened.
struct Scene {
    fleet: &'static FakeFleet,
    store: Arc<dyn RunStore>,
    writer: Box<dyn RunWriter>,
    seq: u64,
    rules: Rules,
    place: TempDir,
}

impl Scene {
    fn new(keep: usize) -> Self {
        Self::with(keep, |_| ())
    }

    fn with(keep: usize, change: impl FnOnce(&mut RunStarted)) -> Self {
        let place = tempfile::tempdir().unwrap();
        let store: Arc<dyn RunStore> = Arc::new(FolderStore::new(StateDir::at(place.path())));
        let engine = "temporal://localhost:7233/default?queue=q".to_owned();
        let mark = Elsewhere::open(engine, now());
        store.mark_elsewhere("r", &mark).unwrap();
        let mut writer = store.create("r", JournalOptions::default()).unwrap();
        let mut events = opening("r");
        if let Body::RunStarted(started) = &mut events[0].body {
            change(started);
        }
        writer.commit(&events).unwrap();
        let rules = Rules { root: place.path().join("debug"), keep };
        let seq = events.len() as u64;
        Self { fleet: Box::leak(Box::default()), store, writer, seq, rules, place }
    }

    fn happens(&mut self, bodies: Vec<Body>) {
        let event = |body| {
            self.seq += 1;
            Event { seq: self.seq, time: Timestamp::UNIX_EPOCH, run: "r".to_owned(), body }
        };
        let batch: Vec<Event> = bodies.into_iter().map(event).collect();
        self.writer.commit(&batch).unwrap();
    }

    /// A step that finishes at its first attempt.
    fn step(&mut self, step: u64) {
        self.fleet.leaves(step, 1, self.archive(&format!("said by {step}")));
        self.happens(vec![started(step, 1)]);
        self.happens(vec![finished(step)]);
    }

    /// The packed files of an attempt that has printed this.
    fn archive(&self, output: &str) -> Vec<u8> {
        let there = DebugFolder::open(self.place.path().join("there"), 1);
        let attempt = attempt(1, 1);
        let mut files = there.begin(attempt.name());
        files.stdout(output.as_bytes());
        files.finish(Verdict { status: Status::Succeeded, error: None, cost_usd: Usd::ZERO });
        let left = there.left_by(attempt.name()).unwrap();
        let archive = left.pack().unwrap();
        left.remove();
        archive
    }

    /// Copies what is new, as a process does that has not done so before.
    fn catch_up(&self) -> Result<bool, Why> {
        let run = self.store.run("r").unwrap();
        DebugCopy::of(self.fleet, run, &self.rules).unwrap().catch_up(&|| true)
    }

    fn folder(&self) -> PathBuf {
        self.rules.root.join("r")
    }

    /// The outputs of attempts that are here, by the names of their files.
    fn outputs(&self) -> Vec<String> {
        let entries = fs::read_dir(self.folder()).into_iter().flatten();
        let mut names: Vec<String> =
            entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.retain(|name| name.ends_with(".stdout.txt"));
        names.sort();
        names
    }

    fn text(&self, name: &str) -> String {
        fs::read_to_string(self.folder().join(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
    }
}

fn attempt(step: u64, attempt: u32) -> Attempt {
    Attempt { agent: AgentId::main(), state: StateFile::new("A.sh").unwrap(), step, attempt }
}

fn started(step: u64, number: u32) -> Body {
    let Attempt { agent, state, step, attempt } = attempt(step, number);
    let (visits, hash) = (1, String::new());
    Body::StepStarted(StepStarted { agent, step, attempt, state, visits, hash, exclusive: None, turn: None })
}

fn finished(step: u64) -> Body {
    let Attempt { agent, state, .. } = attempt(step, 1);
    Body::StepFinished(Box::new(StepFinished {
        agent,
        step,
        led_to: LedTo::Goto { target: state.clone(), input: None },
        state,
        message: None,
        session: None,
        implicit: false,
        cost_usd: Usd::ZERO,
        attempt_cost_usd: Usd::ZERO,
        cost_estimated: false,
        tokens: Default::default(),
        context: None,
        compacted: false,
        duration_ms: 1,
        files: None,
    }))
}

fn failed(step: u64) -> Body {
    let Attempt { agent, state, .. } = attempt(step, 1);
    Body::StepFailed(StepFailed {
        agent,
        title: None,
        step: Some(step),
        state,
        error: "exit code 1".to_owned(),
        exit_code: Some(1),
        stderr: String::new(),
        message: None,
        output: String::new(),
        output_file: None,
        fatal: false,
        cost_usd: Usd::ZERO,
        attempt_cost_usd: Usd::ZERO,
        cost_estimated: false,
        tokens: Default::default(),
        duration_ms: 1,
    })
}

fn retry(step: u64, next: u32) -> Body {
    let Attempt { agent, state, attempt, .. } = attempt(step, next);
    Body::Retry(Retry {
        agent,
        step,
        state,
        attempt,
        until: Timestamp::UNIX_EPOCH,
        error: "exit code 1".to_owned(),
        stderr: String::new(),
        message: None,
        attempt_cost_usd: Usd::ZERO,
        cost_estimated: false,
        tokens: Default::default(),
        next_try: NextTry::FromTheStart,
    })
}

#[test]
fn the_files_of_ended_attempts_come_under_the_names_that_local_ones_have() {
    let mut scene = Scene::new(10);
    scene.step(1);
    scene.fleet.leaves(2, 1, scene.archive("first try"));
    scene.fleet.leaves(2, 2, scene.archive("second try"));
    scene.happens(vec![started(2, 1)]);
    assert_eq!(scene.catch_up(), Ok(true));
    assert_eq!(scene.outputs(), ["main_A_1.stdout.txt"], "the other one still runs");
    scene.happens(vec![retry(2, 2)]);
    assert_eq!(scene.catch_up(), Ok(true));
    assert_eq!(scene.text("main_A_2.stdout.txt"), "first try");
    scene.happens(vec![started(2, 2)]);
    scene.happens(vec![failed(2)]);
    assert_eq!(scene.catch_up(), Ok(true));
    assert_eq!(scene.text("main_A_2.2.stdout.txt"), "second try");
    assert_eq!(scene.text("main_A_2.2.error.txt"), "exit code 1\n");
    let log = scene.text("transitions.log");
    assert_eq!(log.lines().count(), 2, "{log}");
    assert_eq!(scene.fleet.asked(), BTreeSet::from([(1, 1), (2, 1), (2, 2)]));
    assert_eq!(scene.catch_up(), Ok(true));
    assert_eq!(scene.fleet.asked(), BTreeSet::new());
}

#[test]
fn files_of_a_lost_attempt_that_come_late_are_fetched_with_the_end_of_the_step() {
    let mut scene = Scene::new(10);
    scene.happens(vec![started(1, 1), retry(1, 2)]);
    assert_eq!(scene.catch_up(), Ok(true));
    assert_eq!(scene.outputs(), [""; 0]);
    (1..=2).for_each(|attempt| scene.fleet.leaves(1, attempt, scene.archive("late")));
    scene.happens(vec![started(1, 2), finished(1)]);
    assert_eq!(scene.catch_up(), Ok(true));
    assert_eq!(scene.outputs(), ["main_A_1.2.stdout.txt", "main_A_1.stdout.txt"]);
}

#[test]
fn of_a_run_that_is_far_ahead_only_what_is_kept_is_fetched() {
    let mut scene = Scene::new(3);
    for step in 1..=50 {
        match step {
            7 => {
                (1..=2).for_each(|attempt| scene.fleet.leaves(7, attempt, scene.archive("it failed")));
                scene.happens(vec![started(7, 1), retry(7, 2), started(7, 2), failed(7)]);
            }
            _ => scene.step(step),
        }
    }
    assert_eq!(scene.catch_up(), Ok(true));
    assert_eq!(scene.fleet.asked(), BTreeSet::from([(7, 1), (7, 2), (48, 1), (49, 1), (50, 1)]));
    scene.step(51);
    assert_eq!(scene.catch_up(), Ok(true));
    let kept = ["main_A_49", "main_A_50", "main_A_51", "main_A_7.2", "main_A_7"];
    assert_eq!(scene.outputs(), kept.map(|name| format!("{name}.stdout.txt")));
    assert_eq!(scene.text("transitions.log").lines().count(), 51);
}

#[test]
fn what_was_not_copied_because_the_store_was_away_comes_later() {
    let mut scene = Scene::new(100);
    (1..=20).for_each(|step| scene.step(step));
    scene.fleet.is_away(true);
    assert_eq!(scene.catch_up(), Err("does not answer: no route".to_owned()));
    scene.fleet.is_away(false);
    let run = scene.store.run("r").unwrap();
    let mut first = DebugCopy::of(scene.fleet, run, &scene.rules).unwrap();
    assert!(!first.copy_some().unwrap());
    // Another process goes on, and then the first one again.
    assert_eq!(scene.catch_up(), Ok(true));
    scene.step(21);
    assert_eq!(first.catch_up(&|| true), Ok(true));
    assert_eq!(scene.outputs().len(), 21);
    assert_eq!(scene.text("transitions.log").lines().count(), 21);
    assert_eq!(first.catch_up(&|| false), Ok(false));
}

#[test]
fn what_is_refused_or_missing_does_not_keep_the_rest_away() {
    let mut scene = Scene::new(10);
    (1..=3).for_each(|step| scene.step(step));
    scene.fleet.leaves(1, 1, b"no archive".to_vec());
    scene.fleet.loses(2, 1);
    assert_eq!(scene.catch_up(), Ok(true));
    assert_eq!(scene.outputs(), ["main_A_3.stdout.txt"]);
}

#[test]
fn a_run_without_debug_files_leaves_no_folder() {
    let mut scene = Scene::with(10, |started| started.options.no_debug = true);
    scene.step(1);
    assert_eq!(scene.catch_up(), Ok(true));
    assert_eq!(scene.fleet.asked(), BTreeSet::new());
    assert!(!scene.folder().exists());
}

#[test]
fn one_step_can_be_brought_alone() {
    let mut scene = Scene::new(1);
    (1..=9).for_each(|step| scene.step(step));
    let bring = |step| {
        let run = scene.store.run("r").unwrap();
        bring_step(scene.fleet, &*scene.store, &*run, step, &scene.rules).unwrap();
    };
    bring(4);
    bring(4);
    assert_eq!(scene.fleet.asked(), BTreeSet::from([(4, 1)]));
    assert_eq!(scene.text("main_A_4.stdout.txt"), "said by 4");
    // It counts as the others do when more are kept than should be.
    assert_eq!(scene.catch_up(), Ok(true));
    assert_eq!(scene.outputs(), ["main_A_9.stdout.txt"]);
}

#[test]
fn a_keeper_copies_until_the_run_is_over() {
    let mut scene = Scene::new(10);
    let keeper = DebugKeeper::start(scene.fleet, scene.store.run("r").unwrap(), scene.rules.clone());
    scene.step(1);
    while scene.outputs().is_empty() {
        std::thread::yield_now();
    }
    scene.step(2);
    keeper.finish();
    assert_eq!(scene.outputs().len(), 2);
}
