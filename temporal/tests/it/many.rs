//! Many agents on several workers.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::harness::{Process, Rig, count};

/// How many agents are forked in the test that always runs, and in those that are asked for.
const SOME: usize = 60;
const MANY: usize = 1_000;
const VERY_MANY: usize = 10_000;

#[test]
fn a_worker_is_killed_halfway_through_a_fan_out() {
    a_worker_is_killed_halfway(SOME);
}

/// `cargo test --release -- --ignored --nocapture a_thousand`
#[test]
#[ignore = "on demand: takes minutes"]
fn a_worker_is_killed_halfway_through_a_fan_out_of_a_thousand_agents() {
    a_worker_is_killed_halfway(MANY);
}

/// Each agent has a script and a turn that costs a cent. One of four workers is killed when half of the scripts have run.
fn a_worker_is_killed_halfway(agents: usize) {
    let Some(rig) = Rig::quick() else { return };
    fork(&rig, agents);
    rig.state("workflow.yaml", "backend: scripted\n");
    rig.state("ONE.sh", "echo \"$N\" >> $DIR/ran; echo '<goto>TURN</goto>'\n");
    rig.state("TURN.md", "Take a turn.\n");
    rig.state("replies.yaml", "TURN: { reply: \"<result>ok</result>\", cost: 0.01 }\n");
    let mut workers = ["a", "b", "c", "d"].map(|name| rig.worker(name));
    let follower = follow(&rig, &["--budget", "100000", "--max-parallel", "16"]);
    eventually_within(limit(agents), "half of the agents", || rig.read("ran").lines().count() >= agents / 2);
    workers[3].kill();
    let log = ends(&rig, follower, agents);
    all_ended_once(&log, agents, 2 * agents + 3);
    let scripts: BTreeSet<String> = rig.read("ran").lines().map(str::to_owned).collect();
    assert_eq!(scripts.len(), agents, "a script has not run");
    // A turn that was lost with its worker counts with its share of the budget.
    let lost = of(&log, "retry").map(|event| cents(event, "attempt_cost_usd"));
    let end = of(&log, "run_finished").next().expect("the end");
    assert_eq!(cents(end, "cost_usd"), agents as u64 + lost.sum::<u64>(), "{end}");
}

/// No limit of the server is met: of pending activities, of a history's length, and of a message. More
/// scripts may be started at once than a run starts there. `cargo test --release -- --ignored --nocapture ten_thousand`
#[test]
#[ignore = "on demand: takes minutes"]
fn ten_thousand_agents_are_forked_and_joined() {
    let Some(rig) = Rig::new() else { return };
    fork(&rig, VERY_MANY);
    rig.state("workflow.yaml", "max_parallel_scripts: 1000\n");
    rig.state("ONE.sh", "echo \"<result>$N</result>\"\n");
    let _workers = ["a", "b", "c", "d"].map(|name| rig.worker(name));
    let follower = follow(&rig, &[]);
    let log = ends(&rig, follower, VERY_MANY);
    all_ended_once(&log, VERY_MANY, VERY_MANY + 3);
}

/// A first state that forks so many agents, and waits for all of them.
fn fork(rig: &Rig, agents: usize) {
    let forks = format!(
        "for n in $(seq {agents}); do echo \"<fork N=\\\"$n\\\" next=\\\"ALL\\\">ONE</fork>\"; done\n"
    );
    rig.state("START.sh", &forks);
    rig.state("ALL.sh", "echo '<join>DONE</join>'\n");
    rig.state("DONE.sh", "echo '<result>all</result>'\n");
}

fn follow(rig: &Rig, options: &[&str]) -> Process {
    let address = rig.address();
    let mut arguments = vec!["run", "wf", "--id", "r", "--on", &address];
    arguments.extend(options);
    rig.spawn(&arguments)
}

/// Waits for the end of the run, and returns its journal.
fn ends(rig: &Rig, mut follower: Process, agents: usize) -> Vec<Value> {
    let begun = Instant::now();
    eventually_within(limit(agents), "the end of the run", || follower.0.try_wait().unwrap().is_some());
    assert!(follower.ends(), "{}", rig.logs());
    let log = rig.until("run_finished");
    eprintln!("{agents} agents, {} steps: {:.1?}", count(&log, "step_finished"), begun.elapsed());
    log
}

/// Each step was completed once, and each agent is in the join.
fn all_ended_once(log: &[Value], agents: usize, steps: usize) {
    assert_eq!(count(log, "step_finished"), steps);
    let numbers: BTreeSet<u64> =
        of(log, "step_finished").filter_map(|event| event["step"].as_u64()).collect();
    assert_eq!(numbers.len(), steps, "a step was completed twice");
    assert_eq!(count(log, "agent_finished"), agents + 1);
    let joined = of(log, "joined").next().and_then(|event| event["workers"].as_array()).map(Vec::len);
    assert_eq!(joined, Some(agents));
}

fn of<'a>(log: &'a [Value], kind: &str) -> impl Iterator<Item = &'a Value> {
    log.iter().filter(move |event| event["event"] == kind)
}

fn cents(event: &Value, key: &str) -> u64 {
    (event[key].as_f64().unwrap_or(0.0) * 100.0).round() as u64
}

fn limit(agents: usize) -> Duration {
    Duration::from_secs(120 + agents as u64 * 2)
}

fn eventually_within(limit: Duration, what: &str, mut is_so: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !is_so() {
        assert!(begun.elapsed() < limit, "this did not happen within {limit:?}: {what}");
        std::thread::sleep(Duration::from_millis(100));
    }
}
