//! Workers with worktrees.

use std::process::Command;

use crate::harness::{Rig, count};

const COMMIT: &str = "commit() { git add . && git -c user.name=n -c user.email=e commit -qm \"$1\"; }\n";

#[test]
fn a_worker_moves_with_its_worktree_and_its_branch_reaches_the_one_who_waits_for_it() {
    let Some(rig) = Rig::quick() else { return };
    rig.commit_all(&[("kept", "committed\n")]);
    // The worktree begins with a commit that only the forking agent has.
    rig.state(
        "START.sh",
        &format!("{COMMIT}echo base > base; commit base\necho '<fork worktree=\"one\">WORK</fork><join>MERGE</join>'\n"),
    );
    rig.state(
        "WORK.sh",
        &format!("{COMMIT}echo 1 > work; commit first; echo more > loose\necho '<goto>SLOW</goto>'\n"),
    );
    rig.state(
        "SLOW.sh",
        &format!(
            "{COMMIT}echo begun >> $DIR/begun; while [ ! -e $DIR/go ]; do sleep 0.05; done\n\
             [ \"$PWD\" = \"$RAYMOND_WORKTREE\" ] && echo \"$(git branch --show-current) $(cat base work loose | tr '\\n' ' ')\" > $DIR/seen\n\
             commit second\necho \"<result>$RAYMOND_BRANCH</result>\"\n"
        ),
    );
    rig.state(
        "MERGE.sh",
        "git merge -q raymond-run/r/one && echo \"<result>$(git log --format=%s | tr '\\n' ' ')$(cat loose)</result>\"\n",
    );
    let mut first = rig.worker("a");
    rig.start();
    rig.lines("begun", 1);
    first.kill();
    let _second = rig.worker("b");
    rig.lines("begun", 2);
    rig.write("go");
    let log = rig.until("run_finished");
    assert_eq!(rig.read("seen"), "raymond-run/r/one base 1 more \n");
    assert_eq!(log.last().expect("an end")["result"], "second first base first commit more", "{log:#?}");
    assert_eq!(count(&log, "retry"), 1);
    // The last file by name is the newest, and people can fetch the branch from it.
    let folder = std::fs::read_dir(rig.path("blobs/runs/r/branches/one")).expect("the branch is kept");
    let newest = folder.flatten().map(|entry| entry.path()).max().expect("a file");
    let git = |arguments: &[&str]| {
        let output = Command::new("git").current_dir(rig.path("project")).args(arguments).output();
        String::from_utf8_lossy(&output.expect("git starts").stdout).into_owned()
    };
    git(&["fetch", "--quiet", &newest.to_string_lossy(), "refs/heads/raymond-run/r/one:one"]);
    assert_eq!(git(&["log", "--format=%s", "one"]), "second\nfirst\nbase\nfirst commit\n");
}

/// Without a commit of its own, a branch is at the commit with which its worktree began. An agent that never saw that commit
/// finds the branch as well.
#[test]
fn a_branch_without_commits_of_its_own_is_found_too() {
    let Some(rig) = Rig::new() else { return };
    rig.commit_all(&[("kept", "committed\n")]);
    let fork = "<fork worktree=\"one\">IDLE</fork><fork worktree=\"two\" from=\"HEAD~1\">IDLE</fork>";
    rig.state("START.sh", &format!("{COMMIT}echo base > base; commit base\necho '{fork}<join>ALL</join>'\n"));
    rig.state("IDLE.sh", "echo '<result>nothing to do</result>'\n");
    let tell = "git log -1 --format=%s raymond-run/r/one; git log -1 --format=%s raymond-run/r/two\n";
    rig.state(
        "ALL.sh",
        &format!(
            "set -e; told=$({tell})\n\
             echo \"$told\" > $DIR/told; echo \"<fork input='$RAYMOND_RESULT'>LOOK</fork><join>DONE</join>\"\n"
        ),
    );
    rig.state(
        "LOOK.sh",
        &format!("set -e; told=$({tell})\necho \"$told\" > $DIR/looked\necho '<result>seen</result>'\n"),
    );
    rig.state("DONE.sh", "echo '<result>done</result>'\n");
    let _worker = rig.worker("a");
    rig.start();
    let log = rig.until_one_of(&["run_finished", "run_stopped"]);
    let expected = "base\nfirst commit\n";
    assert_eq!((rig.read("told").as_str(), rig.read("looked").as_str()), (expected, expected), "{log:#?}");
}
