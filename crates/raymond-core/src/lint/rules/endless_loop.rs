//! `R025` endless-loop

use std::ops::Range;

use crate::diagnostic::Severity;
use crate::graph::reach::{Edges, components};
use crate::graph::{Graph, Leads, Reference, StateExit, StateNode};
use crate::lint::{BeforeRun, Finding, Report, Rule, Subject};
use crate::workflow::wording::{quoted, quoted_list};

pub(super) static RULE: Rule = Rule {
    code: "R025",
    name: "endless-loop",
    severity: Severity::Warning,
    before_run: BeforeRun::Nothing,
    summary: "States lead to each other forever.",
    explanation: "From none of these states does a path lead to `<result>`, and nothing slows them down or stops \
                  them: no `delay`, no question to a person and no `max_visits`. Such a loop runs until the \
                  budget is spent.",
    check,
};

fn check(subject: &Subject<'_>, report: &mut Report<'_>) {
    let graph = subject.graph;
    let has_way_out = graph.lead_on_to(is_harmless);
    let is_trapped = |number: usize| has_way_out.get(number) == Some(&false);
    let trapped: Edges = graph
        .continuing
        .iter()
        .enumerate()
        .map(|(from, targets)| {
            targets.iter().copied().filter(|target| is_trapped(from) && is_trapped(*target)).collect()
        })
        .collect();
    for members in components(&trapped) {
        let Some(&first) = members.first() else { continue };
        let leads_back =
            trapped.get(first).is_some_and(|targets| targets.iter().any(|target| members.contains(target)));
        if leads_back && let Some(state) = graph.state(first) {
            let message = format!("{} without end", describe(graph, &members));
            let help = "add a way to `<result>`, a `delay`, or `max_visits`";
            report.add(Finding::at(first, place(state, &members), message).help(help));
        }
    }
}

/// Whether an agent may end or wait here, or the state's transitions are not known.
fn is_harmless(state: &StateNode) -> bool {
    let is_nowhere =
        |exit: &StateExit| exit.continuations().any(|name| matches!(name.leads, Leads::Nowhere(_)));
    state.may_end()
        || state.is_opaque
        || !state.runs_here
        || state.exits.is_empty()
        || state.source.max_visits().is_some()
        || state.exits.iter().any(|exit| exit.pauses || is_nowhere(exit))
}

fn describe(graph: &Graph, members: &[usize]) -> String {
    let names: Vec<&str> =
        members.iter().filter_map(|member| graph.state(*member)).map(|state| state.file.as_str()).collect();
    match names.as_slice() {
        [only] => format!("{} leads to itself", quoted(only)),
        [_, _] | [_, _, _] => format!("{} lead to each other", quoted_list(&names, "and")),
        [first, ..] => format!("{} and {} other states lead to each other", quoted(first), names.len() - 1),
        [] => String::new(),
    }
}

/// The name that leads into the loop.
fn place(state: &StateNode, members: &[usize]) -> Range<usize> {
    let mut names = state.exits.iter().flat_map(StateExit::continuations);
    let into_loop = |name: &&Reference| matches!(name.leads, Leads::To(target) if members.contains(&target));
    names.find(into_loop).map(|name| name.range.clone()).unwrap_or_default()
}
