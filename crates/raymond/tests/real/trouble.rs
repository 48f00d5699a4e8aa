//! Failures of the model's service: retried or waited for, and never part of the conversation.

use std::time::{Duration, Instant, SystemTime};

use mock_api::{Reply, Request, refuse, say};

use crate::Case;
use crate::bench::{Account, Bench, TIMES, assert_history};
use crate::programs::Program;

pub(crate) const CASES: &[Case] = &[
    ("failures_of_the_service_are_retried_and_not_in_the_conversation", retries),
    ("a_refused_connection_is_retried", no_connection),
    ("a_usage_limit_stops_the_run_with_no_wait", limit_no_wait),
    ("the_run_waits_until_a_usage_limit_ends", limit_waited_out),
    ("a_long_retry_after_is_a_limit_without_a_time", long_retry_after),
    ("a_slow_answer_is_waited_for", slow),
    ("silence_is_retried", silence),
];

/// Each state fails once. That takes two refusals, because the program retries once by itself.
fn retries(program: &Program) {
    let bench = Bench::new(program);
    let broken = || say("half an answer").because("overloaded_error", "Overloaded");
    let table: Vec<(&str, Vec<Reply>)> = vec![
        ("429", vec![refuse(429), refuse(429)]),
        ("529", vec![refuse(529), refuse(529)]),
        ("500", vec![refuse(500), refuse(500)]),
        ("dropped", vec![say("half an answer").dropped(), refuse(500), refuse(500)]),
        ("broken", vec![broken(), refuse(500), refuse(500)]),
    ];
    for (index, (name, mut replies)) in table.into_iter().enumerate() {
        let state = if index == 0 { "START.md".to_owned() } else { format!("S{index}.md") };
        bench.state(&state, format!("the state {name}"));
        replies.push(say(&format!("<goto>S{}</goto>", index + 1)));
        bench.api.on(&format!("the state {name}"), replies);
    }
    bench.state("S5.md", "the end");
    bench.api.on("the end", [say("<result>done</result>")]);
    bench.run(&[]).assert(0, "done\n");
    assert_eq!(bench.events_of("retry").len(), 5, "each state is retried once");
    assert_history(
        &bench.asked("the end")[0],
        &[
            "user: the state 429",
            "agent: <goto>S1</goto>",
            "user: the state 529",
            "agent: <goto>S2</goto>",
            "user: the state 500",
            "agent: <goto>S3</goto>",
            "user: the state dropped",
            "agent: <goto>S4</goto>",
            "user: the state broken",
            "agent: <goto>S5</goto>",
            "user: the end",
        ],
    );
    // Only the service knows the cost of an incomplete answer. The program counts every complete one; of the others, those count
    // whose tokens were told.
    let requests = bench.api.requests();
    let nanos =
        |of: &dyn Fn(&Request) -> bool| requests.iter().filter(|it| of(it)).map(Request::nanos).sum::<u64>();
    let whole = nanos(&|request| request.is_whole);
    let incomplete = nanos(&|request| !request.is_whole);
    assert!(incomplete > 0);
    let cost = bench.cost_nanos();
    assert!((whole..=whole + incomplete).contains(&cost), "{cost}, of {whole} and at most {incomplete}");
}

fn no_connection(program: &Program) {
    let mut bench = Bench::new(program);
    // No server listens here.
    bench.variables.push(("ANTHROPIC_BASE_URL", "http://127.0.0.1:1".to_owned()));
    bench.state("START.md", "begin");
    let live = bench.start(&["workflow", "--id", "r"]);
    live.wait_for_stderr("could not be reached");
    live.send(rustix::process::Signal::TERM);
    live.wait().assert(143, "");
    bench.variables.pop();
    bench.api.on("begin", [say("<result>done</result>")]);
    bench.resume(&[]).assert(0, "done\n");
    assert_history(&bench.asked("begin")[0], &["user: begin"]);
    bench.assert_paid();
}

fn now() -> i64 {
    i64::try_from(SystemTime::UNIX_EPOCH.elapsed().unwrap().as_secs()).unwrap()
}

fn limited(program: &Program, resets_in: u64) -> Bench {
    let mut bench = Bench::new(program);
    bench.account = Account::Subscription;
    bench.state("START.md", "begin").state("NEXT.md", "next");
    bench.api.on("begin", [say("<goto>NEXT</goto>")]);
    bench.api.on("next", [refuse(429).for_seconds(resets_in), say("<result>done</result>")]);
    bench
}

fn limit_no_wait(program: &Program) {
    let bench = limited(program, 3 * 3600);
    let begin = now();
    bench.run(&["--no-wait"]).assert(5, "").says("limit");
    assert_eq!(bench.status()["status"], "limited");
    let until: jiff::Timestamp =
        bench.events_of("limit_waiting")[0]["until"].as_str().unwrap().parse().unwrap();
    let wait = until.as_second() - begin;
    assert!((3 * 3600..=3 * 3600 + 600).contains(&wait), "the time from the service: {wait} s");
    // A resume tries again at once.
    bench.resume(&["--no-wait"]).assert(0, "done\n");
    let last = bench.asked("next").pop().unwrap();
    assert_history(&last, &["user: begin", "agent: <goto>NEXT</goto>", "user: next"]);
    bench.assert_paid();
}

fn limit_waited_out(program: &Program) {
    let bench = limited(program, 8);
    let begin = Instant::now();
    bench.run(&[]).assert(0, "done\n");
    assert!(begin.elapsed() > Duration::from_secs(6), "{:?}", begin.elapsed());
    assert_eq!(bench.asked("next").len(), 2, "there is no request during the wait");
    assert_eq!(bench.events_of("limit_waiting").len(), 1);
    bench.assert_paid();
}

fn long_retry_after(program: &Program) {
    let bench = Bench::new(program);
    bench.state("START.md", "begin");
    bench.api.on("begin", [refuse(429).header("retry-after", "300"), say("<result>done</result>")]);
    bench.run(&["--no-wait"]).assert(5, "");
    assert_eq!(bench.api.requests().len(), 1);
    bench.resume(&[]).assert(0, "done\n");
    bench.assert_paid();
}

fn slow(program: &Program) {
    let bench = Bench::new(program);
    bench.state("START.md", "---\ntimeout: 2m\n---\nbegin");
    bench
        .api
        .on("begin", [say("<print>soon</print> <result>done</result>").slowly(Duration::from_millis(500))]);
    bench.run(&[]).assert(0, "done\n").says("soon");
    assert_eq!(bench.api.requests().len(), 1);
    bench.assert_paid();
}

fn silence(program: &Program) {
    let got_there = TIMES.into_iter().any(|seconds| {
        let bench = Bench::new(program);
        bench.state("START.md", format!("---\ntimeout: {seconds}s\n---\nbegin"));
        bench.api.on("begin", [say("never").silent(), say("<result>done</result>")]);
        let done = bench.run(&[]);
        bench.assert_nothing_lives();
        // Otherwise it was silent for another reason: it did not make its request in time.
        let got_there = bench.asked("begin").len() == 2 && bench.events_of("retry").len() == 1;
        if got_there {
            done.assert(0, "done\n").says(&format!("printed nothing for {seconds} s"));
            assert_history(&bench.asked("begin")[1], &["user: begin"]);
            bench.assert_paid();
        }
        got_there
    });
    assert!(got_there, "the request was never made in time");
}
