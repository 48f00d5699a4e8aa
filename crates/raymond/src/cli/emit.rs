//! `raymond emit`

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io::{BufRead, Read};

use raymond_core::emit::emit as write_tag;
use raymond_core::limits::MAX_TAG_BYTES;
use raymond_core::tag::{Content, Tag, TagName};
use raymond_core::variable::Rules;
use raymond_core::workflow::wording::nearest;
use serde::Deserialize;

use super::args::author::EmitArgs;
use super::print::print_stdout;
use crate::error::{ExitKind, UserError};

pub(super) fn emit(args: EmitArgs) -> Result<ExitKind, UserError> {
    let text = match args.json {
        true => emit_lines(&mut std::io::stdin().lock())?,
        false => emit_one(args)?,
    };
    print_stdout(text.as_bytes())?;
    Ok(ExitKind::Completed)
}

/// The words of a command line, in which the text of a tag is told from options: `emit result '- a'` and `emit print
/// '--help'` are data.
pub(super) fn with_text(mut words: Vec<OsString>) -> Vec<OsString> {
    let tag = words.get(2).and_then(|tag| TagName::from_name(tag.to_str()?));
    let is_emit = words.get(1).is_some_and(|command| command == "emit");
    let Some(tag) = tag.filter(|tag| is_emit && matches!(tag.facts().content, Content::Text { .. })) else {
        return words;
    };
    let is_text = |word: &OsString| match word.to_str() {
        Some(word) if !word.starts_with('-') || word == "-" || word == "--" => false,
        // Of the tags that hold a text only a question has options.
        Some(word) => tag != TagName::Ask || !is_option(word),
        None => false,
    };
    if let Some(word) = words.get_mut(3).filter(|word| is_text(word)) {
        let mut text = OsString::from("--text=");
        text.push(&word);
        *word = text;
    }
    words
}

fn is_option(word: &str) -> bool {
    let Some(name) = word.strip_prefix("--") else { return false };
    let name = name.split('=').next().unwrap_or_default();
    let root = super::command();
    let emit = root.find_subcommand("emit");
    emit.is_some_and(|emit| emit.get_arguments().any(|option| option.get_long() == Some(name)))
}

fn emit_one(args: EmitArgs) -> Result<String, UserError> {
    let name = args.tag.as_deref().ok_or_else(|| {
        UserError::usage("which tag?")
            .hint("for example: raymond emit goto NEXT")
            .hint("or read lines with --json")
    })?;
    let name = tag_named(name)?;
    let mut words = args.words.into_iter();
    let given = args.text.or_else(|| words.next());
    let content = match (name.facts().content, given) {
        (Content::Text { .. }, None) => read_stdin()?,
        (Content::Text { .. }, Some(text)) if text == "-" => read_stdin()?,
        (_, Some(text)) => text,
        (_, None) => {
            return Err(UserError::usage(format!("`<{name}>` needs a target"))
                .hint(format!("for example: raymond emit {name} NEXT")));
        }
    };
    let mut attributes = words.map(|word| attribute(&word)).collect::<Result<Vec<_>, _>>()?;
    let input = match args.input {
        Some(text) if text == "-" => Some(read_stdin()?),
        other => other,
    };
    let named = [
        ("next", args.next),
        ("return", args.return_to),
        ("input", input),
        ("cd", args.cd),
        ("delay", args.delay),
        ("title", args.title),
    ];
    attributes.extend(named.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?))));
    written(Tag { name, attributes, content }).map_err(UserError::usage)
}

fn attribute(word: &str) -> Result<(String, String), UserError> {
    let (name, value) = word.split_once('=').ok_or_else(|| {
        UserError::usage(format!("`{word}` is not an attribute")).hint("write it as name=value")
    })?;
    Ok((name.to_owned(), value.to_owned()))
}

fn tag_named(name: &str) -> Result<TagName, UserError> {
    TagName::from_name(name).ok_or_else(|| {
        let error = UserError::usage(format!("there is no tag `{name}`"));
        match nearest(name, TagName::ALL.iter().map(|tag| tag.as_str())).first() {
            Some(meant) => error.hint(format!("did you mean `{meant}`?")),
            None => error,
        }
    })
}

fn read_stdin() -> Result<String, UserError> {
    let mut text = String::new();
    let longest = MAX_TAG_BYTES as u64 + 1;
    std::io::stdin()
        .lock()
        .take(longest)
        .read_to_string(&mut text)
        .map_err(|error| UserError::usage(format!("cannot read the text from stdin: {error}")))?;
    Ok(text)
}

fn written(tag: Tag) -> Result<String, String> {
    let rules = Rules { from_model: false, case_insensitive: cfg!(windows) };
    Ok(write_tag(&tag, rules)? + "\n")
}

/// One line of `--json`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Line {
    tag: String,
    #[serde(default)]
    target: Option<String>,
    #[serde(default)]
    text: Option<String>,
    #[serde(default)]
    attributes: BTreeMap<String, Scalar>,
    #[serde(default)]
    next: Option<String>,
    #[serde(default, rename = "return")]
    return_to: Option<String>,
    #[serde(default)]
    input: Option<String>,
    #[serde(default)]
    cd: Option<String>,
    #[serde(default)]
    delay: Option<String>,
    #[serde(default)]
    title: Option<String>,
}

/// The value of an attribute. Programs write numbers without quotes.
#[derive(Deserialize)]
#[serde(untagged)]
enum Scalar {
    Text(String),
    Truth(bool),
    Number(serde_json::Number),
}

impl Scalar {
    fn into_text(self) -> String {
        match self {
            Scalar::Text(text) => text,
            Scalar::Truth(truth) => truth.to_string(),
            Scalar::Number(number) => number.to_string(),
        }
    }
}

/// All tags or, if one of them is wrong, none.
fn emit_lines(input: &mut dyn BufRead) -> Result<String, UserError> {
    let mut all = String::new();
    for (index, line) in input.lines().enumerate() {
        let line = line.map_err(|error| UserError::usage(format!("cannot read stdin: {error}")))?;
        if line.trim().is_empty() {
            continue;
        }
        let tag =
            emit_line(&line).map_err(|error| UserError::usage(format!("line {}: {error}", index + 1)))?;
        all.push_str(&tag);
    }
    Ok(all)
}

fn emit_line(line: &str) -> Result<String, String> {
    let line: Line = serde_json::from_str(line).map_err(|error| error.to_string())?;
    let name = tag_named(&line.tag).map_err(|error| error.to_string())?;
    let content = match (name.facts().content, line.target, line.text) {
        (Content::Text { .. }, None, Some(text)) => text,
        (Content::Text { .. }, ..) => return Err(format!("`{name}` needs `text`, and no `target`")),
        (_, Some(target), None) => target,
        (..) => return Err(format!("`{name}` needs `target`, and no `text`")),
    };
    let mut attributes: Vec<(String, String)> =
        line.attributes.into_iter().map(|(name, value)| (name, value.into_text())).collect();
    let named = [
        ("next", line.next),
        ("return", line.return_to),
        ("input", line.input),
        ("cd", line.cd),
        ("delay", line.delay),
        ("title", line.title),
    ];
    attributes.extend(named.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?))));
    written(Tag { name, attributes, content })
}
