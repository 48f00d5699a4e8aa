//! Runs on other machines, as the program without an engine sees them: it gives them to the program that has one.

use std::os::unix::fs::PermissionsExt;
use std::process::Command;

use test_kit::rig::{Done, Rig};

use crate::RAYMOND;

const ENGINE: &str = "temporal://localhost:7233/default?queue=raymond";

/// A folder with a run that is finished here.
fn rig() -> Rig {
    let rig = Rig::new(RAYMOND);
    rig.state("START.sh", "echo '<result>done</result>'\n");
    rig
}

/// Marks a run as one that goes on elsewhere.
fn mark(rig: &Rig, run: &str, is_open: bool) {
    let text = format!(
        r#"{{"engine":"{ENGINE}","is_open":{is_open},"hosts":{{"main":"host-7"}},"seen_at":"2026-01-01T00:00:00Z"}}"#
    );
    rig.write(&format!(".raymond/state/.elsewhere/{run}.json"), text);
}

/// The command, with a program of the engine's name on the PATH that prints what it is given.
fn with_engine_program(rig: &Rig, args: &[&str]) -> Done {
    let program = rig.write("bin/raymond-temporal", "#!/bin/sh\necho \"engine: $*\"\nexit 5\n");
    std::fs::set_permissions(&program, PermissionsExt::from_mode(0o755)).unwrap();
    let mut command: Command = rig.command(args);
    let path = std::env::var("PATH").unwrap_or_default();
    command.env("PATH", format!("{}:{path}", rig.path("bin").display()));
    rig.launch(command).wait()
}

#[test]
fn what_needs_an_engine_is_given_to_the_program_that_has_one() {
    let rig = rig();
    for args in [
        &["run", "workflow", "--on", ENGINE, "--detach"][..],
        &["workflow", "--on", "team"],
        &["worker", "--temporal", "localhost:7233", "--slots", "2"],
    ] {
        with_engine_program(&rig, args).assert(5, &format!("engine: {}\n", args.join(" ")));
        rig.raymond(args).assert(2, "").says("need the program raymond-temporal, which was not found");
    }
}

#[test]
fn commands_about_runs_are_given_to_it_if_there_are_runs_elsewhere() {
    let rig = rig();
    rig.raymond(&["workflow", "--id", "r", "--quiet"]).assert(0, "done\n");
    assert_eq!(with_engine_program(&rig, &["status", "r", "--json"]).exit, 0, "there is no such run yet");
    mark(&rig, "r", true);
    for args in [&["list"][..], &["status", "r"], &["log", "r"], &["stop", "r"], &["answer", "r", "yes"]] {
        with_engine_program(&rig, args).assert(5, &format!("engine: {}\n", args.join(" ")));
    }
    with_engine_program(&rig, &["lint", "workflow"]).assert(0, "");
}

#[test]
fn a_config_with_an_engine_is_enough() {
    let rig = rig();
    rig.write(".raymond/config.toml", format!("[engine.team]\nurl = \"{ENGINE}\"\n"));
    with_engine_program(&rig, &["list"]).assert(5, "engine: list\n");
    rig.write(".raymond/config.toml", "[engine.team]\nurl = \"localhost:7233\"\n");
    rig.raymond(&["list"]).assert(0, "");
    rig.raymond(&["workflow"]).assert(2, "").says("config.toml line 1: `localhost:7233` is no address");
}

#[test]
fn without_that_program_the_copies_are_shown() {
    let rig = rig();
    rig.raymond(&["workflow", "--id", "r", "--quiet"]).assert(0, "done\n");
    mark(&rig, "r", false);
    let shown = rig.raymond(&["status", "r"]);
    assert!(shown.stdout.contains(&format!("on        {ENGINE}")), "{}", shown.stdout);
    shown.says("raymond-temporal was not found; runs on other machines are shown as last seen");
    rig.raymond(&["resume", "r"]).assert(0, "done\n");
    for args in [&["retry", "r"][..], &["rewind", "r", "--to", "1"], &["jump", "r", "main", "START"]] {
        rig.raymond(args).assert(2, "").says("r is carried out by temporal://localhost:7233");
    }
    rig.raymond(&["clean", "r"]);
    assert!(!rig.path(".raymond/state/.elsewhere/r.json").exists());
}
