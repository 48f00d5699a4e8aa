//! Where a workflow's states come from: a folder, an archive, or one file that holds them all.

mod archive;
mod folder;
mod locate;
mod one_file;
mod source;

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use raymond_core::workflow::{Listing, Platform, StateFile};

pub use archive::{Archive, check_name, files_inside, inner_path, packed_files, unpack, unpack_all};
pub use folder::{Folder, list as list_folder};
pub use locate::{BUNDLE, BUNDLE_HOME, Form, Located, base_path, host_of, locate, locate_from};
pub use one_file::{Contents, Mistakes, OneFile, OneState, Origin, TextPlace, header_value};
pub use one_file::{parse as parse_one_file, parse_leniently, read_text as read_one_file};
pub use source::{Beside, Given, Source, hexadecimal};

use crate::agent::{WorkflowFile, WorkflowFiles};
use crate::author::convert;
use crate::error::UserError;
use crate::files;
use crate::paths::{is_special_on_windows, normalise};
use crate::workflow::manifest::Manifest;

/// How much a workflow may hold, whatever its form.
pub const MAX_BYTES: u64 = 64 * 1024 * 1024;
/// How many files it may hold.
pub const MAX_FILES: usize = 10_000;
/// The longest name that file systems allow.
const MAX_NAME_BYTES: usize = 255;
/// The longest path of a file in a workflow.
const MAX_PATH_BYTES: usize = 1024;

/// How much of a workflow's name goes into a run's id.
const MAX_NAME_CHARS: usize = 40;

/// A workflow's states and files. A name from a model is looked up in the listing, never joined to a path.
#[derive(Debug)]
pub struct Scope {
    own: OwnFiles,
    /// The workflow that it extends: states that it does not have itself are looked for there.
    base: Option<Box<Scope>>,
    /// Its manifest with what it has from the one of `base`, if it extends one.
    merged: Option<Box<Manifest>>,
}

/// The files of a workflow, without those of the one that it extends.
#[derive(Debug)]
pub enum OwnFiles {
    Folder(Folder),
    Archive(Archive),
    OneFile(OneFile),
}

/// How many workflows may extend each other in a row.
const MAX_BASES: usize = 16;

impl OwnFiles {
    /// Opens the workflow at a path. What is there and how its name ends say which form it has.
    fn open(path: &Path, platform: Platform) -> Result<Self, UserError> {
        match Form::of(path) {
            Some(Form::Archive) => Archive::open(path, platform).map(Self::Archive),
            Some(Form::OneFile) => OneFile::open(path, platform).map(Self::OneFile),
            Some(Form::Folder) => Folder::open(path, platform).map(Self::Folder),
            None => match host_of(path) {
                Some(host) => Archive::open_inside(path, host, platform).map(Self::Archive),
                None => Folder::open(path, platform).map(Self::Folder),
            },
        }
    }
}

impl OwnFiles {
    fn listing(&self) -> &Listing {
        match self {
            Self::Folder(folder) => folder.listing(),
            Self::Archive(archive) => archive.listing(),
            Self::OneFile(file) => file.listing(),
        }
    }

    fn manifest(&self) -> &Manifest {
        match self {
            Self::Folder(folder) => folder.manifest(),
            Self::Archive(archive) => archive.manifest(),
            Self::OneFile(file) => file.manifest(),
        }
    }
}

/// The name of a state without its extension.
fn name_in(target: &str) -> &str {
    target.rsplit_once('.').map_or(target, |(name, _)| name)
}

impl Scope {
    /// Opens the workflow at a path, and those that it extends.
    pub fn open(path: &Path, platform: Platform) -> Result<Self, UserError> {
        Self::open_after(path, platform, &mut Vec::new())
    }

    /// `chain` are the workflows that lead to this one by extending it.
    fn open_after(path: &Path, platform: Platform, chain: &mut Vec<PathBuf>) -> Result<Self, UserError> {
        let mut scope = Self { own: OwnFiles::open(path, platform)?, base: None, merged: None };
        let Some(written) = scope.manifest().extends.clone() else { return Ok(scope) };
        chain.push(path.to_owned());
        let wrong = |why: String| {
            let file = scope.manifest_file();
            UserError::usage(format!("{}: `extends: {}`: {why}", file.display(), written.escape_debug()))
        };
        let base = base_path(&written, path).map_err(wrong)?;
        if let Some(start) = chain.iter().position(|known| *known == base) {
            let circle = chain[start..].iter().chain([&base]);
            let circle: Vec<String> = circle.map(|path| path.display().to_string()).collect();
            return Err(wrong(format!("this is a circle: {}", circle.join(" extends "))));
        }
        if chain.len() > MAX_BASES {
            return Err(wrong(format!("more than {MAX_BASES} workflows extend each other")));
        }
        scope.base = Some(Box::new(Self::open_after(&base, platform, chain)?));
        scope.merge_manifests();
        Ok(scope)
    }

    /// The workflows that this one extends, the nearest first.
    pub fn bases(&self) -> impl Iterator<Item = &Scope> {
        std::iter::successors(self.base.as_deref(), |scope| scope.base.as_deref())
    }

    /// The workflow that a state comes from: this one, or one that it extends.
    pub fn owner_of(&self, state: &StateFile) -> &Scope {
        self.first_with(|scope| scope.own_listing().has_name(state.name())).unwrap_or(self)
    }

    /// The workflow that declares a named input: this one, or one that it extends.
    pub fn owner_of_input(&self, name: &str) -> &Scope {
        let declares = |scope: &Scope| scope.own.manifest().inputs.iter().any(|input| input.name == name);
        self.first_with(declares).unwrap_or(self)
    }

    /// The first of this workflow and those that it extends for which `is_wanted` is true.
    fn first_with(&self, is_wanted: impl Fn(&Scope) -> bool) -> Option<&Scope> {
        [self].into_iter().chain(self.bases()).find(|scope| is_wanted(scope))
    }

    pub fn into_own(self) -> OwnFiles {
        self.own
    }

    /// Opens a workflow that is named by another one, whose path is `base`. An archive counts as a folder with its own
    /// name, so `../other` is beside it.
    pub fn open_relative(base: &Path, given: &str, platform: Platform) -> Result<Located, UserError> {
        locate_from(given, base, platform)
    }

    /// The folder, the archive or the file itself.
    pub fn path(&self) -> &Path {
        match &self.own {
            OwnFiles::Folder(folder) => folder.path(),
            OwnFiles::Archive(archive) => archive.path(),
            OwnFiles::OneFile(file) => file.path(),
        }
    }

    /// Whether this is a bundle or in one, so that workflows are looked for there first.
    pub fn is_in_bundle(&self) -> bool {
        let has_home = match &self.own {
            OwnFiles::Folder(folder) => folder.path().join(BUNDLE_HOME).is_file(),
            OwnFiles::Archive(archive) => archive.file(BUNDLE_HOME).is_some(),
            OwnFiles::OneFile(file) => file.file(BUNDLE_HOME).is_some(),
        };
        has_home || self.path().iter().any(|part| part == BUNDLE)
    }

    /// The folder that the workflow's relative paths start from: itself, or the folder that its file is in.
    pub fn home(&self) -> &Path {
        match &self.own {
            OwnFiles::Folder(folder) => folder.path(),
            OwnFiles::Archive(_) | OwnFiles::OneFile(_) => self.path().parent().unwrap_or(Path::new("/")),
        }
    }

    /// What the workflow says about itself, with what it has from the one that it extends.
    pub fn manifest(&self) -> &Manifest {
        self.merged.as_deref().unwrap_or(self.own.manifest())
    }

    fn merge_manifests(&mut self) {
        if let Some(base) = &self.base {
            self.merged = Some(Box::new(self.own.manifest().extending(base.manifest())));
        }
    }

    /// The file that contains the manifest, for messages.
    pub fn manifest_file(&self) -> PathBuf {
        match &self.own {
            OwnFiles::Folder(_) | OwnFiles::Archive(_) => self.path().join(crate::workflow::manifest::FILE),
            OwnFiles::OneFile(file) => file.path().to_owned(),
        }
    }

    /// The manifest's `working_directory`, if it has one.
    pub fn working_directory(&self) -> Option<Result<PathBuf, UserError>> {
        let given = self.manifest().working_directory.as_ref()?;
        let folder = normalise(self.home(), Path::new(given));
        if folder.is_dir() {
            return Some(Ok(folder));
        }
        let file = self.manifest_file();
        Some(Err(UserError::usage(format!(
            "{}: `working_directory`: there is no folder {}",
            file.display(),
            folder.display()
        ))))
    }

    /// A hash of everything in the scope, for forms that may not change during a run.
    pub fn hash(&self) -> Option<&str> {
        match &self.own {
            OwnFiles::Archive(archive) => Some(archive.hash()),
            OwnFiles::Folder(_) | OwnFiles::OneFile(_) => None,
        }
    }

    /// Changes when the files change, for forms whose files are not on disk one by one.
    pub fn version(&self) -> String {
        match &self.own {
            OwnFiles::Folder(_) => String::new(),
            OwnFiles::Archive(archive) => archive.hash().to_owned(),
            OwnFiles::OneFile(file) => file.version().to_string(),
        }
    }

    /// All files of a scope as they would be in a folder. None for a folder, whose files are on disk already.
    pub fn files(&self) -> Rc<BTreeMap<String, Vec<u8>>> {
        match &self.own {
            OwnFiles::Folder(_) => Rc::default(),
            OwnFiles::Archive(archive) => Rc::clone(archive.files()),
            OwnFiles::OneFile(file) => Rc::new(convert::files_of(&file.contents().yaml, file.contents())),
        }
    }

    /// An id for a new run: the workflow's, the time, and a random part.
    pub fn new_run_id(&self) -> String {
        dated_id(&self.manifest().id.clone().unwrap_or_else(|| plain_name(self.path())))
    }

    /// The state that a run of the whole scope starts with.
    pub fn entry(&self) -> Result<StateFile, String> {
        let has_entry =
            |scope: &Scope| scope.own_listing().states().any(|state| Listing::is_entry_name(state.name()));
        let scope = self.first_with(has_entry).unwrap_or(self);
        scope.own_listing().entry(self.platform()).map_err(|error| error.to_string())
    }

    /// Whether all files are in one, which is read as a whole.
    pub fn is_packed(&self) -> bool {
        matches!(&self.own, OwnFiles::Archive(_) | OwnFiles::OneFile(_))
    }

    /// The same, after reading a one-file workflow again if it has changed.
    pub fn current_entry(&mut self) -> Result<StateFile, String> {
        if let OwnFiles::OneFile(file) = &mut self.own {
            file.refresh()?;
        }
        self.entry()
    }

    pub fn states(&self) -> impl Iterator<Item = StateFile> + '_ {
        self.listing().states().collect::<Vec<_>>().into_iter()
    }

    pub fn resolve(&mut self, target: &str) -> Result<StateFile, String> {
        let found = match &mut self.own {
            OwnFiles::Folder(folder) => folder.resolve(target),
            OwnFiles::OneFile(file) => {
                file.refresh()?;
                self.resolve_among_own(target)
            }
            OwnFiles::Archive(_) => self.resolve_among_own(target),
        };
        match (&mut self.base, &found) {
            (Some(base), Err(_)) if !self.own.listing().has_name(name_in(target)) => {
                base.resolve(target).or(found)
            }
            _ => found,
        }
    }

    /// Resolves names in the given order. After the first missing states, the rest is not looked up: a step may name
    /// thousands.
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
                1..MOST_FAULTS => self.resolve_in_listing(target),
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

    /// The current text and settings of a state.
    pub fn read(&mut self, state: &StateFile) -> Result<Source, String> {
        let source = self.read_file(state)?;
        // A manifest in the same file may have changed.
        self.merge_manifests();
        Ok(source)
    }

    fn read_file(&mut self, state: &StateFile) -> Result<Source, String> {
        if let Some(base) = &mut self.base
            && !self.own.listing().has_name(state.name())
            && base.listing().contains(state)
        {
            return base.read(state);
        }
        match &mut self.own {
            OwnFiles::Folder(folder) => folder.read(state),
            OwnFiles::Archive(archive) => archive.read(state),
            OwnFiles::OneFile(file) => file.read(state),
        }
    }

    fn resolve_among_own(&self, target: &str) -> Result<StateFile, String> {
        self.own_listing().resolve(target, self.platform()).map_err(|error| error.to_string())
    }

    fn resolve_in_listing(&self, target: &str) -> Result<StateFile, String> {
        self.listing().resolve(target, self.platform()).map_err(|error| error.to_string())
    }

    /// All states that can be named: the workflow's own, and those of the workflows that it extends.
    fn listing(&self) -> Cow<'_, Listing> {
        match &self.base {
            None => Cow::Borrowed(self.own_listing()),
            Some(base) => Cow::Owned(self.own_listing().with_base(&base.listing())),
        }
    }

    fn own_listing(&self) -> &Listing {
        self.own.listing()
    }

    pub fn platform(&self) -> Platform {
        match &self.own {
            OwnFiles::Folder(folder) => folder.platform(),
            OwnFiles::Archive(archive) => archive.platform(),
            OwnFiles::OneFile(file) => file.platform(),
        }
    }
}

impl WorkflowFiles for Scope {
    fn file(&self, name: &str, or_around: bool) -> Result<WorkflowFile, String> {
        let own = self.own_file(name, or_around)?;
        match &self.base {
            Some(base) if own.text.is_none() => {
                let in_base = base.file(name, or_around)?;
                Ok(if in_base.text.is_some() { in_base } else { own })
            }
            _ => Ok(own),
        }
    }
}

impl Scope {
    fn own_file(&self, name: &str, or_around: bool) -> Result<WorkflowFile, String> {
        let inside = match &self.own {
            OwnFiles::Folder(_) => None,
            OwnFiles::Archive(archive) => archive.file(name),
            OwnFiles::OneFile(one) => one.file(name),
        };
        if let Some(bytes) = inside {
            let text = Some(String::from_utf8_lossy(bytes).into_owned());
            return Ok(WorkflowFile { path: self.path().join(name), text });
        }
        if !or_around && !matches!(&self.own, OwnFiles::Folder(_)) {
            return Ok(WorkflowFile { path: self.path().join(name), text: None });
        }
        let path = self.home().join(name);
        match files::read_text(&path, MAX_BYTES) {
            Ok(text) => Ok(WorkflowFile { path, text: Some(text) }),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(WorkflowFile { path, text: None }),
            Err(error) => Err(format!("cannot read {}: {error}", path.display())),
        }
    }
}

/// Why a path cannot be that of a file in a workflow: a name, or names of folders and a name with `/` in between.
pub(crate) fn path_problem(path: &str) -> Option<&'static str> {
    match path.len() > MAX_PATH_BYTES {
        true => Some("a name that is too long for a file"),
        false => path.split('/').find_map(name_problem),
    }
}

/// A file that others lie below, as if it were a folder, too.
fn file_and_folder<'n>(names: impl Iterator<Item = &'n str>) -> Option<&'n str> {
    let names: BTreeSet<&str> = names.collect();
    let folders = names.iter().flat_map(|name| name.match_indices('/').map(|(at, _)| &name[..at]));
    folders.into_iter().find_map(|folder| names.get(folder).copied())
}

/// Why a name cannot be that of a file or folder.
fn name_problem(name: &str) -> Option<&'static str> {
    if name.is_empty() {
        Some("an empty name")
    } else if name == "." || name == ".." {
        Some("a name that leads elsewhere")
    } else if name.contains('\\') {
        Some("a `\\` in a name")
    } else if name.contains('/') {
        Some("a `/` in a name")
    } else if name.contains(char::is_control) {
        Some("control characters in a name")
    } else if name.len() > MAX_NAME_BYTES {
        Some("a name that is too long for a file")
    } else if cfg!(windows) && is_special_on_windows(name) {
        Some("a name that Windows does not allow")
    } else {
        None
    }
}

/// An id for a new run of the workflow at a path, whether that is still there or not.
pub fn run_id_for(path: &Path) -> String {
    match Scope::open(path, Platform::current()) {
        Ok(scope) => scope.new_run_id(),
        Err(_) => dated_id(&plain_name(path)),
    }
}

fn dated_id(name: &str) -> String {
    let random = uuid::Uuid::new_v4().simple().to_string();
    format!("{name}-{}-{}", crate::clock::now().strftime("%Y%m%d-%H%M%S"), &random[..4])
}

/// A scope's name with only the characters that an id can have.
fn plain_name(scope: &Path) -> String {
    let name = if scope.is_dir() { scope.file_name() } else { scope.file_stem() };
    let name = name.map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    let plain = |character: char| character.is_ascii_alphanumeric() || character == '-' || character == '_';
    let name: String = name.chars().take(MAX_NAME_CHARS).map(|c| if plain(c) { c } else { '-' }).collect();
    // An id that begins with a dash would be taken for an option.
    match name.trim_start_matches('-') {
        "" => "run".to_owned(),
        name => name.to_owned(),
    }
}
