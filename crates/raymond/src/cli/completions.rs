//! `raymond completions`, and what the printed script asks of the program afterwards.
//!
//! The script only says that this program completes its own command line, so ids of runs can be offered and the
//! script never goes stale.

use std::ffi::OsStr;

use clap_complete::engine::CompletionCandidate;
use clap_complete::env::{CompleteEnv, Shells};

use super::args::{CompletionsArgs, Place};
use super::find;
use super::print::print_stdout;
use crate::error::{Exit, UserError};

/// The script sets this when it asks. A name of our own: `COMPLETE` may mean something else to someone.
const ASKED: &str = "RAYMOND_COMPLETE";

/// Offered at most, the latest first.
const MAX_RUNS: usize = 200;

pub(super) fn completions(args: CompletionsArgs) -> Result<Exit, UserError> {
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
    Ok(Exit::Completed)
}

/// How the script calls this program: by its name if it was found by that, or else by its path. A path that the
/// library would not quote well is left to be found as well.
fn program() -> String {
    let was_found = std::env::args().next().is_none_or(|name| !name.contains(std::path::is_separator));
    let path = std::env::current_exe().ok().and_then(|path| path.to_str().map(str::to_owned));
    let is_plain = |path: &String| !path.contains(char::is_whitespace) && !path.contains("VAR");
    path.filter(|path| !was_found && is_plain(path)).unwrap_or_else(|| "raymond".to_owned())
}

/// Answers the shell and says true, if it is the shell that asks.
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

/// The runs whose ids begin with what is there. Where none can be found, none is offered.
pub(super) fn run_ids(start: &OsStr) -> Vec<CompletionCandidate> {
    let start = start.to_string_lossy();
    let store = find::store(&Place::default()).ok();
    let runs = store.and_then(|store| store.list().ok()).unwrap_or_default();
    let ids = runs.into_iter().map(|entry| entry.run.id().to_owned()).filter(|id| id.starts_with(&*start));
    ids.take(MAX_RUNS)
        .enumerate()
        .map(|(age, id)| CompletionCandidate::new(id).display_order(Some(age)))
        .collect()
}
