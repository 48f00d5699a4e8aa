//! Attempts that are lost together with the machine that they ran on.

use expect_test::expect;
use raymond_core::input::{
    Ended, FaultClass, Input, Lookups, NewWorktree, Plan, Prepared, ScopeEntry, StepOutcome,
};
use raymond_core::limits::MAX_LOSSES;
use raymond_core::name::AgentId;
use raymond_core::run::{Options, RunStatus};
use raymond_core::worktree::{Wanted, Worktree};

use crate::rig::{Rig, reading, state, success, usd};
use crate::show::check;

#[test]
fn a_lost_script_runs_again_and_that_is_none_of_its_retries() {
    let mut rig = Rig::new("A").header("A", "retry=1 backoff=0");
    let lost = rig.lost("main", 0.0);
    check(
        &rig.round([lost]),
        expect![[r#"
        retry main 1 A.sh attempt=2 error="its machine was lost" lost=true until=+0s
        step_started main 1 A.sh attempt=2 visits=1
    "#]],
    );
    assert_eq!(rig.work("main").retries, 0);
    check(
        &rig.exits("main", 1),
        expect![[r#"
        retry main 1 A.sh attempt=3 error="ended with exit code 1" stderr="oh no\n" until=+0s
        step_started main 1 A.sh attempt=3 visits=1
    "#]],
    );
    check(
        &rig.exits("main", 1),
        expect![[r#"
        step_failed main 1 A.sh error="ended with exit code 1" exit_code=1 fatal=true stderr="oh no\n"
        run_stopped agents=1 error="main failed in A.sh: ended with exit code 1" status=failed steps=0
    "#]],
    );
}

#[test]
fn a_lost_turn_runs_again_from_the_conversation_that_it_started_with() {
    let mut rig = Rig::new("P.md").prompt("P", "model: x").prompt("Q", "model: x");
    rig.says("main", "<goto>Q</goto>");
    let late = rig.turn("main", 0.25, "<goto>P</goto>");
    let lost = rig.lost("main", 0.5);
    check(
        &rig.round([lost]),
        expect![[r#"
        retry main 2 Q.md attempt=2 attempt_cost_usd=0.5 cost_estimated=true error="its machine was lost" lost=true until=+0s
        step_started main 2 Q.md attempt=2 branch_of=s1.1 session=s2.2 turn=1 visits=1
    "#]],
    );
    check(&rig.round([late]), expect![[""]]);
    check(
        &rig.says("main", "<result>done</result>"),
        expect![[r#"
        step_finished main 2 Q.md cost_usd=0.5 message=<result>done</result> result=done session=s2.2 tag=result
        agent_finished main result=done
        run_finished agents=1 cost_usd=0.5 result=done status=completed steps=2
    "#]],
    );
}

#[test]
fn a_lost_reminder_is_sent_again() {
    let policy = "allowed_transitions: [ { tag: result } , { tag: goto, target: P } ]";
    let mut rig = Rig::new("P.md").prompt("P", policy);
    rig.says("main", "no tag");
    let lost = rig.lost("main", 0.0);
    check(
        &rig.round([lost]),
        expect![[r#"
        retry main 1 P.md attempt=3 error="its machine was lost" lost=true until=+0s
        step_started main 1 P.md attempt=3 branch_of=s1.1 session=s1.3 turn=2 visits=1
    "#]],
    );
    assert_eq!(rig.work("main").reminders, 1);
}

#[test]
fn what_was_lost_counts_into_the_budget() {
    let options = Options { budget_usd: usd(1.0), ..Options::default() };
    let mut rig = Rig::with("P.md", options).prompt("P", "model: x");
    rig.round([]);
    let lost = rig.lost("main", 1.5);
    check(
        &rig.round([lost]),
        expect![[r#"
        retry main 1 P.md attempt=2 attempt_cost_usd=1.5 cost_estimated=true error="its machine was lost" lost=true until=+0s
        budget_exceeded budget_usd=1.0 cost_usd=1.5
        run_stopped agents=1 cost_usd=1.5 error="spent $1.50 of a budget of $1.00" status=over_budget steps=0
    "#]],
    );
    assert_eq!(rig.run.status, RunStatus::OverBudget);
    let options = rig.budget(2.0);
    check(
        &rig.resume_with(options),
        expect![[r#"
        run_resumed
        step_started main 1 P.md attempt=2 session=s1.2 turn=1 visits=1
    "#]],
    );
}

#[test]
fn a_step_that_is_lost_while_the_run_stops_runs_again_after_a_resume() {
    let mut rig = Rig::new("A");
    rig.drain();
    let lost = rig.lost("main", 0.0);
    check(
        &rig.round([lost]),
        expect![[r#"
        retry main 1 A.sh attempt=2 error="its machine was lost" lost=true until=+0s
        run_stopped agents=1 status=interrupted steps=0
    "#]],
    );
    check(
        &rig.resume(),
        expect![[r#"
        run_resumed
        step_started main 1 A.sh attempt=2 visits=1
    "#]],
    );
}

#[test]
fn a_step_that_is_lost_again_and_again_fails() {
    let mut rig = Rig::new("A");
    for _ in 0..MAX_LOSSES {
        let lost = rig.lost("main", 0.0);
        rig.round([lost]);
        rig.round([]);
    }
    let lost = rig.lost("main", 0.0);
    check(
        &rig.round([lost]),
        expect![[r#"
        step_failed main 1 A.sh error="its machine was lost; it was lost 20 times before, so it may be the cause itself" fatal=false
        run_stopped agents=1 error="main failed in A.sh: its machine was lost; it was lost 20 times before, so it may be the cause itself" status=failed steps=0
    "#]],
    );
}

#[test]
fn a_prepared_reply_is_given_back_by_the_turn_that_was_lost() {
    let mut rig = Rig::with("P.md", Options::default()).prompt("P", "model: x");
    rig.files.prompts.values_mut().for_each(|plan| plan.reply = Some(3));
    rig.round([]);
    assert!(rig.run.used_replies.contains(&3));
    let lost = rig.lost("main", 0.0);
    rig.drain();
    rig.round([lost]);
    assert!(!rig.run.used_replies.contains(&3));
}

/// What other machines send and histories keep; these texts must still be read by later versions.
#[test]
fn an_input_is_read_back_from_text() {
    let rig = Rig::new("A");
    let wanted = Wanted { name: "w".into(), from: Some("main".into()) };
    let worktree = Worktree {
        name: "w".into(),
        path: "/t/w".into(),
        branch: "raymond-run/r/w".into(),
        base: "0a".into(),
        repository: "/r/.git".into(),
    };
    let scope = ScopeEntry {
        scope: "/other".into(),
        entry: state("START"),
        hash: None,
        directory: Some(Err("gone".into())),
        input: Default::default(),
        inputs: Vec::new(),
        unnamed: None,
    };
    let lookups = Lookups {
        scopes: [("../other".to_owned(), Ok(scope))].into(),
        worktrees: [(wanted, Ok(NewWorktree { worktree, cwd: "/t/w".into() }))].into(),
        ..Lookups::default()
    };
    let outcome = StepOutcome::Script(success(reading("<fork next=\"N\" worktree=\"w\">W</fork>")));
    let inputs = [
        Input::Ended(Box::new(Ended { lookups, ..rig.ended("main", outcome) })),
        Rig::new("P.md").broken("main", 0.25, FaultClass::Limit { until: Some(rig.now) }),
        Input::Launch {
            agent: AgentId::main(),
            prepared: Ok(Prepared {
                hash: "ab".into(),
                plan: Plan::Prompt(Box::default()),
                warnings: Vec::new(),
            }),
        },
        rig.lost("main", 0.25),
    ];
    let lines: Vec<String> = inputs.iter().map(|input| serde_json::to_string(input).unwrap()).collect();
    for line in &lines {
        let read: Input = serde_json::from_str(line).unwrap();
        assert_eq!(&serde_json::to_string(&read).unwrap(), line);
    }
    expect![[r#"
        {"Ended":{"agent":"main","step":1,"attempt":1,"duration_ms":0,"plan":{"Script":{"timeout":null,"max_time":null,"retry":0,"backoff":null,"max_visits":null,"fatal":null,"exclusive":null}},"outcome":{"Script":{"Exited":{"exit":{"Code":0},"reading":{"Ok":{"transition":{"Fork":{"forks":[{"target":{"State":"W"},"input":null,"cd":null,"worktree":{"name":"w","from":null},"variables":[]}],"next":{"target":"N","input":null,"delay":null},"joins":false}},"warnings":[]}},"other_case":[],"stderr":"","shown":{"last_lines":"","file":null}}}},"lookups":{"states":{},"directories":{},"scopes":{"../other":{"Ok":{"scope":"/other","entry":"START.sh","hash":null,"directory":{"Err":"gone"},"input":"Optional","inputs":[]}}},"result_problem":null,"files":{},"worktrees":[[{"name":"w","from":"main"},{"Ok":{"worktree":{"name":"w","path":"/t/w","branch":"raymond-run/r/w","base":"0a","repository":"/r/.git"},"cwd":"/t/w"}}]],"snapshot":null}}}
        {"Ended":{"agent":"main","step":1,"attempt":1,"duration_ms":0,"plan":{"Prompt":{"policy":null,"force_implicit":false,"result_schema":null,"max_visits":null,"exclusive":null,"backend":"","model":null,"fallbacks":[],"may_forget":false,"program_chooses_session":false,"continues_in_place":false,"prompt_sha256":null,"reply":null}},"outcome":{"Turn":{"Failed":{"error":"broke","class":{"Limit":{"until":"2023-11-14T22:13:20Z"}},"cost":{"usd":0.25,"estimated":true,"tokens":{"input":0,"output":0,"cache_write":0,"cache_read":0}},"session":null,"exit_code":1,"message":"I broke"}}},"lookups":{"states":{},"directories":{},"scopes":{},"result_problem":null,"files":{},"worktrees":[],"snapshot":null}}}
        {"Launch":{"agent":"main","prepared":{"Ok":{"hash":"ab","plan":{"Prompt":{"policy":null,"force_implicit":false,"result_schema":null,"max_visits":null,"exclusive":null,"backend":"","model":null,"fallbacks":[],"may_forget":false,"program_chooses_session":false,"continues_in_place":false,"prompt_sha256":null,"reply":null}},"warnings":[]}}}}
        {"Lost":{"agent":"main","step":1,"attempt":1,"error":"its machine was lost","cost":0.25}}"#]].assert_eq(&lines.join("\n"));
}
