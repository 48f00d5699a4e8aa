//! What runs have cost, held against the books of the models' service: with every kind of agent program, in every place that
//! tells it, and whatever happens to a run.

use std::collections::BTreeMap;

use rustix::process::Signal;
use serde_json::Value;
use test_kit::rig::{Rig, wait_until};

use crate::RAYMOND;
use crate::history::events;
use crate::serving::site::Site;

/// Speaks as every kind of program, and keeps the books.
const AGENT: &str = include_str!("books/agent.py");

/// Workflows by their names, with their states.
const WORKFLOWS: &[(&str, &[(&str, &str)])] = &[
    ("plain", &[("START", "say <goto>NEXT</goto>"), ("NEXT", "say <result>done</result>")]),
    (
        "forks",
        &[
            ("START", "say <fork>WORK</fork><fork>WORK</fork><join>LAST</join>"),
            ("WORK", "say <result>worked</result>"),
            ("LAST", "say <result>done</result>"),
        ],
    ),
    (
        "reminded",
        &[(
            "START",
            "---\nallowed_transitions: [{ tag: result }]\n---\nonce mumble\nsay <result>done</result>",
        )],
    ),
    ("dies", &[("START", "say <goto>NEXT</goto>"), ("NEXT", "once die\nsay <result>done</result>")]),
    ("hangs", &[("START", "say <goto>NEXT</goto>"), ("NEXT", "once hang\nsay <result>done</result>")]),
    (
        "calls",
        &[
            ("START", "say <call return=\"BACK\">CHILD</call>"),
            ("CHILD", "say <goto>DEEPER</goto>"),
            ("DEEPER", "say <result>called</result>"),
            ("BACK", "say <result>done</result>"),
        ],
    ),
];

/// A kind of program.
struct Books {
    kind: &'static str,
    /// Of the backend, besides its program.
    settings: &'static str,
    /// What it says after a call of the model, last of all.
    says: &'static str,
    /// Whether it reports dollars. Otherwise they follow from its tokens.
    reports: bool,
    /// Whether a turn that was killed has reported dollars, too.
    reports_killed: bool,
}

const REPORTS: Books = Books {
    kind: "",
    settings: "",
    says: "I look at the files first, and then I shall know what to do about it.\"",
    reports: true,
    reports_killed: true,
};
const TOKENS: Books = Books { reports: false, reports_killed: false, ..REPORTS };

fn project(books: &Books) -> Rig {
    let rig = Rig::new(RAYMOND);
    rig.write("agent.py", AGENT);
    // The command of an older Codex is used if there is an argument that only it takes.
    let (kind, more) = match books.kind {
        "exec" => ("codex", ", \"--exec\""),
        kind => (kind, ""),
    };
    let takes_model = !["claude", "acp", "command"].contains(&kind);
    let model = if takes_model { "model = \"books\"\n" } else { "" };
    let config = format!(
        "[raymond]\nbackend = \"b\"\n{model}[backend.b]\nkind = \"{kind}\"\ncommand = \"python3\"\n\
         args = [\"./agent.py\", \"{}\"{more}{}]\n{}\n\
         [prices]\nbooks = {{ input = 4.0, output = 20.0, cache_read = 0.2 }}\n",
        books.kind,
        if kind == "command" { ", \"--id\", \"{session}\"" } else { "" },
        books.settings,
    );
    rig.write(".raymond/config.toml", config);
    for (workflow, states) in WORKFLOWS {
        for (state, prompt) in *states {
            rig.write(&format!("{workflow}/{state}.md"), prompt);
        }
    }
    rig
}

/// Runs that end by themselves.
fn run_to_the_end(rig: &Rig) {
    for id in ["plain", "forks", "reminded", "dies", "calls"] {
        rig.raymond(&[id, "--id", id]).assert(0, "done\n");
    }
    rig.raymond(&["plain", "--id", "recorded", "--record", "turns.jsonl"]).assert(0, "done\n");
    rig.raymond(&["plain", "--id", "replayed", "--replay", "turns.jsonl"]).assert(0, "done\n");
}

/// Runs whose second turn is cut off in the middle, with Raymond or by it, as soon as Raymond has read what the turn says of its first
/// call. One is left as it is then.
fn run_cut_off(rig: &Rig, says: &str) {
    for id in ["killed", "stopped", "left"] {
        let live = rig.start(&["hangs", "--id", id]);
        wait_until(&format!("{says} of {id}"), || {
            let files =
                std::fs::read_dir(rig.path(".raymond/debug").join(id)).into_iter().flatten().flatten();
            let mut of_turn = files.filter(|file| file.file_name().to_string_lossy().contains("NEXT"));
            of_turn.any(|file| std::fs::read_to_string(file.path()).is_ok_and(|text| text.contains(says)))
        });
        match id {
            "killed" => live.kill(),
            _ => {
                live.send(Signal::TERM);
                live.wait().assert(143, "");
            }
        }
        if id != "left" {
            rig.raymond(&["resume", id]).assert(0, "done\n");
        }
    }
}

/// Runs that go back.
fn go_back(rig: &Rig) {
    rig.raymond(&["branch", "plain", "--at", "1", "--id", "branch", "--run", "--fresh"]).assert(0, "done\n");
    rig.raymond(&["rewind", "calls", "--to", "2", "--run", "--fresh"]).assert(0, "done\n");
}

/// What the service was paid, by run.
fn paid(rig: &Rig) -> BTreeMap<String, f64> {
    let mut paid = BTreeMap::new();
    for line in rig.read("books.jsonl").lines() {
        let call: Value = serde_json::from_str(line).unwrap();
        *paid.entry(call["run"].as_str().unwrap().to_owned()).or_default() += call["usd"].as_f64().unwrap();
    }
    paid
}

fn usd(value: &Value) -> f64 {
    value.as_f64().unwrap_or_default()
}

/// What the events of a journal add up to. Every turn that was paid for cost something.
#[track_caller]
fn sum_of_journal(rig: &Rig, run: &str) -> f64 {
    let (mut sum, mut is_stopped) = (0.0, false);
    for event in events(rig, run) {
        let ends_a_turn = ["step_finished", "step_failed", "retry", "reminder", "limit_waiting"];
        if ends_a_turn.contains(&event["event"].as_str().unwrap()) {
            assert!(usd(&event["attempt_cost_usd"]) > 0.0, "a paid turn is free: {event}");
            let is_told = event["tokens"]["input"].as_u64().unwrap_or_default() > 0;
            assert!(is_told || run == "replayed", "without tokens: {event}");
            sum += usd(&event["attempt_cost_usd"]);
        }
        for interrupted in event["interrupted"].as_array().into_iter().flatten() {
            // What was counted when the run was stopped is only named again.
            let is_counted = event["event"] == "run_resumed" && is_stopped;
            assert_eq!(
                usd(&interrupted["estimated_cost_usd"]) > 0.0,
                !is_counted,
                "free, or paid twice: {event}"
            );
            sum += usd(&interrupted["estimated_cost_usd"]);
        }
        is_stopped = event["event"] == "run_stopped" || is_stopped && event["event"] != "run_resumed";
    }
    sum
}

/// The costs of the steps in what `show` prints, each rounded to a cent or to the hundredth of one.
fn shown(rig: &Rig, run: &str) -> f64 {
    let shown = rig.raymond(&["show", run]);
    assert_eq!(shown.exit, 0, "{shown:?}");
    let steps = shown.stdout.lines().filter(|line| line.starts_with("step "));
    steps.filter_map(|line| line.rsplit_once('$')?.1.trim().parse::<f64>().ok()).sum()
}

#[track_caller]
fn agree(what: &str, told: f64, expected: f64, tolerance: f64) {
    assert!((told - expected).abs() <= tolerance, "{what}: {told}, and {expected} are in the books");
}

/// A run costs the same wherever that is told.
#[track_caller]
fn agrees_with_itself(rig: &Rig, site: &Site, listed: &Value) -> (f64, f64) {
    let run = listed["run"].as_str().unwrap();
    let status = crate::history::status(rig, run);
    let (cost, own) = (usd(&status["cost_usd"]), usd(&status["own_cost_usd"]));
    agree(&format!("{run} in list"), usd(&listed["cost_usd"]), cost, 1e-9);
    agree(&format!("{run}'s own in list"), usd(&listed["own_cost_usd"]), own, 1e-9);
    let page = |more: &str| site.get_json(&format!("/api/v1/runs/{run}{more}"));
    agree(&format!("{run} on the page"), usd(&page("")["cost_usd"]), cost, 1e-9);
    agree(&format!("{run}'s own on the page"), usd(&page("")["own_cost_usd"]), own, 1e-9);
    agree(&format!("{run} in the overview"), usd(&page("/overview")["cost_usd"]), cost, 1e-9);
    let steps = page("/steps?limit=100");
    let steps = steps["steps"].as_array().unwrap();
    let sum: f64 = steps.iter().map(|step| usd(&step["cost_usd"])).sum();
    agree(&format!("the steps of {run} on the page"), sum, cost, 1e-9);
    agree(&format!("the journal of {run}"), sum_of_journal(rig, run), cost, 1e-9);
    agree(&format!("the steps that show prints of {run}"), shown(rig, run), cost, 0.005 * steps.len() as f64);
    (cost, own)
}

fn agrees(books: &Books) {
    let rig = project(books);
    run_to_the_end(&rig);
    run_cut_off(&rig, books.says);
    go_back(&rig);
    let paid = paid(&rig);
    let site = Site::start(&rig);
    let listed: Value = serde_json::from_str(&rig.raymond(&["list", "--json"]).stdout).unwrap();
    let listed = listed.as_array().unwrap();
    assert_eq!(listed.len(), 12, "with what the rewind has dropped: {listed:?}");
    let exactly = 1e-6;
    let about = |usd: f64| usd * 0.1;
    let (mut all, mut all_in_books) = (0.0, paid.values().sum::<f64>());
    for listed in listed {
        let (cost, own) = agrees_with_itself(&rig, &site, listed);
        let run = listed["run"].as_str().unwrap();
        all += own;
        let is_killed = ["killed", "stopped", "left", "dies"].contains(&run);
        let is_exact = if is_killed { books.reports_killed } else { books.reports };
        let tolerance = |usd: f64| if is_exact { exactly } else { about(usd) };
        match run {
            // What is dropped is in the books of the run that dropped it.
            "calls" | "dropped-1-calls" => {}
            "branch" => {
                agree("the branch's own", own, paid[run], tolerance(paid[run]));
                assert!(cost > own + paid[run] / 10.0, "with its history: {cost}");
            }
            // A replayed cost counts as recorded, and the service is not asked.
            "replayed" => {
                agree("the replay", cost, paid["recorded"], tolerance(paid["recorded"]));
                all_in_books += paid["recorded"];
            }
            _ => agree(run, cost, paid[run], tolerance(paid[run])),
        }
    }
    let is_exact = books.reports && books.reports_killed;
    let tolerance = if is_exact { exactly } else { about(all_in_books) };
    agree("all runs", all, all_in_books, tolerance);
    let metrics = site.get("/metrics").body;
    let total = metrics.lines().find_map(|line| line.strip_prefix("raymond_cost_usd_total ")).unwrap();
    agree("/metrics", total.parse().unwrap(), all, exactly);
}

#[test]
fn claude() {
    agrees(&Books { kind: "claude", reports_killed: false, ..REPORTS });
}

#[test]
fn codex() {
    agrees(&Books { kind: "codex", says: "modelContextWindow", ..TOKENS });
}

#[test]
fn codex_exec() {
    agrees(&Books { kind: "exec", ..TOKENS });
}

#[test]
fn copilot() {
    agrees(&Books { kind: "copilot", settings: "without_branch = \"continue\"", ..TOKENS });
}

#[test]
fn gemini() {
    agrees(&Books { kind: "gemini", settings: "without_branch = \"continue\"", ..TOKENS });
}

#[test]
fn opencode() {
    agrees(&Books { kind: "opencode", says: "step_finish", ..REPORTS });
}

#[test]
fn pi() {
    agrees(&Books { kind: "pi", ..REPORTS });
}

#[test]
fn acp() {
    agrees(&Books { kind: "acp", settings: "branches = true\ncost = \"none\"", ..TOKENS });
}

#[test]
fn command() {
    let settings = "resume_args = [\"./agent.py\", \"command\", \"--resume\", \"{session}\", \"--id\", \"{new_session}\"]\n\
                    cost = \"none\"";
    agrees(&Books { kind: "command", settings, says: "cost_usd", ..REPORTS });
}
