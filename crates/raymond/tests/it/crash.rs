//! Raymond is killed, and the run is resumed.

use std::collections::{BTreeMap, BTreeSet};

use test_kit::rig::{Rig, wait_for_file, wait_until};

use crate::RAYMOND;

/// A chain of 100 steps that forks a worker of three steps at every tenth. Each step writes its name when it begins and
/// again when its work is done.
fn chain() -> Rig {
    let rig = Rig::new(RAYMOND);
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
fn a_killed_run_continues_and_repeats_no_finished_step() {
    let rig = chain();
    let mut live = rig.start(&["workflow", "--id", "r", "--quiet"]);
    for steps in [7, 23, 52, 53, 88, 120] {
        wait_until(&format!("{steps} steps"), || rig.read("trace").lines().count() >= steps);
        live.kill();
        // A child process that was just started keeps Raymond's file descriptors for a moment longer.
        wait_until("the run to be let go", || rig.status()["status"] != "running");
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
fn processes_of_a_killed_raymond_are_ended_before_the_resume_starts_steps() {
    let rig = Rig::new(RAYMOND);
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
    assert!(!rig.survivors().is_empty(), "the child in the other session is still running");
    rig.resume().assert(0, "alone\n").says("was interrupted and runs again");
    rig.assert_nothing_lives();
}

#[test]
fn children_of_finished_steps_survive_a_crash_and_a_resume() {
    let rig = Rig::new(RAYMOND);
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
    let rig = Rig::new(RAYMOND);
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
        "the first attempt, the interrupted retry, its repetition, and the second retry"
    );
}

#[test]
fn the_second_raymond_on_a_run_refuses() {
    let rig = Rig::new(RAYMOND);
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
    let rig = Rig::new(RAYMOND);
    rig.state("START.sh", "echo \"<result>$RAYMOND_INPUT</result>\"");
    rig.raymond(&["workflow", "--id", "r", "--input", "first"]).assert(0, "first\n");
    let journal = std::fs::read_to_string(rig.journal()).unwrap();
    // The first batch opens the run and has no event of a step.
    let opening: String = journal.lines().take(2).map(|line| format!("{line}\n")).collect();
    assert!(opening.contains("\"commit\"") && !opening.contains("step_started"), "{opening}");
    std::fs::write(rig.journal(), opening).unwrap();
    rig.resume().assert(0, "first\n");
}

/// A short run with every kind of batch: forks, a call of another workflow, a join, a delay, a retry.
fn of_all_kinds() -> Rig {
    let rig = Rig::new(RAYMOND);
    let begin = r#"echo "$RAYMOND_AGENT_ID $(basename "$RAYMOND_STATE_FILE")" >> trace"#;
    let fork = "<fork item='1'>WORK</fork><fork item='2'>WORK</fork><goto>CALL</goto>";
    rig.state("START.sh", format!("{begin}\necho \"{fork}\""));
    rig.state("WORK.sh", format!("{begin}\necho \"<result>w$item</result>\""));
    rig.state("CALL.sh", format!("{begin}\necho '<call-workflow return=\"LATER\">../other</call-workflow>'"));
    rig.write("other/START.sh", format!("{begin}\necho '<goto>SECOND</goto>'"));
    rig.write("other/SECOND.sh", format!("{begin}\necho '<result>from the other</result>'"));
    rig.state(
        "LATER.sh",
        format!("{begin}\necho \"<reset delay='20ms' input='$RAYMOND_RESULT'>RETRY</reset>\""),
    );
    rig.state(
        "RETRY.sh",
        format!("# raymond: retry=2 backoff=10ms\n{begin}\n[ -f tried ] || {{ touch tried; exit 1; }}\necho '<join>END</join>'"),
    );
    rig.state("END.sh", format!("{begin}\necho \"<result>$RAYMOND_RESULT</result>\""));
    rig
}

/// A run that enters workflows of all forms with all four tags, from scripts and prompts, in several folders. Each
/// state that returns prints its place.
pub fn of_mixed_workflows() -> Rig {
    let rig = Rig::new(RAYMOND);
    rig.agent(
        r#"[ { "match": "Go over", "reply": "<call-workflow return=\"AFTER\" input=\"in\">../second.zip</call-workflow>" },
             { "match": "Go back", "reply": "<goto>TELL</goto>" } ]"#,
    );
    let place = r#"$(basename "$RAYMOND_STATE_DIR") in $(basename "$PWD")"#;
    let tell = format!(r#"echo "<result>$RAYMOND_RESULT; {place}</result>""#);
    for folder in ["side", "side/deep"] {
        std::fs::create_dir_all(rig.path(folder)).unwrap();
    }
    rig.state(
        "START.sh",
        "echo '<fork-workflow next=\"OVER\" cd=\"side\" item=\"1\">../third.yaml/ASIDE</fork-workflow>'",
    );
    rig.state("OVER.md", "Go over: <call-workflow return=\"AFTER\">../second.zip</call-workflow>");
    rig.state("AFTER.sh", format!("echo \"$RAYMOND_RESULT; {place}\" > after; echo '<join>END</join>'"));
    rig.state("END.sh", "echo \"<result>$(cat after) | $RAYMOND_RESULT</result>\"");
    rig.write(
        "second/START.sh",
        "echo '<function-workflow return=\"BACK\" cd=\"side/deep\" input=\"x\">../third.yaml</function-workflow>'",
    );
    rig.write("second/BACK.md", "---\nallowed_transitions: [{ tag: goto, target: TELL }]\n---\nGo back.");
    rig.write("second/TELL.sh", format!("echo \"<result>{place}</result>\""));
    rig.write("third/START.sh", "echo '<call-workflow return=\"UP\">../fourth</call-workflow>'");
    rig.write("third/UP.sh", &tell);
    rig.write(
        "third/ASIDE.sh",
        "echo '<reset-workflow cd=\"deep\" input=\"aside\">../fourth</reset-workflow>'",
    );
    rig.write("fourth/START.sh", "echo \"<reset cd='..' input='$RAYMOND_INPUT'>UPWARDS</reset>\"");
    rig.write("fourth/UPWARDS.sh", &tell);
    for (from, to) in [("second", "second.zip"), ("third", "third.yaml")] {
        rig.raymond(&["convert", from, "-o", to]).assert(0, "");
        std::fs::remove_dir_all(rig.path(from)).unwrap();
    }
    rig
}

const OF_MIXED_WORKFLOWS: &str = "second in work; workflow in work | \
    [{\"agent\":\"main_aside1\",\"title\":\"1\",\"state\":\"ASIDE.sh\",\"attributes\":{\"item\":\"1\"},\"status\":\"done\",\
    \"result\":\"aside; fourth in side\",\"error\":null}]\n";

fn batches(rig: &Rig) -> usize {
    let journal = std::fs::read_to_string(rig.journal()).unwrap_or_default();
    journal.matches(",\"commit\":\"").count()
}

fn is_over(rig: &Rig) -> bool {
    std::fs::read_to_string(rig.journal()).unwrap_or_default().contains("\"event\":\"run_finished\"")
}

/// Kills the run after each of its batches, and again after each batch of the resume.
fn survives_a_kill_at_every_batch(make: impl Fn() -> Rig, fewest: usize) {
    let whole = make();
    let result = whole.run().stdout.clone();
    let most = batches(&whole);
    assert!(most >= fewest, "{most} batches");
    for batch in 1..=most {
        let rig = make();
        for command in [["workflow", "--id"].as_slice(), ["resume"].as_slice()] {
            let before = batches(&rig);
            let live = rig.start(&[command, ["r", "--quiet"].as_slice()].concat());
            wait_until("a batch, or the end", || batches(&rig) >= before + batch || is_over(&rig));
            live.kill();
            // A program that was being started holds Raymond's lock for a moment longer, and a resume would be refused.
            wait_until("the run to be let go", || rig.status()["status"] != "running");
        }
        let done = rig.resume();
        assert_eq!(done.stdout, result, "killed after batch {batch}: {}", done.stderr);
        let finished: Vec<_> =
            rig.events().into_iter().filter(|event| event["event"] == "step_finished").collect();
        let steps: BTreeSet<String> = finished.iter().map(|event| event["step"].to_string()).collect();
        assert_eq!(steps.len(), finished.len(), "killed after batch {batch}: a step finished twice");
        rig.assert_nothing_lives();
    }
}

#[test]
fn a_run_survives_a_kill_at_every_batch() {
    survives_a_kill_at_every_batch(of_all_kinds, 10);
}

#[test]
fn mixed_workflows_survive_a_kill_at_every_batch() {
    of_mixed_workflows().run().assert(0, OF_MIXED_WORKFLOWS);
    survives_a_kill_at_every_batch(of_mixed_workflows, 10);
}
