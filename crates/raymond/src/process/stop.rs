//! A switch that many holders share and that only ever goes one way: from running to stopped.

use std::sync::Arc;

use tokio::sync::watch;

/// Tells any number of running programs to stop. Clones are the same switch.
#[derive(Clone, Debug)]
pub struct StopSignal {
    stopped: Arc<watch::Sender<bool>>,
}

impl StopSignal {
    pub fn new() -> Self {
        StopSignal { stopped: Arc::new(watch::Sender::new(false)) }
    }

    /// Stops every program that listens now, and every one that would start later.
    pub fn trigger(&self) {
        self.stopped.send_replace(true);
    }

    pub fn is_triggered(&self) -> bool {
        *self.stopped.borrow()
    }

    /// Waits until the switch is thrown; returns at once when it already is.
    pub async fn triggered(&self) {
        let mut receiver = self.stopped.subscribe();
        // The sender cannot be gone while `self` holds it, so there is no error to tell apart.
        let _ = receiver.wait_for(|stopped| *stopped).await;
    }
}

impl Default for StopSignal {
    fn default() -> Self {
        StopSignal::new()
    }
}
