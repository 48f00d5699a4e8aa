//! Suspends this process together with the programs of its steps, and keeps the time of that out of their limits.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::time::Instant;

/// How long this process was suspended altogether, in nanoseconds.
static AWAY: AtomicU64 = AtomicU64::new(0);

fn away() -> Duration {
    Duration::from_nanos(AWAY.load(Ordering::Relaxed))
}

/// The time on a clock that stands still while this process is suspended.
pub(super) fn now() -> Instant {
    let now = Instant::now();
    now.checked_sub(away()).unwrap_or(now)
}

/// Waits until that clock shows this time.
pub(super) async fn sleep_until(time: Instant) {
    loop {
        // A suspension during the sleep moves the end.
        let Some(end) = time.checked_add(away()) else { return std::future::pending().await };
        if Instant::now() >= end {
            return;
        }
        tokio::time::sleep_until(end).await;
    }
}

/// Stops the process groups and this process. Returns when it is continued, with the groups continued as well.
///
/// A process that has left the group of its step is not stopped.
#[cfg(unix)]
pub fn suspend(groups: &[i32]) {
    use rustix::process::{Pid, Signal, getpid, kill_process, kill_process_group};
    let groups: Vec<Pid> = groups.iter().filter_map(|group| Pid::from_raw(*group)).collect();
    let send = |signal| {
        for group in &groups {
            let _ = kill_process_group(*group, signal);
        }
    };
    send(Signal::STOP);
    let begin = Instant::now();
    let _ = kill_process(getpid(), Signal::STOP);
    let nanoseconds = u64::try_from(begin.elapsed().as_nanos()).unwrap_or(u64::MAX);
    AWAY.fetch_add(nanoseconds, Ordering::Relaxed);
    send(Signal::CONT);
}

/// Windows has no such thing.
#[cfg(windows)]
pub fn suspend(_groups: &[i32]) {}
