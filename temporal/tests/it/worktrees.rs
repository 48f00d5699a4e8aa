//! Workers with worktrees.

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
}
