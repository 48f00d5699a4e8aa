//! Raymond is killed, and taken up again.

use std::collections::{BTreeMap, BTreeSet};

use crate::rig::{Rig, wait_for_file, wait_until};

/// A chain of 100 steps that forks a worker of three steps at every tenth. Each step writes its name when it starts
/// and again when it has done its work.
fn chain() -> Rig {
    let rig = Rig::new();
    let begin = r#"me="$RAYMOND_AGENT_ID-$(basename "$RAYMOND_STATE_FILE" .sh)-$RAYMOND_VISITS"; echo "$me" >> trace"#;
    rig.state("START.sh", format!("{begin}\necho '<goto>STEP</goto>'"));
    rig.state(
        "STEP.sh",
        format!(
            r#"{begin}
            n=$RAYMOND_VISITS
            if [ "$n" = 100 ]; then echo "<result>sum $n</result>"
            elif [ $((n % 10)) = 0 ]; then echo "<fork next='STEP' item='$n'>ONE</fork>"
            else echo '<goto>STEP</goto>'; fi"#
        ),
    );
    rig.state("ONE.sh", format!("{begin}\necho \"<call return='THREE' input='$item'>TWO</call>\""));
    rig.state("TWO.sh", format!("{begin}\nsleep 0.05; echo \"<result>$RAYMOND_INPUT</result>\""));
    rig.state(
        "THREE.sh",
        format!("{begin}\n[ \"$RAYMOND_RESULT\" = \"$item\" ] && echo '<result>ok</result>'"),
    );
    rig
}

fn counts(trace: &str) -> BTreeMap<String, usize> {
    let mut counts = BTreeMap::new();
    for line in trace.lines() {
        *counts.entry(line.to_owned()).or_default() += 1;
    }
    counts
}

#[test]
fn a_killed_run_goes_on_and_repeats_nothing_that_was_done() {
    let rig = chain();
    let mut live = rig.start(&["workflow", "--id", "r", "--quiet"]);
    for steps in [7, 23, 52, 53, 88, 120] {
        wait_until(&format!("{steps} steps"), || rig.read("trace").lines().count() >= steps);
        live.kill();
        // A step that was about to start holds what Raymond held for a moment longer.
        wait_until("the run to be interrupted", || rig.status()["status"] == "interrupted");
        live = rig.start(&["resume", "r", "--quiet"]);
    }
    live.wait().assert(0, "sum 100\n");
    rig.assert_nothing_lives();

    let events = rig.events();
    let mut interrupted: BTreeMap<String, usize> = BTreeMap::new();
    for step in events.iter().filter(|event| event["event"] == "run_resumed") {
        for step in step["interrupted"].as_array().into_iter().flatten() {
            let key = format!("{}-{}", step["agent"].as_str().unwrap(), step["step"]);
            *interrupted.entry(key).or_default() += 1;
        }
    }
    let allowed: BTreeMap<String, usize> = events
        .iter()
        .filter(|event| event["event"] == "step_finished")
        .map(|event| {
            let started = events
                .iter()
                .find(|other| other["event"] == "step_started" && other["step"] == event["step"])
                .unwrap();
            let agent = event["agent"].as_str().unwrap();
            let state = event["state"].as_str().unwrap().trim_end_matches(".sh");
            let again = interrupted.get(&format!("{agent}-{}", event["step"])).copied().unwrap_or(0);
            (format!("{agent}-{state}-{}", started["visits"]), 1 + again)
        })
        .collect();
    assert_eq!(allowed.len(), 1 + 100 + 9 * 3, "every step was done once");
    let ran = counts(&rig.read("trace"));
    let (known, seen): (BTreeSet<_>, BTreeSet<_>) = (allowed.keys().collect(), ran.keys().collect());
    assert_eq!(known, seen);
    for (step, times) in &ran {
        assert!(*times <= allowed[step], "{step} ran {times} times, {} would be right", allowed[step]);
    }
}

#[test]
fn what_a_dead_raymond_left_running_is_ended_before_its_successor_starts() {
    let rig = Rig::new();
    rig.state(
        "START.sh",
        r#"
        if [ -e pids ]; then
            for pid in $(cat pids); do
                # A zombie is dead.
                grep -q '^State:.[^ZX]' /proc/$pid/status 2>/dev/null && { echo "<result>$pid has a twin</result>"; exit; }
            done
            echo '<result>alone</result>'; exit
        fi
        echo $$ >> pids
        setsid bash -c 'echo $$ >> pids; trap "" TERM; touch started; while :; do sleep 0.1; done' &
        wait
        "#,
    );
    let live = rig.start(&["workflow", "--id", "r"]);
    wait_for_file(&rig.path("started"));
    live.kill();
    assert!(!rig.survivors().is_empty(), "the child in the other session outlives Raymond");
    rig.resume().assert(0, "alone\n").says("was interrupted and runs again");
    rig.assert_nothing_lives();
}

#[test]
fn children_of_finished_steps_survive_a_crash_and_a_resume() {
    let rig = Rig::new();
    rig.state("START.sh", "sleep 320 >/dev/null 2>&1 & echo '<goto>NEXT</goto>'");
    rig.state("NEXT.sh", "[ -e started ] && { echo '<result>ok</result>'; exit; }; touch started; sleep 321");
    let live = rig.start(&["workflow", "--id", "r"]);
    wait_for_file(&rig.path("started"));
    live.kill();
    rig.resume().assert(0, "ok\n");
    let left: Vec<String> = rig.survivors().into_iter().map(|(_, line)| line).collect();
    assert_eq!(left, ["sleep 320 "]);
}

#[test]
fn a_killed_retry_keeps_its_count() {
    let rig = Rig::new();
    rig.state(
        "START.sh",
        "# raymond: retry=2 backoff=1ms\necho x >> trace\n[ $(wc -l < trace) = 2 ] && { touch started; sleep 322; }\nexit 1",
    );
    let live = rig.start(&["workflow", "--id", "r"]);
    wait_for_file(&rig.path("started"));
    live.kill();
    rig.resume().assert(1, "");
    assert_eq!(
        rig.read("trace").lines().count(),
        4,
        "the first, the interrupted one, that one again, and the second retry"
    );
}

#[test]
fn the_second_raymond_on_a_run_refuses() {
    let rig = Rig::new();
    rig.state(
        "START.sh",
        "echo x >> trace; touch started; until [ -e go ]; do sleep 0.01; done; echo '<result>ok</result>'",
    );
    let live = rig.start(&["workflow", "--id", "r"]);
    wait_for_file(&rig.path("started"));
    let pid = live.pid().to_string();
    rig.resume().assert(2, "").says("another Raymond is running r").says(&pid);
    rig.run().assert(2, "").says("another Raymond is running r");
    rig.raymond(&["log", "r", "--json"]);
    assert_eq!(rig.status()["status"], "running");
    rig.write("go", "");
    live.wait().assert(0, "ok\n");
    assert_eq!(rig.read("trace"), "x\n");
}

#[test]
fn a_crash_before_anything_ran_can_be_resumed() {
    let rig = Rig::new();
    rig.state("START.sh", "echo \"<result>$RAYMOND_INPUT</result>\"");
    rig.raymond(&["workflow", "--id", "r", "--input", "first"]).assert(0, "first\n");
    let journal = std::fs::read_to_string(rig.journal()).unwrap();
    // The first batch opens the run; nothing of a step is in it.
    let opening: String = journal.lines().take(2).map(|line| format!("{line}\n")).collect();
    assert!(opening.contains("\"commit\"") && !opening.contains("step_started"), "{opening}");
    std::fs::write(rig.journal(), opening).unwrap();
    rig.resume().assert(0, "first\n");
}
