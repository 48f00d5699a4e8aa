//! Engines that do not answer are left alone for a while, so that a command waits for each of them once.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::{Address, Fleet, KnownRun, NewRun, News, PATIENCE, Resume, Resumed, Started, Trouble, Worker};
use crate::error::{ExitKind, UserError};

/// How long an engine that did not answer is left alone. The rest of a short command takes less.
const LEFT_ALONE: Duration = PATIENCE;

/// An engine that is not asked again at once if it did not answer.
pub struct Patient {
    fleet: &'static dyn Fleet,
    /// The servers that did not answer: since when, and what was said.
    silent: Mutex<BTreeMap<String, (Instant, String)>>,
}

impl Patient {
    pub fn new(fleet: &'static dyn Fleet) -> Self {
        Self { fleet, silent: Mutex::default() }
    }

    /// Notes that a server does not answer.
    pub fn leave_alone(&self, at: &Address, why: &str) {
        self.silent().insert(at.server(), (Instant::now(), why.to_owned()));
    }

    /// Why a server is left alone now, if it is.
    pub fn why_left_alone(&self, at: &Address) -> Option<String> {
        let silent = self.silent();
        let (since, why) = silent.get(&at.server())?;
        (since.elapsed() < LEFT_ALONE).then(|| why.clone())
    }

    fn silent(&self) -> MutexGuard<'_, BTreeMap<String, (Instant, String)>> {
        self.silent.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn ask<T>(&self, at: &Address, act: impl FnOnce(&dyn Fleet) -> Result<T, Trouble>) -> Result<T, Trouble> {
        if let Some(why) = self.why_left_alone(at) {
            return Err(Trouble::Away(why));
        }
        let answer = act(self.fleet);
        if let Err(Trouble::Away(why)) = &answer {
            self.leave_alone(at, why);
        }
        answer
    }
}

impl Fleet for Patient {
    fn start(&self, at: &Address, new: &NewRun) -> Result<Started, Trouble> {
        self.ask(at, |fleet| fleet.start(at, new))
    }

    fn answers(&self, at: &Address) -> Result<(), Trouble> {
        self.ask(at, |fleet| fleet.answers(at))
    }

    fn runs(&self, at: &Address) -> Result<Vec<KnownRun>, Trouble> {
        self.ask(at, |fleet| fleet.runs(at))
    }

    fn news(&self, at: &Address, run: &str, after: u64, wait: Duration) -> Result<News, Trouble> {
        self.ask(at, |fleet| fleet.news(at, run, after, wait))
    }

    fn deliver(&self, at: &Address, run: &str, name: &str, content: &str) -> Result<(), Trouble> {
        self.ask(at, |fleet| fleet.deliver(at, run, name, content))
    }

    fn resume(&self, at: &Address, run: &str, resume: &Resume) -> Result<Resumed, Trouble> {
        self.ask(at, |fleet| fleet.resume(at, run, resume))
    }

    fn forget(&self, at: &Address, run: &str) -> Result<(), Trouble> {
        self.ask(at, |fleet| fleet.forget(at, run))
    }

    /// This is a matter of the blob store, which says nothing about the server.
    fn text(&self, at: &Address, run: &str, hash: &str) -> Result<String, Trouble> {
        self.fleet.text(at, run, hash)
    }

    /// So is this.
    fn debug_files(
        &self,
        at: &Address,
        run: &str,
        step: u64,
        attempt: u32,
    ) -> Result<Option<Vec<u8>>, Trouble> {
        self.fleet.debug_files(at, run, step, attempt)
    }

    fn work(&self, worker: &Worker) -> Result<ExitKind, UserError> {
        self.fleet.work(worker)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fleet::fake::FakeFleet;

    #[test]
    fn an_engine_that_did_not_answer_is_not_asked_again_at_once() {
        let fleet: &'static FakeFleet = Box::leak(Box::default());
        let patient = Patient::new(fleet);
        let at = Address::parse("temporal://here").unwrap();
        assert_eq!(patient.runs(&at), Ok(Vec::new()));
        fleet.is_away(true);
        let away = Err(Trouble::Away("no route".to_owned()));
        assert_eq!(patient.runs(&at), away);
        fleet.is_away(false);
        assert_eq!(patient.runs(&at), away, "it was asked again");
        let other = Address::parse("temporal://there").unwrap();
        assert_eq!(patient.runs(&other), Ok(Vec::new()), "another one is asked");
    }
}
