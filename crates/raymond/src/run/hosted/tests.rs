#![cfg(unix)]

use std::fs;

use raymond_core::decide;
use raymond_core::event::FORMAT_VERSION;
use raymond_core::name::AgentId;
use raymond_core::run::Options;
use raymond_core::transition::Transition;
use raymond_core::workflow::StateFile;

use super::*;
use crate::run::engine::{Command, Engine, Preparation};
use crate::run::frozen::FrozenStates;
use crate::store::memory::MemoryStore;
use crate::store::{JournalOptions, RunStore};
use crate::view::debug::BroughtFiles;

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
        debug_folder: Some("/home/me/.raymond/debug/r".to_owned()),
        branches: BTreeMap::new(),
    };
    // Orders travel as text.
    (serde_json::from_str(&serde_json::to_string(&order).unwrap()).unwrap(), roots)
}

fn report(script: &str) -> (StepReport, tempfile::TempDir) {
    let (done, folder) = done(script, |_| ());
    (done.report, folder)
}

fn done(script: &str, change: impl FnOnce(&mut Options)) -> (Done, tempfile::TempDir) {
    let folder = tempfile::tempdir().unwrap();
    let (mut order, roots) = order(script, folder.path());
    change(&mut order.run.options);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let done = tokio::task::LocalSet::new().block_on(&runtime, async {
        let scratch = folder.path().join("scratch");
        let debug = Some(folder.path().join("debug"));
        let grace = Duration::from_secs(5);
        let run = HostedRun::open("r", &scratch, Backends::built_in(), grace, true, debug).unwrap();
        run.start(order, &roots).await.unwrap()
    });
    let text = serde_json::to_string(&done.report).unwrap();
    (Done { report: serde_json::from_str(&text).unwrap(), ..done }, folder)
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

#[test]
fn an_attempt_leaves_debug_files_and_names_the_place_where_they_will_be() {
    let (done, folder) = done("echo no tag; echo why >&2\n", |_| ());
    let StepOutcome::Script(ScriptOutcome::Exited { shown, .. }) = &done.report.outcome else {
        panic!("{:?}", done.report.outcome)
    };
    assert_eq!(shown.file.as_deref(), Some("/home/me/.raymond/debug/r/main_START_1.stdout.txt"));
    let left = done.debug.expect("debug files");
    let archive = left.pack().unwrap();
    left.remove();
    assert_eq!(debug_files(folder.path()), ["transitions.log"]);
    let here = folder.path().join("here");
    let (agent, state) = (AgentId::main(), StateFile::new("START.sh").unwrap());
    let name = StepName { agent: &agent, state: &state, step: 1, attempt: 1 };
    DebugFolder::open(here.clone(), 1).bring(name, &BroughtFiles::unpack(&archive).unwrap());
    let text = |name: &str| fs::read_to_string(here.join(name)).unwrap();
    assert_eq!(text("main_START_1.stdout.txt"), "no tag\n");
    assert_eq!(text("main_START_1.stderr.txt"), "why\n");
    let meta: serde_json::Value = serde_json::from_str(&text("main_START_1.meta.json")).unwrap();
    assert_eq!((&meta["cwd"], &meta["exit_code"]), (&"/home/me".into(), &0.into()));
}

/// The run was resumed with `--no-debug`, and its steps are opened as before.
#[test]
fn with_no_debug_nothing_is_left() {
    let (done, folder) = done("echo no tag\n", |options| options.no_debug = true);
    let StepOutcome::Script(ScriptOutcome::Exited { shown, .. }) = &done.report.outcome else {
        panic!("{:?}", done.report.outcome)
    };
    assert_eq!(shown.file, None);
    assert!(done.debug.is_none());
    assert_eq!(debug_files(folder.path()), ["transitions.log"]);
}

#[test]
fn trouble_with_debug_files_is_a_warning() {
    let folder = tempfile::tempdir().unwrap();
    let (order, roots) = order("echo '<result>x</result>'\n", folder.path());
    fs::write(folder.path().join("debug"), "in the way").unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let done = tokio::task::LocalSet::new().block_on(&runtime, async {
        let (scratch, debug) = (folder.path().join("scratch"), folder.path().join("debug"));
        let grace = Duration::from_secs(5);
        let run = HostedRun::open("r", &scratch, Backends::built_in(), grace, false, Some(debug)).unwrap();
        run.start(order, &roots).await.unwrap()
    });
    assert!(done.report.outcome.has_succeeded());
    let [Said::Warning(warning)] = done.report.said.as_slice() else { panic!("{:?}", done.report.said) };
    assert!(warning.ends_with("no more debug files are written"), "{warning}");
}

fn debug_files(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder.join("debug")).unwrap();
    entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
}
