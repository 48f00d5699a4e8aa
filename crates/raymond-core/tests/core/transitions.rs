//! The effect of each tag on its agent, and on the workers that it forks.

use expect_test::expect;
use raymond_core::event::{Body, LedTo, StepFinished};
use raymond_core::limits::{MAX_AGENTS, MAX_STACK_DEPTH};
use raymond_core::money::Usd;
use raymond_core::name::AgentId;
use raymond_core::payload::Payload;
use raymond_core::run::{Options, Session};
use raymond_core::transition::{Fork, ForkTarget, Jump, Transition};

use crate::rig::{Rig, state};
use crate::show::{check, check_agents};

#[test]
fn a_run_opens_with_its_first_agent() {
    let mut rig = Rig::with("START", Options::default());
    let batch = rig.round([]);
    check(
        &rig.journal[..2],
        expect![[r#"
            run_started entry=START.sh nonce=nonce scope=/wf version=1 workflow=wf
            agent_started main START.sh
        "#]],
    );
    check(
        &batch,
        expect![[r#"
            step_started main 1 START.sh attempt=1 visits=1
        "#]],
    );
}

#[test]
fn goto_enters_a_state_and_passes_its_input() {
    let mut rig = Rig::new("START");
    let batch = rig.emits("main", "so: <goto input=\"a b\">NEXT</goto>");
    check(
        &batch,
        expect![[r#"
            step_finished main 1 START.sh input="a b" tag=goto target=NEXT.sh
            step_started main 2 NEXT.sh attempt=1 visits=1
        "#]],
    );
    check_agents(
        &rig,
        expect![[r#"
            main running 2.1 in NEXT.sh input="a b"
        "#]],
    );
    let batch = rig.emits("main", "<goto>LAST.sh</goto>");
    check(
        &batch,
        expect![[r#"
            step_finished main 2 NEXT.sh tag=goto target=LAST.sh
            step_started main 3 LAST.sh attempt=1 visits=1
        "#]],
    );
    check_agents(
        &rig,
        expect![[r#"
            main running 3.1 in LAST.sh
        "#]],
    );
}

#[test]
fn a_payload_is_gone_in_the_next_state() {
    let mut rig = Rig::new("START");
    rig.emits("main", "<goto input=\"once\">A</goto>");
    assert_eq!(rig.agent("main").payload, Some(Payload::from("once")));
    rig.emits("main", "<goto>B</goto>");
    assert_eq!(rig.agent("main").payload, None);
}

#[test]
fn calls_nest_and_results_return_one_by_one() {
    let mut rig = Rig::new("START");
    rig.emits("main", "<call return=\"R1\" input=\"x\">SUB</call>");
    rig.emits("main", "<function return=\"R2\">DEEP</function>");
    check_agents(
        &rig,
        expect![[r#"
            main running 3.1 in DEEP.sh stack=[R1.sh, R2.sh]
        "#]],
    );
    let batch = rig.emits("main", "<result> deep </result>");
    check(
        &batch,
        expect![[r#"
            step_finished main 3 DEEP.sh input=" deep " tag=result target=R2.sh
            step_started main 4 R2.sh attempt=1 visits=1
        "#]],
    );
    let batch = rig.emits("main", "<result></result>");
    check(
        &batch,
        expect![[r#"
            step_finished main 4 R2.sh input="" tag=result target=R1.sh
            step_started main 5 R1.sh attempt=1 visits=1
        "#]],
    );
    check_agents(
        &rig,
        expect![[r#"
            main running 5.1 in R1.sh input=""
        "#]],
    );
    let batch = rig.emits("main", "<result>all</result>");
    check(
        &batch,
        expect![[r#"
            step_finished main 5 R1.sh result=all tag=result
            agent_finished main result=all
            run_finished agents=1 result=all status=completed steps=5
        "#]],
    );
}

#[test]
fn a_result_without_a_caller_ends_the_agent() {
    let mut rig = Rig::new("START");
    let batch = rig.emits("main", "<result>done</result>");
    check(
        &batch,
        expect![[r#"
            step_finished main 1 START.sh result=done tag=result
            agent_finished main result=done
            run_finished agents=1 result=done status=completed steps=1
        "#]],
    );
    assert!(rig.run.agents.is_empty());
    assert_eq!(rig.run.result, Some(Payload::from("done")));
}

#[test]
fn reset_keeps_the_stack() {
    let mut rig = Rig::new("START");
    rig.emits("main", "<call return=\"BACK\">LOOP</call>");
    rig.emits("main", "<reset cd=\"sub\">LOOP</reset>");
    check_agents(
        &rig,
        expect![[r#"
            main running 3.1 in LOOP.sh cwd=/dir/sub stack=[BACK.sh]
        "#]],
    );
    rig.emits("main", "<result>r</result>");
    check_agents(
        &rig,
        expect![[r#"
            main running 4.1 in BACK.sh input=r
        "#]],
    );
}

/// A turn of an agent program that ends with this conversation; then the next state starts.
fn turn(rig: &mut Rig, session: &str, led_to: LedTo) {
    let agent = rig.agent("main");
    let finished = StepFinished {
        agent: AgentId::main(),
        step: rig.work("main").step,
        state: agent.state.clone(),
        led_to,
        message: None,
        session: Some(Session { id: session.into(), ..Session::default() }),
        implicit: false,
        cost_usd: Usd::ZERO,
        attempt_cost_usd: Usd::ZERO,
        cost_estimated: false,
        tokens: Default::default(),
        context: None,
        compacted: false,
        duration_ms: 0,
        files: None,
    };
    rig.record(Body::StepFinished(Box::new(finished)));
    rig.round([]);
}

#[test]
fn sessions_follow_the_table_of_tags() {
    let mut rig = Rig::new("START");
    turn(&mut rig, "s1", LedTo::Goto { target: state("A"), input: None });
    check_agents(
        &rig,
        expect![[r#"
            main running 2.1 in A.sh session=s1
        "#]],
    );
    turn(&mut rig, "s2", LedTo::Call { target: state("B"), return_to: state("R"), input: None });
    check_agents(
        &rig,
        expect![[r#"
            main running 3.1 in B.sh session=s2 stack=[R.sh/s2]
        "#]],
    );
    turn(&mut rig, "s3", LedTo::Function { target: state("C"), return_to: state("Q"), input: None });
    check_agents(
        &rig,
        expect![[r#"
            main running 4.1 in C.sh stack=[R.sh/s2, Q.sh/s3]
        "#]],
    );
    turn(&mut rig, "s4", LedTo::Return { target: state("Q"), input: "".into() });
    check_agents(
        &rig,
        expect![[r#"
            main running 5.1 in Q.sh session=s3 stack=[R.sh/s2] input=""
        "#]],
    );
    turn(&mut rig, "s5", LedTo::Reset { target: state("D"), input: None, cwd: None });
    check_agents(
        &rig,
        expect![[r#"
            main running 6.1 in D.sh stack=[R.sh/s2]
        "#]],
    );
    turn(&mut rig, "s6", LedTo::Return { target: state("R"), input: "".into() });
    check_agents(
        &rig,
        expect![[r#"
            main running 7.1 in R.sh session=s2 input=""
        "#]],
    );
}

#[test]
fn a_script_does_not_change_the_session() {
    let mut rig = Rig::new("START");
    turn(&mut rig, "s1", LedTo::Goto { target: state("A"), input: None });
    rig.emits("main", "<goto>B</goto>");
    check_agents(
        &rig,
        expect![[r#"
            main running 3.1 in B.sh session=s1
        "#]],
    );
    rig.emits("main", "<fork next=\"C\">W</fork>");
    check_agents(
        &rig,
        expect![[r#"
            main running 4.1 in C.sh session=s1
            main_w1 running 5.1 in W.sh
        "#]],
    );
    rig.emits("main", "<reset>D</reset>");
    check_agents(
        &rig,
        expect![[r#"
            main running 6.1 in D.sh
            main_w1 running 5.1 in W.sh
        "#]],
    );
}

#[test]
fn a_fork_starts_a_worker_beside_its_parent() {
    let mut rig = Rig::new("START");
    rig.emits("main", "<call return=\"R\">SPLIT</call>");
    let batch =
        rig.emits("main", "<fork next=\"GO_ON\" item=\"1 & 2\" cd=\"w\" input=\"for it\">WORKER</fork>");
    check(
        &batch,
        expect![[r#"
            step_finished main 2 SPLIT.sh next=GO_ON.sh tag=fork target=WORKER.sh
            agent_started main_worker1 WORKER.sh attributes={item="1 & 2"} fork=1 input="for it" number=1 parent=main title="1 & 2"
            step_started main 3 GO_ON.sh attempt=1 visits=1
            step_started main_worker1 4 WORKER.sh attempt=1 visits=1
        "#]],
    );
    check_agents(
        &rig,
        expect![[r#"
            main running 3.1 in GO_ON.sh stack=[R.sh]
            main_worker1 running 4.1 in WORKER.sh cwd=/dir/w input="for it" item=1 & 2
        "#]],
    );
    rig.emits("main_worker1", "<call return=\"R\">X</call>");
    rig.emits("main_worker1", "<reset>Y</reset>");
    check_agents(
        &rig,
        expect![[r#"
            main running 3.1 in GO_ON.sh stack=[R.sh]
            main_worker1 running 6.1 in Y.sh cwd=/dir/w stack=[R.sh] item=1 & 2
        "#]],
    );
}

#[test]
fn several_forks_go_with_one_goto() {
    let mut rig = Rig::new("START");
    let batch = rig.emits(
        "main",
        "<fork item=\"a\">WORKER</fork><goto input=\"mine\">NEXT</goto><fork item=\"b\">ANALYZE_IT</fork>\
         <fork item=\"c\">WORKER</fork>",
    );
    check(
        &batch,
        expect![[r#"
            step_finished main 1 START.sh input=mine next=NEXT.sh tag=fork target=WORKER.sh
            agent_started main_worker1 WORKER.sh attributes={item=a} fork=1 number=1 parent=main title=a
            agent_started main_analyz2 ANALYZE_IT.sh attributes={item=b} fork=2 number=2 parent=main title=b
            agent_started main_worker3 WORKER.sh attributes={item=c} fork=3 number=3 parent=main title=c
            step_started main 2 NEXT.sh attempt=1 visits=1
            step_started main_worker1 3 WORKER.sh attempt=1 visits=1
            step_started main_analyz2 4 ANALYZE_IT.sh attempt=1 visits=1
            step_started main_worker3 5 WORKER.sh attempt=1 visits=1
        "#]],
    );
    let batch = rig.emits("main_worker1", "<fork next=\"E\">ANALYZE_IT</fork>");
    check(
        &batch,
        expect![[r#"
            step_finished main_worker1 3 WORKER.sh next=E.sh tag=fork target=ANALYZE_IT.sh
            agent_started main_worker1_analyz1 ANALYZE_IT.sh fork=1 number=1 parent=main_worker1
            step_started main_worker1 6 E.sh attempt=1 visits=1
            step_started main_worker1_analyz1 7 ANALYZE_IT.sh attempt=1 visits=1
        "#]],
    );
    let batch = rig.emits("main", "<fork next=\"E\">WORKER</fork><fork next=\"E\">WORKER</fork>");
    check(
        &batch,
        expect![[r#"
            step_finished main 2 NEXT.sh next=E.sh tag=fork target=WORKER.sh
            agent_started main_worker4 WORKER.sh fork=4 number=4 parent=main
            agent_started main_worker5 WORKER.sh fork=5 number=5 parent=main
            step_started main 8 E.sh attempt=1 visits=1
            step_started main_worker4 9 WORKER.sh attempt=1 visits=1
            step_started main_worker5 10 WORKER.sh attempt=1 visits=1
        "#]],
    );
}

#[test]
fn a_name_is_never_used_twice() {
    let mut rig = Rig::new("START");
    rig.emits("main", "<fork next=\"N\">WORK1</fork>");
    rig.emits("main_work11", "<result>gone</result>");
    let nine = "<fork next=\"N\">X</fork>".repeat(9);
    rig.emits("main", &nine);
    let batch = rig.emits("main", "<fork next=\"N\">WORK</fork><fork next=\"N\">WORK</fork>");
    check(
        &batch,
        expect![[r#"
            step_finished main 4 N.sh next=N.sh tag=fork target=WORK.sh
            agent_started main_work12 WORK.sh fork=11 number=12 parent=main
            agent_started main_work13 WORK.sh fork=12 number=13 parent=main
            step_started main 14 N.sh attempt=1 visits=3
            step_started main_work12 15 WORK.sh attempt=1 visits=1
            step_started main_work13 16 WORK.sh attempt=1 visits=1
        "#]],
    );
}

#[test]
fn results_of_workers_are_dropped_and_the_run_ends_with_mains_result() {
    let mut rig = Rig::new("START");
    rig.emits("main", "<fork next=\"N\">W</fork>");
    let batch = rig.emits("main", "<result>mine</result>");
    check(
        &batch,
        expect![[r#"
            step_finished main 2 N.sh result=mine tag=result
            agent_finished main result=mine
        "#]],
    );
    let batch = rig.emits("main_w1", "<result>its</result>");
    check(
        &batch,
        expect![[r#"
            step_finished main_w1 3 W.sh result=its tag=result
            agent_finished main_w1 result=its
            run_finished agents=2 result=mine status=completed steps=3
        "#]],
    );
}

#[test]
fn calls_nest_sixty_four_deep() {
    let mut rig = Rig::new("START");
    for _ in 0..MAX_STACK_DEPTH {
        rig.emits("main", "<call return=\"R\">SUB</call>");
    }
    assert_eq!(rig.agent("main").stack.len(), MAX_STACK_DEPTH);
    let mut other = rig.clone();
    let batch = rig.emits("main", "<function return=\"R\">SUB</function>");
    check(
        &batch,
        expect![[r#"
            step_failed main 65 SUB.sh error="calls are nested 64 deep already; return with `<result>` first" fatal=true
            run_stopped agents=1 error="main failed in SUB.sh: calls are nested 64 deep already; return with `<result>` first" status=failed steps=64
        "#]],
    );
    other.emits("main", "<result></result>");
    other.emits("main", "<call return=\"R\">SUB</call>");
    assert_eq!(other.agent("main").stack.len(), MAX_STACK_DEPTH);
}

#[test]
fn a_name_that_cannot_be_resolved_fails_the_step() {
    for output in [
        "<goto>GONE</goto>",
        "<call return=\"GONE\">A</call>",
        "<fork next=\"A\">GONE</fork>",
        "<fork next=\"GONE\">A</fork>",
        "<fork next=\"A\">B</fork><fork next=\"A\" cd=\"nowhere\">B</fork>",
        "<reset cd=\"nowhere\">A</reset>",
    ] {
        let mut rig = Rig::new("START");
        rig.delete("GONE");
        let batch = rig.emits("main", output);
        let kinds: Vec<_> = batch.iter().map(|event| &event.body).collect();
        assert!(matches!(kinds[..], [Body::StepFailed(_), Body::RunStopped { .. }]), "{output}: {kinds:?}");
        assert_eq!(rig.run.agents.len(), 1, "a step that fails starts no workers");
        assert_eq!(rig.run.steps_completed, 0);
    }
}

#[test]
fn no_step_exceeds_the_maximum_number_of_agents() {
    let fork = Fork {
        target: ForkTarget::State("W".into()),
        input: None,
        cd: None,
        worktree: None,
        variables: Vec::new(),
    };
    let mut rig = Rig::new("START");
    let next = Jump { target: "N".into(), input: None, delay: None };
    let forks = vec![fork; MAX_AGENTS];
    let batch = rig.takes("main", Transition::Fork { forks, next, joins: false });
    check(
        &batch,
        expect![[r#"
            step_failed main 1 START.sh error="100000 more agents would make more than 100000 at once" fatal=true
            run_stopped agents=1 error="main failed in START.sh: 100000 more agents would make more than 100000 at once" status=failed steps=0
        "#]],
    );
}

#[test]
fn unusual_tags_cause_warnings() {
    let mut rig = Rig::new("START");
    let batch = rig.emits("main", "<goto colour=\"red\">A</goto>");
    check(
        &batch,
        expect![[r#"
            warning main 1 START.sh message="`<goto colour=\"red\">A</goto>`: the attribute `colour` is unknown and ignored"
            step_finished main 1 START.sh tag=goto target=A.sh
            step_started main 2 A.sh attempt=1 visits=1
        "#]],
    );
}
