//! The history of runs over HTTP: long ones, old ones, branches, rewinds, and what a step has changed.

use std::fmt::Write;

use serde_json::{Value, json};
use test_kit::rig::{Rig, wait_for_file, wait_until};

use super::site::Site;
use super::{kill_run, project, wait_for, with_run};
use crate::RAYMOND;
use crate::history::four_turns;
use crate::old_journals::{journals, laid_out};
use crate::repository::{commit, init};

#[test]
fn a_run_is_branched_from_a_step_and_both_say_so() {
    let rig = with_run();
    let site = Site::start(&rig);
    let made = site.post("/api/v1/runs/r/branches", &json!({ "step": 2, "id": "b", "run": true }));
    assert_eq!((made.status, made.header("location")), (201, Some("/api/v1/runs/b")), "{made:?}");
    assert_eq!(made.json(), json!({ "run": "b" }));
    wait_for(&site, "b", "status", "completed");
    let branch = site.get_json("/api/v1/runs/b");
    assert_eq!((&branch["origin"]["run"], &branch["origin"]["step"]), (&"r".into(), &2.into()));
    assert_eq!(branch["steps"], 5, "the two steps of its history and three of its own");
    let waiting = site.post("/api/v1/runs/r/branches", &json!({ "step": 4, "reset_cost": true }));
    let second = waiting.json()["run"].as_str().unwrap().to_owned();
    assert_eq!(site.get_json(&format!("/api/v1/runs/{second}"))["steps"], 4, "it has not gone on");
    // Both the page and the command line tell of the branches, the latest first.
    let branches = json!([{ "run": second, "step": 4 }, { "run": "b", "step": 2 }]);
    let by_name = |branches: &Value| {
        let mut all = branches.as_array().unwrap().clone();
        all.sort_by_key(Value::to_string);
        all
    };
    assert_eq!(by_name(&site.get_json("/api/v1/runs/r")["branches"]), by_name(&branches));
    assert_eq!(by_name(&rig.status()["branches"]), by_name(&branches));
    let said = rig.raymond(&["status", "r"]).stdout;
    assert!(said.contains("b, from step 2"), "{said}");
    assert_eq!(site.get_json("/api/v1/runs/b").get("branches"), None);
}

#[test]
fn what_cannot_be_branched_is_told() {
    let rig = project();
    rig.state("C.sh", "touch started; until [ -e go ]; do sleep 0.01; done; echo '<goto>D</goto>'");
    let site = Site::start(&rig);
    site.post("/api/v1/runs", &json!({ "workflow": "workflow", "id": "r" }));
    wait_for_file(&rig.path("started"));
    let branch = |body: Value| site.post("/api/v1/runs/r/branches", &body);
    assert_eq!(branch(json!({ "step": 4 })).status, 409, "it runs");
    assert_eq!(branch(json!({ "step": 5 })).status, 404);
    assert_eq!(branch(json!({ "step": 2, "id": "r" })).status, 409, "the id is in use");
    assert_eq!(branch(json!({ "step": 2, "id": "../x" })).status, 400);
    assert_eq!(branch(json!({ "step": -1 })).status, 400);
    assert_eq!(branch(json!({ "step": 2, "cwd": "/" })).status, 400);
    assert_eq!(site.post("/api/v1/runs/none/branches", &json!({ "step": 1 })).status, 404);
    assert_eq!(branch(json!({ "step": 2, "id": "-b" })).status, 201, "of a live run, and with any id");
    rig.write("go", "");
    wait_for(&site, "r", "status", "completed");
}

#[test]
fn a_step_shows_what_it_changed() {
    let rig = Rig::new(RAYMOND);
    init(&rig, ".");
    rig.write(".gitignore", "/workflow\n");
    rig.write("f", "one\n");
    commit(&rig, ".", "one");
    rig.state("START.sh", "echo '<b>two</b>' > f; echo '<goto>END</goto>'");
    rig.state("END.sh", "echo '<result>done</result>'");
    rig.raymond(&["workflow", "--id", "r", "--snapshots"]).assert(0, "done\n");
    let site = Site::start(&rig);
    let changes = &site.get_json("/api/v1/runs/r/steps/1")["changes"];
    let diff = changes["diff"].as_str().unwrap();
    assert!(diff.contains("-one\n+<b>two</b>\n"), "{diff}");
    assert_eq!((&changes["cut"], &changes["shared"]), (&false.into(), &false.into()));
    assert_eq!(site.get_json("/api/v1/runs/r/steps/2")["changes"]["diff"], "", "it changed nothing");
    std::fs::remove_dir_all(rig.path(".git")).unwrap();
    assert_eq!(site.get_json("/api/v1/runs/r/steps/1")["changes"]["diff"], Value::Null);
}

#[test]
fn a_rewound_run_is_shown_without_what_it_dropped() {
    let rig = with_run();
    let site = Site::start(&rig);
    assert_eq!(site.get_json("/api/v1/runs/r/overview")["steps"], 5);
    assert_eq!(rig.raymond(&["rewind", "r", "--to", "2"]).exit, 0);
    let run = site.get_json("/api/v1/runs/r");
    assert_eq!((&run["steps"], &run["origin"]["step"]), (&2.into(), &2.into()));
    let dropped = run["origin"]["dropped"].as_str().unwrap();
    assert_eq!(run["branches"], json!([{ "run": dropped, "step": null }]));
    assert_eq!(site.get_json("/api/v1/runs/r/overview")["steps"], 2);
    // The third had begun when the second ended, and is begun again.
    let steps = site.get_json("/api/v1/runs/r/steps");
    assert_eq!((&steps["steps"][2]["status"], steps["steps"].get(3)), (&"interrupted".into(), None));
    assert_eq!(site.get_json(&format!("/api/v1/runs/{dropped}/overview"))["steps"], 5);
    assert_eq!(site.get_json(&format!("/api/v1/runs/{dropped}/steps/5"))["kept"], true);
    rig.resume().assert(0, "all done\n");
    assert_eq!(site.get_json("/api/v1/runs/r/overview")["steps"], 5);
    let events = site.get_json("/api/v1/runs/r/events?limit=1000");
    assert_eq!(events["events"].as_array().unwrap().len(), rig.events().len());
}

/// A run of one agent in which each step is two batches.
fn write_long_run(rig: &Rig, steps: u64) {
    let cwd = rig.work().display().to_string();
    let (mut seq, mut text) = (0, String::new());
    let mut add = |events: &[Value], text: &mut String| {
        let mut batch = String::new();
        for event in events {
            seq += 1;
            let time = jiff::Timestamp::from_millisecond(1_780_000_000_000 + 250 * seq).unwrap();
            let head = format!(r#"{{"seq":{seq},"time":"{time}","run":"long","#);
            let body = event.to_string();
            writeln!(batch, "{head}{}", &body[1..]).unwrap();
        }
        let whole = batch.trim_end().strip_suffix('}').unwrap();
        let mark = crc32fast::hash(whole.as_bytes());
        writeln!(text, "{whole},\"commit\":\"{mark:08x}\"}}").unwrap();
    };
    let options = json!({ "budget_usd": 10, "max_parallel": 8, "no_wait": false, "skip_permissions": false });
    let started = json!({ "event": "run_started", "version": 1, "workflow": "workflow", "scope": format!("{cwd}/workflow"),
        "entry": "START.sh", "cwd": cwd, "nonce": "n", "options": options });
    add(
        &[started, json!({ "event": "agent_started", "agent": "main", "state": "START.sh", "cwd": cwd })],
        &mut text,
    );
    for step in 1..=steps {
        let state = if step % 2 == 0 { "B.sh" } else { "A.sh" };
        let other = if step % 2 == 0 { "A.sh" } else { "B.sh" };
        let begun = json!({ "event": "step_started", "agent": "main", "step": step, "attempt": 1, "state": state,
            "visits": step, "hash": "507954b802f3484a" });
        add(&[begun], &mut text);
        let ended = json!({ "event": "step_finished", "agent": "main", "step": step, "state": state, "tag": "goto",
            "target": other, "cost_usd": 0.001, "attempt_cost_usd": 0.001, "duration_ms": 200 });
        add(&[ended], &mut text);
    }
    std::fs::create_dir_all(rig.path(".raymond/state")).unwrap();
    rig.write(".raymond/state/long.jsonl", text);
    rig.adopt();
}

#[test]
fn a_long_run_is_shown_in_windows_at_any_moment() {
    const STEPS: u64 = 9_000;
    let rig = with_run();
    write_long_run(&rig, STEPS);
    let site = Site::start(&rig);
    for from in [1, 4000, 4096, 4097, 6_789, STEPS - 2] {
        let window = site.get_json(&format!("/api/v1/runs/long/steps?from={from}&limit=3"));
        let numbers: Vec<u64> =
            window["steps"].as_array().unwrap().iter().map(|step| step["step"].as_u64().unwrap()).collect();
        assert_eq!(numbers, (from..=(from + 2).min(STEPS)).collect::<Vec<_>>());
        let step = &window["steps"][0];
        assert_eq!((&step["status"], &step["ended_seq"]), (&"done".into(), &(2 * from + 2).into()), "{step}");
        assert_eq!(window["next"].as_u64(), Some(from + 3).filter(|next| *next <= STEPS));
    }
    let overview = site.get_json("/api/v1/runs/long/overview");
    assert_eq!((&overview["steps"], &overview["last_step"]), (&STEPS.into(), &STEPS.into()));
    assert_eq!(overview["states"][0]["visits"], STEPS / 2);
    let ways = overview["edges"].as_array().unwrap();
    assert!(ways.iter().any(|way| way["tag"] == "goto" && way["count"] == STEPS / 2), "{ways:?}");
    let agent = &overview["agents"][0];
    let spans = agent["spans"].as_array().unwrap();
    assert!(spans.len() <= 120, "{}", spans.len());
    let shown: u64 = spans.iter().map(|span| span["steps"].as_u64().unwrap()).sum();
    assert_eq!((agent["steps"].as_u64(), shown > STEPS / 2), (Some(STEPS), true), "{shown}");
    let money = overview["money"].as_array().unwrap();
    assert_eq!(money.last().unwrap()["cost_usd"], overview["cost_usd"]);
    // After the start of step 6,000.
    let then = site.get_json("/api/v1/runs/long/overview?at=12001");
    assert_eq!((&then["steps"], &then["last_step"]), (&5999.into(), &6000.into()));
    assert_eq!(then["cost_usd"], 5.999);
    assert_eq!(then["money"].as_array().unwrap().last().unwrap()["cost_usd"], 5.999);
    let steps = site.get_json("/api/v1/runs/long/steps?from=5999&at=12001");
    assert_eq!(steps["steps"].as_array().unwrap().len(), 2);
    assert_eq!(steps["steps"][1]["status"], "running");
    // What is not in memory is in a file without a name.
    let left = std::fs::read_dir(rig.path(".raymond")).unwrap().map(|entry| entry.unwrap().file_name());
    assert_eq!(left.filter(|name| name.to_string_lossy().ends_with(".rows")).count(), 0);
}

#[test]
fn a_moment_inside_a_batch_is_its_end() {
    let rig = with_run();
    let site = Site::start(&rig);
    // The first two events are one batch.
    let first = site.get_json("/api/v1/runs/r?at=1");
    assert_eq!(first["last_seq"], site.get_json("/api/v1/runs/r?at=2")["last_seq"]);
    assert_eq!(site.get("/api/v1/runs/r?at=99999").status, 404);
    assert_eq!(site.get("/api/v1/runs/r?at=x").status, 400);
}

#[test]
fn journals_of_an_earlier_version_are_shown_and_what_they_lack_is_named() {
    for journal in journals() {
        let rig = laid_out(&journal);
        let site = Site::start(&rig);
        let run = site.get_json("/api/v1/runs/r");
        assert_eq!(run["status"], rig.status()["status"], "{}", journal.display());
        let events = site.get_json("/api/v1/runs/r/events?limit=5000");
        let last = events["events"].as_array().unwrap().last().unwrap()["seq"].clone();
        assert_eq!(last, run["last_seq"]);
        for what in ["overview", "graph", "steps", "overview?at=2"] {
            site.get_json(&format!("/api/v1/runs/r/{what}"));
        }
        let steps = site.get_json("/api/v1/runs/r/steps");
        for step in steps["steps"].as_array().unwrap() {
            let step = site.get_json(&format!("/api/v1/runs/r/steps/{}", step["step"]));
            assert_eq!(step["kept"], false, "its debug files are not among the data");
        }
        assert_eq!(site.get("/api/v1/runs/r/export").status, 200);
    }
}

#[test]
fn a_run_that_dies_again_and_again_is_resumed_three_times() {
    let rig = Rig::new(RAYMOND);
    rig.state(
        "START.sh",
        "echo $$ >> started; until [ -e go ]; do sleep 0.01; done; echo '<result>x</result>'",
    );
    let begun = || std::fs::read_to_string(rig.path("started")).unwrap_or_default().lines().count();
    let kill = || kill_run(&rig, ".raymond/state", "r");
    let site = Site::start(&rig);
    site.post("/api/v1/runs", &json!({ "workflow": "workflow", "id": "r" }));
    wait_until("the first start", || begun() == 1);
    site.live.kill();
    kill();
    for resumed in 1..=3 {
        let site = Site::start(&rig);
        wait_until("a resume", || begun() == 1 + resumed);
        site.live.kill();
        kill();
    }
    let site = Site::start(&rig);
    wait_until("the run to be shown as interrupted", || site.get_json("/api/v1/runs/r")["live"] == false);
    // A change of another run shows that the server has looked at all of them.
    site.post("/api/v1/runs", &json!({ "workflow": "workflow", "id": "other" }));
    wait_until("the other run", || begun() == 5);
    assert_eq!(site.get_json("/api/v1/runs/r")["status"], "interrupted");
    // A person may still resume it.
    rig.write("go", "");
    assert_eq!(site.post("/api/v1/runs/r/resume", &json!({})).status, 202);
    wait_for(&site, "r", "status", "completed");
}

#[test]
fn a_port_that_is_taken_is_told_or_the_next_one_is_used() {
    let rig = Rig::new(RAYMOND);
    let site = Site::start(&rig);
    let refused = rig.raymond(&["serve", "--listen", &site.address]);
    assert_eq!(refused.exit, 2, "{refused:?}");
    refused.says("give another address or port");
    let (first, second) = (Site::start_with(&rig, &[]), Site::start_with(&rig, &[]));
    assert_ne!(first.address, second.address);
}

#[test]
fn what_runs_have_in_common_is_counted_once() {
    let rig = four_turns();
    rig.run().assert(0, "done\n");
    rig.raymond(&["branch", "r", "--at", "2", "--id", "b", "--run"]).assert(0, "done\n");
    rig.raymond(&["rewind", "r", "--to", "1", "--run"]).assert(0, "done\n");
    rig.raymond(&["branch", "b", "--at", "3", "--id", "free", "--reset-cost", "--run"]).assert(0, "done\n");
    let paid = rig.calls().len();
    assert_eq!(paid, 4 + 2 + 3 + 1);
    let metrics = Site::start(&rig).get("/metrics").body;
    for line in ["raymond_cost_usd_total 2.5", "raymond_steps_total 10", "raymond_turns_total 10"] {
        assert!(metrics.contains(&format!("\n{line}\n")), "{line}: {metrics}");
    }
}
