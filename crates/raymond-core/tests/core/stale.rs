//! Reports that no longer fit.

use expect_test::expect;
use raymond_core::decide::decide;
use raymond_core::event::Body;
use raymond_core::input::{Input, Plan, Prepared, StepOutcome};
use raymond_core::money::Usd;
use raymond_core::name::AgentId;

use crate::rig::{Rig, exited, reading, success};
use crate::show::check;

fn nothing(rig: &Rig, input: Input) {
    let said = format!("{input:?}");
    assert_eq!(decide(&rig.run, rig.now, input), [], "{said}");
}

/// Main runs the second attempt of step 2.
fn second_attempt() -> Rig {
    let mut rig = Rig::new("START").header("A", "retry=1 backoff=0");
    rig.emits("main", "<goto>A</goto>");
    rig.exits("main", 1);
    assert_eq!((rig.work("main").step, rig.work("main").attempt), (2, 2));
    rig
}

#[test]
fn only_the_running_attempt_may_report() {
    let rig = second_attempt();
    for (step, attempt) in [(1, 1), (2, 1), (2, 3), (3, 1), (1, 2), (0, 0)] {
        for outcome in [success(reading("<goto>B</goto>")), exited(1)] {
            let mut ended = rig.ended("main", StepOutcome::Script(outcome));
            (ended.step, ended.attempt) = (step, attempt);
            nothing(&rig, Input::Ended(Box::new(ended)));
        }
        nothing(&rig, Input::Print { agent: AgentId::main(), step, attempt, text: "late".into() });
        nothing(&rig, Input::SessionKnown { agent: AgentId::main(), step, attempt, session: "late".into() });
        let (error, cost) = ("lost".into(), Usd::cent());
        nothing(&rig, Input::Lost { agent: AgentId::main(), step, attempt, error, cost });
    }
}

#[test]
fn a_running_attempt_may_print() {
    let mut rig = second_attempt();
    let batch =
        rig.round([Input::Print { agent: AgentId::main(), step: 2, attempt: 2, text: "so far".into() }]);
    check(
        &batch,
        expect![[r#"
            print main 2 A.sh text="so far"
        "#]],
    );
}

#[test]
fn a_report_counts_once() {
    let mut rig = second_attempt();
    let again = || success(reading("<goto>B</goto>"));
    let (first, second) = (rig.report("main", again()), rig.report("main", again()));
    let batch = rig.round([first, second]);
    check(
        &batch,
        expect![[r#"
            step_finished main 2 A.sh tag=goto target=B.sh
            step_started main 3 B.sh attempt=1 visits=1
        "#]],
    );
}

#[test]
fn reports_for_an_agent_that_does_not_run_are_ignored() {
    let mut rig = Rig::new("START").header("A", "retry=1");
    let start = rig.report("main", exited(1));
    rig.drain();
    rig.emits("main", "<result>r</result>");
    nothing(&rig, start);
    let mut rig = Rig::new("A").header("A", "retry=1");
    let again = rig.report("main", exited(1));
    rig.exits("main", 1);
    nothing(&rig, again);
    nothing(&rig, Input::Print { agent: AgentId::main(), step: 1, attempt: 1, text: "waiting".into() });
}

#[test]
fn reports_for_unknown_agents_are_ignored() {
    let rig = Rig::new("START");
    let agent = AgentId::new("stranger");
    let mut ended = rig.ended("main", StepOutcome::Script(exited(1)));
    ended.agent = agent.clone();
    nothing(&rig, Input::Ended(Box::new(ended)));
    nothing(&rig, Input::End { agent: agent.clone() });
    nothing(&rig, Input::Launch { agent, prepared: Err("not there".into()) });
}

#[test]
fn an_agent_ends_only_with_a_result() {
    let rig = Rig::new("START");
    nothing(&rig, Input::End { agent: AgentId::main() });
}

#[test]
fn an_interruption_is_recorded_only_by_the_end_of_the_run() {
    let rig = Rig::new("START");
    let ended = rig.ended("main", StepOutcome::Interrupted { cost: Usd::ZERO });
    nothing(&rig, Input::Ended(Box::new(ended)));
}

fn launch(agent: &str) -> Input {
    Input::Launch {
        agent: AgentId::new(agent),
        prepared: Ok(Prepared {
            hash: "1".into(),
            plan: Plan::Script(Default::default()),
            warnings: Vec::new(),
        }),
    }
}

#[test]
fn only_a_ready_agent_starts() {
    let rig = Rig::new("START");
    nothing(&rig, launch("main"));
    let mut rig = Rig::new("A").header("A", "retry=1");
    rig.exits("main", 1);
    nothing(&rig, launch("main"));
    let mut rig = Rig::new("START").header("W", "fatal=agent");
    rig.emits("main", "<fork next=\"N\">W</fork>");
    rig.exits("main_w1", 1);
    nothing(&rig, launch("main_w1"));
}

#[test]
fn a_run_is_not_closed_while_there_is_work() {
    let mut rig = Rig::new("START");
    nothing(&rig, Input::Close { stop_requested: false, terminated: false, interrupted: Vec::new() });
    nothing(&rig, Input::Close { stop_requested: true, terminated: false, interrupted: Vec::new() });
    rig.emits("main", "<goto>A</goto>");
    assert!(rig.run.agents.values().all(|agent| agent.work().is_some_and(|work| work.interrupted.is_none())));
    let batch = rig.emits("main", "<result></result>");
    assert!(matches!(batch.last().map(|event| &event.body), Some(Body::RunFinished { .. })));
}
