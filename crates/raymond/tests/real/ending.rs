//! Stops and time limits: no process is left running, also none that the program's tools started.

use mock_api::{say, use_tool};
use rustix::process::Signal;
use test_kit::needs::say_skipped;
use test_kit::rig::wait_for_file;

use crate::Case;
use crate::bench::{Bench, TIMES, assert_history};
use crate::programs::Program;
use crate::tools::with_bash;

pub(crate) const CASES: &[Case] = &[
    ("a_stop_ends_tools", stopped),
    ("an_interrupt_lets_the_turn_finish", interrupted),
    ("a_time_limit_ends_tools", over_time),
    ("silence_ends_tools", silent),
];

/// A command with children in their own sessions; one of them is orphaned.
const HANGS: &str =
    "setsid sleep 3333 & (setsid sleep 3335 >/dev/null 2>&1 &); touch started; echo up; sleep 3334";

fn stopped(program: &Program) {
    let bench = Bench::new(program);
    bench.state("START.md", with_bash("begin"));
    bench.api.on("begin", [use_tool("Bash", HANGS), say("<result>done</result>")]);
    let live = bench.start(&["workflow", "--id", "r"]);
    wait_for_file(&bench.path("started"));
    bench.wait_for_tool_use();
    live.send(Signal::TERM);
    live.wait().assert(143, "").says("raymond resume r");
    bench.assert_nothing_lives();
    // The ended turn reported no cost, so its cost is estimated.
    let (lost, estimate) = (bench.api.spent_nanos(), bench.cost_nanos());
    assert!(estimate > lost / 2 && estimate < lost * 2, "{estimate} is not a good estimate of {lost}");
    bench.resume(&[]).assert(0, "done\n");
    let requests = bench.api.requests();
    assert_eq!(requests.len(), 2);
    assert_history(&requests[1], &["user: begin"]);
    assert_eq!(bench.cost_nanos() - estimate, requests[1].nanos());
}

fn interrupted(program: &Program) {
    let bench = Bench::new(program);
    bench.state("START.md", with_bash("begin")).state("NEXT.md", "next");
    let waits = "touch started; until [ -e go ]; do sleep 0.05; done; echo gone";
    bench.api.on("begin", [use_tool("Bash", waits), say("<goto>NEXT</goto>")]);
    bench.api.on("next", [say("<result>done</result>")]);
    let live = bench.start(&["workflow", "--id", "r"]);
    wait_for_file(&bench.path("started"));
    live.send(Signal::INT);
    live.wait_for_stderr("stopping");
    bench.write("go", "");
    live.wait().assert(130, "");
    assert_eq!(bench.asked("next").len(), 0);
    bench.assert_paid();
    bench.assert_nothing_lives();
    bench.resume(&[]).assert(0, "done\n");
    assert_eq!(bench.asked("begin").len(), 2, "no turn is repeated");
    assert_eq!(bench.asked("next")[0].history.len(), 5);
    bench.assert_paid();
}

fn over_time(program: &Program) {
    let got_there = TIMES.into_iter().any(|seconds| {
        let bench = Bench::new(program);
        bench.state("START.md", format!("---\nallow_tools: [ Bash ]\nmax_time: {seconds}s\n---\nbegin"));
        bench.api.on("begin", [use_tool("Bash", HANGS)]);
        bench.run(&[]).assert(1, "").says(&format!("longer than {seconds} s"));
        bench.assert_nothing_lives();
        let got_there = bench.path("started").exists();
        assert!(!got_there || bench.cost_nanos() > 0, "the streamed part is estimated");
        got_there
    });
    assert!(got_there, "the tool was never started in time");
}

/// One of the versions prints something every half minute while a tool runs, so a very slow machine cannot get more
/// time than this.
const SILENCES: [u64; 3] = [5, 12, 25];

fn silent(program: &Program) {
    let got_there = SILENCES.into_iter().any(|seconds| {
        let bench = Bench::new(program);
        bench.state("START.md", format!("---\nallow_tools: [ Bash ]\ntimeout: {seconds}s\n---\nbegin"));
        bench.api.on("begin", [use_tool("Bash", HANGS), say("<result>done</result>")]);
        let done = bench.run(&[]);
        bench.assert_nothing_lives();
        done.says(&format!("printed nothing for {seconds} s"));
        // Otherwise it was silent for another reason: it did not begin in time.
        let got_there = bench.path("started").exists() && bench.events_of("retry").len() == 1;
        if got_there {
            done.assert(0, "done\n");
        }
        got_there
    });
    if !got_there {
        say_skipped("the end of a silent tool", "a machine on which it begins sooner");
    }
}
