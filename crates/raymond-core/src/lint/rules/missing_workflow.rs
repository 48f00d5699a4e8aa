//! `R014` missing-workflow

use crate::diagnostic::Severity;
use crate::graph::Leads;
use crate::lint::{BeforeRun, Finding, Report, Rule, ScopeProblem, Subject};
use crate::workflow::wording::quoted;

pub(super) static RULE: Rule = Rule {
    code: "R014",
    name: "missing-workflow",
    severity: Severity::Error,
    before_run: BeforeRun::Warn,
    summary: "A transition names another workflow that cannot be found.",
    explanation: "The `-workflow` tags take a folder, an archive or a file, seen from the folder of this \
                  workflow. It must be there and have a state to begin with.",
    check,
};

fn check(subject: &Subject<'_>, report: &mut Report<'_>) {
    for (number, state) in subject.graph.states.iter().enumerate() {
        let targets = state.exits.iter().filter_map(|exit| exit.target.as_ref());
        for target in targets.filter(|target| target.leads == Leads::Elsewhere) {
            if let Err(ScopeProblem::Missing(why)) = (subject.find_scope)(&target.name) {
                let message = format!("the workflow {} cannot be used", quoted(&target.name));
                report.add(Finding::at(number, target.range.clone(), message).help(why));
            }
        }
    }
}
