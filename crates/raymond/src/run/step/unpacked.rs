//! The unpacked files of an archive or a one-file workflow, so that a script finds the files beside it as it would in a
//! folder.
//!
//! They are written when the first script of a workflow runs, once for each run, in a folder of the run that is removed
//! when the process ends. Their size is limited by the maximum size of a workflow.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use raymond_core::workflow::StateFile;

use super::runnable::write_private;
use crate::files::{self, create_private_folders};
use crate::workflow::scopes::PackedFiles;

/// The folders of a run's workflows, which are removed when this is dropped.
#[derive(Debug)]
pub struct Unpacked {
    scratch: PathBuf,
    known: RefCell<BTreeMap<PathBuf, Known>>,
}

/// One workflow on disk.
#[derive(Debug)]
struct Known {
    folder: PathBuf,
    /// Which state of the workflow that is.
    version: String,
    names: BTreeSet<String>,
}

impl Unpacked {
    /// `scratch` is where the folders are made.
    pub fn new(scratch: PathBuf) -> Unpacked {
        Unpacked { scratch, known: RefCell::default() }
    }

    /// A state's file, together with all other files of its workflow.
    pub(super) fn file(
        &self,
        files: &PackedFiles,
        state: &StateFile,
        bytes: &[u8],
    ) -> Result<PathBuf, String> {
        let folder = self.folder(files)?;
        let file = folder.join(state.as_str());
        // A script may have changed or removed files in its folder. The state must run as it is in the workflow.
        write_if_other(&file, bytes).map_err(|error| format!("cannot write {}: {error}", file.display()))?;
        Ok(file)
    }

    fn folder(&self, files: &PackedFiles) -> Result<PathBuf, String> {
        let mut known = self.known.borrow_mut();
        let old = known.get(&files.origin);
        if let Some(known) = old.filter(|known| known.version == files.version) {
            return Ok(known.folder.clone());
        }
        let folder = self
            .scratch
            .join(format!("files-{:08x}", crc32fast::hash(files.origin.as_os_str().as_encoded_bytes())));
        let gone: Vec<&String> = old
            .map(|old| old.names.iter().filter(|name| !files.by_name.contains_key(*name)).collect())
            .unwrap_or_default();
        if old.is_none() {
            // Remove files that a killed process left: they may be out of date.
            let _ = fs::remove_dir_all(&folder);
        }
        write_all(&folder, &files.by_name, &gone).map_err(|error| {
            format!("cannot write the files of the workflow to {}: {error}", folder.display())
        })?;
        let names = files.by_name.keys().cloned().collect();
        let entry = Known { folder: folder.clone(), version: files.version.clone(), names };
        known.insert(files.origin.clone(), entry);
        Ok(folder)
    }
}

impl Drop for Unpacked {
    fn drop(&mut self) {
        for known in self.known.borrow().values() {
            let _ = fs::remove_dir_all(&known.folder);
        }
    }
}

fn write_all(folder: &Path, files: &BTreeMap<String, Vec<u8>>, gone: &[&String]) -> io::Result<()> {
    create_private_folders(folder)?;
    for name in gone {
        let _ = fs::remove_file(folder.join(name));
    }
    for (name, bytes) in files {
        let file = folder.join(name);
        if let (true, Some(parent)) = (name.contains('/'), file.parent()) {
            create_private_folders(parent)?;
        }
        write_if_other(&file, bytes)?;
    }
    Ok(())
}

/// Replaces a file atomically, because another agent may be running it.
fn write_if_other(file: &Path, bytes: &[u8]) -> io::Result<()> {
    if files::read(file, bytes.len() as u64).is_ok_and(|old| old == bytes) {
        return Ok(());
    }
    write_private(file, bytes)
}
