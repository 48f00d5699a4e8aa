//! `R016` unknown-key

use crate::diagnostic::Severity;
use crate::frontmatter::{self, entry_keys};
use crate::graph::{Notice, StateNode};
use crate::header;
use crate::lint::{BeforeRun, Finding, Report, Rule, Subject, split_help};
use crate::tag::{Attribute, Tag};
use crate::workflow::wording::{nearest, quoted};

pub(super) static RULE: Rule = Rule {
    code: "R016",
    name: "unknown-key",
    severity: Severity::Warning,
    before_run: BeforeRun::Nothing,
    summary: "A setting or an attribute means nothing and is ignored.",
    explanation: "Unknown settings never stop a run, so a misspelt one is easily missed: `timeuot: 5m` leaves the \
                  timeout as it was.",
    check,
};

fn check(subject: &Subject<'_>, report: &mut Report<'_>) {
    for (number, state) in subject.graph.states.iter().enumerate() {
        for notice in &state.source.notices {
            let key = state.text.get(notice.range.clone()).unwrap_or_default();
            let (message, help) = split_help(&notice.message);
            let finding = Finding::at(number, notice.range.clone(), message).fix(meant(state, notice, key));
            report.add(match help {
                Some(help) => finding.help(help),
                None => finding,
            });
        }
        for located in state.tags.iter().filter(|located| ignores_others(subject, &located.tag)) {
            for ((name, _), (range, _)) in located.tag.attributes.iter().zip(&located.attributes) {
                if Attribute::meant_by(name, located.tag.name, &located.tag.attributes).is_none() {
                    let message = format!("the attribute {} is unknown and ignored", quoted(name));
                    report.add(Finding::at(number, range.clone(), message));
                }
            }
        }
    }
}

/// Whether a tag's attributes mean nothing if Raymond does not know them. On the way to another workflow they are its
/// inputs, and another rule is about those.
fn ignores_others(subject: &Subject<'_>, tag: &Tag) -> bool {
    match tag.name.is_workflow() && !tag.name.is_fork() {
        true => (subject.find_scope)(tag.content.trim()).is_ok_and(|inputs| inputs.is_empty()),
        false => !tag.name.facts().takes_variables,
    }
}

fn meant(state: &StateNode, notice: &Notice, key: &str) -> Option<String> {
    let known: Vec<&str> = match (state.file.kind().is_script(), notice.is_in_entry) {
        (true, _) => header::setting_names().collect(),
        (false, true) => entry_keys().collect(),
        (false, false) => frontmatter::setting_names().collect(),
    };
    match nearest(key, known).as_slice() {
        [only] => Some((*only).to_owned()),
        _ => None,
    }
}
