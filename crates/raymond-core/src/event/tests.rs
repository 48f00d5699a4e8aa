//! The wire format: events are written back unchanged, and wrong combinations of fields are refused.

use super::*;
use crate::tag::TagName;

/// Lines as they are in journals. Each is read, and written back byte for byte.
const LINES: &[&str] = &[
    r#""event":"agent_started","agent":"main","state":"START.sh","cwd":"/w","input":"hello"}"#,
    r#""event":"agent_started","agent":"main_w1","state":"W.sh","cwd":"/w","scope":"/other.zip","scope_hash":"ab","parent":"main","number":1,"fork":3,"title":"x","attributes":{"item":"x"},"input":"i"}"#,
    r#""event":"agent_started","agent":"main_w2","state":"W.sh","cwd":"/t/a/sub","parent":"main","number":2,"fork":4,"worktree":{"name":"a","path":"/t/a","branch":"raymond-run/r/a","base":"0a","repository":"/r/.git"}}"#,
    r#""event":"step_started","agent":"main","step":1,"attempt":1,"state":"START.sh","visits":1,"hash":"ab"}"#,
    r#""event":"step_started","agent":"main","step":2,"attempt":1,"state":"P.md","visits":1,"hash":"ab","session":"s2","turn":1,"branch_of":"s1","share_usd":1.25}"#,
    r#""event":"step_started","agent":"main","step":2,"attempt":1,"state":"P.md","visits":1,"hash":"ab","session":"s2","turn":1,"prompt_sha256":"cd"}"#,
    r#""event":"step_started","agent":"main","step":2,"attempt":1,"state":"P.md","visits":1,"hash":"ab","backend":"claude","model":"m","session":"s2","turn":1}"#,
    r#""event":"step_started","agent":"main","step":2,"attempt":1,"state":"P.md","visits":1,"hash":"ab","backend":"codex","turn":1}"#,
    r#""event":"step_started","agent":"main","step":1,"attempt":1,"state":"START.sh","visits":1,"hash":"ab","exclusive":"git"}"#,
    r#""event":"exclusive_waiting","agent":"main_w1","state":"W.sh","exclusive":"git"}"#,
    r#""event":"session_started","agent":"main","step":2,"attempt":1,"state":"P.md","session":"s2"}"#,
    r#""event":"step_finished","agent":"main","step":9,"state":"A.sh","tag":"goto","target":"B.sh","cost_usd":0.0,"duration_ms":1,"files":{"commit":"0b","before":"0a","folder":"/w","repository":"/w/.git","shared":true}}"#,
    r#""event":"step_finished","agent":"main","step":1,"state":"A.sh","tag":"goto","target":"B.md","input":"i","cost_usd":0.0,"duration_ms":9}"#,
    r#""event":"step_finished","agent":"main","step":1,"state":"A.md","tag":"goto","target":"B.md","message":"I go.","session":{"id":"s1","total_usd":0.5,"backend":"claude"},"implicit":true,"cost_usd":0.5,"attempt_cost_usd":0.25,"cost_estimated":true,"duration_ms":9}"#,
    r#""event":"step_finished","agent":"main","step":1,"state":"A.sh","tag":"reset","target":"B.md","input":"i","cwd":"/sub","cost_usd":0.0,"duration_ms":9}"#,
    r#""event":"step_finished","agent":"main","step":1,"state":"A.sh","tag":"call","target":"B.md","return":"C.sh","input":"i","cost_usd":0.0,"duration_ms":9}"#,
    r#""event":"step_finished","agent":"main","step":1,"state":"A.sh","tag":"function","target":"B.md","return":"C.sh","cost_usd":0.0,"duration_ms":9}"#,
    r#""event":"step_finished","agent":"main","step":1,"state":"A.sh","tag":"fork","target":"W.sh","next":"N.sh","input":"i","cost_usd":0.0,"duration_ms":9}"#,
    r#""event":"step_finished","agent":"main","step":1,"state":"A.sh","tag":"fork-workflow","target":"W.sh","next":"N.sh","cost_usd":0.0,"duration_ms":9}"#,
    r#""event":"step_finished","agent":"main","step":1,"state":"A.sh","tag":"result","target":"C.sh","input":"r","cost_usd":0.0,"duration_ms":9}"#,
    r#""event":"step_finished","agent":"main","step":1,"state":"A.sh","tag":"result","result":{"payload":"ef","bytes":70000},"cost_usd":0.0,"duration_ms":9}"#,
    r#""event":"step_finished","agent":"main","step":1,"state":"A.sh","tag":"ask","next":"N.sh","cost_usd":0.0,"duration_ms":9}"#,
    r#""event":"step_finished","agent":"main","step":1,"state":"A.sh","tag":"join","target":"N.sh","cost_usd":0.0,"duration_ms":9}"#,
    r#""event":"step_finished","agent":"main","step":1,"state":"A.sh","tag":"call-workflow","target":"START.sh","return":"C.sh","input":"i","scope":"/o","cost_usd":0.0,"duration_ms":9}"#,
    r#""event":"step_finished","agent":"main","step":1,"state":"A.sh","tag":"function-workflow","target":"START.sh","return":"C.sh","cwd":"/d","scope":"/o.zip","scope_hash":"ab","cost_usd":0.0,"duration_ms":9}"#,
    r#""event":"step_finished","agent":"main","step":1,"state":"A.sh","tag":"reset-workflow","target":"START.sh","input":"i","cwd":"/d","scope":"/o","cost_usd":0.0,"duration_ms":9}"#,
    r#""event":"step_failed","agent":"main","step":1,"state":"P.md","error":"no tag","message":"Hm.","fatal":false,"cost_usd":0.5,"duration_ms":9}"#,
    r#""event":"retry","agent":"main","step":1,"state":"A.sh","attempt":2,"until":"2026-01-01T00:00:01Z","error":"exited with code 1","stderr":"no\nfile"}"#,
    r#""event":"retry","agent":"main","step":1,"state":"P.md","attempt":2,"until":"2026-01-01T00:00:01Z","error":"share used","message":"So far so good.","attempt_cost_usd":0.25,"session":{"id":"s1"}}"#,
    r#""event":"retry","agent":"main","step":1,"state":"P.md","attempt":2,"until":"2026-01-01T00:00:01Z","error":"its machine was lost","attempt_cost_usd":0.25,"cost_estimated":true,"lost":true}"#,
    r#""event":"reminder","agent":"main","step":1,"state":"P.md","attempt":2,"number":1,"problem":"no tag","message":"Hm.","text":"Please …","session":{"id":"s1"}}"#,
    r#""event":"limit_waiting","agent":"main","step":1,"state":"P.md","attempt":2,"until":"2026-01-01T00:00:01Z","error":"limit","message":"You have hit your limit."}"#,
    r#""event":"ask_closed","agent":"main","ask":"ask1","state":"A.sh","by":"answer","target":"N.sh","answer":"","answer_id":"x"}"#,
    r#""event":"ask_closed","agent":"main","ask":"ask1","state":"A.sh","by":"timeout","target":"T.sh","answer":""}"#,
    r#""event":"ask_closed","agent":"main","ask":"ask1","state":"A.sh","by":"timeout","answer":""}"#,
    r#""event":"run_finished","status":"completed","result":"r","steps":1,"agents":1,"cost_usd":0.0,"duration_ms":9}"#,
    r#""event":"run_stopped","status":"over_budget","error":"spent","steps":1,"agents":1,"cost_usd":0.0,"duration_ms":9}"#,
];

fn read(line: &str) -> serde_json::Result<Event> {
    serde_json::from_str(&whole(line))
}

fn whole(line: &str) -> String {
    format!(r#"{{"seq":7,"time":"2026-01-01T00:00:00Z","run":"r",{line}"#)
}

#[test]
fn events_are_written_as_they_were_read() {
    for line in LINES {
        let event = read(line).unwrap_or_else(|error| panic!("{line}: {error}"));
        assert_eq!(serde_json::to_string(&event).unwrap(), whole(line));
    }
}

#[test]
fn every_tag_that_ends_a_step_is_among_them() {
    for tag in TagName::transitions() {
        let field = format!(r#""tag":"{tag}","#);
        assert!(LINES.iter().any(|line| line.contains(&field)), "{tag}");
    }
}

/// Wrong combinations of the fields of a transition, and the errors.
const WRONG_COMBINATIONS: &[(&str, &str)] = &[
    (r#""tag":"goto""#, "a step that ended with `goto` needs a `target`"),
    (r#""tag":"goto","target":"A.sh","return":"B.sh""#, "a step that ended with `goto` has no `return`"),
    (r#""tag":"goto","target":"A.sh","cwd":"/""#, "a step that ended with `goto` has no `cwd`"),
    (r#""tag":"reset","target":"A.sh","scope":"/o""#, "a step that ended with `reset` has no `scope`"),
    (r#""tag":"reset","target":"A.sh","scope_hash":"ab""#, "a `scope_hash` needs a `scope`"),
    (r#""tag":"call","target":"A.sh""#, "a step that ended with `call` needs a `return`"),
    (r#""tag":"function","return":"A.sh""#, "a step that ended with `function` needs a `target`"),
    (r#""tag":"fork","target":"A.sh""#, "a step that ended with `fork` needs a `next`"),
    (r#""tag":"fork","next":"A.sh""#, "a step that ended with `fork` needs a `target`"),
    (r#""tag":"result""#, "a step that ended with `result` needs a `result`"),
    (r#""tag":"result","target":"A.sh""#, "a step that ended with `result` needs a `input`"),
    (r#""tag":"result","input":"x""#, "a step that ended with `result` needs a `result`"),
    (r#""tag":"result","result":"x","input":"y""#, "a step that ended with `result` has no `input`"),
    (r#""tag":"ask","target":"A.sh""#, "a step that ended with `ask` needs a `next`"),
    (r#""tag":"join","target":"A.sh","input":"x""#, "a step that ended with `join` has no `input`"),
    (r#""tag":"call-workflow","target":"A.sh","return":"B.sh""#, "needs a `scope`"),
    (r#""tag":"reset-workflow","target":"A.sh","scope":"/o","return":"B.sh""#, "has no `return`"),
    (r#""tag":"print""#, "no step ends with `print`"),
    (r#""tag":"jump""#, "unknown variant `jump`"),
];

#[test]
fn wrong_combinations_of_transition_fields_are_refused() {
    for (fields, expected) in WRONG_COMBINATIONS {
        let line = format!(
            r#""event":"step_finished","agent":"main","step":1,"state":"A.sh",{fields},"cost_usd":0.0,"duration_ms":9}}"#
        );
        let error = read(&line).expect_err(fields).to_string();
        assert!(error.contains(expected), "{fields}: {error}");
    }
}

#[test]
fn wrong_combinations_of_other_fields_are_refused() {
    let started = |fields: &str| {
        format!(r#""event":"agent_started","agent":"main_w1","state":"W.sh","cwd":"/",{fields}}}"#)
    };
    let step = |fields: &str| {
        format!(
            r#""event":"step_started","agent":"main","step":1,"attempt":1,"state":"P.md","visits":1,"hash":"ab",{fields}}}"#
        )
    };
    let closed = |fields: &str| {
        format!(r#""event":"ask_closed","agent":"main","ask":"ask1","state":"A.sh",{fields}}}"#)
    };
    let totals = r#""steps":1,"agents":1,"cost_usd":0.0,"duration_ms":9}"#;
    let cases = [
        (started(r#""parent":"main""#), "`parent`, `number` and `fork`"),
        (started(r#""number":1,"fork":1"#), "`parent`, `number` and `fork`"),
        (started(r#""attributes":{"a":"b"}"#), "no `attributes`"),
        (started(r#""scope_hash":"ab""#), "a `scope_hash` needs a `scope`"),
        (step(r#""session":"s1""#), "needs `turn`, and `backend` or `session`"),
        (step(r#""turn":1"#), "needs `turn`, and `backend` or `session`"),
        (step(r#""share_usd":1.0"#), "needs `turn`, and `backend` or `session`"),
        (closed(r#""by":"answer","answer":"yes""#), "needs a `target`"),
        (closed(r#""by":"timeout","answer":"yes""#), "has no `answer`"),
        (format!(r#""event":"run_finished","status":"failed",{totals}"#), "unknown variant `failed`"),
        (format!(r#""event":"run_stopped","status":"completed",{totals}"#), "unknown variant `completed`"),
        (format!(r#""event":"run_stopped","status":"running",{totals}"#), "unknown variant `running`"),
    ];
    for (line, expected) in cases {
        let error = read(&line).expect_err(&line).to_string();
        assert!(error.contains(expected), "{line}: {error}");
    }
}

/// All texts of an event that may be long are found and can be replaced, so that they can be moved into files.
#[test]
fn every_long_text_of_an_event_can_be_moved_to_a_file() {
    for line in LINES {
        let mut event = read(line).unwrap();
        for payload in event.body.payloads_mut() {
            *payload = Payload::Stored { payload: "moved".to_owned(), bytes: 1 };
        }
        let written = serde_json::to_value(&event).unwrap();
        for field in ["input", "result", "message", "answer", "text"] {
            let Some(value) = written.get(field) else { continue };
            // A question without an answer has no text to move.
            let is_no_answer = field == "answer" && written["by"] == "timeout";
            assert!(value["payload"] == "moved" || is_no_answer, "{field} of {line}");
        }
    }
}
