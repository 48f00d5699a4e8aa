use std::collections::BTreeSet;
use std::time::Duration;

use jiff::Timestamp;
use raymond_core::event::{ForkTag, LedTo, StepFailed, StepFinished, StoppedStatus, Totals};
use raymond_core::money::Usd;
use serde_json::{Value, json};
use tempfile::TempDir;

use super::*;
use crate::process::{Ending, ProcessExit, ProgramSpec};

/// A debug folder in a temporary folder, with an environment of its own.
struct Fixture {
    place: TempDir,
    keep: usize,
    folder: DebugFolder,
}

impl Fixture {
    fn new(keep: usize) -> Self {
        let place = tempfile::tempdir().unwrap();
        let folder = open(&place, keep);
        Self { place, keep, folder }
    }

    fn path(&self) -> PathBuf {
        self.place.path().join("debug").join("run")
    }

    /// The run stops, so nothing waits for new steps any more.
    fn stop(&self) {
        self.folder.transition(&event(Body::RunStopped {
            asks: Vec::new(),
            status: StoppedStatus::Interrupted,
            error: None,
            terminated: false,
            interrupted: Vec::new(),
            totals: Totals { steps: 1, agents: 1, cost_usd: Usd::ZERO, duration_ms: 1, failed_workers: 0 },
        }));
    }

    /// Opens the folder again, as a later process would.
    fn reopen(&mut self) {
        self.folder = open(&self.place, self.keep);
    }

    /// What is there when the run has stopped.
    fn files(&self) -> BTreeSet<String> {
        self.stop();
        fs::read_dir(self.path())
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .filter(|name| name != TRANSITIONS)
            .collect()
    }

    fn text(&self, name: &str) -> String {
        fs::read_to_string(self.path().join(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
    }

    fn json(&self, name: &str) -> Value {
        serde_json::from_str(&self.text(name)).unwrap()
    }

    fn begin(&self, state: &str, step: u64, attempt: u32) -> StepFiles {
        self.folder.begin(StepName { agent: &AgentId::main(), state: &state_file(state), step, attempt })
    }

    /// A script step from its start to its transition.
    fn whole_step(&self, step: u64) {
        let mut files = self.begin("A.sh", step, 1);
        files.program(&spec());
        files.stdout(b"<goto>A</goto>\n");
        files.ended(&Ending::Exited(ProcessExit::Code(0)));
        files.finish(succeeded());
        self.folder.transition(&finished("A.sh", step, goto("A.sh")));
    }

    fn failed_step(&self, step: u64) {
        let mut files = self.begin("A.sh", step, 1);
        files.ended(&Ending::Exited(ProcessExit::Code(1)));
        files.finish(failed());
        self.folder.transition(&failure("A.sh", Some(step)));
    }
}

fn open(place: &TempDir, keep: usize) -> DebugFolder {
    let environment = [("HOME", "/home/me"), ("MY_TOKEN", "hush"), ("RAYMOND_INPUT", "old")]
        .map(|(name, value)| (name.into(), value.into()));
    DebugFolder::with_environment(place.path().join("debug").join("run"), keep, environment, true)
}

fn state_file(name: &str) -> StateFile {
    StateFile::new(name).unwrap()
}

fn spec() -> ProgramSpec {
    let mut spec = ProgramSpec::new("bash", "/tmp", "nonce-1-1");
    spec.args = vec!["A.sh".into()];
    spec.env = vec![
        ("RAYMOND_RUN_ID".into(), Some("run".into())),
        ("db_password".into(), Some("hush".into())),
        ("RAYMOND_INPUT".into(), None),
    ];
    spec
}

fn succeeded() -> Verdict {
    Verdict { status: Status::Succeeded, error: None, cost_usd: Usd::ZERO }
}

fn failed() -> Verdict {
    Verdict { status: Status::Failed, error: Some("exit code 1".to_owned()), cost_usd: Usd::ZERO }
}

fn event(body: Body) -> Event {
    Event {
        seq: 1,
        time: "2026-11-15T04:22:43.9Z".parse::<Timestamp>().unwrap(),
        run: "run".to_owned(),
        body,
    }
}

fn finished_step(state: &str, step: u64, led_to: LedTo) -> StepFinished {
    StepFinished {
        agent: AgentId::main(),
        step,
        state: state_file(state),
        led_to,
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
    }
}

fn finished(state: &str, step: u64, led_to: LedTo) -> Event {
    event(Body::StepFinished(Box::new(finished_step(state, step, led_to))))
}

fn goto(target: &str) -> LedTo {
    LedTo::Goto { target: state_file(target), input: None }
}

fn failure(state: &str, step: Option<u64>) -> Event {
    event(Body::StepFailed(StepFailed {
        agent: AgentId::main(),
        title: None,
        step,
        state: state_file(state),
        error: "exit code 1\nand more".to_owned(),
        exit_code: Some(1),
        stderr: String::new(),
        message: None,
        output: String::new(),
        output_file: None,
        fatal: true,
        cost_usd: Usd::ZERO,
        attempt_cost_usd: Usd::ZERO,
        cost_estimated: false,
        tokens: Default::default(),
        duration_ms: 1,
    }))
}

fn names<const COUNT: usize>(names: [&str; COUNT]) -> BTreeSet<String> {
    names.map(str::to_owned).into()
}

#[test]
fn a_script_leaves_its_output_even_when_there_was_none() {
    let fixture = Fixture::new(10);
    fixture.whole_step(1);
    assert_eq!(fixture.files(), names(["main_A_1.meta.json", "main_A_1.stderr.txt", "main_A_1.stdout.txt"]));
    assert_eq!(fixture.text("main_A_1.stdout.txt"), "<goto>A</goto>\n");
    assert_eq!(fixture.text("main_A_1.stderr.txt"), "");
    assert_eq!(fixture.folder.take_warning(), None);
}

#[cfg(unix)]
#[test]
fn output_is_for_the_owner() {
    use std::os::unix::fs::PermissionsExt;
    let fixture = Fixture::new(10);
    fixture.whole_step(1);
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&fixture.path()), 0o700);
    assert_eq!(mode(&fixture.path().join("main_A_1.stdout.txt")), 0o600);
}

#[test]
fn the_meta_file_tells_everything_but_secrets() {
    let fixture = Fixture::new(10);
    fixture.whole_step(1);
    let mut meta = fixture.json("main_A_1.meta.json");
    let object = meta.as_object_mut().unwrap();
    assert!(object.remove("duration_ms").unwrap().is_u64());
    let started: Timestamp = object.remove("started_at").unwrap().as_str().unwrap().parse().unwrap();
    assert!(started <= Timestamp::now());
    assert_eq!(
        meta,
        json!({
            "agent": "main", "state": "A.sh", "step": 1, "attempt": 1,
            "status": "succeeded", "ending": "exited", "exit_code": 0, "cost_usd": 0.0,
            "command": ["bash", "A.sh"], "cwd": "/tmp",
            "environment": {
                "HOME": "/home/me", "MY_TOKEN": "***", "db_password": "***",
                "RAYMOND_RUN_ID": "run", "RAYMOND_STEP_TOKEN": "***",
            },
        })
    );
}

#[test]
fn a_prompt_leaves_what_was_said_and_streamed() {
    let fixture = Fixture::new(10);
    let mut files = fixture.begin("P.md", 3, 2);
    files.prompt("Do it.", &[]);
    files.stdout(b"{\"type\":");
    files.stdout(b"\"x\"}\n");
    assert_eq!(fixture.text("main_P_3.2.jsonl"), "{\"type\":\"x\"}\n", "bytes are there as they come");
    files.ended(&Ending::Exited(ProcessExit::Signal(9)));
    files.finish(Verdict { cost_usd: Usd::from_dollars(0.25), ..failed() });
    assert_eq!(fixture.files(), names(["main_P_3.2.jsonl", "main_P_3.2.meta.json", "main_P_3.2.prompt.md"]));
    assert_eq!(fixture.text("main_P_3.2.prompt.md"), "Do it.");
    let meta = fixture.json("main_P_3.2.meta.json");
    let told = ["status", "ending", "exit_code", "signal", "error", "cost_usd", "attempt"]
        .map(|field| meta[field].clone());
    assert_eq!(
        told,
        [
            json!("failed"),
            json!("signal"),
            Value::Null,
            json!(9),
            json!("exit code 1"),
            json!(0.25),
            json!(2)
        ]
    );
    let mut files = fixture.begin("P.md", 4, 1);
    files.stderr(b"oops");
    assert_eq!(fixture.text("main_P_4.stderr.txt"), "oops");
}

#[test]
fn an_attempt_that_runs_again_gets_files_of_its_own() {
    let mut fixture = Fixture::new(10);
    let state = state_file("P.md");
    let agent = AgentId::main();
    let name = StepName { agent: &agent, state: &state, step: 1, attempt: 1 };
    assert_eq!(fixture.folder.streamed(name), None);
    for (round, file) in ["main_P_1.jsonl", "main_P_1.r2.jsonl", "main_P_1.r3.jsonl"].iter().enumerate() {
        fixture.reopen();
        let mut files = fixture.folder.begin(name);
        files.prompt("again", &[]);
        files.stdout(format!("{round}").as_bytes());
        files.finish(succeeded());
        assert_eq!(fixture.folder.streamed(name), Some(fixture.path().join(file)));
    }
    assert_eq!(fixture.text("main_P_1.jsonl"), "0");
    assert_eq!(fixture.text("main_P_1.r3.jsonl"), "2");
    assert_eq!(fixture.text("main_P_1.r3.prompt.md"), "again");
    assert_eq!(fixture.json("main_P_1.r3.meta.json")["step"], 1);
}

#[test]
fn transitions_are_one_line_each() {
    let mut fixture = Fixture::new(10);
    fixture.folder.transition(&finished("START.sh", 1, goto("NEXT.sh")));
    let (target, next) = (state_file("WORK.md"), state_file("WAIT.sh"));
    let led_to = LedTo::Fork { tag: ForkTag::Fork, target, next, input: None, joins: false };
    let mut fork = finished_step("NEXT.sh", 2, led_to);
    fork.cost_usd = Usd::from_dollars(1.5);
    fixture.folder.transition(&event(Body::StepFinished(Box::new(fork))));
    fixture.reopen();
    fixture.folder.transition(&finished("WAIT.sh", 3, LedTo::End { result: "".into() }));
    fixture.folder.transition(&failure("WORK.md", Some(4)));
    fixture.folder.transition(&failure("LOST.md", None));
    fixture.folder.transition(&event(Body::BudgetExceeded { cost_usd: Usd::ZERO, budget_usd: Usd::ZERO }));
    assert_eq!(
        fixture.text(TRANSITIONS),
        "2026-11-15T04:22:43.900Z main step 1 START.sh -> NEXT.sh goto $0.00\n\
         2026-11-15T04:22:43.900Z main step 2 NEXT.sh -> WORK.md, WAIT.sh fork $1.50\n\
         2026-11-15T04:22:43.900Z main step 3 WAIT.sh -> end result $0.00\n\
         2026-11-15T04:22:43.900Z main step 4 WORK.md failed $0.00: exit code 1 …\n\
         2026-11-15T04:22:43.900Z main step - LOST.md failed $0.00: exit code 1 …\n"
    );
}

#[test]
fn the_last_steps_and_all_failed_ones_stay() {
    let mut fixture = Fixture::new(2);
    fixture.failed_step(1);
    (2..=4).for_each(|step| fixture.whole_step(step));
    fixture.failed_step(5);
    let steps = |fixture: &Fixture| -> BTreeSet<u64> {
        let files = fixture.files();
        let places = files.iter().map(|file| name::split(file).and_then(|(stem, _)| name::place(stem)));
        places.map(|place| place.unwrap().0).collect()
    };
    assert_eq!(steps(&fixture), BTreeSet::from([1, 3, 4, 5]));
    assert_eq!(fixture.text("main_A_1.error.txt"), "exit code 1\nand more\n");

    fixture.reopen();
    (6..=7).for_each(|step| fixture.whole_step(step));
    assert_eq!(steps(&fixture), BTreeSet::from([1, 5, 6, 7]), "what an earlier process wrote counts too");
    fixture.keep = 0;
    fixture.reopen();
    fixture.whole_step(8);
    assert_eq!(steps(&fixture), BTreeSet::from([1, 5]));
}

#[test]
fn a_step_that_still_runs_is_not_pruned() {
    let fixture = Fixture::new(1);
    let mut slow = fixture.begin("SLOW.sh", 1, 1);
    (2..=5).for_each(|step| fixture.whole_step(step));
    slow.stdout(b"late");
    slow.finish(failed());
    fixture.folder.transition(&failure("SLOW.sh", Some(1)));
    (6..=8).for_each(|step| fixture.whole_step(step));
    assert_eq!(fixture.text("main_SLOW_1.stdout.txt"), "late");
    assert_eq!(fixture.files().len(), 4 + 3);
}

#[test]
fn a_failure_that_could_not_be_marked_stays() {
    let mut fixture = Fixture::new(1);
    // The second attempt of the first step succeeded; the second attempt of the second step was its last and failed.
    fixture.begin("A.sh", 1, 1).finish(failed());
    fixture.begin("A.sh", 1, 2).finish(succeeded());
    fixture.begin("A.sh", 2, 1).finish(succeeded());
    fixture.begin("A.sh", 2, 2).finish(failed());
    fixture.reopen();
    (3..=5).for_each(|step| fixture.whole_step(step));
    let files = fixture.files();
    assert!(!files.iter().any(|file| file.starts_with("main_A_1")), "{files:?}");
    assert!(files.contains("main_A_2.stdout.txt") && files.contains("main_A_2.2.meta.json"));
}

#[test]
fn every_attempt_of_a_pruned_step_goes() {
    let fixture = Fixture::new(1);
    for attempt in 1..=3 {
        let mut files = fixture.begin("P.md", 1, attempt);
        files.prompt("text", &[]);
        files.stderr(b"text");
        files.finish(failed());
    }
    fixture.folder.transition(&finished("P.md", 1, goto("A.sh")));
    assert_eq!(fixture.files().len(), 12);
    fixture.whole_step(2);
    assert_eq!(fixture.files().len(), 3);
}

#[test]
fn a_file_that_is_there_is_not_overwritten() {
    let fixture = Fixture::new(0);
    fixture.whole_step(1);
    fs::write(fixture.path().join("main_A_2.stdout.txt"), "mine").unwrap();
    let mut files = fixture.begin("A.sh", 2, 1);
    files.stdout(b"new");
    assert_eq!(fixture.text("main_A_2.stdout.txt"), "mine");
    assert_eq!(fixture.text("main_A_2.r2.stdout.txt"), "new");
}

#[test]
fn other_peoples_files_are_left_alone() {
    let mut fixture = Fixture::new(0);
    fixture.whole_step(1);
    for name in ["notes.txt", "my_note.stdout.txt", "x.meta.json"] {
        fs::write(fixture.path().join(name), "mine").unwrap();
    }
    fixture.reopen();
    fixture.whole_step(2);
    assert_eq!(fixture.files(), names(["my_note.stdout.txt", "notes.txt", "x.meta.json"]));
}

#[test]
fn a_file_is_cut_with_a_last_line_that_says_so() {
    for (state, file, note) in [
        ("A.sh", "main_A_1.stdout.txt", "[raymond: the rest was not kept]"),
        ("P.md", "main_P_1.jsonl", r#"{"type":"raymond_cut","message":"the rest was not kept"}"#),
    ] {
        let fixture = Fixture::new(10);
        let mut files = fixture.begin(state, 1, 1);
        let open = files.open.as_mut().unwrap();
        let stream = open.stream;
        open.files.get_mut(&stream).unwrap().set_room(6);
        for piece in ["1234", "5678", "9"] {
            files.stdout(piece.as_bytes());
        }
        assert_eq!(fixture.text(file), format!("123456\n{note}\n"));
    }
}

#[test]
fn an_error_is_reported_once_and_ends_the_writing() {
    let fixture = Fixture::new(10);
    fs::write(fixture.place.path().join("debug"), "in the way").unwrap();
    for step in 1..=2 {
        fixture.whole_step(step);
        fixture.failed_step(step);
    }
    let warning = fixture.folder.take_warning().unwrap();
    assert!(
        warning.starts_with("cannot create the folder")
            && warning.ends_with("no more debug files are written"),
        "{warning}"
    );
    assert_eq!(fixture.folder.take_warning(), None);
}

/// On other systems a folder with open files in it cannot be removed.
#[cfg(unix)]
#[test]
fn an_error_in_one_step_ends_the_writing_for_all() {
    let fixture = Fixture::new(10);
    let (mut first, mut second) = (fixture.begin("A.sh", 1, 1), fixture.begin("A.sh", 2, 1));
    fs::remove_dir_all(fixture.path()).unwrap();
    first.stderr(b"needs a new file");
    second.stdout(b"text");
    second.finish(succeeded());
    first.finish(succeeded());
    fixture.whole_step(3);
    assert!(!fixture.path().exists());
    let warning = fixture.folder.take_warning().unwrap();
    assert!(warning.contains("main_A_1.stderr.txt"), "{warning}");
}

#[test]
fn without_debugging_nothing_is_written() {
    let folder = DebugFolder::off();
    let (agent, state) = (AgentId::main(), state_file("A.sh"));
    let mut files = folder.begin(StepName { agent: &agent, state: &state, step: 1, attempt: 1 });
    files.program(&spec());
    files.stdout(b"text");
    files.finish(succeeded());
    folder.transition(&finished("A.sh", 1, goto("A.sh")));
    assert_eq!(folder.take_warning(), None);
}

/// `cargo test --release -p raymond --lib -- --ignored --nocapture cost_of`
#[test]
#[ignore = "on demand: measures, proves nothing"]
fn cost_of_a_step_and_of_a_large_folder() {
    const STEPS: u64 = 20_000;
    let mut fixture = Fixture::new(DEFAULT_KEPT_STEPS);
    let inherited = (0..60).map(|number| (format!("VARIABLE_{number}").into(), "v".repeat(60).into()));
    fixture.folder = DebugFolder::with_environment(fixture.path(), DEFAULT_KEPT_STEPS, inherited, true);
    // Other programs use the machine too, so the fastest thousand says most.
    let mut times = (0..STEPS / 1000).map(|thousand| {
        let clock = Instant::now();
        (1..=1000).for_each(|step| fixture.whole_step(thousand * 1000 + step));
        clock.elapsed() / 1000
    });
    println!("a step before the folder is full: {:?}", times.next());
    println!("a step that removes the files of an old one: {:?}", times.min());
    println!("files kept: {}", fixture.files().len());

    let failing: u64 = 25_000;
    (0..failing).for_each(|step| fixture.failed_step(STEPS + step));
    fixture.reopen();
    let clock = Instant::now();
    let first = fixture.begin("A.sh", 1_000_000, 1);
    let took: Duration = clock.elapsed();
    drop(first);
    println!("the first step in a folder of {} files: {took:?}", fixture.files().len());
}
