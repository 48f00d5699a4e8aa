//! Money: each answer is counted once, and the budget is kept.

use mock_api::{Usage, refuse, say, use_tool};

use crate::Case;
use crate::bench::{Bench, assert_history, nanos};
use crate::programs::Program;
use crate::tools::with_bash;

pub(crate) const CASES: &[Case] = &[
    ("parallel_agents_are_counted_once", side_by_side),
    ("the_cost_of_a_failed_turn_counts", failed_turn),
    ("a_turn_continues_after_its_share_is_used", share),
    ("a_final_message_that_exceeds_the_share_counts", last_words),
    ("over_budget_stops_and_resumes", over_budget),
];

/// An answer that costs this many thousandths of a dollar.
fn costing(thousandths: u64) -> Usage {
    Usage { input: thousandths * 1000, ..Usage::default() }
}

fn side_by_side(program: &Program) {
    let bench = Bench::new(program);
    let policy = "---\nallowed_transitions: [ { tag: result }, { tag: call } ]\n---\n";
    bench.state("START.md", "begin").state("PARENT.md", "parent").state("LAST.md", "last");
    bench.state("WORKER.md", format!("{policy}worker {{{{n}}}}")).state("HELP.md", "help {{input}}");
    bench.state("BACK.md", "back {{result}}");
    let forks: String = (1..=3).map(|n| format!("<fork next=\"PARENT\" n=\"{n}\">WORKER</fork>")).collect();
    bench.api.on("begin", [say(&forks)]);
    bench.api.on("parent", [say("<join>LAST</join>")]);
    bench.api.on("worker 1", [say("<result>1</result>")]);
    bench
        .api
        .on("worker 2", [refuse(529), refuse(529), say("<call return=\"BACK\" input=\"2\">HELP</call>")]);
    bench.api.on("worker 3", [say("hm")]);
    bench.api.on("help 2", [say("<result>helped</result>")]);
    bench.api.on("back helped", [say("<result>2</result>")]);
    // The reminder.
    bench.api.on("<result>", [say("<result>3</result>")]);
    bench.api.on("last", [say("<result>done</result>")]);
    bench.run(&[]).assert(0, "done\n");
    assert_eq!(bench.api.requests().len(), 11, "{:#?}", bench.api.requests());
    bench.assert_paid();
    let steps: u64 = bench.events_of("step_finished").iter().map(|event| nanos(&event["cost_usd"])).sum();
    assert_eq!(steps, bench.api.spent_nanos(), "the cost of the run is the sum of its steps");
}

fn failed_turn(program: &Program) {
    let bench = Bench::new(program);
    bench.state("START.md", "before").state("BEGIN.md", with_bash("begin"));
    bench.api.on("before", [say("<goto>BEGIN</goto>")]);
    let answers = [use_tool("Bash", "echo 1"), refuse(500), refuse(500), say("<result>done</result>")];
    bench.api.on("begin", answers);
    bench.run(&[]).assert(0, "done\n");
    assert_history(
        bench.asked("begin").last().unwrap(),
        &["user: before", "agent: <goto>BEGIN</goto>", "user: begin"],
    );
    let retry = &bench.events_of("retry")[0];
    assert_eq!(nanos(&retry["attempt_cost_usd"]), bench.asked("begin")[0].nanos());
    assert_eq!(retry.get("cost_estimated"), None);
    bench.assert_paid();
}

fn share(program: &Program) {
    let bench = Bench::new(program);
    bench.state("START.md", "begin").state("WORKER.md", with_bash("worker")).state("PARENT.md", "parent");
    bench.api.on("begin", [say("<fork next=\"PARENT\">WORKER</fork>").costing(costing(10))]);
    bench.api.on("parent", [say("<result>done</result>").costing(costing(10))]);
    // Each of the two may use half of the remaining 0.19.
    let (first, second) = (use_tool("Bash", "echo first"), use_tool("Bash", "echo second >> second"));
    bench.api.on("worker", [first.costing(costing(10)), second.costing(costing(120))]);
    bench.api.on("go on", [say("<result>worked</result>").costing(costing(20))]);
    bench.run(&["--budget", "0.2"]).assert(0, "done\n");
    let shares: Vec<u64> = bench
        .events_of("step_started")
        .iter()
        .filter(|event| event["attempt"] == 1 && event["step"] != 1)
        .map(|event| nanos(&event["share_usd"]))
        .collect();
    assert_eq!(shares, [95_000_000; 2]);
    let more = &bench.asked("go on")[0];
    assert_eq!(more.history[2], "got: first", "the conversation has the earlier tool use: {more:#?}");
    // The program may have run the second tool, or not: it starts tools while the answer still arrives.
    let mut results = more.history.iter().filter(|entry| entry.starts_with("got: ")).skip(1);
    assert!(
        results.all(|result| result.contains("interrupted")),
        "the second tool call has no result: {more:#?}"
    );
    let asked = more.history.last().unwrap();
    assert!(
        asked.starts_with("user: Please go on") && asked.contains("check before you repeat it"),
        "{asked}"
    );
    assert_eq!(bench.api.requests().len(), 5);
    bench.assert_paid();
}

fn last_words(program: &Program) {
    let bench = Bench::new(program);
    bench.state("START.md", "begin").state("NEXT.md", "next");
    bench.api.on("begin", [say("<goto>NEXT</goto>").costing(costing(12))]);
    bench.api.on("next", [say("<result>done</result>")]);
    bench.run(&["--budget", "0.01"]).assert(4, "");
    bench.assert_paid();
    let status = bench.status();
    assert_eq!(
        (&status["status"], &status["steps"]),
        (&"over_budget".into(), &1.into()),
        "the turn is accepted"
    );
    bench.resume(&["--budget", "0.1"]).assert(0, "done\n");
    let last = &bench.asked("next")[0];
    assert_history(last, &["user: begin", "agent: <goto>NEXT</goto>", "user: next"]);
    assert_eq!(bench.api.requests().len(), 2);
    bench.assert_paid();
}

fn over_budget(program: &Program) {
    let bench = Bench::new(program);
    bench.state("START.md", with_bash("begin"));
    bench.api.on("begin", [use_tool("Bash", "echo used").costing(costing(12))]);
    bench.api.on("go on", [say("<result>done</result>").costing(costing(3))]);
    bench.run(&["--budget", "0.01"]).assert(4, "");
    bench.assert_paid();
    bench.resume(&["--budget", "0.1"]).assert(0, "done\n");
    assert_eq!(bench.api.requests().len(), 2, "no answer is paid for twice");
    bench.assert_paid();
}
