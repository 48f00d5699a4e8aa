//! Stopping a run: by signal and by `raymond stop`, after running steps or at once.

use std::fs;
use std::process::Stdio;
use std::time::{Duration, Instant};

use rustix::process::Signal;
use test_kit::needs::say_skipped;
use test_kit::rig::{Rig, send, wait_for_file, wait_until};

use crate::RAYMOND;

/// A first state that creates a file when it runs and waits for another file, and a second state.
const WAITS: &str = r#"
echo START >> trace
touch started
until [ -e go ]; do sleep 0.01; done
echo '<goto>NEXT</goto>'
"#;
const NEXT: &str = r#"
echo NEXT >> trace
echo "<result>$(xargs < trace)</result>"
"#;

/// A state that starts processes in several sessions and hangs; only its second attempt ends.
const SPREADS: &str = r#"
echo START >> trace
[ -e go ] && { echo '<result>done</result>'; exit; }
bash -c 'touch up-1; exec sleep 301' &
setsid bash -c 'touch up-2; exec sleep 302' &
setsid bash -c 'sleep 303 & touch up-3; sleep 304' &
(setsid bash -c 'touch up-4; exec sleep 305' &)
until [ -e up-1 -a -e up-2 -a -e up-3 -a -e up-4 ]; do sleep 0.01; done
touch started
wait
"#;

fn waiting() -> Rig {
    let rig = Rig::new(RAYMOND);
    rig.state("START.sh", WAITS).state("NEXT.sh", NEXT);
    rig
}

fn spreading() -> Rig {
    let rig = Rig::new(RAYMOND);
    rig.state("START.sh", SPREADS);
    rig
}

#[test]
fn the_first_interrupt_lets_running_steps_finish() {
    let rig = waiting();
    let live = rig.start(&["workflow", "--id", "r"]);
    wait_for_file(&rig.path("started"));
    live.send(Signal::INT);
    live.wait_for_stderr("stopping");
    rig.write("go", "");
    live.wait().assert(130, "").says("raymond resume r");
    let status = rig.status();
    assert_eq!((&status["status"], &status["steps"]), (&"interrupted".into(), &1.into()));
    assert_eq!(status["agents"][0]["state"], "NEXT.sh");
    assert_eq!(rig.read("trace"), "START\n", "nothing new started");
    rig.resume().assert(0, "START NEXT\n");
    assert!(rig.events().iter().all(|event| event.get("interrupted").is_none()));
}

#[test]
fn the_second_interrupt_ends_running_steps() {
    let rig = spreading();
    let live = rig.start(&["workflow", "--id", "r"]);
    wait_for_file(&rig.path("started"));
    live.send(Signal::INT);
    live.wait_for_stderr("may finish");
    live.send(Signal::INT);
    live.wait().assert(130, "");
    rig.assert_nothing_lives();
    assert_eq!(rig.status()["status"], "interrupted");
    rig.write("go", "");
    rig.resume().assert(0, "done\n").says("was interrupted and runs again");
    assert_eq!(rig.read("trace"), "START\nSTART\n");
}

#[test]
fn terminate_ends_everything_even_in_other_sessions() {
    for (signal, exit) in [(Signal::TERM, 143), (Signal::HUP, 143)] {
        if signal == Signal::HUP && is_hangup_ignored() {
            say_skipped("the end by a hangup", "not to be started by `nohup`, which is heeded");
            continue;
        }
        let rig = spreading();
        let live = rig.start(&["workflow", "--id", "r"]);
        wait_for_file(&rig.path("started"));
        live.send(signal);
        live.wait().assert(exit, "");
        rig.assert_nothing_lives();
        let status = rig.status();
        assert_eq!((&status["status"], &status["steps"]), (&"interrupted".into(), &0.into()));
        rig.write("go", "");
        rig.resume().assert(0, "done\n");
    }
}

/// Whether SIGHUP is ignored, because these tests were started by `nohup`; every child inherits that.
fn is_hangup_ignored() -> bool {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:")).unwrap();
    u64::from_str_radix(ignored.trim(), 16).unwrap() & 1 == 1
}

/// The last line of `--json`, and the summary for people.
#[test]
fn a_run_that_is_terminated_reports_its_end() {
    for _ in 0..20 {
        let rig = Rig::new(RAYMOND);
        rig.state("START.sh", "touch started; sleep 308");
        let live = rig.start(&["workflow", "--id", "r", "--json"]);
        wait_for_file(&rig.path("started"));
        live.send(Signal::TERM);
        let done = live.wait();
        let last = done.lines().last().unwrap();
        assert_eq!((done.exit, &last["event"]), (143, &"run_stopped".into()));
        done.says("raymond resume r");
    }
}

#[test]
fn a_step_that_ignores_sigterm_is_killed() {
    let rig = Rig::new(RAYMOND);
    rig.state("START.sh", "trap 'touch asked' TERM\ntouch started\nwhile :; do sleep 0.1; done");
    let live = rig.start(&["workflow", "--id", "r"]);
    wait_for_file(&rig.path("started"));
    let begin = Instant::now();
    live.send(Signal::TERM);
    live.wait().assert(143, "");
    assert!(rig.path("asked").exists(), "it got SIGTERM first");
    let took = begin.elapsed();
    assert!(took >= Duration::from_secs(4), "{took:?}");
    rig.assert_nothing_lives();
}

#[test]
fn many_agents_are_all_ended() {
    let rig = Rig::new(RAYMOND);
    rig.state("START.sh", r#"for i in $(seq 199); do echo "<fork next='WORK' i='$i'>WORK</fork>"; done"#);
    rig.state("WORK.sh", "setsid sleep 306 & touch started-$RAYMOND_AGENT_ID; wait");
    let live = rig.start(&["workflow", "--id", "r", "--quiet"]);
    wait_until("200 steps", || {
        let names = std::fs::read_dir(rig.work()).unwrap().flatten();
        names.filter(|entry| entry.file_name().to_string_lossy().starts_with("started-")).count() == 200
    });
    live.send(Signal::TERM);
    live.wait().assert(143, "");
    rig.assert_nothing_lives();
    assert_eq!(rig.status()["agents"].as_array().unwrap().len(), 200);
}

#[test]
fn stop_lets_running_steps_finish() {
    let rig = waiting();
    let live = rig.start(&["workflow", "--id", "r"]);
    wait_for_file(&rig.path("started"));
    assert_eq!(rig.status()["status"], "running");
    rig.raymond(&["stop", "r"]).assert(0, "");
    live.wait_for_stderr("stopping");
    rig.write("go", "");
    live.wait().assert(130, "");
    assert_eq!(rig.read("trace"), "START\n");
    rig.raymond(&["stop", "r"]).assert(0, "").says("not running");
    rig.resume().assert(0, "START NEXT\n");
}

#[test]
fn stop_now_ends_running_steps() {
    let rig = spreading();
    let live = rig.start(&["workflow", "--id", "r"]);
    wait_for_file(&rig.path("started"));
    rig.raymond(&["stop", "r"]).assert(0, "");
    live.wait_for_stderr("may finish");
    rig.raymond(&["stop", "r", "--now"]).assert(0, "");
    let done = live.wait();
    assert!([130, 143].contains(&done.exit), "{done:?}");
    rig.assert_nothing_lives();
    rig.write("go", "");
    rig.resume().assert(0, "done\n");
}

/// A stop request that no process has read must not stop the process that resumes the run.
#[test]
fn a_stop_request_for_a_dead_process_is_ignored() {
    let rig = waiting();
    let live = rig.start(&["workflow", "--id", "r"]);
    wait_for_file(&rig.path("started"));
    live.send(Signal::STOP);
    rig.raymond(&["stop", "r"]).assert(0, "");
    live.kill();
    rig.write("go", "");
    rig.resume().assert(0, "START START NEXT\n");
}

/// The request that no process has read must not keep another one from its successor.
#[test]
fn a_stop_reaches_a_process_that_still_takes_the_run_over() {
    let rig = Rig::new(RAYMOND);
    rig.state(
        "START.sh",
        r#"echo START >> trace
        [ -e started ] && { echo '<result>not stopped</result>'; exit; }
        setsid bash -c 'trap "" TERM; touch started; while :; do sleep 0.1; done' &
        wait"#,
    );
    let live = rig.start(&["workflow", "--id", "r"]);
    wait_for_file(&rig.path("started"));
    live.send(Signal::STOP);
    rig.raymond(&["stop", "r"]).assert(0, "");
    let lock = || rig.read(".raymond/state/r.lock");
    let dead = lock();
    live.kill();
    let resumed = rig.start(&["resume", "r"]);
    // It now waits for the stubborn process.
    wait_until("the run to be taken over", || !lock().is_empty() && lock() != dead);
    rig.raymond(&["stop", "r"]).assert(0, "");
    resumed.wait().assert(130, "");
    assert_eq!(rig.read("trace"), "START\n");
    rig.resume().assert(0, "not stopped\n");
}

#[test]
fn an_interrupt_while_a_retry_waits_stops_at_once() {
    let rig = Rig::new(RAYMOND);
    rig.state("START.sh", "# raymond: retry=1 backoff=1h\nexit 1");
    let live = rig.start(&["workflow", "--id", "r"]);
    live.wait_for_stderr("retry in 1h");
    live.send(Signal::INT);
    live.wait().assert(130, "");
    let status = rig.status();
    assert_eq!(
        (&status["status"], &status["agents"][0]["status"]),
        (&"interrupted".into(), &"delayed".into())
    );
}

#[test]
fn a_step_with_its_own_timeout_and_another_session_ends() {
    let rig = Rig::new(RAYMOND);
    rig.state("START.sh", "# raymond: timeout=300ms\nsetsid sleep 307 & wait");
    rig.run().assert(1, "").says("timed out");
    rig.assert_nothing_lives();
}

/// The end of an agent is not a step, so there is nothing left to wait for.
#[test]
fn a_run_whose_last_step_finishes_while_it_stops_is_completed() {
    let rig = Rig::new(RAYMOND);
    rig.state("START.sh", "touch started; until [ -e go ]; do sleep 0.01; done; echo '<result>ok</result>'");
    let live = rig.start(&["workflow", "--id", "r"]);
    wait_for_file(&rig.path("started"));
    live.send(Signal::INT);
    live.wait_for_stderr("stopping");
    rig.write("go", "");
    live.wait().assert(0, "ok\n");
    assert_eq!(rig.status()["status"], "completed");
}

/// The reader of stderr may have stopped reading for good, with the pipe and Raymond's buffer full.
#[test]
fn a_stop_works_although_stderr_is_not_read() {
    let rig = Rig::new(RAYMOND);
    rig.state("START.sh", "yes");
    let mut command = rig.command(&["workflow", "--id", "r", "--verbose"]);
    let mut child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    let pid = i32::try_from(child.id()).unwrap();
    let bytes_read = || {
        let io = fs::read_to_string(format!("/proc/{pid}/io")).unwrap_or_default();
        let count = io.lines().find_map(|line| line.strip_prefix("rchar: "));
        count.and_then(|count| count.parse::<u64>().ok()).unwrap_or_default()
    };
    let (mut last, mut looks) = (0, 0);
    wait_until("a full output buffer", || {
        let now = bytes_read();
        looks = if now == last { looks + 1 } else { 0 };
        last = now;
        now > 100_000 && looks > 30
    });
    send(pid, Signal::TERM);
    let mut ended = None;
    wait_until("the end", || {
        ended = child.try_wait().unwrap();
        ended.is_some()
    });
    assert_eq!(ended.unwrap().code(), Some(143));
    rig.assert_nothing_lives();
}

/// Programs that close all possible file descriptors would take very long with Raymond's own raised limit.
#[test]
fn steps_have_the_file_limit_that_raymond_was_started_with() {
    let rig = Rig::new(RAYMOND);
    rig.state("START.sh", "echo \"<result>$(ulimit -Sn)</result>\"");
    let mut command = rig.program("bash");
    command.args(["-c", &format!("ulimit -Sn 321; exec {RAYMOND} workflow")]);
    rig.launch(command).wait().assert(0, "321\n");
}

/// With hundreds of running programs, a program is started in another way. It must still inherit the same file
/// descriptors: those left open for it, and none of Raymond's own.
#[cfg(target_os = "linux")]
#[test]
fn steps_inherit_the_same_descriptors_with_any_number_of_programs() {
    let rig = Rig::new(RAYMOND);
    let forks = "echo '<fork next=\"JOIN\">WORK</fork>';".repeat(60);
    rig.state("START.sh", &forks)
        .state("WORK.sh", "all=(/proc/$$/fd/*); echo ${all[*]##*/} >&99; echo '<result>done</result>'");
    rig.state("JOIN.sh", "echo '<join>END</join>'").state("END.sh", "echo '<result>done</result>'");
    let mut command = rig.program("bash");
    command.args(["-c", &format!("exec 99>descriptors; exec {RAYMOND} workflow")]);
    rig.launch(command).wait().assert(0, "done\n");
    let found = std::fs::read_to_string(rig.path("descriptors")).unwrap();
    let different: std::collections::BTreeSet<&str> = found.lines().collect();
    assert_eq!(found.lines().count(), 60);
    assert!(different.len() == 1 && found.contains(" 99"), "{different:?}");
}

/// The state of a process: `T` if it is stopped.
fn process_state(pid: i32) -> Option<char> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    stat.rsplit_once(") ")?.1.chars().next()
}

/// Ctrl-Z stops the steps as well, and their time limits do not run meanwhile.
#[cfg(target_os = "linux")]
#[test]
fn ctrl_z_suspends_the_steps_and_their_time_limits() {
    let rig = Rig::new(RAYMOND);
    rig.state(
        "START.sh",
        // Opened for reading and writing, a pipe can be waited for without a writer.
        "# raymond: max_time=3s\necho $$ > pid.part; mv pid.part pid\nwhile ! [ -e go ]; do read -t 0.02 <> fifo; done; echo '<result>ok</result>'",
    );
    assert!(std::process::Command::new("mkfifo").arg(rig.path("fifo")).status().unwrap().success());
    let live = rig.start(&["workflow", "--id", "r"]);
    wait_for_file(&rig.path("pid"));
    let step: i32 = rig.read("pid").trim().parse().unwrap();
    live.send(Signal::TSTP);
    wait_until("both are stopped", || {
        process_state(live.pid()) == Some('T') && process_state(step) == Some('T')
    });
    // Longer than the time limit.
    std::thread::sleep(std::time::Duration::from_secs(4));
    rig.write("go", "");
    live.send(Signal::CONT);
    live.wait().assert(0, "ok\n");
}
