//! `R035` empty-prompt

use crate::diagnostic::Severity;
use crate::graph::Told;
use crate::lint::{BeforeRun, Finding, Report, Rule, Subject};
use crate::workflow::wording::quoted;

pub(super) static RULE: Rule = Rule {
    code: "R035",
    name: "empty-prompt",
    severity: Severity::Error,
    before_run: BeforeRun::Refuse,
    summary: "A prompt has no text.",
    explanation: "What an agent is sent is the text below the settings. Agent programs refuse an empty one.",
    check,
};

fn check(subject: &Subject<'_>, report: &mut Report<'_>) {
    for (number, state) in subject.graph.states.iter().enumerate() {
        if matches!(state.source.settings, Told::Prompt(_)) && state.body().trim().is_empty() {
            let message = format!("{} has no text to send", quoted(state.file.as_str()));
            let end = state.text.trim_end().len();
            report.add(Finding::at(number, end..end, message).help("write what the agent should do"));
        }
    }
}
