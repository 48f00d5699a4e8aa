//! `R024` contradicting-nexts

use crate::diagnostic::Severity;
use crate::graph::{Leads, Reference};
use crate::lint::{BeforeRun, Finding, Report, Rule, Subject};
use crate::workflow::wording::quoted;

pub(super) static RULE: Rule = Rule {
    code: "R024",
    name: "contradicting-nexts",
    severity: Severity::Warning,
    before_run: BeforeRun::Nothing,
    summary: "Forks of one state send their agent to different states.",
    explanation: "Forks that are emitted together must give the same continuation, or the step fails. A state \
                  that emits only one of them at a time may ignore this.",
    check,
};

fn check(subject: &Subject<'_>, report: &mut Report<'_>) {
    for (number, state) in subject.graph.states.iter().enumerate() {
        let mut first: Option<&Reference> = None;
        for next in state.exits.iter().filter(|exit| exit.tag.is_fork()).filter_map(|exit| exit.next.as_ref())
        {
            let Leads::To(target) = next.leads else { continue };
            match first {
                Some(known) if known.leads != Leads::To(target) => {
                    let names = (quoted(&known.name), quoted(&next.name));
                    let message =
                        format!("another fork of this state goes on at {}, this one at {}", names.0, names.1);
                    let help = "forks that stand together need the same `next`";
                    report.add(Finding::at(number, next.range.clone(), message).help(help));
                }
                Some(_) => {}
                None => first = Some(next),
            }
        }
    }
}
