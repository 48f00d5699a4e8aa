//! Limits on the number of parallel programs and of steps.

use expect_test::expect;
use raymond_core::limits::MAX_PARALLEL_SCRIPTS;
use raymond_core::run::Options;

use crate::rig::Rig;
use crate::show::{check, check_agents};

fn at_most(max_steps: u64) -> Options {
    Options { max_steps: Some(max_steps), ..Options::default() }
}

#[test]
fn a_limited_number_of_scripts_run_at_once_and_the_rest_wait_in_order() {
    let mut rig = Rig::new("START");
    rig.emits("main", &"<fork next=\"N\">W</fork>".repeat(300));
    assert_eq!(rig.run.running(), MAX_PARALLEL_SCRIPTS);
    assert_eq!(rig.run.ready(), 301 - MAX_PARALLEL_SCRIPTS);
    // Main runs too, so the first to wait is worker 256. A worker whose step ends waits behind it for its next step.
    for (ended, waiting) in [(7, 256), (200, 257), (1, 258), (100, 259)] {
        let batch = rig.emits(&format!("main_w{ended}"), "<goto>X</goto>");
        assert_eq!(batch.len(), 2);
        assert_eq!(rig.run.running(), MAX_PARALLEL_SCRIPTS);
        let running = rig.running();
        assert!(running.contains(&format!("main_w{waiting}")), "{waiting}");
        assert!(!running.contains(&format!("main_w{ended}")), "{ended}");
    }
    // All agents that have waited from the start run before those with a second step.
    let mut turns = Vec::new();
    while turns.len() < 45 {
        let first = rig.running()[0].clone();
        let before = rig.running();
        rig.emits(&first, "<result></result>");
        turns.extend(rig.running().into_iter().filter(|name| !before.contains(name)));
    }
    let expected: Vec<String> =
        (260..=300).chain([7, 200, 1, 100]).map(|number| format!("main_w{number}")).collect();
    assert_eq!(turns, expected);
}

#[test]
fn a_run_stops_at_max_steps() {
    let mut rig = Rig::with("LOOP", at_most(3));
    rig.round([]);
    rig.emits("main", "<goto>LOOP</goto>");
    rig.emits("main", "<goto>LOOP</goto>");
    let batch = rig.emits("main", "<goto>LOOP</goto>");
    check(
        &batch,
        expect![[r#"
            step_finished main 3 LOOP.sh tag=goto target=LOOP.sh
            run_stopped agents=1 error="reached the limit of 3 steps; resume with a higher --max-steps" status=failed steps=3
        "#]],
    );
    check_agents(
        &rig,
        expect![[r#"
            main ready in LOOP.sh
        "#]],
    );
    let batch = rig.resume_with(at_most(4));
    check(
        &batch,
        expect![[r#"
            run_resumed
            step_started main 4 LOOP.sh attempt=1 visits=4
        "#]],
    );
    let batch = rig.emits("main", "<result>r</result>");
    check(
        &batch,
        expect![[r#"
            step_finished main 4 LOOP.sh result=r tag=result
            agent_finished main result=r
            run_finished agents=1 result=r status=completed steps=4
        "#]],
    );
}

#[test]
fn with_no_step_left_the_running_steps_finish_first() {
    let mut rig = Rig::with("START", at_most(2));
    rig.round([]);
    rig.emits("main", "<fork next=\"N\">W</fork>");
    check_agents(
        &rig,
        expect![[r#"
            main running 2.1 in N.sh
            main_w1 ready in W.sh
        "#]],
    );
    let batch = rig.emits("main", "<result>r</result>");
    check(
        &batch,
        expect![[r#"
            step_finished main 2 N.sh result=r tag=result
            agent_finished main result=r
            run_stopped agents=2 error="reached the limit of 2 steps; resume with a higher --max-steps" status=failed steps=2
        "#]],
    );
}

#[test]
fn a_step_that_has_begun_may_be_retried_with_no_step_left() {
    let mut rig = Rig::with("START", at_most(1)).header("START", "retry=1");
    rig.round([]);
    rig.exits("main", 1);
    let batch = rig.passes(1);
    check(
        &batch,
        expect![[r#"
            step_started main 1 START.sh attempt=2 visits=1
        "#]],
    );
    let batch = rig.emits("main", "<goto>A</goto>");
    check(
        &batch,
        expect![[r#"
            step_finished main 1 START.sh tag=goto target=A.sh
            run_stopped agents=1 error="reached the limit of 1 step; resume with a higher --max-steps" status=failed steps=1
        "#]],
    );
}

#[test]
fn a_step_that_has_begun_is_not_delayed_by_one_that_may_not_begin() {
    let mut rig = Rig::with("START", at_most(2)).header("N", "retry=1");
    rig.round([]);
    rig.emits("main", "<fork next=\"N\">W</fork>");
    check_agents(
        &rig,
        expect![[r#"
        main running 2.1 in N.sh
        main_w1 ready in W.sh
    "#]],
    );
    rig.exits("main", 1);
    rig.passes(1);
    assert_eq!(rig.work("main").attempt, 2);
}
