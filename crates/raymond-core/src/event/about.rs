//! What an event is about: its agent, its step, its texts, and what it cost.
//!
//! The lists name every event, so that the compiler asks about a new one.

use super::{Body, Closed, Interrupted, RunResumed};
use crate::money::Usd;
use crate::name::AgentId;
use crate::payload::Payload;
use crate::tokens::Tokens;

/// What an event tells about the attempt that it ends.
struct EndedAttempt<'a> {
    agent: &'a AgentId,
    cost: Usd,
    tokens: Tokens,
}

impl Body {
    /// All texts that may have to be moved into separate files.
    pub fn payloads_mut(&mut self) -> Vec<&mut Payload> {
        match self {
            Body::AgentStarted(started) => started.input.iter_mut().collect(),
            Body::StepFinished(finished) => {
                finished.led_to.payload_mut().into_iter().chain(&mut finished.message).collect()
            }
            Body::StepFailed(failed) => failed.message.iter_mut().collect(),
            Body::Retry(retry) => retry.message.iter_mut().collect(),
            Body::Reminder(reminder) => [&mut reminder.text].into_iter().chain(&mut reminder.message).collect(),
            Body::LimitWaiting(limit) => limit.message.iter_mut().collect(),
            Body::AgentFinished { result, .. } | Body::Joined { result, .. } => vec![result],
            Body::AskOpened(opened) => vec![&mut opened.question],
            Body::AskClosed(closed) => match &mut closed.how {
                Closed::Answered { answer, .. } => vec![answer],
                Closed::TimedOut { .. } | Closed::Unanswered => Vec::new(),
            },
            Body::RunStopped { asks, .. } => asks.iter_mut().map(|ask| &mut ask.question).collect(),
            Body::Print { text, .. } => vec![text],
            Body::RunFinished { result, .. } => result.iter_mut().collect(),
            Body::AgentMoved { input, .. } => input.iter_mut().collect(),
            Body::RunStarted(_)
            | Body::StepStarted(_)
            | Body::SessionStarted(_)
            | Body::Delayed { .. }
            | Body::ExclusiveWaiting { .. }
            | Body::Warning { .. }
            | Body::BudgetExceeded { .. }
            | Body::AgentRetried { .. }
            | Body::RunResumed(_)
            // The payloads in a run's state were already moved with the events that added them.
            | Body::Snapshot { .. } => Vec::new(),
        }
    }

    /// The agent that the event is about.
    pub fn agent(&self) -> Option<&AgentId> {
        match self {
            Body::AgentStarted(started) => Some(&started.agent),
            Body::StepStarted(started) => Some(&started.agent),
            Body::SessionStarted(started) => Some(&started.agent),
            Body::StepFinished(finished) => Some(&finished.agent),
            Body::StepFailed(failed) => Some(&failed.agent),
            Body::Retry(retry) => Some(&retry.agent),
            Body::Reminder(reminder) => Some(&reminder.agent),
            Body::LimitWaiting(limit) => Some(&limit.agent),
            Body::AskOpened(opened) => Some(&opened.agent),
            Body::AskClosed(closed) => Some(&closed.agent),
            Body::Delayed { agent, .. }
            | Body::ExclusiveWaiting { agent, .. }
            | Body::AgentFinished { agent, .. }
            | Body::Joined { agent, .. }
            | Body::AgentRetried { agent, .. }
            | Body::AgentMoved { agent, .. }
            | Body::Print { agent, .. } => Some(agent),
            Body::Warning { agent, .. } => agent.as_ref(),
            Body::RunStarted(_)
            | Body::BudgetExceeded { .. }
            | Body::RunResumed(_)
            | Body::RunFinished { .. }
            | Body::RunStopped { .. }
            | Body::Snapshot { .. } => None,
        }
    }

    /// The step that the event is about.
    pub fn step(&self) -> Option<u64> {
        match self {
            Body::StepStarted(started) => Some(started.step),
            Body::SessionStarted(started) => Some(started.step),
            Body::StepFinished(finished) => Some(finished.step),
            Body::StepFailed(failed) => failed.step,
            Body::Retry(retry) => Some(retry.step),
            Body::Reminder(reminder) => Some(reminder.step),
            Body::LimitWaiting(limit) => Some(limit.step),
            Body::AskOpened(opened) => opened.step,
            Body::Print { step, .. } => Some(*step),
            Body::Warning { step, .. } => *step,
            Body::RunStarted(_)
            | Body::AgentStarted(_)
            | Body::Delayed { .. }
            | Body::ExclusiveWaiting { .. }
            | Body::AgentFinished { .. }
            | Body::Joined { .. }
            | Body::AskClosed(_)
            | Body::BudgetExceeded { .. }
            | Body::AgentRetried { .. }
            | Body::AgentMoved { .. }
            | Body::RunResumed(_)
            | Body::RunFinished { .. }
            | Body::RunStopped { .. }
            | Body::Snapshot { .. } => None,
        }
    }

    /// The agent whose attempt at a step ended with this event.
    pub fn ended_attempt_of(&self) -> Option<&AgentId> {
        self.ended_attempt().map(|attempt| attempt.agent)
    }

    /// What the models read and wrote in the turn that the event ends.
    pub fn tokens(&self) -> Tokens {
        self.ended_attempt().map(|attempt| attempt.tokens).unwrap_or_default()
    }

    /// What the event adds to the run's cost.
    pub fn cost(&self) -> Usd {
        let estimated = |steps: &[Interrupted]| steps.iter().map(|step| step.estimated_cost_usd).sum();
        if let Body::RunResumed(RunResumed { interrupted, .. }) | Body::RunStopped { interrupted, .. } = self
        {
            return estimated(interrupted);
        }
        self.ended_attempt().map(|attempt| attempt.cost).unwrap_or_default()
    }

    fn ended_attempt(&self) -> Option<EndedAttempt<'_>> {
        let (agent, cost, tokens) = match self {
            Body::StepFinished(step) => (&step.agent, step.attempt_cost_usd, step.tokens),
            Body::StepFailed(step) => (&step.agent, step.attempt_cost_usd, step.tokens),
            Body::Retry(retry) => (&retry.agent, retry.attempt_cost_usd, retry.tokens),
            Body::Reminder(reminder) => (&reminder.agent, reminder.attempt_cost_usd, reminder.tokens),
            Body::LimitWaiting(limit) => (&limit.agent, limit.attempt_cost_usd, limit.tokens),
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
            | Body::RunResumed(_)
            | Body::RunFinished { .. }
            | Body::RunStopped { .. }
            | Body::Snapshot { .. } => return None,
        };
        Some(EndedAttempt { agent, cost, tokens })
    }

    /// Whether this is the last event that a process writes for a run.
    pub fn is_last(&self) -> bool {
        match self {
            Body::RunFinished { .. } | Body::RunStopped { .. } => true,
            Body::RunStarted(_)
            | Body::AgentStarted(_)
            | Body::StepStarted(_)
            | Body::SessionStarted(_)
            | Body::StepFinished(_)
            | Body::StepFailed(_)
            | Body::Retry(_)
            | Body::Reminder(_)
            | Body::LimitWaiting(_)
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
            | Body::RunResumed(_)
            | Body::Snapshot { .. } => false,
        }
    }
}
