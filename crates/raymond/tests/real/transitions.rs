//! The conversation after each transition.

use std::collections::BTreeMap;

use mock_api::say;
use serde_json::Value;

use crate::Case;
use crate::bench::{Bench, assert_history};
use crate::programs::{MODEL, Program};

pub(crate) const CASES: &[Case] = &[
    ("every_transition_has_the_right_conversation", every_transition),
    ("reminders_continue_the_same_conversation", reminders),
    ("a_function_in_another_folder_returns_to_the_callers_folder", other_folder),
    ("a_state_without_a_model_gets_the_default_one", default_model),
];

/// A state, its prompt, its answer, and the states whose prompts are in its conversation.
const TABLE: &[(&str, &str, &str, &[&str])] = &[
    ("START", "begin", "<goto>PLAN</goto>", &[]),
    ("PLAN", "plan", "<call return=\"BACK\">CHILD</call>", &["START"]),
    ("CHILD", "child", "<goto>CHILD_MORE</goto>", &["START", "PLAN"]),
    ("CHILD_MORE", "child, more", "<result>called</result>", &["START", "PLAN", "CHILD"]),
    (
        "BACK",
        "back with {{result}}",
        "<function return=\"BACK_AGAIN\">FUNCTION</function>",
        &["START", "PLAN"],
    ),
    ("FUNCTION", "function", "<reset>FUNCTION_ANEW</reset>", &[]),
    ("FUNCTION_ANEW", "function anew", "<result>computed</result>", &[]),
    (
        "BACK_AGAIN",
        "back again with {{result}}",
        "<fork next=\"PARENT\" item=\"tea\">WORKER</fork>",
        &["START", "PLAN", "BACK"],
    ),
    ("WORKER", "worker on {{item}}", "<goto>WORKER_MORE</goto>", &[]),
    ("WORKER_MORE", "worker still on {{item}}", "<result>brewed</result>", &["WORKER"]),
    ("PARENT", "parent", "<join>JOINED</join>", &["START", "PLAN", "BACK", "BACK_AGAIN"]),
    (
        "JOINED",
        "joined",
        "<ask next=\"ANSWERED\">how much?</ask>",
        &["START", "PLAN", "BACK", "BACK_AGAIN", "PARENT"],
    ),
    (
        "ANSWERED",
        "answered with {{input}}",
        "<reset>LAST</reset>",
        &["START", "PLAN", "BACK", "BACK_AGAIN", "PARENT", "JOINED"],
    ),
    ("LAST", "last", "<result>done</result>", &[]),
];

const VALUES: &[(&str, &str)] = &[
    ("BACK", "back with called"),
    ("BACK_AGAIN", "back again with computed"),
    ("WORKER", "worker on tea"),
    ("WORKER_MORE", "worker still on tea"),
    ("ANSWERED", "answered with two spoons"),
];

fn every_transition(program: &Program) {
    let bench = Bench::new(program);
    let values: BTreeMap<&str, &str> = VALUES.iter().copied().collect();
    let row = |state: &str| TABLE.iter().find(|row| row.0 == state).unwrap();
    let prompt = |state: &str| values.get(state).copied().unwrap_or(row(state).1);
    for (state, body, answer, _) in TABLE {
        bench.state(&format!("{state}.md"), body);
        bench.api.on(prompt(state), [say(answer)]);
    }
    bench.run(&["--on-ask", "pause"]).assert(3, "").says("how much?");
    bench.raymond(&["answer", "r", "two spoons", "--no-resume"]).assert(0, "");
    bench.resume(&[]).assert(0, "done\n");

    let requests = bench.api.requests();
    assert_eq!(requests.len(), TABLE.len(), "one request a state: {requests:#?}");
    let started = bench.events_of("step_started");
    let started_in =
        |state: &str| started.iter().find(|event| event["state"] == format!("{state}.md")).unwrap();
    let mut sessions = BTreeMap::new();
    for (state, _, _, remembered) in TABLE {
        let request = requests.iter().find(|request| request.prompt == prompt(state)).unwrap();
        let mut expected = Vec::new();
        for earlier in *remembered {
            expected.push(format!("user: {}", prompt(earlier)));
            expected.push(format!("agent: {}", row(earlier).2));
        }
        expected.push(format!("user: {}", prompt(state)));
        assert_history(request, &expected.iter().map(String::as_str).collect::<Vec<_>>());
        assert_eq!(request.model, MODEL);
        // The session is the recorded one, and a branch of the last state in its conversation.
        assert_eq!(started_in(state)["session"], request.session.as_str(), "{state}");
        let parent = remembered.last().map_or(Value::Null, |parent| started_in(parent)["session"].clone());
        assert_eq!(started_in(state)["branch_of"], parent, "{state}");
        assert!(sessions.insert(request.session.clone(), state).is_none(), "{state} has its own session");
    }
    bench.assert_paid();
    bench.assert_nothing_lives();
}

fn reminders(program: &Program) {
    let bench = Bench::new(program);
    let policy = "---\nallowed_transitions:\n  - { tag: goto, target: NEXT }\n  - { tag: result }\n---\n";
    bench.state("START.md", format!("{policy}begin")).state("NEXT.md", "next");
    bench.api.on("begin", [say("I am not sure.")]);
    bench.api.on("<goto>NEXT.md</goto>", [say("<goto>START</goto>"), say("<goto>NEXT</goto>")]);
    bench.api.on("next", [say("<result>done</result>")]);
    bench.run(&[]).assert(0, "done\n");
    let reminders: Vec<String> =
        bench.events_of("reminder").iter().map(|event| event["text"].as_str().unwrap().to_owned()).collect();
    assert_eq!(reminders.len(), 2);
    let [first, second] = [&reminders[0], &reminders[1]].map(|text| format!("user: {text}"));
    let last = &bench.asked("next")[0];
    let expected = [
        "user: begin",
        "agent: I am not sure.",
        &first,
        "agent: <goto>START</goto>",
        &second,
        "agent: <goto>NEXT</goto>",
        "user: next",
    ];
    assert_history(last, &expected);
    assert_eq!(bench.api.requests().len(), 4);
    bench.assert_paid();
}

/// A session belongs to a folder; after a call the caller's session continues in the caller's folder.
fn other_folder(program: &Program) {
    let bench = Bench::new(program);
    std::fs::create_dir_all(bench.path("elsewhere")).unwrap();
    bench.state("START.md", "begin").state("AWAY.md", "away").state("THERE.md", "there");
    bench.state("STILL.md", "still there").state("BACK.md", "back");
    bench.api.on("begin", [say("<function return=\"BACK\">AWAY</function>")]);
    bench.api.on("away", [say("<reset cd=\"elsewhere\">THERE</reset>")]);
    bench.api.on("there", [say("<goto>STILL</goto>")]);
    bench.api.on("still there", [say("<result>x</result>")]);
    bench.api.on("back", [say("<result>done</result>")]);
    bench.run(&[]).assert(0, "done\n");
    assert_history(
        &bench.asked("back")[0],
        &["user: begin", "agent: <function return=\"BACK\">AWAY</function>", "user: back"],
    );
    assert_history(
        &bench.asked("still there")[0],
        &["user: there", "agent: <goto>STILL</goto>", "user: still there"],
    );
    bench.assert_paid();
}

/// The model of each turn is that of its state, or what the program uses in a new conversation.
fn default_model(program: &Program) {
    let models = |variable: Option<&str>, settings: Option<&str>| {
        let mut bench = Bench::without_model(program);
        bench.variables.extend(variable.map(|model| ("ANTHROPIC_MODEL", model.to_owned())));
        if let Some(model) = settings {
            bench.write(".claude/settings.json", format!("{{\"model\": \"{model}\"}}"));
        }
        bench.state("START.md", "fresh");
        bench.state("OWN.md", format!("---\nmodel: {MODEL}\n---\nown"));
        bench.state("PLAIN.md", "plain");
        bench.state("AGAIN.md", "again");
        bench.api.on("fresh", [say("<reset>OWN</reset>")]);
        bench.api.on("own", [say("<goto>PLAIN</goto>")]);
        bench.api.on("plain", [say("<goto>AGAIN</goto>")]);
        bench.api.on("again", [say("<result>done</result>")]);
        bench.run(&[]).assert(0, "done\n");
        let of = |prompt: &str| bench.asked(prompt)[0].model.clone();
        ["fresh", "own", "plain", "again"].map(of)
    };
    for (variable, settings) in
        [(None, None), (Some("claude-sonnet-4-5"), None), (None, Some("claude-sonnet-4-5"))]
    {
        let [fresh, own, plain, again] = models(variable, settings);
        assert!(own.starts_with(MODEL), "{own}");
        assert_ne!(fresh, own);
        assert_eq!((&plain, &again), (&fresh, &fresh), "with {variable:?} and {settings:?}");
    }
}
