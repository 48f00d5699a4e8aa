//! Many agents at once, and many that fail at once.

use test_kit::needs::is_missing;
use test_kit::rig::Rig;

use crate::RAYMOND;

#[test]
fn three_hundred_workers_all_finish() {
    let rig = Rig::new(RAYMOND);
    rig.state("START.sh", r#"for i in $(seq 300); do echo "<fork next='END' i='$i'>WORK</fork>"; done"#);
    rig.state("WORK.sh", "echo $i >> trace; echo \"<result>$i</result>\"");
    rig.state("END.sh", "echo '<result>ok</result>'");
    rig.raymond(&["workflow", "--id", "r", "--quiet"]).assert(0, "ok\n");
    assert_eq!(rig.read("trace").lines().count(), 300);
    assert_eq!(rig.status()["steps"], 302);
}

#[test]
fn many_agents_that_cannot_start_fail_cleanly() {
    if is_missing("node", "many_agents_that_cannot_start_fail_cleanly") {
        return;
    }
    let rig = Rig::new(RAYMOND);
    rig.state("START.sh", r#"for i in {1..65}; do echo "<fork next='END'>WORK</fork>"; done"#);
    rig.state("WORK.js", "console.log('<result>x</result>')")
        .state("END.sh", "echo '<result>ok</result>'")
        .write("empty/keep", "");
    let mut command = rig.command(&["workflow", "--id", "r", "--quiet"]);
    command.env("PATH", rig.path("empty"));
    rig.launch(command).wait().assert(1, "").says("`node` was not found on PATH");
    assert_eq!(rig.status()["status"], "failed");
    rig.raymond(&["resume", "r", "--quiet"]).assert(0, "ok\n");
}

/// A worker keeps its variables until it ends, so with a value that is too long it could never start a program.
#[test]
fn a_variable_too_long_for_the_environment_is_refused_at_the_fork() {
    let rig = Rig::new(RAYMOND);
    rig.state(
        "START.sh",
        "echo \"<fork next='END' big='$(head -c 200000 /dev/zero | tr '\\0' x)'>END</fork>\"",
    );
    rig.state("END.sh", "echo '<result>ok</result>'");
    rig.run().assert(1, "").says("START.sh failed").says("`big`");
    assert_eq!(rig.status()["agents"].as_array().unwrap().len(), 1);
}
