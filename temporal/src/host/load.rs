//! How busy a machine is.

use std::sync::PoisonError;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// How long a machine that could not carry out a step takes no agents.
pub const UNFIT: Duration = Duration::from_secs(60);

/// How busy this machine is, for all its threads.
#[derive(Debug, Default)]
pub struct Load {
    /// Deliveries that run or wait here.
    pub steps: AtomicUsize,
    /// Set when this machine takes no more agents.
    pub is_leaving: AtomicBool,
    /// When it last could not carry out a step.
    unfit_at: std::sync::Mutex<Option<Instant>>,
}

impl Load {
    /// Whether agents that come here now could have their steps carried out, as far as is known.
    pub fn takes_agents(&self) -> bool {
        let unfit_at = *self.unfit_at.lock().unwrap_or_else(PoisonError::into_inner);
        !self.is_leaving.load(Ordering::Relaxed) && unfit_at.is_none_or(|at| at.elapsed() > UNFIT)
    }

    pub fn note_unfit(&self) {
        *self.unfit_at.lock().unwrap_or_else(PoisonError::into_inner) = Some(Instant::now());
    }
}
