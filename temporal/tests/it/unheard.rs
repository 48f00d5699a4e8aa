//! What commands do and say when no worker takes a run, when the server has ended it, and when the server hangs.

use std::fs::{self, File};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::process::Output;
use std::time::{Duration, Instant, SystemTime};

use crate::harness::{LIMIT, Process, Rig, Way, count, eventually};

/// A command waits two seconds for a server that hangs. The rest is for a machine that is busy with other tests; before there
/// was one deadline for a whole command, an answer took fourteen.
const SOON: Duration = Duration::from_secs(6);

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

fn printed(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// The server has to be asked for its runs by commands of the project, also when none is known to be open.
fn configure_engine(rig: &Rig) {
    rig.configure(&format!("[engine.fleet]\nurl = \"{}\"\n", rig.address()));
}

/// Starts the workflow as this run and follows it. What it says is in a file of that name.
fn follow(rig: &Rig, id: &str, options: &[&str]) -> Process {
    let address = rig.address();
    let start = [&["run", "wf", "--id", id, "--on", &address], options].concat();
    eventually("an answer of the server", || {
        let says = File::create(rig.path(id)).unwrap();
        let mut follower = rig.spawn_saying(&start, says);
        let has_begun = eventually("a beginning, or the end", || match follower.0.try_wait().unwrap() {
            Some(_) => Some(false),
            None => rig.read(id).contains(&format!("{id} runs wf")).then_some(true),
        });
        has_begun.then_some(follower)
    })
}

fn until_said(rig: &Rig, id: &str, text: &str) {
    let begun = Instant::now();
    while !rig.read(id).contains(text) {
        assert!(begun.elapsed() < LIMIT, "`{text}` was not said within {LIMIT:?}, but: {}", rig.read(id));
        std::thread::sleep(Duration::from_millis(20));
    }
}

fn exit_of(follower: &mut Process) -> Option<i32> {
    eventually("the end of a follower", || follower.0.try_wait().unwrap()).code()
}

#[test]
fn a_run_that_no_worker_has_taken_is_shown_and_stops_when_one_does() {
    let Some(rig) = Rig::new() else { return };
    rig.state("START.sh", "touch $DIR/ran; echo '<result>done</result>'\n");
    rig.start();
    let listed = rig.raymond(&["list"]);
    assert!(printed(&listed).contains("running"), "{listed:?}");
    assert!(said(&listed).contains("note: no worker reads the queue q of 127.0.0.1"), "{listed:?}");
    let status = rig.raymond(&["status", "r", "--json"]);
    assert!(printed(&status).contains("\"stale\": \"no worker reads the queue q"), "{status:?}");
    let before = rig.until("run_started");
    let stopped = rig.raymond(&["stop", "r"]);
    assert!(said(&stopped).contains("r stops as soon as a worker takes it up"), "{stopped:?}");
    let refused = rig.raymond(&["clean", "r"]);
    assert!(said(&refused).contains("r is running"), "{refused:?}");
    let _worker = rig.worker("a");
    let log = rig.until("run_stopped");
    assert_eq!(log[..before.len()], before, "what the server tells is what the worker tells");
    assert!(!rig.path("ran").exists());
}

#[test]
fn a_run_that_no_worker_has_taken_can_be_ended_and_removed() {
    let Some(rig) = Rig::new() else { return };
    rig.state("START.sh", "echo '<result>done</result>'\n");
    configure_engine(&rig);
    rig.start();
    let ended = rig.raymond(&["stop", "--now", "r"]);
    assert!(said(&ended).contains("r was ended before any worker had taken it"), "{ended:?}");
    let listed = rig.raymond(&["list"]);
    assert!(printed(&listed).contains("interrupted") && said(&listed).is_empty(), "{listed:?}");
    let refused = rig.raymond(&["resume", "r"]);
    assert_eq!(refused.status.code(), Some(2), "{refused:?}");
    assert!(rig.raymond(&["clean", "r"]).status.success());
    // The server still lists it.
    let listed = rig.raymond(&["list"]);
    assert!(said(&listed).starts_with("there are no runs"), "{listed:?}");
}

#[test]
fn a_follower_says_that_no_worker_has_taken_the_run() {
    let Some(rig) = Rig::new() else { return };
    rig.state("START.sh", "echo '<result>done</result>'\n");
    let mut follower = follow(&rig, "r", &[]);
    until_said(&rig, "r", "r waits: no worker reads the queue q");
    let _worker = rig.worker("a");
    assert!(follower.ends(), "{}", rig.read("r"));
    assert!(rig.read("r").contains("r is heard of again"), "{}", rig.read("r"));
}

#[test]
fn workers_with_another_store_of_blobs_are_named() {
    let Some(mut rig) = Rig::new() else { return };
    rig.state("START.sh", "echo '<result>done</result>'\n");
    let others = format!("file://{}", rig.path("others").display());
    let blobs = std::mem::replace(&mut rig.blobs, others);
    let _worker = rig.worker("a");
    rig.blobs = blobs;
    rig.start_as("stopped", &[]);
    rig.until_in("stopped", "step_started");
    assert!(rig.raymond(&["stop", "--now", "stopped"]).status.success());
    rig.until_in("stopped", "run_stopped");
    rig.start_as("left", &[]);
    let log = rig.until_in("left", "run_stopped");
    let failed = log.iter().find(|event| event["event"] == "step_failed").expect("a failure");
    let error = failed["error"].as_str().unwrap();
    assert!(error.contains("is not in the blob store") && error.contains("`--blobs`"), "{error}");
}

#[test]
fn a_run_that_the_server_has_ended_is_over() {
    let Some(rig) = Rig::new() else { return };
    rig.state("START.sh", "echo '<ask next=\"START\">Which?</ask>'\n");
    configure_engine(&rig);
    let _worker = rig.worker("a");
    let mut follower = follow(&rig, "r", &[]);
    rig.until("ask_opened");
    let says = File::create(rig.path("log")).unwrap();
    let mut logger = rig.spawn_saying(&["log", "r", "--follow"], says);
    assert!(rig.temporal(&["workflow", "terminate", "--workflow-id", "r"]).status.success());
    for (process, name) in [(&mut follower, "r"), (&mut logger, "log")] {
        assert_eq!(exit_of(process), Some(1), "{}", rig.read(name));
        assert!(rig.read(name).contains("r was terminated on temporal://"), "{}", rig.read(name));
    }
    let listed = rig.raymond(&["list"]);
    assert!(printed(&listed).contains("interrupted") && said(&listed).is_empty(), "{listed:?}");
    let status = rig.raymond(&["status", "r"]);
    assert!(printed(&status).contains("it was terminated, so it does not go on"), "{status:?}");
    let refused = rig.raymond(&["resume", "r"]);
    assert!(refused.status.code() == Some(2) && said(&refused).contains("was terminated"), "{refused:?}");
    assert!(rig.raymond(&["clean", "r"]).status.success());
    let listed = rig.raymond(&["list"]);
    assert!(said(&listed).starts_with("there are no runs"), "{listed:?}");
}

/// A message that is none fails each task of the run that takes it.
#[test]
fn a_run_that_is_wedged_says_so_and_nothing_seems_to_reach_it() {
    let Some(rig) = Rig::new() else { return };
    rig.state("START.sh", "echo '<ask next=\"START\">Which?</ask>'\n");
    let _worker = rig.worker("a");
    rig.start();
    rig.until("ask_opened");
    let none =
        ["workflow", "signal", "--workflow-id", "r", "--name", "deliver", "--input", "{\"no\": \"mail\"}"];
    assert!(rig.temporal(&none).status.success());
    let status = eventually("a word about it", || {
        let status = rig.raymond(&["status", "r"]);
        printed(&status).starts_with("r  wedged\n").then_some(status)
    });
    assert!(
        printed(&status).contains("since then it is wedged: what is next cannot be decided: "),
        "{status:?}"
    );
    let status = rig.raymond(&["status", "r", "--json"]);
    assert!(printed(&status).contains("\"status\": \"wedged\""), "{status:?}");
    assert!(printed(&rig.raymond(&["list", "--status", "wedged"])).contains("r  "));
    assert!(printed(&rig.raymond(&["doctor"])).contains("r is wedged on temporal://"));
    for command in [&["answer", "r", "this"][..], &["stop", "r"], &["stop", "--now", "r"], &["resume", "r"]] {
        let failed = rig.raymond(command);
        assert_eq!(failed.status.code(), Some(1), "{failed:?}");
        assert!(said(&failed).contains("r is wedged on temporal://"), "{failed:?}");
    }
    assert!(said(&rig.raymond(&["resume", "r"])).contains("raymond branch r --at STEP"));
    let served = Served::start(&rig);
    let (code, problem) = served.ask("POST", "runs/r/stop", "{}");
    assert_eq!(code, 409, "{problem}");
    assert_eq!(served.ask("GET", "runs/r", "").1["status"], "wedged");
}

/// Runs that wait for an answer: `asks`, `goes`, and `stopped`, which is stopped.
fn three_runs(rig: &Rig) {
    rig.state("START.sh", "echo '<ask next=\"THEN\">Which?</ask>'\n");
    rig.state("THEN.sh", "echo \"<result>$RAYMOND_RESULT</result>\"\n");
    for run in ["asks", "goes", "stopped"] {
        rig.start_as(run, &[]);
        rig.until_in(run, "ask_opened");
    }
    assert!(rig.raymond(&["stop", "stopped"]).status.success());
    rig.until_in("stopped", "run_stopped");
}

#[test]
fn commands_come_back_soon_from_a_server_that_hangs_and_lose_nothing() {
    let Some(mut rig) = Rig::new() else { return };
    let _worker = rig.worker("a");
    let way = Way::to(&rig);
    rig.reach_server_at("127.0.0.1", way.port);
    three_runs(&rig);
    way.cut(true);
    let soon = |arguments: &[&str], expected: &str| {
        let start = Instant::now();
        let output = rig.raymond(arguments);
        let (took, text) = (start.elapsed(), said(&output));
        assert!(text.contains("does not answer") && text.contains(expected), "{arguments:?}: {output:?}");
        assert!(took < SOON, "{arguments:?} took {took:?}");
        output
    };
    soon(&["list"], "its runs are shown as they were at");
    soon(&["status", "asks"], "its runs are shown as");
    soon(&["answer", "asks", "this"], "ask1 is answered, but");
    soon(&["stop", "goes"], "the next command that reaches it asks goes to stop");
    for refused in [
        soon(&["resume", "stopped"], "stopped is not resumed"),
        soon(&["run", "wf", "--id", "new", "--on", &rig.address()], "temporal://"),
    ] {
        assert_eq!(refused.status.code(), Some(1), "{refused:?}");
    }
    way.cut(false);
    // Any command hands over what was left.
    let log = rig.until_in("asks", "run_finished");
    assert_eq!(log.last().unwrap()["result"], "this");
    rig.until_in("goes", "run_stopped");
    let log = rig.until_in("stopped", "run_stopped");
    assert_eq!(count(&log, "run_resumed"), 0, "{log:#?}");
}

#[test]
fn a_stop_that_comes_late_does_not_stop_a_run_that_was_resumed_from_another_machine() {
    let Some(mut rig) = Rig::new() else { return };
    rig.state("START.sh", "echo '<ask next=\"THEN\">Which?</ask>'\n");
    rig.state("THEN.sh", "echo \"<result>$RAYMOND_RESULT</result>\"\n");
    configure_engine(&rig);
    let _worker = rig.worker("a");
    let way = Way::to(&rig);
    rig.reach_server_at("127.0.0.1", way.port);
    rig.start();
    rig.until("ask_opened");
    way.cut(true);
    let stopped = rig.raymond(&["stop", "r"]);
    assert!(said(&stopped).contains("the next command that reaches it asks r to stop"), "{stopped:?}");
    // Another machine reaches the server, and has its own copy.
    let there = |arguments: &[&str]| rig.raymond(&[arguments, &["--state-dir", "there"]].concat());
    there(&["list"]);
    assert!(there(&["stop", "r"]).status.success());
    eventually("the stop", || printed(&there(&["log", "r", "--json"])).contains("run_stopped").then_some(()));
    let mut resumed = rig.spawn(&["resume", "r", "--on-ask", "wait", "--state-dir", "there"]);
    eventually("the resume", || {
        printed(&there(&["log", "r", "--json"])).contains("run_resumed").then_some(())
    });
    let inbox = rig.path("project/.raymond/state/r.in");
    for message in fs::read_dir(&inbox).unwrap() {
        let message = File::open(message.unwrap().path()).unwrap();
        message.set_modified(SystemTime::now() - Duration::from_secs(3600)).unwrap();
    }
    way.cut(false);
    // This delivers the stop.
    rig.until("run_resumed");
    assert_eq!(fs::read_dir(inbox).unwrap().count(), 0);
    assert!(there(&["answer", "r", "this"]).status.success());
    assert!(resumed.ends());
    let log = rig.until("run_finished");
    assert_eq!(count(&log, "run_stopped"), 1, "{log:#?}");
}

/// A page's view of the runs, as another program sees it.
struct Served {
    _server: Process,
    address: String,
    token: String,
}

impl Served {
    fn start(rig: &Rig) -> Self {
        let links = rig.path("links");
        let server = rig.spawn_printing(&["serve", "--listen", "127.0.0.1:0"], File::create(&links).unwrap());
        let link = eventually("the link", || {
            let text = fs::read_to_string(&links).ok()?;
            text.contains('\n').then(|| text.trim().to_owned())
        });
        let (address, token) = link.strip_prefix("http://").unwrap().split_once("/#token=").unwrap();
        Self { _server: server, address: address.to_owned(), token: token.to_owned() }
    }

    /// The status and the body of an answer.
    fn ask(&self, method: &str, path: &str, body: &str) -> (u16, serde_json::Value) {
        let mut stream = TcpStream::connect(&self.address).unwrap();
        let Self { address, token, .. } = self;
        write!(
            stream,
            "{method} /api/v1/{path} HTTP/1.1\r\nHost: {address}\r\nAuthorization: Bearer {token}\r\n\
             Content-Type: application/json\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{body}",
            body.len()
        )
        .unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        let status = answer.split(' ').nth(1).unwrap().parse().unwrap();
        let body = answer.split_once("\r\n\r\n").unwrap().1;
        (status, serde_json::from_str(body).unwrap_or_default())
    }
}

#[test]
fn a_page_says_that_what_it_shows_is_old_and_that_the_engine_does_not_answer() {
    let Some(mut rig) = Rig::new() else { return };
    let _worker = rig.worker("a");
    let way = Way::to(&rig);
    rig.reach_server_at("127.0.0.1", way.port);
    three_runs(&rig);
    let served = Served::start(&rig);
    let stale = || served.ask("GET", "runs/asks", "").1["stale"].as_str().map(str::to_owned);
    assert_eq!(stale(), None);
    way.cut(true);
    let why = eventually("a word about the silence", stale);
    assert!(why.contains("its engine does not answer"), "{why}");
    for (path, body) in [
        ("runs/stopped/resume", "{}"),
        ("runs/goes/stop", "{}"),
        ("runs/asks/answers", "{\"ask\":\"ask1\",\"text\":\"this\"}"),
    ] {
        let start = Instant::now();
        let (status, problem) = served.ask("POST", path, body);
        assert_eq!(status, 503, "{path}: {problem}");
        assert!(
            problem["detail"].as_str().is_some_and(|detail| detail.contains("does not answer")),
            "{problem}"
        );
        assert!(start.elapsed() < SOON, "{path} took {:?}", start.elapsed());
    }
    way.cut(false);
    eventually("an answer that is taken", || {
        let (status, _) = served.ask("POST", "runs/asks/answers", "{\"ask\":\"ask1\",\"text\":\"this\"}");
        (status == 200).then_some(())
    });
    eventually("the end of the silence", || stale().is_none().then_some(()));
    rig.until_in("asks", "run_finished");
}

/// Ctrl-Z of a follower keeps the copy from being written.
#[test]
fn a_run_whose_follower_is_suspended_can_be_stopped() {
    let Some(rig) = Rig::new() else { return };
    rig.state("START.sh", "echo '<ask next=\"START\">Which?</ask>'\n");
    let _worker = rig.worker("a");
    let mut follower = follow(&rig, "r", &[]);
    until_said(&rig, "r", "asks (ask1)");
    follower.signal("STOP");
    let stopped = rig.raymond(&["stop", "r"]);
    assert!(said(&stopped).contains("r: stops when its running steps are done"), "{stopped:?}");
    follower.signal("CONT");
    assert_eq!(exit_of(&mut follower), Some(130), "{}", rig.read("r"));
}

#[test]
fn an_id_that_is_in_use_on_the_server_is_a_mistake_of_the_user() {
    let Some(rig) = Rig::new() else { return };
    rig.state("START.sh", "echo '<result>done</result>'\n");
    rig.start();
    let again = ["run", "wf", "--id", "r", "--on", &rig.address(), "--detach", "--state-dir", "another"];
    let refused = rig.raymond(&again);
    assert_eq!(refused.status.code(), Some(2), "{refused:?}");
    assert!(said(&refused).contains("there is a run `r` on temporal:"), "{refused:?}");
}

#[test]
fn each_ctrl_c_of_a_follower_goes_further() {
    let Some(rig) = Rig::new() else { return };
    rig.state("START.sh", "touch $DIR/begun; sleep 300\n");
    let _worker = rig.worker("a");
    let mut follower = follow(&rig, "r", &[]);
    eventually("the step", || rig.path("begun").exists().then_some(()));
    for words in [
        "r goes on elsewhere; Ctrl-C again stops it",
        "r is asked to stop when its running steps are done; Ctrl-C again ends them",
        "r is asked to end its running steps; Ctrl-C again leaves it",
    ] {
        follower.interrupt();
        until_said(&rig, "r", words);
    }
    // Ended steps leave the run terminated.
    assert_eq!(exit_of(&mut follower), Some(143), "{}", rig.read("r"));
    rig.until("run_stopped");
}

#[test]
fn a_follower_leaves_at_the_fourth_ctrl_c_and_the_server_keeps_the_stop() {
    let Some(mut rig) = Rig::new() else { return };
    rig.state("START.sh", "touch $DIR/begun; sleep 300\n");
    let _worker = rig.worker("a");
    let way = Way::to(&rig);
    rig.reach_server_at("127.0.0.1", way.port);
    let mut follower = follow(&rig, "r", &[]);
    eventually("the step", || rig.path("begun").exists().then_some(()));
    way.cut(true);
    until_said(&rig, "r", "does not answer");
    for words in ["goes on elsewhere", "is asked to stop", "is asked to end", "its engine was not reached"] {
        follower.interrupt();
        until_said(&rig, "r", words);
    }
    assert_eq!(exit_of(&mut follower), Some(130), "{}", rig.read("r"));
    way.cut(false);
    rig.until("run_stopped");
}

#[test]
fn a_run_elsewhere_may_pause_for_answers_or_wait_for_them() {
    let Some(rig) = Rig::new() else { return };
    rig.state("START.sh", "echo '<ask next=\"THEN\">Which?</ask>'\n");
    rig.state("THEN.sh", "echo \"<result>$RAYMOND_RESULT</result>\"\n");
    let _worker = rig.worker("a");
    let mut follower = follow(&rig, "r", &["--on-ask", "pause"]);
    assert_eq!(exit_of(&mut follower), Some(3), "{}", rig.read("r"));
    assert!(rig.read("r").contains("raymond answer r ask1"), "{}", rig.read("r"));
    // Without another word it pauses again, and with one it waits.
    let paused = rig.raymond(&["resume", "r"]);
    assert_eq!(paused.status.code(), Some(3), "{paused:?}");
    let mut waits = rig.spawn(&["resume", "r", "--on-ask", "wait"]);
    rig.until_count("run_resumed", 2);
    assert!(rig.raymond(&["answer", "r", "this", "--no-resume"]).status.success());
    assert!(waits.ends());
    assert_eq!(rig.until("run_finished").last().unwrap()["result"], "this");
}

#[test]
fn the_one_who_follows_a_run_may_be_asked_and_answer() {
    let Some(rig) = Rig::new() else { return };
    rig.state("START.sh", "echo '<ask next=\"THEN\">Which?</ask>'\n");
    rig.state("THEN.sh", "echo \"<result>$RAYMOND_RESULT</result>\"\n");
    let _worker = rig.worker("a");
    rig.start();
    rig.until("ask_opened");
    assert!(rig.raymond(&["stop", "r"]).status.success());
    rig.until("run_stopped");
    let says = File::create(rig.path("resumed")).unwrap();
    let mut follower = rig.spawn_typing(&["resume", "r", "--on-ask", "prompt"], says);
    until_said(&rig, "resumed", "[main] asks (ask1):\n    Which?");
    follower.0.stdin.take().unwrap().write_all(b"this one\n").unwrap();
    assert!(follower.ends(), "{}", rig.read("resumed"));
    let log = rig.until("run_finished");
    let closed = log.iter().find(|event| event["event"] == "ask_closed").expect("an answer");
    assert!(closed["answer_id"].as_str().is_some_and(|id| id.starts_with("terminal-")), "{closed}");
    assert_eq!(log.last().unwrap()["result"], "this one");
}
