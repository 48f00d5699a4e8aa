//! Many agents on several workers.

use std::time::{Duration, Instant};

use crate::harness::{Rig, count, eventually};

/// How many agents are forked in the test that always runs, and in the one that is asked for.
const SOME: usize = 60;
const MANY: usize = 1_000;

#[test]
fn a_worker_is_killed_halfway_through_a_fan_out() {
    fan_out(SOME);
}

/// `cargo test -- --ignored a_thousand`
#[test]
#[ignore = "takes minutes"]
fn a_worker_is_killed_halfway_through_a_fan_out_of_a_thousand_agents() {
    fan_out(MANY);
}

/// Each agent has a script and a turn that costs a cent. One of four workers is killed when half of the scripts have run.
fn fan_out(agents: usize) {
    let Some(rig) = Rig::quick() else { return };
    rig.state("workflow.yaml", "backend: scripted\n");
    rig.state(
        "START.sh",
        &format!(
            "for n in $(seq {agents}); do echo \"<fork N=\\\"$n\\\" next=\\\"ALL\\\">ONE</fork>\"; done\n"
        ),
    );
    rig.state("ONE.sh", "echo \"$N\" >> $DIR/ran; echo '<goto>TURN</goto>'\n");
    rig.state("TURN.md", "Take a turn.\n");
    rig.state("replies.yaml", "TURN: { reply: \"<result>ok</result>\", cost: 0.01 }\n");
    rig.state("ALL.sh", "echo '<join>DONE</join>'\n");
    rig.state("DONE.sh", "echo \"<result>$(echo \"$RAYMOND_RESULT\" | grep -c ok)</result>\"\n");
    let mut workers = ["a", "b", "c", "d"].map(|name| rig.worker(name));
    let begun = Instant::now();
    let mut follower = rig.spawn(&[
        "run",
        "wf",
        "--id",
        "r",
        "--budget",
        "100000",
        "--max-parallel",
        "16",
        "--on",
        &rig.address(),
    ]);
    let limit = Duration::from_secs(120 + agents as u64 * 2);
    eventually_within(limit, "half of the agents", || rig.read("ran").lines().count() >= agents / 2);
    workers[3].kill();
    eventually_within(limit, "the end of the run", || follower.0.try_wait().unwrap().is_some());
    eprintln!("{agents} agents, {} steps: {:.1?}", 2 * agents + 3, begun.elapsed());
    assert!(follower.ends(), "{}", rig.logs());
    let log = rig.until("run_finished");
    assert_eq!(count(&log, "step_finished"), 2 * agents + 3);
    assert_eq!(count(&log, "agent_finished"), agents + 1);
    let cents =
        |event: &serde_json::Value, key: &str| (event[key].as_f64().unwrap_or(0.0) * 100.0).round() as u64;
    // A turn that was lost with its worker counts with its share of the budget.
    let lost =
        log.iter().filter(|event| event["event"] == "retry").map(|event| cents(event, "attempt_cost_usd"));
    let end = log.iter().find(|event| event["event"] == "run_finished").unwrap();
    assert_eq!(cents(end, "cost_usd"), agents as u64 + lost.sum::<u64>(), "{end}");
    eventually("all scripts", || (rig.read("ran").lines().count() >= agents).then_some(()));
}

fn eventually_within(limit: Duration, what: &str, mut is_so: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !is_so() {
        assert!(begun.elapsed() < limit, "this did not happen within {limit:?}: {what}");
        std::thread::sleep(Duration::from_millis(100));
    }
}
