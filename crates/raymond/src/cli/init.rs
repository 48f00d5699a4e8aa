//! `raymond init`

use std::fs;
use std::io::ErrorKind;
use std::path::Path;

use super::args::author::InitArgs;
use super::find::working_folder;
use super::print::say;
use crate::author::templates::{TEMPLATES, Template, template};
use crate::error::{ExitKind, UserError};

pub(super) fn init(args: InitArgs) -> Result<ExitKind, UserError> {
    let template = match args.template.as_deref() {
        None => TEMPLATES.first(),
        Some(name) => template(name),
    };
    let template = template.ok_or_else(|| no_template(args.template.as_deref().unwrap_or_default()))?;
    let name = args.name.as_deref().unwrap_or(template.name);
    let folder = working_folder()?.join(name);
    make_folder(&folder, name)?;
    for (file, text) in template.files {
        let path = folder.join(file);
        crate::files::write_output(&path, text.as_bytes())
            .map_err(|error| UserError::usage(format!("cannot write {}: {error}", path.display())))?;
    }
    say(&format!("wrote {name}: {}", template.about));
    say(&format!("run it:       raymond {}", runnable(name)));
    say(&format!("test it:      raymond test {name}"));
    say(&format!("look at it:   raymond diagram {}", runnable(name)));
    Ok(ExitKind::Completed)
}

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
