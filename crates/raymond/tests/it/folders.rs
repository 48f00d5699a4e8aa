//! Which working folders a model may choose with `cd`.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::PathBuf;
use std::process::Command;

use test_kit::rig::{Done, Rig};

use crate::RAYMOND;

/// A project with a folder `sub/a`, a link `sub/out` to a folder `elsewhere` outside, and a prompt whose reply is a
/// `reset` with this `cd`.
fn rig(cd: &str, policy: Option<&str>) -> Rig {
    let rig = Rig::new(RAYMOND);
    fs::create_dir_all(rig.path("sub/a/b")).unwrap();
    fs::create_dir_all(elsewhere(&rig).join("deep")).unwrap();
    symlink(elsewhere(&rig), rig.path("sub/out")).unwrap();
    let cd = cd.replace("$OUT", elsewhere(&rig).to_str().unwrap());
    let policy =
        policy.map(|entry| format!("---\nallowed_transitions: [ {entry}, {{ tag: result }} ]\n---\n"));
    let policy = policy.unwrap_or_default().replace("$OUT", elsewhere(&rig).to_str().unwrap());
    rig.state("START.md", format!("{policy}Go."));
    rig.state("NEXT.sh", "echo \"<result>$PWD</result>\"").state("workflow.yaml", "backend: scripted\n");
    let replies = format!("START: [ '<reset cd=\"{cd}\">NEXT</reset>', '<result>reminded</result>' ]\n");
    rig.state("replies.yaml", replies);
    rig
}

fn elsewhere(rig: &Rig) -> PathBuf {
    rig.work().parent().unwrap().join("elsewhere")
}

fn assert_refused(done: &Done) {
    assert_eq!(done.exit, 1, "{done:?}");
    done.says("outside the project; to permit it, list the folder in `cd_paths`");
}

#[test]
fn a_model_stays_in_the_project() {
    for cd in ["sub/a", ".", "sub/../sub"] {
        let rig = rig(cd, None);
        assert_eq!(rig.run().exit, 0, "{cd}");
    }
    for cd in ["..", "../elsewhere", "sub/out", "sub/out/deep", "/etc", "$OUT"] {
        assert_refused(&rig(cd, None).run());
    }
    // With a policy there is a reminder.
    let done = rig("$OUT", Some("{ tag: reset, target: NEXT }")).run();
    done.assert(0, "reminded\n").says("outside the project");
    assert!(!done.stderr.contains("cd_paths"), "{}", done.stderr);
}

#[test]
fn a_script_may_go_anywhere() {
    let rig = rig("x", None);
    fs::remove_file(rig.path("workflow/START.md")).unwrap();
    rig.state("START.sh", "echo '<reset cd=\"/\">NEXT</reset>'");
    rig.run().assert(0, "/\n");
}

#[test]
fn config_permits_more_folders() {
    let rig = rig("$OUT/deep", None);
    rig.write(".raymond/config.toml", "[raymond]\ncd_paths = [\"../elsewhere\"]\n");
    let deep = elsewhere(&rig).join("deep");
    rig.run().assert(0, &format!("{}\n", deep.display()));
}

#[test]
fn a_policy_binds_the_folder() {
    let entry = |cd: &str| format!("{{ tag: reset, target: NEXT, cd: \"{cd}\" }}");
    let taken = [
        ("sub/a", "sub/*"),
        ("sub/a/b", "sub/**"),
        ("sub/a", "sub/a"),
        ("$OUT/deep", "$OUT/*"),
        ("$OUT", "../elsewhere"),
        ("$OUT", "../e*"),
    ];
    for (cd, pattern) in taken {
        let done = rig(cd, Some(&entry(pattern))).run();
        assert!(done.exit == 0 && done.stdout != "reminded\n", "{cd} {pattern}: {done:?}");
    }
    // A link does not lead out of the folders that the pattern names.
    for (cd, pattern) in [("sub", "sub/*"), ("sub/a/b", "sub/*"), ("sub/out", "sub/*"), ("sub", "other")] {
        let done = rig(cd, Some(&entry(pattern))).run();
        done.assert(0, "reminded\n").says("is not permitted here");
    }
    let none = rig("sub", Some(&entry("sub/*")));
    none.state("replies.yaml", "START: [ '<reset>NEXT</reset>', '<result>reminded</result>' ]\n");
    none.run().assert(0, "reminded\n");
}

#[test]
fn a_folder_in_the_only_entry_is_taken_without_a_tag() {
    let rig = rig("x", None);
    rig.state(
        "START.md",
        "---\nallowed_transitions: [ { tag: reset, target: NEXT, cd: ../elsewhere } ]\n---\nGo.",
    );
    rig.state("replies.yaml", "START: done\n");
    rig.run().assert(0, &format!("{}\n", elsewhere(&rig).display()));
}

#[test]
fn worktrees_of_the_same_repository_are_near() {
    let rig = rig("../tree", None);
    fs::remove_dir(rig.path(".git")).unwrap();
    let git = |args: &[&str]| {
        let setting = ["-c", "user.name=t", "-c", "user.email=t@t"];
        let done = Command::new("git").current_dir(rig.work()).args(setting).args(args).output().unwrap();
        assert!(done.status.success(), "{done:?}");
    };
    git(&["init", "-q"]);
    git(&["commit", "-q", "--allow-empty", "-m", "first"]);
    git(&["worktree", "add", "-q", "../tree"]);
    let tree = rig.work().parent().unwrap().join("tree");
    rig.run().assert(0, &format!("{}\n", tree.display()));
    // The other way round: from the worktree to the main one.
    fs::create_dir_all(tree.join("workflow")).unwrap();
    for file in ["START.md", "NEXT.sh", "workflow.yaml"] {
        fs::copy(rig.path("workflow").join(file), tree.join("workflow").join(file)).unwrap();
    }
    fs::write(tree.join("workflow/replies.yaml"), "START: <reset cd=\"../work\">NEXT</reset>\n").unwrap();
    let mut command = rig.command(&["workflow"]);
    command.current_dir(&tree);
    rig.launch(command).wait().assert(0, &format!("{}\n", rig.work().display()));
}

#[test]
fn a_repository_that_only_claims_a_folder_gives_no_access() {
    let rig = rig("$OUT", None);
    let git = elsewhere(&rig).join(".git");
    rig.write(".git/worktrees/fake/gitdir", git.to_str().unwrap());
    rig.write(".git/worktrees/fake/commondir", "../..");
    assert_refused(&rig.run());
    // Nor does a file that claims to belong to another repository.
    fs::create_dir(&git).unwrap();
    fs::remove_dir_all(rig.path(".git")).unwrap();
    rig.write(".git", format!("gitdir: {}", git.display()));
    assert_refused(&rig.raymond(&["workflow", "--id", "r2"]));
}
