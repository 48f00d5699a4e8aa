//! A workflow in a zip archive.
//!
//! Archives may come from strangers, so everything is checked while reading. An archive is read once and completely,
//! with a limit on its size. After that a run does not read the file again.

mod unpack;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use raymond_core::workflow::{Listing, Platform, StateFile};
use sha2::{Digest, Sha256};

pub use unpack::{check_name, unpack, unpack_all};

use super::source::hexadecimal;
use super::{Form, Given, MAX_BYTES, Source};
use crate::author::convert;
use crate::error::UserError;
use crate::files;
use crate::paths::shown;
use crate::workflow::manifest::{self, Manifest};

/// A longer file contains more than an archive may, or data that does not belong to it.
const MAX_FILE_BYTES: u64 = MAX_BYTES + 32 * 1024 * 1024;

#[derive(Debug)]
pub struct Archive {
    path: PathBuf,
    platform: Platform,
    manifest: Manifest,
    listing: Listing,
    files: Rc<BTreeMap<String, Vec<u8>>>,
    hash: String,
}

impl Archive {
    pub fn open(path: &Path, platform: Platform) -> Result<Self, UserError> {
        Self::load(path, platform).map_err(|error| {
            UserError::usage(format!("cannot use the archive {}: {error}", shown(path).display()))
        })
    }

    /// Opens a workflow that is a folder in an archive or a one-file workflow, at `path`.
    pub fn open_inside(path: &Path, host: &Path, platform: Platform) -> Result<Self, UserError> {
        let load = |(files, hash)| Self::of_files(path, files, hash, platform);
        files_inside(path, host)
            .and_then(load)
            .map_err(|error| UserError::usage(format!("cannot use {}: {error}", shown(path).display())))
    }

    fn load(path: &Path, platform: Platform) -> Result<Self, String> {
        let (files, hash) = packed_files(path)?;
        Self::of_files(path, files, hash, platform)
    }

    fn of_files(
        path: &Path,
        files: BTreeMap<String, Vec<u8>>,
        hash: String,
        platform: Platform,
    ) -> Result<Self, String> {
        let manifest = match files.get(manifest::FILE) {
            Some(text) => manifest::parse(&String::from_utf8_lossy(text))
                .map_err(|error| format!("{}: {error}", manifest::FILE))?,
            None => Manifest::default(),
        };
        let listing = Listing::new(files.keys().cloned());
        if listing.states().next().is_none() {
            return Err("there is no state in it".to_owned());
        }
        Ok(Self { path: path.to_owned(), platform, manifest, listing, files: Rc::new(files), hash })
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

    /// The hash of the archive's own bytes.
    pub fn hash(&self) -> &str {
        &self.hash
    }

    pub fn file(&self, name: &str) -> Option<&[u8]> {
        self.files.get(name).map(Vec::as_slice)
    }

    pub fn files(&self) -> &Rc<BTreeMap<String, Vec<u8>>> {
        &self.files
    }

    /// The files of an archive; its manifest is not read and may be invalid.
    pub fn read_files(path: &Path) -> Result<BTreeMap<String, Vec<u8>>, String> {
        unpack(&read_file(path)?)
    }

    pub fn into_files(self) -> BTreeMap<String, Vec<u8>> {
        Rc::unwrap_or_clone(self.files)
    }

    pub fn read(&self, state: &StateFile) -> Result<Source, String> {
        let name = shown(&self.path.join(state.as_str())).display().to_string();
        match self.files.get(state.as_str()) {
            Some(bytes) => Ok(Source { name, bytes: bytes.clone(), file: None, given: Given::InText }),
            None => Err(format!("there is no {name}")),
        }
    }
}

/// All files of an archive or a one-file workflow, and the hash of its own bytes.
pub fn packed_files(path: &Path) -> Result<(BTreeMap<String, Vec<u8>>, String), String> {
    let bytes = read_file(path)?;
    let hash = hexadecimal(&Sha256::digest(&bytes));
    let files = match Form::of_name(path) {
        Some(Form::OneFile) => {
            let text = String::from_utf8(bytes).map_err(|_| "it is not valid UTF-8")?;
            convert::files_in_one(&text)?
        }
        _ => unpack(&bytes)?,
    };
    Ok((files, hash))
}

/// The files below a path that leads into an archive or a one-file workflow, and the hash of its own bytes.
pub fn files_inside(path: &Path, host: &Path) -> Result<(BTreeMap<String, Vec<u8>>, String), String> {
    let (all, hash) = packed_files(host)?;
    let prefix = inner_path(path, host).ok_or("its name is not text")? + "/";
    let below = |(name, bytes): (String, Vec<u8>)| Some((name.strip_prefix(&prefix)?.to_owned(), bytes));
    Ok((all.into_iter().filter_map(below).collect(), hash))
}

/// The path of something in an archive or one-file workflow, as its files are named.
pub fn inner_path(path: &Path, host: &Path) -> Option<String> {
    let parts: Option<Vec<&str>> = path.strip_prefix(host).ok()?.iter().map(|part| part.to_str()).collect();
    parts.map(|parts| parts.join("/"))
}

fn read_file(path: &Path) -> Result<Vec<u8>, String> {
    files::read(path, MAX_FILE_BYTES).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests;
