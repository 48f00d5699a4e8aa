//! Workers of two builds side by side.

use serde_json::Value;

use crate::harness::{Process, Rig, count, eventually};

#[test]
fn an_open_run_stays_with_its_build_and_a_new_one_has_the_new_build() {
    let Some(mut rig) = Rig::new() else { return };
    rig.state(
        "START.sh",
        "echo begun >> $DIR/begun\nwhile [ ! -e $DIR/go ]; do sleep 0.05; done\necho '<goto>NEXT</goto>'\n",
    );
    rig.state("NEXT.sh", "echo '<result>done</result>'\n");
    let _old = worker_of(&mut rig, "a", "1");
    rig.start_as("old", &[]);
    rig.lines("begun", 1);
    let _new = worker_of(&mut rig, "b", "2");
    rig.start_as("new", &[]);
    rig.lines("begun", 2);
    rig.write("go");
    for (run, build) in [("old", "1"), ("new", "2")] {
        let log = rig.until_in(run, "run_finished");
        assert_eq!(count(&log, "step_finished"), 2, "{log:#?}");
        assert_eq!(build_of(&rig, run), build);
    }
}

/// A worker of a build that new runs have from now on.
fn worker_of(rig: &mut Rig, name: &str, build: &str) -> Process {
    rig.variables = vec![
        ("TEMPORAL_DEPLOYMENT_NAME", "raymond".to_owned()),
        ("TEMPORAL_WORKER_BUILD_ID", build.to_owned()),
    ];
    let worker = rig.worker(name);
    // The server knows a build when its first worker has asked for work.
    eventually("the build", || {
        let arguments =
            ["worker", "deployment", "set-current-version", "--yes", "--deployment-name", "raymond"];
        let set = rig.temporal(&[&arguments[..], &["--build-id", build]].concat());
        set.status.success().then_some(())
    });
    worker
}

/// The build that decides a run.
fn build_of(rig: &Rig, run: &str) -> String {
    let output = rig.temporal(&["workflow", "describe", "--workflow-id", run, "--output", "json"]);
    let described: Value = serde_json::from_slice(&output.stdout).expect("a description");
    let version = &described["workflowExecutionInfo"]["versioningInfo"]["deploymentVersion"];
    version["buildId"].as_str().unwrap_or_else(|| panic!("no build: {described:#}")).to_owned()
}
