//! `raymond clean`.

use std::fs;
use std::time::{Duration, SystemTime};

use test_kit::rig::{Rig, wait_for_file, wait_until};

use crate::RAYMOND;
use crate::repository::{commit, git, init};

/// A completed run `r` with debug files, a payload, a file in a task folder and two worktrees, of which one has work in it
/// that is not committed.
pub fn cleanable() -> Rig {
    let rig = Rig::new(RAYMOND);
    init(&rig, ".");
    rig.write(".gitignore", "/workflow\n/.raymond\n");
    rig.write("f", "one\n");
    commit(&rig, ".", "one");
    rig.state(
        "START.sh",
        "echo \"<fork worktree='dirty'>W</fork><fork worktree='saved'>W</fork><join>END</join>\"",
    );
    rig.state("W.sh", "case $RAYMOND_BRANCH in *dirty) echo x > f ;; *) echo y > f; git commit -qam saved ;; esac; echo '<result>ok</result>'");
    rig.state("END.sh", "touch \"$RAYMOND_TASK_FOLDER/left\"; printf '<result>'; head -c 100000 /dev/zero | tr '\\0' x; echo '</result>'");
    let done = rig.run();
    assert_eq!(done.exit, 0, "{done:?}");
    git(&rig, ".", &["update-ref", "refs/raymond/r", "HEAD"]);
    git(&rig, ".", &["update-ref", "refs/raymond-kept/r/1", "HEAD"]);
    rig
}

/// Every file and folder whose name says that it belongs to the run `r`.
pub fn traces(rig: &Rig) -> Vec<String> {
    let folders = [".raymond/state", ".raymond/debug", ".raymond/worktrees"];
    let entries =
        folders.iter().flat_map(|folder| fs::read_dir(rig.path(folder)).into_iter().flatten().flatten());
    let mut names: Vec<String> = entries.map(|entry| entry.file_name().into_string().unwrap()).collect();
    names.retain(|name| name == "r" || name.starts_with("r."));
    names
}

pub fn refs(rig: &Rig) -> String {
    git(
        rig,
        ".",
        &[
            "for-each-ref",
            "--format=%(refname)",
            "refs/raymond",
            "refs/raymond-kept",
            "refs/heads/raymond-run",
        ],
    )
}

#[test]
fn nothing_is_left_of_a_run_but_work_that_is_not_saved() {
    let rig = cleanable();
    let before = (traces(&rig), refs(&rig));
    let said = rig.raymond(&["clean", "r", "--dry-run"]);
    assert!(said.stdout.starts_with("would remove r (") && said.stdout.contains("KiB"), "{said:?}");
    assert_eq!((traces(&rig), refs(&rig)), before, "a dry run removes nothing");

    let done = rig.raymond(&["clean", "r"]);
    assert_eq!(done.exit, 0, "{done:?}");
    assert!(
        done.stdout.contains("1 git ref") && done.stdout.contains("it has changes that are not committed"),
        "{done:?}"
    );
    assert!(done.stdout.contains("kept refs/raymond-kept/r/1"), "{done:?}");
    assert_eq!(traces(&rig), ["r.mark", "r"], "only the worktree, and whose it is");
    assert_eq!(rig.read(".raymond/worktrees/r/dirty/f"), "x\n");
    assert_eq!(
        refs(&rig),
        "refs/heads/raymond-run/r/dirty\nrefs/heads/raymond-run/r/saved\nrefs/raymond-kept/r/1"
    );
    assert_eq!(rig.raymond(&["status", "r"]).exit, 2);

    let done = rig.raymond(&["clean", "r", "--discard-changes"]);
    assert_eq!(done.exit, 0, "{done:?}");
    assert_eq!(traces(&rig), [""; 0]);
    assert!(!rig.path(".raymond/worktrees").exists());
    assert!(refs(&rig).contains("raymond-run/r/saved") && !refs(&rig).contains("kept"), "{}", refs(&rig));
    assert_eq!(git(&rig, ".", &["worktree", "list"]).lines().count(), 1);
    assert_eq!(rig.raymond(&["clean", "r"]).exit, 2, "there is no such run any more");
}

#[test]
fn only_worktrees_that_are_there_are_counted_and_what_was_put_aside_can_be_removed_later() {
    let rig = cleanable();
    // The run itself has removed the worktree `saved`.
    let said = rig.raymond(&["clean", "r", "--dry-run", "--discard-changes"]);
    assert!(said.stdout.contains(", 1 worktree, 2 git refs)"), "{said:?}");
    let kept = rig.raymond(&["clean", "r"]);
    assert!(!kept.stdout.contains("1 worktree"), "{kept:?}");

    git(&rig, ".", &["worktree", "remove", "--force", ".raymond/worktrees/r/dirty"]);
    let removed = rig.raymond(&["clean", "r"]);
    assert!(removed.stdout.contains("kept refs/raymond-kept/r/1"), "{removed:?}");
    assert_eq!(traces(&rig), [""; 0], "only the ref is left");
    rig.raymond(&["clean", "r", "--discard-changes"]);
    assert!(!refs(&rig).contains("kept"), "{}", refs(&rig));
}

#[test]
fn without_a_run_or_a_time_nothing_is_removed() {
    let rig = cleanable();
    rig.raymond(&["clean"]).assert(2, "").says("which run?");
    rig.raymond(&["clean", "r", "--older-than", "1d"]).assert(2, "");
    assert!(rig.journal().exists());
}

#[test]
fn a_live_run_is_never_removed() {
    let rig = Rig::new(RAYMOND);
    rig.state("START.sh", "touch begun; until [ -e gate ]; do sleep 0.02; done; echo '<result>ok</result>'");
    let live = rig.start(&["workflow", "--id", "r"]);
    wait_for_file(&rig.path("begun"));
    rig.raymond(&["clean", "r", "--discard-changes"]).assert(2, "").says("r is running");
    let all = rig.raymond(&["clean", "--older-than", "0s"]);
    assert!(all.stdout.contains("r stays: it is running"), "{all:?}");
    rig.write("gate", "");
    live.wait().assert(0, "ok\n");
    rig.raymond(&["clean", "r"]);
    assert_eq!(traces(&rig), [""; 0]);
}

#[test]
fn a_run_that_a_branch_needs_stays_until_the_branch_is_gone() {
    let rig = Rig::new(RAYMOND);
    rig.state("START.sh", "echo '<goto>END</goto>'").state("END.sh", "echo '<result>ok</result>'");
    rig.run().assert(0, "ok\n");
    rig.raymond(&["branch", "r", "--at", "1", "--id", "b"]).assert(0, "b\n");
    rig.raymond(&["clean", "r"]).assert(2, "").says("the history of b begins in it");
    let old = SystemTime::now() - Duration::from_secs(10 * 24 * 3600);
    let age = |path: &str| fs::File::open(rig.path(path)).unwrap().set_modified(old).unwrap();
    for path in [".raymond/state/r.jsonl", ".raymond/state/r.lock", ".raymond/debug/r"] {
        age(path);
    }
    let tasks = fs::read_dir(rig.path(".raymond/state"))
        .unwrap()
        .flatten()
        .map(|entry| entry.file_name().into_string().unwrap());
    let tasks: Vec<String> = tasks.filter(|name| name.starts_with("r.")).collect();
    tasks.iter().for_each(|name| age(&format!(".raymond/state/{name}")));
    let done = rig.raymond(&["clean", "--older-than", "5d"]);
    done.assert(0, "r stays: the history of b begins in it\nnothing to remove\n");
    let done = rig.raymond(&["clean", "--older-than", "0s"]);
    assert_eq!(done.exit, 0);
    assert!(done.stdout.contains("removed b (") && done.stdout.contains("removed r ("), "{done:?}");
    assert_eq!(traces(&rig), [""; 0]);
}

#[test]
fn a_removal_that_was_killed_is_finished_by_the_next_one() {
    let rig = cleanable();
    for number in 0..20_000 {
        rig.write(&format!(".raymond/state/r.d/{number}"), "");
    }
    let live = rig.start(&["clean", "r", "--discard-changes"]);
    wait_until("the journal to be gone", || !rig.journal().exists());
    live.kill();
    assert_eq!(rig.raymond(&["resume", "r"]).exit, 2, "half of a run cannot be resumed");
    wait_until("the lock to be free", || rig.raymond(&["clean", "r", "--discard-changes"]).exit != 1);
    assert_eq!(traces(&rig), [""; 0]);
}

/// In a folder that a person has named, files of others may be called like those of a run.
#[test]
fn in_a_named_folder_only_what_a_journal_accounts_for_is_removed() {
    for way in ["by age", "by name", "dry run first"] {
        let rig = Rig::new(RAYMOND);
        rig.state("START.sh", "touch \"$RAYMOND_TASK_FOLDER/left\"; echo '<result>ok</result>'");
        let others = [
            "Cargo.lock",
            "dataset.jsonl",
            "dataset.0001.jsonl",
            "notes.d/one",
            "mail.in/one",
            "list.tasks/one",
            "book.mark",
            "debug/session/log",
            "worktrees/old/file",
        ];
        for file in others {
            rig.write(file, "mine\n");
        }
        rig.raymond(&["workflow", "--id", "r", "--state-dir", "."]).assert(0, "ok\n");
        assert!(rig.path("debug/r").exists() && rig.path("r.tasks").exists());
        if way == "dry run first" {
            let said = rig.raymond(&["clean", "--state-dir", ".", "--older-than", "0s", "--dry-run"]);
            assert_eq!(said.stdout.lines().count(), 1, "{said:?}");
        }
        if way == "by name" {
            for name in ["dataset", "Cargo", "notes", "mail", "list", "book", "session", "old"] {
                let done = rig.raymond(&["clean", name, "--state-dir", ".", "--discard-changes"]);
                assert_eq!((done.exit, done.stdout.as_str()), (2, ""), "{name}: {done:?}");
            }
            assert_eq!(rig.raymond(&["clean", "r", "--state-dir", "."]).exit, 0);
        } else {
            let done = rig.raymond(&["clean", "--state-dir", ".", "--older-than", "0s", "--discard-changes"]);
            assert!(done.exit == 0 && done.stdout.starts_with("removed r ("), "{done:?}");
            assert_eq!(done.stdout.lines().count(), 1, "{done:?}");
        }
        for file in others {
            assert_eq!(rig.read(file), "mine\n", "{way}: {file}");
        }
        let left = fs::read_dir(rig.path(".")).unwrap().flatten().map(|entry| entry.file_name());
        let mut left: Vec<String> = left.map(|name| name.into_string().unwrap()).collect();
        left.retain(|name| name.starts_with("r.") || name.starts_with(".r."));
        assert_eq!(left, [""; 0], "{way}");
        assert!(!rig.path("debug/r").exists(), "{way}");
    }
}

#[test]
fn in_a_named_folder_a_removal_that_was_interrupted_is_finished() {
    let rig = Rig::new(RAYMOND);
    rig.state("START.sh", "touch \"$RAYMOND_TASK_FOLDER/left\"; echo '<result>ok</result>'");
    for way in [&["clean", "r", "--state-dir", "s"][..], &["clean", "--older-than", "0s", "--state-dir", "s"]]
    {
        rig.raymond(&["workflow", "--id", "r", "--state-dir", "s"]).assert(0, "ok\n");
        // As a kill leaves it right after the first step.
        fs::rename(rig.path("s/r.jsonl"), rig.path("s/.r.jsonl.removed")).unwrap();
        assert_eq!(rig.raymond(&["status", "r", "--state-dir", "s"]).exit, 2);
        let done = rig.raymond(way);
        assert!(done.exit == 0 && done.stdout.starts_with("removed r ("), "{done:?}");
        let left = fs::read_dir(rig.path("s")).unwrap().flatten().map(|entry| entry.file_name());
        assert_eq!(left.filter(|name| *name != "debug").collect::<Vec<_>>(), [""; 0]);
        assert!(!rig.path("s/debug/r").exists());
    }
}

#[test]
fn in_a_named_folder_nothing_is_removed_through_a_link() {
    let rig = Rig::new(RAYMOND);
    rig.state("START.sh", "echo '<result>ok</result>'");
    rig.raymond(&["workflow", "--id", "r", "--state-dir", "s", "--no-debug"]).assert(0, "ok\n");
    rig.write("src/r/main.rs", "mine\n");
    rig.write("src/other/main.rs", "mine\n");
    let _ = fs::remove_dir(rig.path("s/debug"));
    std::os::unix::fs::symlink("../src", rig.path("s/debug")).unwrap();
    let done = rig.raymond(&["clean", "--older-than", "0s", "--state-dir", "s", "--discard-changes"]);
    assert!(done.exit == 0 && done.stdout.starts_with("removed r ("), "{done:?}");
    assert_eq!(
        (rig.read("src/r/main.rs"), rig.read("src/other/main.rs")),
        ("mine\n".into(), "mine\n".into())
    );
}

#[test]
fn a_run_that_waits_for_an_answer_is_removed_by_name_or_when_that_is_said() {
    let rig = Rig::new(RAYMOND);
    rig.state("START.sh", "echo '<ask next=\"END\">really?</ask>'")
        .state("END.sh", "echo '<result>ok</result>'");
    for id in ["a", "b", "r"] {
        rig.raymond(&["workflow", "--id", id]).assert_is(3);
    }
    // A branch that asks keeps what its history begins in, too.
    rig.raymond(&["branch", "b", "--at", "1", "--id", "of-b"]).assert(0, "of-b\n");
    rig.raymond(&["answer", "b", "ask1", "yes", "--resume"]).assert(0, "ok\n");
    let stays = |done: &test_kit::rig::Done, id: &str, why: &str| {
        assert!(done.stdout.contains(&format!("{id} stays: {why}")), "{done:?}");
    };
    for arguments in [&["clean", "--older-than", "0s", "--dry-run"][..], &["clean", "--older-than", "0s"]] {
        let done = rig.raymond(arguments);
        done.assert_is(0);
        assert!(done.stdout.ends_with("nothing to remove\n"), "{done:?}");
        for id in ["a", "of-b", "r"] {
            stays(&done, id, "it waits for an answer");
        }
        stays(&done, "b", "the history of of-b begins in it");
    }
    rig.raymond(&["clean", "r"]).assert_is(0);
    assert_eq!(traces(&rig), [""; 0]);
    let done = rig.raymond(&["clean", "--older-than", "0s", "--waiting"]);
    done.assert_is(0);
    for id in ["a", "b", "of-b"] {
        assert!(done.stdout.contains(&format!("removed {id} (")), "{done:?}");
    }
    // A run that keeps what a rewind has dropped takes no answers.
    rig.state("START.sh", "echo '<goto>ASK</goto>'")
        .state("ASK.sh", "echo '<ask next=\"END\">really?</ask>'");
    rig.raymond(&["workflow", "--id", "r"]).assert_is(3);
    rig.raymond(&["rewind", "r", "--to", "1"]).assert(0, "dropped-1-r\n");
    let done = rig.raymond(&["clean", "--older-than", "0s"]);
    for id in ["dropped-1-r", "r"] {
        assert!(done.stdout.contains(&format!("removed {id} (")), "{done:?}");
    }
}

#[test]
fn a_run_whose_journal_cannot_be_read_is_removed_by_name_only() {
    let rig = Rig::new(RAYMOND);
    rig.state("START.sh", "echo '<result>ok</result>'");
    rig.run().assert(0, "ok\n");
    let damaged = rig.read(".raymond/state/r.jsonl").replacen("step_finished", "step_fnished", 1);
    rig.write(".raymond/state/r.jsonl", &damaged);
    let done = rig.raymond(&["clean", "--older-than", "0s"]);
    assert!(done.exit == 0 && done.stdout.contains("r stays: it cannot be told whether"), "{done:?}");
    rig.raymond(&["clean", "r"]).assert_is(0);
    assert_eq!(traces(&rig), [""; 0]);
}

/// Git is asked for the refs of all runs at once.
#[test]
fn git_is_not_called_for_each_run_that_has_no_refs() {
    let calls = |runs: usize| {
        let rig = Rig::new(RAYMOND);
        init(&rig, ".");
        rig.state("START.sh", "echo '<result>ok</result>'");
        for number in 0..runs {
            rig.raymond(&["workflow", "--id", &format!("r{number}")]).assert(0, "ok\n");
        }
        let mut command = rig.command(&["clean", "--older-than", "0s"]);
        command.env("RAYMOND_LOG", "raymond::git=debug");
        let done = rig.launch(command).wait();
        assert_eq!((done.exit, done.stdout.lines().count()), (0, runs), "{done:?}");
        done.stderr.lines().filter(|line| line.contains("for-each-ref")).count()
    };
    assert_eq!((calls(1), calls(4)), (1, 1));
}
