//! `raymond trust`: lets a workflow start by itself, as it is now.

use std::io::{self, BufRead, IsTerminal, Write};
use std::path::{Path, PathBuf};

use super::args::trust::TrustArgs;
use super::find::working_folder;
use super::inspect::{Inspected, find};
use super::print::say;
use crate::error::{ExitKind, UserError};
use crate::paths::{normalise, shown};
use crate::trust::content::content_of;
use crate::trust::workflows::{forget, remember};

/// The extensions that may be left out.
const PACKED: [&str; 3] = ["zip", "yaml", "yml"];

pub(super) fn trust(args: TrustArgs) -> Result<ExitKind, UserError> {
    if args.revoke {
        return revoke(&args.workflow);
    }
    let located = find(&args.workflow)?;
    let path = located.scope.path();
    let name = shown(path).display();
    let inspected = Inspected::look(path)?;
    inspected.print(args.json)?;
    if inspected.trusted {
        say(&format!("{name} is trusted already, as it is"));
        return Ok(ExitKind::Completed);
    }
    agree(&name.to_string(), args.yes)?;
    // What is remembered has to be what was shown.
    if content_of(path)? != inspected.content {
        return Err(UserError::usage(format!("{name} has changed while it was shown; it is not trusted"))
            .hint("look at it again, with the same command"));
    }
    remember(path, &inspected.content)
        .map_err(|error| UserError::failed(format!("cannot remember that {name} is trusted: {error}")))?;
    say(&format!("{name} is trusted as it is now: it may start by itself"));
    Ok(ExitKind::Completed)
}

/// Lets the command go on only if the user agrees, with `--yes` or on a terminal.
fn agree(name: &str, is_agreed: bool) -> Result<(), UserError> {
    let not_trusted = || UserError::usage(format!("{name} is not trusted"));
    if is_agreed {
        return Ok(());
    }
    if !io::stdin().is_terminal() || !io::stderr().is_terminal() {
        return Err(not_trusted().hint("if it may do all this whenever it starts by itself: add --yes"));
    }
    // What was typed before the question is no answer to it.
    #[cfg(unix)]
    let _ = rustix::termios::tcflush(io::stdin(), rustix::termios::QueueSelector::IFlush);
    let _ = write!(io::stderr(), "May it do this whenever it starts by itself, without asking again? [y/N] ");
    let mut answer = String::new();
    let _ = io::stdin().lock().read_line(&mut answer);
    match ["y", "yes"].contains(&answer.trim().to_lowercase().as_str()) {
        true => Ok(()),
        false => Err(not_trusted()),
    }
}

fn revoke(workflow: &str) -> Result<ExitKind, UserError> {
    let paths = paths_of(workflow, &working_folder()?);
    let was_trusted =
        forget(&paths).map_err(|error| UserError::failed(format!("cannot forget {workflow}: {error}")))?;
    match was_trusted {
        true => {
            say(&format!("{workflow} is trusted no longer"));
            Ok(ExitKind::Completed)
        }
        false => Err(UserError::usage(format!("{workflow} was not trusted"))),
    }
}

/// Where a workflow is, or was: the path of its folder or file, or of one of its states.
fn paths_of(workflow: &str, cwd: &Path) -> Vec<PathBuf> {
    if let Ok(located) = find(workflow) {
        return vec![located.scope.path().to_owned()];
    }
    let path = normalise(cwd, Path::new(workflow));
    let with = |extension: &&str| PathBuf::from(format!("{}.{extension}", path.display()));
    let packed: Vec<PathBuf> = PACKED.iter().map(with).collect();
    [path].into_iter().chain(packed).collect()
}
