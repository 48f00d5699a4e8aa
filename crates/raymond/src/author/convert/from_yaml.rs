//! A one-file workflow as the files it would be in a folder.
//!
//! If the settings of a state are on lines of their own above its text, those lines are copied with their comments;
//! otherwise the settings are formatted again.

use raymond_core::frontmatter::begins_with_settings;
use raymond_core::frontmatter::yaml::{self, Field, Value};
use raymond_core::header;
use raymond_core::workflow::{Kind, StateFile};

use super::Files;
use crate::workflow::manifest;
use crate::workflow::scope::{Beside, Contents, Given, OneState, header_value, parse_one_file};
use crate::workflow::yaml_text::keys_and_values;

const FENCE: &str = "---\n";

pub fn to_files(text: &str) -> Result<Files, String> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let contents = parse_one_file(text).map_err(|error| error.to_string())?;
    let lines: Vec<&str> = text.split_inclusive('\n').collect();
    let mut files = contents.files.clone();
    files.extend(manifest_file(&lines, &contents));
    for (state, one) in &contents.states {
        let file = match state.kind() {
            Kind::Prompt => prompt_file(&lines, one),
            _ => script_file(state, one)?,
        };
        files.insert(state.as_str().to_owned(), file.into_bytes());
    }
    Ok(files)
}

/// The same for a workflow that is being run. Scripts have no settings added, because the run knows them already.
pub fn files_of(yaml: &str, contents: &Contents) -> Files {
    let lines: Vec<&str> = yaml.split_inclusive('\n').collect();
    let mut files = contents.files.clone();
    files.extend(manifest_file(&lines, contents));
    for (state, one) in &contents.states {
        let file = if state.kind().is_prompt() { prompt_file(&lines, one) } else { one.text.clone() };
        files.insert(state.as_str().to_owned(), file.into_bytes());
    }
    files
}

/// The keys above the states, if there are any, as a manifest of its own.
fn manifest_file(lines: &[&str], contents: &Contents) -> Option<(String, Vec<u8>)> {
    let fields = &contents.manifest_fields;
    let above = lines.get(..index_of(contents.first_line_below_manifest))?.concat();
    let text = match above.is_empty() && fields.is_empty() {
        true => return None,
        false if holds_exactly(&above, fields) => above,
        false => keys_and_values(fields),
    };
    // If the manifest is already a file of its own, a comment above the states does not become another.
    let is_free = !contents.files.contains_key(manifest::FILE);
    is_free.then(|| (manifest::FILE.to_owned(), text.into_bytes()))
}

fn prompt_file(lines: &[&str], one: &OneState) -> String {
    if one.fields.is_empty() {
        // A text that looks as if it began with settings needs an empty block of settings before it.
        let is_plain = !begins_with_settings(&one.text) && !one.text.starts_with('\u{feff}');
        return if is_plain { one.text.clone() } else { format!("{FENCE}{FENCE}{}", one.text) };
    }
    let block = lines
        .get(index_of(one.line) + 1..index_of(one.text_line))
        .and_then(dedented)
        .filter(|block| holds_exactly(block, &one.fields))
        .unwrap_or_else(|| keys_and_values(&one.fields));
    format!("{FENCE}{block}{FENCE}{}", one.text)
}

/// The script, with its settings in a comment at the place of its header.
fn script_file(state: &StateFile, one: &OneState) -> Result<String, String> {
    let Given::Beside { plan: Beside::Script(wanted), .. } = &one.given else {
        return Ok(one.text.clone());
    };
    let mut settings = String::new();
    for field in &one.fields {
        let value = header_value(field).map_err(|fault| fault.message)?;
        settings.push_str(&format!(" {}={value}", field.key));
    }
    if settings.is_empty() {
        return Ok(one.text.clone());
    }
    let marker = match state.kind() {
        Kind::Batch => "@REM",
        kind => kind.comment_markers().first().copied().unwrap_or("#"),
    };
    let file = with_line(state.kind(), &one.text, &format!("{marker} raymond:{settings}\n"));
    match header::parse(state.kind(), &file) {
        Ok((header, _)) if header == *wanted => Ok(file),
        _ => Err(format!("the settings of {state} cannot be written as a comment of the script")),
    }
}

/// Puts a line where a script's header may begin.
fn with_line(kind: Kind, text: &str, line: &str) -> String {
    let (above, below) = text.split_at(header_start(kind, text));
    format!("{above}{line}{below}")
}

/// Where a script's header may begin: below the lines that must be at the very top, `#!` and Python's encoding.
pub fn header_start(kind: Kind, text: &str) -> usize {
    let mut start = if text.starts_with('\u{feff}') { '\u{feff}'.len_utf8() } else { 0 };
    let counts_at_top = |line: &str, index: usize| {
        (index == 0 && line.starts_with("#!")) || (kind == Kind::Python && line.starts_with('#'))
    };
    let rest = text.get(start..).unwrap_or_default();
    for (index, first) in rest.split_inclusive('\n').take(2).enumerate() {
        if !counts_at_top(first, index) || !first.ends_with('\n') {
            break;
        }
        start += first.len();
    }
    start
}

/// Whether a text holds these settings and no others.
fn holds_exactly(text: &str, fields: &[Field]) -> bool {
    match yaml::parse(text).map(|root| root.value) {
        Ok(Value::Map(found)) => text.ends_with('\n') && keys_and_values(&found) == keys_and_values(fields),
        Ok(Value::Null) => fields.is_empty() && text.ends_with('\n'),
        _ => false,
    }
}

/// Lines without their common indentation, or `None` if they have none.
fn dedented(lines: &[&str]) -> Option<String> {
    let first = lines.iter().find(|line| !line.trim().is_empty())?;
    let indent = first.len() - first.trim_start_matches(' ').len();
    let mut text = String::new();
    for line in lines {
        match (line.get(..indent), line.get(indent..)) {
            (Some(blank), Some(rest)) if blank.bytes().all(|byte| byte == b' ') => text.push_str(rest),
            _ if *line == "\n" => text.push('\n'),
            _ => return None,
        }
    }
    Some(text)
}

/// Lines count from 1.
fn index_of(line: u32) -> usize {
    usize::try_from(line.saturating_sub(1)).unwrap_or(usize::MAX)
}
