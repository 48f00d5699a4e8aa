//! `result_schema`: the JSON Schema that a prompt's result has to match.
//!
//! A schema is read when the state is checked before a run, and again when its step starts. It is compiled when a result
//! comes, which is rare beside what the turn took. Nothing is fetched: a `$ref` leads into the schema itself. What may take
//! long is done apart, under a bound in time and memory.

mod apart;

use raymond_core::frontmatter::{ResultSchema, yaml};
use raymond_core::workflow::wording::clipped_to;
use serde::{Deserialize, Serialize};
use serde_json::Value;

pub use apart::answer;
use apart::judged;

use crate::agent::WorkflowFiles;
use crate::workflow::scope::path_problem;

/// How many mistakes in a result a reminder names, and how much of each.
const MOST_MISTAKES: usize = 5;
const MOST_CHARS: usize = 300;

/// The schema itself, from its file if it is in one. An error says what is wrong with it.
pub fn read(schema: &ResultSchema, files: &dyn WorkflowFiles) -> Result<Value, String> {
    match schema {
        ResultSchema::Inline(schema) => {
            check(schema).map_err(|error| format!("`result_schema`: {error}"))?;
            Ok(schema.clone())
        }
        ResultSchema::File(name) => {
            let in_file = |error: String| format!("`result_schema`: {name}: {error}");
            let schema = read_file(name, files).map_err(in_file)?;
            check(&schema).map_err(in_file)?;
            Ok(schema)
        }
    }
}

fn read_file(name: &str, files: &dyn WorkflowFiles) -> Result<Value, String> {
    if let Some(problem) = path_problem(name) {
        return Err(format!("this is not the path of a file in the workflow: {problem}"));
    }
    let Some(text) = files.file(name, false)?.text else {
        return Err("there is no such file in the workflow".to_owned());
    };
    if name.ends_with(".yaml") || name.ends_with(".yml") {
        let in_yaml = |fault: yaml::Fault| format!("{}: {}", fault.position, fault.message);
        return yaml::parse(&text).and_then(|node| node.to_json()).map_err(in_yaml);
    }
    let text = text.strip_prefix('\u{feff}').unwrap_or(&text);
    serde_json::from_str(text).map_err(|error| format!("it is not JSON: {error}"))
}

/// What is wrong with a schema, or with a result.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
enum Problem {
    /// The schema itself is wrong.
    Schema(String),
    /// The result does not match it.
    Result(String),
    /// It takes more time or memory than it may.
    TooCostly,
    NotJudged(String),
}

fn check(schema: &Value) -> Result<(), String> {
    match judged(schema, None) {
        None => Ok(()),
        Some(Problem::Schema(problem) | Problem::Result(problem)) => Err(problem),
        Some(Problem::TooCostly) => {
            Err("this JSON Schema is too costly: it cannot be read in the time and memory for it".to_owned())
        }
        Some(Problem::NotJudged(error)) => Err(format!("this JSON Schema cannot be checked: {error}")),
    }
}

/// Why a result does not match. The values themselves are not quoted: they may hold secrets, and the agent knows them.
pub fn mismatch(schema: &Value, payload: &str) -> Option<String> {
    Some(match judged(schema, Some(payload))? {
        Problem::Schema(problem) | Problem::Result(problem) => problem,
        Problem::TooCostly => {
            "the result cannot be checked: its schema is too costly for a result like this, so \
                               it was given up; a shorter result or a simpler schema can be checked"
                .to_owned()
        }
        Problem::NotJudged(error) => format!("the result cannot be checked: {error}"),
    })
}

/// Judges a result, or a schema alone, for as long as that takes.
fn judge(schema: &Value, payload: Option<&str>) -> Option<Problem> {
    let validator = match validator(schema) {
        Ok(validator) => validator,
        Err(error) => return Some(Problem::Schema(error)),
    };
    payload.and_then(|payload| mistakes(&validator, payload)).map(Problem::Result)
}

fn validator(schema: &Value) -> Result<jsonschema::Validator, String> {
    jsonschema::options().offline().build(schema).map_err(|error| {
        let place = error.instance_path().to_string();
        let place = if place.is_empty() { String::new() } else { format!("at `{place}`: ") };
        format!("this is no valid JSON Schema: {place}{}", clipped_to(MOST_CHARS, &error.to_string()))
    })
}

fn mistakes(validator: &jsonschema::Validator, payload: &str) -> Option<String> {
    let value: Value = match serde_json::from_str(payload) {
        Ok(value) => value,
        Err(error) => return Some(format!("the result is not JSON: {error}")),
    };
    // This remembers nothing, while all mistakes of a long result take much memory.
    if validator.is_valid(&value) {
        return None;
    }
    let mut mistakes: Vec<String> = validator
        .iter_errors(&value)
        .take(MOST_MISTAKES + 1)
        .map(|error| {
            let place = error.instance_path().to_string();
            let place = if place.is_empty() { "at the top".to_owned() } else { format!("at `{place}`") };
            format!("{place}: {}", clipped_to(MOST_CHARS, &error.masked_with("this value").to_string()))
        })
        .collect();
    if mistakes.len() > MOST_MISTAKES {
        mistakes.truncate(MOST_MISTAKES);
        mistakes.push("and more".to_owned());
    }
    Some(format!("the result does not match its schema: {}", mistakes.join("; ")))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_mismatch_names_its_place_and_not_the_value() {
        let schema = json!({
            "type": "object", "required": ["files"],
            "properties": { "files": { "type": "array", "items": { "type": "string" } } },
        });
        assert_eq!(mismatch(&schema, r#" {"files": ["a"]} "#), None);
        let problem = mismatch(&schema, r#"{"files": ["a", 77]}"#).unwrap();
        assert_eq!(
            problem,
            "the result does not match its schema: at `/files/1`: this value is not of type \"string\""
        );
        let problem = mismatch(&schema, "{}").unwrap();
        assert!(problem.ends_with("at the top: \"files\" is a required property"), "{problem}");
        let problem = mismatch(&schema, "done").unwrap();
        assert!(problem.starts_with("the result is not JSON: "), "{problem}");
        let many = format!("{{\"files\": {:?}}}", [1; 9]);
        assert!(mismatch(&schema, &many).unwrap().ends_with("; and more"));
    }

    #[test]
    fn what_is_no_schema_is_refused_and_nothing_is_fetched() {
        assert_eq!(check(&json!({ "type": "object" })), Ok(()));
        let error = check(&json!({ "type": "objekt" })).unwrap_err();
        assert!(error.contains("`/type`"), "{error}");
        for reference in ["https://example.com/schema.json", "file:///etc/passwd", "#/$defs/none"] {
            assert!(check(&json!({ "$ref": reference })).is_err(), "{reference}");
        }
    }
}
