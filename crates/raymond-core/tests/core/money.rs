//! Budgets: the cost of turns, their shares, and what happens when the budget is spent.

use expect_test::expect;
use raymond_core::event::{Body, Event};
use raymond_core::input::{FaultClass, Input, StepOutcome};
use raymond_core::money::Usd;
use raymond_core::run::{Options, RunStatus};

use crate::rig::{Rig, usd};
use crate::show::{check, check_agents};

const POLICY: &str = "allowed_transitions: [ { tag: goto, target: Q }, { tag: result } ]";

/// A run with this budget whose first turn, in P, has started.
fn with_budget(dollars: f64) -> Rig {
    let options = Options { budget_usd: usd(dollars), ..Options::default() };
    let mut rig =
        Rig::with("P.md", options).prompt("P", "model: x").prompt("Q", "model: x").prompt("R", POLICY);
    rig.round([]);
    rig
}

fn count(events: &[Event], fits: fn(&Body) -> bool) -> usize {
    events.iter().filter(|event| fits(&event.body)).count()
}

fn is_exceeded(body: &Body) -> bool {
    matches!(body, Body::BudgetExceeded { .. })
}

#[test]
fn over_budget_a_transition_is_recorded_but_not_taken() {
    let mut rig = with_budget(1.0);
    check(
        &rig.says_for("main", 1.5, "<goto input=\"i\">Q</goto>"),
        expect![[r#"
            step_finished main 1 P.md attempt_cost_usd=1.5 cost_usd=1.5 input=i message="<goto input=\"i\">Q</goto>" session=s1.1 tag=goto target=Q.md
            budget_exceeded budget_usd=1.0 cost_usd=1.5
            run_stopped agents=1 cost_usd=1.5 error="spent $1.50 of a budget of $1.00" status=over_budget steps=1
        "#]],
    );
    check_agents(
        &rig,
        expect![[r#"
        main ready in Q.md session=s1.1 input=i
    "#]],
    );
    check(
        &rig.resume(),
        expect![[r#"
        run_resumed
        budget_exceeded budget_usd=1.0 cost_usd=1.5
        run_stopped agents=1 cost_usd=1.5 error="spent $1.50 of a budget of $1.00" status=over_budget steps=1
    "#]],
    );
    assert_eq!(rig.run.status, RunStatus::OverBudget);
    let options = rig.budget(2.0);
    check(
        &rig.resume_with(options),
        expect![[r#"
        run_resumed
        step_started main 2 Q.md attempt=1 branch_of=s1.1 session=s2.1 turn=1 visits=1
    "#]],
    );
    check(
        &rig.says_for("main", 0.1, "<result>r</result>"),
        expect![[r#"
            step_finished main 2 Q.md attempt_cost_usd=0.1 cost_usd=0.1 message=<result>r</result> result=r session=s2.1 tag=result
            agent_finished main result=r
            run_finished agents=1 cost_usd=1.6 result=r status=completed steps=2
        "#]],
    );
}

#[test]
fn the_last_result_ends_the_run_even_over_budget() {
    let mut rig = with_budget(1.0);
    check(
        &rig.says_for("main", 1.5, "<result>r</result>"),
        expect![[r#"
        step_finished main 1 P.md attempt_cost_usd=1.5 cost_usd=1.5 message=<result>r</result> result=r session=s1.1 tag=result
        budget_exceeded budget_usd=1.0 cost_usd=1.5
        agent_finished main result=r
        run_finished agents=1 cost_usd=1.5 result=r status=completed steps=1
    "#]],
    );
}

#[test]
fn a_failure_of_the_last_agent_ends_the_run_even_over_budget() {
    let mut rig = with_budget(1.0);
    check(
        &rig.says_for("main", 1.5, "no tag"),
        expect![[r#"
            step_failed main 1 P.md attempt_cost_usd=1.5 cost_usd=1.5 error="the output holds no transition tag; list what it may emit in `allowed_transitions` of its frontmatter, and Raymond reminds the agent" fatal=false message="no tag" output="no tag"
            budget_exceeded budget_usd=1.0 cost_usd=1.5
            run_stopped agents=1 cost_usd=1.5 error="main failed in P.md: the output holds no transition tag; list what it may emit in `allowed_transitions` of its frontmatter, and Raymond reminds the agent" status=failed steps=0
        "#]],
    );
    check(
        &rig.resume(),
        expect![[r#"
        run_resumed
        budget_exceeded budget_usd=1.0 cost_usd=1.5
        run_stopped agents=1 cost_usd=1.5 error="spent $1.50 of a budget of $1.00" status=over_budget steps=0
    "#]],
    );
}

/// The first agent has ended over the budget, and its worker `main_p1` runs.
fn over_budget_with_a_worker() -> Rig {
    let mut rig = with_budget(1.0);
    rig.says_for("main", 0.1, "<fork next=\"Q\">P</fork>");
    check(
        &rig.says_for("main", 1.5, "<result>r</result>"),
        expect![[r#"
        step_finished main 2 Q.md attempt_cost_usd=1.5 cost_usd=1.5 message=<result>r</result> result=r session=s2.1 tag=result
        budget_exceeded budget_usd=1.0 cost_usd=1.6
    "#]],
    );
    rig
}

#[test]
fn a_result_over_budget_waits_while_other_agents_live() {
    let mut rig = over_budget_with_a_worker();
    check(
        &rig.says_for("main_p1", 0.1, "<goto>Q</goto>"),
        expect![[r#"
        step_finished main_p1 3 P.md attempt_cost_usd=0.1 cost_usd=0.1 message=<goto>Q</goto> session=s3.1 tag=goto target=Q.md
        run_stopped agents=2 cost_usd=1.7 error="spent $1.70 of a budget of $1.00" status=over_budget steps=3
    "#]],
    );
    rig.die();
    let options = rig.budget(3.0);
    check(
        &rig.resume_with(options),
        expect![[r#"
        run_resumed
        agent_finished main result=r
        step_started main_p1 4 Q.md attempt=1 branch_of=s3.1 session=s4.1 turn=2 visits=1
    "#]],
    );
}

#[test]
fn results_of_all_agents_end_the_run_even_over_budget() {
    let mut rig = over_budget_with_a_worker();
    check(
        &rig.says_for("main_p1", 0.1, "<result>w</result>"),
        expect![[r#"
        step_finished main_p1 3 P.md attempt_cost_usd=0.1 cost_usd=0.1 message=<result>w</result> result=w session=s3.1 tag=result
        agent_finished main result=r
        agent_finished main_p1 result=w
        run_finished agents=2 cost_usd=1.7 result=r status=completed steps=3
    "#]],
    );
}

#[test]
fn a_result_for_a_caller_over_budget_waits() {
    let mut rig = with_budget(1.0);
    rig.says_for("main", 0.1, "<call return=\"Q\">P</call>");
    check(
        &rig.says_for("main", 1.5, "<result>r</result>"),
        expect![[r#"
        step_finished main 2 P.md attempt_cost_usd=1.5 cost_usd=1.5 input=r message=<result>r</result> session=s2.1 tag=result target=Q.md
        budget_exceeded budget_usd=1.0 cost_usd=1.6
        run_stopped agents=1 cost_usd=1.6 error="spent $1.60 of a budget of $1.00" status=over_budget steps=2
    "#]],
    );
    check_agents(
        &rig,
        expect![[r#"
        main ready in Q.md session=s1.1 input=r
    "#]],
    );
}

#[test]
fn a_budget_may_be_spent_completely() {
    let mut rig = with_budget(1.0);
    rig.says_for("main", 1.0, "<goto>Q</goto>");
    assert_eq!(rig.work("main").share_usd, Some(Usd::millionth()), "a turn has a limit greater than zero");
    check(
        &rig.says_for("main", 0.000_000_001, "<result>r</result>"),
        expect![[r#"
            step_finished main 2 Q.md attempt_cost_usd=1e-9 cost_usd=1e-9 message=<result>r</result> result=r session=s2.1 tag=result
            budget_exceeded budget_usd=1.0 cost_usd=1.000000001
            agent_finished main result=r
            run_finished agents=1 cost_usd=1.000000001 result=r status=completed steps=2
        "#]],
    );
}

#[test]
fn a_budget_of_zero_is_no_limit() {
    let mut rig = with_budget(0.0);
    assert_eq!(rig.work("main").share_usd, None);
    rig.says_for("main", 1e6, "<goto>Q</goto>");
    assert_eq!(rig.work("main").share_usd, None);
}

#[test]
fn running_turns_finish_and_budget_exceeded_is_recorded_once() {
    let mut rig = with_budget(1.0);
    rig.says("main", "<fork>Q</fork><fork>Q</fork><fork>A</fork><goto>P</goto>");
    check(
        &rig.says_for("main_q1", 1.1, "<goto>P</goto>"),
        expect![[r#"
            step_finished main_q1 4 Q.md attempt_cost_usd=1.1 cost_usd=1.1 message=<goto>P</goto> session=s4.1 tag=goto target=P.md
            budget_exceeded budget_usd=1.0 cost_usd=1.1
        "#]],
    );
    check(
        &rig.says_for("main_q2", 1.0, "<result>r</result>"),
        expect![[r#"
            step_finished main_q2 5 Q.md attempt_cost_usd=1.0 cost_usd=1.0 message=<result>r</result> result=r session=s5.1 tag=result
        "#]],
    );
    check(
        &rig.breaks_for("main", 1.0, FaultClass::Retry),
        expect![[r#"
            retry main 3 P.md attempt=2 attempt_cost_usd=1.0 cost_estimated=true error=broke message="I broke" until=+1s
        "#]],
    );
    check(
        &rig.emits("main_a3", "<fork next=\"A\">B</fork>"),
        expect![[r#"
        step_finished main_a3 2 A.sh next=A.sh tag=fork target=B.sh
        agent_started main_a3_b1 B.sh fork=1 number=1 parent=main_a3
        run_stopped agents=5 cost_usd=3.1 error="spent $3.10 of a budget of $1.00" status=over_budget steps=4
    "#]],
    );
    assert_eq!(count(&rig.journal, is_exceeded), 1);
    check_agents(
        &rig,
        expect![[r#"
        main waiting +1s in P.md session=s1.1
        main_q1 ready in P.md session=s4.1
        main_q2 ending in Q.md session=s5.1
        main_a3 ready in A.sh
        main_a3_b1 ready in B.sh
    "#]],
    );
    let options = rig.budget(10.0);
    check(
        &rig.resume_with(options),
        expect![[r#"
        run_resumed
        agent_finished main_q2 result=r
        step_started main_a3 6 A.sh attempt=1 visits=2
        step_started main_a3_b1 7 B.sh attempt=1 visits=1
        step_started main_q1 8 P.md attempt=1 branch_of=s4.1 session=s8.1 turn=3 visits=1
    "#]],
    );
}

/// Lets a turn stop in this way again and again. Returns the event that ends that, how often it stopped, and how long all
/// of it took, in seconds.
fn again_and_again(rig: &mut Rig, cost: f64, class: FaultClass) -> (Event, usize, i64) {
    let began = rig.now;
    for stops in 1..100 {
        let mut events = rig.breaks_for("main", cost, class);
        if let Some(at) = events.iter().position(|event| matches!(event.body, Body::StepFailed(_))) {
            return (events.swap_remove(at), stops, rig.now.duration_since(began).as_secs());
        }
        while rig.running().is_empty() {
            rig.passes(1);
        }
    }
    panic!("it never ends")
}

#[test]
fn a_turn_that_stops_again_and_again_at_its_share_has_a_bound_and_pauses() {
    // Its program says that it has used up a share of which nearly all is left.
    let (failed, stops, seconds) = again_and_again(&mut with_budget(100.0), 0.01, FaultClass::ShareUsed);
    assert_eq!((stops, seconds), (11, 46));
    let Body::StepFailed(failed) = failed.body else { unreachable!() };
    assert!(
        failed.error.contains("its share was $99.90 and it has cost $0.01, as 10 times before"),
        "{}",
        failed.error
    );
    assert_eq!(failed.cost_usd, usd(0.11));
    // Without a budget the limit is one that its user has set.
    let (failed, stops, seconds) = again_and_again(&mut with_budget(0.0), 0.5, FaultClass::ShareUsed);
    assert!(stops == 21 && seconds > 240, "{stops} in {seconds} s");
    let Body::StepFailed(failed) = failed.body else { unreachable!() };
    assert!(failed.error.contains("the step has gone on with another one 20 times"), "{}", failed.error);
}

#[test]
fn a_usage_limit_that_is_paid_for_again_and_again_has_a_bound() {
    let (_, stops, seconds) = again_and_again(&mut with_budget(0.0), 0.5, FaultClass::Limit { until: None });
    assert!(stops == 21 && seconds == 20 * 300, "{stops} in {seconds} s");
    let mut rig = with_budget(0.0);
    for _ in 0..50 {
        rig.breaks_for("main", 0.0, FaultClass::Limit { until: None });
        rig.passes(300);
        assert_eq!(rig.running(), ["main"], "waiting for nothing but a limit is free");
    }
}

#[test]
fn the_cost_of_every_attempt_counts_at_once() {
    // Each of these is over the budget by itself.
    for class in
        [FaultClass::Retry, FaultClass::Limit { until: None }, FaultClass::ShareUsed, FaultClass::Final]
    {
        let is_final = matches!(class, FaultClass::Final);
        let status = if is_final { RunStatus::Failed } else { RunStatus::OverBudget };
        let mut rig = with_budget(1.0);
        let batch = rig.breaks_for("main", 1.1, class);
        assert_eq!(count(&batch, is_exceeded), 1, "{class:?}");
        assert_eq!(count(&batch, |body| matches!(body, Body::StepStarted(_))), 0, "{class:?}");
        assert_eq!(rig.run.status, status, "{class:?}");
        assert_eq!(rig.run.cost_usd, usd(1.1), "{class:?}");
    }
    let mut rig = with_budget(1.0);
    rig.says("main", "<goto>R</goto>");
    check(
        &rig.says_for("main", 1.1, "no tag"),
        expect![[r#"
            reminder main 2 R.md attempt=2 attempt_cost_usd=1.1 message="no tag" number=1 problem="the output holds no transition tag" session=s2.1 text="Your last message could not be used: the output holds no transition tag.\n\nReply with exactly one of these tags, written in full as shown here:\n\n<goto>Q.md</goto>\n<result>your result</result>\n"
            budget_exceeded budget_usd=1.0 cost_usd=1.1
            run_stopped agents=1 cost_usd=1.1 error="spent $1.10 of a budget of $1.00" status=over_budget steps=1
        "#]],
    );
    let options = rig.budget(2.0);
    check(
        &rig.resume_with(options),
        expect![[r#"
        run_resumed
        step_started main 2 R.md attempt=2 branch_of=s2.1 session=s2.2 turn=2 visits=1
    "#]],
    );
    check(
        &rig.says_for("main", 0.2, "<result>r</result>"),
        expect![[r#"
            step_finished main 2 R.md attempt_cost_usd=0.2 cost_usd=1.3 message=<result>r</result> result=r session=s2.2 tag=result
            agent_finished main result=r
            run_finished agents=1 cost_usd=1.3 result=r status=completed steps=2
        "#]],
    );
}

#[test]
fn the_cost_of_a_step_is_the_sum_of_its_attempts() {
    let mut rig = with_budget(10.0);
    rig.says("main", "<goto>R</goto>");
    rig.breaks_for("main", 0.1, FaultClass::Retry);
    rig.passes(1);
    rig.says_for("main", 0.2, "no tag");
    rig.breaks_for("main", 0.3, FaultClass::Limit { until: None });
    rig.passes(300);
    rig.breaks_for("main", 0.4, FaultClass::ShareUsed);
    rig.die();
    rig.resume();
    rig.drain();
    let ended = rig.ended("main", StepOutcome::Interrupted { cost: usd(0.5) });
    rig.round([Input::Ended(Box::new(ended))]);
    rig.die();
    rig.resume();
    check(
        &rig.says_for("main", 0.6, "<goto>Q</goto>"),
        expect![[r#"
            step_finished main 2 R.md attempt_cost_usd=0.6 cost_usd=2.1 message=<goto>Q</goto> session=s2.7 tag=goto target=Q.md
            step_started main 3 Q.md attempt=1 branch_of=s2.7 session=s3.1 turn=1 visits=1
        "#]],
    );
    assert_eq!(rig.run.cost_usd, usd(2.1));
    // The next step begins at zero.
    check(
        &rig.says_for("main", 0.1, "<result>r</result>"),
        expect![[r#"
            step_finished main 3 Q.md attempt_cost_usd=0.1 cost_usd=0.1 message=<result>r</result> result=r session=s3.1 tag=result
            agent_finished main result=r
            run_finished agents=1 cost_usd=2.2 result=r status=completed steps=3
        "#]],
    );
}

#[test]
fn the_cost_of_an_interrupted_turn_is_counted_when_the_run_stops() {
    let mut rig = with_budget(1.0);
    rig.drain();
    let ended = rig.ended("main", StepOutcome::Interrupted { cost: usd(1.5) });
    check(
        &rig.round([Input::Ended(Box::new(ended))]),
        expect![[r#"
        run_stopped agents=1 cost_usd=1.5 interrupted=[{agent=main estimated_cost_usd=1.5 state=P.md step=1}] status=interrupted steps=0
    "#]],
    );
    assert_eq!(rig.run.cost_usd, usd(1.5));
    check(
        &rig.resume(),
        expect![[r#"
        run_resumed interrupted=[{agent=main state=P.md step=1}]
        budget_exceeded budget_usd=1.0 cost_usd=1.5
        run_stopped agents=1 cost_usd=1.5 error="spent $1.50 of a budget of $1.00" interrupted=[{agent=main state=P.md step=1}] status=over_budget steps=0
    "#]],
    );
    assert_eq!(rig.run.cost_usd, usd(1.5));
    let options = rig.budget(5.0);
    check(
        &rig.resume_with(options),
        expect![[r#"
        run_resumed interrupted=[{agent=main state=P.md step=1}]
        step_started main 1 P.md attempt=2 session=s1.2 turn=1 visits=1
    "#]],
    );
}

#[test]
fn over_budget_a_question_and_a_join_wait_for_a_higher_budget() {
    let mut rig = with_budget(1.0).waiting();
    rig.says("main", "<fork next=\"P\">Q</fork>");
    rig.says("main", "<join>Q</join>");
    check(
        &rig.says_for("main_q1", 1.1, "<ask next=\"P\" timeout=\"1s\" timeout_next=\"Q\">?</ask>"),
        expect![[r#"
            step_finished main_q1 3 Q.md attempt_cost_usd=1.1 cost_usd=1.1 message="<ask next=\"P\" timeout=\"1s\" timeout_next=\"Q\">?</ask>" next=P.md session=s3.1 tag=ask
            ask_opened main_q1 3 Q.md ask=ask1 deadline=+1s next=P.md question=? timeout_ms=1000 timeout_next=Q.md
            budget_exceeded budget_usd=1.0 cost_usd=1.1
            run_stopped agents=2 asks=[{agent=main_q1 ask=ask1 question=?}] cost_usd=1.1 error="spent $1.10 of a budget of $1.00" status=over_budget steps=3
        "#]],
    );
    assert!(rig.passes(100).is_empty());
    let options = rig.budget(5.0);
    check(
        &rig.resume_with(options),
        expect![[r#"
        run_resumed
        ask_closed main_q1 Q.md answer="" ask=ask1 by=timeout target=Q.md
        step_started main_q1 4 Q.md attempt=1 branch_of=s3.1 session=s4.1 turn=2 visits=2
    "#]],
    );
}

/// The sum of the shares of the running turns.
fn shares(rig: &Rig) -> Usd {
    let share = |name: &String| rig.work(name).share_usd;
    rig.running().iter().filter_map(share).sum()
}

/// Plays many turns, each using this part of its share, and calls `check` after each.
fn fan_out(budget: f64, max_parallel: usize, used: fn(Usd) -> Usd, check: fn(&Rig, &[Event])) {
    let options = Options { budget_usd: usd(budget), max_parallel, ..Options::default() };
    let mut rig = Rig::with("START", options).prompt("Q", "model: x").prompt("S", "model: x");
    rig.round([]);
    let batch = rig.emits("main", &"<fork next=\"N\">Q</fork>".repeat(12));
    check(&rig, &batch);
    for turn in 0..60 {
        // End the turn with the smallest share, so that the others keep theirs for a long time.
        let running = rig.running();
        let share = |name: &String| rig.work(name).share_usd.map(|share| (share, name.clone()));
        let Some((share, agent)) = running.iter().filter_map(share).min() else { return };
        let next = if turn % 4 == 3 { "<result></result>" } else { "<goto>S</goto>" };
        let batch = rig.says_for(&agent, used(share).dollars(), next);
        check(&rig, &batch);
        if rig.run.status != RunStatus::Running {
            return;
        }
    }
}

fn left(rig: &Rig) -> Usd {
    rig.run.options.budget_usd.saturating_sub(rig.run.cost_usd)
}

/// Every turn that starts gets a part of the unreserved budget, or a cent.
fn check_starts(rig: &Rig, batch: &[Event]) {
    let started: Vec<Usd> = batch
        .iter()
        .filter_map(|event| match &event.body {
            Body::StepStarted(started) => started.turn.as_ref()?.share_usd,
            _ => None,
        })
        .collect();
    let mut reserved = shares(rig).saturating_sub(started.iter().copied().sum());
    for share in started {
        let free = left(rig).saturating_sub(reserved);
        assert!(share > Usd::ZERO && share <= free.max(Usd::cent()), "{share} of {free}");
        reserved += share;
    }
}

#[test]
fn a_share_is_a_part_of_the_unreserved_budget() {
    for budget in [0.05, 1.0, 7.0] {
        for max_parallel in [1, 3, 8] {
            fan_out(budget, max_parallel, |share| share.divided_by(2), check_starts);
            fan_out(budget, max_parallel, |share| share, check_starts);
            fan_out(budget, max_parallel, |share| share + Usd::cent(), check_starts);
        }
    }
}

#[test]
fn shares_never_add_up_to_more_than_is_left() {
    fan_out(
        1.0,
        3,
        |share| share,
        |rig, _| {
            let floor: Usd = std::iter::repeat_n(Usd::cent(), 3).sum();
            assert!(shares(rig) <= left(rig) + floor, "{} of {}", shares(rig), left(rig));
        },
    );
}

#[test]
fn a_single_turn_may_use_all_that_is_left() {
    let mut rig = with_budget(4.0);
    assert_eq!(rig.work("main").share_usd, Some(usd(4.0)));
    rig.says_for("main", 1.0, "<goto>Q</goto>");
    assert_eq!(rig.work("main").share_usd, Some(usd(3.0)));
    // Two agents get two shares; the first to start does not get everything.
    rig.says_for("main", 1.0, "<fork next=\"P\">Q</fork>");
    assert_eq!(rig.work("main").share_usd, Some(usd(1.0)));
    assert_eq!(rig.work("main_q1").share_usd, Some(usd(1.0)));
}
