//! What the thread that draws the live view shares with the run: the last picture of the run, and what is known beside
//! it. Each change replaces what was there before, so that nothing piles up when the terminal is slow.
//!
//! Bound: of what a step prints, the last [`TAIL_BYTES`] or twice that.

use std::collections::BTreeMap;

use raymond_core::name::AgentId;

use super::picture::Picture;
use crate::process::OutputTail;

/// How much of a running step's output is kept.
const TAIL_BYTES: usize = 1024;

/// All that the view shows.
#[derive(Debug)]
pub(super) struct Scene {
    pub(super) picture: Picture,
    /// Whether the run was asked to stop.
    pub(super) is_stopping: bool,
    /// The end of what the running steps have printed. It is not part of the run's state.
    outputs: BTreeMap<AgentId, OutputTail>,
    /// Whether anything has changed since the last drawing.
    has_changed: bool,
}

impl Scene {
    pub(super) fn new(picture: Picture) -> Self {
        Self { picture, is_stopping: false, outputs: BTreeMap::new(), has_changed: true }
    }

    pub(super) fn show(&mut self, picture: Picture) {
        self.picture = picture;
        self.has_changed = true;
    }

    pub(super) fn stopping(&mut self) {
        self.is_stopping = true;
        self.has_changed = true;
    }

    /// Adds a piece of what a running step prints.
    pub(super) fn add_output(&mut self, agent: &AgentId, bytes: &[u8]) {
        if !self.outputs.contains_key(agent) {
            self.outputs.insert(agent.clone(), OutputTail::new(TAIL_BYTES));
        }
        if let Some(output) = self.outputs.get_mut(agent) {
            output.push(bytes);
        }
        self.has_changed = true;
    }

    /// Forgets what an attempt printed that has ended.
    pub(super) fn forget_output(&mut self, agent: &AgentId) {
        self.outputs.remove(agent);
    }

    pub(super) fn output_of(&self, agent: &AgentId) -> Option<&OutputTail> {
        self.outputs.get(agent)
    }

    /// Whether anything has changed since this was last asked.
    pub(super) fn take_change(&mut self) -> bool {
        std::mem::take(&mut self.has_changed)
    }
}
