//! `R038` wrong-input

use crate::diagnostic::Severity;
use crate::graph::{Origin, StateNode};
use crate::lint::{BeforeRun, Finding, Report, Rule, Subject};
use crate::named_inputs::{DeclaredInput, InputProblem, unknown};
use crate::policy::Policy;
use crate::tag::{Attribute, Located};
use crate::workflow::wording::quoted;

pub(super) static RULE: Rule = Rule {
    code: "R038",
    name: "wrong-input",
    severity: Severity::Error,
    before_run: BeforeRun::RefuseIfDeclared,
    summary: "A transition to another workflow does not give the inputs that it declares.",
    explanation: "A workflow's manifest declares its inputs, and a tag that enters it gives them as attributes. A \
                  missing one, one of another type and, except on forks, one that is not declared are errors of \
                  the state that has the tag. Values that a script computes are not checked, nor are those in \
                  prompts, which are examples.",
    check,
};

fn check(subject: &Subject<'_>, report: &mut Report<'_>) {
    for (number, state) in subject.graph.states.iter().enumerate() {
        for located in state.tags.iter().filter(|located| located.tag.name.is_workflow()) {
            let Ok(inputs) = (subject.find_scope)(located.tag.content.trim()) else { continue };
            if !inputs.is_empty() {
                check_tag(number, state, located, &inputs, report);
            }
        }
        check_forced(subject, number, state, report);
    }
}

fn check_tag(
    number: usize,
    state: &StateNode,
    located: &Located,
    inputs: &[DeclaredInput],
    report: &mut Report<'_>,
) {
    let tag = &located.tag;
    let given = || tag.attributes.iter().zip(&located.attributes);
    for ((name, value), (name_range, value_range)) in given() {
        match inputs.iter().find(|input| input.name == *name) {
            Some(input) if state.file.kind().is_script() && is_written_out(value) => {
                if let Err(why) = input.kind.check(value) {
                    let message = format!("the input {}: {why}", quoted(name));
                    report.add(Finding::at(number, value_range.clone(), message));
                }
            }
            Some(_) => {}
            None if tag.name.is_fork() || Attribute::meant_by(name, tag.name, &tag.attributes).is_some() => {}
            None => report.add(not_declared(number, name_range.clone(), name, inputs)),
        }
    }
    let is_missing = |input: &&DeclaredInput| {
        input.is_needed() && !tag.attributes.iter().any(|(name, _)| *name == input.name)
    };
    for input in inputs.iter().filter(is_missing) {
        report.add(missing(number, located.content.clone(), &tag.content, input));
    }
}

fn not_declared(
    number: usize,
    range: std::ops::Range<usize>,
    name: &str,
    inputs: &[DeclaredInput],
) -> Finding {
    let message = format!("the workflow has no input {}", quoted(name));
    let finding = Finding::at(number, range, message);
    match unknown(inputs, name) {
        InputProblem::Unknown { meant, .. } if meant.len() == 1 => {
            let only = meant.into_iter().next();
            let help = only.as_deref().map(|only| format!("did you mean {}?", quoted(only)));
            finding.help(help.unwrap_or_default()).fix(only)
        }
        InputProblem::Unknown { declared, .. } => {
            let declared: Vec<String> = declared.iter().map(|name| quoted(name)).collect();
            finding.help(format!("it has {}", declared.join(", ")))
        }
        _ => finding,
    }
}

fn missing(number: usize, range: std::ops::Range<usize>, target: &str, input: &DeclaredInput) -> Finding {
    let message = format!("the workflow {} needs the input {}", quoted(target.trim()), input.in_words());
    Finding::at(number, range, message).help(format!("give it as an attribute: `{}=\"…\"`", input.name))
}

/// A transition that is taken without reading tags can give no inputs.
fn check_forced(subject: &Subject<'_>, number: usize, state: &StateNode, report: &mut Report<'_>) {
    let Some(prompt) = state.source.prompt().filter(|prompt| prompt.settings.force_implicit) else { return };
    let implied = prompt.settings.allowed_transitions.as_ref().and_then(Policy::implicit);
    if !implied.is_some_and(|entry| entry.tag.is_workflow()) {
        return;
    }
    for exit in state.exits.iter().filter(|exit| matches!(exit.origin, Origin::Policy(_))) {
        let Some(target) = &exit.target else { continue };
        let Ok(inputs) = (subject.find_scope)(&target.name) else { continue };
        for input in inputs.iter().filter(|input| input.is_needed()) {
            let finding = missing(number, target.range.clone(), &target.name, input);
            let help = "without `force_implicit` the agent's tag can give it as an attribute";
            report.add(finding.help(help).in_exit(exit));
        }
    }
}

/// Whether a script's text has the value itself, and does not compute it.
fn is_written_out(value: &str) -> bool {
    !value.contains(['$', '{', '%', '"', '\'', '`', '<', '!', '\\', '+'])
}
