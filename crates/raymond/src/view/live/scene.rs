//! What the thread that draws the live view shares with the run: the last picture of the run, and what is known beside
//! it. Each change replaces what was there before, so that nothing piles up when the terminal is slow.
//!
//! Bound: of what a step prints, the last [`TAIL_BYTES`] or twice that.

use std::collections::BTreeMap;
use std::fmt;

use raymond_core::money::Usd;
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
    /// What the running turns have cost so far, where their streams tell it. These are estimates: the run counts the cost
    /// of a turn once it has ended.
    spending: BTreeMap<AgentId, Usd>,
    /// Whether anything has changed since the last drawing.
    has_changed: bool,
}

/// An amount of money as it is shown.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Spent {
    pub(super) usd: Usd,
    /// Whether part of it is the estimate of a running turn.
    pub(super) is_estimate: bool,
}

impl fmt::Display for Spent {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mark = if self.is_estimate { "~" } else { "" };
        write!(formatter, "{mark}{}", self.usd)
    }
}

impl Scene {
    pub(super) fn new(picture: Picture) -> Self {
        Self {
            picture,
            is_stopping: false,
            outputs: BTreeMap::new(),
            spending: BTreeMap::new(),
            has_changed: true,
        }
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

    /// A running turn has cost so much so far.
    pub(super) fn spends(&mut self, agent: &AgentId, so_far: Usd) {
        if so_far.is_zero() || self.spending.get(agent) == Some(&so_far) {
            return;
        }
        self.spending.insert(agent.clone(), so_far);
        self.has_changed = true;
    }

    /// Forgets what an attempt printed and cost that has ended.
    pub(super) fn forget_attempt(&mut self, agent: &AgentId) {
        self.outputs.remove(agent);
        self.spending.remove(agent);
    }

    /// An amount with what the agent's turn has cost so far, or with what all turns have. Nothing is added to it where
    /// no turn runs.
    pub(super) fn with_spending(&self, counted: Usd, agent: Option<&AgentId>) -> Spent {
        let running = match agent {
            Some(agent) => self.spending.get(agent).copied().unwrap_or(Usd::ZERO),
            None => self.spending.values().fold(Usd::ZERO, |sum, one| sum + *one),
        };
        Spent { usd: counted + running, is_estimate: !running.is_zero() }
    }

    pub(super) fn output_of(&self, agent: &AgentId) -> Option<&OutputTail> {
        self.outputs.get(agent)
    }

    /// Whether anything has changed since this was last asked.
    pub(super) fn take_change(&mut self) -> bool {
        std::mem::take(&mut self.has_changed)
    }
}
