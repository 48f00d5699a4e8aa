//! Background processes of a step: they keep running after a success, and are ended after a failure.

use std::time::{Duration, Instant};

use test_kit::rig::Rig;

use crate::RAYMOND;

fn run(state: &str) -> (Rig, test_kit::rig::Done, Duration) {
    let rig = Rig::new(RAYMOND);
    rig.state("START.sh", state).state("OTHER.sh", "echo '<result>other</result>'");
    let begin = Instant::now();
    let done = rig.run();
    let took = begin.elapsed();
    (rig, done, took)
}

fn lives(rig: &Rig, command: &str) -> bool {
    rig.survivors().iter().any(|(_, line)| line.trim() == command)
}

#[test]
fn a_child_that_holds_stdout_delays_by_two_seconds_and_keeps_running() {
    let (rig, done, took) = run("sleep 310 & echo '<result>ok</result>'");
    done.assert(0, "ok\n");
    assert!(took > Duration::from_millis(1500), "{took:?}");
    assert!(lives(&rig, "sleep 310"));
}

#[test]
fn a_child_with_its_own_output_delays_nothing() {
    // So many steps that a delay of two seconds each would be noticed even on a slow machine.
    let (rig, done, took) = run("sleep 311 >/dev/null 2>&1 &
        [ $RAYMOND_VISITS = 30 ] && echo '<result>ok</result>' || echo '<reset>START</reset>'");
    done.assert(0, "ok\n");
    assert!(took < Duration::from_secs(60), "{took:?}");
    assert!(lives(&rig, "sleep 311"));
}

/// All output here is from the program itself, so all of it counts, even if children keep the pipe open.
#[test]
fn no_output_of_the_program_is_lost_when_a_child_keeps_the_pipe_open() {
    let (_rig, done, _) =
        run("sleep 312 & head -c 300000 /dev/zero | tr '\\0' x; echo '<result>at the end</result>'");
    done.assert(0, "at the end\n");
}

#[test]
fn a_child_that_keeps_printing_does_not_delay_the_end_of_the_step() {
    let (_rig, done, _) = run("(while :; do echo noise; sleep 0.05; done) & echo '<result>ok</result>'");
    done.assert(0, "ok\n");
}

#[test]
fn a_failed_step_leaves_no_process() {
    for state in [
        "sleep 313 & exit 1",
        "setsid sleep 313 >/dev/null 2>&1 & exit 1",
        "sleep 313 >/dev/null 2>&1 & echo 'no tag'",
        "setsid sleep 313 >/dev/null 2>&1 & echo '<goto>NOWHERE</goto>'",
        "sleep 313 >/dev/null 2>&1 & echo '<reset cd=\"nowhere\">OTHER</reset>'",
        "sleep 313 >/dev/null 2>&1 & echo '<goto cd=\"x\">OTHER</goto>'",
        "sleep 313 >/dev/null 2>&1 & kill -KILL $$",
    ] {
        let (rig, done, _) = run(state);
        assert_eq!(done.exit, 1, "{state}: {}", done.stderr);
        assert_eq!(rig.survivors(), [], "{state}");
    }
}

/// Only after the script has succeeded it is known that its transition cannot be taken; the step still fails.
#[test]
fn a_step_whose_transition_is_refused_leaves_no_process() {
    let rig = Rig::new(RAYMOND);
    rig.state(
        "START.sh",
        "[ $RAYMOND_VISITS = 65 ] && sleep 314 >/dev/null 2>&1 & echo '<call return=\"START\">START</call>'",
    );
    rig.raymond(&["workflow", "--id", "r", "--quiet"]).assert(1, "").says("64 deep");
    rig.assert_nothing_lives();
}

#[test]
fn a_failed_attempt_leaves_no_process_beside_the_next() {
    let rig = Rig::new(RAYMOND);
    rig.state(
        "START.sh",
        r#"# raymond: retry=1 backoff=1ms
        [ -e pid ] && { grep -q '^State:.[^ZX]' /proc/$(cat pid)/status 2>/dev/null && echo '<result>twin</result>' || echo '<result>alone</result>'; exit; }
        setsid sleep 315 & echo $! > pid; exit 1"#,
    );
    rig.run().assert(0, "alone\n");
}

/// In a container the session leader is often outside of the pid namespace, and then the session id is 0 here.
#[test]
fn a_failed_step_leaves_no_process_in_a_container_either() {
    let container = ["--user", "--map-root-user", "--pid", "--fork", "--mount-proc"];
    if !std::process::Command::new("unshare")
        .args(container)
        .arg("true")
        .output()
        .is_ok_and(|it| it.status.success())
    {
        test_kit::needs::say_skipped(
            "a run in a pid namespace of its own",
            "`unshare` and the right to use it",
        );
        return;
    }
    let rig = Rig::new(RAYMOND);
    rig.state("START.sh", "setsid sleep 314 >/dev/null 2>&1 & sleep 314 >/dev/null 2>&1 & exit 1");
    // When the first process of a namespace ends, all others are killed, so a shell waits there and checks first.
    let script = format!(
        "{} workflow --id r; echo exit $?; for it in /proc/[0-9]*; do tr '\\0' ' ' <$it/cmdline; done | grep -c 'sleep 314 $'",
        crate::RAYMOND
    );
    let mut command = rig.program("unshare");
    command.args(container).args(["sh", "-c", &script]);
    rig.launch(command).wait().assert(1, "exit 1\n0\n");
}
