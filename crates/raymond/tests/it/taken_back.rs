//! Runs that are taken back more than once, with the worktrees of their workers.

use test_kit::rig::Rig;

use crate::RAYMOND;
use crate::repository::{commit, git, init};

/// A failed run `r` whose worker has committed in the worktree `a`, and has a new file there.
fn one_worker() -> Rig {
    let rig = Rig::new(RAYMOND);
    init(&rig, ".");
    rig.write(".gitignore", "/workflow\n/.raymond\n/*.ignored\n");
    rig.write("f", "0\n");
    commit(&rig, ".", "zero");
    rig.state("START.sh", "echo '<goto>FAN</goto>'");
    rig.state("FAN.sh", "echo '<fork worktree=\"a\">W</fork><join>END</join>'");
    rig.state("W.sh", "echo 1 >> f; git commit -qam one; echo '<goto>X</goto>'");
    rig.state(
        "X.sh",
        "[ -e ../../../../ok.ignored ] || { echo \"$RAYMOND_RUN_ID\" > mine; exit 4; }; echo \"<result>$PWD</result>\"",
    );
    rig.state("END.sh", "echo \"<result>$RAYMOND_INPUT</result>\"");
    rig
}

#[test]
fn what_is_dropped_gets_no_name_that_a_removed_run_has_left_work_under() {
    let rig = one_worker();
    assert_eq!(rig.run().exit, 1);
    rig.raymond(&["rewind", "r", "--to", "1"]).assert(0, "dropped-1-r\n");
    // Its branch has a commit, and its worktree a new file.
    assert_eq!(rig.raymond(&["clean", "dropped-1-r"]).exit, 0);
    let left = rig.path(".raymond/worktrees/dropped-1-r/a/mine");
    assert!(left.exists());
    assert_eq!(rig.resume().exit, 1);
    rig.raymond(&["rewind", "r", "--to", "1"]).assert(0, "dropped-2-r\n");
    let branches =
        git(&rig, ".", &["for-each-ref", "--format=%(refname:lstrip=3)", "refs/heads/raymond-run"]);
    assert_eq!(branches, "dropped-1-r/a\ndropped-2-r/a");
    assert!(left.exists() && rig.path(".raymond/worktrees/dropped-2-r/a/mine").exists());
    rig.write("ok.ignored", "");
    let done = rig.resume();
    assert_eq!(done.exit, 0, "{done:?}");
}

#[test]
fn a_branch_that_is_left_of_a_removed_run_is_in_no_way() {
    let rig = one_worker();
    rig.write("ok.ignored", "");
    assert_eq!(rig.run().exit, 0);
    rig.raymond(&["rewind", "r", "--to", "1"]).assert(0, "dropped-1-r\n");
    assert_eq!(rig.raymond(&["clean", "dropped-1-r"]).exit, 0);
    assert_eq!(rig.resume().exit, 0);
    rig.raymond(&["rewind", "r", "--to", "1"]).assert(0, "dropped-2-r\n");
    assert_eq!(rig.resume().exit, 0);
}

#[test]
fn a_worker_stays_in_its_worktree_when_the_files_of_the_project_are_restored_elsewhere() {
    let rig = one_worker();
    assert_eq!(rig.raymond(&["workflow", "--id", "r", "--snapshots"]).exit, 1);
    let dir = rig.path("..").canonicalize().unwrap().join("restored");
    let dir = dir.to_str().unwrap();
    // The worker had gone on to the state in which it has failed.
    rig.raymond(&["rewind", "r", "--to", "3", "--files", "--worktree", dir]).assert(0, "dropped-1-r\n");
    rig.write("ok.ignored", "");
    let done = rig.resume();
    assert_eq!(done.exit, 0, "{done:?}");
    let path = rig.path(".raymond/worktrees/r/a");
    assert!(done.stdout.contains(path.to_str().unwrap()), "{done:?}");
}
