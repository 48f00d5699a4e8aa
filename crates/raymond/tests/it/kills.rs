//! Commands about the past of a run, killed at every call of git. Run again, each has the result that it should have.

use std::fs;

use serde_json::Value;
use test_kit::rig::{Done, Rig};

use crate::cleaning::{cleanable, refs, traces};
use crate::repository::{front_git, git};
use crate::restoring::{assert_both_go_on, assert_worktrees_are_dropped, three_steps, worktrees_to_drop};

/// More calls of git than any of the commands makes.
const MOST_CALLS: u32 = 60;

/// A `git` that kills the program that has called it, at this call.
fn lay_trap(rig: &Rig, call: u32) -> String {
    let trap = rig.home().join("trap");
    let count = trap.join("count");
    let _ = fs::remove_file(&count);
    let count = count.display();
    front_git(&trap, |real| {
        format!(
            "echo >> {count}\nif [ $(wc -l < {count}) = {call} ]; then kill -9 $PPID; exit 1; fi\nexec {real} \"$@\""
        )
    })
}

/// Runs a command that is killed at a call of git. `None` if it was killed.
fn run_into_trap(rig: &Rig, args: &[&str], call: u32) -> Option<Done> {
    let path = lay_trap(rig, call);
    let mut command = rig.command(args);
    command.env("PATH", path);
    let done = rig.launch(command).wait();
    (done.exit == 0).then_some(done)
}

/// Kills a command at its first call of git, in another rig at its second, and so on, until it is not killed any more.
/// `again` runs it once more where it was killed, and `check` looks at the result.
pub fn killed_at_every_call(
    make: impl Fn() -> Rig,
    args: &[&str],
    again: impl Fn(&Rig),
    check: impl Fn(&Rig, u32),
) {
    for call in 1..=MOST_CALLS {
        let rig = make();
        let is_over = run_into_trap(&rig, args, call).is_some();
        if !is_over {
            again(&rig);
        }
        check(&rig, call);
        if is_over {
            assert!(call > 3, "only {call} calls of git");
            return;
        }
    }
    panic!("more than {MOST_CALLS} calls of git");
}

/// Gives a command again that was killed.
pub fn again(rig: &Rig, args: &[&str]) {
    let done = rig.raymond(args);
    assert_eq!(done.exit, 0, "{done:?}");
}

#[test]
fn a_branch_with_its_files_survives_a_kill_at_every_call_of_git() {
    let args = ["branch", "r", "--at", "1", "--id", "b", "--files"];
    killed_at_every_call(
        three_steps,
        &args,
        |rig| again(rig, &args),
        |rig, call| {
            assert_eq!(rig.read("sub/f"), "1\n", "killed at call {call}");
            rig.raymond(&["resume", "b"]).assert(0, &format!("{} 2 then 3\n", rig.path("sub").display()));
            assert_eq!(rig.status()["status"], "completed", "the origin was changed");
        },
    );
}

#[test]
fn a_rewind_with_its_files_survives_a_kill_at_every_call_of_git() {
    let make = || {
        let rig = three_steps();
        rig.write("sub/f", "mine\n");
        rig
    };
    let args = ["rewind", "r", "--to", "1", "--files", "--force"];
    killed_at_every_call(
        make,
        &args,
        |rig| again(rig, &args),
        |rig, call| {
            assert_eq!(rig.read("sub/f"), "1\n", "killed at call {call}");
            let kept = git(rig, ".", &["show", "refs/raymond-kept/r/1:sub/f"]);
            assert_eq!(kept, "mine", "killed at call {call}");
            rig.raymond(&["resume", "r"]).assert(0, &format!("{} 2 then 3\n", rig.path("sub").display()));
        },
    );
}

#[test]
fn a_removal_survives_a_kill_at_every_call_of_git() {
    let args = ["clean", "r", "--discard-changes"];
    killed_at_every_call(
        cleanable,
        &args,
        |rig| again(rig, &args),
        |rig, call| {
            assert_eq!(traces(rig), [""; 0], "killed at call {call}");
            assert_eq!(refs(rig), "refs/heads/raymond-run/r/saved", "killed at call {call}");
        },
    );
}

/// Whether a run goes on from another point than that of its own last event.
fn has_origin(rig: &Rig, run: &str) -> bool {
    let done = rig.raymond(&["status", run, "--json"]);
    serde_json::from_str::<Value>(&done.stdout).is_ok_and(|status| status["origin"].is_object())
}

/// Both commands make the worktree first, and then the event that names it.
#[test]
fn files_in_a_new_worktree_survive_a_kill_at_every_call_of_git() {
    for (run, args) in
        [("b", ["branch", "r", "--at", "1", "--id=b"]), ("r", ["rewind", "r", "--to", "1", "--quiet"])]
    {
        let args = [&args[..], &["--files", "--worktree", "../restored"]].concat();
        let repeat = |rig: &Rig| {
            // It may have been killed after its event, by which it is done.
            if !has_origin(rig, run) {
                again(rig, &args);
            }
        };
        killed_at_every_call(three_steps, &args, repeat, |rig, call| {
            let dir = rig.path("..").canonicalize().unwrap().join("restored");
            let why = format!("{run} killed at call {call}");
            assert_eq!(fs::read_to_string(dir.join("sub/f")).unwrap(), "1\n", "{why}");
            rig.raymond(&["resume", run]).assert(0, &format!("{}/sub 2 then 3\n", dir.display()));
            // The folder of a run is in no other command's way.
            rig.raymond(&["branch", "r", "--at", "1", "--files", "--worktree", "../restored"]).assert(2, "");
            assert!(fs::read_to_string(dir.join("sub/f")).unwrap().contains("then"), "{why}");
        });
    }
}

#[test]
fn a_rewind_with_worktrees_survives_a_kill_at_every_call_of_git() {
    let args = ["rewind", "r", "--to", "1"];
    let repeat = |rig: &Rig| {
        // Whatever goes on with one of the two runs finishes it.
        if !has_origin(rig, "r") {
            again(rig, &args);
        }
    };
    killed_at_every_call(worktrees_to_drop, &args, repeat, |rig, call| {
        let runs = if call % 2 == 0 { ["r", "dropped-1-r"] } else { ["dropped-1-r", "r"] };
        let why = format!("killed at call {call}");
        assert_both_go_on(rig, runs, &why);
        assert_worktrees_are_dropped(rig, &why);
    });
}

/// The rewind is killed before it has given a worktree to the run that keeps what it dropped.
#[test]
fn the_removal_of_what_a_killed_rewind_dropped_finishes_the_rewind() {
    let rig = worktrees_to_drop();
    let path = front_git(&rig.home().join("killed"), |real| {
        format!("case \"$*\" in *'branch -m'*) kill -9 $PPID; exit 1 ;; esac\nexec {real} \"$@\"")
    });
    let mut command = rig.command(&["rewind", "r", "--to", "1"]);
    command.env("PATH", path);
    rig.launch(command).wait();
    assert!(
        has_origin(&rig, "r") && rig.path(".raymond/worktrees/r/b").exists(),
        "it was killed at another point"
    );
    let cleaned = rig.raymond(&["clean", "dropped-1-r", "--discard-changes"]);
    assert!(cleaned.stdout.contains("3 worktrees"), "{cleaned:?}");
    assert!(!rig.path(".raymond/worktrees").exists());
    rig.write("ok.ignored", "");
    let done = rig.raymond(&["resume", "r"]);
    assert_eq!(done.exit, 0, "{done:?}");
    assert!(done.stdout.contains("raymond-run/r/b f"), "{done:?}");
    assert!(!rig.path(".raymond/worktrees/dropped-1-r").exists(), "nothing comes back of what was removed");
}
