//! In which workflow each agent is, as far as events tell it, so that progress lines can name it.

use std::collections::BTreeMap;
use std::path::Path;

use raymond_core::event::{Body, Event, StepFinished};
use raymond_core::name::AgentId;
use raymond_core::run::Run;
use raymond_core::tag::StackEffect;

/// Agents that are in the run's own workflow and will return to no other take no memory.
#[derive(Debug, Default)]
pub(crate) struct Whereabouts(BTreeMap<AgentId, Stay>);

/// The workflow an agent is in, and those it returns to. Nothing means the run's own.
#[derive(Debug, Default, PartialEq)]
struct Stay {
    scope: Option<String>,
    callers: Vec<Option<String>>,
}

impl Whereabouts {
    /// What a run that is resumed begins with.
    pub(super) fn of(run: &Run) -> Self {
        let mut found = Self::default();
        for agent in run.agents.values() {
            let callers = agent.stack.iter().map(|frame| frame.scope.clone()).collect();
            found.put(&agent.id, Stay { scope: agent.scope.clone(), callers });
        }
        found
    }

    /// Where the states of the workflow are that an agent is in, if that is not the run's own.
    pub(crate) fn scope_of(&self, agent: &AgentId) -> Option<&str> {
        self.0.get(agent)?.scope.as_deref()
    }

    /// The name of the workflow in which an event happened, if it is not the run's own.
    pub(super) fn workflow_of(&self, event: &Event) -> Option<String> {
        let scope = self.0.get(agent_of(&event.body)?)?.scope.as_ref()?;
        let name = Path::new(scope).file_name()?;
        Some(name.to_string_lossy().into_owned())
    }

    /// Moves agents as the event says.
    pub(crate) fn follow(&mut self, event: &Event) {
        if let Body::AgentStarted(started) = &event.body {
            let scope = started.workflow.as_ref().map(|workflow| workflow.scope.clone());
            self.put(&started.agent, Stay { scope, callers: Vec::new() });
        } else if let Body::StepFinished(finished) = &event.body {
            self.finish(finished);
        } else if let Body::AgentFinished { agent, .. } = &event.body {
            self.0.remove(agent);
        }
    }

    fn finish(&mut self, finished: &StepFinished) {
        let led_to = finished.led_to.parts();
        let mut stay = self.0.remove(&finished.agent).unwrap_or_default();
        match led_to.tag.facts().stack {
            StackEffect::Kept => {}
            StackEffect::Pushed => stay.callers.push(stay.scope.clone()),
            StackEffect::Popped => stay.scope = stay.callers.pop().unwrap_or_default(),
            StackEffect::Cleared => stay.callers.clear(),
        }
        if let Some(workflow) = led_to.workflow
            && !led_to.tag.is_fork()
        {
            stay.scope = Some(workflow.scope.clone());
        }
        self.put(&finished.agent, stay);
    }

    fn put(&mut self, agent: &AgentId, stay: Stay) {
        if stay != Stay::default() {
            self.0.insert(agent.clone(), stay);
        }
    }
}

/// The agent whose state an event's line names.
fn agent_of(body: &Body) -> Option<&AgentId> {
    match body {
        Body::StepStarted(started) => Some(&started.agent),
        Body::SessionStarted(started) => Some(&started.agent),
        Body::Delayed { agent, .. } | Body::ExclusiveWaiting { agent, .. } => Some(agent),
        other => other.ended_attempt_of(),
    }
}
