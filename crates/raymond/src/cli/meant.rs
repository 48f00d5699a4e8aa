//! Hints for a workflow that does not exist: perhaps a command was meant, or a workflow with a similar name.

use std::ffi::OsString;
use std::path::Path;

use raymond_core::workflow::wording::{nearest, quoted, quoted_list};

use super::command;
use crate::error::UserError;
use crate::paths::normalise;
use crate::workflow::scope::Form;

/// How many entries of a folder are compared.
const MOST_ENTRIES: usize = 10_000;

/// Adds what was probably meant to an error about a workflow that could not be found.
pub(super) fn hint_at_what_was_meant(error: UserError, given: &str, cwd: &Path) -> UserError {
    let path = normalise(cwd, Path::new(given));
    if path.exists() {
        return error;
    }
    let hints = [about_commands(given), about_workflows(&path)];
    hints.into_iter().flatten().fold(error, UserError::hint)
}

/// The error for a second word after the workflow. It may be meant as the workflow's input, be a command that should
/// come first, or belong to a command whose options were written before it.
pub(super) fn one_too_many(word: &str, given: impl Iterator<Item = OsString>) -> UserError {
    let error = UserError::usage(format!("{} is one word too many: a run has one workflow", quoted(word)));
    let commands = command();
    if commands.find_subcommand(word).is_some() {
        return error.hint(format!("a command comes first: raymond {word} …"));
    }
    let mut about_earlier = given.filter_map(|earlier| match commands.find_subcommand(&earlier) {
        Some(command) => Some(options_come_after(command.get_name())),
        None => about_other_word(earlier.to_str()?),
    });
    match about_earlier.next() {
        Some(hint) => error.hint(hint),
        None => error.hint("to hand the workflow a text, write --input 'TEXT'"),
    }
}

fn options_come_after(command: &str) -> String {
    format!("`{command}` is a command; its options come after it: raymond {command} …")
}

/// Words that other programs use for what is another command here.
const OTHER_WORDS: [(&str, &[&str]); 9] = [
    ("lint", &["validate", "check", "verify", "analyze", "analyse"]),
    ("resume", &["continue", "restart"]),
    ("diagram", &["graph", "draw", "visualize", "visualise"]),
    ("init", &["new", "create"]),
    ("list", &["ls", "ps", "runs"]),
    ("log", &["logs", "events", "history"]),
    ("stop", &["kill", "cancel", "abort"]),
    ("answer", &["reply"]),
    ("convert", &["pack", "unpack", "export", "zip"]),
];

fn about_other_word(given: &str) -> Option<String> {
    let (command, _) = OTHER_WORDS.iter().find(|(_, words)| words.contains(&given))?;
    Some(format!("did you mean the command `{command}`? raymond {command} …"))
}

fn about_commands(given: &str) -> Option<String> {
    if let Some(hint) = about_other_word(given) {
        return Some(hint);
    }
    let root = command();
    let commands: Vec<&str> = root.get_subcommands().map(clap::Command::get_name).collect();
    match nearest(given, commands.iter().copied()).as_slice() {
        [] => None,
        [same] if *same == given => Some(options_come_after(same)),
        near => Some(format!("did you mean the command {}?", quoted_list(near, "or"))),
    }
}

/// Workflows in the same folder with similar names.
fn about_workflows(path: &Path) -> Option<String> {
    let (parent, name) = (path.parent()?, path.file_name()?.to_string_lossy());
    let entries = std::fs::read_dir(parent).ok()?.flatten().take(MOST_ENTRIES);
    let workflows = entries.filter(|entry| Form::of(&entry.path()).is_some());
    let names: Vec<String> = workflows.filter_map(|entry| entry.file_name().into_string().ok()).collect();
    match nearest(&name, names.iter().map(String::as_str)).as_slice() {
        [] => None,
        near => Some(format!("did you mean the workflow {}?", quoted_list(near, "or"))),
    }
}
