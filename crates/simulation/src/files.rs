//! Files that distinguish written data from durable data.
//!
//! Contents are durable once their file is synced, names once their folder is synced. A power cut keeps a part of the
//! rest: changes of names in their order up to some point, and contents up to some byte or with zeros in their place.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

use crate::rng::Rng;

const PAGE: usize = 4096;

#[derive(Clone, Debug, Default)]
pub struct Inode {
    pub now: Vec<u8>,
    pub safe: Vec<u8>,
}

#[derive(Clone, Debug)]
pub enum Change {
    Name(PathBuf, usize),
    Rename(PathBuf, PathBuf, usize),
    Remove(PathBuf),
}

#[derive(Clone, Debug, Default)]
pub struct Files {
    pub inodes: Vec<Inode>,
    pub names: BTreeMap<PathBuf, usize>,
    pub safe_names: BTreeMap<PathBuf, usize>,
    /// Changes of names that are not durable yet.
    changes: Vec<Change>,
}

impl Change {
    fn folder(&self) -> Option<&Path> {
        match self {
            Change::Name(path, _) | Change::Rename(_, path, _) | Change::Remove(path) => path.parent(),
        }
    }

    fn apply(&self, names: &mut BTreeMap<PathBuf, usize>) {
        match self {
            Change::Name(path, inode) => {
                names.insert(path.clone(), *inode);
            }
            Change::Rename(from, to, inode) => {
                names.remove(from);
                names.insert(to.clone(), *inode);
            }
            Change::Remove(path) => {
                names.remove(path);
            }
        }
    }
}

impl Files {
    pub fn find(&self, path: &Path) -> io::Result<usize> {
        self.names.get(path).copied().ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    pub fn change(&mut self, change: Change) {
        change.apply(&mut self.names);
        self.changes.push(change);
    }

    /// Makes the names in a folder durable.
    pub fn sync_names(&mut self, dir: &Path) {
        let (safe, others): (Vec<_>, Vec<_>) =
            self.changes.drain(..).partition(|change| change.folder() == Some(dir));
        self.changes = others;
        for change in safe {
            change.apply(&mut self.safe_names);
        }
    }

    pub fn power_cut(&mut self, what_stays: u64) {
        let mut rng = Rng::new(what_stays);
        let kept = match what_stays {
            0 => 0,
            1 => self.changes.len(),
            _ => rng.below(self.changes.len() + 1),
        };
        for change in self.changes.drain(..).take(kept) {
            change.apply(&mut self.safe_names);
        }
        self.names = self.safe_names.clone();
        for inode in &mut self.inodes {
            match what_stays {
                0 => inode.now = inode.safe.clone(),
                1 => {}
                _ => inode.now = torn(inode, &mut rng),
            }
            inode.safe = inode.now.clone();
        }
    }
}

/// What may be left of a file that was not synced.
fn torn(inode: &Inode, rng: &mut Rng) -> Vec<u8> {
    if !inode.now.starts_with(&inode.safe) {
        return if rng.one_in(2) { inode.now.clone() } else { inode.safe.clone() };
    }
    let (safe, all) = (inode.safe.len(), inode.now.len());
    let end = safe + rng.below(all - safe + 1);
    let mut left = inode.now[..end].to_vec();
    if rng.one_in(3) {
        // The new length was stored, but one page of the content was not.
        left = inode.now.clone();
        let page = end / PAGE * PAGE;
        let hole = page.max(safe).min(all)..(page + PAGE).min(all);
        left[hole].fill(0);
    }
    left
}

pub fn names_in(names: &BTreeMap<PathBuf, usize>, dir: &Path) -> Vec<String> {
    let inside = names.keys().filter(|path| path.parent() == Some(dir));
    inside.filter_map(|path| path.file_name()?.to_str().map(str::to_owned)).collect()
}
