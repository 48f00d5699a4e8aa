//! Tells other commands which servers run here. Each has a file with its address, which it keeps locked while it lives.

use std::fs::{self, File, TryLockError};
use std::io::{self, Write};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::files::{open_own_as, open_plain, private_options};
use crate::store::{SealedFile, StateDir};

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
pub fn tell(state: &StateDir, presence: &Presence) -> io::Result<Told> {
    for (file, _) in told(state) {
        if is_left_behind(file.path()) {
            let _ = fs::remove_file(file.path());
        }
    }
    let own = state.own_file(&format!("{START}{}{ENDING}", std::process::id()));
    // A file of this name is of an earlier process with this id, or nobody's.
    let _ = fs::remove_file(own.path());
    let mut file = open_own_as(private_options().write(true).create_new(true), own.path())?;
    file.lock()?;
    file.write_all(&own.sealed(serde_json::to_string(presence)?.as_bytes()))?;
    Ok(Told { path: own.path().to_owned(), _file: file })
}

/// The servers that keep their files beside these runs.
pub fn servers(state: &StateDir) -> Vec<Presence> {
    let alive = told(state).into_iter().filter(|(file, _)| !is_left_behind(file.path()));
    alive.filter_map(|(_, content)| serde_json::from_slice(&content).ok()).collect()
}

/// The files of servers, with what is in them.
fn told(state: &StateDir) -> Vec<(SealedFile, Vec<u8>)> {
    let folder = state.own_file("");
    let entries = fs::read_dir(folder.path()).into_iter().flatten().flatten();
    let file = |entry: fs::DirEntry| {
        let name = entry.file_name().into_string().ok()?;
        let is_ours = name.starts_with(START) && name.ends_with(ENDING);
        let file = state.own_file(&name);
        let content = file.read(MAX_BYTES).filter(|_| is_ours)?;
        Some((file, content))
    };
    entries.filter_map(file).collect()
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
        let state = StateDir::at(folder.path());
        let files = || fs::read_dir(folder.path()).unwrap().count();
        fs::write(folder.path().join("serve-1.here"), serde_json::to_string(&presence).unwrap()).unwrap();
        assert!(servers(&state).is_empty(), "the file of a killed server");
        let told = tell(&state, &presence).unwrap();
        assert_eq!(files(), 1, "what was left behind is gone");
        assert_eq!(servers(&state)[0].address, address);
        drop(told);
        assert_eq!(files(), 0);
    }
}
