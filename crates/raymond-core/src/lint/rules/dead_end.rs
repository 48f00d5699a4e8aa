//! `R018` dead-end

use crate::diagnostic::Severity;
use crate::graph::Told;
use crate::lint::{BeforeRun, Finding, Report, Rule, Subject};
use crate::workflow::wording::quoted;

pub(super) static RULE: Rule = Rule {
    code: "R018",
    name: "dead-end",
    severity: Severity::Warning,
    before_run: BeforeRun::Nothing,
    summary: "A prompt says nothing about what comes next.",
    explanation: "A state ends with a transition. A prompt that has no `allowed_transitions` and shows no tag \
                  leaves its agent to guess, and the run fails when it guesses wrong.",
    check,
};

fn check(subject: &Subject<'_>, report: &mut Report<'_>) {
    for (number, state) in subject.graph.states.iter().enumerate() {
        let is_read = matches!(state.source.settings, Told::Prompt(_));
        if is_read && state.exits.is_empty() && !state.body().trim().is_empty() {
            let message = format!("{} says nothing about what comes next", quoted(state.file.as_str()));
            let help = "add `allowed_transitions`, or show the tag to emit, such as `<result>…</result>`";
            report.add(
                Finding::at(number, state.source.body.start..state.source.body.start, message).help(help),
            );
        }
    }
}
