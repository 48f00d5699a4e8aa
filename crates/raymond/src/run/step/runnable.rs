//! The file that a step's program runs: the state's own file, the same file among the unpacked files of its workflow,
//! or a private copy if that cannot be run as it is.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use raymond_core::workflow::StateFile;

use super::LocalExecutor;
use super::unpacked::Copy;
use crate::files;
use crate::run::job::{StateCode, StepJob, WorkflowFiles};
use crate::run::prepare::file_name_of;

/// A file to run. A copy is removed when this is dropped.
#[derive(Debug)]
pub(super) struct Runnable {
    path: PathBuf,
    /// The folder that holds only the copy.
    made_for_copy: Option<PathBuf>,
    /// The files of a packed workflow: those beside the state, and those that the workflow itself has.
    beside: Option<Rc<Copy>>,
    of_workflow: Option<Rc<Copy>>,
}

impl Runnable {
    /// The file of a job's state.
    pub(super) fn of(executor: &LocalExecutor, job: &StepJob) -> Result<Self, String> {
        let state = &job.attempt.state;
        let of_workflow = match &job.needs.workflow_files {
            WorkflowFiles::InFolder | WorkflowFiles::BesideState => None,
            WorkflowFiles::Packed(files) => Some(executor.unpacked.copy(files)?),
        };
        let mut runnable = match &job.needs.code {
            StateCode::InPlace(path) => {
                Self { path: path.clone(), made_for_copy: None, beside: None, of_workflow: None }
            }
            StateCode::Packed { files, text } => {
                let (path, copy) = executor.unpacked.file(files, state, text)?;
                Self { path, made_for_copy: None, beside: Some(copy), of_workflow: None }
            }
            StateCode::Copy(text) => {
                // The copy has the state's own name, because programs show it in their messages.
                let folder = executor.scratch.join(format!("{}.state", file_name_of(&job.attempt.agent)));
                Self::copy(folder, state, text)?
            }
        };
        let is_beside = matches!(job.needs.workflow_files, WorkflowFiles::BesideState);
        runnable.of_workflow = of_workflow.or(runnable.beside.clone().filter(|_| is_beside));
        Ok(runnable)
    }

    fn copy(folder: PathBuf, state: &StateFile, text: &[u8]) -> Result<Self, String> {
        let path = folder.join(state.as_str());
        let made_for_copy = Some(folder.clone());
        let runnable = Self { path, made_for_copy, beside: None, of_workflow: None };
        files::create_private_folders(&folder)
            .and_then(|()| write_private(&runnable.path, text))
            .map_err(|error| format!("cannot write {}: {error}", runnable.path.display()))?;
        Ok(runnable)
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// The folder with the workflow's files, if the workflow itself is none.
    pub(super) fn workflow_folder(&self) -> Option<&Path> {
        self.of_workflow.as_deref().map(Copy::folder)
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

fn write_private(path: &Path, bytes: &[u8]) -> std::io::Result<()> {
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
