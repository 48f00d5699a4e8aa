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

/// What a terminal would obey: control characters, and marks that change the direction of text.
const MARKS: &str = "\u{1b}]0;t\u{7}\u{7f}\u{9b}2J\u{202a}\u{202e}\u{2066}\u{2069}\u{200e}\u{200f}\u{61c}";

fn assert_harmless(shown: &str) {
    let is_dangerous = |character: &char| {
        let is_mark = matches!(character, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{200e}' | '\u{200f}' | '\u{61c}');
        is_mark || (character.is_control() && !"\n\t".contains(*character))
    };
    assert_eq!(shown.chars().find(is_dangerous), None, "{shown:?}");
}

#[test]
fn no_mark_reaches_a_terminal_through_json() {
    let rig = Rig::new(RAYMOND);
    rig.write("marks", MARKS);
    rig.state("START.sh", "echo \"<print>$(cat marks)</print><result>$(cat marks)</result>\"");
    let commands: [&[&str]; 4] = [
        &["workflow", "--id", "r", "--json"],
        &["log", "r", "--json"],
        &["status", "r", "--json"],
        &["list", "--json"],
    ];
    for command in commands {
        let done = rig.raymond(command);
        assert_harmless(&done.stdout);
        assert_harmless(&done.stderr);
    }
    assert_eq!(rig.status()["result"], MARKS);
}

#[test]
fn no_mark_reaches_a_terminal_through_lint() {
    let rig = Rig::new(RAYMOND);
    rig.state("START.md", format!("---\nmodle: x\n---\n{MARKS} <goto>GONE</goto> {MARKS}"));
    rig.state(&format!("A{MARKS}.md"), "---\nmodle: x\n---\n<goto>NOWHERE</goto>");
    rig.write(&format!("{MARKS}.yaml"), "states:\n  A: { sh: x, modle: \"\u{202e}\u{9b}\" } # \u{202e}\n");
    for format in ["text", "json", "sarif", "github"] {
        for path in ["workflow", &format!("{MARKS}.yaml")] {
            let done = rig.raymond(&["lint", path, "--format", format]);
            assert!(done.stdout.len() > 100, "{path:?}: {done:?}");
            assert_harmless(&done.stdout);
            assert_harmless(&done.stderr);
        }
    }
}

#[test]
fn no_mark_reaches_a_terminal_through_errors_and_warnings() {
    let rig = Rig::new(RAYMOND);
    rig.state("START.sh", "echo '<result>ok</result>'");
    std::fs::create_dir_all(rig.path(".raymond")).unwrap();
    rig.write(".raymond/config.toml", "[raymond]\nnotify = \"exit 3 # \\u001b[31m\\u202e\\u009b\"\n");
    let done = rig.raymond(&["workflow", "--id", "r"]);
    done.assert(0, "ok\n").says("the notify command `exit 3");
    assert_harmless(&done.stderr);
    let name = format!("no{MARKS}");
    rig.write(&format!("{name}/START.sh"), "echo '<goto>X</goto>'");
    rig.write(&format!("{name}/workflow.yaml"), "- no manifest");
    let commands: [&[&str]; 6] = [
        &[&name],
        &["gone\u{202e}\u{1b}[31m"],
        &["convert", &name, "-o", "x.zip"],
        &["convert", "workflow", "-o", &format!("{name}2")],
        &["diagram", &name],
        &["status", &name],
    ];
    for command in commands {
        let done = rig.raymond(command);
        assert!(!done.stderr.is_empty(), "{command:?}");
        assert_harmless(&done.stderr);
    }
}

#[test]
fn proposed_commands_repeat_the_state_folder() {
    let rig = Rig::new(RAYMOND);
    rig.state("START.sh", "echo '<ask next=\"NEXT\">Which?</ask>'").state("NEXT.sh", "exit 1");
    let at = ["--state-dir", "my runs"];
    let done = rig.raymond(&[&["workflow", "--id", "r"][..], &at].concat());
    assert_eq!(done.exit, 3, "{done:?}");
    done.says("raymond answer r ask1 'your answer' --state-dir 'my runs'");
    done.says("raymond resume r --state-dir 'my runs'\n");
    let status = rig.raymond(&[&["status", "r"][..], &at].concat());
    assert!(
        status.stdout.contains("raymond answer r ask1 'your answer' --state-dir 'my runs'"),
        "{status:?}"
    );
    let answered = rig.raymond(&["answer", "r", "ask1", "this", "--state-dir", "my runs", "--no-resume"]);
    answered.says("raymond resume r --state-dir 'my runs'\n");
    rig.raymond(&["resume", "--state-dir", "my runs", "r"]).says("raymond resume r --state-dir 'my runs'\n");
    let taken = rig.raymond(&[&["workflow", "--id", "r"][..], &at].concat());
    taken.says("raymond resume r --state-dir 'my runs'");
    let unknown = rig.raymond(&[&["status", "x"][..], &at].concat());
    unknown.says("`raymond list --state-dir 'my runs'` shows all runs");
}

#[test]
fn a_budget_that_is_hardly_anything_is_not_unlimited() {
    let rig = Rig::new(RAYMOND);
    rig.state("START.md", "Go.").state("END.md", "End.").state("workflow.yaml", "backend: scripted\n");
    rig.state("replies.yaml", "START: { reply: <goto>END</goto>, cost: 0.5 }\nEND: <result>ok</result>\n");
    assert_eq!(rig.raymond(&["workflow", "--budget", "1e-10"]).exit, 4);
    rig.write(".raymond/config.toml", "[raymond]\nbudget = 1e-10\n");
    assert_eq!(rig.raymond(&["workflow"]).exit, 4);
    rig.write(".raymond/config.toml", "");
    rig.state("workflow.yaml", "backend: scripted\ndefault_budget: 1e-10\n");
    assert_eq!(rig.raymond(&["workflow"]).exit, 4);
    rig.raymond(&["workflow", "--budget", "0"]).assert(0, "ok\n");
}
