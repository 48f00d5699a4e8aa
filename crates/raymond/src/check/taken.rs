//! The transitions that a run took, as the arrows that a diagram of its workflow would have.

use std::collections::BTreeMap;

use raymond_core::diagram::Style;
use raymond_core::event::{AgentStarted, Body, Closed, Event, LedTo};
use raymond_core::name::AgentId;
use raymond_core::run::Run;
use raymond_core::workflow::StateFile;

/// Something that happened in a workflow: a state was entered, or an arrow was taken.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Taken {
    /// The path of the workflow.
    pub scope: String,
    pub what: What,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum What {
    State(StateFile),
    /// From a state to another, or to the end of the agent.
    Arrow {
        from: End,
        to: End,
        style: &'static str,
    },
}

/// Where an arrow begins or ends.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum End {
    State(StateFile),
    /// The agent ends.
    End,
    /// Another workflow, by its path.
    Workflow(String),
}

/// Collects what happens while the events of a run are read.
#[derive(Debug, Default)]
pub struct Transitions {
    taken: Vec<Taken>,
    /// The state in which each agent gave its last result, with its workflow.
    ended: BTreeMap<AgentId, (String, StateFile)>,
}

impl Transitions {
    /// Takes an event; the run is as it was before it.
    pub fn take(&mut self, run: &Run, event: &Event) {
        match &event.body {
            Body::StepStarted(started) if started.attempt <= 1 => {
                let what = What::State(started.state.clone());
                self.taken.push(Taken { scope: scope_of(run, &started.agent), what });
            }
            Body::StepFinished(finished) => {
                self.finished(run, &finished.agent, &finished.state, &finished.led_to)
            }
            Body::AgentStarted(started) => self.forked(run, started),
            Body::AskClosed(closed) => {
                let style = Style::Plain;
                if let Closed::Answered { target, .. } | Closed::TimedOut { target } = &closed.how {
                    self.arrow(run, &closed.agent, &closed.state, End::State(target.clone()), style);
                }
            }
            Body::Joined { agent, state, workers, .. } => {
                for worker in workers {
                    // The workers' results are handed to the state after the join.
                    if let Some((scope, from)) = self.ended.get(worker).cloned() {
                        self.returned(scope_of(run, agent), state, &scope, from);
                    }
                }
            }
            _ => {}
        }
    }

    pub fn finish(self) -> Vec<Taken> {
        self.taken
    }

    fn finished(&mut self, run: &Run, agent: &AgentId, from: &StateFile, led_to: &LedTo) {
        let state = |target: &StateFile| End::State(target.clone());
        let other = |workflow: &raymond_core::event::OtherWorkflow| End::Workflow(workflow.scope.clone());
        let (to, style) = match led_to {
            LedTo::Goto { target, .. } | LedTo::Reset { target, .. } | LedTo::Join { target } => {
                (state(target), Style::Plain)
            }
            LedTo::Call { target, .. } | LedTo::Function { target, .. } => (state(target), Style::Call),
            // The workers have events of their own.
            LedTo::Fork { next, .. } => (state(next), Style::Plain),
            LedTo::Return { target, .. } => {
                let own = scope_of(run, agent);
                let frame = run.agents.get(agent).and_then(|agent| agent.stack.last());
                let scope = frame.and_then(|frame| frame.scope.clone()).unwrap_or_else(|| run.scope.clone());
                if scope != own {
                    // For the workflow itself, this is its end.
                    self.arrow(run, agent, from, End::End, Style::Plain);
                }
                return self.returned(scope, target, &own, from.clone());
            }
            LedTo::End { .. } => {
                self.ended.insert(agent.clone(), (scope_of(run, agent), from.clone()));
                (End::End, Style::Plain)
            }
            // The answer has an event of its own.
            LedTo::Ask { .. } => return,
            LedTo::CallWorkflow { workflow, .. } | LedTo::FunctionWorkflow { workflow, .. } => {
                (other(workflow), Style::Call)
            }
            LedTo::ResetWorkflow { workflow, .. } => (other(workflow), Style::Plain),
        };
        self.arrow(run, agent, from, to, style);
    }

    /// A result came back to a state, from a state of the same or of another workflow.
    fn returned(&mut self, scope: String, target: &StateFile, from_scope: &str, from: StateFile) {
        let from = match from_scope == scope {
            true => End::State(from),
            false => End::Workflow(from_scope.to_owned()),
        };
        let (to, style) = (End::State(target.clone()), Style::Return.as_str());
        self.taken.push(Taken { scope, what: What::Arrow { from, to, style } });
    }

    fn forked(&mut self, run: &Run, started: &AgentStarted) {
        let Some(parent) = started.parent().and_then(|parent| run.agents.get(parent)) else { return };
        // The parent has left its state in the same batch, so the forking state is the one of its last arrow.
        let scope = scope_of(run, &parent.id);
        let from = self.taken.iter().rev().find_map(|taken| match &taken.what {
            What::Arrow { from, to: End::State(to), .. } if taken.scope == scope && *to == parent.state => {
                Some(from.clone())
            }
            _ => None,
        });
        let Some(from) = from else { return };
        let to = match &started.workflow {
            Some(other) if other.scope != scope => End::Workflow(other.scope.clone()),
            _ => End::State(started.state.clone()),
        };
        self.taken.push(Taken { scope, what: What::Arrow { from, to, style: Style::Fork.as_str() } });
    }

    fn arrow(&mut self, run: &Run, agent: &AgentId, from: &StateFile, to: End, style: Style) {
        let scope = scope_of(run, agent);
        self.taken.push(Taken {
            scope,
            what: What::Arrow { from: End::State(from.clone()), to, style: style.as_str() },
        });
    }
}

/// The workflow that an agent is in.
fn scope_of(run: &Run, agent: &AgentId) -> String {
    run.agents.get(agent).and_then(|agent| agent.scope.clone()).unwrap_or_else(|| run.scope.clone())
}
