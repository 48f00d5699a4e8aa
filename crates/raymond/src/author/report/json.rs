//! Findings as a JSON array.

use serde_json::{Value, json};

use crate::author::check::Found;
use crate::view::text::clean_json;

pub fn json(found: &[Found]) -> String {
    let object = |found: &Found| {
        json!({
            "code": found.code,
            "severity": found.severity.as_str(),
            "message": found.message,
            "file": found.file.to_string_lossy(),
            "line": found.start.line,
            "column": found.start.column,
            "end_line": found.end.line,
            "end_column": found.end.column,
            "help": found.help,
        })
    };
    let array: Vec<Value> = found.iter().map(object).collect();
    clean_json(format!("{:#}\n", Value::Array(array)))
}
