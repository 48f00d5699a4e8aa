//! The report as JSON.

use serde_json::json;

use super::Report;
use crate::view::text::clean_json;

pub fn json(report: &Report<'_>) -> String {
    let tests: Vec<_> = report
        .outcomes()
        .map(|(case, outcome)| {
            let failures: Vec<_> = outcome
                .failures
                .iter()
                .map(|failure| json!({ "what": failure.what, "detail": failure.detail }))
                .collect();
            json!({
                "file": case.file.path,
                "name": case.name(),
                "workflow": case.file.workflow,
                "status": if failures.is_empty() { "passed" } else { "failed" },
                "duration_ms": u64::try_from(outcome.duration.as_millis()).unwrap_or(u64::MAX),
                "failures": failures,
                "folder": outcome.folder,
            })
        })
        .collect();
    let errors: Vec<_> = report
        .bad
        .iter()
        .map(|bad| {
            let (line, column) = bad.place.unzip();
            json!({ "file": bad.path, "line": line, "column": column, "message": bad.message })
        })
        .collect();
    let whole = json!({
        "tests": tests,
        "errors": errors,
        "passed": report.passed(),
        "failed": report.failed(),
        "duration_ms": u64::try_from(report.duration.as_millis()).unwrap_or(u64::MAX),
        "coverage": report.coverage,
    });
    let mut text = clean_json(serde_json::to_string_pretty(&whole).unwrap_or_default());
    text.push('\n');
    text
}
