//! An engine for tests, with one run whose events and debug files the test gives.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use raymond_core::event::Event;

use super::{Address, Fleet, KnownRun, NewRun, News, Resume, Resumed, Standing, Started, Trouble, Worker};
use crate::error::{ExitKind, UserError};

pub(crate) struct FakeFleet {
    batches: Mutex<Vec<Vec<Event>>>,
    /// Names and contents of messages.
    delivered: Mutex<Vec<(String, String)>>,
    standing: Mutex<Standing>,
    /// Packed debug files, by step and attempt.
    archives: Mutex<BTreeMap<(u64, u32), Vec<u8>>>,
    asked: Mutex<BTreeSet<(u64, u32)>>,
    /// Long texts by their hashes. Each is told once.
    texts: Mutex<BTreeMap<String, String>>,
    /// How often all of its runs were asked for, and which runs were asked for news.
    listings: AtomicUsize,
    heard_of: Mutex<BTreeSet<String>>,
    is_away: AtomicBool,
    /// How many more messages it takes before it goes away.
    patience: AtomicUsize,
}

impl Default for FakeFleet {
    fn default() -> Self {
        Self {
            batches: Mutex::default(),
            delivered: Mutex::default(),
            standing: Mutex::new(Standing::Open),
            archives: Mutex::default(),
            asked: Mutex::default(),
            texts: Mutex::default(),
            listings: AtomicUsize::new(0),
            heard_of: Mutex::default(),
            is_away: AtomicBool::new(false),
            patience: AtomicUsize::new(usize::MAX),
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl FakeFleet {
    pub(crate) fn happens(&self, batch: Vec<Event>) {
        lock(&self.batches).push(batch);
    }

    pub(crate) fn stands(&self, standing: Standing) {
        *lock(&self.standing) = standing;
    }

    pub(crate) fn is_away(&self, is_away: bool) {
        self.is_away.store(is_away, Ordering::Relaxed);
    }

    /// It takes so many messages more, and goes away then.
    pub(crate) fn goes_away_after(&self, messages: usize) {
        self.patience.store(messages, Ordering::Relaxed);
    }

    pub(crate) fn leaves(&self, step: u64, attempt: u32, archive: Vec<u8>) {
        lock(&self.archives).insert((step, attempt), archive);
    }

    pub(crate) fn keeps_text(&self, hash: &str, text: &str) {
        lock(&self.texts).insert(hash.to_owned(), text.to_owned());
    }

    pub(crate) fn loses(&self, step: u64, attempt: u32) {
        lock(&self.archives).remove(&(step, attempt));
    }

    /// The attempts whose debug files were asked for since the last call.
    pub(crate) fn asked(&self) -> BTreeSet<(u64, u32)> {
        std::mem::take(&mut *lock(&self.asked))
    }

    /// The names of the messages that it got.
    pub(crate) fn delivered(&self) -> Vec<String> {
        lock(&self.delivered).iter().map(|(name, _)| name.clone()).collect()
    }

    /// The content of the last of them.
    pub(crate) fn last_content(&self) -> String {
        lock(&self.delivered).last().map(|(_, content)| content.clone()).unwrap_or_default()
    }

    /// How often all of its runs were asked for.
    pub(crate) fn listings(&self) -> usize {
        self.listings.load(Ordering::Relaxed)
    }

    /// The runs that were asked for news since the last call, by their names.
    pub(crate) fn heard_of(&self) -> Vec<String> {
        std::mem::take(&mut *lock(&self.heard_of)).into_iter().collect()
    }

    fn check(&self) -> Result<(), Trouble> {
        match self.is_away.load(Ordering::Relaxed) {
            true => Err(Trouble::Away("no route".to_owned())),
            false => Ok(()),
        }
    }
}

impl Fleet for FakeFleet {
    fn start(&self, _: &Address, _: &NewRun) -> Result<Started, Trouble> {
        self.check().map(|()| Started::Begun)
    }

    fn answers(&self, _: &Address) -> Result<(), Trouble> {
        self.check()
    }

    fn runs(&self, _: &Address) -> Result<Vec<KnownRun>, Trouble> {
        self.listings.fetch_add(1, Ordering::Relaxed);
        self.check().map(|()| Vec::new())
    }

    fn news(&self, _: &Address, run: &str, after: u64, _: Duration) -> Result<News, Trouble> {
        self.check()?;
        lock(&self.heard_of).insert(run.to_owned());
        let is_new = |batch: &&Vec<Event>| batch[0].seq > after;
        // One batch at a time, as if messages were short.
        let batches = lock(&self.batches).iter().filter(is_new).take(1).cloned().collect();
        let standing = lock(&self.standing).clone();
        Ok(News { batches, payloads: Vec::new(), hosts: Default::default(), standing })
    }

    fn text(&self, _: &Address, _: &str, hash: &str) -> Result<String, Trouble> {
        self.check()?;
        lock(&self.texts).remove(hash).ok_or_else(|| Trouble::Refused(format!("{hash} is not there")))
    }

    fn deliver(&self, _: &Address, _: &str, name: &str, content: &str) -> Result<(), Trouble> {
        self.check()?;
        lock(&self.delivered).push((name.to_owned(), content.to_owned()));
        if self.patience.fetch_sub(1, Ordering::Relaxed) == 1 {
            self.is_away(true);
        }
        Ok(())
    }

    fn resume(&self, _: &Address, _: &str, _: &Resume) -> Result<Resumed, Trouble> {
        self.check().map(|()| Resumed::GoesOn)
    }

    fn forget(&self, _: &Address, _: &str) -> Result<(), Trouble> {
        self.check()
    }

    fn debug_files(&self, _: &Address, _: &str, step: u64, attempt: u32) -> Result<Option<Vec<u8>>, Trouble> {
        self.check()?;
        lock(&self.asked).insert((step, attempt));
        Ok(lock(&self.archives).get(&(step, attempt)).cloned())
    }

    fn work(&self, _: &Worker) -> Result<ExitKind, UserError> {
        Ok(ExitKind::Completed)
    }
}
