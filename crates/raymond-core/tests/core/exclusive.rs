//! Steps with the same `exclusive` name take turns.

use std::collections::BTreeSet;

use expect_test::expect;
use raymond_core::event::{Body, Event};
use raymond_core::input::FaultClass;
use raymond_core::run::Options;

use crate::rig::Rig;
use crate::show::{check, check_agents};

/// Main forks workers into each of the states and goes on at N.
fn forked(rig: &mut Rig, states: &[&str]) -> Vec<Event> {
    rig.round([]);
    let forks: String = states.iter().map(|state| format!("<fork next=\"N\">{state}</fork>")).collect();
    rig.emits("main", &forks)
}

fn started(events: &[Event]) -> Vec<&str> {
    let steps = events.iter().filter_map(|event| match &event.body {
        Body::StepStarted(started) => Some(started.agent.as_str()),
        _ => None,
    });
    steps.collect()
}

#[test]
fn steps_with_one_name_run_one_after_the_other_in_order() {
    let mut rig = Rig::new("START").header("W", "exclusive=git").header("V", "exclusive=git");
    let batch = forked(&mut rig, &["W", "V", "W", "X"]);
    check(
        &batch[batch.len() - 5..],
        expect![[r#"
            step_started main 2 N.sh attempt=1 visits=1
            step_started main_w1 3 W.sh attempt=1 exclusive=git visits=1
            exclusive_waiting main_v2 V.sh exclusive=git
            exclusive_waiting main_w3 W.sh exclusive=git
            step_started main_x4 4 X.sh attempt=1 visits=1
        "#]],
    );
    assert_eq!(started(&rig.emits("main_x4", "<result></result>")), Vec::<&str>::new());
    assert_eq!(started(&rig.emits("main_w1", "<goto>W</goto>")), ["main_v2"]);
    assert_eq!(started(&rig.emits("main_v2", "<result></result>")), ["main_w3"]);
    assert_eq!(started(&rig.emits("main_w3", "<result></result>")), ["main_w1"]);
}

#[test]
fn scripts_and_prompts_with_one_name_take_turns_and_hold_no_slot_while_they_wait() {
    let options = Options { max_parallel: 1, max_parallel_scripts: 2, ..Options::default() };
    let mut rig = Rig::with("START", options)
        .header("W", "exclusive=git")
        .prompt("P", "exclusive: git")
        .prompt("Q", "model: opus");
    let batch = forked(&mut rig, &["W", "P", "W", "Q"]);
    assert_eq!(started(&batch), ["main", "main_w1", "main_q4"]);
    // The only slot for prompts is taken, so P keeps its place before the third worker.
    assert_eq!(started(&rig.emits("main_w1", "<result></result>")), Vec::<&str>::new());
    assert_eq!(started(&rig.says("main_q4", "<result></result>")), ["main_p2"]);
    assert_eq!(started(&rig.says("main_p2", "<result></result>")), ["main_w3"]);
}

#[test]
fn a_step_keeps_its_name_between_two_attempts() {
    let mut rig =
        Rig::new("START").header("W", "exclusive=git retry=1 backoff=5s").header("V", "exclusive=git");
    forked(&mut rig, &["W", "V"]);
    assert_eq!(started(&rig.exits("main_w1", 1)), Vec::<&str>::new());
    check_agents(
        &rig,
        expect![[r#"
            main running 2.1 in N.sh
            main_w1 waiting +5s in W.sh
            main_v2 ready in V.sh
        "#]],
    );
    assert_eq!(started(&rig.passes(5)), ["main_w1"]);
    // After its last failure the name is free. The run stops, because the failure is fatal.
    rig.exits("main_w1", 1);
    rig.emits("main", "<result></result>");
    assert_eq!(started(&rig.resume()), ["main_v2"]);
    assert_eq!(started(&rig.emits("main_v2", "<result></result>")), ["main_w1"]);
}

#[test]
fn a_usage_limit_keeps_the_name_too() {
    let mut rig = Rig::new("START").prompt("P", "exclusive: git");
    forked(&mut rig, &["P", "P"]);
    let until = rig.now + jiff::SignedDuration::from_secs(60);
    assert_eq!(started(&rig.breaks("main_p1", FaultClass::Limit { until: Some(until) })), Vec::<&str>::new());
    assert_eq!(started(&rig.passes(60)), ["main_p1"]);
}

#[test]
fn after_a_crash_the_lost_step_runs_again_before_those_that_waited() {
    let mut rig = Rig::new("START").header("W", "exclusive=git");
    forked(&mut rig, &["W", "W", "W"]);
    rig.die();
    assert_eq!(started(&rig.resume()), ["main", "main_w1"]);
    assert_eq!(started(&rig.emits("main_w1", "<result></result>")), ["main_w2"]);
}

#[test]
fn an_edit_changes_the_name_of_the_next_step_only() {
    let mut rig = Rig::new("START").header("W", "exclusive=git retry=1").header("V", "exclusive=git");
    forked(&mut rig, &["W", "V"]);
    rig = rig.header("W", "exclusive=other retry=1").header("V", "");
    assert_eq!(started(&rig.exits("main_w1", 1)), Vec::<&str>::new());
    let batch = rig.passes(1);
    assert_eq!(started(&batch), ["main_w1"]);
    assert_eq!(rig.work("main_w1").exclusive.as_deref(), Some("git"));
    assert_eq!(started(&rig.emits("main_w1", "<result></result>")), ["main_v2"]);
    assert_eq!(rig.work("main_v2").exclusive, None);
}

#[test]
fn many_that_wait_start_one_by_one() {
    let mut rig = Rig::new("START").header("W", "exclusive=git");
    forked(&mut rig, &["W"; 50]);
    let mut seen = BTreeSet::new();
    for number in 1..=50 {
        let name = format!("main_w{number}");
        assert_eq!(rig.running(), ["main", &name]);
        rig.emits(&name, "<result></result>");
        seen.insert(name);
    }
    assert_eq!((seen.len(), rig.running()), (50, vec!["main".to_owned()]));
}
