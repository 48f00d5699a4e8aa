//! `R029` implicit-transition

use crate::diagnostic::Severity;
use crate::lint::{BeforeRun, Finding, Report, Rule, Subject};
use crate::policy::Policy;
use crate::workflow::wording::quoted;

pub(super) static RULE: Rule = Rule {
    code: "R029",
    name: "implicit-transition",
    severity: Severity::Info,
    before_run: BeforeRun::Nothing,
    summary: "A prompt's only transition is taken when its agent says nothing.",
    explanation: "With exactly one complete entry in `allowed_transitions`, output without a tag takes that \
                  transition. That is often intended; with `force_implicit: true` it is explicit, and tags are \
                  not read at all.",
    check,
};

fn check(subject: &Subject<'_>, report: &mut Report<'_>) {
    for (number, state) in subject.graph.states.iter().enumerate() {
        let Some(prompt) = state.source.prompt() else { continue };
        let implicit = prompt.settings.allowed_transitions.as_ref().and_then(Policy::implicit);
        if let ([places], Some(entry), false) =
            (prompt.entries.as_slice(), implicit, prompt.settings.force_implicit)
        {
            let target = entry.target.as_deref().unwrap_or_default();
            let message = format!("output without a tag takes `{}` to {}", entry.tag, quoted(target));
            report.add(Finding::at(number, places.range.clone(), message));
        }
    }
}
