//! What a run has to do next, and when.

use std::collections::BTreeSet;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};

use super::{Agent, Halt, Run, RunStatus};
use crate::name::AgentId;

/// Something that must be done now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Due {
    /// Start this agent's state, or its next attempt.
    Launch(AgentId),
    /// This agent's result is final.
    End(AgentId),
    /// All workers of this agent have ended.
    Join(AgentId),
    /// This agent's question was not answered in time.
    AskTimeout(AgentId),
    /// There is nothing more to do: the run is over, or this process has to stop.
    Close,
}

/// How the process that drives a run wants it to continue.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Mode {
    /// Nothing new may start.
    pub draining: bool,
    /// Whether to wait for answers to open questions; otherwise the run ends when nothing else is left to do.
    pub waits_for_answers: bool,
    /// How many of the running steps were ended because the run stops. The event that ends the run records them.
    pub interrupted: usize,
}

impl Run {
    /// Whether the time of an open question is over.
    pub fn has_overdue_question(&self, now: Timestamp) -> bool {
        self.queues.deadlines.first().is_some_and(|(deadline, _)| *deadline <= now)
    }

    /// The next time after `now` at which there is something to do.
    pub fn next_wake(&self, now: Timestamp) -> Option<Timestamp> {
        // An agent whose time is past has been handled, or waits for something else that will end.
        let next = |queue: &BTreeSet<(Timestamp, AgentId)>| {
            queue.iter().map(|(time, _)| *time).find(|time| *time > now)
        };
        [next(&self.queues.waiting), next(&self.queues.deadlines)].into_iter().flatten().min()
    }

    /// The next thing that must be done now.
    pub fn next_due(&self, now: Timestamp, mode: Mode) -> Option<Due> {
        self.next_due_beside(&BTreeSet::new(), now, mode)
    }

    /// The next thing that must be done now, while the results of the workers of some agents are being put together.
    pub fn next_due_beside(&self, joining: &BTreeSet<AgentId>, now: Timestamp, mode: Mode) -> Option<Due> {
        if self.status != RunStatus::Running {
            return None;
        }
        let stopped = mode.draining || self.halt.is_some();
        // A finished agent ends even if a stop was requested. Over budget its end waits for a resume if other agents
        // are left: the budget has priority over the transition. If none is left, nothing more can be spent.
        if (self.halt != Some(Halt::OverBudget) || self.has_only_ended())
            && let Some(agent) = self.queues.ending.first()
        {
            return Some(Due::End(agent.clone()));
        }
        if !stopped {
            if let Some(agent) = self.queues.joinable.iter().find(|agent| !joining.contains(*agent)) {
                return Some(Due::Join(agent.clone()));
            }
            if let Some((_, agent)) = self.queues.deadlines.first().filter(|(deadline, _)| *deadline <= now) {
                return Some(Due::AskTimeout(agent.clone()));
            }
            if let Some(agent) = self.launchable(now) {
                return Some(Due::Launch(agent.clone()));
            }
        }
        let idle = self.running() == mode.interrupted;
        // If the run goes on, all that can be joined now is being put together.
        let has_more = !self.queues.joinable.is_empty() || self.has_more_to_come(mode);
        (idle && (stopped || !has_more)).then_some(Due::Close)
    }

    /// Whether every agent has done its last step or has failed.
    pub fn has_only_ended(&self) -> bool {
        self.queues.ending.len() + self.queues.failed.len() == self.agents.len()
    }

    /// Whether it makes sense to wait: an answer, which is always accepted, or a step may come. When `max_steps` is
    /// reached, only a step that has begun can continue.
    fn has_more_to_come(&self, mode: Mode) -> bool {
        let mut waiting = self.queues.waiting.iter().map(|(_, agent)| agent);
        let waits_for_a_person = mode.waits_for_answers && !self.queues.asking.is_empty();
        waits_for_a_person || waiting.any(|agent| self.may_begin(agent))
    }

    /// Whether an agent is in the middle of a step, for example between two attempts.
    fn has_begun(&self, agent: &AgentId) -> bool {
        self.agents.get(agent).is_some_and(|agent| agent.work().is_some())
    }

    fn launchable(&self, now: Timestamp) -> Option<&AgentId> {
        let script_room = self.queues.running_scripts.len() < self.options.max_parallel_scripts.max(1);
        let prompt_room =
            self.queues.running_prompts.len() < self.options.max_parallel.max(1) && self.has_money_to_share();
        let script = self.first_of(&self.queues.scripts, script_room, now, false);
        script.or_else(|| self.first_of(&self.queues.prompts, prompt_room, now, true))
    }

    /// The first in a queue that may start. Agents whose time has come since the last event belong to it, too: an
    /// event will put them there.
    fn first_of<'a>(
        &'a self,
        queue: &'a BTreeSet<(u64, AgentId)>,
        has_room: bool,
        now: Timestamp,
        is_prompt: bool,
    ) -> Option<&'a AgentId> {
        if !has_room {
            return None;
        }
        let ready = self.first_that_may_begin(queue);
        let named = self.queues.free_names().filter_map(|waiting| self.first_that_may_begin(waiting));
        let due = self.queues.waiting.iter().take_while(|(until, _)| *until <= now);
        let woken = due.filter_map(|(_, id)| {
            let agent = self.agents.get(id)?;
            let free = agent.waits_for_name.as_ref().is_none_or(|name| self.may_take(name, agent));
            (free && self.may_begin(id)).then_some((agent.ready_since()?, id))
        });
        let is_of_kind = |id: &AgentId| {
            self.agents.get(id).is_some_and(|agent| agent.state.kind().is_prompt() == is_prompt)
        };
        let others = named.chain(woken).filter(|(_, id)| is_of_kind(id));
        ready.into_iter().chain(others).min().map(|(_, id)| id)
    }

    fn first_that_may_begin<'a>(&self, queue: &'a BTreeSet<(u64, AgentId)>) -> Option<(u64, &'a AgentId)> {
        queue.iter().map(|(since, id)| (*since, id)).find(|(_, id)| self.may_begin(id))
    }

    /// Whether an agent's step may have an `exclusive` name now: no step has it, and no agent has waited longer for it.
    pub(crate) fn may_take(&self, name: &str, agent: &Agent) -> bool {
        let first = self.queues.first_waiting_for(name);
        let is_first = first.is_none_or(|(since, _)| agent.ready_since().is_some_and(|own| own <= *since));
        is_first && !self.queues.is_held(name)
    }

    /// When `max_steps` is reached, only a step that has begun may go on.
    fn may_begin(&self, agent: &AgentId) -> bool {
        !self.is_out_of_steps() || self.has_begun(agent)
    }

    pub fn is_out_of_steps(&self) -> bool {
        self.options.max_steps.is_some_and(|most| self.steps_started >= most)
    }
}

/// A time after now that a workflow asks for, or an error if it is too far away for a timestamp.
pub fn later_if_possible(now: Timestamp, wait: Duration, what: &str) -> Result<Timestamp, String> {
    let wait = SignedDuration::try_from(wait).unwrap_or(SignedDuration::MAX);
    now.checked_add(wait).map_err(|_| format!("`{what}` leads past the year 9999; give a shorter time"))
}

/// A time after now; if that is too far away for a timestamp, the latest possible time.
pub fn later(now: Timestamp, wait: Duration) -> Timestamp {
    let wait = SignedDuration::try_from(wait).unwrap_or(SignedDuration::MAX);
    now.saturating_add(wait).unwrap_or(Timestamp::MAX)
}
