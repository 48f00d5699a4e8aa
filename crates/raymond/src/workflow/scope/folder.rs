//! A folder of state files.
//!
//! The listing is read again when the folder has changed or a name is missing, so that a step finds the files that
//! earlier steps wrote.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use raymond_core::workflow::{Listing, Platform, StateFile};

use super::{Given, Source};
use crate::error::UserError;
use crate::files;
use crate::paths::shown;
use crate::workflow::manifest::{self, Manifest};

#[derive(Debug)]
pub struct Folder {
    path: PathBuf,
    platform: Platform,
    manifest: Manifest,
    listing: Listing,
    listed_at: Option<SystemTime>,
}

impl Folder {
    pub fn open(path: &Path, platform: Platform) -> Result<Self, UserError> {
        let listed_at = modified(path);
        let listing = list(path)
            .map_err(|error| UserError::usage(format!("cannot read {}: {error}", shown(path).display())))?;
        let manifest = load_manifest(&path.join(manifest::FILE))?;
        Ok(Self { path: path.to_owned(), platform, manifest, listing, listed_at })
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    pub fn platform(&self) -> Platform {
        self.platform
    }

    pub fn manifest(&self) -> &Manifest {
        &self.manifest
    }

    pub fn listing(&self) -> &Listing {
        &self.listing
    }

    pub fn resolve(&mut self, target: &str) -> Result<StateFile, String> {
        if modified(&self.path) != self.listed_at {
            self.refresh();
        }
        if let Ok(state) = self.listing.resolve(target, self.platform) {
            return Ok(state);
        }
        // Time stamps are coarse: the folder's may not have changed although a file was written just now.
        self.refresh();
        self.listing.resolve(target, self.platform).map_err(|error| error.to_string())
    }

    pub fn read(&self, state: &StateFile) -> Result<Source, String> {
        let path = self.path.join(state.as_str());
        match files::read(&path, super::MAX_BYTES) {
            Ok(bytes) => Ok(Source {
                name: shown(&path).display().to_string(),
                bytes,
                file: Some(path),
                given: Given::InText,
            }),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                Err(format!("{} is gone; put it back and resume", shown(&path).display()))
            }
            Err(error) => Err(format!("cannot read {}: {error}", shown(&path).display())),
        }
    }

    fn refresh(&mut self) {
        let modified = modified(&self.path);
        // If the folder cannot be read, the last listing stays; reading the state then gives the error.
        if let Ok(listing) = list(&self.path) {
            self.listing = listing;
            self.listed_at = modified;
        }
    }
}

fn load_manifest(file: &Path) -> Result<Manifest, UserError> {
    let text = match files::read_text(file, files::MAX_SETTINGS_BYTES) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Manifest::default()),
        Err(error) => {
            return Err(UserError::usage(format!("cannot read {}: {error}", shown(file).display())));
        }
    };
    manifest::parse(&text).map_err(|error| UserError::usage(format!("{}: {error}", shown(file).display())))
}

/// The files of a folder.
pub fn list(path: &Path) -> io::Result<Listing> {
    let mut names = Vec::new();
    for entry in fs::read_dir(path)? {
        let entry = entry?;
        // Reading a pipe or a device may never end. A name that is not valid UTF-8 cannot be written in a tag.
        if is_file(&entry)
            && let Ok(name) = entry.file_name().into_string()
        {
            names.push(name);
        }
    }
    Ok(Listing::new(names))
}

/// Whether an entry is a file or a link to one. A broken link counts, too: reading it then gives a clear error.
fn is_file(entry: &fs::DirEntry) -> bool {
    match entry.file_type() {
        Ok(kind) if kind.is_symlink() => fs::metadata(entry.path()).map_or(true, |data| data.is_file()),
        Ok(kind) => kind.is_file(),
        Err(_) => false,
    }
}

fn modified(path: &Path) -> Option<SystemTime> {
    fs::metadata(path).and_then(|data| data.modified()).ok()
}
