//! `R040` another-backend

use crate::diagnostic::Severity;
use crate::graph::{Leads, Reference, Role, StateExit, StateNode};
use crate::lint::{BeforeRun, Finding, Report, Rule, Subject};
use crate::tag::TagName;
use crate::workflow::wording::quoted;

pub(super) static RULE: Rule = Rule {
    code: "R040",
    name: "another-backend",
    severity: Severity::Warning,
    before_run: BeforeRun::Nothing,
    summary: "A prompt hands its conversation to a state of another backend.",
    explanation: "`goto` and `call` keep the conversation, but a backend knows only its own conversations: the other \
                  one begins a new one that has seen nothing of the work so far. `reset` and `function` begin a new \
                  conversation openly, and `input` hands over what the state has to know.",
    check,
};

fn check(subject: &Subject<'_>, report: &mut Report<'_>) {
    let graph = subject.graph;
    for (number, state) in graph.states.iter().enumerate() {
        let Some(own) = backends(subject, state) else { continue };
        for (exit, reference) in state.exits.iter().flat_map(kept) {
            let Leads::To(to) = reference.leads else { continue };
            let Some(to) = graph.state(to) else { continue };
            let Some(others) = backends(subject, to).filter(|others| is_disjoint(own, others)) else {
                continue;
            };
            let message = format!(
                "{} has the backend {}, which does not know the conversation of the backend {}",
                quoted(to.file.as_str()),
                quoted(names(others).next().unwrap_or_default()),
                quoted(names(own).next().unwrap_or_default()),
            );
            let help = "lead there with `reset` or `function` and an `input`, or choose the same backend";
            report.add(Finding::at(number, reference.range.clone(), message).help(help).in_exit(exit));
        }
    }
}

/// The names of states in which the conversation goes on.
fn kept(exit: &StateExit) -> impl Iterator<Item = (&StateExit, &Reference)> {
    let keeps_to_target = matches!(exit.tag, TagName::Goto | TagName::Call | TagName::Join);
    let kept = exit.references().filter(move |(role, _)| *role != Role::Target || keeps_to_target);
    kept.map(move |(_, reference)| (exit, reference))
}

/// The backends of a prompt as they are written; nothing if none is chosen anywhere.
fn backends<'s>(subject: &Subject<'s>, state: &'s StateNode) -> Option<&'s str> {
    let own = state.source.prompt()?.settings.backend.as_deref();
    own.or(subject.defaults.backend)
}

fn is_disjoint(own: &str, others: &str) -> bool {
    !names(own).any(|name| names(others).any(|other| other == name))
}

fn names(list: &str) -> impl Iterator<Item = &str> {
    list.split(',').map(str::trim)
}
