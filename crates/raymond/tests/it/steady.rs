//! A step costs the same however many came before it.

use std::fs;

use test_kit::rig::Rig;

use crate::RAYMOND;

#[test]
fn three_hundred_steps_cost_three_hundred_times_one() {
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
    // Bytes from one finished step to the next; numbers grow by a digit, nothing else may.
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

/// The folders beside the journal do not fill up with the steps either.
#[test]
fn files_beside_the_journal_do_not_add_up() {
    let rig = Rig::new(RAYMOND);
    rig.state(
        "START.sh",
        "[ $RAYMOND_VISITS = 30 ] && echo '<result>ok</result>' || echo \"<goto input='$RAYMOND_VISITS'>START</goto>\"",
    );
    rig.run().assert(0, "ok\n");
    let files = fs::read_dir(rig.path(".raymond/state/r.tasks")).unwrap().count();
    assert!(files <= 3, "{files} files in r.tasks");
}
