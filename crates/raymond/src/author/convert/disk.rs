//! Reading folders, and writing converted workflows completely or not at all.

use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use super::Files;
use crate::error::UserError;
use crate::files;
use crate::workflow::scope::{MAX_BYTES, MAX_FILES};

/// Folders that belong to tools and to no workflow.
const NOT_OURS: [&str; 2] = [".git", ".raymond"];

/// Every file of a folder and of the folders in it, by its path from there with `/` in between.
pub fn read_folder(folder: &Path) -> Result<Files, String> {
    let root = fs::canonicalize(folder).map_err(|error| error.to_string())?;
    let mut reader = Reader { root, files: Files::new(), bytes: 0 };
    reader.read(folder, "")?;
    Ok(reader.files)
}

struct Reader {
    /// The workflow's folder, with all links followed.
    root: PathBuf,
    files: Files,
    bytes: u64,
}

impl Reader {
    fn read(&mut self, folder: &Path, above: &str) -> Result<(), String> {
        for entry in fs::read_dir(folder).map_err(|error| error.to_string())? {
            let entry = entry.map_err(|error| error.to_string())?;
            let name = entry
                .file_name()
                .into_string()
                .map_err(|name| format!("the name of {} is not text", name.display()))?;
            let (path, name) = (entry.path(), format!("{above}{name}"));
            let cannot = |error: io::Error| format!("cannot read {name}: {error}");
            let kind = entry.file_type().map_err(cannot)?;
            if kind.is_dir() && NOT_OURS.iter().any(|other| entry.file_name() == *other) {
                continue;
            }
            if kind.is_dir() {
                self.read(&path, &format!("{name}/"))?;
                continue;
            }
            if kind.is_symlink() {
                self.check_link(&path, &name)?;
            }
            let bytes = files::read(&path, MAX_BYTES).map_err(cannot)?;
            self.take(name, bytes)?;
        }
        Ok(())
    }

    /// A link to a file of the workflow is replaced by that file. One that leads elsewhere would put a stranger's choice
    /// of this machine's files into what is given away.
    fn check_link(&self, path: &Path, name: &str) -> Result<(), String> {
        let target =
            fs::canonicalize(path).map_err(|error| format!("cannot follow the link {name}: {error}"))?;
        match target.starts_with(&self.root) && target.is_file() {
            true => Ok(()),
            false => Err(format!(
                "{name} is a link to {}, which is no file of the workflow; replace it by a copy, or remove it",
                target.display()
            )),
        }
    }

    fn take(&mut self, name: String, bytes: Vec<u8>) -> Result<(), String> {
        self.bytes += bytes.len() as u64;
        if self.bytes > MAX_BYTES {
            return Err(format!("it holds more than {} MiB", MAX_BYTES / (1024 * 1024)));
        }
        if self.files.len() >= MAX_FILES {
            return Err(format!("it holds more than {MAX_FILES} files"));
        }
        self.files.insert(name, bytes);
        Ok(())
    }
}

/// Whether something is there that may be replaced: a plain file or a folder. A device, a pipe, a socket or a link is
/// never replaced.
fn is_replaceable(to: &Path) -> Result<bool, UserError> {
    let kind = match fs::symlink_metadata(to) {
        Ok(found) => found.file_type(),
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
        Err(error) => return Err(UserError::usage(format!("cannot read {}: {error}", to.display()))),
    };
    if kind.is_file() || kind.is_dir() {
        return Ok(true);
    }
    let error = format!("{} is neither a plain file nor a folder, so it is not replaced", to.display());
    Err(UserError::usage(error).hint("remove it yourself, or give another name"))
}

/// Refuses to replace anything without `--force`, and even with it a folder that contains folders.
pub fn check_free(to: &Path, force: bool) -> Result<(), UserError> {
    if !is_replaceable(to)? {
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
    is_replaceable(to)?;
    let new = beside(to, "new");
    let written =
        crate::files::open_plain_as(fs::OpenOptions::new().write(true).create(true).truncate(true), &new)
            .and_then(|mut file| file.write_all(bytes).and_then(|()| file.sync_all()))
            .and_then(|()| fs::rename(&new, to));
    if written.is_err() {
        let _ = fs::remove_file(&new);
    }
    written.map_err(cannot)
}

pub fn write_folder(to: &Path, files: &Files) -> Result<(), UserError> {
    let cannot = |error: io::Error| cannot_write(to, &error);
    is_replaceable(to)?;
    let new = beside(to, "new");
    let filled = fs::create_dir(&new)
        .and_then(|()| files.iter().try_for_each(|(name, bytes)| write_below(&new, name, bytes)))
        .and_then(|()| swap(&new, to));
    if filled.is_err() {
        let _ = fs::remove_dir_all(&new);
    }
    filled.map_err(cannot)
}

/// Writes a file of a workflow, and the folders that it is in.
fn write_below(folder: &Path, name: &str, bytes: &[u8]) -> io::Result<()> {
    let file = folder.join(name);
    if let (true, Some(parent)) = (name.contains('/'), file.parent()) {
        fs::create_dir_all(parent)?;
    }
    crate::files::write_output(&file, bytes)
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
