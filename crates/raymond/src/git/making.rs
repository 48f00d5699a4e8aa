//! Makes the worktree of a worker exactly once, however often Raymond or git is killed meanwhile.
//!
//! A worktree is made in three parts, each of which can be repeated: the branch, the folder, and a mark that both are
//! whole. The mark is synced before the worker's first program starts. So a folder without it is half made and empty of
//! work: it is removed and made again.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use raymond_core::worktree::Worktree;

use super::repository::registration;
use super::worktrees::discard;
use super::{Git, GitError};
use crate::files;

/// How long the files of a worktree may take to be written; some come over the network.
pub const MAKING_LIMIT: Duration = Duration::from_secs(30 * 60);

/// Held while git registers a worktree. Until it is done, most other calls of git in this repository would fail.
static REGISTERING: Mutex<()> = Mutex::new(());

/// The branch exists after this, at the commit with which it begins, and git knows the folder, which is still empty.
/// Nothing is left of one that was half made. Returns the arguments of git that write the files, which may take long.
pub fn begin(worktree: &Worktree) -> Result<(Git, Vec<String>), String> {
    let _one_at_a_time = REGISTERING.lock().unwrap_or_else(PoisonError::into_inner);
    let repository = Path::new(&worktree.repository);
    let mut git = Git::of_repository(repository);
    if let Some(lock) = lock(repository) {
        git = git.holding(lock);
    }
    match register(&git, worktree) {
        Err(NotRegistered::Git(error)) if error.is_about_half_made_worktree() => {
            remove_half_made(worktree);
            register(&git, worktree)
        }
        done => done,
    }
    .map_err(|error| error.to_string())?;
    // Unlike `reset`, this changes no ref. So it takes no lock that would stay behind if git is killed.
    let write_files = ["read-tree", "--reset", "-u", "--no-recurse-submodules", "HEAD"];
    Ok((Git::in_folder(&worktree.path), write_files.map(str::to_owned).to_vec()))
}

/// Waits until no Raymond registers a worktree of this repository. A git that outlives a killed Raymond still holds the
/// lock. File systems without locks for folders do without.
fn lock(repository: &Path) -> Option<File> {
    if !cfg!(unix) {
        return None;
    }
    let folder = files::open_folder(repository).ok()?;
    folder.lock().ok()?;
    Some(folder)
}

enum NotRegistered {
    Git(GitError),
    Other(String),
}

impl std::fmt::Display for NotRegistered {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Git(error) => error.fmt(f),
            Self::Other(error) => f.write_str(error),
        }
    }
}

fn register(git: &Git, worktree: &Worktree) -> Result<(), NotRegistered> {
    let reference = format!("refs/heads/{}", worktree.branch);
    match git.text(&["rev-parse", "--verify", "--quiet", &reference]) {
        Ok(tip) if tip == worktree.base => {}
        Ok(_) => {
            let error = format!("there is a branch `{}` already, at another commit", worktree.branch);
            return Err(NotRegistered::Other(error));
        }
        Err(_) => git.set_own_ref(&reference, &worktree.base, None).map_err(NotRegistered::Git)?,
    }
    let path = Path::new(&worktree.path);
    let other = |what: &str, path: &Path, error: String| {
        NotRegistered::Other(format!("cannot {what} {}: {error}", path.display()))
    };
    if fs::symlink_metadata(path).is_ok() {
        discard(git, path).map_err(|error| other("remove", path, error))?;
    }
    if let Some(folder) = path.parent() {
        files::create_private_folders(folder).map_err(|error| other("make", folder, error.to_string()))?;
    }
    // Twice `--force`: what a killed git had begun may still be registered for this path, and locked.
    let add =
        ["worktree", "add", "--force", "--force", "--no-checkout", "--", &worktree.path, &worktree.branch];
    git.text(&add).map(drop).map_err(NotRegistered::Git)
}

/// Removes what a killed git has registered of worktrees of this run, if other calls of git fail because of it.
fn remove_half_made(worktree: &Worktree) {
    let Some(of_run) = Path::new(&worktree.path).parent() else { return };
    let registered = fs::read_dir(Path::new(&worktree.repository).join("worktrees"));
    for entry in registered.into_iter().flatten().flatten() {
        let read = |name: &str| {
            files::read_text(&entry.path().join(name), files::MAX_SETTINGS_BYTES).unwrap_or_default()
        };
        if Path::new(read("gitdir").trim_end()).starts_with(of_run) && read("commondir").is_empty() {
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}

/// Removes the locks that a killed git has left in the worktree of a worker, whatever they are called. With them, later calls
/// of git would fail there. Only locks from before `time` are removed: none of the programs of an earlier attempt runs any more.
pub fn remove_locks_from_before(time: SystemTime, worktree: &Worktree) {
    // Where its own file `.git` leads, an agent may have changed.
    let Some(registration) = registration(Path::new(&worktree.repository), Path::new(&worktree.path)) else {
        return;
    };
    let of_branch = Path::new(&worktree.repository).join(format!("refs/heads/{}.lock", worktree.branch));
    for lock in locks_in(&registration.folder).into_iter().chain([of_branch]) {
        let modified = fs::symlink_metadata(&lock).and_then(|data| data.modified());
        if modified.is_ok_and(|modified| modified < time) {
            let _ = fs::remove_file(&lock);
        }
    }
}

/// The locks in what git keeps of one worktree. Links are not followed.
fn locks_in(folder: &Path) -> Vec<PathBuf> {
    let (mut locks, mut folders) = (Vec::new(), vec![folder.to_owned()]);
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
            match entry.file_type() {
                Ok(kind) if kind.is_dir() => folders.push(entry.path()),
                Ok(_) if entry.path().extension().is_some_and(|end| end == "lock") => {
                    locks.push(entry.path())
                }
                _ => {}
            }
        }
    }
    locks
}

/// Notes for good that a worktree is whole, and whose it is: the run that this branch is named after.
pub fn finish(mark: &Path, branch: &str) -> io::Result<()> {
    let mut options = files::private_options();
    let mut file = files::open_plain_as(options.write(true).create(true).truncate(true), mark)?;
    file.write_all(branch.as_bytes())?;
    file.sync_all()?;
    match mark.parent() {
        Some(folder) if cfg!(unix) => files::open_folder(folder)?.sync_all(),
        _ => Ok(()),
    }
}
