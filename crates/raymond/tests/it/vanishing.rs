//! Files of a run that are deleted or replaced while it is live.

use std::fs;
use std::path::PathBuf;

use test_kit::rig::{Rig, wait_for_file};

use crate::RAYMOND;

/// Three steps, of which the second does something to the files of its own run, once.
fn workflow(harm: &str) -> Rig {
    let rig = Rig::new(RAYMOND);
    rig.state("START.sh", "echo start >> trace; echo '<goto>HARM</goto>'");
    rig.state("HARM.sh", format!("echo harm >> trace; {harm}; echo '<goto input=\"kept\">LAST</goto>'"));
    rig.state("LAST.sh", "echo last >> trace; echo \"<result>$RAYMOND_INPUT</result>\"");
    rig
}

/// The copy that a message names.
fn rescued(rig: &Rig) -> PathBuf {
    let names = fs::read_dir(rig.work()).unwrap().map(|entry| entry.unwrap().path());
    let mut found: Vec<PathBuf> =
        names.filter(|path| path.file_name().unwrap().to_str().unwrap().contains("rescue")).collect();
    assert_eq!(found.len(), 1, "{found:?}");
    found.remove(0)
}

#[test]
fn a_journal_that_vanishes_is_noticed_and_rescued() {
    let harms = [
        ("the folder is deleted", "rm -rf .raymond"),
        ("the runs are deleted", "rm -rf .raymond/state"),
        ("the journal is deleted", "rm .raymond/state/r.jsonl"),
        ("the journal is replaced", "cp .raymond/state/r.jsonl x; mv x .raymond/state/r.jsonl"),
        ("the folder is moved", "mv .raymond/state .raymond/moved"),
    ];
    for (what, harm) in harms {
        let rig = workflow(harm);
        let done = rig.run();
        done.assert(1, "").says("the journal of r is gone").says("every step was ended");
        assert!(!done.stderr.contains("recorded is safe"), "{what}: {}", done.stderr);
        let copy = rescued(&rig);
        done.says(copy.to_str().unwrap());
        assert_eq!(rig.read("trace"), "start\nharm\n", "{what}: nothing starts any more");
        // As the message says: put it back, and go on. The step that did it is recorded as done.
        fs::create_dir_all(rig.journal().parent().unwrap()).unwrap();
        fs::rename(copy, rig.journal()).unwrap();
        done.says("then: raymond doctor --adopt r, and: raymond resume r");
        rig.adopt();
        rig.resume().assert(0, "kept\n");
        assert_eq!(rig.read("trace"), "start\nharm\nlast\n", "{what}");
    }
}

#[test]
fn a_long_result_is_rescued_with_the_journal() {
    let rig = Rig::new(RAYMOND);
    rig.state(
        "START.sh",
        "rm -rf .raymond; printf '<goto input=\"'; head -c 200000 /dev/zero | tr '\\0' x; echo '\">LAST</goto>'",
    );
    rig.state("LAST.sh", "echo \"<result>$(wc -c < \"$RAYMOND_INPUT_FILE\")</result>\"");
    rig.run().assert(1, "").says("the journal of r is gone");
    fs::create_dir_all(rig.journal().parent().unwrap()).unwrap();
    fs::rename(rescued(&rig), rig.journal()).unwrap();
    rig.adopt();
    assert_eq!(rig.resume().stdout.trim(), "200000");
}

#[test]
fn running_steps_are_ended_when_the_journal_vanishes() {
    let rig = Rig::new(RAYMOND);
    rig.state("START.sh", "echo '<fork next=\"HARM\">LONG</fork>'");
    rig.state("LONG.sh", "touch begun; sleep 330; echo '<result>never</result>'");
    rig.state(
        "HARM.sh",
        "while ! [ -e begun ]; do sleep 0.01; done; rm -rf .raymond; echo '<goto>HARM</goto>'",
    );
    rig.run().assert(1, "").says("is gone");
    rig.assert_nothing_lives();
}

#[test]
fn a_deleted_lock_lets_no_second_raymond_in() {
    let rig = workflow("rm .raymond/state/r.lock; touch gone; until [ -e tried ]; do sleep 0.01; done");
    let live = rig.start(&["workflow", "--id", "r"]);
    wait_for_file(&rig.path("gone"));
    rig.resume().assert(2, "").says("another Raymond is running r");
    rig.write("tried", "");
    live.wait().assert(1, "").says("r.lock was deleted").says("raymond resume r");
    assert_eq!(rig.read("trace"), "start\nharm\n");
    rig.resume().assert(0, "kept\n");
    assert_eq!(rig.read("trace"), "start\nharm\nlast\n", "the step that did it is recorded");
}
