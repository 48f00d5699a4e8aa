//! Prompts and the agent program: stops, kills and limits during a turn.

use std::time::{Duration, Instant};

use rustix::process::Signal;
use serde_json::{Value, json};
use test_kit::fake::{self, memory};
use test_kit::rig::{Rig, wait_until};

use crate::RAYMOND;

/// A first prompt, and a second that waits for a file, with a child outside of its process group.
fn two_turns() -> Rig {
    let rig = Rig::new(RAYMOND);
    rig.state("START.md", "Start.").state("WORK.md", "Work.");
    rig.agent(
        r#"[{"match": "Start", "reply": "<goto>WORK</goto>", "cost": 0.01},
            {"match": "Work", "reply": "<result>worked</result>", "cost": 0.02, "hold": "go", "child_s": 300}]"#,
    );
    rig
}

#[track_caller]
fn assert_cost(status: &Value, expected: f64) {
    let cost = status["cost_usd"].as_f64().unwrap();
    assert!((cost - expected).abs() < 1e-9, "cost {cost}, not {expected}");
}

/// A zombie is dead.
fn is_alive(call: &Value) -> bool {
    let status = std::fs::read_to_string(format!("/proc/{}/status", call["pid"])).unwrap_or_default();
    status.lines().any(|line| line.starts_with("State:") && !line.contains(['Z', 'X']))
}

#[test]
fn after_a_kill_only_the_interrupted_turn_is_repeated() {
    let rig = two_turns();
    let live = rig.start(&["workflow", "--id", "r"]);
    rig.wait_for_calls(2);
    live.kill();
    assert_eq!(rig.status()["status"], "interrupted");
    let live = rig.start(&["resume", "r"]);
    rig.wait_for_calls(3);
    let calls = rig.calls();
    assert!(!is_alive(&calls[1]), "the agent program of the killed Raymond still runs");
    rig.open_gate("go");
    live.wait().assert(0, "worked\n").says("was interrupted and runs again");
    rig.assert_nothing_lives();

    let calls = rig.calls();
    assert_eq!(calls.len(), 3, "only the interrupted turn is repeated");
    assert_eq!(memory(&calls[2]), ["Start. → <goto>WORK</goto>"]);
    assert_eq!(memory(&calls[2]), memory(&calls[1]), "the interrupted turn is not in the conversation");
    assert_eq!(calls[2]["parent"], calls[1]["parent"]);
    assert_ne!(calls[2]["session"], calls[1]["session"]);
    let status = rig.status();
    assert_eq!(status["steps"], 2);
    assert_cost(&status, 0.03);
}

/// The same many times, at any moment of a turn.
#[test]
fn many_kills_lose_and_repeat_no_finished_turn() {
    let rig = Rig::new(RAYMOND);
    rig.state("START.md", "Round {{visits}}.").state("END.md", "End.");
    rig.agent(
        r#"[{"match": "Round 12.", "reply": "<goto>END</goto>", "cost": 0.01},
            {"match": "Round", "reply": "<goto>START</goto>", "cost": 0.01, "delay_ms": 20},
            {"match": "End", "reply": "<result>{{history}} remembered</result>", "cost": 0.01}]"#,
    );
    let mut live = rig.start(&["workflow", "--id", "r", "--quiet"]);
    for calls in [2, 5, 6, 9, 13] {
        rig.wait_for_calls(calls);
        live.kill();
        live = rig.start(&["resume", "r", "--quiet"]);
    }
    live.wait().assert(0, "12 remembered\n");
    rig.assert_nothing_lives();
    let rounds: Vec<String> = (1..=12).map(|round| format!("Round {round}.")).collect();
    let last = rig.calls().pop().unwrap();
    let remembered: Vec<String> =
        memory(&last).iter().map(|turn| turn.split(" → ").next().unwrap().to_owned()).collect();
    assert_eq!(remembered, rounds);
    let finished: Vec<Value> =
        rig.events().into_iter().filter(|event| event["event"] == "step_finished").collect();
    assert_eq!(finished.len(), 13);
    let counted: f64 = finished.iter().map(|event| event["cost_usd"].as_f64().unwrap()).sum();
    assert_cost(&rig.status(), counted);
}

#[test]
fn after_a_kill_between_reminders_the_conversation_continues() {
    let rig = Rig::new(RAYMOND);
    rig.state("START.md", "---\nallowed_transitions: [ { tag: result } ]\n---\nStart.");
    rig.agent(
        r#"[{"match": "Start", "reply": "none", "cost": 0.01},
            {"reply": "none again", "cost": 0.02, "times": 1},
            {"reply": "<result>ok</result>", "cost": 0.04, "hold": "go"}]"#,
    );
    let live = rig.start(&["workflow", "--id", "r"]);
    rig.wait_for_calls(3);
    live.kill();
    rig.open_gate("go");
    rig.resume().assert(0, "ok\n");
    let calls = rig.calls();
    assert_eq!(calls.len(), 4);
    assert_eq!((memory(&calls[3]), &calls[3]["prompt"]), (memory(&calls[2]), &calls[2]["prompt"]));
    assert_eq!(memory(&calls[3]).len(), 2);
    let reminders = rig.events().iter().filter(|event| event["event"] == "reminder").count();
    assert_eq!(reminders, 2);
    assert_cost(&rig.status(), 0.07);
}

#[test]
fn terminate_ends_a_turn_and_estimates_its_cost() {
    let rig = Rig::new(RAYMOND);
    rig.state("START.md", "Start.").state("WORK.md", "Work.");
    rig.agent(
        r#"[{"match": "Start", "reply": "<goto>WORK</goto>", "cost": 0.01},
            {"match": "Work", "kind": "hang", "reply": "half", "cost": 0.02, "child_s": 300, "times": 1},
            {"match": "Work", "reply": "<result>worked</result>", "cost": 0.04}]"#,
    );
    let live = rig.start(&["workflow", "--id", "r", "--verbose"]);
    live.wait_for_stderr("half");
    live.send(Signal::TERM);
    live.wait().assert(143, "");
    rig.assert_nothing_lives();
    let status = rig.status();
    assert_eq!((&status["status"], &status["steps"]), (&"interrupted".into(), &1.into()));
    let estimate = status["cost_usd"].as_f64().unwrap() - 0.01;
    assert!((0.019..0.022).contains(&estimate), "{estimate}");

    rig.resume().assert(0, "worked\n");
    let calls = rig.calls();
    assert_eq!(memory(&calls[2]), ["Start. → <goto>WORK</goto>"]);
    assert_cost(&rig.status(), 0.05 + estimate);
}

#[test]
fn the_first_interrupt_lets_a_turn_finish_and_keeps_it() {
    let rig = Rig::new(RAYMOND);
    rig.state("START.md", "Start.").state("WORK.md", "Work.");
    rig.agent(
        r#"[{"match": "Start", "reply": "<goto>WORK</goto>", "cost": 0.01, "hold": "go"},
            {"match": "Work", "reply": "<result>{{history}} remembered</result>", "cost": 0.02}]"#,
    );
    let live = rig.start(&["workflow", "--id", "r"]);
    rig.wait_for_calls(1);
    live.send(Signal::INT);
    live.wait_for_stderr("may finish");
    rig.open_gate("go");
    live.wait().assert(130, "");
    assert_eq!(rig.status()["agents"][0]["state"], "WORK.md");
    rig.resume().assert(0, "1 remembered\n");
    assert_eq!(rig.calls().len(), 2);
    assert_cost(&rig.status(), 0.03);
}

#[test]
fn the_second_interrupt_ends_a_turn() {
    let rig = two_turns();
    let live = rig.start(&["workflow", "--id", "r"]);
    rig.wait_for_calls(2);
    live.send(Signal::INT);
    live.wait_for_stderr("may finish");
    live.send(Signal::INT);
    live.wait().assert(130, "");
    rig.assert_nothing_lives();
    rig.open_gate("go");
    rig.resume().assert(0, "worked\n");
    assert_eq!(memory(&rig.calls()[2]), ["Start. → <goto>WORK</goto>"]);
    assert_cost(&rig.status(), 0.03);
}

/// Turns cost money, so a script that fails does not end them.
#[test]
fn a_fatal_script_lets_running_turns_finish() {
    let rig = Rig::new(RAYMOND);
    rig.state("START.sh", "echo '<fork next=\"BAD\">W</fork>'");
    rig.state("BAD.sh", "[ -e mended ] && { echo '<result>main</result>'; exit; }; until [ -e bad ]; do sleep 0.01; done; exit 1");
    rig.state("W.md", "Work.").state("LATER.md", "Later.");
    rig.agent(
        r#"[{"match": "Work", "reply": "<goto>LATER</goto>", "cost": 0.01, "hold": "go"},
            {"match": "Later", "reply": "<result>ok</result>", "cost": 0.02}]"#,
    );
    let live = rig.start(&["workflow", "--id", "r"]);
    rig.wait_for_calls(1);
    rig.write("bad", "");
    live.wait_for_stderr("BAD.sh failed");
    rig.open_gate("go");
    live.wait().assert(1, "");
    assert_eq!(rig.calls().len(), 1, "nothing new starts");
    let status = rig.status();
    assert_eq!(status["steps"], 2, "the turn is recorded");
    assert_cost(&status, 0.01);
    rig.write("mended", "");
    rig.resume().assert(0, "main\n");
    assert_eq!(rig.calls().len(), 2, "the finished turn is not paid for again");
}

/// Raymond is killed while it waits for a retry; the resume makes that retry.
#[test]
fn after_a_kill_while_a_retry_waits_the_retry_is_made() {
    let came_in_time = (0..10).any(|_| {
        let rig = Rig::new(RAYMOND);
        rig.state("START.md", "Start.");
        rig.agent(r#"[{"kind": "overloaded", "times": 1}, {"reply": "<result>ok</result>", "cost": 0.01}]"#);
        let live = rig.start(&["workflow", "--id", "r"]);
        live.wait_for_stderr("retry in 1s");
        live.kill();
        // On a slow machine the wait of one second may already have ended.
        let came_in_time = rig.calls().len() == 1;
        rig.resume().assert(0, "ok\n");
        if came_in_time {
            assert_eq!(rig.calls().len(), 2);
            assert_cost(&rig.status(), 0.01);
        }
        came_in_time
    });
    assert!(came_in_time, "the kill always came after the wait");
}

#[test]
fn a_resume_does_not_wait_for_an_earlier_limit() {
    let rig = Rig::new(RAYMOND);
    rig.state("START.md", "Start.");
    rig.agent(
        r#"[{"kind": "limit", "resets_in": 3600, "times": 1}, {"reply": "<result>ok</result>", "cost": 0.01}]"#,
    );
    let live = rig.start(&["workflow", "--id", "r"]);
    live.wait_for_stderr("usage limit");
    let status = rig.status();
    assert_eq!((&status["status"], &status["agents"][0]["status"]), (&"running".into(), &"limited".into()));
    live.send(Signal::INT);
    live.wait().assert(130, "");
    rig.resume().assert(0, "ok\n");
}

/// The start and the normal end of each call.
fn spans(rig: &Rig) -> Vec<(u64, u64)> {
    let ends = fake::lines(&rig.fake().join("ends.jsonl"));
    let at = |record: &Value| record["at_ms"].as_u64().unwrap();
    let span = |call: &Value| {
        let end = ends.iter().find(|end| end["session"] == call["session"]).unwrap();
        (at(call), at(end))
    };
    rig.calls().iter().map(span).collect()
}

#[test]
fn at_most_max_parallel_agent_programs_run_at_once() {
    let rig = Rig::new(RAYMOND);
    rig.state("START.sh", "for i in 1 2 3 4 5 6; do echo '<fork next=\"END\">W</fork>'; done");
    rig.state("END.sh", "echo '<join>LAST</join>'")
        .state("LAST.sh", "echo '<result>ok</result>'")
        .state("W.md", "Work.");
    rig.agent(r#"[{"reply": "<result>w</result>", "hold": "go", "delay_ms": 100}]"#);
    let live = rig.start(&["workflow", "--id", "r", "--max-parallel", "2"]);
    rig.wait_for_calls(2);
    rig.open_gate("go");
    live.wait().assert(0, "ok\n");
    let spans = spans(&rig);
    let most = spans
        .iter()
        .map(|(start, _)| spans.iter().filter(|(begin, end)| begin <= start && start < end).count())
        .max();
    assert_eq!((spans.len(), most), (6, Some(2)));
}

/// Six parallel workers that exceed the budget; returns the cost when the run stopped.
fn wide_fan_out() -> (Rig, f64) {
    let rig = Rig::new(RAYMOND);
    rig.state("START.sh", "for i in 1 2 3 4 5 6; do echo '<fork next=\"END\">W</fork>'; done");
    rig.state("END.sh", "echo '<join>LAST</join>'").state("LAST.sh", "echo '<result>ok</result>'");
    rig.state("W.md", "Work.");
    rig.agent(
        r#"[{"match": "go on", "reply": "<result>w</result>", "cost": 0.4, "calls": 4},
            {"reply": "<result>w</result>", "cost": 0.4, "calls": 4, "delay_ms": 50}]"#,
    );
    rig.raymond(&["workflow", "--id", "r", "--budget", "1"]).assert(4, "");
    let status = rig.status();
    assert_eq!(status["status"], "over_budget");
    (rig, status["cost_usd"].as_f64().unwrap())
}

#[test]
fn parallel_turns_stop_at_the_budget_and_continue_with_a_higher_one() {
    let (rig, cost) = wide_fan_out();
    assert!(cost > 1.0 && cost < 2.21, "{cost}");
    rig.raymond(&["resume", "r", "--budget", "50"]).assert(0, "ok\n");
}

#[test]
fn parallel_turns_exceed_the_budget_by_at_most_one_call_each() {
    for _ in 0..5 {
        let (_, cost) = wide_fan_out();
        assert!(cost <= 1.0 + 6.0 * 0.1 + 1e-9, "{cost}");
    }
}

#[test]
fn a_program_that_keeps_running_after_its_result_is_ended() {
    let rig = Rig::new(RAYMOND);
    rig.state("START.md", "Start.");
    rig.agent(r#"[{"reply": "<result>ok</result>", "linger_ms": 400000, "child_s": 400}]"#);
    let begin = Instant::now();
    rig.run().assert(0, "ok\n");
    let took = begin.elapsed();
    assert!(took > Duration::from_secs(9), "{took:?}");
    rig.assert_nothing_lives();
}

#[test]
fn children_of_a_finished_turn_are_ended_with_it() {
    let rig = Rig::new(RAYMOND);
    rig.state("START.md", "Start.").state("NEXT.sh", "echo '<result>ok</result>'");
    rig.agent(r#"[{"reply": "<goto>NEXT</goto>", "child_s": 300}]"#);
    rig.run().assert(0, "ok\n");
    rig.assert_nothing_lives();
    assert_eq!(fake::lines(&rig.fake().join("children")).len(), 1);
}

/// Raymond may itself run inside an agent's session; its agents must not believe that they belong to that session.
#[test]
fn variables_of_a_surrounding_session_are_not_passed_on() {
    let rig = Rig::new(RAYMOND);
    rig.state("START.md", "Start.");
    rig.agent(r#"[{"reply": "<result>ok</result>"}]"#);
    let mut command = rig.command(&["workflow", "--id", "r", "--input", "in"]);
    let marks = [
        "CLAUDECODE",
        "CLAUDE_CODE_SESSION_ID",
        "CLAUDE_CODE_ENTRYPOINT",
        "CLAUDE_EFFORT",
        "CLAUDE_PID",
        "AI_AGENT",
    ];
    command.envs(marks.map(|name| (name, "x"))).env("CLAUDE_CONFIG_DIR", "/kept").env("RAYMOND_STALE", "old");
    rig.launch(command).wait().assert(0, "ok\n");
    let environment = &rig.calls()[0]["env"];
    for mark in marks {
        assert_eq!(environment[mark], Value::Null, "{mark}");
    }
    assert_eq!(environment["CLAUDE_CONFIG_DIR"], "/kept");
    assert_eq!(
        (&environment["RAYMOND_RUN_ID"], &environment["RAYMOND_AGENT_ID"]),
        (&json!("r"), &json!("main"))
    );
}

#[test]
fn a_long_prompt_reaches_the_agent_completely() {
    let rig = Rig::new(RAYMOND);
    let long = "x".repeat(1_500_000);
    rig.state("START.md", "in: {{input}}").agent(r#"[{"reply": "<result>ok</result>"}]"#);
    rig.write("input", &long);
    let mut command = rig.command(&["workflow", "--id", "r", "--input", "-"]);
    command.stdin(std::fs::File::open(rig.path("input")).unwrap());
    rig.launch(command).wait().assert(0, "ok\n");
    assert_eq!(rig.calls()[0]["prompt"], format!("in: {long}"));
}

/// Workers of a fork, killed in the middle of their conversations.
#[test]
fn killed_workers_keep_their_own_conversations() {
    let rig = Rig::new(RAYMOND);
    rig.state("START.sh", "for i in 1 2 3; do echo \"<fork next='END' i='$i'>ONE</fork>\"; done");
    rig.state("END.sh", "echo '<join>LAST</join>'").state("LAST.sh", "echo '<result>ok</result>'");
    rig.state("ONE.md", "One {{i}}.").state("TWO.md", "Two {{i}}.");
    rig.agent(
        r#"[{"match": "One", "reply": "<goto>TWO</goto>", "cost": 0.01},
            {"match": "Two", "reply": "<result>w</result>", "cost": 0.02, "hold": "go"}]"#,
    );
    let live = rig.start(&["workflow", "--id", "r"]);
    rig.wait_for_calls(6);
    live.kill();
    rig.open_gate("go");
    rig.resume().assert(0, "ok\n");
    let calls = rig.calls();
    assert_eq!(calls.len(), 9);
    for call in &calls[6..] {
        let number = call["prompt"].as_str().unwrap().trim().trim_start_matches("Two ").to_owned();
        assert_eq!(memory(call), [format!("One {number} → <goto>TWO</goto>")]);
    }
    assert_cost(&rig.status(), 0.09);
    rig.assert_nothing_lives();
}

/// If a turn ends after its Raymond has died, its result is ignored.
#[test]
fn a_turn_that_ends_after_raymond_died_is_ignored() {
    let rig = two_turns();
    let live = rig.start(&["workflow", "--id", "r"]);
    rig.wait_for_calls(2);
    rig.open_gate("go");
    live.kill();
    wait_until("the end of the first turn", || !is_alive(&rig.calls()[1]));
    rig.resume().assert(0, "worked\n");
    assert!(rig.calls().len() <= 3);
    rig.assert_nothing_lives();
}

/// What a wrapper around the agent program prints instead of a cost must not lose the turn, and is never counted as zero.
#[test]
fn a_cost_that_cannot_be_is_estimated_and_keeps_the_reply() {
    for figure in ["NaN", "1e400", "-Infinity", "-3", "null", "\"x\""] {
        let rig = Rig::new(RAYMOND);
        rig.agent(r#"[{"reply": "<result>kept</result>", "cost": 0.25}]"#).state("START.md", "Go.");
        let wrapper = format!(
            "#!/bin/sh\n'{}' \"$@\" | sed -E 's/\"(total_cost_usd|costUSD)\":[0-9.e-]+/\"\\1\":{figure}/g'\n",
            rig.fake().join("bin/claude").display()
        );
        let wrapper = rig.write("wrapper", wrapper);
        std::fs::set_permissions(&wrapper, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
        rig.write(".raymond/config.toml", format!("[backend.claude]\ncommand = \"{}\"\n", wrapper.display()));
        rig.run().assert(0, "kept\n");
        let cost = rig.status()["cost_usd"].as_f64().unwrap();
        assert!(cost > 0.0 && cost < 10.0, "{figure}: {cost}");
    }
}

/// What the meta file of a step holds, by the beginning of its name.
fn meta(rig: &Rig, step: &str) -> Value {
    let folder = rig.path(".raymond/debug/r");
    let files = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let is_wanted = |path: &std::path::PathBuf| {
        let name = path.file_name().unwrap().to_str().unwrap();
        name.starts_with(step) && name.ends_with(".meta.json")
    };
    let file = files.into_iter().find(is_wanted).unwrap();
    serde_json::from_slice(&std::fs::read(file).unwrap()).unwrap()
}

#[test]
fn an_agent_may_use_its_task_folder_and_settings_may_name_it() {
    let rig = Rig::new(RAYMOND);
    rig.state(
        "START.md",
        "---\nadd_dirs: [ \"../{{agent_id}}\" ]\nallow_tools: [ \"Read({{task_folder}}/**)\", \"Bash({{input}})\" ]\n---\nStart in {{task_folder}}.",
    );
    rig.agent(r#"[{"reply": "<result>done</result>"}]"#);
    rig.raymond(&["workflow", "--id", "r", "--input", "echo {{run_id}}"]).assert(0, "done\n");
    let command: Vec<String> = serde_json::from_value(meta(&rig, "main_START")["command"].clone()).unwrap();
    let prompt = rig.calls()[0]["prompt"].as_str().unwrap().to_owned();
    let task_folder = prompt.trim().strip_prefix("Start in ").unwrap().trim_end_matches('.');
    let values = |flag: &str| -> Vec<&str> {
        let pairs = command.windows(2).filter(|pair| pair[0] == flag);
        pairs.map(|pair| pair[1].as_str()).collect()
    };
    assert_eq!(values("--add-dir"), ["../main", task_folder]);
    assert_eq!(
        values("--allowedTools"),
        [format!("Read({task_folder}/**)").as_str(), "Bash(echo {{run_id}})"]
    );
}

/// A fork's attribute is whatever a script or a model has written, and an input of the workflow what the person has given.
#[test]
fn a_value_neither_ends_a_tool_rule_nor_leads_to_another_folder_or_server() {
    let cases = [
        ("allow_tools: [ \"Bash(git add {{x}})\" ]", "a) Bash(rm:*", "`)`"),
        ("allow_tools: [ \"{{x}}\" ]", "Bash", "the tool"),
        ("deny_tools: [ \"Bash(git push {{x}})\" ]", "main,", "`,`"),
        ("allow_tools: [ \"Edit(docs/{{x}}/**)\" ]", "../..", "`..`"),
        ("add_dirs: [ \"../{{x}}\" ]", "../../etc", "`/`"),
        ("add_dirs: [ \"{{x}}\" ]", "/etc", "the whole path"),
        ("mcp_config: [ \"{{x}}\" ]", "evil.json", "a tool server"),
    ];
    for (setting, value, wrong) in cases {
        let key = setting.split(':').next().unwrap();
        let rig = Rig::new(RAYMOND);
        rig.write("workflow/workflow.yaml", "inputs:\n  x: { type: string, required: true }\n");
        rig.state("START.sh", format!("echo '<fork next=\"END\" x=\"{value}\">WORK</fork>'"));
        rig.state("WORK.md", format!("---\n{setting}\n---\nWork."))
            .state("END.sh", "echo '<result>end</result>'");
        rig.agent(r#"[{"reply": "<result>done</result>"}]"#);
        let done = rig.raymond(&["workflow", "--id", "r", "--set", "x=innocent"]);
        done.assert(1, "").says("WORK.md").says(&format!("`{key}`: the value of {{{{x}}}}")).says(wrong);
        assert!(rig.calls().is_empty(), "{setting}");
    }
}

/// Some agent programs take the word behind `-m` for an option of its own if it looks like one. A workflow may switch off `lint`, and
/// not this.
#[test]
fn a_model_that_looks_like_an_option_reaches_no_agent_program() {
    let rig = two_turns();
    let refused = |args: &[&str], what: &str| {
        let done = rig.raymond(args);
        assert!([1, 2].contains(&done.exit), "{args:?}: {done:?}");
        done.says(what).says("as an option of the agent program does");
        assert!(rig.calls().is_empty(), "{args:?}");
    };
    assert_eq!(rig.raymond(&["workflow", "--model=--yolo"]).exit, 2);
    refused(&["workflow", "--model=--yolo", "--no-lint"], "the model `--yolo`");
    refused(&["workflow", "--effort=-x", "--no-lint"], "the effort `-x`");
    rig.state("workflow.yaml", "lint: off\n").state("START.md", "---\nmodel: --skip\n---\nStart.");
    refused(&["workflow"], "the model `--skip`");
}

#[test]
fn a_declared_input_chooses_folders_and_tool_servers() {
    let rig = Rig::new(RAYMOND);
    rig.write("workflow/workflow.yaml", "inputs:\n  x: { type: string, required: true }\n");
    rig.state("START.md", "---\nadd_dirs: [ \"{{x}}\" ]\nmcp_config: [ \"{{x}}/mcp.json\" ]\n---\nWork.");
    rig.agent(r#"[{"reply": "<result>done</result>"}]"#);
    rig.raymond(&["workflow", "--id", "r", "--set", "x=../other"]).assert(0, "done\n");
    let command = meta(&rig, "main_START")["command"].to_string();
    assert!(command.contains(r#""--add-dir","../other""#), "{command}");
    assert!(command.contains(r#""--mcp-config","../other/mcp.json""#), "{command}");
}

/// The agent program writes its stream as JSON, with escapes.
#[test]
fn a_secret_that_json_writes_with_escapes_is_in_no_file_of_a_turn() {
    let rig = Rig::new(RAYMOND);
    rig.state("START.md", "Say it.");
    let secret = "se\"cret\\line\nnext";
    let reply = serde_json::json!([{ "reply": format!("It is {secret}. <result>done</result>") }]);
    rig.agent(&reply.to_string());
    let mut run = rig.command(&["workflow", "--id", "r", "--record", "r.rec.jsonl"]);
    run.env("MY_PASSWORD", secret);
    rig.launch(run).wait().assert(0, "done\n");
    let streamed = rig.read(".raymond/debug/r/main_START_1.jsonl");
    assert!(streamed.contains("It is ***."), "{streamed}");
    let recorded = rig.read("r.rec.jsonl");
    for text in [streamed, recorded, rig.read(".raymond/state/r.jsonl")] {
        assert!(!text.contains("cret"), "{text}");
        for line in text.lines() {
            serde_json::from_str::<Value>(line).unwrap_or_else(|error| panic!("{error}: {line}"));
        }
    }
}

/// The task folder is outside the agent's own folder in all these cases, so the program has to be told that it may use it.
#[test]
fn the_task_folder_is_allowed_with_cd_in_a_worktree_and_from_a_subfolder() {
    let rig = Rig::new(RAYMOND);
    rig.state("START.sh", "mkdir -p elsewhere; echo '<reset cd=\"elsewhere\">THERE</reset>'");
    rig.state("THERE.md", "In {{task_folder}}");
    rig.agent(
        r#"[{ "run": "test -d \"$RAYMOND_TASK_FOLDER\" && touch \"$RAYMOND_TASK_FOLDER/used\"",
             "reply": "<result>done</result>" }]"#,
    );
    let git = |args: &[&str]| {
        let mut command = rig.program("git");
        command.args(["-c", "user.name=x", "-c", "user.email=x@x"]).args(args);
        assert_eq!(rig.launch(command).wait().exit, 0, "git {args:?}");
    };
    rig.write("sub/kept", "");
    git(&["init", "-q"]);
    git(&["add", "."]);
    git(&["commit", "-qm", "x"]);
    git(&["worktree", "add", "-q", "../linked"]);
    let linked = rig.work().parent().unwrap().join("linked");
    for (number, (folder, workflow)) in
        [(rig.work(), "workflow"), (rig.work().join("sub"), "../workflow"), (linked.clone(), "workflow")]
            .into_iter()
            .enumerate()
    {
        let mut command = rig.command(&[workflow, "--id", &format!("r{number}")]);
        command.current_dir(&folder);
        rig.launch(command).wait().assert(0, "done\n");
        let call = &rig.calls()[number];
        let task_folder = call["prompt"].as_str().unwrap().trim().strip_prefix("In ").unwrap();
        let args: Vec<String> = serde_json::from_value(call["argv"].clone()).unwrap();
        let allowed = args.windows(2).filter(|pair| pair[0] == "--add-dir").map(|pair| pair[1].as_str());
        assert_eq!(allowed.collect::<Vec<_>>(), [task_folder], "{args:?}");
        assert!(std::path::Path::new(task_folder).join("used").is_file(), "{task_folder}");
        assert!(call["cwd"].as_str().unwrap().ends_with("/elsewhere"), "{call}");
        let home = if number == 2 { linked.clone() } else { rig.work() };
        assert!(std::path::Path::new(task_folder).starts_with(home.join(".raymond")), "{task_folder}");
    }
}

#[test]
fn a_value_is_changed_only_where_it_would_be_acted_on_and_the_meta_file_says_so() {
    let rig = Rig::new(RAYMOND);
    rig.write("secret.txt", "x");
    rig.state("START.md", "Look: {{input}}");
    rig.agent(r#"[{"reply": "<result>done</result>"}]"#);
    let input = "npm install @types/node, @dataclass, and @secret.txt";
    rig.raymond(&["workflow", "--id", "r", "--input", input]).assert(0, "done\n");
    let expected = format!("Look: {}", input.replace("@secret", "\u{200B}@secret"));
    assert_eq!(rig.calls()[0]["prompt"], expected);
    assert_eq!(meta(&rig, "main_START")["changed_values"], json!(["@secret.txt"]));
}

#[test]
fn a_prompt_that_uses_an_input_that_was_not_given_is_warned_of() {
    let rig = Rig::new(RAYMOND);
    rig.agent(r#"[ { "reply": "<result>ok</result>" } ]"#);
    let warnings = |body: &str, args: &[&str]| {
        rig.state("START.md", body);
        let done = rig.raymond(&[&["workflow", "--json"], args].concat());
        done.assert_is(0);
        let events = done.lines().filter(|event| event["event"] == "warning");
        events.map(|event| event["message"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    for name in ["input", "result", "input.a.b"] {
        let body = format!("Do {{{{{name}}}}}.");
        let found = warnings(&body, &[]);
        let expected = format!("START.md uses `{{{{{name}}}}}`, and the run was given no input");
        assert!(matches!(found.as_slice(), [one] if one.starts_with(&expected)), "{found:?}");
        assert_eq!(warnings(&body, &["--input", ""]), Vec::<String>::new());
    }
    assert_eq!(warnings("Do it, {{agent_id}}, {{inputs}}.", &[]), Vec::<String>::new());
}
