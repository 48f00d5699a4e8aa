//! Steps that fail.

use std::time::Duration;

use expect_test::expect;
use raymond_core::input::{ProcessExit, ScriptOutcome, TimeLimit};

use crate::rig::{Rig, success};
use crate::show::{check, check_agents};

/// Main in N and its worker in W, both running.
fn two_agents() -> Rig {
    let mut rig = Rig::new("START");
    rig.emits("main", "<fork next=\"N\">W</fork>");
    rig
}

#[test]
fn a_failed_script_stops_the_run_once_nothing_runs() {
    let mut rig = two_agents();
    let batch = rig.exits("main_w1", 3);
    check(
        &batch,
        expect![[r#"
            step_failed main_w1 3 W.sh error="ended with exit code 3" exit_code=3 fatal=true stderr="oh no\n"
        "#]],
    );
    let batch = rig.emits("main", "<goto>NEXT</goto>");
    check(
        &batch,
        expect![[r#"
            step_finished main 2 N.sh tag=goto target=NEXT.sh
            run_stopped agents=2 error="main_w1 failed in W.sh: ended with exit code 3" status=failed steps=2
        "#]],
    );
    check_agents(
        &rig,
        expect![[r#"
            main ready in NEXT.sh
            main_w1 failed in W.sh
        "#]],
    );
}

#[test]
fn scripts_ended_by_the_failure_of_another_are_interrupted() {
    let mut rig = two_agents();
    rig.exits("main_w1", 1);
    let input = rig.interrupted("main");
    let batch = rig.round([input]);
    check(
        &batch,
        expect![[r#"
            run_stopped agents=2 error="main_w1 failed in W.sh: ended with exit code 1" interrupted=[{agent=main state=N.sh step=2}] status=failed steps=1
        "#]],
    );
    let batch = rig.resume();
    check(
        &batch,
        expect![[r#"
            run_resumed interrupted=[{agent=main state=N.sh step=2}]
            step_started main 2 N.sh attempt=2 visits=1
            step_started main_w1 4 W.sh attempt=1 visits=1
        "#]],
    );
}

#[test]
fn the_first_fatal_failure_is_the_failure_of_the_run() {
    let mut rig = two_agents();
    rig.exits("main", 1);
    let batch = rig.exits("main_w1", 2);
    check(
        &batch,
        expect![[r#"
            step_failed main_w1 3 W.sh error="ended with exit code 2" exit_code=2 fatal=true stderr="oh no\n"
            run_stopped agents=2 error="main failed in N.sh: ended with exit code 1" status=failed steps=1
        "#]],
    );
}

#[test]
fn a_failure_of_one_agent_lets_the_others_finish() {
    let mut rig = two_agents().header("W", "fatal=agent");
    let batch = rig.exits("main_w1", 1);
    check(
        &batch,
        expect![[r#"
            step_failed main_w1 3 W.sh error="ended with exit code 1" exit_code=1 fatal=false stderr="oh no\n"
        "#]],
    );
    rig.emits("main", "<goto>NEXT</goto>");
    let batch = rig.emits("main", "<result>r</result>");
    check(
        &batch,
        expect![[r#"
            step_finished main 4 NEXT.sh result=r tag=result
            agent_finished main result=r
            run_stopped agents=2 error="main_w1 failed in W.sh: ended with exit code 1" status=failed steps=3
        "#]],
    );
    check_agents(
        &rig,
        expect![[r#"
            main_w1 failed in W.sh
        "#]],
    );
}

#[test]
fn several_failures_are_counted() {
    let mut rig = Rig::new("START").header("W", "fatal=agent");
    rig.emits("main", &"<fork next=\"N\">W</fork>".repeat(3));
    for worker in ["main_w3", "main_w1", "main_w2"] {
        rig.exits(worker, 1);
    }
    let batch = rig.emits("main", "<result>r</result>");
    check(
        &batch,
        expect![[r#"
            step_finished main 2 N.sh result=r tag=result
            agent_finished main result=r
            run_stopped agents=4 error="main_w1 failed in W.sh: ended with exit code 1 (and 2 more failed)" status=failed steps=2
        "#]],
    );
}

#[test]
fn a_script_is_retried_and_then_fails() {
    let mut rig = Rig::new("START").header("FLAKY", "retry=2 backoff=5s");
    rig.emits("main", "<goto input=\"x\">FLAKY</goto>");
    let batch = rig.exits("main", 7);
    check(
        &batch,
        expect![[r#"
            retry main 2 FLAKY.sh attempt=2 error="ended with exit code 7" stderr="oh no\n" until=+5s
        "#]],
    );
    check_agents(
        &rig,
        expect![[r#"
            main waiting +5s in FLAKY.sh input=x
        "#]],
    );
    check(&rig.passes(4), expect![[""]]);
    check(
        &rig.passes(1),
        expect![[r#"
            step_started main 2 FLAKY.sh attempt=2 visits=1
        "#]],
    );
    check_agents(
        &rig,
        expect![[r#"
            main running 2.2 in FLAKY.sh input=x
        "#]],
    );
    rig.exits("main", 7);
    rig.passes(5);
    let batch = rig.exits("main", 8);
    check(
        &batch,
        expect![[r#"
            step_failed main 2 FLAKY.sh error="ended with exit code 8" exit_code=8 fatal=true stderr="oh no\n"
            run_stopped agents=1 error="main failed in FLAKY.sh: ended with exit code 8" status=failed steps=1
        "#]],
    );
}

#[test]
fn a_successful_retry_continues_the_run() {
    let mut rig = Rig::new("START").header("START", "retry=1");
    check(
        &rig.exits("main", 1),
        expect![[r#"
            retry main 1 START.sh attempt=2 error="ended with exit code 1" stderr="oh no\n" until=+1s
        "#]],
    );
    rig.passes(1);
    check(
        &rig.emits("main", "<goto>A</goto>"),
        expect![[r#"
            step_finished main 1 START.sh tag=goto target=A.sh
            step_started main 2 A.sh attempt=1 visits=1
        "#]],
    );
    assert_eq!(rig.run.steps_completed, 1);
}

#[test]
fn timeouts_and_signals_are_retried() {
    for (outcome, error) in [
        (
            ScriptOutcome::TimedOut {
                kind: TimeLimit::Idle,
                after: Duration::from_secs(30),
                stderr: String::new(),
            },
            expect![[r#"
                retry main 1 START.sh attempt=2 error="timed out: no output for 30s (`timeout`)" until=+0s
                step_started main 1 START.sh attempt=2 visits=1
            "#]],
        ),
        (
            ScriptOutcome::TimedOut {
                kind: TimeLimit::Total,
                after: Duration::from_secs(600),
                stderr: String::new(),
            },
            expect![[r#"
                retry main 1 START.sh attempt=2 error="timed out: still running after 10m (`max_time`)" until=+0s
                step_started main 1 START.sh attempt=2 visits=1
            "#]],
        ),
        (
            ScriptOutcome::Exited {
                exit: ProcessExit::Signal(9),
                reading: Err("no tag".into()),
                other_case: Vec::new(),
                stderr: String::new(),
                shown: Default::default(),
            },
            expect![[r#"
                retry main 1 START.sh attempt=2 error="was ended by signal 9" until=+0s
                step_started main 1 START.sh attempt=2 visits=1
            "#]],
        ),
    ] {
        let mut rig = Rig::new("START").header("START", "retry=1 backoff=0");
        let input = rig.report("main", outcome);
        let batch = rig.round([input]);
        check(&batch, error);
    }
}

#[test]
fn wrong_output_is_never_retried() {
    let mut rig = Rig::new("START").header("START", "retry=3 fatal=agent");
    let broken = [
        success(Err("the output holds no transition tag".into())),
        ScriptOutcome::BadOutput { error: "content past 8 MiB".into(), stderr: "err".into() },
        ScriptOutcome::NotStarted { error: "no such program".into() },
    ];
    let expected = [
        expect![[r#"
            step_failed main 1 START.sh error="the output holds no transition tag" fatal=false
            run_stopped agents=1 error="main failed in START.sh: the output holds no transition tag" status=failed steps=0
        "#]],
        expect![[r#"
            step_failed main 2 START.sh error="content past 8 MiB" fatal=false stderr=err
            run_stopped agents=1 error="main failed in START.sh: content past 8 MiB" status=failed steps=0
        "#]],
        expect![[r#"
            step_failed main 3 START.sh error="no such program" fatal=false
            run_stopped agents=1 error="main failed in START.sh: no such program" status=failed steps=0
        "#]],
    ];
    for (outcome, expected) in broken.into_iter().zip(expected) {
        let input = rig.report("main", outcome);
        check(&rig.round([input]), expected);
        rig.resume();
    }
}

#[test]
fn tags_that_cannot_be_combined_fail() {
    let mut rig = Rig::new("START");
    let batch = rig.emits("main", "<goto>A</goto><goto>B</goto>");
    check(
        &batch,
        expect![[r#"
            step_failed main 1 START.sh error="the output holds several transition tags (2) that do not go together: `<goto>A</goto>`, `<goto>B</goto>`; keep exactly one" fatal=true
            run_stopped agents=1 error="main failed in START.sh: the output holds several transition tags (2) that do not go together: `<goto>A</goto>`, `<goto>B</goto>`; keep exactly one" status=failed steps=0
        "#]],
    );
}

#[test]
fn a_state_is_entered_at_most_max_visits_times() {
    let mut rig = Rig::new("LOOP").header("LOOP", "max_visits=2");
    rig.emits("main", "<goto>LOOP</goto>");
    let batch = rig.emits("main", "<goto>LOOP</goto>");
    check(
        &batch,
        expect![[r#"
            step_finished main 2 LOOP.sh tag=goto target=LOOP.sh
            step_failed main LOOP.sh error="entered for the 3rd time, but its `max_visits` is 2; raise it to go on" fatal=false
            run_stopped agents=1 error="main failed in LOOP.sh: entered for the 3rd time, but its `max_visits` is 2; raise it to go on" status=failed steps=2
        "#]],
    );
    assert_eq!(rig.agent("main").visits_here(), 3);
}

#[test]
fn visits_are_counted_for_each_agent() {
    let mut rig = Rig::new("A").header("A", "max_visits=2");
    rig.emits("main", "<fork next=\"A\">A</fork>");
    rig.emits("main_a1", "<goto>A</goto>");
    check_agents(
        &rig,
        expect![[r#"
            main running 2.1 in A.sh
            main_a1 running 4.1 in A.sh
        "#]],
    );
    let batch = rig.emits("main", "<goto>A</goto>");
    check(
        &batch,
        expect![[r#"
            step_finished main 2 A.sh tag=goto target=A.sh
            step_failed main A.sh error="entered for the 3rd time, but its `max_visits` is 2; raise it to go on" fatal=false
        "#]],
    );
}

#[test]
fn a_missing_state_fails_only_its_agent() {
    let mut rig = two_agents();
    rig.drain();
    rig.emits("main", "<goto>NEXT</goto>");
    rig.emits("main_w1", "<goto>V</goto>");
    rig.delete("NEXT");
    let batch = rig.resume();
    check(
        &batch,
        expect![[r#"
            run_resumed
            step_failed main NEXT.sh error="NEXT.sh is gone" fatal=false
            step_started main_w1 4 V.sh attempt=1 visits=1
        "#]],
    );
    check_agents(
        &rig,
        expect![[r#"
            main failed in NEXT.sh
            main_w1 running 4.1 in V.sh
        "#]],
    );
}

#[test]
fn a_changed_file_is_reported_once() {
    let mut rig = Rig::new("LOOP");
    check(
        &rig.emits("main", "<goto>LOOP</goto>"),
        expect![[r#"
            step_finished main 1 LOOP.sh tag=goto target=LOOP.sh
            step_started main 2 LOOP.sh attempt=1 visits=2
        "#]],
    );
    rig.edit("LOOP", "2");
    rig.warn_about("LOOP", "LOOP.sh: unknown setting `retyr`");
    check(
        &rig.emits("main", "<goto>LOOP</goto>"),
        expect![[r#"
            step_finished main 2 LOOP.sh tag=goto target=LOOP.sh
            warning main LOOP.sh message="LOOP.sh has changed since it last ran; the new text is used"
            warning main LOOP.sh message="LOOP.sh: unknown setting `retyr`"
            step_started main 3 LOOP.sh attempt=1 visits=3
        "#]],
    );
    check(
        &rig.emits("main", "<goto>LOOP</goto>"),
        expect![[r#"
            step_finished main 3 LOOP.sh tag=goto target=LOOP.sh
            step_started main 4 LOOP.sh attempt=1 visits=4
        "#]],
    );
    check(
        &rig.emits("main", "<goto>OTHER</goto>"),
        expect![[r#"
            step_finished main 4 LOOP.sh tag=goto target=OTHER.sh
            step_started main 5 OTHER.sh attempt=1 visits=1
        "#]],
    );
}
