//! A workflow that is one YAML file.
//!
//! The file is read again when it has changed, so that an edit counts from the next step on, as it does in a folder.
//! If it has not changed, a step only reads its time stamp, no matter how many states there are.

mod origin;
mod parse;

use std::fs::{self, Metadata};
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::time::{Duration, SystemTime};

use raymond_core::workflow::{Listing, Platform, StateFile};

pub use origin::{Origin, TextPlace};
pub use parse::{Contents, Mistakes, OneState, header_value, parse, parse_leniently};

use super::{Given, MAX_BYTES, Source};
use crate::error::UserError;
use crate::files;
use crate::paths::shown;
use crate::workflow::manifest::{self, Manifest};

/// Time stamps are coarse: if a file was written just before it was read, a later change may leave the same stamp.
const STAMP_GRAIN: Duration = Duration::from_millis(100);

#[derive(Debug)]
pub struct OneFile {
    path: PathBuf,
    platform: Platform,
    contents: Contents,
    /// Counts the different contents that were read from the file.
    version: u64,
    stamp: Option<Stamp>,
}

/// As long as this is the same, the file has not changed.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Stamp {
    modified: SystemTime,
    length: u64,
}

impl OneFile {
    pub fn open(path: &Path, platform: Platform) -> Result<Self, UserError> {
        let nothing = Contents::default();
        let mut file = Self { path: path.to_owned(), platform, contents: nothing, version: 0, stamp: None };
        file.load().map_err(|error| with_hints(path, error))?;
        Ok(file)
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    pub fn platform(&self) -> Platform {
        self.platform
    }

    pub fn manifest(&self) -> &Manifest {
        &self.contents.manifest
    }

    pub fn listing(&self) -> &Listing {
        &self.contents.listing
    }

    pub fn contents(&self) -> &Contents {
        &self.contents
    }

    pub fn version(&self) -> u64 {
        self.version
    }

    pub fn file(&self, name: &str) -> Option<&[u8]> {
        self.contents.files.get(name).map(Vec::as_slice)
    }

    pub fn read(&mut self, state: &StateFile) -> Result<Source, String> {
        self.refresh()?;
        let path = shown(&self.path).display();
        if let Some(one) = self.contents.states.get(state) {
            return Ok(Source {
                name: path.to_string(),
                bytes: one.text.clone().into_bytes(),
                file: None,
                given: one.given.clone(),
            });
        }
        match self.contents.files.get(state.as_str()) {
            Some(bytes) => {
                let place = self.contents.file_places.get(state.as_str()).cloned();
                let whole = Rc::clone(&self.contents.yaml);
                let (name, given) = match place {
                    Some(place) => (path.to_string(), Given::InPart { whole, place }),
                    None => (format!("{path}, file {state}"), Given::InText),
                };
                Ok(Source { name, bytes: bytes.clone(), file: None, given })
            }
            None => Err(format!("the state {state} is gone from {path}; put it back and resume")),
        }
    }

    /// Reads the file again if it may have changed.
    pub fn refresh(&mut self) -> Result<(), String> {
        if self.stamp.is_some() && self.stamp == stamp_of(&self.path) {
            return Ok(());
        }
        self.load()
    }

    fn load(&mut self) -> Result<(), String> {
        let before = SystemTime::now();
        let stamp = stamp_of(&self.path);
        let text = read_text(&self.path)?;
        if self.version == 0 || *self.contents.yaml != *without_mark(&text) {
            self.contents =
                parse(&text).map_err(|error| format!("{}: {error}", shown(&self.path).display()))?;
            self.version += 1;
        }
        let is_settled = |stamp: &Stamp| {
            before.duration_since(stamp.modified).is_ok_and(|age| age > STAMP_GRAIN)
                && stamp.length == text.len() as u64
        };
        self.stamp = stamp.filter(is_settled);
        Ok(())
    }
}

fn without_mark(text: &str) -> &str {
    text.strip_prefix('\u{feff}').unwrap_or(text)
}

/// The text of a one-file workflow.
pub fn read_text(path: &Path) -> Result<String, String> {
    let bytes = files::read(path, MAX_BYTES).map_err(|error| match error.kind() {
        std::io::ErrorKind::NotFound => format!("{} is gone; put it back and resume", shown(path).display()),
        _ => format!("cannot read {}: {error}", shown(path).display()),
    })?;
    String::from_utf8(bytes).map_err(|error| {
        let at = error.utf8_error().valid_up_to();
        let before = error.as_bytes().get(..at).unwrap_or_default();
        let line = memchr::memchr_iter(b'\n', before).count() + 1;
        format!("{}: line {line}: it is not valid UTF-8", shown(path).display())
    })
}

fn stamp_of(path: &Path) -> Option<Stamp> {
    let stamp = |data: Metadata| Some(Stamp { modified: data.modified().ok()?, length: data.len() });
    fs::metadata(path).ok().and_then(stamp)
}

fn with_hints(path: &Path, error: String) -> UserError {
    let is_manifest = path.file_name().is_some_and(|name| name == manifest::FILE);
    let error = UserError::usage(error);
    match path.parent() {
        Some(folder) if is_manifest => error.hint(format!(
            "{} is the name of a folder's manifest; to run the folder, give {}",
            manifest::FILE,
            folder.display()
        )),
        _ => error.hint("nothing was run; fix the file and start again"),
    }
}

#[cfg(test)]
mod tests;
