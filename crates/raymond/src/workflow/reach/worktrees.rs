//! The worktrees of a git repository, read from its files. No program is started: a repository's own settings can make
//! `git` run commands.
//!
//! A folder counts only if it and the repository name each other. Otherwise a file that a model wrote could make any
//! folder a worktree.

use std::fs;
use std::path::{Path, PathBuf};

use super::real;
use crate::files;

/// Files of git that hold one path are shorter.
const MAX_PATH_FILE_BYTES: u64 = 64 * 1024;
/// How many worktrees of a repository are looked at.
const MAX_WORKTREES: usize = 10_000;

/// All worktrees of the repository that a folder is in, the main one included. Links are followed.
pub(super) fn beside(folder: &Path) -> Vec<PathBuf> {
    let Some(repository) = folder.ancestors().find_map(repository_of) else { return Vec::new() };
    let main = repository.parent().filter(|main| is_same(&main.join(".git"), &repository));
    let listed = fs::read_dir(repository.join("worktrees")).into_iter().flatten().take(MAX_WORKTREES);
    let linked = listed.flatten().filter_map(|entry| linked_worktree(&entry.path()));
    main.map(Path::to_owned).into_iter().chain(linked).map(|worktree| real(&worktree)).collect()
}

/// The folder with the repository's data, if `worktree` is the top folder of one of its worktrees.
fn repository_of(worktree: &Path) -> Option<PathBuf> {
    let git = worktree.join(".git");
    if git.is_dir() {
        return Some(real(&git));
    }
    let data = path_in(&git, "gitdir:")?;
    let is_mutual = linked_worktree(&data).is_some_and(|named| is_same(&named, worktree));
    is_mutual.then(|| path_in(&data.join("commondir"), ""))?.map(|repository| real(&repository))
}

/// The worktree whose data is in a folder `worktrees/NAME` of the repository.
fn linked_worktree(data: &Path) -> Option<PathBuf> {
    let git = path_in(&data.join("gitdir"), "")?;
    path_in(&git, "gitdir:").filter(|named| is_same(named, data))?;
    git.parent().map(Path::to_owned)
}

/// The path that a file of git holds, after a prefix.
fn path_in(file: &Path, prefix: &str) -> Option<PathBuf> {
    let text = files::read_text(file, MAX_PATH_FILE_BYTES).ok()?;
    let path = text.strip_prefix(prefix)?.trim();
    (!path.is_empty()).then(|| file.parent().unwrap_or(file).join(path))
}

fn is_same(one: &Path, other: &Path) -> bool {
    matches!((fs::canonicalize(one), fs::canonicalize(other)), (Ok(one), Ok(other)) if one == other)
}
