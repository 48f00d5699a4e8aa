//! Commands in a project's config file, when the workflow is not part of the project.
//!
//! A user who runs a workflow of a project trusts the project. A user who runs a workflow of their own in a cloned
//! repository may never have looked at the repository's config file.

use std::fmt::Write as _;
use std::io::{self, BufRead, IsTerminal, Write as _};
use std::path::{Path, PathBuf};

use crate::config::{self, Config};
use crate::error::UserError;
use crate::files;
use crate::store::hash_of;
use crate::view::text::clean;

/// The settings of a project with which it could run commands, one line each.
fn of_config(config: &Config) -> Vec<String> {
    let skips = config.raymond.dangerously_skip_permissions == Some(true);
    let skips = skips.then(|| "dangerously_skip_permissions = true".to_owned());
    let notify = config.raymond.notify.as_ref().map(|command| format!("notify = {command:?}"));
    let backends = config.backend.iter().flat_map(|(name, backend)| {
        let command =
            backend.command.as_ref().map(|command| format!("[backend.{name}] command = {command:?}"));
        let args = (!backend.args.is_empty()).then(|| format!("[backend.{name}] args = {:?}", backend.args));
        let resume_args = (!backend.resume_args.is_empty())
            .then(|| format!("[backend.{name}] resume_args = {:?}", backend.resume_args));
        command.into_iter().chain(args).chain(resume_args)
    });
    skips.into_iter().chain(notify).chain(backends).collect()
}

/// Lets a run go on only if the user has accepted the commands in this config file: now, with `--trust`
/// (`is_trusted`), or earlier. `config` is what was read from it and will be used.
pub fn check(file: &Path, config: &Config, is_trusted: bool) -> Result<(), UserError> {
    let commands = of_config(config);
    if commands.is_empty() {
        return Ok(());
    }
    // A relative command means another program in another project.
    let hash = hash_of(format!("{}\n{}", file.display(), commands.join("\n")).as_bytes());
    if is_remembered(&hash) {
        return Ok(());
    }
    let can_ask = || io::stdin().is_terminal() && io::stderr().is_terminal();
    let is_trusted = is_trusted || (can_ask() && is_accepted(file, &commands));
    if !is_trusted {
        return Err(refusal(file, &commands));
    }
    if let Err(error) = remember(&hash, file) {
        let _ =
            writeln!(io::stderr(), "warning: cannot remember that {} is trusted: {error}", file.display());
    }
    Ok(())
}

fn refusal(file: &Path, commands: &[String]) -> UserError {
    let error = format!(
        "the workflow is not part of the project, and the project's config file may run commands: {}",
        file.display()
    );
    let error = commands.iter().fold(UserError::usage(error), |error, command| error.hint(command));
    error.hint("look at them, and add --trust to accept them from now on")
}

fn is_accepted(file: &Path, commands: &[String]) -> bool {
    let mut question = format!(
        "The workflow is not part of the project, and the project's config file may run commands.\n{}:\n",
        clean(&file.to_string_lossy())
    );
    for command in commands {
        let _ = writeln!(question, "  {}", clean(command));
    }
    // What was typed before the question is no answer to it.
    #[cfg(unix)]
    let _ = rustix::termios::tcflush(io::stdin(), rustix::termios::QueueSelector::IFlush);
    let _ = write!(io::stderr(), "{question}Do you trust them? [y/N] ");
    let mut answer = String::new();
    let _ = io::stdin().lock().read_line(&mut answer);
    ["y", "yes"].contains(&answer.trim().to_lowercase().as_str())
}

/// A line for each accepted config file: its hash, a space, its path.
fn list() -> Option<PathBuf> {
    config::user_state_folder().map(|folder| folder.join("trusted"))
}

fn is_remembered(hash: &str) -> bool {
    let text = list().and_then(|list| files::read_text(&list, files::MAX_SETTINGS_BYTES).ok());
    text.unwrap_or_default().lines().any(|line| line.split(' ').next() == Some(hash))
}

fn remember(hash: &str, file: &Path) -> io::Result<()> {
    let list = list().ok_or_else(|| io::Error::other("there is no home folder"))?;
    files::create_private_folders(list.parent().unwrap_or(&list))?;
    let mut open = files::open_plain_as(files::private_options().append(true).create(true), &list)?;
    open.write_all(format!("{hash} {}\n", clean(&file.to_string_lossy())).as_bytes())
}
