//! `R031` forbidden-workflow

use crate::diagnostic::Severity;
use crate::graph::Leads;
use crate::lint::{BeforeRun, Finding, Report, Rule, ScopeProblem, Subject};
use crate::workflow::wording::quoted;

pub(super) static RULE: Rule = Rule {
    code: "R031",
    name: "forbidden-workflow",
    severity: Severity::Error,
    before_run: BeforeRun::Refuse,
    summary: "A transition names another workflow outside the folders that may be entered.",
    explanation: "Workflows may be entered in the project and in the run's own folder. Others have to be listed \
                  in `workflow_paths` of the config file, because the path may come from a model.",
    check,
};

fn check(subject: &Subject<'_>, report: &mut Report<'_>) {
    for (number, state) in subject.graph.states.iter().enumerate() {
        let targets = state.exits.iter().filter_map(|exit| exit.target.as_ref());
        for target in targets.filter(|target| target.leads == Leads::Elsewhere) {
            if let Err(ScopeProblem::Forbidden(why)) = (subject.find_scope)(&target.name) {
                let message = format!("the workflow {} may not be entered", quoted(&target.name));
                report.add(Finding::at(number, target.range.clone(), message).help(why));
            }
        }
    }
}
