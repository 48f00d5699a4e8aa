//! The file that a step's program runs: the state's own file, the same file among the unpacked files of its workflow,
//! or a private copy if that cannot be run as it is.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};

use raymond_core::workflow::StateFile;

use super::LocalExecutor;
use crate::files;
use crate::run::job::{StateCode, StepJob};
use crate::run::prepare::file_name_of;

/// A file to run. A copy is removed when this is dropped.
#[derive(Debug)]
pub(super) struct Runnable {
    path: PathBuf,
    /// The folder that holds only the copy.
    made_for_copy: Option<PathBuf>,
}

impl Runnable {
    /// The file of a job's state.
    pub(super) fn of(executor: &LocalExecutor, job: &StepJob) -> Result<Self, String> {
        let state = &job.attempt.state;
        match &job.needs.code {
            StateCode::InPlace(path) => Ok(Self { path: path.clone(), made_for_copy: None }),
            StateCode::Packed { files, text } => {
                let path = executor.unpacked.file(files, state, text)?;
                Ok(Self { path, made_for_copy: None })
            }
            StateCode::Copy(text) => {
                // The copy has the state's own name, because programs show it in their messages.
                let folder = executor.scratch.join(format!("{}.state", file_name_of(&job.attempt.agent)));
                Self::copy(folder, state, text)
            }
        }
    }

    fn copy(folder: PathBuf, state: &StateFile, text: &[u8]) -> Result<Self, String> {
        let runnable = Self { path: folder.join(state.as_str()), made_for_copy: Some(folder.clone()) };
        files::create_private_folders(&folder)
            .and_then(|()| write_private(&runnable.path, text))
            .map_err(|error| format!("cannot write {}: {error}", runnable.path.display()))?;
        Ok(runnable)
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for Runnable {
    fn drop(&mut self) {
        if let Some(folder) = &self.made_for_copy {
            // Background children that have the file open can still read it; other files in the folder are kept.
            let _ = fs::remove_file(&self.path);
            let _ = fs::remove_dir(folder);
        }
    }
}

pub(super) fn write_private(path: &Path, bytes: &[u8]) -> std::io::Result<()> {
    // Remove it and create it anew, because background children of a killed step may still read the old copy.
    let _ = fs::remove_file(path);
    files::open_plain_as(files::options_with_mode(0o700).write(true).create_new(true), path)?.write_all(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_copy_is_removed_with_its_step() {
        let folder = tempfile::tempdir().unwrap();
        let own = folder.path().join("main.state");
        let state = StateFile::new("START.sh").unwrap();
        let copy = Runnable::copy(own.clone(), &state, b"echo 1").unwrap();
        assert_eq!(fs::read(copy.path()).unwrap(), b"echo 1");
        let again = Runnable::copy(own.clone(), &state, b"echo 2").unwrap();
        assert_eq!(fs::read(again.path()).unwrap(), b"echo 2");
        drop((copy, again));
        assert!(!own.exists());
    }
}
