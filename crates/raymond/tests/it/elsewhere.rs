//! Runs on other machines, as the program without an engine sees them: it gives them to the program that has one.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

use serde_json::Value;
use test_kit::rig::{Done, Rig};

use crate::RAYMOND;

const ENGINE: &str = "temporal://localhost:7233/default?queue=raymond";

/// A folder with a run that is finished here.
fn rig() -> Rig {
    let rig = Rig::alone(RAYMOND);
    rig.state("START.sh", "echo '<result>done</result>'\n");
    rig
}

/// Marks a run as one that goes on elsewhere.
fn mark(rig: &Rig, run: &str, is_open: bool) {
    let text = format!(
        r#"{{"engine":"{ENGINE}","is_open":{is_open},"hosts":{{"main":"host-7"}},"seen_at":"2026-01-01T00:00:00Z"}}"#
    );
    rig.write(&format!(".raymond/state/.elsewhere/{run}.json"), text);
    rig.adopt();
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
    rig.write("../.config/raymond/config.toml", format!("[engine.team]\nurl = \"{ENGINE}\"\n"));
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
    mark(&rig, "unknown", true);
    rig.raymond(&["status", "unknown"]).assert(1, "").says("nothing has been heard of it yet");
    rig.raymond(&["clean", "r"]);
    assert!(!rig.path(".raymond/state/.elsewhere/r.json").exists());
}

/// The run may go on elsewhere, and then its steps would run twice.
#[test]
fn a_run_whose_mark_cannot_be_read_is_not_resumed_here() {
    let rig = Rig::alone(RAYMOND);
    rig.state("START.sh", "echo >> ran; exit 1\n");
    assert_eq!(rig.raymond(&["workflow", "--id", "r", "--quiet"]).exit, 1);
    mark(&rig, "r", true);
    rig.write(".raymond/state/.elsewhere/r.json", "half of it");
    for args in [&["resume", "r"][..], &["resume"], &["retry", "r"], &["stop", "r"], &["clean", "r"]] {
        let refused = rig.raymond(args);
        assert_ne!(refused.exit, 0, "{args:?}");
        refused.says(".elsewhere/r.json: your Raymond has not made it");
    }
    assert_eq!(rig.read("ran"), "\n");
}

/// The documents of a file in `deploy/`.
fn deployed(name: &str) -> Vec<Value> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../deploy").join(name);
    let text = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let read = |part: &str| serde_saphyr::from_str(part).unwrap_or_else(|error| panic!("{name}: {error}"));
    text.split("\n---\n").map(read).collect()
}

/// The arguments of a worker, which this program must understand.
fn check_worker_arguments(arguments: &Value) {
    let arguments = arguments.as_array().unwrap().iter().map(|word| word.as_str().unwrap());
    let command: Vec<&str> = std::iter::once("worker").chain(arguments).collect();
    rig().raymond(&command).assert(2, "").says("need the program raymond-temporal");
}

#[test]
fn what_is_deployed_understands_its_arguments_and_fits_together() {
    let compose = deployed("docker-compose.yml").remove(0);
    let worker = &compose["services"]["worker"];
    check_worker_arguments(&worker["command"]);
    for other in worker["depends_on"].as_array().unwrap() {
        let other = other.as_str().unwrap();
        assert!(compose["services"][other].is_object(), "the worker waits for {other}, which is not there");
    }

    let documents = [deployed("kubernetes/worker.yaml"), deployed("kubernetes/scaling.yaml")].concat();
    let of_kind = |kind: &str| documents.iter().find(|document| document["kind"] == kind).unwrap();
    let deployment = of_kind("Deployment");
    let pod = &deployment["spec"]["template"];
    let container = &pod["spec"]["containers"][0];
    check_worker_arguments(&container["args"]);
    assert_eq!(deployment["spec"]["selector"]["matchLabels"], pod["metadata"]["labels"]);
    assert_eq!(of_kind("PodDisruptionBudget")["spec"]["selector"], deployment["spec"]["selector"]);
    let scaling = &of_kind("ScaledObject")["spec"];
    assert_eq!(scaling["scaleTargetRef"]["name"], deployment["metadata"]["name"]);
    let trigger = &scaling["triggers"][0];
    assert_eq!(trigger["authenticationRef"]["name"], of_kind("TriggerAuthentication")["metadata"]["name"]);
    let arguments: Vec<&str> =
        container["args"].as_array().unwrap().iter().map(|word| word.as_str().unwrap()).collect();
    let given = |option: &str| {
        let at = arguments.iter().position(|word| *word == option).unwrap();
        Value::from(arguments[at + 1])
    };
    assert_eq!(trigger["metadata"]["endpoint"], given("--temporal"));
    // Agents that wait for a machine have a queue of their own.
    let waiting = format!("{}.agents", given("--queue").as_str().unwrap());
    assert_eq!(trigger["metadata"]["taskQueue"], waiting);
    let formula = scaling["advanced"]["scalingModifiers"]["formula"].as_str().unwrap();
    assert!(formula.contains(&format!("waiting / {})", given("--slots").as_str().unwrap())), "{formula}");
    for trigger in scaling["triggers"].as_array().unwrap() {
        assert!(formula.contains(trigger["name"].as_str().unwrap()), "{formula}");
    }
    let counted = scaling["triggers"][1]["metadata"]["podSelector"].as_str().unwrap();
    let (label, value) = counted.split_once('=').unwrap();
    assert_eq!(pod["metadata"]["labels"][label], value);
    let mounted = container["volumeMounts"].as_array().unwrap().iter().map(|mount| &mount["name"]);
    let volumes: Vec<&Value> =
        pod["spec"]["volumes"].as_array().unwrap().iter().map(|volume| &volume["name"]).collect();
    assert!(mounted.eq(volumes.iter().copied()), "volumes and mounts differ");
    // A worker that drains must not be killed before its own time is up.
    let drain = raymond_core::duration::parse(given("--drain-timeout").as_str().unwrap()).unwrap();
    let grace = pod["spec"]["terminationGracePeriodSeconds"].as_u64().unwrap();
    assert!(grace > drain.as_secs(), "{grace} s are shorter than {drain:?}");
}
