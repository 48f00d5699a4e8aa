//! Task folders of branches and of runs that are taken back.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use test_kit::rig::{Rig, wait_for_file};

use crate::RAYMOND;
use crate::kills::{again, killed_at_every_call};
use crate::repository::{commit, git, init};

/// A repository in which nothing is changed by the steps.
fn repository() -> Rig {
    let rig = Rig::new(RAYMOND);
    init(&rig, ".");
    rig.write(".gitignore", "/workflow\n*.log\n*.ignored\n");
    rig.write("f", "0\n");
    commit(&rig, ".", "zero");
    rig
}

/// A run `r` whose three steps each add their number to `notes` in the task folder.
fn noted(rig: Rig, options: &[&str]) -> Rig {
    rig.state("START.sh", "echo 1 >> \"$RAYMOND_TASK_FOLDER/notes\"; echo '<goto>B</goto>'");
    rig.state("B.sh", "echo 2 >> \"$RAYMOND_TASK_FOLDER/notes\"; echo '<goto>C</goto>'");
    rig.state(
        "C.sh",
        "echo 3 >> \"$RAYMOND_TASK_FOLDER/notes\"; echo \"<result>$(echo $(cat \"$RAYMOND_TASK_FOLDER/notes\"))</result>\"",
    );
    rig.raymond(&[&["workflow", "--id", "r"], options].concat()).assert(0, "1 2 3\n");
    rig
}

fn notes_of(rig: &Rig, run: &str) -> String {
    rig.read(&format!(".raymond/state/{run}.tasks/main/notes")).replace('\n', " ")
}

/// What is put together is nowhere any more.
fn assert_settled(rig: &Rig, why: &str) {
    let names = fs::read_dir(rig.path(".raymond/state")).unwrap().flatten().map(|entry| entry.file_name());
    let staged: Vec<_> = names.filter(|name| name.to_string_lossy().starts_with(".")).collect();
    let staged: Vec<_> = staged.iter().filter(|name| name.to_string_lossy().ends_with(".tasks")).collect();
    assert!(staged.is_empty(), "{why}: {staged:?}");
}

#[test]
fn a_branch_has_the_task_folder_that_the_step_left() {
    let rig = noted(repository(), &["--snapshots"]);
    let done = rig.raymond(&["branch", "r", "--at", "1", "--id", "b", "--files"]);
    done.assert(0, "b\n");
    assert!(!done.stderr.contains("copies"), "{done:?}");
    assert_eq!((notes_of(&rig, "b"), notes_of(&rig, "r")), ("1 ".into(), "1 2 3 ".into()));
    assert_settled(&rig, "branch");
    rig.raymond(&["resume", "b"]).assert(0, "1 2 3\n");
    // A branch of the branch finds it in its own snapshots, and what it has in common in those of the other run.
    for (step, notes) in [("1", "1 "), ("2", "1 2 ")] {
        let id = format!("c{step}");
        rig.raymond(&["branch", "b", "--at", step, "--id", &id, "--files"]).assert_is(0);
        assert_eq!(notes_of(&rig, &id), notes);
    }
    git(&rig, ".", &["gc", "-q", "--prune=now"]);
    rig.raymond(&["branch", "r", "--at", "2", "--id", "d", "--files"]).assert_is(0);
    assert_eq!(notes_of(&rig, "d"), "1 2 ");
}

#[test]
fn without_snapshots_a_branch_has_a_copy_of_the_task_folder_as_it_is_and_says_so() {
    let outside = || Rig::new(RAYMOND);
    let ways: [(&dyn Fn() -> Rig, &[&str]); 3] =
        [(&outside, &[]), (&repository, &["--snapshots"]), (&outside, &["--snapshots"])];
    for (make, options) in ways {
        let rig = noted(make(), options);
        let done = rig.raymond(&["branch", "r", "--at", "1", "--id", "b"]);
        done.assert(0, "b\n").says("b has copies of the task folders that r has now: those of main");
        assert_eq!(notes_of(&rig, "b"), "1 2 3 ");
        assert_settled(&rig, "branch");
        rig.raymond(&["resume", "b"]).assert(0, "1 2 3 2 3\n");
        assert_eq!(notes_of(&rig, "r"), "1 2 3 ", "the other run has its own");
    }
}

#[test]
fn a_run_that_is_taken_back_and_the_one_with_what_is_dropped_have_their_own_task_folders() {
    let rig = noted(repository(), &["--snapshots"]);
    rig.raymond(&["rewind", "r", "--to", "1", "--files"]).assert(0, "dropped-1-r\n");
    assert_eq!((notes_of(&rig, "r"), notes_of(&rig, "dropped-1-r")), ("1 ".into(), "1 2 3 ".into()));
    assert_settled(&rig, "rewind");
    rig.raymond(&["resume", "r"]).assert(0, "1 2 3\n");
    rig.raymond(&["rewind", "r", "--to", "2"])
        .assert(0, "dropped-2-r\n")
        .says("r keeps its task folders as they are now: those of main");
    assert_eq!((notes_of(&rig, "r"), notes_of(&rig, "dropped-2-r")), ("1 2 3 ".into(), "1 2 3 ".into()));
    // With the files this time, and what a person has changed meanwhile is not lost.
    rig.write(".raymond/state/r.tasks/main/notes", "mine\n");
    rig.raymond(&["rewind", "r", "--to", "2", "--files"]).assert(0, "dropped-2-r\n");
    assert_eq!((notes_of(&rig, "r"), notes_of(&rig, "dropped-2-r")), ("1 2 ".into(), "1 2 3 ".into()));
    assert_eq!(rig.read(".raymond/state/dropped-2-r.tasks/replaced-1/main/notes"), "mine\n");
    rig.raymond(&["resume", "r"]).assert(0, "1 2 3\n");
}

#[test]
fn a_task_folder_is_kept_byte_by_byte_with_what_git_would_ignore() {
    let rig = repository();
    for (key, value) in [("core.autocrlf", "true"), ("core.excludesFile", "~/excludes")] {
        git(&rig, ".", &["config", "--global", key, value]);
    }
    fs::write(rig.home().join("excludes"), "secret\n").unwrap();
    rig.state(
        "START.sh",
        "cd \"$RAYMOND_TASK_FOLDER\"; mkdir -p 'a b/ä'; printf 'x\\r\\ny\\n' > crlf.txt; echo '* text eol=crlf' > .gitattributes
         echo '*' > .gitignore; echo log > x.log; echo s > secret; echo deep > 'a b/ä/file'; ln -s ../../nowhere link
         printf '#!/bin/sh\\n' > run; chmod 700 run; printf '\\000\\377' > bytes; echo '<goto>B</goto>'",
    );
    rig.state("B.sh", "rm -rf \"$RAYMOND_TASK_FOLDER\"/*; echo '<result>ok</result>'");
    rig.raymond(&["workflow", "--id", "r", "--snapshots"]).assert(0, "ok\n");
    rig.raymond(&["branch", "r", "--at", "1", "--id", "b", "--files"]).assert(0, "b\n");
    let folder = rig.path(".raymond/state/b.tasks/main");
    let read = |name: &str| fs::read(folder.join(name)).unwrap();
    assert_eq!(read("crlf.txt"), b"x\r\ny\n");
    assert_eq!((read("x.log"), read("secret")), (b"log\n".to_vec(), b"s\n".to_vec()));
    assert_eq!((read("a b/ä/file"), read("bytes")), (b"deep\n".to_vec(), b"\0\xff".to_vec()));
    assert_eq!(fs::read_link(folder.join("link")).unwrap().to_str(), Some("../../nowhere"));
    assert_eq!(fs::metadata(folder.join("run")).unwrap().permissions().mode() & 0o100, 0o100);
    // The steps have changed nothing in the repository.
    let said = rig.raymond(&["log", "r", "--step", "1"]);
    assert!(said.stdout.contains("changed files") && said.stdout.contains("none"), "{said:?}");
    assert!(git(&rig, ".", &["status", "--porcelain", "-uno"]).is_empty());
}

/// The folder of a worker that had not begun, or does not exist yet, is empty, whatever it has left since.
#[test]
fn workers_have_the_task_folders_of_that_step() {
    let rig = repository();
    rig.state("START.sh", "echo '<goto>FAN</goto>'");
    rig.state("FAN.sh", "echo '<fork item=\"1\">W</fork><fork item=\"2\">W</fork><join>END</join>'");
    rig.state(
        "W.sh",
        "[ $item = 1 ] || until [ -e gate.ignored ]; do sleep 0.05; done
         echo w >> \"$RAYMOND_TASK_FOLDER/notes\"; echo '<goto>X</goto>'",
    );
    rig.state(
        "X.sh",
        "touch x$item.ignored; [ $item = 2 ] || until [ -e gate.ignored ]; do sleep 0.05; done
         echo x >> \"$RAYMOND_TASK_FOLDER/notes\"; echo \"<result>$(echo $(cat \"$RAYMOND_TASK_FOLDER/notes\"))</result>\"",
    );
    rig.state("END.sh", "printf '<result>%s</result>' \"$(echo \"$RAYMOND_INPUT\" | grep -o '\"result\":\"[^\"]*\"' | tr '\\n' ' ')\"");
    let live = rig.start(&["workflow", "--id", "r", "--snapshots"]);
    wait_for_file(&rig.path("x1.ignored"));
    rig.write("gate.ignored", "");
    let results = "\"result\":\"w x\" \"result\":\"w x\" \n";
    live.wait().assert(0, results);
    // Step 3 is the first worker's first.
    rig.raymond(&["branch", "r", "--at", "3", "--id", "b", "--files"]).assert(0, "b\n");
    assert_eq!(rig.read(".raymond/state/b.tasks/main_w1/notes"), "w\n");
    assert!(!rig.path(".raymond/state/b.tasks/main_w2").exists(), "it had not ended its first step");
    rig.raymond(&["resume", "b"]).assert(0, results);
    // Taken back to before the fork, the run has none of them, and what they left is with what was dropped.
    rig.raymond(&["rewind", "b", "--to", "1"]).assert_is(0);
    rig.raymond(&["resume", "b"]).assert(0, results);
    assert_eq!(rig.read(".raymond/state/dropped-1-b.tasks/main_w1/notes"), "w\nx\n");
}

#[test]
fn an_unchanged_task_folder_costs_no_commit_and_clean_removes_the_ref() {
    let rig = repository();
    rig.state("START.sh", "echo '<goto>B</goto>'");
    rig.state("B.sh", "echo 1 > \"$RAYMOND_TASK_FOLDER/notes\"; echo '<goto>C</goto>'");
    rig.state("C.sh", "echo '<goto>D</goto>'").state("D.sh", "echo '<result>ok</result>'");
    rig.raymond(&["workflow", "--id", "r", "--snapshots"]).assert(0, "ok\n");
    assert_eq!(
        git(&rig, ".", &["log", "--format=%s", "refs/raymond-tasks/r"]),
        "r step 2: main in B.sh, its task folder"
    );
    assert_eq!(git(&rig, ".", &["rev-list", "--count", "refs/raymond/r"]), "1", "nothing else changed");
    let trees: Vec<_> = rig
        .events()
        .into_iter()
        .filter(|event| event["event"] == "step_finished")
        .map(|event| event["files"]["task_folder"].as_str().unwrap().to_owned())
        .collect();
    assert!(trees[0] != trees[1] && trees[1] == trees[2] && trees[2] == trees[3], "{trees:?}");
    assert_eq!(rig.raymond(&["clean", "r"]).exit, 0);
    assert_eq!(git(&rig, ".", &["for-each-ref", "refs/raymond", "refs/raymond-tasks"]), "");
}

#[test]
fn a_repository_in_a_task_folder_is_said_not_to_be_kept() {
    let rig = repository();
    rig.state(
        "START.sh",
        "cd \"$RAYMOND_TASK_FOLDER\"; echo 1 > notes; git init -q clone; cd clone; echo 1 > f; git add f; git commit -qm one; echo '<goto>B</goto>'",
    );
    rig.state("B.sh", "echo '<result>ok</result>'");
    rig.raymond(&["workflow", "--id", "r", "--snapshots"]).assert(0, "ok\n");
    rig.raymond(&["branch", "r", "--at", "1", "--id", "b", "--files"]).assert(0, "b\n").says("main/clone");
    assert_eq!(rig.read(".raymond/state/b.tasks/main/notes"), "1\n");
    rig.raymond(&["branch", "r", "--at", "1", "--id", "c"]).assert(0, "c\n");
    assert_eq!(rig.read(".raymond/state/c.tasks/main/clone/f"), "1\n", "a copy has all of it");
}

#[test]
fn task_folders_survive_a_kill_at_every_call_of_git() {
    let make = || noted(repository(), &["--snapshots"]);
    let args = ["branch", "r", "--at", "1", "--id", "b", "--files"];
    killed_at_every_call(
        make,
        &args,
        |rig| again(rig, &args),
        |rig, call| {
            let why = format!("branch killed at call {call}");
            assert_eq!((notes_of(rig, "b"), notes_of(rig, "r")), ("1 ".into(), "1 2 3 ".into()), "{why}");
            assert_settled(rig, &why);
        },
    );
    let args = ["rewind", "r", "--to", "1", "--files"];
    killed_at_every_call(
        make,
        &args,
        |rig| again(rig, &args),
        |rig, call| {
            let why = format!("rewind killed at call {call}");
            assert_eq!(
                (notes_of(rig, "r"), notes_of(rig, "dropped-1-r")),
                ("1 ".into(), "1 2 3 ".into()),
                "{why}"
            );
            assert_settled(rig, &why);
        },
    );
}

/// As a kill leaves it between the event and the folders that belong to it, and before the event.
#[test]
fn what_a_killed_command_has_put_together_is_used_or_removed() {
    let rig = noted(repository(), &["--snapshots"]);
    rig.raymond(&["branch", "r", "--at", "1", "--id", "b", "--files"]).assert(0, "b\n");
    let seq = rig.read(".raymond/state/b.jsonl").split(',').next().unwrap().replace("{\"seq\":", "");
    fs::create_dir(rig.path(".raymond/state/.b.tasks")).unwrap();
    fs::rename(rig.path(".raymond/state/b.tasks"), rig.path(&format!(".raymond/state/.b.tasks/{seq}")))
        .unwrap();
    rig.raymond(&["resume", "b"]).assert(0, "1 2 3\n");
    assert_settled(&rig, "after the event");

    rig.raymond(&["rewind", "r", "--to", "1", "--files"]).assert(0, "dropped-1-r\n");
    let seq = rig.raymond(&["log", "r", "--json"]).lines().last().unwrap()["seq"].as_u64().unwrap();
    fs::create_dir(rig.path(".raymond/state/.r.tasks")).unwrap();
    fs::rename(rig.path(".raymond/state/r.tasks"), rig.path(&format!(".raymond/state/.r.tasks/{seq}")))
        .unwrap();
    fs::rename(rig.path(".raymond/state/dropped-1-r.tasks"), rig.path(".raymond/state/r.tasks")).unwrap();
    rig.raymond(&["resume", "dropped-1-r"]);
    assert_settled(&rig, "after the event of a rewind");
    assert_eq!((notes_of(&rig, "r"), notes_of(&rig, "dropped-1-r")), ("1 ".into(), "1 2 3 ".into()));

    rig.write(".raymond/state/.r.tasks/999/main/notes", "never used\n");
    rig.write(".raymond/state/.r.tasks/unfinished/main/notes", "never used\n");
    rig.raymond(&["resume", "r"]).assert(0, "1 2 3\n");
    assert_settled(&rig, "before the event");
}
