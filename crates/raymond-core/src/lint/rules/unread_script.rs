//! `R030` unread-script

use std::ops::Range;

use crate::diagnostic::Severity;
use crate::graph::{StateNode, Told};
use crate::lint::{BeforeRun, Finding, Report, Rule, Subject};

pub(super) static RULE: Rule = Rule {
    code: "R030",
    name: "unread-script",
    severity: Severity::Info,
    before_run: BeforeRun::Nothing,
    summary: "Where a script leads could not be read from its text.",
    explanation: "Scripts are programs; only tags with literal names in their text are read, and a name that is \
                  computed (`$NEXT`) or a tag that another program prints stays unknown. Such a script is taken \
                  to lead anywhere, so fewer mistakes are found.",
    check,
};

fn check(subject: &Subject<'_>, report: &mut Report<'_>) {
    let reached = subject.graph.reached();
    for (number, state) in subject.graph.states.iter().enumerate() {
        let is_script = matches!(state.source.settings, Told::Script(_));
        let is_reached = reached.as_ref().is_none_or(|reached| reached.get(number) == Some(&true));
        if !is_script || !state.is_opaque || !state.runs_here || !is_reached {
            continue;
        }
        let open = state.exits.iter().find(|exit| exit.is_open());
        let (range, message) = match open {
            Some(exit) => (exit.range.clone(), "where this leads is known only when the script runs"),
            None if state.exits.is_empty() => (0..0, "no transition tag could be read from this script"),
            None => {
                (place_of_missed(state), "the script puts this tag together, so where it leads is not known")
            }
        };
        report.add(Finding::at(number, range, message));
    }
}

fn place_of_missed(state: &StateNode) -> Range<usize> {
    state.missed.first().map(|missed| missed.range.clone()).unwrap_or_default()
}
