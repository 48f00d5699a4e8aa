//! Linting one workflow, and repairing it.

mod test_files;

use std::fmt;
use std::path::{Path, PathBuf};

use raymond_core::diagnostic::{BeforeRun, Diagnostic, Edit, Lines, Severity, apply};
use raymond_core::graph::{Graph, StateNode};
use raymond_core::lint::{Defaults, Workflow, lint, lint_before_run, rule, split_help};
use raymond_core::run::Options;
use raymond_core::workflow::Platform;
use raymond_core::workflow::source::Position;

use super::load::{Fault, FaultKind, Inside, Loaded, load, load_part};
use crate::agent::registry::Backends;
use crate::check::find::is_test_file;
use crate::files::write_output;
use crate::workflow::scope::{Form, parse_leniently, read_one_file};
use crate::workflow::scopes::Allowed;
use crate::workflow::states::Reached;

/// The rules for what is found while reading.
const CANNOT_BE_LOADED: &str = "R015";
const UNREADABLE_SETTINGS: &str = "R001";
const UNKNOWN_KEY: &str = "R016";
/// Not every workflow needs all states of the one that it extends.
const UNREACHABLE: &str = "R017";
/// Repairing one mistake may reveal another. After this many rounds the rest is left for the next call.
const MAX_FIX_ROUNDS: usize = 5;

/// A finding with everything that is needed to show it.
#[derive(Clone, Debug)]
pub struct Found {
    pub code: &'static str,
    pub severity: Severity,
    pub before_run: BeforeRun,
    pub message: String,
    pub help: Option<String>,
    /// As the user would write it.
    pub file: PathBuf,
    pub start: Position,
    pub end: Position,
    /// The lines it is in, if it has a place.
    pub lines: Option<Excerpt>,
    pub can_be_fixed: bool,
}

impl fmt::Display for Found {
    /// In one line, without the text of the file.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}: ", self.file.display())?;
        if self.lines.is_some() {
            write!(formatter, "{}: ", self.start)?;
        }
        formatter.write_str(&self.message)?;
        self.help.iter().try_for_each(|help| write!(formatter, "; {help}"))
    }
}

/// A few lines of a file, with the place of what is wrong among them, in bytes.
#[derive(Clone, Debug)]
pub struct Excerpt {
    pub text: String,
    pub range: std::ops::Range<usize>,
}

/// The result of repairing.
#[derive(Debug, PartialEq, Eq)]
pub enum Fixed {
    /// In this many places.
    Places(usize),
    /// It cannot be changed in place; this says what to do.
    Not(&'static str),
}

/// Where and for which platform a workflow is linted.
#[derive(Clone, Copy, Debug)]
pub struct Around<'p> {
    pub cwd: &'p Path,
    pub platform: Platform,
    /// The folder that contains `.raymond`.
    pub project: &'p Path,
    /// As written in the config file.
    pub workflow_paths: &'p [String],
}

impl<'p> Around<'p> {
    /// A folder that is a project of its own, without a config file.
    pub fn folder(cwd: &'p Path, platform: Platform) -> Around<'p> {
        Around { cwd, platform, project: cwd, workflow_paths: &[] }
    }
}

/// Lints the workflow or the test file at a path.
pub fn check(given: &str, around: Around<'_>) -> Vec<Found> {
    if let Some(path) = test_file(given, around) {
        return test_files::check_one(&path, around);
    }
    match Checked::new(given, around) {
        Ok(checked) => {
            let mut found = checked.found();
            found.extend(test_files::check(&checked.loaded, &checked.graph, around.cwd));
            found
        }
        Err(fault) => vec![not_loaded(&fault)],
    }
}

/// Checks what the states that a run may reach declare: what refuses the run, and what is worth a warning.
pub fn before_run(
    shown: PathBuf,
    reached: Reached,
    backends: &Backends,
    allowed: &Allowed,
) -> Result<Vec<Found>, Fault> {
    let mut found = Checked::before_run(shown, reached, backends, allowed)?.found();
    // The rest is about reading the files, which the run does itself.
    found.retain(|found| found.before_run != BeforeRun::Nothing);
    Ok(found)
}

/// Makes the repairs that are certain to be right, and returns how many.
pub fn fix(given: &str, around: Around<'_>) -> Result<Fixed, String> {
    if test_file(given, around).is_some() {
        return Ok(Fixed::Not("a test file is left as it is"));
    }
    let mut fixed = 0;
    for _ in 0..MAX_FIX_ROUNDS {
        let Ok(checked) = Checked::new(given, around) else { break };
        if Form::of(&checked.loaded.path) == Some(Form::Archive) {
            return Ok(Fixed::Not("an archive is left as it is; convert it to a folder to fix it"));
        }
        match checked.write_fixes()? {
            0 => break,
            some => fixed += some,
        }
    }
    Ok(Fixed::Places(fixed))
}

/// The test file at a path, if one is there.
fn test_file(given: &str, around: Around<'_>) -> Option<PathBuf> {
    let path = around.cwd.join(given);
    (is_test_file(&path) && path.is_file()).then_some(path)
}

struct Checked {
    loaded: Loaded,
    graph: Graph,
    diagnostics: Vec<Diagnostic>,
}

impl Checked {
    fn new(given: &str, around: Around<'_>) -> Result<Checked, Fault> {
        let Around { cwd, platform, project, workflow_paths } = around;
        let mut loaded = load(given, cwd, platform)?;
        let allowed = Allowed::around(loaded.home(), project, workflow_paths);
        // A run would be refused.
        let refused = |base: &PathBuf| allowed.check(&base.to_string_lossy(), base).err();
        let refused: Vec<String> = loaded.bases.iter().filter_map(refused).collect();
        loaded.faults.extend(refused.into_iter().map(|why| Fault::new(loaded.shown.clone(), why)));
        loaded.faults.extend(loaded.schedule_fault.take());
        let graph = loaded.graph(platform);
        let built_in = Backends::built_in();
        let workflow = Workflow {
            graph: &graph,
            defaults: Defaults {
                backend: loaded.manifest.backend.as_deref(),
                model: loaded.manifest.defaults.model.as_deref(),
                effort: loaded.manifest.defaults.effort.as_deref(),
            },
            inputs: &loaded.manifest.inputs,
            find_scope: &|name| loaded.find_scope(name, &allowed, platform),
            known_efforts: &|backend| built_in.known_efforts(backend),
            check_schema: &|schema| loaded.check_schema(schema, platform),
        };
        let mut diagnostics = lint(&workflow);
        diagnostics.retain(|found| found.code != UNREACHABLE || !is_from_base(&loaded, &graph, found));
        Ok(Checked { loaded, graph, diagnostics })
    }

    /// Only the states that a run may reach, and only what matters before it.
    fn before_run(
        shown: PathBuf,
        reached: Reached,
        backends: &Backends,
        allowed: &Allowed,
    ) -> Result<Checked, Fault> {
        let platform = Platform::current();
        let Reached { path, entries, states, read, others, options, .. } = reached;
        let entry = entries.first();
        let (loaded, graph) = match read {
            Some(read) => (Loaded::new(shown, &path), Graph::read_part(read, &others, entry, platform)),
            None => {
                let mut loaded = load_part(shown, &path, &states)?;
                loaded.entry = entry.cloned();
                let graph = loaded.graph(platform);
                (loaded, graph)
            }
        };
        let Options { backend, model, effort, .. } = &options;
        let workflow = Workflow {
            graph: &graph,
            defaults: Defaults {
                backend: backend.as_deref(),
                model: model.as_deref(),
                effort: effort.as_deref(),
            },
            inputs: &loaded.manifest.inputs,
            find_scope: &|name| loaded.find_scope(name, allowed, platform),
            known_efforts: &|backend| backends.known_efforts(backend),
            check_schema: &|schema| loaded.check_schema(schema, platform),
        };
        let diagnostics = lint_before_run(&workflow);
        Ok(Checked { loaded, graph, diagnostics })
    }

    fn found(&self) -> Vec<Found> {
        let mut found: Vec<Found> = self.loaded.faults.iter().map(not_loaded).collect();
        found.extend(self.placed());
        // All states of a one-file workflow are in one file, so the findings are sorted by their place in it.
        if self.loaded.inside.is_some() {
            let is_elsewhere = |found: &Found| found.file != self.loaded.shown;
            found.sort_by_cached_key(|found| {
                (is_elsewhere(found), found.file.clone(), found.start, found.code, found.end)
            });
        }
        found
    }

    /// The state that a finding is in.
    fn state_of(&self, diagnostic: &Diagnostic) -> Option<(usize, &StateNode)> {
        diagnostic.state.and_then(|number| Some((number, self.graph.state(number)?)))
    }

    /// The findings of the rules, with their places.
    fn placed(&self) -> Vec<Found> {
        let mut found = Vec::with_capacity(self.diagnostics.len());
        // Finding the lines takes time in proportion to the text, so it is done once for each text.
        let mut lines: Option<(&str, Lines<'_>)> = None;
        for diagnostic in &self.diagnostics {
            let Some((_, state)) = self.state_of(diagnostic) else {
                found.push(placed(diagnostic, self.loaded.shown.clone(), None));
                continue;
            };
            let (file, inside) = self.loaded.file_of(&state.file);
            let range = diagnostic.range.clone();
            let (text, range) = match inside {
                Some(inside) => (inside.yaml.as_str(), inside.place(&state.file, range)),
                None => (state.text.as_str(), range),
            };
            if lines.as_ref().is_none_or(|(known, _)| !std::ptr::eq(*known, text)) {
                lines = Some((text, Lines::new(text)));
            }
            let place = lines.as_ref().map(|(_, lines)| Place { lines, text, range });
            let mut placed = placed(diagnostic, file, place);
            // An extended workflow is left as it is, because others may extend it, too.
            placed.can_be_fixed &= !self.loaded.from_base.contains_key(&state.file);
            found.push(placed);
        }
        found
    }

    fn write_fixes(&self) -> Result<usize, String> {
        match &self.loaded.inside {
            Some(inside) => self.write_one_file(inside),
            None => self.write_files(),
        }
    }

    fn edits_of(&self, number: usize) -> Vec<Edit> {
        let is_own =
            self.graph.state(number).is_some_and(|state| !self.loaded.from_base.contains_key(&state.file));
        let own = self.diagnostics.iter().filter(|found| is_own && found.state == Some(number));
        own.filter_map(|found| found.fix.clone()).collect()
    }

    fn write_files(&self) -> Result<usize, String> {
        let mut written = 0;
        for (number, state) in self.graph.states.iter().enumerate() {
            let edits = self.edits_of(number);
            // Bytes that are not UTF-8 were replaced on reading, and must not be written back.
            if edits.is_empty() || state.text.contains('\u{fffd}') {
                continue;
            }
            let file = self.loaded.path.join(state.file.as_str());
            write_output(&file, apply(&state.text, &edits).as_bytes())
                .map_err(|error| format!("cannot write {}: {error}", file.display()))?;
            written += edits.len();
        }
        Ok(written)
    }

    /// Makes the edits in the one file: those whose place in it is exact and whose text needs no quotes.
    fn write_one_file(&self, inside: &Inside) -> Result<usize, String> {
        let mut edits: Vec<Edit> = Vec::new();
        for (number, state) in self.graph.states.iter().enumerate() {
            let in_file = |edit: Edit| {
                let range = inside.exact_place(&state.file, edit.range)?;
                let fixed = Edit { range, replacement: edit.replacement };
                let is_plain = |text: &str| text.chars().all(|c| c.is_alphanumeric() || "_-.".contains(c));
                is_plain(&fixed.replacement).then_some(fixed)
            };
            edits.extend(self.edits_of(number).into_iter().filter_map(in_file));
        }
        // Scripts for several platforms share their settings, and so their mistakes.
        edits.sort_by_key(|edit| (edit.range.start, edit.range.end));
        edits.dedup();
        if edits.is_empty() {
            return Ok(0);
        }
        let fixed = apply(&inside.yaml, &edits);
        let file = &self.loaded.path;
        if let Err(fault) = parse_leniently(&fixed) {
            return Err(format!("fixing {} would break it: {}", file.display(), fault.message));
        }
        let mark = if self.has_mark() { "\u{feff}" } else { "" };
        write_output(file, format!("{mark}{fixed}").as_bytes())
            .map_err(|error| format!("cannot write {}: {error}", file.display()))?;
        Ok(edits.len())
    }

    /// Whether the one file begins with a byte-order mark, which is then kept.
    fn has_mark(&self) -> bool {
        read_one_file(&self.loaded.path).is_ok_and(|text| text.starts_with('\u{feff}'))
    }
}

/// Whether a finding is in a state that comes from an extended workflow.
fn is_from_base(loaded: &Loaded, graph: &Graph, found: &Diagnostic) -> bool {
    let state = found.state.and_then(|number| graph.state(number));
    state.is_some_and(|state| loaded.from_base.contains_key(&state.file))
}

fn not_loaded(fault: &Fault) -> Found {
    let wanted = match fault.kind {
        FaultKind::CannotBeLoaded => CANNOT_BE_LOADED,
        FaultKind::UnreadableSettings => UNREADABLE_SETTINGS,
        FaultKind::UnknownKey => UNKNOWN_KEY,
    };
    let (code, severity) = rule(wanted).map_or((wanted, Severity::Error), |rule| (rule.code, rule.severity));
    let start = fault.place.as_ref().map_or(Position { line: 1, column: 1 }, |(position, _)| *position);
    let marked =
        fault.place.as_ref().map(|(_, line)| marked(line, start, fault.kind == FaultKind::UnknownKey));
    let end = marked.as_ref().map_or(start, |(_, end)| *end);
    let (message, help) = match fault.kind {
        FaultKind::UnknownKey => split_help(&fault.message),
        _ => (fault.message.as_str(), None),
    };
    Found {
        code,
        severity,
        before_run: BeforeRun::Nothing,
        message: message.to_owned(),
        help: help.map(str::to_owned),
        file: fault.shown.clone(),
        start,
        end,
        lines: marked.map(|(lines, _)| lines),
        can_be_fixed: false,
    }
}

/// A line in which the rest from a position on is marked, or only the name that is there, and where that ends.
fn marked(line: &str, at: Position, only_name: bool) -> (Excerpt, Position) {
    let from = Lines::new(line).offset(Position { line: 1, ..at });
    let rest = line.get(from..).unwrap_or_default();
    let is_part = |c: &char| c.is_alphanumeric() || matches!(c, '_' | '-' | '.');
    let length = match only_name {
        true => rest.chars().take_while(is_part).map(char::len_utf8).sum(),
        false => rest.trim_end().len(),
    };
    let excerpt = Excerpt { text: line.trim_end().to_owned(), range: from..from + length };
    let column = at.column.saturating_add(rest.get(..length).map_or(0, count));
    (excerpt, Position { column, ..at })
}

fn count(text: &str) -> u32 {
    u32::try_from(text.chars().count()).unwrap_or(u32::MAX)
}

/// A piece of a text.
struct Place<'t> {
    lines: &'t Lines<'t>,
    text: &'t str,
    range: std::ops::Range<usize>,
}

fn placed(diagnostic: &Diagnostic, file: PathBuf, place: Option<Place<'_>>) -> Found {
    let first = Position { line: 1, column: 1 };
    let at = |offset: fn(&Place<'_>) -> usize| {
        place.as_ref().map_or(first, |place| place.lines.position(offset(place)))
    };
    let (start, end) = (at(|place| place.range.start), at(|place| place.range.end));
    Found {
        code: diagnostic.code,
        severity: diagnostic.severity,
        before_run: diagnostic.before_run,
        message: diagnostic.message.clone(),
        help: diagnostic.help.clone(),
        file,
        start,
        end,
        lines: place.map(|place| excerpt(place.text, place.range, diagnostic.is_secret)),
        can_be_fixed: diagnostic.fix.is_some(),
    }
}

/// The whole line of a place, or the first line of a longer one. A secret is replaced by stars.
fn excerpt(text: &str, range: std::ops::Range<usize>, is_secret: bool) -> Excerpt {
    let start = text.get(..range.start).and_then(|before| before.rfind('\n')).map_or(0, |at| at + 1);
    let first_end =
        text.get(range.start..).and_then(|rest| rest.find('\n')).map_or(text.len(), |at| range.start + at);
    let end = range.end.min(first_end);
    let line = text.get(start..first_end).unwrap_or_default().trim_end_matches('\r');
    let place = range.start - start..(end - start).min(line.len()).max(range.start - start);
    let shown = match is_secret {
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
    Excerpt { text: shown, range: place }
}
