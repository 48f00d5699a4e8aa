//! Runs a command of the user's when a run needs a person or is over.
//!
//! The command is started once for each such event, one after the other, in the order of the events. If one takes longer
//! than [`Bounds::alone`], the next starts beside it. Bounds: [`Bounds::at_once`] commands at a time, [`Bounds::queued`]
//! events in the queue, a time limit for each command. The run never waits for a command; errors are reported once, at
//! the end of the run.

#![warn(clippy::wildcard_enum_match_arm, reason = "a new event has to be answered here")]

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::io;
use std::pin::pin;
use std::process::{ExitStatus, Stdio};
use std::rc::Rc;
use std::time::Duration;

use raymond_core::event::{Body, Event};
use raymond_core::run::Run;
use tokio::io::AsyncWriteExt;
use tokio::process::Child;
use tokio::task::JoinSet;
use tokio::time::timeout;

#[cfg(unix)]
mod unix;
#[cfg(windows)]
mod windows;

#[cfg(unix)]
use unix::{CommandProcesses, shell};
#[cfg(windows)]
use windows::{CommandProcesses, shell};

use crate::store::Payloads;
use crate::view::View;
use crate::view::json::event_line;

/// The limits of the commands.
#[derive(Clone, Copy, Debug)]
struct Bounds {
    at_once: usize,
    queued: usize,
    /// How long a command runs before the next one may start beside it.
    alone: Duration,
    /// How long one command may run.
    patience: Duration,
    /// How long the end of the run waits for all of them.
    farewell: Duration,
}

impl Default for Bounds {
    fn default() -> Self {
        Bounds {
            at_once: 8,
            queued: 256,
            alone: Duration::from_secs(2),
            patience: Duration::from_secs(30),
            farewell: Duration::from_secs(10),
        }
    }
}

/// Runs the command of `notify`. Clones are handles to the same notifier, so that one can be a view of the run and
/// another wait for the commands at its end. Must be used inside a [`tokio::task::LocalSet`].
#[derive(Clone)]
pub struct Notifier {
    shared: Rc<Shared>,
    payloads: Payloads,
}

struct Shared {
    command: String,
    bounds: Bounds,
    backlog: RefCell<Backlog>,
    /// Held by the task that may start the next command.
    turn: tokio::sync::Mutex<()>,
    /// [`Bounds::alone`], or less at the end of the run.
    alone: Cell<Duration>,
}

/// The events that wait for a command, the commands that run, and the errors of earlier ones.
#[derive(Default)]
struct Backlog {
    queue: VecDeque<Notice>,
    /// Tasks that each run one command after the other until the queue is empty.
    workers: JoinSet<()>,
    /// How many of these tasks have not ended.
    working: usize,
    /// How many commands run.
    running: usize,
    /// How many events were removed from the full queue.
    dropped: u64,
    /// The first error.
    error: Option<String>,
}

/// An event as the command gets it.
#[derive(Debug)]
struct Notice {
    event: &'static str,
    run: String,
    json: String,
}

impl Notifier {
    pub fn new(command: String, payloads: Payloads) -> Self {
        Self::with_bounds(command, payloads, Bounds::default())
    }

    fn with_bounds(command: String, payloads: Payloads, bounds: Bounds) -> Self {
        let shared = Shared {
            command,
            bounds,
            backlog: RefCell::default(),
            turn: tokio::sync::Mutex::default(),
            alone: Cell::new(bounds.alone),
        };
        Self { shared: Rc::new(shared), payloads }
    }

    /// Waits for commands that still run, ends them after [`Bounds::farewell`], and returns a warning if something went
    /// wrong.
    pub async fn finish(self) -> Option<String> {
        self.shared.hurry();
        let mut workers = std::mem::take(&mut self.shared.backlog.borrow_mut().workers);
        let all_done = async { while workers.join_next().await.is_some() {} };
        let is_done = timeout(self.shared.bounds.farewell, all_done).await.is_ok();
        let warning = self.shared.warning(is_done);
        // Dropping a worker ends its command.
        workers.shutdown().await;
        warning
    }

    fn notify_of(&self, event: &Event) {
        let Some(name) = worth_telling(&event.body) else {
            return;
        };
        if let Some(json) = event_line(event, &self.payloads) {
            self.tell(Notice { event: name, run: event.run.clone(), json });
        }
    }

    fn tell(&self, notice: Notice) {
        let mut backlog = self.shared.backlog.borrow_mut();
        backlog.enqueue(notice, self.shared.bounds.queued);
        // Workers that have ended are removed, so that they do not take up memory.
        while backlog.workers.try_join_next().is_some() {}
        if backlog.working < self.shared.bounds.at_once {
            backlog.working += 1;
            let shared = Rc::clone(&self.shared);
            backlog.workers.spawn_local(async move { shared.work().await });
        }
    }
}

impl View for Notifier {
    fn event(&mut self, _run: &Run, event: &Event) {
        self.notify_of(event);
    }
}

/// The name of the event, if it is one of those that the command is run for.
fn worth_telling(body: &Body) -> Option<&'static str> {
    match body {
        Body::AskOpened(_) => Some("ask_opened"),
        Body::StepFailed(_) => Some("step_failed"),
        Body::BudgetExceeded { .. } => Some("budget_exceeded"),
        Body::LimitWaiting(_) => Some("limit_waiting"),
        Body::RunFinished { .. } => Some("run_finished"),
        Body::RunStopped { .. } => Some("run_stopped"),
        Body::RunStarted(_)
        | Body::AgentStarted(_)
        | Body::StepStarted(_)
        | Body::SessionStarted(_)
        | Body::StepFinished(_)
        | Body::Retry(_)
        | Body::Reminder(_)
        | Body::Delayed { .. }
        | Body::ExclusiveWaiting { .. }
        | Body::AgentFinished { .. }
        | Body::Joined { .. }
        | Body::AskClosed(_)
        | Body::Print { .. }
        | Body::Warning { .. }
        | Body::AgentRetried { .. }
        | Body::AgentMoved { .. }
        | Body::RunResumed(_)
        | Body::Snapshot { .. } => None,
    }
}

impl Backlog {
    /// Adds a notice. If the queue is full, the oldest is dropped: the latest one tells the present state of the run.
    fn enqueue(&mut self, notice: Notice, most: usize) {
        if self.queue.len() >= most.max(1) {
            self.queue.pop_front();
            self.dropped += 1;
        }
        self.queue.push_back(notice);
    }

    fn note(&mut self, error: String) {
        self.error.get_or_insert(error);
    }

    fn take_errors(&mut self) -> Vec<String> {
        let dropped = (self.dropped > 0).then(|| {
            format!("{} events came faster than it could take them and were left out", self.dropped)
        });
        self.error.take().into_iter().chain(dropped).collect()
    }
}

impl Shared {
    fn warning(&self, is_done: bool) -> Option<String> {
        let mut backlog = self.backlog.borrow_mut();
        if !is_done {
            let unfinished = backlog.running + backlog.queue.len();
            let waited = self.bounds.farewell.as_secs();
            backlog.note(format!("{unfinished} had not finished {waited} s after the run and were ended"));
        }
        let errors = backlog.take_errors();
        (!errors.is_empty()).then(|| format!("the notify command `{}`: {}", self.command, errors.join("; ")))
    }

    /// Lets commands start sooner at the end of the run: the last notice says how it ended, so all have to start in half
    /// of the time that is left, and can use the other half.
    fn hurry(&self) {
        let backlog = self.backlog.borrow();
        let waiting = u32::try_from(backlog.running + backlog.queue.len()).unwrap_or(u32::MAX);
        self.alone.set(self.bounds.alone.min(self.bounds.farewell / 2 / waiting.max(1)));
    }

    async fn work(&self) {
        loop {
            let turn = self.turn.lock().await;
            let Some(notice) = self.next() else {
                return;
            };
            self.backlog.borrow_mut().running += 1;
            let mut run = pin!(self.run(&notice));
            let ended = match timeout(self.alone.get(), &mut run).await {
                Ok(ended) => ended,
                Err(_) => {
                    drop(turn);
                    run.await
                }
            };
            self.backlog.borrow_mut().running -= 1;
            if let Err(error) = ended {
                let error = format!("{error} (for {})", notice.event);
                self.backlog.borrow_mut().note(error);
            }
        }
    }

    /// The next notice. If there is none, the worker counts as ended at once, so that a later notice starts a new one.
    fn next(&self) -> Option<Notice> {
        let mut backlog = self.backlog.borrow_mut();
        let next = backlog.queue.pop_front();
        if next.is_none() {
            backlog.working -= 1;
        }
        next
    }

    async fn run(&self, notice: &Notice) -> Result<(), String> {
        let mut command = RunningCommand::start(&self.command, notice)
            .map_err(|error| format!("could not be started: {error}"))?;
        let patience = self.bounds.patience;
        match timeout(patience, command.tell_and_wait(&notice.json)).await {
            Ok(Ok(status)) if status.success() => Ok(()),
            Ok(Ok(status)) => Err(format!("ended with {status}")),
            Ok(Err(error)) => Err(format!("cannot wait for it: {error}")),
            Err(_) => Err(format!("took longer than {} s and was ended", patience.as_secs())),
        }
    }
}

/// Runs the command once, for something that is about no run, and waits for it.
pub async fn tell_alone(command: &str, event: &'static str, json: String) -> Result<(), String> {
    let notice = Notice { event, run: String::new(), json };
    let mut running =
        RunningCommand::start(command, &notice).map_err(|error| format!("could not be started: {error}"))?;
    match timeout(Bounds::default().patience, running.tell_and_wait(&notice.json)).await {
        Ok(Ok(status)) if status.success() => Ok(()),
        Ok(Ok(status)) => Err(format!("ended with {status}")),
        Ok(Err(error)) => Err(format!("cannot wait for it: {error}")),
        Err(_) => Err("took too long and was ended".to_owned()),
    }
}

/// A command that runs. If it is dropped before the command has ended, the command and all its child processes are ended.
struct RunningCommand {
    child: Child,
    processes: CommandProcesses,
}

impl RunningCommand {
    fn start(command: &str, notice: &Notice) -> io::Result<Self> {
        let child = shell(command)
            .env("RAYMOND_EVENT", notice.event)
            .env("RAYMOND_RUN_ID", &notice.run)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .kill_on_drop(true)
            .spawn()?;
        let processes = CommandProcesses::of(&child)?;
        Ok(Self { child, processes })
    }

    /// Writes the event to the command's stdin while waiting for its end: it may end without reading.
    async fn tell_and_wait(&mut self, json: &str) -> io::Result<ExitStatus> {
        let stdin = self.child.stdin.take();
        let tell = async move {
            if let Some(mut stdin) = stdin {
                // A command that does not read its input causes an error here, which is fine.
                let _ = stdin.write_all(format!("{json}\n").as_bytes()).await;
            }
            std::future::pending().await
        };
        tokio::select! {
            status = self.child.wait() => status,
            never = tell => never,
        }
    }
}

impl Drop for RunningCommand {
    fn drop(&mut self) {
        let has_ended = self.child.id().is_none();
        if !has_ended {
            self.processes.end();
        }
    }
}

#[cfg(unix)]
#[cfg(test)]
mod tests;
