//! After a branch or a rewind, the next turn knows what was known at that step, and nothing later.

use std::fs;
use std::path::Path;

use mock_api::say;

use crate::Case;
use crate::bench::{Bench, assert_history};
use crate::programs::Program;

pub(crate) const CASES: &[Case] = &[
    ("a_branch_and_a_rewind_know_what_was_known_at_their_step", as_it_was),
    ("a_deleted_conversation_is_told_and_begun_anew", deleted),
];

/// Three states in one conversation.
fn bench(program: &Program) -> Bench {
    let bench = Bench::new(program);
    bench.state("START.md", "begin").state("SECOND.md", "go on").state("THIRD.md", "finish");
    bench.api.on("begin", [say("<goto>SECOND</goto>")]);
    bench.api.on("go on", [say("<goto>THIRD</goto>")]);
    bench.api.on("finish", [say("<result>done</result>")]);
    bench
}

fn as_it_was(program: &Program) {
    let bench = bench(program);
    bench.run(&[]).assert(0, "done\n");
    fs::write(bench.path("workflow/SECOND.md"), "take another way").unwrap();
    fs::write(bench.path("workflow/THIRD.md"), "conclude").unwrap();
    bench.api.on("take another way", [say("<goto>THIRD</goto>")]);
    bench.api.on("conclude", [say("<result>otherwise</result>")]);
    let second = ["user: begin", "agent: <goto>SECOND</goto>", "user: take another way"];
    let third = [&second[..], &["agent: <goto>THIRD</goto>", "user: conclude"]].concat();
    for (turn, args) in [
        ["branch", "r", "--at", "1", "--id", "b", "--run"].as_slice(),
        &["rewind", "r", "--to", "1", "--run"],
    ]
    .into_iter()
    .enumerate()
    {
        bench.start(args).wait().assert(0, "otherwise\n");
        assert_history(&bench.asked("take another way")[turn], &second);
        assert_history(&bench.asked("conclude")[turn], &third);
    }
    // What was dropped can still be branched, with its own conversation.
    let args = ["branch", "dropped-1-r", "--at", "2", "--id", "c", "--run"];
    bench.start(&args).wait().assert(0, "otherwise\n");
    let old = [
        "user: begin",
        "agent: <goto>SECOND</goto>",
        "user: go on",
        "agent: <goto>THIRD</goto>",
        "user: conclude",
    ];
    assert_history(&bench.asked("conclude")[2], &old);
    assert_eq!(bench.asked("begin").len(), 1, "a finished turn was paid for again");
}

/// Removes all conversations that the program has kept.
fn delete_conversations(folder: &Path) {
    for project in fs::read_dir(folder.join(".claude/projects")).unwrap().flatten() {
        for file in fs::read_dir(project.path()).unwrap().flatten() {
            let _ = fs::remove_file(file.path());
        }
    }
}

fn deleted(program: &Program) {
    let bench = bench(program);
    bench.run(&[]).assert(0, "done\n");
    delete_conversations(&bench.home());
    let requests = bench.api.requests().len();
    let branch = ["branch", "r", "--at", "1", "--id", "b", "--run"];
    bench.start(&branch).wait().assert(2, "").says("has deleted it").says("--fresh");
    assert_eq!(bench.api.requests().len(), requests, "something was paid for");
    bench.start(&[&branch[..], &["--fresh"]].concat()).wait().assert(0, "done\n");
    assert_history(&bench.asked("go on")[1], &["user: go on"]);
}
