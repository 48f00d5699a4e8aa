//! Repositories inside of a worktree, and whether something in them is not saved.
//!
//! `git status` would start another git in each, which obeys the config there. So it is told to compare their commits
//! alone, and Raymond looks into them with calls of its own.

use std::path::Path;

use super::hidden::unhidden;
use super::{Git, GitError};

/// How deep repositories may lie in each other.
const MOST_DEPTH: usize = 16;

/// Has git compare the commits of repositories inside of a worktree, and not look into them.
pub const COMMITS_ALONE: &str = "--ignore-submodules=dirty";

/// What the mode of a repository is in an index.
const MODE: &str = "160000 ";

/// The repositories inside of a worktree that git knows of, and that are there, from its top.
pub fn present(git: &Git, top: &Path) -> Result<Vec<String>, GitError> {
    let listed = git.text(&["ls-files", "--stage", "-z", "--", ":/"])?;
    let names = listed.split('\0').filter(|entry| entry.starts_with(MODE));
    let names = names.filter_map(|entry| entry.split_once('\t')).map(|(_, name)| name);
    Ok(names.filter(|name| top.join(name).join(".git").exists()).map(str::to_owned).collect())
}

/// The path of a submodule that has something which is not committed, or is at another commit than its worktree says.
pub fn dirty(git: &Git, top: &Path) -> Result<Option<String>, GitError> {
    dirty_within(git, top, 0)
}

fn dirty_within(git: &Git, top: &Path, depth: usize) -> Result<Option<String>, GitError> {
    let status = ["status", "--porcelain=v2", "-z", "--untracked-files=no", COMMITS_ALONE];
    if let Some(path) = unhidden(git)?.git.text(&status)?.split('\0').find_map(changed) {
        return Ok(Some(path.to_owned()));
    }
    for name in present(git, top)? {
        if is_dirty(&top.join(&name), depth + 1)? {
            return Ok(Some(name));
        }
    }
    Ok(None)
}

fn is_dirty(top: &Path, depth: usize) -> Result<bool, GitError> {
    if depth > MOST_DEPTH {
        return Err(GitError::NotStarted(format!("{} is nested too deep", top.display())));
    }
    let git = Git::in_folder(top);
    let status = ["status", "--porcelain", "-z", "--untracked-files=normal", COMMITS_ALONE];
    Ok(!unhidden(&git)?.git.text(&status)?.is_empty() || dirty_within(&git, top, depth)?.is_some())
}

/// The path of a submodule that has changed, from an entry of git's status.
fn changed(entry: &str) -> Option<&str> {
    // `1 XY SUB mH mI mW hH hI PATH`, or `2 XY SUB … X PATH` after a rename.
    let fields = match entry.split_once(' ')?.0 {
        "1" => 9,
        "2" => 10,
        "u" => 11,
        _ => return None,
    };
    let mut parts = entry.splitn(fields, ' ').skip(2);
    parts.next().filter(|kind| kind.starts_with('S'))?;
    parts.last()
}
