//! `R034` broken-tag

use std::ops::Range;

use crate::diagnostic::Severity;
use crate::graph::{Graph, StateNode};
use crate::lint::misspelt::misspelt;
use crate::lint::printed::Printed;
use crate::lint::{BeforeRun, Finding, Report, Rule, Subject};
use crate::tag::{Meant, NearMiss, NearMissReason, TagName};

pub(super) static RULE: Rule = Rule {
    code: "R034",
    name: "broken-tag",
    severity: Severity::Error,
    before_run: BeforeRun::Warn,
    summary: "A script prints something that looks like a tag and cannot be read.",
    explanation: "A step that prints such text fails, so that no worker is lost in silence. Put attribute values in \
                  quotes, write a quote inside a value as `&quot;`, close every tag, and write its name exactly.",
    check,
};

fn check(subject: &Subject<'_>, report: &mut Report<'_>) {
    for (number, state) in subject.graph.states.iter().enumerate().filter(|(_, state)| state.runs_here) {
        let Some(printed) = Printed::of(state.file.kind(), &state.text) else { continue };
        for missed in &printed.locate().missed {
            if is_mistake(subject.graph, missed) && !is_in_pieces(&printed.text, missed) {
                report.add(Finding::at(number, place(&printed, state, &missed.range), missed.to_string()));
            }
        }
        for word in misspelt(&printed.text, subject.graph, state.exits.is_empty()) {
            let message = format!("`<{}>` is not a tag", word.written);
            let help = format!("did you mean `<{}>`?", word.meant);
            report.add(Finding::at(number, place(&printed, state, &word.range), message).help(help));
        }
    }
}

fn place(printed: &Printed, state: &StateNode, range: &Range<usize>) -> Range<usize> {
    let range = printed.range_in_script(range);
    range.start.min(state.text.len())..range.end.min(state.text.len())
}

fn is_mistake(graph: &Graph, missed: &NearMiss) -> bool {
    match &missed.meant {
        Meant::Text => false,
        Meant::Tag => true,
        Meant::TagIfState(name) => graph.listing.resolve(name, graph.platform).is_ok(),
    }
}

/// Whether the missing part of a tag may be printed by another command, which this one follows or precedes.
fn is_in_pieces(text: &str, missed: &NearMiss) -> bool {
    let count = |name: TagName| {
        let openings = text.matches(&format!("<{name}")).count();
        (openings, text.matches(&format!("</{name}>")).count())
    };
    match missed.why {
        NearMissReason::NeverClosed(name) => {
            let (openings, closings) = count(name);
            closings >= openings
        }
        NearMissReason::NeverOpened(name) => {
            let (openings, closings) = count(name);
            openings >= closings
        }
        _ => false,
    }
}
