//! `R008` ambiguous-name

use crate::diagnostic::Severity;
use crate::lint::{BeforeRun, Finding, Report, Rule, Subject, Unresolved, role_words, unresolved};
use crate::workflow::ResolveError;
use crate::workflow::wording::{quoted, quoted_list};

pub(super) static RULE: Rule = Rule {
    code: "R008",
    name: "ambiguous-name",
    severity: Severity::Error,
    before_run: BeforeRun::RefuseIfDeclared,
    summary: "A name stands for more than one state.",
    explanation: "A name without an extension must stand for exactly one file that runs on the platform. Add the \
                  extension, or remove all files but one.",
    check,
};

fn check(subject: &Subject<'_>, report: &mut Report<'_>) {
    for Unresolved { state, exit, role, reference, error } in unresolved(subject.graph) {
        let ResolveError::Ambiguous { candidates, .. } = error else { continue };
        let message = format!("{}{} is ambiguous", role_words(exit, role), quoted(&reference.name));
        let help = format!("write {}", quoted_list(candidates, "or"));
        report.add(Finding::at(state, reference.range.clone(), message).in_exit(exit).help(help));
    }
}
