//! Failures that a retry cannot repair: the step fails at once, with advice.

use mock_api::{refuse, say};

use crate::Case;
use crate::bench::{Account, Bench, assert_history};
use crate::programs::{MODEL, Program};

pub(crate) const CASES: &[Case] = &[
    ("there_is_no_login", not_logged_in),
    ("the_key_is_refused", bad_key),
    ("the_model_is_unknown", unknown_model),
    ("the_conversation_is_too_long", too_long),
    ("root_may_not_skip_permissions", root),
    ("the_program_is_missing", missing_program),
];

fn bench(program: &Program) -> Bench {
    let bench = Bench::new(program);
    bench.state("START.md", "begin");
    bench
}

/// Checks that the run fails at once with at most this number of requests, and completes after `repair`.
#[track_caller]
fn assert_repairable(bench: &mut Bench, words: &[&str], most_requests: usize, repair: impl Fn(&mut Bench)) {
    let done = bench.run(&[]);
    done.assert(1, "").says("raymond resume r");
    for word in words {
        done.says(word);
    }
    assert_eq!(bench.events_of("retry").len(), 0, "{}", done.stderr);
    assert!(bench.api.requests().len() <= most_requests, "{:#?}", bench.api.requests());
    assert_eq!(bench.cost_nanos(), 0);
    repair(bench);
    bench.api.on("begin", [say("<result>done</result>")]);
    bench.resume(&[]).assert(0, "done\n");
    assert_history(&bench.api.requests().pop().unwrap(), &["user: begin"]);
    bench.assert_paid();
}

fn not_logged_in(program: &Program) {
    let mut bench = bench(program);
    bench.account = Account::None;
    assert_repairable(&mut bench, &["not logged in", "log in by"], 0, |bench| bench.account = Account::Key);
}

fn bad_key(program: &Program) {
    let mut bench = bench(program);
    bench.api.on("begin", [refuse(401).because("authentication_error", "invalid x-api-key")]);
    assert_repairable(&mut bench, &["not logged in"], 3, |_| {});
}

fn unknown_model(program: &Program) {
    let mut bench = bench(program);
    bench.api.on("begin", [refuse(404).because("not_found_error", "model: claude-haiku-4-5")]);
    assert_repairable(&mut bench, &["the model is not available", "correct `model`"], 3, |_| {});
}

fn too_long(program: &Program) {
    let mut bench = bench(program);
    let why = "prompt is too long: 250000 tokens > 200000 maximum";
    bench.api.on("begin", [refuse(400).because("invalid_request_error", why)]);
    assert_repairable(&mut bench, &["too long", "<reset>"], 3, |_| {});
}

fn root(program: &Program) {
    if !rustix::process::geteuid().is_root() {
        return;
    }
    let mut bench = bench(program);
    bench.api.on("begin", [mock_api::use_tool("Bash", "echo made > made"), say("<result>done</result>")]);
    bench.run(&["--dangerously-skip-permissions"]).assert(1, "").says("refuses to skip permissions for root");
    assert_eq!(bench.api.requests().len(), 0);
    bench.variables.push(("IS_SANDBOX", "1".to_owned()));
    bench.resume(&["--dangerously-skip-permissions"]).assert(0, "done\n");
    assert_eq!(bench.read("made"), "made\n");
    bench.assert_paid();
}

fn missing_program(program: &Program) {
    let bench = bench(program);
    let config = bench.read(".raymond/config.toml");
    bench.write(
        ".raymond/config.toml",
        format!("[raymond]\nmodel = {MODEL:?}\n[backend.claude]\ncommand = \"no-such-claude\"\n"),
    );
    bench.run(&[]).assert(2, "").says("`no-such-claude` was not found").says("install it");
    assert!(bench.api.requests().is_empty(), "nothing was run");
    bench.write(".raymond/config.toml", &config);
    bench.api.on("begin", [say("<result>done</result>")]);
    bench.run(&[]).assert(0, "done\n");
}
