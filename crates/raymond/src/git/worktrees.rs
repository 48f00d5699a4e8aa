//! Worktrees of workers: what is needed for one, and when it is removed again.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use raymond_core::input::NewWorktree;
use raymond_core::worktree::{BRANCH_PREFIX, Wanted, Worktree, branch};

use super::hidden::unhidden;
use super::repository::{OfRun, Repository, registration};
use super::submodules::{self, COMMITS_ALONE};
use super::{Git, GitError};
use crate::files;

/// What the file begins with that says that a worktree was made. No name of a worktree begins with a dot.
const MARK: &str = ".made-";

/// Where the worktrees of a run are made.
#[derive(Clone, Debug)]
pub struct Worktrees {
    /// A folder that belongs to the run alone.
    folder: PathBuf,
    run: String,
    began_in: Option<PathBuf>,
}

impl Worktrees {
    pub fn new(folder: PathBuf, run: &str) -> Self {
        Self { folder, run: run.to_owned(), began_in: None }
    }

    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Whether a link lies in the place of the folder. Raymond makes none, and what it leads to is somebody else's.
    pub fn is_linked_away(&self) -> bool {
        fs::symlink_metadata(&self.folder).is_ok_and(|data| data.is_symlink())
    }

    /// For a run that began in this folder. Repositories inside of the one that is there are not entered.
    #[must_use]
    pub fn of_run_in(self, folder: &Path) -> Self {
        Self { began_in: Some(folder.to_owned()), ..self }
    }

    /// What the worktrees are that an agent asks for which works in `cwd`, or why they cannot be made. Changes nothing.
    pub fn look_up(&self, cwd: &Path, wanted: &[&Wanted]) -> BTreeMap<Wanted, Result<NewWorktree, String>> {
        let wanted: BTreeSet<&Wanted> = wanted.iter().copied().collect();
        if wanted.is_empty() {
            return BTreeMap::new();
        }
        let source = match self.is_linked_away() {
            true => Err(format!("{} is a link; put it away", self.folder.display())),
            false => Source::of(cwd, self),
        };
        let mut commits = BTreeMap::new();
        let found = |wanted: &Wanted| {
            let source = source.as_ref().map_err(Clone::clone)?;
            let commit = commits.entry(wanted.from.clone()).or_insert_with(|| source.commit(&wanted.from));
            self.find(source, &wanted.name, commit.as_ref().map_err(|error| error.clone())?)
        };
        let mut found = found;
        let explained = |name: &str, error: String| format!("`worktree=\"{name}\"`: {error}");
        wanted
            .into_iter()
            .map(|wanted| (wanted.clone(), found(wanted).map_err(|error| explained(&wanted.name, error))))
            .collect()
    }

    fn find(&self, source: &Source, name: &str, commit: &Commit) -> Result<NewWorktree, String> {
        let branch = branch(&self.run, name);
        if source.branches.contains(&branch.to_lowercase()) {
            return Err(format!(
                "there is a branch `{branch}` already; delete or rename it, or use another name"
            ));
        }
        let path = self.folder.join(name);
        if fs::symlink_metadata(&path).is_ok() {
            return Err(format!("{} exists already; move it away, or use another name", path.display()));
        }
        let path = as_text(path)?;
        let cwd = match commit.has_subfolder {
            true => as_text(Path::new(&path).join(&source.subfolder))?,
            false => path.clone(),
        };
        let worktree = Worktree {
            name: name.to_owned(),
            path,
            branch,
            base: commit.id.clone(),
            repository: source.repository.clone(),
        };
        Ok(NewWorktree { worktree, cwd })
    }

    /// The file that says that a worktree was made.
    pub fn mark(&self, name: &str) -> PathBuf {
        self.folder.join(format!("{MARK}{name}"))
    }
}

/// Why a run must not work in a worktree, or remove it: it is another run's. Its mark lies in the folder of the run, and says
/// whose it is, unless an earlier version has made it.
pub fn refused(worktree: &Worktree, mark: &Path) -> Option<String> {
    let run = mark.parent()?.file_name()?.to_str()?;
    let marked = files::read_text(mark, files::MAX_SETTINGS_BYTES).unwrap_or_default();
    let known = [worktree.branch.as_str(), marked.as_str()];
    let other = known.into_iter().find(|known| !known.is_empty() && *known != branch(run, &worktree.name))?;
    let path = &worktree.path;
    Some(format!("{path} is not a folder of {run}: in it, another run works on the branch `{other}`"))
}

fn as_text(path: PathBuf) -> Result<String, String> {
    let not_text = |path: std::ffi::OsString| format!("the path {} is not valid UTF-8", path.display());
    path.into_os_string().into_string().map_err(not_text)
}

/// The repository from which worktrees are made.
struct Source {
    git: Git,
    /// The folder in which git keeps it.
    repository: String,
    /// The agent's folder in its own worktree.
    subfolder: String,
    /// Branches of the run, in lower case: file systems may ignore case.
    branches: BTreeSet<String>,
}

/// A commit to begin with.
struct Commit {
    id: String,
    has_subfolder: bool,
}

impl Source {
    fn of(cwd: &Path, worktrees: &Worktrees) -> Result<Self, String> {
        let found = Repository::of_run(cwd, worktrees.began_in.as_deref()).map_err(|error| match error {
            GitError::Failed { words, .. } => {
                format!(
                    "{} is in no git repository, so it has no worktrees (git says: {words})",
                    cwd.display()
                )
            }
            other => other.to_string(),
        })?;
        let OfRun { repository, nested: None } = found else {
            return Err(is_nested(cwd, &found));
        };
        let git = Git::in_repository(&repository);
        let real = cwd.canonicalize().unwrap_or_else(|_| cwd.to_owned());
        let subfolder = real.strip_prefix(&repository.top).unwrap_or(Path::new(""));
        let listed = format!("refs/heads/{}/", branch(&worktrees.run, "x").trim_end_matches("/x"));
        let branches = git.text(&["for-each-ref", "--format=%(refname)", &listed]);
        let branches = branches.map_err(|error| error.to_string())?;
        let branches = branches.lines().filter_map(|name| name.strip_prefix("refs/heads/"));
        let source = Self {
            repository: as_text(repository.common)?,
            subfolder: as_text(subfolder.to_owned())?.replace(std::path::MAIN_SEPARATOR, "/"),
            branches: branches.map(str::to_lowercase).collect(),
            git,
        };
        check_submodules(&source.git, &repository.top)?;
        Ok(source)
    }

    fn commit(&self, from: &Option<String>) -> Result<Commit, String> {
        let name = from.as_deref().unwrap_or("HEAD");
        let revision = format!("{name}^{{commit}}");
        let found = self.git.text(&["rev-parse", "--verify", "--end-of-options", &revision]);
        let id = found.ok().filter(|id| is_object_id(id)).ok_or_else(|| match from {
            Some(from) => format!("`from=\"{from}\"` names no commit of this repository"),
            None => "the repository has no commit yet; make one first".to_owned(),
        })?;
        let folder = format!("{id}:{}", self.subfolder);
        let kind = || self.git.text(&["cat-file", "-t", &folder]);
        let has_subfolder = !self.subfolder.is_empty() && kind().is_ok_and(|kind| kind == "tree");
        Ok(Commit { id, has_subfolder })
    }
}

fn is_nested(cwd: &Path, found: &OfRun) -> String {
    let nested = found.nested.as_deref().unwrap_or(cwd);
    format!(
        "{} is in a repository of its own, {}, inside the one in which the run began, {}; worktrees are made of that one \
         alone. If it is yours, start a run in it",
        cwd.display(),
        nested.display(),
        found.repository.top.display()
    )
}

/// What is not committed in a submodule would be missing in the worktree, without a word.
fn check_submodules(git: &Git, top: &Path) -> Result<(), String> {
    if !top.join(".gitmodules").exists() {
        return Ok(());
    }
    match submodules::dirty(git, top).map_err(|error| error.to_string())? {
        Some(path) => Err(format!(
            "the submodule `{path}` has changes that are not committed here; commit them or put it back first"
        )),
        None => Ok(()),
    }
}

fn is_object_id(text: &str) -> bool {
    matches!(text.len(), 40 | 64) && text.bytes().all(|byte| byte.is_ascii_hexdigit())
}

/// Whether the branch of a worktree is there.
pub fn has_branch(worktree: &Worktree) -> bool {
    let repository = Path::new(&worktree.repository);
    let reference = format!("refs/heads/{}", worktree.branch);
    let is_there = || Git::of_repository(repository).text(&["rev-parse", "--verify", "--quiet", &reference]);
    repository.is_dir() && is_there().is_ok()
}

fn remove_folder(path: &Path) -> io::Result<()> {
    match fs::symlink_metadata(path) {
        Ok(data) if data.is_dir() => fs::remove_dir_all(path),
        Ok(_) => fs::remove_file(path),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(error),
    }
}

/// A worktree that is left as it is, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Kept {
    pub path: String,
    pub branch: String,
    pub why: String,
}

impl std::fmt::Display for Kept {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "kept the worktree {} (branch {}): {}", self.path, self.branch, self.why)
    }
}

impl Worktrees {
    /// The worktrees that are there, for a run whose journal is gone. With which commits they began is not known, so
    /// their branches stay.
    pub fn found(&self) -> Vec<Worktree> {
        if self.is_linked_away() {
            return Vec::new();
        }
        let entries = fs::read_dir(&self.folder).into_iter().flatten().flatten();
        let folders = entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()));
        let worktree = |entry: fs::DirEntry| {
            let name = entry.file_name().into_string().ok()?;
            let path = entry.path().into_os_string().into_string().ok()?;
            let repository =
                Repository::around(Path::new(&path)).ok().and_then(|found| as_text(found.common).ok());
            let branch = branch(&self.run, &name);
            Some(Worktree {
                name,
                path,
                branch,
                base: String::new(),
                repository: repository.unwrap_or_default(),
            })
        };
        folders.filter_map(worktree).collect()
    }

    /// Removes the worktrees in which nothing would be lost, and branches without commits. Returns those that stay.
    pub fn tidy<'w>(&self, worktrees: impl Iterator<Item = &'w Worktree>, unsaved: Unsaved) -> Vec<Kept> {
        let mut worktrees = worktrees.peekable();
        if worktrees.peek().is_none() {
            return Vec::new();
        }
        let mut kept = Vec::new();
        for worktree in worktrees {
            let is_in_it = Path::new(&worktree.path).starts_with(&self.folder);
            let removed = match is_in_it && self.is_linked_away() {
                true => Err(format!("{} is a link, which was not made by Raymond", self.folder.display())),
                false => self.remove(worktree, unsaved),
            };
            match removed {
                Ok(()) => {}
                Err(why) => {
                    let (path, branch) = (worktree.path.clone(), worktree.branch.clone());
                    kept.push(Kept { path, branch, why });
                }
            }
        }
        self.remove_folder_if_empty();
        kept
    }

    /// Removes the marks of worktrees that are gone, and the folders that are empty then.
    pub fn remove_marks(&self) {
        if self.is_linked_away() {
            return;
        }
        for entry in fs::read_dir(&self.folder).into_iter().flatten().flatten() {
            if entry.file_name().to_string_lossy().starts_with(MARK) {
                let _ = fs::remove_file(entry.path());
            }
        }
        self.remove_folder_if_empty();
    }

    /// Removes the run's folder, and the one around it, if nothing is in them any more.
    pub fn remove_folder_if_empty(&self) {
        let _ = fs::remove_dir(&self.folder);
        let _ = self.folder.parent().map(fs::remove_dir);
    }

    fn remove(&self, worktree: &Worktree, unsaved: Unsaved) -> Result<(), String> {
        let refused = || refused(worktree, &self.mark(&worktree.name));
        if let Some(why) =
            Some(&worktree.path).filter(|path| Path::new(path).exists()).and_then(|_| refused())
        {
            return Err(why);
        }
        let git = Git::of_repository(Path::new(&worktree.repository));
        if Path::new(&worktree.path).exists() {
            match unsaved {
                Unsaved::Keep => remove_saved(&git, worktree)?,
                Unsaved::Discard => discard(&git, Path::new(&worktree.path))?,
            }
        }
        remove_unused_branch(&git, worktree);
        let _ = fs::remove_file(self.mark(&worktree.name));
        Ok(())
    }
}

/// What to do with a worktree in which something would be lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unsaved {
    Keep,
    Discard,
}

fn remove_saved(git: &Git, worktree: &Worktree) -> Result<(), String> {
    if let Some(why) = unsaved(worktree) {
        return Err(why);
    }
    // Without `--force`, git would look into it once more, and another git into the repositories inside of it.
    let removed = git.text(&["worktree", "remove", "--force", "--", &worktree.path]);
    removed.map(drop).map_err(|error| error.to_string())
}

/// Removes a worktree with everything in it. Git may know nothing of it.
pub(super) fn discard(git: &Git, path: &Path) -> Result<(), String> {
    // It may be half made, or an agent may have changed where it leads. Git removes only what leads to its repository.
    if let Ok(repository) = git.repository()
        && let Some(registration) = registration(&repository.common, path)
    {
        let _ = registration.lead_back();
    }
    let remove = ["worktree", "remove", "--force", "--force", "--"].map(OsStr::new);
    let removed = git.text(&[&remove[..], &[path.as_os_str()]].concat());
    remove_folder(path).map_err(|error| match removed {
        Ok(_) => error.to_string(),
        Err(of_git) => format!("{error} ({of_git})"),
    })
}

/// What would be lost with a worktree.
pub fn unsaved(worktree: &Worktree) -> Option<String> {
    let repository = match Repository::around(Path::new(&worktree.path)) {
        Ok(repository) => repository,
        Err(error) => return Some(error.to_string()),
    };
    let git = Git::in_repository(&repository);
    let status = ["status", "--porcelain", "-z", "--untracked-files=normal", COMMITS_ALONE];
    let status = match unhidden(&git).and_then(|all| all.git.text(&status)) {
        Ok(status) => status,
        Err(error) => return Some(error.to_string()),
    };
    let entries: Vec<&str> = status.split('\0').filter(|entry| !entry.is_empty()).collect();
    if entries.iter().any(|entry| !entry.starts_with("??")) {
        return Some("it has changes that are not committed".to_owned());
    }
    if !entries.is_empty() {
        return Some("it has files that are not in git".to_owned());
    }
    match submodules::present(&git, &repository.top) {
        Err(error) => return Some(error.to_string()),
        Ok(present) if !present.is_empty() => {
            return Some(format!("it has other repositories in it: {}", present.join(", ")));
        }
        Ok(_) => {}
    }
    under_way(&repository.own).or_else(|| unreachable_commits(&git))
}

/// Names of files in git's folder of a worktree, and what is under way while they are there.
const UNDER_WAY: [(&str, &str); 6] = [
    ("MERGE_HEAD", "a merge"),
    ("CHERRY_PICK_HEAD", "a cherry-pick"),
    ("REVERT_HEAD", "a revert"),
    ("rebase-merge", "a rebase"),
    ("rebase-apply", "a rebase"),
    ("BISECT_LOG", "a bisection"),
];

fn under_way(folder: &Path) -> Option<String> {
    let found = UNDER_WAY.iter().find(|(name, _)| folder.join(name).exists());
    found.map(|(_, what)| format!("{what} is under way in it"))
}

fn unreachable_commits(git: &Git) -> Option<String> {
    if git.text(&["symbolic-ref", "--quiet", "HEAD"]).is_ok() {
        return None;
    }
    let branches = ["for-each-ref", "--count=1", "--contains=HEAD", "refs/heads", "refs/remotes"];
    match git.text(&branches) {
        Ok(found) if !found.is_empty() => None,
        Ok(_) => Some("it has commits that no branch has".to_owned()),
        Err(error) => Some(error.to_string()),
    }
}

/// A branch on which nothing was committed is of no use, unless it is checked out somewhere. After going back, it begins with
/// commits of the same worker, and stays if only branches of other runs have them.
fn remove_unused_branch(git: &Git, worktree: &Worktree) {
    let reference = format!("refs/heads/{}", worktree.branch);
    let about = git.text(&["for-each-ref", "--format=%(objectname) %(worktreepath)", &reference]);
    let of_run = reference.strip_suffix(&worktree.name).unwrap_or(&reference);
    let of_runs = format!("refs/heads/{BRANCH_PREFIX}/");
    let contains = format!("--contains={}", worktree.base);
    let having = ["for-each-ref", "--format=%(refname)", &contains, "refs/heads", "refs/remotes"];
    let is_of_others = || {
        let having = git.text(&having).unwrap_or_default();
        let mut others = having.lines().filter(|name| *name != reference).peekable();
        others.peek().is_some() && others.all(|name| name.starts_with(&of_runs) && !name.starts_with(of_run))
    };
    if about.is_ok_and(|about| about.trim_end() == worktree.base) && !is_of_others() {
        // The last argument: only if it is still there.
        let _ = git.text(&["update-ref", "-d", &reference, &worktree.base]);
    }
}
