//! Commands about the past of a run, killed at every call of git. Run again, each has the result that it should have.

use std::fs;

use test_kit::rig::{Done, Rig};

use crate::cleaning::{cleanable, refs, traces};
use crate::repository::front_git;
use crate::restoring::three_steps;

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
fn killed_at_every_call(
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

#[test]
fn a_branch_with_its_files_survives_a_kill_at_every_call_of_git() {
    let args = ["branch", "r", "--at", "1", "--id", "b", "--files"];
    let again = |rig: &Rig| {
        let done = rig.raymond(&args);
        assert_eq!(done.exit, 0, "{done:?}");
    };
    killed_at_every_call(three_steps, &args, again, |rig, call| {
        assert_eq!(rig.read("sub/f"), "1\n", "killed at call {call}");
        rig.raymond(&["resume", "b"]).assert(0, &format!("{} 2 then 3\n", rig.path("sub").display()));
        assert_eq!(rig.status()["status"], "completed", "the origin was changed");
    });
}

#[test]
fn a_rewind_with_its_files_survives_a_kill_at_every_call_of_git() {
    let make = || {
        let rig = three_steps();
        rig.write("sub/f", "mine\n");
        rig
    };
    let args = ["rewind", "r", "--to", "1", "--files", "--force"];
    let again = |rig: &Rig| {
        let done = rig.raymond(&args);
        assert_eq!(done.exit, 0, "{done:?}");
    };
    killed_at_every_call(make, &args, again, |rig, call| {
        assert_eq!(rig.read("sub/f"), "1\n", "killed at call {call}");
        let kept = crate::repository::git(rig, ".", &["show", "refs/raymond-kept/r/1:sub/f"]);
        assert_eq!(kept, "mine", "killed at call {call}");
        rig.raymond(&["resume", "r"]).assert(0, &format!("{} 2 then 3\n", rig.path("sub").display()));
    });
}

#[test]
fn a_removal_survives_a_kill_at_every_call_of_git() {
    let args = ["clean", "r", "--discard-changes"];
    let again = |rig: &Rig| {
        let done = rig.raymond(&args);
        assert_eq!(done.exit, 0, "{done:?}");
    };
    killed_at_every_call(cleanable, &args, again, |rig, call| {
        assert_eq!(traces(rig), [""; 0], "killed at call {call}");
        assert_eq!(refs(rig), "refs/heads/raymond-run/r/saved", "killed at call {call}");
    });
}
