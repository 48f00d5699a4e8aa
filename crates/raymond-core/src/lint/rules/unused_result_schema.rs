//! `R037` unused-result-schema

use crate::diagnostic::Severity;
use crate::lint::{BeforeRun, Finding, Report, Rule, Subject};
use crate::tag::TagName;

pub(super) static RULE: Rule = Rule {
    code: "R037",
    name: "unused-result-schema",
    severity: Severity::Warning,
    before_run: BeforeRun::Nothing,
    summary: "A prompt has a `result_schema` and may not emit a result.",
    explanation: "`result_schema` is about the `<result>` of the state that has it, not about what another state hands \
                  to it. If `allowed_transitions` does not permit `result`, nothing is ever checked.",
    check,
};

fn check(subject: &Subject<'_>, report: &mut Report<'_>) {
    for (number, state) in subject.graph.states.iter().enumerate() {
        let Some(prompt) = state.source.prompt() else { continue };
        let Some(policy) = &prompt.settings.allowed_transitions else { continue };
        let may_return = policy.entries.iter().any(|entry| entry.tag == TagName::Result);
        if prompt.settings.result_schema.is_some() && !may_return {
            let finding = "`result_schema` is never used: `allowed_transitions` does not permit `result`";
            let help = "put it into the state whose `<result>` it describes, or permit `{ tag: result }`";
            report.add(Finding::at(number, prompt.result_schema.clone(), finding).help(help));
        }
    }
}
