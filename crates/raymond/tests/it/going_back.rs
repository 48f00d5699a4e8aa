//! What going back does to worktrees, branches, options and questions: nothing that was there is lost, and no two runs work in one
//! folder.

use std::fs;

use test_kit::rig::{Done, Rig};

use crate::RAYMOND;
use crate::history::{four_turns, status};
use crate::repository::{commit, git, init};
use crate::restoring::three_steps;
use crate::serving::site::Site;

/// A repository in which `f` is committed with 0.
fn repository() -> Rig {
    let rig = Rig::new(RAYMOND);
    init(&rig, ".");
    rig.write(".gitignore", "/workflow\n/.raymond\n/*.ignored\n");
    rig.write("f", "0\n");
    commit(&rig, ".", "zero");
    rig
}

/// A run `r` of four steps. The third is of a worker that commits in its worktree `a`, and in the fourth it writes the file `new`
/// and fails until there is a file `ok.ignored`.
fn worker() -> Rig {
    let rig = repository();
    rig.state("START.sh", "echo '<goto>FORK</goto>'");
    rig.state("FORK.sh", "echo '<fork worktree=\"a\">W</fork><join>END</join>'");
    rig.state("W.sh", "echo 1 >> f; git commit -qam one; echo '<goto>X</goto>'");
    let left = r#"echo "$RAYMOND_RUN_ID" > new; [ -e ../../../../ok.ignored ] || exit 4"#;
    rig.state(
        "X.sh",
        format!("{left}\necho \"<result>$(basename $PWD) $RAYMOND_BRANCH $(cat f | xargs)</result>\""),
    );
    rig.state(
        "END.sh",
        "echo \"$RAYMOND_INPUT\" | grep -o 'a raymond-run/[^\"]*' | sed 's/.*/<result>&<\\/result>/'",
    );
    assert_eq!(rig.run().exit, 1);
    rig
}

fn resumed(rig: &Rig, run: &str) -> Done {
    rig.write("ok.ignored", "");
    rig.raymond(&["resume", run])
}

fn new_file(rig: &Rig, run: &str) -> String {
    rig.read(&format!(".raymond/worktrees/{run}/a/new"))
}

#[test]
fn a_branch_that_is_rewound_to_a_step_of_its_origin_keeps_off_the_worktrees_of_both() {
    for step in ["2", "3"] {
        let rig = worker();
        rig.raymond(&["branch", "r", "--at", "3", "--id", "b"]).assert(0, "b\n");
        assert_eq!(rig.raymond(&["resume", "b"]).exit, 1);
        rig.raymond(&["rewind", "b", "--to", step]).assert(0, "dropped-1-b\n");
        assert_eq!((new_file(&rig, "r"), new_file(&rig, "dropped-1-b")), ("r\n".into(), "b\n".into()));
        assert!(!rig.path(".raymond/worktrees/b/a").exists());
        for run in ["b", "dropped-1-b", "r"] {
            resumed(&rig, run).assert(0, &format!("a raymond-run/{run}/a 0 1\n"));
            assert_eq!(new_file(&rig, run), format!("{run}\n"), "rewound to {step}");
        }
    }
}

#[test]
fn a_worktree_in_which_steps_are_taken_back_goes_to_the_run_that_keeps_them() {
    for step in ["2", "3"] {
        let rig = worker();
        rig.raymond(&["rewind", "r", "--to", step]).assert(0, "dropped-1-r\n");
        assert_eq!(new_file(&rig, "dropped-1-r"), "r\n", "with all that is in it");
        for run in ["r", "dropped-1-r"] {
            resumed(&rig, run).assert(0, &format!("a raymond-run/{run}/a 0 1\n"));
        }
    }
}

/// The worktree was removed when the run had completed; its branch has the commits.
#[test]
fn a_run_whose_worker_had_committed_goes_on_after_a_rewind() {
    for step in ["2", "3"] {
        let rig = worker();
        rig.state("X.sh", "echo \"<result>a $RAYMOND_BRANCH $(cat f | xargs)</result>\"");
        rig.resume();
        fs::remove_file(rig.path(".raymond/worktrees/r/a/new")).unwrap();
        rig.resume().assert(0, "a raymond-run/r/a 0 1\n");
        assert!(!rig.path(".raymond/worktrees/r").exists());
        rig.raymond(&["rewind", "r", "--to", step]).assert(0, "dropped-1-r\n");
        rig.resume().assert(0, "a raymond-run/r/a 0 1\n");
        for run in ["r", "dropped-1-r"] {
            assert_eq!(git(&rig, ".", &["show", &format!("raymond-run/{run}/a:f")]), "0\n1", "{run}");
        }
    }
}

/// The commit of a step that is taken back is not in the new worktree, however soon it came.
#[test]
fn a_new_worktree_begins_with_the_commit_of_its_step() {
    let rig = worker();
    rig.state("X.sh", "echo 2 >> f; git commit -qam two; echo '<goto>Y</goto>'");
    rig.state("Y.sh", "echo \"<result>a $RAYMOND_BRANCH $(cat f | xargs)</result>\"");
    rig.resume().assert(0, "a raymond-run/r/a 0 1 2\n");
    for (number, step) in ["5", "3", "2"].iter().enumerate() {
        let dropped = format!("dropped-{}-r", number + 1);
        rig.raymond(&["rewind", "r", "--to", step]).assert(0, &format!("{dropped}\n"));
        rig.resume().assert(0, "a raymond-run/r/a 0 1 2\n");
        assert_eq!(git(&rig, ".", &["show", &format!("raymond-run/{dropped}/a:f")]), "0\n1\n2");
        rig.raymond(&["branch", "r", "--at", step, "--id", &format!("b{step}"), "--run"])
            .assert(0, &format!("a raymond-run/b{step}/a 0 1 2\n"));
    }
}

/// What is not committed there belongs to steps that stay.
#[test]
fn a_worktree_in_which_no_step_is_taken_back_stays() {
    let rig = repository();
    rig.state("START.sh", "echo '<fork worktree=\"a\" next=\"M\">W</fork>'");
    rig.state("W.sh", "echo $RAYMOND_RUN_ID > new; echo '<ask next=\"V\">of a worker?</ask>'");
    rig.state("V.sh", "echo \"<result>$RAYMOND_BRANCH $(cat new)</result>\"");
    rig.state("M.sh", "echo '<ask next=\"N\">of main?</ask>'").state("N.sh", "echo '<goto>O</goto>'");
    rig.state("O.sh", "echo '<join>END</join>'");
    rig.state("END.sh", "echo \"$RAYMOND_INPUT\" | grep -o 'raymond-run/[^\"]*' | head -n 1 | sed 's/.*/<result>&<\\/result>/'");
    assert_eq!(rig.run().exit, 3);
    let asks = status(&rig, "r")["asks"].clone();
    let ask = |agent: &str| {
        let of_agent = asks.as_array().unwrap().iter().find(|ask| ask["agent"] == agent).unwrap();
        of_agent["id"].as_str().unwrap().to_owned()
    };
    rig.raymond(&["answer", "r", &ask("main"), "yes", "--no-resume"]).assert(0, "");
    assert_eq!(rig.resume().exit, 3);
    rig.raymond(&["rewind", "r", "--to", "4"]).assert(0, "dropped-1-r\n");
    assert_eq!(new_file(&rig, "r"), "r\n");
    assert_eq!(rig.resume().exit, 3);
    rig.raymond(&["answer", "r", &ask("main_w1"), "yes", "--no-resume"]).assert(0, "");
    assert_eq!(rig.raymond(&["resume", "dropped-1-r"]).exit, 3);
    rig.raymond(&["answer", "dropped-1-r", &ask("main_w1"), "yes", "--resume"]);
    assert_eq!(new_file(&rig, "r"), "r\n");
    let done = rig.resume();
    assert!(done.exit == 0 && done.stdout.starts_with("raymond-run/r/a"), "{done:?}");
}

#[test]
fn a_branch_with_files_of_its_own_stays_in_its_folder_when_it_is_rewound() {
    for files in [&[][..], &["--files"]] {
        let rig = three_steps();
        let before = rig.read("sub/f");
        let dir = rig.path("..").canonicalize().unwrap().join("own");
        let dir = dir.to_str().unwrap();
        rig.raymond(&["branch", "r", "--at", "2", "--id", "b", "--files", "--worktree", dir])
            .assert(0, "b\n");
        rig.raymond(&["resume", "b"]).assert(0, &format!("{dir}/sub 2 then 3\n"));
        rig.raymond(&[&["rewind", "b", "--to", "1"], files].concat()).assert(0, "dropped-1-b\n");
        let f = fs::read_to_string(format!("{dir}/sub/f")).unwrap();
        assert_eq!(f, if files.is_empty() { "2 then 3\n" } else { "1\n" });
        rig.raymond(&["resume", "b"]).assert(0, &format!("{dir}/sub 2 then 3\n"));
        assert_eq!(rig.read("sub/f"), before, "the folder of the origin is not touched");
    }
}

#[test]
fn a_folder_that_was_made_for_a_run_is_no_other_runs() {
    let rig = three_steps();
    let place = rig.path("..").canonicalize().unwrap();
    let (dir, other) = (place.join("own").display().to_string(), place.join("other").display().to_string());
    rig.raymond(&["branch", "r", "1", "--id", "b", "--files", "--worktree", &dir]).assert(0, "b\n");
    rig.raymond(&["resume", "b"]).assert(0, &format!("{dir}/sub 2 then 3\n"));
    rig.raymond(&["rewind", "b", "2"]).assert(0, "dropped-1-b\n");
    let before = fs::read_to_string(format!("{dir}/sub/f")).unwrap();
    for refused in [
        &["branch", "b", "2", "--id", "c"][..],
        &["branch", "dropped-1-b", "2", "--id", "c", "--files", "--force"],
        &["rewind", "dropped-1-b", "2", "--files", "--force"],
    ] {
        let done = rig.raymond(refused);
        assert_eq!(done.exit, 2, "{refused:?}: {done:?}");
    }
    rig.raymond(&["branch", "b", "2", "--id", "c"])
        .says(&format!("{dir} is the folder of b, so c cannot go on in it"))
        .says("--worktree DIR");
    assert_eq!(fs::read_to_string(format!("{dir}/sub/f")).unwrap(), before);
    rig.raymond(&["branch", "dropped-1-b", "2", "--id", "c", "--files", "--worktree", &other])
        .assert(0, "c\n");
    rig.raymond(&["resume", "c"]).assert(0, &format!("{other}/sub 2 then 3\n"));
    rig.raymond(&["rewind", "dropped-1-b", "2"]).assert(0, "dropped-1-dropped-1-b\n");
    assert_eq!(rig.raymond(&["resume", "dropped-1-b"]).exit, 2);
    assert_eq!(fs::read_to_string(format!("{dir}/sub/f")).unwrap(), before);
    rig.raymond(&["resume", "b"]).assert(0, &format!("{dir}/sub 2 then 3 then 3\n"));
}

#[test]
fn options_that_a_person_gave_last_stay() {
    let rig = four_turns();
    rig.raymond(&["workflow", "--id", "r", "--budget", "100"]).assert(0, "done\n");
    rig.raymond(&[
        "branch",
        "r",
        "--at",
        "3",
        "--id",
        "b",
        "--budget",
        "0.3",
        "--reset-cost",
        "--model",
        "small",
    ])
    .assert(0, "b\n");
    rig.raymond(&["rewind", "b", "--to", "1"]).assert(0, "dropped-1-b\n");
    let of_branch = status(&rig, "b");
    assert_eq!((&of_branch["budget_usd"], &of_branch["cost_usd"]), (&0.3.into(), &0.0.into()));
    assert_eq!(rig.raymond(&["resume", "b"]).exit, 4);
    let of_branch = status(&rig, "b");
    assert_eq!((&of_branch["status"], &of_branch["cost_usd"]), (&"over_budget".into(), &0.5.into()));
    let calls = rig.calls();
    assert!(calls[4..].iter().all(|call| call["model"] == "small"), "{calls:?}");

    rig.raymond(&["rewind", "r", "--to", "2"]).assert(0, "dropped-1-r\n");
    assert_eq!(rig.raymond(&["resume", "r", "--budget", "0.6"]).exit, 4);
    rig.raymond(&["rewind", "r", "--to", "1"]).assert(0, "dropped-2-r\n");
    assert_eq!(status(&rig, "r")["budget_usd"], 0.6);
    assert_eq!(rig.raymond(&["resume", "r"]).exit, 4, "the budget is the one that was given last");
}

#[test]
fn what_was_dropped_asks_nobody_until_it_is_resumed_by_name() {
    let rig = Rig::new(RAYMOND);
    rig.state("START.sh", "echo '<goto>A</goto>'").state("A.sh", "echo '<ask next=\"B\">really?</ask>'");
    rig.state("B.sh", "echo \"<result>$RAYMOND_RUN_ID $RAYMOND_RESULT</result>\"");
    assert_eq!(rig.run().exit, 3);
    rig.raymond(&["rewind", "r", "--to", "1"]).assert(0, "dropped-1-r\n");

    rig.raymond(&["answer", "yes"]).assert(2, "").says("waits for an answer");
    for args in [&["answer", "dropped-1-r", "ask1", "yes"][..], &["answer", "dropped-1-r", "yes", "--resume"]]
    {
        rig.raymond(args).assert(2, "").says("takes no answers").says("raymond resume dropped-1-r");
    }
    let dropped = status(&rig, "dropped-1-r");
    assert_eq!((&dropped["status"], &dropped["asks"]), (&"interrupted".into(), &serde_json::json!([])));
    let site = Site::start(&rig);
    assert_eq!(site.get_json("/api/v1/inbox")["items"], serde_json::json!([]));
    let answer = serde_json::json!({ "ask": "ask1", "text": "yes" });
    assert_eq!(site.post("/api/v1/runs/dropped-1-r/answers", &answer).status, 409);

    // The run itself asks again, and is the one that is meant.
    assert_eq!(rig.raymond(&["resume"]).exit, 3);
    rig.raymond(&["answer", "yes", "--resume"]).assert(0, "r yes\n");
    rig.raymond(&["resume"]).assert(2, "").says("no run in");
    assert_eq!(rig.raymond(&["resume", "dropped-1-r"]).exit, 3);
    rig.raymond(&["answer", "no", "--resume"]).assert(0, "dropped-1-r no\n");
}

#[test]
fn a_step_whose_end_was_deleted_names_the_segments() {
    let rig = Rig::new(RAYMOND);
    rig.write(".raymond/config.toml", "[raymond]\nkeep_segments = 1\ndurability = \"process\"\n");
    // More than 8 MiB for each step, so that a segment ends inside of each.
    rig.state(
        "START.sh",
        r#"long=$(printf '%060000d' 1); for i in {1..150}; do echo "<print>$long</print>"; done
        [ "$RAYMOND_VISITS" = 4 ] && echo '<result>done</result>' || echo '<goto>START</goto>'"#,
    );
    rig.raymond(&["workflow", "--id", "r", "--quiet", "--no-debug"]).assert(0, "done\n");
    for step in ["1", "2"] {
        rig.raymond(&["branch", "r", "--at", step])
            .assert(2, "")
            .says(&format!("step {step} of r cannot be reached: the events "))
            .says("are in segments that were deleted");
    }
    let shown = rig.raymond(&["show", "r", "1"]);
    assert!(shown.stdout.contains("are in segments that were deleted"), "its start is there: {shown:?}");
    assert!(!shown.stdout.contains("has not ended"), "{shown:?}");
    for args in
        [&["show", "r", "2"][..], &["log", "r", "--step", "2"], &["log", "r", "--step", "2", "--json"]]
    {
        rig.raymond(args).assert(2, "").says("step 2 of r cannot be reached: the events ");
    }
    rig.raymond(&["show", "r", "9"]).assert(2, "").says("its steps are 1 to 4");
    rig.raymond(&["branch", "r", "--at", "4", "--id", "b"]).assert(0, "b\n");
}

/// Git was told not to look at the file, so it does not count what was changed in it.
#[test]
fn files_that_git_does_not_look_at_are_kept_before_they_are_replaced() {
    for flag in ["--assume-unchanged", "--skip-worktree"] {
        let rig = three_steps();
        git(&rig, ".", &["update-index", flag, "sub/f"]);
        rig.write("sub/f", "mine\n");
        let index = fs::read(rig.path(".git/index")).unwrap();
        rig.raymond(&["rewind", "r", "--to", "1", "--files"]).assert(2, "").says("sub/f");
        assert_eq!(rig.read("sub/f"), "mine\n");
        rig.raymond(&["rewind", "r", "--to", "1", "--files", "--force"]).assert(0, "dropped-1-r\n");
        assert_eq!(rig.read("sub/f"), "1\n");
        assert_eq!(git(&rig, ".", &["show", "refs/raymond-kept/r/1:sub/f"]), "mine");
        assert_eq!(fs::read(rig.path(".git/index")).unwrap(), index, "the index is not written");
    }
}

/// Two workers of a worker have no worktree of their own, and begin before it goes on.
#[test]
fn workers_in_the_worktree_of_another_one_find_it_made_anew() {
    let rig = repository();
    rig.state("START.sh", "echo '<fork worktree=\"a\">W</fork><join>END</join>'");
    rig.state(
        "W.sh",
        "echo 1 > f; git commit -qam one; echo '<fork>SUB</fork><fork>SUB</fork><join>V</join>'",
    );
    rig.state("SUB.sh", "cat f > \"$RAYMOND_AGENT_ID\"; [ -e ../../../../ok.ignored ] || exit 4; echo \"<result>$PWD</result>\"");
    rig.state("V.sh", "echo \"<result>$RAYMOND_INPUT</result>\"")
        .state("END.sh", "echo \"<result>$(printf %s \"$RAYMOND_INPUT\" | wc -c)</result>\"");
    assert_eq!(rig.run().exit, 1);
    rig.raymond(&["branch", "r", "--at", "2", "--id", "b"]).assert(0, "b\n");
    rig.raymond(&["rewind", "r", "--to", "2"]).assert(0, "dropped-1-r\n");
    for run in ["b", "r", "dropped-1-r"] {
        let done = resumed(&rig, run);
        assert_eq!(done.exit, 0, "{run}: {done:?}");
        let folder = format!(".raymond/worktrees/{run}/a");
        let made: Vec<String> = fs::read_dir(rig.path(&folder))
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .filter(|name| name.starts_with("main_w1_"))
            .collect();
        assert_eq!(made.len(), 2, "{run}: {made:?}");
        assert!(made.iter().all(|name| rig.read(&format!("{folder}/{name}")) == "1\n"), "{run}");
    }
}
