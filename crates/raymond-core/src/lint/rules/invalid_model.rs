//! `R032` invalid-model

use crate::diagnostic::Severity;
use crate::lint::{BeforeRun, Finding, Report, Rule, Subject};
use crate::workflow::wording::quoted;

pub(super) static RULE: Rule = Rule {
    code: "R032",
    name: "invalid-model",
    severity: Severity::Error,
    before_run: BeforeRun::Refuse,
    summary: "A prompt asks for a model whose name cannot be one.",
    explanation: "The name of a model goes to the agent program as it is. It holds no white space and no braces \
                  (variables are not expanded in it) and does not begin with a dash. Whether there is a model of \
                  that name is known only to the program.",
    check,
};

fn check(subject: &Subject<'_>, report: &mut Report<'_>) {
    let mut asks_for_default = false;
    for (number, state) in subject.graph.states.iter().enumerate() {
        let Some(prompt) = state.source.prompt() else { continue };
        match &prompt.settings.model {
            Some(model) => {
                let finding =
                    problem(model).map(|message| Finding::at(number, prompt.model.clone(), message));
                finding.into_iter().for_each(|finding| report.add(finding));
            }
            None => asks_for_default = true,
        }
    }
    // It is set in one place for all other prompts, so it is reported once.
    if let Some(message) = subject.defaults.model.filter(|_| asks_for_default).and_then(problem) {
        report.add(Finding::in_workflow(message));
    }
}

fn problem(model: &str) -> Option<String> {
    let why = if model.is_empty() {
        "it is empty"
    } else if model.contains(char::is_whitespace) {
        "there is white space in it"
    } else if model.contains(['{', '}']) {
        "there are braces in it"
    } else if model.starts_with('-') {
        "it begins with a dash"
    } else {
        return None;
    };
    Some(format!("{} cannot be the name of a model: {why}", quoted(model)))
}
