//! What a workflow needs of its backends: refusals before anything is run, and the traps of agent programs.

use std::fs;
use std::process::Command;

use serde_json::Value;
use test_kit::rig::{Rig, wait_for_file, wait_until};

use crate::RAYMOND;
use crate::repository::{commit, init};

/// A project with this config file and a workflow whose files are given with their texts.
fn project(config: &str, files: &[(&str, &str)]) -> Rig {
    let rig = Rig::new(RAYMOND);
    rig.write(".raymond/config.toml", config);
    for (name, text) in files {
        rig.state(name, text);
    }
    rig
}

/// Two states, of which the second goes on in the conversation of the first.
const GOES_ON: &[(&str, &str)] = &[("START.md", "Begin. <goto>NEXT</goto>"), ("NEXT.md", "Go on.")];

/// A backend of this kind whose program only leaves a trace, and fails so that it is not tried again.
fn tracing_backend(kind: &str, more: &str) -> String {
    format!(
        "[backend.b]\nkind = \"{kind}\"\ncommand = \"sh\"\nargs = [\"-c\", \"touch started; echo error: No authentication information >&2; exit 7\"]\n{more}\n"
    )
}

#[test]
fn what_a_backend_lacks_is_refused_before_anything_runs() {
    const NO_BUDGET: &[&str] = &["--budget", "0"];
    let set = |setting: &str| format!("---\n{setting}\n---\nBegin.");
    let lacks = |what: &str| {
        format!(
            "START.md: `{what}` is set for it, which its backend `b` does not take\n  → leave it out, or choose"
        )
    };
    let refusals: Vec<(&str, &str, String, &[&str], String)> = vec![
        ("command", "", set("model: m"), NO_BUDGET, lacks("model")),
        ("acp", "", set("model: m"), NO_BUDGET, lacks("model")),
        ("gemini", "", set("effort: high"), NO_BUDGET, lacks("effort")),
        ("codex", "", set("allow_tools: [Bash]"), NO_BUDGET, lacks("allow_tools")),
        ("copilot", "", set("deny_tools: [Bash]"), NO_BUDGET, lacks("deny_tools")),
        ("opencode", "", set("add_dirs: [docs]"), NO_BUDGET, lacks("add_dirs")),
        ("pi", "", set("mcp_config: [m.json]"), NO_BUDGET, lacks("mcp_config")),
        ("command", "", set("max_visits: 2"), &["--budget", "0", "--dangerously-skip-permissions"], lacks("dangerously_skip_permissions")),
        ("copilot", "", set("max_visits: 2"), &[], "(only tokens, and without a `model` they have no price)".to_owned()),
        ("acp", "", set("max_visits: 2"), &[], "START.md: its backend `b` does not tell the cost of a turn, so that no budget holds it\n  → run it without a budget: --budget 0".to_owned()),
        ("codex", "", set("max_visits: 2"), &[], "(only tokens, and without a `model` they have no price)".to_owned()),
        ("gemini", "", set("model: new-model"), &[], "(only tokens, and the model `new-model` has no price), so that no budget holds it".to_owned()),
        ("gemini", "", set("model: new-model"), &["--budget", "5"], "or choose a `model` with a price; [prices] in the config file adds one: \"new-model\" = { input = …, output = … } under [prices]".to_owned()),
        ("pi", "", set("effort: huge"), &[], "huge".to_owned()),
    ];
    for (kind, more, start, args, expected) in refusals {
        let rig = project(&tracing_backend(kind, more), &[("START.md", &start)]);
        let done = rig.raymond(&[&["workflow", "--id", "r", "--backend", "b"], args].concat());
        done.assert(2, "").says(&expected);
        assert!(!rig.path("started").exists(), "{kind} {start}: no program is started");
        assert!(!rig.journal().exists(), "{kind} {start}: no run is left behind");
    }
}

#[test]
fn a_conversation_that_cannot_be_branched_is_refused_with_the_way_out() {
    for kind in ["copilot", "gemini", "acp", "command"] {
        let resume = if kind == "command" { "resume_args = [\"{session}\"]" } else { "" };
        let rig = project(&tracing_backend(kind, resume), GOES_ON);
        let done = rig.raymond(&["workflow", "--id", "r", "--backend", "b", "--budget", "0"]);
        done.assert(2, "")
            .says("NEXT.md: <goto> in START.md leads there with the conversation kept, and the backend `b` cannot branch one")
            .says("without_branch = \"continue\" under [backend.b] in the config file");
        assert!(!rig.path("started").exists());
    }
    let rig = project(&tracing_backend("command", ""), GOES_ON);
    let done = rig.raymond(&["workflow", "--backend", "b", "--budget", "0"]);
    done.assert(2, "").says("the backend `b` cannot continue one");
}

#[test]
fn what_was_accepted_is_said_when_a_run_begins() {
    for (kind, accepts, said) in [
        (
            "copilot",
            "without_branch = \"continue\"\ncost = \"none\"",
            "continues conversations themselves (`without_branch`)",
        ),
        ("copilot", "cost = \"none\"", "is not held by the budget (`cost = \"none\"`)"),
        ("codex", "cost = \"none\"", "is not held by the budget (`cost = \"none\"`)"),
    ] {
        let rig =
            project(&tracing_backend(kind, accepts), &[("START.md", "---\nmodel: new-model\n---\nBegin.")]);
        let done = rig.raymond(&["workflow", "--id", "r", "--backend", "b", "--budget", "5"]);
        assert_eq!(done.exit, 1, "it started, and its program failed: {}", done.stderr);
        done.says(said);
        assert!(rig.path("started").exists());
    }
}

#[test]
fn a_prompt_that_would_be_cut_is_not_sent() {
    for (kind, length, limit) in
        [("gemini", 8_000_001, "8000000 bytes"), ("codex", 1_048_577, "1048576 characters")]
    {
        let rig = project(&tracing_backend(kind, ""), &[("START.md", &"x".repeat(length))]);
        let done = rig.raymond(&["workflow", "--id", "r", "--backend", "b", "--budget", "0"]);
        done.assert(1, "")
            .says(&format!("the prompt is longer than the {limit} that the backend `b` takes"))
            .says("put the long part into a file, and let the prompt name the file");
        assert!(!rig.path("started").exists(), "{kind}: no program is started");
    }
}

/// Continues its conversation as soon as the gate is open.
const PATIENT: &str = "[backend.b]\nkind = \"command\"\ncommand = \"sh\"\n\
    args = [\"-c\", \"cat > /dev/null; echo '<goto>NEXT</goto>'\"]\n\
    resume_args = [\"-c\", \"cat > /dev/null; echo $1 >> turns; touch began; while [ ! -e gate ]; do sleep 0.05; done; \
    echo '<result>done</result>'\", \"-\", \"{session}\"]\n\
    without_branch = \"continue\"\ncost = \"none\"\n";

/// A copy of a run knows the same conversation as the run itself.
#[test]
fn two_runs_do_not_continue_one_conversation_at_the_same_time() {
    let rig = project(PATIENT, GOES_ON);
    let live = rig.start(&["workflow", "--id", "r", "--backend", "b"]);
    wait_for_file(&rig.path("began"));
    live.kill();
    let copied = Command::new("cp").args(["-r", ".raymond/state", "copied"]).current_dir(rig.work()).status();
    assert!(copied.unwrap().success());
    fs::remove_file(rig.path("began")).unwrap();
    let live = rig.start(&["resume", "r"]);
    wait_for_file(&rig.path("began"));
    let other = rig.start(&["resume", "r", "--state-dir", "copied"]);
    other.wait_for_stderr("the session id is taken: another turn runs in session");
    assert_eq!(rig.read("turns").lines().count(), 2, "the turn of the copy has not begun");
    rig.write("gate", "");
    live.wait().assert(0, "done\n");
    other.wait().assert(0, "done\n");
}

/// An old codex, without `app-server`.
const OLD_CODEX: &str = "#!/bin/sh\necho \"$*\" >> calls\ncase \"$*\" in\n\
    *app-server*) echo \"error: unrecognized subcommand 'app-server'\" >&2; exit 2 ;;\nesac\ncat > /dev/null\n\
    echo '{\"type\":\"thread.started\",\"thread_id\":\"t1\"}'\n\
    echo '{\"type\":\"item.completed\",\"item\":{\"type\":\"agent_message\",\"text\":\"<result>done</result>\"}}'\n\
    echo '{\"type\":\"turn.completed\",\"usage\":{\"input_tokens\":1000000,\"output_tokens\":0}}'\n";

#[test]
fn a_program_without_the_richer_command_is_used_by_the_other_one() {
    let rig = project(
        "[backend.codex]\ncommand = \"sh\"\nargs = [\"./old.sh\"]\nmodel = \"gpt-5\"\n",
        &[("START.md", "Begin.")],
    );
    rig.write("old.sh", OLD_CODEX);
    let done = rig.raymond(&["workflow", "--id", "r", "--backend", "codex"]);
    done.assert(0, "done\n")
        .says("this version has no `app-server`; its turns are run with `exec` from now on");
    let calls = rig.read("calls");
    let calls: Vec<&str> = calls.lines().collect();
    assert!(calls.len() == 2 && calls[0] == "app-server" && calls[1].starts_with("exec --json"), "{calls:?}");
    assert_eq!(rig.status()["cost_usd"], 1.25);
}

/// A program that tells its tokens only at its end, and does not come to it.
const HALF_A_TURN: &str = "cat > /dev/null\n\
    echo '{\"type\":\"init\",\"session_id\":\"x\"}'\n\
    echo '{\"type\":\"message\",\"role\":\"user\",\"content\":\"Begin.\"}'\n\
    echo '{\"type\":\"message\",\"role\":\"assistant\",\"content\":\"half an answer\"}'\n\
    exec sleep 600\n";

/// The price of the state's own model counts, and not that of the run.
#[test]
fn a_lost_turn_that_told_nothing_is_estimated_with_its_own_price() {
    for (model, dearer) in [("dear", 10.0), ("cheap", 1.0)] {
        let config = "[raymond]\nmodel = \"cheap\"\n[backend.gemini]\ncommand = \"sh\"\nargs = [\"./half.sh\"]\n\
                      [prices]\ncheap = { input = 1.0, output = 1.0 }\ndear = { input = 10.0, output = 10.0 }\n";
        let rig = project(config, &[("START.md", &format!("---\nmodel: {model}\n---\nBegin."))]);
        rig.write("half.sh", HALF_A_TURN);
        let live = rig.start(&["workflow", "--id", "r", "--backend", "gemini"]);
        let printed = || {
            let files = fs::read_dir(rig.path(".raymond/debug/r")).into_iter().flatten().flatten();
            files
                .filter_map(|file| fs::read_to_string(file.path()).ok())
                .any(|text| text.contains("half an answer"))
        };
        wait_until("half an answer", printed);
        live.kill();
        rig.write("half.sh", "exit 1");
        rig.resume();
        let resumed = rig.events().into_iter().find(|event| event["event"] == "run_resumed").unwrap();
        let estimate = resumed["interrupted"][0]["estimated_cost_usd"].as_f64().unwrap();
        let tokens = estimate * 1e6 / dearer;
        assert!((9_000.0..9_100.0).contains(&tokens), "{model}: {estimate}");
    }
}

/// A backend of the kind `command` that answers with this text.
fn answering(name: &str, answer: &str) -> String {
    format!(
        "[backend.{name}]\nkind = \"command\"\ncommand = \"sh\"\ncost = \"none\"\n\
         args = [\"-c\", \"cat > /dev/null; echo '{answer}'\"]\n"
    )
}

#[test]
fn a_list_of_backends_can_be_chosen_in_each_place() {
    let missing = "[backend.first]\nkind = \"command\"\ncommand = \"./not-there\"\ncost = \"none\"\n";
    let backends = format!("{missing}{}", answering("second", "<result>second</result>"));
    let in_config = format!("[raymond]\nbackend = \"first,second\"\n{backends}");
    let as_list = format!("[raymond]\nbackend = [\"first\", \"second\"]\n{backends}");
    let list = "backend: [first, second]";
    let in_state = format!("---\n{list}\n---\nBegin.");
    for (config, state, manifest, args) in [
        (&backends, in_state.as_str(), "", &[][..]),
        (&backends, "Begin.", list, &[]),
        (&backends, "Begin.", "", &["--backend", "first,second"]),
        (&in_config, "Begin.", "", &[]),
        (&as_list, "Begin.", "", &[]),
    ] {
        let rig = project(config, &[("START.md", state)]);
        if !manifest.is_empty() {
            rig.state("workflow.yaml", manifest);
        }
        let done = rig.raymond(&[&["workflow", "--id", "r"], args].concat());
        done.assert(0, "second\n").says("the program of the backend `first` was not found; `second` is used");
    }
}

#[test]
fn a_list_of_backends_without_a_name_is_refused() {
    let rig = project("", &[("START.md", "Begin.")]);
    for list in ["", "claude,", ",claude", "claude, ,codex"] {
        rig.raymond(&["workflow", "--backend", list]).assert(2, "").says("the name of a backend is missing");
    }
}

#[test]
fn one_run_mixes_backends_and_each_agent_keeps_its_own() {
    let config = [
        answering("one", "<fork next=\\\"MORE\\\">WORK</fork>"),
        answering("two", "<result>by two</result>"),
        answering("three", "<result>by three</result>"),
    ];
    let rig = project(
        &config.concat(),
        &[
            ("START.md", "---\nbackend: one\n---\nBegin."),
            ("WORK.md", "---\nbackend: two\n---\nWork."),
            ("MORE.sh", "echo '<reset>LAST</reset>'"),
            ("LAST.md", "---\nbackend: three\n---\nEnd."),
        ],
    );
    rig.raymond(&["workflow", "--id", "r"]).assert(0, "by three\n");
    let started = rig.events().into_iter().filter(|event| event["event"] == "step_started");
    let mut backends: Vec<(String, String)> = started
        .filter_map(|event| {
            Some((event["state"].as_str()?.to_owned(), event["backend"].as_str()?.to_owned()))
        })
        .collect();
    backends.sort_unstable();
    let pairs = [("LAST.md", "three"), ("START.md", "one"), ("WORK.md", "two")];
    assert_eq!(backends, pairs.map(|(state, backend)| (state.to_owned(), backend.to_owned())));
}

/// An agent that speaks the Agent Client Protocol, with a conversation in a file for each session.
pub(crate) const ACP_AGENT: &str = r##"
import json, sys
def send(message):
    print(json.dumps(dict(message, jsonrpc="2.0")), flush=True)
for line in sys.stdin:
    asked = json.loads(line)
    method, params, id = asked.get("method"), asked.get("params", {}), asked.get("id")
    if method == "initialize":
        can = {"loadSession": True, "sessionCapabilities": {"fork": {}}}
        send({"id": id, "result": {"protocolVersion": 1, "agentCapabilities": can}})
    elif method in ("session/new", "session/fork"):
        old = open(params["sessionId"]).read() if method == "session/fork" else ""
        session = "s" + str(len(old.splitlines()) + 1)
        open(session, "w").write(old)
        send({"id": id, "result": {"sessionId": session}})
    elif method == "session/prompt":
        session, text = params["sessionId"], params["prompt"][0]["text"].strip()
        open(session, "a").write(text + "\n")
        said = open(session).read().splitlines()
        answer = "<goto>NEXT</goto>" if len(said) == 1 else "<result>" + " / ".join(said) + "</result>"
        chunk = {"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": answer}}
        send({"method": "session/update", "params": {"sessionId": session, "update": chunk}})
        send({"id": id, "result": {"stopReason": "end_turn"}})
"##;

const ACP_CONFIG: &str = "[backend.mine]\nkind = \"acp\"\ncommand = \"python3\"\nargs = [\"./agent.py\"]\n\
    branches = true\ncost = \"none\"\n";

#[test]
fn any_program_that_speaks_the_agent_client_protocol_can_be_used() {
    let rig = project(ACP_CONFIG, GOES_ON);
    rig.write("agent.py", ACP_AGENT);
    let done = rig.raymond(&["workflow", "--id", "r", "--backend", "mine"]);
    done.assert(0, "Begin. <goto>NEXT</goto> / Go on.\n");
    assert_eq!(rig.read("s1").lines().count(), 1, "the first conversation stays as it was");
    let sessions: Vec<Value> =
        rig.events().into_iter().filter(|event| event["event"] == "session_started").collect();
    assert_eq!((&sessions[0]["session"], &sessions[1]["session"]), (&"s1".into(), &"s2".into()));
}

/// Failures that no other test sees from outside: what the program does, and what is said of it.
#[test]
fn a_turn_that_cannot_succeed_fails_at_once_with_what_to_do() {
    let acp = |agent: String| (ACP_CONFIG.to_owned(), agent);
    let unable = ACP_AGENT.replace("\"fork\": {}", "");
    let refused = ACP_AGENT.replace(
        "session, text = params",
        "send({\"id\": id, \"error\": {\"code\": 403, \"message\": \"no credit\"}}); continue\n        session, text = params",
    );
    let in_place = "[backend.mine]\nkind = \"command\"\ncommand = \"sh\"\ncost = \"none\"\n\
                    args = [\"-c\", \"echo '<goto>NEXT</goto>'\"]\nresume_args = [\"{session}\"]\n";
    let untold = "[backend.mine]\nkind = \"codex\"\ncommand = \"sh\"\nargs = [\"./agent.py\", \"-a\", \"never\"]\n\
                  cost = \"none\"\n";
    let says_no_session = "cat > /dev/null\n\
        echo '{\"type\":\"item.completed\",\"item\":{\"type\":\"agent_message\",\"text\":\"hi\"}}'\n\
        echo '{\"type\":\"turn.completed\",\"usage\":{}}'\n";
    for ((config, agent), expected, advice) in [
        (
            acp(unable),
            "it does not announce `session/fork`, which continues a conversation",
            "check the backend's `args`",
        ),
        (
            acp(refused),
            "the account was refused: no credit",
            "check the account's access and credit, then resume",
        ),
        (
            (in_place.to_owned(), String::new()),
            "the backend `mine` cannot branch a conversation, which this turn needs",
            "lead to the state with <reset> or <function>",
        ),
        (
            (untold.to_owned(), says_no_session.to_owned()),
            "the agent program did not tell which session it ran in",
            "check the backend's `args` for session options",
        ),
    ] {
        let rig = project(&config, &[("START.md", "Begin."), ("NEXT.md", "Go on.")]);
        rig.write("agent.py", agent);
        let done = rig.raymond(&["workflow", "--id", "r", "--backend", "mine", "--budget", "0"]);
        done.assert(1, "").says(expected).says(advice);
        assert!(rig.events().iter().all(|event| event["event"] != "retry"), "{expected}");
    }
}

/// A branch with files of its own works in another folder, in which such a program would not find the conversation.
#[test]
fn a_conversation_that_is_bound_to_its_folder_is_not_continued_in_another() {
    let rig = project(ACP_CONFIG, GOES_ON);
    init(&rig, ".");
    rig.write(".gitignore", "/workflow\n");
    rig.write("agent.py", ACP_AGENT);
    commit(&rig, ".", "the agent");
    rig.raymond(&["workflow", "--id", "r", "--backend", "mine", "--snapshots"])
        .assert(0, "Begin. <goto>NEXT</goto> / Go on.\n");
    let dir = rig.path("..").canonicalize().unwrap().join("restored");
    let dir = dir.to_str().unwrap();
    let branch = ["branch", "r", "--at", "1", "--id", "b", "--files", "--worktree", dir];
    rig.raymond(&branch).assert(0, "b\n");
    rig.raymond(&["resume", "b"])
        .assert(1, "")
        .says(&format!("the conversation began in {}", rig.work().display()))
        .says("the backend `mine` can continue it only there")
        .says("change folders with <reset>, or choose another backend for the state");
    assert!(!rig.path("../restored/s2").exists(), "no program is started");
}

/// Names of agent programs that are not also ordinary words, and the files that may know them.
#[test]
fn nothing_outside_its_file_knows_an_agent_program() {
    let names = ["claude", "codex", "gemini", "opencode", "copilot", "anthropic", "openai"];
    let may_know = |file: &str| {
        // The programs themselves, the table of kinds, and the default in the help.
        file.starts_with("agent/") || ["agent.rs", "cli/args.rs"].contains(&file)
    };
    let root = concat!(env!("CARGO_MANIFEST_DIR"), "/src");
    let mut wrong = Vec::new();
    for file in rust_files(root.as_ref()) {
        let name = file.strip_prefix(root).unwrap().display().to_string().replace('\\', "/");
        let text = fs::read_to_string(&file).unwrap();
        // What tests at the end of a file write is only an example.
        let code = text.split("#[cfg(test)]\nmod tests").next().unwrap().to_lowercase();
        let is_test = name.ends_with("tests.rs") || name.contains("/tests/");
        for (line, number) in code.lines().zip(1..).filter(|_| !is_test && !may_know(&name)) {
            if !line.trim_start().starts_with("//") && names.iter().any(|program| line.contains(program)) {
                wrong.push(format!("{name}:{number}: {}", line.trim()));
            }
        }
    }
    assert!(wrong.is_empty(), "these belong into a file under agent/:\n{}", wrong.join("\n"));
}

/// Inside, what the programs share knows none of them either.
#[test]
fn what_agent_programs_share_knows_none_of_them() {
    let shared = [
        "ending", "estimate", "events", "fault", "launcher", "lines", "price", "program", "reader",
        "refusal", "registry", "rpc", "session", "turn",
    ];
    for module in shared {
        let file = format!("{}/src/agent/{module}.rs", env!("CARGO_MANIFEST_DIR"));
        let text = fs::read_to_string(&file).unwrap();
        let code = text.split("#[cfg(test)]\nmod tests").next().unwrap().to_lowercase();
        for name in ["claude", "codex", "gemini", "opencode", "copilot"] {
            assert!(!code.contains(name), "{file} knows {name}");
        }
    }
}

fn rust_files(folder: &std::path::Path) -> Vec<std::path::PathBuf> {
    let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let found = entries.flat_map(|path| match path.is_dir() {
        true => rust_files(&path),
        false => vec![path],
    });
    found.filter(|path| path.extension().is_some_and(|ending| ending == "rs")).collect()
}
