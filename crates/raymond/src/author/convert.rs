//! Converting between the forms of a workflow, without loss. Each is read as the files it would be in a folder, and the
//! output is read back and compared before it replaces anything.

mod bundle;
mod disk;
mod from_yaml;
mod to_yaml;
mod zipped;

use std::collections::BTreeMap;
use std::path::Path;

use raymond_core::lint::outside;
use raymond_core::workflow::{Platform, StateFile};

pub use from_yaml::{files_of, header_start, to_files as files_in_one};

use crate::error::UserError;
use crate::workflow::scope::{Form, OwnFiles, Scope};

/// A workflow's files by name, as they are in a folder.
pub type Files = BTreeMap<String, Vec<u8>>;

/// Writes the workflow at `from` to `to`, in the form that the name of `to` asks for; with those that it calls, if asked.
pub fn convert(from: &Path, to: &Path, force: bool, with_called: bool) -> Result<usize, UserError> {
    if Form::of(from).is_none() {
        let error = format!("{} is not a workflow", from.display());
        return Err(UserError::usage(error).hint("give a folder, a .zip archive or a .yaml file"));
    }
    disk::check_free(to, force)?;
    let files = if with_called { bundle::bundle(from)? } else { read(from)? };
    let no_way = |error: String| {
        UserError::usage(format!("cannot write {} as {}: {error}", from.display(), to.display()))
    };
    if Form::of_name(to).is_some_and(|form| form != Form::Folder) {
        refuse_outside(&files).map_err(no_way)?;
    }
    match Form::of_name(to) {
        Some(Form::Archive) => disk::write_file(to, &zipped::zip(&files).map_err(no_way)?)?,
        Some(Form::OneFile) => {
            disk::write_file(to, to_yaml::to_yaml(&files).map_err(no_way)?.as_bytes())?;
        }
        Some(Form::Folder) | None => disk::write_folder(to, &files)?,
    }
    Ok(files.len())
}

/// Refuses scripts that need more of their workflow's folder than a packed workflow has: they would work no more.
fn refuse_outside(files: &Files) -> Result<(), String> {
    for (name, bytes) in files {
        let file = name.rsplit('/').next().and_then(StateFile::new);
        let Some(text) = file.filter(|file| file.kind().is_script()).and_then(|_| str::from_utf8(bytes).ok())
        else {
            continue;
        };
        if let Some((place, outside)) = outside(text).first() {
            let line = text[..place.start].matches('\n').count() + 1;
            return Err(format!("{name}, line {line}: {}", outside.in_words()));
        }
    }
    Ok(())
}

/// The files of a workflow that can be run.
pub fn read(from: &Path) -> Result<Files, UserError> {
    let no_way = |error: String| UserError::usage(format!("cannot convert {}: {error}", from.display()));
    match Scope::open(from, Platform::current())?.into_own() {
        OwnFiles::Folder(_) => disk::read_folder(from).map_err(no_way),
        OwnFiles::Archive(archive) => Ok(archive.into_files()),
        OwnFiles::OneFile(_) => {
            let text = crate::workflow::scope::read_one_file(from).map_err(no_way)?;
            from_yaml::to_files(&text).map_err(no_way)
        }
    }
}

#[cfg(test)]
mod tests;
