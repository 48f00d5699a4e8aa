//! Recordings: the turns of a run in a file, one JSON object a line, so that the run can be played again without an
//! agent program.
//!
//! A recording can be kept beside a workflow and read by people. So what differs from machine to machine is replaced by
//! placeholders ([`Places`]), and secrets are masked.

mod of_run;

use std::borrow::Cow;
use std::fmt;
use std::fs;
use std::ops::Range;
use std::path::{Path, PathBuf};

use raymond_core::money::Usd;
use serde::{Deserialize, Serialize};
use similar::{ChangeTag, TextDiff};

pub use of_run::{Traces, of_run};

use crate::files;
use crate::store::hash_of;

/// A recording is read as a whole; a longer one is refused.
const MAX_RECORDING_BYTES: u64 = 1024 * 1024 * 1024;

/// One finished turn: a line of a recording.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RecordedTurn {
    pub state: String,
    /// How often the agent had entered the state.
    pub visit: u64,
    pub agent: String,
    /// The hash of the prompt with placeholders, before secrets were masked.
    pub prompt_sha256: String,
    /// `None` if the run kept no prompts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prompt: Option<String>,
    pub reply: String,
    #[serde(default)]
    pub cost_usd: Usd,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session: Option<String>,
    #[serde(default)]
    pub duration_ms: u64,
    /// The tools that the agent used, in order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tools: Vec<String>,
}

impl RecordedTurn {
    /// The line in the file, with its line break.
    pub fn line(&self) -> String {
        let mut line = serde_json::to_string(self).unwrap_or_default();
        line.push('\n');
        line
    }

    /// Whether two lines tell of the same turn of a run. Its session is not known in all of them.
    pub fn is_same_turn(&self, other: &RecordedTurn) -> bool {
        let place = |turn: &RecordedTurn| (turn.agent.clone(), turn.state.clone(), turn.visit);
        match (&self.session, &other.session) {
            (Some(one), Some(other)) => one == other,
            _ => place(self) == place(other) && self.reply == other.reply,
        }
    }

    /// The name of the state, without extension.
    pub fn state_name(&self) -> &str {
        self.state.strip_suffix(".md").unwrap_or(&self.state)
    }
}

/// Why a recording cannot be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BadRecording {
    pub path: PathBuf,
    /// Line and column, if one of the lines is wrong.
    pub place: Option<(usize, usize)>,
    pub message: String,
}

impl fmt::Display for BadRecording {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: ", self.path.display())?;
        if let Some((line, column)) = self.place {
            write!(f, "line {line}, column {column}: ")?;
        }
        f.write_str(&self.message)
    }
}

/// Reads a whole recording.
pub fn read(path: &Path) -> Result<Vec<RecordedTurn>, BadRecording> {
    parse(path, &text_of(path)?)
}

/// Reads a recording whose last line may not have been written to its end, because its process was killed.
pub fn read_whole_lines(path: &Path) -> Result<Vec<RecordedTurn>, BadRecording> {
    let text = text_of(path)?;
    let whole = text.rfind('\n').map_or("", |end| text.get(..=end).unwrap_or_default());
    parse(path, whole)
}

fn text_of(path: &Path) -> Result<String, BadRecording> {
    let bytes = files::read(path, MAX_RECORDING_BYTES).map_err(|error| BadRecording {
        path: path.to_owned(),
        place: None,
        message: format!("cannot read the recording: {error}"),
    })?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// Reads the text of a recording. `path` is only named in errors.
pub fn parse(path: &Path, text: &str) -> Result<Vec<RecordedTurn>, BadRecording> {
    let bad = |place, message| BadRecording { path: path.to_owned(), place, message };
    let mut turns = Vec::new();
    for (index, line) in text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty()) {
        let turn = serde_json::from_str(line).map_err(|error| {
            let column = error.column().max(1);
            let what = error.to_string();
            let what = what.split(" at line ").next().unwrap_or_default();
            let cut = if error.is_eof() { "; the recording seems to be cut off here" } else { "" };
            bad(Some((index + 1, column)), format!("this is no recorded turn: {what}{cut}"))
        })?;
        turns.push(turn);
    }
    Ok(turns)
}

/// Writes a whole recording, in place of an earlier one.
pub fn write(path: &Path, turns: &[RecordedTurn]) -> std::io::Result<()> {
    let text: String = turns.iter().map(RecordedTurn::line).collect();
    let aside = path.with_extension("jsonl.new");
    files::write_output(&aside, text.as_bytes())?;
    fs::rename(&aside, path)
}

/// What differs between two runs of the same workflow: the run's id, and where its folders are.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Places {
    /// Texts and their placeholders, the longest text first.
    pairs: Vec<(String, Cow<'static, str>)>,
    run_id: String,
}

const RUN_ID: &str = "⟨run_id⟩";
const TASK_FOLDER: &str = "⟨task_folder⟩";
const CWD: &str = "⟨cwd⟩";
const PROJECT: &str = "⟨project⟩";
/// Shorter ids are replaced only where they are a whole value: they may be ordinary words.
const SHORTEST_DISTINCT_ID: usize = 8;

impl Places {
    pub fn new(run_id: &str, task_folder: &Path, cwd: &str, project: &Path) -> Self {
        let folders = [(task_folder.to_str(), TASK_FOLDER), (Some(cwd), CWD), (project.to_str(), PROJECT)];
        let mut pairs: Vec<(String, Cow<'static, str>)> = folders
            .into_iter()
            .filter_map(|(folder, name)| Some((folder?.trim_end_matches('/').to_owned(), name.into())))
            .filter(|(folder, _)| folder.len() > 1)
            .collect();
        let is_distinct =
            run_id.len() >= SHORTEST_DISTINCT_ID || run_id.contains(|c: char| c.is_ascii_digit());
        if is_distinct {
            pairs.push((run_id.to_owned(), RUN_ID.into()));
        }
        pairs.sort_by_key(|(text, _)| std::cmp::Reverse(text.len()));
        Self { pairs, run_id: run_id.to_owned() }
    }

    /// The text with placeholders. `values` are the places of values that were put into it, in order.
    pub fn replace(&self, text: &str, values: &[Range<usize>]) -> String {
        let mut replaced = String::with_capacity(text.len());
        let mut done = 0;
        for value in values {
            let (Some(before), Some(inside)) = (text.get(done..value.start), text.get(value.clone())) else {
                continue;
            };
            replaced.push_str(&self.replace_all(before));
            match inside == self.run_id {
                true => replaced.push_str(RUN_ID),
                false => replaced.push_str(&self.replace_all(inside)),
            }
            done = value.end;
        }
        replaced.push_str(&self.replace_all(text.get(done..).unwrap_or_default()));
        replaced
    }

    fn replace_all(&self, text: &str) -> String {
        self.pairs.iter().fold(text.to_owned(), |text, (value, name)| replace_words(&text, value, name))
    }

    /// The text with placeholders, also for a short id wherever it is a whole word.
    pub fn replace_every_id(&self, text: &str) -> String {
        replace_words(&self.replace_all(text), &self.run_id, RUN_ID)
    }

    /// The text with this run's values in place of the placeholders.
    pub fn restore(&self, text: &str) -> String {
        let text =
            self.pairs.iter().fold(text.to_owned(), |text, (value, name)| text.replace(name.as_ref(), value));
        text.replace(RUN_ID, &self.run_id)
    }
}

/// Replaces a value wherever it is not a part of a longer word.
fn replace_words(text: &str, value: &str, name: &str) -> String {
    let is_word = |c: char| c.is_alphanumeric() || c == '_' || c == '-';
    let mut replaced = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find(value) {
        let (before, from) = rest.split_at(at);
        let after = from.get(value.len()..).unwrap_or_default();
        replaced.push_str(before);
        let is_part = before.ends_with(is_word) || after.starts_with(is_word);
        replaced.push_str(if is_part { value } else { name });
        rest = after;
    }
    replaced.push_str(rest);
    replaced
}

/// The hash by which a prompt is found in a recording.
pub fn prompt_hash(with_placeholders: &str) -> String {
    hash_of(with_placeholders.as_bytes())
}

/// The lines in which two texts differ, with a few around them: `-` is only in the first, `+` only in the second.
pub fn line_diff(old: &str, new: &str) -> String {
    let diff = TextDiff::from_lines(old, new);
    let mut shown = String::new();
    for (index, group) in diff.grouped_ops(2).iter().enumerate() {
        if index > 0 {
            shown.push_str("  …\n");
        }
        for change in group.iter().flat_map(|op| diff.iter_changes(op)) {
            let sign = match change.tag() {
                ChangeTag::Delete => '-',
                ChangeTag::Insert => '+',
                ChangeTag::Equal => ' ',
            };
            shown.push_str(&format!("{sign} {}\n", change.value().trim_end_matches('\n')));
        }
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    fn places(run: &str) -> Places {
        Places::new(run, Path::new("/p/.raymond/run/main"), "/p/sub", Path::new("/p"))
    }

    #[test]
    fn what_differs_between_machines_is_replaced_and_restored() {
        let places = places("wf-20260101-1");
        let text = "In /p/sub/a.txt, /p/b and /pp; run wf-20260101-1 (not wf-20260101-12).";
        let shown = places.replace(text, &[]);
        assert_eq!(shown, "In ⟨cwd⟩/a.txt, ⟨project⟩/b and /pp; run ⟨run_id⟩ (not wf-20260101-12).");
        assert_eq!(places.restore(&shown), text);
    }

    #[test]
    fn a_short_id_is_replaced_only_where_it_is_a_value() {
        let places = places("a");
        assert_eq!(
            places.replace("Run a: write a text", std::slice::from_ref(&(4..5))),
            "Run ⟨run_id⟩: write a text"
        );
    }

    #[test]
    fn a_recording_that_is_cut_off_names_its_place() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x.rec.jsonl");
        let turn = RecordedTurn {
            state: "A.md".to_owned(),
            visit: 1,
            agent: "main".to_owned(),
            prompt_sha256: prompt_hash("p"),
            prompt: Some("p".to_owned()),
            reply: "r".to_owned(),
            cost_usd: Usd::from_dollars(0.25),
            session: None,
            duration_ms: 3,
            tools: Vec::new(),
        };
        write(&path, &[turn.clone(), turn.clone()]).unwrap();
        assert_eq!(read(&path).unwrap(), [turn.clone(), turn.clone()]);
        let whole = fs::read_to_string(&path).unwrap();
        fs::write(&path, &whole[..whole.len() - 20]).unwrap();
        let error = read(&path).unwrap_err();
        assert_eq!(error.place.unwrap().0, 2);
        assert!(error.message.contains("cut off"), "{error}");
    }
}
