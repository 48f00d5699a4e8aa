//! The files of a workflow as one file.
//!
//! A state is written under `states` if reading that gives its file back byte by byte. Otherwise (unusually written
//! settings, other line ends, bytes that are not UTF-8) the whole file goes under `files`.

use std::collections::BTreeMap;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use raymond_core::workflow::{Kind, StateFile};

use super::Files;
use super::from_yaml::to_files;
use crate::workflow::manifest;
use crate::workflow::yaml_text::{block, key, quoted};

const FENCE: &str = "---\n";
/// How long lines of base64 are.
const BASE64_COLUMNS: usize = 76;

pub fn to_yaml(files: &Files) -> Result<String, String> {
    let manifest = files.get(manifest::FILE).and_then(|bytes| as_manifest(bytes));
    let mut states = States::default();
    let mut others = String::new();
    for (name, bytes) in files {
        if name == manifest::FILE && manifest.is_some() {
            continue;
        }
        let is_state = as_state(name, bytes).is_some_and(|(state, entry)| states.take(&state, &entry));
        if !is_state {
            others.push_str(&as_file(name, bytes));
        }
    }
    let section = |name: &str, body: String| if body.is_empty() { body } else { format!("{name}:\n{body}") };
    let text = format!(
        "{}{}{}",
        manifest.unwrap_or_default(),
        section("states", states.text()),
        section("files", others)
    );
    check(&text, files)?;
    Ok(text)
}

/// Makes sure that reading the text gives the same files back.
fn check(text: &str, files: &Files) -> Result<(), String> {
    let back = to_files(text)?;
    let differs = |name: &&String| back.get(*name) != files.get(*name);
    match files.keys().chain(back.keys()).find(differs) {
        Some(name) => Err(format!("{name} would not come back as it is")),
        None => Ok(()),
    }
}

/// States by name; the scripts of one state for several platforms are together.
#[derive(Default)]
struct States {
    by_name: BTreeMap<String, (bool, String)>,
}

impl States {
    /// Adds a state. Returns false if there is already a prompt of that name, or a script where this is a prompt.
    fn take(&mut self, state: &StateFile, entry: &str) -> bool {
        let is_prompt = state.kind().is_prompt();
        match self.by_name.get_mut(state.name()) {
            Some((has_prompt, _)) if *has_prompt || is_prompt => return false,
            Some((_, entries)) => entries.push_str(entry),
            None => {
                self.by_name.insert(state.name().to_owned(), (is_prompt, entry.to_owned()));
            }
        }
        true
    }

    fn text(&self) -> String {
        self.by_name.iter().map(|(name, (_, entries))| format!("  {}:\n{entries}", key(name))).collect()
    }
}

/// The manifest as the top of the file, if reading that gives it back.
fn as_manifest(bytes: &[u8]) -> Option<String> {
    let text = std::str::from_utf8(bytes).ok()?;
    let document = format!("{text}states:\n  A:\n    sh: a\n");
    let back = to_files(&document).ok()?;
    (back.get(manifest::FILE).map(Vec::as_slice) == Some(bytes)).then(|| text.to_owned())
}

/// A state's lines below its name, if reading them gives its file back.
fn as_state(name: &str, bytes: &[u8]) -> Option<(StateFile, String)> {
    let state = StateFile::new(name)?;
    let text = std::str::from_utf8(bytes).ok()?;
    let entries = match state.kind() {
        Kind::Prompt => prompt_entries(text),
        kind => text_entries(kind.extension(), "", text),
    };
    let gives_back = |entry: &String| {
        let document = format!("states:\n  {}:\n{entry}", key(state.name()));
        to_files(&document).is_ok_and(|back| back.get(name).map(Vec::as_slice) == Some(bytes))
    };
    let entry = entries.into_iter().find(gives_back)?;
    Some((state, entry))
}

fn prompt_entries(text: &str) -> Vec<String> {
    let Some(rest) = text.strip_prefix(FENCE) else { return text_entries("prompt", "", text) };
    // The block ends at the first fence after it. If that is wrong, the comparison afterwards notices it.
    let Some((settings, body)) = rest.split_once("\n---\n") else { return Vec::new() };
    let settings: String = settings.lines().map(|line| indented(line, 4)).collect();
    text_entries("prompt", &settings, body)
}

/// The ways to write a text, the most readable first.
fn text_entries(text_key: &str, above: &str, text: &str) -> Vec<String> {
    let entry = |value: &str| format!("{above}    {text_key}: {value}");
    let blocks = block(text, 4).map(|block| entry(&block));
    blocks.into_iter().chain([entry(&format!("{}\n", quoted(text)))]).collect()
}

/// A file under `files`.
fn as_file(name: &str, bytes: &[u8]) -> String {
    let file = key(name);
    match std::str::from_utf8(bytes) {
        Ok(text) => match block(text, 2) {
            Some(block) => format!("  {file}: {block}"),
            None => format!("  {file}: {}\n", quoted(text)),
        },
        Err(_) => {
            let encoded = BASE64_STANDARD.encode(bytes);
            let mut lines = String::new();
            for line in encoded.as_bytes().chunks(BASE64_COLUMNS) {
                lines.push_str(&indented(&String::from_utf8_lossy(line), 6));
            }
            format!("  {file}:\n    base64: |\n{lines}")
        }
    }
}

fn indented(line: &str, columns: usize) -> String {
    if line.is_empty() { "\n".to_owned() } else { format!("{}{line}\n", " ".repeat(columns)) }
}
