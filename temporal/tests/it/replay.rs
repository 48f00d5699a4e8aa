//! Recorded histories, decided again without a server: a change that would decide otherwise fails here, and not in the
//! runs that are open. `RECORD=1` records those anew that end in the number of the newest rules (`RULES` in `workflow.rs`).
//! The others were begun by earlier versions and stay as they are.

use std::path::{Path, PathBuf};
use std::time::Duration;

use raymond::fleet::Address;
use raymond_temporal::client::connect;
use raymond_temporal::workflow::RaymondRun;
use temporalio_client::{WorkflowExecutionInfo, WorkflowHandle, WorkflowHistory};
use temporalio_sdk::workflow_replayer::{WorkflowReplayer, WorkflowReplayerOptions};

use crate::away::described;
use crate::harness::Rig;

/// The recorded runs. Each was recorded with all rules that there have been. One more is there, of which one order of
/// activities was written by hand: `claims`.
const RUNS: [&str; 6] = ["whole", "first", "continued", "texts", "stored", "waits"];
const RULES: [&str; 2] = ["", "-2"];

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/histories")
}

#[tokio::test(flavor = "current_thread")]
async fn recorded_histories_are_decided_as_before() {
    let recorded = RUNS.iter().flat_map(|run| RULES.map(|rules| format!("{run}{rules}")));
    for name in recorded.chain(["claims".to_owned()]) {
        let path = folder().join(format!("{name}.json"));
        let history = WorkflowHistory::from_json(&std::fs::read(&path).expect("a file")).expect("a history");
        let options = WorkflowReplayerOptions::new().register_workflow::<RaymondRun>().expect("the workflow");
        let replayer = WorkflowReplayer::new(options.build()).expect("a replayer");
        let replayed = replayer.replay_workflow(history).await;
        assert!(replayed.is_ok(), "{}: {replayed:?}", path.display());
    }
}

/// Forks, a script that is tried again, a join, a question, its answer, and a delay.
#[test]
fn record() {
    if std::env::var_os("RECORD").is_none() {
        return;
    }
    let rig = Rig::new().expect("a server");
    let forks: String = (1..=3).map(|n| format!("<fork N=\"{n}\" next=\"ALL\">ONE</fork>")).collect();
    rig.state("START.sh", &format!("echo '{forks}'\n"));
    let retry = "# raymond: retry=1 backoff=10ms\n[ $N != 2 ] || [ -e tried ] || { touch tried; exit 1; }\n";
    // Long results are put together by a machine.
    let long = "[ $RAYMOND_RUN_ID != texts-2 ] || N=$N$(head -c 70000 /dev/zero | tr '\\0' x)\n";
    rig.state("ONE.sh", &format!("{retry}{long}echo \"<result>$N</result>\"\n"));
    rig.state("ALL.sh", "echo '<join>ASK</join>'\n");
    rig.state("ASK.sh", "echo '<ask next=\"DELAY\">Which?</ask>'\n");
    rig.state("DELAY.sh", "echo '<goto delay=\"50ms\">DONE</goto>'\n");
    rig.state("DONE.sh", "echo '<result>all</result>'\n");
    let _worker = rig.worker("a");
    for (name, continue_after) in [("whole-2", "8000"), ("continued-2", "40"), ("texts-2", "8000")] {
        rig.start_as(name, &[("RAYMOND_CONTINUE_AFTER", continue_after)]);
        let first =
            described(&rig, name)["workflowExecutionInfo"]["execution"]["runId"].as_str().map(str::to_owned);
        rig.until_in(name, "ask_opened");
        assert!(rig.raymond(&["answer", name, "this", "--no-resume"]).status.success());
        rig.until_in(name, "run_finished");
        keep(&rig, name);
        if name == "continued-2" {
            keep_as(&rig, "first-2", name, first);
        }
    }
}

/// An agent waits for a long time while another makes steps, for a shorter time, and a step that is stopped.
#[test]
fn record_what_is_waited_for() {
    if std::env::var_os("RECORD").is_none() {
        return;
    }
    let rig = Rig::new().expect("a server");
    rig.state("START.sh", "echo '<fork next=\"WAIT\">ONE</fork>'\n");
    rig.state("WAIT.sh", "echo '<goto delay=\"1h\">END</goto>'\n");
    rig.state("END.sh", "echo '<result>done</result>'\n");
    rig.state(
        "ONE.sh",
        "[ $RAYMOND_VISITS -gt 5 ] && echo '<goto delay=\"1s\">SLOW</goto>' || echo '<goto>ONE</goto>'\n",
    );
    rig.state("SLOW.sh", "echo $$ >> $DIR/begun; while true; do sleep 0.05; done\n");
    let _worker = rig.worker("a");
    let name = "waits-2";
    rig.start_as(name, &[]);
    rig.lines("begun", 1);
    assert!(rig.raymond(&["stop", name, "--now"]).status.success());
    rig.until_in(name, "run_stopped");
    keep(&rig, name);
}

/// A journal that is so long that a part of it is kept while steps run, and a resume that reads the states again.
#[test]
fn record_what_the_store_of_blobs_is_needed_for() {
    if std::env::var_os("RECORD").is_none() {
        return;
    }
    let rig = Rig::new().expect("a server");
    let long =
        "for n in $(seq 10); do echo \"<print>$(head -c 60000 /dev/zero | tr '\\0' x)</print>\"; done\n";
    rig.state("START.sh", &format!("{long}echo '<goto>ASK</goto>'\n"));
    rig.state("ASK.sh", "echo '<ask next=\"DONE\">Which?</ask>'\n");
    rig.state("DONE.sh", "echo '<result>all</result>'\n");
    let _worker = rig.worker("a");
    let name = "stored-2";
    rig.start_as(name, &[]);
    rig.until_in(name, "ask_opened");
    assert!(rig.raymond(&["stop", name]).status.success());
    rig.until_in(name, "run_stopped");
    let mut resumed = rig.spawn(&["resume", name, "--model", "other"]);
    rig.until_in(name, "run_resumed");
    assert!(rig.raymond(&["answer", name, "this", "--no-resume"]).status.success());
    rig.until_in(name, "run_finished");
    assert!(resumed.ends());
    keep(&rig, name);
}

/// Keeps the last history of a run here.
fn keep(rig: &Rig, name: &str) {
    keep_as(rig, name, name, None);
}

/// Keeps a history of a run here. Without its id it is the last one.
fn keep_as(rig: &Rig, file: &str, run: &str, history: Option<String>) {
    let at = Address::of_server(&rig.server()).expect("an address");
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build();
    let json = runtime.expect("a runtime").block_on(async {
        let client = connect(&at, "test", Duration::from_secs(10)).await.expect("a connection");
        let which = WorkflowExecutionInfo::builder().namespace(&at.namespace).workflow_id(run);
        let which = which.maybe_run_id(history).build();
        let handle = WorkflowHandle::<_, RaymondRun>::new(client, which);
        handle.fetch_history(Default::default()).to_json().await.expect("the history")
    });
    std::fs::write(folder().join(format!("{file}.json")), json).expect("a file");
}
