//! Ends process trees: asks politely, waits, kills, and says when nothing is alive any more.
//!
//! One thread serves all requests. At each tick it looks at the system's processes once, for all of them.
//! Bounds: as many requests as there are steps to end; per request, what is remembered of its living
//! processes. The time between ticks grows from [`SHORTEST_PAUSE`] to [`LONGEST_PAUSE`].

use std::collections::HashMap;
use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use tokio::sync::oneshot;

use super::system;
use super::table::{self, Delivery, Demand, Process, Table};

const DEFAULT_GRACE: Duration = Duration::from_secs(5);
const SHORTEST_PAUSE: Duration = Duration::from_millis(5);
const LONGEST_PAUSE: Duration = Duration::from_millis(50);

/// A killed process that is still there after this time hangs in the kernel. It will run none of its own code
/// again, so there is nothing to wait for.
const KILL_PATIENCE: Duration = Duration::from_secs(30);

/// A look is not a moment: a process may start another where we have looked already, and end where we have
/// not looked yet. Finding nobody therefore counts only when it happens twice in a row.
const EMPTY_LOOKS_NEEDED: u32 = 2;

/// A step whose processes are to be ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    pub token: String,
    /// Its process group, if that is known and was used by it until a moment ago.
    pub group: Option<i32>,
}

impl Target {
    /// What is left of the step of a Raymond that is no more.
    pub fn by_token(token: impl Into<String>) -> Self {
        Target { token: token.into(), group: None }
    }
}

/// A handle on the thread that ends processes. There should be one in a program. When it is dropped, the
/// thread finishes what it was asked for and ends.
#[derive(Debug)]
pub struct Reaper {
    grace: Duration,
    /// The way to the thread, which is started when it is first needed: most runs end nothing.
    requests: Mutex<Option<Sender<Request>>>,
    looks: Arc<AtomicU64>,
}

impl Reaper {
    /// Fails where processes cannot be looked at.
    pub fn start() -> io::Result<Self> {
        Reaper::with_grace(DEFAULT_GRACE)
    }

    /// `grace` is the time between the polite request and the kill.
    pub fn with_grace(grace: Duration) -> io::Result<Self> {
        table::check()?;
        system::keep_exit_codes();
        Ok(Reaper { grace, requests: Mutex::new(None), looks: Arc::new(AtomicU64::new(0)) })
    }

    /// Ends everything that belongs to the targets. The work is under way as soon as this is called, and goes
    /// on even if the future is dropped. The result names what could not be ended (see [`super::Outcome`]).
    pub fn end(&self, targets: Vec<Target>) -> impl Future<Output = Vec<i32>> + Send + 'static {
        let (report, survivors) = oneshot::channel();
        self.request(targets, move |found| drop(report.send(found)));
        async move { survivors.await.expect("the reaper answers every request") }
    }

    /// The same for a caller that has nothing else to do, such as recovery at start-up.
    pub fn end_blocking(&self, targets: Vec<Target>) -> Vec<i32> {
        let (report, survivors) = mpsc::channel();
        self.request(targets, move |found| drop(report.send(found)));
        survivors.recv().expect("the reaper answers every request")
    }

    /// The same for a caller that cannot wait.
    pub(super) fn end_unattended(&self, targets: Vec<Target>) {
        self.request(targets, drop);
    }

    /// How often the system's processes have been looked at.
    pub fn looks(&self) -> u64 {
        self.looks.load(Ordering::Relaxed)
    }

    fn request(&self, targets: Vec<Target>, report: impl FnOnce(Vec<i32>) + Send + 'static) {
        let request = Request { targets, report: Box::new(report) };
        let mut requests = self.requests.lock().unwrap_or_else(PoisonError::into_inner);
        if requests.is_none() {
            *requests = self.start_thread().ok();
        }
        match &*requests {
            Some(requests) => requests.send(request).expect("the reaper lives as long as its handle"),
            // The system has no thread to spare, and processes must end: then everything else waits.
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
        (requests, Worker::new(receiver, self.grace, Arc::clone(&self.looks)))
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
    looks: Arc<AtomicU64>,
    jobs: Vec<Job>,
    pause: Duration,
}

impl Worker {
    fn new(requests: Receiver<Request>, grace: Duration, looks: Arc<AtomicU64>) -> Self {
        Worker { requests, grace, looks, jobs: Vec::new(), pause: SHORTEST_PAUSE }
    }

    fn run(mut self) {
        while self.wait_for_work() {
            self.tick();
        }
    }

    /// Waits for the next tick or the next request; says `false` when there is no work and never will be.
    fn wait_for_work(&mut self) -> bool {
        let first = if self.jobs.is_empty() {
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
        self.jobs.extend(requests.map(|request| Job::new(request, kill_at)));
        !self.jobs.is_empty()
    }

    fn tick(&mut self) {
        let targets: Vec<&Target> = self.jobs.iter().flat_map(|job| &job.request.targets).collect();
        // Whatever keeps us from looking (too many open files, say) may be over by the next tick.
        let Ok(table) = Table::look(&targets) else { return };
        self.looks.fetch_add(1, Ordering::Relaxed);
        let now = Instant::now();
        for mut job in std::mem::take(&mut self.jobs) {
            if job.advance(&table, now) {
                job.finish();
            } else {
                self.jobs.push(job);
            }
        }
        if self.jobs.iter().any(|job| job.empty_looks > 0) {
            // Nobody is given time to end any more: the second look, which makes sure, can follow at once.
            self.pause = Duration::ZERO;
        }
    }
}

/// One request on its way.
struct Job {
    request: Request,
    kill_at: Instant,
    known: HashMap<i32, Known>,
    is_first_look: bool,
    empty_looks: u32,
}

/// A living process of the request. Remembered, because when its parent dies nothing else may show that it
/// belongs.
struct Known {
    started: u64,
    told: Option<Demand>,
    killed_at: Option<Instant>,
    refused: bool,
}

impl Known {
    fn new(process: &Process) -> Self {
        Known { started: process.started, told: None, killed_at: None, refused: false }
    }

    fn is_beyond_reach(&self, now: Instant) -> bool {
        self.refused || self.killed_at.is_some_and(|killed_at| now - killed_at > KILL_PATIENCE)
    }

    fn tell(&mut self, process: &Process, demand: Demand, now: Instant) {
        if self.told >= Some(demand) {
            return;
        }
        self.told = Some(demand);
        // Who refuses a polite request by our permissions refuses the other one as well.
        self.refused = table::send(process, demand) == Delivery::Refused;
        if demand == Demand::Kill {
            self.killed_at = Some(now);
        }
    }
}

impl Job {
    fn new(request: Request, kill_at: Instant) -> Self {
        Job { request, kill_at, known: HashMap::new(), is_first_look: true, empty_looks: 0 }
    }

    /// Signals what is due to be signalled, and says whether the work is done.
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
        self.is_first_look = false;
        let is_empty = self.known.values().all(|known| known.is_beyond_reach(now));
        self.empty_looks = if is_empty { self.empty_looks + 1 } else { 0 };
        self.empty_looks >= EMPTY_LOOKS_NEEDED
    }

    fn remember(&mut self, members: &[&Process]) {
        let mut before = std::mem::take(&mut self.known);
        for process in members {
            let same = before.remove(&process.pid).filter(|known| known.started == process.started);
            self.known.insert(process.pid, same.unwrap_or_else(|| Known::new(process)));
        }
    }

    /// What starts while the tree is being ended is mostly the cleaning up of a program that was asked to
    /// end. It is left to that program, and only asked as well once it has no parent in the tree.
    fn demand(&self, process: &Process, now: Instant) -> Option<Demand> {
        if now >= self.kill_at {
            Some(Demand::Kill)
        } else if self.is_first_look || !self.known.contains_key(&process.parent) {
            Some(Demand::Terminate)
        } else {
            None
        }
    }

    fn finish(self) {
        (self.request.report)(self.known.into_keys().collect());
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
        let (report, survivors) = mpsc::channel();
        let report = Box::new(move |found| report.send(found).unwrap());
        Reaper::start().unwrap().work_here(Request { targets: vec![Target::by_token(token)], report });
        assert_eq!(survivors.recv().unwrap(), [] as [i32; 0]);
        assert!(!child.wait().unwrap().success());
    }
}
