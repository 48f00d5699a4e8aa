//! Blobs in a store that speaks S3.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;
use test_kit::needs::installed;

use crate::away::described;
use crate::harness::{Port, Process, Rig, Way, count, eventually, is_alive};

/// A server that speaks S3, or nothing; then the test is skipped.
fn s3_program() -> Option<PathBuf> {
    let named = std::env::var_os("RAYMOND_S3_SERVER").map(PathBuf::from);
    named.or_else(|| installed("s3/bin/moto_server", "a store that speaks S3", "install-s3.sh"))
}

/// The answer to a request without a body.
fn http(port: u16, request: &str) -> Option<String> {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).ok()?;
    let head =
        format!("{request} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
    stream.write_all(head.as_bytes()).ok()?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).ok()?;
    Some(answer)
}

/// A store that speaks S3, and where it is.
struct Store {
    port: Port,
    _server: Process,
}

impl Store {
    /// A store for everything that the rig starts from now on, unless there is no program for it.
    fn start(rig: &mut Rig) -> Option<Self> {
        let program = s3_program()?;
        let port = Port::reserve();
        let mut server = Command::new(program);
        server.args(["-H", "127.0.0.1", "-p", &port.number.to_string()]);
        server.stdout(Stdio::null()).stderr(Stdio::null());
        let server = Process(server.spawn().expect("the server starts"));
        eventually("the S3 server", || {
            http(port.number, "PUT /bucket").filter(|answer| answer.contains(" 200 "))
        });
        rig.blobs = "s3://bucket/raymond".to_owned();
        reach_store_at(rig, port.number);
        Some(Self { port, _server: server })
    }
}

/// Programs that are started from now on reach the store through this port.
fn reach_store_at(rig: &mut Rig, port: u16) {
    rig.variables = vec![
        ("AWS_ENDPOINT", format!("http://127.0.0.1:{port}")),
        ("AWS_ALLOW_HTTP", "true".to_owned()),
        ("AWS_REGION", "us-east-1".to_owned()),
        ("AWS_ACCESS_KEY_ID", "key".to_owned()),
        ("AWS_SECRET_ACCESS_KEY", "secret".to_owned()),
    ];
}

#[test]
fn blobs_are_kept_in_an_s3_store() {
    let Some(mut rig) = Rig::new() else { return };
    let Some(store) = Store::start(&mut rig) else { return };
    rig.state("START.sh", "echo '<result>done</result>'\n");
    let _worker = rig.worker("a");
    rig.start();
    rig.until("run_finished");
    let listed = http(store.port.number, "GET /bucket?list-type=2").expect("an answer");
    assert!(listed.contains("<Key>raymond/"), "{listed}");
}

/// The machine `a` counts as lost while it uploads what its step left. The step runs again on `b`, and only then the upload of
/// `a` arrives.
#[test]
fn an_upload_that_arrives_late_does_not_replace_what_the_agent_left_since() {
    let Some(mut rig) = Rig::quick() else { return };
    let Some(store) = Store::start(&mut rig) else { return };
    rig.commit_all(&[("kept", "as committed\n")]);
    rig.state(
        "START.sh",
        "echo $HOST_NAME > who; echo $HOST_NAME > $RAYMOND_TASK_FOLDER/t; echo $$ >> $DIR/begun\n\
         while [ ! -e $DIR/go-$HOST_NAME ]; do sleep 0.05; done\n\
         echo '<goto>NEXT</goto>'\n",
    );
    rig.state(
        "NEXT.sh",
        "echo \"$HOST_NAME: $(cat who $RAYMOND_TASK_FOLDER/t | tr '\\n' ' ')\" >> $DIR/seen\n\
         while [ ! -e $DIR/go ]; do sleep 0.05; done\n\
         echo '<result>done</result>'\n",
    );
    let (to_server, to_store) = (Way::to(&rig), Way::to_port(store.port.number));
    reach_store_at(&mut rig, to_store.port);
    let _lost = rig.worker_through("a", to_server.port);
    reach_store_at(&mut rig, store.port.number);
    rig.start();
    let pid = rig.lines("begun", 1)[0].clone();
    to_store.cut(true);
    rig.write("go-a");
    eventually("the end of the step's program", || (!is_alive(&pid)).then_some(()));
    to_server.cut(true);
    let mut second = rig.worker("b");
    rig.lines("begun", 2);
    rig.write("go-b");
    assert_eq!(rig.lines("seen", 1), ["b: b b "]);
    to_store.cut(false);
    rig.until_recorded("a", true);
    second.kill();
    let _third = rig.worker("c");
    assert_eq!(rig.lines("seen", 2), ["b: b b ", "c: b b "]);
    rig.write("go");
    rig.until("run_finished");
}

/// A worker whose step has ended while the store hangs, so that what it left is not kept. The step goes on with this tag.
fn unkept(rig: &mut Rig, tag: &str) -> Option<(Store, Way, Process)> {
    unkept_by(rig, tag, |rig| rig.worker("a"))
}

fn unkept_by(rig: &mut Rig, tag: &str, start: impl FnOnce(&Rig) -> Process) -> Option<(Store, Way, Process)> {
    let store = Store::start(rig)?;
    let script = format!(
        "echo x > $RAYMOND_TASK_FOLDER/left; echo begun >> $DIR/begun\n\
         while [ ! -e $DIR/go ]; do sleep 0.05; done; echo '{tag}'\n"
    );
    rig.state("START.sh", &script);
    rig.state("NEXT.sh", "echo \"<result>$RAYMOND_INPUT $(cat $RAYMOND_TASK_FOLDER/left)</result>\"\n");
    let to_store = Way::to_port(store.port.number);
    reach_store_at(rig, to_store.port);
    let worker = start(rig);
    reach_store_at(rig, store.port.number);
    rig.start();
    rig.lines("begun", 1);
    to_store.cut(true);
    rig.write("go");
    rig.until_recorded("a", false);
    Some((store, to_store, worker))
}

/// It would be paid for twice if it ran again.
#[test]
fn a_step_that_has_ended_does_not_run_again_if_its_worker_is_killed_before_its_files_are_kept() {
    let Some(mut rig) = Rig::quick() else { return };
    let tag = "<goto input=\"handed\">NEXT</goto>";
    let Some((_store, _to_store, mut worker)) = unkept(&mut rig, tag) else { return };
    worker.kill();
    let _again = rig.worker("a");
    let log = rig.until("run_finished");
    assert_eq!(log.last().expect("an end")["result"], "handed x");
    assert_eq!((count(&log, "retry"), rig.read("begun").lines().count()), (0, 1), "{log:#?}");
}

/// The server delivers the step again, because it has not heard of it. That delivery waits for the first one, and the run is
/// stopped meanwhile.
#[test]
fn a_step_that_has_ended_is_not_taken_for_one_that_never_began() {
    let Some(mut rig) = Rig::quick() else { return };
    let (tag, to_server) = ("<goto input=\"handed\">NEXT</goto>", Way::to(&rig));
    let start = |rig: &Rig| rig.worker_through("a", to_server.port);
    let Some((_store, to_store, _worker)) = unkept_by(&mut rig, tag, start) else { return };
    let pending = |rig: &Rig| described(rig, "r")["pendingActivities"][0].clone();
    to_server.cut(true);
    eventually("the second delivery", || (pending(&rig)["attempt"] == 2).then_some(()));
    to_server.cut(false);
    let is_there = |rig: &Rig| pending(rig)["state"] == "PENDING_ACTIVITY_STATE_STARTED";
    eventually("its arrival", || is_there(&rig).then_some(()));
    assert!(rig.raymond(&["stop", "r", "--now"]).status.success());
    let heartbeat = |rig: &Rig| pending(rig)["lastHeartbeatTime"].clone();
    // Each answer to a heartbeat says that the step is to be ended.
    for _ in 0..2 {
        let last = heartbeat(&rig);
        eventually("a heartbeat", || (heartbeat(&rig) != last).then_some(()));
    }
    to_store.cut(false);
    let log = rig.until("run_stopped");
    assert_eq!(count(&log, "step_finished"), 1, "{log:#?}");
    let mut resumed = rig.spawn(&["resume", "r"]);
    let log = rig.until("run_finished");
    assert!(resumed.ends());
    assert_eq!(log.last().expect("an end")["result"], "handed x");
    assert_eq!((count(&log, "retry"), rig.read("begun").lines().count()), (0, 1), "{log:#?}");
}

/// A worker that leaves does not wait for a store that hangs, and its step does not run again.
#[test]
fn a_worker_that_must_leave_reports_a_step_whose_files_cannot_be_kept() {
    let Some(mut rig) = Rig::new() else { return };
    let tag = "<result>done</result>";
    let Some((_store, _to_store, mut worker)) = unkept(&mut rig, tag) else { return };
    worker.terminate();
    eventually("the worker's leave", || rig.logs().contains("takes no more agents").then_some(()));
    // The second signal ends what runs.
    worker.terminate();
    assert!(worker.ends(), "{}", rig.logs());
    let _other = rig.worker("b");
    let log = rig.until("run_finished");
    assert_eq!((count(&log, "retry"), rig.read("begun").lines().count()), (0, 1), "{log:#?}");
    let warnings = log.iter().filter(|event| event["event"] == "warning");
    let is_told = |warning: &Value| warning.to_string().contains("could not be kept for other machines");
    assert_eq!(warnings.filter(|warning| is_told(warning)).count(), 1, "{log:#?}");
}

#[test]
fn a_run_that_is_stopped_at_once_does_not_wait_for_a_store_that_hangs() {
    let Some(mut rig) = Rig::quick() else { return };
    let Some(store) = Store::start(&mut rig) else { return };
    rig.state("START.sh", "touch left; echo begun >> $DIR/begun; while true; do sleep 0.05; done\n");
    let to_store = Way::to_port(store.port.number);
    reach_store_at(&mut rig, to_store.port);
    let _worker = rig.worker("a");
    reach_store_at(&mut rig, store.port.number);
    rig.start();
    rig.lines("begun", 1);
    to_store.cut(true);
    let told = Instant::now();
    assert!(rig.raymond(&["stop", "r", "--now"]).status.success());
    let log = rig.until("run_stopped");
    // The library for S3 itself gives up after three minutes.
    assert!(told.elapsed() < Duration::from_secs(100), "{:?}", told.elapsed());
    assert_eq!(count(&log, "retry"), 0, "the step counts as lost: {log:#?}");
    let warning = log.iter().find(|event| event["event"] == "warning").expect("a warning");
    let message = warning["message"].as_str().expect("a text");
    assert!(message.contains("could not be kept for other machines"), "{message}");
}

/// The resume needs the states for another model, and no worker can read them.
#[test]
fn a_resume_that_waits_for_the_store_can_be_called_off() {
    let Some(mut rig) = Rig::new() else { return };
    let Some(store) = Store::start(&mut rig) else { return };
    rig.state("START.sh", "[ -e $DIR/go ] && echo '<result>done</result>'\n");
    let to_store = Way::to_port(store.port.number);
    reach_store_at(&mut rig, to_store.port);
    let _worker = rig.worker("a");
    reach_store_at(&mut rig, store.port.number);
    rig.start();
    rig.until("run_stopped");
    to_store.cut(true);
    let mut resumed = rig.spawn(&["resume", "r", "--model", "other"]);
    let stop = || String::from_utf8_lossy(&rig.raymond(&["stop", "r"]).stderr).into_owned();
    eventually("a resume that waits", || stop().contains("r: stops").then_some(()));
    assert!(!resumed.ends());
    to_store.cut(false);
    rig.write("go");
    let mut resumed = rig.spawn(&["resume", "r", "--model", "other"]);
    let log = rig.until("run_finished");
    assert!(resumed.ends());
    assert_eq!(count(&log, "run_resumed"), 1, "{log:#?}");
}
