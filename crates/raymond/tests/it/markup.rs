//! Output that was never meant to hold a tag: nothing in it may be taken for a broken one.

use std::fs;
use std::path::{Path, PathBuf};

use raymond_core::tag::{NearMisses, TagCollector};
use serde_json::Value;

#[track_caller]
fn check(text: &str, of: &Path) {
    let mut collector = TagCollector::new();
    collector.feed(text.as_bytes(), &mut |_| {}).unwrap();
    let NearMisses { mistake, if_state, .. } = collector.finish(&mut |_| {}).unwrap().near;
    assert_eq!(mistake.map(|near| near.mistake()), None, "{}", of.display());
    // A tag in another case is a mistake only if it names a state. None of these should depend on that.
    assert_eq!(if_state, [], "{}", of.display());
}

#[test]
fn markup_and_code_of_others_are_text() {
    for file in files(&data().join("markup")) {
        check(&fs::read_to_string(&file).unwrap(), &file);
    }
}

#[test]
fn what_real_agents_said_is_text() {
    let mut texts = 0;
    for file in files(&data().join("claude")) {
        if file.extension().is_none_or(|extension| extension != "jsonl") {
            continue;
        }
        for line in fs::read_to_string(&file).unwrap().lines() {
            for text in serde_json::from_str(line).map(said).unwrap_or_default() {
                check(&text, &file);
                texts += 1;
            }
        }
    }
    assert!(texts > 100, "only {texts} texts");
}

fn data() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data")
}

/// All files at or below a folder.
fn files(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() { found.extend(files(&path)) } else { found.push(path) }
    }
    found
}

/// All texts in a line of an agent program's stream.
fn said(line: Value) -> Vec<String> {
    match line {
        Value::String(text) => vec![text],
        Value::Array(items) => items.into_iter().flat_map(said).collect(),
        Value::Object(fields) => fields.into_iter().flat_map(|(_, value)| said(value)).collect(),
        Value::Null | Value::Bool(_) | Value::Number(_) => Vec::new(),
    }
}
