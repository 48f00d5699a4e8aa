//! Reading a whole workflow, mistakes included.

use std::path::{Path, PathBuf};

use raymond_core::graph::{Graph, SourceFile};
use raymond_core::workflow::{Platform, StateFile};

use crate::manifest;
use crate::paths::normalise;
use crate::scope::{Folder, locate};

/// A workflow as it is on disk.
#[derive(Debug)]
pub struct Loaded {
    /// Where its states are, as the user would write it.
    pub shown: PathBuf,
    /// The same, absolute.
    pub path: PathBuf,
    pub files: Vec<SourceFile>,
    /// The state to begin with, where the user named one.
    pub entry: Option<StateFile>,
    /// What its manifest chooses.
    pub backend: Option<String>,
    /// What could not be read, and why.
    pub faults: Vec<Fault>,
}

/// A file that could not be read.
#[derive(Debug)]
pub struct Fault {
    pub shown: PathBuf,
    pub message: String,
}

impl Loaded {
    pub fn graph(&mut self, platform: Platform) -> Graph {
        Graph::read(std::mem::take(&mut self.files), self.entry.as_ref(), platform)
    }

    /// Whether another workflow can be found from this one's folder.
    pub fn find_scope(&self, name: &str, platform: Platform) -> Result<(), String> {
        locate(name, &self.path, platform).map(|_| ()).map_err(|error| error.message)
    }
}

/// Reads every state of the workflow at a path: a folder, or a state in one.
pub fn load(given: &str, cwd: &Path, platform: Platform) -> Result<Loaded, Fault> {
    let path = normalise(cwd, Path::new(given));
    let failed = |message: String| Fault { shown: PathBuf::from(given), message };
    if path.is_dir() {
        return read_folder(PathBuf::from(given), path, None, platform).map_err(failed);
    }
    let name = path.file_name().and_then(|name| name.to_str()).and_then(StateFile::new);
    match (path.parent(), name) {
        (Some(folder), Some(state)) if path.is_file() => {
            let shown = Path::new(given).parent().map(Path::to_owned).unwrap_or_default();
            read_folder(shown, folder.to_owned(), Some(state), platform).map_err(failed)
        }
        _ => {
            // Whoever runs it would be told the same.
            let error = locate(given, cwd, platform).err().map(|error| error.message);
            Err(failed(error.unwrap_or_else(|| "it is neither a folder nor a state file".to_owned())))
        }
    }
}

fn read_folder(
    shown: PathBuf,
    path: PathBuf,
    entry: Option<StateFile>,
    platform: Platform,
) -> Result<Loaded, String> {
    let folder = Folder::open(&path, platform).map_err(|error| error.message)?;
    let mut files = Vec::new();
    let mut faults = Vec::new();
    for state in folder.states() {
        match folder.read(&state) {
            Ok(source) => {
                let text = String::from_utf8(source.bytes)
                    .unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned());
                files.push(SourceFile { state, text });
            }
            Err(message) => faults.push(Fault { shown: shown.join(state.as_str()), message }),
        }
    }
    let backend = match manifest::load(&path) {
        Ok(manifest) => manifest.backend,
        Err(error) => {
            // The file is named beside the message already.
            let file = format!("{}: ", path.join(manifest::FILE).display());
            let message = error.message.strip_prefix(&file).unwrap_or(&error.message).to_owned();
            faults.push(Fault { shown: shown.join(manifest::FILE), message });
            None
        }
    };
    Ok(Loaded { shown, path, files, entry, backend, faults })
}
