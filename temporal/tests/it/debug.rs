//! What a step on another machine was told, did and answered.

use std::fs;
use std::process::Output;

use crate::harness::{Rig, count, eventually};

/// A backend that answers with what it was asked, and says on stderr that it did.
const ECHO: &str = "[backend.echo]\nkind = \"command\"\ncost = \"none\"\ncommand = \"sh\"\n\
    args = [\"-c\", \"echo asked >&2; echo \\\"The prompt was: $(cat) <result>the reply</result>\\\"\"]\n";
const SECRET: &str = "hunter22-and-more";

/// A script and a turn, and a worker that has a secret.
fn script_and_turn(rig: &mut Rig) -> crate::harness::Process {
    rig.state("workflow.yaml", "backend: echo\n");
    rig.state("START.sh", "echo \"to stdout $MY_TOKEN\"; echo to stderr >&2; echo '<goto>TURN</goto>'\n");
    rig.state("TURN.md", "Take a turn.\n");
    rig.configure(ECHO);
    rig.configure_worker("a", ECHO);
    rig.variables.push(("MY_TOKEN", SECRET.to_owned()));
    let worker = rig.worker("a");
    rig.variables.pop();
    worker
}

/// Starts the workflow and follows it to its end.
fn follow(rig: &Rig, id: &str, options: &[&str]) -> Output {
    let address = rig.address();
    eventually("an answer of the server", || {
        let output = rig.raymond(&[&["run", "wf", "--id", id, "--on", address.as_str()], options].concat());
        (!said(&output).contains("does not answer")).then_some(output)
    })
}

fn shown(output: &Output) -> String {
    assert!(output.status.success(), "{output:?}");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[track_caller]
fn has_all(text: &str, parts: &[&str]) {
    for part in parts {
        assert!(text.contains(part), "`{part}` is not in:\n{text}");
    }
    assert!(!text.contains(SECRET), "{text}");
}

#[test]
fn what_a_step_was_told_did_and_answered_can_be_seen() {
    let Some(mut rig) = Rig::new() else { return };
    let _worker = script_and_turn(&mut rig);
    rig.start();
    rig.until("run_finished");
    let debug = rig.path("project/.raymond/debug/r");
    assert!(!debug.exists(), "nothing has asked for them");
    let step = shown(&rig.raymond(&["show", "r", "1"]));
    has_all(&step, &["  output\n    to stdout ***\n", "  stderr\n    to stderr\n", "→ goto TURN.md"]);
    assert!(!debug.join("main_TURN_2.prompt.md").exists(), "one step was asked for");
    let step = shown(&rig.raymond(&["log", "r", "--step", "2"]));
    has_all(
        &step,
        &["prompt\n    Take a turn.\n", "reply\n    The prompt was: Take a turn.", "command", "HOST_NAME=a"],
    );
    let page = shown(&rig.raymond(&["export", "r"]));
    has_all(&page, &["to stdout ***", "to stderr", "Take a turn."]);
    let log = fs::read_to_string(debug.join("transitions.log")).unwrap();
    has_all(&log, &["main step 1 START.sh -> TURN.md goto", "main step 2 TURN.md -> end result"]);
    assert!(rig.raymond(&["record", "r", "-o", "r.rec.jsonl"]).status.success());
    has_all(&rig.read("project/r.rec.jsonl"), &["Take a turn.", "the reply"]);

    // Nothing stays on the machine that ran them, and a copy that is made later has them too.
    let left: Vec<_> =
        fs::read_dir(rig.path("a/runs/r/.debug")).unwrap().map(|file| file.unwrap().file_name()).collect();
    assert_eq!(left, ["transitions.log"]);
    fs::create_dir_all(rig.path("other/.raymond")).unwrap();
    let engine =
        format!("[engine.fleet]\nurl = \"temporal://{}?queue=q\"\nblobs = \"{}\"\n", rig.server(), rig.blobs);
    rig.configure(&(ECHO.to_owned() + &engine));
    has_all(&shown(&rig.raymond_in("other", &["show", "r", "2"])), &["Take a turn."]);

    // A server fetches all of them by itself.
    let _server = rig.spawn(&["serve", "--listen", "127.0.0.1:0"]);
    rig.start_as("s", &[]);
    let prompt = rig.path("project/.raymond/debug/s/main_TURN_2.prompt.md");
    eventually("the debug files of a run that is served", || prompt.is_file().then_some(()));
}

#[test]
fn a_follower_has_all_files_when_the_run_is_over() {
    let Some(mut rig) = Rig::new() else { return };
    let _worker = script_and_turn(&mut rig);
    assert!(follow(&rig, "r", &[]).status.success());
    for file in
        ["main_START_1.stdout.txt", "main_START_1.meta.json", "main_TURN_2.prompt.md", "main_TURN_2.jsonl"]
    {
        assert!(rig.path("project/.raymond/debug/r").join(file).is_file(), "{file}");
    }
    let meta = rig.read("project/.raymond/debug/r/main_START_1.meta.json");
    has_all(&meta, &[&format!("\"cwd\": \"{}\"", rig.path("project").canonicalize().unwrap().display())]);

    let none = follow(&rig, "none", &["--no-debug"]);
    assert!(none.status.success(), "{none:?}");
    let step = shown(&rig.raymond(&["show", "none", "1"]));
    has_all(&step, &["output is not kept"]);
    assert!(shown(&rig.raymond(&["export", "none"])).contains("run_finished"));
    for folder in ["blobs/runs/none/debug", "project/.raymond/debug/none", "a/runs/none/.debug"] {
        assert!(!rig.path(folder).exists(), "{folder}");
    }
}

#[test]
fn a_failed_step_names_the_file_with_its_whole_output() {
    let Some(rig) = Rig::new() else { return };
    rig.state("START.sh", "seq 1 20\n");
    let _worker = rig.worker("a");
    let failed = follow(&rig, "r", &[]);
    let file = rig.path("project").canonicalize().unwrap().join(".raymond/debug/r/main_START_1.stdout.txt");
    has_all(&said(&failed), &[&format!("all of it: {}", file.display())]);
    assert_eq!(fs::read_to_string(&file).unwrap().lines().count(), 20);
    has_all(&rig.read("project/.raymond/debug/r/main_START_1.error.txt"), &["transition tag"]);

    // Trouble with the store is a warning, and no file is named then.
    fs::create_dir_all(rig.path("blobs/runs/t")).unwrap();
    rig.write("blobs/runs/t/debug");
    follow(&rig, "t", &[]);
    let log = rig.until_in("t", "run_stopped");
    let event = |kind: &str| log.iter().find(|event| event["event"] == kind).expect(kind);
    assert!(event("warning")["message"].as_str().unwrap().contains("debug files stay"), "{log:#?}");
    assert_eq!(event("step_failed")["output_file"], serde_json::Value::Null, "{log:#?}");
    assert_eq!(
        fs::read_to_string(rig.path("a/runs/t/.debug/main_START_1.stdout.txt")).unwrap().lines().count(),
        20
    );
}

#[test]
fn what_a_lost_attempt_has_printed_is_seen_when_its_machine_is_back() {
    let Some(rig) = Rig::quick() else { return };
    rig.state(
        "START.sh",
        "echo half >> $DIR/ran; echo half; [ -e $DIR/go ] && echo '<result>done</result>' || sleep 300\n",
    );
    let mut worker = rig.worker("a");
    rig.start();
    rig.lines("ran", 1);
    worker.kill();
    rig.write("go");
    let _worker = rig.worker("a");
    let log = rig.until("run_finished");
    assert_eq!(count(&log, "retry"), 1, "{log:#?}");
    let step = shown(&rig.raymond(&["show", "r", "1"]));
    has_all(&step, &["attempt 1\n  output\n    half\n", "attempt 2\n  output\n    half\n    <result>done"]);
}
