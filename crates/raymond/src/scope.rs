//! Where a workflow's states come from.

mod folder;

use std::path::Path;

use raymond_core::workflow::{Kind, Platform, StateFile};

pub use folder::{Folder, Source};

use crate::error::UserError;
use crate::paths::normalise;

/// A workflow as the user named it.
#[derive(Debug)]
pub struct Located {
    /// As written on the command line.
    pub given: String,
    pub scope: Folder,
    pub entry: StateFile,
}

/// Finds a workflow: a folder, or a state in one.
pub fn locate(given: &str, cwd: &Path, platform: Platform) -> Result<Located, UserError> {
    let path = normalise(cwd, Path::new(given));
    if path.is_dir() {
        let mut scope = Folder::open(&path, platform)?;
        let entry = scope.entry().map_err(|error| UserError::usage(format!("{given}: {error}")))?;
        return Ok(Located { given: given.to_owned(), scope, entry });
    }
    refuse_other_forms(given, &path)?;
    let (Some(folder), Some(name)) = (path.parent(), path.file_name()) else {
        return Err(not_found(given));
    };
    let name = name.to_string_lossy();
    if path.is_file() && Kind::of(&name).is_none() {
        let error = format!("{given} is neither a workflow folder nor a state file");
        return Err(UserError::usage(error).hint("states end in .md, .sh, .py, .js, .bat or .ps1"));
    }
    if !folder.is_dir() {
        return Err(not_found(given));
    }
    let mut scope = Folder::open(folder, platform)?;
    let entry = scope.resolve(&name).map_err(|error| not_found(given).hint(error))?;
    Ok(Located { given: given.to_owned(), scope, entry })
}

/// Archives and one-file workflows are part of the language, but not of this version.
fn refuse_other_forms(given: &str, path: &Path) -> Result<(), UserError> {
    let is_other_form = |path: &Path| {
        path.is_file()
            && path
                .extension()
                .is_some_and(|extension| ["zip", "yaml", "yml"].iter().any(|known| extension == *known))
    };
    if is_other_form(path) || path.parent().is_some_and(is_other_form) {
        let error = format!("{given}: archives and one-file workflows cannot be run yet");
        return Err(UserError::usage(error).hint("use a folder of state files"));
    }
    Ok(())
}

fn not_found(given: &str) -> UserError {
    UserError::usage(format!("there is no workflow `{}`", given.escape_debug()))
        .hint("give a folder with a START state, or one state file; `raymond --help` lists the commands")
}
