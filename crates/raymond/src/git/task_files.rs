//! The files in agents' task folders, as trees in the repositories that the agents work in.
//!
//! A task folder is kept with all that is in it, also what git would ignore, and byte by byte: neither filters nor line ends of the
//! repository count. Of a repository inside of it only the commit is kept. All commits of a run are a chain on a ref of its own,
//! which keeps the trees from `git gc`.

use std::fs;
use std::path::{Path, PathBuf};

use super::adding::add_everything;
use super::repository::Repository;
use super::{Git, GitError};

/// Below this are the refs with the task folders of runs.
pub const REFS: &str = "refs/raymond-tasks";

/// What could change a file on its way, or leave it out.
const SETTINGS: [&str; 6] = [
    "core.autocrlf=false",
    "core.safecrlf=false",
    "core.untrackedCache=false",
    "core.fsmonitor=false",
    "core.sparseCheckout=false",
    "core.logAllRefUpdates=false",
];

/// Attributes with which every file is kept as it is.
const ATTRIBUTES: &str = "* -text -filter -ident -working-tree-encoding\n";

/// The ref with the task folders of a run.
pub fn ref_of(run: &str) -> String {
    format!("{REFS}/{run}")
}

/// What is known of the task folder of one agent.
#[derive(Debug)]
pub(super) struct TaskFolder {
    index: PathBuf,
    /// The repository that has it, by the folder in which git keeps that, and the tree that is on the ref.
    kept: Option<(PathBuf, String)>,
}

impl TaskFolder {
    pub(super) fn new(index: PathBuf) -> Self {
        Self { index, kept: None }
    }

    /// The tree of all files in the folder. `keep` puts a tree on the ref, unless it is there already.
    pub(super) fn keep(
        &mut self,
        (repository, empty): (&Repository, &str),
        folder: &Path,
        keep: impl FnOnce(&str) -> Result<(), GitError>,
    ) -> Result<String, GitError> {
        let is_empty = fs::read_dir(folder).map_or(true, |mut entries| entries.next().is_none());
        if is_empty {
            return Ok(empty.to_owned());
        }
        if self.kept.as_ref().is_some_and(|(common, _)| *common != repository.common) {
            self.forget();
        }
        // The repository may have been made anew, without what the index names.
        let tree = self.tree(repository, folder).or_else(|_| {
            self.forget();
            self.tree(repository, folder)
        })?;
        if self.kept.as_ref().is_none_or(|(_, kept)| *kept != tree) {
            keep(&tree)?;
            self.kept = Some((repository.common.clone(), tree.clone()));
        }
        Ok(tree)
    }

    fn forget(&mut self) {
        self.kept = None;
        let _ = fs::remove_file(&self.index);
    }

    fn tree(&self, repository: &Repository, folder: &Path) -> Result<String, GitError> {
        let folder = folder.canonicalize().unwrap_or_else(|_| folder.to_owned());
        let git = git_for(repository, &folder, &self.index);
        let has_changed = add_everything(&git, &folder)?;
        match &self.kept {
            Some((_, tree)) if !has_changed => Ok(tree.clone()),
            _ => git.text(&["write-tree"]),
        }
    }
}

/// Git with a folder in the place of the worktree of a repository.
fn git_for(repository: &Repository, folder: &Path, index: &Path) -> Git {
    let place = Repository { top: folder.to_owned(), ..repository.clone() };
    let git = Git::in_repository(&place).settings(&SETTINGS).patience(super::snapshots::ADDING_LIMIT);
    // A bare repository has worktrees, too.
    git.attributes(ATTRIBUTES).variable("GIT_WORK_TREE", folder).variable("GIT_INDEX_FILE", index)
}

/// The tree without files, whose name depends on the format of the repository.
pub(super) fn empty_tree(repository: &Repository) -> Result<String, GitError> {
    let tree = Git::in_repository(repository).bytes(&["mktree"], &[])?;
    Ok(String::from_utf8_lossy(&tree).trim().to_owned())
}

/// Makes a folder with the files of a tree. Returns the names of repositories in it, whose files are not there. `common` is the
/// folder in which git keeps the repository, and nothing is at `index` yet.
pub fn restore(common: &Path, tree: &str, folder: &Path, index: &Path) -> Result<Vec<String>, GitError> {
    let cannot = |error: std::io::Error| GitError::NotStarted(format!("{}: {error}", folder.display()));
    crate::files::create_private_folders(folder).map_err(cannot)?;
    let folder = folder.canonicalize().map_err(cannot)?;
    let repository = Repository { top: folder.clone(), own: common.to_owned(), common: common.to_owned() };
    let git = git_for(&repository, &folder, index);
    git.text(&["read-tree", "-u", "--reset", tree])?;
    let entries = git.bytes(&["ls-files", "-z", "--stage"], &[])?;
    let entries = entries.split(|byte| *byte == 0).filter(|entry| entry.starts_with(b"160000 "));
    let name =
        |entry: &[u8]| String::from_utf8_lossy(entry).split_once('\t').map(|(_, name)| name.to_owned());
    Ok(entries.filter_map(name).collect())
}
