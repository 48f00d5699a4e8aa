//! A copy of a run that is carried out elsewhere, in the local store.
//!
//! Events come in, and messages from the run's local inbox go out. So `status`, `log`, `serve` and all others look at
//! the copy as at any run, and `answer` and `stop` leave their messages as for any run. One process at a time keeps a
//! copy up to date, by the run's lease; the others only read it, and deliver messages that it leaves lying.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, SystemTime};

use raymond_core::event::{Event, SnapshotLine};
use raymond_core::evolve;
use raymond_core::limits::MAX_INLINE_PAYLOAD_BYTES;
use raymond_core::payload::Payload;
use raymond_core::run::Run;

use super::{Address, Fleet, News, Standing, Trouble};
use crate::run::driver::{ANSWER_MESSAGE, STOP_MESSAGE, StopRequest, now};
use crate::store::{
    Content, Elsewhere, JournalOptions, Opened, RunHandle, RunStore, RunWriter, Silence, StoreError,
};

/// How long a call waits for news of a run that is followed. Messages from the inbox go out in between.
const WAIT_FOR_NEWS: Duration = Duration::from_millis(500);
/// How long a message waits for the process that keeps the copy. That one delivers it within [`WAIT_FOR_NEWS`], unless it is
/// suspended or hangs.
const OVERDUE: Duration = Duration::from_secs(1);
/// How long a message counts as one that reaches its run at once.
const FRESH: Duration = Duration::from_secs(5);
/// How long it takes until an engine that is away, or a run that no worker answers for, is asked again.
const PAUSE: Duration = Duration::from_millis(500);

/// Why a copy is not up to date.
#[derive(Debug)]
pub enum MirrorError {
    Engine(Trouble),
    Store(StoreError),
    /// A text that an event names cannot be had.
    Text(Trouble),
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
            Self::Text(trouble) => f.write_str(trouble.why()),
            Self::Gap { expected, got } => write!(
                f,
                "its events do not follow those of the copy here: event {expected} was expected, and {got} came"
            ),
        }
    }
}

impl MirrorError {
    /// What is noted of the run because of this.
    fn silence(&self) -> Silence {
        match self {
            Self::Engine(Trouble::Away(why)) => Silence::Engine(why.clone()),
            Self::Engine(Trouble::Refused(_)) | Self::Store(_) | Self::Text(_) | Self::Gap { .. } => {
                Silence::Copy(self.to_string())
            }
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

    /// Hands over what is in the inbox, then copies what is new, waiting for it up to `wait`. Says how the run stands. Answers
    /// to a run that is stopped stay here until it goes on, so that it is known here which questions are answered.
    pub fn catch_up(&mut self, wait: Duration) -> Result<Standing, MirrorError> {
        let was_stopped = self.is_stopped();
        let is_kept_by_another = self.is_kept_by_another();
        let is_due = |message: &str, posted| {
            !(was_stopped && message.starts_with(ANSWER_MESSAGE))
                && (!matches!(is_kept_by_another, Ok(true)) || is_overdue(posted))
        };
        let (delivered, undelivered) = self.deliver(is_due)?;
        let caught_up = match (undelivered, is_kept_by_another) {
            (Some(trouble), _) => Err(trouble.into()),
            (None, Ok(true)) => {
                std::thread::sleep(wait);
                Ok(self.standing_as_marked())
            }
            (None, Ok(false)) => self.copy_news(if delivered.is_empty() { wait } else { Duration::ZERO }),
            (None, Err(error)) => Err(error),
        };
        let noted = match &caught_up {
            Ok(_) => Ok(()),
            Err(error) => note_silence(&*self.store, &*self.run, error.silence()),
        };
        // The engine has these messages for good, even if what came of them cannot be copied. If they stayed, they would be
        // delivered again each time.
        let inbox = self.run.inbox();
        delivered.iter().try_for_each(|name| inbox.remove(name))?;
        noted?;
        match &caught_up {
            Ok(Standing::Open) if was_stopped && !self.is_stopped() => self.catch_up(Duration::ZERO),
            _ => caught_up,
        }
    }

    /// Hands over all that is in the inbox, also answers to a run that is stopped: it is about to go on. Returns the names of
    /// the messages, which are still in the inbox.
    pub fn deliver_all(&self) -> Result<Vec<String>, Trouble> {
        match self.deliver(|_, _| true) {
            Ok((delivered, None)) => Ok(delivered),
            Ok((_, Some(trouble))) => Err(trouble),
            Err(error) => Err(Trouble::Refused(error.to_string())),
        }
    }

    /// Whether the run stands still and may go on, as far as is known here.
    fn is_stopped(&self) -> bool {
        self.run.elsewhere().is_some_and(|mark| !mark.is_open && mark.ended.is_none())
    }

    fn copy_news(&mut self, mut wait: Duration) -> Result<Standing, MirrorError> {
        loop {
            let after = self.copy.as_ref().map_or(0, |(_, run)| run.seq);
            let news = self.fleet.news(&self.at, self.run.id(), after, wait)?;
            let is_all = news.batches.is_empty();
            let standing = news.standing.clone();
            self.take(news)?;
            // Of a run that is over all is copied, because nothing asks for the rest later.
            let is_enough = match standing {
                Standing::Open => is_all || !wait.is_zero(),
                Standing::Over | Standing::Ended(_) => is_all,
                Standing::Unheard(_) | Standing::Wedged(_) => true,
            };
            if is_enough {
                if matches!(standing, Standing::Over | Standing::Ended(_)) {
                    self.copy = None;
                }
                return Ok(standing);
            }
            wait = Duration::ZERO;
        }
    }

    fn standing_as_marked(&self) -> Standing {
        match self.run.elsewhere() {
            Some(Elsewhere { ended: Some(how), .. }) => Standing::Ended(how),
            Some(Elsewhere { is_open: false, .. }) => Standing::Over,
            Some(Elsewhere { silence: Some(Silence::Workers(why)), .. }) => Standing::Unheard(why),
            Some(Elsewhere { silence: Some(Silence::Wedged(why)), .. }) => Standing::Wedged(why),
            _ => Standing::Open,
        }
    }

    /// Takes the lease of the copy, if there is one yet. True if another process has it.
    fn is_kept_by_another(&mut self) -> Result<bool, MirrorError> {
        if self.copy.is_some() {
            return Ok(false);
        }
        // Asking for a lease that another process has takes a while.
        if self.run.lease_holder()?.is_some() {
            return Ok(true);
        }
        match self.run.open(JournalOptions::default()) {
            Ok(Opened { writer, run, .. }) => self.copy = Some((writer, run)),
            Err(StoreError::Held { .. }) => return Ok(true),
            Err(_) if !self.store.list()?.iter().any(|entry| entry.run.id() == self.run.id()) => {}
            Err(error) => return Err(error.into()),
        }
        Ok(false)
    }

    /// Delivers the messages that are to be delivered by their names and the times at which they were posted. Returns the names
    /// of those that the engine now has, and why it does not have all.
    fn deliver(
        &self,
        is_to_be_delivered: impl Fn(&str, Option<SystemTime>) -> bool,
    ) -> Result<(Vec<String>, Option<Trouble>), MirrorError> {
        let (inbox, mut delivered) = (self.run.inbox(), Vec::new());
        for message in inbox.messages()? {
            let posted = inbox.posted_at(&message.name);
            if !is_to_be_delivered(&message.name, posted) {
                continue;
            }
            if let Content::Text(text) = &message.content {
                let fresh = is_fresh(posted).then(|| for_any_time(&message.name, text)).flatten();
                let text = fresh.unwrap_or_else(|| text.clone());
                match self.fleet.deliver(&self.at, self.run.id(), &message.name, &text) {
                    // A run that refuses a message will never take it; what it did instead is in its events.
                    Ok(()) | Err(Trouble::Refused(_)) => {}
                    Err(away) => return Ok((delivered, Some(away))),
                }
            }
            delivered.push(message.name);
        }
        Ok((delivered, None))
    }

    fn take(&mut self, news: News) -> Result<(), MirrorError> {
        for batch in news.batches {
            self.commit(batch, &news.payloads)?;
        }
        let (engine, hosts) = (self.at.to_string(), news.hosts);
        let mark = match news.standing {
            Standing::Unheard(why) => {
                return Ok(note_silence(&*self.store, &*self.run, Silence::Workers(why))?);
            }
            Standing::Wedged(why) => {
                return Ok(note_silence(&*self.store, &*self.run, Silence::Wedged(why))?);
            }
            Standing::Open => Elsewhere { hosts, ..Elsewhere::open(engine, now()) },
            Standing::Over => Elsewhere { hosts, is_open: false, ..Elsewhere::open(engine, now()) },
            Standing::Ended(how) => {
                Elsewhere { is_open: false, ended: Some(how), ..Elsewhere::open(engine, now()) }
            }
        };
        Ok(self.store.mark_elsewhere(self.run.id(), &mark)?)
    }

    fn commit(&mut self, mut batch: Vec<Event>, payloads: &[String]) -> Result<(), MirrorError> {
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
        let mut named = batch.iter_mut().flat_map(|event| event.body.payloads_mut());
        if let Err(error) = named.try_for_each(|payload| self.bring(&mut *writer, payload)) {
            if run.is_none() {
                writer.abandon();
            }
            return Err(error);
        }
        writer.commit(&batch)?;
        for event in &batch {
            run = evolve::evolve(run, event);
        }
        let run = run.ok_or_else(|| StoreError::NoStart { place: self.run.place() })?;
        let time = batch.last().map_or(run.started_at, |event| event.time);
        writer.snapshot_if_long(SnapshotLine::of(&run, time))?;
        self.copy = Some((writer, run));
        Ok(())
    }
}

/// Whether a message should have been delivered by the process that keeps the copy. Then another one does it, without the
/// lease. If both do, the second time has no effect: a question takes one answer, and a run that is stopping stops.
fn is_overdue(posted: Option<SystemTime>) -> bool {
    // A time that is not known, or in the future, says nothing about how long the message has waited.
    posted.and_then(|time| time.elapsed().ok()).is_none_or(|age| age >= OVERDUE)
}

/// Whether a message was posted just now.
fn is_fresh(posted: Option<SystemTime>) -> bool {
    posted.and_then(|time| time.elapsed().ok()).is_some_and(|age| age < FRESH)
}

/// A stop that reaches the run at once, without what was known of the run when it was asked for: the copy may not show that
/// the run was resumed. Nothing for other messages.
fn for_any_time(name: &str, content: &str) -> Option<String> {
    let request = name.starts_with(STOP_MESSAGE).then(|| serde_json::from_str::<StopRequest>(content));
    serde_json::to_string(&StopRequest { seen: None, ..request?.ok()? }).ok()
}

/// Notes why nothing is heard of a run that goes on.
pub fn note_silence(store: &dyn RunStore, run: &dyn RunHandle, silence: Silence) -> Result<(), StoreError> {
    match run.elsewhere() {
        Some(mark) if mark.is_open && mark.silence.as_ref() != Some(&silence) => {
            store.mark_elsewhere(run.id(), &Elsewhere { silence: Some(silence), ..mark })
        }
        _ => Ok(()),
    }
}

impl Mirror {
    /// Brings a text of which a reference has come. A short one is put into its event, as in a local run.
    fn bring(&self, writer: &mut dyn RunWriter, payload: &mut Payload) -> Result<(), MirrorError> {
        let Payload::Stored { payload: hash, bytes } = &*payload else { return Ok(()) };
        let is_short = *bytes <= MAX_INLINE_PAYLOAD_BYTES as u64;
        match writer.load_payload(payload) {
            Ok(_) if !is_short => {}
            Ok(text) => *payload = text.into(),
            Err(_) => {
                let text = self.fleet.text(&self.at, self.run.id(), hash).map_err(MirrorError::Text)?;
                *payload = if is_short { text.into() } else { writer.keep_payload(&text)? };
            }
        }
        Ok(())
    }
}

/// A thread that keeps the copy of a run up to date until the run is over.
pub struct Keeper {
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
        if store.run(id)?.elsewhere().is_none() {
            return Ok(None);
        }
        let is_over = Arc::new(AtomicBool::new(false));
        let (flag, store, id) = (Arc::clone(&is_over), Arc::clone(store), id.to_owned());
        let work = move || {
            let Ok(Some(mut mirror)) = Mirror::of(fleet, store, &id) else { return };
            while !flag.load(Ordering::Relaxed) {
                match mirror.catch_up(WAIT_FOR_NEWS) {
                    Ok(Standing::Open) => continue,
                    Ok(Standing::Over | Standing::Ended(_)) => return,
                    Ok(Standing::Wedged(why)) => tracing::debug!(run = id, why, "the run is wedged"),
                    Ok(Standing::Unheard(why)) => tracing::debug!(run = id, why, "no worker answers"),
                    Err(error) => tracing::debug!(run = id, %error, "the copy is not up to date"),
                }
                std::thread::sleep(PAUSE);
            }
        };
        let thread = std::thread::Builder::new().name("mirror".to_owned()).spawn(work).ok();
        Ok(Some(Self { is_over, thread }))
    }

    /// Whether the run is over, or cannot be kept any more.
    pub fn is_done(&self) -> bool {
        self.thread.as_ref().is_none_or(JoinHandle::is_finished)
    }
}

impl Drop for Keeper {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fleet::delivery::{Delivery, delivery_of};
    use crate::fleet::fake::FakeFleet;
    use crate::run::driver::StopRequest;
    use crate::store::suite::{opening, warnings};
    use crate::store::{FolderStore, Start, StateDir, reference_to};
    use raymond_core::event::Body;
    use raymond_core::name::AgentId;
    use raymond_core::workflow::StateFile;

    struct Scene {
        fleet: &'static FakeFleet,
        store: Arc<dyn RunStore>,
        folder: tempfile::TempDir,
    }

    impl Scene {
        fn new() -> Self {
            let folder = tempfile::tempdir().unwrap();
            let store: Arc<dyn RunStore> = Arc::new(FolderStore::new(StateDir::at(folder.path())));
            let engine = "temporal://localhost:7233/default?queue=q".to_owned();
            store.mark_elsewhere("r", &Elsewhere::open(engine, now())).unwrap();
            let fleet: &'static FakeFleet = Box::leak(Box::default());
            fleet.happens(opening("r"));
            Self { fleet, store, folder }
        }

        fn mirror(&self) -> Mirror {
            Mirror::of(self.fleet, Arc::clone(&self.store), "r").unwrap().unwrap()
        }

        fn run(&self) -> Arc<dyn RunHandle> {
            self.store.run("r").unwrap()
        }

        fn mark(&self) -> Elsewhere {
            self.run().elsewhere().unwrap()
        }

        fn last_event(&self) -> u64 {
            self.run().load().unwrap().seq
        }
    }

    #[test]
    fn all_that_is_new_is_copied_and_the_copy_can_be_taken_up_again() {
        let scene = Scene::new();
        scene.fleet.happens(warnings("r", 3..=4));
        assert_eq!(scene.mirror().catch_up(Duration::ZERO).unwrap(), Standing::Open);
        assert_eq!(scene.last_event(), 4);
        scene.fleet.happens(warnings("r", 5..=5));
        scene.fleet.stands(Standing::Over);
        let mut mirror = scene.mirror();
        assert_eq!(mirror.catch_up(Duration::ZERO).unwrap(), Standing::Over);
        assert_eq!(scene.last_event(), 5);
        assert!(!scene.mark().is_open);
        assert_eq!(scene.run().holder().unwrap(), None);
    }

    /// Nothing asks for the rest of a run that is marked as ended.
    #[test]
    fn all_of_a_run_that_has_ended_is_copied_at_once_however_far_behind_the_copy_is() {
        let scene = Scene::new();
        (3..=6).for_each(|seq| scene.fleet.happens(warnings("r", seq..=seq)));
        scene.fleet.stands(Standing::Over);
        assert_eq!(scene.mirror().catch_up(Duration::from_millis(1)).unwrap(), Standing::Over);
        assert_eq!(scene.last_event(), 6);
    }

    #[test]
    fn why_nothing_is_heard_of_a_run_is_noted_until_something_is() {
        let scene = Scene::new();
        let (seen_at, why) = (scene.mark().seen_at, "no worker reads its queue".to_owned());
        scene.fleet.stands(Standing::Unheard(why.clone()));
        assert_eq!(scene.mirror().catch_up(Duration::ZERO).unwrap(), Standing::Unheard(why.clone()));
        assert_eq!(scene.last_event(), 2, "what the run begins with is told");
        let mark = scene.mark();
        assert_eq!((mark.is_open, mark.silence, mark.seen_at), (true, Some(Silence::Workers(why)), seen_at));
        scene.fleet.is_away(true);
        assert!(scene.mirror().catch_up(Duration::ZERO).is_err());
        assert_eq!(scene.mark().silence, Some(Silence::Engine("no route".to_owned())));
        scene.fleet.is_away(false);
        scene.fleet.stands(Standing::Open);
        // A program that another test is just starting holds the lease of the last mirror for a moment.
        let deadline = std::time::Instant::now() + Duration::from_secs(60);
        while scene.mark().silence.is_some() && std::time::Instant::now() < deadline {
            scene.mirror().catch_up(Duration::from_millis(1)).unwrap();
        }
        assert_eq!(scene.mark().silence, None);
    }

    #[test]
    fn a_run_that_the_engine_has_ended_is_marked_as_such() {
        let scene = Scene::new();
        let ended = Standing::Ended("was terminated".to_owned());
        scene.fleet.stands(ended.clone());
        assert_eq!(scene.mirror().catch_up(Duration::ZERO).unwrap(), ended);
        assert_eq!((scene.last_event(), scene.mark().is_open), (2, false));
        assert_eq!(scene.mark().ended.as_deref(), Some("was terminated"));
    }

    #[test]
    fn a_run_that_is_wedged_is_marked_as_such_until_it_is_decided_again() {
        let scene = Scene::new();
        let wedged = Standing::Wedged("it contradicts itself".to_owned());
        scene.fleet.stands(wedged.clone());
        assert_eq!(scene.mirror().catch_up(Duration::ZERO).unwrap(), wedged);
        assert_eq!(scene.mark().why_wedged(), Some("it contradicts itself"));
        scene.fleet.stands(Standing::Open);
        scene.mirror().catch_up(Duration::ZERO).unwrap();
        assert_eq!(scene.mark().why_wedged(), None);
    }

    #[test]
    fn messages_leave_the_inbox_once_the_engine_has_them() {
        let scene = Scene::new();
        let (run, inbox) = (scene.run(), scene.run().inbox());
        let delivery = || delivery_of(&*run, "stop-any");
        inbox.post("stop-any", "{}").unwrap();
        scene.fleet.is_away(true);
        assert!(scene.mirror().catch_up(Duration::ZERO).is_err());
        assert_eq!(delivery(), Delivery::Waits("no route".to_owned()));
        scene.fleet.is_away(false);
        scene.mirror().catch_up(Duration::ZERO).unwrap();
        assert_eq!(delivery(), Delivery::Taken);
        assert_eq!(scene.fleet.delivered(), ["stop-any"]);
        scene.fleet.stands(Standing::Unheard("no worker".to_owned()));
        inbox.post("stop-any", "{}").unwrap();
        scene.mirror().catch_up(Duration::ZERO).unwrap();
        assert_eq!(delivery(), Delivery::Left("no worker".to_owned()));
    }

    #[test]
    fn an_answer_to_a_run_that_is_stopped_stays_here_until_the_run_goes_on() {
        let scene = Scene::new();
        scene.fleet.stands(Standing::Over);
        scene.mirror().catch_up(Duration::ZERO).unwrap();
        let inbox = scene.run().inbox();
        for message in ["answer-ask1", "stop-any"] {
            inbox.post(message, "{}").unwrap();
        }
        scene.mirror().catch_up(Duration::ZERO).unwrap();
        assert_eq!(
            (scene.fleet.delivered(), inbox.contains("answer-ask1")),
            (vec!["stop-any".to_owned()], true)
        );
        // Another machine may have let it go on.
        scene.fleet.stands(Standing::Open);
        scene.mirror().catch_up(Duration::ZERO).unwrap();
        assert_eq!(scene.fleet.delivered(), ["stop-any", "answer-ask1"]);
        assert!(!inbox.contains("answer-ask1"));
    }

    #[test]
    fn a_message_is_delivered_once_even_if_nothing_can_be_copied() {
        let scene = Scene::new();
        scene.mirror().catch_up(Duration::ZERO).unwrap();
        scene.fleet.happens(warnings("r", 7..=7));
        let (run, inbox) = (scene.run(), scene.run().inbox());
        inbox.post("stop-any", "{}").unwrap();
        for _ in 0..3 {
            let error = scene.mirror().catch_up(Duration::ZERO).unwrap_err();
            assert!(matches!(error, MirrorError::Gap { .. }), "{error}");
        }
        assert_eq!(scene.fleet.delivered(), ["stop-any"]);
        assert_eq!(delivery_of(&*run, "stop-any"), Delivery::Taken);
        assert!(matches!(scene.mark().silence, Some(Silence::Copy(_))), "{:?}", scene.mark());
    }

    #[test]
    fn what_was_delivered_before_the_engine_went_away_is_not_delivered_again() {
        let scene = Scene::new();
        for ask in ["answer-ask1", "answer-ask2"] {
            scene.run().inbox().post(ask, "{}").unwrap();
        }
        scene.fleet.goes_away_after(1);
        assert!(scene.mirror().catch_up(Duration::ZERO).is_err());
        scene.fleet.is_away(false);
        scene.mirror().catch_up(Duration::ZERO).unwrap();
        let mut delivered = scene.fleet.delivered();
        delivered.sort();
        assert_eq!(delivered, ["answer-ask1", "answer-ask2"]);
    }

    #[test]
    fn a_stop_is_for_the_run_as_it_is_known_here_unless_it_arrives_at_once() {
        let scene = Scene::new();
        scene.mirror().catch_up(Duration::ZERO).unwrap();
        let request = StopRequest::for_run(&*scene.run(), None, true);
        assert_eq!((request.seen, request.name()), (Some(2), "stop-now-after-2".to_owned()));
        for (age, seen) in [(Duration::ZERO, None), (FRESH, Some(2))] {
            let posted = serde_json::to_string(&request).unwrap();
            scene.run().inbox().post(&request.name(), &posted).unwrap();
            let path = scene.folder.path().join("r.in").join(request.name());
            std::fs::File::open(path).unwrap().set_modified(SystemTime::now() - age).unwrap();
            scene.mirror().catch_up(Duration::ZERO).unwrap();
            let delivered: StopRequest = serde_json::from_str(&scene.fleet.last_content()).unwrap();
            assert_eq!((delivered.seen, delivered.now), (seen, true), "{age:?}");
        }
        scene.run().inbox().post("answer-ask1", "{}").unwrap();
        scene.mirror().catch_up(Duration::ZERO).unwrap();
        assert_eq!(scene.fleet.last_content(), "{}", "answers stay as they are");
    }

    /// It may be suspended with Ctrl-Z.
    #[test]
    fn a_message_that_the_keeper_of_the_copy_leaves_lying_is_delivered_by_another_process() {
        let scene = Scene::new();
        let mut suspended = scene.mirror();
        suspended.catch_up(Duration::ZERO).unwrap();
        let inbox = scene.run().inbox();
        inbox.post("stop-any", "{}").unwrap();
        scene.mirror().catch_up(Duration::ZERO).unwrap();
        assert_eq!(scene.fleet.delivered(), [""; 0], "the keeper may still do it");
        let path = scene.folder.path().join("r.in/stop-any");
        let posted = SystemTime::now() - OVERDUE;
        std::fs::File::open(path).unwrap().set_modified(posted).unwrap();
        scene.mirror().catch_up(Duration::ZERO).unwrap();
        assert_eq!(
            (scene.fleet.delivered(), inbox.contains("stop-any")),
            (vec!["stop-any".to_owned()], false)
        );
        drop(suspended);
    }

    #[test]
    fn one_process_at_a_time_keeps_a_copy() {
        let scene = Scene::new();
        let mut first = scene.mirror();
        first.catch_up(Duration::ZERO).unwrap();
        scene.fleet.happens(warnings("r", 3..=3));
        assert_eq!(scene.mirror().catch_up(Duration::ZERO).unwrap(), Standing::Open);
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

    /// An event of main that names this text.
    fn printed(seq: u64, text: &str) -> Vec<Event> {
        let (agent, state) = (AgentId::main(), StateFile::new("START.sh").unwrap());
        let body = Body::Print { agent, step: 1, state, text: reference_to(text).unwrap() };
        vec![Event { seq, time: now(), run: "r".to_owned(), body }]
    }

    #[test]
    fn texts_that_events_name_are_brought_and_short_ones_are_put_into_them() {
        let scene = Scene::new();
        let (long, short) = ("x".repeat(MAX_INLINE_PAYLOAD_BYTES + 1), "short");
        scene.fleet.happens(printed(3, &long));
        let error = scene.mirror().catch_up(Duration::ZERO).unwrap_err();
        assert!(error.to_string().ends_with(" is not there"), "{error}");
        assert_eq!(scene.last_event(), 2, "an event without its text");
        for text in [&long, short] {
            let Payload::Stored { payload: hash, .. } = reference_to(text).unwrap() else { panic!("stored") };
            scene.fleet.keeps_text(&hash, text);
        }
        // The copy has the text already when it is named again.
        scene.fleet.happens(printed(4, &long));
        scene.fleet.happens(printed(5, short));
        scene.mirror().catch_up(Duration::ZERO).unwrap();
        let run = scene.store.run("r").unwrap();
        let mut events = run.events(Start::After(2)).unwrap();
        let batches = std::iter::from_fn(|| events.next_batch().unwrap());
        let told = batches.flatten().map(|event| match event.body {
            Body::Print { text, .. } => (text.text().map(str::len), run.payloads().text_of(&text).unwrap()),
            other => panic!("{other:?}"),
        });
        let expected = [(None, long.clone()), (None, long), (Some(5), short.to_owned())];
        assert_eq!(told.collect::<Vec<_>>(), expected);
    }

    #[test]
    fn a_keeper_follows_a_run_to_its_end() {
        let scene = Scene::new();
        let keeper = Keeper::start(scene.fleet, &scene.store, "r").unwrap().unwrap();
        scene.fleet.happens(warnings("r", 3..=3));
        scene.run().inbox().post("answer-ask1", "{}").unwrap();
        assert_eq!(delivery_of(&*scene.run(), "answer-ask1"), Delivery::Taken);
        scene.fleet.stands(Standing::Over);
        while !keeper.is_done() {
            std::thread::yield_now();
        }
        assert_eq!(scene.last_event(), 3);
    }
}
