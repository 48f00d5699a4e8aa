//! `R007` fork-without-continuation

use crate::diagnostic::Severity;
use crate::lint::tag_errors::TagError;
use crate::lint::{BeforeRun, Finding, Report, Rule, Subject};
use crate::tag::{Attribute, Located};
use crate::transition::{ProtocolError, beside_forks};

pub(super) static RULE: Rule = Rule {
    code: "R007",
    name: "fork-without-continuation",
    severity: Severity::Error,
    before_run: BeforeRun::Warn,
    summary: "A fork does not say where its own agent goes on.",
    explanation: "A fork starts a worker, and the agent that forks goes on as well. Give `next` on the fork, or \
                  one `<goto>` or `<join>` beside the forks.",
    check,
};

fn check(subject: &Subject<'_>, report: &mut Report<'_>) {
    for TagError { state, error, range } in &subject.tag_errors.0 {
        let ProtocolError::ForkWithoutNext { .. } = error else { continue };
        let Some(shown) = subject.graph.state(*state) else { continue };
        let continues = |located: &Located| {
            let has_next = located.tag.attributes.iter().any(|(name, _)| name == Attribute::Next.as_str());
            located.tag.name.may_stand_beside_forks() || (located.tag.name.is_fork() && has_next)
        };
        if !shown.tags.iter().any(continues) {
            let message = "this fork does not say where its own agent goes on";
            let beside = beside_forks(|tag| format!("`<{tag}>STATE</{tag}>`"));
            let help = format!("add `next=\"STATE\"`, or one {beside} beside it");
            report.add(Finding::at(*state, range.clone(), message).help(help));
        }
    }
}
