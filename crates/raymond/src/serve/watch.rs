//! Notices what is written to journals, while someone wants to know.

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::{Instant, sleep, timeout_at};

use super::Server;
use super::lanes::Lane;

/// How long to wait after the first sign of a change, so that many of them are one.
const TOGETHER: Duration = Duration::from_millis(10);
/// How much longer for each reader, and at most: to tell hundreds of them of every step would take the time of the steps.
const PER_READER: Duration = Duration::from_micros(600);
const FOR_ALL_READERS: Duration = Duration::from_millis(120);
/// How often all journals are looked at, in case a sign was missed.
const LOOK_AGAIN: Duration = Duration::from_secs(5);
/// The same where the system gives no signs.
const WITHOUT_SIGNS: Duration = Duration::from_millis(100);
/// Looking at all journals may take at most this part of the time.
const SHARE: u32 = 20;

/// Tells the feed what has changed, for ever.
pub async fn watch(server: Arc<Server>) {
    let mut signs = Signs::new(server.state.path());
    let mut next_look = Instant::now();
    loop {
        if server.feed.readers() == 0 {
            // With no reader there is nothing to notice, and a reader that comes looks for itself.
            server.wake.notified().await;
            next_look = Instant::now();
        }
        let names = if next_look <= Instant::now() {
            None
        } else {
            signs.next(next_look, server.feed.readers()).await
        };
        let is_full = names.is_none();
        let begun = Instant::now();
        let worker = Arc::clone(&server);
        let updated =
            server.lanes.work(Lane::Own, move || worker.feed.update(&worker.index, names.as_ref())).await;
        if let Ok(Err(error)) = updated {
            tracing::warn!(%error, "cannot look at the runs");
        }
        if is_full {
            let pause = if signs.is_working() { LOOK_AGAIN } else { WITHOUT_SIGNS };
            next_look = Instant::now() + pause.max(begun.elapsed() * SHARE);
        }
    }
}

/// Signs that journals in a folder were written.
struct Signs {
    folder: PathBuf,
    seen: Option<Arc<Seen>>,
}

/// What a thread has noticed.
#[derive(Default)]
struct Seen {
    runs: Mutex<HashSet<String>>,
    /// Whether signs may have been missed, so that all journals have to be looked at.
    is_lost: AtomicBool,
    news: Notify,
}

impl Signs {
    fn new(folder: &Path) -> Self {
        Self { folder: folder.to_owned(), seen: None }
    }

    fn is_working(&self) -> bool {
        self.seen.is_some()
    }

    /// The runs that were written to; none when it is time to look at all of them.
    async fn next(&mut self, until: Instant, readers: usize) -> Option<HashSet<String>> {
        if self.seen.is_none() {
            // The folder may not exist yet.
            self.seen = listen(&self.folder);
        }
        let Some(seen) = &self.seen else {
            tokio::time::sleep_until(until).await;
            return None;
        };
        timeout_at(until, seen.news.notified()).await.ok()?;
        let for_readers = PER_READER.saturating_mul(u32::try_from(readers).unwrap_or(u32::MAX));
        sleep(TOGETHER + for_readers.min(FOR_ALL_READERS)).await;
        if seen.is_lost.load(Ordering::Acquire) {
            self.seen = None;
            return None;
        }
        Some(std::mem::take(&mut *seen.runs.lock().unwrap_or_else(PoisonError::into_inner)))
    }
}

/// Listens on a thread of its own for what the system tells about a folder.
#[cfg(target_os = "linux")]
fn listen(folder: &Path) -> Option<Arc<Seen>> {
    use rustix::fs::inotify::{CreateFlags, ReadFlags, Reader, WatchFlags, add_watch, init};
    let events = init(CreateFlags::CLOEXEC).ok()?;
    let what = WatchFlags::MODIFY | WatchFlags::CREATE | WatchFlags::MOVED_TO | WatchFlags::ONLYDIR;
    add_watch(&events, folder, what).ok()?;
    let seen: Arc<Seen> = Arc::default();
    let thread = Arc::clone(&seen);
    let read = move || {
        let mut buffer = [std::mem::MaybeUninit::uninit(); 16 * 1024];
        let mut reader = Reader::new(events, &mut buffer);
        while let Ok(event) = reader.next() {
            let lost = ReadFlags::QUEUE_OVERFLOW | ReadFlags::IGNORED;
            if event.events().intersects(lost) {
                break;
            }
            let name = event.file_name().and_then(|name| name.to_str().ok());
            if let Some(run) = name.and_then(crate::store::StateDir::run_of_file) {
                thread.runs.lock().unwrap_or_else(PoisonError::into_inner).insert(run.to_owned());
                thread.news.notify_one();
            }
        }
        thread.is_lost.store(true, Ordering::Release);
        thread.news.notify_one();
    };
    std::thread::Builder::new().name("watch".to_owned()).spawn(read).ok()?;
    Some(seen)
}

#[cfg(not(target_os = "linux"))]
fn listen(_: &Path) -> Option<Arc<Seen>> {
    None
}
