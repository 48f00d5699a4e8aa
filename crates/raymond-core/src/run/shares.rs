//! The share of the budget that each turn gets.

use super::Run;
use crate::money::Usd;

/// A turn with a smaller share than this would stop at once, so it waits until other turns have ended.
const SHARE_WORTH_STARTING: Usd = Usd::cent();
/// The share of a turn when nothing is left; not zero, because programs refuse a limit of zero.
const SMALLEST_SHARE: Usd = Usd::millionth();

impl Run {
    /// The share of the budget that a turn starting now may use, so that all running turns together stay within it.
    pub fn budget_share(&self) -> Option<Usd> {
        let left = self.unreserved_budget()?;
        let free_slots = self.options.max_parallel.saturating_sub(self.queues.running_prompts.len());
        let starters = self.agents.len().saturating_sub(self.queues.running_prompts.len());
        Some(left.divided_by(starters.min(free_slots)).max(SMALLEST_SHARE))
    }

    /// Whether another turn may start. If the whole budget is reserved for other turns, a new turn would stop at once
    /// and use part of their shares, so it waits until one of them has ended.
    pub(super) fn has_money_to_share(&self) -> bool {
        self.queues.running_prompts.is_empty()
            || self.unreserved_budget().is_none_or(|left| left >= SHARE_WORTH_STARTING)
    }

    /// The part of the budget that is not reserved for running turns; `None` without a budget.
    fn unreserved_budget(&self) -> Option<Usd> {
        if self.options.budget_usd.is_zero() {
            return None;
        }
        let shares =
            self.queues.running_prompts.iter().filter_map(|id| self.agents.get(id)?.work()?.share_usd);
        let reserved: Usd = shares.sum();
        Some(self.options.budget_usd.saturating_sub(self.cost_usd).saturating_sub(reserved))
    }
}
