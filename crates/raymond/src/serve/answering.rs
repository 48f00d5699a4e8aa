//! Answers to the questions of one run are given one after the other.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

/// The runs that are just being answered.
#[derive(Default)]
pub struct Answering(Mutex<BTreeMap<String, Arc<Mutex<()>>>>);

impl Answering {
    /// What is locked while a run is answered.
    pub fn of(&self, run: &str) -> Arc<Mutex<()>> {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        // Those of runs that are not answered any more are forgotten.
        all.retain(|_, turn| Arc::strong_count(turn) > 1);
        Arc::clone(all.entry(run.to_owned()).or_default())
    }
}
