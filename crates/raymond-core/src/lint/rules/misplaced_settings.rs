//! `R033` misplaced-settings

use crate::diagnostic::Severity;
use crate::frontmatter::MISPLACED;
use crate::lint::{BeforeRun, Finding, Report, Rule, Subject, split_help};

pub(super) static RULE: Rule = Rule {
    code: "R033",
    name: "misplaced-settings",
    severity: Severity::Error,
    // The state's step warns of it.
    before_run: BeforeRun::Nothing,
    summary: "A block of settings is not at the top of its prompt.",
    explanation: "Settings stand between `---` lines at the top of a prompt; only blank lines and one HTML comment \
                  may come before them. A block further down is part of the text, so its policy and limits do not \
                  hold. A prompt that shows such a block on purpose puts it into a code fence.",
    check,
};

fn check(subject: &Subject<'_>, report: &mut Report<'_>) {
    for (number, state) in subject.graph.states.iter().enumerate() {
        if let Some(range) = &state.source.misplaced {
            let (message, help) = split_help(MISPLACED);
            report.add(Finding::at(number, range.clone(), message).help(help.unwrap_or_default()));
        }
    }
}
