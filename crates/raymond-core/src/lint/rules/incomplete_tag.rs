//! `R006` incomplete-tag

use crate::diagnostic::Severity;
use crate::lint::tag_errors::TagError;
use crate::lint::{BeforeRun, Finding, Report, Rule, Subject};
use crate::transition::ProtocolError;

pub(super) static RULE: Rule = Rule {
    code: "R006",
    name: "incomplete-tag",
    severity: Severity::Error,
    before_run: BeforeRun::Warn,
    summary: "A required part of a tag is missing, or an attribute is repeated or invalid.",
    explanation: "A call needs `return`, an ask needs `next`, every tag but `result` and `ask` needs a target, \
                  durations are written like `90s`, the name of a worktree can be part of a branch, a worker has a `worktree` or a `cd`, no attribute may be given twice or be empty, and no two of a fork may be one variable of scripts. A step that \
                  emits such a tag fails.",
    check,
};

fn check(subject: &Subject<'_>, report: &mut Report<'_>) {
    for TagError { state, error, range } in &subject.tag_errors.0 {
        match error {
            ProtocolError::MissingAttribute { .. }
            | ProtocolError::EmptyAttribute { .. }
            | ProtocolError::EmptyTarget { .. }
            | ProtocolError::BadDuration { .. }
            | ProtocolError::NotOk { .. }
            | ProtocolError::BadWorktree { .. }
            | ProtocolError::TwoFolders { .. }
            | ProtocolError::DuplicateAttribute { .. }
            | ProtocolError::SameVariable { .. } => {
                report.add(Finding::at(*state, range.clone(), error.to_string()));
            }
            // Other rules report these. The last three cannot happen, because each tag is checked alone.
            ProtocolError::UnexpectedAttribute { .. }
            | ProtocolError::BadVariable { .. }
            | ProtocolError::ForkWithoutNext { .. }
            | ProtocolError::ForkNextsDiffer { .. }
            | ProtocolError::NoTag { .. }
            | ProtocolError::NearTag(_)
            | ProtocolError::Several { .. } => {}
        }
    }
}
