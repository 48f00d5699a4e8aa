//! `R005` missing-state

use crate::diagnostic::Severity;
use crate::lint::{BeforeRun, Finding, Report, Rule, Subject, Unresolved, role_words, unresolved};
use crate::workflow::ResolveError;
use crate::workflow::wording::{quoted, quoted_list};

pub(super) static RULE: Rule = Rule {
    code: "R005",
    name: "missing-state",
    severity: Severity::Error,
    before_run: BeforeRun::RefuseIfDeclared,
    summary: "A transition names a state that does not exist.",
    explanation: "The names in a tag or in an entry of `allowed_transitions` (its target, `return`, `next`, \
                  `timeout_next`) must be states of this workflow that run on the platform. A run that comes to \
                  such a transition fails, or pays for reminders that cannot help.",
    check,
};

fn check(subject: &Subject<'_>, report: &mut Report<'_>) {
    for Unresolved { state, exit, role, reference, error } in unresolved(subject.graph) {
        let (suggestions, elsewhere) = match error {
            ResolveError::NotFound { suggestions, elsewhere, .. } => (suggestions, elsewhere.as_slice()),
            ResolveError::UnknownExtension { suggestions, .. } => (suggestions, [].as_slice()),
            _ => continue,
        };
        // Another rule reports files of that name that run only on the other platform.
        if !elsewhere.is_empty() {
            continue;
        }
        let message = format!("{}there is no state {}", role_words(exit, role), quoted(&reference.name));
        let finding = Finding::at(state, reference.range.clone(), message).in_exit(exit);
        report.add(match suggestions.as_slice() {
            [] => finding,
            [only] => finding.help(format!("did you mean {}?", quoted(only))).fix(Some(only.clone())),
            several => finding.help(format!("did you mean {}?", quoted_list(several, "or"))),
        });
    }
}
