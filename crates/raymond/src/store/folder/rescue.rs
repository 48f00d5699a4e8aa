//! Saves a journal that was deleted while its run was live, for example by `git clean` in a step.
//!
//! The file has no name any more, but the process that writes it still has it open.

use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use super::disk::{DiskFile, private_options};
use super::place::RunPaths;
use crate::files::open_plain_as;

/// How many names are tried in one folder.
const NAMES: u32 = 100;

/// Writes the journal with one more batch to a file of its own, and gives the path of that file.
pub(super) fn write(paths: &RunPaths, journal: &dyn DiskFile, batch: &[u8]) -> io::Result<PathBuf> {
    let mut failed = io::Error::from(io::ErrorKind::NotFound);
    for folder in folders(paths.dir()) {
        match copy(&folder, paths.id(), journal, batch) {
            Ok(path) => return Ok(path),
            Err(error) => failed = error,
        }
    }
    Err(failed)
}

/// Where the file may go: beside the folder of the runs, in the first folder above it that can be written, or among
/// the temporary files.
fn folders(state: &Path) -> Vec<PathBuf> {
    let home = state.parent().filter(|parent| parent.ends_with(".raymond"));
    let beside = home.unwrap_or(state).parent();
    let above = beside.into_iter().flat_map(Path::ancestors).map(Path::to_owned);
    above.chain([std::env::temp_dir()]).collect()
}

fn copy(folder: &Path, run: &str, journal: &dyn DiskFile, batch: &[u8]) -> io::Result<PathBuf> {
    let (path, mut file) = create(folder, run)?;
    let copied =
        journal.copy_to(&mut file).and_then(|_| file.write_all(batch)).and_then(|()| file.sync_all());
    match copied {
        Ok(()) => Ok(path),
        Err(error) => {
            let _ = std::fs::remove_file(&path);
            Err(error)
        }
    }
}

/// Creates a file that was not there.
fn create(folder: &Path, run: &str) -> io::Result<(PathBuf, File)> {
    let mut number = 1;
    loop {
        let suffix = if number == 1 { String::new() } else { format!("-{number}") };
        let path = folder.join(format!("raymond-rescue-{run}{suffix}.jsonl"));
        match open_plain_as(private_options().write(true).create_new(true), &path) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists && number < NAMES => number += 1,
            Err(error) => return Err(error),
            Ok(file) => return Ok((path, file)),
        }
    }
}
