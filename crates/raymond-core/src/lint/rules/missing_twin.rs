//! `R026` missing-twin

use crate::diagnostic::Severity;
use crate::lint::{BeforeRun, Finding, Report, Rule, Subject};
use crate::workflow::wording::{clipped, quoted};
use crate::workflow::{Kind, Platform};

pub(super) static RULE: Rule = Rule {
    code: "R026",
    name: "missing-twin",
    severity: Severity::Warning,
    before_run: BeforeRun::Nothing,
    summary: "A script has no file for the other platform, while others do.",
    explanation: "Where some states of a workflow have a script for Unix and one for Windows, the workflow is \
                  meant to run on both, and a state that has only one of them breaks it there.",
    check,
};

fn check(subject: &Subject<'_>, report: &mut Report<'_>) {
    let graph = subject.graph;
    let by_name = graph.by_name();
    let runs_on = |numbers: &[usize], platform| {
        numbers
            .iter()
            .filter_map(|number| graph.state(*number))
            .any(|state| state.file.kind().runs_on(platform))
    };
    let is_complete =
        |numbers: &[usize]| runs_on(numbers, Platform::Unix) && runs_on(numbers, Platform::Windows);
    let has_twins = by_name.values().any(|numbers| numbers.len() > 1 && is_complete(numbers));
    if !has_twins {
        return;
    }
    for numbers in by_name.values().filter(|numbers| !is_complete(numbers)) {
        let Some((number, state)) = numbers.first().and_then(|number| Some((*number, graph.state(*number)?)))
        else {
            continue;
        };
        let (lacking, extension) = match state.file.kind().runs_on(Platform::Unix) {
            true => (Platform::Windows, Kind::Batch.extension()),
            false => (Platform::Unix, Kind::Bash.extension()),
        };
        let message =
            format!("{} has no file for {lacking}, while other states do", quoted(state.file.as_str()));
        let help = format!("add `{}.{extension}`", clipped(state.file.name()));
        report.add(Finding::at(number, 0..0, message).help(help));
    }
}
