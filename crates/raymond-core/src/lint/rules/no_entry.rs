//! `R003` no-entry

use crate::diagnostic::Severity;
use crate::lint::{BeforeRun, Finding, Report, Rule, Subject};
use crate::workflow::ResolveError;

pub(super) static RULE: Rule = Rule {
    code: "R003",
    name: "no-entry",
    severity: Severity::Error,
    before_run: BeforeRun::Nothing,
    summary: "The workflow has no state to begin with.",
    explanation: "A run of a workflow begins at `1_START` or `START`, with any extension that runs on the \
                  platform. Add such a state, or give lint the state to begin with.",
    check,
};

fn check(subject: &Subject<'_>, report: &mut Report<'_>) {
    match &subject.graph.entry {
        Ok(_) | Err(ResolveError::TwoEntries { .. } | ResolveError::Ambiguous { .. }) => {}
        Err(error) => report.add(Finding::in_workflow(error.to_string())),
    }
}
