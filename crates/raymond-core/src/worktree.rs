//! Git worktrees of workers: what a fork may call them, and what the journal holds of one.
//!
//! A name becomes part of a path and of a branch, and a model may choose it. So only names are permitted that are
//! harmless in both places.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The longest name of a worktree, in bytes.
pub const MAX_NAME_BYTES: usize = 64;
/// The longest text that names the commit to begin with, in bytes.
pub const MAX_REVISION_BYTES: usize = 256;
/// What the branches of all worktrees begin with.
pub const BRANCH_PREFIX: &str = "raymond-run";

/// The worktree that a fork asks for.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Wanted {
    /// A valid name, see [`check_name`].
    pub name: String,
    /// The commit to begin with, as written; otherwise the one that the forking agent's folder is at.
    pub from: Option<String>,
}

/// A worktree that was made for a worker, or will be before its first step.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Worktree {
    pub name: String,
    /// Its folder: an absolute path.
    pub path: String,
    pub branch: String,
    /// The commit with which the branch begins.
    pub base: String,
    /// The folder in which git keeps the repository: an absolute path.
    pub repository: String,
}

impl Worktree {
    /// The run that it is made for, or given to: the one that its branch is named after.
    #[must_use]
    pub fn run(&self) -> &str {
        let rest = self.branch.strip_prefix(BRANCH_PREFIX).and_then(|rest| rest.strip_prefix('/'));
        rest.and_then(|rest| rest.split_once('/')).map_or("", |(run, _)| run)
    }

    /// Whether a folder is the worktree or lies in it.
    #[must_use]
    pub fn has_inside(&self, folder: &str) -> bool {
        let rest = folder.strip_prefix(&self.path);
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(['/', '\\']))
    }
}

/// The branch of a worktree.
#[must_use]
pub fn branch(run: &str, name: &str) -> String {
    format!("{BRANCH_PREFIX}/{run}/{name}")
}

/// Why a name, or the text that names a commit, cannot be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refused {
    Length,
    Characters,
    Start,
    End,
    TwoDots,
    Revision,
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Length => "the name of a worktree has 1 to 64 characters",
            Self::Characters => "the name of a worktree consists of letters, digits, `.`, `_` and `-`",
            Self::Start => "the name of a worktree begins with neither `.` nor `-`",
            Self::End => "the name of a worktree ends with neither `.` nor `.lock`",
            Self::TwoDots => "the name of a worktree does not contain `..`",
            Self::Revision => {
                "a commit is named as for git, by a branch, a tag or a hash, and does not begin with `-`"
            }
        })
    }
}

/// Checks the name of a worktree.
///
/// # Errors
///
/// When the name could not be a part of a branch and of a path.
pub fn check_name(name: &str) -> Result<(), Refused> {
    let is_permitted = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'-');
    if name.is_empty() || name.len() > MAX_NAME_BYTES {
        Err(Refused::Length)
    } else if !name.bytes().all(is_permitted) {
        Err(Refused::Characters)
    } else if name.starts_with(['.', '-']) {
        Err(Refused::Start)
    } else if name.ends_with('.') || name.to_ascii_lowercase().ends_with(".lock") {
        Err(Refused::End)
    } else if name.contains("..") {
        Err(Refused::TwoDots)
    } else {
        Ok(())
    }
}

/// Checks a text that names a commit. Whether there is such a commit only git can tell.
///
/// # Errors
///
/// When the text could be an option, or has characters that no name of a commit has.
pub fn check_revision(text: &str) -> Result<(), Refused> {
    let is_text = !text.is_empty() && text.len() <= MAX_REVISION_BYTES;
    match is_text && !text.starts_with('-') && !text.chars().any(char::is_control) {
        true => Ok(()),
        false => Err(Refused::Revision),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_harmless_in_paths_and_branches() {
        for name in ["a", "issue-12", "A.b_c", "_x", "1", &"x".repeat(64)] {
            assert_eq!(check_name(name), Ok(()), "{name}");
        }
        for (name, refused) in [
            ("", Refused::Length),
            (&*"x".repeat(65), Refused::Length),
            ("a/b", Refused::Characters),
            ("a b", Refused::Characters),
            ("é", Refused::Characters),
            ("a\n", Refused::Characters),
            ("a@{1}", Refused::Characters),
            (".a", Refused::Start),
            ("-a", Refused::Start),
            ("..", Refused::Start),
            ("a.", Refused::End),
            ("a.lock", Refused::End),
            ("a.LOCK", Refused::End),
            ("a..b", Refused::TwoDots),
        ] {
            assert_eq!(check_name(name), Err(refused), "{name}");
        }
    }

    #[test]
    fn a_commit_is_never_an_option() {
        for text in ["main", "HEAD~3", "v1.0^{commit}", "@{-1}", ":/fix it", "0a1b2c"] {
            assert_eq!(check_revision(text), Ok(()), "{text}");
        }
        for text in ["", "-h", "--exec=x", "a\nb", "a\0", &"x".repeat(257)] {
            assert_eq!(check_revision(text), Err(Refused::Revision), "{text}");
        }
    }
}
