//! Waiting for workers.

use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet};

use expect_test::expect;
use raymond_core::decide::decide;
use raymond_core::event::Body;
use raymond_core::input::Input;
use raymond_core::join;
use raymond_core::name::AgentId;
use raymond_core::payload::Payload;
use raymond_core::run::{Due, RunStatus, Status};
use serde_json::Value;

use crate::rig::{Rig, fold, load, through_json};
use crate::show::{check, check_agents};

/// Main in N and `count` workers in W, all running.
fn with_workers(count: usize) -> Rig {
    let mut rig = Rig::new("START").header("W", "fatal=agent").header("V", "fatal=agent");
    rig.emits("main", &"<fork next=\"N\">W</fork>".repeat(count));
    rig
}

fn handed(rig: &Rig, agent: &str) -> Value {
    let Some(Payload::Inline(text)) = &rig.agent(agent).payload else {
        panic!("the agent has no inline payload")
    };
    serde_json::from_str(text).unwrap()
}

/// Each worker's name and status.
fn joined(rig: &Rig, agent: &str) -> Vec<String> {
    let Value::Array(workers) = handed(rig, agent) else { panic!("no array") };
    let text = |value: &Value| value.as_str().map(str::to_owned).unwrap_or_default();
    workers
        .iter()
        .map(|worker| {
            let [name, status, result] = ["agent", "status", "result"].map(|key| text(&worker[key]));
            format!("{name} {status} {result}").trim_end().to_owned()
        })
        .collect()
}

#[test]
fn a_join_without_workers_continues_at_once() {
    let mut rig = Rig::new("START");
    check(
        &rig.emits("main", "<join>A</join>"),
        expect![[r#"
        step_finished main 1 START.sh tag=join target=A.sh
        joined main A.sh result=[] workers=[]
        step_started main 2 A.sh attempt=1 visits=1
    "#]],
    );
    check_agents(
        &rig,
        expect![[r#"
        main running 2.1 in A.sh input=[]
    "#]],
    );
}

#[test]
fn an_agent_that_joins_waits_for_its_workers() {
    let mut rig = Rig::new("START");
    rig.emits("main", "<fork item=\"a\">W</fork><fork item=\"b\" k=\"v\">V</fork><goto>N</goto>");
    check(
        &rig.emits("main", "<join input=\"lost\">A</join>"),
        expect![[r#"
        step_finished main 2 N.sh tag=join target=A.sh
        warning main 2 N.sh message="`input` on `<join>` is ignored: the target gets the results of the workers"
    "#]],
    );
    check_agents(
        &rig,
        expect![[r#"
        main joining in A.sh
        main_w1 running 3.1 in W.sh item=a
        main_v2 running 4.1 in V.sh item=b k=v
    "#]],
    );
    // It waits for the last state of each worker; the order in which they end does not matter.
    check(
        &rig.emits("main_v2", "<goto>X</goto>"),
        expect![[r#"
        step_finished main_v2 4 V.sh tag=goto target=X.sh
        step_started main_v2 5 X.sh attempt=1 visits=1
    "#]],
    );
    check(
        &rig.emits("main_v2", "<result> two\n</result>"),
        expect![[r#"
            step_finished main_v2 5 X.sh result=" two\n" tag=result
            agent_finished main_v2 result=" two\n" title="b, v"
        "#]],
    );
    check(
        &rig.emits("main_w1", "<result>one</result>"),
        expect![[r#"
            step_finished main_w1 3 W.sh result=one tag=result
            agent_finished main_w1 result=one title=a
            joined main A.sh result="[{\"agent\":\"main_w1\",\"title\":\"a\",\"state\":\"W.sh\",\"attributes\":{\"item\":\"a\"},\"status\":\"done\",\"result\":\"one\",\"error\":null},{\"agent\":\"main_v2\",\"title\":\"b, v\",\"state\":\"V.sh\",\"attributes\":{\"item\":\"b\",\"k\":\"v\"},\"status\":\"done\",\"result\":\" two\\n\",\"error\":null}]" workers=[main_w1, main_v2]
            step_started main 6 A.sh attempt=1 visits=1
        "#]],
    );
    check_agents(
        &rig,
        expect![[r#"
            main running 6.1 in A.sh input="[{\"agent\":\"main_w1\",\"title\":\"a\",\"state\":\"W.sh\",\"attributes\":{\"item\":\"a\"},\"status\":\"done\",\"result\":\"one\",\"error\":null},{\"agent\":\"main_v2\",\"title\":\"b, v\",\"state\":\"V.sh\",\"attributes\":{\"item\":\"b\",\"k\":\"v\"},\"status\":\"done\",\"result\":\" two\\n\",\"error\":null}]"
        "#]],
    );
    check(
        &rig.emits("main", "<goto>B</goto>"),
        expect![[r#"
        step_finished main 6 A.sh tag=goto target=B.sh
        step_started main 7 B.sh attempt=1 visits=1
    "#]],
    );
    assert_eq!(rig.agent("main").visits["A.sh"], 1);
}

#[test]
fn workers_that_have_ended_before_are_joined_too() {
    let mut rig = with_workers(3);
    for (worker, result) in [("main_w3", "3"), ("main_w1", "1"), ("main_w2", "2")] {
        rig.emits(worker, &format!("<result>{result}</result>"));
    }
    rig.emits("main", "<join>A</join>");
    assert_eq!(joined(&rig, "main"), ["main_w1 done 1", "main_w2 done 2", "main_w3 done 3"]);
}

#[test]
fn many_workers_keep_the_order_of_their_forks() {
    let mut rig = with_workers(120);
    rig.emits("main", "<join>A</join>");
    for number in (1..=120).rev() {
        rig.emits(&format!("main_w{number}"), &format!("<result>{number}</result>"));
    }
    let expected: Vec<String> = (1..=120).map(|number| format!("main_w{number} done {number}")).collect();
    assert_eq!(joined(&rig, "main"), expected);
}

#[test]
fn a_failure_that_was_joined_no_longer_fails_the_run() {
    let mut rig = with_workers(2);
    rig.exits("main_w2", 7);
    rig.emits("main", "<join>A</join>");
    check(
        &rig.emits("main_w1", "<result>1</result>"),
        expect![[r#"
        step_finished main_w1 3 W.sh result=1 tag=result
        agent_finished main_w1 result=1
        joined main A.sh result="[{\"agent\":\"main_w1\",\"state\":\"W.sh\",\"attributes\":{},\"status\":\"done\",\"result\":\"1\",\"error\":null},{\"agent\":\"main_w2\",\"state\":\"W.sh\",\"attributes\":{},\"status\":\"failed\",\"result\":null,\"error\":\"ended with exit code 7\"}]" workers=[main_w1, main_w2]
        step_started main 5 A.sh attempt=1 visits=1
    "#]],
    );
    check_agents(
        &rig,
        expect![[r#"
        main running 5.1 in A.sh input="[{\"agent\":\"main_w1\",\"state\":\"W.sh\",\"attributes\":{},\"status\":\"done\",\"result\":\"1\",\"error\":null},{\"agent\":\"main_w2\",\"state\":\"W.sh\",\"attributes\":{},\"status\":\"failed\",\"result\":null,\"error\":\"ended with exit code 7\"}]"
    "#]],
    );
    check(
        &rig.emits("main", "<result>r</result>"),
        expect![[r#"
            step_finished main 5 A.sh result=r tag=result
            agent_finished main result=r
            run_finished agents=3 failed_workers=1 result=r status=completed steps=4
        "#]],
    );
}

#[test]
fn a_failure_completes_a_join() {
    let mut rig = with_workers(1);
    rig.emits("main", "<join>A</join>");
    check(
        &rig.exits("main_w1", 7),
        expect![[r#"
        step_failed main_w1 3 W.sh error="ended with exit code 7" exit_code=7 fatal=false stderr="oh no\n"
        joined main A.sh result="[{\"agent\":\"main_w1\",\"state\":\"W.sh\",\"attributes\":{},\"status\":\"failed\",\"result\":null,\"error\":\"ended with exit code 7\"}]" workers=[main_w1]
        step_started main 4 A.sh attempt=1 visits=1
    "#]],
    );
}

#[test]
fn before_the_join_a_resume_retries_the_failed_workers() {
    let mut rig = with_workers(2);
    rig.exits("main_w1", 1);
    rig.emits("main", "<join>A</join>");
    rig.die();
    check(
        &rig.resume(),
        expect![[r#"
        run_resumed interrupted=[{agent=main_w2 state=W.sh step=4}]
        step_started main_w2 4 W.sh attempt=2 visits=1
        step_started main_w1 5 W.sh attempt=1 visits=1
    "#]],
    );
    rig.emits("main_w2", "<result>2</result>");
    check_agents(
        &rig,
        expect![[r#"
        main joining in A.sh
        main_w1 running 5.1 in W.sh
    "#]],
    );
    rig.emits("main_w1", "<result>1</result>");
    assert_eq!(joined(&rig, "main"), ["main_w1 done 1", "main_w2 done 2"]);
}

#[test]
fn a_failure_that_stops_the_run_is_not_joined() {
    let mut rig = Rig::new("START");
    rig.emits("main", "<fork next=\"N\">W</fork>");
    rig.emits("main", "<join>A</join>");
    check(
        &rig.exits("main_w1", 1),
        expect![[r#"
        step_failed main_w1 3 W.sh error="ended with exit code 1" exit_code=1 fatal=true stderr="oh no\n"
        run_stopped agents=2 error="main_w1 failed in W.sh: ended with exit code 1" status=failed steps=2
    "#]],
    );
    check(
        &rig.resume(),
        expect![[r#"
        run_resumed
        step_started main_w1 4 W.sh attempt=1 visits=1
    "#]],
    );
    rig.emits("main_w1", "<result>1</result>");
    assert_eq!(joined(&rig, "main"), ["main_w1 done 1"]);
}

#[test]
fn a_join_takes_only_workers_that_are_not_joined_yet() {
    let mut rig = with_workers(1);
    rig.emits("main_w1", "<result>1</result>");
    rig.emits("main", "<join>A</join>");
    rig.emits("main", "<fork next=\"N\">W</fork>");
    rig.emits("main_w2", "<result>2</result>");
    rig.emits("main", "<join>A</join>");
    assert_eq!(joined(&rig, "main"), ["main_w2 done 2"]);
    rig.emits("main", "<join>A</join>");
    assert_eq!(joined(&rig, "main"), [""; 0]);
}

#[test]
fn a_join_in_a_call_waits_for_workers_of_the_caller() {
    let mut rig = with_workers(1);
    rig.emits("main", "<call return=\"R\">SUB</call>");
    rig.emits("main", "<fork next=\"N\">V</fork>");
    rig.emits("main", "<join>A</join>");
    rig.emits("main_v2", "<result>2</result>");
    assert_eq!(rig.running(), ["main_w1"]);
    rig.emits("main_w1", "<result>1</result>");
    assert_eq!(joined(&rig, "main"), ["main_w1 done 1", "main_v2 done 2"]);
    rig.emits("main", "<result>r</result>");
    check_agents(
        &rig,
        expect![[r#"
        main running 8.1 in R.sh input=r
    "#]],
    );
}

#[test]
fn workers_of_workers_are_joined_by_their_parents() {
    let mut rig = with_workers(1);
    rig.emits("main", "<join>A</join>");
    rig.emits("main_w1", "<fork next=\"N\">V</fork>");
    rig.emits("main_w1", "<join>B</join>");
    check_agents(
        &rig,
        expect![[r#"
        main joining in A.sh
        main_w1 joining in B.sh
        main_w1_v1 running 5.1 in V.sh
    "#]],
    );
    check(
        &rig.emits("main_w1_v1", "<result>deep</result>"),
        expect![[r#"
        step_finished main_w1_v1 5 V.sh result=deep tag=result
        agent_finished main_w1_v1 result=deep
        joined main_w1 B.sh result=[{"agent":"main_w1_v1","state":"V.sh","attributes":{},"status":"done","result":"deep","error":null}] workers=[main_w1_v1]
        step_started main_w1 6 B.sh attempt=1 visits=1
    "#]],
    );
    check(
        &rig.emits("main_w1", "<result>mid</result>"),
        expect![[r#"
        step_finished main_w1 6 B.sh result=mid tag=result
        agent_finished main_w1 result=mid
        joined main A.sh result=[{"agent":"main_w1","state":"W.sh","attributes":{},"status":"done","result":"mid","error":null}] workers=[main_w1]
        step_started main 7 A.sh attempt=1 visits=1
    "#]],
    );
    rig.emits("main", "<result>top</result>");
    assert_eq!(rig.run.status, RunStatus::Completed);
}

#[test]
fn workers_of_a_worker_that_ended_are_not_joined() {
    let mut rig = with_workers(1);
    rig.emits("main", "<join>A</join>");
    rig.emits("main_w1", "<fork next=\"N\">V</fork>");
    // Its own worker still runs, and no agent waits for that worker.
    check(
        &rig.emits("main_w1", "<result>1</result>"),
        expect![[r#"
        step_finished main_w1 4 N.sh result=1 tag=result
        agent_finished main_w1 result=1
        joined main A.sh result=[{"agent":"main_w1","state":"W.sh","attributes":{},"status":"done","result":"1","error":null}] workers=[main_w1]
        step_started main 6 A.sh attempt=1 visits=1
    "#]],
    );
    check(
        &rig.emits("main", "<result>r</result>"),
        expect![[r#"
        step_finished main 6 A.sh result=r tag=result
        agent_finished main result=r
    "#]],
    );
    check(
        &rig.emits("main_w1_v1", "<result></result>"),
        expect![[r#"
        step_finished main_w1_v1 5 V.sh result="" tag=result
        agent_finished main_w1_v1 result=""
        run_finished agents=3 result=r status=completed steps=6
    "#]],
    );
}

#[test]
fn workers_of_a_joined_failed_worker_are_not_joined() {
    let mut rig = with_workers(1);
    rig.emits("main_w1", "<fork next=\"V\">V</fork>");
    rig.exits("main_w1", 1);
    rig.emits("main", "<join>A</join>");
    check_agents(
        &rig,
        expect![[r#"
        main running 6.1 in A.sh input="[{\"agent\":\"main_w1\",\"state\":\"W.sh\",\"attributes\":{},\"status\":\"failed\",\"result\":null,\"error\":\"ended with exit code 1\"}]"
        main_w1_v1 running 5.1 in V.sh
    "#]],
    );
    rig.emits("main", "<result>r</result>");
    // No agent can join it, so its failure fails the run.
    check(
        &rig.exits("main_w1_v1", 1),
        expect![[r#"
            step_failed main_w1_v1 5 V.sh error="ended with exit code 1" exit_code=1 fatal=false stderr="oh no\n"
            run_stopped agents=3 error="main_w1_v1 failed in V.sh: ended with exit code 1" failed_workers=1 status=failed steps=4
        "#]],
    );
    rig.resume();
    rig.emits("main_w1_v1", "<result></result>");
    assert_eq!(rig.run.status, RunStatus::Completed);
    assert!(rig.run.workers.is_empty());
}

#[test]
fn a_worker_whose_join_failed_is_taken_by_its_parents_join() {
    let mut rig = with_workers(1);
    rig.emits("main_w1", "<fork next=\"V\">V</fork>");
    rig.emits("main", "<join>A</join>");
    // The result of the worker's worker was stored in a file, and the file is missing.
    let result = Payload::Stored { payload: "abc".into(), bytes: 100_000 };
    rig.emits("main_w1", "<join>B</join>");
    rig.record(Body::AgentFinished { agent: AgentId::new("main_w1_v1"), title: None, result });
    check(
        &rig.round([]),
        expect![[r#"
        step_failed main_w1 B.sh error="abc is gone" fatal=false
        joined main A.sh result="[{\"agent\":\"main_w1\",\"state\":\"W.sh\",\"attributes\":{},\"status\":\"failed\",\"result\":null,\"error\":\"abc is gone\"}]" workers=[main_w1]
        step_started main 6 A.sh attempt=1 visits=1
    "#]],
    );
    rig.emits("main", "<result>r</result>");
    assert_eq!(rig.run.status, RunStatus::Completed);
    assert!(rig.run.workers.is_empty());
}

#[test]
fn a_parent_may_end_without_joining() {
    let mut rig = with_workers(2);
    rig.emits("main_w1", "<result>1</result>");
    rig.emits("main", "<result>r</result>");
    // It is still shown how far the workers are; their results are not kept.
    let (_, _, fan_out) = rig.run.fan_outs().next().unwrap();
    assert_eq!((fan_out.workers, fan_out.done), (2, 1));
    let results = rig.run.workers.values().flat_map(BTreeMap::values).flat_map(|worker| &worker.result);
    assert_eq!(results.collect::<Vec<_>>(), [&Payload::from(String::new())]);
    check(
        &rig.emits("main_w2", "<result>2</result>"),
        expect![[r#"
        step_finished main_w2 4 W.sh result=2 tag=result
        agent_finished main_w2 result=2
        run_finished agents=3 result=r status=completed steps=4
    "#]],
    );
    assert!(rig.run.workers.is_empty());
}

#[test]
fn a_join_whose_results_cannot_be_read_fails_and_is_tried_again() {
    let mut rig = with_workers(1);
    rig.emits("main", "<join>A</join>");
    // The result was stored in a file, and the file is missing.
    let result = Payload::Stored { payload: "abc".into(), bytes: 100_000 };
    rig.record(Body::AgentFinished { agent: AgentId::new("main_w1"), title: None, result });
    check(
        &rig.round([]),
        expect![[r#"
        step_failed main A.sh error="abc is gone" fatal=false
        run_stopped agents=2 error="main failed in A.sh: abc is gone" status=failed steps=2
    "#]],
    );
    check_agents(
        &rig,
        expect![[r#"
        main failed in A.sh
    "#]],
    );
    let found = |payload: &Payload| match payload {
        Payload::Stored { payload, .. } => Ok(format!("the text of {payload}")),
        Payload::Inline(_) => Err("this is in no file"),
    };
    let main = AgentId::main();
    let result = join::results(&rig.run, &main, found).unwrap().unwrap();
    expect![[r#"[{"agent":"main_w1","state":"W.sh","attributes":{},"status":"done","result":"the text of abc","error":null}]"#]].assert_eq(&result);
    // The file is back.
    let options = rig.run.options.clone();
    let resume = Input::Resume {
        options: Box::new(options),
        interrupted: Vec::new(),
        forgotten: Vec::new(),
        moved: None,
    };
    check(
        &rig.round([resume, Input::Join { agent: main, result: Ok(result.into()) }]),
        expect![[r#"
        run_resumed
        joined main A.sh result="[{\"agent\":\"main_w1\",\"state\":\"W.sh\",\"attributes\":{},\"status\":\"done\",\"result\":\"the text of abc\",\"error\":null}]" workers=[main_w1]
        step_started main 4 A.sh attempt=1 visits=1
    "#]],
    );
}

/// Main waits for two workers, of which one has ended with a text that is not here.
fn with_a_text_elsewhere() -> Rig {
    let mut rig = with_workers(2);
    rig.emits("main_w1", "<result>a <result> &lt;</result>");
    rig.emits("main", "<join>A</join>");
    let result = Payload::Stored { payload: "abc".into(), bytes: 100_000 };
    rig.record(Body::AgentFinished { agent: AgentId::new("main_w2"), title: None, result });
    rig
}

#[test]
fn an_array_that_is_put_together_in_parts_elsewhere_is_the_same() {
    let rig = with_a_text_elsewhere();
    let load = |payload: &Payload| match payload {
        Payload::Stored { .. } => Ok("<goto>long</goto>".to_owned()),
        Payload::Inline(text) => Ok::<_, ()>(text.clone()),
    };
    let main = AgentId::main();
    let mut array = join::EMPTY.to_owned();
    for worker in join::workers(&rig.run, &main) {
        let worker = serde_json::from_str(&serde_json::to_string(&worker).unwrap()).unwrap();
        array = join::extend(array, vec![worker], 2, load).unwrap().unwrap();
    }
    assert_eq!(array, join::results(&rig.run, &main, load).unwrap().unwrap());
    assert!(array.contains(r"\u003cgoto>long"), "{array}");
}

#[test]
fn no_more_is_read_than_a_join_may_hand_over() {
    let mut rig = with_a_text_elsewhere();
    for payload in rig.run.payloads_mut() {
        *payload = Payload::Stored { payload: "abc".into(), bytes: 5 * 1024 * 1024 };
    }
    let read = Cell::new(0);
    let load = |_: &Payload| {
        read.set(read.get() + 1);
        Ok::<_, ()>("x".repeat(5 * 1024 * 1024))
    };
    let error = join::results(&rig.run, &AgentId::main(), load).unwrap().unwrap_err();
    assert!(error.starts_with("the results of 2 workers are longer than 8 MiB together"), "{error}");
    assert_eq!(read.get(), 1);
}

#[test]
fn while_results_are_put_together_elsewhere_the_run_goes_on_and_can_be_stopped() {
    let mut rig = with_a_text_elsewhere();
    let main = AgentId::main();
    assert_eq!(rig.run.next_due(rig.now, rig.mode), Some(Due::Join(main.clone())));
    let joining = BTreeSet::from([main.clone()]);
    assert_eq!(rig.run.next_due_beside(&joining, rig.now, rig.mode), None);
    rig.mode.draining = true;
    assert_eq!(rig.run.next_due_beside(&joining, rig.now, rig.mode), Some(Due::Close));
    rig.mode.draining = false;
    let result = Payload::Stored { payload: "def".into(), bytes: 100_100 };
    check(
        &rig.round([Input::Join { agent: main, result: Ok(result) }]),
        expect![[r#"
        joined main A.sh result={bytes=100100 payload=def} workers=[main_w1, main_w2]
        step_started main 5 A.sh attempt=1 visits=1
    "#]],
    );
}

#[test]
fn results_of_running_workers_are_empty() {
    // A worker that still runs has neither result nor error.
    let rig = with_workers(1);
    expect![[
        r#"[{"agent":"main_w1","state":"W.sh","attributes":{},"status":"done","result":null,"error":null}]"#
    ]]
    .assert_eq(&join::results(&rig.run, &AgentId::main(), load).unwrap().unwrap());
}

#[test]
fn only_an_agent_that_waits_in_a_join_accepts_its_result() {
    let rig = with_workers(1);
    for agent in ["main", "main_w1", "stranger"] {
        let agent = AgentId::new(agent);
        assert_eq!(decide(&rig.run, rig.now, Input::Join { agent, result: Ok("[]".into()) }), []);
    }
}

#[test]
fn a_join_does_not_end_while_workers_run() {
    let mut rig = with_workers(1);
    rig.emits("main", "<join>A</join>");
    let input = Input::Join { agent: AgentId::main(), result: Ok("[]".into()) };
    assert_eq!(decide(&rig.run, rig.now, input), []);
}

#[test]
fn a_stop_leaves_a_join_to_the_resume() {
    let mut rig = with_workers(1);
    rig.emits("main", "<join>A</join>");
    rig.drain();
    check(
        &rig.emits("main_w1", "<result>1</result>"),
        expect![[r#"
        step_finished main_w1 3 W.sh result=1 tag=result
        agent_finished main_w1 result=1
        run_stopped agents=2 status=interrupted steps=3
    "#]],
    );
    rig.die();
    check(
        &rig.resume(),
        expect![[r#"
        run_resumed
        joined main A.sh result=[{"agent":"main_w1","state":"W.sh","attributes":{},"status":"done","result":"1","error":null}] workers=[main_w1]
        step_started main 4 A.sh attempt=1 visits=1
    "#]],
    );
}

#[test]
fn a_join_waits_for_a_worker_that_asks() {
    let mut rig = with_workers(1);
    rig.emits("main", "<join>A</join>");
    check(
        &rig.emits("main_w1", "<ask next=\"B\">?</ask>"),
        expect![[r#"
            step_finished main_w1 3 W.sh next=B.sh tag=ask
            ask_opened main_w1 3 W.sh ask=ask1 next=B.sh question=?
            run_stopped agents=2 asks=[{agent=main_w1 ask=ask1 question=?}] status=waiting steps=3
        "#]],
    );
    rig.mode.waits_for_answers = true;
    rig.resume();
    rig.answers("ask1", "!");
    check(
        &rig.emits("main_w1", "<result>1</result>"),
        expect![[r#"
        step_finished main_w1 4 B.sh result=1 tag=result
        agent_finished main_w1 result=1
        joined main A.sh result=[{"agent":"main_w1","state":"W.sh","attributes":{},"status":"done","result":"1","error":null}] workers=[main_w1]
        step_started main 5 A.sh attempt=1 visits=1
    "#]],
    );
}

#[test]
fn with_no_step_left_a_join_still_ends() {
    let mut rig = with_workers(1);
    rig.emits("main", "<join>A</join>");
    rig.drain();
    rig.emits("main_w1", "<result>1</result>");
    let options = raymond_core::run::Options { max_steps: Some(1), ..rig.run.options.clone() };
    check(
        &rig.resume_with(options),
        expect![[r#"
        run_resumed
        joined main A.sh result=[{"agent":"main_w1","state":"W.sh","attributes":{},"status":"done","result":"1","error":null}] workers=[main_w1]
        run_stopped agents=2 error="reached the limit of 1 step; resume with a higher --max-steps" status=failed steps=3
    "#]],
    );
}

#[test]
fn a_snapshot_keeps_workers_that_are_not_joined() {
    let mut rig = with_workers(12);
    rig.emits("main_w2", "<fork next=\"N\">V</fork>");
    rig.emits("main_w1", "<result>1</result>");
    rig.emits("main", "<join>A</join>");
    let read = crate::play::through_snapshot(&rig.run);
    assert_eq!(read, rig.run);
    assert_eq!(fold(&through_json(&rig.journal)).unwrap(), rig.run);
}

#[test]
fn a_worker_with_a_worktree_begins_there_and_the_join_tells_it() {
    let mut rig = Rig::new("START");
    rig.emits("main", "<fork worktree='a'>W</fork><fork worktree='b' from='v1'>W</fork><join>N</join>");
    let worker = rig.agent("main_w1");
    assert_eq!(worker.cwd, "/worktrees/a/sub");
    assert_eq!(rig.agent("main_w2").worktree.as_ref().unwrap().base, "v1");
    rig.emits("main_w1", "<reset>X</reset>");
    assert_eq!(rig.agent("main_w1").worktree.as_ref().unwrap().branch, "raymond-run/run/a");
    rig.emits("main_w1", "<result>1</result>");
    rig.emits("main_w2", "<result>2</result>");
    let entries = handed(&rig, "main");
    assert_eq!(entries[0]["worktree"], "/worktrees/a");
    assert_eq!(entries[1]["branch"], "raymond-run/run/b");
    assert_eq!(rig.run.worktrees.keys().collect::<Vec<_>>(), ["a", "b"]);
}

#[test]
fn no_two_worktrees_of_a_run_have_the_same_name() {
    for output in [
        "<fork worktree='a'>W</fork><fork worktree='A'>W</fork><join>N</join>",
        "<fork worktree='once'>W</fork><join>N</join>",
    ] {
        let mut rig = Rig::new("START");
        rig.emits("main", "<fork worktree='once'>W</fork><goto>N</goto>");
        rig.emits("main_w1", "<result>1</result>");
        rig.emits("main", output);
        let Status::Failed { error, .. } = &rig.agent("main").status else { panic!("{output}") };
        assert!(error.contains("in this run already"), "{error}");
    }
}
