//! Branches with the files of a step, and with worktrees of their own.

use std::fs;

use serde_json::Value;
use test_kit::rig::{Rig, wait_for_file, wait_until};

use crate::RAYMOND;
use crate::repository::{commit, front_git, git, init};

/// A run `r` whose three steps each write their number to `sub/f`, in a repository in which `sub/f` is committed with 0.
pub fn three_steps() -> Rig {
    let rig = Rig::new(RAYMOND);
    init(&rig, ".");
    rig.write(".gitignore", "/workflow\n*.ignored\n");
    rig.write("sub/f", "0\n");
    commit(&rig, ".", "zero");
    rig.state("START.sh", "echo 1 > f; echo 1 > added; echo '<goto>B</goto>'");
    rig.state("B.sh", "echo 2 > f; echo '<goto>C</goto>'");
    rig.state("C.sh", "echo \"$(cat f) then 3\" > f; rm -f added; echo \"<result>$PWD $(cat f)</result>\"");
    let mut command = rig.command(&["../workflow", "--id", "r", "--snapshots"]);
    command.current_dir(rig.path("sub"));
    assert_eq!(rig.launch(command).wait().exit, 0);
    rig
}

#[test]
fn a_branch_works_in_a_new_worktree_with_the_files_of_the_step() {
    let rig = three_steps();
    let before = (rig.read("sub/f"), git(&rig, ".", &["status", "--porcelain"]));
    git(&rig, ".", &["gc", "-q", "--prune=now"]);
    let dir = rig.path("..").canonicalize().unwrap().join("restored");
    let dir = dir.to_str().unwrap();
    rig.raymond(&["branch", "r", "--at", "1", "--id", "b", "--files", "--worktree", dir]).assert(0, "b\n");
    assert_eq!(fs::read_to_string(format!("{dir}/sub/f")).unwrap(), "1\n");
    assert_eq!(fs::read_to_string(format!("{dir}/sub/added")).unwrap(), "1\n");
    assert_eq!(git(&rig, dir, &["status", "--porcelain"]), " M sub/f\n?? sub/added", "not committed then");
    assert_eq!((rig.read("sub/f"), git(&rig, ".", &["status", "--porcelain"])), before);
    rig.raymond(&["resume", "b"]).assert(0, &format!("{dir}/sub 2 then 3\n"));
    assert_eq!(rig.read("sub/f"), before.0, "the branch works in its own folder");
}

/// A command that was killed before its first event has left an empty journal.
#[test]
fn an_id_without_a_run_can_be_used_again() {
    let rig = three_steps();
    rig.write(".raymond/state/b.jsonl", "");
    rig.raymond(&["branch", "r", "--at", "1", "--id", "b", "--files"]).assert(0, "b\n");
    rig.raymond(&["resume", "b"]).assert(0, &format!("{} 2 then 3\n", rig.path("sub").display()));
    rig.write(".raymond/state/new.jsonl", "");
    let root = rig.path("sub").parent().unwrap().display().to_string();
    rig.raymond(&["workflow", "--id", "new"]).assert(0, &format!("{root} 2 then 3\n"));
}

#[test]
fn of_two_branches_with_one_id_only_one_restores_files() {
    let rig = three_steps();
    let (begun, gate) = (rig.home().join("begun"), rig.home().join("gate"));
    let path = front_git(&rig.home().join("slow"), |real| {
        let (begun, gate) = (begun.display(), gate.display());
        format!("touch {begun}\nwhile [ ! -e {gate} ]; do sleep 0.05; done\nexec {real} \"$@\"")
    });
    let mut command = rig.command(&["branch", "r", "--at", "1", "--id", "b", "--files"]);
    command.env("PATH", path);
    let first = rig.launch(command);
    wait_for_file(&begun);
    let before = rig.read("sub/f");
    let second = rig.raymond(&["branch", "r", "--at", "2", "--id", "b", "--files"]);
    assert_ne!(second.exit, 0);
    second.says("another Raymond is running b");
    assert_eq!(rig.read("sub/f"), before);
    fs::write(gate, "").unwrap();
    first.wait().assert(0, "b\n");
    assert_eq!(rig.read("sub/f"), "1\n");
}

#[test]
fn a_branch_that_is_refused_leaves_no_run() {
    let rig = three_steps();
    rig.write("sub/f", "mine\n");
    let args = ["branch", "r", "--at", "1", "--id", "b", "--files"];
    assert_eq!(rig.raymond(&args).exit, 2);
    assert!(!rig.path(".raymond/state/b.jsonl").exists());
    rig.raymond(&[&args[..], &["--force"]].concat()).assert(0, "b\n");
}

#[test]
fn files_are_restored_in_place_and_what_was_not_saved_is_kept() {
    let rig = three_steps();
    rig.raymond(&["branch", "r", "--at", "2", "--id", "saved", "--files"]).assert(0, "saved\n");
    assert_eq!(
        (rig.read("sub/f"), rig.read("sub/added")),
        ("2\n".into(), "1\n".into()),
        "all was in the last snapshot"
    );
    rig.write("sub/f", "mine\n");
    rig.write("sub/a.ignored", "mine\n");
    let index = fs::read(rig.path(".git/index")).unwrap();
    rig.raymond(&["branch", "r", "--at", "1", "--id", "b", "--files"]).assert(2, "").says("--force");
    assert_eq!(rig.read("sub/f"), "mine\n");
    assert_eq!(rig.raymond(&["status", "b"]).exit, 2, "no run is left behind");
    let done = rig.raymond(&["branch", "r", "--at", "1", "--id", "b", "--files", "--force"]);
    done.assert(0, "b\n").says("kept as refs/raymond-kept/r/1");
    assert_eq!((rig.read("sub/f"), rig.read("sub/a.ignored")), ("1\n".into(), "mine\n".into()));
    assert_eq!(git(&rig, ".", &["show", "refs/raymond-kept/r/1:sub/f"]), "mine");
    assert_eq!(fs::read(rig.path(".git/index")).unwrap(), index);
    rig.raymond(&["resume", "b"]).assert(0, &format!("{} 2 then 3\n", rig.path("sub").display()));
}

/// What git does not list, but what putting the files back would overwrite or remove.
/// A command that was killed after its event has left the worktree locked. Once the run goes on, or is removed, what is in it is not
/// taken for half made.
#[test]
fn a_folder_that_is_still_locked_for_a_run_is_not_made_again_over_its_work() {
    for goes_on in [true, false] {
        let rig = three_steps();
        let dir = rig.path("..").canonicalize().unwrap().join("own");
        let dir = dir.to_str().unwrap();
        let begin = |id: &str| rig.raymond(&["branch", "r", "1", "--id", id, "--files", "--worktree", dir]);
        begin("b").assert(0, "b\n");
        fs::remove_file(rig.path(".git/worktrees/own/raymond-run")).unwrap();
        let reason = "raymond makes it for event 2 of b";
        git(&rig, ".", &["worktree", "lock", "--reason", reason, dir]);
        if goes_on {
            rig.raymond(&["resume", "b"]).assert_is(0);
        } else {
            fs::write(format!("{dir}/sub/f"), "of a person\n").unwrap();
        }
        let before = fs::read_to_string(format!("{dir}/sub/f")).unwrap();
        rig.raymond(&["clean", "b"]).assert_is(0);
        assert!(!git(&rig, ".", &["worktree", "list", "--porcelain"]).contains("locked"));
        begin("c").assert(2, "").says("is not empty");
        assert_eq!(fs::read_to_string(format!("{dir}/sub/f")).unwrap(), before);
    }
}

/// A removal of the run that was killed has removed its ref: the snapshots go with the next `git gc`.
#[test]
fn a_snapshot_that_no_ref_has_keeps_nothing() {
    let rig = three_steps();
    git(&rig, ".", &["update-ref", "-d", "refs/raymond/r"]);
    rig.raymond(&["branch", "r", "1", "--id", "b", "--files"]).assert(2, "").says("not committed: sub/f");
    assert_eq!(rig.read("sub/f"), "2 then 3\n");
    rig.raymond(&["branch", "r", "1", "--id", "b", "--files", "--force"]).assert(0, "b\n");
    assert_eq!(git(&rig, ".", &["show", "refs/raymond-kept/r/1:sub/f"]), "2 then 3");
}

#[test]
fn what_git_ignores_or_was_told_not_to_look_at_is_kept_too() {
    // What is changed after the run, and a file that must not be lost by that.
    let ways: [(&str, &[&str], &str); 6] = [
        ("ignored since", &["echo sub/added >> .git/info/exclude", "echo mine > sub/added"], "sub/added"),
        (
            "a folder in the place of a file",
            &["echo added/ >> .git/info/exclude", "mkdir sub/added", "echo mine > sub/added/x"],
            "sub/added/x",
        ),
        (
            "a file in the place of a folder",
            &["rm -r deep", "echo /deep >> .git/info/exclude", "echo mine > deep"],
            "deep",
        ),
        ("--assume-unchanged", &["git update-index --assume-unchanged sub/f", "echo mine > sub/f"], "sub/f"),
        ("--skip-worktree", &["git update-index --skip-worktree sub/f", "echo mine > sub/f"], "sub/f"),
        (
            "both",
            &[
                "git update-index --assume-unchanged sub/f",
                "git update-index --skip-worktree sub/f",
                "echo mine > sub/f",
            ],
            "sub/f",
        ),
    ];
    for command in ["branch", "rewind"] {
        for (way, changes, file) in ways {
            let why = format!("{command}: {way}");
            let rig = Rig::new(RAYMOND);
            init(&rig, ".");
            rig.write(".gitignore", "/workflow\n*.ignored\n");
            rig.write("sub/f", "0\n");
            commit(&rig, ".", "zero");
            rig.state(
                "START.sh",
                "echo 1 > sub/f; echo 1 > sub/added; mkdir deep; echo 1 > deep/x; echo '<goto>B</goto>'",
            );
            rig.state("B.sh", "rm sub/added; echo '<result>ok</result>'");
            rig.raymond(&["workflow", "--id", "r", "--snapshots"]).assert(0, "ok\n");
            rig.write("other.ignored", "mine\n");
            for change in changes {
                let mut shell = rig.program("sh");
                shell.args(["-c", change]).current_dir(rig.path("."));
                assert_eq!(rig.launch(shell).wait().exit, 0, "{why}: {change}");
            }
            let args: &[&str] = match command {
                "branch" => &["branch", "r", "--at", "1", "--id", "b", "--files"],
                _ => &["rewind", "r", "--to", "1", "--files"],
            };
            let index = git(&rig, ".", &["ls-files", "-v"]);
            rig.raymond(args).assert(2, "").says(file).says("--force");
            assert_eq!(rig.read(file), "mine\n", "{why}");
            rig.raymond(&[args, &["--force"]].concat()).says("kept as refs/raymond-kept/r/1").assert_is(0);
            assert_eq!(git(&rig, ".", &["show", &format!("refs/raymond-kept/r/1:{file}")]), "mine", "{why}");
            for restored in ["sub/f", "sub/added", "deep/x"] {
                assert_eq!(rig.read(restored), "1\n", "{why}: {restored}");
            }
            assert_eq!(rig.read("other.ignored"), "mine\n", "{why}: it is not in the way");
            assert_eq!(git(&rig, ".", &["ls-files", "-v"]), index, "{why}: the index stays");
        }
    }
}

#[test]
fn what_is_in_the_way_and_the_same_is_no_loss_and_what_cannot_be_kept_is_an_error() {
    let rig = three_steps();
    rig.write(".git/info/exclude", "added\n");
    rig.write("sub/added", "1\n");
    rig.raymond(&["branch", "r", "--at", "1", "--id", "same", "--files"]).assert(0, "same\n");
    fs::remove_file(rig.path("sub/added")).unwrap();
    init(&rig, "sub/added");
    rig.write("sub/added/x", "mine\n");
    let args = ["branch", "r", "--at", "1", "--id", "b", "--files", "--force"];
    rig.raymond(&args).assert_is(1).says("is a repository of its own; move it away");
    assert_eq!((rig.read("sub/added/x"), rig.read("sub/f")), ("mine\n".into(), "1\n".into()));
}

/// Settings are meant to be committed with a project, and snapshots do not have them.
#[test]
fn settings_of_the_project_stay_as_they_are() {
    let rig = Rig::new(RAYMOND);
    init(&rig, ".");
    rig.write(".gitignore", "/workflow\n");
    rig.write(".raymond/.gitignore", "*\n!.gitignore\n!config.toml\n");
    rig.write(".raymond/config.toml", "# one\n");
    commit(&rig, ".", "one");
    rig.state("START.sh", "echo 1 > f; echo '<goto>B</goto>'")
        .state("B.sh", "echo 2 > f; echo '<result>ok</result>'");
    rig.raymond(&["workflow", "--id", "r", "--snapshots"]).assert(0, "ok\n");
    rig.write(".raymond/config.toml", "# mine\n");
    rig.raymond(&["branch", "r", "--at", "1", "--id", "b", "--files"]).assert(0, "b\n");
    assert_eq!((rig.read("f"), rig.read(".raymond/config.toml")), ("1\n".into(), "# mine\n".into()));
    commit(&rig, ".", "two");
    rig.raymond(&["rewind", "r", "--to", "1", "--files"]).assert_is(0);
    assert_eq!((rig.read("f"), rig.read(".raymond/config.toml")), ("1\n".into(), "# mine\n".into()));
    assert_eq!(git(&rig, ".", &["status", "--porcelain"]), "");
    fs::remove_file(rig.path(".raymond/config.toml")).unwrap();
    rig.raymond(&["branch", "b", "--at", "1", "--id", "c", "--files", "--force"]).assert(0, "c\n");
    assert!(!rig.path(".raymond/config.toml").exists());
}

/// What a sparse checkout leaves out is not gone.
#[test]
fn a_sparse_checkout_stays_sparse() {
    let rig = Rig::new(RAYMOND);
    init(&rig, ".");
    rig.write(".gitignore", "/workflow\n");
    rig.write("in/f", "0\n");
    rig.write("out/f", "0\n");
    commit(&rig, ".", "zero");
    git(&rig, ".", &["sparse-checkout", "set", "in"]);
    rig.state("START.sh", "echo 1 > in/f; echo '<goto>B</goto>'")
        .state("B.sh", "echo 2 > in/f; echo '<result>ok</result>'");
    rig.raymond(&["workflow", "--id", "r", "--snapshots"]).assert(0, "ok\n");
    assert_eq!(git(&rig, ".", &["show", "refs/raymond/r:out/f"]), "0");
    rig.raymond(&["rewind", "r", "--to", "1", "--files"]).assert_is(0);
    assert_eq!(rig.read("in/f"), "1\n");
    assert!(!rig.path("out").exists());
}

#[test]
fn a_rewind_takes_the_files_back_too() {
    let rig = three_steps();
    rig.write("sub/f", "mine\n");
    for name in ["a", "b", "c", "d"] {
        rig.write(&format!("sub/{name}"), "mine\n");
    }
    rig.raymond(&["rewind", "r", "--to", "1", "--files"])
        .assert(2, "")
        .says("sub/c and 2 more")
        .says("--force");
    rig.raymond(&["rewind", "r", "--to", "1", "--files", "--force"])
        .assert(0, "dropped-1-r\n")
        .says("kept as refs/raymond-kept/r/1");
    assert_eq!((rig.read("sub/f"), rig.read("sub/added")), ("1\n".into(), "1\n".into()));
    rig.raymond(&["resume", "r"]).assert(0, &format!("{} 2 then 3\n", rig.path("sub").display()));
    let dir = rig.path("..").canonicalize().unwrap().join("rewound");
    let dir = dir.to_str().unwrap();
    rig.raymond(&["rewind", "r", "--to", "1", "--files", "--worktree", dir]).assert(0, "dropped-2-r\n");
    assert_eq!(fs::read_to_string(format!("{dir}/sub/f")).unwrap(), "1\n");
    rig.raymond(&["resume", "r"]).assert(0, &format!("{dir}/sub 2 then 3\n"));
}

#[test]
fn without_snapshots_there_is_nothing_to_restore() {
    let rig = three_steps();
    rig.raymond(&["workflow", "--id", "plain"]);
    rig.raymond(&["branch", "plain", "--at", "1", "--files"]).assert(2, "").says("there is no snapshot");
    rig.raymond(&["branch", "r", "--at", "1", "--worktree", "x"]).assert(2, "");
}

#[test]
fn live_workers_of_a_branch_get_worktrees_of_their_own() {
    let rig = Rig::new(RAYMOND);
    init(&rig, ".");
    rig.write(".gitignore", "/workflow\n/.raymond\n/*.ignored\n");
    rig.write("f", "0\n");
    commit(&rig, ".", "zero");
    rig.state("START.sh", "echo '<fork worktree=\"a\">W</fork><join>END</join>'");
    rig.state("W.sh", "echo 1 > f; git commit -qam one; echo '<goto>X</goto>'");
    rig.state("X.sh", "[ -e ../../../../gate.ignored ] || { touch ../../../../begun.ignored; sleep 300; }; printf '<result>%s %s %s</result>' \"$PWD\" \"$RAYMOND_BRANCH\" \"$(cat f)\"");
    rig.state("END.sh", "echo \"<result>$RAYMOND_INPUT</result>\"");
    let live = rig.start(&["workflow", "--id", "r"]);
    wait_for_file(&rig.path("begun.ignored"));
    rig.raymond(&["branch", "r", "--at", "2", "--id", "b"]).assert(0, "b\n");
    rig.write("gate.ignored", "");
    let done = rig.raymond(&["resume", "b"]);
    assert_eq!(done.exit, 0, "{done:?}");
    let joined: Vec<Value> = serde_json::from_str(&done.stdout).unwrap();
    let path = rig.path(".raymond/worktrees/b/a").display().to_string();
    assert_eq!(joined[0]["result"], format!("{path} raymond-run/b/a 1"));
    assert_eq!(joined[0]["branch"], "raymond-run/b/a");
    assert!(rig.path(".raymond/worktrees/r/a").exists(), "the worktree of the origin is not touched");
    assert!(!rig.path(".raymond/worktrees/b").exists(), "the branch tidies up its own");
    live.kill();
    wait_until("the run to be let go", || rig.status()["status"] != "running");
    assert_eq!(rig.resume().exit, 0);
}

/// A failed run `r` with worktrees that were made after its first step: `a`, whose worker has ended with a commit, `b`,
/// whose worker has failed and left a new file, and `j`, whose worker was joined and has left a new file.
pub fn worktrees_to_drop() -> Rig {
    let rig = Rig::new(RAYMOND);
    init(&rig, ".");
    rig.write(".gitignore", "/workflow\n/.raymond\n/*.ignored\n");
    rig.write("f", "0\n");
    commit(&rig, ".", "zero");
    rig.state("START.sh", "echo '<goto>FIRST</goto>'");
    rig.state("FIRST.sh", "echo '<fork worktree=\"j\">J</fork><join>FAN</join>'");
    rig.state("J.sh", "echo mine > new; echo '<result>j</result>'");
    rig.state("FAN.sh", "echo '<fork worktree=\"a\">W</fork><fork worktree=\"b\">X</fork><join>END</join>'");
    rig.state("W.sh", "cat f; echo 1 > f; git commit -qam one; echo '<result>w</result>'");
    rig.state("X.sh", "echo mine > new; [ -e ../../../../ok.ignored ] || exit 4; printf '<result>%s %s</result>' \"$RAYMOND_BRANCH\" \"$(ls)\"");
    rig.state("END.sh", "echo \"<result>$RAYMOND_INPUT</result>\"");
    assert_eq!(rig.run().exit, 1);
    rig
}

/// Checks that the worktrees of that run are those of the run that keeps what was dropped, with all that was in them.
pub fn assert_worktrees_are_dropped(rig: &Rig, why: &str) {
    let branches = git(rig, ".", &["for-each-ref", "--format=%(refname:short)", "refs/heads/raymond-run"]);
    let dropped: Vec<&str> = branches.lines().filter(|branch| branch.contains("/dropped-1-r/")).collect();
    assert_eq!(
        dropped,
        ["raymond-run/dropped-1-r/a", "raymond-run/dropped-1-r/b", "raymond-run/dropped-1-r/j"],
        "{why}"
    );
    for name in ["b", "j"] {
        assert_eq!(rig.read(&format!(".raymond/worktrees/dropped-1-r/{name}/new")), "mine\n", "{why}");
    }
}

/// The same names can be used again, and what was dropped goes on where it was.
pub fn assert_both_go_on(rig: &Rig, runs: [&str; 2], why: &str) {
    rig.write("ok.ignored", "");
    for run in runs {
        let branch = format!("raymond-run/{run}/b");
        let done = rig.raymond(&["resume", run]);
        assert_eq!(done.exit, 0, "{why}: {done:?}");
        let joined: Vec<Value> = serde_json::from_str(&done.stdout).unwrap();
        assert_eq!(
            (&joined[1]["result"], &joined[1]["branch"]),
            (&format!("{branch} f\nnew").into(), &branch.as_str().into()),
            "{why}"
        );
        assert_eq!(joined[0]["branch"], branch.replace("/b", "/a"), "{why}");
    }
}

#[test]
fn a_rewind_gives_later_worktrees_to_the_run_that_keeps_what_is_dropped() {
    let rig = worktrees_to_drop();
    rig.raymond(&["rewind", "r", "--to", "1"]).assert(0, "dropped-1-r\n");
    assert_worktrees_are_dropped(&rig, "rewound");
    assert!(!rig.path(".raymond/worktrees/r").exists());
    // Rewound again, it is where it is.
    rig.raymond(&["rewind", "r", "--to", "1"]).assert(0, "dropped-1-r\n");
    assert_both_go_on(&rig, ["r", "dropped-1-r"], "rewound");
    for run in ["dropped-1-r", "r"] {
        assert_eq!(rig.raymond(&["clean", run, "--discard-changes"]).exit, 0);
    }
    assert!(!rig.path(".raymond/worktrees").exists(), "also what was joined belongs to one of them");
}
