//! Linting one workflow, and repairing it.

use std::fs;
use std::path::{Path, PathBuf};

use raymond_core::diagnostic::{Diagnostic, Edit, Lines, Severity, apply};
use raymond_core::graph::Graph;
use raymond_core::lint::{Workflow, lint, rule};
use raymond_core::workflow::Platform;
use raymond_core::workflow::source::Position;

use super::load::{Fault, load};

/// The code of what cannot be read.
const CANNOT_BE_LOADED: &str = "R015";
/// Repairing one mistake may show another; a workflow that needs more rounds is left as it is then.
const MAX_FIX_ROUNDS: usize = 5;

/// A finding with everything that is needed to show it.
#[derive(Clone, Debug)]
pub struct Found {
    pub code: &'static str,
    pub severity: Severity,
    pub message: String,
    pub help: Option<String>,
    /// As the user would write it.
    pub file: PathBuf,
    pub start: Position,
    pub end: Position,
    /// The lines it stands in, if it stands in any.
    pub lines: Option<Excerpt>,
    pub can_be_fixed: bool,
}

/// A few lines of a file, with the place of what is wrong among them, in bytes.
#[derive(Clone, Debug)]
pub struct Excerpt {
    pub text: String,
    pub range: std::ops::Range<usize>,
}

/// Lints the workflow at a path.
pub fn check(given: &str, cwd: &Path, platform: Platform) -> Vec<Found> {
    match Checked::new(given, cwd, platform) {
        Ok(checked) => checked.found(),
        Err(fault) => vec![not_loaded(&fault)],
    }
}

/// Repairs what can be repaired without doubt, and says how many places that were.
pub fn fix(given: &str, cwd: &Path, platform: Platform) -> Result<usize, String> {
    let mut fixed = 0;
    for _ in 0..MAX_FIX_ROUNDS {
        let Ok(checked) = Checked::new(given, cwd, platform) else { break };
        match checked.write_fixes()? {
            0 => break,
            some => fixed += some,
        }
    }
    Ok(fixed)
}

struct Checked {
    shown: PathBuf,
    path: PathBuf,
    graph: Graph,
    diagnostics: Vec<Diagnostic>,
    faults: Vec<Fault>,
}

impl Checked {
    fn new(given: &str, cwd: &Path, platform: Platform) -> Result<Checked, Fault> {
        let mut loaded = load(given, cwd, platform)?;
        let graph = loaded.graph(platform);
        let find_scope = |name: &str| loaded.find_scope(name, platform);
        let workflow =
            Workflow { graph: &graph, backend: loaded.backend.as_deref(), find_scope: &find_scope };
        let diagnostics = lint(&workflow);
        Ok(Checked { shown: loaded.shown, path: loaded.path, graph, diagnostics, faults: loaded.faults })
    }

    fn found(&self) -> Vec<Found> {
        let mut found: Vec<Found> = self.faults.iter().map(not_loaded).collect();
        // Finding the lines of a text takes as long as the text, so it is done once for each state.
        let mut lines: Option<(usize, Lines<'_>)> = None;
        for diagnostic in &self.diagnostics {
            let Some((number, state)) =
                diagnostic.state.and_then(|number| Some((number, self.graph.state(number)?)))
            else {
                found.push(placed(diagnostic, self.shown.clone(), None));
                continue;
            };
            if lines.as_ref().is_none_or(|(known, _)| *known != number) {
                lines = Some((number, Lines::new(&state.text)));
            }
            let file = self.shown.join(state.file.as_str());
            found.push(placed(
                diagnostic,
                file,
                lines.as_ref().map(|(_, lines)| (lines, state.text.as_str())),
            ));
        }
        found
    }

    fn write_fixes(&self) -> Result<usize, String> {
        let mut written = 0;
        for (number, state) in self.graph.states.iter().enumerate() {
            let edits: Vec<Edit> = self
                .diagnostics
                .iter()
                .filter(|found| found.state == Some(number))
                .filter_map(|found| found.fix.clone())
                .collect();
            // What was no UTF-8 was replaced on reading and must not be written back.
            if edits.is_empty() || state.text.contains('\u{fffd}') {
                continue;
            }
            let file = self.path.join(state.file.as_str());
            fs::write(&file, apply(&state.text, &edits))
                .map_err(|error| format!("cannot write {}: {error}", file.display()))?;
            written += edits.len();
        }
        Ok(written)
    }
}

fn not_loaded(fault: &Fault) -> Found {
    let code = rule(CANNOT_BE_LOADED).map_or(CANNOT_BE_LOADED, |rule| rule.code);
    let start = Position { line: 1, column: 1 };
    Found {
        code,
        severity: Severity::Error,
        message: fault.message.clone(),
        help: None,
        file: fault.shown.clone(),
        start,
        end: start,
        lines: None,
        can_be_fixed: false,
    }
}

fn placed(diagnostic: &Diagnostic, file: PathBuf, text: Option<(&Lines<'_>, &str)>) -> Found {
    let range = diagnostic.range.clone();
    let first = Position { line: 1, column: 1 };
    let at = |offset| text.map_or(first, |(lines, _)| lines.position(offset));
    let (start, end) = (at(range.start), at(range.end));
    Found {
        code: diagnostic.code,
        severity: diagnostic.severity,
        message: diagnostic.message.clone(),
        help: diagnostic.help.clone(),
        file,
        start,
        end,
        lines: text.map(|(_, text)| excerpt(text, range, diagnostic.is_secret)),
        can_be_fixed: diagnostic.fix.is_some(),
    }
}

/// The whole lines around a place; a secret is blotted out, and of a place with many lines the first is enough.
fn excerpt(text: &str, range: std::ops::Range<usize>, is_secret: bool) -> Excerpt {
    let start = text.get(..range.start).and_then(|before| before.rfind('\n')).map_or(0, |at| at + 1);
    let first_end =
        text.get(range.start..).and_then(|rest| rest.find('\n')).map_or(text.len(), |at| range.start + at);
    let end = range.end.min(first_end);
    let line = text.get(start..first_end).unwrap_or_default().trim_end_matches('\r');
    let place = range.start - start..(end - start).min(line.len()).max(range.start - start);
    let blotted = match is_secret {
        true => {
            let (before, after) = (line.get(..place.start), line.get(place.end..));
            format!(
                "{}{}{}",
                before.unwrap_or_default(),
                "*".repeat(place.end - place.start),
                after.unwrap_or_default()
            )
        }
        false => line.to_owned(),
    };
    Excerpt { text: blotted, range: place }
}
