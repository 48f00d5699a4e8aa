//! What a job must not need, and which agent programs are supported.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fs;
use std::io::Write;
use std::path::Path;
use std::rc::Rc;
use std::time::SystemTime;

use raymond_core::decide;
use raymond_core::event::{Body, Event, FORMAT_VERSION, RunStarted};
use raymond_core::evolve::evolve;
use raymond_core::input::{Ended, Input, Prepared, ScriptOutcome, StepOutcome, TurnOutcome};
use raymond_core::name::AgentId;
use raymond_core::run::{Options, Run};
use raymond_core::workflow::{Platform, StateFile};
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::*;
use crate::agent::testing::Threads;
use crate::agent::{AgentProgram, Capabilities};
use crate::run::engine::{States, StepLaunch};
use crate::run::job::StepNeeds;
use crate::run::mailbox::mailbox;
use crate::run::prepare::Preparer;
use crate::store::Payloads;
use crate::workflow::scope::Scope;
use crate::workflow::scopes::{Allowed, Scopes};

const SCRIPT: &str = "read -r word < \"$(dirname \"$RAYMOND_STATE_FILE\")/word.txt\"\n\
                      printf '<result>%s %s %s</result>' \"$word\" \"$RAYMOND_INPUT\" \"$(cat \"$RAYMOND_INPUT_FILE\")\"\n";

fn write_archive(path: &Path) {
    let mut archive = zip::ZipWriter::new(fs::File::create(path).unwrap());
    for (name, text) in [("START.sh", SCRIPT), ("word.txt", "packed\n")] {
        archive.start_file(name, zip::write::SimpleFileOptions::default()).unwrap();
        archive.write_all(text.as_bytes()).unwrap();
    }
    archive.finish().unwrap();
}

/// A run that applies events as they arrive.
struct Course {
    run: Option<Run>,
    seq: u64,
}

impl Course {
    /// In its first state.
    fn begin(scope: &Path, cwd: &Path, entry: &str) -> Self {
        let started = RunStarted {
            version: FORMAT_VERSION,
            workflow: "w".to_owned(),
            scope: scope.display().to_string(),
            scope_hash: None,
            entry: StateFile::new(entry).unwrap(),
            cwd: cwd.display().to_string(),
            // Programs are found by it, so no two tests may share one.
            nonce: uuid::Uuid::new_v4().to_string(),
            inputs: Default::default(),
            labels: BTreeMap::new(),
            options: Options::default(),
            moved: Default::default(),
            origin: None,
        };
        let mut course = Self { run: None, seq: 0 };
        course.apply(decide::start(started, Some("handed".to_owned())));
        course
    }

    fn run(&self) -> &Run {
        self.run.as_ref().unwrap()
    }

    fn apply(&mut self, bodies: Vec<Body>) -> Vec<Body> {
        for body in &bodies {
            self.seq += 1;
            let time = jiff::Timestamp::UNIX_EPOCH;
            let event = Event { seq: self.seq, time, run: "r".to_owned(), body: body.clone() };
            self.run = evolve(self.run.take(), &event);
        }
        bodies
    }

    fn take(&mut self, input: Input) -> Vec<Body> {
        let bodies = decide::decide(self.run(), jiff::Timestamp::UNIX_EPOCH, input);
        self.apply(bodies)
    }

    /// Starts the step of the first agent.
    fn launch(&mut self, scope: &Path, tasks: &Path, backends: &Backends) -> StepJob {
        let (prepared, needs) = prepare(self.run(), scope, tasks, backends);
        let plan = prepared.plan.clone();
        let events = self.take(Input::Launch { agent: AgentId::main(), prepared: Ok(prepared) });
        let step = events.into_iter().find_map(|body| match body {
            Body::StepStarted(started) => Some(started),
            _ => None,
        });
        let agent = self.run().agents[&AgentId::main()].clone();
        let nonce = &self.run().nonce;
        StepJob::new(nonce, "place", StepLaunch { started: step.unwrap(), agent, plan, job: needs })
    }
}

fn prepare(run: &Run, scope: &Path, tasks: &Path, backends: &Backends) -> (Prepared, StepNeeds) {
    let own = Scope::open(scope, Platform::current()).unwrap();
    let allowed = Allowed::new(&own, scope.parent().unwrap(), &[]);
    let mut preparer = Preparer {
        scopes: Rc::new(RefCell::new(Scopes::new(own, Platform::current(), allowed))),
        options: Options::default(),
        payloads: Payloads::none(),
        backends: backends.clone(),
        tasks: tasks.to_owned(),
        project: scope.to_owned(),
        keeps_portable: false,
    };
    let agent = &run.agents[&AgentId::main()];
    preparer.prepare(run, agent).unwrap().unwrap()
}

/// A value as another machine reads it.
fn through_text<T: Serialize + DeserializeOwned>(value: &T) -> T {
    let text = serde_json::to_string(value).unwrap();
    let read: T = serde_json::from_str(&text).unwrap();
    assert_eq!(serde_json::to_string(&read).unwrap(), text);
    read
}

/// Everything that a step reports; its end is last. The job and the reports are written and read back on their way.
fn carry_out(job: StepJob, scratch: &Path, backends: &Backends) -> Vec<Input> {
    let (sender, mut messages) = mailbox();
    let mut steps = LocalSteps::new(LocalExecutor {
        began: SystemTime::now(),
        platform: Platform::current(),
        scratch: scratch.to_owned(),
        unpacked: Unpacked::new(scratch.to_owned()),
        groups: Groups::new(scratch),
        reaper: Reaper::start().unwrap(),
        debug: DebugFolder::off(),
        secrets: Secrets::default(),
        backends: backends.clone(),
        messages: sender,
        shows_output: false,
        own_program: None,
        running_groups: RefCell::default(),
        cgroups: RefCell::default(),
        gate: Gate::for_files(None),
        recorder: None,
        snapshots: None,
        busy_folders: RefCell::default(),
        view: None,
    });
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    tokio::task::LocalSet::new().block_on(&runtime, async move {
        steps.start(through_text(&job));
        let mut reports = Vec::new();
        while !matches!(reports.last(), Some(Input::Ended(_))) {
            if let Some(Message::Input(input)) = messages.recv().await {
                reports.push(through_text(&input));
            }
        }
        assert!(!steps.is_busy(), "its end was reported before it had ended");
        reports
    })
}

fn end_in(report: Option<Input>) -> Box<Ended> {
    match report {
        Some(Input::Ended(ended)) => ended,
        other => panic!("{other:?}"),
    }
}

/// A step that was prepared needs neither the workflow nor the state folder to run.
#[cfg(unix)]
#[test]
fn a_job_needs_neither_the_project_nor_the_state_folder() {
    let project = tempfile::tempdir().unwrap();
    let elsewhere = tempfile::tempdir().unwrap();
    let archive = project.path().join("w.zip");
    write_archive(&archive);
    let backends = Backends::built_in();
    let mut course = Course::begin(&archive, elsewhere.path(), "START.sh");
    let job = course.launch(&archive, elsewhere.path(), &backends);
    drop(project);
    assert!(!archive.exists());
    assert_eq!(job.attempt.token, format!("{}-place-1-1", course.run().nonce));
    let ended = end_in(carry_out(job, elsewhere.path(), &backends).pop());
    let StepOutcome::Script(ScriptOutcome::Exited { reading: Ok(reading), .. }) = &ended.outcome else {
        panic!("{ended:?}");
    };
    assert_eq!(
        reading.transition,
        raymond_core::transition::Transition::Result { payload: "packed handed handed".into() }
    );
}

const THREAD: &str = "{\"type\":\"thread\",\"id\":\"t7\"}\n\
    {\"type\":\"message\",\"text\":\"<goto>START</goto>\"}\n\
    {\"type\":\"completed\",\"input\":100,\"output\":20}\n";

/// A workflow of one prompt, with a backend of this program.
fn with_program(program: impl AgentProgram + 'static) -> (tempfile::TempDir, Course, Backends) {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("START.md"), "---\nbackend: threads\n---\nGo on.").unwrap();
    let mut backends = Backends::built_in();
    backends.add("threads", std::sync::Arc::new(program));
    let course = Course::begin(folder.path(), folder.path(), "START.md");
    (folder, course, backends)
}

/// The result of the next turn, after everything except its end is recorded.
fn next_turn(folder: &Path, course: &mut Course, backends: &Backends) -> (Vec<Body>, Box<Ended>) {
    let job = course.launch(folder, folder, backends);
    let mut reports = carry_out(job, folder, backends);
    let ended = end_in(reports.pop());
    (reports.into_iter().flat_map(|report| course.take(report)).collect(), ended)
}

#[cfg(unix)]
#[test]
fn a_session_that_the_program_chose_is_recorded_and_continued() {
    let (folder, mut course, backends) = with_program(Threads::new(THREAD));
    let (recorded, mut ended) = next_turn(folder.path(), &mut course, &backends);
    assert!(
        matches!(&recorded[..], [Body::SessionStarted(started)] if started.session == "t7"),
        "{recorded:?}"
    );
    let agent = &course.run().agents[&AgentId::main()];
    ended.lookups.states.insert("START".to_owned(), Ok(agent.state.clone()));
    let StepOutcome::Turn(TurnOutcome::Completed(turn)) = &ended.outcome else { panic!("{ended:?}") };
    assert_eq!(turn.session.as_ref().unwrap().id, "t7");
    assert_eq!(turn.cost.usd(), Usd::from_dollars(0.12));
    course.take(Input::Ended(ended));

    let job = course.launch(folder.path(), folder.path(), &backends);
    let turn = job.turn.clone().unwrap();
    assert_eq!((turn.session, turn.branch_of.as_deref()), (None, Some("t7")));
    // It reports the session that it should have left unchanged.
    let ended = end_in(carry_out(job, folder.path(), &backends).pop());
    let StepOutcome::Turn(TurnOutcome::Failed(turn)) = &ended.outcome else { panic!("{ended:?}") };
    assert!(turn.error.contains("though a branch of t7 was asked for"), "{}", turn.error);
}

#[cfg(unix)]
#[test]
fn a_program_that_cannot_branch_is_not_asked_to_continue() {
    let program = Threads::new(THREAD);
    let can = Capabilities { branch: false, ..program.can };
    let (folder, mut course, backends) = with_program(Threads { can, ..program });
    let (_, mut ended) = next_turn(folder.path(), &mut course, &backends);
    let agent = &course.run().agents[&AgentId::main()];
    ended.lookups.states.insert("START".to_owned(), Ok(agent.state.clone()));
    course.take(Input::Ended(ended));
    let (recorded, ended) = next_turn(folder.path(), &mut course, &backends);
    assert_eq!(recorded, [], "nothing was started");
    let StepOutcome::Turn(TurnOutcome::Failed(turn)) = &ended.outcome else { panic!("{ended:?}") };
    assert_eq!(turn.class, raymond_core::input::FaultClass::Final);
    assert!(turn.error.contains("the backend `threads` cannot branch a conversation"), "{}", turn.error);
}
