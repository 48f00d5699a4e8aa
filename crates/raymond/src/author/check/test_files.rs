//! Findings about the test files of a workflow.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use raymond_core::diagnostic::{BeforeRun, Severity};
use raymond_core::diagram::Diagram;
use raymond_core::graph::{Graph, Leads, StateNode};
use raymond_core::lint::{rule, split_help};
use raymond_core::workflow::source::Position;
use raymond_core::workflow::wording::{did_you_mean, nearest};

use super::{Around, Checked, Found, marked, not_loaded};
use crate::author::load::Loaded;
use crate::check::file::{BadFile, ENDING, Test, TestFile, load};
use crate::check::find::is_test_file;
use crate::files;
use crate::paths::normalise;
use crate::workflow::place::line_of;
use crate::workflow::scope::{Form, MAX_BYTES};

const WRONG_TEST: &str = "R039";

/// Checks the test files of a workflow: those in its folder, or the one beside its file.
pub(super) fn check(loaded: &Loaded, graph: &Graph, cwd: &Path) -> Vec<Found> {
    let mut found = Vec::new();
    for path in test_files(loaded) {
        match load(&path) {
            Err(bad) => found.push(not_read(&bad, cwd)),
            Ok(file) if normalise(cwd, &file.workflow) == loaded.path => {
                found.extend(check_tests(&file, graph, cwd));
            }
            // It tests another workflow.
            Ok(_) => {}
        }
    }
    found
}

/// Checks one test file, with the workflow that it tests. Findings in that workflow are left out.
pub(super) fn check_one(path: &Path, around: Around<'_>) -> Vec<Found> {
    let file = match load(path) {
        Ok(file) => file,
        Err(bad) => return vec![not_read(&bad, around.cwd)],
    };
    match Checked::new(&file.workflow.to_string_lossy(), around) {
        Ok(checked) => check_tests(&file, &checked.graph, around.cwd),
        Err(fault) => vec![not_loaded(&fault)],
    }
}

fn check_tests(file: &TestFile, graph: &Graph, cwd: &Path) -> Vec<Found> {
    let wrong = |test| check_replies(test, graph).into_iter().chain(check_paths(test, graph));
    let found = |(at, message): (Position, String)| finding(&file.path, cwd, at, &message);
    file.tests.iter().flat_map(wrong).map(found).collect()
}

fn not_read(bad: &BadFile, cwd: &Path) -> Found {
    let (line, column) = bad.place.unwrap_or((1, 1));
    let number = |value: usize| u32::try_from(value).unwrap_or(u32::MAX);
    finding(&bad.path, cwd, Position { line: number(line), column: number(column) }, &bad.message)
}

fn test_files(loaded: &Loaded) -> Vec<PathBuf> {
    if Form::of(&loaded.path) == Some(Form::Folder) {
        let entries = fs::read_dir(&loaded.path).into_iter().flatten().flatten();
        let mut files: Vec<PathBuf> =
            entries.map(|entry| entry.path()).filter(|path| is_test_file(path)).collect();
        files.sort();
        return files;
    }
    let name = loaded.path.file_stem().map(|stem| format!("{}{ENDING}", stem.to_string_lossy()));
    let beside = name.map(|name| loaded.path.with_file_name(name));
    beside.filter(|path| path.is_file()).into_iter().collect()
}

fn finding(file: &Path, cwd: &Path, at: Position, message: &str) -> Found {
    let (code, severity) =
        rule(WRONG_TEST).map_or((WRONG_TEST, Severity::Error), |rule| (rule.code, rule.severity));
    let text = files::read_text(file, MAX_BYTES).unwrap_or_default();
    let (lines, end) = marked(line_of(&text, at.line), at, true);
    let (message, help) = split_help(message);
    Found {
        code,
        severity,
        before_run: BeforeRun::Nothing,
        message: message.to_owned(),
        help: help.map(str::to_owned),
        file: file.strip_prefix(cwd).unwrap_or(file).to_owned(),
        start: at,
        end,
        lines: Some(lines),
        can_be_fixed: false,
    }
}

/// Whether agents may come to states that are not in this workflow's text.
fn leaves_the_workflow(graph: &Graph) -> bool {
    graph.states.iter().any(|state| {
        state.is_opaque
            || state.exits.iter().any(|exit| {
                exit.references()
                    .any(|(_, reference)| matches!(reference.leads, Leads::Elsewhere | Leads::Unknown))
            })
    })
}

fn check_replies(test: &Test, graph: &Graph) -> Vec<(Position, String)> {
    if leaves_the_workflow(graph) {
        return Vec::new();
    }
    let prompts: BTreeSet<&str> = graph
        .states
        .iter()
        .filter(|state| state.file.kind().is_prompt())
        .map(|state| state.file.name())
        .collect();
    let wrong = test
        .reply_places
        .iter()
        .filter(|(state, _)| !prompts.contains(state.strip_suffix(".md").unwrap_or(state)));
    wrong
        .map(|(state, at)| {
            let meant = did_you_mean(&nearest(state, prompts.iter().copied()));
            (
                *at,
                format!("a reply for `{}`, which is no prompt of the workflow{meant}", state.escape_debug()),
            )
        })
        .collect()
}

fn check_paths(test: &Test, graph: &Graph) -> Vec<(Position, String)> {
    let mut wrong = Vec::new();
    let diagram = Diagram::of(graph);
    for (agent, path) in &test.expect.path_places {
        let mut last: Option<&StateNode> = None;
        for (index, (name, at)) in path.iter().enumerate() {
            let Some(state) = state_of(graph, name) else {
                if !leaves_the_workflow(graph) {
                    let names = graph.states.iter().map(|state| state.file.as_str());
                    let meant = did_you_mean(&nearest(name, names));
                    wrong.push((*at, format!("there is no state `{}`{meant}", name.escape_debug())));
                }
                last = None;
                continue;
            };
            let is_first = index == 0 && agent == "main";
            let entry = graph.entry.as_ref().ok().and_then(|entry| graph.state(*entry));
            if is_first && entry.is_some_and(|entry| entry.file != state.file) {
                wrong.push((*at, format!("a run does not begin at {}", state.file)));
            }
            if let Some(before) = last
                && !leaves_the_workflow(graph)
                && !leads(&diagram, before, state)
            {
                wrong.push((*at, format!("no transition leads from {} to {}", before.file, state.file)));
            }
            last = Some(state);
        }
    }
    wrong
}

fn state_of<'g>(graph: &'g Graph, name: &str) -> Option<&'g StateNode> {
    let own = graph.states.iter().filter(|state| state.runs_here);
    own.into_iter().find(|state| state.file.as_str() == name || state.file.name() == name)
}

fn leads(diagram: &Diagram, from: &StateNode, to: &StateNode) -> bool {
    let label = |number: usize| diagram.nodes.get(number).map(|node| node.label.as_str());
    diagram
        .edges
        .iter()
        .any(|edge| label(edge.from) == Some(from.file.as_str()) && label(edge.to) == Some(to.file.as_str()))
}
