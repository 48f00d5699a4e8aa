//! Ties a worktree in a project that was copied or moved to the repository that came with it.
//!
//! The worktree and the repository name each other by absolute paths. In a copy, both still name the original, so a step in
//! the worktree would change that.

use std::fs;
use std::io::{self, ErrorKind};
use std::path::{Component, Path};

use raymond_core::worktree::Worktree;

use crate::files::{self, replace_private};

/// How long the file may be that names a repository.
const MAX_LINK_BYTES: u64 = 64 * 1024;

/// Makes a worktree and its repository name each other. What ties them already stays.
pub fn relink(worktree: &Worktree) -> io::Result<()> {
    let link = Path::new(&worktree.path).join(".git");
    let text = files::read_text(&link, MAX_LINK_BYTES)?;
    let named = text.trim_end().strip_prefix("gitdir: ").map(Path::new);
    let wrong = |what: &str| io::Error::new(ErrorKind::InvalidData, what.to_owned());
    let name = named.and_then(|named| match named.components().next_back()? {
        Component::Normal(name) => Some(name),
        _ => None,
    });
    let name = name.ok_or_else(|| wrong("its file .git names no repository"))?;
    let own = Path::new(&worktree.repository).join("worktrees").join(name);
    if named == Some(own.as_path()) {
        return Ok(());
    }
    let is_folder = fs::symlink_metadata(&own).is_ok_and(|data| data.is_dir());
    if !is_folder {
        return Err(wrong(&format!("{} is not there", own.display())));
    }
    let text =
        |path: &Path| path.to_str().map(str::to_owned).ok_or_else(|| wrong("its path is not valid UTF-8"));
    replace_private(&own.join("gitdir"), format!("{}\n", text(&link)?).as_bytes())?;
    replace_private(&link, format!("gitdir: {}\n", text(&own)?).as_bytes())
}
