//! Files that git was told not to look at, by `git update-index --assume-unchanged` or `--skip-worktree`. What was changed in
//! them is not committed either, so it counts like all other changes.
//!
//! The index of the user is not written. What git hides is shown in a copy of it.

use std::fs;
use std::io;
use std::path::Path;

use super::stand_in::StandIn;
use super::{Git, GitError};

/// Git with an index in which no file is hidden. It looks and writes nothing else.
pub struct Unhidden {
    pub git: Git,
    /// The folder of its index, if it has one of its own.
    _folder: Option<StandIn>,
}

/// Git for looking at all files of the worktree that it is in.
pub fn unhidden(git: &Git) -> Result<Unhidden, GitError> {
    let repository = git.repository()?;
    let hidden = hidden(git, &repository.top)?;
    if hidden.is_empty() {
        return Ok(Unhidden { git: git.clone(), _folder: None });
    }
    let failed = |error: io::Error| GitError::NotStarted(format!("its index cannot be copied: {error}"));
    let folder = StandIn::empty().map_err(failed)?;
    let index = folder.path().join("index");
    copy(&repository.own.join("index"), &index).map_err(failed)?;
    let git = git.clone().variable("GIT_INDEX_FILE", index);
    show(&git, &hidden)?;
    Ok(Unhidden { git, _folder: Some(folder) })
}

/// Hides no file any more in the index that git was given, which is a copy.
pub fn unhide(git: &Git, top: &Path) -> Result<(), GitError> {
    match hidden(git, top)? {
        hidden if hidden.is_empty() => Ok(()),
        hidden => show(git, &hidden),
    }
}

/// Copies an index. Its time tells git which entries it must not trust.
pub fn copy(from: &Path, to: &Path) -> io::Result<()> {
    let modified = fs::metadata(from)?.modified()?;
    crate::files::copy(from, to)?.set_modified(modified)
}

fn show(git: &Git, names: &[u8]) -> Result<(), GitError> {
    for flag in ["--no-assume-unchanged", "--no-skip-worktree"] {
        git.bytes(&["update-index", flag, "-z", "--stdin"], names)?;
    }
    Ok(())
}

/// The names of hidden files, each with a zero byte behind it. What a sparse checkout leaves out is not there and stays hidden.
fn hidden(git: &Git, top: &Path) -> Result<Vec<u8>, GitError> {
    let listed = git.bytes(&["ls-files", "-v", "-z", "--", ":/"], &[])?;
    let mut names = Vec::new();
    for entry in listed.split(|byte| *byte == 0) {
        let [tag, b' ', name @ ..] = entry else { continue };
        let is_skipped = tag.eq_ignore_ascii_case(&b'S');
        let is_there = || fs::symlink_metadata(top.join(super::path_of(name))).is_ok();
        if (tag.is_ascii_lowercase() && !is_skipped) || (is_skipped && !name.ends_with(b"/") && is_there()) {
            names.extend_from_slice(name);
            names.push(0);
        }
    }
    Ok(names)
}
