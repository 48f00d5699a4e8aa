//! Starts scripts under supervision and waits for what they do.

use std::fs;
use std::path::Path;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use tempfile::TempDir;

use crate::process::*;

/// Long enough that only a hang reaches it, on a slow machine shared with others.
pub(super) const DEADLINE: Duration = Duration::from_secs(120);

/// Time limits to try in turn. A script has to reach some point before its time is over. Usually the first limit is
/// enough; a slow machine may need a longer one.
pub(super) const TIMES: [Duration; 3] =
    [Duration::from_secs(1), Duration::from_secs(6), Duration::from_secs(36)];

pub(super) struct Rig {
    pub(super) folder: TempDir,
    pub(super) reaper: Reaper,
    pub(super) limits: TimeLimits,
    pub(super) after_exit: AfterExit,
    pub(super) stop: StopSignal,
}

impl Rig {
    pub(super) fn new() -> Self {
        Rig::with_grace(Duration::from_secs(20))
    }

    pub(super) fn with_grace(grace: Duration) -> Self {
        Rig {
            folder: TempDir::new_in(std::env::temp_dir().canonicalize().unwrap()).unwrap(),
            reaper: Reaper::with_grace(grace).unwrap(),
            limits: TimeLimits::default(),
            after_exit: AfterExit::LeaveBackground,
            stop: StopSignal::new(),
        }
    }

    pub(super) fn spec(&self, script: &str) -> ProgramSpec {
        let mut spec = ProgramSpec::new("bash", self.folder.path(), unique_token());
        spec.args = vec!["-c".into(), script.into()];
        spec
    }

    pub(super) async fn run(&self, script: &str) -> (Supervised, Collector) {
        let mut collector = Collector::default();
        let outcome = self.supervise(self.spec(script), &mut collector).await;
        (outcome, collector)
    }

    pub(super) async fn supervise(&self, spec: ProgramSpec, sink: &mut dyn Sink) -> Supervised {
        supervise(spec, self.limits, sink, self.stop.clone(), &self.reaper, self.after_exit).await
    }

    /// Whether the script has created this file.
    pub(super) fn has(&self, file: &str) -> bool {
        self.folder.path().join(file).exists()
    }

    /// The process ids that the script wrote into this file, one on each line.
    pub(super) fn pids(&self, file: &str) -> Vec<i32> {
        let text = fs::read_to_string(self.folder.path().join(file)).unwrap_or_default();
        text.lines().map(|line| line.parse().unwrap()).collect()
    }
}

pub(super) fn unique_token() -> String {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    format!("test-{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed))
}

/// Keeps all output.
#[derive(Default)]
pub(super) struct Collector {
    pub(super) stdout: Vec<u8>,
    pub(super) stderr: Vec<u8>,
}

impl Sink for Collector {
    fn stdout(&mut self, bytes: &[u8]) -> Flow {
        self.stdout.extend_from_slice(bytes);
        Flow::Continue
    }

    fn stderr(&mut self, bytes: &[u8]) -> Flow {
        self.stderr.extend_from_slice(bytes);
        Flow::Continue
    }
}

/// Calls a function with each chunk of stdout.
pub(super) struct Judge<F>(pub(super) F);

impl<F: FnMut(&str) -> Flow> Sink for Judge<F> {
    fn stdout(&mut self, bytes: &[u8]) -> Flow {
        (self.0)(&String::from_utf8_lossy(bytes))
    }

    fn stderr(&mut self, _bytes: &[u8]) -> Flow {
        Flow::Continue
    }
}

/// A zombie counts as dead.
pub(super) fn is_alive(pid: i32) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit_once(") ").is_some_and(|(_, fields)| !fields.starts_with(['Z', 'X']))
}

pub(super) fn assert_all_dead(pids: &[i32]) {
    let alive: Vec<&i32> = pids.iter().filter(|pid| is_alive(**pid)).collect();
    assert!(alive.is_empty(), "still alive: {alive:?} of {pids:?}");
}

/// Polls for a condition, because there is no event to wait for.
pub(super) async fn eventually(what: &str, mut condition: impl FnMut() -> bool) {
    let start = Instant::now();
    while !condition() {
        assert!(start.elapsed() < DEADLINE, "this did not happen: {what}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

pub(super) fn line_count(file: &Path) -> usize {
    fs::read_to_string(file).unwrap_or_default().lines().count()
}
