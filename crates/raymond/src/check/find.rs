//! Finds test files.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Component, Path, PathBuf};

use super::file::ENDING;
use crate::error::UserError;

/// Folders that hold no tests of their own.
const SKIPPED: [&str; 4] = [".git", ".raymond", "node_modules", "target"];
/// A search that finds more folders was not meant.
const MOST_FOLDERS: usize = 10_000;

/// All test files at or below the paths, in order.
pub fn test_files(paths: &[PathBuf]) -> Result<Vec<PathBuf>, UserError> {
    let mut found = BTreeSet::new();
    for path in paths {
        let path = &plain(path);
        if path.is_dir() {
            below(path, &mut found)?;
        } else if !path.exists() {
            return Err(UserError::usage(format!("there is no {}", path.display()))
                .hint("give test files, or folders in which they are"));
        } else if is_test_file(path) {
            found.insert(path.clone());
        } else {
            return Err(UserError::usage(format!("{} is no test file", path.display()))
                .hint(format!("their names end in {ENDING}")));
        }
    }
    Ok(found.into_iter().collect())
}

/// The same path without `./`, so that a file that is named in two ways is found once.
fn plain(path: &Path) -> PathBuf {
    let plain: PathBuf = path.components().filter(|part| *part != Component::CurDir).collect();
    if plain.as_os_str().is_empty() { PathBuf::from(".") } else { plain }
}

pub fn is_test_file(path: &Path) -> bool {
    path.file_name().and_then(|name| name.to_str()).is_some_and(|name| name.ends_with(ENDING))
}

fn below(root: &Path, found: &mut BTreeSet<PathBuf>) -> Result<(), UserError> {
    let mut folders = vec![root.to_owned()];
    let mut seen = 0;
    while let Some(folder) = folders.pop() {
        seen += 1;
        if seen > MOST_FOLDERS {
            let error = format!("there are more than {MOST_FOLDERS} folders below {}", root.display());
            return Err(UserError::usage(error).hint("name the folders with the tests"));
        }
        let cannot = |error| UserError::usage(format!("cannot read {}: {error}", folder.display()));
        for entry in fs::read_dir(&folder).map_err(cannot)? {
            let entry = entry.map_err(cannot)?;
            let path = if folder == Path::new(".") { entry.file_name().into() } else { entry.path() };
            // Links to folders are not followed: they may lead in circles.
            let is_folder = entry.file_type().is_ok_and(|kind| kind.is_dir());
            if is_folder && !SKIPPED.iter().any(|name| entry.file_name() == *name) {
                folders.push(path);
            } else if !is_folder && is_test_file(&path) {
                found.insert(path);
            }
        }
    }
    Ok(())
}
