//! `R002` invalid-effort

use crate::diagnostic::Severity;
use crate::lint::{BeforeRun, Finding, Report, Rule, Subject};
use crate::workflow::wording::{nearest, quoted, quoted_list};

pub(super) static RULE: Rule = Rule {
    code: "R002",
    name: "invalid-effort",
    severity: Severity::Error,
    before_run: BeforeRun::Refuse,
    summary: "A prompt asks for an effort that its backend does not know.",
    explanation: "The default backend takes `low`, `medium`, `high`, `xhigh` and `max`; anything else is ignored by \
                  it with a warning, so the prompt would run with another effort than its author meant. Prompts of \
                  backends whose efforts are not known are not checked.",
    check,
};

fn check(subject: &Subject<'_>, report: &mut Report<'_>) {
    let mut is_default_checked = false;
    for (number, state) in subject.graph.states.iter().enumerate() {
        let Some(prompt) = state.source.prompt() else { continue };
        let backend = prompt.settings.backend.as_deref().or(subject.defaults.backend);
        let backend = backend.and_then(|names| names.split(',').next()).map(str::trim);
        let Some(known) = (subject.known_efforts)(backend) else { continue };
        let own = prompt.settings.effort.as_deref();
        let Some(effort) = own.or(subject.defaults.effort) else { continue };
        if known.contains(&effort) || (own.is_none() && is_default_checked) {
            continue;
        }
        let message =
            format!("{} is not a known effort; known are {}", quoted(effort), quoted_list(known, "and"));
        // The effort of all other prompts is set in one place, so it is reported once.
        is_default_checked |= own.is_none();
        let finding = match own {
            Some(_) => Finding::at(number, prompt.effort.clone(), message),
            None => Finding::in_workflow(message),
        };
        report.add(match nearest(effort, known.iter().copied()).as_slice() {
            [only] => {
                let fix = own.map(|_| (*only).to_owned());
                finding.help(format!("did you mean `{only}`?")).fix(fix)
            }
            _ => finding,
        });
    }
}
