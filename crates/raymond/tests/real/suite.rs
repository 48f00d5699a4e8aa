//! What every agent program has to show, as far as its capabilities go.

use mock_api::{Usage, refuse, say};
use raymond::agent::TokensTold;
use raymond::agent::session::{SessionPlace, export, import};
use rustix::process::Signal;
use serde_json::Value;
use test_kit::rig::{send, wait_for_file, wait_until};

use crate::Case;
use crate::bench::{Account, Bench};
use crate::programs::{Cut, Program};

pub(crate) const CASES: &[Case] = &[
    ("every::each_transition_has_the_right_conversation", transitions),
    ("every::a_state_without_a_model_gets_none_of_another_state", own_model),
    ("every::tokens_of_each_turn_are_counted_once", money),
    ("every::a_turn_of_a_killed_program_is_tried_again", retried),
    ("every::a_killed_run_goes_on_with_the_same_conversation", resumed),
    ("every::a_lost_conversation_is_not_begun_anew", lost),
    ("every::a_usage_limit_ends_the_run_with_no_wait", limit),
    ("every::a_long_wait_of_the_program_is_a_usage_limit", long_wait),
    ("every::a_refused_login_fails_at_once", login),
    ("every::an_unknown_model_fails_at_once", unknown_model),
    ("every::an_answer_that_was_cut_is_noticed", cut),
    ("every::a_stop_leaves_no_process_behind", stopped),
    ("every::a_value_makes_the_program_read_no_file", values),
    ("every::a_function_in_another_folder_returns_to_the_conversation", other_folder),
    ("every::a_conversation_moves_to_another_home", moved),
    ("every::a_ping_of_doctor_is_answered", pinged),
    ("every::a_ping_of_doctor_tells_a_refused_login", pinged_in_vain),
];

/// The prompts of the states below, and how the agent answers.
const STATES: [(&str, &str, &str); 8] = [
    ("START", "begin", "<goto>PLAN</goto>"),
    ("PLAN", "plan", "<call return=\"BACK\">CHILD</call>"),
    ("CHILD", "child", "<result>called</result>"),
    ("BACK", "back with {{result}}", "<reset>ANEW</reset>"),
    ("ANEW", "anew", "<fork next=\"PARENT\">WORKER</fork>"),
    ("WORKER", "worker", "<result>worked</result>"),
    ("PARENT", "parent", "<join>LAST</join>"),
    ("LAST", "last", "<result>done</result>"),
];

/// A bench with a workflow of these states, and a model that answers as given.
fn bench(program: &Program, states: &[(&str, &str, &str)]) -> Bench {
    let bench = Bench::new(program);
    for (state, prompt, answer) in states {
        bench.state(&format!("{state}.md"), prompt);
        bench.api.on(prompt.split(" with").next().unwrap(), [say(answer)]);
    }
    bench
}

/// What people had said in the conversation in which this was asked last. Programs add texts of their own.
fn conversation(bench: &Bench, prompt: &str) -> Vec<String> {
    let asked = bench.asked(prompt);
    let last = asked.last().unwrap_or_else(|| panic!("no {prompt:?} in {:#?}", bench.api.requests()));
    let ours = last.history.iter().filter_map(|said| said.strip_prefix("user: ")).map(str::trim);
    let known =
        |said: &&str| STATES.iter().any(|(_, prompt, _)| said.split(' ').next() == prompt.split(' ').next());
    ours.filter(known).map(str::to_owned).collect()
}

fn transitions(program: &Program) {
    let bench = bench(program, &STATES);
    bench.run(&[]).assert(0, "done\n");
    assert_eq!(conversation(&bench, "plan"), ["begin", "plan"]);
    assert_eq!(conversation(&bench, "child"), ["begin", "plan", "child"]);
    // Without branches, the caller goes on in the conversation of the state that it called.
    let back: &[&str] = match program.capabilities().branch {
        true => &["begin", "plan", "back with called"],
        false => &["begin", "plan", "child", "back with called"],
    };
    assert_eq!(conversation(&bench, "back"), back);
    assert_eq!(conversation(&bench, "anew"), ["anew"]);
    assert_eq!(conversation(&bench, "worker"), ["worker"]);
    assert_eq!(conversation(&bench, "last"), ["anew", "parent", "last"]);
    // No tool waits for a person, and a branch has the tools of its parent, without which the service's cache is of no use.
    let tools = |prompt: &str| bench.asked(prompt).swap_remove(0).tools;
    assert!(!tools("plan").iter().any(|tool| tool == "question"), "{:?}", tools("plan"));
    assert_eq!(tools("plan"), tools("begin"));
}

/// A state that chooses no model and no effort has what a new conversation has.
fn own_model(program: &Program) {
    let can = program.capabilities();
    if !can.model {
        return;
    }
    let bench = Bench::without_model(program);
    let effort = if can.effort { "effort: high\n" } else { "" };
    let chosen = format!("---\nmodel: {}\n{effort}---\nbegin", program.kind.other_model);
    bench.state("START.md", chosen).state("PLAN.md", "plan").state("ANEW.md", "anew");
    bench.api.on("begin", [say("<goto>PLAN</goto>")]).on("plan", [say("<reset>ANEW</reset>")]);
    bench.api.on("anew", [say("<result>done</result>")]);
    bench.run(&["--budget", "0"]).assert(0, "done\n");
    let [begin, plan, anew] = ["begin", "plan", "anew"].map(|prompt| bench.asked(prompt).swap_remove(0));
    assert!(program.kind.other_model.ends_with(&begin.model), "{begin:#?}");
    assert_eq!((&plan.model, &plan.effort), (&anew.model, &anew.effort));
    assert_ne!(plan.model, begin.model);
}

fn money(program: &Program) {
    let can = program.capabilities();
    let Some([input, output, cached]) = program.kind.prices else {
        assert!(!can.cost && can.tokens == TokensTold::No);
        return;
    };
    let bench = bench(program, &[]);
    bench.state("START.md", "begin").state("PLAN.md", "plan");
    let used =
        |number: u64| Usage { input: 100 * number, output: 20 * number, cache_write: 0, cache_read: 10 };
    bench.api.on("begin", [say("<goto>PLAN</goto>").costing(used(1))]);
    bench.api.on("plan", [say("<result>done</result>").costing(used(2))]);
    bench.run(&[]).assert(0, "done\n");
    let finished = bench.events_of("step_finished");
    let costs: Vec<f64> = finished.iter().filter_map(|event| event["cost_usd"].as_f64()).collect();
    assert_eq!((costs.len(), bench.api.requests().len()), (2, 2), "{:#?}", bench.api.requests());
    for (cost, number) in costs.iter().zip(1..) {
        let used = used(number);
        let expected =
            used.input as f64 * input + used.output as f64 * output + used.cache_read as f64 * cached;
        assert!((cost * 1e6 - expected).abs() < 0.01, "{cost} for {used:?}, expected {expected}");
    }
}

/// The workflow of the two cases below, whose second turn is answered only at the second try.
fn interrupted(program: &Program) -> Bench {
    let bench = bench(program, &[("START", "begin", "<goto>PLAN</goto>"), ("PLAN", "plan", "")]);
    bench.api.on("plan", [say("half an answer").stuck(), say("<result>done</result>")]);
    bench
}

/// The half turn is not in the conversation, unless the program cannot branch.
#[track_caller]
fn assert_unharmed(program: &Program, bench: &Bench) {
    let plan = conversation(bench, "plan");
    match program.capabilities().branch {
        true => assert_eq!(plan, ["begin", "plan"]),
        false => assert!(plan.first().is_some_and(|said| said == "begin"), "{plan:?}"),
    }
    bench.assert_nothing_lives();
}

fn retried(program: &Program) {
    let bench = interrupted(program);
    let live = bench.start(&["workflow", "--id", "r"]);
    wait_until("the second turn", || bench.asked("plan").len() == 1);
    for (pid, _) in bench.survivors().into_iter().filter(|(pid, _)| *pid != live.pid()) {
        send(pid, Signal::KILL);
    }
    live.wait().assert(0, "done\n");
    assert_eq!(bench.events_of("retry").len(), 1);
    assert_unharmed(program, &bench);
}

fn resumed(program: &Program) {
    let bench = interrupted(program);
    let live = bench.start(&["workflow", "--id", "r"]);
    wait_until("the second turn", || bench.asked("plan").len() == 1);
    live.kill();
    bench.resume(&[]).assert(0, "done\n").says("was interrupted and runs again");
    assert_eq!(bench.asked("begin").len(), 1, "a completed turn is not repeated");
    assert_unharmed(program, &bench);
}

/// Where the programs keep their conversations.
const FORGET: &str = "rm -rf \"$HOME\"/.claude/projects ../agent/sessions ../agent/session-state ../agent/.gemini/tmp \
                      ../agent/.local/share/opencode\necho '<goto>PLAN</goto>'";

fn lost(program: &Program) {
    let bench = bench(
        program,
        &[("START", "begin", "<goto>FORGET</goto>"), ("PLAN", "plan", "<result>new</result>")],
    );
    bench.state("FORGET.sh", FORGET);
    let done = bench.run(&[]);
    done.assert(1, "");
    if program.kind.tells_lost {
        done.says("unknown to the agent program");
    }
    assert!(bench.asked("plan").is_empty(), "no money is spent");
}

fn limit(program: &Program) {
    let mut bench = bench(program, &[("START", "begin", "")]);
    bench.account = Account::Subscription;
    bench.api.on("begin", [(program.kind.limit)()]);
    bench.run(&["--no-wait"]).assert(5, "").says("limit");
    assert!(bench.events_of("step_finished").is_empty());
    let waiting = &bench.events_of("limit_waiting")[0];
    let time = |name: &str| waiting[name].as_str().unwrap().parse::<jiff::Timestamp>().unwrap();
    let seconds = time("until").duration_since(time("time")).as_secs();
    assert!(
        seconds > 0 && (!program.kind.tells_end_of_limit || (3000..3700).contains(&seconds)),
        "{waiting}"
    );
}

/// The service asks for a wait of hours. Some programs do that, without a word or with one line.
fn long_wait(program: &Program) {
    let mut bench = bench(program, &[("START", "begin", "")]);
    bench.account = Account::Subscription;
    if bench.path("../agent/config.toml").exists() {
        // As many tries as the program makes of its own accord.
        bench.write(
            "../agent/config.toml",
            bench.read("../agent/config.toml").replace("_max_retries = 0", "_max_retries = 5"),
        );
    }
    bench.api.on("begin", [refuse(429).header("retry-after", "7200")]);
    bench.run(&["--no-wait"]).assert(5, "").says("limit");
    bench.assert_nothing_lives();
}

fn login(program: &Program) {
    let bench = bench(program, &[("START", "begin", "")]);
    bench.api.on("begin", [refuse(401)]);
    bench.run(&[]).assert(1, "").says("not logged in");
    assert!(bench.events_of("retry").is_empty());
}

fn unknown_model(program: &Program) {
    let bench = bench(program, &[("START", "begin", "")]);
    let why = format!("The model `{}` does not exist", program.kind.model);
    bench.api.on("begin", [refuse(404).because("not_found_error", &why)]);
    bench.run(&[]).assert(1, "").says("the model is not available");
    assert!(bench.events_of("retry").is_empty());
}

fn cut(program: &Program) {
    let bench = bench(program, &[("START", "begin", "")]);
    bench.api.on("begin", [say("<result>half").cut(), say("<result>whole</result>")]);
    bench
        .api
        .on("ontinue", [say("<result>whole</result>")])
        .on("utput token", [say("<result>whole</result>")]);
    let done = bench.run(&[]);
    match program.kind.cut {
        Cut::Fails => drop(done.assert(1, "").says("cut at the model's limit")),
        Cut::GoesOn => drop(done.assert(0, "whole\n")),
        // Half a tag is a mistake of the agent.
        Cut::LooksWhole => drop(done.assert(1, "").says("its closing tag")),
    }
}

fn stopped(program: &Program) {
    let mut bench = bench(program, &[("START", "begin", "")]);
    bench.variables.push(("IS_SANDBOX", "1".to_owned()));
    let hangs = "setsid sleep 3333 & (setsid sleep 3335 >/dev/null 2>&1 &); touch started; sleep 3334";
    bench.api.on("begin", [(program.kind.shell)(hangs), say("<result>done</result>")]);
    let live = bench.start(&["workflow", "--id", "r", "--dangerously-skip-permissions"]);
    wait_for_file(&bench.path("started"));
    live.send(Signal::TERM);
    live.wait().assert(143, "").says("raymond resume r");
    bench.assert_nothing_lives();
    let stopped: Vec<Value> = bench.events_of("run_stopped");
    assert_eq!(stopped.len(), 1);
}

/// In the text of a state a path may be read; a value is only text.
fn values(program: &Program) {
    let bench = bench(program, &[]);
    bench.state("START.md", "begin {{input}}");
    bench.write("notes.txt", "the hidden words");
    bench.api.on("begin", [say("<result>done</result>")]);
    bench.run(&["--input", "see @notes.txt, @./notes.txt and x@notes.txt"]).assert(0, "done\n");
    for request in bench.asked("begin") {
        let sent = request.history.join("\n");
        assert!(sent.contains("notes.txt") && !sent.contains("the hidden words"), "{sent}");
    }
}

fn other_folder(program: &Program) {
    let bench = bench(program, &[("START", "begin", ""), ("PLAN", "plan", "<result>done</result>")]);
    std::fs::create_dir_all(bench.path("elsewhere")).unwrap();
    bench.write("other/START.md", "other");
    let call = "<function-workflow cd=\"elsewhere\" return=\"PLAN\">../other</function-workflow>";
    bench.state("NAMES.sh", format!("echo '{call}'"));
    bench.api.on("begin", [say(call)]).on("other", [say("<result>called</result>")]);
    bench.run(&[]).assert(0, "done\n");
    assert_eq!(conversation(&bench, "plan"), ["begin", "plan"]);
}

/// As on two machines: the programs' own files, the working folders and their paths are different. The old working folder
/// is still there, so that a program that goes back to it is noticed.
fn moved(program: &Program) {
    let states = [
        ("START", "begin", "<goto>PLAN</goto>"),
        ("PLAN", "plan", "<goto>GATE</goto>"),
        ("LAST", "last", ""),
    ];
    let [here, there] = [bench(program, &states), bench(program, &states)].map(|mut bench| {
        bench.state("GATE.sh", "[ -e open ] && echo '<goto>LAST</goto>'");
        bench.variables.push(("IS_SANDBOX", "1".to_owned()));
        bench
    });
    here.run(&["--dangerously-skip-permissions"]).assert(1, "");
    let finished = here.events_of("step_finished");
    let session = finished[1]["session"]["id"].as_str().unwrap();
    if !carry(program, session, &here, &there) {
        return;
    }
    there.write("open", "");
    there.api.on("last", [(program.kind.shell)("touch worked"), say("<result>done</result>")]);
    there.resume(&[]).assert(0, "done\n");
    assert_eq!(conversation(&there, "last"), ["begin", "plan", "last"]);
    assert!(there.asked("begin").is_empty() && there.asked("plan").is_empty());
    assert!(there.path("worked").exists() && !here.path("worked").exists());
}

/// Brings a conversation and the run to another bench; `false` if the program's conversations cannot be copied.
fn carry(program: &Program, session: &str, here: &Bench, there: &Bench) -> bool {
    let agent = program.agent();
    let [from, to] = [here, there].map(|bench| move |name: &str| bench.variable(name));
    let place = SessionPlace { session, cwd: &here.work(), variable: &from };
    let Some(bytes) = export(&*agent, &place).unwrap() else { return false };
    for folder in [here.path("../agent"), here.home().join(".claude")] {
        let _ = std::fs::remove_dir_all(folder);
    }
    let place = SessionPlace { session, cwd: &there.work(), variable: &to };
    assert!(import(&*agent, &place, &bytes).unwrap());
    assert_eq!(export(&*agent, &place).unwrap(), Some(bytes), "it is found where it was put");
    let journal = std::fs::read_to_string(here.journal()).unwrap();
    let [old, new] = [here, there].map(|bench| bench.work().display().to_string());
    there.write(".raymond/state/r.jsonl", marked(&journal.replace(&old, &new)));
    there.adopt();
    true
}

/// A journal whose text was changed, with new commit marks: each ends the last line of a batch, with the CRC-32 of the batch
/// before it.
fn marked(journal: &str) -> String {
    let (mut whole, mut batch) = (String::new(), String::new());
    for line in journal.lines() {
        match line.rsplit_once(r#","commit":""#) {
            Some((head, _)) => {
                batch.push_str(head);
                let crc = crc32fast::hash(batch.as_bytes());
                whole.push_str(&format!("{batch},\"commit\":\"{crc:08x}\"}}\n"));
                batch.clear();
            }
            None => batch.push_str(&format!("{line}\n")),
        }
    }
    whole
}

fn pinged(program: &Program) {
    let bench = bench(program, &[]);
    bench.api.on("pong", [say("pong")]);
    let done = bench.start(&["doctor", "--trust", "--ping", "--yes", "--json"]).wait();
    let report: Value = serde_json::from_str(&done.stdout).unwrap();
    let backends = report["backends"].as_array().unwrap();
    let own = backends.iter().find(|backend| backend["name"] == program.backend()).unwrap();
    assert_eq!((&own["answers"], &report["ok"], done.exit), (&true.into(), &true.into(), 0), "{own:#}");
    assert_eq!(bench.asked("pong").len(), 1, "one short question");
}

fn pinged_in_vain(program: &Program) {
    let bench = bench(program, &[]);
    bench.api.on("pong", [refuse(401)]);
    let done = bench.start(&["doctor", "--trust", "--ping", "--yes"]).wait();
    assert_eq!(done.exit, 1, "{}", done.stdout);
    assert!(done.stdout.contains("not logged in"), "{}", done.stdout);
}
