//! Removes a run: its journal, payloads, debug files, task folders, git refs and worktrees.
//!
//! What only the journal knows, its worktrees and refs, is removed first. Then goes the first segment of the journal, and
//! with it the run. So a removal that was interrupted can be repeated: either the run is still there, or what is left of
//! it is found by the names of its files.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use raymond_core::run::Run;
use raymond_core::worktree::Worktree;

use crate::git::repository::Repository;
use crate::git::worktrees::{Kept, Unsaved, Worktrees, unsaved};
use crate::git::{Git, SHORT_PATIENCE, snapshots};
use crate::store::StateDir;

/// Below this are the refs with what was put aside for runs.
pub const KEPT_REFS: &str = "refs/raymond-kept";

/// What belongs to a run and can be removed.
#[derive(Debug)]
pub struct Remains {
    pub id: String,
    /// In the order in which they are removed.
    pub files: Vec<PathBuf>,
    pub bytes: u64,
    pub worktrees: Vec<Worktree>,
    /// How many of the worktrees are still there.
    pub worktrees_there: usize,
    /// With the repository that each is in.
    pub refs: Vec<(PathBuf, String)>,
    /// Refs that hold what was not committed.
    pub kept_refs: Vec<(PathBuf, String)>,
    places: Worktrees,
    /// The file by which the rest is known for this user's.
    mark: PathBuf,
}

impl Remains {
    /// Everything that is there of a run. `run` is its state, if its journal can be read.
    pub fn of(dir: &StateDir, id: &str, run: Option<&Run>) -> io::Result<Self> {
        let files = dir.files_of(id).map_err(|error| io::Error::new(io::ErrorKind::InvalidInput, error))?;
        let files: Vec<PathBuf> =
            files.into_iter().filter(|path| fs::symlink_metadata(path).is_ok()).collect();
        let places = Worktrees::new(dir.worktrees(id), id);
        let worktrees: Vec<Worktree> = match run {
            Some(run) => run.own_worktrees().cloned().collect(),
            None => places.found(),
        };
        let folders = run.map(|run| PathBuf::from(&run.cwd)).into_iter();
        let repositories = repositories(folders.chain([dir.path().to_owned()]), &worktrees);
        let refs = |below: &str| {
            let of = |repository: &PathBuf| refs_below(repository, &format!("{below}/{id}"));
            let all = repositories.iter().map(of).collect::<io::Result<Vec<_>>>();
            all.map(|all| all.into_iter().flatten().collect())
        };
        Ok(Self {
            id: id.to_owned(),
            bytes: files.iter().map(|path| size_of(path)).sum(),
            files,
            refs: refs(snapshots::REFS)?,
            kept_refs: refs(KEPT_REFS)?,
            worktrees_there: worktrees.iter().filter(is_there).count(),
            worktrees,
            places,
            mark: dir.mark(id),
        })
    }

    /// The worktrees that stay because something would be lost with them.
    pub fn unsaved(&self) -> Vec<Kept> {
        let there = self.worktrees.iter().filter(is_there);
        let kept = |worktree: &Worktree| {
            let why = unsaved(worktree)?;
            Some(Kept { path: worktree.path.clone(), branch: worktree.branch.clone(), why })
        };
        there.filter_map(kept).collect()
    }

    /// Removes everything but unsaved work, which is returned. The caller holds the run's lease.
    pub fn remove(&self, how: Unsaved) -> io::Result<Vec<Kept>> {
        let kept = self.places.tidy(self.worktrees.iter(), how);
        let dropped = if how == Unsaved::Discard { self.kept_refs.as_slice() } else { &[] };
        for (repository, name) in self.refs.iter().chain(dropped) {
            let git = Git::of_repository(repository);
            git.text(&["update-ref", "-d", name]).map_err(io::Error::other)?;
        }
        // It stays with what stays, so that a later call can remove that.
        for path in self.files.iter().filter(|path| kept.is_empty() || **path != self.mark) {
            remove(path)
                .map_err(|error| io::Error::new(error.kind(), format!("{}: {error}", path.display())))?;
        }
        if kept.is_empty() {
            self.places.remove_marks();
        }
        Ok(kept)
    }
}

fn is_there(worktree: &&Worktree) -> bool {
    Path::new(&worktree.path).exists()
}

/// The repositories that a run may have worked in.
fn repositories(folders: impl Iterator<Item = PathBuf>, worktrees: &[Worktree]) -> Vec<PathBuf> {
    let of_folder = |folder: PathBuf| {
        let existing = folder.ancestors().find(|folder| folder.is_dir())?.to_owned();
        Repository::around(&existing).ok().map(|found| found.common)
    };
    let of_worktrees = worktrees.iter().map(|worktree| PathBuf::from(&worktree.repository));
    let mut all: Vec<PathBuf> =
        folders.filter_map(of_folder).chain(of_worktrees).filter(|path| path.is_dir()).collect();
    all.sort();
    all.dedup();
    all
}

/// The ref of this name, and the refs below it. A repository in which git finds no way has none.
fn refs_below(repository: &Path, name: &str) -> io::Result<Vec<(PathBuf, String)>> {
    let git = Git::of_repository(repository).patience(SHORT_PATIENCE);
    match git.text(&["for-each-ref", "--format=%(refname)", name]) {
        Err(error) if error.is_no_answer() => Err(io::Error::other(error)),
        listed => Ok(listed
            .unwrap_or_default()
            .lines()
            .map(|name| (repository.to_owned(), name.to_owned()))
            .collect()),
    }
}

/// The bytes in a file, or in all files of a folder. Links are not followed.
fn size_of(path: &Path) -> u64 {
    let Ok(data) = fs::symlink_metadata(path) else { return 0 };
    if !data.is_dir() {
        return data.len();
    }
    let entries = fs::read_dir(path).into_iter().flatten().flatten();
    entries.map(|entry| size_of(&entry.path())).sum()
}

fn remove(path: &Path) -> io::Result<()> {
    let removed = match fs::symlink_metadata(path) {
        Ok(data) if data.is_dir() => fs::remove_dir_all(path),
        Ok(_) => fs::remove_file(path),
        Err(error) => Err(error),
    };
    match removed {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        other => other,
    }
}
