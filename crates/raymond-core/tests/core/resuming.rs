//! Resuming a run.

use expect_test::expect;
use raymond_core::event::Body;
use raymond_core::run::RunStatus;

use crate::rig::Rig;
use crate::show::{check, check_agents};

#[test]
fn after_a_crash_the_running_step_is_run_again() {
    let mut rig = Rig::new("START");
    rig.emits("main", "<fork next=\"N\" input=\"i\" item=\"x\">W</fork>");
    rig.emits("main", "<goto>B</goto>");
    rig.die();
    check_agents(
        &rig,
        expect![[r#"
            main running 4.1 in B.sh
            main_w1 running 3.1 in W.sh input=i item=x
        "#]],
    );
    check(
        &rig.resume(),
        expect![[r#"
            run_resumed interrupted=[{agent=main state=B.sh step=4}, {agent=main_w1 state=W.sh step=3}]
            step_started main_w1 3 W.sh attempt=2 visits=1
            step_started main 4 B.sh attempt=2 visits=1
        "#]],
    );
    check_agents(
        &rig,
        expect![[r#"
            main running 4.2 in B.sh
            main_w1 running 3.2 in W.sh input=i item=x
        "#]],
    );
    check(
        &rig.emits("main", "<goto>C</goto>"),
        expect![[r#"
            step_finished main 4 B.sh tag=goto target=C.sh
            step_started main 5 C.sh attempt=1 visits=1
        "#]],
    );
}

#[test]
fn every_crash_gives_a_new_attempt_and_uses_no_retry() {
    let mut rig = Rig::new("START").header("START", "retry=1 backoff=0");
    for attempt in 1..5 {
        assert_eq!((rig.work("main").step, rig.work("main").attempt), (1, attempt));
        rig.die();
        rig.resume();
    }
    check(
        &rig.exits("main", 1),
        expect![[r#"
            retry main 1 START.sh attempt=6 error="ended with exit code 1" stderr="oh no\n" until=+0s
            step_started main 1 START.sh attempt=6 visits=1
        "#]],
    );
    check(
        &rig.exits("main", 1),
        expect![[r#"
            step_failed main 1 START.sh error="ended with exit code 1" exit_code=1 fatal=true stderr="oh no\n"
            run_stopped agents=1 error="main failed in START.sh: ended with exit code 1" status=failed steps=0
        "#]],
    );
}

#[test]
fn a_crash_while_waiting_uses_no_retry() {
    let mut rig = Rig::new("START").header("START", "retry=1 backoff=10s");
    rig.exits("main", 1);
    rig.die();
    check(
        &rig.resume(),
        expect![[r#"
            run_resumed
        "#]],
    );
    check(
        &rig.passes(10),
        expect![[r#"
            step_started main 1 START.sh attempt=2 visits=1
        "#]],
    );
    check(
        &rig.exits("main", 1),
        expect![[r#"
            step_failed main 1 START.sh error="ended with exit code 1" exit_code=1 fatal=true stderr="oh no\n"
            run_stopped agents=1 error="main failed in START.sh: ended with exit code 1" status=failed steps=0
        "#]],
    );
}

#[test]
fn a_crash_between_steps_starts_the_next_one() {
    let mut rig = Rig::new("START");
    rig.drain();
    rig.emits("main", "<goto input=\"x\">NEXT</goto>");
    // The last batch, which ends the run, was not written completely.
    rig.journal.retain(|event| !matches!(event.body, Body::RunStopped { .. }));
    rig.die();
    assert_eq!(rig.run.status, RunStatus::Running);
    check(
        &rig.resume(),
        expect![[r#"
            run_resumed
            step_started main 2 NEXT.sh attempt=1 visits=1
        "#]],
    );
}

#[test]
fn after_a_failure_the_state_is_a_new_step() {
    let mut rig = Rig::new("START");
    rig.emits("main", "<call return=\"R\" input=\"i\">SUB</call>");
    rig.exits("main", 1);
    rig.die();
    rig.edit("SUB", "mended");
    check(
        &rig.resume(),
        expect![[r#"
            run_resumed
            warning main SUB.sh message="SUB.sh has changed since it last ran; the new text is used"
            step_started main 3 SUB.sh attempt=1 visits=1
        "#]],
    );
    check_agents(
        &rig,
        expect![[r#"
            main running 3.1 in SUB.sh stack=[R.sh] input=i
        "#]],
    );
    assert_eq!(rig.agent("main").visits_here(), 1, "it has not been entered again");
    check(
        &rig.emits("main", "<result>ok</result>"),
        expect![[r#"
            step_finished main 3 SUB.sh input=ok tag=result target=R.sh
            step_started main 4 R.sh attempt=1 visits=1
        "#]],
    );
}

#[test]
fn time_worked_before_a_crash_is_counted() {
    let mut rig = Rig::new("START");
    rig.passes(10);
    rig.emits("main", "<goto>A</goto>");
    rig.die();
    rig.now += jiff::SignedDuration::from_secs(1000);
    rig.resume();
    assert_eq!(rig.run.duration_ms(rig.now), 10_000);
}

#[test]
fn a_resume_retries_every_failed_agent() {
    let mut rig = Rig::new("START").header("W", "fatal=agent retry=1 backoff=0");
    rig.emits("main", &"<fork next=\"N\">W</fork>".repeat(2));
    rig.emits("main", "<result>r</result>");
    for worker in ["main_w1", "main_w1", "main_w2", "main_w2"] {
        rig.exits(worker, 1);
    }
    check_agents(
        &rig,
        expect![[r#"
            main_w1 failed in W.sh
            main_w2 failed in W.sh
        "#]],
    );
    check(
        &rig.resume(),
        expect![[r#"
            run_resumed
            step_started main_w1 5 W.sh attempt=1 visits=1
            step_started main_w2 6 W.sh attempt=1 visits=1
        "#]],
    );
    check(
        &rig.exits("main_w1", 1),
        expect![[r#"
            retry main_w1 5 W.sh attempt=2 error="ended with exit code 1" stderr="oh no\n" until=+0s
            step_started main_w1 5 W.sh attempt=2 visits=1
        "#]],
    );
    rig.emits("main_w1", "<result></result>");
    check(
        &rig.emits("main_w2", "<result></result>"),
        expect![[r#"
            step_finished main_w2 6 W.sh result="" tag=result
            agent_finished main_w2 result=""
            run_finished agents=3 result=r status=completed steps=4
        "#]],
    );
}

#[test]
fn a_step_whose_file_was_deleted_keeps_its_number() {
    let mut rig = Rig::new("START");
    rig.die();
    rig.delete("START");
    let batch = rig.resume();
    let failed = batch.iter().find_map(|event| match &event.body {
        Body::StepFailed(failed) => Some(failed),
        _ => None,
    });
    assert_eq!(failed.unwrap().step, Some(1));
    rig.restore("START");
    rig.resume();
    assert_eq!((rig.work("main").step, rig.work("main").attempt), (2, 1));
}

#[test]
fn what_a_lost_attempt_cost_is_counted_once() {
    use raymond_core::input::{Input, StepOutcome};
    use raymond_core::money::Usd;

    let cost = Usd::from_dollars(0.25);
    let mut rig = Rig::new("START");
    rig.emits("main", "<fork next=\"N\">W</fork>");
    rig.drain();
    let [worker, main] = ["main_w1", "main"].map(|agent| {
        let cost = if agent == "main" { Usd::ZERO } else { cost };
        Input::Ended(Box::new(rig.ended(agent, StepOutcome::Interrupted { cost })))
    });
    rig.round([worker]);
    assert_eq!(rig.run.status, RunStatus::Running, "another step runs");
    rig.round([main]);
    assert_eq!(rig.run.status, RunStatus::Interrupted);
    assert_eq!(rig.run.interrupted()[0].estimated_cost_usd, Usd::ZERO, "it has been counted");
    // It is stopped again before anything could start.
    let options = rig.run.options.clone();
    let interrupted = rig.run.interrupted();
    rig.drain();
    rig.round([Input::Resume {
        options: Box::new(options),
        interrupted,
        forgotten: Vec::new(),
        moved: None,
    }]);
    assert_eq!(rig.run.status, RunStatus::Interrupted);
    assert_eq!(rig.run.cost_usd, cost);
}

#[test]
fn a_run_goes_on_in_the_project_that_it_was_moved_to() {
    use raymond_core::event::ProjectMoved;
    use raymond_core::evolve::relocate;
    use raymond_core::input::Input;

    let mut rig = Rig::new("START");
    rig.emits("main", "<fork next=\"N\">W</fork>");
    rig.die();
    let (from, to) = (rig.run.cwd.clone(), "/elsewhere/new".to_owned());
    let moved = ProjectMoved { from: from.clone(), to: to.clone() };
    rig.round([Input::Resume {
        options: Box::new(rig.run.options.clone()),
        interrupted: rig.run.interrupted(),
        forgotten: Vec::new(),
        moved: Some(Box::new(moved.clone())),
    }]);
    assert_eq!((rig.run.cwd.as_str(), rig.run.project.as_deref()), (to.as_str(), Some(to.as_str())));
    assert!(rig.run.agents.values().all(|agent| agent.cwd == to), "{:?}", rig.run.agents);
    assert_eq!(moved.place_of(&format!("{from}x")), None, "only the beginning of its name is the same");
    // Who has read the state with its new paths already changes nothing by the event.
    let mut again = rig.run.clone();
    relocate(&mut again, &ProjectMoved { from: "/elsewhere".to_owned(), to });
    assert_eq!(again, rig.run);
}
