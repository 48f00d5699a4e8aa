//! The report for people.

use std::fmt::Write;
use std::time::Duration;

use anstyle::{AnsiColor, Style};

use super::Report;
use crate::check::suite::Case;
use crate::check::trial::Outcome;
use crate::view::text::clean;

const GOOD: Style = AnsiColor::Green.on_default();
const BAD: Style = AnsiColor::Red.on_default().bold();
const DIM: Style = Style::new().dimmed();

/// How many of the slowest tests are named, and from which time on a test is slow.
const MOST_SLOW: usize = 3;
const SLOW: Duration = Duration::from_millis(500);

/// The line about a test that has ended.
pub fn progress(case: &Case, outcome: &Outcome) -> String {
    let (style, word) = if outcome.failures.is_empty() { (GOOD, "ok  ") } else { (BAD, "FAIL") };
    let time = seconds(outcome.duration);
    format!("{style}{word}{style:#} {} {DIM}{time}{DIM:#}\n", clean(&case.title()))
}

/// What came instead, for every test that failed.
pub fn failures(report: &Report<'_>) -> String {
    let mut text = String::new();
    for (case, outcome) in report.outcomes().filter(|(_, outcome)| !outcome.failures.is_empty()) {
        let _ = writeln!(text, "\n{BAD}FAIL{BAD:#} {}", clean(&case.title()));
        for failure in &outcome.failures {
            let _ = writeln!(text, "  {BAD}{}{BAD:#}", clean(&failure.what));
            for line in clean(&failure.detail).lines() {
                let _ = writeln!(text, "    {}", coloured(line));
            }
        }
        if let Some(folder) = &outcome.folder {
            let _ = writeln!(text, "  {DIM}its folder: {}{DIM:#}", clean(&folder.display().to_string()));
        }
    }
    text
}

/// Lines of a diff have the colours that people know.
fn coloured(line: &str) -> String {
    match line.get(..2) {
        Some("- ") if !line.starts_with("- expected, + came") => format!("{BAD}{line}{BAD:#}"),
        Some("+ ") => format!("{GOOD}{line}{GOOD:#}"),
        _ => line.to_owned(),
    }
}

/// The last lines: kept folders, slow tests, coverage, the numbers.
pub fn summary(report: &Report<'_>) -> String {
    let mut text = String::new();
    let passed = report.outcomes().filter(|(_, outcome)| outcome.failures.is_empty());
    for (case, folder) in passed.filter_map(|(case, outcome)| Some((case, outcome.folder.as_ref()?))) {
        let _ =
            writeln!(text, "{DIM}{}: {}{DIM:#}", clean(&case.title()), clean(&folder.display().to_string()));
    }
    for spent in report.ran.outcomes.iter().filter_map(|outcome| outcome.spent.as_ref()) {
        let (file, cost) = (spent.recording.display().to_string(), spent.cost_usd);
        let _ = writeln!(text, "wrote {}: {} turns asked again, ${cost:.2}", clean(&file), spent.turns);
    }
    let mut slow: Vec<(&Case, &Outcome)> =
        report.outcomes().filter(|(_, outcome)| outcome.duration >= SLOW).collect();
    slow.sort_by_key(|(_, outcome)| std::cmp::Reverse(outcome.duration));
    for (case, outcome) in slow.into_iter().take(MOST_SLOW) {
        let _ = writeln!(text, "{DIM}slow: {} {}{DIM:#}", clean(&case.title()), seconds(outcome.duration));
    }
    if let Some(coverage) = report.coverage {
        let _ = write!(text, "\n{}", clean(&coverage.table()));
    }
    let (passed, failed) = (report.passed(), report.failed());
    let (style, words) = match failed {
        0 => (GOOD, format!("{passed} passed")),
        _ => (BAD, format!("{passed} passed, {failed} failed")),
    };
    let left = report.cases.len() - report.ran.outcomes.len();
    let left = if left > 0 { format!(", {left} not run") } else { String::new() };
    let _ = writeln!(text, "\n{style}{words}{left}{style:#} {DIM}in {}{DIM:#}", seconds(report.duration));
    text
}

fn seconds(duration: Duration) -> String {
    format!("{:.2}s", duration.as_secs_f64())
}
