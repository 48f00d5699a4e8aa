//! Findings as SARIF 2.1.0, which code hosts can show.

use raymond_core::diagnostic::Severity;
use raymond_core::lint::{RULES, Rule};
use serde_json::{Value, json};

use crate::author::check::Found;
use crate::view::text::clean_json;

pub fn sarif(found: &[Found]) -> String {
    let rules: Vec<Value> = RULES.iter().map(|rule| describe(rule)).collect();
    let results: Vec<Value> = found.iter().map(result).collect();
    let log = json!({
        "$schema": "https://json.schemastore.org/sarif-2.1.0.json",
        "version": "2.1.0",
        "runs": [{
            "tool": { "driver": { "name": "raymond", "version": env!("CARGO_PKG_VERSION"), "rules": rules } },
            "columnKind": "unicodeCodePoints",
            "results": results,
        }],
    });
    clean_json(format!("{log:#}\n"))
}

fn level(severity: Severity) -> &'static str {
    match severity {
        Severity::Error => "error",
        Severity::Warning => "warning",
        Severity::Info => "note",
    }
}

fn describe(rule: &Rule) -> Value {
    json!({
        "id": rule.code,
        "name": rule.name,
        "shortDescription": { "text": rule.summary },
        "fullDescription": { "text": rule.explanation },
        "defaultConfiguration": { "level": level(rule.severity) },
    })
}

fn result(found: &Found) -> Value {
    let help = found.help.as_ref().map(|help| format!("\n{help}")).unwrap_or_default();
    let uri = found.file.to_string_lossy().replace('\\', "/").replace('%', "%25").replace(' ', "%20");
    json!({
        "ruleId": found.code,
        "ruleIndex": RULES.iter().position(|rule| rule.code == found.code),
        "level": level(found.severity),
        "message": { "text": format!("{}{help}", found.message) },
        "locations": [{
            "physicalLocation": {
                "artifactLocation": { "uri": uri },
                "region": {
                    "startLine": found.start.line,
                    "startColumn": found.start.column,
                    "endLine": found.end.line,
                    "endColumn": found.end.column,
                },
            },
        }],
    })
}
