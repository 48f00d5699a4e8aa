//! A finding about a workflow: the problem, its place, and how to repair it.

use std::fmt;
use std::ops::Range;

use crate::workflow::source::{Position, saturated};

/// How serious a finding is; the most serious comes last.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Severity {
    /// Worth knowing.
    Info,
    /// Probably a mistake.
    Warning,
    /// Fails when it is run.
    Error,
}

impl Severity {
    pub const fn as_str(self) -> &'static str {
        match self {
            Severity::Info => "info",
            Severity::Warning => "warning",
            Severity::Error => "error",
        }
    }
}

impl fmt::Display for Severity {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.as_str())
    }
}

/// What a run does about a finding before its first step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BeforeRun {
    /// It refuses to start: what the workflow declares is wrong, whatever happens in the run.
    Refuse,
    /// It refuses to start if the mistake is in a policy, and warns if it is in the text of a state.
    RefuseIfDeclared,
    /// It warns: the run may never come there, or may change it before.
    Warn,
    /// The finding is for authors only, or is reported elsewhere in a run.
    Nothing,
}

/// One finding.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Diagnostic {
    /// Stable, such as `R005`.
    pub code: &'static str,
    pub severity: Severity,
    /// Never `RefuseIfDeclared`.
    pub before_run: BeforeRun,
    pub message: String,
    /// The state it is in, by its number; `None` when it is about the whole workflow.
    pub state: Option<usize>,
    /// Where in the state's text, in bytes.
    pub range: Range<usize>,
    pub help: Option<String>,
    /// An edit that certainly repairs it.
    pub fix: Option<Edit>,
    /// Whether the text at `range` must not be shown.
    pub is_secret: bool,
}

/// A range of a state's text and its replacement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Edit {
    pub range: Range<usize>,
    pub replacement: String,
}

/// The starts of the lines of a text, to convert between byte offsets and line and column.
#[derive(Clone, Debug)]
pub struct Lines<'t> {
    text: &'t str,
    starts: Vec<usize>,
}

impl<'t> Lines<'t> {
    pub fn new(text: &'t str) -> Lines<'t> {
        let after_breaks = memchr::memchr_iter(b'\n', text.as_bytes()).map(|at| at + 1);
        Lines { text, starts: [0].into_iter().chain(after_breaks).collect() }
    }

    /// The line and column of a byte offset, as editors count them.
    pub fn position(&self, offset: usize) -> Position {
        let line = self.starts.partition_point(|start| *start <= offset);
        let start = line.checked_sub(1).and_then(|line| self.starts.get(line)).copied().unwrap_or(0);
        let before = self.text.get(start..offset.min(self.text.len())).unwrap_or_default();
        // A byte-order mark is not visible, so it is not counted as a column.
        let columns = before.chars().filter(|character| *character != '\u{feff}').count();
        Position { line: saturated(line.max(1)), column: saturated(columns + 1) }
    }

    /// The byte offset of a line and column; a column after the end of the line gives the end of the line.
    pub fn offset(&self, position: Position) -> usize {
        let line = position.line.saturating_sub(1) as usize;
        let Some(&start) = self.starts.get(line) else { return self.text.len() };
        let rest = self.text.get(start..).unwrap_or_default();
        let line_text = rest.split('\n').next().unwrap_or_default();
        let mark = if line_text.starts_with('\u{feff}') { '\u{feff}'.len_utf8() } else { 0 };
        let visible = line_text.get(mark..).unwrap_or_default();
        let column = position.column.saturating_sub(1) as usize;
        start + mark + visible.char_indices().nth(column).map_or(visible.len(), |(at, _)| at)
    }
}

/// Applies the edits. Of edits that overlap, only the first is applied.
pub fn apply(text: &str, edits: &[Edit]) -> String {
    let mut sorted: Vec<&Edit> = edits.iter().collect();
    sorted.sort_by_key(|edit| (edit.range.start, edit.range.end));
    let mut edited = String::with_capacity(text.len());
    let mut copied_to = 0;
    for edit in sorted {
        let Some(before) = text.get(copied_to..edit.range.start) else { continue };
        edited.push_str(before);
        edited.push_str(&edit.replacement);
        copied_to = edit.range.end;
    }
    edited.push_str(text.get(copied_to..).unwrap_or_default());
    edited
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn offsets_and_positions_convert_both_ways() {
        let text = "\u{feff}ab\nüx\r\n\nend";
        let lines = Lines::new(text);
        for (offset, line, column) in
            [(3, 1, 1), (4, 1, 2), (6, 2, 1), (8, 2, 2), (11, 3, 1), (12, 4, 1), (15, 4, 4)]
        {
            assert_eq!(lines.position(offset), Position { line, column }, "{offset}");
            assert_eq!(lines.offset(Position { line, column }), offset);
        }
        assert_eq!(lines.offset(Position { line: 9, column: 1 }), text.len());
    }

    #[test]
    fn of_overlapping_edits_only_the_first_is_applied() {
        let edit = |range, replacement: &str| Edit { range, replacement: replacement.to_owned() };
        let edits = [edit(4..7, "three"), edit(0..3, "1"), edit(2..5, "x")];
        assert_eq!(apply("one two", &edits), "1 three");
    }
}
