//! Reading a whole workflow, mistakes included.

use std::path::{Path, PathBuf};

use raymond_core::graph::{Graph, SourceFile};
use raymond_core::workflow::{Platform, StateFile};

use crate::convert;
use crate::manifest;
use crate::paths::normalise;
use crate::scope::{Form, Scope, locate};

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

/// Reads every state of the workflow at a path: a folder, an archive, one file, or a state in one of them.
pub fn load(given: &str, cwd: &Path, platform: Platform) -> Result<Loaded, Fault> {
    let failed = |message: String| Fault { shown: PathBuf::from(given), message };
    let path = normalise(cwd, Path::new(given));
    if Form::of(&path).is_some() {
        return read_scope(PathBuf::from(given), &path, None, platform).map_err(failed);
    }
    // Whoever runs it would be told the same.
    let located = locate(given, cwd, platform).map_err(|error| failed(error.message))?;
    let shown = Path::new(given).parent().map(Path::to_owned).unwrap_or_default();
    read_scope(shown, located.scope.path(), Some(located.entry), platform).map_err(failed)
}

fn read_scope(
    shown: PathBuf,
    path: &Path,
    entry: Option<StateFile>,
    platform: Platform,
) -> Result<Loaded, String> {
    let mut loaded =
        Loaded { shown, path: path.to_owned(), files: Vec::new(), entry, backend: None, faults: Vec::new() };
    if Form::of(path) == Some(Form::Folder) {
        read_folder(&mut loaded, platform)?;
    } else {
        read_packed(&mut loaded)?;
    }
    Ok(loaded)
}

fn read_folder(loaded: &mut Loaded, platform: Platform) -> Result<(), String> {
    let mut scope = match Scope::open(&loaded.path, platform) {
        Ok(scope) => scope,
        Err(error) => {
            let file = loaded.path.join(manifest::FILE);
            let Some(message) = error.message.strip_prefix(&format!("{}: ", file.display())) else {
                return Err(error.message);
            };
            // The file is named beside the message already.
            loaded
                .faults
                .push(Fault { shown: loaded.shown.join(manifest::FILE), message: message.to_owned() });
            return read_states_alone(loaded);
        }
    };
    loaded.backend = scope.manifest().backend.clone();
    let states: Vec<StateFile> = scope.states().collect();
    for state in states {
        match scope.read(&state) {
            Ok(source) => loaded.files.push(SourceFile { state, text: lossy(source.bytes) }),
            Err(message) => loaded.faults.push(Fault { shown: loaded.shown.join(state.as_str()), message }),
        }
    }
    Ok(())
}

/// The states of a folder whose manifest cannot be read: they are judged all the same.
fn read_states_alone(loaded: &mut Loaded) -> Result<(), String> {
    for (name, bytes) in convert::read_folder(&loaded.path)? {
        if let Some(state) = StateFile::new(&name) {
            loaded.files.push(SourceFile { state, text: lossy(bytes) });
        }
    }
    Ok(())
}

/// An archive or a one-file workflow, as the files that it would be in a folder.
fn read_packed(loaded: &mut Loaded) -> Result<(), String> {
    for (name, bytes) in convert::read(&loaded.path).map_err(|error| error.message)? {
        if let Some(state) = StateFile::new(&name) {
            loaded.files.push(SourceFile { state, text: lossy(bytes) });
        } else if name == manifest::FILE {
            loaded.backend = manifest::parse(&lossy(bytes)).ok().and_then(|manifest| manifest.backend);
        }
    }
    Ok(())
}

fn lossy(bytes: Vec<u8>) -> String {
    String::from_utf8(bytes).unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned())
}
