//! Branches and rewinds at every completed step of runs that do all that a run can do. Whatever the point, what follows
//! ends as the run did that nothing has disturbed.

use std::fs;
use std::io::Write;

use serde_json::Value;
use test_kit::rig::Rig;

use crate::RAYMOND;
use crate::crash::of_mixed_workflows;
use crate::history::{busy, events, four_turns, status};

/// Goes on with a run until it has ended, and answers everything that it asks.
fn to_the_end(rig: &Rig, run: &str) {
    while rig.raymond(&["resume", run, "--quiet"]).exit == 3 {
        for ask in status(rig, run)["asks"].as_array().expect("a list") {
            let ask = ask["id"].as_str().expect("an id");
            rig.raymond(&["answer", run, ask, "yes", "--no-resume"]).assert(0, "");
        }
    }
}

/// What must be the same, however often a run was taken back.
fn end(rig: &Rig, run: &str) -> Vec<Value> {
    let status = status(rig, run);
    ["status", "steps", "cost_usd", "result"].map(|name| status[name].clone()).to_vec()
}

/// Branches at each of these steps, and takes the run itself back to it.
fn go_back(rig: &Rig, steps: impl Iterator<Item = u64>) {
    let expected = end(rig, "r");
    for step in steps {
        let (at, id) = (step.to_string(), format!("b{step}"));
        rig.raymond(&["branch", "r", "--at", &at, "--id", &id]).assert(0, &format!("{id}\n"));
        to_the_end(rig, &id);
        assert_eq!(end(rig, &id), expected, "branched at step {step}");
        let done = rig.raymond(&["rewind", "r", "--to", &at, "--quiet"]);
        // Nothing came after the last one.
        if done.exit != 0 {
            assert_eq!(done.exit, 2, "{done:?}");
            done.says("nothing came after step");
        }
        to_the_end(rig, "r");
        assert_eq!(end(rig, "r"), expected, "taken back to step {step}");
    }
}

/// The same at every step of a run.
fn go_back_to_every_step(rig: &Rig, options: &[&str]) {
    rig.raymond(&[&["workflow", "--id", "r"], options].concat());
    to_the_end(rig, "r");
    let ended = |event: &Value| matches!(event["event"].as_str(), Some("step_finished" | "step_failed"));
    let steps = events(rig, "r").iter().filter(|event| ended(event)).count() as u64;
    assert!(steps > 2, "{steps}");
    go_back(rig, 1..=steps);
}

#[test]
fn while_questions_are_open() {
    let rig = Rig::new(RAYMOND);
    rig.state("START.sh", "echo '<fork next=\"A\" n=\"1\">W</fork><fork n=\"2\">W</fork>'");
    rig.state("W.sh", "echo '<ask next=\"V\">of a worker?</ask>'");
    rig.state("V.sh", "echo \"<result>$n $RAYMOND_INPUT</result>\"");
    rig.state("A.sh", "echo '<ask next=\"B\">of main?</ask>'").state("B.sh", "echo '<join>END</join>'");
    rig.state("END.sh", "echo \"<result>$RAYMOND_INPUT</result>\"");
    go_back_to_every_step(&rig, &[]);
}

#[test]
fn while_agents_wait() {
    let rig = Rig::new(RAYMOND);
    rig.state("START.sh", "echo '<fork next=\"A\">W</fork>'");
    rig.state("W.sh", "echo '<goto delay=\"60ms\">V</goto>'").state("V.sh", "echo '<result>late</result>'");
    rig.state("A.sh", "echo '<reset delay=\"30ms\" input=\"x\">B</reset>'");
    rig.state("B.sh", "echo \"<goto input='$RAYMOND_INPUT y' delay='20ms'>C</goto>\"");
    rig.state("C.sh", "echo \"$RAYMOND_INPUT\" > c; echo '<join>END</join>'");
    rig.state("END.sh", "echo \"<result>$(cat c) $RAYMOND_INPUT</result>\"");
    go_back_to_every_step(&rig, &[]);
}

#[test]
fn inside_other_workflows_and_archives() {
    go_back_to_every_step(&of_mixed_workflows(), &[]);
}

#[test]
fn of_a_run_that_is_over_its_budget() {
    let rig = four_turns();
    go_back_to_every_step(&rig, &["--budget", "0.6"]);
    assert_eq!(end(&rig, "r")[..3], [Value::from("over_budget"), 3.into(), 0.75.into()]);
    rig.raymond(&["branch", "r", "--at", "3", "--id", "more", "--budget", "2", "--run"]).assert(0, "done\n");
    rig.raymond(&["branch", "r", "--at", "3", "--id", "free", "--reset-cost", "--run"]).assert(0, "done\n");
}

#[test]
fn of_a_run_with_a_torn_tail() {
    let rig = busy();
    rig.run().assert(0, "the end\n");
    let mut journal = fs::File::options().append(true).open(rig.journal()).unwrap();
    journal.write_all(br#"{"seq":99,"time":"2026"#).unwrap();
    go_back(&rig, [3, 9].into_iter());
}

#[test]
fn across_segments() {
    let rig = Rig::new(RAYMOND);
    // Each step leaves 60 kB in the journal, so that it is cut soon after step 140.
    rig.state("START.sh", "n=$RAYMOND_VISITS; [ $n = 160 ] && echo \"<result>$n</result>\" || printf '<goto input=\"%060000d\">START</goto>' $n");
    rig.write(".raymond/config.toml", "[raymond]\ndurability = \"process\"\nno_debug = true\n");
    assert_eq!(rig.run().exit, 0);
    let second = fs::read_to_string(rig.path(".raymond/state/r.0001.jsonl")).unwrap();
    let begun: Vec<Value> = second.lines().skip(1).map(|line| serde_json::from_str(line).unwrap()).collect();
    let first = begun.iter().find_map(|event| event["step"].as_u64()).unwrap();
    assert!((100..158).contains(&first), "{first}");
    go_back(&rig, [first, first - 1].into_iter());
}

/// The prompts of the turns that a branch shares lie with the run that it goes on from.
#[test]
fn a_recording_of_a_branch_or_of_a_run_that_was_taken_back_has_all_its_turns_once() {
    let rig = Rig::new(RAYMOND);
    rig.state("START.sh", "echo '<goto>ONE</goto>'");
    rig.state("ONE.md", "Write to {{task_folder}} in {{run_id}}.").state("TWO.md", "More of {{input}}.");
    rig.write("workflow/workflow.yaml", "backend: scripted\n");
    rig.write(
        "workflow/replies.yaml",
        "ONE:\n  - { reply: \"<goto input='it'>TWO</goto>\", cost: 0.5 }\n\
         TWO:\n  - { reply: <result>done</result>, cost: 0.25 }\n",
    );
    rig.run().assert(0, "done\n");
    rig.raymond(&["branch", "r", "--at", "2", "--id", "branch", "--run"]).assert(0, "done\n");
    rig.raymond(&["rewind", "r", "--to", "2", "--run"]).assert(0, "done\n");
    for run in ["r", "branch"] {
        let file = format!("{run}.rec.jsonl");
        let recorded = rig.raymond(&["record", run, "-o", &file]);
        recorded.says("2 turns, $0.75");
        assert!(!recorded.stderr.contains("warning"), "{recorded:?}");
        let again = format!("{run}-again");
        rig.raymond(&["workflow", "--id", &again, "--replay", &file]).assert(0, "done\n");
    }
}
