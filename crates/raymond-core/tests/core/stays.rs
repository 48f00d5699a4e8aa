//! Since when agents are in their states, why they wait there, and what they have cost.

use raymond_core::evolve::restore;
use raymond_core::input::FaultClass;
use raymond_core::run::{Run, Status};

use crate::rig::{Rig, beginning, fold, usd};

/// The seconds from the beginning of the run to the time since when an agent is where it is.
fn since(rig: &Rig, agent: &str) -> i64 {
    rig.agent(agent).since.duration_since(beginning()).as_secs()
}

fn error(rig: &Rig) -> Option<&str> {
    match &rig.agent("main").status {
        Status::Waiting { error, .. } => error.as_deref(),
        _ => None,
    }
}

#[test]
fn an_attempt_that_is_repeated_is_the_same_stay() {
    let mut rig = Rig::new("P.md").prompt("P", "model: x").prompt("Q", "model: x");
    rig.passes(10);
    rig.breaks_for("main", 0.5, FaultClass::Retry);
    assert_eq!((since(&rig, "main"), error(&rig)), (0, Some("broke")));
    rig.passes(1);
    assert_eq!((since(&rig, "main"), error(&rig)), (0, None), "the second attempt");
    rig.says_for("main", 0.25, "<goto>Q</goto>");
    assert_eq!(since(&rig, "main"), 11, "the next state");
    rig.says_for("main", 0.25, "no tag");
    assert_eq!(rig.agent("main").cost_usd, usd(1.0));
}

#[test]
fn waiting_is_a_stay_of_its_own() {
    let mut rig = Rig::new("A").waiting();
    rig.passes(5);
    rig.emits("main", "<goto delay=\"10s\">B</goto>");
    assert_eq!((since(&rig, "main"), error(&rig)), (5, None));
    rig.passes(10);
    assert_eq!(since(&rig, "main"), 15);
    rig.passes(1);
    rig.emits("main", "<ask next=\"C\">why?</ask>");
    rig.passes(2);
    assert_eq!(since(&rig, "main"), 16);
    rig.answers("ask1", "so");
    assert_eq!(since(&rig, "main"), 18);
}

#[test]
fn a_resume_begins_a_stay_and_keeps_the_cost() {
    let mut rig = Rig::new("P.md").prompt("P", "model: x").prompt("Q", "model: x");
    rig.says_for("main", 0.5, "<goto>Q</goto>");
    rig.passes(5);
    rig.die();
    rig.passes(5);
    rig.resume();
    assert_eq!((since(&rig, "main"), rig.agent("main").cost_usd), (10, usd(0.5)));
}

/// Earlier versions did not write these fields.
#[test]
fn a_snapshot_of_an_earlier_version_can_be_read() {
    let mut rig = Rig::new("A");
    rig.passes(5);
    rig.emits("main", "<goto>B</goto>");
    let run = fold(&rig.journal).unwrap();
    let mut old = serde_json::to_value(&run).unwrap();
    let main = old["agents"]["main"].as_object_mut().unwrap();
    assert!(main.remove("since").is_some() && !main.contains_key("cost_usd"));
    let read: Run = serde_json::from_value(old).unwrap();
    assert_eq!(restore(read, run.seq).agents.values().next().unwrap().since, run.last_time);
}
