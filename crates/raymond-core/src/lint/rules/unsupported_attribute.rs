//! `R011` unsupported-attribute

use crate::diagnostic::Severity;
use crate::lint::tag_errors::TagError;
use crate::lint::{BeforeRun, Finding, Report, Rule, Subject};
use crate::tag::TagName;
use crate::transition::ProtocolError;
use crate::workflow::wording::quoted_list;

pub(super) static RULE: Rule = Rule {
    code: "R011",
    name: "unsupported-attribute",
    severity: Severity::Error,
    before_run: BeforeRun::Warn,
    summary: "A tag has an attribute that it does not take.",
    explanation: "Each tag takes only some of the attributes that mean something to Raymond. One that its tag does \
                  not take, such as `cd` on `goto`, fails the step.",
    check,
};

fn check(subject: &Subject<'_>, report: &mut Report<'_>) {
    for TagError { state, error, range } in &subject.tag_errors.0 {
        if let ProtocolError::UnexpectedAttribute { name, attribute, .. } = error {
            let message = format!("`{attribute}` cannot be given on `{name}`");
            report.add(Finding::at(*state, range.clone(), message).help(taken_by(*name)));
        }
    }
}

fn taken_by(name: TagName) -> String {
    let names: Vec<&str> = name.facts().attributes.iter().map(|(attribute, _)| attribute.as_str()).collect();
    match names.is_empty() {
        true => format!("`{name}` takes no attributes"),
        false => format!("`{name}` takes {}", quoted_list(&names, "and")),
    }
}
