//! A shared flag that can only change from running to stopped.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::Instant;

/// Where a service or a container is stopped, the signal for Raymond reaches its programs as well, a moment earlier or
/// later. What ends without success within this time of the announcement was stopped; it has not failed.
const SAME_MOMENT: Duration = Duration::from_millis(200);

/// Tells any number of running programs to stop. All clones share one flag.
#[derive(Clone, Debug)]
pub struct StopSignal {
    state: Arc<watch::Sender<State>>,
}

#[derive(Clone, Copy, Debug, Default)]
struct State {
    /// When Raymond was told by a signal to stop.
    announced: Option<Instant>,
    is_triggered: bool,
}

impl StopSignal {
    pub fn new() -> Self {
        StopSignal { state: Arc::new(watch::Sender::new(State::default())) }
    }

    /// Stops all running programs, and prevents the start of others.
    pub fn trigger(&self) {
        self.state.send_modify(|state| state.is_triggered = true);
    }

    /// Raymond was told by a signal to stop. Programs may go on, if the signal has not reached them, too.
    pub fn announce(&self) {
        self.state.send_modify(|state| state.announced = Some(Instant::now()));
    }

    pub fn is_triggered(&self) -> bool {
        self.state.borrow().is_triggered
    }

    /// Waits until [`StopSignal::trigger`] is called; returns at once if it was called before.
    pub async fn triggered(&self) {
        let mut receiver = self.state.subscribe();
        // This cannot fail, because `self` holds the sender.
        let _ = receiver.wait_for(|state| state.is_triggered).await;
    }

    /// Whether a program that has just ended without success was stopped together with Raymond. Waits a moment, because
    /// Raymond may get its own signal later. A program that handles the signal ends with a code of its own. If it ended
    /// `by_signal`, that may also be one that Raymond sent, for whatever reason.
    pub async fn includes_what_just_ended(&self, by_signal: bool) -> bool {
        let ended = Instant::now();
        let is_same_moment = |state: &State| {
            let is_near = |announced: Instant| ended.saturating_duration_since(announced) <= SAME_MOMENT;
            (by_signal && state.is_triggered) || state.announced.is_some_and(is_near)
        };
        let mut receiver = self.state.subscribe();
        tokio::time::timeout(SAME_MOMENT, receiver.wait_for(is_same_moment)).await.is_ok()
    }
}

impl Default for StopSignal {
    fn default() -> Self {
        StopSignal::new()
    }
}
