//! `R010` path-as-target

use crate::diagnostic::Severity;
use crate::lint::{BeforeRun, Finding, Report, Rule, Subject, Unresolved, role_words, unresolved};
use crate::workflow::ResolveError;
use crate::workflow::wording::quoted;

pub(super) static RULE: Rule = Rule {
    code: "R010",
    name: "path-as-target",
    severity: Severity::Error,
    before_run: BeforeRun::RefuseIfDeclared,
    summary: "A transition names a path instead of a state.",
    explanation: "States are named, never given as paths: they all lie in one folder, and text from a model must \
                  not choose files. Another workflow is entered with the `-workflow` tags.",
    check,
};

fn check(subject: &Subject<'_>, report: &mut Report<'_>) {
    for Unresolved { state, exit, role, reference, error } in unresolved(subject.graph) {
        let ResolveError::BadName { problem, .. } = error else { continue };
        let name = quoted(&reference.name);
        let message = format!("{}{name} cannot be a state: {problem}", role_words(exit, role));
        let last = reference.name.rsplit(['/', '\\']).next().unwrap_or_default();
        let is_state = subject.graph.listing.resolve(last, subject.graph.platform).is_ok();
        let finding = Finding::at(state, reference.range.clone(), message).in_exit(exit);
        report.add(match is_state {
            true => finding.help(format!("write {}", quoted(last))).fix(Some(last.to_owned())),
            false => finding,
        });
    }
}
