//! A folder of state files.
//!
//! States are looked up in the folder's listing; a name from a model is compared, never joined to a path. The listing
//! is read again when the folder changed or a name is missing, so files that a step wrote are found by the next.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use raymond_core::workflow::{Listing, Platform, StateFile};

use crate::backend::scripted::Replies;
use crate::error::UserError;

/// Where the replies of a scripted backend are, unless config names another file.
const REPLIES_FILE: &str = "replies.yaml";

#[derive(Debug)]
pub struct Folder {
    path: PathBuf,
    platform: Platform,
    listing: Listing,
    listed_at: Option<SystemTime>,
}

/// A state's file as it is now.
#[derive(Debug)]
pub struct Source {
    pub path: PathBuf,
    pub bytes: Vec<u8>,
}

impl Folder {
    pub fn open(path: &Path, platform: Platform) -> Result<Self, UserError> {
        let listed_at = modified(path);
        let listing = list(path)
            .map_err(|error| UserError::usage(format!("cannot read {}: {error}", path.display())))?;
        Ok(Self { path: path.to_owned(), platform, listing, listed_at })
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    pub fn entry(&mut self) -> Result<StateFile, String> {
        self.listing.entry(self.platform).map_err(|error| error.to_string())
    }

    /// Resolves names in the order given. A step that names thousands of missing states is told of the first ones.
    pub fn resolve_all(&mut self, targets: &[&str]) -> BTreeMap<String, Result<StateFile, String>> {
        const MOST_FAULTS: usize = 10;
        let mut resolved = BTreeMap::new();
        let mut faults = 0;
        for target in targets {
            if resolved.contains_key(*target) {
                continue;
            }
            let state = match faults {
                0 => self.resolve(target),
                1..MOST_FAULTS => {
                    self.listing.resolve(target, self.platform).map_err(|error| error.to_string())
                }
                _ => Err(format!(
                    "`{}` was not looked up: {MOST_FAULTS} other states are missing",
                    target.escape_debug()
                )),
            };
            faults += usize::from(state.is_err());
            resolved.insert((*target).to_owned(), state);
        }
        resolved
    }

    pub fn resolve(&mut self, target: &str) -> Result<StateFile, String> {
        if modified(&self.path) != self.listed_at {
            self.refresh();
        }
        if let Ok(state) = self.listing.resolve(target, self.platform) {
            return Ok(state);
        }
        // The folder's time stamp is coarse: a file written a moment ago may not show in it.
        self.refresh();
        self.listing.resolve(target, self.platform).map_err(|error| error.to_string())
    }

    pub fn states(&self) -> impl Iterator<Item = StateFile> + '_ {
        self.listing.states()
    }

    pub fn read(&self, state: &StateFile) -> Result<Source, String> {
        let path = self.path.join(state.as_str());
        match fs::read(&path) {
            Ok(bytes) => Ok(Source { path, bytes }),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                Err(format!("{} is gone; put it back and resume", path.display()))
            }
            Err(error) => Err(format!("cannot read {}: {error}", path.display())),
        }
    }

    /// The replies of a scripted backend: those of the named file, seen from the folder, or those beside the states.
    pub fn replies(&self, named: Option<&str>) -> Result<Replies, String> {
        let file = self.path.join(named.unwrap_or(REPLIES_FILE));
        let text = fs::read_to_string(&file).map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => {
                format!("the scripted backend needs {}, which is not there", file.display())
            }
            _ => format!("cannot read {}: {error}", file.display()),
        })?;
        Replies::parse(&text).map_err(|error| format!("{}: {error}", file.display()))
    }

    fn refresh(&mut self) {
        let modified = modified(&self.path);
        // A folder that cannot be read keeps its last listing; reading the state will say what is wrong.
        if let Ok(listing) = list(&self.path) {
            self.listing = listing;
            self.listed_at = modified;
        }
    }
}

fn list(path: &Path) -> io::Result<Listing> {
    let mut names = Vec::new();
    for entry in fs::read_dir(path)? {
        let entry = entry?;
        // A pipe or device would be read for ever. A name that is no text cannot be written in a tag.
        if is_file(&entry)
            && let Ok(name) = entry.file_name().into_string()
        {
            names.push(name);
        }
    }
    Ok(Listing::new(names))
}

/// Whether an entry is a file, or a link that leads to one or to nothing: reading it will say that it is gone.
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
