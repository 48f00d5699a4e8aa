//! Reading a whole workflow, mistakes included.

mod one_file;

use std::cell::RefCell;
use std::collections::{BTreeSet, HashMap};
use std::fmt;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use raymond_core::diagram::Diagram;
use raymond_core::frontmatter::{ResultSchema, yaml};
use raymond_core::graph::{Graph, ReadFile, SourceFile};
use raymond_core::lint::ScopeProblem;
use raymond_core::named_inputs::DeclaredInput;
use raymond_core::workflow::source::{Position, SourceWarning};
use raymond_core::workflow::{Platform, StateFile};

pub use one_file::Inside;

use crate::author::convert::Files;
use crate::files;
use crate::paths::{normalise, shown as shown_path};
use crate::workflow::cron::{Rhythm, WrongSchedule};
use crate::workflow::manifest::{self, Manifest};
use crate::workflow::place::line_of;
use crate::workflow::result_schema;
use crate::workflow::scope::{
    Archive, Form, MAX_BYTES, Scope, base_path, files_inside, host_of, list_folder, locate, locate_from,
    parse_leniently, read_one_file,
};
use crate::workflow::scopes::Allowed;

/// The inputs of another workflow, or why it cannot be entered.
type FoundScope = Result<Rc<[DeclaredInput]>, ScopeProblem>;

/// A workflow as it is on disk.
#[derive(Debug)]
pub struct Loaded {
    /// The path of its states, as the user would write it.
    pub shown: PathBuf,
    /// The same, absolute.
    pub path: PathBuf,
    pub files: Vec<SourceFile>,
    /// States that were left out, because only some were asked for.
    pub others: Vec<StateFile>,
    /// The state to begin with, where the user named one.
    pub entry: Option<StateFile>,
    /// What it says about itself.
    pub manifest: Manifest,
    /// The workflows that it extends, directly or not.
    pub bases: Vec<PathBuf>,
    /// The states that come from there.
    pub from_base: HashMap<StateFile, BaseState>,
    /// What could not be read, and why.
    pub faults: Vec<Fault>,
    /// Why its schedule cannot be kept, which only `serve` does.
    pub schedule_fault: Option<Fault>,
    /// The file that contains all states, for a one-file workflow.
    pub inside: Option<Rc<Inside>>,
    /// Other workflows that were looked for, with the result.
    found_scopes: RefCell<HashMap<String, FoundScope>>,
}

/// Where a state comes from that belongs to an extended workflow.
#[derive(Clone, Debug)]
pub struct BaseState {
    /// The name of the workflow's folder or file.
    pub workflow: String,
    /// The file with the state, as the user would write it.
    pub shown: PathBuf,
    /// The same with all states of a one-file workflow.
    pub inside: Option<Rc<Inside>>,
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
    pub fn new(shown: PathBuf, message: String) -> Fault {
        Fault { kind: FaultKind::CannotBeLoaded, shown, message, place: None }
    }

    fn at(kind: FaultKind, shown: &Path, text: &str, position: Position, message: String) -> Fault {
        let place = Some((position, line_of(text, position.line).to_owned()));
        Fault { kind, shown: shown.to_owned(), message, place }
    }
}

impl Loaded {
    pub fn new(shown: PathBuf, path: &Path) -> Loaded {
        Loaded {
            shown,
            path: path.to_owned(),
            files: Vec::new(),
            others: Vec::new(),
            entry: None,
            manifest: Manifest::default(),
            bases: Vec::new(),
            from_base: HashMap::new(),
            faults: Vec::new(),
            schedule_fault: None,
            inside: None,
            found_scopes: RefCell::default(),
        }
    }

    pub fn graph(&mut self, platform: Platform) -> Graph {
        let files = std::mem::take(&mut self.files).into_iter().map(ReadFile::from).collect();
        Graph::read_part(files, &self.others, self.entry.as_ref(), platform)
    }

    /// The folder that the workflow's relative paths start from.
    pub fn home(&self) -> &Path {
        match Form::of(&self.path) {
            Some(Form::Archive | Form::OneFile) => self.path.parent().unwrap_or(Path::new("/")),
            Some(Form::Folder) | None => &self.path,
        }
    }

    /// What is wrong with a `result_schema`, which may be in a file of the workflow.
    pub fn check_schema(&self, schema: &ResultSchema, platform: Platform) -> Result<(), String> {
        let scope = Scope::open(&self.path, platform).map_err(|error| error.message)?;
        result_schema::read(schema, &scope).map(drop)
    }

    /// Whether another workflow can be entered from this one, and which inputs it declares.
    pub fn find_scope(&self, name: &str, allowed: &Allowed, platform: Platform) -> FoundScope {
        let mut found = self.found_scopes.borrow_mut();
        if let Some(found) = found.get(name) {
            return found.clone();
        }
        let result = self.look_for_scope(name, allowed, platform);
        found.insert(name.to_owned(), result.clone());
        result
    }

    fn look_for_scope(&self, name: &str, allowed: &Allowed, platform: Platform) -> FoundScope {
        let why = "it lies outside the project; list its folder in `workflow_paths` of the config file to permit it";
        let is_allowed = |path: &Path| {
            allowed.permits(path).then_some(()).ok_or_else(|| ScopeProblem::Forbidden(why.to_owned()))
        };
        allowed.check_near(name, &self.path).map_err(ScopeProblem::Forbidden)?;
        let path = normalise(&self.path, Path::new(name));
        let is_there = path.exists();
        if is_there {
            is_allowed(&path)?;
        }
        match locate_from(name, &self.path, platform) {
            Ok(located) => {
                is_allowed(located.scope.path())?;
                Ok(located.scope.manifest().inputs.as_slice().into())
            }
            Err(error) if is_there => Err(ScopeProblem::Unusable(error.message)),
            Err(error) => Err(ScopeProblem::Missing(error.message)),
        }
    }

    fn take_manifest(&mut self, shown: &Path, text: &str, manifest: &Manifest) {
        self.manifest = manifest.clone();
        self.warn(shown, text, &manifest.warnings);
        self.schedule_fault = schedule_fault(shown, text, manifest);
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

/// What is wrong with the schedule of a manifest.
fn schedule_fault(shown: &Path, text: &str, manifest: &Manifest) -> Option<Fault> {
    let WrongSchedule { key, message } = Rhythm::read(manifest)?.err()?;
    let is_key = |line: &str| line.strip_prefix(key).is_some_and(|rest| rest.trim_start().starts_with(':'));
    let line = text.lines().position(is_key).and_then(|line| u32::try_from(line).ok()).unwrap_or(0) + 1;
    let message = format!("`{key}`: {message}");
    Some(Fault::at(FaultKind::UnreadableSettings, shown, text, Position { line, column: 1 }, message))
}

/// Reads every state of the workflow at a path: a folder, an archive, one file, or a state in one of them.
pub fn load(given: &str, cwd: &Path, platform: Platform) -> Result<Loaded, Fault> {
    let path = normalise(cwd, Path::new(given));
    if Form::of(&path).is_some() {
        return read_scope(PathBuf::from(given), &path, None);
    }
    let shown = Path::new(given).parent().map(Path::to_owned).unwrap_or_default();
    match locate(given, cwd, platform) {
        Ok(located) => {
            let mut loaded = read_scope(shown, located.scope.path(), None)?;
            loaded.entry = Some(located.entry);
            Ok(loaded)
        }
        // Running it gives this error, too. If the workflow itself has mistakes, their places say more.
        Err(error) => match path.parent().filter(|parent| Form::of(parent).is_some()) {
            Some(parent) => read_scope(shown, parent, None).and_then(|loaded| match loaded.has_errors() {
                true => Ok(loaded),
                false => Err(Fault::new(PathBuf::from(given), error.message)),
            }),
            None => Err(Fault::new(PathBuf::from(given), error.message)),
        },
    }
}

/// Reads some states of the workflow at an absolute path; the others can be named all the same.
pub fn load_part(shown: PathBuf, path: &Path, wanted: &BTreeSet<StateFile>) -> Result<Loaded, Fault> {
    let mut loaded = read_scope(shown, path, Some(wanted))?;
    let (files, others) =
        std::mem::take(&mut loaded.files).into_iter().partition(|file| wanted.contains(&file.state));
    loaded.files = files;
    let others: Vec<SourceFile> = others;
    loaded.others.extend(others.into_iter().map(|file| file.state));
    Ok(loaded)
}

impl Loaded {
    fn has_errors(&self) -> bool {
        self.faults.iter().any(|fault| fault.kind != FaultKind::UnknownKey)
    }
}

/// Reads a workflow with the states that it has from those that it extends. Scopes that extend each other in a circle
/// cannot be opened, so the number of steps is bounded.
fn read_scope(shown: PathBuf, path: &Path, wanted: Option<&BTreeSet<StateFile>>) -> Result<Loaded, Fault> {
    let mut loaded = read_own(shown, path, wanted)?;
    let Some(written) = loaded.manifest.extends.clone() else { return Ok(loaded) };
    match Scope::open(path, Platform::current()) {
        // Its own first state comes before one of the extended workflow.
        Ok(scope) => loaded.entry = scope.entry().ok(),
        Err(error) => {
            loaded.faults.push(Fault::new(loaded.shown.clone(), error.message));
            return Ok(loaded);
        }
    }
    let base = base_path(&written, path).map_err(|why| Fault::new(loaded.shown.clone(), why))?;
    let base = read_scope(shown_path(&base).to_owned(), &base, wanted)?;
    loaded.add_base(base);
    Ok(loaded)
}

impl Loaded {
    /// Adds what this workflow has from the one that it extends: states of other names, and settings.
    fn add_base(&mut self, mut base: Loaded) {
        let own = self.files.iter().map(|file| &file.state).chain(&self.others);
        let own: BTreeSet<String> = own.map(|state| state.name().to_owned()).collect();
        let is_new = |state: &StateFile| !own.contains(state.name());
        for file in std::mem::take(&mut base.files).into_iter().filter(|file| is_new(&file.state)) {
            let origin = base.from_base.remove(&file.state);
            let origin = origin.unwrap_or_else(|| BaseState {
                workflow: name_of(&base.path),
                shown: base.file_of(&file.state).0,
                inside: base.inside.clone(),
            });
            self.from_base.insert(file.state.clone(), origin);
            self.files.push(file);
        }
        self.others.extend(base.others.into_iter().filter(is_new));
        self.bases.push(base.path);
        self.bases.extend(base.bases);
        if self.manifest.schedule.is_none() {
            self.schedule_fault = self.schedule_fault.take().or(base.schedule_fault);
        }
        self.manifest = self.manifest.extending(&base.manifest);
        self.faults.extend(base.faults.into_iter().filter(|fault| fault.kind != FaultKind::UnknownKey));
    }

    /// The file that a state is in, as the user would write it, and its places if it holds other states, too.
    pub fn file_of(&self, state: &StateFile) -> (PathBuf, Option<&Inside>) {
        match (self.from_base.get(state), &self.inside) {
            (Some(base), _) => (base.shown.clone(), base.inside.as_deref()),
            (None, Some(inside)) => (self.shown.clone(), Some(inside)),
            (None, None) => (self.shown.join(state.as_str()), None),
        }
    }

    /// The diagram of the workflow, whose graph this is.
    pub fn diagram(&self, graph: &Graph) -> Diagram {
        let mut diagram = Diagram::of(graph);
        diagram.mark_bases(|state| {
            let state = graph.state(state)?;
            self.from_base.get(&state.file).map(|base| base.workflow.clone())
        });
        diagram
    }
}

/// Of a folder only the `wanted` states are read, if only some are. The other forms are one file anyway.
fn read_own(shown: PathBuf, path: &Path, wanted: Option<&BTreeSet<StateFile>>) -> Result<Loaded, Fault> {
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
        Some(Form::Folder) => read_folder(&mut loaded, wanted).map_err(failed)?,
        None => match host_of(path) {
            Some(host) => {
                let (files, _) = files_inside(path, host).map_err(failed)?;
                read_archive(&mut loaded, files);
            }
            None => read_folder(&mut loaded, wanted).map_err(failed)?,
        },
    }
    Ok(loaded)
}

fn read_folder(loaded: &mut Loaded, wanted: Option<&BTreeSet<StateFile>>) -> Result<(), String> {
    let path = loaded.path.clone();
    let listing = list_folder(&path).map_err(|error| format!("cannot read it: {error}"))?;
    for state in listing.states() {
        if wanted.is_some_and(|wanted| !wanted.contains(&state)) {
            loaded.others.push(state);
            continue;
        }
        match files::read(&path.join(state.as_str()), MAX_BYTES) {
            Ok(bytes) => loaded.files.push(SourceFile { state, text: lossy(bytes) }),
            Err(error) => {
                let message = format!("cannot read it: {error}");
                loaded.faults.push(Fault::new(loaded.shown.join(state.as_str()), message));
            }
        }
    }
    match files::read(&path.join(manifest::FILE), files::MAX_SETTINGS_BYTES) {
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
    loaded.inside = Some(Rc::new(inside));
    Ok(())
}

/// The name of a workflow's folder or file.
pub fn name_of(path: &Path) -> String {
    path.file_name().unwrap_or(path.as_os_str()).to_string_lossy().into_owned()
}

fn lossy(bytes: Vec<u8>) -> String {
    String::from_utf8(bytes).unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned())
}
