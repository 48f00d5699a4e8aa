//! How many steps may have programs at once, as far as this host can carry them.
//!
//! A host can be short of processes, file descriptors or memory when a program is to be started. That says nothing about
//! the step, so it does not fail: it waits and tries again, while fewer steps run at once. File descriptors are known in
//! advance, so that they are not used up at all. Where there are other hosts, a step does not wait for those that run here.

use std::cell::Cell;
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::Instant;

use crate::process::StopSignal;

/// File descriptors that a running step uses at most: pipes, the program's own, debug files.
const FILES_OF_A_STEP: u64 = 8;
/// File descriptors that Raymond itself uses at most, with some to spare.
const FILES_OF_RAYMOND: u64 = 24;
/// How long to wait before a program is started again.
const PAUSE: Duration = Duration::from_millis(200);
/// How long a shortage may last while no other step runs, or while there are other hosts. Nothing has to be hoped for from
/// the ends of steps then.
const PATIENCE: Duration = Duration::from_secs(30);

/// Lets as many steps in as can run at once; the others wait in order.
#[derive(Debug)]
pub struct Gate {
    /// The most that may be let in.
    most: usize,
    /// How many may be let in at present. A shortage lowers it, and every step that ends raises it by one.
    limit: Cell<usize>,
    inside: Cell<usize>,
    /// How many of those inside have a program.
    with_program: Cell<usize>,
    /// When a program could not be started for the first time since one last started or ended.
    short_since: Cell<Option<Instant>>,
    has_other_hosts: bool,
    has_warned: Cell<bool>,
    left: Notify,
}

/// What to do about a shortage.
#[derive(Debug, PartialEq, Eq)]
pub enum Advice {
    /// Try again after this time. The first time in a run, it is also said.
    TryAgain { after: Duration, is_first: bool },
    /// It has lasted too long.
    GiveUp,
}

impl Gate {
    /// For a process that may open so many files; any number if it is not known.
    pub fn for_files(limit: Option<u64>) -> Self {
        let by_files = limit.map_or(usize::MAX, |limit| {
            let steps = limit.saturating_sub(FILES_OF_RAYMOND) / FILES_OF_A_STEP;
            usize::try_from(steps).unwrap_or(usize::MAX).max(1)
        });
        Self {
            most: by_files,
            limit: Cell::new(by_files),
            inside: Cell::new(0),
            with_program: Cell::new(0),
            short_since: Cell::new(None),
            has_other_hosts: false,
            has_warned: Cell::new(false),
            left: Notify::new(),
        }
    }

    /// Steps that cannot have a program here go to another host.
    pub fn with_other_hosts(self) -> Self {
        Self { has_other_hosts: true, ..self }
    }

    /// Waits until the step may have a program; nothing if it is stopped meanwhile.
    pub async fn enter(&self, stop: &StopSignal) -> Option<Place<'_>> {
        while self.inside.get() >= self.limit.get() {
            tokio::select! {
                () = self.left.notified() => {}
                () = stop.triggered() => return None,
            }
        }
        self.inside.set(self.inside.get() + 1);
        Some(Place { gate: self, has_program: Cell::new(false) })
    }
}

/// The right of one step to have a program.
#[derive(Debug)]
pub struct Place<'a> {
    gate: &'a Gate,
    has_program: Cell<bool>,
}

impl Place<'_> {
    pub fn started(&self) {
        if !self.has_program.replace(true) {
            self.gate.with_program.set(self.gate.with_program.get() + 1);
            self.gate.short_since.set(None);
        }
    }

    /// The host is short of something that the program needs.
    pub fn shortage(&self) -> Advice {
        let gate = self.gate;
        let others = gate.with_program.get();
        let since = gate.short_since.get().unwrap_or_else(Instant::now);
        gate.short_since.set(Some(since));
        if (others == 0 || gate.has_other_hosts) && since.elapsed() > PATIENCE {
            return Advice::GiveUp;
        }
        if !gate.has_other_hosts {
            gate.limit.set(others.clamp(1, gate.limit.get()));
        }
        Advice::TryAgain { after: PAUSE, is_first: !gate.has_warned.replace(true) }
    }
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        let gate = self.gate;
        gate.inside.set(gate.inside.get() - 1);
        if self.has_program.get() {
            gate.with_program.set(gate.with_program.get() - 1);
            gate.limit.set(gate.limit.get().saturating_add(1).min(gate.most));
        }
        if self.has_program.get() || gate.inside.get() == 0 {
            gate.short_since.set(None);
        }
        // One for the place that is free, and one for the place that was added.
        gate.left.notify_one();
        gate.left.notify_one();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn files_limit_how_many_get_in() {
        let gate = Gate::for_files(Some(FILES_OF_RAYMOND + 2 * FILES_OF_A_STEP));
        let stop = StopSignal::new();
        let first = gate.enter(&stop).await.unwrap();
        let _second = gate.enter(&stop).await.unwrap();
        let third = gate.enter(&stop);
        tokio::pin!(third);
        assert!(futures_are_pending(third.as_mut()).await);
        drop(first);
        assert!(third.await.is_some());
    }

    #[tokio::test]
    async fn at_least_one_gets_in() {
        assert!(Gate::for_files(Some(3)).enter(&StopSignal::new()).await.is_some());
    }

    #[tokio::test]
    async fn a_stop_ends_the_wait() {
        let gate = Gate::for_files(Some(0));
        let stop = StopSignal::new();
        let _first = gate.enter(&stop).await.unwrap();
        stop.trigger();
        assert!(gate.enter(&stop).await.is_none());
    }

    #[tokio::test]
    async fn a_shortage_lowers_the_limit_to_what_runs_and_is_said_once() {
        let gate = Gate::for_files(None);
        let stop = StopSignal::new();
        let mut running = Vec::new();
        for _ in 0..3 {
            let place = gate.enter(&stop).await.unwrap();
            place.started();
            running.push(place);
        }
        let short = gate.enter(&stop).await.unwrap();
        assert_eq!(short.shortage(), Advice::TryAgain { after: PAUSE, is_first: true });
        assert_eq!(short.shortage(), Advice::TryAgain { after: PAUSE, is_first: false });
        assert_eq!(gate.limit.get(), 3);
        running.clear();
        assert_eq!(gate.limit.get(), 6, "it rises again as steps end");
    }

    #[tokio::test(start_paused = true)]
    async fn a_shortage_without_an_end_in_sight_is_given_up() {
        let gate = Gate::for_files(None);
        let stop = StopSignal::new();
        let place = gate.enter(&stop).await.unwrap();
        assert!(matches!(place.shortage(), Advice::TryAgain { .. }));
        tokio::time::advance(PATIENCE + PAUSE).await;
        assert_eq!(place.shortage(), Advice::GiveUp);
        let other = gate.enter(&stop);
        tokio::pin!(other);
        assert!(futures_are_pending(other.as_mut()).await, "only one is tried at a time");
    }

    #[tokio::test(start_paused = true)]
    async fn with_other_hosts_the_steps_that_run_are_not_waited_for() {
        let stop = StopSignal::new();
        for (gate, expected) in [
            (Gate::for_files(None), Advice::TryAgain { after: PAUSE, is_first: false }),
            (Gate::for_files(None).with_other_hosts(), Advice::GiveUp),
        ] {
            let running = gate.enter(&stop).await.unwrap();
            running.started();
            // Time that passes without a shortage does not count.
            tokio::time::advance(2 * PATIENCE).await;
            let [first, second] = [gate.enter(&stop).await.unwrap(), gate.enter(&stop).await.unwrap()];
            assert!(matches!(first.shortage(), Advice::TryAgain { .. }));
            tokio::time::advance(PATIENCE + PAUSE).await;
            assert_eq!(first.shortage(), expected);
            drop(first);
            assert_eq!(second.shortage(), expected, "what one has waited for, others need not");
            drop(running);
            assert!(matches!(second.shortage(), Advice::TryAgain { .. }), "a program has ended");
        }
    }

    async fn futures_are_pending(future: std::pin::Pin<&mut impl Future>) -> bool {
        tokio::time::timeout(Duration::from_millis(1), future).await.is_err()
    }
}
