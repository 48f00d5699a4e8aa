//! The report as JUnit XML, which CI systems read.

use std::fmt::Write;
use std::time::Duration;

use super::Report;
use crate::check::file::BadFile;
use crate::check::suite::Case;
use crate::check::trial::Outcome;

pub fn junit(report: &Report<'_>) -> String {
    let mut text = format!(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites name=\"raymond\" tests=\"{}\" failures=\"{}\" \
         errors=\"{}\" time=\"{}\">\n",
        report.ran.outcomes.len() + report.bad.len(),
        report.failed(),
        report.bad.len(),
        seconds(report.duration)
    );
    let mut rest: Vec<(&Case, &Outcome)> = report.outcomes().collect();
    while let Some((first, _)) = rest.first() {
        let path = first.file.path.clone();
        let (own, others): (Vec<_>, Vec<_>) = rest.into_iter().partition(|(case, _)| case.file.path == path);
        write_suite(&mut text, &path.display().to_string(), &own);
        rest = others;
    }
    for bad in report.bad {
        write_bad(&mut text, bad);
    }
    text.push_str("</testsuites>\n");
    text
}

fn write_suite(text: &mut String, name: &str, cases: &[(&Case, &Outcome)]) {
    let failed = cases.iter().filter(|(_, outcome)| !outcome.failures.is_empty()).count();
    let time = cases.iter().map(|(_, outcome)| outcome.duration).sum();
    let name = escaped(name);
    let _ = writeln!(
        text,
        "  <testsuite name=\"{name}\" tests=\"{}\" failures=\"{failed}\" errors=\"0\" time=\"{}\">",
        cases.len(),
        seconds(time)
    );
    for (case, outcome) in cases {
        let _ = write!(
            text,
            "    <testcase name=\"{}\" classname=\"{name}\" time=\"{}\"",
            escaped(case.name()),
            seconds(outcome.duration)
        );
        if outcome.failures.is_empty() {
            text.push_str("/>\n");
            continue;
        }
        text.push_str(">\n");
        let names: Vec<&str> = outcome.failures.iter().map(|failure| failure.what.as_str()).collect();
        let _ = write!(text, "      <failure message=\"{}\">", escaped(&names.join(", ")));
        for failure in &outcome.failures {
            let _ = write!(text, "{}", escaped(&format!("{}\n{}\n", failure.what, failure.detail)));
        }
        text.push_str("</failure>\n    </testcase>\n");
    }
    text.push_str("  </testsuite>\n");
}

fn write_bad(text: &mut String, bad: &BadFile) {
    let name = escaped(&bad.path.display().to_string());
    let _ = writeln!(
        text,
        "  <testsuite name=\"{name}\" tests=\"1\" failures=\"0\" errors=\"1\" time=\"0\">\n    <testcase name=\"{name}\" \
         classname=\"{name}\" time=\"0\">\n      <error message=\"{}\"/>\n    </testcase>\n  </testsuite>",
        escaped(&bad.to_string())
    );
}

fn seconds(duration: Duration) -> String {
    format!("{:.3}", duration.as_secs_f64())
}

/// Text for XML, without the characters that XML does not allow.
fn escaped(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\n' => escaped.push_str("&#10;"),
            '\u{fffe}' | '\u{ffff}' => escaped.push('\u{fffd}'),
            control if control.is_control() && control != '\t' => escaped.push('\u{fffd}'),
            other => escaped.push(other),
        }
    }
    escaped
}
