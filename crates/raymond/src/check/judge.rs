//! Whether a run went as its test expects, and what came instead.

use std::path::Path;

use similar::TextDiff;

use super::course::{Course, Unanswered};
use super::file::{Amount, Expect, Matcher, PromptRule};
use crate::files;
use crate::recording::line_diff;

/// Longer texts are cut when they are shown.
const MAX_SHOWN_CHARS: usize = 2_000;
/// A file that a test looks into.
const MAX_FILE_BYTES: u64 = 64 * 1024 * 1024;
/// Amounts of money are told apart down to a millionth of a dollar.
const SMALLEST_DIFFERENCE: f64 = 1e-6;

/// An expectation that did not hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// Which expectation: `path`, `result` …
    pub what: String,
    /// What came instead, in lines.
    pub detail: String,
}

impl Failure {
    pub fn new(what: impl Into<String>, detail: impl Into<String>) -> Self {
        Self { what: what.into(), detail: detail.into().trim_end().to_owned() }
    }
}

/// All expectations that did not hold. `folder` is where the test ran.
pub fn judge(expect: &Expect, course: &Course, folder: &Path) -> Vec<Failure> {
    let mut failures: Vec<Failure> = course.unanswered.iter().map(unanswered).collect();
    judge_status(expect, course, &mut failures);
    if let Some(path) = &expect.path {
        failures.extend(judge_path("path", path, course.paths.get("main")));
    }
    for (agent, path) in &expect.paths {
        failures.extend(judge_path(&format!("paths.{agent}"), path, course.paths.get(agent)));
    }
    if let Some(matcher) = &expect.result {
        failures.extend(judge_text("result", matcher, course.result.as_deref()));
    }
    if let Some(matcher) = &expect.error {
        failures.extend(judge_error(matcher, &course.errors));
    }
    for (state, rule) in &expect.prompts {
        failures.extend(judge_prompts(state, rule, course));
    }
    for (file, matcher) in &expect.files {
        failures.extend(judge_file(file, matcher, folder));
    }
    failures.extend(judge_list("prints", expect.prints.as_deref(), &course.prints));
    failures.extend(judge_list("asks", expect.asks.as_deref(), &course.asks));
    let cost = expect.cost.and_then(|amount| judge_amount("cost", amount, course.cost.dollars(), "$"));
    let turns = expect.turns.and_then(|amount| judge_amount("turns", amount, course.turns as f64, ""));
    failures.extend(cost.into_iter().chain(turns));
    failures
}

fn unanswered(prompt: &Unanswered) -> Failure {
    let Unanswered { agent, state, error, prompt } = prompt;
    let shown = prompt.as_deref().map(|prompt| format!("\nthe prompt of {agent}:\n{}", indented(prompt)));
    Failure::new(format!("replies.{state}"), format!("{error}{}", shown.unwrap_or_default()))
}

fn judge_status(expect: &Expect, course: &Course, failures: &mut Vec<Failure>) {
    if expect.status == course.status {
        return;
    }
    let why = course.errors.first().map(|error| format!("\nerror: {error}")).unwrap_or_default();
    let open = match course.status.as_str() {
        "waiting" => course.asks.last().map(|ask| format!("\nopen question: {}", cut(ask))),
        _ => None,
    };
    let detail = format!(
        "expected {}, but the run is {}{why}{}",
        expect.status.as_str(),
        course.status.as_str(),
        open.unwrap_or_default()
    );
    failures.push(Failure::new("status", detail));
}

fn judge_path(what: &str, expected: &[String], came: Option<&Vec<String>>) -> Option<Failure> {
    let Some(came) = came else {
        return Some(Failure::new(what, "there was no such agent"));
    };
    // A state may be written without its extension.
    let is_same = |expected: &str, came: &str| {
        expected == came || came.rsplit_once('.').is_some_and(|(name, _)| name == expected)
    };
    let is_equal = expected.len() == came.len()
        && expected.iter().zip(came).all(|(expected, came)| is_same(expected, came));
    if is_equal {
        return None;
    }
    let full = |(index, name): (usize, &String)| {
        let near = came.get(index).into_iter().chain(came);
        near.into_iter().find(|came| is_same(name, came)).unwrap_or(name).clone()
    };
    let expected: Vec<String> = expected.iter().enumerate().map(full).collect();
    let lines = |path: &[String]| path.iter().map(|state| format!("{state}\n")).collect::<String>();
    let diff = whole_diff(&lines(&expected), &lines(came));
    Some(Failure::new(what, format!("- expected, + came:\n{diff}")))
}

/// All lines of two texts, with those in which they differ marked.
fn whole_diff(expected: &str, came: &str) -> String {
    let diff = TextDiff::from_lines(expected, came);
    let line = |change: similar::Change<&str>| {
        let sign = match change.tag() {
            similar::ChangeTag::Delete => '-',
            similar::ChangeTag::Insert => '+',
            similar::ChangeTag::Equal => ' ',
        };
        format!("{sign} {}\n", change.value().trim_end_matches('\n'))
    };
    diff.iter_all_changes().map(line).collect()
}

fn judge_text(what: &str, matcher: &Matcher, came: Option<&str>) -> Option<Failure> {
    match came {
        None => Some(Failure::new(what, format!("expected {}, but there is none", described(matcher)))),
        Some(came) => mismatch(matcher, came).map(|detail| Failure::new(what, detail)),
    }
}

/// An error counts as shown if one of those that are shown is as expected.
fn judge_error(matcher: &Matcher, errors: &[String]) -> Option<Failure> {
    if errors.iter().any(|error| mismatch(matcher, error).is_none()) {
        return None;
    }
    judge_text("error", matcher, errors.first().map(String::as_str))
}

fn judge_prompts(state: &str, rule: &PromptRule, course: &Course) -> Option<Failure> {
    let what = format!("prompts.{state}");
    let sent: Vec<&str> =
        course.prompts.iter().filter(|sent| sent.state == state).map(|sent| sent.text.as_str()).collect();
    match rule {
        PromptRule::Each(matchers) => {
            let sent: Vec<String> = sent.into_iter().map(str::to_owned).collect();
            judge_list(&what, Some(matchers), &sent)
        }
        PromptRule::Some(matcher) => {
            let Some(last) = sent.last() else {
                return Some(Failure::new(what, "the state was sent no prompt"));
            };
            if sent.iter().any(|prompt| mismatch(matcher, prompt).is_none()) {
                return None;
            }
            let which = match sent.len() {
                1 => String::new(),
                more => format!("none of {more} prompts; the last one:\n"),
            };
            Some(Failure::new(what, format!("{which}{}", mismatch(matcher, last).unwrap_or_default())))
        }
    }
}

fn judge_file(file: &str, matcher: &Matcher, folder: &Path) -> Option<Failure> {
    let what = format!("files.{file}");
    match files::read(&folder.join(file), MAX_FILE_BYTES) {
        Ok(bytes) => judge_text(&what, matcher, Some(&String::from_utf8_lossy(&bytes))),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            let there = names_in(folder);
            Some(Failure::new(what, format!("it is not there; the folder has: {there}")))
        }
        Err(error) => Some(Failure::new(what, format!("it cannot be read: {error}"))),
    }
}

fn names_in(folder: &Path) -> String {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let mut names: Vec<String> =
        entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).take(20).collect();
    names.sort();
    if names.is_empty() { "no files".to_owned() } else { names.join(", ") }
}

fn judge_list(what: &str, expected: Option<&[Matcher]>, came: &[String]) -> Option<Failure> {
    let expected = expected?;
    let mut wrong = String::new();
    for (index, matcher) in expected.iter().enumerate() {
        let detail = match came.get(index) {
            Some(came) => mismatch(matcher, came),
            None => Some(format!("expected {}, but there is no more", described(matcher))),
        };
        if let Some(detail) = detail {
            wrong.push_str(&format!("{}. {}\n", index + 1, detail.trim_end()));
        }
    }
    for (index, surplus) in came.iter().enumerate().skip(expected.len()) {
        wrong.push_str(&format!("{}. not expected: {}\n", index + 1, quoted(surplus)));
    }
    (!wrong.is_empty()).then(|| Failure::new(what, wrong))
}

fn judge_amount(what: &str, expected: Amount, came: f64, unit: &str) -> Option<Failure> {
    let (holds, words) = match expected {
        Amount::Exactly(number) => ((number - came).abs() < SMALLEST_DIFFERENCE, format!("{unit}{number}")),
        Amount::AtMost(number) => (came <= number + SMALLEST_DIFFERENCE, format!("at most {unit}{number}")),
        Amount::AtLeast(number) => (came >= number - SMALLEST_DIFFERENCE, format!("at least {unit}{number}")),
    };
    (!holds).then(|| Failure::new(what, format!("expected {words}, but it is {unit}{came}")))
}

/// Why a text is not as expected.
fn mismatch(matcher: &Matcher, came: &str) -> Option<String> {
    if let Some(equals) = &matcher.equals
        && equals != came
        // A block text in YAML ends with a line break that a result rarely has.
        && equals.trim_end_matches('\n') != came.trim_end_matches('\n')
    {
        return Some(match equals.contains('\n') || came.contains('\n') {
            true => format!("- expected, + came:\n{}", line_diff(equals, came)),
            false => format!("expected {}\nbut it is {}", quoted(equals), quoted(came)),
        });
    }
    if let Some(part) = matcher.contains.iter().find(|part| !came.contains(part.as_str())) {
        return Some(format!(
            "expected to contain {}\nbut it is\n{}",
            quoted(part),
            with_nearest(part, came)
        ));
    }
    if let Some(pattern) = matcher.matches.iter().find(|pattern| !pattern.is_match(came)) {
        return Some(format!(
            "expected to match /{}/\nbut it is\n{}",
            pattern.as_str(),
            indented(&cut(came))
        ));
    }
    let expected = matcher.json.as_ref()?;
    match serde_json::from_str::<serde_json::Value>(came) {
        Err(error) => Some(format!("expected JSON, but it is no JSON ({error}):\n{}", indented(&cut(came)))),
        Ok(came) if same_json(expected, &came) => None,
        Ok(came) => {
            let shown = |value| serde_json::to_string_pretty(value).unwrap_or_default();
            Some(format!("- expected, + came:\n{}", line_diff(&shown(expected), &shown(&came))))
        }
    }
}

/// Numbers are the same if they have the same value: `1` is `1.0`.
fn same_json(one: &serde_json::Value, other: &serde_json::Value) -> bool {
    use serde_json::Value;
    match (one, other) {
        (Value::Number(one), Value::Number(other)) => one == other || one.as_f64() == other.as_f64(),
        (Value::Array(one), Value::Array(other)) => {
            one.len() == other.len() && one.iter().zip(other).all(|(one, other)| same_json(one, other))
        }
        (Value::Object(one), Value::Object(other)) => {
            one.len() == other.len()
                && one.iter().all(|(key, one)| other.get(key).is_some_and(|other| same_json(one, other)))
        }
        (one, other) => one == other,
    }
}

fn described(matcher: &Matcher) -> String {
    let Matcher { equals, contains, matches, json } = matcher;
    let equals = equals.iter().map(|text| quoted(text));
    let contains = contains.iter().map(|part| format!("one that contains {}", quoted(part)));
    let matches = matches.iter().map(|pattern| format!("one that matches /{}/", pattern.as_str()));
    let json = json.iter().map(|value| format!("the JSON {value}"));
    let all: Vec<String> = equals.chain(contains).chain(matches).chain(json).collect();
    if all.is_empty() { "a text".to_owned() } else { all.join(" and ") }
}

fn quoted(text: &str) -> String {
    format!("{:?}", cut(text))
}

fn cut(text: &str) -> String {
    match text.char_indices().nth(MAX_SHOWN_CHARS) {
        Some((at, _)) => format!("{} …", text.get(..at).unwrap_or_default()),
        None => text.to_owned(),
    }
}

pub(super) fn indented(text: &str) -> String {
    text.lines().map(|line| format!("  {line}\n")).collect()
}

/// A text in which the line is marked that is most like a missing part.
fn with_nearest(part: &str, text: &str) -> String {
    let text = cut(text);
    let likeness = |line: &str| TextDiff::from_chars(line.trim(), part.trim()).ratio();
    let lines: Vec<&str> = text.lines().collect();
    let nearest = lines
        .iter()
        .enumerate()
        .map(|(index, line)| (index, likeness(line)))
        .filter(|(_, likeness)| *likeness >= 0.4)
        .max_by(|one, other| one.1.total_cmp(&other.1))
        .map(|(index, _)| index);
    let mark = |index: usize| if nearest == Some(index) && lines.len() > 1 { '>' } else { ' ' };
    lines.iter().enumerate().map(|(index, line)| format!("{} {line}\n", mark(index))).collect()
}
