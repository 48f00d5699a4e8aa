//! From what the user wrote to a scope and its first state.

use std::path::{Path, PathBuf};

use raymond_core::workflow::{Kind, Platform, ResolveError, StateFile};

use super::{MAX_PATH_BYTES, Scope, inner_path, packed_files, path_problem};
use crate::error::UserError;
use crate::files;
use crate::paths::normalise;

/// The folder in which a bundle keeps the workflows that its own one calls, as they lay beside each other.
pub const BUNDLE: &str = "_bundle";
/// The file that says where the bundle's own workflow lay among them.
pub const BUNDLE_HOME: &str = "_bundle/home";

/// The extensions that may be left out.
const PACKED: [&str; 3] = [".zip", ".yaml", ".yml"];

/// A workflow as the user named it.
#[derive(Debug)]
pub struct Located {
    /// As written on the command line or in a tag.
    pub given: String,
    pub scope: Scope,
    pub entry: StateFile,
}

/// The forms that a workflow can have on disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    Folder,
    Archive,
    OneFile,
}

impl Form {
    /// The form of the workflow at a path, if there can be one.
    pub fn of(path: &Path) -> Option<Form> {
        if path.is_dir() {
            return Some(Form::Folder);
        }
        Form::of_name(path).filter(|_| path.is_file())
    }

    /// The form that a file's extension stands for.
    pub fn of_name(path: &Path) -> Option<Form> {
        let extension = path.extension()?.to_str()?.to_ascii_lowercase();
        match extension.as_str() {
            "zip" => Some(Form::Archive),
            "yaml" | "yml" => Some(Form::OneFile),
            _ => None,
        }
    }
}

/// Finds a workflow: a folder, an archive, a one-file workflow, or a state in one of them. The extension of an archive
/// or file may be left out where that leads to only one thing.
pub fn locate(given: &str, cwd: &Path, platform: Platform) -> Result<Located, UserError> {
    // An unset variable of a shell; as a path it would be the current folder.
    if given.is_empty() {
        return Err(UserError::usage("the name of the workflow is empty").hint("for this folder, write `.`"));
    }
    locate_at(given, &normalise(cwd, Path::new(given)), platform)
}

/// Finds a workflow that is named by another one, whose path is `base`. In a bundle it is looked for there first.
pub fn locate_from(given: &str, base: &Path, platform: Platform) -> Result<Located, UserError> {
    let inside = bundled(given, base).into_iter().find_map(|path| locate_at(given, &path, platform).ok());
    inside.map_or_else(|| locate(given, base, platform), Ok)
}

/// Finds the workflow that the one at `from` extends. It needs no state to begin with.
pub fn base_path(given: &str, from: &Path) -> Result<PathBuf, String> {
    let candidates = bundled(given, from).into_iter().chain([normalise(from, Path::new(given))]);
    for path in candidates {
        if Form::of(&path).is_some() || is_folder_inside(&path) {
            return Ok(path);
        }
        if let Some(packed) = packed(given, &path).map_err(|error| error.message)? {
            return Ok(packed);
        }
    }
    let beside = from.parent().map(|folder| normalise(folder, Path::new(given)));
    let is_beside = beside.is_some_and(|path| Form::of(&path).is_some());
    Err(match is_beside && Form::of(from) != Some(Form::Folder) {
        true => {
            format!("there is no such workflow; beside this file is `../{}`", given.trim_start_matches("./"))
        }
        false => "there is no such workflow".to_owned(),
    })
}

/// Where a bundle may have a workflow that `base` names. See `author/convert/bundle.rs`.
fn bundled(given: &str, base: &Path) -> Vec<PathBuf> {
    let in_bundle = |root: &&Path| base.starts_with(root.join(BUNDLE)) || *root == base;
    let Some((root, home)) = base.ancestors().filter(in_bundle).find_map(|root| Some((root, home_of(root)?)))
    else {
        return Vec::new();
    };
    let all = root.join(BUNDLE);
    let home = all.join(home);
    let target = normalise(if base == root { &home } else { base }, Path::new(given));
    // The workflow itself is at the top of its bundle, not among the others.
    let itself = target.strip_prefix(&home).map(|rest| root.join(rest)).ok();
    let is_inside = target.starts_with(&all) && target != all;
    is_inside.then_some(target).into_iter().chain(itself).collect()
}

/// Where the workflow of a bundle was among those that it calls; `None` if this is no bundle.
fn home_of(root: &Path) -> Option<String> {
    let home = match Form::of(root)? {
        Form::Folder => files::read_text(&root.join(BUNDLE_HOME), MAX_PATH_BYTES as u64).ok()?,
        Form::Archive | Form::OneFile => {
            String::from_utf8(packed_files(root).ok()?.0.remove(BUNDLE_HOME)?).ok()?
        }
    };
    let home = home.trim().to_owned();
    path_problem(&home).is_none().then_some(home)
}

/// The archive or one-file workflow that a path leads into.
pub fn host_of(path: &Path) -> Option<&Path> {
    path.ancestors().skip(1).find(|host| host.is_file() && Form::of_name(host).is_some())
}

/// Whether a path is that of a folder in an archive or a one-file workflow.
fn is_folder_inside(path: &Path) -> bool {
    let holds = |host: &Path| {
        let prefix = inner_path(path, host)? + "/";
        Some(packed_files(host).ok()?.0.keys().any(|name| name.starts_with(&prefix)))
    };
    host_of(path).and_then(holds).unwrap_or(false)
}

fn locate_at(given: &str, path: &Path, platform: Platform) -> Result<Located, UserError> {
    if Form::of(path).is_some() {
        return whole(given, path, platform);
    }
    match state_in_scope(given, path, platform) {
        Err(error) if !path.exists() => match packed(given, path)? {
            Some(packed) => whole(given, &packed, platform),
            None if is_folder_inside(path) => whole(given, path, platform),
            None => Err(error),
        },
        found => found,
    }
}

fn whole(given: &str, path: &Path, platform: Platform) -> Result<Located, UserError> {
    let scope = Scope::open(path, platform)?;
    let entry = scope.entry().map_err(|error| no_entry(given, &scope, &error))?;
    Ok(Located { given: given.to_owned(), scope, entry })
}

/// The archive or one-file workflow whose name a path is, without its extension.
fn packed(given: &str, path: &Path) -> Result<Option<PathBuf>, UserError> {
    let with = |extension: &str| {
        let mut name = path.as_os_str().to_owned();
        name.push(extension);
        PathBuf::from(name)
    };
    let mut found: Vec<PathBuf> =
        PACKED.iter().map(|extension| with(extension)).filter(|file| file.is_file()).collect();
    if found.len() > 1 {
        let names: Vec<String> = found.iter().map(|file| file.display().to_string()).collect();
        let error = format!("`{}` may be {}", given.escape_debug(), names.join(" or "));
        return Err(UserError::usage(error).hint("write the extension, too"));
    }
    Ok(found.pop())
}

fn state_in_scope(given: &str, path: &Path, platform: Platform) -> Result<Located, UserError> {
    let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else {
        return Err(not_found(given));
    };
    let name = name.to_string_lossy();
    if path.is_file() && Kind::of(&name).is_none() {
        let error = format!("{given} is neither a workflow nor a state file");
        return Err(UserError::usage(error).hint(
            "states end in .md, .sh, .py, .js, .bat or .ps1, archives in .zip, one-file workflows in .yaml",
        ));
    }
    // A name such as `x.zip` is not a state's, so an error about a missing state would confuse.
    if Form::of_name(path).is_some() {
        return Err(not_found(given));
    }
    let parent = match Form::of(parent) {
        Some(_) => parent.to_owned(),
        None if parent.exists() => return Err(not_found(given)),
        None => match packed(given, parent)? {
            Some(packed) => packed,
            None if is_folder_inside(parent) => parent.to_owned(),
            None => return Err(not_found(given)),
        },
    };
    let mut scope = Scope::open(&parent, platform)?;
    let entry = scope.resolve(&name).map_err(|error| {
        let is_missing = match scope.listing().resolve(&name, platform) {
            Err(ResolveError::NotFound { elsewhere, .. }) => elsewhere.is_empty(),
            Err(ResolveError::Ambiguous { .. } | ResolveError::WrongPlatform { .. }) => false,
            _ => true,
        };
        match scope.listing().states().next() {
            // There is something of that name, and the error says why it cannot be run.
            Some(_) if !is_missing => UserError::usage(format!("{given}: {error}")),
            Some(_) => not_found(given).hint(error),
            // The folder has no states, so the user did not mean one of them.
            None => not_found(given),
        }
    })?;
    Ok(Located { given: given.to_owned(), scope, entry })
}

/// A workflow whose first state is not known can be run from another one.
fn no_entry(given: &str, scope: &Scope, error: &str) -> UserError {
    let wrong = UserError::usage(format!("{given}: {error}"));
    match scope.states().find(|state| state.kind().runs_on(scope.platform())) {
        Some(state) => {
            let path = Path::new(given).join(state.as_str());
            wrong.hint(format!("or name the state to begin with: raymond {}", path.display()))
        }
        None => wrong,
    }
}

fn not_found(given: &str) -> UserError {
    UserError::usage(format!("there is no workflow `{}`", given.escape_debug())).hint(
        "give a folder with a START state, an archive, a one-file workflow, or one state file; `raymond --help` \
         lists the commands",
    )
}
