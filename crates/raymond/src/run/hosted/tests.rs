#![cfg(unix)]

use std::fs;

use raymond_core::decide;
use raymond_core::event::{FORMAT_VERSION, RunStarted};
use raymond_core::input::{
    BadMessage, CompletedTurn, FaultClass, Lookups, PromptPlan, ScriptOutcome, StepOutcome, TurnCost,
    TurnOutcome,
};
use raymond_core::limits::MAX_INLINE_PAYLOAD_BYTES;
use raymond_core::name::AgentId;
use raymond_core::payload::Payload;
use raymond_core::run::Options;
use raymond_core::transition::Transition;
use raymond_core::workflow::StateFile;

use super::*;
use crate::run::engine::{Command, Engine, Preparation};
use crate::run::frozen::{FrozenStates, MachineFacts};
use crate::store::memory::MemoryStore;
use crate::store::{JournalOptions, RunStore, reference_to};
use crate::view::debug::{BroughtFiles, StepName};

/// States as a run elsewhere has them, and the backends of the agent's machine, as far as these are known.
struct Frozen(FrozenStates, Payloads, Option<Vec<String>>);

impl States for Frozen {
    type Job = ();

    fn prepare(&mut self, run: &Run, agent: &Agent) -> Result<Preparation<()>, StoreError> {
        let machine = self.2.as_ref().map(|backends| MachineFacts { name: "m", backends });
        let prepared = self.0.prepare(run, agent, &self.1, Path::new("/home/me"), machine)?;
        Ok(prepared.map(|prepared| (prepared, ())))
    }
}

/// The first order of a run of this script, which was started in `/home/me`.
fn order(script: &str, folder: &Path) -> (StepOrder, Roots) {
    order_of(("START.sh", script), folder, &Backends::built_in(), None)
}

/// The first order of a run of this state.
fn order_of(
    (name, text): (&str, &str),
    folder: &Path,
    backends: &Backends,
    installed: Option<Vec<String>>,
) -> (StepOrder, Roots) {
    let roots = Roots { workflows: folder.join("workflows"), folder: folder.join("agent") };
    let workflow = roots.workflow_of("/home/me/wf");
    fs::create_dir_all(&workflow).unwrap();
    fs::create_dir_all(roots.folder_of("/home/me/sub")).unwrap();
    fs::write(workflow.join(name), text).unwrap();
    let options = Options::default();
    let states = FrozenStates::read(std::slice::from_ref(&workflow), &options, backends);
    // They were read where the run was started.
    let states = serde_json::to_string(&states.unwrap()).unwrap().replace(&as_text(&roots.workflows), "");
    let states: FrozenStates = serde_json::from_str(&states).unwrap();
    let started = RunStarted {
        version: FORMAT_VERSION,
        workflow: "wf".to_owned(),
        scope: "/home/me/wf".to_owned(),
        scope_hash: None,
        entry: StateFile::new(name).unwrap(),
        cwd: "/home/me".to_owned(),
        // Runs that have one in common end each other's processes.
        nonce: folder.file_name().unwrap().to_string_lossy().into_owned(),
        labels: BTreeMap::new(),
        inputs: BTreeMap::new(),
        options,
        moved: Default::default(),
        origin: None,
    };
    let writer = MemoryStore::default().create("r", JournalOptions::default()).unwrap();
    let opening = decide::start(started.clone(), None);
    let (mut engine, _) = Engine::create("r", Timestamp::UNIX_EPOCH, opening, writer).unwrap();
    let mut states = Frozen(states, Payloads::new(Handed(BTreeMap::new())), installed);
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
        let run = HostedRun::open("r", &scratch, Backends::built_in(), grace, debug).unwrap();
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
    assert_eq!(*text, "so far".into());
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
        let run = HostedRun::open("r", &scratch, Backends::built_in(), grace, Some(debug)).unwrap();
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

/// The backends `a`, `b` and `c`, of which only `there` have programs.
fn backends(there: &[&str]) -> Backends {
    let settings = |name: &str| {
        let program = if there.contains(&name) { "sh" } else { "/no/such/program" };
        let toml = format!("kind = 'command'\ncommand = '{program}'\nmodel = 'model of {name}'\n");
        (name.to_owned(), toml::from_str(&toml).unwrap())
    };
    let backend = ["a", "b", "c"].map(settings).into();
    Backends::new(&crate::config::Config { backend, ..Default::default() }).unwrap()
}

fn names(given: &str) -> Vec<String> {
    given.chars().map(|name| name.to_string()).collect()
}

#[test]
fn a_turn_goes_to_the_first_backend_that_its_machine_is_known_to_have() {
    let cases = [
        (None, "a", "bc"),
        (Some("abc"), "a", "bc"),
        (Some("bc"), "b", "c"),
        (Some("c"), "c", ""),
        // A machine that has none is asked once more.
        (Some(""), "a", "bc"),
    ];
    for (installed, backend, fallbacks) in cases {
        let folder = tempfile::tempdir().unwrap();
        let text = "---\nbackend: [a, b, c]\n---\nBegin.\n";
        let all = backends(&["a", "b", "c"]);
        let (order, roots) = order_of(("START.md", text), folder.path(), &all, installed.map(names));
        let Plan::Prompt(plan) = &order.plan else { panic!("{:?}", order.plan) };
        assert_eq!((&*plan.backend, &plan.fallbacks), (backend, &names(fallbacks)), "{installed:?}");
        let turn = order.started.turn.as_ref().unwrap();
        assert_eq!(turn.backend.as_deref(), Some(backend));
        assert_eq!(turn.model, Some(format!("model of {backend}")));
        // The machine stays with the choice, although it has all of them by now.
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let needs = tokio::task::LocalSet::new().block_on(&runtime, async {
            let scratch = folder.path().join("scratch");
            let run = HostedRun::open("r", &scratch, all, Duration::from_secs(5), None).unwrap();
            run.prepare(&order, &roots).unwrap().2
        });
        assert_eq!(needs.turn.unwrap().backend, backend, "{installed:?}");
    }
}

#[test]
fn a_machine_says_which_programs_it_lacks() {
    let list = |backend: &str, fallbacks: &str| {
        let (backend, fallbacks) = (backend.to_owned(), names(fallbacks));
        Plan::Prompt(Box::new(PromptPlan { backend, fallbacks, ..Default::default() }))
    };
    let cases = [
        (list("a", "bc"), "a", None),
        (list("a", "bc"), "c", Some("the program of the backend `a` is not on the machine m")),
        (list("a", "b"), "", Some("the programs of the backends `a`, `b` are not on the machine m")),
        // It is started, because it may be there all the same: its path may begin in the agent's folder.
        (list("a", ""), "", None),
    ];
    for (plan, installed, expected) in cases {
        let report = StepReport::not_installed(&plan, &names(installed), "m");
        let error = report.map(|report| match report.outcome {
            StepOutcome::Turn(TurnOutcome::Failed(turn)) if turn.class == FaultClass::NotInstalled => {
                turn.error
            }
            other => panic!("{other:?}"),
        });
        assert_eq!(error.as_deref(), expected, "{plan:?} {installed}");
    }
}

/// Otherwise a usage limit would lead to a backend that is not there, and not to a wait.
#[test]
fn a_turn_is_not_handed_on_to_a_backend_that_its_machine_lacks() {
    let folder = tempfile::tempdir().unwrap();
    let text = "---\nbackend: [a, b, c]\n---\nBegin.\n";
    let (order, _) = order_of(("START.md", text), folder.path(), &backends(&["a", "c"]), None);
    let mut report = StepReport::not_started(&order.plan, "broke".to_owned());
    report.backends = Some(names("ac"));
    let Some(Input::Ended(ended)) = report.into_inputs(&order.started, order.plan).pop() else {
        panic!("an end")
    };
    let Plan::Prompt(plan) = &ended.plan else { panic!("a prompt") };
    assert_eq!((&*plan.backend, &plan.fallbacks), ("a", &names("c")));
}

#[test]
fn long_texts_are_taken_out_of_a_report_and_short_ones_stay() {
    let (mut report, _) = report(
        "long=$(head -c 70000 /dev/zero | tr '\\0' x)\n\
         echo \"<print>short</print><print>$long</print><goto input=\\\"$long\\\">START</goto>\"\n",
    );
    let taken = report.take_texts(MAX_INLINE_PAYLOAD_BYTES).unwrap();
    let reference = reference_to(&"x".repeat(70_000)).unwrap();
    let Payload::Stored { payload: hash, .. } = &reference else { panic!("stored") };
    assert_eq!(taken.iter().map(|(hash, text)| (hash, text.len())).collect::<Vec<_>>(), [(hash, 70_000)]);
    assert!(matches!(&report.said[..], [Said::Print(short), Said::Print(long)]
        if short.text() == Some("short") && *long == reference));
    let StepOutcome::Script(ScriptOutcome::Exited { reading: Ok(reading), .. }) = &report.outcome else {
        panic!("{:?}", report.outcome)
    };
    assert!(matches!(&reading.transition, Transition::Goto(jump) if jump.input.as_ref() == Some(&reference)));
}

#[test]
fn a_message_that_is_taken_out_leaves_its_last_lines() {
    let text = format!("{}\nthe end", "x".repeat(70_000));
    let turn = CompletedTurn {
        reading: Err(BadMessage { problem: "no tag".to_owned(), has_no_tag: true }),
        other_case: Vec::new(),
        message: text.clone().into(),
        last_lines: None,
        file: None,
        session: None,
        cost: TurnCost::default(),
        warnings: Vec::new(),
    };
    let outcome = StepOutcome::Turn(TurnOutcome::Completed(turn));
    let mut report =
        StepReport { duration_ms: 0, outcome, lookups: Lookups::default(), said: Vec::new(), backends: None };
    let taken = report.take_texts(MAX_INLINE_PAYLOAD_BYTES).unwrap();
    assert_eq!(taken.into_values().collect::<Vec<_>>(), [text]);
    let StepOutcome::Turn(TurnOutcome::Completed(turn)) = report.outcome else { panic!("a turn") };
    assert!(turn.last_lines.is_some_and(|lines| lines.ends_with("\nthe end")));
}

/// A worker serves many runs, one after another. Each has open files and a thread.
#[test]
fn a_run_that_is_dropped_leaves_nothing_open() {
    let folder = tempfile::tempdir().unwrap();
    let (order, roots) = order("echo '<result>x</result>'\n", folder.path());
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    tokio::task::LocalSet::new().block_on(&runtime, async {
        let scratch = folder.path().join("scratch");
        let run = HostedRun::open("r", &scratch, Backends::built_in(), Duration::from_secs(5), None).unwrap();
        run.start(order, &roots).await.unwrap();
        let (steps, waiting) = (Rc::downgrade(&run.steps), Rc::downgrade(&run.waiting));
        drop(run);
        assert!(steps.upgrade().is_none(), "its executor stays");
        // The task that passes on what steps say ends by itself.
        for _ in 0..10 {
            tokio::task::yield_now().await;
        }
        assert!(waiting.upgrade().is_none(), "a task stays");
    });
}

/// A worker makes the folder of an agent anew when the agent comes back from another machine.
#[test]
fn a_repository_that_is_made_anew_has_snapshots_too() {
    let script = "git init -q . && git -c user.name=n -c user.email=e commit -q --allow-empty -m first\n\
        echo x > file; echo '<result>x</result>'\n";
    let folder = tempfile::tempdir().unwrap();
    let (mut order, roots) = order(script, folder.path());
    order.run.options.snapshots = true;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    tokio::task::LocalSet::new().block_on(&runtime, async {
        let scratch = folder.path().join("scratch");
        let run = HostedRun::open("r", &scratch, Backends::built_in(), Duration::from_secs(5), None).unwrap();
        for _ in 0..2 {
            let _ = fs::remove_dir_all(&roots.folder);
            let project = roots.folder_of("/home/me");
            fs::create_dir_all(&project).unwrap();
            crate::git::Git::in_no_repository(&project).text(&["init", "--quiet"]).unwrap();
            let done = run.start(order.clone(), &roots).await.unwrap();
            let snapshot = done.report.lookups.snapshot.expect("a snapshot");
            let git = crate::git::Git::in_folder(&project);
            assert_eq!(git.text(&["ls-tree", "--name-only", &snapshot.commit]).unwrap(), "file");
            assert!(done.report.said.is_empty(), "{:?}", done.report.said);
        }
    });
}

#[test]
fn a_warning_about_snapshots_is_told() {
    let (done, _) = done("echo '<result>x</result>'\n", |options| options.snapshots = true);
    let [Said::Warning(warning)] = done.report.said.as_slice() else { panic!("{:?}", done.report.said) };
    assert!(warning.starts_with("no snapshots of /home/me: "), "{warning}");
}

#[test]
fn what_a_failed_attempt_has_left_is_ended_even_if_its_run_is_dropped() {
    let folder = tempfile::tempdir().unwrap();
    let (order, roots) = order("sleep 1000 >/dev/null 2>&1 & echo $! > pid; echo no tag\n", folder.path());
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    tokio::task::LocalSet::new().block_on(&runtime, async {
        let scratch = folder.path().join("scratch");
        let run = HostedRun::open("r", &scratch, Backends::built_in(), Duration::from_secs(5), None).unwrap();
        run.start(order, &roots).await.unwrap();
        drop(run);
        let pid = fs::read_to_string(roots.folder_of("/home/me/pid")).unwrap();
        let status = format!("/proc/{}/status", pid.trim());
        let lives = || fs::read_to_string(&status).is_ok_and(|text| !text.contains("State:\tZ"));
        let ends = async {
            while cfg!(target_os = "linux") && lives() {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        tokio::time::timeout(Duration::from_secs(60), ends).await.expect("it ends");
    });
}

#[test]
fn a_full_disk_is_a_shortage_and_other_trouble_fails_the_step() {
    use std::io::ErrorKind::{PermissionDenied, QuotaExceeded, ReadOnlyFilesystem, StorageFull};
    let cases =
        [(StorageFull, true), (QuotaExceeded, true), (ReadOnlyFilesystem, true), (PermissionDenied, false)];
    for (kind, is_shortage) in cases {
        let trouble = Trouble::new("write", Path::new("/tasks/main/input"), &io::Error::from(kind));
        let folder = tempfile::tempdir().unwrap();
        let (order, roots) = order("echo '<result>x</result>'\n", folder.path());
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let done = tokio::task::LocalSet::new().block_on(&runtime, async {
            let scratch = folder.path().join("scratch");
            let grace = Duration::from_secs(5);
            let run = HostedRun::open("r", &scratch, Backends::built_in(), grace, None).unwrap();
            let (agent, scopes, _) = run.prepare(&order, &roots).unwrap();
            let ended = Ended {
                agent: agent.id.clone(),
                step: 1,
                attempt: 1,
                duration_ms: 1,
                plan: order.plan.clone(),
                outcome: StepOutcome::Interrupted { cost: Default::default() },
                lookups: Lookups::default(),
            };
            let (report, done) = oneshot::channel();
            let (debug, secrets) = (DebugFolder::off(), run.secrets.clone());
            let (said, shortage) = (Vec::new(), None);
            let waiting = Waiting { order, agent, scopes, roots, debug, secrets, said, shortage, report };
            waiting.finish(ended, Some(trouble));
            done.await.unwrap()
        });
        let was_interrupted = matches!(done.report.outcome, StepOutcome::Interrupted { .. });
        assert_eq!((done.shortage.is_some(), was_interrupted), (is_shortage, is_shortage), "{kind}");
    }
}
