//! `raymond trust` and `raymond inspect`: what a workflow may do, and which may start by themselves.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use serde_json::Value;
use test_kit::needs::is_missing;
use test_kit::rig::Rig;

use crate::RAYMOND;
use crate::asking::at_a_terminal;

fn rig() -> Rig {
    let rig = Rig::new(RAYMOND);
    rig.state("START.md", "---\nallow_tools: [ \"Bash(git push:*)\" ]\n---\nPush.");
    rig.state("WORK.sh", "touch ran; echo '<result>ok</result>'");
    rig.state("workflow.yaml", "schedule: \"0 3 * * *\"\n");
    rig
}

/// What `trust` says of a workflow without a terminal, and without remembering anything.
fn is_trusted(rig: &Rig, workflow: &str) -> bool {
    let shown = rig.raymond(&["inspect", workflow, "--json"]);
    assert_eq!(shown.exit, 0, "{shown:?}");
    serde_json::from_str::<Value>(&shown.stdout).unwrap()["trusted"] == true
}

#[test]
fn what_a_workflow_may_do_is_shown_before_it_is_trusted() {
    let rig = rig();
    let shown = rig.raymond(&["trust", "workflow"]);
    assert_eq!(shown.exit, 2, "{shown:?}");
    shown.says("workflow is not trusted").says("--yes");
    let lines = [
        "do anything you can do   scripts run as you, without a sandbox",
        "start by itself          0 3 * * * (UTC)  (workflow/workflow.yaml)",
        "run a script             workflow/WORK.sh",
        "run an agent program     claude  (workflow/START.md)",
        "let an agent use         Bash(git push:*)  (workflow/START.md)",
        "read                     all variables of your environment",
        "reach                    any address",
    ];
    for line in lines {
        assert!(shown.stdout.contains(line), "{line}\n{}", shown.stdout);
    }
    assert!(!is_trusted(&rig, "workflow"));
    let inspected = rig.raymond(&["inspect", "workflow"]);
    assert_eq!((inspected.exit, &inspected.stdout), (0, &shown.stdout));
    let yes = rig.raymond(&["trust", "workflow", "--yes"]);
    assert_eq!((yes.exit, &yes.stdout), (0, &shown.stdout));
    assert!(is_trusted(&rig, "workflow") && is_trusted(&rig, "./workflow/WORK"));
    let json: Value = serde_json::from_str(&rig.raymond(&["trust", "workflow", "--json"]).stdout).unwrap();
    let tool = json["may"].as_array().unwrap().iter().find(|may| may["kind"] == "tool").unwrap();
    assert_eq!((&tool["what"], &tool["where"][0]), (&"Bash(git push:*)".into(), &"workflow/START.md".into()));
    assert!(!rig.path("ran").exists() && !rig.path(".raymond").exists(), "looking starts and writes nothing");
}

#[test]
fn only_what_was_seen_is_trusted() {
    let rig = rig();
    rig.write("other/START.sh", "echo '<result>x</result>'");
    rig.state("NEXT.sh", "echo '<reset-workflow>../other</reset-workflow>'");
    rig.state("data/notes.txt", "1");
    let trust = || assert_eq!(rig.raymond(&["trust", "workflow", "--yes"]).exit, 0);
    let changes = [
        ("workflow/WORK.sh", "echo '<result>other</result>'"),
        ("workflow/data/notes.txt", "2"),
        ("workflow/NEW.sh", "echo '<result>new</result>'"),
        ("other/START.sh", "echo '<result>y</result>'"),
        (".raymond/config.toml", "[backend.claude]\ncommand = \"./evil\"\n"),
    ];
    for (name, text) in changes {
        trust();
        assert!(is_trusted(&rig, "workflow"));
        let before = fs::read(rig.path(name)).ok();
        rig.write(name, text);
        assert!(!is_trusted(&rig, "workflow"), "{name}");
        // What was trusted may come back; what was trusted before that may not.
        match before {
            Some(before) => drop(rig.write(name, before)),
            None => fs::remove_file(rig.path(name)).unwrap(),
        }
        assert!(is_trusted(&rig, "workflow"), "{name}");
        rig.write(name, text);
    }
    trust();
    rig.write("workflow/WORK.sh", "touch ran; echo '<result>ok</result>'");
    assert!(!is_trusted(&rig, "workflow"), "only the last is trusted");
    // A copy is another workflow.
    trust();
    assert!(rig.program("cp").args(["-r", "workflow", "copy"]).status().unwrap().success());
    assert!(!is_trusted(&rig, "copy"));
}

/// Agent programs start what such files name, so they belong to what is looked at and trusted.
#[test]
fn what_agent_programs_obey_is_shown_and_trusted_too() {
    let rig = rig();
    rig.state(
        "MOVE.sh",
        "echo '<reset cd=\"tree\">START</reset>'; echo \"<reset-workflow>../$1</reset-workflow>\"",
    );
    rig.write(
        "tree/.claude/settings.json",
        r#"{"hooks":{"Stop":[{"hooks":[{"type":"command","command":"./evil.sh"}]}]}}"#,
    );
    let shown = rig.raymond(&["trust", "workflow", "--yes"]);
    let lines = [
        "obey an agent's settings tree/.claude/settings.json",
        "start, by such settings  ./evil.sh  (tree/.claude/settings.json)",
        "enter a workflow         ../$1 (put together when it runs, so a schedule does not enter it)  (workflow/MOVE.sh)",
    ];
    for line in lines {
        assert!(shown.stdout.contains(line), "{line}\n{}", shown.stdout);
    }
    for name in [
        "tree/.claude/settings.json",
        ".claude/settings.local.json",
        ".mcp.json",
        "tree/.claude/skills/x/SKILL.md",
    ] {
        assert!(is_trusted(&rig, "workflow"));
        rig.write(name, "{}");
        assert!(!is_trusted(&rig, "workflow"), "{name}");
        assert_eq!(rig.raymond(&["trust", "workflow", "--yes"]).exit, 0);
    }
    // A workflow without prompts starts no agent program.
    rig.write("plain/START.sh", "echo '<result>x</result>'");
    assert_eq!(rig.raymond(&["trust", "plain", "--yes"]).exit, 0);
    rig.write(".claude/settings.json", "{}");
    assert!(is_trusted(&rig, "plain") && !is_trusted(&rig, "workflow"));
}

/// The person who trusted a workflow has seen those that its files name, and no others.
#[test]
fn a_run_of_a_schedule_enters_only_what_was_trusted_with_it() {
    let rig = Rig::new(RAYMOND);
    rig.state("START.sh", "echo '<call-workflow return=\"NEXT\">../named</call-workflow>'");
    rig.state("NEXT.sh", "echo \"<reset-workflow>../$(cat name)</reset-workflow>\"");
    rig.write("named/START.sh", "echo '<result>x</result>'");
    rig.write("other/START.sh", "touch ran; echo '<result>other</result>'");
    rig.write("name", "other");
    let scheduled = rig.raymond(&["workflow", "--id", "r", "--label", "schedule=* * * * *"]);
    assert_eq!(scheduled.exit, 1, "{scheduled:?}");
    scheduled.says("a workflow that no text of this one names");
    assert_eq!(rig.raymond(&["resume", "r"]).exit, 1, "a resume changes nothing about it");
    assert!(!rig.path("ran").exists());
    rig.write("name", "named");
    rig.raymond(&["resume", "r"]).assert(0, "x\n");
    // A person may start it all the same, and so does a config file that lists the folder.
    rig.write("name", "other");
    rig.raymond(&["workflow", "--id", "s"]).assert(0, "other\n");
    rig.write(".raymond/config.toml", "[raymond]\nworkflow_paths = [\"other\"]\n");
    rig.raymond(&["workflow", "--id", "t", "--label", "schedule=* * * * *"]).assert(0, "other\n");
}

#[test]
fn trust_is_taken_back_even_when_the_workflow_is_gone() {
    let rig = rig();
    rig.raymond(&["convert", "workflow", "-o", "packed.zip"]).assert(0, "");
    let list = rig.home().join(".local/state/raymond/trusted-workflows");
    let number = || fs::read_to_string(&list).unwrap().lines().count();
    for workflow in ["workflow", "packed.zip"] {
        assert_eq!(rig.raymond(&["trust", workflow, "--yes"]).exit, 0);
    }
    assert_eq!(number(), 2);
    assert_eq!(fs::metadata(&list).unwrap().permissions().mode() & 0o777, 0o600);
    assert_eq!(rig.raymond(&["trust", "workflow", "--revoke"]).exit, 0);
    assert!(!is_trusted(&rig, "workflow") && is_trusted(&rig, "packed.zip"));
    fs::remove_file(rig.path("packed.zip")).unwrap();
    assert_eq!(rig.raymond(&["trust", "packed", "--revoke"]).exit, 0);
    assert_eq!(number(), 0);
    let again = rig.raymond(&["trust", "packed.zip", "--revoke"]);
    assert_eq!(again.exit, 2);
    again.says("packed.zip was not trusted");
}

#[test]
fn many_trust_at_the_same_time() {
    let rig = rig();
    let names: Vec<String> = (0..20).map(|number| format!("flow{number}")).collect();
    for name in &names {
        rig.write(&format!("{name}/START.sh"), "echo '<result>x</result>'");
    }
    let all: Vec<_> = names.iter().map(|name| rig.start(&["trust", name.as_str(), "--yes"])).collect();
    for live in all {
        assert_eq!(live.wait().exit, 0);
    }
    assert!(names.iter().all(|name| is_trusted(&rig, name)));
}

#[test]
fn on_a_terminal_a_person_is_asked() {
    if is_missing("python3", "on_a_terminal_a_person_is_asked") {
        return;
    }
    let rig = rig();
    let question = "without asking again? [y/N]";
    let done = at_a_terminal(&rig, &[(question, "\r")], &["trust", "workflow"]);
    assert_eq!(done.exit, 2, "{done:?}");
    assert!(!is_trusted(&rig, "workflow"));
    let done = at_a_terminal(&rig, &[(question, "y\r")], &["trust", "workflow"]);
    assert_eq!(done.exit, 0, "{done:?}");
    assert!(is_trusted(&rig, "workflow"));
}

#[test]
fn what_is_shown_cannot_steer_a_terminal_or_look_like_another_line() {
    let rig = rig();
    rig.state("a\u{202e}b.sh", "echo x");
    rig.state(
        "EVIL.md",
        "---\nallow_tools: [ \"Edit\\n  run a script  harmless\\e[2K\", \"\\u202eX\" ]\n---\nGo.",
    );
    let shown = rig.raymond(&["inspect", "workflow"]).stdout;
    assert!(!shown.contains(['\u{1b}', '\u{202e}']), "{shown:?}");
    assert!(!shown.lines().any(|line| line.starts_with("  run a script  harmless")), "{shown}");
    let json = rig.raymond(&["inspect", "workflow", "--json"]).stdout;
    assert!(!json.contains(['\u{1b}', '\u{202e}']), "{json:?}");
    // A folder of a clone may have any name.
    rig.write("flow\nother  completed\u{1b}[2K/START.sh", "echo '<result>x</result>'");
    rig.write("flow\nother  completed\u{1b}[2K/OTHER.md", "---\nallowed_transitions: 7\n---\nGo.");
    let name = "flow\nother  completed\u{1b}[2K";
    rig.raymond(&[name, "--id", "r", "--no-lint"]).assert(0, "x\n");
    for command in [
        &["list"][..],
        &["status", "r"],
        &["log", "r"],
        &["lint", name],
        &["doctor"],
        &["inspect", name],
        &["clean", "r"],
    ] {
        let done = rig.raymond(command);
        let all = done.stdout.clone() + &done.stderr;
        assert!(!all.contains('\u{1b}'), "{command:?}: {all}");
        assert!(!all.lines().any(|line| line.starts_with("other  completed")), "{command:?}: {all}");
    }
}

#[test]
fn a_start_that_was_trusted_is_of_that_content_or_none() {
    let rig = rig();
    let json = rig.raymond(&["inspect", "workflow", "--json"]).stdout;
    let content = serde_json::from_str::<Value>(&json).unwrap()["content"].as_str().unwrap().to_owned();
    let option = format!("--trusted-content={content}");
    rig.raymond(&["workflow/WORK", "--id", "same", &option]).assert(0, "ok\n");
    fs::remove_file(rig.path("ran")).unwrap();
    rig.state("NEW.txt", "");
    let refused = rig.raymond(&["workflow/WORK", "--id", "changed", &option]);
    assert_eq!(refused.exit, 2, "{refused:?}");
    refused.says("workflow has changed since it was trusted").says("raymond trust workflow");
    assert!(!rig.path("ran").exists() && !rig.path(".raymond/state/changed.jsonl").exists());
    // What a person starts needs no trust.
    rig.raymond(&["workflow/WORK", "--id", "own"]).assert(0, "ok\n");
}
