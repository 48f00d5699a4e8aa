//! Real processes in job objects.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use tempfile::TempDir;

use crate::process::*;

/// Long enough that only a test that hangs reaches it.
const DEADLINE: Duration = Duration::from_secs(60);

/// A program that does nothing for a long time.
const SLEEP: &str = "ping -n 1000 127.0.0.1 >nul";

struct Rig {
    folder: TempDir,
    reaper: Reaper,
    limits: TimeLimits,
    stop: StopSignal,
    token: String,
}

#[derive(Default)]
struct Collector {
    stdout: String,
    stderr: String,
}

impl Sink for Collector {
    fn stdout(&mut self, bytes: &[u8]) -> Flow {
        self.stdout.push_str(&String::from_utf8_lossy(bytes));
        Flow::Continue
    }

    fn stderr(&mut self, bytes: &[u8]) -> Flow {
        self.stderr.push_str(&String::from_utf8_lossy(bytes));
        Flow::Continue
    }
}

impl Rig {
    fn new() -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        Rig {
            folder: TempDir::new().unwrap(),
            reaper: Reaper::with_grace(Duration::from_secs(1)).unwrap(),
            limits: TimeLimits::default(),
            stop: StopSignal::new(),
            token: format!("test-{}-{number}", std::process::id()),
        }
    }

    async fn run(&self, lines: &[&str]) -> (Supervised, Collector) {
        let mut text = "@echo off\r\n".to_owned();
        lines.iter().for_each(|line| text.push_str(&format!("{line}\r\n")));
        let file = self.folder.path().join("a & b (c) 50% ü.bat");
        std::fs::write(&file, text).unwrap();
        let spec = ProgramSpec::new(file, self.folder.path(), self.token.as_str());
        let mut collector = Collector::default();
        let stop = self.stop.clone();
        let after = AfterExit::LeaveBackground;
        let outcome = supervise(spec, self.limits, &mut collector, stop, &self.reaper, after).await;
        (outcome, collector)
    }

    /// Whether another process would find a member of the job.
    fn is_alive(&self) -> bool {
        let job = Job::open(&super::step_jobs::name_of(&self.token)).unwrap();
        job.is_some_and(|job| job.any_member().unwrap().is_some())
    }
}

fn in_background() -> String {
    format!("start \"\" /b cmd /c \"{SLEEP}\"")
}

#[tokio::test]
async fn both_streams_and_the_exit_code_come_through() {
    let rig = Rig::new();
    let (outcome, collector) = rig.run(&["echo out", "echo err>&2", "exit /b 7"]).await;
    assert!(matches!(outcome.ending, Ending::Exited(ProcessExit::Code(7))), "{outcome:?}");
    assert_eq!((collector.stdout.as_str(), collector.stderr.as_str()), ("out\r\n", "err\r\n"));
}

#[tokio::test]
async fn much_output_comes_through_whole() {
    let rig = Rig::new();
    let line = "x".repeat(100);
    let (outcome, collector) = rig.run(&[&format!("for /l %%i in (1,1,3000) do @echo {line}")]).await;
    assert!(outcome.ending.is_success(), "{outcome:?}");
    assert_eq!(collector.stdout.len(), 3000 * (line.len() + 2));
}

#[tokio::test]
async fn silence_ends_the_whole_family() {
    let mut rig = Rig::new();
    rig.limits.idle = Some(Duration::from_secs(2));
    let (outcome, _) = rig.run(&[&in_background(), "echo ready", SLEEP]).await;
    assert!(matches!(outcome.ending, Ending::IdleTimeout), "{outcome:?}");
    assert_eq!(outcome.survivors, [] as [i32; 0]);
    assert!(!rig.is_alive());
}

#[tokio::test]
async fn a_failure_ends_what_the_step_left_behind() {
    let rig = Rig::new();
    let (outcome, _) = rig.run(&[&in_background(), "exit /b 1"]).await;
    assert!(matches!(outcome.ending, Ending::Exited(ProcessExit::Code(1))), "{outcome:?}");
    assert!(!rig.is_alive());
}

#[tokio::test]
async fn a_stop_ends_the_whole_family() {
    let rig = Rig::new();
    let stop = async {
        while !rig.is_alive() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        rig.stop.trigger();
    };
    let background = in_background();
    let lines = [background.as_str(), SLEEP];
    let ((outcome, _), ()) = tokio::join!(rig.run(&lines), stop);
    assert!(matches!(outcome.ending, Ending::Stopped), "{outcome:?}");
    assert!(!rig.is_alive());
}

#[tokio::test]
async fn a_background_child_of_a_success_is_left_alone_and_can_be_ended_later() {
    let mut rig = Rig::new();
    rig.limits.drain = Duration::from_millis(300);
    let start = Instant::now();
    let (outcome, collector) = rig.run(&[&in_background(), "echo done"]).await;
    assert!(outcome.ending.is_success(), "{outcome:?}");
    assert_eq!(collector.stdout, "done\r\n");
    assert!(start.elapsed() < DEADLINE);
    assert!(rig.is_alive());
    assert_eq!(rig.reaper.end(vec![Target::by_token(rig.token.as_str())]).await, [] as [i32; 0]);
    assert!(!rig.is_alive());
}

#[tokio::test]
async fn a_job_of_another_process_is_found_by_its_token_and_ends_with_its_last_handle() {
    let rig = Rig::new();
    let mut command = tokio::process::Command::new("ping");
    command.args(["-n", "1000", "127.0.0.1"]).stdout(std::process::Stdio::null());
    let start = |command: &mut tokio::process::Command| command.creation_flags(creation_flags()).spawn();
    let mut child = start(&mut command).unwrap();
    let job = Job::create(Some(&super::step_jobs::name_of(&rig.token))).unwrap();
    job.assign_and_resume(&child).unwrap();
    assert!(rig.is_alive());
    assert_eq!(rig.reaper.end_blocking(vec![Target::by_token(rig.token.as_str())]), [] as [i32; 0]);
    child.wait().await.unwrap();

    let mut child = start(&mut command).unwrap();
    job.assign_and_resume(&child).unwrap();
    drop(job);
    child.wait().await.unwrap();
    assert!(!rig.is_alive());
}

#[tokio::test]
async fn a_program_that_is_not_there_is_named() {
    let rig = Rig::new();
    let spec = ProgramSpec::new("no-such-program", rig.folder.path(), "t");
    let mut sink = Collector::default();
    let stop = StopSignal::new();
    let limits = TimeLimits::default();
    let outcome = supervise(spec, limits, &mut sink, stop, &rig.reaper, AfterExit::EndAll).await;
    let Ending::SpawnFailed(error) = outcome.ending else { panic!("{outcome:?}") };
    assert_eq!(error.to_string(), "the program `no-such-program` was not found on PATH");
}
