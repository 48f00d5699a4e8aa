//! Which repository a folder is in. Raymond looks for it itself, so that git never takes a folder for a repository because
//! of what somebody has put into it.
//!
//! A repository is where a `.git` is: a folder, or a file that leads to one. A folder that only looks like the inside of a
//! repository is an ordinary folder. Repositories of other users are refused as git refuses them, unless the user's own
//! `safe.directory` names them.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use super::{Git, GitError};
use crate::files;

/// How long a file may be that leads to another folder.
const MOST_POINTER_BYTES: u64 = 64 * 1024;
/// The exit code with which git gives up.
const FATAL: i32 = 128;

/// Files that git opens in nearly every call: of a worktree, and of what all worktrees share.
const OF_WORKTREE: [&str; 3] = ["HEAD", "index", "info/sparse-checkout"];
const SHARED: [&str; 8] = [
    "HEAD",
    "packed-refs",
    "shallow",
    "info/attributes",
    "info/exclude",
    "objects/info/alternates",
    "objects/info/commit-graph",
    "objects/pack/multi-pack-index",
];

/// Repositories of others that git would use, so that it is not asked before each call.
static PERMITTED: Mutex<BTreeSet<Repository>> = Mutex::new(BTreeSet::new());
const MOST_PERMITTED: usize = 64;

/// A repository, as it is seen from one of its worktrees.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Repository {
    /// The top folder of the worktree.
    pub top: PathBuf,
    /// Where git keeps what belongs to this worktree: its index and HEAD.
    pub own: PathBuf,
    /// Where git keeps what all worktrees share.
    pub common: PathBuf,
}

/// The repository that a run uses for a folder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OfRun {
    pub repository: Repository,
    /// The top folder of another repository inside of it, which the folder is in. Git does not enter that one.
    pub nested: Option<PathBuf>,
}

impl Repository {
    /// The repository around a folder.
    pub fn around(folder: &Path) -> Result<Self, GitError> {
        let folder = folder
            .canonicalize()
            .map_err(|error| GitError::NotStarted(format!("{}: {error}", folder.display())))?;
        for top in folder.ancestors() {
            let pointer = top.join(".git");
            let Ok(about) = fs::metadata(&pointer) else { continue };
            let own = match about.is_dir() {
                true => Some(pointer.clone()).filter(|own| is_git_folder(own)),
                false => Some(led_to(&pointer)?),
            };
            let Some(own) = own else { continue };
            let own = own.canonicalize().unwrap_or(own);
            let repository = Self { top: top.to_owned(), common: common_of(&own), own };
            repository.check_owner(&pointer)?;
            return Ok(repository);
        }
        Err(refused("not a git repository (or any of the parent directories): .git".to_owned()))
    }

    /// The repository that a run uses for a folder. A run that began in a repository stays in it: an agent can make another
    /// one inside with a few files, and that is none that anybody has chosen. Worktrees of the first repository, and
    /// submodules that git itself has put there, are part of it.
    pub fn of_run(folder: &Path, began_in: Option<&Path>) -> Result<OfRun, GitError> {
        let found = Self::around(folder);
        let Some(first) = began_in.and_then(|began_in| Self::around(began_in).ok()) else {
            return found.map(|repository| OfRun { repository, nested: None });
        };
        match found {
            Ok(found) if first.has_inside(&found) => Ok(OfRun { repository: first, nested: Some(found.top) }),
            Err(_) if folder.canonicalize().is_ok_and(|folder| folder.starts_with(&first.top)) => {
                Ok(OfRun { repository: first, nested: None })
            }
            found => found.map(|repository| OfRun { repository, nested: None }),
        }
    }

    fn has_inside(&self, other: &Self) -> bool {
        let is_inside = other.top != self.top && other.top.starts_with(&self.top);
        let is_worktree = other.common == self.common && registration(&self.common, &other.top).is_some();
        is_inside && !is_worktree && !other.common.starts_with(self.common.join("modules"))
    }

    /// Whether this is the first worktree of the repository, and not one that was added.
    pub fn is_main(&self) -> bool {
        self.own == self.common
    }

    /// Refuses a repository with a pipe or a device in the place of a file that git opens: it would wait for that without end.
    pub fn check_files(&self) -> Result<(), GitError> {
        let of_worktree = OF_WORKTREE.iter().map(|name| self.own.join(name));
        let mut all = of_worktree.chain(SHARED.iter().map(|name| self.common.join(name)));
        match all.find(|file| fs::metadata(file).is_ok_and(|data| !data.is_file())) {
            Some(file) => Err(GitError::NotPlain(file)),
            None => Ok(()),
        }
    }

    /// Who may change the files of a repository decides what git does in it.
    fn check_owner(&self, pointer: &Path) -> Result<(), GitError> {
        if [&self.top, pointer, &self.own, &self.common].into_iter().all(is_own) {
            return Ok(());
        }
        let permitted = || PERMITTED.lock().unwrap_or_else(PoisonError::into_inner);
        if permitted().contains(self) {
            return Ok(());
        }
        // Git knows what else the user has permitted, and says how it is done.
        Git::in_no_repository(&self.top).lets_it_look().text(&["rev-parse", "--git-dir"])?;
        let mut permitted = permitted();
        if permitted.len() >= MOST_PERMITTED {
            permitted.clear();
        }
        permitted.insert(self.clone());
        Ok(())
    }
}

fn refused(words: String) -> GitError {
    GitError::Failed { code: Some(FATAL), words }
}

/// The folder that a file `.git` leads to.
fn led_to(pointer: &Path) -> Result<PathBuf, GitError> {
    let text = files::read_text(pointer, MOST_POINTER_BYTES).unwrap_or_default();
    let target = text.strip_prefix("gitdir:").map(str::trim).filter(|target| !target.is_empty());
    let beside = pointer.parent().unwrap_or(pointer);
    let target = target.map(|target| beside.join(target)).filter(|target| is_git_folder(target));
    target.ok_or_else(|| refused(format!("{} leads to no git repository", pointer.display())))
}

fn is_git_folder(folder: &Path) -> bool {
    let common = common_of(folder);
    folder.join("HEAD").symlink_metadata().is_ok()
        && common.join("objects").is_dir()
        && common.join("refs").exists()
}

/// What all worktrees share is in the folder itself, or where its file says.
fn common_of(own: &Path) -> PathBuf {
    let written = files::read_text(&own.join("commondir"), MOST_POINTER_BYTES).ok();
    let common = written.as_deref().map(str::trim).filter(|text| !text.is_empty());
    let common = common.map_or_else(|| own.to_owned(), |common| own.join(common));
    common.canonicalize().unwrap_or(common)
}

/// What a repository keeps of one of the worktrees that were added to it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Registration {
    /// Where it keeps it.
    pub folder: PathBuf,
    /// The file `.git` of the worktree.
    pointer: PathBuf,
}

impl Registration {
    /// Whether the file of the worktree leads into this folder.
    pub fn leads_into(&self, folder: &Path) -> bool {
        let text = files::read_text(&self.pointer, MOST_POINTER_BYTES).unwrap_or_default();
        text.strip_prefix("gitdir: ").is_some_and(|target| Path::new(target).starts_with(folder))
    }

    /// Lets the file of the worktree lead to its repository, if there is such a file.
    pub fn lead_back(&self) -> io::Result<()> {
        if !fs::symlink_metadata(&self.pointer).is_ok_and(|data| data.is_file()) {
            return Ok(());
        }
        let text = [b"gitdir: ", self.folder.as_os_str().as_encoded_bytes(), b"\n"].concat();
        files::write_private(&self.pointer, &text)
    }
}

/// The worktrees that were added to a repository, whether they are still there or not.
pub fn registrations(common: &Path) -> impl Iterator<Item = Registration> {
    let folders = fs::read_dir(common.join("worktrees")).into_iter().flatten().flatten();
    folders.map(|entry| entry.path()).filter_map(|folder| {
        let written = files::read_text(&folder.join("gitdir"), MOST_POINTER_BYTES).ok()?;
        let pointer = folder.join(Some(written.trim()).filter(|written| !written.is_empty())?);
        Some(Registration { folder, pointer })
    })
}

/// What a repository keeps of a worktree, if it knows it.
pub fn registration(common: &Path, worktree: &Path) -> Option<Registration> {
    let real = |path: &Path| path.canonicalize().unwrap_or_else(|_| path.to_owned());
    let meant = real(worktree);
    registrations(common).find(|known| known.pointer.parent().is_some_and(|top| real(top) == meant))
}

#[cfg(unix)]
fn is_own(path: &Path) -> bool {
    use std::os::unix::fs::MetadataExt;
    let own = rustix::process::geteuid().as_raw();
    // The user who called sudo, as git sees it.
    let caller = || std::env::var("SUDO_UID").ok().and_then(|uid| uid.parse().ok()).filter(|_| own == 0);
    fs::symlink_metadata(path).is_ok_and(|data| data.uid() == own || Some(data.uid()) == caller())
}

/// Only git can tell here.
#[cfg(not(unix))]
fn is_own(_path: &Path) -> bool {
    false
}
