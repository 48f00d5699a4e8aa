//! Output for people and for programs.

use std::process::Stdio;

use test_kit::rig::{Rig, wait_until};

use crate::RAYMOND;

const OK: &str = "echo '<result>ok</result>'";

#[test]
fn an_id_is_made_of_workflow_and_time() {
    let rig = Rig::new(RAYMOND);
    rig.state("START.sh", OK);
    let done = rig.raymond(&["workflow", "--json"]);
    let first = done.lines().next().unwrap();
    let id = first["run"].as_str().unwrap();
    let parts: Vec<&str> = id.split('-').collect();
    let lengths: Vec<usize> = parts.iter().map(|part| part.len()).collect();
    assert_eq!((parts[0], lengths.as_slice()), ("workflow", [8, 8, 6, 4].as_slice()), "{id}");
}

#[test]
fn every_event_has_what_all_events_have() {
    let rig = Rig::new(RAYMOND);
    rig.state("START.sh", "echo '<print>x</print><fork next=\"END\">END</fork>'").state("END.sh", OK);
    let done = rig.raymond(&["workflow", "--id", "r", "--json", "--quiet"]);
    let events: Vec<_> = done.lines().collect();
    for (index, event) in events.iter().enumerate() {
        assert_eq!(event["seq"], index + 1);
        assert_eq!(event["run"], "r");
        let time = event["time"].as_str().unwrap();
        assert!(time.ends_with('Z') && time.contains('T'), "{time}");
        if event["event"].as_str().unwrap().starts_with("step_") {
            assert!(
                event["agent"].is_string() && event["step"].is_u64() && event["state"].is_string(),
                "{event}"
            );
        }
    }
    assert_eq!(events[0]["event"], "run_started");
    assert_eq!(events.last().unwrap()["event"], "run_finished");
    assert_eq!(events, rig.events(), "the log has the same events");
}

/// Prints are shown when they are complete, not when the step ends.
#[test]
fn a_print_is_shown_at_once() {
    let rig = Rig::new(RAYMOND);
    rig.state(
        "START.sh",
        "echo '<print>half way</print>'; until [ -e go ]; do sleep 0.01; done; echo '<result>ok</result>'",
    );
    let live = rig.start(&["workflow", "--id", "r"]);
    live.wait_for_stderr("half way");
    rig.write("go", "");
    live.wait().assert(0, "ok\n");
}

#[test]
fn a_long_print_is_shown() {
    let rig = Rig::new(RAYMOND);
    rig.state("START.sh", "printf '<print>begin %s end</print>' $(head -c 70000 /dev/zero | tr '\\0' x); echo '<result>ok</result>'");
    let done = rig.run();
    done.assert(0, "ok\n").says("begin xxx").says("xxx end");
}

#[test]
fn verbose_shows_long_lines_completely() {
    let rig = Rig::new(RAYMOND);
    rig.state(
        "START.sh",
        "printf 'begin %s end\\n' $(head -c 9000 /dev/zero | tr '\\0' x); echo '<result>ok</result>'",
    );
    let done = rig.raymond(&["workflow", "--verbose"]);
    let shown: String = done.stderr.lines().filter_map(|line| line.strip_prefix("[main] | ")).collect();
    assert!(shown.contains("begin xxx") && shown.contains("xxx end"), "{} bytes", shown.len());
    assert_eq!(shown.matches('x').count(), 9000);
}

#[test]
fn verbose_shows_a_last_line_without_a_line_break() {
    let rig = Rig::new(RAYMOND);
    rig.state("START.sh", "printf 'no break here' >&2; echo '<result>ok</result>'");
    let done = rig.raymond(&["workflow", "--verbose"]);
    done.assert(0, "ok\n").says("no break here");
}

#[test]
fn a_closed_stdout_does_not_stop_the_run() {
    let rig = Rig::new(RAYMOND);
    rig.state("START.sh", "[ $RAYMOND_VISITS = 20 ] && { touch ended; echo '<result>ok</result>'; } || echo '<goto>START</goto>'");
    let mut command = rig.command(&["workflow", "--id", "r", "--json"]);
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    drop((child.stdout.take(), child.stderr.take()));
    let status = child.wait().unwrap();
    assert_eq!(status.code(), Some(0));
    assert_eq!(rig.status()["steps"], 20);
}

#[test]
fn a_config_that_cannot_be_read_is_named_with_its_line() {
    let rig = Rig::new(RAYMOND);
    rig.state("START.sh", OK);
    for (config, told) in [
        ("# one\n[raymond]\nmax_steps = \"many\"\n", "config.toml line 3"),
        ("[raymond\n", "config.toml line 1"),
    ] {
        rig.write(".raymond/config.toml", config);
        rig.run().assert(2, "").says(told);
        assert!(!rig.journal().exists());
    }
}

#[test]
fn an_unknown_setting_is_named_with_its_line() {
    let rig = Rig::new(RAYMOND);
    rig.state("START.sh", OK);
    rig.write(".raymond/config.toml", "[raymond]\nmax_stepz = 1\n");
    rig.run().assert(2, "").says("config.toml line 2").says("in `max_stepz = 1`");
    rig.write(".raymond/config.toml", "[raymond]\nmax_steps = 1\nmax_steps = 2\n");
    rig.run().assert(2, "").says("config.toml line 3");
}

#[test]
fn a_live_run_shows_what_it_does() {
    let rig = Rig::new(RAYMOND);
    rig.state("START.sh", "echo '<fork next=\"WAIT\" item=\"7\">WAIT</fork>'");
    rig.state(
        "WAIT.sh",
        "touch started-$RAYMOND_AGENT_ID; until [ -e go ]; do sleep 0.01; done; echo '<result>ok</result>'",
    );
    let live = rig.start(&["workflow", "--id", "r"]);
    wait_until("both agents", || {
        rig.path("started-main").exists() && rig.path("started-main_wait1").exists()
    });
    let status = rig.status();
    assert_eq!(status["status"], "running");
    assert_eq!(status["ended_at"], serde_json::Value::Null);
    let agents = status["agents"].as_array().unwrap();
    assert_eq!(agents.len(), 2);
    for agent in agents {
        assert_eq!((&agent["status"], &agent["state"]), (&"running".into(), &"WAIT.sh".into()));
    }
    assert_eq!(agents[1]["attributes"]["item"], "7");
    rig.write("go", "");
    live.wait().assert(0, "ok\n");
    assert_eq!(rig.status()["agents"], serde_json::json!([]));
}
