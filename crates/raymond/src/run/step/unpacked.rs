//! The files of an archive or a one-file workflow in a folder, so that a script finds them as it would in the folder form.
//!
//! They are written when the first step of a workflow needs them, once for each run, into a folder of the run that is removed
//! when the process ends. Nothing in it can be written: what a script would change there would be lost. A workflow that was
//! edited gets another folder, because steps may still run in the first one; that is removed when the last of them has ended.
//! Their size is limited by the maximum size of a workflow.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use raymond_core::workflow::StateFile;
use sha2::{Digest, Sha256};

use crate::files::{self, create_private_folders};
use crate::workflow::scope::hexadecimal;
use crate::workflow::scopes::PackedFiles;

/// The newest copies of a run's workflows, by the archive or file that they come from.
#[derive(Debug)]
pub struct Unpacked {
    scratch: PathBuf,
    known: RefCell<BTreeMap<PathBuf, Known>>,
    /// How many copies were made. Each has a folder of its own, because steps may still run in those before it.
    made: Cell<u64>,
}

#[derive(Debug)]
struct Known {
    /// Which state of the workflow that is.
    version: String,
    copy: Rc<Copy>,
}

/// All files of a workflow on disk, for as long as a step or the run needs them.
#[derive(Debug)]
pub(super) struct Copy {
    folder: PathBuf,
    /// What is removed with it.
    around: PathBuf,
}

impl Copy {
    pub(super) fn folder(&self) -> &Path {
        &self.folder
    }
}

impl Drop for Copy {
    fn drop(&mut self) {
        let _ = files::remove_tree(&self.around);
        // The folder of all its versions goes with the last of them.
        let _ = self.around.parent().map(fs::remove_dir);
    }
}

impl Unpacked {
    /// `scratch` is where the folders are made.
    pub fn new(scratch: PathBuf) -> Unpacked {
        Unpacked { scratch, known: RefCell::default(), made: Cell::default() }
    }

    /// A state's file, together with all other files of its workflow.
    pub(super) fn file(
        &self,
        files: &PackedFiles,
        state: &StateFile,
        bytes: &[u8],
    ) -> Result<(PathBuf, Rc<Copy>), String> {
        let copy = self.copy(files)?;
        let file = copy.folder.join(state.as_str());
        // A script may have changed it all the same. The state must run as it is in the workflow.
        write_if_other(&file, bytes).map_err(|error| format!("cannot write {}: {error}", file.display()))?;
        Ok((file, copy))
    }

    /// The present files of a workflow.
    pub(super) fn copy(&self, files: &PackedFiles) -> Result<Rc<Copy>, String> {
        let mut known = self.known.borrow_mut();
        let old = known.get(&files.origin);
        if let Some(known) = old.filter(|known| known.version == files.version) {
            return Ok(Rc::clone(&known.copy));
        }
        let origin = Sha256::digest(files.origin.as_os_str().as_encoded_bytes());
        let versions = self.scratch.join(format!("files-{}", hexadecimal(&origin)));
        if old.is_none() {
            // Remove files that a killed process left: they may be out of date.
            let _ = files::remove_tree(&versions);
        }
        self.made.set(self.made.get() + 1);
        let around = versions.join(self.made.get().to_string());
        let name = files.origin.file_stem().unwrap_or("workflow".as_ref());
        let copy = Rc::new(Copy { folder: around.join(name), around });
        write_all(&copy.folder, &files.by_name).map_err(|error| {
            format!("cannot write the files of the workflow to {}: {error}", copy.folder.display())
        })?;
        known.insert(files.origin.clone(), Known { version: files.version.clone(), copy: Rc::clone(&copy) });
        Ok(copy)
    }
}

fn write_all(folder: &Path, files: &BTreeMap<String, Vec<u8>>) -> io::Result<()> {
    create_private_folders(folder)?;
    let mut folders = vec![folder.to_owned()];
    for (name, bytes) in files {
        let file = folder.join(name);
        if let (true, Some(parent)) = (name.contains('/'), file.parent()) {
            create_private_folders(parent)?;
            folders.extend(parent.ancestors().take_while(|above| *above != folder).map(Path::to_owned));
        }
        write_read_only(&file, bytes)?;
    }
    folders.iter().try_for_each(|folder| files::set_mode(folder, 0o500))
}

fn write_if_other(file: &Path, bytes: &[u8]) -> io::Result<()> {
    if files::read(file, bytes.len() as u64).is_ok_and(|old| old == bytes) {
        return Ok(());
    }
    let Some(folder) = file.parent() else { return Ok(()) };
    files::set_mode(folder, 0o700)?;
    write_read_only(file, bytes)?;
    files::set_mode(folder, 0o500)
}

/// Replaces a file, because another agent may be running it. All may be run, as its form does not say which.
fn write_read_only(file: &Path, bytes: &[u8]) -> io::Result<()> {
    let _ = fs::remove_file(file);
    let mut made = files::open_plain_as(files::options_with_mode(0o500).write(true).create_new(true), file)?;
    io::Write::write_all(&mut made, bytes)
}
