//! A folder that stands in for the one in which a repository keeps what its worktrees share.
//!
//! Everything in it is a link to the original, except the config, of which there is only what Raymond has git obey, and
//! the hooks, which are missing. Git is told to use it instead (`GIT_COMMON_DIR`). So what an agent or a clone has written
//! into a repository's config starts no program, and that does not depend on when it was written, nor on which keys the
//! installed version of git knows.
//!
//! It exists during one call. It lies in the user's own cache, where only the user can write.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Once;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime};

use super::repository::Repository;
use super::settings::Settings;
use crate::{config, files};

/// What git finds through the stand-in. Missing folders cannot be made through a link, so what makes them comes first.
const LINKED: [&str; 9] =
    ["objects", "refs", "packed-refs", "reftable", "logs", INFO, "worktrees", "shallow", "lfs"];
/// Where attributes and patterns are that belong to the repository and to no commit.
const INFO: &str = "info";
/// How long HEAD may be.
const MOST_HEAD_BYTES: u64 = 64 * 1024;
/// After this time the stand-in of a killed process is removed. No call of git may take so long.
const LONGEST_USE: Duration = Duration::from_secs(24 * 60 * 60);
/// How many names are tried for a new one.
const MOST_TRIES: u32 = 100;

#[derive(Debug)]
pub struct StandIn(PathBuf);

impl StandIn {
    /// `attributes` take the place of the repository's own, and come before those in its files.
    pub fn of(repository: &Repository, settings: &Settings, attributes: Option<&str>) -> io::Result<Self> {
        let stand_in = Self(new_folder()?);
        let common = &repository.common;
        files::write_private(&stand_in.0.join("config"), settings.text.as_bytes())?;
        if let Ok(head) = files::read(&common.join("HEAD"), MOST_HEAD_BYTES) {
            files::write_private(&stand_in.0.join("HEAD"), &head)?;
        }
        make_folder_for_large_files(repository);
        if let Some(attributes) = attributes {
            fs::create_dir(stand_in.0.join(INFO))?;
            files::write_private(&stand_in.0.join(INFO).join("attributes"), attributes.as_bytes())?;
        }
        for name in LINKED.into_iter().filter(|name| attributes.is_none() || *name != INFO) {
            let original = common.join(name);
            // Git writes packed references through a link, even if there are none yet.
            if name == "packed-refs" || name == "lfs" || original.symlink_metadata().is_ok() {
                link(&original, &stand_in.0.join(name))?;
            }
        }
        Ok(stand_in)
    }

    /// A folder with nothing in it, for one caller.
    pub fn empty() -> io::Result<Self> {
        new_folder().map(Self)
    }

    pub fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for StandIn {
    fn drop(&mut self) {
        // The links go, not what they lead to.
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Git LFS keeps the content of files there, which must not go with the stand-in. It makes the folder when it first needs
/// it, and cannot do that through a link.
fn make_folder_for_large_files(repository: &Repository) {
    let attributes = [repository.top.join(".gitattributes"), repository.common.join("info/attributes")];
    let names_lfs = |file: &PathBuf| {
        files::read_text(file, files::MAX_SETTINGS_BYTES).is_ok_and(|text| text.contains("filter=lfs"))
    };
    if attributes.iter().any(names_lfs) {
        let _ = fs::create_dir(repository.common.join("lfs"));
    }
}

/// A new folder for the user alone.
fn new_folder() -> io::Result<PathBuf> {
    static NUMBER: AtomicU64 = AtomicU64::new(0);
    let around = folder_around()?;
    let mut taken = None;
    for _ in 0..MOST_TRIES {
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let folder = around.join(format!("{}-{number}-{:08x}", std::process::id(), some_number()));
        match make_private(&folder) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => taken = Some(error),
            made => return made.map(|()| folder),
        }
    }
    Err(taken.unwrap_or_else(|| io::ErrorKind::AlreadyExists.into()))
}

/// Nobody can know the next one, so nobody can make a folder of that name first.
fn some_number() -> u32 {
    use std::hash::{BuildHasher, RandomState};
    let hash = RandomState::new().hash_one(SystemTime::now());
    u32::try_from(hash & u64::from(u32::MAX)).unwrap_or_default()
}

/// The folder of all of them. Without a home there is only the one for temporary files.
fn folder_around() -> io::Result<PathBuf> {
    static TIDIED: Once = Once::new();
    let cached = config::user_cache_folder().map(|folder| folder.join("git"));
    let Some(folder) = cached.filter(|folder| files::create_private_folders(folder).is_ok()) else {
        return Ok(std::env::temp_dir());
    };
    TIDIED.call_once(|| remove_left(&folder));
    folder.canonicalize()
}

fn remove_left(around: &Path) {
    for entry in fs::read_dir(around).into_iter().flatten().flatten() {
        let age = entry.metadata().and_then(|data| data.modified()).ok().and_then(|time| time.elapsed().ok());
        if age.is_some_and(|age| age > LONGEST_USE) {
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}

#[cfg(unix)]
fn make_private(folder: &Path) -> io::Result<()> {
    use std::os::unix::fs::DirBuilderExt;
    fs::DirBuilder::new().mode(0o700).create(folder)
}

#[cfg(not(unix))]
fn make_private(folder: &Path) -> io::Result<()> {
    fs::create_dir(folder)
}

#[cfg(unix)]
fn link(original: &Path, link: &Path) -> io::Result<()> {
    std::os::unix::fs::symlink(original, link)
}

#[cfg(not(unix))]
fn link(_original: &Path, _link: &Path) -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}
