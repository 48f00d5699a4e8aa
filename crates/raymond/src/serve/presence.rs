//! Tells other commands which servers run here. Each has a file with its address, which it keeps locked while it lives.

use std::fs::{self, File, TryLockError};
use std::io::{self, Write};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::files::{open_plain, open_plain_as, private_options, read_text};

/// How the names of these files begin; the id of the process and an ending follow.
const START: &str = "serve-";
const ENDING: &str = ".here";
const MAX_BYTES: u64 = 64 * 1024;

/// A server that runs.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Presence {
    pub address: SocketAddr,
    /// Whether it starts workflows by their schedules.
    pub schedules: bool,
    /// The file of its token.
    pub token_file: PathBuf,
}

/// The file of this process. It is removed when the server ends.
#[derive(Debug)]
pub struct Told {
    path: PathBuf,
    /// Closing it releases the lock.
    _file: File,
}

impl Drop for Told {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.path);
    }
}

/// Tells that this process serves, and removes what killed servers have left.
pub fn tell(folder: &Path, presence: &Presence) -> io::Result<Told> {
    for path in files(folder) {
        if is_left_behind(&path) {
            let _ = fs::remove_file(&path);
        }
    }
    let path = folder.join(format!("{START}{}{ENDING}", std::process::id()));
    let mut file = open_plain_as(private_options().write(true).create(true).truncate(true), &path)?;
    file.lock()?;
    file.write_all(serde_json::to_string(presence)?.as_bytes())?;
    Ok(Told { path, _file: file })
}

/// The servers that keep their files in this folder.
pub fn servers(folder: &Path) -> Vec<Presence> {
    let alive = files(folder).into_iter().filter(|path| !is_left_behind(path));
    alive.filter_map(|path| serde_json::from_str(&read_text(&path, MAX_BYTES).ok()?).ok()).collect()
}

fn files(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let is_ours = |name: &str| name.starts_with(START) && name.ends_with(ENDING);
    entries
        .filter(|entry| entry.file_name().to_str().is_some_and(is_ours))
        .map(|entry| entry.path())
        .collect()
}

fn is_left_behind(path: &Path) -> bool {
    open_plain(path).is_ok_and(|file| !matches!(file.try_lock(), Err(TryLockError::WouldBlock)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_is_known_while_it_lives() {
        let folder = tempfile::tempdir().unwrap();
        let address = SocketAddr::from(([127, 0, 0, 1], 7878));
        let presence = Presence { address, schedules: true, token_file: "t".into() };
        fs::write(folder.path().join("serve-1.here"), serde_json::to_string(&presence).unwrap()).unwrap();
        assert!(servers(folder.path()).is_empty(), "the file of a killed server");
        let told = tell(folder.path(), &presence).unwrap();
        assert_eq!(files(folder.path()).len(), 1, "what was left behind is gone");
        assert_eq!(servers(folder.path())[0].address, address);
        drop(told);
        assert!(files(folder.path()).is_empty());
    }
}
