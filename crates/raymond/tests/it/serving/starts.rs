//! What starting runs through the API may do, and what others can see of it.

use std::fs;

use serde_json::{Value, json};
use test_kit::rig::{Rig, wait_for_file};

use super::site::Site;
use crate::RAYMOND;

/// How many want the same at once.
const RIVALS: usize = 6;

fn rig() -> Rig {
    let rig = Rig::new(RAYMOND);
    rig.state("START.sh", "echo '<goto>NEXT</goto>'").state("NEXT.sh", "echo '<result>done</result>'");
    rig
}

#[test]
fn of_runs_that_want_one_id_one_is_started() {
    let rig = rig();
    let site = Site::start(&rig);
    let start = || site.post("/api/v1/runs", &json!({ "workflow": "workflow", "id": "same" }));
    let answers: Vec<_> = std::thread::scope(|scope| {
        let rivals: Vec<_> = (0..RIVALS).map(|_| scope.spawn(start)).collect();
        rivals.into_iter().map(|rival| rival.join().unwrap()).collect()
    });
    let count = |status: u16| answers.iter().filter(|answer| answer.status == status).count();
    assert_eq!((count(201), count(409)), (1, RIVALS - 1), "{answers:?}");
    let rivals: Vec<_> = (0..RIVALS).map(|_| rig.start(&["workflow", "--id", "typed"])).collect();
    let by_api = site.post("/api/v1/runs", &json!({ "workflow": "workflow", "id": "typed" })).status;
    let exits: Vec<i32> = rivals.into_iter().map(|rival| rival.wait().exit).collect();
    let made = exits.iter().filter(|exit| **exit == 0).count() + usize::from(by_api == 201);
    assert!(made == 1 && exits.iter().all(|exit| [0, 2].contains(exit)), "{exits:?} {by_api}");
    assert!([201, 409].contains(&by_api), "{by_api}");
}

/// The command lines of all processes in which a text stands.
fn command_lines_with(text: &str) -> Vec<String> {
    let entries = fs::read_dir("/proc").unwrap().flatten();
    let lines = entries.filter_map(|entry| fs::read(entry.path().join("cmdline")).ok());
    let lines = lines.map(|line| String::from_utf8_lossy(&line).replace('\0', " "));
    lines.filter(|line| line.contains(text)).collect()
}

#[test]
fn what_a_person_types_stands_on_no_command_line_and_may_be_long() {
    let rig = Rig::new(RAYMOND);
    rig.state("START.sh", "wc -c < \"$RAYMOND_INPUT_FILE\" > \"$RAYMOND_RUN_ID.here\"\nwhile [ ! -e go ]; do sleep 0.05; done\necho '<goto>STOP</goto>'");
    rig.state(
        "STOP.sh",
        "[ -e mended ] || exit 1\necho \"<result>$(cat \"$RAYMOND_RUN_ID.here\") $note</result>\"",
    );
    rig.write("workflow/workflow.yaml", "inputs:\n  note: { type: string }\n");
    let site = Site::start(&rig);
    let secret = format!("s3cret-{}", std::process::id());
    let of = |what: &str| format!("{secret}-{what}");
    let long = "x".repeat(60_000);
    let body = json!({
        "workflow": "workflow", "id": of("id"), "input": of("input") + &long + &long + &long, "inputs": { "note": of("note") },
        "model": of("model"), "effort": of("effort"), "labels": { "team": of("label") },
    });
    let begun = site.post("/api/v1/runs", &body);
    assert_eq!(begun.status, 201, "{begun:?}");
    wait_for_file(&rig.path(&format!("{}.here", of("id"))));
    assert_eq!(command_lines_with(&secret), Vec::<String>::new());
    rig.write("go", "");
    let run = format!("/api/v1/runs/{}", of("id"));
    let failed = || site.get_json(&run);
    test_kit::rig::wait_until("its end", || failed()["status"] == "failed" && failed()["live"] == false);
    rig.write("mended", "");
    let resumed = site.post(&format!("{run}/resume"), &json!({ "model": of("other") }));
    assert_eq!(resumed.status, 202, "{resumed:?}");
    test_kit::rig::wait_until("the result", || site.get_json(&run)["status"] == "completed");
    let expected = format!("{} {}", of("input").len() + 3 * long.len(), of("note"));
    assert_eq!(site.get_json(&run)["result"], expected);
    assert_eq!(site.get_json(&run)["labels"]["team"], of("label"));
    // A text that looks like an option, or like a request for stdin, is a text.
    let dash = site.post("/api/v1/runs", &json!({ "workflow": "workflow", "id": "dash", "input": "-" }));
    assert_eq!(dash.status, 201, "{dash:?}");
    test_kit::rig::wait_until("the result", || site.get_json("/api/v1/runs/dash")["result"] == "1 ");
}

#[test]
fn what_cannot_be_a_label_or_a_name_is_refused_with_the_reason() {
    let rig = rig();
    let site = Site::start(&rig);
    let long = "x".repeat(200_000);
    let start = |field: &str, value: Value| {
        site.post("/api/v1/runs", &json!({ "workflow": "workflow", field: value }))
    };
    for labels in [
        json!({ "a=b": "c" }),
        json!({ "": "x" }),
        json!({ "k": long.clone() }),
        json!({ long.clone(): "v" }),
    ] {
        let refused = start("labels", labels);
        assert_eq!(refused.status, 422, "{refused:?}");
        assert!(refused.json()["detail"].as_str().unwrap().contains("label"), "{refused:?}");
    }
    for field in ["model", "effort", "backend"] {
        for value in [long.as_str(), "two\nlines"] {
            let refused = start(field, value.into());
            assert!([400, 422].contains(&refused.status), "{field}: {refused:?}");
        }
    }
    assert!(site.get_json("/api/v1/runs")["runs"].as_array().unwrap().is_empty());
    rig.raymond(&["workflow", "--label", "=x"]).assert(2, "").says("KEY=VALUE");
    rig.raymond(&["workflow", "--label", &format!("k={}", "x".repeat(5000))])
        .assert(2, "")
        .says("longer than");
    rig.raymond(&["workflow", "--id", "r", "--label", "k=a=b"]).assert(0, "done\n");
    assert_eq!(rig.status()["labels"]["k"], "a=b");
}

/// The runs' options that say that agents may do anything, in the order of the events.
fn skips(site: &Site, run: &str) -> Vec<bool> {
    let events = site.get_json(&format!("/api/v1/runs/{run}/events?limit=1000"));
    let events = events["events"].as_array().unwrap();
    events.iter().filter_map(|event| event["options"]["skip_permissions"].as_bool()).collect()
}

#[test]
fn what_the_api_starts_asks_for_permissions_however_the_run_was_started() {
    let rig = Rig::new(RAYMOND);
    rig.state("START.sh", "echo '<goto>NEXT</goto>'");
    rig.state("NEXT.sh", "[ -e mended ] || exit 1\necho '<result>done</result>'");
    rig.raymond(&["workflow", "--id", "r", "--dangerously-skip-permissions"]).assert(1, "");
    rig.write("mended", "");
    let site = Site::start(&rig);
    let ended = |run: &str| {
        let address = format!("/api/v1/runs/{run}");
        test_kit::rig::wait_until("its end", || site.get_json(&address)["status"] == "completed");
    };
    let branch = site.post("/api/v1/runs/r/branches", &json!({ "step": 1, "id": "b", "run": true }));
    assert_eq!(branch.status, 201, "{branch:?}");
    ended("b");
    assert_eq!(skips(&site, "b").last(), Some(&false), "{:?}", skips(&site, "b"));
    // Neither does a branch that a person goes on with later.
    let branch = site.post("/api/v1/runs/r/branches", &json!({ "step": 1, "id": "c" }));
    assert_eq!(branch.status, 201, "{branch:?}");
    rig.raymond(&["resume", "c"]).assert(0, "done\n");
    assert_eq!(skips(&site, "c").last(), Some(&false), "{:?}", skips(&site, "c"));
    assert_eq!(site.post("/api/v1/runs/r/resume", &json!({})).status, 202);
    ended("r");
    assert_eq!(skips(&site, "r"), [true, false]);
}

#[test]
fn with_the_flag_of_the_server_a_run_keeps_what_it_was_started_with() {
    let rig = Rig::new(RAYMOND);
    rig.state("START.sh", "[ -e mended ] || exit 1\necho '<result>done</result>'");
    rig.raymond(&["workflow", "--id", "asks"]).assert(1, "");
    rig.raymond(&["workflow", "--id", "skips", "--dangerously-skip-permissions"]).assert(1, "");
    rig.write("mended", "");
    let site = Site::start_with(&rig, &["--listen", "127.0.0.1:0", "--dangerously-skip-permissions"]);
    for run in ["asks", "skips"] {
        assert_eq!(site.post(&format!("/api/v1/runs/{run}/resume"), &json!({})).status, 202);
        let address = format!("/api/v1/runs/{run}");
        test_kit::rig::wait_until("its end", || site.get_json(&address)["status"] == "completed");
    }
    assert_eq!((skips(&site, "asks"), skips(&site, "skips")), (vec![false, false], vec![true, true]));
    assert_eq!(site.post("/api/v1/runs", &json!({ "workflow": "workflow", "id": "new" })).status, 201);
    assert_eq!(skips(&site, "new"), [true]);
}
