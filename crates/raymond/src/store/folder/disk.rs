//! The few file-system calls that the rest of the store has in common.
//!
//! All files are created for their owner only, because journals hold prompts, answers and paths. Journal and payloads
//! make their calls through [`Disk`], so that a simulation can replace it with a disk that fails.

use std::fmt::Debug;
use std::fs::{File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::Path;
use std::time::{Duration, SystemTime};

use crate::files;

/// A file that is open.
pub trait DiskFile: Debug + Read + Write + Send {
    fn sync_data(&self) -> io::Result<()>;
    fn sync_all(&self) -> io::Result<()>;
    fn set_len(&self, bytes: u64) -> io::Result<()>;

    /// Takes room on the disk for these bytes of the file without changing its length. A file system that cannot do
    /// that says `Unsupported`.
    fn reserve(&self, _from: u64, _bytes: u64) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }

    /// Whether this path still leads to this file. It does not after the file or a folder above it was deleted, moved
    /// away or replaced.
    fn is_at(&self, _path: &Path) -> bool {
        true
    }

    /// Copies all of the file, which may have been deleted.
    fn copy_to(&self, _out: &mut dyn Write) -> io::Result<u64> {
        Err(io::ErrorKind::Unsupported.into())
    }
}

/// The calls that decide whether a run survives a crash.
pub trait Disk: Debug + Send + Sync {
    /// Creates a file that is not there, for the owner only, to be written from its start.
    fn create(&self, path: &Path, read_only: bool) -> io::Result<Box<dyn DiskFile>>;
    /// Opens a file to be written at its end.
    fn append(&self, path: &Path) -> io::Result<Box<dyn DiskFile>>;
    /// Opens a file to be read from an offset on.
    fn read(&self, path: &Path, offset: u64) -> io::Result<Box<dyn DiskFile>>;
    /// How long a file is; none if there is no file of this name.
    fn length(&self, path: &Path) -> Option<u64>;
    /// The names in a folder.
    fn names(&self, dir: &Path) -> io::Result<Vec<String>>;
    /// When a name was last added to a folder or removed. None if that cannot be told, or was so short a time ago that a
    /// further change might not be seen by it.
    fn changed(&self, _dir: &Path) -> Option<SystemTime> {
        None
    }
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;
    /// Removes a file that need not be there.
    fn remove(&self, path: &Path) -> io::Result<()>;
    fn create_dir(&self, dir: &Path) -> io::Result<()>;
    /// Makes the names in a folder durable.
    fn sync_dir(&self, dir: &Path) -> io::Result<()>;
}

impl DiskFile for File {
    fn sync_data(&self) -> io::Result<()> {
        File::sync_data(self)
    }

    fn sync_all(&self) -> io::Result<()> {
        File::sync_all(self)
    }

    fn set_len(&self, bytes: u64) -> io::Result<()> {
        File::set_len(self, bytes)
    }

    #[cfg(target_os = "linux")]
    fn reserve(&self, from: u64, bytes: u64) -> io::Result<()> {
        use rustix::fs::{FallocateFlags, fallocate};
        use rustix::process::{Resource, getrlimit};
        // The system checks this limit only when the file grows.
        if getrlimit(Resource::Fsize).current.is_some_and(|most| from + bytes > most) {
            return Err(io::ErrorKind::FileTooLarge.into());
        }
        Ok(fallocate(self, FallocateFlags::KEEP_SIZE, from, bytes)?)
    }

    fn is_at(&self, path: &Path) -> bool {
        is_at(self, path)
    }

    fn copy_to(&self, out: &mut dyn Write) -> io::Result<u64> {
        let mut file = self.try_clone()?;
        file.seek(SeekFrom::Start(0))?;
        io::copy(&mut file, out)
    }
}

/// Whether a path leads to an open file. If the system cannot say, it does.
#[cfg(unix)]
pub(super) fn is_at(file: &File, path: &Path) -> bool {
    use std::os::unix::fs::MetadataExt;
    let identity = |data: std::fs::Metadata| (data.dev(), data.ino());
    let Ok(open) = file.metadata() else { return true };
    match std::fs::symlink_metadata(path) {
        Ok(there) => identity(there) == identity(open),
        Err(error) => !matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory),
    }
}

/// Here the name of a file that is open cannot be given to another file.
#[cfg(windows)]
pub(super) fn is_at(_file: &File, _path: &Path) -> bool {
    true
}

#[cfg(test)]
thread_local! {
    /// How often a folder was listed.
    pub(crate) static LISTINGS: std::cell::Cell<u64> = const { std::cell::Cell::new(0) };
}

/// Tests count the listings of a folder: one for each run would take longer the more runs there are.
pub(super) fn count_listing() {
    #[cfg(test)]
    LISTINGS.set(LISTINGS.get() + 1);
}

/// The file system of this machine.
#[derive(Debug)]
pub(super) struct SystemDisk;

impl Disk for SystemDisk {
    fn changed(&self, dir: &Path) -> Option<SystemTime> {
        // Longer than the steps in which file systems count time.
        const SETTLED: Duration = Duration::from_secs(1);
        let changed = std::fs::metadata(dir).ok()?.modified().ok()?;
        SystemTime::now().duration_since(changed).is_ok_and(|age| age > SETTLED).then_some(changed)
    }

    fn create(&self, path: &Path, read_only: bool) -> io::Result<Box<dyn DiskFile>> {
        let mut options = if read_only { read_only_options() } else { private_options() };
        Ok(Box::new(files::open_plain_as(options.read(true).append(true).create_new(true), path)?))
    }

    fn append(&self, path: &Path) -> io::Result<Box<dyn DiskFile>> {
        Ok(Box::new(files::open_plain_as(private_options().read(true).append(true), path)?))
    }

    fn read(&self, path: &Path, offset: u64) -> io::Result<Box<dyn DiskFile>> {
        let mut file = files::open_plain(path)?;
        file.seek(SeekFrom::Start(offset))?;
        Ok(Box::new(file))
    }

    fn length(&self, path: &Path) -> Option<u64> {
        std::fs::symlink_metadata(path).ok().filter(|data| data.is_file()).map(|data| data.len())
    }

    fn names(&self, dir: &Path) -> io::Result<Vec<String>> {
        count_listing();
        let entries = match std::fs::read_dir(dir) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            other => other?,
        };
        let mut names = Vec::new();
        for entry in entries {
            names.extend(entry?.file_name().into_string());
        }
        Ok(names)
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        std::fs::rename(from, to)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        remove_if_there(path)
    }

    fn create_dir(&self, dir: &Path) -> io::Result<()> {
        create_private_dir(dir)
    }

    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        sync_dir(dir)
    }
}

/// Makes the names in a folder durable, which syncing the files in it does not do.
pub(super) fn sync_dir(dir: &Path) -> io::Result<()> {
    // Only Unix can sync a folder; elsewhere the file system orders its own changes.
    if cfg!(unix) {
        files::open_folder(dir)?.sync_all()?;
    }
    Ok(())
}

/// Creates a folder for the owner only, and missing folders above it. One that exists is left as it is.
pub(super) fn create_private_dir(dir: &Path) -> io::Result<()> {
    if dir.is_dir() {
        return Ok(());
    }
    files::create_private_folders(dir)?;
    match dir.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => sync_dir(parent),
        _ => Ok(()),
    }
}

/// Options that give a new file the mode 0600.
pub(super) fn private_options() -> OpenOptions {
    files::private_options()
}

/// Options that give a new file the mode 0400; the handle that creates it can still write.
pub(super) fn read_only_options() -> OpenOptions {
    files::options_with_mode(0o400)
}

/// Removes a file that need not be there.
pub(super) fn remove_if_there(path: &Path) -> io::Result<()> {
    match std::fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn removing_what_is_not_there_is_fine() {
        let dir = tempfile::tempdir().unwrap();
        remove_if_there(&dir.path().join("nothing")).unwrap();
    }
}
