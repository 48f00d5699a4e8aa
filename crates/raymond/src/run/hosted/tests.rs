#![cfg(unix)]

use std::fs;

use raymond_core::decide;
use raymond_core::event::FORMAT_VERSION;
use raymond_core::run::Options;
use raymond_core::transition::Transition;
use raymond_core::workflow::StateFile;

use super::*;
use crate::run::engine::{Command, Engine, Preparation};
use crate::run::frozen::FrozenStates;
use crate::store::memory::MemoryStore;
use crate::store::{JournalOptions, RunStore};

/// States as a run elsewhere has them.
struct Frozen(FrozenStates, Payloads);

impl States for Frozen {
    type Job = ();

    fn prepare(&mut self, run: &Run, agent: &Agent) -> Result<Preparation<()>, StoreError> {
        let prepared = self.0.prepare(run, agent, &self.1, Path::new("/home/me"))?;
        Ok(prepared.map(|prepared| (prepared, ())))
    }
}

/// The first order of a run of this script, which was started in `/home/me`.
fn order(script: &str, folder: &Path) -> (StepOrder, Roots) {
    let roots = Roots { workflows: folder.join("workflows"), folder: folder.join("agent") };
    let workflow = roots.workflow_of("/home/me/wf");
    fs::create_dir_all(&workflow).unwrap();
    fs::create_dir_all(roots.folder_of("/home/me/sub")).unwrap();
    fs::write(workflow.join("START.sh"), script).unwrap();
    let options = Options::default();
    let states = FrozenStates::read(std::slice::from_ref(&workflow), &options, &Backends::built_in());
    // They were read where the run was started.
    let states = serde_json::to_string(&states.unwrap()).unwrap().replace(&as_text(&roots.workflows), "");
    let states: FrozenStates = serde_json::from_str(&states).unwrap();
    let started = RunStarted {
        version: FORMAT_VERSION,
        workflow: "wf".to_owned(),
        scope: "/home/me/wf".to_owned(),
        scope_hash: None,
        entry: StateFile::new("START.sh").unwrap(),
        cwd: "/home/me".to_owned(),
        nonce: "nonce".to_owned(),
        labels: BTreeMap::new(),
        inputs: BTreeMap::new(),
        options,
        moved: Default::default(),
        origin: None,
    };
    let writer = MemoryStore::default().create("r", JournalOptions::default()).unwrap();
    let opening = decide::start(started.clone(), None);
    let (mut engine, _) = Engine::create("r", Timestamp::UNIX_EPOCH, opening, writer).unwrap();
    let mut states = Frozen(states, Payloads::new(Handed(BTreeMap::new())));
    let round = engine.round(Timestamp::UNIX_EPOCH, [], &mut states).unwrap();
    let Some(Command::Launch(launch)) = round.commands.into_iter().next() else { panic!("a launch") };
    let order = StepOrder {
        id: "r".to_owned(),
        run: Box::new(started),
        project: "/home/me".to_owned(),
        workflow_paths: Vec::new(),
        cd_paths: Vec::new(),
        agent: launch.agent,
        started: launch.started,
        plan: launch.plan,
        payloads: BTreeMap::new(),
    };
    // Orders travel as text.
    (serde_json::from_str(&serde_json::to_string(&order).unwrap()).unwrap(), roots)
}

fn report(script: &str) -> (StepReport, tempfile::TempDir) {
    let folder = tempfile::tempdir().unwrap();
    let (order, roots) = order(script, folder.path());
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let done = tokio::task::LocalSet::new().block_on(&runtime, async {
        let scratch = folder.path().join("scratch");
        let run = HostedRun::open("r", &scratch, Backends::built_in(), Duration::from_secs(5), true).unwrap();
        run.start(order, &roots).await.unwrap()
    });
    let text = serde_json::to_string(&done.report).unwrap();
    (serde_json::from_str(&text).unwrap(), folder)
}

#[test]
fn an_attempt_runs_in_the_agents_own_folder_and_reports_paths_of_the_run() {
    let (report, folder) = report("echo $PWD > sub/here; echo '<reset cd=\"sub\">START</reset>'\n");
    let here = fs::read_to_string(folder.path().join("agent/home/me/sub/here")).unwrap();
    assert!(here.trim_end().ends_with("agent/home/me"), "{here}");
    assert_eq!(report.lookups.directory("sub").unwrap(), "/home/me/sub");
    let StepOutcome::Script(ScriptOutcome::Exited { reading: Ok(reading), .. }) = &report.outcome else {
        panic!("{:?}", report.outcome)
    };
    assert!(matches!(reading.transition, Transition::Reset { .. }));
}

#[test]
fn an_error_names_paths_of_the_run() {
    let (report, _) = report("echo '<reset cd=\"none\">START</reset>'\n");
    assert_eq!(
        report.lookups.directory("none").unwrap_err(),
        "`cd=\"none\"`: there is no folder /home/me/none"
    );
}

#[test]
fn what_was_printed_comes_before_the_end() {
    let (report, _) = report("echo '<print>so far</print><result>x</result>'\n");
    let [Said::Print(text)] = report.said.as_slice() else { panic!("{:?}", report.said) };
    assert_eq!(text, "so far");
}

#[test]
fn a_workflow_that_was_not_copied_is_missing_with_the_reason() {
    let (report, _) = report("echo '<call-workflow return=\"START\">../other</call-workflow>'\n");
    let error = report.lookups.scopes["../other"].as_ref().unwrap_err();
    assert_eq!(*error, format!("there is no workflow `../other`; {ONLY_NAMED}"));
}

#[test]
fn a_workflow_may_be_named_by_its_path_where_the_run_was_started() {
    let script = "other=../../../workflows/home/me/other; mkdir -p $other; touch $other/START.sh\n\
        echo '<call-workflow return=\"START\">/home/me/other</call-workflow>'\n";
    let (report, _) = report(script);
    assert_eq!(report.lookups.scopes["/home/me/other"].as_ref().unwrap().scope, "/home/me/other");
}

#[test]
fn a_worktree_is_described_with_paths_of_the_run() {
    let script = "git init -q . && git -c user.name=n -c user.email=e commit -q --allow-empty -m first\n\
        echo '<fork worktree=\"one\" next=\"START\">START</fork>'\n";
    let (report, _) = report(script);
    let new = report.lookups.worktrees.values().next().unwrap().as_ref().unwrap();
    assert_eq!(new.worktree.repository, "/home/me/.git");
    assert_eq!([&*new.worktree.path, &*new.cwd], ["/home/me/.raymond/worktrees/r/one"; 2]);
}
