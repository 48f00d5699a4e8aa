//! Copies a conversation to another folder or to another machine.
//!
//! A program keeps a conversation in files of its own ([`super::AgentProgram::session_files`]). They are copied to where
//! the program will look for them.

mod pack;

use std::ffi::OsString;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use super::AgentProgram;
use crate::files;

/// Where a conversation is, or will be, kept.
#[derive(Clone, Copy)]
pub struct SessionPlace<'a> {
    pub session: &'a str,
    /// The working folder of its turns.
    pub cwd: &'a Path,
    /// The program's environment variables.
    pub variable: &'a dyn Fn(&str) -> Option<OsString>,
}

impl SessionPlace<'_> {
    /// The session's id, if it can be a part of a file's name.
    pub(super) fn plain_id(&self) -> Option<&str> {
        let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-';
        Some(self.session).filter(|id| !id.is_empty() && id.bytes().all(is_plain))
    }

    /// The folder that a variable names.
    pub(super) fn folder(&self, variable: &str) -> Option<PathBuf> {
        (self.variable)(variable).filter(|folder| !folder.is_empty()).map(PathBuf::from)
    }

    /// The user's own folder.
    pub(super) fn home(&self) -> Option<PathBuf> {
        self.folder(if cfg!(windows) { "USERPROFILE" } else { "HOME" })
    }

    /// The working folder as its programs see it.
    pub(super) fn real_cwd(&self) -> PathBuf {
        fs::canonicalize(self.cwd).unwrap_or_else(|_| self.cwd.to_owned())
    }
}

/// The files of a conversation. If the program does not have it yet, they are where it would find it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SessionFiles {
    One(PathBuf),
    /// All files in a folder but those with these names, which are of use only where they are.
    Folder {
        path: PathBuf,
        without: &'static [&'static str],
    },
    /// Files in a folder with those of all conversations: the conversation's own, then those that it branched off. There are
    /// none if the program does not have it.
    Lineage {
        folder: PathBuf,
        files: Vec<PathBuf>,
    },
    /// A file that the program finds by another one, which has this text.
    Marked {
        path: PathBuf,
        marker: PathBuf,
        text: String,
    },
}

impl SessionFiles {
    /// Whether the program has the conversation.
    pub fn are_there(&self) -> bool {
        match self {
            Self::One(path) | Self::Folder { path, .. } | Self::Marked { path, .. } => path.exists(),
            Self::Lineage { files, .. } => !files.is_empty(),
        }
    }
}

/// All data that the program needs of a conversation, or `None` if conversations cannot be copied.
pub fn export(program: &dyn AgentProgram, place: &SessionPlace<'_>) -> io::Result<Option<Vec<u8>>> {
    let bytes = program.session_files(place).map(|files| match files {
        SessionFiles::One(path) | SessionFiles::Marked { path, .. } => {
            files::read(&path, files::MAX_KEPT_BYTES)
        }
        SessionFiles::Folder { path, without } => pack::pack(&path, without),
        SessionFiles::Lineage { files, .. } if files.is_empty() => Err(io::ErrorKind::NotFound.into()),
        SessionFiles::Lineage { folder, files } => pack::pack_some(&folder, &files),
    });
    bytes.transpose()
}

/// Puts a conversation where the program finds it; `false` if conversations cannot be copied.
pub fn import(program: &dyn AgentProgram, place: &SessionPlace<'_>, bytes: &[u8]) -> io::Result<bool> {
    let Some(files) = program.session_files(place) else { return Ok(false) };
    match files {
        SessionFiles::One(path) => put(&path, bytes)?,
        SessionFiles::Folder { path, .. } => pack::unpack(&path, bytes)?,
        SessionFiles::Lineage { folder, .. } => pack::unpack_beside(&folder, bytes)?,
        SessionFiles::Marked { path, marker, text } => {
            put(&marker, text.as_bytes())?;
            put(&path, bytes)?;
        }
    }
    Ok(true)
}

/// What is in a folder, if it is one.
pub(super) fn inside(folder: &Path) -> Vec<PathBuf> {
    fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path()).collect()
}

/// Whether a file's name begins and ends with these words.
pub(super) fn is_named(file: &Path, start: &str, end: &str) -> bool {
    let name = file.file_name().and_then(|name| name.to_str());
    name.and_then(|name| name.strip_prefix(start)).is_some_and(|rest| rest.ends_with(end))
}

/// Writes a file under another name first: the program must never find half a conversation.
fn put(file: &Path, bytes: &[u8]) -> io::Result<()> {
    files::create_private_folders(file.parent().unwrap_or(Path::new(".")))?;
    let aside = aside(file);
    let placed = files::write_private(&aside, bytes).and_then(|()| fs::rename(&aside, file));
    if placed.is_err() {
        let _ = fs::remove_file(aside);
    }
    placed
}

/// The name that a file or folder has until it is whole.
fn aside(path: &Path) -> PathBuf {
    let mut aside = path.to_owned().into_os_string();
    aside.push(".new");
    PathBuf::from(aside)
}

#[cfg(test)]
mod tests {
    use super::super::suite::of_kind;
    use super::*;

    #[test]
    fn an_id_with_other_characters_names_no_file() {
        let variable = |_: &str| Some(OsString::from("/home/x"));
        let files = |kind: &str, session: &str| {
            of_kind(kind).session_files(&SessionPlace { session, cwd: Path::new("/"), variable: &variable })
        };
        for kind in ["claude", "codex", "copilot", "gemini", "pi"] {
            assert!(files(kind, "a-1").is_some(), "{kind}");
            for session in ["", "../../x", "a/b", "a\\b", "a.b", "é"] {
                assert_eq!(files(kind, session), None, "{kind} {session}");
            }
        }
    }
}
