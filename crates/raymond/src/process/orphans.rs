//! Processes that have lost their parents.
//!
//! Such a process becomes a child of the nearest ancestor that adopts orphans, or of the first process of its container,
//! which has to wait for its end. Otherwise it stays as a zombie until there are no process numbers left.
//!
//! A process that carries out a run adopts those of its steps, so that by its ancestors a process can be told from one that
//! a person has started ([`descent`](super::descent)).

use std::collections::HashSet;
use std::time::Duration;

use rustix::process::{Pid, WaitOptions, getpid, waitpid};
use tokio::signal::unix::{SignalKind, signal};

use super::table::zombies_of;

/// How long a dead child is left to those who may wait for it.
const PAUSE: Duration = Duration::from_secs(1);

/// From now on, what loses its parent below this process becomes its child.
pub fn adopt_orphans() {
    // Kernels before 3.4 cannot do it. Nothing but the descent of such processes depends on it.
    let _ = rustix::process::set_child_subreaper(Some(getpid()));
}

/// Runs until it is dropped, and returns at once if no orphans come to this process. Must run on the thread that waits
/// for Raymond's own programs.
///
/// The exit codes of Raymond's own programs must not be taken here. Those programs are waited for as soon as the system
/// reports their end. So a zombie counts as an orphan only if it is found twice in a row, and all reports that came in
/// between were handled.
pub async fn remove_dead_orphans() {
    let adopts = rustix::process::child_subreaper().is_ok_and(|adopts| adopts.is_some());
    if !adopts && !getpid().is_init() {
        return;
    }
    let Ok(mut child_ended) = signal(SignalKind::child()) else { return };
    loop {
        remove_all().await;
        if child_ended.recv().await.is_none() {
            return;
        }
    }
}

/// Removes dead orphans until there are none.
async fn remove_all() {
    let mut seen = HashSet::new();
    loop {
        tokio::time::sleep(PAUSE).await;
        // What was reported during the pause comes first.
        tokio::task::yield_now().await;
        let zombies: HashSet<Pid> = zombies_of(getpid()).into_iter().collect();
        if zombies.is_empty() {
            return;
        }
        for orphan in zombies.intersection(&seen) {
            let _ = waitpid(Some(*orphan), WaitOptions::NOHANG);
        }
        seen = zombies;
    }
}
