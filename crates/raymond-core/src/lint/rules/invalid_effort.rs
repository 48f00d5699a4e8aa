//! `R002` invalid-effort

use crate::diagnostic::Severity;
use crate::lint::{Finding, Report, Rule, Subject};
use crate::workflow::wording::{nearest, quoted, quoted_list};

pub(super) static RULE: Rule = Rule {
    code: "R002",
    name: "invalid-effort",
    severity: Severity::Error,
    summary: "A prompt asks for an effort that its backend does not know.",
    explanation: "Claude Code takes `low`, `medium`, `high`, `xhigh` and `max`; anything else is ignored by it \
                  with a warning, so the prompt would run with another effort than its author meant. Prompts of \
                  other backends are not checked.",
    check,
};

/// The backend whose efforts are known.
const CLAUDE: &str = "claude";
const EFFORTS: [&str; 5] = ["low", "medium", "high", "xhigh", "max"];

fn check(subject: &Subject<'_>, report: &mut Report<'_>) {
    for (number, state) in subject.graph.states.iter().enumerate() {
        let Some(prompt) = state.source.prompt() else { continue };
        let backend = prompt.settings.backend.as_deref().or(subject.backend).unwrap_or(CLAUDE);
        let Some(effort) = &prompt.settings.effort else { continue };
        if backend != CLAUDE || EFFORTS.contains(&effort.as_str()) {
            continue;
        }
        let message =
            format!("{} is not a known effort; known are {}", quoted(effort), quoted_list(&EFFORTS, "and"));
        let near = nearest(effort, EFFORTS);
        let finding = Finding::at(number, prompt.effort.clone(), message);
        report.add(match near.as_slice() {
            [only] => finding.help(format!("did you mean `{only}`?")).fix(Some((*only).to_owned())),
            _ => finding,
        });
    }
}
