//! A copy of a run that is carried out elsewhere, in the local store.
//!
//! Events come in, and messages from the run's local inbox go out. So `status`, `log`, `serve` and all others look at
//! the copy as at any run, and `answer` and `stop` leave their messages as for any run. One process at a time keeps a
//! copy up to date, by the run's lease; the others only read it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use raymond_core::event::{Event, SnapshotLine};
use raymond_core::evolve;
use raymond_core::run::Run;

use super::{Address, Fleet, News, PATIENCE, Trouble};
use crate::run::driver::now;
use crate::store::{Content, Elsewhere, JournalOptions, Opened, RunHandle, RunStore, RunWriter, StoreError};

/// How long a call waits for news of a run that is followed.
const WAIT_FOR_NEWS: Duration = Duration::from_secs(1);
/// How long an engine that is away is left alone.
const PAUSE: Duration = Duration::from_millis(500);
/// How often it is looked whether a message has been delivered.
const LOOK_AGAIN: Duration = Duration::from_millis(20);

/// Why a copy is not up to date.
#[derive(Debug)]
pub enum MirrorError {
    Engine(Trouble),
    Store(StoreError),
    /// What the engine says does not follow what the copy has.
    Gap {
        expected: u64,
        got: u64,
    },
}

impl std::fmt::Display for MirrorError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Engine(trouble) => trouble.fmt(f),
            Self::Store(error) => error.fmt(f),
            Self::Gap { expected, got } => write!(
                f,
                "its events do not follow those of the copy here: event {expected} was expected, and {got} came"
            ),
        }
    }
}

impl From<Trouble> for MirrorError {
    fn from(trouble: Trouble) -> Self {
        Self::Engine(trouble)
    }
}

impl From<StoreError> for MirrorError {
    fn from(error: StoreError) -> Self {
        Self::Store(error)
    }
}

/// The copy of one run.
pub struct Mirror {
    fleet: &'static dyn Fleet,
    store: Arc<dyn RunStore>,
    run: Arc<dyn RunHandle>,
    at: Address,
    /// The lease of the copy, and what it holds. Nothing before the first event, and while another process has it.
    copy: Option<(Box<dyn RunWriter>, Run)>,
}

impl Mirror {
    /// The copy of a run that is marked as carried out elsewhere.
    pub fn of(
        fleet: &'static dyn Fleet,
        store: Arc<dyn RunStore>,
        id: &str,
    ) -> Result<Option<Self>, StoreError> {
        let run = store.run(id)?;
        let address = run.elsewhere().and_then(|mark| Address::parse(&mark.engine).ok());
        Ok(address.map(|at| Self { fleet, store, run, at, copy: None }))
    }

    /// Hands over what is in the inbox, then copies what is new, waiting for it up to `wait`. Says whether the run goes
    /// on.
    pub fn catch_up(&mut self, wait: Duration) -> Result<bool, MirrorError> {
        if self.is_kept_by_another()? {
            std::thread::sleep(wait);
            return Ok(self.run.elsewhere().is_none_or(|mark| mark.is_open));
        }
        let delivered = self.deliver()?;
        let mut wait = if delivered.is_empty() { wait } else { Duration::ZERO };
        loop {
            let after = self.copy.as_ref().map_or(0, |(_, run)| run.seq);
            let news = self.fleet.news(&self.at, self.run.id(), after, wait)?;
            let is_all = news.batches.is_empty();
            let is_open = news.is_open;
            self.take(news)?;
            // Of a run that has ended all is copied, because nothing asks for the rest later.
            if is_all || (!wait.is_zero() && is_open) {
                let inbox = self.run.inbox();
                delivered.iter().try_for_each(|name| inbox.remove(name))?;
                if !is_open {
                    self.copy = None;
                }
                return Ok(is_open);
            }
            wait = Duration::ZERO;
        }
    }

    /// Takes the lease of the copy, if there is one yet. True if another process has it.
    fn is_kept_by_another(&mut self) -> Result<bool, MirrorError> {
        if self.copy.is_some() {
            return Ok(false);
        }
        match self.run.open(JournalOptions::default()) {
            Ok(Opened { writer, run, .. }) => self.copy = Some((writer, run)),
            Err(StoreError::Held { .. }) => return Ok(true),
            Err(_) if !self.store.list()?.iter().any(|entry| entry.run.id() == self.run.id()) => {}
            Err(error) => return Err(error.into()),
        }
        Ok(false)
    }

    /// The names of the messages that the engine now has. They are removed once their effect is in the copy.
    fn deliver(&self) -> Result<Vec<String>, MirrorError> {
        let mut delivered = Vec::new();
        for message in self.run.inbox().messages()? {
            if let Content::Text(text) = &message.content {
                match self.fleet.deliver(&self.at, self.run.id(), &message.name, text) {
                    // The run will never take it; what it did instead is in its events.
                    Ok(()) | Err(Trouble::Refused(_)) => {}
                    Err(away) => return Err(away.into()),
                }
            }
            delivered.push(message.name);
        }
        Ok(delivered)
    }

    fn take(&mut self, news: News) -> Result<(), MirrorError> {
        for batch in &news.batches {
            self.commit(batch, &news.payloads)?;
        }
        let mark = Elsewhere {
            engine: self.at.to_string(),
            is_open: news.is_open,
            hosts: news.hosts,
            seen_at: now(),
        };
        Ok(self.store.mark_elsewhere(self.run.id(), &mark)?)
    }

    fn commit(&mut self, batch: &[Event], payloads: &[String]) -> Result<(), MirrorError> {
        let expected = self.copy.as_ref().map_or(1, |(_, run)| run.seq + 1);
        let Some(first) = batch.first() else { return Ok(()) };
        if first.seq != expected {
            return Err(MirrorError::Gap { expected, got: first.seq });
        }
        let (mut writer, mut run) = match self.copy.take() {
            Some((writer, run)) => (writer, Some(run)),
            None => (self.store.create(self.run.id(), JournalOptions::default())?, None),
        };
        payloads.iter().try_for_each(|text| writer.keep_payload(text).map(drop))?;
        writer.commit(batch)?;
        for event in batch {
            run = evolve::evolve(run, event);
        }
        let run = run.ok_or_else(|| StoreError::NoStart { place: self.run.place() })?;
        let time = batch.last().map_or(run.started_at, |event| event.time);
        writer.snapshot_if_long(SnapshotLine::of(&run, time))?;
        self.copy = Some((writer, run));
        Ok(())
    }
}

/// A thread that keeps the copy of a run up to date until the run is over.
pub struct Keeper {
    run: Arc<dyn RunHandle>,
    is_over: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Keeper {
    /// Begins to keep a copy; nothing if the run is not carried out elsewhere.
    pub fn start(
        fleet: &'static dyn Fleet,
        store: &Arc<dyn RunStore>,
        id: &str,
    ) -> Result<Option<Self>, StoreError> {
        // The lease is taken and given back by the thread, so the copy is made there.
        let run = store.run(id)?;
        if run.elsewhere().is_none() {
            return Ok(None);
        }
        let is_over = Arc::new(AtomicBool::new(false));
        let (flag, store, id) = (Arc::clone(&is_over), Arc::clone(store), id.to_owned());
        let work = move || {
            let Ok(Some(mut mirror)) = Mirror::of(fleet, store, &id) else { return };
            while !flag.load(Ordering::Relaxed) {
                match mirror.catch_up(WAIT_FOR_NEWS) {
                    Ok(true) => {}
                    Ok(false) => return,
                    Err(error) => {
                        tracing::debug!(run = id, %error, "the copy is not up to date");
                        std::thread::sleep(PAUSE);
                    }
                }
            }
        };
        let thread = std::thread::Builder::new().name("mirror".to_owned()).spawn(work).ok();
        Ok(Some(Self { run, is_over, thread }))
    }

    /// Whether the run is over, or cannot be kept any more.
    pub fn is_done(&self) -> bool {
        self.thread.as_ref().is_none_or(JoinHandle::is_finished)
    }

    /// Waits until the engine has all messages of the inbox. False if it does not answer.
    pub fn deliver_all(&self) -> bool {
        let deadline = Instant::now() + PATIENCE;
        let inbox = self.run.inbox();
        let waits = || !inbox.messages().is_ok_and(|messages| messages.is_empty());
        while waits() && !self.is_done() && Instant::now() < deadline {
            std::thread::sleep(LOOK_AGAIN);
        }
        !waits()
    }
}

impl Drop for Keeper {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::*;
    use crate::error::{ExitKind, UserError};
    use crate::fleet::{KnownRun, NewRun, Worker, Workflows};
    use crate::store::suite::{opening, warnings};
    use crate::store::{FolderStore, StateDir};
    use raymond_core::run::Options;

    /// An engine with one run, whose events the test gives.
    #[derive(Default)]
    struct FakeFleet {
        batches: Mutex<Vec<Vec<Event>>>,
        delivered: Mutex<Vec<String>>,
        is_over: AtomicBool,
        is_away: AtomicBool,
    }

    impl FakeFleet {
        fn check(&self) -> Result<(), Trouble> {
            match self.is_away.load(Ordering::Relaxed) {
                true => Err(Trouble::Away("no route".to_owned())),
                false => Ok(()),
            }
        }

        fn happens(&self, batch: Vec<Event>) {
            self.batches.lock().unwrap().push(batch);
        }
    }

    impl Fleet for FakeFleet {
        fn start(&self, _: &Address, _: &NewRun) -> Result<(), Trouble> {
            self.check()
        }

        fn runs(&self, _: &Address) -> Result<Vec<KnownRun>, Trouble> {
            self.check().map(|()| Vec::new())
        }

        fn news(&self, _: &Address, _: &str, after: u64, _: Duration) -> Result<News, Trouble> {
            self.check()?;
            let is_new = |batch: &&Vec<Event>| batch[0].seq > after;
            // One batch at a time, as if messages were short.
            let batches = self.batches.lock().unwrap().iter().filter(is_new).take(1).cloned().collect();
            Ok(News { batches, is_open: !self.is_over.load(Ordering::Relaxed), ..News::default() })
        }

        fn deliver(&self, _: &Address, _: &str, name: &str, _: &str) -> Result<(), Trouble> {
            self.check()?;
            self.delivered.lock().unwrap().push(name.to_owned());
            Ok(())
        }

        fn resume(&self, _: &Address, _: &str, _: &Options, _: Option<&Workflows>) -> Result<(), Trouble> {
            self.check()
        }

        fn work(&self, _: &Worker) -> Result<ExitKind, UserError> {
            Ok(ExitKind::Completed)
        }
    }

    struct Scene {
        fleet: &'static FakeFleet,
        store: Arc<dyn RunStore>,
        _folder: tempfile::TempDir,
    }

    impl Scene {
        fn new() -> Self {
            let folder = tempfile::tempdir().unwrap();
            let store: Arc<dyn RunStore> = Arc::new(FolderStore::new(StateDir::at(folder.path())));
            let engine = "temporal://localhost:7233/default?queue=q".to_owned();
            let mark = Elsewhere { engine, is_open: true, hosts: Default::default(), seen_at: now() };
            store.mark_elsewhere("r", &mark).unwrap();
            let fleet: &'static FakeFleet = Box::leak(Box::default());
            fleet.happens(opening("r"));
            Self { fleet, store, _folder: folder }
        }

        fn mirror(&self) -> Mirror {
            Mirror::of(self.fleet, Arc::clone(&self.store), "r").unwrap().unwrap()
        }

        fn last_event(&self) -> u64 {
            self.store.run("r").unwrap().load().unwrap().seq
        }
    }

    #[test]
    fn all_that_is_new_is_copied_and_the_copy_can_be_taken_up_again() {
        let scene = Scene::new();
        scene.fleet.happens(warnings("r", 3..=4));
        assert!(scene.mirror().catch_up(Duration::ZERO).unwrap());
        assert_eq!(scene.last_event(), 4);
        scene.fleet.happens(warnings("r", 5..=5));
        scene.fleet.is_over.store(true, Ordering::Relaxed);
        let mut mirror = scene.mirror();
        assert!(!mirror.catch_up(Duration::ZERO).unwrap());
        assert_eq!(scene.last_event(), 5);
        let run = scene.store.run("r").unwrap();
        assert!(!run.elsewhere().unwrap().is_open);
        assert_eq!(run.holder().unwrap(), None);
    }

    /// Nothing asks for the rest of a run that is marked as ended.
    #[test]
    fn all_of_a_run_that_has_ended_is_copied_at_once_however_far_behind_the_copy_is() {
        let scene = Scene::new();
        (3..=6).for_each(|seq| scene.fleet.happens(warnings("r", seq..=seq)));
        scene.fleet.is_over.store(true, Ordering::Relaxed);
        assert!(!scene.mirror().catch_up(Duration::from_millis(1)).unwrap());
        assert_eq!(scene.last_event(), 6);
    }

    #[test]
    fn messages_leave_the_inbox_once_the_engine_has_them() {
        let scene = Scene::new();
        let inbox = scene.store.run("r").unwrap().inbox();
        inbox.post("stop-any", "{}").unwrap();
        scene.fleet.is_away.store(true, Ordering::Relaxed);
        assert!(scene.mirror().catch_up(Duration::ZERO).is_err());
        assert!(inbox.contains("stop-any"));
        scene.fleet.is_away.store(false, Ordering::Relaxed);
        scene.mirror().catch_up(Duration::ZERO).unwrap();
        assert!(!inbox.contains("stop-any"));
        assert_eq!(*scene.fleet.delivered.lock().unwrap(), ["stop-any"]);
    }

    #[test]
    fn one_process_at_a_time_keeps_a_copy() {
        let scene = Scene::new();
        let mut first = scene.mirror();
        first.catch_up(Duration::ZERO).unwrap();
        scene.fleet.happens(warnings("r", 3..=3));
        assert!(scene.mirror().catch_up(Duration::ZERO).unwrap());
        assert_eq!(scene.last_event(), 2, "the second has written the copy of the first");
        first.catch_up(Duration::ZERO).unwrap();
        assert_eq!(scene.last_event(), 3);
    }

    #[test]
    fn events_that_do_not_follow_are_refused() {
        let scene = Scene::new();
        scene.mirror().catch_up(Duration::ZERO).unwrap();
        scene.fleet.happens(warnings("r", 7..=7));
        let error = scene.mirror().catch_up(Duration::ZERO).unwrap_err();
        assert!(matches!(error, MirrorError::Gap { expected: 3, got: 7 }), "{error}");
        assert_eq!(scene.last_event(), 2);
    }

    #[test]
    fn a_keeper_follows_a_run_to_its_end() {
        let scene = Scene::new();
        let keeper = Keeper::start(scene.fleet, &scene.store, "r").unwrap().unwrap();
        scene.fleet.happens(warnings("r", 3..=3));
        scene.store.run("r").unwrap().inbox().post("answer-ask1", "{}").unwrap();
        assert!(keeper.deliver_all());
        scene.fleet.is_over.store(true, Ordering::Relaxed);
        while !keeper.is_done() {
            std::thread::yield_now();
        }
        assert_eq!(scene.last_event(), 3);
    }
}
