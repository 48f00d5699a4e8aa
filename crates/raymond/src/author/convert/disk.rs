//! Reading folders, and writing converted workflows completely or not at all.

use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use super::Files;
use crate::error::UserError;

/// Folders that belong to tools and to no workflow.
const NOT_OURS: [&str; 2] = [".git", ".raymond"];

/// Every file of a folder.
pub fn read_folder(folder: &Path) -> Result<Files, String> {
    let mut files = Files::new();
    let entries = fs::read_dir(folder).map_err(|error| error.to_string())?;
    for entry in entries {
        let entry = entry.map_err(|error| error.to_string())?;
        let name = entry
            .file_name()
            .into_string()
            .map_err(|name| format!("the name of {} is not text", name.display()))?;
        let path = entry.path();
        // A link is replaced by the file that it leads to.
        let data = fs::metadata(&path).map_err(|error| format!("cannot read {name}: {error}"))?;
        if data.is_dir() && NOT_OURS.contains(&name.as_str()) {
            continue;
        }
        if !data.is_file() {
            return Err(format!(
                "{name} is not a plain file; the other forms of a workflow can only hold files"
            ));
        }
        let bytes = fs::read(&path).map_err(|error| format!("cannot read {name}: {error}"))?;
        files.insert(name, bytes);
    }
    Ok(files)
}

/// Refuses to replace anything without `--force`, and even with it a folder that contains folders.
pub fn check_free(to: &Path, force: bool) -> Result<(), UserError> {
    if fs::symlink_metadata(to).is_err() {
        return Ok(());
    }
    if !force {
        return Err(UserError::usage(format!("{} is there already", to.display()))
            .hint("give --force to replace it, or another name"));
    }
    if !to.is_dir() {
        return Ok(());
    }
    let entries = fs::read_dir(to)
        .map_err(|error| UserError::usage(format!("cannot read {}: {error}", to.display())))?;
    let is_folder = |entry: fs::DirEntry| entry.file_type().is_ok_and(|kind| kind.is_dir());
    if !entries.flatten().any(is_folder) {
        return Ok(());
    }
    let error = format!("{} holds folders, so it is more than a workflow and is not replaced", to.display());
    Err(UserError::usage(error).hint("remove it yourself, or give another name"))
}

pub fn write_file(to: &Path, bytes: &[u8]) -> Result<(), UserError> {
    let cannot = |error: io::Error| cannot_write(to, &error);
    if to.is_dir() {
        return Err(UserError::usage(format!("{} is a folder", to.display())));
    }
    let new = beside(to, "new");
    let written = fs::File::create(&new)
        .and_then(|mut file| file.write_all(bytes).and_then(|()| file.sync_all()))
        .and_then(|()| fs::rename(&new, to));
    if written.is_err() {
        let _ = fs::remove_file(&new);
    }
    written.map_err(cannot)
}

pub fn write_folder(to: &Path, files: &Files) -> Result<(), UserError> {
    let cannot = |error: io::Error| cannot_write(to, &error);
    let new = beside(to, "new");
    let filled = fs::create_dir(&new)
        .and_then(|()| files.iter().try_for_each(|(name, bytes)| fs::write(new.join(name), bytes)))
        .and_then(|()| swap(&new, to));
    if filled.is_err() {
        let _ = fs::remove_dir_all(&new);
    }
    filled.map_err(cannot)
}

/// Replaces the old folder by the new one. The old one is kept until that has worked.
fn swap(new: &Path, to: &Path) -> io::Result<()> {
    if fs::symlink_metadata(to).is_err() {
        return fs::rename(new, to);
    }
    let old = beside(to, "old");
    fs::rename(to, &old)?;
    if let Err(error) = fs::rename(new, to) {
        let _ = fs::rename(&old, to);
        return Err(error);
    }
    if old.is_dir() && !old.is_symlink() { fs::remove_dir_all(&old) } else { fs::remove_file(&old) }
}

/// A name beside `to` that no other process uses.
fn beside(to: &Path, what: &str) -> PathBuf {
    let name = to.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    to.with_file_name(format!(".{name}.{what}-{}", std::process::id()))
}

fn cannot_write(to: &Path, error: &io::Error) -> UserError {
    UserError::usage(format!("cannot write {}: {error}", to.display()))
}
