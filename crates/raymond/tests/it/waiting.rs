//! Agents that wait while nothing runs (delayed or joining), with kills and stops.

use rustix::process::Signal;
use test_kit::rig::{Rig, wait_for_file, wait_until};

use crate::RAYMOND;

fn agent_status(rig: &Rig) -> String {
    rig.status()["agents"][0]["status"].as_str().unwrap_or_default().to_owned()
}

#[test]
fn a_delay_survives_a_kill() {
    let rig = Rig::new(RAYMOND);
    rig.state("START.sh", "echo '<goto delay=\"1h\" input=\"kept\">NEXT</goto>'");
    rig.state("NEXT.sh", "echo \"<result>$RAYMOND_INPUT</result>\"");
    let live = rig.start(&["workflow", "--id", "r"]);
    live.wait_for_stderr("NEXT.sh in 1h");
    let until = rig.status()["agents"][0]["until"].clone();
    assert!(until.is_string());
    live.kill();
    rig.assert_nothing_lives();
    assert_eq!(agent_status(&rig), "delayed");
    let live = rig.start(&["resume", "r"]);
    live.wait_for_stderr("resumed");
    wait_until("the resumed run", || rig.status()["status"] == "running");
    assert_eq!((agent_status(&rig).as_str(), &rig.status()["agents"][0]["until"]), ("delayed", &until));
    live.send(Signal::INT);
    live.wait().assert(130, "");
    assert_eq!(rig.status()["agents"][0]["until"], until);
}

#[test]
fn a_delay_that_ended_before_the_resume_is_not_repeated() {
    // A longer delay shows whether the machine is slow or Raymond waits again.
    let is_short = [1500, 6000, 24000].into_iter().any(|delay| {
        let rig = Rig::new(RAYMOND);
        rig.state("START.sh", format!("echo '<goto delay=\"{delay}ms\" input=\"kept\">NEXT</goto>'"));
        rig.state("NEXT.sh", "echo \"<result>$RAYMOND_INPUT</result>\"");
        let live = rig.start(&["workflow", "--id", "r"]);
        live.wait_for_stderr("NEXT.sh in");
        let begin = std::time::Instant::now();
        live.kill();
        wait_until("the end of the delay", || begin.elapsed().as_millis() > delay);
        let begin = std::time::Instant::now();
        rig.resume().assert(0, "kept\n");
        begin.elapsed().as_millis() < delay - 100
    });
    assert!(is_short, "Raymond waited for the delay again");
}

#[test]
fn terminate_while_delayed_ends_at_once() {
    let rig = Rig::new(RAYMOND);
    rig.state("START.sh", "echo '<goto delay=\"1h\">START</goto>'");
    let live = rig.start(&["workflow", "--id", "r"]);
    live.wait_for_stderr("START.sh in 1h");
    live.send(Signal::TERM);
    live.wait().assert(143, "");
    assert_eq!(agent_status(&rig), "delayed");
}

#[test]
fn stop_while_delayed_ends_at_once() {
    let rig = Rig::new(RAYMOND);
    rig.state("START.sh", "echo '<goto delay=\"1h\">START</goto>'");
    let live = rig.start(&["workflow", "--id", "r"]);
    live.wait_for_stderr("START.sh in 1h");
    rig.raymond(&["stop", "r"]).assert(0, "");
    live.wait().assert(130, "");
}

fn joining() -> Rig {
    let rig = Rig::new(RAYMOND);
    rig.state("START.sh", "for i in 1 2; do echo \"<fork next='JOIN' i='$i'>W</fork>\"; done");
    rig.state("JOIN.sh", "echo '<join>END</join>'");
    rig.state("END.sh", "echo x >> joined; echo \"<result>$RAYMOND_RESULT</result>\"");
    rig.state(
        "W.sh",
        "echo $i >> trace\n[ $i = 2 ] && { touch started; until [ -e go ]; do sleep 0.01; done; }\necho \"<result>did $i</result>\"",
    );
    rig
}

const JOINED: &str = concat!(
    r#"[{"agent":"main_w1","title":"1","state":"W.sh","attributes":{"i":"1"},"status":"done","result":"did 1","error":null},"#,
    r#"{"agent":"main_w2","title":"2","state":"W.sh","attributes":{"i":"2"},"status":"done","result":"did 2","error":null}]"#,
    "\n"
);

#[test]
fn a_join_survives_kills() {
    let rig = joining();
    let mut live = rig.start(&["workflow", "--id", "r"]);
    for _ in 0..3 {
        wait_for_file(&rig.path("started"));
        wait_until("main joining and one worker done", || {
            let status = rig.status();
            status["agents"].as_array().unwrap().len() == 2 && status["agents"][0]["status"] == "joining"
        });
        live.kill();
        std::fs::remove_file(rig.path("started")).unwrap();
        assert_eq!(agent_status(&rig), "joining");
        live = rig.start(&["resume", "r"]);
    }
    wait_for_file(&rig.path("started"));
    rig.write("go", "");
    live.wait().assert(0, JOINED);
    assert_eq!(rig.read("joined"), "x\n");
    assert_eq!(
        rig.read("trace").lines().filter(|line| *line == "1").count(),
        1,
        "a finished worker is not repeated"
    );
    rig.assert_nothing_lives();
}

#[test]
fn a_worker_that_finishes_while_the_run_stops_does_not_start_the_join_target() {
    let rig = joining();
    let live = rig.start(&["workflow", "--id", "r"]);
    wait_for_file(&rig.path("started"));
    wait_until("main joining", || rig.status()["agents"][0]["status"] == "joining");
    live.send(Signal::INT);
    live.wait_for_stderr("may finish");
    rig.write("go", "");
    live.wait().assert(130, "");
    assert!(!rig.path("joined").exists());
    rig.resume().assert(0, JOINED);
    assert_eq!(rig.read("joined"), "x\n");
}

/// Before the join ends, a failed worker fails the run, and a resume tries it again.
#[test]
fn a_worker_that_failed_before_the_join_ended_is_tried_again() {
    let rig = Rig::new(RAYMOND);
    rig.state("START.sh", "for i in 1 2; do echo \"<fork next='JOIN' i='$i'>W</fork>\"; done");
    rig.state("JOIN.sh", "echo '<join>END</join>'")
        .state("END.sh", "echo \"<result>$RAYMOND_RESULT</result>\"");
    rig.state(
        "W.sh",
        "# raymond: fatal=agent\n[ $i = 1 ] && { [ -e mended ] || exit 5; }\n[ $i = 2 ] && { touch started; until [ -e go ]; do sleep 0.01; done; }\necho \"<result>did $i</result>\"",
    );
    let live = rig.start(&["workflow", "--id", "r"]);
    wait_for_file(&rig.path("started"));
    live.wait_for_stderr("W.sh failed");
    live.kill();
    rig.write("mended", "");
    rig.write("go", "");
    rig.resume().assert(0, JOINED);
}

/// A dispatcher may fork forever, so an ended agent leaves no empty folder.
#[test]
fn task_folders_of_ended_agents_are_removed_unless_something_is_in_them() {
    let rig = Rig::new(RAYMOND);
    rig.state("START.sh", "echo '<fork>W</fork><fork keep=\"yes\">W</fork><fork next=\"J\">BAD</fork>'");
    rig.state("W.sh", "[ -z \"$keep\" ] || touch \"$RAYMOND_TASK_FOLDER/note\"; echo '<result></result>'");
    rig.state("BAD.sh", "# raymond: fatal=agent\nexit 1");
    rig.state("J.sh", "echo '<join>END</join>'").state("END.sh", "echo '<result>ok</result>'");
    rig.run().assert(0, "ok\n");
    let tasks = std::fs::read_dir(rig.path(".raymond/state/r.tasks")).unwrap();
    let names = tasks.map(|entry| entry.unwrap()).filter(|entry| entry.path().is_dir());
    let names: Vec<String> = names.map(|entry| entry.file_name().into_string().unwrap()).collect();
    assert_eq!(names, ["main_w2"]);
}
