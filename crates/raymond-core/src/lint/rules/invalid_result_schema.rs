//! `R036` invalid-result-schema

use crate::diagnostic::Severity;
use crate::lint::{BeforeRun, Finding, Report, Rule, Subject};

pub(super) static RULE: Rule = Rule {
    code: "R036",
    name: "invalid-result-schema",
    severity: Severity::Error,
    before_run: BeforeRun::Refuse,
    summary: "A `result_schema` is no JSON Schema, or its file cannot be read.",
    explanation: "The results of a prompt with `result_schema` are checked against it, so it must be a valid JSON \
                  Schema: a mapping in the settings, or the name of a JSON or YAML file of the workflow. Nothing is \
                  fetched: a `$ref` leads into the schema itself.",
    check,
};

fn check(subject: &Subject<'_>, report: &mut Report<'_>) {
    for (number, state) in subject.graph.states.iter().enumerate() {
        let Some(prompt) = state.source.prompt() else { continue };
        let Some(schema) = &prompt.settings.result_schema else { continue };
        if let Err(problem) = (subject.check_schema)(schema) {
            report.add(Finding::at(number, prompt.result_schema.clone(), problem));
        }
    }
}
