//! A server that is away for a while.

use std::time::Duration;

use crate::harness::{Rig, Way, count, eventually, is_alive};

#[test]
fn a_result_waits_on_its_machine_until_the_server_is_back() {
    a_result_waits(Duration::ZERO, &[]);
}

/// The server has counted the machine as silent by then. `cargo test -- --ignored a_minute`
#[test]
#[ignore = "on demand: takes minutes"]
fn a_result_waits_on_its_machine_for_more_than_a_minute() {
    // These are the times that runs have if nothing else is said.
    let usual = [("RAYMOND_HEARTBEAT_MS", "30000"), ("RAYMOND_HOST_PATIENCE_MS", "60000")];
    a_result_waits(Duration::from_secs(65), &usual);
}

fn a_result_waits(longer: Duration, variables: &[(&str, &str)]) {
    let Some(mut rig) = Rig::new() else { return };
    rig.state(
        "START.sh",
        "echo $$ >> $DIR/begun\nwhile [ ! -e $DIR/go ]; do sleep 0.05; done\necho '<result>done</result>'\n",
    );
    let _worker = rig.worker("a");
    rig.start_with(variables);
    rig.lines("begun", 1);
    rig.kill_server();
    rig.write("go");
    rig.until_recorded("a", true);
    std::thread::sleep(longer);
    rig.start_server();
    let log = rig.until("run_finished");
    assert_eq!((count(&log, "step_finished"), count(&log, "retry")), (1, 0), "{log:#?}");
    assert_eq!(rig.read("begun").lines().count(), 1, "it ran once");
}

#[test]
fn never_two_at_once_when_the_server_is_away_for_long() {
    let Some(mut rig) = Rig::quick() else { return };
    rig.state(
        "START.sh",
        "for p in $(cat $DIR/begun 2>/dev/null); do kill -0 $p 2>/dev/null && echo both >> $DIR/both; done\n\
         echo $$ >> $DIR/begun\nwhile [ ! -e $DIR/go ]; do sleep 0.05; done\necho '<result>done</result>'\n",
    );
    let _worker = rig.worker("a");
    rig.start();
    let pid = rig.lines("begun", 1)[0].clone();
    rig.kill_server();
    eventually("the fence", || (!is_alive(&pid)).then_some(()));
    rig.start_server();
    rig.lines("begun", 2);
    rig.write("go");
    let log = rig.until("run_finished");
    assert_eq!(rig.read("both"), "");
    assert_eq!((count(&log, "step_finished"), count(&log, "retry")), (1, 1), "{log:#?}");
}

#[test]
fn a_report_that_comes_twice_counts_once() {
    let Some(rig) = Rig::new() else { return };
    rig.state(
        "START.sh",
        "echo 1 >> $DIR/begun\nwhile [ ! -e $DIR/go ]; do sleep 0.05; done\necho '<goto>NEXT</goto>'\n",
    );
    rig.state("NEXT.sh", "echo 2 >> $DIR/begun\necho '<result>done</result>'\n");
    let way = Way::to(&rig);
    let _worker = rig.worker_through("a", way.port);
    rig.start();
    rig.lines("begun", 1);
    way.cut_answers(true);
    rig.write("go");
    // It says so when the first report was not answered, and reports again.
    eventually("the second report", || rig.logs().contains("a result waits for the server").then_some(()));
    way.cut_answers(false);
    let log = rig.until("run_finished");
    assert_eq!((count(&log, "step_finished"), count(&log, "retry")), (2, 0), "{log:#?}");
    assert_eq!(rig.read("begun"), "1\n2\n");
}
