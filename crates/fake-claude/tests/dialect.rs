//! The fake is started as Raymond starts the real program, and its output is read by Raymond's own decoder.

#![cfg(unix)]
#![expect(clippy::unwrap_used, reason = "a test that cannot continue fails here")]

use raymond::agent::registry::program;
use raymond::agent::{AgentProgram, Continued, Turn, TurnEnding, TurnFailure, TurnReader, TurnReport};
use raymond::config::BackendSettings;
use serde_json::{Value, json};
use std::io::{Read, Write};
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use tempfile::TempDir;

const PROGRAM: &str = env!("CARGO_BIN_EXE_claude");
const FIRST: &str = "11111111-1111-4111-8111-111111111111";
const SECOND: &str = "22222222-2222-4222-8222-222222222222";
const THIRD: &str = "33333333-3333-4333-8333-333333333333";

type Ended = Result<TurnReport, Box<TurnFailure>>;

fn claude() -> Arc<dyn AgentProgram> {
    let settings = BackendSettings { command: Some(PROGRAM.to_owned()), ..BackendSettings::default() };
    program("claude", &settings).unwrap()
}

struct Fake {
    home: TempDir,
    style: &'static str,
}

impl Fake {
    fn new(rules: Value) -> Fake {
        let home = TempDir::new().unwrap();
        std::fs::write(home.path().join("script.json"), rules.to_string()).unwrap();
        Fake { home, style: "325" }
    }

    fn start(&self, turn: &Turn) -> Child {
        let invocation = claude().invocation(turn).unwrap();
        let mut child = Command::new(&invocation.program)
            .args(&invocation.args)
            .env_clear()
            .env("PATH", "/usr/bin:/bin")
            .env("FAKE_CLAUDE_HOME", self.home.path())
            .env("FAKE_CLAUDE_STYLE", self.style)
            .env("RAYMOND_RUN_ID", "run")
            .env("ANTHROPIC_API_KEY", "secret")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .current_dir(self.home.path())
            .spawn()
            .unwrap();
        child.stdin.take().unwrap().write_all(&invocation.stdin).unwrap();
        child
    }

    fn run(&self, turn: &Turn) -> Ended {
        let output = self.start(turn).wait_with_output().unwrap();
        let mut reader = TurnReader::new(&*claude(), turn);
        reader.feed(&output.stdout);
        reader.close();
        reader.finish(ending_of(output.status), &String::from_utf8_lossy(&output.stderr))
    }

    fn calls(&self) -> Vec<Value> {
        lines(&self.home.path().join("calls.jsonl"))
    }
}

fn lines(path: &Path) -> Vec<Value> {
    let text = std::fs::read_to_string(path).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn ending_of(status: std::process::ExitStatus) -> TurnEnding {
    status.code().map_or_else(|| TurnEnding::Signal(status.signal().unwrap()), TurnEnding::Code)
}

fn turn(prompt: &str, session: &str) -> Turn {
    Turn { prompt: prompt.to_owned(), session: Some(session.to_owned()), ..Turn::default() }
}

fn branch(prompt: &str, session: &str, parent: &str) -> Turn {
    let continues = Continued { session: parent.to_owned(), ..Continued::default() };
    Turn { continues: Some(continues), ..turn(prompt, session) }
}

fn text(ended: Ended) -> String {
    ended.unwrap().text
}

#[test]
fn every_kind_of_failure_is_classified_correctly() {
    for style in ["197", "325"] {
        for (rule, name) in [
            (json!({"kind": "crash"}), "crashed"),
            (json!({"kind": "crash", "when": "start", "exit": 3}), "crashed"),
            (json!({"kind": "crash", "when": "result"}), "crashed"),
            (json!({"kind": "silent_end", "babble": 2}), "junk"),
            (json!({"kind": "limit", "resets_at": 5}), "limit_reached"),
            (json!({"kind": "rate_limited"}), "overloaded"),
            (json!({"kind": "overloaded"}), "overloaded"),
            (json!({"kind": "connection"}), "connection"),
            (json!({"kind": "not_logged_in"}), "not_logged_in"),
            (json!({"kind": "unauthorized"}), "not_logged_in"),
            (json!({"kind": "model_404"}), "unknown_model"),
            (json!({"kind": "too_long"}), "too_long"),
            (json!({"kind": "bad_request"}), "bad_request"),
            (json!({"kind": "budget"}), "over_budget_share"),
            (json!({"kind": "max_turns"}), "max_turns"),
            (json!({"kind": "interrupted"}), "interrupted"),
            (json!({"wrong_session": true}), "session_mismatch"),
        ] {
            let fake = Fake { style, ..Fake::new(json!([rule])) };
            assert_eq!(fake.run(&turn("x", FIRST)).unwrap_err().fault.name(), name, "{rule} {style}");
        }
    }
}

#[test]
fn a_branch_has_the_history_and_does_not_change_its_parent() {
    let fake = Fake::new(json!([{"reply": "{{history}} before {{prompt}}"}]));
    assert_eq!(text(fake.run(&turn("one", FIRST))), "0 before one");
    assert_eq!(text(fake.run(&branch("two", SECOND, FIRST))), "1 before two");
    assert_eq!(text(fake.run(&branch("three", THIRD, FIRST))), "1 before three");
    let call = &fake.calls()[2];
    assert_eq!(call["history"], json!([{"prompt": "one", "reply": "0 before one"}]));
    assert_eq!((&call["parent"], &call["session"]), (&json!(FIRST), &json!(THIRD)));
    assert_eq!(call["env"], json!({"RAYMOND_RUN_ID": "run", "ANTHROPIC_API_KEY": "***"}));
    assert_eq!(lines(&fake.home.path().join("ends.jsonl")).len(), 3);
}

#[test]
fn an_id_in_use_and_an_unknown_conversation_are_refused() {
    let fake = Fake::new(json!([{"reply": "x"}]));
    fake.run(&turn("one", FIRST)).unwrap();
    assert_eq!(fake.run(&turn("one", FIRST)).unwrap_err().fault.name(), "session_in_use");
    assert_eq!(fake.run(&branch("x", SECOND, THIRD)).unwrap_err().fault.name(), "session_missing");
    let refused: Vec<Value> = fake.calls().iter().map(|call| call["refused"].clone()).collect();
    assert_eq!(refused, [json!(null), json!("session_in_use"), json!("no_conversation")]);
}

#[test]
fn costs_are_counted_once_in_either_style() {
    for style in ["197", "325"] {
        let rules = json!([{"match": "two", "reply": "b", "cost": 0.5, "earlier": ["a"]}, {"cost": 0.25}]);
        let fake = Fake { style, ..Fake::new(rules) };
        let first = fake.run(&turn("one", FIRST)).unwrap();
        let total_usd = first.cost.session_total_usd;
        let continues = Some(Continued { session: FIRST.to_owned(), total_usd, ..Continued::default() });
        let second = fake.run(&Turn { continues, ..turn("two", SECOND) }).unwrap();
        assert_eq!((first.cost.usd, second.cost.usd, second.text.as_str()), (0.25, 0.5, "b"), "{style}");
    }
}

#[test]
fn a_share_stops_a_turn_which_can_then_be_continued() {
    let rules = json!([{"match": "go on", "reply": "done"}, {"cost": 0.1, "calls": 4}]);
    let fake = Fake::new(rules);
    let failed = fake.run(&Turn { budget_usd: Some(0.03), ..turn("x", FIRST) }).unwrap_err();
    assert_eq!((failed.fault.name(), failed.cost.usd), ("over_budget_share", 0.05));
    assert_eq!((failed.cost.session_total_usd, failed.final_text), (Some(0.05), None));
    assert_eq!(text(fake.run(&branch("go on", SECOND, FIRST))), "done");
}

#[test]
fn an_answer_that_exceeds_its_share_is_not_lost() {
    let fake = Fake::new(json!([{"cost": 0.1, "calls": 4, "reply": "said"}]));
    let failed = fake.run(&Turn { budget_usd: Some(0.09), ..turn("x", FIRST) }).unwrap_err();
    assert_eq!((failed.fault.name(), failed.final_text.as_deref()), ("over_budget_share", Some("said")));
}

#[test]
fn the_cost_of_a_crash_after_some_text_is_estimated_closely() {
    let fake = Fake::new(json!([{"kind": "crash", "signal": 9, "cost": 0.5, "reply": "half"}]));
    let failed = fake.run(&turn("x", FIRST)).unwrap_err();
    assert!(failed.cost.estimated && (failed.cost.usd - 0.5).abs() < 0.001, "{:?}", failed.cost);
    let session = std::fs::read_to_string(fake.home.path().join(format!("sessions/{FIRST}.json"))).unwrap();
    assert_eq!(serde_json::from_str::<Value>(&session).unwrap()["history"][0]["reply"], json!(null));
}

#[test]
fn rules_are_used_up_even_by_parallel_calls() {
    let fake = Fake::new(json!([{"times": 3, "reply": "early"}, {"reply": "late"}]));
    let turns: Vec<Turn> = (0..8).map(|n| turn("x", &format!("{n}{}", &FIRST[1..]))).collect();
    let running: Vec<Child> = turns.iter().map(|turn| fake.start(turn)).collect();
    let outputs: Vec<String> = running
        .into_iter()
        .map(|child| String::from_utf8(child.wait_with_output().unwrap().stdout).unwrap())
        .collect();
    assert_eq!(outputs.iter().filter(|output| output.contains("early")).count(), 3);
    assert_eq!(fake.calls().len(), 8);
}

#[test]
fn all_options_of_a_rule_together_keep_the_reply_readable() {
    let rules = json!([{"reply": "a b c", "babble": 3, "pace_ms": 1, "denied": ["Write"], "tools": ["Bash"],
        "run": "echo made > made.txt", "linger_ms": 1, "delay_ms": 1, "stderr": "a warning"}]);
    let fake = Fake::new(rules);
    let report = fake.run(&turn("x", FIRST)).unwrap();
    assert_eq!(report.text, "a b c");
    assert_eq!(report.permission_denials, ["Write"]);
    assert_eq!(std::fs::read_to_string(fake.home.path().join("made.txt")).unwrap().trim(), "made");
}

#[test]
fn a_prompt_without_a_matching_rule_fails_at_once() {
    let fake = Fake::new(json!([{"match": "expected", "model": "haiku", "fresh": true}]));
    assert_eq!(fake.run(&turn("another", FIRST)).unwrap_err().fault.name(), "bad_request");
    let with_model = Turn { model: Some("haiku".to_owned()), ..turn("expected", SECOND) };
    fake.run(&with_model).unwrap();
    assert_eq!(fake.calls()[1]["model"], "claude-haiku-5-5");
}

#[test]
fn a_held_turn_waits_for_its_file() {
    let fake = Fake::new(json!([{"reply": "through", "hold": "gate"}]));
    let mut child = fake.start(&turn("x", FIRST));
    let mut stdout = child.stdout.take().unwrap();
    let mut beginning = [0; 1];
    stdout.read_exact(&mut beginning).unwrap();
    assert!(child.try_wait().unwrap().is_none());
    std::fs::write(fake.home.path().join("gate"), "").unwrap();
    let mut rest = String::new();
    stdout.read_to_string(&mut rest).unwrap();
    assert!(rest.contains("through") && child.wait().unwrap().success());
}

#[test]
fn a_child_runs_in_its_own_session() {
    let fake = Fake::new(json!([{"reply": "x", "child_s": 2.0}]));
    assert_eq!(text(fake.run(&turn("x", FIRST))), "x");
    let pid = std::fs::read_to_string(fake.home.path().join("children")).unwrap();
    let stat = std::fs::read_to_string(format!("/proc/{}/stat", pid.trim()));
    if let Ok(stat) = stat {
        let session = stat.rsplit(") ").next().unwrap().split(' ').nth(3).unwrap().to_owned();
        assert_eq!(session, pid.trim());
    }
}
