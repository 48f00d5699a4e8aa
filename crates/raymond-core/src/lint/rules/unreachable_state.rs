//! `R017` unreachable-state

use std::collections::HashSet;

use crate::diagnostic::Severity;
use crate::graph::reach::reachable;
use crate::graph::{Graph, StateNode};
use crate::lint::{BeforeRun, Finding, Report, Rule, Subject, Unresolved, unresolved};
use crate::workflow::wording::quoted;
use crate::workflow::{Kind, ResolveError};

pub(super) static RULE: Rule = Rule {
    code: "R017",
    name: "unreachable-state",
    severity: Severity::Warning,
    before_run: BeforeRun::Nothing,
    summary: "No transition leads to a state.",
    explanation: "A state that nothing leads to is never run: a name may be misspelt, or the file may be left \
                  over. Where a script computes its target, every state may be reached and nothing is reported.",
    check,
};

fn check(subject: &Subject<'_>, report: &mut Report<'_>) {
    let graph = subject.graph;
    let Some(reached) = graph.reached() else { return };
    let meant = reachable(&graph.leading, probably_meant(graph));
    for (number, state) in graph.states.iter().enumerate() {
        let is_reached = reached.get(number) == Some(&true) || meant.get(number) == Some(&true);
        if state.runs_here && !is_reached {
            let message = format!("no transition leads to {}", quoted(state.file.as_str()));
            report.add(Finding::at(number, 0..0, message));
        }
    }
}

/// The states that misspelt names probably mean; another rule reports the misspelt name itself.
fn probably_meant(graph: &Graph) -> Vec<usize> {
    let mut names: HashSet<&str> = HashSet::new();
    for Unresolved { reference, error, .. } in unresolved(graph) {
        match error {
            ResolveError::NotFound { suggestions, .. }
            | ResolveError::UnknownExtension { suggestions, .. } => {
                names.extend(suggestions.iter().map(|name| stem(name)));
            }
            _ => {
                names.insert(stem(reference.name.rsplit(['/', '\\']).next().unwrap_or_default()));
            }
        }
    }
    let is_meant = |state: &StateNode| names.contains(state.file.name());
    graph.states.iter().enumerate().filter(|(_, state)| is_meant(state)).map(|(number, _)| number).collect()
}

fn stem(name: &str) -> &str {
    match name.rsplit_once('.') {
        Some((stem, _)) if Kind::of(name).is_some() => stem,
        _ => name,
    }
}
