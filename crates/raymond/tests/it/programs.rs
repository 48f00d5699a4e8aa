//! Agent programs as they are: one that is missing, tool servers that do not start, hooks that put a tool off.

use serde_json::Value;
use test_kit::rig::Rig;

use crate::RAYMOND;

/// A workflow whose first step is a script that leaves a trace, and whose second is this prompt.
fn script_first(prompt: &str) -> Rig {
    let rig = Rig::new(RAYMOND);
    rig.state("START.sh", "touch started\necho '<goto>ASK</goto>'").state("ASK.md", prompt);
    rig
}

fn warnings(rig: &Rig) -> Vec<String> {
    let events = rig.events().into_iter().filter(|event| event["event"] == "warning");
    events.filter_map(|event| event["message"].as_str().map(str::to_owned)).collect()
}

#[test]
fn a_missing_agent_program_is_found_before_the_first_step() {
    let rig = script_first("Go on.");
    let missing = "[backend.gone]\nkind = \"claude\"\ncommand = \"/no/such/claude\"\n\
                   [backend.also]\nkind = \"claude\"\ncommand = \"no-such-claude\"\n";
    rig.write(".raymond/config.toml", missing);
    let run = |backend: &str| rig.raymond(&["workflow", "--id", "r", "--backend", backend]);
    run("gone")
        .assert(2, "")
        .says("ASK.md: the agent program `/no/such/claude` was not found")
        .says("nothing was run; install it, or name it with `command`");
    run("gone,also")
        .assert(2, "")
        .says("the agent programs `/no/such/claude`, `no-such-claude` were not found");
    assert!(!rig.path("started").exists());
    let all_the_same = rig.raymond(&["workflow", "--id", "s", "--backend", "gone", "--no-lint"]);
    all_the_same.assert(1, "").says("the agent program `/no/such/claude` was not found");
    assert!(rig.path("started").exists());
    rig.agent(r#"[{"reply": "<result>done</result>"}]"#);
    run("gone,claude").assert(0, "done\n");
}

#[test]
fn a_state_that_cannot_be_reached_needs_no_program() {
    let rig = Rig::new(RAYMOND);
    rig.state("START.sh", "echo '<result>done</result>'").state("OTHER.md", "Go on.");
    rig.write(".raymond/config.toml", "[backend.claude]\ncommand = \"/no/such/claude\"\n");
    rig.run().assert(0, "done\n");
}

#[test]
fn a_tool_server_that_did_not_start_is_a_warning_that_names_it() {
    let rig = Rig::new(RAYMOND);
    rig.state("START.md", "Begin.");
    let servers = r#"{"tickets": "failed", "wiki": "needs-auth", "there": "connected", "off": "disabled"}"#;
    rig.agent(&format!(r#"[{{"reply": "<result>done</result>", "servers": {servers}}}]"#));
    rig.run().assert(0, "done\n").says("the tool server `tickets` did not start");
    let told = warnings(&rig);
    let names = ["`tickets`", "`wiki`"];
    assert!(told.len() == 2 && names.iter().zip(&told).all(|(name, said)| said.contains(name)), "{told:?}");
}

#[test]
fn a_turn_without_a_required_tool_server_fails_before_it_costs_anything() {
    for (manifest, state) in [("", "---\nrequire_mcp: true\n---\nBegin."), ("require_mcp: true", "Begin.")] {
        let rig = Rig::new(RAYMOND);
        rig.state("START.md", state).state("workflow.yaml", manifest);
        // It would wait at a gate that is never opened.
        let rules =
            r#"[{"reply": "<result>done</result>", "servers": {"tickets": "failed"}, "hold": "never"}]"#;
        rig.agent(rules);
        rig.run()
            .assert(1, "")
            .says("a required tool server did not start: `tickets`")
            .says("or leave out `require_mcp`");
        let failed: Vec<Value> =
            rig.events().into_iter().filter(|event| event["event"] == "step_failed").collect();
        assert!(failed.len() == 1 && failed[0]["cost_usd"] == 0.0, "{failed:?}");
        rig.agent(r#"[{"reply": "<result>done</result>", "servers": {"tickets": "connected"}}]"#);
        rig.raymond(&["resume", "r"]).assert(0, "done\n");
    }
}

#[test]
fn a_state_may_do_without_the_servers_that_its_workflow_requires() {
    let rig = Rig::new(RAYMOND);
    rig.state("START.md", "---\nrequire_mcp: false\n---\nBegin.").state("workflow.yaml", "require_mcp: true");
    rig.agent(r#"[{"reply": "<result>done</result>", "servers": {"tickets": "failed"}}]"#);
    rig.run().assert(0, "done\n").says("`tickets` did not start");
}

#[test]
fn a_turn_whose_tool_was_put_off_by_a_hook_has_not_finished() {
    let rig = Rig::new(RAYMOND);
    rig.state("START.md", "Begin.");
    rig.agent(r#"[{"reply": "<result>done</result>", "deferred": "Bash", "times": 1}, {"reply": "<result>done</result>"}]"#);
    rig.run()
        .assert(1, "")
        .says("a hook of the agent program put off the use of `Bash`")
        .says("RAYMOND_RUN_ID");
    assert!(rig.events().iter().all(|event| event["event"] != "step_finished" && event["event"] != "retry"));
    rig.raymond(&["resume", "r"]).assert(0, "done\n");
}

/// Versions differ in what they call it; one of the names is known to all.
#[test]
fn the_permission_mode_manual_is_the_default_one() {
    let rig = Rig::new(RAYMOND);
    rig.state("START.md", "Begin.").state("workflow.yaml", "permission_mode: manual");
    rig.agent(r#"[{"reply": "<result>done</result>"}]"#);
    rig.run().assert(0, "done\n");
    assert_eq!(rig.calls()[0]["permission_mode"], "default");
}
