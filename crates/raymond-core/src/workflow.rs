//! States, their kinds, and how a name in a tag becomes a state file.
//!
//! The platform is a value here, so that names can be resolved for either platform on any machine. Names are looked up
//! in a listing and never become part of a path.

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize, Serializer};

mod resolve_error;
pub mod source;
pub mod wording;

pub use resolve_error::{NameProblem, ResolveError};

use wording::{clipped, nearest, quoted};

/// The states a folder or archive may start with.
const ENTRY_NAMES: [&str; 2] = ["1_START", "START"];

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Platform {
    Unix,
    Windows,
}

impl Platform {
    pub const fn current() -> Platform {
        if cfg!(windows) { Platform::Windows } else { Platform::Unix }
    }
}

impl fmt::Display for Platform {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Platform::Unix => "Unix",
            Platform::Windows => "Windows",
        })
    }
}

/// The kind of a state, which depends only on the file's extension.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    Prompt,
    Bash,
    PowerShell,
    Batch,
    Python,
    Node,
}

/// One row of the table of kinds.
struct Facts {
    extension: &'static str,
    platforms: &'static [Platform],
    comment_markers: &'static [&'static str],
}

const EVERYWHERE: &[Platform] = &[Platform::Unix, Platform::Windows];

impl Kind {
    pub const ALL: [Kind; 6] =
        [Kind::Prompt, Kind::Bash, Kind::PowerShell, Kind::Batch, Kind::Python, Kind::Node];

    /// The table of kinds: a new kind is a new line here.
    const fn facts(self) -> Facts {
        const fn row(
            extension: &'static str,
            platforms: &'static [Platform],
            comment_markers: &'static [&'static str],
        ) -> Facts {
            Facts { extension, platforms, comment_markers }
        }
        match self {
            Kind::Prompt => row("md", EVERYWHERE, &[]),
            Kind::Bash => row("sh", &[Platform::Unix], &["#"]),
            Kind::PowerShell => row("ps1", &[Platform::Windows], &["#"]),
            Kind::Batch => row("bat", &[Platform::Windows], &["REM", "::"]),
            Kind::Python => row("py", EVERYWHERE, &["#"]),
            Kind::Node => row("js", EVERYWHERE, &["//"]),
        }
    }

    /// The kind of a file, by its extension; `None` if the file is not a state.
    pub fn of(file_name: &str) -> Option<Kind> {
        let (_, extension) = file_name.rsplit_once('.')?;
        Kind::from_extension(extension)
    }

    fn from_extension(extension: &str) -> Option<Kind> {
        Kind::ALL.into_iter().find(|kind| kind.extension() == extension)
    }

    /// Without the dot.
    pub const fn extension(self) -> &'static str {
        self.facts().extension
    }

    pub fn runs_on(self, platform: Platform) -> bool {
        self.facts().platforms.contains(&platform)
    }

    /// The markers of a line comment in a script of this kind.
    pub const fn comment_markers(self) -> &'static [&'static str] {
        self.facts().comment_markers
    }

    pub const fn is_prompt(self) -> bool {
        matches!(self, Kind::Prompt)
    }

    pub const fn is_script(self) -> bool {
        !self.is_prompt()
    }
}

/// The file name of a state, with extension. Every name is resolved to one.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Deserialize, schemars::JsonSchema)]
#[serde(try_from = "String", into = "String")]
pub struct StateFile {
    file_name: String,
    /// Derived from the name; stored so that reading it cannot fail.
    kind: Kind,
}

impl StateFile {
    /// `None` if this is not the name of a state: a plain name with a known extension.
    pub fn new(file_name: &str) -> Option<StateFile> {
        let kind = StateFile::kind_of(file_name)?;
        Some(StateFile { file_name: file_name.to_owned(), kind })
    }

    fn kind_of(file_name: &str) -> Option<Kind> {
        let (name, extension) = file_name.rsplit_once('.')?;
        check_name(file_name).ok()?;
        check_name(name).ok()?;
        Kind::from_extension(extension)
    }

    fn of(name: &str, kind: Kind) -> StateFile {
        StateFile { file_name: format!("{name}.{}", kind.extension()), kind }
    }

    pub fn as_str(&self) -> &str {
        &self.file_name
    }

    /// Without the extension.
    pub fn name(&self) -> &str {
        self.file_name.rsplit_once('.').map_or(&self.file_name, |(name, _)| name)
    }

    pub const fn kind(&self) -> Kind {
        self.kind
    }
}

impl fmt::Display for StateFile {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.file_name)
    }
}

impl AsRef<str> for StateFile {
    fn as_ref(&self) -> &str {
        &self.file_name
    }
}

impl From<StateFile> for String {
    fn from(state: StateFile) -> String {
        state.file_name
    }
}

impl TryFrom<String> for StateFile {
    type Error = String;

    fn try_from(file_name: String) -> Result<StateFile, String> {
        match StateFile::kind_of(&file_name) {
            Some(kind) => Ok(StateFile { file_name, kind }),
            None => Err(format!("{} is not the name of a state file", quoted(&file_name))),
        }
    }
}

/// Written by hand, because every event has state files and the derived code would copy each of them.
impl Serialize for StateFile {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.file_name)
    }
}

/// The states of one scope, by name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Listing {
    /// Sorted kinds by state name, so that a look-up does not grow with the number of states.
    kinds_by_name: BTreeMap<String, Vec<Kind>>,
}

impl Listing {
    /// Whether a run of a whole workflow may begin with a state of this name.
    pub fn is_entry_name(name: &str) -> bool {
        ENTRY_NAMES.contains(&name)
    }

    /// Takes any file names and ignores files that are not states.
    pub fn new(names: impl IntoIterator<Item = String>) -> Listing {
        let mut kinds_by_name: BTreeMap<String, Vec<Kind>> = BTreeMap::new();
        for state in names.into_iter().filter_map(|name| StateFile::new(&name)) {
            let kinds = kinds_by_name.entry(state.name().to_owned()).or_default();
            if let Err(place) = kinds.binary_search(&state.kind()) {
                kinds.insert(place, state.kind());
            }
        }
        Listing { kinds_by_name }
    }

    /// All states, for all platforms, sorted by name.
    pub fn states(&self) -> impl Iterator<Item = StateFile> {
        self.kinds_by_name
            .iter()
            .flat_map(|(name, kinds)| kinds.iter().map(move |&kind| StateFile::of(name, kind)))
    }

    /// Whether there is a state of this name, of any kind.
    pub fn has_name(&self, name: &str) -> bool {
        self.kinds_by_name.contains_key(name)
    }

    /// These states, and those of `base` whose names are not among them.
    #[must_use]
    pub fn with_base(&self, base: &Listing) -> Listing {
        let mut kinds_by_name = base.kinds_by_name.clone();
        kinds_by_name.extend(self.kinds_by_name.clone());
        Listing { kinds_by_name }
    }

    pub fn contains(&self, state: &StateFile) -> bool {
        self.kinds(state.name()).contains(&state.kind())
    }

    /// The file that a target in a tag, in a policy or on the command line stands for.
    pub fn resolve(&self, target: &str, platform: Platform) -> Result<StateFile, ResolveError> {
        check_name(target).map_err(|problem| ResolveError::BadName { target: clipped(target), problem })?;
        match target.rsplit_once('.') {
            Some((name, extension)) => self.resolve_file(target, name, extension, platform),
            None => self.resolve_name(target, platform),
        }
    }

    /// The state that a run of the whole scope starts with.
    pub fn entry(&self, platform: Platform) -> Result<StateFile, ResolveError> {
        let present: Vec<&str> =
            ENTRY_NAMES.into_iter().filter(|name| !self.runnable(name, platform).is_empty()).collect();
        match present.as_slice() {
            [] => Err(ResolveError::NoEntry {
                elsewhere: ENTRY_NAMES.iter().flat_map(|name| self.files(name)).collect(),
                other_case: self.states().filter(is_entry_in_other_case).collect(),
            }),
            [only] => self.resolve_name(only, platform),
            several => Err(ResolveError::TwoEntries {
                candidates: several.iter().flat_map(|name| self.runnable(name, platform)).collect(),
            }),
        }
    }

    fn resolve_file(
        &self,
        target: &str,
        name: &str,
        extension: &str,
        platform: Platform,
    ) -> Result<StateFile, ResolveError> {
        let Some(kind) = Kind::from_extension(extension) else {
            return Err(ResolveError::UnknownExtension {
                target: clipped(target),
                extension: clipped(extension),
                suggestions: self.suggestions_with_unknown_extension(target, name, platform),
            });
        };
        if !kind.runs_on(platform) {
            return Err(ResolveError::WrongPlatform { target: clipped(target), kind, platform });
        }
        if self.kinds(name).contains(&kind) {
            return Ok(StateFile::of(name, kind));
        }
        Err(ResolveError::NotFound {
            target: clipped(target),
            suggestions: self.file_suggestions(name, platform),
            elsewhere: Vec::new(),
        })
    }

    fn resolve_name(&self, name: &str, platform: Platform) -> Result<StateFile, ResolveError> {
        let mut candidates = self.runnable(name, platform);
        match (candidates.pop(), candidates.is_empty()) {
            (Some(only), true) => Ok(only),
            (Some(last), false) => {
                candidates.push(last);
                Err(ResolveError::Ambiguous { target: clipped(name), candidates })
            }
            (None, _) => Err(ResolveError::NotFound {
                target: clipped(name),
                suggestions: self.near_names(name, platform).into_iter().map(str::to_owned).collect(),
                elsewhere: self.files(name).collect(),
            }),
        }
    }

    fn kinds(&self, name: &str) -> &[Kind] {
        self.kinds_by_name.get(name).map_or(&[], Vec::as_slice)
    }

    fn files(&self, name: &str) -> impl Iterator<Item = StateFile> {
        self.kinds(name).iter().map(move |&kind| StateFile::of(name, kind))
    }

    fn runnable(&self, name: &str, platform: Platform) -> Vec<StateFile> {
        self.files(name).filter(|state| state.kind().runs_on(platform)).collect()
    }

    /// Similar names that could have been meant; names that cannot run on this platform are left out.
    fn near_names(&self, name: &str, platform: Platform) -> Vec<&str> {
        let runs_here = |kinds: &[Kind]| kinds.iter().any(|kind| kind.runs_on(platform));
        let others = self.kinds_by_name.iter().filter(|(other, kinds)| *other != name && runs_here(kinds));
        nearest(name, others.map(|(other, _)| other.as_str()))
    }

    /// Suggestions for a file that does not exist; the same name with another extension comes first.
    fn file_suggestions(&self, name: &str, platform: Platform) -> Vec<String> {
        let of_same_name = self.runnable(name, platform);
        if !of_same_name.is_empty() {
            return of_same_name.into_iter().map(String::from).collect();
        }
        let near = self.near_names(name, platform);
        near.into_iter().flat_map(|near| self.runnable(near, platform)).map(String::from).collect()
    }

    /// `REVIEW.v2` may mean `REVIEW.v2.md`, whose name contains a dot, or be a typing error for `REVIEW.md`.
    fn suggestions_with_unknown_extension(
        &self,
        target: &str,
        name: &str,
        platform: Platform,
    ) -> Vec<String> {
        let completed = self.runnable(target, platform);
        if !completed.is_empty() {
            return completed.into_iter().map(String::from).collect();
        }
        self.file_suggestions(name, platform)
    }
}

/// The most common reason why no first state is found.
fn is_entry_in_other_case(state: &StateFile) -> bool {
    ENTRY_NAMES.iter().any(|name| *name != state.name() && name.eq_ignore_ascii_case(state.name()))
}

/// State targets are names, never paths.
pub(crate) fn check_name(name: &str) -> Result<(), NameProblem> {
    if name.is_empty() {
        return Err(NameProblem::Empty);
    }
    if name.contains(['/', '\\']) {
        return Err(NameProblem::Path);
    }
    if name.contains(char::is_control) {
        return Err(NameProblem::ControlCharacter);
    }
    // A file with an empty name before the dot, such as `.md`, is a hidden file.
    if name.starts_with('.') {
        return Err(NameProblem::LeadingDot);
    }
    Ok(())
}

#[cfg(test)]
mod tests;
