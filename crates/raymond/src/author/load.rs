//! Reading a whole workflow, mistakes included.

mod one_file;

use std::cell::RefCell;
use std::collections::HashMap;
use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};

use raymond_core::frontmatter::yaml;
use raymond_core::graph::{Graph, SourceFile};
use raymond_core::workflow::source::{Position, SourceWarning};
use raymond_core::workflow::{Platform, StateFile};

pub use one_file::Inside;

use crate::author::convert::Files;
use crate::paths::normalise;
use crate::workflow::manifest::{self, Manifest};
use crate::workflow::place::line_of;
use crate::workflow::scope::{Archive, Form, list_folder, locate, parse_leniently, read_one_file};

/// A workflow as it is on disk.
#[derive(Debug)]
pub struct Loaded {
    /// The path of its states, as the user would write it.
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
    /// The file that contains all states, for a one-file workflow.
    pub inside: Option<Inside>,
    /// Other workflows that were looked for, with the result.
    found_scopes: RefCell<HashMap<String, Result<(), String>>>,
}

/// Something that could not be read, or that has no meaning.
#[derive(Debug)]
pub struct Fault {
    pub kind: FaultKind,
    pub shown: PathBuf,
    pub message: String,
    /// The position in the file, and the line there.
    pub place: Option<(Position, String)>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FaultKind {
    CannotBeLoaded,
    UnreadableSettings,
    UnknownKey,
}

impl fmt::Display for Fault {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let place = self.place.as_ref().map(|(position, _)| format!("{position}: ")).unwrap_or_default();
        write!(formatter, "{}: {place}{}", self.shown.display(), self.message)
    }
}

impl Fault {
    fn new(shown: PathBuf, message: String) -> Fault {
        Fault { kind: FaultKind::CannotBeLoaded, shown, message, place: None }
    }

    fn at(kind: FaultKind, shown: &Path, text: &str, position: Position, message: String) -> Fault {
        let place = Some((position, line_of(text, position.line).to_owned()));
        Fault { kind, shown: shown.to_owned(), message, place }
    }
}

impl Loaded {
    fn new(shown: PathBuf, path: &Path) -> Loaded {
        Loaded {
            shown,
            path: path.to_owned(),
            files: Vec::new(),
            entry: None,
            backend: None,
            faults: Vec::new(),
            inside: None,
            found_scopes: RefCell::default(),
        }
    }

    pub fn graph(&mut self, platform: Platform) -> Graph {
        Graph::read(std::mem::take(&mut self.files), self.entry.as_ref(), platform)
    }

    /// Whether another workflow can be found from this one's folder.
    pub fn find_scope(&self, name: &str, platform: Platform) -> Result<(), String> {
        let mut found = self.found_scopes.borrow_mut();
        if let Some(found) = found.get(name) {
            return found.clone();
        }
        let result = locate(name, &self.path, platform).map(|_| ()).map_err(|error| error.message);
        found.insert(name.to_owned(), result.clone());
        result
    }

    fn take_manifest(&mut self, shown: &Path, text: &str, manifest: &Manifest) {
        self.backend = manifest.backend.clone();
        self.warn(shown, text, &manifest.warnings);
    }

    fn warn(&mut self, shown: &Path, text: &str, warnings: &[SourceWarning]) {
        let fault = |warning: &SourceWarning| {
            Fault::at(FaultKind::UnknownKey, shown, text, warning.position, warning.message.clone())
        };
        self.faults.extend(warnings.iter().map(fault));
    }

    /// The settings of a folder or an archive, which are a file of their own.
    fn read_manifest(&mut self, bytes: &[u8]) {
        let text = String::from_utf8_lossy(bytes);
        let text = text.strip_prefix('\u{feff}').unwrap_or(&text);
        let shown = self.shown.join(manifest::FILE);
        match manifest::parse(text) {
            Ok(manifest) => self.take_manifest(&shown, text, &manifest),
            Err(error) => self.faults.push(Fault::at(
                FaultKind::CannotBeLoaded,
                &shown,
                text,
                error.position,
                error.message,
            )),
        }
    }
}

/// Reads every state of the workflow at a path: a folder, an archive, one file, or a state in one of them.
pub fn load(given: &str, cwd: &Path, platform: Platform) -> Result<Loaded, Fault> {
    let path = normalise(cwd, Path::new(given));
    if Form::of(&path).is_some() {
        return read_scope(PathBuf::from(given), &path);
    }
    let shown = Path::new(given).parent().map(Path::to_owned).unwrap_or_default();
    match locate(given, cwd, platform) {
        Ok(located) => {
            let mut loaded = read_scope(shown, located.scope.path())?;
            loaded.entry = Some(located.entry);
            Ok(loaded)
        }
        // Running it gives this error, too. If the workflow itself has mistakes, their places say more.
        Err(error) => match path.parent().filter(|parent| Form::of(parent).is_some()) {
            Some(parent) => read_scope(shown, parent).and_then(|loaded| match loaded.has_errors() {
                true => Ok(loaded),
                false => Err(Fault::new(PathBuf::from(given), error.message)),
            }),
            None => Err(Fault::new(PathBuf::from(given), error.message)),
        },
    }
}

impl Loaded {
    fn has_errors(&self) -> bool {
        self.faults.iter().any(|fault| fault.kind != FaultKind::UnknownKey)
    }
}

fn read_scope(shown: PathBuf, path: &Path) -> Result<Loaded, Fault> {
    let mut loaded = Loaded::new(shown.clone(), path);
    let failed = |message: String| Fault::new(shown.clone(), message);
    match Form::of(path) {
        Some(Form::Archive) => {
            let files = Archive::read_files(path).map_err(failed)?;
            read_archive(&mut loaded, files);
        }
        Some(Form::OneFile) => {
            let text = read_one_file(path).map_err(failed)?;
            read_states_of_one_file(&mut loaded, text)?;
        }
        Some(Form::Folder) | None => read_folder(&mut loaded).map_err(failed)?,
    }
    Ok(loaded)
}

fn read_folder(loaded: &mut Loaded) -> Result<(), String> {
    let path = loaded.path.clone();
    let listing = list_folder(&path).map_err(|error| format!("cannot read it: {error}"))?;
    for state in listing.states() {
        match fs::read(path.join(state.as_str())) {
            Ok(bytes) => loaded.files.push(SourceFile { state, text: lossy(bytes) }),
            Err(error) => {
                let message = format!("cannot read it: {error}");
                loaded.faults.push(Fault::new(loaded.shown.join(state.as_str()), message));
            }
        }
    }
    match fs::read(path.join(manifest::FILE)) {
        Ok(bytes) => loaded.read_manifest(&bytes),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
        Err(error) => {
            let message = format!("cannot read it: {error}");
            loaded.faults.push(Fault::new(loaded.shown.join(manifest::FILE), message));
        }
    }
    Ok(())
}

fn read_archive(loaded: &mut Loaded, files: Files) {
    for (name, bytes) in files {
        if let Some(state) = StateFile::new(&name) {
            loaded.files.push(SourceFile { state, text: lossy(bytes) });
        } else if name == manifest::FILE {
            loaded.read_manifest(&bytes);
        }
    }
}

fn read_states_of_one_file(loaded: &mut Loaded, text: String) -> Result<(), Fault> {
    let yaml = match text.strip_prefix('\u{feff}') {
        Some(rest) => rest.to_owned(),
        None => text,
    };
    let shown = loaded.shown.clone();
    let fault = |kind, fault: yaml::Fault| Fault::at(kind, &shown, &yaml, fault.position, fault.message);
    let (contents, mistakes) =
        parse_leniently(&yaml).map_err(|error| fault(FaultKind::CannotBeLoaded, error))?;
    let in_settings = mistakes.in_settings.into_iter().map(|error| (FaultKind::UnreadableSettings, error));
    let others = mistakes.others.into_iter().map(|error| (FaultKind::CannotBeLoaded, error));
    loaded.faults.extend(in_settings.chain(others).map(|(kind, error)| fault(kind, error)));
    loaded.take_manifest(&shown, &yaml, &contents.manifest);
    loaded.warn(&shown, &yaml, &one_file::notices(&contents));
    let (files, inside) = one_file::states(yaml, contents);
    loaded.files = files;
    loaded.inside = Some(inside);
    Ok(())
}

fn lossy(bytes: Vec<u8>) -> String {
    String::from_utf8(bytes).unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned())
}
