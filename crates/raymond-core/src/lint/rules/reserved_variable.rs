//! `R012` reserved-variable

use crate::diagnostic::Severity;
use crate::lint::tag_errors::TagError;
use crate::lint::{BeforeRun, Finding, Report, Rule, Subject};
use crate::transition::ProtocolError;

pub(super) static RULE: Rule = Rule {
    code: "R012",
    name: "reserved-variable",
    severity: Severity::Error,
    before_run: BeforeRun::Warn,
    summary: "A fork sets a variable that it may not set.",
    explanation: "A fork's attributes become variables of the worker. Names of variables that Raymond sets itself \
                  (`state`, `result`, `visits` …) and those that no variable can have are refused, and the step fails. \
                  So are, in a script's fork, names that change how programs run (`PATH`, `LD_PRELOAD`, `RAYMOND_…`); \
                  if a model sets one, the worker's scripts see it as `RAYMOND_VAR_PATH`.",
    check,
};

fn check(subject: &Subject<'_>, report: &mut Report<'_>) {
    for TagError { state, error, range } in &subject.tag_errors.0 {
        if let ProtocolError::BadVariable { why, .. } = error {
            report.add(Finding::at(*state, range.clone(), why.to_string()));
        }
    }
}
