//! How far a fan-out is, told now and then: once for each tenth of its workers that has ended, not for each of them.

use std::collections::BTreeMap;

use raymond_core::event::{Body, Event};
use raymond_core::name::AgentId;
use raymond_core::run::Run;
use raymond_core::workflow::StateFile;

use super::status::FanOutView;
use super::text::clean;
use super::wording::DIM;

/// How often the progress of one fan-out is told. One with fewer workers has a line for each of them anyway.
const PARTS: usize = 10;

/// What was told: how many parts of a fan-out had ended, by agent and state.
#[derive(Default)]
pub(super) struct Progress {
    told: BTreeMap<AgentId, BTreeMap<StateFile, usize>>,
    /// Whether a worker has ended since progress was last looked at.
    has_changed: bool,
}

impl Progress {
    /// The lines to show after an event. The run is looked at once for each commit, after its last event.
    pub(super) fn lines(&mut self, run: &Run, event: &Event) -> Vec<String> {
        if let Body::Joined { agent, .. } = &event.body {
            // A later fan-out into the same state begins anew.
            self.told.remove(agent);
        } else if let Body::AgentFinished { agent, .. } = &event.body {
            self.told.remove(agent);
            self.has_changed = true;
        } else if let Body::StepFailed(_) = &event.body {
            self.has_changed = true;
        }
        if event.seq != run.seq || !std::mem::take(&mut self.has_changed) {
            return Vec::new();
        }
        let mut lines = Vec::new();
        for (agent, state, fan_out) in run.fan_outs().filter(|(_, _, fan_out)| fan_out.workers >= PARTS) {
            let parts = (fan_out.done + fan_out.failed) * PARTS / fan_out.workers;
            let told = self.told.get(agent).and_then(|states| states.get(state)).copied().unwrap_or(0);
            if parts > told {
                self.told.entry(agent.clone()).or_default().insert(state.clone(), parts);
                let told = FanOutView::of((agent, state, fan_out)).to_string();
                lines.push(format!("{DIM}workers:{DIM:#} {}", clean(&told)));
            }
        }
        lines
    }
}
