//! `R020` join-without-fork

use crate::diagnostic::Severity;
use crate::graph::reach::{Edges, reachable};
use crate::graph::{Graph, Leads, Reference, StateNode};
use crate::lint::{BeforeRun, Finding, Report, Rule, Subject};
use crate::tag::Waits;

pub(super) static RULE: Rule = Rule {
    code: "R020",
    name: "join-without-fork",
    severity: Severity::Warning,
    before_run: BeforeRun::Nothing,
    summary: "A join waits for workers, but no state before it forks.",
    explanation: "`<join>` waits for the agents that this agent forked. Where no state before it forks, it goes \
                  on at once with an empty list.",
    check,
};

fn check(subject: &Subject<'_>, report: &mut Report<'_>) {
    let graph = subject.graph;
    let starts = graph.states.iter().enumerate().filter(|(_, state)| may_fork(state));
    let after_fork = reachable(&same_agent(graph), starts.map(|(number, _)| number));
    for (number, state) in graph.states.iter().enumerate() {
        for exit in state.exits.iter().filter(|exit| exit.tag.facts().waits == Waits::ForWorkers) {
            if after_fork.get(number) == Some(&false) {
                let message = "no state before this join forks, so there is nothing to wait for";
                report.add(Finding::at(number, exit.range.clone(), message).help("use `goto`"));
            }
        }
    }
}

fn may_fork(state: &StateNode) -> bool {
    state.is_opaque || state.exits.iter().any(|exit| exit.tag.is_fork())
}

/// The states that the same agent may reach from each state, through calls and returns.
fn same_agent(graph: &Graph) -> Edges {
    let mut edges = graph.continuing.clone();
    for (from, exit) in graph.states.iter().enumerate().flat_map(|(from, state)| {
        state.exits.iter().filter(|exit| exit.tag.is_call()).map(move |exit| (from, exit))
    }) {
        let (Some(callee), back) = (number(&exit.target), number(&exit.return_to)) else { continue };
        if let Some(targets) = edges.get_mut(from) {
            targets.push(callee);
        }
        if let (Some(targets), Some(back)) = (edges.get_mut(callee), back) {
            targets.push(back);
        }
    }
    edges
}

fn number(reference: &Option<Reference>) -> Option<usize> {
    match reference.as_ref()?.leads {
        Leads::To(number) => Some(number),
        _ => None,
    }
}
