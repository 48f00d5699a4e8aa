//! Questions to a person.

use expect_test::expect;
use jiff::SignedDuration;
use raymond_core::decide::decide;
use raymond_core::event::Body;
use raymond_core::input::{Answer, FaultClass, Input};
use raymond_core::name::AgentId;
use raymond_core::run::{Options, RunStatus, Status};

use crate::rig::{Rig, usd};
use crate::show::{check, check_agents};

const ASK: &str = "<ask next=\"NEXT\">ready?</ask>";

fn asking(tag: &str) -> Rig {
    let mut rig = Rig::new("START").waiting();
    rig.emits("main", tag);
    rig
}

#[test]
fn a_question_suspends_its_agent_until_it_is_answered() {
    let mut rig = Rig::new("START").waiting();
    rig.emits("main", "<call return=\"R\" input=\"i\">SUB</call>");
    check(
        &rig.emits("main", ASK),
        expect![[r#"
            step_finished main 2 SUB.sh next=NEXT.sh tag=ask
            ask_opened main 2 SUB.sh ask=ask1 next=NEXT.sh question=ready?
        "#]],
    );
    check_agents(
        &rig,
        expect![[r#"
        main asking ask1 in SUB.sh stack=[R.sh] input=i
    "#]],
    );
    check(&rig.passes(1_000_000), expect![[""]]);
    check(
        &rig.answers("ask1", "yes\n"),
        expect![[r#"
        ask_closed main SUB.sh answer="yes\n" ask=ask1 by=answer target=NEXT.sh
        step_started main 3 NEXT.sh attempt=1 visits=1
    "#]],
    );
    check_agents(
        &rig,
        expect![[r#"
        main running 3.1 in NEXT.sh stack=[R.sh] input="yes\n"
    "#]],
    );
    assert_eq!(rig.agent("main").ask_id.as_deref(), Some("ask1"));
    rig.emits("main", "<goto>X</goto>");
    assert_eq!(rig.agent("main").ask_id, None);
    assert_eq!(rig.agent("main").payload, None);
}

#[test]
fn only_the_first_answer_is_taken() {
    let mut rig = asking(ASK);
    let answer = |text: &str, id: &str| {
        Input::Answer(Answer {
            ask: "ask1".into(),
            text: text.into(),
            answer_id: Some(id.into()),
            given_at: None,
            asked_at: None,
        })
    };
    check(
        &rig.round([answer("first", "a"), answer("second", "b")]),
        expect![[r#"
        ask_closed main START.sh answer=first answer_id=a ask=ask1 by=answer target=NEXT.sh
        step_started main 2 NEXT.sh attempt=1 visits=1
    "#]],
    );
    check(&rig.round([answer("third", "c")]), expect![[""]]);
    check(&rig.answers("ask2", "no such question"), expect![[""]]);
    check(&rig.answers("", ""), expect![[""]]);
}

#[test]
fn several_agents_can_ask_at_the_same_time() {
    let mut rig = Rig::new("START").waiting();
    rig.emits("main", "<fork>W</fork><fork>W</fork><goto>A</goto>");
    rig.emits("main_w2", "<ask next=\"N\">two?</ask>");
    rig.emits("main", "<ask next=\"N\">main?</ask>");
    rig.passes(1);
    rig.emits("main_w1", "<ask next=\"N\">one?</ask>");
    let open: Vec<&str> = rig.run.asks().into_iter().map(|(_, ask)| ask.id.as_str()).collect();
    assert_eq!(open, ["ask1", "ask2", "ask3"], "in the order they were asked");
    check(
        &rig.answers("ask1", "2"),
        expect![[r#"
        ask_closed main_w2 W.sh answer=2 ask=ask1 by=answer target=N.sh
        step_started main_w2 5 N.sh attempt=1 visits=1
    "#]],
    );
    check(
        &rig.answers("ask3", "1"),
        expect![[r#"
        ask_closed main_w1 W.sh answer=1 ask=ask3 by=answer target=N.sh
        step_started main_w1 6 N.sh attempt=1 visits=1
    "#]],
    );
    rig.emits("main_w2", ASK);
    check_agents(
        &rig,
        expect![[r#"
        main asking ask2 in A.sh
        main_w1 running 6.1 in N.sh input=1
        main_w2 asking ask4 in N.sh input=2
    "#]],
    );
}

#[test]
fn a_question_that_times_out_leads_to_timeout_next() {
    let mut rig = asking("<ask next=\"N\" timeout=\"24h\" timeout_next=\"T\">?</ask>");
    check(
        &rig.journal[rig.journal.len() - 1..],
        expect![[r#"
            ask_opened main 1 START.sh ask=ask1 deadline=+86400s next=N.sh question=? timeout_ms=86400000 timeout_next=T.sh
        "#]],
    );
    assert_eq!(rig.run.next_wake(rig.now), Some(rig.now + SignedDuration::from_hours(24)));
    check(&rig.passes(24 * 3600 - 1), expect![[""]]);
    check(
        &rig.passes(1),
        expect![[r#"
        ask_closed main START.sh answer="" ask=ask1 by=timeout target=T.sh
        step_started main 2 T.sh attempt=1 visits=1
    "#]],
    );
    check_agents(
        &rig,
        expect![[r#"
        main running 2.1 in T.sh input=""
    "#]],
    );
    check(&rig.answers("ask1", "too late"), expect![[""]]);
}

#[test]
fn an_answer_at_the_last_moment_counts() {
    let mut rig = asking("<ask next=\"N\" timeout=\"1h\" timeout_next=\"T\">?</ask>");
    rig.now += SignedDuration::from_hours(1);
    check(
        &rig.answers("ask1", "now"),
        expect![[r#"
            ask_closed main START.sh answer="" ask=ask1 by=timeout target=T.sh
            step_started main 2 T.sh attempt=1 visits=1
        "#]],
    );
}

#[test]
fn a_question_that_times_out_without_timeout_next_fails_and_is_asked_again() {
    let mut rig = asking("<ask next=\"N\" timeout=\"1h\">?</ask>");
    check(
        &rig.passes(3600),
        expect![[r#"
        ask_closed main START.sh answer="" ask=ask1 by=timeout
        step_failed main START.sh error="ask1 was not answered in time, and it has no `timeout_next`" fatal=false
        run_stopped agents=1 error="main failed in START.sh: ask1 was not answered in time, and it has no `timeout_next`" status=failed steps=1
    "#]],
    );
    check_agents(
        &rig,
        expect![[r#"
        main failed in START.sh
    "#]],
    );
    rig.die();
    rig.now += SignedDuration::from_hours(10);
    // It gets its full time again.
    check(
        &rig.resume(),
        expect![[r#"
            run_resumed
            ask_opened main START.sh ask=ask1 deadline=+43200s next=N.sh question=? timeout_ms=3600000
        "#]],
    );
    check_agents(
        &rig,
        expect![[r#"
        main asking ask1 in START.sh
    "#]],
    );
    check(&rig.passes(3599), expect![[""]]);
    let mut other = rig.clone();
    check(
        &rig.answers("ask1", "at last"),
        expect![[r#"
        ask_closed main START.sh answer="at last" ask=ask1 by=answer target=N.sh
        step_started main 2 N.sh attempt=1 visits=1
    "#]],
    );
    other.passes(1);
    assert_eq!(other.run.status, RunStatus::Failed);
    other.resume();
    assert!(matches!(other.agent("main").status, Status::Asking { .. }));
}

#[test]
fn a_question_that_is_asked_again_is_opened_again() {
    let mut rig = asking("<ask next=\"N\" timeout=\"1h\">?</ask>");
    rig.passes(3600);
    let batch = rig.resume();
    assert!(batch.iter().any(|event| matches!(event.body, Body::AskOpened(_))), "{batch:?}");
}

#[test]
fn a_deadline_that_passed_while_no_process_ran_counts_on_resume() {
    let mut rig = Rig::new("START");
    check(
        &rig.emits("main", "<ask next=\"N\" timeout=\"1h\" timeout_next=\"T\">?</ask>"),
        expect![[r#"
            step_finished main 1 START.sh next=N.sh tag=ask
            ask_opened main 1 START.sh ask=ask1 deadline=+3600s next=N.sh question=? timeout_ms=3600000 timeout_next=T.sh
            run_stopped agents=1 asks=[{agent=main ask=ask1 question=?}] status=waiting steps=1
        "#]],
    );
    rig.die();
    rig.now += SignedDuration::from_hours(1);
    check(
        &rig.resume(),
        expect![[r#"
        run_resumed
        ask_closed main START.sh answer="" ask=ask1 by=timeout target=T.sh
        step_started main 2 T.sh attempt=1 visits=1
    "#]],
    );
}

#[test]
fn without_waiting_the_other_agents_finish_first() {
    let mut rig = Rig::new("START");
    rig.emits("main", "<fork next=\"N\">W</fork>");
    check(
        &rig.emits("main", ASK),
        expect![[r#"
            step_finished main 2 N.sh next=NEXT.sh tag=ask
            ask_opened main 2 N.sh ask=ask1 next=NEXT.sh question=ready?
        "#]],
    );
    check(
        &rig.emits("main_w1", "<goto delay=\"1m\">X</goto>"),
        expect![[r#"
        step_finished main_w1 3 W.sh tag=goto target=X.sh
        delayed main_w1 X.sh until=+60s
    "#]],
    );
    rig.passes(60);
    check(
        &rig.emits("main_w1", "<result></result>"),
        expect![[r#"
        step_finished main_w1 4 X.sh result="" tag=result
        agent_finished main_w1 result=""
        run_stopped agents=2 asks=[{agent=main ask=ask1 question=ready?}] status=waiting steps=4
    "#]],
    );
    // There is no answer: it keeps waiting.
    check(
        &rig.resume(),
        expect![[r#"
        run_resumed
        run_stopped agents=2 asks=[{agent=main ask=ask1 question=ready?}] status=waiting steps=4
    "#]],
    );
    // An answer came in the meantime.
    rig.die();
    let options = rig.run.options.clone();
    let resume = Input::Resume {
        options: Box::new(options),
        interrupted: Vec::new(),
        forgotten: Vec::new(),
        moved: None,
    };
    let answer = Input::Answer(Answer { ask: "ask1".into(), text: "yes".into(), ..Answer::default() });
    check(
        &rig.round([resume, answer]),
        expect![[r#"
        run_resumed
        ask_closed main N.sh answer=yes ask=ask1 by=answer target=NEXT.sh
        step_started main 5 NEXT.sh attempt=1 visits=1
    "#]],
    );
}

#[test]
fn a_run_that_has_stopped_takes_no_answer() {
    let mut rig = Rig::new("START");
    rig.emits("main", ASK);
    assert_eq!(rig.run.status, RunStatus::Waiting);
    check(&rig.answers("ask1", "yes"), expect![[""]]);
}

#[test]
fn an_answer_is_taken_while_the_run_stops() {
    let mut rig = Rig::new("START").waiting();
    rig.emits("main", "<fork next=\"N\">W</fork>");
    rig.emits("main", ASK);
    rig.drain();
    check(
        &rig.answers("ask1", "yes"),
        expect![[r#"
        ask_closed main N.sh answer=yes ask=ask1 by=answer target=NEXT.sh
    "#]],
    );
    check(
        &rig.emits("main_w1", "<result></result>"),
        expect![[r#"
        step_finished main_w1 3 W.sh result="" tag=result
        agent_finished main_w1 result=""
        run_stopped agents=2 status=interrupted steps=3
    "#]],
    );
    check(
        &rig.resume(),
        expect![[r#"
        run_resumed
        step_started main 4 NEXT.sh attempt=1 visits=1
    "#]],
    );
}

/// The reason why a run stops: an agent asks, and one more thing happens.
#[test]
fn of_several_reasons_to_stop_the_most_serious_is_given() {
    let cases: [(&str, bool, RunStatus); 6] = [
        ("fatal", false, RunStatus::Waiting),
        ("fatal", true, RunStatus::Failed),
        ("failed", false, RunStatus::Waiting),
        ("limit", false, RunStatus::Limited),
        ("budget", false, RunStatus::OverBudget),
        ("nothing", true, RunStatus::Interrupted),
    ];
    for (what, stop, expected) in cases {
        let options = Options { no_wait: true, ..Options::default() };
        let mut rig = Rig::with("START", options).prompt("W", "model: x");
        rig.round([]);
        rig.emits("main", "<fork>W</fork><fork>V</fork><goto>A</goto>");
        rig.emits("main", ASK);
        if stop {
            rig.drain();
        }
        match what {
            "fatal" => drop(rig.exits("main_v2", 1)),
            _ => drop(rig.emits("main_v2", "<result></result>")),
        }
        match what {
            "failed" => drop(rig.breaks("main_w1", FaultClass::Final)),
            "limit" => drop(rig.breaks("main_w1", FaultClass::Limit { until: None })),
            "budget" => drop(rig.says_for("main_w1", 11.0, "<result></result>")),
            _ => drop(rig.says("main_w1", "<result></result>")),
        }
        assert_eq!(rig.run.status, expected, "{what} {stop}");
    }
}

#[test]
fn every_pair_of_reasons_is_in_order() {
    let order = [RunStatus::OverBudget, RunStatus::Limited, RunStatus::Waiting, RunStatus::Failed];
    let cause = |rig: &mut Rig, agent: &str, status: RunStatus| match status {
        RunStatus::OverBudget => drop(rig.says_for(agent, 11.0, "<goto>A</goto>")),
        RunStatus::Limited => drop(rig.breaks(agent, FaultClass::Limit { until: None })),
        RunStatus::Waiting => drop(rig.says(agent, ASK)),
        _ => drop(rig.says(agent, "no tag")),
    };
    for (index, first) in order.iter().enumerate() {
        for second in &order[index..] {
            for (one, two) in [(first, second), (second, first)] {
                let options = Options { no_wait: true, ..Options::default() };
                let mut rig = Rig::with("START", options).prompt("W", "model: x");
                rig.round([]);
                rig.emits("main", "<fork>W</fork><fork>W</fork><goto>A</goto>");
                rig.emits("main", "<result></result>");
                cause(&mut rig, "main_w1", *one);
                cause(&mut rig, "main_w2", *two);
                assert_eq!(rig.run.status, *first, "{one:?} then {two:?}");
            }
        }
    }
}

#[test]
fn a_limit_outweighs_a_fatal_failure_in_either_order() {
    for limit_first in [true, false] {
        let options = Options { no_wait: true, ..Options::default() };
        let mut rig = Rig::with("START", options).prompt("W", "model: x");
        rig.round([]);
        rig.emits("main", "<fork next=\"A\">W</fork>");
        if limit_first {
            rig.breaks("main_w1", FaultClass::Limit { until: None });
            rig.exits("main", 1);
        } else {
            rig.exits("main", 1);
            rig.breaks("main_w1", FaultClass::Limit { until: None });
        }
        assert_eq!(rig.run.status, RunStatus::Limited, "limit first: {limit_first}");
    }
}

#[test]
fn a_deadline_wakes_no_agent_while_the_run_stops() {
    let mut rig = Rig::new("START").waiting();
    rig.emits("main", "<fork next=\"N\">W</fork>");
    rig.emits("main", "<ask next=\"N\" timeout=\"1s\">?</ask>");
    rig.drain();
    rig.passes(100);
    assert_eq!(rig.running(), ["main_w1"]);
    assert!(
        rig.run.next_wake(rig.now).is_none_or(|time| time > rig.now),
        "the driver would loop without waiting"
    );
}

#[test]
fn only_an_agent_that_asks_times_out() {
    let rig = Rig::new("START");
    for agent in [AgentId::main(), AgentId::new("stranger")] {
        assert_eq!(decide(&rig.run, rig.now, Input::AskTimeout { agent }), []);
    }
}

#[test]
fn a_question_does_not_time_out_early() {
    let rig = asking("<ask next=\"N\" timeout=\"1h\">?</ask>");
    assert_eq!(decide(&rig.run, rig.now, Input::AskTimeout { agent: AgentId::main() }), []);
    let rig = asking(ASK);
    assert_eq!(decide(&rig.run, rig.now, Input::AskTimeout { agent: AgentId::main() }), []);
}

#[test]
fn a_missing_target_fails_the_step_that_asks() {
    for tag in ["<ask next=\"GONE\">?</ask>", "<ask next=\"N\" timeout=\"1h\" timeout_next=\"GONE\">?</ask>"]
    {
        let mut rig = Rig::new("START");
        rig.delete("GONE");
        let batch = rig.emits("main", tag);
        assert!(matches!(batch[0].body, Body::StepFailed(_)), "{tag}");
        assert_eq!(rig.run.asks_opened, 0);
    }
}

#[test]
fn the_cost_of_a_turn_that_asks_is_recorded() {
    let mut rig = Rig::new("P.md").prompt("P", "model: x").waiting();
    check(
        &rig.says_for("main", 0.5, "<ask next=\"P\">?</ask>"),
        expect![[r#"
            step_finished main 1 P.md attempt_cost_usd=0.5 cost_usd=0.5 message="<ask next=\"P\">?</ask>" next=P.md session=s1.1 tag=ask
            ask_opened main 1 P.md ask=ask1 next=P.md question=?
        "#]],
    );
    assert_eq!(rig.run.cost_usd, usd(0.5));
}

#[test]
fn with_no_step_left_an_answer_is_still_taken() {
    let mut rig = Rig::with("START", Options { max_steps: Some(1), ..Options::default() }).waiting();
    rig.round([]);
    rig.emits("main", ASK);
    check(
        &rig.answers("ask1", "yes"),
        expect![[r#"
        ask_closed main START.sh answer=yes ask=ask1 by=answer target=NEXT.sh
        run_stopped agents=1 error="reached the limit of 1 step; resume with a higher --max-steps" status=failed steps=1
    "#]],
    );
}

#[test]
fn an_empty_answer_is_none_unless_the_question_takes_one() {
    let mut rig = asking(ASK);
    for empty in ["", " \n\t"] {
        check(&rig.answers("ask1", empty), expect![[""]]);
    }
    check(
        &rig.answers("ask1", "yes"),
        expect![[r#"
            ask_closed main START.sh answer=yes ask=ask1 by=answer target=NEXT.sh
            step_started main 2 NEXT.sh attempt=1 visits=1
        "#]],
    );
    rig.emits("main", "<ask next=\"NEXT\" empty=\"ok\">more?</ask>");
    check(
        &rig.answers("ask2", ""),
        expect![[r#"
            ask_closed main NEXT.sh answer="" ask=ask2 by=answer target=NEXT.sh
            step_started main 3 NEXT.sh attempt=1 visits=2
        "#]],
    );
}

#[test]
fn what_counts_is_when_an_answer_was_given() {
    let tag = "<ask next=\"NEXT\" timeout=\"60s\" timeout_next=\"LATE\">ready?</ask>";
    let answer = |rig: &Rig, late_by: i64| {
        let given_at = rig.now - SignedDuration::from_secs(100) + SignedDuration::from_secs(60 + late_by);
        let (ask, text) = ("ask1".into(), "yes".into());
        Input::Answer(Answer { ask, text, given_at: Some(given_at), ..Answer::default() })
    };
    for (late_by, state) in [(-1, "NEXT.sh"), (0, "LATE.sh"), (1, "LATE.sh")] {
        let mut rig = asking(tag);
        rig.die();
        rig.now += SignedDuration::from_secs(100);
        let resume = Input::Resume {
            options: Box::new(rig.run.options.clone()),
            interrupted: Vec::new(),
            forgotten: Vec::new(),
            moved: None,
        };
        let given = answer(&rig, late_by);
        rig.round([resume, given]);
        assert_eq!(rig.agent("main").state.as_str(), state, "late by {late_by} s");
    }
}

#[test]
fn an_answer_is_for_the_question_that_was_asked_then() {
    for (earlier_by, is_taken) in [(0, true), (1, false)] {
        let mut rig = asking("<ask next=\"NEXT\">ready?</ask>");
        let opened_at = rig.run.asks()[0].1.opened_at;
        let asked_at = Some(opened_at - SignedDuration::from_secs(earlier_by));
        let answer = Answer { ask: "ask1".into(), text: "yes".into(), asked_at, ..Answer::default() };
        rig.round([Input::Answer(answer)]);
        assert_eq!(rig.run.asks().is_empty(), is_taken, "asked {earlier_by} s before");
    }
}
