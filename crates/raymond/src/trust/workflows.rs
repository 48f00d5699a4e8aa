//! The workflows that the user trusts as they are: those that may start by themselves.
//!
//! The list is a file in the user's own folder, where no project can write. It has one line for each workflow: the hash of
//! its content ([`content`](super::content)), a space, and its path as JSON, so that no name can look like another line. It is
//! replaced as a whole, under a lock.

use std::collections::BTreeMap;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use super::content::content_of;
use crate::config;
use crate::error::UserError;
use crate::files;
use crate::paths::shown;
use crate::workflow::scopes::canonical;

/// How many workflows can be trusted at the same time.
const MAX_TRUSTED: usize = 4096;
/// How long the list may be.
const MAX_LIST_BYTES: u64 = 16 * 1024 * 1024;

/// Whether a workflow may start by itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Standing {
    /// It is as it was when it was trusted.
    Trusted {
        content: String,
    },
    /// It is not trusted, whatever is in it.
    Unknown,
    Changed {
        content: String,
    },
    /// Its content cannot be told.
    Unreadable {
        error: String,
    },
}

impl Standing {
    /// Of the workflow at a path, as it is now. Only what is trusted is read as a whole.
    pub fn of(path: &Path) -> Self {
        let Some(trusted) = TrustedList::read().0.remove(&key(path)) else { return Self::Unknown };
        match content_of(path) {
            Ok(content) if content == trusted => Self::Trusted { content },
            Ok(content) => Self::Changed { content },
            Err(error) => Self::Unreadable { error: error.message },
        }
    }

    /// Whether the workflow at a path was trusted since it had this standing.
    pub fn is_outdated(&self, path: &Path, now: &TrustedList) -> bool {
        let now = now.0.get(&key(path));
        match self {
            Self::Changed { content } => now == Some(content),
            Self::Unknown => now.is_some(),
            Self::Trusted { .. } | Self::Unreadable { .. } => false,
        }
    }

    /// Why it is not started by itself; nothing if it is.
    pub fn problem(&self) -> Option<String> {
        match self {
            Self::Trusted { .. } => None,
            Self::Unknown => Some("it is not trusted".to_owned()),
            Self::Changed { .. } => Some("it has changed since it was trusted".to_owned()),
            Self::Unreadable { error } => Some(error.clone()),
        }
    }

    pub fn is_trusted(&self) -> bool {
        matches!(self, Self::Trusted { .. })
    }

    /// Something that is another one when the workflow has changed again.
    pub fn version(&self) -> &str {
        match self {
            Self::Trusted { content } | Self::Changed { content } => content,
            Self::Unknown => "unknown",
            Self::Unreadable { error } => error,
        }
    }
}

/// Refuses a start whose workflow is not the one that was trusted. Who starts it has looked, and it may have changed since.
pub fn check_content(path: &Path, expected: &str) -> Result<(), UserError> {
    match content_of(path)? == expected {
        true => Ok(()),
        false => Err(UserError::usage(format!("{} has changed since it was trusted", shown(path).display()))
            .hint(format!("look at it: raymond trust {}", shown(path).display()))),
    }
}

/// Trusts the workflow at a path with this content from now on, and with no other.
pub fn remember(path: &Path, content: &str) -> io::Result<()> {
    change(|all| {
        all.insert(key(path), content.to_owned());
        all.len() <= MAX_TRUSTED
    })
    .and_then(|is_bounded| match is_bounded {
        true => Ok(()),
        false => Err(io::Error::other(format!("{MAX_TRUSTED} workflows are trusted already"))),
    })
}

/// Trusts none of these paths any more. Returns whether one of them was trusted.
pub fn forget(paths: &[PathBuf]) -> io::Result<bool> {
    change(|all| paths.iter().filter(|path| all.remove(&key(path)).is_some()).count() > 0)
}

/// A path as it stands in the list. One that is gone is named by what is left of the folders around it.
fn key(path: &Path) -> String {
    let real = path.ancestors().find(|around| around.exists()).map_or_else(
        || path.to_owned(),
        |around| canonical(around).join(path.strip_prefix(around).unwrap_or(Path::new(""))),
    );
    // Joining nothing leaves a slash at the end.
    real.components().collect::<PathBuf>().to_string_lossy().into_owned()
}

fn list() -> Option<PathBuf> {
    config::user_state_folder().map(|folder| folder.join("trusted-workflows"))
}

/// The contents of all trusted workflows, by path.
#[derive(Debug, Default)]
pub struct TrustedList(BTreeMap<String, String>);

impl TrustedList {
    /// The list as it is now. One that cannot be read trusts none.
    pub fn read() -> Self {
        Self(list().and_then(|list| read_from(&list).ok()).unwrap_or_default())
    }
}

fn read_from(list: &Path) -> io::Result<BTreeMap<String, String>> {
    let text = match files::read_text(list, MAX_LIST_BYTES) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(BTreeMap::new()),
        Err(error) => return Err(error),
    };
    let line = |line: &str| {
        let (content, path) = line.split_once(' ')?;
        Some((serde_json::from_str(path).ok()?, content.to_owned()))
    };
    Ok(text.lines().filter_map(line).collect())
}

/// Replaces the list by a changed one, unless the change is refused. Two changes at the same time are made one after the
/// other.
fn change(change: impl FnOnce(&mut BTreeMap<String, String>) -> bool) -> io::Result<bool> {
    let list = list().ok_or_else(|| io::Error::other("there is no home folder"))?;
    let folder = list.parent().unwrap_or(&list);
    files::create_private_folders(folder)?;
    let mut of_lock = files::private_options();
    let of_lock = of_lock.write(true).create(true).truncate(false);
    let lock = files::open_plain_as(of_lock, &list.with_extension("lock"))?;
    lock.lock()?;
    let mut all = read_from(&list)?;
    if !change(&mut all) {
        return Ok(false);
    }
    let lines = all.iter().map(|(path, content)| format!("{content} {}\n", serde_json::json!(path)));
    let unfinished = list.with_extension("tmp");
    let mut of_file = files::private_options();
    let mut file = files::open_plain_as(of_file.write(true).create(true).truncate(true), &unfinished)?;
    file.write_all(lines.collect::<String>().as_bytes())?;
    file.sync_all()?;
    std::fs::rename(&unfinished, &list)?;
    #[cfg(unix)]
    files::open_folder(folder)?.sync_all()?;
    Ok(true)
}
