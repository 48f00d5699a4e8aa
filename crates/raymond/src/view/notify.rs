//! The user's own command, run when a run needs a person or is over.
//!
//! They run one after the other, in the order of the events; one that takes longer than [`Bounds::alone`] is no longer
//! waited for. Bounds: [`Bounds::at_once`] commands at a time, [`Bounds::queued`] waiting, a time limit for each.
//! Nothing here ever holds up the run; what goes wrong is said once, at its end.

#![warn(clippy::wildcard_enum_match_arm, reason = "a new event has to be answered here")]

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::io;
use std::pin::pin;
use std::process::{ExitStatus, Stdio};
use std::rc::Rc;
use std::time::Duration;

use raymond_core::event::{Body, Event};
use tokio::io::AsyncWriteExt;
use tokio::process::Child;
use tokio::task::JoinSet;
use tokio::time::timeout;

#[cfg(unix)]
mod unix;
#[cfg(windows)]
mod windows;

#[cfg(unix)]
use unix::{Everything, shell};
#[cfg(windows)]
use windows::{Everything, shell};

use crate::store::Payloads;
use crate::view::Observer;
use crate::view::json::event_line;

/// How much notifying may take.
#[derive(Clone, Copy, Debug)]
struct Bounds {
    at_once: usize,
    queued: usize,
    /// How long a command has to itself before the next one starts.
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

/// Runs the command of `notify`. Clones are handles to the same notifier, so that one can watch the run and
/// another wait at its end. Must be used inside a [`tokio::task::LocalSet`].
#[derive(Clone)]
pub struct Notifier {
    shared: Rc<Shared>,
    payloads: Payloads,
}

struct Shared {
    command: String,
    bounds: Bounds,
    state: RefCell<State>,
    /// Whose turn it is to start a command.
    turn: tokio::sync::Mutex<()>,
    /// How long a command has before the next one starts beside it.
    alone: Cell<Duration>,
}

#[derive(Default)]
struct State {
    queue: VecDeque<Notice>,
    /// Tasks that each run one command after the other until none waits.
    workers: JoinSet<()>,
    working: usize,
    /// Commands that run.
    running: usize,
    dropped: u64,
    /// The first thing that went wrong.
    trouble: Option<String>,
}

/// One thing to tell.
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
            state: RefCell::default(),
            turn: tokio::sync::Mutex::default(),
            alone: Cell::new(bounds.alone),
        };
        Self { shared: Rc::new(shared), payloads }
    }

    /// Waits a while for what still runs, ends the rest, and says what went wrong, if anything did.
    pub async fn finish(self) -> Option<String> {
        self.shared.hurry();
        let mut workers = std::mem::take(&mut self.shared.state.borrow_mut().workers);
        let all_done = async { while workers.join_next().await.is_some() {} };
        let is_done = timeout(self.shared.bounds.farewell, all_done).await.is_ok();
        let warning = self.shared.warning(is_done);
        // Dropping a worker ends its command.
        workers.shutdown().await;
        warning
    }

    fn tell(&self, notice: Notice) {
        let mut state = self.shared.state.borrow_mut();
        state.enqueue(notice, self.shared.bounds.queued);
        // Workers that are done are of no interest, and must not pile up.
        while state.workers.try_join_next().is_some() {}
        if state.working < self.shared.bounds.at_once {
            state.working += 1;
            let shared = Rc::clone(&self.shared);
            state.workers.spawn_local(async move { shared.work().await });
        }
    }
}

impl Observer for Notifier {
    fn event(&mut self, event: &Event) {
        let Some(name) = worth_telling(&event.body) else {
            return;
        };
        if let Some(json) = event_line(event, &self.payloads) {
            self.tell(Notice { event: name, run: event.run.clone(), json });
        }
    }
}

/// The name of an event that a person wants to hear of.
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
        | Body::AgentFinished { .. }
        | Body::Joined { .. }
        | Body::AskClosed(_)
        | Body::Print { .. }
        | Body::Warning { .. }
        | Body::RunResumed(_)
        | Body::Snapshot { .. } => None,
    }
}

impl State {
    /// News that nobody has taken yet make room for newer ones: the last says how the run stands.
    fn enqueue(&mut self, notice: Notice, most: usize) {
        if self.queue.len() >= most.max(1) {
            self.queue.pop_front();
            self.dropped += 1;
        }
        self.queue.push_back(notice);
    }

    fn note(&mut self, trouble: String) {
        self.trouble.get_or_insert(trouble);
    }

    fn troubles(&mut self) -> Vec<String> {
        let dropped = (self.dropped > 0).then(|| {
            format!("{} events came faster than it could take them and were left out", self.dropped)
        });
        self.trouble.take().into_iter().chain(dropped).collect()
    }
}

impl Shared {
    fn warning(&self, is_done: bool) -> Option<String> {
        let mut state = self.state.borrow_mut();
        if !is_done {
            let unfinished = state.running + state.queue.len();
            let waited = self.bounds.farewell.as_secs();
            state.note(format!("{unfinished} had not finished {waited} s after the run and were ended"));
        }
        let troubles = state.troubles();
        (!troubles.is_empty())
            .then(|| format!("the notify command `{}`: {}", self.command, troubles.join("; ")))
    }

    /// The last notice says how the run ended, so all have to start in the time that is left, and with time to end.
    fn hurry(&self) {
        let state = self.state.borrow();
        let waiting = u32::try_from(state.running + state.queue.len()).unwrap_or(u32::MAX);
        self.alone.set(self.bounds.alone.min(self.bounds.farewell / 2 / waiting.max(1)));
    }

    async fn work(&self) {
        loop {
            let turn = self.turn.lock().await;
            let Some(notice) = self.next() else {
                return;
            };
            self.state.borrow_mut().running += 1;
            let mut run = pin!(self.run(&notice));
            let ended = match timeout(self.alone.get(), &mut run).await {
                Ok(ended) => ended,
                Err(_) => {
                    drop(turn);
                    run.await
                }
            };
            self.state.borrow_mut().running -= 1;
            if let Err(trouble) = ended {
                let trouble = format!("{trouble} (for {})", notice.event);
                self.state.borrow_mut().note(trouble);
            }
        }
    }

    /// The next notice. Without one the worker counts as gone, at once, so that the next notice gets a new one.
    fn next(&self) -> Option<Notice> {
        let mut state = self.state.borrow_mut();
        let next = state.queue.pop_front();
        if next.is_none() {
            state.working -= 1;
        }
        next
    }

    async fn run(&self, notice: &Notice) -> Result<(), String> {
        let mut program = Program::start(&self.command, notice)
            .map_err(|error| format!("could not be started: {error}"))?;
        let patience = self.bounds.patience;
        match timeout(patience, program.tell_and_wait(&notice.json)).await {
            Ok(Ok(status)) if status.success() => Ok(()),
            Ok(Ok(status)) => Err(format!("ended with {status}")),
            Ok(Err(error)) => Err(format!("its end could not be seen: {error}")),
            Err(_) => Err(format!("took longer than {} s and was ended", patience.as_secs())),
        }
    }
}

/// A command that runs. When dropped before it has ended, it is ended with all it started.
struct Program {
    child: Child,
    everything: Everything,
}

impl Program {
    fn start(command: &str, notice: &Notice) -> io::Result<Self> {
        let child = shell(command)
            .env("RAYMOND_EVENT", notice.event)
            .env("RAYMOND_RUN_ID", &notice.run)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .kill_on_drop(true)
            .spawn()?;
        let everything = Everything::of(&child)?;
        Ok(Self { child, everything })
    }

    /// Hands the event over while waiting, because a command need not read it to end.
    async fn tell_and_wait(&mut self, json: &str) -> io::Result<ExitStatus> {
        let stdin = self.child.stdin.take();
        let tell = async move {
            if let Some(mut stdin) = stdin {
                // A command that does not read its input is no trouble.
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

impl Drop for Program {
    fn drop(&mut self) {
        let has_ended = self.child.id().is_none();
        if !has_ended {
            self.everything.end();
        }
    }
}

#[cfg(unix)]
#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::{Path, PathBuf};

    use raymond_core::event::{StepFailed, StoppedStatus, Totals};
    use raymond_core::money::Usd;
    use raymond_core::name::AgentId;
    use raymond_core::workflow::StateFile;
    use serde_json::Value;
    use tempfile::TempDir;
    use tokio::task::LocalSet;

    use super::*;
    use crate::store::Durability;

    /// Runs a command for some events and gives its folder and the warning.
    async fn notified(command: &str, bounds: Bounds, events: &[Event]) -> (TempDir, Option<String>) {
        let folder = tempfile::tempdir().unwrap();
        let command = command.replace("HERE", folder.path().to_str().unwrap());
        let warning = LocalSet::new()
            .run_until(async {
                let notifier = Notifier::with_bounds(command, payloads(folder.path()), bounds);
                let mut observer = notifier.clone();
                events.iter().for_each(|event| observer.event(event));
                notifier.finish().await
            })
            .await;
        (folder, warning)
    }

    fn payloads(folder: &Path) -> Payloads {
        Payloads::new(folder.join("payloads"), Durability::Process)
    }

    fn event(seq: u64, body: Body) -> Event {
        Event { seq, time: jiff::Timestamp::UNIX_EPOCH, run: "run-1".to_owned(), body }
    }

    fn over_budget(seq: u64) -> Event {
        let body = Body::BudgetExceeded { cost_usd: Usd::ZERO, budget_usd: Usd::ZERO };
        event(seq, body)
    }

    fn failed(seq: u64, error: &str) -> Event {
        event(
            seq,
            Body::StepFailed(StepFailed {
                agent: AgentId::main(),
                step: Some(1),
                state: StateFile::new("A.sh").unwrap(),
                error: error.to_owned(),
                exit_code: None,
                stderr: String::new(),
                message: None,
                fatal: true,
                cost_usd: Usd::ZERO,
                attempt_cost_usd: Usd::ZERO,
                cost_estimated: false,
                duration_ms: 0,
            }),
        )
    }

    fn stopped(seq: u64) -> Event {
        event(
            seq,
            Body::RunStopped {
                asks: Vec::new(),
                status: StoppedStatus::Failed,
                error: None,
                interrupted: Vec::new(),
                totals: Totals { steps: 1, agents: 1, cost_usd: Usd::ZERO, duration_ms: 0 },
            },
        )
    }

    fn read(folder: &TempDir, name: &str) -> String {
        fs::read_to_string(folder.path().join(name)).unwrap()
    }

    /// A pipe in the file system: who reads it to its end has waited for the death of all who write to it.
    fn fifo(folder: &TempDir) -> PathBuf {
        let path = folder.path().join("fifo");
        let made = std::process::Command::new("mkfifo").arg(&path).status().unwrap();
        assert!(made.success());
        path
    }

    fn read_to_end(pipe: PathBuf) -> tokio::task::JoinHandle<String> {
        tokio::task::spawn_blocking(move || fs::read_to_string(pipe).unwrap())
    }

    /// Waits for the reader. A command that was ended before it got to the pipe would leave it waiting for one.
    async fn join(reader: tokio::task::JoinHandle<String>, pipe: &Path) {
        use std::os::unix::fs::OpenOptionsExt;
        let not_blocking = rustix::fs::OFlags::NONBLOCK.bits().cast_signed();
        while !reader.is_finished() {
            let _ = fs::OpenOptions::new().write(true).custom_flags(not_blocking).open(pipe);
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        reader.await.unwrap();
    }

    #[tokio::test]
    async fn the_command_learns_what_happened() {
        let events = [failed(1, "no"), over_budget(2), stopped(3)];
        let bounds = Bounds { at_once: 1, ..Bounds::default() };
        let (folder, warning) = notified(
            r#"echo "$RAYMOND_EVENT $RAYMOND_RUN_ID" >> HERE/told; cat >> HERE/json"#,
            bounds,
            &events,
        )
        .await;
        assert_eq!(warning, None);
        assert_eq!(read(&folder, "told"), "step_failed run-1\nbudget_exceeded run-1\nrun_stopped run-1\n");
        let json = read(&folder, "json");
        let lines: Vec<Value> = json.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        assert_eq!(lines.len(), 3);
        assert_eq!(lines[0]["error"], "no");
        assert_eq!(lines[2]["event"], "run_stopped");
    }

    #[tokio::test]
    async fn other_events_are_nobodys_business() {
        let print = Body::Warning { agent: None, step: None, state: None, message: "hm".to_owned() };
        let (folder, warning) = notified("touch HERE/told", Bounds::default(), &[event(1, print)]).await;
        assert_eq!(warning, None);
        assert!(!folder.path().join("told").exists());
    }

    #[tokio::test]
    async fn a_command_that_reads_nothing_is_no_trouble() {
        let long = "x".repeat(1024 * 1024);
        let (_folder, warning) = notified("exit 0", Bounds::default(), &[failed(1, &long)]).await;
        assert_eq!(warning, None);
    }

    #[tokio::test]
    async fn the_first_failure_is_told() {
        let bounds = Bounds { at_once: 1, ..Bounds::default() };
        let command = r#"[ "$RAYMOND_EVENT" = run_stopped ] && exit 4; exit 3"#;
        let (_folder, warning) = notified(command, bounds, &[over_budget(1), stopped(2)]).await;
        let warning = warning.unwrap();
        assert!(warning.ends_with("`: ended with exit status: 3 (for budget_exceeded)"), "{warning}");
    }

    #[tokio::test]
    async fn a_command_that_hangs_is_ended_with_its_children() {
        let folder = tempfile::tempdir().unwrap();
        let pipe = fifo(&folder);
        let all_dead = read_to_end(pipe.clone());
        let bounds = Bounds { patience: Duration::from_millis(300), ..Bounds::default() };
        let command = format!("exec > {}; sleep 1000 & sleep 1000", pipe.display());
        let (_folder, warning) = notified(&command, bounds, &[over_budget(1)]).await;
        assert!(
            warning.unwrap().contains("took longer than 0 s and was ended"),
            "the time limit is what ended it"
        );
        join(all_dead, &pipe).await;
    }

    #[tokio::test]
    async fn the_end_of_the_run_does_not_wait_for_ever() {
        let folder = tempfile::tempdir().unwrap();
        let pipe = fifo(&folder);
        let all_dead = read_to_end(pipe.clone());
        let bounds = Bounds { at_once: 1, farewell: Duration::from_millis(300), ..Bounds::default() };
        let command = format!("exec > {}; sleep 1000", pipe.display());
        let (_folder, warning) = notified(&command, bounds, &[over_budget(1), stopped(2)]).await;
        let warning = warning.unwrap();
        assert!(warning.contains("2 had not finished"), "{warning}");
        join(all_dead, &pipe).await;
    }

    #[tokio::test]
    async fn the_commands_keep_the_order_of_the_events() {
        let command =
            r#"[ "$RAYMOND_EVENT" = step_failed ] && sleep 0.1; echo "$RAYMOND_EVENT" >> HERE/told"#;
        let events = [failed(1, "no"), over_budget(2), stopped(3)];
        let (folder, warning) = notified(command, Bounds::default(), &events).await;
        assert_eq!(warning, None);
        assert_eq!(read(&folder, "told"), "step_failed\nbudget_exceeded\nrun_stopped\n");
    }

    /// The others end only when it has been told, so one after the other they would never be done.
    #[tokio::test]
    async fn the_end_is_told_however_many_failed_before() {
        let command = r#"case "$RAYMOND_EVENT" in run_stopped) touch HERE/told;; esac
            while [ ! -e HERE/told ]; do sleep 0.05; done"#;
        let bounds = Bounds { at_once: 20, alone: Duration::from_secs(1000), ..Bounds::default() };
        let events: Vec<Event> = (1..10).map(|seq| failed(seq, "no")).chain([stopped(10)]).collect();
        let (_folder, warning) = notified(command, bounds, &events).await;
        assert_eq!(warning, None);
    }

    #[tokio::test]
    async fn a_command_that_hangs_does_not_hold_up_the_next() {
        let folder = tempfile::tempdir().unwrap();
        let pipe = fifo(&folder);
        let bounds = Bounds { alone: Duration::ZERO, ..Bounds::default() };
        let command = format!(
            r#"case "$RAYMOND_EVENT" in budget_exceeded) read -r _ < {0};; *) echo go > {0};; esac"#,
            pipe.display()
        );
        let (_folder, warning) = notified(&command, bounds, &[over_budget(1), stopped(2)]).await;
        assert_eq!(warning, None, "the first can only end when the second has started");
    }

    #[tokio::test]
    async fn so_many_run_at_once_and_the_oldest_make_room() {
        let bounds = Bounds { at_once: 2, queued: 3, ..Bounds::default() };
        // All five come before the first command starts, so only the queue holds them.
        let events: Vec<Event> = (1..=5).map(over_budget).collect();
        let (folder, warning) = notified(
            r#"mkdir HERE/busy.$$; ls -d HERE/busy.* | wc -l >> HERE/busy; cat >> HERE/json; rmdir HERE/busy.$$"#,
            bounds,
            &events,
        )
        .await;
        assert!(warning.unwrap().ends_with("2 events came faster than it could take them and were left out"));
        let json = read(&folder, "json");
        let mut told: Vec<u64> =
            json.lines().map(|line| serde_json::from_str::<Event>(line).unwrap().seq).collect();
        told.sort_unstable();
        assert_eq!(told, [3, 4, 5]);
        let busy = read(&folder, "busy");
        assert!(busy.lines().all(|line| line.trim().parse::<usize>().unwrap() <= 2), "{busy}");
    }

    #[tokio::test]
    async fn a_notifier_that_had_nothing_to_do_goes_on_later() {
        let folder = tempfile::tempdir().unwrap();
        let pipe = fifo(&folder);
        let command = format!("cat > {}", pipe.display());
        let warning = LocalSet::new()
            .run_until(async {
                let notifier = Notifier::new(command, payloads(folder.path()));
                let mut observer = notifier.clone();
                for seq in 1..=20 {
                    observer.event(&over_budget(seq));
                    let told = read_to_end(pipe.clone()).await.unwrap();
                    let told: Event = serde_json::from_str(&told).unwrap();
                    assert_eq!(told.seq, seq);
                }
                notifier.finish().await
            })
            .await;
        assert_eq!(warning, None);
    }
}
