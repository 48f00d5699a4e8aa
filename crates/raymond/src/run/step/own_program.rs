//! Raymond's own program, as the programs of steps find it: `raymond emit` prints tags for scripts.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

/// The program, and a folder with nothing else in it that can be put on PATH.
#[derive(Debug)]
pub struct OwnProgram {
    pub path: PathBuf,
    /// Nothing where the user's cache cannot be written.
    folder: Option<PathBuf>,
}

impl OwnProgram {
    /// Puts a link to the program into a folder of its own in the user's cache: in a run's own folder it would be a file
    /// that others may read. A step can do without the link, so trouble with it is ignored.
    pub fn find() -> Option<Self> {
        let path = std::env::current_exe().ok()?;
        let folder = folder_with_link(&path);
        Some(Self { path, folder })
    }

    /// A search path with the folder at its end.
    pub(super) fn behind(&self, path: Option<OsString>) -> OsString {
        let folders = path.iter().flat_map(std::env::split_paths).chain(self.folder.clone());
        // A folder whose name holds the separator cannot be on a search path.
        std::env::join_paths(folders).unwrap_or_else(|_| path.clone().unwrap_or_default())
    }
}

fn folder_with_link(path: &Path) -> Option<PathBuf> {
    let number = crc32fast::hash(path.as_os_str().as_encoded_bytes());
    let folder = cache_folder()?.join("raymond").join(format!("bin-{number:08x}"));
    crate::files::create_private_folders(&folder).ok()?;
    link(path, &folder).ok()?;
    Some(folder)
}

fn cache_folder() -> Option<PathBuf> {
    let absolute = |name: &str| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let windows = absolute("LOCALAPPDATA").filter(|_| cfg!(windows));
    absolute("XDG_CACHE_HOME").or(windows).or_else(|| Some(absolute("HOME")?.join(".cache")))
}

#[cfg(unix)]
fn link(program: &Path, folder: &Path) -> std::io::Result<()> {
    let link = folder.join("raymond");
    if std::fs::read_link(&link).is_ok_and(|target| target == program) {
        return Ok(());
    }
    let _ = std::fs::remove_file(&link);
    std::os::unix::fs::symlink(program, link)
}

/// Links need a permission here that few users have.
#[cfg(windows)]
fn link(program: &Path, folder: &Path) -> std::io::Result<()> {
    crate::files::write_private(
        &folder.join("raymond.cmd"),
        format!("@\"{}\" %*\r\n", program.display()).as_bytes(),
    )
}
