//! Workflows that start by themselves: only those that are trusted, as they were.

use serde_json::Value;
use test_kit::rig::{Rig, wait_for_file, wait_until};

use super::kill_run;
use super::site::Site;
use crate::RAYMOND;

// In a folder that is named, what these tests write counts.
const SCHEDULES: [&str; 5] = ["--listen", "127.0.0.1:0", "--schedules", "--state-dir", "s"];

/// A workflow with a schedule, and a user with a notify command. That of the project leaves a trace if it is obeyed.
fn rig() -> Rig {
    let rig = Rig::new(RAYMOND);
    rig.state(
        "START.sh",
        "echo x >> ran; echo \"$PYTHONDONTWRITEBYTECODE\" > python; echo '<result>ok</result>'",
    );
    rig.state("workflow.yaml", "schedule: \"0 0 1 1 *\"\n");
    let own = rig.home().join(".config/raymond");
    std::fs::create_dir_all(&own).unwrap();
    // It appears whole: a test may read it at any moment.
    let told = rig.path("told").display().to_string();
    let command = format!(
        "(echo \"$RAYMOND_EVENT\"; cat) >> {told}.part; cp {told}.part {told}.new; mv {told}.new {told}"
    );
    std::fs::write(own.join("config.toml"), format!("[raymond]\nnotify = {command:?}\n")).unwrap();
    rig
}

/// As if the workflow had been due for years when `serve` starts next.
fn make_due(rig: &Rig) {
    let file = rig.path("s/serve.schedules");
    let known = std::fs::read_to_string(&file).unwrap();
    let until = known.split("\"until\": \"").nth(1).unwrap().split('"').next().unwrap().to_owned();
    std::fs::write(&file, known.replace(&until, "2020-06-01T00:00:00Z")).unwrap();
}

/// Serves until the workflow that was due has been seen to.
fn serve_when_due(rig: &Rig) -> Site {
    make_due(rig);
    let site = Site::start_with(rig, &SCHEDULES);
    wait_until("the due time to be seen to", || !rig.read("s/serve.schedules").contains("2020-06-01"));
    site
}

/// Trusts the workflow and lets a server start it because it is due. The run has begun its step.
fn begun_by_schedule(rig: &Rig) -> (Site, String) {
    assert_eq!(rig.raymond(&["trust", "workflow", "--yes"]).exit, 0);
    let site = Site::start_with(rig, &SCHEDULES);
    wait_for_file(&rig.path("s/serve.schedules"));
    site.live.kill();
    let site = serve_when_due(rig);
    wait_for_file(&rig.path("ran"));
    let run = site.get_json("/api/v1/runs")["runs"][0]["run"].as_str().unwrap().to_owned();
    (site, run)
}

fn items(site: &Site) -> Vec<Value> {
    site.get_json("/api/v1/inbox")["items"].as_array().unwrap().clone()
}

fn runs(site: &Site) -> usize {
    site.get_json("/api/v1/runs")["runs"].as_array().unwrap().len()
}

#[test]
fn a_schedule_starts_only_what_is_trusted_as_it_was() {
    let rig = rig();
    let site = Site::start_with(&rig, &SCHEDULES);
    site.live.wait_for_stderr("workflow is not started by its schedule: it is not trusted");
    wait_for_file(&rig.path("told"));
    let told = rig.read("told");
    let (event, json) = told.split_once('\n').unwrap();
    let notice: Value = serde_json::from_str(json).unwrap();
    assert_eq!(
        (event, &notice["workflow"], &notice["error"]),
        ("untrusted", &"workflow".into(), &"it is not trusted".into())
    );
    wait_for_file(&rig.path("s/serve.schedules"));
    site.live.kill();
    // Due, and not trusted.
    let site = serve_when_due(&rig);
    let held = items(&site);
    assert_eq!(
        (held.len(), &held[0]["kind"], &held[0]["workflow"]),
        (1, &"untrusted".into(), &"workflow".into())
    );
    let advice = format!(
        "it is not trusted; look at what it may do: raymond trust {}",
        rig.path("workflow").display()
    );
    assert_eq!((&held[0]["error"], &held[0]["run"]), (&advice.into(), &Value::Null));
    assert_eq!(runs(&site), 0);
    // The item is gone as soon as it is trusted.
    assert_eq!(rig.raymond(&["trust", "workflow", "--yes"]).exit, 0);
    assert_eq!(items(&site), Vec::<Value>::new());
    site.live.kill();
    // Due, and trusted.
    let site = serve_when_due(&rig);
    wait_for_file(&rig.path("ran"));
    wait_until("the run to end", || site.get_json("/api/v1/runs")["runs"][0]["status"] == "completed");
    assert_eq!((runs(&site), rig.read("python").trim()), (1, "1"));
    assert_eq!(items(&site), Vec::<Value>::new());
    site.live.kill();
    // Due, and changed.
    rig.state("lib/helper.sh", "x");
    let site = serve_when_due(&rig);
    let held = items(&site);
    assert!(
        held[0]["error"].as_str().unwrap().starts_with("it has changed since it was trusted"),
        "{held:?}"
    );
    assert_eq!((runs(&site), rig.read("ran").as_str()), (1, "x\n"));
    // A person may start it all the same.
    assert_eq!(site.post("/api/v1/runs", &serde_json::json!({ "workflow": "workflow" })).status, 201);
}

#[test]
fn a_held_workflow_is_told_of_once_for_each_change() {
    let rig = rig();
    let times = || rig.read("told").matches("untrusted\n").count();
    let serve_once = |expected: usize| {
        let site = Site::start_with(&rig, &SCHEDULES);
        wait_until("the inbox", || !items(&site).is_empty());
        wait_until("the command to have told it", || times() == expected);
        site.live.kill();
    };
    serve_once(1);
    serve_once(1);
    rig.state("notes.txt", "not trusted, whatever is in it");
    serve_once(1);
    assert_eq!(rig.raymond(&["trust", "workflow", "--yes"]).exit, 0);
    rig.state("notes.txt", "other");
    serve_once(2);
    serve_once(2);
    rig.state("notes.txt", "yet another");
    serve_once(3);
    assert_eq!(times(), 3);
}

#[test]
fn the_command_of_a_project_is_not_told_of_held_workflows() {
    let rig = rig();
    std::fs::remove_file(rig.home().join(".config/raymond/config.toml")).unwrap();
    rig.write(".raymond/config.toml", "[raymond]\nnotify = \"touch obeyed\"\n");
    let site = Site::start_with(&rig, &SCHEDULES);
    wait_until("the inbox", || !items(&site).is_empty());
    wait_for_file(&rig.path("s/serve.schedules"));
    assert!(!rig.path("obeyed").exists());
}

#[test]
fn a_run_of_a_schedule_whose_workflow_has_changed_is_not_resumed() {
    let rig = rig();
    rig.state(
        "START.sh",
        "echo x >> ran; while [ ! -e go ]; do sleep 0.05; done; echo '<result>ok</result>'",
    );
    let (site, run) = begun_by_schedule(&rig);
    site.live.kill();
    kill_run(&rig, "s", &run);
    rig.state("START.sh", "touch evil; echo '<result>evil</result>'");
    let site = Site::start_with(&rig, &SCHEDULES);
    site.live.wait_for_stderr(&format!("{run} is not resumed: its schedule began it"));
    assert!(!rig.path("evil").exists());
    // A person may resume it.
    let resumed = rig.raymond(&["resume", &run, "--state-dir", "s"]);
    assert_eq!((resumed.exit, resumed.stdout.as_str()), (0, "evil\n"), "{resumed:?}");
}

#[test]
fn a_schedule_that_waits_for_the_end_of_its_run_is_told_of() {
    let rig = rig();
    let wait = "echo x >> ran; while [ ! -e go ]; do sleep 0.05; done; echo '<result>ok</result>'";
    rig.state("START.sh", wait);
    let (site, run) = begun_by_schedule(&rig);
    let list = |more: &[&str]| rig.raymond(&[&["list", "--state-dir", "s"], more].concat()).stdout;
    assert!(!list(&["--json"]).contains("schedule_waits_since"));
    site.live.kill();
    let site = serve_when_due(&rig);
    let told = || site.get_json(&format!("/api/v1/runs/{run}"))["schedule_waits_since"].is_string();
    wait_until("the schedule to be held back", told);
    assert!(site.get_json("/api/v1/runs")["runs"][0]["schedule_waits_since"].is_string());
    let said = "its schedule waits for the end of this run since ";
    assert!(list(&[]).contains(said));
    assert!(list(&["--json"]).contains("schedule_waits_since"));
    let status = rig.raymond(&["status", &run, "--state-dir", "s"]).stdout;
    assert!(status.contains("  schedule  waits for the end of this run since "), "{status}");
    assert_eq!(rig.read("ran"), "x\n", "it was not started again");
    rig.write("go", "");
    wait_until("the run to end", || !told());
    assert!(!list(&[]).contains(said));
}

#[test]
fn a_schedule_that_is_wrong_is_told_of_by_lint_and_by_serve() {
    for (wrong, key) in [
        ("schedule: \"61 * * * *\"\n", "schedule"),
        ("schedule: \"0 3 * * *\"\nschedule_timezone: Europe/Nowhere\n", "schedule_timezone"),
    ] {
        let rig = rig();
        rig.state("workflow.yaml", wrong);
        let lint = rig.raymond(&["lint", "workflow"]);
        assert_eq!(lint.exit, 1, "{lint:?}");
        let found = format!("{}{}", lint.stdout, lint.stderr);
        assert!(found.contains(&format!("`{key}`: ")) && found.contains("R001"), "{found}");
        let site = Site::start_with(&rig, &SCHEDULES);
        site.live.wait_for_stderr("workflow: its schedule cannot be kept: ");
        let errors = &site.get_json("/api/v1/workflows")["workflows"][0]["findings"]["errors"];
        assert_eq!(*errors, 1, "the page shows it");
        // A person may start it all the same.
        assert_eq!(rig.raymond(&["workflow", "--state-dir", "s"]).exit, 0);
    }
}
