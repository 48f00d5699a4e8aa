//! `raymond completions`, and the answers to the script that it prints.
//!
//! The script only calls this program for every completion. So ids of runs and names from the config file can be
//! offered, and the script need not change with the program.

use std::collections::BTreeSet;
use std::ffi::OsStr;

use clap_complete::engine::CompletionCandidate;
use clap_complete::env::{CompleteEnv, Shells};
use raymond_core::lint::RULES;
use raymond_core::named_inputs::{DeclaredInput, InputKind};
use raymond_core::workflow::Platform;

use super::args::CompletionsArgs;
use super::choose::{Intent, ids_for};
use super::find;
use super::print::print_stdout;
use super::settings;
use crate::agent::registry::Backends;
use crate::author::templates::TEMPLATES;
use crate::error::{ExitKind, UserError};
use crate::view::status::STATUSES;
use crate::workflow::scope::locate;

/// The script sets this variable when it calls us. The library's default name, `COMPLETE`, may be in use by others.
const ASKED: &str = "RAYMOND_COMPLETE";

/// How many ids are offered at most, the latest first.
const MAX_RUNS: usize = 200;

pub(super) fn completions(args: CompletionsArgs) -> Result<ExitKind, UserError> {
    let shell = args.shell.to_string();
    let shells = Shells::builtins();
    let completer = shells
        .completer(&shell)
        .ok_or_else(|| UserError::usage(format!("there are no completions for {shell}")))?;
    let program = program();
    let mut script = Vec::new();
    completer
        .write_registration(ASKED, "raymond", "raymond", &program, &mut script)
        .map_err(|error| UserError::failed(format!("cannot write the script: {error}")))?;
    print_stdout(&script)?;
    Ok(ExitKind::Completed)
}

/// How the script calls this program: by its name if it was started from `PATH`, or else by its path. A path that the
/// library would not quote correctly is replaced by the name, too.
fn program() -> String {
    let was_found = std::env::args().next().is_none_or(|name| !name.contains(std::path::is_separator));
    let path = std::env::current_exe().ok().and_then(|path| path.to_str().map(str::to_owned));
    let is_plain = |path: &String| !path.contains(char::is_whitespace) && !path.contains("VAR");
    path.filter(|path| !was_found && is_plain(path)).unwrap_or_else(|| "raymond".to_owned())
}

/// If the shell's script started this process, prints the completions and returns true.
pub(super) fn answer_the_shell() -> bool {
    if std::env::var_os(ASKED).is_none() {
        return false;
    }
    let folder = std::env::current_dir().ok();
    let answered = CompleteEnv::with_factory(super::command)
        .var(ASKED)
        .try_complete(std::env::args_os(), folder.as_deref());
    answered.unwrap_or_else(|error| {
        let _ = error.print();
        true
    })
}

/// Ids of runs that begin with `start` and that a command can be used for. Errors give an empty list: the shell has no place
/// to show them.
fn ids(start: &OsStr, intent: Intent) -> Vec<CompletionCandidate> {
    let start = start.to_string_lossy();
    let Ok(store) = find::quiet_store() else { return Vec::new() };
    let ids = ids_for(&*store, &start, intent, MAX_RUNS).into_iter().enumerate();
    ids.map(|(age, id)| CompletionCandidate::new(id).display_order(Some(age))).collect()
}

pub(super) fn run_ids(start: &OsStr) -> Vec<CompletionCandidate> {
    ids(start, Intent::Look)
}

pub(super) fn runs_to_resume(start: &OsStr) -> Vec<CompletionCandidate> {
    ids(start, Intent::Resume)
}

pub(super) fn runs_to_retry(start: &OsStr) -> Vec<CompletionCandidate> {
    ids(start, Intent::Retry)
}

pub(super) fn runs_to_change(start: &OsStr) -> Vec<CompletionCandidate> {
    ids(start, Intent::Change)
}

pub(super) fn runs_to_stop(start: &OsStr) -> Vec<CompletionCandidate> {
    ids(start, Intent::Stop)
}

pub(super) fn runs_to_answer(start: &OsStr) -> Vec<CompletionCandidate> {
    ids(start, Intent::Answer)
}

/// Backends: the built-in ones, and those of the config file if it can be read.
pub(super) fn backends(start: &OsStr) -> Vec<CompletionCandidate> {
    let layers = settings::read().unwrap_or_default();
    let configured = layers.harmless(None).ok().and_then(|config| Backends::new(&config).ok());
    let backends = configured.unwrap_or_else(Backends::built_in);
    // Of the project's backends there is nothing but the names.
    let names: BTreeSet<&str> = backends.names().chain(layers.backend_names()).collect();
    those_with(start, names.into_iter().map(CompletionCandidate::new))
}

/// Templates of `init`, with what they show.
pub(super) fn templates(start: &OsStr) -> Vec<CompletionCandidate> {
    let template = |name, about: &'static str| CompletionCandidate::new(name).help(Some(about.into()));
    those_with(start, TEMPLATES.iter().map(|known| template(known.name, known.about)))
}

/// Codes of rules, with their names. Codes may be written in lower case.
pub(super) fn rule_codes(start: &OsStr) -> Vec<CompletionCandidate> {
    let start = start.to_string_lossy().to_ascii_uppercase();
    let rule = |code, name: &'static str| CompletionCandidate::new(code).help(Some(name.into()));
    those_with(start.as_ref(), RULES.into_iter().map(|known| rule(known.code, known.name)))
}

/// What the status of a run can be.
pub(super) fn statuses(start: &OsStr) -> Vec<CompletionCandidate> {
    those_with(start, STATUSES.into_iter().map(CompletionCandidate::new))
}

/// What `--set` takes: the inputs that the workflow in the same line declares and, behind `name=`, what they may be.
pub(super) fn named_inputs(start: &OsStr) -> Vec<CompletionCandidate> {
    let is_one_of =
        |name: &str| start.to_string_lossy().split_once('=').is_some_and(|(typed, _)| typed == name);
    let candidates = inputs_of_the_line().into_iter().flat_map(|input| {
        let values: Vec<String> = match &input.kind {
            _ if !is_one_of(&input.name) => vec![String::new()],
            InputKind::Choice(choices) => choices.clone(),
            InputKind::Boolean => ["true", "false"].map(str::to_owned).to_vec(),
            InputKind::String | InputKind::Integer | InputKind::Number | InputKind::File => Vec::new(),
        };
        let about = input.description.clone().unwrap_or_else(|| input.kind.in_words());
        let candidate = move |value| {
            CompletionCandidate::new(format!("{}={value}", input.name)).help(Some(about.clone().into()))
        };
        values.into_iter().map(candidate)
    });
    those_with(start, candidates)
}

/// The inputs of the first workflow that the shell's line names.
fn inputs_of_the_line() -> Vec<DeclaredInput> {
    let Ok(cwd) = std::env::current_dir() else { return Vec::new() };
    // The line follows `--`, and begins with the name of this program.
    let words = std::env::args().skip_while(|word| word != "--").skip(2);
    let mut workflows = words.filter_map(|word| locate(&word, &cwd, Platform::current()).ok());
    workflows.next().map(|located| located.scope.manifest().inputs.clone()).unwrap_or_default()
}

/// The candidates that begin with what was typed.
fn those_with(
    start: &OsStr,
    candidates: impl Iterator<Item = CompletionCandidate>,
) -> Vec<CompletionCandidate> {
    let start = start.as_encoded_bytes();
    candidates.filter(|one| one.get_value().as_encoded_bytes().starts_with(start)).collect()
}
