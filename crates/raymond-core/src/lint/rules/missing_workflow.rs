//! `R014` missing-workflow

use crate::diagnostic::Severity;
use crate::graph::Leads;
use crate::lint::{BeforeRun, Finding, Report, Rule, ScopeProblem, Subject};
use crate::workflow::wording::quoted;

pub(super) static RULE: Rule = Rule {
    code: "R014",
    name: "missing-workflow",
    severity: Severity::Error,
    before_run: BeforeRun::RefuseIfDeclared,
    summary: "A transition names another workflow that cannot be found.",
    explanation: "The `-workflow` tags take a folder, an archive or a file, seen from the folder of this \
                  workflow. It must be there and have a state to begin with. A run warns of one that a step may still \
                  make, and refuses a policy that names one which is there and cannot be used.",
    check,
};

fn check(subject: &Subject<'_>, report: &mut Report<'_>) {
    for (number, state) in subject.graph.states.iter().enumerate() {
        for exit in &state.exits {
            let Some(target) = exit.target.as_ref().filter(|target| target.leads == Leads::Elsewhere) else {
                continue;
            };
            let message = format!("the workflow {} cannot be used", quoted(&target.name));
            let finding = Finding::at(number, target.range.clone(), message);
            match (subject.find_scope)(&target.name) {
                Err(ScopeProblem::Missing(why)) => report.add(finding.help(why)),
                Err(ScopeProblem::Unusable(why)) => report.add(finding.in_exit(exit).help(why)),
                Err(ScopeProblem::Forbidden(_)) | Ok(_) => {}
            }
        }
    }
}
