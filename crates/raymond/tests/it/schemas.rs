//! The schemas are correct: they accept every example in the docs and everything that the program writes, and refuse
//! the values that the program refuses.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use jsonschema::Validator;
use raymond::author::schema::{Subject, schema};
use raymond::author::templates::TEMPLATES;
use raymond::workflow::scope::{Given, OneState};
use raymond_core::frontmatter::yaml::{self, Node};
use raymond_core::tag::TagName;
use serde_json::{Value, json};

const SUBJECTS: [Subject; 6] = [
    Subject::Frontmatter,
    Subject::Workflow,
    Subject::Manifest,
    Subject::Config,
    Subject::Test,
    Subject::Events,
];

/// The first error if a value does not match a schema.
pub fn problem(subject: Subject, value: &Value) -> Option<String> {
    static VALIDATORS: OnceLock<Vec<Validator>> = OnceLock::new();
    let validators = VALIDATORS.get_or_init(|| {
        SUBJECTS.map(|subject| jsonschema::validator_for(&schema(subject).to_value()).unwrap()).into()
    });
    let index = SUBJECTS.iter().position(|known| *known == subject).unwrap();
    validators[index].validate(value).err().map(|error| format!("{error} at {}", error.instance_path()))
}

/// An example and its place.
struct Example {
    place: String,
    subject: Subject,
    value: Value,
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn files_under(folder: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for entry in fs::read_dir(folder).unwrap().map(Result::unwrap) {
        match entry.path().is_dir() {
            true => files.extend(files_under(&entry.path())),
            false => files.push(entry.path()),
        }
    }
    files.sort();
    files
}

fn yaml_value(text: &str) -> Option<Value> {
    fn value(node: Node) -> Value {
        match node.value {
            yaml::Value::Null => Value::Null,
            yaml::Value::Bool(flag) => flag.into(),
            yaml::Value::Integer(number) => i64::try_from(number).unwrap().into(),
            yaml::Value::Float(number) => number.into(),
            yaml::Value::Text(text) => text.into(),
            yaml::Value::List(nodes) => nodes.into_iter().map(value).collect(),
            yaml::Value::Map(fields) => {
                fields.into_iter().map(|field| (field.key, value(field.node))).collect()
            }
        }
    }
    yaml::parse(text).ok().map(value)
}

fn frontmatter_of(text: &str) -> Option<Value> {
    let (block, _) = text.strip_prefix("---\n")?.split_once("\n---\n")?;
    yaml_value(block)
}

/// The schema for a YAML document, found by its keys; replies have none.
fn subject_of(value: &Value) -> Option<Subject> {
    let keys = value.as_object()?;
    if keys.contains_key("states") {
        return Some(Subject::Workflow);
    }
    if keys.contains_key("tests") {
        return Some(Subject::Test);
    }
    [Subject::Frontmatter, Subject::Manifest].into_iter().find(|subject| {
        let known = schema(*subject).to_value();
        keys.keys().all(|key| known["properties"].get(key).is_some())
    })
}

/// The settings in a file of a workflow.
fn example_of_file(place: String, name: &str, text: &str) -> Option<Example> {
    let (subject, value) = match name.rsplit_once('.')?.1 {
        "md" => (Subject::Frontmatter, frontmatter_of(text)?),
        "yaml" => {
            let value = yaml_value(text)?;
            (subject_of(&value)?, value)
        }
        _ => return None,
    };
    Some(Example { place, subject, value })
}

/// The fenced blocks of a page that have a schema.
fn examples_of_page(file: &Path) -> Vec<Example> {
    let text = fs::read_to_string(file).unwrap();
    let mut examples = Vec::new();
    let mut lines = text.lines().enumerate();
    while let Some((number, line)) = lines.next() {
        let Some(language) = line.trim_start().strip_prefix("```").filter(|language| !language.is_empty())
        else {
            continue;
        };
        let block: Vec<&str> =
            lines.by_ref().map(|(_, line)| line).take_while(|line| line.trim() != "```").collect();
        let body = block.join("\n") + "\n";
        let place = format!("{}, line {}", file.display(), number + 1);
        let example = |subject, value| Example { place: place.clone(), subject, value };
        match language {
            "markdown" => {
                examples.extend(frontmatter_of(&body).map(|value| example(Subject::Frontmatter, value)))
            }
            "toml" => examples.push(example(Subject::Config, toml::from_str(&body).unwrap())),
            "yaml" => {
                let value = yaml_value(&body).unwrap_or_else(|| panic!("{place}: this is not YAML"));
                examples.extend(subject_of(&value).map(|subject| example(subject, value)));
            }
            "json" if body.contains("\"event\":") => {
                for line in body.lines() {
                    examples.push(example(Subject::Events, serde_json::from_str(line).unwrap()));
                }
            }
            _ => {}
        }
    }
    examples
}

fn all_examples() -> Vec<Example> {
    let pages = files_under(&root().join("docs")).into_iter().chain([root().join("README.md")]);
    let pages = pages.filter(|page| page.extension().is_some_and(|extension| extension == "md"));
    let mut examples: Vec<Example> = pages.flat_map(|page| examples_of_page(&page)).collect();
    for file in files_under(&root().join("examples")) {
        let name = file.file_name().unwrap().to_string_lossy().into_owned();
        if let Ok(text) = fs::read_to_string(&file) {
            examples.extend(example_of_file(file.display().to_string(), &name, &text));
        }
    }
    for template in &TEMPLATES {
        for (name, text) in template.files {
            examples.extend(example_of_file(format!("template {}", template.name), name, text));
        }
    }
    examples
}

#[test]
fn every_documented_example_fits_its_schema() {
    let mut counts: BTreeMap<String, usize> = BTreeMap::new();
    for Example { place, subject, value } in all_examples() {
        assert_eq!(problem(subject, &value), None, "{place}: {value:#}");
        *counts.entry(format!("{subject:?}")).or_default() += 1;
    }
    for subject in SUBJECTS {
        let count = counts.get(&format!("{subject:?}")).copied().unwrap_or(0);
        assert!(count >= 2, "only {count} examples of {subject:?}: {counts:?}");
    }
}

#[test]
fn every_documented_example_is_refused_with_an_invalid_value() {
    let nonsense = json!([{ "no": ["such"] }, [1.5]]);
    for Example { place, subject, value } in all_examples() {
        let keys: Vec<String> = value.as_object().unwrap().keys().cloned().collect();
        for key in keys {
            let mut broken = value.clone();
            broken[&key] = nonsense.clone();
            assert!(problem(subject, &broken).is_some(), "{place}: {subject:?} accepts an invalid `{key}`");
        }
    }
}

/// An editor underlines a misspelled key wherever one can stand. The schema of events is for readers of a stream, which
/// must take the fields that later versions add.
#[test]
fn unknown_keys_are_refused_everywhere() {
    fn with_wrong_keys(value: &Value, broken: &mut Vec<Value>, put_back: &dyn Fn(Value) -> Value) {
        let Some(fields) = value.as_object() else {
            for (index, item) in value.as_array().into_iter().flatten().enumerate() {
                with_wrong_keys(item, broken, &|item| {
                    let mut list = value.clone();
                    list[index] = item;
                    put_back(list)
                });
            }
            return;
        };
        let mut wrong = value.clone();
        wrong["no_such_key"] = json!({ "no": ["such"] });
        broken.push(put_back(wrong));
        // A schema may have any keys.
        for (key, item) in fields.iter().filter(|(key, _)| *key != "result_schema") {
            with_wrong_keys(item, broken, &|item| {
                let mut map = value.clone();
                map[key] = item;
                put_back(map)
            });
        }
    }
    for Example { place, subject, value } in all_examples() {
        if subject == Subject::Events {
            continue;
        }
        let mut broken = Vec::new();
        with_wrong_keys(&value, &mut broken, &|value| value);
        for broken in broken {
            assert!(problem(subject, &broken).is_some(), "{place}: {subject:?} accepts {broken:#}");
        }
    }
}

/// What the program reads in a file of a test workflow, and whether it has no warning about it.
fn read_by_the_program(name: &str, text: &str) -> Option<(Subject, Value, bool)> {
    if name.ends_with(".md") {
        let prompt = raymond_core::frontmatter::split_and_parse(text).ok()?;
        return Some((Subject::Frontmatter, frontmatter_of(text)?, prompt.warnings.is_empty()));
    }
    let is_manifest = name == raymond::workflow::manifest::FILE;
    let value = yaml_value(text).filter(|value| is_manifest || value.get("states").is_some())?;
    if is_manifest {
        let manifest = raymond::workflow::manifest::parse(text).ok()?;
        return Some((Subject::Manifest, value, manifest.warnings.is_empty()));
    }
    let contents = raymond::workflow::scope::parse_one_file(text).ok()?;
    let has_warnings = |state: &OneState| match &state.given {
        Given::Beside { warnings, .. } => !warnings.is_empty(),
        Given::InText | Given::InPart { .. } => false,
    };
    let is_clean = contents.manifest.warnings.is_empty() && !contents.states.values().any(has_warnings);
    Some((Subject::Workflow, value, is_clean))
}

#[test]
fn schemas_and_readers_agree_about_the_test_workflows() {
    let (mut accepted, mut refused) = (0, 0);
    for file in files_under(&root().join("crates/raymond/tests/cases")) {
        let name = file.file_name().unwrap().to_string_lossy().into_owned();
        let is_read = name.ends_with(".md") || name.ends_with(".yaml");
        let Some(text) = is_read.then(|| fs::read_to_string(&file).ok()).flatten() else { continue };
        let Some((subject, value, is_clean)) = read_by_the_program(&name, &text) else { continue };
        let found = problem(subject, &value);
        assert_eq!(found.is_none(), is_clean, "{}: {found:?}: {value:#}", file.display());
        *(if is_clean { &mut accepted } else { &mut refused }) += 1;
    }
    assert!(accepted > 50 && refused > 0, "{accepted} {refused}");
}

#[test]
fn schemas_and_readers_know_the_same_keys() {
    let keys = |subject: Subject| -> Vec<String> {
        let schema = schema(subject).to_value();
        schema["properties"].as_object().unwrap().keys().cloned().collect()
    };
    let sorted = |names: &mut dyn Iterator<Item = &'static str>| -> Vec<String> {
        let mut names: Vec<String> = names.map(str::to_owned).collect();
        names.sort_unstable();
        names
    };
    assert_eq!(keys(Subject::Frontmatter), sorted(&mut raymond_core::frontmatter::setting_names()));
    assert_eq!(keys(Subject::Manifest), sorted(&mut raymond::workflow::manifest::key_names()));
    let of_workflows = raymond::workflow::manifest::key_names().chain(["states", "files"]);
    assert_eq!(keys(Subject::Workflow), sorted(&mut of_workflows.into_iter()));
    let workflow = schema(Subject::Workflow).to_value();
    let script = &workflow["$defs"]["OneScript"]["properties"];
    for name in raymond_core::header::setting_names() {
        assert!(script.get(name).is_some(), "{name} is missing from the schema of scripts");
    }
}

#[test]
fn the_schema_accepts_the_same_entries_as_the_reader() {
    for tag in TagName::ALL {
        for key in ["target", "return", "next", "timeout_next"] {
            let text = format!("---\nallowed_transitions: [{{ tag: {tag}, {key}: A }}]\n---\nbody\n");
            let value = frontmatter_of(&text).unwrap();
            let read = raymond_core::frontmatter::split_and_parse(&text);
            let refused = problem(Subject::Frontmatter, &value);
            assert_eq!(read.is_ok(), refused.is_none(), "{value}: {read:?}, {refused:?}");
        }
    }
}

#[test]
fn every_tag_is_described() {
    let frontmatter = schema(Subject::Frontmatter).to_value();
    let choices = frontmatter["$defs"]["Entry"]["properties"]["tag"]["oneOf"].as_array().unwrap();
    let described: Vec<(&str, &str)> = choices
        .iter()
        .map(|choice| (choice["const"].as_str().unwrap(), choice["description"].as_str().unwrap()))
        .collect();
    let expected: Vec<(&str, &str)> =
        TagName::transitions().map(|tag| (tag.as_str(), tag.facts().about)).collect();
    assert_eq!(described, expected);
}

#[test]
fn schemas_accept_valid_and_refuse_invalid_values() {
    let entry = json!({ "tag": "call", "target": "A", "return": "B" });
    let right = [
        (Subject::Frontmatter, json!({ "allowed_transitions": [entry], "timeout": "10m", "max_time": 0 })),
        (Subject::Manifest, json!({ "name": "x", "input": { "mode": "required" }, "default_budget": 2.5 })),
        (Subject::Manifest, json!({ "environment": { "PORT": 8080, "DEBUG": true, "MODE": "fast" } })),
        (
            Subject::Workflow,
            json!({ "id": "x", "states": { "START": { "sh": "make", "retry": 2 }, "B": { "prompt": "x", "effort": "low" } } }),
        ),
        (
            Subject::Workflow,
            json!({ "states": { "A": { "sh": "x" } }, "files": { "a.txt": "x", "b.bin": { "base64": "AA==" } } }),
        ),
        (
            Subject::Config,
            json!({ "raymond": { "budget": 1.0, "on_ask": "wait", "timeout": "5m" }, "backend": { "x": { "args": ["a"] } } }),
        ),
    ];
    for (subject, value) in right {
        assert_eq!(problem(subject, &value), None, "{value}");
    }
    let wrong = [
        (Subject::Frontmatter, json!({ "allowed_transitions": [{ "tag": "jump" }] })),
        (Subject::Frontmatter, json!({ "timeout": 5 })),
        (Subject::Frontmatter, json!({ "max_visits": 0 })),
        (Subject::Manifest, json!({ "input": { "mode": "maybe" } })),
        (Subject::Manifest, json!({ "environment": { "A": 1.5 } })),
        (Subject::Workflow, json!({ "states": { "START": { "retry": 2 } } })),
        (Subject::Workflow, json!({ "states": { "START": { "prompt": "x", "sh": "y" } } })),
        (Subject::Workflow, json!({ "states": { "A": { "sh": "x" } }, "files": { "a": { "base32": "x" } } })),
        (Subject::Config, json!({ "raymond": { "bugdet": 1.0 } })),
        (
            Subject::Events,
            json!({ "event": "run_begun", "seq": 1, "time": "2026-01-01T00:00:00Z", "run": "r" }),
        ),
        (
            Subject::Events,
            json!({ "event": "warning", "time": "2026-01-01T00:00:00Z", "run": "r", "message": "x" }),
        ),
    ];
    for (subject, value) in wrong {
        assert!(problem(subject, &value).is_some(), "{value}");
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
    assert_eq!(problem(Subject::Config, &value), None);
}
