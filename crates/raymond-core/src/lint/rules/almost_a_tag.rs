//! `R028` almost-a-tag

use crate::diagnostic::Severity;
use crate::graph::StateNode;
use crate::lint::misspelt::misspelt;
use crate::lint::{BeforeRun, Finding, Report, Rule, Subject};
use crate::tag::{NearMiss, NearMissReason};
use crate::workflow::wording::quoted;

pub(super) static RULE: Rule = Rule {
    code: "R028",
    name: "almost-a-tag",
    severity: Severity::Warning,
    before_run: BeforeRun::Nothing,
    summary: "Something looks like a tag but is not one.",
    explanation: "Tag names are lower case, attribute values stand in quotes, and every tag has a closing tag of \
                  its own. What is written otherwise is text: an agent that copies it emits no transition.",
    check,
};

fn check(subject: &Subject<'_>, report: &mut Report<'_>) {
    for (number, state) in subject.graph.states.iter().enumerate().filter(|(_, state)| state.runs_here) {
        if state.file.kind().is_prompt() {
            for word in misspelt(&state.text, subject.graph, false) {
                let message = format!("`<{}>` is not a tag", word.written);
                let help = format!("did you mean `<{}>`?", word.meant);
                report.add(Finding::at(number, word.range, message).help(help));
            }
        }
        for missed in &state.missed {
            if is_meant(state, missed) {
                let text = state.text.get(missed.range.clone()).unwrap_or_default();
                let message = format!("{} looks like a tag, but {}", quoted(text), missed.why);
                report.add(Finding::at(number, missed.range.clone(), message));
            }
        }
    }
}

/// Excludes text that is probably not meant as a tag: a prompt may mention `<goto>` without closing it, a script may
/// build a tag from pieces, and `Vec<Result>` is code.
fn is_meant(state: &StateNode, missed: &NearMiss) -> bool {
    let before = state.text.get(..missed.range.start).and_then(|before| before.chars().next_back());
    let is_generic = before.is_some_and(char::is_alphanumeric);
    match missed.why {
        // What scripts print is read by another rule.
        _ if state.file.kind().is_script() => false,
        NearMissReason::WrongCase(_) => !is_generic,
        NearMissReason::NeverClosed(_) | NearMissReason::NeverOpened(_) | NearMissReason::NoEnd => false,
        _ => true,
    }
}
