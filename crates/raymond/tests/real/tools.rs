//! Tools and their background processes.

use mock_api::{say, use_tool};

use crate::Case;
use crate::bench::{Bench, assert_history};
use crate::programs::{MODEL, Program};

pub(crate) const CASES: &[Case] = &[
    ("permitted_tools_run", permitted),
    ("a_refused_tool_is_a_warning", denied),
    ("every_option_of_a_state_is_understood", options),
    ("the_last_of_several_final_messages_counts", several_results),
    ("a_background_task_does_not_delay_the_end_of_the_step", lingering),
    ("the_cost_of_subagents_is_counted", subagent),
    ("a_tool_server_that_does_not_start_is_named", server),
    ("a_turn_whose_tool_a_hook_puts_off_has_not_finished", put_off),
];

/// A state that may use any command.
pub(crate) fn with_bash(text: &str) -> String {
    format!("---\nallow_tools: [ Bash ]\n---\n{text}")
}

fn permitted(program: &Program) {
    let bench = Bench::new(program);
    bench.state("START.md", with_bash("begin")).state("NEXT.md", "next");
    bench.api.on(
        "begin",
        [use_tool("Bash", "echo from a child of $PPID > made; cat made"), say("<goto>NEXT</goto>")],
    );
    bench.api.on("next", [say("<result>done</result>")]);
    bench.run(&[]).assert(0, "done\n");
    let made = bench.read("made");
    assert!(made.starts_with("from a child of "), "{made}");
    let last = &bench.asked("next")[0];
    assert_eq!(last.history.len(), 5, "{last:#?}");
    assert_eq!(last.history[2], format!("got: {}", made.trim()));
    assert_eq!(bench.events_of("warning").len(), 0);
    bench.assert_paid();
}

fn options(program: &Program) {
    let bench = Bench::new(program);
    std::fs::create_dir_all(bench.path("../elsewhere")).unwrap();
    std::fs::write(bench.path("../elsewhere/note"), "a note").unwrap();
    bench.write("mcp.json", r#"{"mcpServers": {}}"#);
    let settings = "model: claude-sonnet-4-5\neffort: high\nallow_tools: [ \"Bash(echo:*)\", Read ]\n\
                    deny_tools: [ WebFetch, WebSearch ]\nadd_dirs: [ ../elsewhere ]\nmcp_config: [ mcp.json ]\n";
    bench.state("START.md", format!("---\n{settings}---\nbegin")).state("NEXT.md", "next");
    // A name that only newer versions know.
    bench.state("workflow.yaml", "permission_mode: manual\n");
    let note = bench.path("../elsewhere").canonicalize().unwrap().join("note");
    let read = use_tool("Read", &serde_json::json!({ "file_path": note }).to_string());
    bench.api.on("begin", [use_tool("Bash", "echo hello"), read, say("<goto>NEXT</goto>")]);
    bench.api.on("next", [say("<result>done</result>")]);
    bench.run(&[]).assert(0, "done\n");
    let requests = bench.api.requests();
    assert_eq!(bench.events_of("warning").len(), 0, "{requests:#?}");
    assert_eq!(requests[1].history[2], "got: hello");
    assert!(requests[2].history[4].contains("a note"), "{requests:#?}");
    assert_eq!(requests[0].model, "claude-sonnet-4-5");
    assert_eq!(requests[3].model, MODEL, "the next state has its own model");
    assert!(
        !requests[0].tools.contains(&"WebFetch".to_owned()) && !requests[0].raw.contains("\\nWebFetch\\n")
    );
    bench.assert_paid();
}

fn server(program: &Program) {
    let bench = Bench::new(program);
    let servers = serde_json::json!({ "mcpServers": { "tickets": { "command": "/no/such/server" } } });
    bench.write("mcp.json", servers.to_string());
    let state = |more: &str| format!("---\nmcp_config: mcp.json\n{more}---\nbegin");
    bench.state("START.md", state("require_mcp: true\n"));
    bench.api.on("begin", [say("<result>done</result>")]);
    bench.run(&[]).assert(1, "").says("a required tool server did not start: `tickets`");
    assert!(bench.events_of("retry").is_empty());
    assert_eq!(bench.cost_nanos(), 0);
    bench.assert_nothing_lives();
    bench.state("START.md", state(""));
    bench.resume(&[]).assert(0, "done\n").says("the tool server `tickets` did not start");
}

fn put_off(program: &Program) {
    let bench = Bench::new(program);
    let answer = r#"{"hookSpecificOutput":{"hookEventName":"PreToolUse","permissionDecision":"defer"}}"#;
    let hook = serde_json::json!({ "type": "command", "command": format!("echo '{answer}'") });
    let hooks = serde_json::json!({ "hooks": { "PreToolUse": [{ "matcher": "Bash", "hooks": [hook] }] } });
    std::fs::create_dir_all(bench.home().join(".claude")).unwrap();
    std::fs::write(bench.home().join(".claude/settings.json"), hooks.to_string()).unwrap();
    bench.state("START.md", with_bash("begin"));
    bench.api.on("begin", [use_tool("Bash", "echo made > made"), say("<result>done</result>")]);
    bench.run(&[]).assert(1, "").says("a hook of the agent program put off the use of `Bash`");
    assert!(!bench.path("made").exists() && bench.events_of("step_finished").is_empty());
    bench.assert_paid();
}

fn denied(program: &Program) {
    let bench = Bench::new(program);
    bench.state("START.md", "begin");
    bench.api.on("begin", [use_tool("Bash", "python3 -c 1 > made"), say("<result>done</result>")]);
    bench.run(&[]).assert(0, "done\n").says("not permitted to use Bash(python3 -c 1 > made)");
    assert!(!bench.path("made").exists());
    assert_eq!(bench.events_of("warning").len(), 1);
    bench.assert_paid();
}

/// When a background task ends, the agent continues in the same process.
fn several_results(program: &Program) {
    let bench = Bench::new(program);
    bench.state("START.md", with_bash("begin"));
    let background = r#"{"command": "sleep 2; echo woken", "description": "x", "run_in_background": true}"#;
    let later = say("<result>after it</result>");
    bench.api.on("begin", [use_tool("Bash", background), say("<result>before it</result>"), later.clone()]);
    bench.api.on("task-notification", [later]);
    bench.run(&[]).assert(0, "after it\n");
    bench.assert_paid();
    bench.assert_nothing_lives();
}

fn lingering(program: &Program) {
    let bench = Bench::new(program);
    bench.state("START.md", with_bash("begin")).state("NEXT.md", "next");
    let background = r#"{"command": "sleep 3456", "description": "x", "run_in_background": true}"#;
    bench.api.on("begin", [use_tool("Bash", background), say("<goto>NEXT</goto>")]);
    bench.api.on("next", [say("<result>done</result>")]);
    bench.run(&[]).assert(0, "done\n");
    let last = &bench.asked("next")[0];
    // One of the versions tells the agent in the next turn that its task was stopped.
    let kept = last.history.iter().filter(|said| !said.starts_with("user: <task-notification>"));
    assert_eq!(kept.skip(3).collect::<Vec<_>>(), ["agent: <goto>NEXT</goto>", "user: next"], "{last:#?}");
    bench.assert_paid();
    bench.assert_nothing_lives();
}

fn subagent(program: &Program) {
    let bench = Bench::new(program);
    bench.state("START.md", "begin").state("NEXT.md", "next");
    let task = r#"{"description": "x", "prompt": "look it up", "subagent_type": "general-purpose", "run_in_background": false}"#;
    bench.api.on("begin", [use_tool("Agent", task), say("<goto>NEXT</goto>")]);
    bench.api.on("look it up", [say("It is 42.")]);
    bench.api.on("next", [say("<result>done</result>")]);
    bench.run(&[]).assert(0, "done\n");
    assert_history(&bench.asked("look it up")[0], &["user: look it up"]);
    assert_eq!(bench.api.requests().len(), 4);
    bench.assert_paid();
}
