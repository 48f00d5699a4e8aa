//! `R011` unsupported-attribute

use crate::diagnostic::Severity;
use crate::lint::tag_errors::TagError;
use crate::lint::{Finding, Report, Rule, Subject};
use crate::tag::TagName;
use crate::transition::{ProtocolError, attributes_of};
use crate::workflow::wording::quoted_list;

pub(super) static RULE: Rule = Rule {
    code: "R011",
    name: "unsupported-attribute",
    severity: Severity::Error,
    summary: "A tag has an attribute that it does not take.",
    explanation: "`input`, `delay`, `cd`, `return`, `next`, `timeout` and `timeout_next` mean something to \
                  Raymond, and each tag takes some of them only: `cd` on `goto`, for one, fails the step.",
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
    let (required, optional) = attributes_of(name);
    let names: Vec<&str> = required.iter().chain(optional).map(|attribute| attribute.as_str()).collect();
    match names.is_empty() {
        true => format!("`{name}` takes no attributes"),
        false => format!("`{name}` takes {}", quoted_list(&names, "and")),
    }
}
