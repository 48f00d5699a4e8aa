//! `R004` two-entries

use crate::diagnostic::Severity;
use crate::lint::{BeforeRun, Finding, Report, Rule, Subject};
use crate::workflow::ResolveError;
use crate::workflow::wording::quoted_list;

pub(super) static RULE: Rule = Rule {
    code: "R004",
    name: "two-entries",
    severity: Severity::Error,
    before_run: BeforeRun::Nothing,
    summary: "It is not clear which state the workflow begins with.",
    explanation: "There may be one of `1_START` and `START`, and one file of it that runs on the platform. Rename \
                  or remove the others.",
    check,
};

fn check(subject: &Subject<'_>, report: &mut Report<'_>) {
    let Err(error) = &subject.graph.entry else { return };
    if let ResolveError::TwoEntries { candidates } | ResolveError::Ambiguous { candidates, .. } = error {
        let names: Vec<&str> = candidates.iter().map(|state| state.as_str()).collect();
        let message = format!("it is not clear where to begin: {} exist", quoted_list(&names, "and"));
        report.add(Finding::in_workflow(message).help("keep one of them, or name the state to begin with"));
    }
}
