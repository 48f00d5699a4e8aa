//! `R021` unmentioned-transition

use crate::diagnostic::Severity;
use crate::lint::words::{mentions, mentions_in_any_case};
use crate::lint::{BeforeRun, Finding, Report, Rule, Subject};
use crate::policy::Entry;
use crate::workflow::StateFile;
use crate::workflow::wording::quoted;

pub(super) static RULE: Rule = Rule {
    code: "R021",
    name: "unmentioned-transition",
    severity: Severity::Warning,
    before_run: BeforeRun::Nothing,
    summary: "A prompt never mentions one of the transitions that it allows.",
    explanation: "An agent knows what its prompt says; it is told of `allowed_transitions` only when it has \
                  answered wrongly, and each reminder is paid for. Where there are several entries, say in the \
                  prompt when to take which.",
    check,
};

fn check(subject: &Subject<'_>, report: &mut Report<'_>) {
    for (number, state) in subject.graph.states.iter().enumerate() {
        let Some(prompt) = state.source.prompt().filter(|prompt| prompt.entries.len() > 1) else { continue };
        for places in &prompt.entries {
            if !is_mentioned(state.body(), &places.entry) {
                let tag = places.entry.tag;
                let message = match &places.entry.target {
                    Some(target) => format!("the prompt never mentions `{tag}` to {}", quoted(target)),
                    None => format!("the prompt never mentions `{tag}`"),
                };
                let help = "say in the prompt when to take it, or remove the entry";
                report.add(Finding::at(number, places.range.clone(), message).help(help));
            }
        }
    }
}

/// It is enough to mention the name of the state, in any words.
fn is_mentioned(body: &str, entry: &Entry) -> bool {
    let tag = entry.tag.as_str();
    match &entry.target {
        None => mentions_in_any_case(body, tag),
        Some(target) => {
            let name = StateFile::new(target).map_or_else(|| target.clone(), |state| state.name().to_owned());
            mentions(body, &name)
        }
    }
}
