//! Waiting for a time, with no process running.

use expect_test::expect;
use jiff::SignedDuration;
use raymond_core::run::RunStatus;

use crate::rig::Rig;
use crate::show::{check, check_agents};

#[test]
fn a_delay_postpones_the_next_state() {
    let mut rig = Rig::new("START");
    check(
        &rig.emits("main", "<goto delay=\"90s\" input=\"i\">A</goto>"),
        expect![[r#"
        step_finished main 1 START.sh input=i tag=goto target=A.sh
        delayed main A.sh until=+90s
    "#]],
    );
    check_agents(
        &rig,
        expect![[r#"
        main waiting +90s in A.sh input=i
    "#]],
    );
    assert_eq!(rig.run.next_wake(rig.now), Some(rig.now + SignedDuration::from_secs(90)));
    check(&rig.passes(89), expect![[""]]);
    check(
        &rig.passes(1),
        expect![[r#"
        step_started main 2 A.sh attempt=1 visits=1
    "#]],
    );
    assert_eq!(rig.run.next_wake(rig.now), None);
}

#[test]
fn a_reset_and_a_forking_parent_can_be_delayed_too() {
    let mut rig = Rig::new("START");
    check(
        &rig.emits("main", "<reset delay=\"1m\" cd=\"x\">A</reset>"),
        expect![[r#"
        step_finished main 1 START.sh tag=reset target=A.sh
        delayed main A.sh until=+60s
    "#]],
    );
    rig.passes(60);
    check(
        &rig.emits("main", "<fork>W</fork><goto delay=\"1h\">B</goto>"),
        expect![[r#"
        step_finished main 2 A.sh next=B.sh tag=fork target=W.sh
        delayed main B.sh until=+3660s
        agent_started main_w1 W.sh fork=1 number=1 parent=main
        step_started main_w1 3 W.sh attempt=1 visits=1
    "#]],
    );
    rig.emits("main_w1", "<result></result>");
    assert_eq!(rig.run.status, RunStatus::Running);
    check(
        &rig.passes(3600),
        expect![[r#"
        step_started main 4 B.sh attempt=1 visits=1
    "#]],
    );
}

#[test]
fn a_delay_of_zero_is_no_delay() {
    let mut rig = Rig::new("START");
    check(
        &rig.emits("main", "<goto delay=\"0s\">A</goto>"),
        expect![[r#"
        step_finished main 1 START.sh tag=goto target=A.sh
        step_started main 2 A.sh attempt=1 visits=1
    "#]],
    );
}

#[test]
fn a_delay_that_ended_while_no_process_ran_is_due_at_once() {
    let mut rig = Rig::new("START");
    rig.emits("main", "<goto delay=\"1h\">A</goto>");
    rig.die();
    rig.now += SignedDuration::from_hours(2);
    check(
        &rig.resume(),
        expect![[r#"
        run_resumed
        step_started main 2 A.sh attempt=1 visits=1
    "#]],
    );
    let mut rig = Rig::new("START");
    rig.emits("main", "<goto delay=\"1h\">A</goto>");
    check(
        &rig.drain(),
        expect![[r#"
        run_stopped agents=1 status=interrupted steps=1
    "#]],
    );
    rig.die();
    rig.now += SignedDuration::from_mins(59);
    check(
        &rig.resume(),
        expect![[r#"
        run_resumed
    "#]],
    );
    check(
        &rig.passes(60),
        expect![[r#"
        step_started main 2 A.sh attempt=1 visits=1
    "#]],
    );
}

#[test]
fn delays_end_in_the_order_of_their_times() {
    let mut rig = Rig::new("START");
    rig.emits("main", "<fork>W</fork><fork>W</fork><goto delay=\"3s\">A</goto>");
    rig.emits("main_w1", "<goto delay=\"2s\">B</goto>");
    rig.emits("main_w2", "<goto delay=\"1s\">C</goto>");
    assert_eq!(rig.run.next_wake(rig.now), Some(rig.now + SignedDuration::from_secs(1)));
    check(
        &rig.passes(1),
        expect![[r#"
        step_started main_w2 4 C.sh attempt=1 visits=1
    "#]],
    );
    // All agents that are due start in the order in which they began to wait.
    check(
        &rig.passes(5),
        expect![[r#"
        step_started main 5 A.sh attempt=1 visits=1
        step_started main_w1 6 B.sh attempt=1 visits=1
    "#]],
    );
}

#[test]
fn the_clock_may_jump_forward_and_back() {
    let mut rig = Rig::new("START");
    rig.emits("main", "<goto delay=\"10s\">A</goto>");
    // Back: the recorded time still counts.
    check(&rig.passes(-3600), expect![[""]]);
    assert_eq!(rig.run.duration_ms(rig.now), 0);
    check(&rig.passes(3609), expect![[""]]);
    check(
        &rig.passes(1),
        expect![[r#"
        step_started main 2 A.sh attempt=1 visits=1
    "#]],
    );
    // A started step is not undone.
    check(&rig.passes(-100), expect![[""]]);
    check(
        &rig.emits("main", "<goto delay=\"10s\">B</goto>"),
        expect![[r#"
        step_finished main 2 A.sh tag=goto target=B.sh
        delayed main B.sh until=+-80s
    "#]],
    );
    // Forward: it is due.
    check(
        &rig.passes(1_000_000),
        expect![[r#"
        step_started main 3 B.sh attempt=1 visits=1
    "#]],
    );
    check(
        &rig.emits("main", "<result></result>"),
        expect![[r#"
        step_finished main 3 B.sh result="" tag=result
        agent_finished main result=""
        run_finished agents=1 result="" status=completed steps=3
    "#]],
    );
}

#[test]
fn an_agent_is_awake_from_the_first_event_after_its_delay() {
    let mut rig = Rig::new("START");
    rig.emits("main", "<goto delay=\"10s\">A</goto>");
    rig.drain();
    rig.now += SignedDuration::from_secs(9);
    rig.round([raymond_core::input::Input::Warning { agent: None, message: "early".into() }]);
    assert!(matches!(
        rig.run.agents[&raymond_core::name::AgentId::main()].status,
        raymond_core::run::Status::Waiting { .. }
    ));
    rig.now += SignedDuration::from_secs(1);
    rig.resume();
    rig.die();
    assert_eq!(rig.running(), ["main"], "a fold knows it, too");
}

#[test]
fn the_longest_delay_does_not_panic() {
    let mut rig = Rig::new("START");
    rig.emits("main", "<goto delay=\"3650d\">A</goto>");
    rig.passes(3650 * 86_400 - 1);
    assert_eq!(rig.running(), [""; 0]);
    rig.passes(1);
    assert_eq!(rig.running(), ["main"]);
}

#[test]
fn no_time_leads_past_the_year_9999() {
    for tag in [
        "<goto delay=\"2d\">A</goto>",
        "<reset delay=\"3650d\">A</reset>",
        "<ask next=\"A\" timeout=\"2d\">?</ask>",
    ] {
        let mut rig = Rig::new("START");
        rig.now = jiff::Timestamp::MAX - SignedDuration::from_hours(24);
        rig.emits("main", tag);
        let error = &rig.run.agents.values().next().unwrap().status;
        assert!(format!("{error:?}").contains("leads past the year 9999"), "{tag}: {error:?}");
    }
}
