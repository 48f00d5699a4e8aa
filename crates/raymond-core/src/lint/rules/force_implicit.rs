//! `R013` force-implicit

use crate::diagnostic::Severity;
use crate::graph::Told;
use crate::lint::{BeforeRun, Finding, Report, Rule, Subject};

pub(super) static RULE: Rule = Rule {
    code: "R013",
    name: "force-implicit",
    severity: Severity::Error,
    before_run: BeforeRun::Refuse,
    summary: "`force_implicit` is set where no transition is implied.",
    explanation: "With `force_implicit` a prompt's only transition is taken, no matter what its agent says. So \
                  there must be exactly one entry in `allowed_transitions`, it must be complete (target, and \
                  `return` or `next` where its tag needs them), and it cannot be `result` or `ask`.",
    check,
};

fn check(subject: &Subject<'_>, report: &mut Report<'_>) {
    for (number, state) in subject.graph.states.iter().enumerate() {
        match &state.source.settings {
            Told::Broken(trouble) if trouble.is_force_implicit => {
                report.add(Finding::at(number, trouble.range.clone(), trouble.message.as_str()));
            }
            _ => {}
        }
    }
}
