//! `R001` unreadable-settings

use crate::diagnostic::Severity;
use crate::graph::Told;
use crate::lint::{BeforeRun, Finding, Report, Rule, Subject};

pub(super) static RULE: Rule = Rule {
    code: "R001",
    name: "unreadable-settings",
    severity: Severity::Error,
    before_run: BeforeRun::Refuse,
    summary: "A state's settings cannot be understood.",
    explanation: "The block between `---` lines at the top of a prompt must be YAML with known types and must be \
                  closed; the `raymond:` comments of a script must hold `key=value` words. A run refuses such a \
                  state before anything is paid for.",
    check,
};

fn check(subject: &Subject<'_>, report: &mut Report<'_>) {
    for (number, state) in subject.graph.states.iter().enumerate() {
        match &state.source.settings {
            Told::Broken(trouble) if !trouble.is_force_implicit => {
                report.add(Finding::at(number, trouble.range.clone(), trouble.message.as_str()));
            }
            _ => {}
        }
    }
}
