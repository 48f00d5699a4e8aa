//! `raymond init`

use std::fs;
use std::io::ErrorKind;
use std::path::Path;

use raymond_core::workflow::{Listing, Platform, StateFile};

use super::args::author::InitArgs;
use super::find::working_folder;
use super::print::say;
use crate::author::templates::{TEMPLATES, Template, template};
use crate::error::{ExitKind, UserError};
use crate::workflow::scope::locate;

pub(super) fn init(args: InitArgs) -> Result<ExitKind, UserError> {
    let template = match args.template.as_deref() {
        None => TEMPLATES.first(),
        Some(name) => template(name),
    };
    let template = template.ok_or_else(|| no_template(args.template.as_deref().unwrap_or_default()))?;
    let name = args.name.as_deref().unwrap_or(template.name);
    let cwd = working_folder()?;
    if args.name.is_none() {
        refuse_workflow(".", &cwd)?;
    }
    refuse_workflow(name, &cwd)?;
    let folder = cwd.join(name);
    make_folder(&folder, name)?;
    let runs_here =
        |file: &str| StateFile::new(file).is_none_or(|state| state.kind().runs_on(Platform::current()));
    for (file, text) in template.files.iter().filter(|(file, _)| runs_here(file)) {
        let path = folder.join(file);
        crate::files::write_output(&path, text.as_bytes())
            .map_err(|error| UserError::usage(format!("cannot write {}: {error}", path.display())))?;
    }
    say(&format!("wrote {name}: {}", template.about));
    let uses_input = template.files.iter().any(|(file, text)| {
        StateFile::new(file).is_some_and(|state| Listing::is_entry_name(state.name()))
            && text.contains("{{input}}")
    });
    let input = if uses_input { " --input 'a text of yours'" } else { "" };
    say(&format!("run it:       raymond {}{input}", runnable(name)));
    say(&format!("test it:      raymond test {name}"));
    say(&format!("look at it:   raymond diagram {}", runnable(name)));
    Ok(ExitKind::Completed)
}

/// A folder that is a workflow already is left as it is, and what is in it is said.
fn refuse_workflow(name: &str, cwd: &Path) -> Result<(), UserError> {
    let Ok(located) = locate(name, cwd, Platform::current()) else { return Ok(()) };
    let here = if name == "." { "this folder" } else { name };
    let in_folder = fs::read_dir(located.scope.path()).into_iter().flatten().flatten();
    let mut names: Vec<String> = in_folder.filter_map(|entry| entry.file_name().into_string().ok()).collect();
    names.extend(located.scope.files().keys().cloned());
    names.sort();
    if names.len() > MOST_NAMED {
        names.truncate(MOST_NAMED);
        names.push("…".to_owned());
    }
    Err(UserError::usage(format!("{here} is a workflow already; nothing was changed"))
        .hint(format!("it has {}", names.join(", ")))
        .hint(format!("run it: raymond {}", runnable(name)))
        .hint("to make another one, give its name: raymond init NAME"))
}

/// How many files of a workflow are named.
const MOST_NAMED: usize = 12;

/// An existing folder is used only if it is empty, so that no file is overwritten.
fn make_folder(folder: &Path, name: &str) -> Result<(), UserError> {
    let failed = |error: std::io::Error| UserError::usage(format!("cannot make {name}: {error}"));
    match fs::create_dir_all(folder) {
        Ok(()) => {}
        Err(error) if error.kind() == ErrorKind::AlreadyExists => {
            return Err(
                UserError::usage(format!("{name} exists already and is no folder")).hint("give another name")
            );
        }
        Err(error) => return Err(failed(error)),
    }
    if fs::read_dir(folder).map_err(failed)?.next().is_some() {
        return Err(
            UserError::usage(format!("{name} exists already and is not empty")).hint("give another name")
        );
    }
    Ok(())
}

/// A workflow with the name of a command has to be written as a path.
fn runnable(name: &str) -> String {
    let is_command = super::command().get_subcommands().any(|command| command.get_name() == name);
    if is_command || super::args::is_reserved(name) { format!("./{name}") } else { name.to_owned() }
}

fn no_template(name: &str) -> UserError {
    let lines = TEMPLATES.iter().map(|Template { name, about, .. }| format!("{name}: {about}"));
    lines.fold(UserError::usage(format!("there is no template `{}`", name.escape_debug())), UserError::hint)
}
