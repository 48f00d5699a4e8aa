//! `R019` call-without-result

use crate::diagnostic::Severity;
use crate::graph::{Leads, Reference, StateExit};
use crate::lint::{BeforeRun, Finding, Report, Rule, Subject};
use crate::workflow::wording::quoted;

pub(super) static RULE: Rule = Rule {
    code: "R019",
    name: "call-without-result",
    severity: Severity::Warning,
    before_run: BeforeRun::Nothing,
    summary: "A call can never return, because its callee reaches no result.",
    explanation: "`call` and `function` go on at `return` when the called state, or one it leads to, emits \
                  `<result>`. Where none of them does, the `return` is never reached.",
    check,
};

fn check(subject: &Subject<'_>, report: &mut Report<'_>) {
    let graph = subject.graph;
    let returns = graph.lead_on_to(|state| {
        let emits_result = state.exits.iter().any(StateExit::gives_result);
        let is_unclear = state.is_opaque || state.exits.is_empty() || !state.runs_here;
        let is_broken = state.exits.iter().flat_map(StateExit::references).any(|(_, name)| is_nowhere(name));
        emits_result || is_unclear || is_broken
    });
    for (number, state) in graph.states.iter().enumerate() {
        for exit in state.exits.iter().filter(|exit| exit.tag.is_call()) {
            let Some(Reference { leads: Leads::To(callee), range, .. }) = &exit.target else { continue };
            if returns.get(*callee) == Some(&false)
                && let Some(callee) = graph.state(*callee)
            {
                let message = format!(
                    "this call never returns: {} leads to no `<result>`",
                    quoted(callee.file.as_str())
                );
                let help = "let a state that it leads to emit `<result>`, or use `goto`";
                report.add(Finding::at(number, range.clone(), message).help(help));
            }
        }
    }
}

fn is_nowhere(reference: &Reference) -> bool {
    matches!(reference.leads, Leads::Nowhere(_))
}
