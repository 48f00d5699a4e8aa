//! Kills at any time: finished turns are kept, and conversations contain only finished turns.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use mock_api::{Reply, say, use_tool};
use raymond::agent::registry::program as program_of_kind;
use raymond::agent::session::{SessionPlace, export, import};
use rustix::process::Signal;
use test_kit::rig::{Live, send, wait_for_file, wait_until};

use crate::Case;
use crate::bench::{Bench, assert_history, nanos};
use crate::programs::Program;
use crate::tools::with_bash;

pub(crate) const CASES: &[Case] = &[
    ("a_killed_raymond_resumes_its_turn_with_a_perfect_history", mid_turn),
    ("a_killed_raymond_resumes_a_tool_call_with_a_perfect_history", mid_tool_call),
    ("raymond_and_the_program_are_killed_together", both),
    ("a_killed_program_is_started_again", program_killed),
    ("the_agent_program_ends_when_raymond_is_killed", no_orphan),
    ("kills_at_any_moment_change_no_conversation_and_no_result", anywhere),
    ("a_conversation_goes_on_in_another_home", carried),
];

/// A command that records its pids, creates a file, and then hangs, also with a child in its own session.
const HANGS: &str = "setsid sleep 3333 & echo $! > pids; echo $$ >> pids; touch started; sleep 3334";
/// Prints whether one of those processes still runs; a zombie does not.
const LOOKS: &str = "for pid in $(cat pids 2>/dev/null); do grep -q '^State:.[^ZX]' /proc/$pid/status 2>/dev/null && echo twin; done; echo looked";

/// Three states in one conversation, the second of which uses a tool.
fn bench(program: &Program, second: Vec<Reply>) -> Bench {
    let bench = Bench::new(program);
    bench.state("START.md", "begin").state("SECOND.md", with_bash("go on")).state("THIRD.md", "finish");
    bench.api.on("begin", [say("<goto>SECOND</goto>")]);
    bench.api.on("go on", second);
    bench.api.on("finish", [say("<result>done</result>")]);
    bench
}

fn perfect() -> Vec<Reply> {
    vec![use_tool("Bash", LOOKS), say("<goto>THIRD</goto>")]
}

/// The histories of the requests, in order, without those of lost turns.
fn histories(bench: &Bench, lost: usize) -> Vec<Vec<String>> {
    let mut requests = bench.api.requests();
    // The lost requests come after `begin`, which is kept.
    requests.drain(1..=lost);
    requests.into_iter().map(|request| request.history).collect()
}

#[track_caller]
fn assert_perfect(bench: &Bench, lost: usize) {
    let expected = [
        "user: begin",
        "agent: <goto>SECOND</goto>",
        "user: go on",
        &format!("tool: Bash {{\"command\":{LOOKS:?},\"description\":\"a test\"}}"),
        "got: looked",
        "agent: <goto>THIRD</goto>",
        "user: finish",
    ]
    .map(str::to_owned);
    let expected = [1, 3, 5, 7].map(|length| expected[..length].to_vec());
    assert_eq!(histories(bench, lost), expected, "{lost} requests were lost");
    bench.assert_nothing_lives();
}

/// Checks that the cost of the finished turns is exact; returns the real cost and Raymond's estimate of the lost turn.
fn paid_and_lost(bench: &Bench, lost: usize) -> (u64, u64) {
    let requests = bench.api.requests();
    let lost_nanos: u64 = requests[1..=lost].iter().map(|request| request.nanos()).sum();
    let estimates = bench
        .events_of("run_resumed")
        .into_iter()
        .flat_map(|event| event["interrupted"].as_array().cloned().unwrap_or_default());
    let estimate = estimates.map(|step| step.get("estimated_cost_usd").map_or(0, nanos)).sum();
    assert_eq!(bench.cost_nanos() - estimate, bench.api.spent_nanos() - lost_nanos, "{requests:#?}");
    (lost_nanos, estimate)
}

fn start(bench: &Bench) -> Live {
    bench.start(&["workflow", "--id", "r"])
}

fn mid_turn(program: &Program) {
    let mut replies = perfect();
    replies.insert(0, say("half an answer").stuck());
    let bench = bench(program, replies);
    let live = start(&bench);
    wait_until("the second turn", || bench.asked("go on").len() == 1);
    live.kill();
    bench.resume(&[]).assert(0, "done\n").says("was interrupted and runs again");
    assert_perfect(&bench, 1);
    // The program had not printed anything of that answer yet, so its cost is not known.
    assert_eq!(paid_and_lost(&bench, 1).1, 0);
}

fn mid_tool_call(program: &Program) {
    let mut replies = perfect();
    replies.insert(0, use_tool("Bash", HANGS));
    let bench = bench(program, replies);
    let live = start(&bench);
    wait_for_file(&bench.path("started"));
    bench.wait_for_tool_use();
    live.kill();
    bench.resume(&[]).assert(0, "done\n");
    assert_perfect(&bench, 1);
    let (lost, estimate) = paid_and_lost(&bench, 1);
    assert!(estimate > lost / 2 && estimate < lost * 2, "{estimate} is not a good estimate of {lost}");
}

/// Only the resumed Raymond can end the tools of the program.
fn both(program: &Program) {
    let mut replies = perfect();
    replies.insert(0, use_tool("Bash", HANGS));
    let bench = bench(program, replies);
    let live = start(&bench);
    wait_for_file(&bench.path("started"));
    live.send(Signal::STOP);
    let agent = program_of(&bench);
    live.kill();
    send(agent, Signal::KILL);
    wait_until("the orphans", || bench.survivors().iter().all(|(pid, _)| *pid != agent));
    assert!(!bench.survivors().is_empty(), "the tool still runs");
    bench.resume(&[]).assert(0, "done\n");
    assert_perfect(&bench, 1);
}

fn program_killed(program: &Program) {
    let mut replies = perfect();
    replies.insert(0, use_tool("Bash", HANGS));
    let bench = bench(program, replies);
    let live = start(&bench);
    wait_for_file(&bench.path("started"));
    send(program_of(&bench), Signal::KILL);
    live.wait().assert(0, "done\n").says("signal 9");
    assert_perfect(&bench, 1);
    let retry = &bench.events_of("retry")[0];
    assert_eq!(retry["cost_estimated"], true, "{retry}");
    let requests = bench.api.requests();
    let (lost, estimate) = (requests[1].nanos(), nanos(&retry["attempt_cost_usd"]));
    assert!(estimate > lost / 2 && estimate < lost * 2, "{estimate} is not a good estimate of {lost}");
    assert_eq!(bench.cost_nanos() - estimate, bench.api.spent_nanos() - lost);
}

/// If Raymond is killed, its agent program must end too, because it would continue to spend money.
fn no_orphan(program: &Program) {
    let bench = bench(program, vec![use_tool("Bash", HANGS)]);
    let live = start(&bench);
    wait_for_file(&bench.path("started"));
    let agent = program_of(&bench);
    live.kill();
    wait_until("the end of the program", || bench.survivors().iter().all(|(pid, _)| *pid != agent));
    assert_eq!(bench.asked("go on").len(), 1, "there are no more requests");
    assert_history(&bench.asked("go on")[0], &["user: begin", "agent: <goto>SECOND</goto>", "user: go on"]);
}

/// Two kills for each question, at any place in Raymond: it is answered only after a kill, and there is another kill
/// soon after the first answer.
fn anywhere(program: &Program) {
    let bench = Bench::new(program);
    bench
        .state("START.md", "begin")
        .state("CHILD.md", with_bash("child"))
        .state("BACK.md", "back with {{result}}");
    bench.state("WORKER.md", "worker").state("PARENT.md", "parent").state("LAST.md", "last");
    let answers = BTreeMap::from([
        ("begin", "<call return=\"BACK\">CHILD</call>"),
        ("child", "<result>7</result>"),
        ("back with 7", "<fork next=\"PARENT\">WORKER</fork>"),
        ("worker", "<result>worked</result>"),
        ("parent", "<join>LAST</join>"),
        ("last", "<result>done</result>"),
    ]);
    for (question, answer) in &answers {
        bench.api.on(question, [say(answer).stuck()]);
    }
    let (mut kills, mut seen) = (0, 0);
    let mut live = start(&bench);
    loop {
        wait_until("a question to kill at, or the end", || is_deadly(&bench, seen) || !is_alive(&live));
        if !is_deadly(&bench, seen) {
            break;
        }
        // The seed; only the moments of the kills depend on it.
        std::thread::sleep(Duration::from_millis(70 * kills as u64));
        live.kill();
        kills += 1;
        for request in bench.api.requests().split_off(seen) {
            bench.api.on(&request.prompt, [say(answers[request.prompt.as_str()])]);
            seen += 1;
        }
        live = bench.start(&["resume", "r"]);
    }
    live.wait().assert(0, "done\n");
    // Each of these is asked only after the answer to the one before: begin, child, back, parent, last.
    assert!(kills >= 5, "only {kills} kills");
    let main = [
        "user: begin",
        "agent: <call return=\"BACK\">CHILD</call>",
        "user: back with 7",
        "agent: <fork next=\"PARENT\">WORKER</fork>",
        "user: parent",
        "agent: <join>LAST</join>",
        "user: last",
    ];
    let finished = bench.events_of("step_finished");
    let states: BTreeSet<&str> = finished.iter().map(|event| event["state"].as_str().unwrap()).collect();
    assert_eq!((states.len(), finished.len()), (6, 6), "each state is completed once");
    for request in bench.api.requests() {
        match request.prompt.as_str() {
            "begin" => assert_history(&request, &main[..1]),
            "child" => assert_history(&request, &[main[0], main[1], "user: child"]),
            "back with 7" => assert_history(&request, &main[..3]),
            "worker" => assert_history(&request, &["user: worker"]),
            "parent" => assert_history(&request, &main[..5]),
            "last" => assert_history(&request, &main),
            other => panic!("unexpected prompt {other}"),
        }
    }
    // A kill loses at most one turn of each agent, and never a completed one.
    let requests = bench.api.requests().len();
    assert!(requests <= 6 + 2 * kills, "{requests} requests, {kills} kills");
    let counted: u64 = finished.iter().map(|event| nanos(&event["attempt_cost_usd"])).sum();
    let sessions: BTreeSet<&str> =
        finished.iter().map(|event| event["session"]["id"].as_str().unwrap()).collect();
    let given: u64 = bench
        .api
        .requests()
        .iter()
        .filter(|request| sessions.contains(request.session.as_str()))
        .map(|request| request.nanos())
        .sum();
    assert_eq!(counted, given, "the cost of the finished turns is exact");
    bench.assert_nothing_lives();
}

/// Whether there is a new request since `seen` that was made at most once before, so that kills end at some time.
fn is_deadly(bench: &Bench, seen: usize) -> bool {
    let requests = bench.api.requests();
    let times =
        |last: usize| requests[..=last].iter().filter(|it| it.prompt == requests[last].prompt).count();
    (seen..requests.len()).any(|new| times(new) <= 2)
}

/// Its parent process has not waited for it yet, so after its end it is a zombie.
fn is_alive(live: &Live) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{}/stat", live.pid())).unwrap_or_default();
    !stat.is_empty() && !stat.contains(") Z ")
}

/// The pid of the running agent program.
pub(crate) fn program_of(bench: &Bench) -> i32 {
    let survivors = bench.survivors();
    let found =
        survivors.iter().find(|(_, line)| line.contains("--session-id") && line.contains("--output-format"));
    found.unwrap_or_else(|| panic!("no agent program runs: {survivors:?}")).0
}

/// The conversation is all that is carried over, as to another machine.
fn carried(program: &Program) {
    let mut bench = Bench::new(program);
    bench.state("START.md", "begin").state("NEXT.md", "go on");
    bench.state("GATE.sh", "[ -e open ] && echo '<goto>NEXT</goto>'");
    bench.api.on("begin", [say("<goto>GATE</goto>")]);
    bench.api.on("go on", [say("<result>done</result>")]);
    let homes = ["first", "second"].map(|name| bench.path(&format!("../{name}-home")));
    for home in &homes {
        std::fs::create_dir(home).unwrap();
    }
    bench.variables.push(("HOME", homes[0].to_str().unwrap().to_owned()));
    // It is the same person's Raymond.
    bench.variables.push(("XDG_DATA_HOME", bench.home().display().to_string()));
    bench.run(&[]).assert(1, "");

    let finished = bench.events_of("step_finished");
    let session = finished[0]["session"]["id"].as_str().unwrap();
    let claude = program_of_kind("claude", &Default::default()).unwrap();
    let [from, to] =
        homes.map(|home| move |name: &str| (name == "HOME").then(|| home.clone().into_os_string()));
    let cwd = bench.work();
    let kept = SessionPlace { session, cwd: &cwd, variable: &from };
    let conversation = export(&*claude, &kept).unwrap().unwrap();
    assert!(import(&*claude, &SessionPlace { variable: &to, ..kept }, &conversation).unwrap());
    std::fs::remove_dir_all(from("HOME").unwrap()).unwrap();

    bench.variables.push(("HOME", to("HOME").unwrap().into_string().unwrap()));
    bench.write("open", "");
    bench.resume(&[]).assert(0, "done\n");
    let requests = bench.api.requests();
    assert_history(&requests[1], &["user: begin", "agent: <goto>GATE</goto>", "user: go on"]);
}
