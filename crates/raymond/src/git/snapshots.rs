//! Snapshots of working folders: what a step has left, as a commit on a ref of the run's own.
//!
//! Files are added to an index of Raymond's own, which begins as a copy of the user's, so that git need not read files
//! that it knows. The user's index, HEAD, branches and stash are never written. A commit is on the ref before the journal
//! names it, so `git gc` keeps it.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

use raymond_core::snapshot::FilesSnapshot;

use super::adding::add_all;
use super::hidden::{self, unhide};
use super::replaced::add_what_is_in_the_way;
use super::repository::Repository;
use super::task_files::{self, TaskFolder};
use super::worktrees::discard;
use super::{Git, GitError};
use crate::files;

/// Below this are the refs with the snapshots of runs.
pub const REFS: &str = "refs/raymond";
/// How long it may take to read all files of a folder.
pub(super) const ADDING_LIMIT: Duration = Duration::from_secs(10 * 60);
/// Settings for the snapshots alone: what only warns people must not fail.
const SETTINGS: [&str; 3] =
    ["core.safecrlf=false", "core.untrackedCache=false", "core.logAllRefUpdates=false"];

/// Names of files are written as they are, and only those with control characters in quotes.
const PLAIN_NAMES: &[&str] = &["-c", "core.quotePath=false"];

/// What the folder of the indexes is called, with something behind it that differs from process to process.
pub const INDEXES: &str = ".snapshots-";

/// The ref with the snapshots of a run.
pub fn ref_of(run: &str) -> String {
    format!("{REFS}/{run}")
}

/// Takes the snapshots of a run. Steps that end at the same time may share it.
#[derive(Debug)]
pub struct Snapshots {
    run: String,
    /// Where the indexes are, for this process alone.
    indexes: PathBuf,
    /// Raymond's own folder, which is no part of the files.
    own: PathBuf,
    /// The folder in which the run began, if its repository is the one for all folders inside of it.
    began_in: Option<PathBuf>,
    folders: Mutex<BTreeMap<PathBuf, Arc<Mutex<Folder>>>>,
    /// By agent. That of an agent whose snapshot is being taken is not in it.
    task_folders: Mutex<BTreeMap<String, TaskFolder>>,
    /// How many indexes of task folders there have been.
    task_indexes: AtomicU64,
    /// The tree without files in each repository.
    empty_trees: Mutex<BTreeMap<PathBuf, String>>,
    /// Held while a ref is moved on.
    chain: Mutex<()>,
    warned: Mutex<BTreeSet<String>>,
}

/// The top folder of a worktree.
#[derive(Debug)]
struct Folder {
    repository: Repository,
    index: PathBuf,
    /// The user's index as it was when it was last copied.
    copied: Option<(SystemTime, u64)>,
    /// The tree of the index, as far as it is up to date.
    tree: Option<String>,
    /// The last snapshot of it, with its tree.
    last: Option<(String, String)>,
    told_of_filters: bool,
}

impl Snapshots {
    /// `known` are the last snapshots of folders that the journal names.
    pub fn new(
        run: &str,
        indexes: PathBuf,
        own: PathBuf,
        began_in: Option<&Path>,
        known: &BTreeMap<String, String>,
    ) -> Self {
        remove_left(&indexes);
        let folders = Mutex::default();
        let snapshots = Self {
            run: run.to_owned(),
            indexes,
            own,
            began_in: began_in.map(Path::to_owned),
            folders,
            task_folders: Mutex::default(),
            task_indexes: AtomicU64::new(0),
            empty_trees: Mutex::default(),
            chain: Mutex::default(),
            warned: Mutex::default(),
        };
        for (top, commit) in known {
            // A folder that is gone, or in which git does not work any more, begins anew.
            if let Ok(folder) = snapshots.folder(Path::new(top)) {
                let mut folder = lock(&folder);
                let tree =
                    folder.git().text(&["rev-parse", "--verify", "--quiet", &format!("{commit}^{{tree}}")]);
                folder.last = tree.ok().map(|tree| (commit.clone(), tree));
            }
        }
        snapshots
    }

    /// The top folder of the worktree that a folder is in.
    pub fn top_of(&self, cwd: &Path) -> Result<PathBuf, String> {
        let folder = self.folder(cwd)?;
        Ok(lock(&folder).repository.top.clone())
    }

    /// What to say about the snapshots of a folder: its files are not in them, because it is in a repository inside of the
    /// one in which the run began, or they are there without the filters that the repository names.
    pub fn notes(&self, cwd: &Path) -> Vec<String> {
        let nested = Repository::of_run(cwd, self.began_in.as_deref()).ok().and_then(|found| found.nested);
        let nested = nested.map(|nested| {
            format!(
                "{} is a repository of its own inside the one in which the run began, so snapshots have its commit and not its \
                 files",
                nested.display()
            )
        });
        let Ok(folder) = self.folder(cwd) else { return nested.into_iter().collect() };
        let filters = lock(&folder).about_filters();
        let filters = filters.map(|about| format!("snapshots have files as they are: {about}"));
        nested.into_iter().chain(filters).collect()
    }

    /// Takes a snapshot of a folder that has none yet, so that what the first step changes can be told.
    pub fn before_step(&self, cwd: &Path, step: u64) -> Result<(), String> {
        let folder = self.folder(cwd)?;
        let mut folder = lock(&folder);
        folder.forget_lost();
        match folder.last {
            Some(_) => Ok(()),
            None => self.take(&mut folder, &format!("{} before step {step}", self.run)).map(drop),
        }
    }

    /// Takes a snapshot of a folder, or returns the last one if nothing has changed since.
    pub fn after_step(&self, cwd: &Path, about: &str, shared: bool) -> Result<FilesSnapshot, String> {
        let folder = self.folder(cwd)?;
        let mut folder = lock(&folder);
        let before = folder.last.as_ref().map(|(commit, _)| commit.clone());
        let commit = self.take(&mut folder, &format!("{} {about}", self.run))?;
        Ok(FilesSnapshot {
            commit,
            before,
            folder: folder.repository.top.to_string_lossy().into_owned(),
            repository: folder.repository.common.to_string_lossy().into_owned(),
            shared,
            task_folder: None,
        })
    }

    /// Keeps the files in the task folder of an agent that works in `cwd`, and returns their tree.
    pub fn of_task_folder(
        &self,
        cwd: &Path,
        (agent, task_folder): (&str, &Path),
        about: &str,
    ) -> Result<String, String> {
        let failed =
            |error: &dyn std::fmt::Display| format!("no snapshot of {}: {error}", task_folder.display());
        let repository = lock(&*self.folder(cwd)?).repository.clone();
        crate::files::create_private_folders(&self.indexes).map_err(|error| failed(&error))?;
        let known = lock(&self.task_folders).remove(agent);
        let mut known = known.unwrap_or_else(|| {
            let number = self.task_indexes.fetch_add(1, Ordering::Relaxed);
            TaskFolder::new(self.indexes.join(format!("task-{number}.index")))
        });
        let known_empty = lock(&self.empty_trees).get(&repository.common).cloned();
        let empty = match known_empty {
            Some(empty) => empty,
            None => task_files::empty_tree(&repository).map_err(|error| failed(&error))?,
        };
        lock(&self.empty_trees).insert(repository.common.clone(), empty.clone());
        let git = Git::in_repository(&repository).settings(&SETTINGS);
        let keep = |tree: &str| {
            let _chain = lock(&self.chain);
            let message = format!("{} {about}, its task folder", self.run);
            add_commit(&git, &task_files::ref_of(&self.run), tree, &message, None).map(drop)
        };
        let tree = known.keep((&repository, &empty), task_folder, keep).map_err(|error| failed(&error))?;
        lock(&self.task_folders).insert(agent.to_owned(), known);
        Ok(tree)
    }

    /// The tree of all files in a worktree that git does not ignore. It is on no ref, so `git gc` may remove it some day.
    pub fn tree_of(&self, top: &Path) -> Result<String, String> {
        let folder = self.folder(top)?;
        let tree = lock(&folder).tree(&self.indexes, &self.own);
        tree.map_err(|error| format!("the files in {} cannot be read: {error}", top.display()))
    }

    /// Whether this is said for the first time.
    pub fn is_news(&self, warning: &str) -> bool {
        lock(&self.warned).insert(warning.to_owned())
    }

    fn folder(&self, cwd: &Path) -> Result<Arc<Mutex<Folder>>, String> {
        if let Some(known) = lock(&self.folders).get(cwd) {
            return Ok(Arc::clone(known));
        }
        let repository = Repository::of_run(cwd, self.began_in.as_deref())
            .map_err(|error| format!("no snapshots of {}: {error}", cwd.display()))?
            .repository;
        let mut folders = lock(&self.folders);
        let number = folders.len();
        let top = repository.top.clone();
        let new =
            || Arc::new(Mutex::new(Folder::new(repository, self.indexes.join(format!("{number}.index")))));
        let folder = Arc::clone(folders.entry(top).or_insert_with(new));
        folders.insert(cwd.to_owned(), Arc::clone(&folder));
        Ok(folder)
    }

    fn take(&self, folder: &mut Folder, message: &str) -> Result<String, String> {
        let top = folder.repository.top.clone();
        let failed = |error: GitError| format!("no snapshot of {}: {error}", top.display());
        let tree = folder.tree(&self.indexes, &self.own).map_err(failed)?;
        if let Some((commit, last)) = &folder.last
            && *last == tree
        {
            return Ok(commit.clone());
        }
        let _chain = lock(&self.chain);
        let commit = folder.commit(&ref_of(&self.run), &tree, message).map_err(failed)?;
        folder.last = Some((commit.clone(), tree));
        Ok(commit)
    }
}

/// What a killed process has left: nothing uses it any more, because this process has the run's lease.
fn remove_left(indexes: &Path) {
    let Some(folder) = indexes.parent() else { return };
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        if entry.file_name().to_string_lossy().starts_with(INDEXES) {
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Folder {
    fn new(repository: Repository, index: PathBuf) -> Self {
        Self { repository, index, copied: None, tree: None, last: None, told_of_filters: false }
    }

    fn git(&self) -> Git {
        Git::in_repository(&self.repository).settings(&SETTINGS)
    }

    /// What to say about filters that are not run, once.
    fn about_filters(&mut self) -> Option<String> {
        if std::mem::replace(&mut self.told_of_filters, true) {
            return None;
        }
        self.git().call(&["add"]).ok()?.about_filters()
    }

    /// Forgets the last snapshot if the repository does not have it. It may have been made anew since.
    fn forget_lost(&mut self) {
        let Some((commit, _)) = &self.last else { return };
        // Most snapshots are not packed, and then git need not be asked.
        let (start, rest) = commit.split_at_checked(2).unwrap_or((commit, ""));
        if self.repository.common.join("objects").join(start).join(rest).is_file() {
            return;
        }
        let found = self.git().text(&["cat-file", "-e", &format!("{commit}^{{commit}}")]);
        if matches!(found, Err(GitError::Failed { .. })) {
            (self.last, self.tree, self.copied) = (None, None, None);
        }
    }

    /// The tree of all files that git does not ignore.
    fn tree(&mut self, indexes: &Path, own: &Path) -> Result<String, GitError> {
        let is_new = self.copy_index(indexes).map_err(|error| GitError::NotStarted(error.to_string()))?;
        let git = self.git().variable("GIT_INDEX_FILE", &self.index).patience(ADDING_LIMIT);
        let top = &self.repository.top;
        if is_new {
            unhide(&git, top)?;
        }
        let own = own.strip_prefix(top).ok().and_then(Path::to_str).filter(|own| !own.is_empty());
        // A try that fails may have added a part.
        let known = self.tree.take().filter(|_| !is_new);
        let has_changed = add_all(&git, top, own, known.is_none())?;
        let tree = match known {
            Some(known) if !has_changed => known,
            _ => git.text(&["write-tree"])?,
        };
        self.tree = Some(tree.clone());
        Ok(tree)
    }

    /// Copies the user's index if it has changed. Its time tells git which entries it must not trust. Returns whether it did.
    fn copy_index(&mut self, indexes: &Path) -> io::Result<bool> {
        let path = self.repository.own.join("index");
        let data = match fs::metadata(&path) {
            Ok(data) => data,
            // Nothing was added to git yet.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                crate::files::create_private_folders(indexes)?;
                return Ok(!self.index.exists());
            }
            Err(error) => return Err(error),
        };
        let version = (data.modified()?, data.len());
        if self.copied == Some(version) && self.index.exists() {
            return Ok(false);
        }
        crate::files::create_private_folders(indexes)?;
        hidden::copy(&path, &self.index)?;
        self.copied = Some(version);
        Ok(true)
    }

    /// Puts a commit on the ref.
    fn commit(&self, name: &str, tree: &str, message: &str) -> Result<String, GitError> {
        // The history of a branch begins in another run, whose ref has the snapshots up to there.
        let before = self.last.as_ref().map(|(commit, _)| commit.as_str());
        add_commit(&self.git(), name, tree, message, before)
    }
}

/// Puts a commit on a ref. `before` comes before the first one.
fn add_commit(
    git: &Git,
    name: &str,
    tree: &str,
    message: &str,
    before: Option<&str>,
) -> Result<String, GitError> {
    let git = ["AUTHOR", "COMMITTER"].iter().fold(git.clone(), |git, who| {
        git.variable(&format!("GIT_{who}_NAME"), "Raymond")
            .variable(&format!("GIT_{who}_EMAIL"), "raymond@localhost")
    });
    let tip = git.text(&["rev-parse", "--verify", "--quiet", name]).ok();
    let mut make = vec!["commit-tree", "-m", message];
    make.extend(tip.as_deref().or(before).iter().flat_map(|parent| ["-p", parent]));
    make.push(tree);
    let commit = git.text(&make)?;
    git.set_own_ref(name, &commit, tip.as_deref())?;
    Ok(commit)
}

impl Drop for Snapshots {
    /// Another process makes its own indexes.
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.indexes);
    }
}

/// What the worktree of a branch is made for: an event that will name it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Purpose {
    pub run: String,
    pub seq: u64,
}

/// What comes before the run and the number in the lock of a worktree.
const PURPOSE: &str = "raymond makes it for event";

impl std::fmt::Display for Purpose {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{PURPOSE} {} of {}", self.seq, self.run)
    }
}

impl Purpose {
    fn read(reason: &str) -> Option<Self> {
        let (seq, run) = reason.strip_prefix(PURPOSE)?.trim().split_once(" of ")?;
        Some(Self { run: run.to_owned(), seq: seq.parse().ok()? })
    }
}

/// The file in which git's folder of a worktree has the id of the run that it was made for.
const OWNER: &str = "raymond-run";
const MAX_OWNER_BYTES: u64 = 4096;

/// The event is there: from now on the worktree is the run's, and otherwise like any other.
pub fn unlock(dir: &Path, run: &str) {
    let Ok(repository) = Repository::around(dir) else { return };
    // As long as it is locked, the lock names the run. That it cannot be removed so easily then is all that differs.
    if !repository.is_main() && files::write_private(&repository.own.join(OWNER), run.as_bytes()).is_ok() {
        let _ = Git::in_folder(dir).text(&[OsStr::new("worktree"), OsStr::new("unlock"), dir.as_os_str()]);
    }
}

/// Does what [`unlock`] does, if the command that made a worktree for this run was killed before it. From then on nothing in the
/// worktree is taken for half made.
pub fn finish_making(folder: &Path, run: &str) {
    let is_locked = |top: &Path| Repository::around(top).is_ok_and(|found| found.own.join("locked").exists());
    if let Some((top, _)) = made_for(folder).filter(|(top, owner)| owner == run && is_locked(top)) {
        unlock(&top, run);
    }
}

/// The worktree around a folder, with the run whose files were restored into it when it was made.
pub fn made_for(folder: &Path) -> Option<(PathBuf, String)> {
    let repository = Repository::around(folder).ok().filter(|repository| !repository.is_main())?;
    let read = |name| files::read_text(&repository.own.join(name), MAX_OWNER_BYTES).ok();
    let run = read(OWNER).or_else(|| Some(Purpose::read(read("locked")?.trim())?.run))?;
    Some((repository.top, run))
}

/// Puts the files of a snapshot back.
pub struct Restoring {
    folder: Folder,
    own: PathBuf,
    indexes: PathBuf,
}

impl Restoring {
    /// `top` is the top folder of the worktree that the snapshot is of, `own` is Raymond's own folder, and `indexes` a
    /// folder for this alone, which is removed.
    pub fn new(top: &Path, own: PathBuf, indexes: PathBuf) -> Result<Self, GitError> {
        let repository = Repository::around(top)?;
        if top.canonicalize().is_ok_and(|top| top != repository.top) {
            let error = format!("{} is not the top folder of a repository any more", top.display());
            return Err(GitError::NotStarted(error));
        }
        let index = indexes.join("0.index");
        Ok(Self { folder: Folder::new(repository, index), own, indexes })
    }

    /// Makes a worktree with the files of a snapshot. Its HEAD is the commit that was checked out at that time, as far as
    /// git remembers, so that what was not committed then is not committed in it.
    ///
    /// It stays locked, and the lock says what it is for, until [`unlock`]. So a worktree that a killed command has left
    /// can be told from one with work in it.
    pub fn into_worktree(
        &self,
        commit: &str,
        dir: &Path,
        time: &str,
        purpose: &Purpose,
    ) -> Result<(), GitError> {
        let git = self.folder.git();
        let then = git.text(&["rev-parse", "--verify", "--quiet", &format!("HEAD@{{{time}}}")]);
        let head = then.ok().filter(|head| !head.is_empty()).unwrap_or_else(|| "HEAD".to_owned());
        let (dir_text, reason) = (dir.to_string_lossy(), purpose.to_string());
        let add =
            ["worktree", "add", "--quiet", "--detach", "--lock", "--reason", &reason, "--", &dir_text, &head];
        git.patience(ADDING_LIMIT).text(&add)?;
        let git = Git::in_folder(dir).settings(&SETTINGS).patience(ADDING_LIMIT);
        git.text(&["read-tree", "-u", "--reset", commit])?;
        git.text(&["reset", "--quiet", "--mixed"]).map(drop)
    }

    /// What a worktree in this folder was made for, if it is still locked.
    pub fn purpose_of(&self, dir: &Path) -> Option<Purpose> {
        let listed = self.folder.git().text(&["worktree", "list", "--porcelain"]).ok()?;
        let real = |path: &Path| path.canonicalize().unwrap_or_else(|_| path.to_owned());
        let is_meant = |entry: &&str| {
            let path = entry.lines().find_map(|line| line.strip_prefix("worktree "));
            path.is_some_and(|path| real(Path::new(path)) == real(dir))
        };
        let entry = listed.split("\n\n").find(is_meant)?;
        Purpose::read(entry.lines().find_map(|line| line.strip_prefix("locked "))?)
    }

    /// Removes a worktree that a killed command has left.
    pub fn remove_worktree(&self, dir: &Path) -> Result<(), String> {
        discard(&self.folder.git(), dir)
    }

    /// Puts the files back where they were. The index and HEAD stay as they are, and so do ignored files where the snapshot has
    /// none. Returns the ref below `kept` that has what was replaced, if that was in none of the `saved` commits and not
    /// committed; without `force` nothing is done then, and the inner error says what it is.
    pub fn in_place(
        mut self,
        commit: &str,
        saved: &[&String],
        kept: &str,
        force: bool,
    ) -> Result<Result<Option<String>, String>, GitError> {
        let now = self.folder.tree(&self.indexes, &self.own)?;
        let git = self.folder.git().variable("GIT_INDEX_FILE", &self.folder.index).patience(ADDING_LIMIT);
        let ignored = add_what_is_in_the_way(&git, &self.folder.repository.top, &now, commit)?;
        let all = if ignored.is_empty() { now.clone() } else { git.text(&["write-tree"])? };
        // Git removes what no ref has any more, as after a removal of the run that was interrupted.
        let has_ref = |saved: &&str| {
            let list = ["for-each-ref", "--count=1", &format!("--contains={saved}"), REFS, "refs/heads"];
            git.text(&list).is_ok_and(|found| !found.trim().is_empty())
        };
        let saved = saved.iter().map(|saved| saved.as_str()).filter(has_ref);
        let keepers: Vec<&str> = [commit, "HEAD"].into_iter().chain(saved).collect();
        let is_tree_of =
            |name: &&str| git.text(&["rev-parse", &format!("{name}^{{tree}}")]).is_ok_and(|tree| tree == now);
        let is_saved = keepers.iter().any(is_tree_of);
        let mut ignored: BTreeSet<String> =
            ignored.iter().map(|name| String::from_utf8_lossy(name).into_owned()).collect();
        for keeper in &keepers {
            if ignored.is_empty() {
                break;
            }
            // A repository without a commit has no HEAD.
            let Ok(changed) = changed(&git, keeper, &all) else { continue };
            ignored = changed.into_iter().filter(|name| ignored.contains(name)).collect();
        }
        let mut kept_as = None;
        if !is_saved || !ignored.is_empty() {
            if !force {
                let others =
                    if is_saved { Vec::new() } else { changed(&git, "HEAD", &now).unwrap_or_default() };
                return Ok(Err(first_of(&[others, ignored.into_iter().collect()].concat())));
            }
            let listed = git.text(&["for-each-ref", "--format=%(refname)", kept])?;
            let number = listed.lines().filter_map(|name| name.rsplit('/').next()?.parse::<u64>().ok()).max();
            let name = format!("{kept}/{}", number.unwrap_or(0) + 1);
            self.folder.commit(&name, &all, "Files that were replaced")?;
            kept_as = Some(name);
        }
        let target = self.with_own_folder(&git, commit)?;
        git.text(&["read-tree", "-u", "--reset", &target])?;
        Ok(Ok(kept_as))
    }

    /// A commit, or its tree with Raymond's own folder as it is now: settings in it may be part of the repository, and snapshots do not
    /// look at them.
    fn with_own_folder(&self, git: &Git, commit: &str) -> Result<String, GitError> {
        let own = self.own.strip_prefix(&self.folder.repository.top).ok().and_then(Path::to_str);
        let Some(own) = own.filter(|own| !own.is_empty()) else { return Ok(commit.to_owned()) };
        let pattern = format!(":(top,literal){own}");
        let in_index = git.bytes(&["ls-files", "-z", "--", &pattern], &[])?;
        let in_commit = git.bytes(&["ls-tree", "-r", "-z", "--name-only", commit, "--", own], &[])?;
        if in_index.is_empty() && in_commit.is_empty() {
            return Ok(commit.to_owned());
        }
        git.bytes(&["update-index", "-q", "--add", "--remove", "-z", "--stdin"], &in_index)?;
        let entries = git.bytes(&["ls-files", "-z", "--stage", "--", &pattern], &[])?;
        let git = git.clone().variable("GIT_INDEX_FILE", self.indexes.join("target.index"));
        git.text(&["read-tree", commit])?;
        git.bytes(&["update-index", "--force-remove", "-z", "--stdin"], &in_commit)?;
        git.bytes(&["update-index", "-z", "--index-info"], &entries)?;
        git.text(&["write-tree"])
    }
}

/// The names of the files that differ between two trees.
fn changed(git: &Git, before: &str, after: &str) -> Result<Vec<String>, GitError> {
    let compare = ["diff-tree", "-r", "-z", "--name-only", "--no-renames", before, after, "--"];
    let names = git.bytes(&compare, &[])?;
    let names = names.split(|byte| *byte == 0).filter(|name| !name.is_empty());
    Ok(names.map(|name| String::from_utf8_lossy(name).into_owned()).collect())
}

impl Drop for Restoring {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.indexes);
    }
}

/// The first names, in one line.
pub fn first_of(names: &[String]) -> String {
    const SHOWN: usize = 3;
    let first = names[..names.len().min(SHOWN)].join(", ");
    match names.len().saturating_sub(SHOWN) {
        0 => first,
        more => format!("{first} and {more} more"),
    }
}

/// The changes between two commits, as git shows them, at most so many bytes; with a list of the files first.
pub fn diff(repository: &Path, before: &str, after: &str, most: usize) -> Result<(String, bool), GitError> {
    let git = Git::of_repository(repository);
    // In a longer form, another git would look into submodules.
    let plain = ["diff", "--no-ext-diff", "--no-textconv", "--submodule=short", "--no-color"];
    let compare = ["--stat", "--patch", before, after, "--"];
    let mut bytes = git.bytes(&[PLAIN_NAMES, &plain, &compare].concat(), &[])?;
    let is_cut = bytes.len() > most;
    bytes.truncate(most);
    Ok((String::from_utf8_lossy(&bytes).into_owned(), is_cut))
}
