//! `raymond log --follow` and `raymond show --open`.

use rustix::process::Signal;
use test_kit::rig::{Rig, wait_for_file, wait_until};

use crate::RAYMOND;

/// A state that creates a file when it runs and waits for another file.
const WAITS: &str = "touch started; until [ -e go ]; do sleep 0.01; done; echo '<goto>NEXT</goto>'";

fn waiting(next: &str) -> Rig {
    let rig = Rig::new(RAYMOND);
    rig.state("START.sh", WAITS).state("NEXT.sh", next);
    rig
}

#[test]
fn a_follower_sees_a_run_to_its_end_and_exits_as_it_does() {
    for (next, exit, last) in
        [("echo '<result>ok</result>'", 0, "run_finished"), ("exit 7", 1, "run_stopped")]
    {
        let rig = waiting(next);
        let live = rig.start(&["workflow", "--id", "r"]);
        wait_for_file(&rig.path("started"));
        let follower = rig.start(&["log", "r", "--follow", "--json"]);
        rig.write("go", "");
        assert_eq!(live.wait().exit, exit);
        let seen = follower.wait();
        assert_eq!(seen.exit, exit, "{}", seen.stderr);
        let names: Vec<_> = seen.lines().map(|event| event["event"].clone()).collect();
        assert_eq!((&names[0], names.last().unwrap()), (&"run_started".into(), &last.into()));
        assert_eq!(names.len(), rig.events().len());
    }
}

#[test]
fn a_follower_exits_like_an_interrupted_run() {
    for (signal, exit) in [(Signal::INT, 130), (Signal::TERM, 143)] {
        let rig = waiting("echo '<result>ok</result>'");
        let live = rig.start(&["workflow", "--id", "r"]);
        wait_for_file(&rig.path("started"));
        let follower = rig.start(&["log", "r", "-f"]);
        live.send(signal);
        live.wait_for_stderr("stopping");
        rig.write("go", "");
        assert_eq!(live.wait().exit, exit);
        let seen = follower.wait();
        assert_eq!(seen.exit, exit, "{}", seen.stderr);
        assert!(seen.stdout.contains("interrupted"), "{}", seen.stdout);
    }
}

#[test]
fn a_run_whose_process_was_killed_counts_as_interrupted() {
    let rig = waiting("echo '<result>ok</result>'");
    let live = rig.start(&["workflow", "--id", "r"]);
    wait_for_file(&rig.path("started"));
    live.kill();
    wait_until("the run is free", || rig.status()["status"] == "interrupted");
    assert_eq!(rig.raymond(&["log", "r", "--follow"]).exit, 130);
}

#[test]
fn a_conversation_is_opened_on_a_branch_and_the_run_stays_as_it_is() {
    let rig = Rig::new(RAYMOND);
    rig.agent(r#"[{"match": "Start", "reply": "<result>done</result>"}, {"reply": "hello"}]"#);
    rig.state("START.md", "Start.");
    rig.raymond(&["workflow", "--id", "r"]).assert(0, "done\n");
    let before = rig.events();
    let session =
        before.iter().find(|event| event["event"] == "step_finished").unwrap()["session"]["id"].clone();
    let program = rig.path("agent.sh");
    rig.write("agent.sh", "#!/bin/bash\nprintf '%s\\n' \"$PWD\" \"$@\" > opened\n");
    std::process::Command::new("chmod").arg("+x").arg(&program).status().unwrap();
    rig.write(
        ".raymond/config.toml",
        format!(
            "[backend.claude]\ncommand = {:?}\nargs = [\"--settings\", \"{{}}\"]\n",
            program.display().to_string()
        ),
    );
    rig.raymond(&["show", "r", "1", "--open"]).assert(0, "");
    let expected = format!(
        "{}\n--settings\n{{}}\n--resume\n{}\n--fork-session\n",
        rig.work().display(),
        session.as_str().unwrap()
    );
    assert_eq!(rig.read("opened"), expected);
    assert_eq!(rig.events(), before);
}

/// The status stays `completed`, since nothing is left to do.
#[test]
fn a_completed_run_says_how_many_workers_have_failed() {
    let rig = Rig::new(RAYMOND);
    rig.state("START.sh", "echo '<fork>GOOD</fork><fork>BAD</fork><join>END</join>'");
    rig.state("GOOD.sh", "echo '<result>good</result>'");
    rig.state("BAD.sh", "# raymond: fatal=agent\nexit 3");
    rig.state("END.sh", "echo '<result>over</result>'");
    let told = "completed, 1 worker failed";
    let ended = rig.raymond(&["workflow", "--id", "r"]);
    ended.assert(0, "over\n").says(told);
    for args in [&["list"][..], &["status", "r"]] {
        let shown = rig.raymond(args).stdout;
        assert!(shown.contains(told), "{args:?}: {shown}");
    }
    let status: serde_json::Value =
        serde_json::from_str(&rig.raymond(&["status", "r", "--json"]).stdout).unwrap();
    assert_eq!((&status["status"], &status["failed_workers"]), (&"completed".into(), &1.into()));
}
