use std::fs;
use std::time::{Duration, Instant};

use super::rig::*;
use crate::process::*;

/// Writes the process ids of the script and of three kinds of children into `pids`: a plain child; one in a session of
/// its own; and one in a session of its own without the token, which is found only while its parent, the script, lives.
const FAMILY: &str = r"
    sleep 1000 & echo $! >> pids
    setsid bash -c 'echo $$ >> pids; sleep 1000 & echo $! >> pids; echo ready >> ready; wait' &
    setsid env -i bash -c 'echo $$ >> pids; sleep 1000 & echo $! >> pids; echo ready >> ready; wait' &
    echo $$ >> pids
    while [ $(cat ready 2>/dev/null | wc -l) -lt 2 ]; do sleep 0.05; echo waiting >&2; done
";

const FAMILY_SIZE: usize = 6;

fn assert_family_dead(rig: &Rig) {
    let pids = rig.pids("pids");
    assert_eq!(pids.len(), FAMILY_SIZE);
    assert_all_dead(&pids);
}

#[tokio::test]
async fn silence_ends_the_whole_family() {
    for time in TIMES {
        let mut rig = Rig::new();
        rig.limits.idle = Some(time);
        let (outcome, collector) = rig.run(&format!("{FAMILY} echo ready; wait")).await;
        assert!(matches!(outcome.ending, Ending::IdleTimeout), "{outcome:?}");
        if collector.stdout == b"ready\n" {
            return assert_family_dead(&rig);
        }
    }
    panic!("it never gets ready");
}

#[tokio::test]
async fn output_on_either_stream_breaks_the_silence_but_not_the_total() {
    let chatter = "touch talks; while :; do echo x; sleep 0.05; echo x >&2; sleep 0.05; done";
    for time in TIMES {
        let mut rig = Rig::new();
        rig.limits.idle = Some(time);
        rig.limits.total = Some(3 * time);
        let (outcome, _) = rig.run(&format!("{FAMILY} {chatter}")).await;
        if matches!(outcome.ending, Ending::TotalTimeout) && rig.has("talks") {
            return assert_family_dead(&rig);
        }
    }
    panic!("it never reaches the total time limit");
}

#[tokio::test]
async fn a_failure_ends_what_the_step_left_behind() {
    let rig = Rig::new();
    let (outcome, _) = rig.run(&format!("{{ {FAMILY} }} >/dev/null 2>&1; exit 1")).await;
    assert!(matches!(outcome.ending, Ending::Exited(ProcessExit::Code(1))));
    assert_eq!(outcome.survivors, [] as [i32; 0]);
    let pids = rig.pids("pids");
    assert_eq!(pids.len(), FAMILY_SIZE);
    // The child without an environment lost its parent before the first scan. This is a documented limit.
    let found: Vec<i32> = pids.iter().copied().filter(|pid| has_token_or_is_dead(*pid)).collect();
    assert_all_dead(&found);
    assert!(found.len() >= FAMILY_SIZE - 2);
    for pid in pids.iter().filter(|pid| is_alive(**pid)) {
        kill(*pid);
    }
}

fn has_token_or_is_dead(pid: i32) -> bool {
    let environment = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
    !is_alive(pid) || String::from_utf8_lossy(&environment).contains(TOKEN_VARIABLE)
}

fn kill(pid: i32) {
    let pid = rustix::process::Pid::from_raw(pid).unwrap();
    let _ = rustix::process::kill_process(pid, rustix::process::Signal::KILL);
}

#[tokio::test]
async fn a_program_that_ignores_sigterm_is_killed_after_the_grace() {
    let script = r"
        setsid bash -c 'trap : TERM; echo $$ >> pids; echo ignoring; while :; do sleep 1000; done' &
        trap '' TERM; echo $$ >> pids; echo ignoring; while :; do sleep 1000; done";
    for time in TIMES {
        let mut rig = Rig::with_grace(Duration::from_millis(300));
        rig.limits.idle = Some(time);
        let (outcome, collector) = rig.run(script).await;
        assert!(matches!(outcome.ending, Ending::IdleTimeout));
        if collector.stdout == b"ignoring\nignoring\n" {
            assert_eq!(rig.pids("pids").len(), 2);
            return assert_all_dead(&rig.pids("pids"));
        }
    }
    panic!("they never ignore SIGTERM");
}

/// After the end of its parent there is no other sign that the child belongs to the step.
#[tokio::test]
async fn a_child_without_a_token_is_remembered_when_its_parent_ends_first() {
    let script = r#"
        setsid env -i PATH="$PATH" bash -c 'trap "" TERM; echo $$ >> pids; while :; do sleep 0.1; done' &
        while [ ! -s pids ]; do sleep 0.05; echo waiting; done
        touch ready; wait"#;
    for time in TIMES {
        let mut rig = Rig::with_grace(Duration::from_secs(1));
        rig.limits.idle = Some(time);
        let (outcome, _) = rig.run(script).await;
        assert!(matches!(outcome.ending, Ending::IdleTimeout));
        if rig.has("ready") {
            assert_eq!(rig.pids("pids").len(), 1);
            return assert_all_dead(&rig.pids("pids"));
        }
    }
    panic!("the child never starts");
}

/// The clean-up is itself a process that starts after SIGTERM. It may finish.
#[tokio::test]
async fn a_program_can_clean_up_after_sigterm() {
    let script = "trap 'sleep 0.3 && echo clean > cleaned; echo told >&2; exit' TERM; echo ready; sleep 1000";
    for time in TIMES {
        let mut rig = Rig::with_grace(DEADLINE);
        rig.limits.idle = Some(time);
        let (outcome, collector) = rig.run(script).await;
        assert!(matches!(outcome.ending, Ending::IdleTimeout));
        if collector.stdout == b"ready\n" {
            assert!(rig.has("cleaned"));
            let stderr = String::from_utf8(collector.stderr).unwrap();
            return assert!(stderr.ends_with("told\n"), "{stderr}");
        }
    }
    panic!("it never gets ready");
}

#[tokio::test]
async fn a_suspended_program_is_woken_up_to_end() {
    let mut rig = Rig::with_grace(DEADLINE);
    rig.limits.idle = Some(Duration::from_millis(500));
    let start = Instant::now();
    let (outcome, _) = rig.run("echo $$ > pids; kill -STOP $$").await;
    assert!(matches!(outcome.ending, Ending::IdleTimeout));
    assert!(start.elapsed() < DEADLINE, "it had to be killed");
    assert_all_dead(&rig.pids("pids"));
}

#[tokio::test]
async fn a_background_child_that_holds_the_output_delays_a_success_and_is_left_alone() {
    let mut rig = Rig::new();
    rig.limits.drain = Duration::from_millis(500);
    let start = Instant::now();
    let (outcome, collector) = rig.run("sleep 1000 & echo $! > pids; echo done").await;
    let elapsed = start.elapsed();
    assert!(outcome.ending.is_success());
    assert_eq!(collector.stdout, b"done\n");
    assert!(elapsed >= Duration::from_millis(500) && elapsed < DEADLINE, "{elapsed:?}");
    let pids = rig.pids("pids");
    assert!(is_alive(pids[0]));
    kill(pids[0]);
}

#[tokio::test]
async fn a_background_child_without_the_output_delays_nothing_and_can_be_ended_later() {
    let mut rig = Rig::new();
    rig.limits.drain = DEADLINE;
    let spec = rig.spec("setsid sleep 1000 >/dev/null 2>&1 & echo $! > pids");
    let start = Instant::now();
    let outcome = rig.supervise(spec, &mut Collector::default()).await;
    assert!(outcome.ending.is_success());
    assert!(start.elapsed() < DEADLINE / 2);
    let pids = rig.pids("pids");
    assert!(is_alive(pids[0]));
    assert_eq!(rig.reaper.end(vec![outcome.target.unwrap()]).await, [] as [i32; 0]);
    assert_all_dead(&pids);
}

#[tokio::test]
async fn recovery_finds_the_rest_of_a_dead_raymond_by_token_alone() {
    let rig = Rig::new();
    let spec = rig.spec(&format!("{{ {FAMILY} wait; }} >/dev/null 2>&1 & while [ ! -e ready ]; do :; done"));
    let token = spec.token.clone();
    assert!(rig.supervise(spec, &mut Collector::default()).await.ending.is_success());
    eventually("the family is there", || {
        rig.pids("pids").len() == FAMILY_SIZE && line_count(&rig.folder.path().join("ready")) == 2
    })
    .await;
    let targets = vec![Target::by_token("another-step"), Target::by_token(token)];
    assert_eq!(rig.reaper.end_blocking(targets), [] as [i32; 0]);
    // The script itself wrote its process id and has exited; the subshell in the background has another one.
    assert_family_dead(&rig);
}

#[tokio::test]
async fn a_sink_can_abort() {
    let rig = Rig::new();
    let mut sink = Judge(|text: &str| if text.contains("bad") { Flow::Abort } else { Flow::Continue });
    let script = format!("{FAMILY} echo good; sleep 0.1; echo bad; wait");
    let outcome = rig.supervise(rig.spec(&script), &mut sink).await;
    assert!(matches!(outcome.ending, Ending::Aborted));
    assert_family_dead(&rig);
}

#[tokio::test]
async fn a_program_that_lingers_after_its_last_output_is_ended_as_successful() {
    for time in TIMES {
        if lingers(time).await {
            return;
        }
    }
    panic!("the first final output is never cancelled by more");
}

/// Whether the script was quick enough to write more after its first final output.
async fn lingers(time: Duration) -> bool {
    let mut rig = Rig::new();
    rig.after_exit = AfterExit::EndAll;
    // One word at a time, each after the last was read. Output on stderr does not cancel `EndWithin`.
    let heard = rig.folder.path().join("heard");
    let script = format!(
        "hears() {{ until [ \"$(cat heard 2>/dev/null)\" = $1 ]; do sleep 0.01; done; }}
        {FAMILY} echo final; hears 1; echo more; hears 2; sleep {}; echo final; hears 3; echo err >&2; wait",
        1.5 * time.as_secs_f64()
    );
    let start = Instant::now();
    let (mut words, mut finals) = (0, 0);
    let mut sink = Judge(|text: &str| {
        words += 1;
        fs::write(&heard, words.to_string()).unwrap();
        let is_final = text.contains("final");
        finals += usize::from(is_final);
        if is_final { Flow::EndWithin(time) } else { Flow::Continue }
    });
    let outcome = rig.supervise(rig.spec(&script), &mut sink).await;
    assert!(matches!(outcome.ending, Ending::Lingered), "{outcome:?}");
    let was_cancelled = finals == 2;
    if was_cancelled {
        assert!(start.elapsed() >= time.mul_f64(2.5));
        assert_family_dead(&rig);
    }
    was_cancelled
}

/// The idle timeout no longer applies then, even if it is shorter.
#[tokio::test]
async fn silence_after_the_last_output_is_no_failure() {
    for time in TIMES {
        let mut rig = Rig::new();
        rig.limits.idle = Some(time);
        let mut is_final = false;
        let mut sink = Judge(|_: &str| {
            is_final = true;
            Flow::EndWithin(2 * time)
        });
        let outcome = rig.supervise(rig.spec("echo final; sleep 1000"), &mut sink).await;
        if is_final {
            return assert!(matches!(outcome.ending, Ending::Lingered), "{outcome:?}");
        }
    }
    panic!("it never writes anything");
}

#[tokio::test]
async fn a_program_that_exits_after_its_last_output_has_exited() {
    let rig = Rig::new();
    let mut sink = Judge(|_: &str| Flow::EndWithin(DEADLINE));
    let outcome = rig.supervise(rig.spec("echo final"), &mut sink).await;
    assert!(outcome.ending.is_success());
}

#[tokio::test]
async fn a_time_limit_cannot_fail_a_program_after_its_last_output() {
    for time in TIMES {
        let mut rig = Rig::new();
        rig.limits.idle = Some(time);
        rig.limits.total = Some(2 * time);
        let mut is_final = false;
        let mut sink = Judge(|_: &str| {
            is_final = true;
            Flow::EndWithin(DEADLINE)
        });
        let outcome = rig.supervise(rig.spec("echo final; sleep 1000"), &mut sink).await;
        if is_final {
            return assert!(matches!(outcome.ending, Ending::Lingered), "{outcome:?}");
        }
    }
    panic!("it never writes anything");
}

#[tokio::test]
async fn many_trees_stopped_together_need_few_scans() {
    const TREES: usize = 50;
    let rig = Rig::new();
    let file = rig.folder.path().join("pids");
    let script = "setsid sleep 1000 & echo $! >> pids; echo $$ >> pids; wait";
    let trees = (0..TREES).map(|_| async { rig.run(script).await.0 });
    let stop = async {
        eventually("all are running", || line_count(&file) == 2 * TREES).await;
        rig.stop.trigger();
        Instant::now()
    };
    let (outcomes, stopped_at) = tokio::join!(join_all(trees), stop);
    let elapsed = stopped_at.elapsed();
    assert!(outcomes.iter().all(|outcome| matches!(outcome.ending, Ending::Stopped)));
    assert_all_dead(&rig.pids("pids"));
    // A few scans for each tree, and some for the time that passes. Separate scans for each tree would be many more.
    let most = 4 * TREES as u128 + elapsed.as_millis() / 50;
    let scans = u128::from(rig.reaper.scans());
    assert!(scans <= most, "{TREES} trees ended in {elapsed:?} with {scans} scans");
}

/// Polls all futures on one task, which is enough for a test.
async fn join_all<T>(futures: impl Iterator<Item = impl Future<Output = T>>) -> Vec<T> {
    let mut futures: Vec<_> = futures.map(|future| (Box::pin(future), None)).collect();
    std::future::poll_fn(|context| {
        let mut is_pending = false;
        for (future, result) in &mut futures {
            if result.is_none() {
                match future.as_mut().poll(context) {
                    std::task::Poll::Ready(value) => *result = Some(value),
                    std::task::Poll::Pending => is_pending = true,
                }
            }
        }
        if is_pending { std::task::Poll::Pending } else { std::task::Poll::Ready(()) }
    })
    .await;
    futures.into_iter().map(|(_, result)| result.unwrap()).collect()
}

#[tokio::test]
async fn a_cancelled_step_is_ended_by_the_reaper_alone() {
    let rig = Rig::new();
    let ready = rig.folder.path().join("all");
    let script = format!("{FAMILY} touch all; wait");
    tokio::select! {
        _ = rig.run(&script) => panic!("it cannot end"),
        () = eventually("the family is there", || ready.exists()) => {}
    }
    let pids = rig.pids("pids");
    eventually("all are dead", || pids.iter().all(|pid| !is_alive(*pid))).await;
    assert_family_dead(&rig);
}

#[tokio::test]
async fn ending_nothing_is_quick() {
    let rig = Rig::new();
    assert_eq!(rig.reaper.end(vec![]).await, [] as [i32; 0]);
    assert_eq!(rig.reaper.end_blocking(vec![Target::by_token("no-such-step")]), [] as [i32; 0]);
    assert!(rig.reaper.scans() <= 4);
}
