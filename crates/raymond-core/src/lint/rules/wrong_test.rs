//! `R039` wrong-test

use crate::diagnostic::Severity;
use crate::lint::{BeforeRun, Report, Rule, Subject};

pub(super) static RULE: Rule = Rule {
    code: "R039",
    name: "wrong-test",
    severity: Severity::Error,
    before_run: BeforeRun::Nothing,
    summary: "A test file of the workflow is wrong.",
    explanation: "A file of tests cannot be read, has a reply for a state that the workflow does not have, or expects \
                  a path that its transitions do not allow. `raymond test` would refuse the file, or the test could \
                  never pass.",
    check,
};

/// The code that reads the test files reports this.
fn check(_: &Subject<'_>, _: &mut Report<'_>) {}
