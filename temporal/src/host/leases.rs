//! The worker's side of its guard: what the guard is told about the attempts that run here, and that there always is one.
//!
//! Everything happens on the thread that carries out steps. Attempts change what the guard should know, and one task tells
//! it, so no attempt waits for the guard but for the one answer before it begins. A guard that has ended or does not answer is
//! replaced by another, which is told everything. Bounds: at most two messages for each attempt wait to be told, its last
//! time and its end.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::rc::Rc;
use std::time::Duration;

use anyhow::Context;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::process::{Child, ChildStdin, ChildStdout};
use tokio::sync::{Notify, watch};
use tokio::time::Instant;

use crate::guard::{self, Message, TELL_EVERY, right_to_run, since_boot};

/// How long a guard may take to answer.
const ANSWER: Duration = Duration::from_secs(5);
/// How long after the start of a guard that has failed another one may be started.
const START_AGAIN: Duration = Duration::from_secs(1);
/// How long steps may run without a guard that answers, while others are started.
const MOST_UNGUARDED: Duration = Duration::from_secs(15);
/// How long a worker that leaves waits for the end of its guard.
const LAST_WAIT: Duration = Duration::from_secs(5);

/// The attempts that run here, as the guard should know them.
#[derive(Debug)]
pub struct Leases {
    /// The last message about each attempt that runs.
    open: RefCell<BTreeMap<String, Message>>,
    /// What the guard was not told yet, in order.
    news: RefCell<Vec<Message>>,
    /// How many changes there were.
    changes: Cell<u64>,
    changed: Notify,
    /// How many of the changes a guard has answered.
    answered: watch::Sender<u64>,
    /// Since when there is no guard that answers.
    missing_since: Cell<Option<Instant>>,
    /// Whether that is too long.
    is_unguarded: watch::Sender<bool>,
    leaves: Notify,
}

impl Leases {
    pub fn new() -> Rc<Self> {
        Rc::new(Self {
            open: RefCell::default(),
            news: RefCell::default(),
            changes: Cell::new(0),
            changed: Notify::new(),
            answered: watch::Sender::new(0),
            missing_since: Cell::new(None),
            is_unguarded: watch::Sender::new(false),
            leaves: Notify::new(),
        })
    }

    /// The right to run an attempt here, which has not begun. `limit` is the server's heartbeat timeout.
    pub fn lease(self: &Rc<Self>, token: String, scratch: PathBuf, limit: Duration) -> Rc<Lease> {
        let (renewed, state) = (Cell::new(since_boot()), Cell::new(State::Waits));
        Rc::new(Lease { all: Rc::clone(self), token, scratch, limit, renewed, state })
    }

    /// Waits until there was no guard for so long that no step may run.
    pub async fn unguarded(&self) {
        // This cannot fail, because `self` holds the sender.
        let _ = self.is_unguarded.subscribe().wait_for(|is_unguarded| *is_unguarded).await;
    }

    /// Keeps a guard until the worker leaves. Then the guard ends what still runs, and itself.
    pub async fn keep_guarded(self: Rc<Self>) {
        loop {
            let again = Instant::now() + START_AGAIN;
            let Err(error) = self.have_a_guard().await else { return };
            self.note_missing(&error);
            tokio::select! {
                () = tokio::time::sleep_until(again) => {}
                () = self.leaves.notified() => return,
            }
        }
    }

    /// Starts a guard. Returns when it fails, or when it has ended because the worker leaves.
    async fn have_a_guard(&self) -> anyhow::Result<()> {
        let mut guard = Guard::start().context("no guard can be started")?;
        let told = self.tell(&mut guard).await;
        match &told {
            Ok(()) => guard.leave().await,
            // If it only hangs, it must not end the steps of its successor when it goes on.
            Err(_) => guard.kill(),
        }
        told
    }

    /// Tells a guard everything, and then what changes. If nothing does, it is told that: otherwise it would take the worker for
    /// one that hangs. Returns when the worker leaves.
    async fn tell(&self, guard: &mut Guard) -> anyhow::Result<()> {
        self.tell_again();
        loop {
            tokio::select! {
                // What has ended is told before the worker leaves: it may have left programs in the background.
                biased;
                () = self.changed.notified() => {}
                status = guard.process.wait() => anyhow::bail!("the guard has ended ({})", status?),
                () = self.leaves.notified() => return Ok(()),
                () = tokio::time::sleep(TELL_EVERY) => {}
            }
            let (news, changes) = (self.news.take(), self.changes.get());
            let answer = tokio::time::timeout(ANSWER, guard.ask(&news)).await;
            answer.context("it does not answer").flatten().context("the guard has failed")?;
            self.answered.send_replace(changes);
            self.note_there();
        }
    }

    fn note_missing(&self, error: &anyhow::Error) {
        let since = self.missing_since.get().unwrap_or_else(|| {
            eprintln!("raymond: {error:#}; another guard is started");
            Instant::now()
        });
        self.missing_since.set(Some(since));
        self.is_unguarded.send_replace(since.elapsed() > MOST_UNGUARDED);
    }

    fn note_there(&self) {
        if self.missing_since.take().is_some() {
            eprintln!("raymond: another guard is there");
            self.is_unguarded.send_replace(false);
        }
    }

    /// The worker leaves.
    pub fn leave(&self) {
        self.leaves.notify_one();
    }

    fn tell_again(&self) {
        self.news.replace(self.open.borrow().values().cloned().collect());
        self.note_change();
    }

    fn note_change(&self) {
        self.changes.set(self.changes.get() + 1);
        self.changed.notify_one();
    }

    fn change(&self, message: Message) {
        let (mut open, mut news) = (self.open.borrow_mut(), self.news.borrow_mut());
        let token = message.token();
        let last = news.iter_mut().rev().find(|earlier| earlier.token() == token);
        match &message {
            Message::MayRun { .. } => drop(open.insert(token.to_owned(), message.clone())),
            Message::Ended { .. } | Message::Dropped { .. } => drop(open.remove(token)),
        }
        match (last, &message) {
            // Only the latest time counts.
            (Some(last @ Message::MayRun { .. }), Message::MayRun { .. }) => *last = message,
            _ => news.push(message),
        }
        drop((open, news));
        self.note_change();
    }
}

/// The right to run one attempt here.
#[derive(Debug)]
pub struct Lease {
    all: Rc<Leases>,
    token: String,
    scratch: PathBuf,
    limit: Duration,
    /// When the last heartbeat was sent that the server has answered.
    renewed: Cell<Duration>,
    state: Cell<State>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Waits,
    Runs,
    Ended,
}

impl Lease {
    /// The server has answered a heartbeat that was sent then.
    pub fn renew(&self, sent: Duration) {
        self.renewed.set(sent);
        if self.state.get() == State::Runs {
            self.tell_time();
        }
    }

    /// Whether the attempt may not run any more, as far as this machine knows.
    pub fn is_over(&self) -> bool {
        self.left().is_zero()
    }

    /// How long the attempt may run, unless the server answers another heartbeat.
    pub fn left(&self) -> Duration {
        (self.renewed.get() + self.limit / 2).saturating_sub(since_boot())
    }

    /// Waits until the guard knows of the attempt. Nothing of it may be started before.
    pub async fn begin(&self) {
        self.state.set(State::Runs);
        self.tell_time();
        let change = self.all.changes.get();
        let _ = self.all.answered.subscribe().wait_for(|answered| *answered >= change).await;
    }

    /// The end of the attempt is recorded.
    pub fn end(&self) {
        if self.state.replace(State::Ended) == State::Runs {
            self.all.change(Message::Ended { token: self.token.clone() });
        }
    }

    fn tell_time(&self) {
        let (token, scratch) = (self.token.clone(), self.scratch.clone());
        let until = self.renewed.get() + right_to_run(self.limit);
        self.all.change(Message::MayRun { token, scratch, until });
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        if self.state.get() == State::Runs {
            self.all.change(Message::Dropped { token: self.token.clone() });
        }
    }
}

/// A guard that was started.
struct Guard {
    process: Child,
    ask: ChildStdin,
    answers: ChildStdout,
}

impl Guard {
    fn start() -> anyhow::Result<Self> {
        let mut process = guard::command()?.spawn()?;
        let ask = process.stdin.take().context("it has no stdin")?;
        let answers = process.stdout.take().context("it has no stdout")?;
        Ok(Self { process, ask, answers })
    }

    /// Returns when the guard has answered.
    async fn ask(&mut self, messages: &[Message]) -> anyhow::Result<()> {
        let mut line = serde_json::to_vec(messages)?;
        line.push(b'\n');
        self.ask.write_all(&line).await?;
        self.answers.read_u8().await?;
        Ok(())
    }

    fn kill(mut self) {
        let _ = self.process.start_kill();
    }

    /// Without its pipe a guard ends what is left, and then itself.
    async fn leave(self) {
        let Self { mut process, ask, .. } = self;
        drop(ask);
        let _ = tokio::time::timeout(LAST_WAIT, process.wait()).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What the guard would be told now: the token, and `+` for one that may run.
    fn news(leases: &Leases) -> Vec<String> {
        let shown = |message: &Message| match message {
            Message::MayRun { token, .. } => format!("+{token}"),
            Message::Ended { token } => format!("ended {token}"),
            Message::Dropped { token } => format!("dropped {token}"),
        };
        leases.news.take().iter().map(shown).collect()
    }

    fn begun(leases: &Rc<Leases>, token: &str) -> Rc<Lease> {
        let lease = leases.lease(token.to_owned(), "/scratch".into(), Duration::from_secs(60));
        // There is no guard that would answer.
        assert!(futures::FutureExt::now_or_never(lease.begin()).is_none());
        lease
    }

    #[test]
    fn the_guard_is_told_what_runs_and_how_it_ends() {
        let leases = Leases::new();
        let waits = leases.lease("waits".to_owned(), "/scratch".into(), Duration::from_secs(60));
        waits.renew(since_boot());
        drop(waits);
        assert_eq!(news(&leases), [] as [&str; 0], "what has not begun is not told");
        let (a, b) = (begun(&leases, "a"), begun(&leases, "b"));
        (0..9).for_each(|_| a.renew(since_boot()));
        assert_eq!(news(&leases), ["+a", "+b"], "only the latest time is told");
        a.end();
        a.end();
        drop((a, b));
        assert_eq!(news(&leases), ["ended a", "dropped b"]);
    }

    #[test]
    fn an_attempt_that_begins_again_is_told_after_its_end() {
        let leases = Leases::new();
        begun(&leases, "a").end();
        let _again = begun(&leases, "a");
        assert_eq!(news(&leases), ["+a", "ended a", "+a"]);
    }

    #[test]
    fn another_guard_is_told_what_runs() {
        let leases = Leases::new();
        let _runs = [begun(&leases, "a"), begun(&leases, "b")];
        begun(&leases, "ended").end();
        news(&leases);
        leases.tell_again();
        assert_eq!(news(&leases), ["+a", "+b"]);
    }
}
