//! What a turn cost that Raymond did not live to see the end of.

use test_kit::rig::{Done, Rig};

use crate::RAYMOND;

/// A first turn that costs a cent, and a second that hangs after half an answer worth two; asked again, it answers for
/// four.
fn with_a_turn_that_hangs() -> Rig {
    let rig = Rig::new(RAYMOND);
    rig.state("START.md", "Start.").state("WORK.md", "Work.");
    rig.agent(
        r#"[{"match": "Start", "reply": "<goto>WORK</goto>", "cost": 0.01},
            {"match": "Work", "kind": "hang", "reply": "half", "cost": 0.02, "times": 1},
            {"match": "Work", "reply": "<result>worked</result>", "cost": 0.04}]"#,
    );
    rig
}

/// Starts a run, kills Raymond in its second turn, and resumes it with money enough for everything.
fn killed_and_resumed(rig: &Rig, options: &[&str], on_resume: &[&str]) -> Done {
    let live = rig.start(&[["workflow", "--id", "r", "--verbose"].as_slice(), options].concat());
    live.wait_for_stderr("half");
    live.kill();
    let resume = ["resume", "r"].as_slice();
    let money = if options.contains(&"0") { ["--budget", "0"] } else { ["--budget", "5"] };
    let done = rig.raymond(&[resume, &money, on_resume].concat());
    done.assert(0, "worked\n");
    rig.assert_nothing_lives();
    done
}

/// What the lost turn is said to have cost, which is all that the run cost besides the two turns that ended.
#[track_caller]
fn estimate(rig: &Rig) -> f64 {
    let resumed = rig.events().into_iter().find(|event| event["event"] == "run_resumed").unwrap();
    let estimate = resumed["interrupted"][0]["estimated_cost_usd"].as_f64().unwrap_or(0.0);
    let total = rig.status()["cost_usd"].as_f64().unwrap();
    assert!((total - 0.05 - estimate).abs() < 1e-9, "{total} with {estimate} for the lost turn");
    estimate
}

#[test]
fn a_turn_that_was_killed_with_raymond_costs_what_it_had_streamed() {
    let rig = with_a_turn_that_hangs();
    let done = killed_and_resumed(&rig, &["--budget", "1"], &[]);
    assert!((0.019..0.022).contains(&estimate(&rig)), "{}", estimate(&rig));
    assert!(!done.stderr.contains("nothing was kept"), "{}", done.stderr);
}

#[test]
fn what_was_streamed_counts_even_if_the_resume_keeps_no_debug_files() {
    let rig = with_a_turn_that_hangs();
    killed_and_resumed(&rig, &["--budget", "1"], &["--no-debug"]);
    assert!((0.019..0.022).contains(&estimate(&rig)), "{}", estimate(&rig));
}

#[test]
fn without_debug_files_a_killed_turn_costs_its_share() {
    let rig = with_a_turn_that_hangs();
    let done = killed_and_resumed(&rig, &["--budget", "1", "--no-debug"], &["--no-debug"]);
    let mut started = rig.events().into_iter().filter(|event| event["event"] == "step_started");
    let share = started.next_back().unwrap()["share_usd"].as_f64().unwrap();
    assert!((share - 4.0).abs() < 1e-9, "what is left of the new budget: {share}");
    assert!((estimate(&rig) - 0.99).abs() < 1e-9, "what was left of the old one: {}", estimate(&rig));
    done.says(
        "nothing was kept of what the interrupted turn in WORK.md printed; its share of the budget, $0.99, is counted",
    );
}

#[test]
fn without_debug_files_and_budget_a_killed_turn_is_not_counted_and_that_is_said() {
    let rig = with_a_turn_that_hangs();
    let done = killed_and_resumed(&rig, &["--budget", "0", "--no-debug"], &[]);
    assert_eq!(estimate(&rig), 0.0);
    done.says("it had no share of a budget; what it cost is not known and not counted");
}

/// Raymond died between recording the step and starting its program.
#[test]
fn a_turn_whose_program_never_started_costs_nothing() {
    let rig = with_a_turn_that_hangs();
    let live = rig.start(&["workflow", "--id", "r", "--verbose", "--budget", "1", "--no-debug"]);
    live.wait_for_stderr("half");
    live.kill();
    // What a started program is known by.
    let notes = rig.path(".raymond/state/r.tasks/groups");
    std::fs::remove_file(&notes).unwrap_or_else(|error| panic!("{}: {error}", notes.display()));
    let done = rig.resume();
    done.assert(0, "worked\n");
    assert_eq!(estimate(&rig), 0.0);
    assert!(!done.stderr.contains("nothing was kept"), "{}", done.stderr);
}
