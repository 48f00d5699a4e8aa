//! Files of steps that are to go become the files of new steps.
//!
//! A file system may take its time before it gives a deleted file's place to a new one: ext4 without a journal
//! looks at everything deleted in the last minutes for each new file, which costs a long run a millisecond a
//! step. A file that is emptied and renamed costs a tenth of that there, and no more than a new one elsewhere.

use std::collections::VecDeque;
use std::fs::{self, File};
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

#[cfg(unix)]
mod unix;

#[cfg(unix)]
use unix::take_over;

use super::file;
use super::name::Suffix;

/// How many names may wait; a step that goes adds all it may have used, of which about half exist.
const MOST_WAITING: usize = 4 * Suffix::ALL.len();

/// Files that may be used for something else, still under their old names.
#[derive(Debug, Default)]
pub(super) struct Spares {
    waiting: VecDeque<PathBuf>,
}

impl Spares {
    /// Takes over whatever there is of an attempt.
    pub(super) fn add(&mut self, folder: &Path, stem: &str) -> io::Result<()> {
        let paths = Suffix::ALL.map(|suffix| file::path(folder, stem, 1, suffix));
        self.waiting.extend(paths);
        self.shrink(MOST_WAITING)
    }

    /// Removes what nobody needed.
    pub(super) fn clear(&mut self) -> io::Result<()> {
        self.shrink(0)
    }

    /// A new, empty file; fails with [`ErrorKind::AlreadyExists`] rather than touch one that is there.
    pub(super) fn create(&mut self, path: &Path) -> io::Result<File> {
        while let Some(spare) = self.waiting.pop_front() {
            match take_over(&spare, path) {
                Ok(Some(file)) => return Ok(file),
                Ok(None) => {}
                Err(error) if error.kind() == ErrorKind::AlreadyExists => {
                    self.waiting.push_front(spare);
                    return Err(error);
                }
                // Somebody else's too, or on a file system that cannot do this: it only goes.
                Err(_) => remove(&spare)?,
            }
        }
        file::private_options().write(true).create_new(true).open(path)
    }

    fn shrink(&mut self, most: usize) -> io::Result<()> {
        while self.waiting.len() > most {
            if let Some(path) = self.waiting.pop_front() {
                remove(&path)?;
            }
        }
        Ok(())
    }
}

fn remove(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

/// Where a file cannot be renamed without the risk of replacing another, it only goes.
#[cfg(not(unix))]
fn take_over(_spare: &Path, _path: &Path) -> io::Result<Option<File>> {
    Err(ErrorKind::Unsupported.into())
}
