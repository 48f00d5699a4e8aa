//! Which ways of the workflows' graphs a run has taken. Each is told by the names that the nodes of the graph have.

use raymond_core::event::{AskClosed, Body, Closed, Event, LedTo, Parts, StepFinished};
use raymond_core::name::AgentId;
use raymond_core::payload::Payload;
use raymond_core::tag::{StackEffect, TagName};
use raymond_core::workflow::StateFile;

use super::{By, Story, Way, Word};

/// The names of nodes that are no states.
pub const START: &str = "[start]";
pub const END: &str = "[end]";

/// The node of another workflow, by the workflow's path.
pub fn node_of_workflow(path: &str) -> String {
    format!("[{path}]")
}

impl Story {
    /// The workflow that an event's agent is in before it.
    pub(super) fn scope_before(&mut self, event: &Event) -> Option<Word> {
        let agent = match &event.body {
            Body::StepFinished(finished) => &finished.agent,
            Body::AskClosed(closed) => &closed.agent,
            Body::Joined { agent, .. } => agent,
            Body::AgentStarted(started) => started.parent()?,
            _ => return None,
        };
        self.scope_word(agent)
    }

    fn scope_word(&mut self, agent: &AgentId) -> Option<Word> {
        let scope = self.whereabouts.scope_of(agent).map(str::to_owned);
        scope.map(|scope| self.number_of(&scope))
    }

    /// Notes the ways that an event tells of. `before` is the workflow that its agent was in before it.
    pub(super) fn note_ways(&mut self, event: &Event, before: Option<Word>) {
        match &event.body {
            Body::AgentStarted(started) => {
                let own = self.scope_word(&started.agent);
                let state = self.number_of(started.state.as_str());
                let id = self.number_of(started.agent.as_str());
                let Some(parent) = started.parent() else { return self.enter(event, own, state) };
                let parent = self.number_of(parent.as_str());
                let Some((_, from)) = self.left.get(&parent).copied() else { return };
                if own == before {
                    return self.way(event, before, (from, state), By::Tag(TagName::Fork));
                }
                let node = self.node_of(own);
                if let Some(row) = self.row_of(id) {
                    row.entered = Some(node);
                }
                self.way(event, before, (from, node), By::Tag(TagName::ForkWorkflow));
                self.enter(event, own, state);
            }
            Body::StepFinished(finished) => self.note_step(event, finished, before),
            Body::AskClosed(closed) => {
                let Some(target) = closed.how.target().map(ToString::to_string) else { return };
                let (from, to) = (self.number_of(closed.state.as_str()), self.number_of(&target));
                let by = match closed.how {
                    Closed::TimedOut { .. } => By::Timeout,
                    _ => By::Tag(TagName::Ask),
                };
                self.way(event, before, (from, to), by);
            }
            Body::Joined { state, workers, .. } => {
                let to = self.number_of(state.as_str());
                for worker in workers {
                    let worker = self.number_of(worker.as_str());
                    self.note_joined(event, worker, (before, to));
                }
            }
            _ => {}
        }
    }

    fn note_step(&mut self, event: &Event, finished: &StepFinished, before: Option<Word>) {
        let agent = self.number_of(finished.agent.as_str());
        let from = self.number_of(finished.state.as_str());
        let parts = finished.led_to.parts();
        let mut word = |state: Option<&StateFile>| state.map(|state| self.number_of(state.as_str()));
        let (target, next) = (word(parts.target), word(parts.next));
        let after = self.scope_word(&finished.agent);
        let called = self.follow_calls(agent, &parts, after);
        if parts.tag.is_fork() {
            // Each worker has an event of its own.
            return next.into_iter().for_each(|next| self.way(event, before, (from, next), By::Next));
        }
        let by = By::Tag(parts.tag);
        match (&finished.led_to, target) {
            // Which way is taken is known when the question is closed.
            (LedTo::Ask { .. }, _) => {}
            (LedTo::Return { .. }, Some(target)) if after == before => {
                self.way(event, before, (from, target), by);
            }
            (LedTo::Return { .. } | LedTo::End { .. }, target) => {
                let end = self.number_of(END);
                self.way(event, before, (from, end), by);
                if let (Some(called), Some(target)) = (called, target) {
                    self.way(event, after, (called, target), by);
                }
            }
            (_, Some(target)) if parts.workflow.is_some() => {
                let node = self.node_of(after);
                self.way(event, before, (from, node), by);
                self.enter(event, after, target);
            }
            (_, Some(target)) => self.way(event, before, (from, target), by),
            (_, None) => {}
        }
    }

    /// Keeps the calls of an agent up to date. Returns the workflow that it returns from, if a call led there.
    fn follow_calls(&mut self, agent: Word, parts: &Parts<'_>, after: Option<Word>) -> Option<Word> {
        match parts.tag.facts().stack {
            StackEffect::Kept => None,
            StackEffect::Pushed => {
                let called = parts.workflow.is_some().then(|| self.node_of(after));
                self.calls.entry(agent).or_default().push(called);
                None
            }
            StackEffect::Popped => self.calls.get_mut(&agent)?.pop()?,
            StackEffect::Cleared => {
                self.calls.remove(&agent);
                None
            }
        }
    }

    /// A join takes the result of a worker, so that its end was none: it led to the state with the results.
    fn note_joined(&mut self, event: &Event, worker: Word, (scope, to): (Option<Word>, Word)) {
        let Some(row) = self.row_of(worker).map(|row| *row).filter(|row| row.ended.is_some()) else { return };
        let Some((last_scope, last)) = self.left.get(&worker).copied() else { return };
        let by = By::Tag(TagName::Result);
        match row.entered {
            Some(node) => self.way(event, scope, (node, to), by),
            None if last_scope == scope => {
                let end = self.number_of(END);
                let undone = Way { seq: event.seq, scope, from: last, to: end, by, is_taken_back: true };
                self.ways.push(undone);
                self.way(event, scope, (last, to), by);
            }
            None => {}
        }
    }

    fn enter(&mut self, event: &Event, scope: Option<Word>, state: Word) {
        let start = self.number_of(START);
        self.way(event, scope, (start, state), By::Start);
    }

    fn way(&mut self, event: &Event, scope: Option<Word>, (from, to): (Word, Word), by: By) {
        self.ways.push(Way { seq: event.seq, scope, from, to, by, is_taken_back: false });
    }

    /// The node of a workflow in the graphs of those that enter it.
    fn node_of(&mut self, scope: Option<Word>) -> Word {
        let path = self.word(scope.or(self.own).unwrap_or(Word::MAX)).to_owned();
        self.number_of(&node_of_workflow(&path))
    }

    /// Notes which event hands an agent the input of its state. It is gone in the state behind that.
    pub(super) fn note_input(&mut self, event: &Event) {
        let (agent, has_input) = match &event.body {
            Body::AgentStarted(started) => (&started.agent, started.input.is_some()),
            Body::StepFinished(finished) => (&finished.agent, finished.led_to.parts().input.is_some()),
            Body::AskClosed(closed) => (&closed.agent, matches!(closed.how, Closed::Answered { .. })),
            Body::Joined { agent, .. } => (agent, true),
            Body::AgentMoved { agent, input, .. } => (agent, input.is_some()),
            _ => return,
        };
        let agent = self.number_of(agent.as_str());
        match has_input {
            true => self.given.insert(agent, event.seq),
            false => self.given.remove(&agent),
        };
    }
}

/// The input that an event hands an agent.
pub fn input_in<'e>(event: &'e Event, agent: &str) -> Option<&'e Payload> {
    match &event.body {
        Body::AgentStarted(started) => started.input.as_ref(),
        Body::StepFinished(finished) => finished.led_to.parts().input,
        Body::AskClosed(AskClosed { how: Closed::Answered { answer, .. }, .. }) => Some(answer),
        Body::Joined { result, .. } => Some(result),
        Body::AgentMoved { input, .. } => input.as_ref(),
        Body::Snapshot { state } => {
            let mut agents = state.agents.values();
            agents.find(|known| known.id.as_str() == agent)?.payload.as_ref()
        }
        _ => None,
    }
}
