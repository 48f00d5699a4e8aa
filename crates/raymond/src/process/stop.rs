//! A shared flag that can only change from running to stopped.

use std::sync::Arc;

use tokio::sync::watch;

/// Tells any number of running programs to stop. All clones share one flag.
#[derive(Clone, Debug)]
pub struct StopSignal {
    stopped: Arc<watch::Sender<bool>>,
}

impl StopSignal {
    pub fn new() -> Self {
        StopSignal { stopped: Arc::new(watch::Sender::new(false)) }
    }

    /// Stops all running programs, and prevents the start of others.
    pub fn trigger(&self) {
        self.stopped.send_replace(true);
    }

    pub fn is_triggered(&self) -> bool {
        *self.stopped.borrow()
    }

    /// Waits until [`StopSignal::trigger`] is called; returns at once if it was called before.
    pub async fn triggered(&self) {
        let mut receiver = self.stopped.subscribe();
        // This cannot fail, because `self` holds the sender.
        let _ = receiver.wait_for(|stopped| *stopped).await;
    }
}

impl Default for StopSignal {
    fn default() -> Self {
        StopSignal::new()
    }
}
