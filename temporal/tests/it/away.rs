//! A store of blobs that is away while a run needs it, and runs that are ended with Temporal's own tools.

use std::fs;

use serde_json::Value;

use crate::harness::{Rig, count, eventually, is_alive};

/// Ten prints that are just short enough for the journal. Together they are so long that the journal is kept.
const PRINTS: &str =
    "for n in $(seq 10); do echo \"<print>$(head -c 45000 /dev/urandom | base64 -w 0)</print>\"; done\n";
/// Notes its start, and waits for the file `go`.
const SLOW: &str = "echo $$ >> $DIR/begun; while [ ! -e $DIR/go ]; do sleep 0.05; done\n";

/// The store takes no part of the journal until `is_back`: where its folder would be is a file.
fn takes_no_journal(rig: &Rig, run: &str) {
    fs::create_dir_all(rig.path(&format!("blobs/runs/{run}"))).unwrap();
    rig.write(&format!("blobs/runs/{run}/journal"));
}

fn is_back(rig: &Rig, run: &str) {
    fs::remove_file(rig.path(&format!("blobs/runs/{run}/journal"))).unwrap();
}

/// What the server says of a run.
pub fn described(rig: &Rig, run: &str) -> Value {
    let output = rig.temporal(&["workflow", "describe", "--workflow-id", run, "--output", "json"]);
    serde_json::from_slice(&output.stdout).unwrap_or_default()
}

fn status(rig: &Rig, run: &str) -> String {
    described(rig, run)["workflowExecutionInfo"]["status"].as_str().unwrap_or("").to_owned()
}

fn until_status(rig: &Rig, run: &str, wanted: &str) {
    let mut last = String::new();
    eventually(&format!("{wanted} of {run}; {}", rig.logs()), || {
        last = status(rig, run);
        (last == wanted).then_some(())
    });
}

/// How many events of a kind the run's history has.
fn count_in_history(rig: &Rig, kind: &str) -> usize {
    let output = rig.temporal(&["workflow", "show", "--workflow-id", "r", "--output", "json"]);
    let history: Value = serde_json::from_slice(&output.stdout).expect("a history");
    let events = history["events"].as_array().expect("events");
    events.iter().filter(|event| event["eventType"] == kind).count()
}

#[test]
fn a_run_with_a_long_journal_goes_on_and_can_be_stopped_while_the_store_is_away() {
    let Some(rig) = Rig::new() else { return };
    rig.state("START.sh", &format!("{PRINTS}echo '<goto>ASK</goto>'\n"));
    rig.state("ASK.sh", "echo '<ask next=\"SLOW\">Which?</ask>'\n");
    rig.state("SLOW.sh", &format!("{SLOW}echo '<result>done</result>'\n"));
    rig.start();
    takes_no_journal(&rig, "r");
    let _worker = rig.worker("a");
    rig.until("ask_opened");
    assert!(rig.raymond(&["answer", "r", "this", "--no-resume"]).status.success());
    let pid = rig.lines("begun", 1)[0].clone();
    assert!(rig.raymond(&["stop", "r", "--now"]).status.success());
    let log = rig.until("run_stopped");
    assert!(!is_alive(&pid));
    assert_eq!((count(&log, "print"), count(&log, "step_finished")), (10, 2), "{log:#?}");
    let mut resumed = rig.spawn(&["resume", "r"]);
    rig.lines("begun", 2);
    rig.write("go");
    rig.until("run_finished");
    assert!(resumed.ends());
    // The workflow ends when all of its journal is kept.
    assert_eq!(status(&rig, "r"), "WORKFLOW_EXECUTION_STATUS_RUNNING");
    is_back(&rig, "r");
    until_status(&rig, "r", "WORKFLOW_EXECUTION_STATUS_COMPLETED");
    assert!(rig.raymond(&["clean", "r"]).status.success());
}

/// After a pause the run goes on with its history, until that is much too long. Then nothing starts, but a stop is taken.
#[test]
fn a_run_that_cannot_change_its_history_goes_on_for_a_while_and_can_be_stopped() {
    let Some(rig) = Rig::new() else { return };
    let again = "[ -e $DIR/go ] && echo '<result>done</result>' || echo '<goto>START</goto>'\n";
    rig.state("START.sh", &format!("echo $$ >> $DIR/begun; {again}"));
    rig.start_with(&[("RAYMOND_CONTINUE_AFTER", "30")]);
    takes_no_journal(&rig, "r");
    let _worker = rig.worker("a");
    let length =
        || described(&rig, "r")["workflowExecutionInfo"]["historyLength"].as_str()?.parse::<u32>().ok();
    eventually("a history that is much too long", || length().filter(|length| *length >= 4 * 30));
    eventually("the end of the last step", || {
        let waits_for = described(&rig, "r")["pendingActivities"].as_array()?.clone();
        waits_for
            .iter()
            .all(|activity| activity["activityType"]["name"] == "Host::keep_journal")
            .then_some(())
    });
    let before = rig.read("begun").lines().count();
    assert!(rig.raymond(&["stop", "r"]).status.success());
    let log = rig.until("run_stopped");
    assert_eq!((count(&log, "step_finished"), rig.read("begun").lines().count()), (before, before));
    is_back(&rig, "r");
    let mut resumed = rig.spawn(&["resume", "r"]);
    rig.lines("begun", before + 20);
    rig.write("go");
    rig.until("run_finished");
    assert!(resumed.ends());
    until_status(&rig, "r", "WORKFLOW_EXECUTION_STATUS_COMPLETED");
    assert!(length().is_some_and(|length| length < 4 * 30), "it has another history");
}

#[test]
fn a_run_can_be_cancelled_with_temporals_own_tools_whatever_it_waits_for() {
    let Some(rig) = Rig::new() else { return };
    rig.state(
        "START.sh",
        &format!("[ $RAYMOND_RUN_ID = kept ] || {{ {SLOW} }}\necho '<result>done</result>'\n"),
    );
    takes_no_journal(&rig, "kept");
    let _worker = rig.worker("a");
    rig.start_as("kept", &[]);
    rig.start_as("runs", &[]);
    // All that is left for it to do is to keep its journal.
    rig.until_in("kept", "run_finished");
    let pid = rig.lines("begun", 1)[0].clone();
    for run in ["kept", "runs"] {
        assert!(rig.temporal(&["workflow", "cancel", "--workflow-id", run]).status.success());
        until_status(&rig, run, "WORKFLOW_EXECUTION_STATUS_CANCELED");
    }
    eventually("the end of the step's program", || (!is_alive(&pid)).then_some(()));
}

/// One agent waits for long while another makes many steps.
#[test]
fn a_run_has_one_timer_for_as_long_as_it_waits_for_the_same_time() {
    let Some(rig) = Rig::new() else { return };
    rig.state("START.sh", "echo '<fork next=\"WAIT\">ONE</fork>'\n");
    rig.state("WAIT.sh", "echo '<goto delay=\"1h\">END</goto>'\n");
    rig.state("END.sh", "echo '<result>done</result>'\n");
    rig.state(
        "ONE.sh",
        "echo $$ >> $DIR/begun; [ -e $DIR/go ] && echo '<result>done</result>' || echo '<goto>ONE</goto>'\n",
    );
    let _worker = rig.worker("a");
    rig.start();
    rig.lines("begun", 30);
    rig.write("go");
    rig.until("agent_finished");
    assert!(count_in_history(&rig, "EVENT_TYPE_ACTIVITY_TASK_COMPLETED") > 30);
    assert_eq!(count_in_history(&rig, "EVENT_TYPE_TIMER_STARTED"), 1);
    assert_eq!(described(&rig, "r")["pendingActivities"].as_array().map_or(0, Vec::len), 0);
}

/// A timer for an earlier time takes the place of the one that is there.
#[test]
fn a_time_that_comes_first_is_waited_for_first() {
    let Some(rig) = Rig::new() else { return };
    rig.state("START.sh", "echo '<fork next=\"WAIT\">ONE</fork>'\n");
    rig.state("WAIT.sh", "echo '<goto delay=\"1h\">END</goto>'\n");
    rig.state("END.sh", "echo '<result>done</result>'\n");
    rig.state("ONE.sh", &format!("{SLOW}echo '<goto delay=\"1s\">TWO</goto>'\n"));
    rig.state("TWO.sh", "echo '<result>two</result>'\n");
    let _worker = rig.worker("a");
    rig.start();
    rig.until_count("step_finished", 2);
    eventually("a timer", || (count_in_history(&rig, "EVENT_TYPE_TIMER_STARTED") == 1).then_some(()));
    rig.write("go");
    rig.until("agent_finished");
    let counts = ["STARTED", "CANCELED", "FIRED"]
        .map(|kind| count_in_history(&rig, &format!("EVENT_TYPE_TIMER_{kind}")));
    assert_eq!(counts, [3, 1, 1]);
}
