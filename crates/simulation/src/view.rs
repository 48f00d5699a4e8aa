//! A read-only view of the disk: there are no faults, and nothing is changed.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

use raymond::store::folder::{Disk, DiskFile};

use crate::disk::{Handle, SimDisk};
use crate::files::{Files, names_in};

/// The disk as it is, or as it would be after a power cut that keeps only durable data.
#[derive(Clone, Debug)]
pub struct View {
    pub disk: SimDisk,
    pub sees_safe: bool,
}

impl View {
    fn names_of<'f>(&self, files: &'f Files) -> &'f BTreeMap<PathBuf, usize> {
        if self.sees_safe { &files.safe_names } else { &files.names }
    }
}

fn refused<T>() -> io::Result<T> {
    Err(io::ErrorKind::ReadOnlyFilesystem.into())
}

impl Disk for View {
    fn create(&self, _path: &Path, _read_only: bool) -> io::Result<Box<dyn DiskFile>> {
        refused()
    }

    fn append(&self, _path: &Path) -> io::Result<Box<dyn DiskFile>> {
        refused()
    }

    fn read(&self, path: &Path, offset: u64) -> io::Result<Box<dyn DiskFile>> {
        let inode = self.disk.files(|files| self.names_of(files).get(path).copied());
        Ok(Box::new(Handle {
            disk: self.disk.clone(),
            path: path.to_owned(),
            inode: inode.ok_or(io::ErrorKind::NotFound)?,
            position: offset as usize,
            sees_safe: self.sees_safe,
        }))
    }

    fn length(&self, path: &Path) -> Option<u64> {
        self.disk.files(|files| {
            let inode = &files.inodes[*self.names_of(files).get(path)?];
            Some(if self.sees_safe { inode.safe.len() } else { inode.now.len() } as u64)
        })
    }

    fn names(&self, dir: &Path) -> io::Result<Vec<String>> {
        Ok(self.disk.files(|files| names_in(self.names_of(files), dir)))
    }

    fn rename(&self, _from: &Path, _to: &Path) -> io::Result<()> {
        refused()
    }

    fn remove(&self, _path: &Path) -> io::Result<()> {
        refused()
    }

    fn create_dir(&self, _dir: &Path) -> io::Result<()> {
        refused()
    }

    fn sync_dir(&self, _dir: &Path) -> io::Result<()> {
        refused()
    }
}
