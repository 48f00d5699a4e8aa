//! The cost of a step does not depend on the number of steps before it.

use std::fs;

use test_kit::rig::Rig;

use crate::RAYMOND;

#[test]
fn the_journal_grows_by_the_same_amount_with_every_step() {
    const STEPS: usize = 300;
    let rig = Rig::new(RAYMOND);
    rig.state(
        "START.sh",
        format!("[ $RAYMOND_VISITS = {STEPS} ] && echo '<result>ok</result>' || echo '<goto input=\"x\">START</goto>'"),
    );
    rig.raymond(&["workflow", "--id", "r", "--quiet"]).assert(0, "ok\n");
    assert_eq!(rig.status()["steps"], STEPS);
    let journal = fs::read_to_string(rig.journal()).unwrap();
    let finished = journal.lines().filter(|line| line.contains("\"event\":\"step_finished\"")).count();
    assert_eq!(finished, STEPS);
    // Bytes from one finished step to the next; only numbers may become longer.
    let mut sizes = Vec::new();
    let mut size = 0;
    for line in journal.lines() {
        size += line.len() + 1;
        if line.contains("\"event\":\"step_finished\"") {
            sizes.push(size);
            size = 0;
        }
    }
    let mean = |sizes: &[usize]| sizes.iter().sum::<usize>() as f64 / sizes.len() as f64;
    let (early, late) = (mean(&sizes[10..60]), mean(&sizes[STEPS - 60..STEPS - 10]));
    assert!((late / early - 1.0).abs() < 0.05, "{early} bytes a step at first, {late} in the end");
}

/// The number of files next to the journal does not grow with the steps.
#[test]
fn files_next_to_the_journal_do_not_accumulate() {
    let rig = Rig::new(RAYMOND);
    rig.state(
        "START.sh",
        "[ $RAYMOND_VISITS = 30 ] && echo '<result>ok</result>' || echo \"<goto input='$RAYMOND_VISITS'>START</goto>\"",
    );
    rig.run().assert(0, "ok\n");
    let files = fs::read_dir(rig.path(".raymond/state/r.tasks")).unwrap().count();
    assert!(files <= 3, "{files} files in r.tasks");
}
