//! `R022` forbidden-tag

use crate::diagnostic::Severity;
use crate::lint::{BeforeRun, Finding, Report, Rule, Subject};
use crate::workflow::wording::{clipped, quoted};

pub(super) static RULE: Rule = Rule {
    code: "R022",
    name: "forbidden-tag",
    severity: Severity::Warning,
    before_run: BeforeRun::Nothing,
    summary: "A prompt shows a tag that its own policy forbids.",
    explanation: "An agent that follows this prompt gets a reminder, up to three times, and each reminder costs \
                  money. Permit the tag in `allowed_transitions`, or take it out of the text.",
    check,
};

fn check(subject: &Subject<'_>, report: &mut Report<'_>) {
    for (number, state) in subject.graph.states.iter().enumerate() {
        // With `force_implicit` the agent's tags are not read, so that it may well speak about others.
        if state.source.prompt().is_some_and(|prompt| prompt.settings.force_implicit) {
            continue;
        }
        for exit in &state.forbidden {
            let tag = state.text.get(exit.range.clone()).unwrap_or_default();
            let message = format!("`allowed_transitions` forbids {}", quoted(tag));
            let help = match &exit.target {
                Some(target) if !exit.tag.is_workflow() => {
                    format!(
                        "permit it with `{{ tag: {}, target: {} }}`, or remove it",
                        exit.tag,
                        clipped(&target.name)
                    )
                }
                _ => format!("permit it with `{{ tag: {} }}`, or remove it", exit.tag),
            };
            report.add(Finding::at(number, exit.range.clone(), message).help(help));
        }
    }
}
