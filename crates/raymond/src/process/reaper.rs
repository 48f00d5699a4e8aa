//! Ends process trees: asks them to terminate, waits, kills what is left, and reports when no process is alive.
//!
//! One thread serves all requests. At each tick it scans the process table once, for all of them.
//! Bounds: one request for each step to end; for each request, a record of every living process of it. The time between
//! ticks grows from [`SHORTEST_PAUSE`] to [`LONGEST_PAUSE`].

use std::collections::HashMap;
use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use tokio::sync::oneshot;

use super::cgroup::{Cgroup, Cgroups};
use super::system;
use super::table::{self, Delivery, Demand, Process, Table};
use super::trace::{Group, Trace};

const DEFAULT_GRACE: Duration = Duration::from_secs(5);
const SHORTEST_PAUSE: Duration = Duration::from_millis(5);
const LONGEST_PAUSE: Duration = Duration::from_millis(50);

/// A killed process that still exists after this time hangs in the kernel. It will not run its own code again, so it
/// is not waited for any longer.
const KILL_TIMEOUT: Duration = Duration::from_secs(30);

/// After this time without a scan that succeeds, nothing more can be known of the processes, and they are given up.
const SCAN_PATIENCE: Duration = Duration::from_secs(30);

/// A scan is not atomic. A process may start a child in a part of the table that was already scanned, and exit before
/// its own entry is scanned. So two empty scans in a row are needed.
const EMPTY_SCANS_NEEDED: u32 = 2;

/// A step whose processes are to be ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    pub token: String,
    /// Its process group, if it is known.
    pub group: Option<Group>,
    /// The pipes of its output, if processes are to be looked for that hold one of them.
    pub pipes: Vec<u64>,
    /// Its cgroup, if it has one.
    pub cgroup: Option<Arc<Cgroup>>,
}

impl Target {
    /// Processes of which only the token is known.
    pub fn by_token(token: impl Into<String>) -> Self {
        Target { token: token.into(), group: None, pipes: Vec::new(), cgroup: None }
    }

    /// The processes that an earlier Raymond left behind. While a Raymond lives, pipes prove nothing: a program that it
    /// is just starting has all its files open for a moment.
    pub fn left_behind(token: impl Into<String>, trace: Option<Trace>) -> Self {
        let pipes = trace.into_iter().flat_map(|trace| trace.pipes).filter(|pipe| *pipe != 0).collect();
        Target { token: token.into(), group: trace.map(|trace| trace.group), pipes, cgroup: None }
    }
}

/// A handle to the thread that ends processes. A program should have only one. When it is dropped, the thread completes
/// the open requests and ends.
#[derive(Debug)]
pub struct Reaper {
    grace: Duration,
    /// The channel to the thread, which is started with the first request, because most runs have none.
    requests: Mutex<Option<Sender<Request>>>,
    scans: Arc<AtomicU64>,
    /// The cgroups of the run's steps, where there are any.
    cgroups: Option<Cgroups>,
}

impl Reaper {
    /// Fails if the process table cannot be read.
    pub fn start() -> io::Result<Self> {
        Reaper::with_grace(DEFAULT_GRACE)
    }

    /// `grace` is the time between the request to terminate and the kill.
    pub fn with_grace(grace: Duration) -> io::Result<Self> {
        table::check()?;
        system::keep_exit_codes();
        Ok(Reaper { grace, requests: Mutex::new(None), scans: Arc::new(AtomicU64::new(0)), cgroups: None })
    }

    /// From now on, programs are started in cgroups if this user may make them. `scratch` is the run's folder for files
    /// of its steps. Must be called after the processes of an earlier process of the run have been ended.
    pub fn contain(&mut self, run: &str, scratch: &Path) {
        self.cgroups = Cgroups::open(run, scratch);
    }

    /// An empty cgroup for a program.
    pub(super) fn cgroup(&self) -> Option<Arc<Cgroup>> {
        self.cgroups.as_ref()?.take()
    }

    /// Ends all processes of the targets. The work begins when this is called, and continues if the future is dropped.
    /// Returns the processes that could not be ended (see [`super::Supervised::survivors`]).
    pub fn end(&self, targets: Vec<Target>) -> impl Future<Output = Vec<i32>> + Send + 'static {
        let (report, survivors) = oneshot::channel();
        self.request(targets, move |found| drop(report.send(found)));
        async move { survivors.await.expect("the reaper answers every request") }
    }

    /// The same, blocking; for recovery at start-up.
    pub fn end_blocking(&self, targets: Vec<Target>) -> Vec<i32> {
        let (report, survivors) = mpsc::channel();
        self.request(targets, move |found| drop(report.send(found)));
        survivors.recv().expect("the reaper answers every request")
    }

    /// The same, without waiting for the result.
    pub(super) fn end_unattended(&self, targets: Vec<Target>) {
        self.request(targets, drop);
    }

    /// How often the process table has been scanned.
    #[cfg(all(test, unix))]
    pub(super) fn scans(&self) -> u64 {
        self.scans.load(Ordering::Relaxed)
    }

    fn request(&self, targets: Vec<Target>, report: impl FnOnce(Vec<i32>) + Send + 'static) {
        let request = Request { targets, report: Box::new(report) };
        let mut requests = self.requests.lock().unwrap_or_else(PoisonError::into_inner);
        if requests.is_none() {
            *requests = self.start_thread().ok();
        }
        match &*requests {
            Some(requests) => requests.send(request).expect("the reaper lives as long as its handle"),
            // No thread can be started. Ending processes is more important than not blocking.
            None => self.work_here(request),
        }
    }

    fn start_thread(&self) -> io::Result<Sender<Request>> {
        let (requests, worker) = self.worker();
        thread::Builder::new().name("reaper".to_owned()).spawn(move || worker.run())?;
        Ok(requests)
    }

    fn work_here(&self, request: Request) {
        let (requests, worker) = self.worker();
        requests.send(request).expect("the worker is here");
        drop(requests);
        worker.run();
    }

    fn worker(&self) -> (Sender<Request>, Worker) {
        let (requests, receiver) = mpsc::channel();
        (requests, Worker::new(receiver, self.grace, Arc::clone(&self.scans)))
    }
}

struct Request {
    targets: Vec<Target>,
    report: Box<dyn FnOnce(Vec<i32>) + Send>,
}

impl std::fmt::Debug for Request {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Request").field("targets", &self.targets).finish_non_exhaustive()
    }
}

struct Worker {
    requests: Receiver<Request>,
    grace: Duration,
    scans: Arc<AtomicU64>,
    active: Vec<ActiveRequest>,
    pause: Duration,
    scan: fn(&[&Target]) -> io::Result<Table>,
    /// Since when no scan has succeeded.
    blind_since: Option<Instant>,
    patience: Duration,
}

impl Worker {
    fn new(requests: Receiver<Request>, grace: Duration, scans: Arc<AtomicU64>) -> Self {
        Worker {
            requests,
            grace,
            scans,
            active: Vec::new(),
            pause: SHORTEST_PAUSE,
            scan: Table::scan,
            blind_since: None,
            patience: SCAN_PATIENCE,
        }
    }

    fn run(mut self) {
        while self.wait_for_work() {
            self.tick();
        }
    }

    /// Waits for the next tick or the next request. Returns `false` when there is no work and no more can come.
    fn wait_for_work(&mut self) -> bool {
        let first = if self.active.is_empty() {
            self.requests.recv().ok()
        } else {
            match self.requests.recv_timeout(self.pause) {
                Ok(request) => Some(request),
                Err(RecvTimeoutError::Timeout) => None,
                Err(RecvTimeoutError::Disconnected) => {
                    thread::sleep(self.pause);
                    None
                }
            }
        };
        self.pause = if first.is_some() {
            SHORTEST_PAUSE
        } else {
            (self.pause * 2).clamp(SHORTEST_PAUSE, LONGEST_PAUSE)
        };
        let kill_at = Instant::now() + self.grace;
        let requests = first.into_iter().chain(self.requests.try_iter());
        self.active.extend(requests.map(|request| ActiveRequest::new(request, kill_at)));
        !self.active.is_empty()
    }

    fn tick(&mut self) {
        let targets: Vec<&Target> = self.active.iter().flat_map(|active| &active.request.targets).collect();
        let scanned = (self.scan)(&targets);
        let now = Instant::now();
        let table = match scanned {
            Ok(table) => table,
            // What prevents a scan (too many open files, for example) may be over by the next tick.
            Err(_) if now - *self.blind_since.get_or_insert(now) < self.patience => return,
            Err(error) => {
                tracing::error!(%error, "cannot look at the processes of the system");
                return self.active.drain(..).for_each(ActiveRequest::give_up);
            }
        };
        self.blind_since = None;
        self.scans.fetch_add(1, Ordering::Relaxed);
        for mut request in std::mem::take(&mut self.active) {
            if request.advance(&table, now) {
                request.finish();
            } else {
                self.active.push(request);
            }
        }
        if self.active.iter().any(|request| request.empty_scans > 0) {
            // No process needs time to end, so the second scan can follow at once.
            self.pause = Duration::ZERO;
        }
    }
}

/// A request that is being worked on.
struct ActiveRequest {
    request: Request,
    kill_at: Instant,
    known: HashMap<i32, KnownProcess>,
    is_first_scan: bool,
    empty_scans: u32,
    /// Whether groups and cgroups were killed as a whole after no process was found any more.
    is_swept: bool,
}

/// A living process of the request. It is remembered, because after the death of its parent there may be no other sign
/// that it belongs to the step.
struct KnownProcess {
    started: u64,
    told: Option<Demand>,
    killed_at: Option<Instant>,
    refused: bool,
}

impl KnownProcess {
    fn new(process: &Process) -> Self {
        Self::unseen(process.started)
    }

    fn unseen(started: u64) -> Self {
        KnownProcess { started, told: None, killed_at: None, refused: false }
    }

    fn is_beyond_reach(&self, now: Instant) -> bool {
        self.refused || self.killed_at.is_some_and(|killed_at| now - killed_at > KILL_TIMEOUT)
    }

    fn tell(&mut self, process: &Process, demand: Demand, now: Instant) {
        if self.told >= Some(demand) {
            return;
        }
        self.told = Some(demand);
        // If we have no permission to send SIGTERM, we have none to send SIGKILL.
        self.refused = table::send(process, demand) == Delivery::Refused;
        if demand == Demand::Kill {
            self.killed_at = Some(now);
        }
    }
}

impl ActiveRequest {
    fn new(request: Request, kill_at: Instant) -> Self {
        ActiveRequest {
            request,
            kill_at,
            known: HashMap::new(),
            is_first_scan: true,
            empty_scans: 0,
            is_swept: false,
        }
    }

    /// Sends the signals that are due. Returns whether the request is done.
    fn advance(&mut self, table: &Table, now: Instant) -> bool {
        let known = self.known.iter().map(|(pid, known)| (*pid, known.started));
        let members = table.members(&self.request.targets, known);
        self.remember(&members);
        for process in &members {
            if let Some(demand) = self.demand(process, now)
                && let Some(known) = self.known.get_mut(&process.pid)
            {
                known.tell(process, demand, now);
            }
        }
        self.is_first_scan = false;
        let is_empty = self.known.values().all(|known| known.is_beyond_reach(now));
        self.empty_scans = if is_empty { self.empty_scans + 1 } else { 0 };
        if now >= self.kill_at && !is_empty {
            self.sweep(table);
        }
        if self.empty_scans < EMPTY_SCANS_NEEDED {
            return false;
        }
        let is_done = self.is_swept || !self.sweep(table);
        if !is_done {
            (self.is_swept, self.empty_scans) = (true, 0);
        }
        is_done
    }

    /// Kills whole groups and cgroups at once. Processes that each start another one and exit can escape every scan, but not this.
    /// Returns whether there was something to kill.
    fn sweep(&self, table: &Table) -> bool {
        let groups = self.request.targets.iter().filter_map(|target| table.whole_group(target));
        let cgroups = self.request.targets.iter().filter_map(|target| target.cgroup.as_ref());
        let killed =
            groups.filter(table::kill_group).count() + cgroups.filter(|cgroup| cgroup.kill()).count();
        killed > 0
    }

    fn remember(&mut self, members: &[&Process]) {
        let mut before = std::mem::take(&mut self.known);
        for process in members {
            let same = before.remove(&process.pid).filter(|known| known.started == process.started);
            self.known.insert(process.pid, same.unwrap_or_else(|| KnownProcess::new(process)));
        }
    }

    /// A process that starts while the tree is being ended is usually part of a program's clean-up. It is left to that
    /// program, and asked to terminate only when it has no parent in the tree.
    fn demand(&self, process: &Process, now: Instant) -> Option<Demand> {
        if now >= self.kill_at {
            Some(Demand::Kill)
        } else if self.is_first_scan || !self.known.contains_key(&process.parent) {
            Some(Demand::Terminate)
        } else {
            None
        }
    }

    /// Kills what can be killed unseen, and reports every process that may be alive.
    fn give_up(mut self) {
        let targets = &self.request.targets;
        let killed =
            targets.iter().filter(|target| target.cgroup.as_ref().is_some_and(|cgroup| cgroup.kill()));
        let _ = killed.count();
        for group in targets.iter().filter_map(|target| target.group) {
            self.known.entry(group.id).or_insert(KnownProcess::unseen(group.started));
        }
        self.finish();
    }

    fn finish(self) {
        let Request { targets, report } = self.request;
        // Cgroups are given back first: this process may end as soon as it gets the report.
        drop(targets);
        report(self.known.into_keys().collect());
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    #[test]
    fn processes_are_ended_even_if_no_thread_can_be_started() {
        let token = format!("no-thread-{}", std::process::id());
        let mut command = std::process::Command::new("sleep");
        let mut child = command.arg("317").env(crate::process::TOKEN_VARIABLE, &token).spawn().unwrap();
        // The parent continues a moment before the new program's environment can be read.
        let environment = format!("/proc/{}/environ", child.id());
        let has_token = || std::fs::read_to_string(&environment).is_ok_and(|text| text.contains(&token));
        while !has_token() {
            std::thread::yield_now();
        }
        let (report, survivors) = mpsc::channel();
        let report = Box::new(move |found| report.send(found).unwrap());
        Reaper::start().unwrap().work_here(Request { targets: vec![Target::by_token(token)], report });
        assert_eq!(survivors.recv().unwrap(), [] as [i32; 0]);
        assert!(!child.wait().unwrap().success());
    }

    /// For example, `/proc` may have been hidden since the start.
    #[test]
    fn processes_that_can_never_be_seen_are_given_up() {
        let (requests, receiver) = mpsc::channel();
        let blind = |_: &[&Target]| Err(io::ErrorKind::PermissionDenied.into());
        let worker = Worker {
            scan: blind,
            patience: Duration::from_millis(20),
            ..Worker::new(receiver, DEFAULT_GRACE, Arc::default())
        };
        let (report, survivors) = mpsc::channel();
        let report = Box::new(move |found| report.send(found).unwrap());
        let group = Some(Group { id: i32::MAX, session: 0, started: 1 });
        let target = Target { group, ..Target::by_token("unseen") };
        requests.send(Request { targets: vec![target], report }).unwrap();
        drop(requests);
        worker.run();
        assert_eq!(survivors.recv().unwrap(), [i32::MAX], "it may be alive");
    }
}
