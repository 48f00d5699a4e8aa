//! `init` and `schema`: what is written lints clean and runs, and what is described is what there is.

use std::path::Path;
use std::process::{Command, Output};

use raymond::author::check::check;
use raymond::author::schema::{Subject, schema};
use raymond::author::templates::TEMPLATES;
use raymond_core::workflow::Platform;
use serde_json::Value;

fn raymond(folder: &Path, args: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_raymond"));
    command.current_dir(folder).args(args).output().unwrap()
}

#[test]
fn every_template_lints_clean_and_runs_at_once() {
    let events = schema(Subject::Events).to_value();
    for template in &TEMPLATES {
        let work = tempfile::tempdir().unwrap();
        let made = raymond(work.path(), &["init", "mine", "--template", template.name]);
        assert!(made.status.success(), "{made:?}");
        for platform in [Platform::Unix, Platform::Windows] {
            let found = check("mine", work.path(), platform);
            assert!(found.is_empty(), "{}: {found:?}", template.name);
        }
        let run = raymond(work.path(), &["mine", "--json", "--input", "loops"]);
        assert_eq!(run.status.code(), Some(0), "{}: {run:?}", template.name);
        let lines = String::from_utf8(run.stdout).unwrap();
        assert!(lines.lines().last().unwrap().contains("run_finished"), "{lines}");
        for line in lines.lines() {
            let event: Value = serde_json::from_str(line).unwrap();
            assert_eq!(problem(&events, &events, &event), None, "{line}");
        }
        let again = raymond(work.path(), &["init", "mine"]);
        assert_eq!(again.status.code(), Some(2), "what is there is not overwritten");
    }
}

#[test]
fn schemas_describe_what_is_read() {
    let keys = |subject: Subject| -> Vec<String> {
        let schema = schema(subject).to_value();
        schema["properties"].as_object().unwrap().keys().cloned().collect()
    };
    let mut settings: Vec<&str> = raymond_core::frontmatter::setting_names().collect();
    settings.sort_unstable();
    let mut known = keys(Subject::Frontmatter);
    known.sort_unstable();
    assert_eq!(known, settings);
    let workflow = schema(Subject::Workflow).to_value();
    let script = &workflow["$defs"]["OneScript"]["properties"];
    for name in raymond_core::header::setting_names() {
        assert!(script.get(name).is_some(), "{name} is missing from the schema of scripts");
    }
}

fn accepts(subject: Subject, value: &Value) -> Option<String> {
    let schema = schema(subject).to_value();
    problem(&schema, &schema, value)
}

#[test]
fn schemas_take_what_is_right_and_refuse_what_is_wrong() {
    use serde_json::json;
    let entry = json!({ "tag": "call", "target": "A", "return": "B" });
    let right = [
        (Subject::Frontmatter, json!({ "allowed_transitions": [entry], "timeout": "10m", "max_time": 0 })),
        (Subject::Manifest, json!({ "name": "x", "input": { "mode": "required" }, "default_budget": 2.5 })),
        (
            Subject::Workflow,
            json!({ "id": "x", "states": { "START": { "sh": "make", "retry": 2 }, "B": { "prompt": "x", "effort": "low" } } }),
        ),
        (
            Subject::Config,
            json!({ "raymond": { "budget": 1.0, "on_ask": "wait", "timeout": "5m" }, "backend": { "x": { "args": ["a"] } } }),
        ),
    ];
    for (subject, value) in right {
        assert_eq!(accepts(subject, &value), None, "{value}");
    }
    let wrong = [
        (Subject::Frontmatter, json!({ "allowed_transitions": [{ "tag": "jump" }] })),
        (Subject::Frontmatter, json!({ "timeout": 5 })),
        (Subject::Frontmatter, json!({ "max_visits": 0 })),
        (Subject::Manifest, json!({ "input": { "mode": "maybe" } })),
        (Subject::Workflow, json!({ "states": { "START": { "retry": 2 } } })),
        (Subject::Config, json!({ "raymond": { "bugdet": 1.0 } })),
    ];
    for (subject, value) in wrong {
        assert!(accepts(subject, &value).is_some(), "{value}");
    }
}

#[test]
fn the_config_template_fits_its_schema() {
    let uncommented: String = raymond::config::TEMPLATE
        .lines()
        .map(|line| line.strip_prefix("#: ").unwrap_or(line))
        .flat_map(|line| [line, "\n"])
        .collect();
    let value: Value = toml::from_str(&uncommented).unwrap();
    assert_eq!(accepts(Subject::Config, &value), None);
}

/// As much of JSON Schema as the schemas here use: why a value does not fit, if it does not.
fn problem(root: &Value, schema: &Value, value: &Value) -> Option<String> {
    let Some(rules) = schema.as_object() else {
        return (*schema == Value::Bool(false)).then(|| format!("{value} may not be here"));
    };
    rules.iter().find_map(|(rule, wanted)| problem_with(root, schema, rule, wanted, value))
}

fn problem_with(root: &Value, schema: &Value, rule: &str, wanted: &Value, value: &Value) -> Option<String> {
    let fits = |schema: &Value| problem(root, schema, value).is_none();
    let list = || wanted.as_array().into_iter().flatten();
    let fail = || Some(format!("{value} does not fit {rule} {wanted}"));
    match rule {
        "$ref" => {
            let name = wanted.as_str()?.strip_prefix("#/$defs/")?;
            problem(root, &root["$defs"][name], value)
        }
        "type" if !list().chain([wanted]).filter_map(Value::as_str).any(|name| is_type(name, value)) => {
            fail()
        }
        "enum" if !list().any(|one| one == value) => fail(),
        "const" if wanted != value => fail(),
        "anyOf" if !list().any(fits) => fail(),
        "oneOf" if list().filter(|one| fits(one)).count() != 1 => fail(),
        "allOf" => list().find_map(|one| problem(root, one, value)),
        "required" if value.is_object() && list().any(|key| value.get(key.as_str().unwrap()).is_none()) => {
            fail()
        }
        "minimum" if value.as_f64() < wanted.as_f64() && value.is_number() => fail(),
        "maximum" if value.as_f64() > wanted.as_f64() && value.is_number() => fail(),
        "minItems"
            if value.as_array().is_some_and(|items| (items.len() as u64) < wanted.as_u64().unwrap()) =>
        {
            fail()
        }
        "items" => value.as_array()?.iter().find_map(|item| problem(root, wanted, item)),
        "properties" => wanted.as_object()?.iter().find_map(|(key, one)| problem(root, one, value.get(key)?)),
        "additionalProperties" => {
            let known = |key: &String| schema["properties"].get(key).is_some();
            value
                .as_object()?
                .iter()
                .filter(|(key, _)| !known(key))
                .find_map(|(_, one)| problem(root, wanted, one))
        }
        _ => None,
    }
}

fn is_type(name: &str, value: &Value) -> bool {
    match name {
        "object" => value.is_object(),
        "array" => value.is_array(),
        "string" => value.is_string(),
        "boolean" => value.is_boolean(),
        "null" => value.is_null(),
        "integer" => value.is_u64() || value.is_i64(),
        "number" => value.is_number(),
        other => panic!("unknown type {other}"),
    }
}
