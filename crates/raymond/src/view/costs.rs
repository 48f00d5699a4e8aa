//! What each state of a run has cost since this process took it up, for the summary at its end.
//!
//! A run's own state has only its total: costs by state would make every snapshot larger, and only this one line shows
//! them. There are no more entries than states.

#![warn(clippy::wildcard_enum_match_arm, reason = "a new event has to be answered here")]

use std::collections::BTreeMap;

use raymond_core::event::{Body, Event, Interrupted};
use raymond_core::money::Usd;
use raymond_core::workflow::StateFile;

use crate::view::text::clean;

/// How many states the summary names.
const NAMED: usize = 5;

#[derive(Debug, Default)]
pub(super) struct Costs(BTreeMap<String, Usd>);

impl Costs {
    pub(super) fn add(&mut self, event: &Event) {
        match &event.body {
            Body::StepFinished(step) => self.spend(&step.state, step.attempt_cost_usd),
            Body::StepFailed(failed) => self.spend(&failed.state, failed.attempt_cost_usd),
            Body::Retry(retry) => self.spend(&retry.state, retry.attempt_cost_usd),
            Body::Reminder(reminder) => self.spend(&reminder.state, reminder.attempt_cost_usd),
            Body::LimitWaiting(limit) => self.spend(&limit.state, limit.attempt_cost_usd),
            Body::RunResumed(resumed) => self.spend_interrupted(&resumed.interrupted),
            Body::RunStopped { interrupted, .. } => self.spend_interrupted(interrupted),
            Body::RunStarted(_)
            | Body::AgentStarted(_)
            | Body::StepStarted(_)
            | Body::SessionStarted(_)
            | Body::Delayed { .. }
            | Body::ExclusiveWaiting { .. }
            | Body::AgentFinished { .. }
            | Body::Joined { .. }
            | Body::AskOpened(_)
            | Body::AskClosed(_)
            | Body::Print { .. }
            | Body::Warning { .. }
            | Body::BudgetExceeded { .. }
            | Body::AgentRetried { .. }
            | Body::AgentMoved { .. }
            | Body::RunFinished { .. }
            | Body::Snapshot { .. } => {}
        }
    }

    fn spend_interrupted(&mut self, interrupted: &[Interrupted]) {
        for step in interrupted {
            self.spend(&step.state, step.estimated_cost_usd);
        }
    }

    fn spend(&mut self, state: &StateFile, cost: Usd) {
        if !cost.is_zero() {
            *self.0.entry(state.as_str().to_owned()).or_default() += cost;
        }
    }

    /// The most expensive states first, then what was spent before this process took the run up. Nothing if there would
    /// be only one part, because the total says the same.
    pub(super) fn line(&self, total: Usd) -> Option<String> {
        let mut costs: Vec<(&String, Usd)> = self.0.iter().map(|(state, cost)| (state, *cost)).collect();
        costs.sort_by_key(|(_, cost)| std::cmp::Reverse(*cost));
        let (named, others) = costs.split_at(costs.len().min(NAMED));
        let mut parts: Vec<String> =
            named.iter().map(|(state, cost)| format!("{} {cost}", clean(state))).collect();
        if !others.is_empty() {
            let sum: Usd = others.iter().map(|(_, cost)| *cost).sum();
            parts.push(format!("{} more {sum}", others.len()));
        }
        let earlier = total.saturating_sub(self.0.values().copied().sum());
        if !earlier.is_zero() && !parts.is_empty() {
            parts.push(format!("earlier {earlier}"));
        }
        (parts.len() > 1).then(|| format!("  cost: {}", parts.join(", ")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn costs(spent: &[(&str, f64)]) -> Costs {
        let mut costs = Costs::default();
        for (state, dollars) in spent {
            costs.spend(&StateFile::new(state).unwrap(), Usd::from_dollars(*dollars));
        }
        costs
    }

    #[test]
    fn the_most_expensive_states_are_named() {
        let many: Vec<(String, f64)> =
            (1..=8).map(|number| (format!("S{number}.md"), f64::from(number))).collect();
        let many: Vec<(&str, f64)> = many.iter().map(|(state, cost)| (state.as_str(), *cost)).collect();
        for (spent, total, expected) in [
            (&[][..], 0.0, None),
            (&[], 1.0, None),
            (&[("A.md", 1.0)], 1.0, None),
            (&[("A.md", 0.0), ("B.md", 1.0)], 1.0, None),
            (&[("A.md", 1.0), ("B.md", 2.0), ("A.md", 0.5)], 3.5, Some("  cost: B.md $2.00, A.md $1.50")),
            (&[("A.md", 1.0)], 1.25, Some("  cost: A.md $1.00, earlier $0.25")),
            (
                &many,
                36.0,
                Some("  cost: S8.md $8.00, S7.md $7.00, S6.md $6.00, S5.md $5.00, S4.md $4.00, 3 more $6.00"),
            ),
        ] {
            assert_eq!(costs(spent).line(Usd::from_dollars(total)).as_deref(), expected);
        }
    }
}
