//! How a run ends or stops.

use expect_test::expect;
use raymond_core::event::{Body, LimitWaiting};
use raymond_core::input::Input;
use raymond_core::money::Usd;
use raymond_core::name::AgentId;
use raymond_core::run::{Options, RunStatus};

use crate::rig::{Rig, beginning, state};
use crate::show::{check, check_agents};

#[test]
fn a_stop_lets_running_steps_finish() {
    let mut rig = Rig::new("START");
    rig.emits("main", "<fork next=\"N\">W</fork>");
    check(&rig.drain(), expect![[""]]);
    let batch = rig.emits("main", "<goto>NEXT</goto>");
    check(
        &batch,
        expect![[r#"
            step_finished main 2 N.sh tag=goto target=NEXT.sh
        "#]],
    );
    let batch = rig.emits("main_w1", "<call return=\"R\">SUB</call>");
    check(
        &batch,
        expect![[r#"
            step_finished main_w1 3 W.sh return=R.sh tag=call target=SUB.sh
            run_stopped agents=2 status=interrupted steps=3
        "#]],
    );
    check_agents(
        &rig,
        expect![[r#"
            main ready in NEXT.sh
            main_w1 ready in SUB.sh stack=[R.sh]
        "#]],
    );
    let batch = rig.resume();
    check(
        &batch,
        expect![[r#"
            run_resumed
            step_started main 4 NEXT.sh attempt=1 visits=1
            step_started main_w1 5 SUB.sh attempt=1 visits=1
        "#]],
    );
}

#[test]
fn a_stop_leaves_a_retry_to_the_resume() {
    let mut rig = Rig::new("START").header("START", "retry=1 backoff=1m");
    rig.drain();
    let batch = rig.exits("main", 1);
    check(
        &batch,
        expect![[r#"
            retry main 1 START.sh attempt=2 error="ended with exit code 1" stderr="oh no\n" until=+60s
            run_stopped agents=1 status=interrupted steps=0
        "#]],
    );
    check(
        &rig.resume(),
        expect![[r#"
            run_resumed
        "#]],
    );
    check(
        &rig.passes(60),
        expect![[r#"
            step_started main 1 START.sh attempt=2 visits=1
        "#]],
    );
}

#[test]
fn an_immediate_stop_interrupts_running_steps() {
    let mut rig = Rig::new("START");
    rig.emits("main", "<fork next=\"N\">W</fork>");
    rig.drain();
    let (main, worker) = (rig.interrupted("main"), rig.interrupted("main_w1"));
    check(&rig.round([worker]), expect![[""]]);
    check(
        &rig.round([main]),
        expect![[r#"
            run_stopped agents=2 interrupted=[{agent=main state=N.sh step=2}, {agent=main_w1 state=W.sh step=3}] status=interrupted steps=1
        "#]],
    );
    check_agents(
        &rig,
        expect![[r#"
            main ready in N.sh
            main_w1 ready in W.sh
        "#]],
    );
    let batch = rig.resume();
    check(
        &batch,
        expect![[r#"
            run_resumed interrupted=[{agent=main state=N.sh step=2}, {agent=main_w1 state=W.sh step=3}]
            step_started main 2 N.sh attempt=2 visits=1
            step_started main_w1 3 W.sh attempt=2 visits=1
        "#]],
    );
}

#[test]
fn a_stop_before_the_first_step_leaves_it_to_the_resume() {
    let mut rig = Rig::with("START", Options::default());
    check(
        &rig.drain(),
        expect![[r#"
            run_stopped agents=1 status=interrupted steps=0
        "#]],
    );
    check(
        &rig.resume(),
        expect![[r#"
            run_resumed
            step_started main 1 START.sh attempt=1 visits=1
        "#]],
    );
}

#[test]
fn a_result_that_arrives_while_stopping_is_not_lost() {
    let mut rig = Rig::new("START");
    rig.drain();
    rig.emits("main", "<result>r</result>");
    rig.die();
    if rig.run.status == RunStatus::Interrupted {
        rig.resume();
    }
    assert_eq!(rig.run.status, RunStatus::Completed);
    assert_eq!(rig.run.result, Some("r".into()));
    assert_eq!(rig.run.steps_started, 1);
}

#[test]
fn a_stop_when_all_have_failed_is_a_failure() {
    let mut rig = Rig::new("START").header("START", "fatal=agent");
    rig.drain();
    check(
        &rig.exits("main", 1),
        expect![[r#"
            step_failed main 1 START.sh error="ended with exit code 1" exit_code=1 fatal=false stderr="oh no\n"
            run_stopped agents=1 error="main failed in START.sh: ended with exit code 1" status=failed steps=0
        "#]],
    );
}

#[test]
fn a_fatal_failure_outweighs_a_stop() {
    let mut rig = Rig::new("START");
    rig.emits("main", "<fork next=\"N\">W</fork>");
    rig.drain();
    rig.exits("main", 1);
    let batch = rig.emits("main_w1", "<goto>X</goto>");
    check(
        &batch,
        expect![[r#"
            step_finished main_w1 3 W.sh tag=goto target=X.sh
            run_stopped agents=2 error="main failed in N.sh: ended with exit code 1" status=failed steps=2
        "#]],
    );
}

#[test]
fn money_outweighs_everything() {
    let mut rig = Rig::new("START");
    rig.emits("main", "<fork next=\"N\">W</fork>");
    rig.exits("main", 1);
    rig.record(Body::BudgetExceeded {
        cost_usd: Usd::from_dollars(11.0),
        budget_usd: Usd::from_dollars(10.0),
    });
    let batch = rig.emits("main_w1", "<goto>N</goto>");
    assert_eq!(rig.run.status, RunStatus::OverBudget);
    assert!(batch.last().unwrap().body.is_last());
    check_agents(
        &rig,
        expect![[r#"
            main failed in N.sh
            main_w1 ready in N.sh
        "#]],
    );
}

#[test]
fn a_usage_limit_stops_a_run_that_does_not_wait() {
    for (no_wait, status) in [(true, RunStatus::Limited), (false, RunStatus::Running)] {
        let options = Options { no_wait, ..Options::default() };
        let mut rig = Rig::with("START", options);
        rig.round([]);
        rig.record(Body::LimitWaiting(LimitWaiting {
            agent: AgentId::main(),
            step: 1,
            state: state("START"),
            attempt: 1,
            until: beginning() + jiff::SignedDuration::from_hours(1),
            fallback: None,
            error: "come back later".into(),
            message: None,
            attempt_cost_usd: Usd::ZERO,
            cost_estimated: false,
            tokens: Default::default(),
        }));
        rig.round([]);
        assert_eq!(rig.run.status, status);
        rig.resume();
        assert_eq!(rig.work("main").attempt, 2, "a resume tries again at once");
    }
}

#[test]
fn nothing_follows_the_end() {
    let mut rig = Rig::new("START");
    rig.emits("main", "<result>r</result>");
    let length = rig.journal.len();
    rig.passes(100);
    rig.drain();
    rig.round([
        Input::Close { stop_requested: true, terminated: false, interrupted: Vec::new() },
        Input::End { agent: AgentId::main() },
        Input::Warning { agent: None, message: "late".into() },
    ]);
    assert_eq!(rig.journal.len(), length);
    assert_eq!(rig.run.next_due(rig.now, rig.mode), None);
}

#[test]
fn time_between_a_stop_and_a_resume_is_not_counted() {
    let mut rig = Rig::new("START");
    rig.passes(10);
    rig.drain();
    rig.emits("main", "<goto>A</goto>");
    rig.passes(1000);
    rig.resume();
    rig.passes(5);
    rig.emits("main", "<result></result>");
    assert_eq!(rig.run.duration_ms(rig.now), 15_000);
}
