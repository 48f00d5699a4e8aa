//! What a job may not need.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fs;
use std::io::Write;
use std::path::Path;
use std::rc::Rc;

use raymond_core::decide;
use raymond_core::event::{Body, Event, FORMAT_VERSION, RunStarted};
use raymond_core::evolve::evolve;
use raymond_core::input::{Ended, Input, Outcome, ScriptOutcome};
use raymond_core::name::AgentId;
use raymond_core::run::{Options, Run};
use raymond_core::workflow::{Platform, StateFile};

use super::*;
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

/// A run in its first state, and the start of its first step.
fn begin(scope: &Path, cwd: &Path) -> (Run, raymond_core::event::StepStarted) {
    let started = RunStarted {
        version: FORMAT_VERSION,
        workflow: "w".to_owned(),
        scope: scope.display().to_string(),
        scope_hash: None,
        entry: StateFile::new("START.sh").unwrap(),
        cwd: cwd.display().to_string(),
        nonce: "n".to_owned(),
        labels: BTreeMap::new(),
        options: Options::default(),
    };
    let mut run = None;
    let mut seq = 0;
    let mut take = |run: Option<Run>, body: Body| {
        seq += 1;
        evolve(run, &Event { seq, time: jiff::Timestamp::UNIX_EPOCH, run: "r".to_owned(), body })
    };
    for body in decide::start(started, Some("handed".to_owned())) {
        run = take(run, body);
    }
    let run = run.unwrap();
    let prepared = raymond_core::input::Prepared {
        hash: String::new(),
        plan: Plan::Script(Default::default()),
        warnings: Vec::new(),
    };
    let launch = Input::Launch { agent: AgentId::main(), prepared: Ok(prepared) };
    let events = decide::decide(&run, jiff::Timestamp::UNIX_EPOCH, launch);
    let step = events.into_iter().find_map(|body| match body {
        Body::StepStarted(started) => Some(started),
        _ => None,
    });
    (run, step.unwrap())
}

fn prepare(run: &Run, archive: &Path, tasks: &Path) -> (Plan, StepNeeds) {
    let scope = Scope::open(archive, Platform::current()).unwrap();
    let allowed = Allowed::new(&scope, archive.parent().unwrap(), &[]);
    let mut preparer = Preparer {
        scopes: Rc::new(RefCell::new(Scopes::new(scope, Platform::current(), allowed))),
        options: Options::default(),
        payloads: Payloads::none(),
        backends: Backends::new(&BTreeMap::new()).unwrap(),
        tasks: tasks.to_owned(),
    };
    let agent = &run.agents[&AgentId::main()];
    let (prepared, needs) = preparer.prepare(run, agent).unwrap().unwrap();
    (prepared.plan, needs)
}

async fn carry_out(job: StepJob, scratch: &Path) -> Box<Ended> {
    let (sender, mut messages) = mailbox();
    let mut steps = LocalSteps::new(LocalExecutor {
        platform: Platform::current(),
        scratch: scratch.to_owned(),
        unpacked: Unpacked::new(scratch.to_owned()),
        groups: Groups::new(scratch),
        reaper: Reaper::start().unwrap(),
        debug: DebugFolder::off(),
        secrets: Secrets::default(),
        backends: Backends::new(&BTreeMap::new()).unwrap(),
        messages: sender,
        shows_output: false,
        view: None,
    });
    steps.start(job);
    loop {
        if let Some(Message::Input(Input::Ended(ended))) = messages.recv().await {
            assert!(!steps.is_busy(), "its end is reported when it has ended");
            return ended;
        }
    }
}

/// Where the step was prepared, neither the workflow nor the state folder is needed to carry it out.
#[cfg(unix)]
#[test]
fn a_job_needs_neither_the_project_nor_the_state_folder() {
    let project = tempfile::tempdir().unwrap();
    let elsewhere = tempfile::tempdir().unwrap();
    let archive = project.path().join("w.zip");
    write_archive(&archive);
    let (run, started) = begin(&archive, elsewhere.path());
    let (plan, needs) = prepare(&run, &archive, elsewhere.path());
    drop(project);
    assert!(!archive.exists());
    let agent = run.agents[&AgentId::main()].clone();
    let job = StepJob::new("n", StepLaunch { started, agent, plan, job: needs });
    assert_eq!(job.attempt.token, "n-1-1");
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let local = tokio::task::LocalSet::new();
    let ended = local.block_on(&runtime, carry_out(job, elsewhere.path()));
    let Outcome::Script(ScriptOutcome::Exited { reading: Ok(reading), .. }) = &ended.outcome else {
        panic!("{ended:?}");
    };
    assert_eq!(
        reading.transition,
        raymond_core::transition::Transition::Result { payload: "packed handed handed".to_owned() }
    );
}
