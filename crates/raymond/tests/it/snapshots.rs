//! Snapshots of working folders in git.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use serde_json::Value;
use test_kit::rig::{Done, Rig, wait_for_file, wait_until};

use crate::RAYMOND;
use crate::repository::{commit, front_git, git, init};

/// A repository with the files `f` and `g`; the workflow is in it and ignored.
fn repository() -> Rig {
    let rig = Rig::new(RAYMOND);
    init(&rig, ".");
    rig.write(".gitignore", "/workflow\n*.ignored\n");
    rig.write("f", "one\n");
    rig.write("g", "one\n");
    commit(&rig, ".", "one");
    rig
}

/// States A, B and so on, each of which does one of these things.
fn steps(rig: &Rig, scripts: &[&str]) {
    let names = ["START", "B", "C", "D", "E"];
    for (number, script) in scripts.iter().enumerate() {
        let last = number + 1 == scripts.len();
        let next = if last {
            "<result>ok</result>".to_owned()
        } else {
            format!("<goto>{}</goto>", names[number + 1])
        };
        rig.state(&format!("{}.sh", names[number]), format!("set -e\n{script}\necho '{next}'\n"));
    }
}

fn run(rig: &Rig) -> Done {
    let done = rig.raymond(&["workflow", "--id", "r", "--snapshots"]);
    assert_eq!(done.exit, 0, "{done:?}");
    done
}

/// The snapshot of each finished step, in order.
fn files(rig: &Rig) -> Vec<Value> {
    let finished = rig.events().into_iter().filter(|event| event["event"] == "step_finished");
    finished.map(|event| event["files"].clone()).collect()
}

fn text_of(rig: &Rig, files: &Value, path: &str) -> String {
    git(rig, ".", &["show", &format!("{}:{path}", files["commit"].as_str().unwrap())])
}

fn names_in(rig: &Rig, files: &Value) -> String {
    git(rig, ".", &["ls-tree", "-r", "--name-only", files["commit"].as_str().unwrap()]).replace('\n', " ")
}

/// Everything of a repository that a snapshot must not change.
fn untouched(rig: &Rig) -> Vec<String> {
    let index = fs::read(rig.path(".git/index")).unwrap();
    let mut seen =
        vec![format!("{index:?}"), format!("{:?}", fs::metadata(rig.path(".git/index")).unwrap().modified())];
    for arguments in [
        &["status", "--porcelain=v2", "--branch"][..],
        &["for-each-ref", "refs/heads", "refs/tags", "refs/stash"],
        &["symbolic-ref", "HEAD"],
        &["stash", "list"],
        &["reflog"],
    ] {
        let mut all = vec!["--no-optional-locks"];
        all.extend(arguments);
        seen.push(git(rig, ".", &all));
    }
    seen
}

#[test]
fn each_step_leaves_its_files_and_nothing_else_changes() {
    let rig = repository();
    for hook in ["post-index-change", "reference-transaction", "pre-commit", "post-commit", "pre-auto-gc"] {
        let hook = rig.write(
            &format!(".git/hooks/{hook}"),
            format!("#!/bin/sh\ntouch {}/ran.ignored\n", rig.work().display()),
        );
        fs::set_permissions(hook, fs::Permissions::from_mode(0o755)).unwrap();
    }
    rig.write("f", "stashed\n");
    git(&rig, ".", &["-c", "core.hooksPath=/dev/null", "stash", "-q"]);
    rig.write("g", "staged\n");
    git(&rig, ".", &["-c", "core.hooksPath=/dev/null", "add", "g"]);
    rig.write("g", "changed\n");
    rig.write("x.ignored", "1");
    steps(
        &rig,
        &[
            "echo two > f; echo 1 > new",
            "true",
            "rm g; echo 2 > new",
            "git -c core.hooksPath=/dev/null add -f x.ignored",
        ],
    );
    run(&rig);
    assert!(!rig.path("ran.ignored").exists(), "no hook runs");
    let all = files(&rig);
    assert_eq!(names_in(&rig, &all[0]), ".gitignore f g new");
    assert_eq!((text_of(&rig, &all[0], "f"), text_of(&rig, &all[0], "g")), ("two".into(), "changed".into()));
    assert_eq!(all[1]["commit"], all[0]["commit"], "nothing changed, so there is no new commit");
    assert_eq!(names_in(&rig, &all[2]), ".gitignore f new");
    assert_eq!(
        names_in(&rig, &all[3]),
        ".gitignore f new x.ignored",
        "what is tracked counts, though it is ignored"
    );
    assert_eq!(all[2]["before"], all[0]["commit"]);
    assert_eq!(all[0]["folder"], rig.work().display().to_string());
    let chain = git(&rig, ".", &["log", "--format=%H %s", "refs/raymond/r"]);
    let chain: Vec<&str> = chain.lines().collect();
    assert_eq!(chain.len(), 4, "{chain:?}");
    assert!(
        chain[1].starts_with(all[2]["commit"].as_str().unwrap())
            && chain[1].ends_with("r step 3: main in C.sh")
    );
    assert!(chain[3].ends_with("r before step 1"), "{chain:?}");
}

#[test]
fn index_head_branches_stash_and_status_stay_as_they_are() {
    let rig = repository();
    rig.write("f", "stashed\n");
    git(&rig, ".", &["stash", "-q"]);
    rig.write("g", "staged\n");
    git(&rig, ".", &["add", "g"]);
    rig.write("g", "changed\n");
    rig.write("untracked", "1\n");
    steps(&rig, &["true", "true"]);
    // Raymond's own folder is there before.
    rig.write(".raymond/.gitignore", "*\n");
    let before = untouched(&rig);
    run(&rig);
    assert_eq!(untouched(&rig), before);
    git(&rig, ".", &["gc", "-q", "--prune=now"]);
    assert_eq!(text_of(&rig, &files(&rig)[1], "g"), "changed");
    assert_eq!(git(&rig, ".", &["fsck", "--no-dangling", "--connectivity-only"]), "");
}

#[test]
fn log_shows_what_a_step_has_changed() {
    let rig = repository();
    steps(&rig, &["echo two > f; echo > 'größe.txt'", "true"]);
    run(&rig);
    let said = rig.raymond(&["log", "r", "--step", "1"]).stdout;
    assert!(said.contains("größe.txt"), "{said}");
    assert!(said.contains("-one") && said.contains("+two") && said.contains("2 files changed"), "{said}");
    let said = rig.raymond(&["log", "r", "--step", "2"]).stdout;
    assert!(said.contains("changed files") && said.contains("none"), "{said}");
}

#[test]
fn a_merge_and_a_rebase_in_the_middle_are_no_obstacle() {
    for way in ["merge", "rebase"] {
        let rig = repository();
        git(&rig, ".", &["checkout", "-qb", "other"]);
        rig.write("f", "theirs\n");
        commit(&rig, ".", "theirs");
        git(&rig, ".", &["checkout", "-q", "master"]);
        rig.write("f", "ours\n");
        commit(&rig, ".", "ours");
        let mut command = rig.program("git");
        command.args([way, "other"]);
        assert_eq!(rig.launch(command).wait().exit, 1, "a conflict");
        rig.write(".raymond/.gitignore", "*\n");
        steps(&rig, &["echo 1 > new"]);
        let before = git(&rig, ".", &["ls-files", "--stage"]);
        run(&rig);
        let text = text_of(&rig, &files(&rig)[0], "f");
        assert!(text.contains("<<<<<<<"), "{way}: {text}");
        assert_eq!(git(&rig, ".", &["ls-files", "--stage"]), before, "{way}");
    }
}

#[test]
fn submodules_filters_and_nested_repositories_are_kept_as_git_keeps_them() {
    let rig = repository();
    init(&rig, "other");
    rig.write("other/h", "1\n");
    commit(&rig, "other", "one");
    git(&rig, ".", &["-c", "protocol.file.allow=always", "submodule", "--quiet", "add", "./other", "module"]);
    fs::remove_dir_all(rig.path("other")).unwrap();
    // As a large file storage does it: a pointer in git, the content elsewhere.
    git(&rig, ".", &["config", "--global", "filter.big.clean", "sed 's/^content .*/pointer/'"]);
    git(&rig, ".", &["config", "--global", "filter.big.smudge", "sed 's/^pointer/content of old/'"]);
    rig.write(".gitattributes", "*.big filter=big\n");
    rig.write("a.big", "content of a\n");
    commit(&rig, ".", "more");
    // A repository without a commit cannot be added.
    git(&rig, ".", &["init", "-q", "nested"]);
    rig.write("nested/file", "1\n");
    steps(&rig, &["echo 'content of b' > b.big; echo 2 > module/h; echo 2 > f"]);
    run(&rig);
    let snapshot = &files(&rig)[0];
    assert_eq!(text_of(&rig, snapshot, "b.big"), "pointer");
    assert_eq!(text_of(&rig, snapshot, "f"), "2");
    let listed = git(&rig, ".", &["ls-tree", snapshot["commit"].as_str().unwrap(), "module"]);
    assert!(listed.starts_with("160000 commit"), "{listed}");
    rig.raymond(&["branch", "r", "--at", "1", "--id", "b", "--files", "--worktree", "../restored"])
        .assert(0, "b\n");
    assert_eq!(
        (rig.read("../restored/b.big"), rig.read("../restored/f")),
        ("content of old\n".into(), "2\n".into())
    );
}

#[test]
fn files_that_change_meanwhile_do_not_matter() {
    let rig = repository();
    let noise = "(while [ ! -e stop.ignored ]; do echo $RANDOM > n$((RANDOM % 20)); rm -f n$((RANDOM % 20)); done) > /dev/null 2>&1 &";
    steps(&rig, &[noise, "echo two > f", "echo three > f", "touch stop.ignored"]);
    run(&rig);
    let all = files(&rig);
    assert_eq!(text_of(&rig, &all[1], "f"), "two");
    assert_eq!(text_of(&rig, &all[2], "f"), "three");
}

#[test]
fn agents_that_share_a_folder_are_told_of() {
    let rig = repository();
    rig.state("START.sh", "echo '<fork>SLOW</fork><fork>FAST</fork><join>END</join>'");
    rig.state("SLOW.sh", "echo half > half; touch begun.ignored; until [ -e gate.ignored ]; do sleep 0.01; done; echo '<result>ok</result>'");
    rig.state("FAST.sh", "until [ -e begun.ignored ]; do sleep 0.01; done; echo '<goto>GATE</goto>'");
    rig.state("GATE.sh", "touch gate.ignored; echo '<result>ok</result>'")
        .state("END.sh", "echo '<result>ok</result>'");
    run(&rig).says("several agents work in");
    let events = rig.events();
    let fast =
        events.iter().find(|event| event["event"] == "step_finished" && event["state"] == "FAST.sh").unwrap();
    assert_eq!(fast["files"]["shared"], true);
    assert_eq!(text_of(&rig, &fast["files"], "half"), "half");
    let end = events.iter().rfind(|event| event["event"] == "step_finished").unwrap();
    assert!(end["files"].get("shared").is_none());
}

#[test]
fn config_and_manifest_switch_them_on_and_no_repository_is_a_warning() {
    let rig = repository();
    steps(&rig, &["true"]);
    rig.write(".raymond/config.toml", "[raymond]\nsnapshots = true\n");
    assert_eq!(rig.run().exit, 0);
    assert!(files(&rig)[0]["commit"].is_string());
    rig.write(".raymond/config.toml", "");
    rig.state("workflow.yaml", "snapshots: true\n");
    assert_eq!(rig.raymond(&["workflow", "--id", "s"]).exit, 0);
    assert!(!git(&rig, ".", &["for-each-ref", "refs/raymond/s"]).is_empty());
    let rig = Rig::new(RAYMOND);
    steps(&rig, &["true"]);
    run(&rig).says("not a git repository");
    assert_eq!(files(&rig), [Value::Null]);
}

#[test]
fn a_worker_with_a_worktree_has_snapshots_of_it() {
    let rig = repository();
    rig.state("START.sh", "echo '<fork worktree=\"a\">W</fork><join>END</join>'");
    rig.state("W.sh", "echo mine > f; echo '<result>ok</result>'")
        .state("END.sh", "echo '<result>ok</result>'");
    run(&rig);
    let all = files(&rig);
    assert_eq!(text_of(&rig, &all[1], "f"), "mine");
    assert_eq!(text_of(&rig, &all[2], "f"), "one");
    assert_eq!(all[1]["folder"], rig.path(".raymond/worktrees/r/a").display().to_string());
}

#[test]
fn a_killed_run_goes_on_with_its_chain() {
    let rig = repository();
    // The filter holds the snapshot of the second step up.
    let work = rig.work().display().to_string();
    let clean = format!(
        "if [ -e '{work}/slow.ignored' ]; then touch '{work}/begun.ignored'; until [ -e '{work}/gate.ignored' ]; do sleep 0.01; done; fi; cat"
    );
    git(&rig, ".", &["config", "--global", "filter.slow.clean", &clean]);
    rig.write(".gitattributes", "*.slow filter=slow\n");
    commit(&rig, ".", "filter");
    steps(
        &rig,
        &["echo two > f", "touch slow.ignored; echo ran >> trace.ignored; echo 1 > x.slow", "echo three > f"],
    );
    let live = rig.start(&["workflow", "--id", "r", "--snapshots"]);
    wait_for_file(&rig.path("begun.ignored"));
    live.kill();
    rig.write("gate.ignored", "");
    wait_until("the run to be let go", || rig.status()["status"] != "running");
    assert_eq!(rig.resume().exit, 0);
    let all = files(&rig);
    assert_eq!(text_of(&rig, &all[2], "f"), "three");
    assert_eq!(all[1]["before"], all[0]["commit"]);
    assert_eq!(rig.read("trace.ignored"), "ran\nran\n", "its end was not recorded");
    assert_eq!(git(&rig, ".", &["rev-parse", "refs/raymond/r"]), all[2]["commit"].as_str().unwrap());
    let left: Vec<_> = fs::read_dir(rig.path(".raymond/state/r.tasks"))
        .unwrap()
        .flatten()
        .map(|entry| entry.file_name())
        .filter(|name| name.to_string_lossy().contains("snapshots"))
        .collect();
    assert!(left.is_empty(), "{left:?}");
}

#[test]
fn a_step_counts_though_every_try_of_its_snapshot_fails() {
    let rig = repository();
    steps(&rig, &["echo two > f", "echo three > f"]);
    let is_update = r#"for word in "$@"; do [ "$word" = update-index ] && { echo "fatal: no room" >&2; exit 128; }; done"#;
    let path = front_git(&rig.home().join("front"), |real| format!("{is_update}\nexec {real} \"$@\""));
    let mut command = rig.command(&["workflow", "--id", "r", "--snapshots"]);
    command.env("PATH", path);
    let done = rig.launch(command).wait();
    done.assert(0, "ok\n").says("no snapshot of").says("no room");
    assert_eq!(done.stderr.matches("no room").count(), 1, "it is said once: {done:?}");
    assert_eq!(files(&rig), [Value::Null, Value::Null]);
    assert_eq!(rig.read("f"), "three\n");
}
