//! The task folders of a run that goes on from an earlier point: of a branch, and of a run that is taken back.
//!
//! They are put together in a folder beside the run's, before the event with which the run goes on, and are named by the number of
//! that event. After the event they take their place at once. So whenever a command is killed, either there is no such event, and
//! what was put together is removed, or whatever goes on with the run puts them in their place first. The folders that they
//! replace are those of the run that keeps what is dropped.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use raymond_core::run::Run;
use raymond_core::snapshot::TaskFiles;

use super::clean::remove;
use crate::git::task_files;
use crate::run::prepare::file_name_of;

/// Below this, what is not whole yet.
const UNFINISHED: &str = "unfinished";

/// Where the task folders of a run are.
#[derive(Clone, Debug)]
pub struct TaskFolders {
    /// Where its steps have them.
    pub folder: PathBuf,
    /// Where they are put together.
    pub staged: PathBuf,
}

/// Where the files come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// The snapshots, as far as there are some.
    Snapshots,
    /// The folders as they are now.
    Now,
}

/// What was put together.
#[derive(Debug, Default)]
pub struct Staged {
    /// The agents whose folders are copies of those that are there now.
    pub copied: Vec<String>,
    /// Repositories in the folders, whose files are not there.
    pub lost: Vec<String>,
}

/// Puts the task folders together with which a run goes on from a point, by the event of this number. `from` is the folder with those
/// that are there now. The caller has the run's lease.
pub fn stage(state: &Run, from: &Path, to: &TaskFolders, seq: u64, source: Source) -> Result<Staged, String> {
    let cannot =
        |error: io::Error| format!("cannot copy the task folders to {}: {error}", to.staged.display());
    if from != to.folder && to.folder.exists() {
        return Err(format!("{} is there already; move it away", to.folder.display()));
    }
    remove(&to.staged).map_err(cannot)?;
    let unfinished = to.staged.join(UNFINISHED);
    crate::files::create_private_folders(&unfinished).map_err(cannot)?;
    let mut staged = Staged::default();
    for agent in state.agents.values() {
        let name = file_name_of(&agent.id);
        let folder = unfinished.join(&name);
        match agent.task_files.as_deref().filter(|_| source == Source::Snapshots) {
            Some(TaskFiles::Empty) => {}
            Some(TaskFiles::Tree { tree, repository }) => {
                let index = to.staged.join("index");
                let nested = task_files::restore(Path::new(repository), tree, &folder, &index);
                let nested = nested
                    .map_err(|error| format!("cannot restore the task folder of {}: {error}", agent.id))?;
                staged.lost.extend(nested.into_iter().map(|inside| format!("{name}/{inside}")));
                remove(&index).map_err(cannot)?;
            }
            None if is_empty(&from.join(&name)) => {}
            None => {
                copy_all(&from.join(&name), &folder).map_err(cannot)?;
                staged.copied.push(agent.id.to_string());
            }
        }
    }
    sync_all(&unfinished).map_err(cannot)?;
    fs::rename(&unfinished, to.staged.join(seq.to_string())).map_err(cannot)?;
    Ok(staged)
}

/// Lets the task folders take their place that belong to the last event of a run, if there are some, and removes all others that
/// were put together. The folders that they replace become those of another run, if one is given. The caller has the run's lease.
pub fn settle(of: &TaskFolders, seq: u64, replaced: Option<&Path>) -> io::Result<()> {
    let whole = of.staged.join(seq.to_string());
    // Nothing is looked for behind a link, which Raymond does not make.
    let is_folder = |path: &Path| fs::symlink_metadata(path).is_ok_and(|data| data.is_dir());
    if is_folder(&of.staged) && is_folder(&whole) {
        if let Some(replaced) = replaced.filter(|_| of.folder.exists()) {
            fs::rename(&of.folder, free_name(replaced)?)?;
        }
        fs::rename(&whole, &of.folder)?;
    }
    remove(&of.staged)
}

/// Removes what was put together for an event that is not written.
pub fn discard(of: &TaskFolders) -> io::Result<()> {
    remove(&of.staged)
}

/// The folder itself, or one in it if it is there already.
fn free_name(folder: &Path) -> io::Result<PathBuf> {
    if !folder.exists() {
        return Ok(folder.to_owned());
    }
    let names = (1_u64..).map(|number| folder.join(format!("replaced-{number}")));
    names.into_iter().find(|name| !name.exists()).ok_or_else(|| io::ErrorKind::AlreadyExists.into())
}

fn is_empty(folder: &Path) -> bool {
    fs::read_dir(folder).map_or(true, |mut entries| entries.next().is_none())
}

/// Copies a folder with all files, folders and links in it. What is neither is left out, and so is what a live step removes meanwhile.
fn copy_all(from: &Path, to: &Path) -> io::Result<()> {
    crate::files::create_private_folders(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        match copy_one(&entry, &to.join(entry.file_name())) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => {
                return Err(io::Error::new(error.kind(), format!("{}: {error}", entry.path().display())));
            }
            Ok(()) => {}
        }
    }
    fs::set_permissions(to, fs::symlink_metadata(from)?.permissions())
}

fn copy_one(entry: &fs::DirEntry, to: &Path) -> io::Result<()> {
    let data = fs::symlink_metadata(entry.path())?;
    if data.is_symlink() {
        return copy_link(&fs::read_link(entry.path())?, to);
    }
    if data.is_dir() {
        return copy_all(&entry.path(), to);
    }
    if data.is_file() {
        crate::files::copy(&entry.path(), to)?.set_permissions(data.permissions())?;
    }
    Ok(())
}

#[cfg(unix)]
fn copy_link(target: &Path, link: &Path) -> io::Result<()> {
    std::os::unix::fs::symlink(target, link)
}

#[cfg(windows)]
fn copy_link(target: &Path, link: &Path) -> io::Result<()> {
    std::os::windows::fs::symlink_file(target, link)
}

/// Makes all files in a folder durable: the event that goes on with them is, too.
fn sync_all(folder: &Path) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let data = fs::symlink_metadata(entry.path())?;
        if data.is_dir() {
            sync_all(&entry.path())?;
        } else if data.is_file() {
            crate::files::open_plain(&entry.path())?.sync_all()?;
        }
    }
    if cfg!(unix) {
        crate::files::open_folder(folder)?.sync_all()?;
    }
    Ok(())
}
