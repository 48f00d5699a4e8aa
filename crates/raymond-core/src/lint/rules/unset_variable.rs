//! `R023` unset-variable

use std::collections::BTreeSet;

use crate::diagnostic::Severity;
use crate::graph::Graph;
use crate::lint::{BeforeRun, Finding, Report, Rule, Subject};
use crate::tag::Attribute;
use crate::template::{name_and_path, placeholders};
use crate::variable::{BUILT_IN, OF_WORKTREES};
use crate::workflow::wording::nearest;

pub(super) static RULE: Rule = Rule {
    code: "R023",
    name: "unset-variable",
    severity: Severity::Warning,
    before_run: BeforeRun::Nothing,
    summary: "A prompt uses a variable that nothing sets.",
    explanation: "`{{name}}` is replaced by what Raymond knows (`{{input}}`, `{{result}}`, `{{state}}` …) or by \
                  an attribute of the fork that started the worker, or by an input that the manifest declares. Anything else is sent to the agent as it is \
                  written.",
    check,
};

/// How many variables get suggestions; finding them takes time that grows with the workflow.
const MAX_SUGGESTED: usize = 50;

fn check(subject: &Subject<'_>, report: &mut Report<'_>) {
    let mut set = set_by_forks(subject.graph);
    set.extend(subject.inputs.iter().map(|input| input.name.as_str()));
    let mut suggested = 0;
    for (number, state) in
        subject.graph.states.iter().enumerate().filter(|(_, state)| state.file.kind().is_prompt())
    {
        let start = state.source.body.start;
        for placeholder in placeholders(state.body()) {
            // A field of something else than the input, as `{{item.id}}`, is often meant for another program.
            let (name, path) = name_and_path(placeholder.name);
            if path.is_some() || BUILT_IN.contains(&name) || set.contains(name) {
                continue;
            }
            let range = start + placeholder.range.start..start + placeholder.range.end;
            let finding = Finding::at(number, range, format!("nothing sets `{name}`"));
            suggested += 1;
            let near = match suggested > MAX_SUGGESTED {
                true => Vec::new(),
                false => nearest(name, BUILT_IN.into_iter().chain(set.iter().copied())),
            };
            report.add(match near.as_slice() {
                [only] => {
                    let help = format!("did you mean `{{{{{only}}}}}`?");
                    finding.help(help).fix(Some(format!("{{{{{only}}}}}")))
                }
                _ => finding.help(format!(
                    "set it on a fork: `<fork {name}=\"…\">…</fork>`, or declare it under `inputs` in the manifest"
                )),
            });
        }
    }
}

fn set_by_forks(graph: &Graph) -> BTreeSet<&str> {
    let forks =
        graph.states.iter().flat_map(|state| &state.tags).filter(|located| located.tag.name.is_fork());
    let names = forks.flat_map(|located| &located.tag.attributes).map(|(name, _)| name.as_str());
    let mut set: BTreeSet<&str> = names.collect();
    if set.contains(Attribute::Worktree.as_str()) {
        set.extend(OF_WORKTREES);
    }
    set
}
