//! Turns of agent programs: permitted transitions, reminders, retries, limits and conversations.

use expect_test::expect;
use jiff::SignedDuration;
use raymond_core::event::{Body, Event, LedTo};
use raymond_core::input::{CompletedTurn, FailedTurn, FaultClass, Input, StepOutcome, TurnCost, TurnOutcome};
use raymond_core::name::AgentId;
use raymond_core::payload::Payload;
use raymond_core::run::{Options, RunStatus, Session, Work};
use raymond_core::tokens::Tokens;

use crate::rig::{Rig, beginning, message, state, usd};
use crate::show::{check, check_agents};

const POLICY: &str = "allowed_transitions:
  - { tag: goto, target: REVIEW }
  - { tag: call, target: RESEARCH, return: SUMMARIZE }
  - { tag: fork, target: WORK, next: REVIEW.sh }
  - { tag: ask, next: DECIDE }
  - { tag: result }";

const ONLY_GOTO: &str = "allowed_transitions: [ { tag: goto, target: REVIEW } ]";

/// A run whose first turn, in P, has started.
fn prompt(frontmatter: &str) -> Rig {
    Rig::new("P.md").prompt("P", frontmatter).prompt("Q", "model: x")
}

fn kinds(events: &[Event]) -> Vec<String> {
    let kind =
        |event: &Event| serde_json::to_value(&event.body).unwrap()["event"].as_str().map(str::to_owned);
    events.iter().filter_map(kind).collect()
}

#[test]
fn a_model_enters_only_workflows_that_are_named() {
    const FREE: &str =
        "allowed_transitions: [ { tag: reset-workflow }, { tag: fork-workflow }, { tag: result } ]";
    const NAMED: &str = "allowed_transitions: [ { tag: reset-workflow, target: ../unnamed } ]";
    let cases = [
        (FREE, "<reset-workflow>../x</reset-workflow>", "step_finished"),
        (FREE, "<reset-workflow>../unnamed</reset-workflow>", "reminder"),
        (
            FREE,
            "<fork-workflow>../x</fork-workflow><fork-workflow>../unnamed</fork-workflow><goto>Q</goto>",
            "reminder",
        ),
        ("", "<reset-workflow>../x</reset-workflow>", "step_finished"),
        ("", "<call-workflow return=\"Q\">../unnamed</call-workflow>", "step_failed"),
        ("", "<function-workflow return=\"Q\">../unnamed</function-workflow>", "step_failed"),
        // The author's own transition is not a model's.
        (NAMED, "no tag", "step_finished"),
    ];
    for (policy, text, expected) in cases {
        let events = prompt(policy).says("main", text);
        assert_eq!(kinds(&events)[0], expected, "{policy} {text}");
    }
    let mut rig = Rig::new("S");
    let events = rig.emits("main", "<reset-workflow>../unnamed</reset-workflow>");
    assert_eq!(kinds(&events)[0], "step_finished", "scripts are free");
}

#[test]
fn the_names_of_a_policy_must_match_after_resolution() {
    let cases = [
        ("<goto>REVIEW</goto>", true),
        ("<goto>REVIEW.sh</goto>", true),
        ("<goto input=\"x\" delay=\"1s\">REVIEW</goto>", true),
        ("<goto>Q</goto>", false),
        ("<reset>REVIEW</reset>", false),
        ("<call return=\"SUMMARIZE.sh\">RESEARCH</call>", true),
        ("<call return=\"REVIEW\">RESEARCH</call>", false),
        ("<function return=\"SUMMARIZE\">RESEARCH</function>", false),
        ("<fork next=\"REVIEW\" item=\"1\" cd=\"sub\">WORK</fork>", true),
        ("<fork>WORK</fork><fork>WORK</fork><goto>REVIEW</goto>", true),
        ("<fork>WORK</fork><fork>OTHER</fork><goto>REVIEW</goto>", false),
        ("<fork next=\"OTHER\">WORK</fork>", false),
        ("<ask next=\"DECIDE\" timeout=\"1h\" timeout_next=\"REVIEW\">why?</ask>", true),
        ("<ask next=\"REVIEW\">why?</ask>", false),
        ("<result>any</result>", true),
        ("<join>REVIEW</join>", false),
        ("<goto>REVIEW</goto><result>x</result>", false),
        ("no tag", false),
        ("<goto></goto>", false),
    ];
    for (text, is_permitted) in cases {
        let mut rig = prompt(POLICY);
        let events = rig.says("main", text);
        let expected = if is_permitted { "step_finished" } else { "reminder" };
        assert_eq!(kinds(&events)[0], expected, "{text}: {events:?}");
    }
}

#[test]
fn without_a_policy_everything_is_permitted_and_there_are_no_reminders() {
    for text in
        ["<goto>A</goto>", "<function return=\"B\">A</function>", "<join>A</join>", "<result></result>"]
    {
        let mut rig = prompt("model: x");
        assert_eq!(kinds(&rig.says("main", text))[0], "step_finished", "{text}");
    }
    for (text, expected) in [
        (
            "no tag",
            expect![[r#"
                step_failed main 1 P.md attempt_cost_usd=0.5 cost_usd=0.5 error="the output holds no transition tag; list what it may emit in `allowed_transitions` of its frontmatter, and Raymond reminds the agent" fatal=false message="no tag" output="no tag"
                run_stopped agents=1 cost_usd=0.5 error="main failed in P.md: the output holds no transition tag; list what it may emit in `allowed_transitions` of its frontmatter, and Raymond reminds the agent" status=failed steps=0
            "#]],
        ),
        (
            "<goto>A</goto><goto>B</goto>",
            expect![[r#"
                step_failed main 1 P.md attempt_cost_usd=0.5 cost_usd=0.5 error="the output holds several transition tags (2) that do not go together: `<goto>A</goto>`, `<goto>B</goto>`; keep exactly one; list what it may emit in `allowed_transitions` of its frontmatter, and Raymond reminds the agent" fatal=false message=<goto>A</goto><goto>B</goto> output=<goto>A</goto><goto>B</goto>
                run_stopped agents=1 cost_usd=0.5 error="main failed in P.md: the output holds several transition tags (2) that do not go together: `<goto>A</goto>`, `<goto>B</goto>`; keep exactly one; list what it may emit in `allowed_transitions` of its frontmatter, and Raymond reminds the agent" status=failed steps=0
            "#]],
        ),
        (
            "<goto>GONE</goto>",
            expect![[r#"
                step_failed main 1 P.md attempt_cost_usd=0.5 cost_usd=0.5 error="no state is called `GONE`; list what it may emit in `allowed_transitions` of its frontmatter, and Raymond reminds the agent" fatal=false message=<goto>GONE</goto> output=<goto>GONE</goto>
                run_stopped agents=1 cost_usd=0.5 error="main failed in P.md: no state is called `GONE`; list what it may emit in `allowed_transitions` of its frontmatter, and Raymond reminds the agent" status=failed steps=0
            "#]],
        ),
    ] {
        let mut rig = prompt("model: x");
        rig.delete("GONE");
        check(&rig.says_for("main", 0.5, text), expected);
        assert_eq!(rig.run.cost_usd, usd(0.5));
    }
}

#[test]
fn a_failed_prompt_lets_the_other_agents_finish() {
    let mut rig = prompt("model: x");
    rig.says("main", "<fork next=\"A\">Q</fork>");
    check(
        &rig.says("main_q1", "no tag"),
        expect![[r#"
            step_failed main_q1 3 Q.md error="the output holds no transition tag; list what it may emit in `allowed_transitions` of its frontmatter, and Raymond reminds the agent" fatal=false message="no tag" output="no tag"
        "#]],
    );
    check(
        &rig.emits("main", "<result>r</result>"),
        expect![[r#"
            step_finished main 2 A.sh result=r tag=result
            agent_finished main result=r
            run_stopped agents=2 error="main_q1 failed in Q.md: the output holds no transition tag; list what it may emit in `allowed_transitions` of its frontmatter, and Raymond reminds the agent" status=failed steps=2
        "#]],
    );
    check(
        &rig.resume(),
        expect![[r#"
        run_resumed
        step_started main_q1 4 Q.md attempt=1 session=s4.1 turn=2 visits=1
    "#]],
    );
}

#[test]
fn an_agent_is_reminded_of_its_policy_three_times() {
    let mut rig = prompt(POLICY);
    check(
        &rig.says_for("main", 0.1, "no tag"),
        expect![[r#"
            reminder main 1 P.md attempt=2 attempt_cost_usd=0.1 message="no tag" number=1 problem="the output holds no transition tag" session=s1.1 text="Your last message could not be used: the output holds no transition tag.\n\nReply with exactly one of these tags, written in full as shown here:\n\n<goto>REVIEW.sh</goto>\n<call return=\"SUMMARIZE.sh\">RESEARCH.sh</call>\n<fork next=\"REVIEW.sh\">WORK.sh</fork>\n<ask next=\"DECIDE.sh\">your question</ask>\n<result>your result</result>\n\nOnly forks may be repeated, one tag for each worker.\n"
            step_started main 1 P.md attempt=2 branch_of=s1.1 session=s1.2 turn=2 visits=1
        "#]],
    );
    check(
        &rig.says_for("main", 0.1, "<goto>NOT_THERE</goto>"),
        expect![[r#"
            reminder main 1 P.md attempt=3 attempt_cost_usd=0.1 message=<goto>NOT_THERE</goto> number=2 problem="`<goto>NOT_THERE.sh</goto>` is not permitted here" session=s1.2 text="Your last message could not be used: `<goto>NOT_THERE.sh</goto>` is not permitted here.\n\nReply with exactly one of these tags, written in full as shown here:\n\n<goto>REVIEW.sh</goto>\n<call return=\"SUMMARIZE.sh\">RESEARCH.sh</call>\n<fork next=\"REVIEW.sh\">WORK.sh</fork>\n<ask next=\"DECIDE.sh\">your question</ask>\n<result>your result</result>\n\nOnly forks may be repeated, one tag for each worker.\n"
            step_started main 1 P.md attempt=3 branch_of=s1.2 session=s1.3 turn=3 visits=1
        "#]],
    );
    check(
        &rig.says_for("main", 0.1, "<goto>REVIEW</goto><goto>REVIEW</goto>"),
        expect![[r#"
            reminder main 1 P.md attempt=4 attempt_cost_usd=0.1 message=<goto>REVIEW</goto><goto>REVIEW</goto> number=3 problem="the output holds several transition tags (2) that do not go together: `<goto>REVIEW</goto>`, `<goto>REVIEW</goto>`; keep exactly one" session=s1.3 text="Your last message could not be used: the output holds several transition tags (2) that do not go together: `<goto>REVIEW</goto>`, `<goto>REVIEW</goto>`; keep exactly one.\n\nReply with exactly one of these tags, written in full as shown here:\n\n<goto>REVIEW.sh</goto>\n<call return=\"SUMMARIZE.sh\">RESEARCH.sh</call>\n<fork next=\"REVIEW.sh\">WORK.sh</fork>\n<ask next=\"DECIDE.sh\">your question</ask>\n<result>your result</result>\n\nOnly forks may be repeated, one tag for each worker.\n"
            step_started main 1 P.md attempt=4 branch_of=s1.3 session=s1.4 turn=4 visits=1
        "#]],
    );
    let mut other = rig.clone();
    check(
        &rig.says_for("main", 0.1, "again no tag"),
        expect![[r#"
            step_failed main 1 P.md attempt_cost_usd=0.1 cost_usd=0.4 error="still no permitted transition after 3 reminders: the output holds no transition tag; change the prompt, or permit more in its `allowed_transitions`" fatal=false message="again no tag" output="again no tag"
            run_stopped agents=1 cost_usd=0.4 error="main failed in P.md: still no permitted transition after 3 reminders: the output holds no transition tag; change the prompt, or permit more in its `allowed_transitions`" status=failed steps=0
        "#]],
    );
    check(
        &other.says_for("main", 0.1, "<goto>REVIEW</goto>"),
        expect![[r#"
            step_finished main 1 P.md attempt_cost_usd=0.1 cost_usd=0.4 message=<goto>REVIEW</goto> session=s1.4 tag=goto target=REVIEW.sh
            step_started main 2 REVIEW.sh attempt=1 visits=1
        "#]],
    );
    assert_eq!(rig.run.cost_usd, usd(0.4));
    assert_eq!(other.run.cost_usd, usd(0.4));
    // After a resume the failed state is a new step, with new reminders and the conversation from before the failure.
    check(
        &rig.resume(),
        expect![[r#"
        run_resumed
        step_started main 2 P.md attempt=1 session=s2.1 turn=5 visits=1
    "#]],
    );
    assert_eq!(kinds(&rig.says("main", "no tag")), ["reminder", "step_started"]);
}

#[test]
fn a_single_complete_entry_is_implicit() {
    let cases = [
        (
            ONLY_GOTO,
            "no tag",
            expect![[r#"
                step_finished main 1 P.md implicit=true message="no tag" session=s1.1 tag=goto target=REVIEW.sh
                step_started main 2 REVIEW.sh attempt=1 visits=1
            "#]],
        ),
        (
            ONLY_GOTO,
            "<goto input=\"i\">REVIEW</goto>",
            expect![[r#"
                step_finished main 1 P.md input=i message="<goto input=\"i\">REVIEW</goto>" session=s1.1 tag=goto target=REVIEW.sh
                step_started main 2 REVIEW.sh attempt=1 visits=1
            "#]],
        ),
        (
            ONLY_GOTO,
            "<goto>Q</goto>",
            expect![[r#"
                reminder main 1 P.md attempt=2 message=<goto>Q</goto> number=1 problem="`<goto>Q.md</goto>` is not permitted here" session=s1.1 text="Your last message could not be used: `<goto>Q.md</goto>` is not permitted here.\n\nReply with exactly one tag, this one, written in full as shown here:\n\n<goto>REVIEW.sh</goto>\n"
                step_started main 1 P.md attempt=2 branch_of=s1.1 session=s1.2 turn=2 visits=1
            "#]],
        ),
        (
            "allowed_transitions: [ { tag: reset, target: Q } ]",
            "no tag",
            expect![[r#"
                step_finished main 1 P.md implicit=true message="no tag" session=s1.1 tag=reset target=Q.md
                step_started main 2 Q.md attempt=1 session=s2.1 turn=1 visits=1
            "#]],
        ),
        (
            "allowed_transitions: [ { tag: call, target: Q, return: R } ]",
            "no tag",
            expect![[r#"
                step_finished main 1 P.md implicit=true message="no tag" return=R.sh session=s1.1 tag=call target=Q.md
                step_started main 2 Q.md attempt=1 branch_of=s1.1 session=s2.1 turn=1 visits=1
            "#]],
        ),
        (
            "allowed_transitions: [ { tag: function, target: Q, return: R } ]",
            "no tag",
            expect![[r#"
                step_finished main 1 P.md implicit=true message="no tag" return=R.sh session=s1.1 tag=function target=Q.md
                step_started main 2 Q.md attempt=1 session=s2.1 turn=1 visits=1
            "#]],
        ),
        (
            "allowed_transitions: [ { tag: fork, target: Q, next: R } ]",
            "no tag",
            expect![[r#"
                step_finished main 1 P.md implicit=true message="no tag" next=R.sh session=s1.1 tag=fork target=Q.md
                agent_started main_q1 Q.md fork=1 from_model=true number=1 parent=main
                step_started main 2 R.sh attempt=1 visits=1
                step_started main_q1 3 Q.md attempt=1 session=s3.1 turn=1 visits=1
            "#]],
        ),
        (
            "allowed_transitions: [ { tag: join, target: R } ]",
            "no tag",
            expect![[r#"
                step_finished main 1 P.md implicit=true message="no tag" session=s1.1 tag=join target=R.sh
                joined main R.sh result=[] workers=[]
                step_started main 2 R.sh attempt=1 visits=1
            "#]],
        ),
    ];
    for (frontmatter, text, expected) in cases {
        check(&prompt(frontmatter).says("main", text), expected);
    }
    for incomplete in [
        "allowed_transitions: [ { tag: result } ]",
        "allowed_transitions: [ { tag: ask, next: R } ]",
        "allowed_transitions: [ { tag: goto } ]",
        "allowed_transitions: [ { tag: call, target: Q } ]",
        "allowed_transitions: [ { tag: goto, target: Q }, { tag: goto, target: R } ]",
    ] {
        assert_eq!(kinds(&prompt(incomplete).says("main", "no tag"))[0], "reminder", "{incomplete}");
    }
}

#[test]
fn a_forced_transition_is_taken_with_any_message() {
    let forced = format!("{ONLY_GOTO}\nforce_implicit: true");
    for text in ["no tag", "<goto input=\"x\">Q</goto>", "<result>r</result>", "<goto>A</goto><goto>B</goto>"]
    {
        let mut rig = prompt(&forced);
        let Body::StepFinished(finished) = &rig.says("main", text)[0].body else { panic!("{text}") };
        assert!(finished.implicit);
        assert_eq!(finished.led_to, LedTo::Goto { target: state("REVIEW"), input: None });
    }
}

#[test]
fn a_missing_implicit_state_fails_at_once() {
    let mut rig = prompt(ONLY_GOTO);
    rig.delete("REVIEW");
    check(
        &rig.says("main", "no tag"),
        expect![[r#"
            step_failed main 1 P.md error="no state is called `REVIEW`" fatal=false message="no tag"
            run_stopped agents=1 error="main failed in P.md: no state is called `REVIEW`" status=failed steps=0
        "#]],
    );
}

#[test]
fn failed_turns_are_retried_after_one_five_and_twenty_seconds() {
    let mut rig = prompt(POLICY);
    check(
        &rig.breaks_for("main", 0.1, FaultClass::Retry),
        expect![[r#"
            retry main 1 P.md attempt=2 attempt_cost_usd=0.1 cost_estimated=true error=broke message="I broke" until=+1s
        "#]],
    );
    check(
        &rig.passes(1),
        expect![[r#"
        step_started main 1 P.md attempt=2 session=s1.2 turn=1 visits=1
    "#]],
    );
    check(
        &rig.breaks_for("main", 0.1, FaultClass::Retry),
        expect![[r#"
            retry main 1 P.md attempt=3 attempt_cost_usd=0.1 cost_estimated=true error=broke message="I broke" until=+6s
        "#]],
    );
    check(&rig.passes(4), expect![[r#""#]]);
    check(
        &rig.passes(1),
        expect![[r#"
        step_started main 1 P.md attempt=3 session=s1.3 turn=1 visits=1
    "#]],
    );
    check(
        &rig.breaks("main", FaultClass::Retry),
        expect![[r#"
            retry main 1 P.md attempt=4 cost_estimated=true error=broke message="I broke" until=+26s
        "#]],
    );
    rig.passes(20);
    let mut other = rig.clone();
    check(
        &rig.breaks_for("main", 0.1, FaultClass::Retry),
        expect![[r#"
            step_failed main 1 P.md attempt_cost_usd=0.1 cost_estimated=true cost_usd=0.3 error="broke (after 3 retries)" exit_code=1 fatal=false message="I broke"
            run_stopped agents=1 cost_usd=0.3 error="main failed in P.md: broke (after 3 retries)" status=failed steps=0
        "#]],
    );
    check(
        &other.says_for("main", 0.5, "<result>r</result>"),
        expect![[r#"
            step_finished main 1 P.md attempt_cost_usd=0.5 cost_usd=0.7 message=<result>r</result> result=r session=s1.4 tag=result
            agent_finished main result=r
            run_finished agents=1 cost_usd=0.7 result=r status=completed steps=1
        "#]],
    );
}

#[test]
fn a_reminder_resets_the_retries_and_is_sent_again_by_a_retry() {
    let mut rig = prompt(POLICY);
    rig.breaks("main", FaultClass::Retry);
    rig.passes(1);
    rig.says("main", "no tag");
    check(
        &rig.breaks("main", FaultClass::Retry),
        expect![[r#"
            retry main 1 P.md attempt=4 cost_estimated=true error=broke message="I broke" until=+2s
        "#]],
    );
    check(
        &rig.passes(1),
        expect![[r#"
        step_started main 1 P.md attempt=4 branch_of=s1.2 session=s1.4 turn=2 visits=1
    "#]],
    );
    check(
        &rig.says("main", "still none"),
        expect![[r#"
            reminder main 1 P.md attempt=5 message="still none" number=2 problem="the output holds no transition tag" session=s1.4 text="Your last message could not be used: the output holds no transition tag.\n\nReply with exactly one of these tags, written in full as shown here:\n\n<goto>REVIEW.sh</goto>\n<call return=\"SUMMARIZE.sh\">RESEARCH.sh</call>\n<fork next=\"REVIEW.sh\">WORK.sh</fork>\n<ask next=\"DECIDE.sh\">your question</ask>\n<result>your result</result>\n\nOnly forks may be repeated, one tag for each worker.\n"
            step_started main 1 P.md attempt=5 branch_of=s1.4 session=s1.5 turn=3 visits=1
        "#]],
    );
}

#[test]
fn a_final_fault_fails_at_once() {
    let mut rig = prompt(POLICY);
    check(
        &rig.breaks_for("main", 0.1, FaultClass::Final),
        expect![[r#"
            step_failed main 1 P.md attempt_cost_usd=0.1 cost_estimated=true cost_usd=0.1 error=broke exit_code=1 fatal=false message="I broke"
            run_stopped agents=1 cost_usd=0.1 error="main failed in P.md: broke" status=failed steps=0
        "#]],
    );
}

#[test]
fn the_agent_waits_until_a_usage_limit_ends() {
    let until = Some(beginning() + SignedDuration::from_hours(1));
    for (until, seconds) in [(until, 3600), (None, 300)] {
        let mut rig = prompt(POLICY);
        let batch = rig.breaks_for("main", 0.1, FaultClass::Limit { until });
        match until {
            Some(_) => check(
                &batch,
                expect![[r#"
                    limit_waiting main 1 P.md attempt=2 attempt_cost_usd=0.1 cost_estimated=true error=broke message="I broke" until=+3600s
                "#]],
            ),
            None => check(
                &batch,
                expect![[r#"
                    limit_waiting main 1 P.md attempt=2 attempt_cost_usd=0.1 cost_estimated=true error=broke message="I broke" until=+300s
                "#]],
            ),
        }
        check(&rig.passes(seconds - 1), expect![[""]]);
        assert_eq!(kinds(&rig.passes(1)), ["step_started"]);
        // Waiting for a limit does not use a retry.
        assert_eq!(rig.work("main").retries, 0);
        rig.breaks("main", FaultClass::Retry);
        assert_eq!(rig.agent("main").work().unwrap().retries, 1);
    }
}

#[test]
fn a_usage_limit_delays_only_its_agent() {
    let mut rig = prompt("model: x");
    rig.says("main", "<fork next=\"P\">Q</fork>");
    rig.breaks("main_q1", FaultClass::Limit { until: None });
    check(
        &rig.says("main", "<goto>Q</goto>"),
        expect![[r#"
            step_finished main 2 P.md message=<goto>Q</goto> session=s2.1 tag=goto target=Q.md
            step_started main 4 Q.md attempt=1 branch_of=s2.1 session=s4.1 turn=2 visits=1
        "#]],
    );
    rig.says("main", "<result>r</result>");
    check_agents(
        &rig,
        expect![[r#"
        main_q1 waiting +300s in Q.md
    "#]],
    );
    assert_eq!(rig.run.status, RunStatus::Running);
}

#[test]
fn without_waiting_a_usage_limit_stops_the_run() {
    let options = Options { no_wait: true, ..Options::default() };
    let mut rig = Rig::with("P.md", options).prompt("P", POLICY).prompt("Q", "model: x");
    rig.round([]);
    rig.says("main", "<fork next=\"REVIEW\">WORK</fork>");
    rig.emits("main", "<goto>Q</goto>");
    check(
        &rig.breaks_for("main", 0.1, FaultClass::Limit { until: None }),
        expect![[r#"
            limit_waiting main 4 Q.md attempt=2 attempt_cost_usd=0.1 cost_estimated=true error=broke message="I broke" until=+300s
        "#]],
    );
    // Running steps finish; nothing else starts.
    check(
        &rig.emits("main_work1", "<goto>A</goto>"),
        expect![[r#"
        step_finished main_work1 3 WORK.sh tag=goto target=A.sh
        run_stopped agents=2 cost_usd=0.1 error=broke status=limited steps=3
    "#]],
    );
    // A resume tries again at once.
    check(
        &rig.resume(),
        expect![[r#"
        run_resumed
        step_started main_work1 5 A.sh attempt=1 visits=1
        step_started main 4 Q.md attempt=2 branch_of=s1.1 session=s4.2 turn=1 visits=1
    "#]],
    );
}

#[test]
fn a_resume_retries_a_limited_step_at_once() {
    let mut rig = prompt("model: x");
    rig.breaks("main", FaultClass::Limit { until: None });
    rig.drain();
    assert_eq!(rig.run.status, RunStatus::Interrupted);
    check(
        &rig.resume(),
        expect![[r#"
        run_resumed
        step_started main 1 P.md attempt=2 session=s1.2 turn=1 visits=1
    "#]],
    );
}

#[test]
fn a_limit_that_should_have_ended_is_not_retried_at_once() {
    let mut rig = prompt("model: x");
    let until = Some(beginning() - SignedDuration::from_secs(1));
    let batch = rig.breaks("main", FaultClass::Limit { until });
    assert_eq!(kinds(&batch), ["limit_waiting"]);
}

/// The shell chooses the next backend, because it knows what the machine has.
#[test]
fn a_turn_whose_program_is_missing_is_tried_again_at_once_if_there_is_another_backend() {
    let mut rig = Rig::new("P.md").prompt("P", "model: x").falling_back_on("P", &["second"]);
    rig.round([]);
    for attempt in 2..=4 {
        let batch = rig.breaks_for("main", 0.0, FaultClass::NotInstalled);
        assert_eq!(kinds(&batch), ["retry", "step_started"], "{attempt}");
        assert_eq!(rig.work("main").attempt, attempt);
    }
    // It may be missing wherever it is looked for, so this ends.
    assert_eq!(kinds(&rig.breaks_for("main", 0.0, FaultClass::NotInstalled)), ["step_failed", "run_stopped"]);
}

#[test]
fn a_turn_whose_program_is_missing_fails_without_another_backend() {
    let mut rig = prompt("model: x");
    assert_eq!(kinds(&rig.breaks_for("main", 0.0, FaultClass::NotInstalled)), ["step_failed", "run_stopped"]);
    // A conversation is not handed on.
    let mut rig =
        Rig::new("P.md").prompt("P", "model: x").prompt("Q", "model: x").falling_back_on("Q", &["second"]);
    rig.round([]);
    rig.says("main", "<goto>Q</goto>");
    assert_eq!(kinds(&rig.breaks_for("main", 0.0, FaultClass::NotInstalled)), ["step_failed", "run_stopped"]);
}

#[test]
fn a_turn_that_used_its_share_continues_in_the_same_conversation() {
    let mut rig = prompt(POLICY);
    check(
        &rig.breaks_for("main", 0.5, FaultClass::ShareUsed),
        expect![[r#"
            retry main 1 P.md attempt=2 attempt_cost_usd=0.5 cost_estimated=true error=broke message="I broke" session=s1.1 until=+0s
            step_started main 1 P.md attempt=2 branch_of=s1.1 session=s1.2 turn=2 visits=1
        "#]],
    );
    check(
        &rig.breaks_for("main", 0.5, FaultClass::ShareUsed),
        expect![[r#"
            retry main 1 P.md attempt=3 attempt_cost_usd=0.5 cost_estimated=true error=broke message="I broke" session=s1.2 until=+0s
            step_started main 1 P.md attempt=3 branch_of=s1.2 session=s1.3 turn=3 visits=1
        "#]],
    );
    // A retry continues from there too.
    check(
        &rig.breaks("main", FaultClass::Retry),
        expect![[r#"
            retry main 1 P.md attempt=4 cost_estimated=true error=broke message="I broke" until=+1s
        "#]],
    );
    check(
        &rig.passes(1),
        expect![[r#"
        step_started main 1 P.md attempt=4 branch_of=s1.2 session=s1.4 turn=3 visits=1
    "#]],
    );
    check(
        &rig.says_for("main", 0.5, "no tag"),
        expect![[r#"
            reminder main 1 P.md attempt=5 attempt_cost_usd=0.5 message="no tag" number=1 problem="the output holds no transition tag" session=s1.4 text="Your last message could not be used: the output holds no transition tag.\n\nReply with exactly one of these tags, written in full as shown here:\n\n<goto>REVIEW.sh</goto>\n<call return=\"SUMMARIZE.sh\">RESEARCH.sh</call>\n<fork next=\"REVIEW.sh\">WORK.sh</fork>\n<ask next=\"DECIDE.sh\">your question</ask>\n<result>your result</result>\n\nOnly forks may be repeated, one tag for each worker.\n"
            step_started main 1 P.md attempt=5 branch_of=s1.4 session=s1.5 turn=4 visits=1
        "#]],
    );
    check(
        &rig.says_for("main", 0.5, "<result>r</result>"),
        expect![[r#"
            step_finished main 1 P.md attempt_cost_usd=0.5 cost_usd=2.0 message=<result>r</result> result=r session=s1.5 tag=result
            agent_finished main result=r
            run_finished agents=1 cost_usd=2.0 result=r status=completed steps=1
        "#]],
    );
    assert_eq!(rig.run.cost_usd, usd(2.0));
}

#[test]
fn a_used_share_without_a_conversation_fails() {
    let mut rig = prompt(POLICY);
    let turn = FailedTurn {
        error: "share used".into(),
        class: FaultClass::ShareUsed,
        cost: TurnCost::default(),
        session: None,
        exit_code: None,
        message: None,
        warnings: Vec::new(),
    };
    let ended = rig.ended("main", StepOutcome::Turn(TurnOutcome::Failed(turn)));
    assert_eq!(kinds(&rig.round([Input::Ended(Box::new(ended))])), ["step_failed", "run_stopped"]);
}

/// The conversation that each started turn continues, in order.
fn branches(rig: &Rig) -> Vec<(String, Option<String>)> {
    rig.journal
        .iter()
        .filter_map(|event| match &event.body {
            Body::StepStarted(started) => {
                let turn = started.turn.as_ref()?;
                Some((turn.session.clone()?, turn.branch_of.clone()))
            }
            _ => None,
        })
        .collect()
}

#[test]
fn conversations_follow_the_table_of_tags() {
    let mut rig = prompt("model: x").prompt("F", "model: x").prompt("R", "model: x");
    check(
        &rig.says("main", "<goto>Q</goto>"),
        expect![[r#"
            step_finished main 1 P.md message=<goto>Q</goto> session=s1.1 tag=goto target=Q.md
            step_started main 2 Q.md attempt=1 branch_of=s1.1 session=s2.1 turn=1 visits=1
        "#]],
    );
    check(
        &rig.says("main", "<call return=\"R\">Q</call>"),
        expect![[r#"
            step_finished main 2 Q.md message="<call return=\"R\">Q</call>" return=R.md session=s2.1 tag=call target=Q.md
            step_started main 3 Q.md attempt=1 branch_of=s2.1 session=s3.1 turn=2 visits=2
        "#]],
    );
    // The called state gets a branch of its caller's conversation.
    check(
        &rig.says("main", "<goto>Q</goto>"),
        expect![[r#"
            step_finished main 3 Q.md message=<goto>Q</goto> session=s3.1 tag=goto target=Q.md
            step_started main 4 Q.md attempt=1 branch_of=s3.1 session=s4.1 turn=3 visits=3
        "#]],
    );
    check(
        &rig.says("main", "<function return=\"P\">F</function>"),
        expect![[r#"
            step_finished main 4 Q.md message="<function return=\"P\">F</function>" return=P.md session=s4.1 tag=function target=F.md
            step_started main 5 F.md attempt=1 session=s5.1 turn=1 visits=1
        "#]],
    );
    check(
        &rig.says("main", "<goto>F</goto>"),
        expect![[r#"
            step_finished main 5 F.md message=<goto>F</goto> session=s5.1 tag=goto target=F.md
            step_started main 6 F.md attempt=1 branch_of=s5.1 session=s6.1 turn=2 visits=2
        "#]],
    );
    check_agents(
        &rig,
        expect![[r#"
        main running 6.1 in F.md session=s5.1 stack=[R.md/s2.1, P.md/s4.1]
    "#]],
    );
    check(
        &rig.says("main", "<result>f</result>"),
        expect![[r#"
            step_finished main 6 F.md input=f message=<result>f</result> session=s6.1 tag=result target=P.md
            step_started main 7 P.md attempt=1 branch_of=s4.1 session=s7.1 turn=2 visits=2
        "#]],
    );
    check(
        &rig.says("main", "<reset>Q</reset>"),
        expect![[r#"
            step_finished main 7 P.md message=<reset>Q</reset> session=s7.1 tag=reset target=Q.md
            step_started main 8 Q.md attempt=1 session=s8.1 turn=4 visits=4
        "#]],
    );
    check(
        &rig.says("main", "<result>q</result>"),
        expect![[r#"
            step_finished main 8 Q.md input=q message=<result>q</result> session=s8.1 tag=result target=R.md
            step_started main 9 R.md attempt=1 branch_of=s2.1 session=s9.1 turn=1 visits=1
        "#]],
    );
    check(
        &rig.says("main", "<fork next=\"Q\">F</fork>"),
        expect![[r#"
            step_finished main 9 R.md message="<fork next=\"Q\">F</fork>" next=Q.md session=s9.1 tag=fork target=F.md
            agent_started main_f1 F.md fork=1 from_model=true number=1 parent=main
            step_started main 10 Q.md attempt=1 branch_of=s9.1 session=s10.1 turn=5 visits=5
            step_started main_f1 11 F.md attempt=1 session=s11.1 turn=3 visits=1
        "#]],
    );
    check(
        &rig.says("main", "<result>r</result>"),
        expect![[r#"
            step_finished main 10 Q.md message=<result>r</result> result=r session=s10.1 tag=result
            agent_finished main result=r
        "#]],
    );
    let mut ids: Vec<String> = branches(&rig).into_iter().map(|(session, _)| session).collect();
    let count = ids.len();
    ids.sort();
    ids.dedup();
    assert_eq!(ids.len(), count, "no session is chosen twice");
}

#[test]
fn scripts_joins_and_answers_do_not_change_the_conversation() {
    let mut rig = prompt("model: x").waiting();
    rig.says("main", "<goto>A</goto>");
    rig.emits("main", "<call return=\"B\">C</call>");
    rig.emits("main", "<result></result>");
    rig.emits("main", "<join>D</join>");
    rig.emits("main", "<ask next=\"Q\">?</ask>");
    check(
        &rig.answers("ask1", "!"),
        expect![[r#"
        ask_closed main D.sh answer=! ask=ask1 by=answer target=Q.md
        step_started main 6 Q.md attempt=1 branch_of=s1.1 session=s6.1 turn=1 visits=1
    "#]],
    );
    rig.says("main", "<ask next=\"Q\">?</ask>");
    check(
        &rig.answers("ask2", "!"),
        expect![[r#"
        ask_closed main Q.md answer=! ask=ask2 by=answer target=Q.md
        step_started main 7 Q.md attempt=1 branch_of=s6.1 session=s7.1 turn=2 visits=2
    "#]],
    );
    rig.says("main", "<join>Q</join>");
    check_agents(
        &rig,
        expect![[r#"
        main running 8.1 in Q.md session=s7.1 input=[]
    "#]],
    );
}

#[test]
fn attempts_after_a_crash_continue_the_same_conversation() {
    let mut rig = prompt("model: x").prompt("R", POLICY);
    rig.says("main", "<goto>R</goto>");
    for _ in 0..2 {
        rig.die();
        rig.resume();
    }
    rig.says("main", "no tag");
    rig.die();
    check(
        &rig.resume(),
        expect![[r#"
        run_resumed interrupted=[{agent=main state=R.md step=2}]
        step_started main 2 R.md attempt=5 branch_of=s2.3 session=s2.5 turn=2 visits=1
    "#]],
    );
    rig.breaks("main", FaultClass::ShareUsed);
    rig.die();
    check(
        &rig.resume(),
        expect![[r#"
        run_resumed interrupted=[{agent=main state=R.md step=2}]
        step_started main 2 R.md attempt=7 branch_of=s2.5 session=s2.7 turn=3 visits=1
    "#]],
    );
    rig.drain();
    let ended = rig.ended("main", StepOutcome::Interrupted { cost: usd(0.25) });
    check(
        &rig.round([Input::Ended(Box::new(ended))]),
        expect![[r#"
        run_stopped agents=1 cost_usd=0.25 interrupted=[{agent=main estimated_cost_usd=0.25 state=R.md step=2}] status=interrupted steps=1
    "#]],
    );
    check(
        &rig.resume(),
        expect![[r#"
        run_resumed interrupted=[{agent=main state=R.md step=2}]
        step_started main 2 R.md attempt=8 branch_of=s2.5 session=s2.8 turn=3 visits=1
    "#]],
    );
    check(
        &rig.says_for("main", 0.5, "<result>r</result>"),
        expect![[r#"
            step_finished main 2 R.md attempt_cost_usd=0.5 cost_usd=0.75 message=<result>r</result> result=r session=s2.8 tag=result
            agent_finished main result=r
            run_finished agents=1 cost_usd=0.75 result=r status=completed steps=2
        "#]],
    );
    assert_eq!(rig.run.cost_usd, usd(0.75));
}

#[test]
fn turns_are_counted_by_state_and_a_repeated_one_keeps_its_number() {
    let mut rig = prompt(POLICY);
    let turns = |events: &[Event]| -> Vec<u64> {
        let turn = |event: &Event| match &event.body {
            Body::StepStarted(started) => started.turn.as_ref().map(|turn| turn.number),
            _ => None,
        };
        events.iter().filter_map(turn).collect()
    };
    rig.breaks("main", FaultClass::Retry);
    assert_eq!(turns(&rig.passes(1)), [1]);
    rig.die();
    assert_eq!(turns(&rig.resume()), [1]);
    assert_eq!(turns(&rig.says("main", "no tag")), [2]);
    rig.breaks("main", FaultClass::Limit { until: None });
    assert_eq!(turns(&rig.passes(300)), [2]);
    assert_eq!(turns(&rig.breaks("main", FaultClass::ShareUsed)), [3]);
    rig.says("main", "<goto>REVIEW</goto>");
    assert_eq!(turns(&rig.emits("main", "<goto>P</goto>")), [4]);
}

#[test]
fn warnings_of_a_turn_are_recorded() {
    let mut rig = prompt(POLICY);
    let turn = CompletedTurn {
        reading: message("<goto colour=\"red\">REVIEW</goto>"),
        other_case: Vec::new(),
        message: "red".into(),
        last_lines: None,
        file: None,
        session: Some(rig.chosen_session("main")),
        cost: TurnCost::estimated(usd(0.1), Tokens::default()),
        warnings: vec!["`Bash` was not permitted".into()],
    };
    let ended = rig.ended("main", StepOutcome::Turn(TurnOutcome::Completed(turn)));
    check(
        &rig.round([Input::Ended(Box::new(ended))]),
        expect![[r#"
            warning main 1 P.md message="`Bash` was not permitted"
            warning main 1 P.md message="`<goto colour=\"red\">REVIEW</goto>`: the attribute `colour` is unknown and ignored"
            step_finished main 1 P.md attempt_cost_usd=0.1 cost_estimated=true cost_usd=0.1 message=red session=s1.1 tag=goto target=REVIEW.sh
            step_started main 2 REVIEW.sh attempt=1 visits=1
        "#]],
    );
}

/// Whatever becomes of the turn: it is tried again, waits, goes on with another share, or has failed.
#[test]
fn warnings_of_a_turn_that_has_not_finished_are_recorded_too() {
    for class in
        [FaultClass::Retry, FaultClass::Limit { until: None }, FaultClass::ShareUsed, FaultClass::Final]
    {
        let mut rig = prompt(POLICY);
        let turn = FailedTurn {
            error: "x".into(),
            class,
            cost: TurnCost::of(usd(0.1), Tokens::default()),
            session: Some(rig.chosen_session("main")),
            exit_code: None,
            message: None,
            warnings: vec!["`Bash` was not permitted".into()],
        };
        let ended = rig.ended("main", StepOutcome::Turn(TurnOutcome::Failed(turn)));
        let events = rig.round([Input::Ended(Box::new(ended))]);
        let is_it = |event: &Event| matches!(&event.body, Body::Warning { message, .. } if message.contains("`Bash`"));
        assert_eq!(events.iter().filter(|event| is_it(event)).count(), 1, "{class:?}: {events:?}");
    }
}

#[test]
fn visits_of_a_prompt_are_limited_too() {
    let mut rig = prompt("max_visits: 2");
    rig.says("main", "<goto>P</goto>");
    check(
        &rig.says("main", "<goto>P</goto>"),
        expect![[r#"
            step_finished main 2 P.md message=<goto>P</goto> session=s2.1 tag=goto target=P.md
            step_failed main P.md error="entered for the 3rd time, but its `max_visits` is 2; raise it to go on" fatal=false
            run_stopped agents=1 error="main failed in P.md: entered for the 3rd time, but its `max_visits` is 2; raise it to go on" status=failed steps=2
        "#]],
    );
}

#[test]
fn a_report_of_the_wrong_kind_is_ignored() {
    let mut rig = prompt(POLICY);
    let script = rig.report("main", crate::rig::exited(1));
    check(&rig.round([script]), expect![[""]]);
    let mut rig = Rig::new("START");
    let turn = FailedTurn {
        error: "x".into(),
        class: FaultClass::Final,
        cost: TurnCost::default(),
        session: None,
        exit_code: None,
        message: None,
        warnings: Vec::new(),
    };
    let ended = rig.ended("main", StepOutcome::Turn(TurnOutcome::Failed(turn)));
    check(&rig.round([Input::Ended(Box::new(ended))]), expect![[""]]);
}

#[test]
fn at_most_max_parallel_turns_run_at_once() {
    for (max_parallel, running) in [(2, 2), (1, 1), (0, 1)] {
        let options = Options { max_parallel, ..Options::default() };
        let mut rig = Rig::with("START", options).prompt("Q", "model: x");
        rig.round([]);
        rig.emits("main", &"<fork next=\"N\">Q</fork>".repeat(4));
        assert_eq!(rig.run.running(), running + 1, "scripts do not count");
        rig.says("main_q1", "<result></result>");
        assert!(rig.running().contains(&format!("main_q{}", running + 1)), "they wait in order");
    }
}

/// The message itself is with the machine that the turn ran on.
#[test]
fn a_failure_shows_the_end_of_a_message_that_is_stored() {
    let mut rig = Rig::new("P.md");
    let turn = CompletedTurn {
        reading: message("no tag"),
        other_case: Vec::new(),
        message: Payload::Stored { payload: "abc".into(), bytes: 100_000 },
        last_lines: Some("the\nend".into()),
        file: None,
        session: None,
        cost: TurnCost::default(),
        warnings: Vec::new(),
    };
    let ended = rig.ended("main", StepOutcome::Turn(TurnOutcome::Completed(turn)));
    check(
        &rig.round([Input::Ended(Box::new(ended))]),
        expect![[r#"
        step_failed main 1 P.md error="the output holds no transition tag; list what it may emit in `allowed_transitions` of its frontmatter, and Raymond reminds the agent" fatal=false message={bytes=100000 payload=abc} output="the\nend"
        run_stopped agents=1 error="main failed in P.md: the output holds no transition tag; list what it may emit in `allowed_transitions` of its frontmatter, and Raymond reminds the agent" status=failed steps=0
    "#]],
    );
}

/// What main's running turn tells about its session.
fn tells(rig: &mut Rig, session: &str) -> Vec<Event> {
    let Work { step, attempt, .. } = *rig.work("main");
    rig.round([Input::SessionKnown { agent: AgentId::main(), step, attempt, session: session.into() }])
}

/// A turn of main that says something in a session.
fn says_in(rig: &mut Rig, session: Option<&str>, text: &str) -> Vec<Event> {
    let session = session.map(|id| Session { id: id.into(), ..Session::default() });
    let turn = CompletedTurn {
        reading: message(text),
        other_case: Vec::new(),
        message: text.into(),
        last_lines: None,
        file: None,
        session,
        cost: TurnCost::default(),
        warnings: Vec::new(),
    };
    let ended = rig.ended("main", StepOutcome::Turn(TurnOutcome::Completed(turn)));
    rig.round([Input::Ended(Box::new(ended))])
}

/// A run that has come to Q, whose program chooses its sessions.
fn choosing(frontmatter: &str) -> Rig {
    let mut rig = Rig::new("P.md").prompt("Q", frontmatter).choosing("Q");
    rig.says("main", "<goto>Q</goto>");
    rig
}

#[test]
fn a_session_that_the_program_chose_is_recorded_once_it_is_known() {
    let mut rig = choosing("model: x");
    assert_eq!(rig.work("main").session, None, "nothing was chosen for it");
    check(
        &tells(&mut rig, "t1"),
        expect![[r#"
        session_started main 2 Q.md attempt=1 session=t1
    "#]],
    );
    assert_eq!(rig.work("main").session.as_deref(), Some("t1"));
    assert_eq!(tells(&mut rig, "t1"), [], "once is enough");
    check(
        &says_in(&mut rig, Some("t1"), "<goto>Q</goto>"),
        expect![[r#"
        step_finished main 2 Q.md message=<goto>Q</goto> session=t1 tag=goto target=Q.md
        step_started main 3 Q.md attempt=1 branch_of=t1 turn=2 visits=2
    "#]],
    );
}

#[test]
fn an_attempt_that_was_killed_goes_on_from_the_last_completed_turn() {
    let mut rig = choosing("model: x");
    says_in(&mut rig, Some("t1"), "<goto>Q</goto>");
    tells(&mut rig, "t2");
    check(
        &rig.resume(),
        expect![[r#"
        run_resumed interrupted=[{agent=main state=Q.md step=3}]
        step_started main 3 Q.md attempt=2 branch_of=t1 turn=2 visits=2
    "#]],
    );
    assert_eq!(rig.work("main").session, None, "the new attempt has not told its own");
}

#[test]
fn without_a_conversation_there_is_no_reminder() {
    let mut rig = choosing(POLICY);
    check(
        &says_in(&mut rig, None, "no tag"),
        expect![[r#"
            step_failed main 2 Q.md error="the output holds no transition tag" fatal=false message="no tag" output="no tag"
            run_stopped agents=1 error="main failed in Q.md: the output holds no transition tag" status=failed steps=1
        "#]],
    );
}

#[test]
fn a_usage_limit_until_a_time_that_cannot_be_meant_is_tried_again_soon() {
    let mut rig = prompt(POLICY);
    check(
        &rig.breaks_for("main", 0.1, FaultClass::Limit { until: Some(jiff::Timestamp::MAX) }),
        expect![[r#"
            limit_waiting main 1 P.md attempt=2 attempt_cost_usd=0.1 cost_estimated=true error=broke message="I broke" until=+300s
        "#]],
    );
}
