//! Removes a run: its journal, payloads, debug files, task folders, git refs and worktrees.
//!
//! What only the journal knows, its worktrees and refs, is removed first. Then the first segment of the journal gets another
//! name, and with that the run is gone. So a removal that was interrupted can be repeated: either the run is still there, or what
//! is left of it is found by the names of its files, and that segment shows whose they are.
//!
//! Each repository is asked once for the refs of all runs, so that removing many runs takes as long for each as removing one.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use raymond_core::run::Run;
use raymond_core::worktree::Worktree;

use crate::git::repository::Repository;
use crate::git::snapshots::finish_making;
use crate::git::worktrees::{Kept, Unsaved, Worktrees, unsaved};
use crate::git::{Git, SHORT_PATIENCE, snapshots, task_files};
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
    /// Where its agents worked.
    folders: BTreeSet<PathBuf>,
    /// The first segment of the journal, and what it is called while the rest is removed.
    journal: (PathBuf, PathBuf),
    /// The file by which the rest is known for a run's.
    proof: PathBuf,
}

/// The refs of all runs below [`ALL_REFS`], by repository and run.
#[derive(Debug, Default)]
pub struct KnownRefs(RefCell<BTreeMap<PathBuf, Result<RefsByRun, String>>>);

type RefsByRun = BTreeMap<String, Vec<String>>;

impl KnownRefs {
    /// The refs of a run that begin with this. That git does not answer is an error.
    fn of(&self, repository: &Path, below: &str, id: &str) -> io::Result<Vec<(PathBuf, String)>> {
        let mut known = self.0.borrow_mut();
        let known = known.entry(repository.to_owned()).or_insert_with(|| list_refs(repository));
        let known = known.as_ref().map_err(|error| io::Error::other(error.clone()))?;
        let names = known.get(id).into_iter().flatten().filter(|name| run_of(name, below).is_some());
        Ok(names.map(|name| (repository.to_owned(), name.clone())).collect())
    }
}

/// What holds refs of runs: a run's are named by its id, or below it.
const ALL_REFS: [&str; 3] = [snapshots::REFS, task_files::REFS, KEPT_REFS];

/// A repository in which git finds no way has none.
fn list_refs(repository: &Path) -> Result<RefsByRun, String> {
    let list = [&["for-each-ref", "--format=%(refname)"], &ALL_REFS[..]].concat();
    let listed = match Git::of_repository(repository).patience(SHORT_PATIENCE).text(&list) {
        Err(error) if error.is_no_answer() => return Err(error.to_string()),
        listed => listed.unwrap_or_default(),
    };
    let mut refs = RefsByRun::new();
    for name in listed.lines() {
        if let Some(id) = ALL_REFS.iter().find_map(|below| run_of(name, below)) {
            refs.entry(id.to_owned()).or_default().push(name.to_owned());
        }
    }
    Ok(refs)
}

fn run_of<'n>(name: &'n str, below: &str) -> Option<&'n str> {
    name.strip_prefix(below)?.strip_prefix('/')?.split('/').next()
}

impl Remains {
    /// Everything that is there of a run. `run` is its state, if its journal can be read, and `listed` are the segments that a
    /// listing has shown, if one was made.
    pub fn of(
        dir: &StateDir,
        id: &str,
        (run, listed): (Option<&Run>, Option<&[u32]>),
        known: &KnownRefs,
    ) -> io::Result<Self> {
        let files = match (dir.has_run(id), listed) {
            (true, Some(listed)) => dir.files_with(id, listed),
            (true, None) => dir.files_of(id),
            (false, _) => Ok(Vec::new()),
        };
        let files = files.map_err(|error| io::Error::new(io::ErrorKind::InvalidInput, error))?;
        let is_there = |path: &Path| fs::symlink_metadata(path).is_ok();
        let journal = (dir.path().join(format!("{id}.jsonl")), dir.removed_journal(id));
        let will_be_there = |path: &PathBuf| is_there(path) || *path == journal.1 && is_there(&journal.0);
        let files: Vec<PathBuf> = files.into_iter().filter(will_be_there).collect();
        let places = Worktrees::new(dir.worktrees(id), id);
        let worktrees: Vec<Worktree> = match run {
            Some(run) => run.own_worktrees().cloned().collect(),
            None if dir.has_run(id) => places.found(),
            None => Vec::new(),
        };
        let of_run = run.map(|run| PathBuf::from(&run.cwd));
        let repositories = repositories(of_run.iter().cloned().chain([dir.path().to_owned()]), &worktrees);
        let of_agents = run.iter().flat_map(|run| run.agents.values()).map(|agent| PathBuf::from(&agent.cwd));
        let folders = of_run.into_iter().chain(of_agents).collect();
        let refs = |below: &str| {
            let of = |repository: &PathBuf| known.of(repository, below, id);
            let all = repositories.iter().map(of).collect::<io::Result<Vec<_>>>();
            all.map(|all| all.concat())
        };
        Ok(Self {
            id: id.to_owned(),
            bytes: files.iter().map(|path| size_of(path)).sum(),
            files,
            refs: [refs(snapshots::REFS)?, refs(task_files::REFS)?].concat(),
            kept_refs: refs(KEPT_REFS)?,
            worktrees_there: worktrees.iter().filter(has_folder).count(),
            worktrees,
            places,
            folders,
            journal,
            proof: if dir.own().run(id).is_some() { dir.mark(id) } else { dir.removed_journal(id) },
        })
    }

    /// The worktrees that stay because something would be lost with them.
    pub fn unsaved(&self) -> Vec<Kept> {
        let there = self.worktrees.iter().filter(has_folder);
        let kept = |worktree: &Worktree| {
            let why = unsaved(worktree)?;
            Some(Kept { path: worktree.path.clone(), branch: worktree.branch.clone(), why })
        };
        there.filter_map(kept).collect()
    }

    /// Removes everything but unsaved work, which is returned. The caller holds the run's lease.
    pub fn remove(&self, how: Unsaved) -> io::Result<Vec<Kept>> {
        // Without the journal, a worktree that was made for the run and is still locked would be taken for half made.
        self.folders.iter().for_each(|folder| finish_making(folder, &self.id));
        let kept = self.places.tidy(self.worktrees.iter(), how);
        let dropped = if how == Unsaved::Discard { self.kept_refs.as_slice() } else { &[] };
        for (repository, name) in self.refs.iter().chain(dropped) {
            let git = Git::of_repository(repository);
            git.text(&["update-ref", "-d", name]).map_err(io::Error::other)?;
        }
        let (journal, removed) = &self.journal;
        // The proof stays with what stays, so that a later call can remove that.
        for path in self.files.iter().filter(|path| kept.is_empty() || **path != self.proof) {
            let done = if path == journal { fs::rename(journal, removed) } else { remove(path) };
            done.map_err(|error| io::Error::new(error.kind(), format!("{}: {error}", path.display())))?;
        }
        if kept.is_empty() {
            self.places.remove_marks();
        }
        Ok(kept)
    }
}

fn has_folder(worktree: &&Worktree) -> bool {
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

/// The bytes in a file, or in all files of a folder. Links are not followed.
fn size_of(path: &Path) -> u64 {
    let Ok(data) = fs::symlink_metadata(path) else { return 0 };
    if !data.is_dir() {
        return data.len();
    }
    let entries = fs::read_dir(path).into_iter().flatten().flatten();
    entries.map(|entry| size_of(&entry.path())).sum()
}

/// Removes a file or a folder that need not be there. A link is not followed.
pub(super) fn remove(path: &Path) -> io::Result<()> {
    let removed = match fs::symlink_metadata(path) {
        Ok(data) if data.is_dir() => crate::files::remove_tree(path),
        Ok(_) => fs::remove_file(path),
        Err(error) => Err(error),
    };
    match removed {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        other => other,
    }
}
