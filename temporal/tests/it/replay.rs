//! Recorded histories, decided again without a server: a change that would decide otherwise fails here, and not in the
//! runs that are open.

use temporalio_client::WorkflowHistory;
use temporalio_sdk::workflow_replayer::{WorkflowReplayer, WorkflowReplayerOptions};

use raymond_temporal::workflow::RaymondRun;

#[tokio::test(flavor = "current_thread")]
async fn recorded_histories_are_decided_as_before() {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/histories");
    let mut count = 0;
    for entry in std::fs::read_dir(&folder).expect("the recorded histories") {
        let path = entry.expect("an entry").path();
        let history = WorkflowHistory::from_json(&std::fs::read(&path).expect("a file")).expect("a history");
        let options = WorkflowReplayerOptions::new().register_workflow::<RaymondRun>().expect("the workflow");
        let replayer = WorkflowReplayer::new(options.build()).expect("a replayer");
        let replayed = replayer.replay_workflow(history).await;
        assert!(replayed.is_ok(), "{}: {replayed:?}", path.display());
        count += 1;
    }
    assert!(count > 0);
}
