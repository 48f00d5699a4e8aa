//! The folder of what is to be removed. A folder is put there whole before anything of it is removed, so that one that can
//! be removed only in part is never taken for what it was.

use std::path::{Path, PathBuf};
use std::{fs, io};

/// The folder's name, below `--work`.
const TRASH: &str = "trash";

#[derive(Clone, Debug)]
pub struct Trash(PathBuf);

impl Trash {
    pub fn below(work: &Path) -> Self {
        Self(work.join(TRASH))
    }

    /// Takes a file or a folder, if it is there. Returns where it is now.
    pub fn take(&self, path: &Path) -> io::Result<Option<PathBuf>> {
        fs::create_dir_all(&self.0)?;
        // A folder that must not be written cannot be put elsewhere either.
        let _ = make_writable(path);
        let place = self.0.join(uuid::Uuid::new_v4().simple().to_string());
        match fs::rename(path, &place) {
            Ok(()) => Ok(Some(place)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(about(path, &error)),
        }
    }

    /// Removes all that can be removed. The error is about the first thing that stays.
    pub fn empty(&self) -> io::Result<()> {
        match fs::read_dir(&self.0) {
            Ok(entries) => remove_each(entries),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            Err(error) => Err(error),
        }
    }
}

/// Removes a file, or a folder with everything in it, as far as that is possible. Folders that must not be written are
/// made writable. The error is about the first thing that stays.
pub fn remove_all(path: &Path) -> io::Result<()> {
    let removed = match fs::symlink_metadata(path) {
        Ok(found) if found.is_dir() => {
            fs::remove_dir_all(path).or_else(|_| remove_each_in(path).and_then(|()| fs::remove_dir(path)))
        }
        Ok(_) => fs::remove_file(path),
        Err(error) => Err(error),
    };
    match removed {
        // Someone else may remove it at the same time.
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        // It is about something in this folder, and names it.
        Err(error) if error.raw_os_error().is_none() => Err(error),
        Err(error) => Err(about(path, &error)),
        Ok(()) => Ok(()),
    }
}

fn remove_each_in(folder: &Path) -> io::Result<()> {
    // What then cannot be removed says why.
    let _ = make_writable(folder);
    remove_each(fs::read_dir(folder)?)
}

fn remove_each(entries: fs::ReadDir) -> io::Result<()> {
    let mut result = Ok(());
    for entry in entries {
        let removed = entry.and_then(|entry| remove_all(&entry.path()));
        result = result.and(removed);
    }
    result
}

fn about(path: &Path, error: &io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("cannot remove {}: {error}", path.display()))
}

#[cfg(unix)]
fn make_writable(folder: &Path) -> io::Result<()> {
    use std::os::unix::fs::PermissionsExt;
    let found = fs::symlink_metadata(folder)?;
    let mode = found.permissions().mode();
    match found.is_dir() && mode & 0o700 != 0o700 {
        true => fs::set_permissions(folder, fs::Permissions::from_mode(mode | 0o700)),
        false => Ok(()),
    }
}

#[cfg(not(unix))]
fn make_writable(_: &Path) -> io::Result<()> {
    Ok(())
}

/// Runs a test as a user for whom not every folder is writable. For root all are.
#[cfg(test)]
pub(super) fn as_no_one(test: impl FnOnce() + Send + 'static) {
    let thread = std::thread::spawn(|| {
        let no_one = rustix::process::Uid::from_raw(NO_ONE);
        // This is for the thread alone. A user who is not root may not do it, and need not.
        let _ = rustix::thread::set_thread_res_uid(no_one, no_one, no_one);
        test();
    });
    thread.join().unwrap();
}

/// A user who owns nothing.
#[cfg(test)]
const NO_ONE: u32 = 65_534;

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt, chown, symlink};

    use super::*;

    #[test]
    fn folders_that_must_not_be_written_can_be_removed() {
        as_no_one(|| {
            let work = tempfile::tempdir().unwrap();
            let (trash, folder) = (Trash::below(work.path()), work.path().join("folder"));
            fs::create_dir_all(folder.join("inner")).unwrap();
            fs::write(folder.join("inner/f"), "").unwrap();
            symlink(work.path(), folder.join("inner/link")).unwrap();
            for path in [folder.join("inner"), folder.clone()] {
                fs::set_permissions(path, fs::Permissions::from_mode(0o555)).unwrap();
            }
            let place = trash.take(&folder).unwrap().unwrap();
            assert!(!folder.exists() && place.join("inner/f").exists());
            assert_eq!(trash.take(&folder).unwrap(), None);
            trash.empty().unwrap();
            assert!(!place.exists() && work.path().exists());
        });
    }

    /// Something that belongs to another user stays, and nothing else does.
    #[test]
    fn what_cannot_be_removed_keeps_nothing_else_there() {
        let work = tempfile::tempdir().unwrap();
        let trash = Trash::below(work.path());
        for name in ["a", "b", "c", "d"] {
            fs::create_dir_all(trash.0.join(name)).unwrap();
            fs::write(trash.0.join(name).join("f"), "").unwrap();
        }
        for path in [work.path().to_owned(), trash.0.clone(), trash.0.join("b"), trash.0.join("d")] {
            if chown(path, Some(NO_ONE), None).is_err() {
                return;
            }
        }
        let stay = trash.clone();
        as_no_one(move || {
            let error = trash.empty().unwrap_err().to_string();
            assert!(error.starts_with("cannot remove ") && error.contains("/f: "), "{error}");
        });
        let mut left: Vec<_> =
            fs::read_dir(&stay.0).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        left.sort();
        assert_eq!(left, ["a", "c"]);
    }
}
