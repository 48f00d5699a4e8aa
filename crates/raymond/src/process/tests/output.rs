use std::fs;
use std::time::{Duration, Instant};

use super::parent::in_a_process_of_its_own;
use super::rig::*;
use crate::process::*;

#[tokio::test]
async fn both_streams_and_the_exit_code_come_through() {
    let rig = Rig::new();
    let (outcome, collector) = rig.run("echo out; echo err >&2; exit 7").await;
    assert!(matches!(outcome.ending, Ending::Exited(ProcessExit::Code(7))));
    assert_eq!((collector.stdout, collector.stderr), (b"out\n".to_vec(), b"err\n".to_vec()));
}

#[tokio::test]
async fn a_death_by_signal_is_told_from_an_exit_code() {
    let rig = Rig::new();
    let (outcome, _) = rig.run("kill -SEGV $$").await;
    assert!(matches!(outcome.ending, Ending::Exited(ProcessExit::Signal(11))), "{outcome:?}");
}

#[tokio::test]
async fn a_megabyte_of_input_arrives_while_output_comes_back() {
    let rig = Rig::new();
    let mut spec = rig.spec("cat");
    spec.stdin = (0..1_048_583_u32).map(|number| (number % 251) as u8).collect();
    let expected = spec.stdin.clone();
    let mut collector = Collector::default();
    assert!(rig.supervise(spec, &mut collector).await.ending.is_success());
    assert!(collector.stdout == expected);
}

#[tokio::test]
async fn input_that_is_not_read_is_no_failure() {
    let rig = Rig::new();
    let mut spec = rig.spec("exec <&-; echo done");
    spec.stdin = vec![b'x'; 1 << 20];
    let mut collector = Collector::default();
    assert!(rig.supervise(spec, &mut collector).await.ending.is_success());
    assert_eq!(collector.stdout, b"done\n");
}

#[tokio::test]
async fn a_program_that_closes_its_output_early_is_waited_for() {
    let rig = Rig::new();
    let (outcome, _) = rig.run("exec >&- 2>&-; sleep 0.3; echo x > ran; exit 3").await;
    assert!(matches!(outcome.ending, Ending::Exited(ProcessExit::Code(3))));
    assert!(rig.folder.path().join("ran").exists());
}

/// The background child never stops writing, so there is always something to read.
#[tokio::test]
async fn endless_output_of_a_background_child_does_not_delay_the_step() {
    let mut rig = Rig::new();
    rig.limits.drain = Duration::from_millis(300);
    rig.after_exit = AfterExit::EndAll;
    let mut sink = Judge(|_: &str| Flow::Continue);
    let supervised = rig.supervise(rig.spec("yes & echo $! > pids"), &mut sink);
    let outcome = tokio::time::timeout(DEADLINE, supervised).await.expect("it is delayed");
    assert!(outcome.ending.is_success());
    assert_all_dead(&rig.pids("pids"));
}

#[test]
fn memory_stays_flat_however_much_comes() {
    in_a_process_of_its_own("output::memory_stays_flat_however_much_comes", &[], || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(read_200_megabytes());
    });
}

async fn read_200_megabytes() {
    let rig = Rig::new();
    let (mut total, mut largest) = (0_u64, 0);
    let mut sink = Judge(|text: &str| {
        total += text.len() as u64;
        largest = largest.max(text.len());
        Flow::Continue
    });
    assert!(rig.supervise(rig.spec("echo warm"), &mut sink).await.ending.is_success());
    let before = peak_kib();
    let start = Instant::now();
    let flood = "head -c 100000000 /dev/zero & head -c 100000000 /dev/zero >&2; wait";
    assert!(rig.supervise(rig.spec(flood), &mut sink).await.ending.is_success());
    eprintln!("200 MB in {:?}, peak grew by {} KiB", start.elapsed(), peak_kib() - before);
    assert_eq!(total, 100_000_005);
    assert!(largest <= CHUNK_BYTES);
    assert!(peak_kib() - before < 16 * 1024);
}

fn peak_kib() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    line.trim().trim_end_matches(" kB").parse().unwrap()
}
