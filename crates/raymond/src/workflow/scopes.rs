//! All workflows of a run: its own, and those it enters, each opened when it is first needed.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use raymond_core::input::{InputWanted, ScopeEntry};
use raymond_core::named_inputs::{DeclaredInput, InputKind};
use raymond_core::run::Agent;
use raymond_core::workflow::{Platform, StateFile};
use serde::{Deserialize, Serialize};

use crate::error::UserError;
use crate::git::worktrees::Worktrees;
use crate::paths::{leads_away, normalise};
use crate::wire;
use crate::workflow::manifest::{InputMode, InputRule};
use crate::workflow::named::{Reached, named_by};
use crate::workflow::reach::Reach;
use crate::workflow::scope::{Scope, host_of, locate, locate_from};

pub struct Scopes {
    own: Scope,
    others: BTreeMap<String, Scope>,
    platform: Platform,
    allowed: Allowed,
    /// The only workflows that may be entered, with all links followed; if this is not set, all that are allowed.
    only: Option<BTreeSet<PathBuf>>,
    /// Where models may send agents; anywhere if this is not set.
    reach: Option<Reach>,
    /// Where worktrees are made, if they can be.
    worktrees: Option<Worktrees>,
    /// The folder below which all workflows are, if they were copied from elsewhere.
    root: Option<PathBuf>,
    /// The files of archives and one-file workflows.
    packed: BTreeMap<PathBuf, Rc<PackedFiles>>,
}

/// All files of an archive or a one-file workflow.
#[derive(Debug, Serialize, Deserialize)]
pub struct PackedFiles {
    /// The archive or file that they come from.
    pub origin: PathBuf,
    /// Changes when their contents change.
    pub version: String,
    #[serde(with = "wire::files")]
    pub by_name: Rc<BTreeMap<String, Vec<u8>>>,
}

/// Folders whose workflows may be entered: the project's, the run's own, and those that the config file lists.
#[derive(Clone, Debug)]
pub struct Allowed {
    /// The project's and the run's own.
    own: Vec<PathBuf>,
    /// Those that the config file lists. Only these may be entered by a model that nobody told of the workflow.
    listed: Vec<PathBuf>,
}

impl Allowed {
    /// `project` is the folder that contains `.raymond`; `listed` are the config file's `workflow_paths`, as written.
    pub fn new(own: &Scope, project: &Path, listed: &[String]) -> Self {
        Self::around(own.home(), project, listed)
    }

    /// The same for a workflow whose relative paths start from `home`.
    pub fn around(home: &Path, project: &Path, listed: &[String]) -> Self {
        let listed = listed.iter().map(|path| real(&normalise(project, Path::new(path))));
        Self { own: vec![real(project), real(home)], listed: listed.collect() }
    }

    fn folders(&self) -> impl Iterator<Item = &PathBuf> {
        self.own.iter().chain(&self.listed)
    }

    /// Whether a path is on this machine, or on a share that one of the folders is on.
    fn is_near(&self, path: &Path) -> bool {
        self.folders().any(|folder| !leads_away(path, folder))
    }

    /// Comes before any access to the path, because on Windows the access itself can do harm (see `leads_away`).
    pub fn check_near(&self, written: &str, base: &Path) -> Result<(), String> {
        if self.is_near(&normalise(base, Path::new(written))) {
            return Ok(());
        }
        Err(format!("`{}` leads to another machine or a device", written.escape_debug()))
    }

    /// A name from a model must not lead out of the allowed folders.
    pub fn check(&self, written: &str, path: &Path) -> Result<(), String> {
        if self.permits(path) {
            return Ok(());
        }
        let (written, real) = (written.escape_debug(), real(path).display().to_string());
        let place = match written.to_string() == real {
            true => format!("`{written}` is"),
            false => format!("`{written}` leads to {real},"),
        };
        Err(format!(
            "{place} outside the project; list its folder in `workflow_paths` of the config file to permit it"
        ))
    }

    /// The workflows that one extends must be in these folders, too.
    pub fn check_bases(&self, scope: &Scope) -> Result<(), String> {
        scope.bases().try_for_each(|base| self.check(&base.path().to_string_lossy(), base.path()))
    }

    /// Whether a path is in one of the folders, after following links.
    pub fn permits(&self, path: &Path) -> bool {
        let path = real(path);
        self.folders().any(|folder| path.starts_with(folder))
    }

    /// Whether the config file lists a folder around a path, after following links.
    fn lists(&self, path: &Path) -> bool {
        let path = real(path);
        self.listed.iter().any(|folder| path.starts_with(folder))
    }
}

impl Scopes {
    pub fn new(own: Scope, platform: Platform, allowed: Allowed) -> Self {
        let (others, packed) = (BTreeMap::new(), BTreeMap::new());
        Self { own, others, platform, allowed, only: None, reach: None, worktrees: None, packed, root: None }
    }

    /// The same with all workflows below a folder, under the paths that they have elsewhere.
    #[must_use]
    pub fn below(self, root: &Path) -> Self {
        Self { root: Some(root.to_owned()), ..self }
    }

    /// The same for a run that its schedule has started: it enters only its own workflow, those that this one names in its texts, and
    /// so on. The person who trusted it has seen these.
    pub fn only_named(self) -> Result<Self, UserError> {
        let reached = Reached::from(self.own.path(), self.platform)?;
        let only = reached.scopes.iter().map(|scope| canonical(scope.path())).collect();
        Ok(Self { only: Some(only), ..self })
    }

    /// The same for agents whose models may only choose these folders.
    #[must_use]
    pub fn within(self, reach: Reach) -> Self {
        Self { reach: Some(reach), ..self }
    }

    /// The same for a run that can make worktrees.
    #[must_use]
    pub fn with_worktrees(self, worktrees: Worktrees) -> Self {
        Self { worktrees: Some(worktrees), ..self }
    }

    pub fn worktrees(&self) -> Option<&Worktrees> {
        self.worktrees.as_ref()
    }

    pub fn reach(&self) -> Option<&Reach> {
        self.reach.as_ref()
    }

    /// The workflow that an agent is in.
    pub fn of(&mut self, agent: &Agent) -> Result<&mut Scope, String> {
        let Some(path) = &agent.scope else { return Ok(&mut self.own) };
        if !self.others.contains_key(path) {
            let scope = Scope::open(Path::new(path), self.platform).map_err(|error| error.message)?;
            self.others.insert(path.clone(), scope);
        }
        self.others.get_mut(path).ok_or_else(|| format!("{path} was not opened"))
    }

    /// All files of the archive or one-file workflow that an agent's state comes from.
    pub fn packed(&mut self, agent: &Agent) -> Result<Rc<PackedFiles>, String> {
        self.packed_files(agent, |scope| scope.owner_of(&agent.state))
    }

    /// All files of the archive or one-file workflow that an agent is in.
    pub fn packed_workflow(&mut self, agent: &Agent) -> Result<Rc<PackedFiles>, String> {
        self.packed_files(agent, |scope| scope)
    }

    fn packed_files(
        &mut self,
        agent: &Agent,
        which: impl Fn(&Scope) -> &Scope,
    ) -> Result<Rc<PackedFiles>, String> {
        let scope = which(self.of(agent)?);
        let (origin, version) = (scope.path().to_owned(), scope.version());
        if let Some(files) = self.packed.get(&origin).filter(|files| files.version == version) {
            return Ok(Rc::clone(files));
        }
        let by_name = which(self.of(agent)?).files();
        let files = Rc::new(PackedFiles { origin: origin.clone(), version, by_name });
        self.packed.insert(origin, Rc::clone(&files));
        Ok(files)
    }

    /// Finds the workflow that an agent names, relative to the one it is in.
    pub fn enter(&mut self, agent: &Agent, written: &str) -> Result<ScopeEntry, String> {
        let written = &*self.in_root(written);
        let scope = self.of(agent)?;
        let (base, is_in_bundle) = (scope.path().to_owned(), scope.is_in_bundle());
        let (scope, entry) = match self.known(&base, written) {
            Some(found) => found,
            None => self.open(&base, written, is_in_bundle)?,
        };
        let unnamed = self.why_unnamed(agent, written, Path::new(&scope))?;
        let known = self.others.get_mut(&scope).ok_or_else(|| format!("{scope} was not opened"))?;
        let entry = known.resolve(entry.as_str())?;
        Ok(ScopeEntry { unnamed, ..entry_into(known, scope, entry) })
    }

    /// Why a model must not enter the workflow at `path`, which it called `written`: the author of the workflow that its
    /// agent is in has not named it, and the config file does not list it. Scripts are not asked.
    fn why_unnamed(&mut self, agent: &Agent, written: &str, path: &Path) -> Result<Option<String>, String> {
        if !agent.state.kind().is_prompt() || self.allowed.lists(path) {
            return Ok(None);
        }
        let scope = self.of(agent)?;
        let (base, is_in_bundle) = (scope.path().to_owned(), scope.is_in_bundle());
        // It may enter the one that it is in: it could go to each of its states anyway.
        let target = canonical(path);
        if canonical(&base) == target {
            return Ok(None);
        }
        let named: Vec<String> =
            named_by(scope).into_iter().map(|name| self.in_root(&name).into_owned()).collect();
        let is_named = named.iter().any(|name| name == written)
            || named.iter().any(|name| {
                self.path_of(&base, name, is_in_bundle).is_some_and(|path| canonical(&path) == target)
            });
        let why = || {
            format!(
                "`{}` leads to {}, a workflow that no state here names",
                written.escape_debug(),
                path.display()
            )
        };
        Ok((!is_named).then(why))
    }

    /// Where the workflow is that another one names.
    fn path_of(&mut self, base: &Path, written: &str, is_in_bundle: bool) -> Option<PathBuf> {
        self.allowed.check_near(written, base).ok()?;
        if let Some((known, _)) = self.known(base, written) {
            return Some(known.into());
        }
        let locate = if is_in_bundle { locate_from } else { locate };
        locate(written, base, self.platform).ok().map(|located| located.scope.path().to_owned())
    }

    /// The path of a workflow that agents call like this.
    fn in_root<'a>(&self, written: &'a str) -> Cow<'a, str> {
        match &self.root {
            Some(root) if written.starts_with('/') => format!("{}{written}", root.display()).into(),
            _ => written.into(),
        }
    }

    /// Whether there is anything that agents could mean by this.
    pub fn is_there(&mut self, agent: &Agent, written: &str) -> bool {
        let written = self.in_root(written).into_owned();
        self.of(agent).is_ok_and(|scope| normalise(scope.path(), Path::new(&written)).exists())
    }

    /// An archive or a one-file workflow that is already open, so that it need not be read again.
    fn known(&mut self, base: &Path, written: &str) -> Option<(String, StateFile)> {
        let path = normalise(base, Path::new(written));
        if let Some(scope) = path.to_str().and_then(|path| self.others.get_mut(path)) {
            let entry = scope.is_packed().then(|| scope.current_entry().ok())??;
            return Some((path.to_str()?.to_owned(), entry));
        }
        let parent = path.parent()?.to_str()?;
        let scope = self.others.get_mut(parent).filter(|scope| scope.is_packed())?;
        let entry = scope.resolve(path.file_name()?.to_str()?).ok()?;
        Some((parent.to_owned(), entry))
    }

    fn open(
        &mut self,
        base: &Path,
        written: &str,
        is_in_bundle: bool,
    ) -> Result<(String, StateFile), String> {
        self.allowed.check_near(written, base)?;
        let locate = if is_in_bundle { locate_from } else { locate };
        let located = locate(written, base, self.platform).map_err(|error| error.message)?;
        let path = located.scope.path().to_owned();
        self.allowed.check(written, &path)?;
        self.allowed.check_bases(&located.scope)?;
        let is_trusted =
            |only: &BTreeSet<PathBuf>| only.contains(&canonical(&path)) || self.allowed.lists(&path);
        if !self.only.as_ref().is_none_or(is_trusted) {
            return Err(format!(
                "`{}` leads to {}, a workflow that no text of this one names; a run that its schedule has started enters only those that \
                 were trusted with it, and those in `workflow_paths` of the config file",
                written.escape_debug(),
                path.display()
            ));
        }
        let scope = path
            .to_str()
            .ok_or_else(|| format!("the path {} is not valid UTF-8", path.display()))?
            .to_owned();
        // A known archive is kept: the file may have been replaced since it was read.
        self.others.entry(scope.clone()).or_insert(located.scope);
        Ok((scope, located.entry))
    }
}

/// What the core needs to know about a workflow that an agent enters.
pub fn entry_into(scope: &Scope, path: String, entry: StateFile) -> ScopeEntry {
    ScopeEntry {
        scope: path,
        entry,
        hash: scope.hash().map(str::to_owned),
        directory: working_directory(scope),
        input: input_wanted(&scope.manifest().input),
        inputs: declared_inputs(scope),
        unnamed: None,
    }
}

/// The inputs of a workflow. The default of a file is in the folder of the workflow that declares it.
pub fn declared_inputs(scope: &Scope) -> Vec<DeclaredInput> {
    let mut declared = scope.manifest().inputs.clone();
    for input in declared.iter_mut().filter(|input| input.kind == InputKind::File) {
        let home = scope.owner_of_input(&input.name).home();
        let path = input.default.as_ref().map(|default| normalise(home, Path::new(default)));
        input.default = path.map(|path| path.to_string_lossy().into_owned());
    }
    declared
}

/// Where a workflow wants to work, if it says so.
fn working_directory(scope: &Scope) -> Option<Result<String, String>> {
    scope.working_directory().map(|folder| {
        let folder = folder.map_err(|error| error.message)?;
        folder
            .into_os_string()
            .into_string()
            .map_err(|folder| format!("the name of the folder {} is not text", folder.display()))
    })
}

fn input_wanted(rule: &InputRule) -> InputWanted {
    match rule.mode {
        InputMode::Required => InputWanted::Required { label: rule.label.clone() },
        InputMode::Optional => InputWanted::Optional,
        InputMode::None => InputWanted::Never,
    }
}

/// The path of a workflow with all links followed. A folder in an archive is another workflow than the archive.
pub fn canonical(path: &Path) -> PathBuf {
    match host_of(path).filter(|_| !path.exists()) {
        Some(host) => real(host).join(path.strip_prefix(host).unwrap_or(Path::new(""))),
        None => real(path),
    }
}

fn real(path: &Path) -> PathBuf {
    // A workflow in an archive has no path of its own; the archive has.
    let path = if path.exists() { path } else { host_of(path).unwrap_or(path) };
    fs::canonicalize(path).unwrap_or_else(|_| path.to_owned())
}
