//! Removes dead orphans where Raymond is the first process of a container.
//!
//! A process whose parent has ended becomes a child of the first process, which has to wait for its end. Otherwise it
//! stays as a zombie until the container has no process numbers left.

use std::collections::HashSet;
use std::time::Duration;

use rustix::process::{Pid, WaitOptions, getpid, waitpid};

use super::table::zombies_of;

/// How often zombies are looked for.
const PAUSE: Duration = Duration::from_secs(1);

/// Runs until it is dropped, and returns at once if Raymond is not the first process. Must run on the thread that waits
/// for Raymond's own programs.
///
/// The exit codes of Raymond's own programs must not be taken here. Those programs are waited for as soon as the system
/// reports their end. So a zombie counts as an orphan only if it is found twice in a row, and all reports that came in
/// between were handled.
pub async fn remove_dead_orphans() {
    if !getpid().is_init() {
        return;
    }
    let mut seen = HashSet::new();
    loop {
        tokio::time::sleep(PAUSE).await;
        // What was reported during the pause comes first.
        tokio::task::yield_now().await;
        let zombies: HashSet<Pid> = zombies_of(getpid()).into_iter().collect();
        for orphan in zombies.intersection(&seen) {
            let _ = waitpid(Some(*orphan), WaitOptions::NOHANG);
        }
        seen = zombies;
    }
}
