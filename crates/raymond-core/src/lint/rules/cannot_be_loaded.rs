//! `R015` cannot-be-loaded

use crate::diagnostic::Severity;
use crate::lint::{BeforeRun, Report, Rule, Subject};

pub(super) static RULE: Rule = Rule {
    code: "R015",
    name: "cannot-be-loaded",
    severity: Severity::Error,
    before_run: BeforeRun::Nothing,
    summary: "The workflow or one of its files cannot be read.",
    explanation: "The folder, archive or file must exist and be readable, and its `workflow.yaml` and \
                  `replies.yaml` must be in order. Nothing else can be said about a workflow that cannot be \
                  loaded.",
    check,
};

/// The code that reads the files reports this.
fn check(_: &Subject<'_>, _: &mut Report<'_>) {}
