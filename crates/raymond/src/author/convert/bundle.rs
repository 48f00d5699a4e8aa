//! A workflow together with those that it calls.
//!
//! The workflow itself is at the top, as without a bundle. The others are in `_bundle`, at the paths that they have from
//! the folder that all of them have in common, each unpacked as a folder. `_bundle/home` holds the path that the workflow
//! itself has from there. So `../other` leads to the same workflow as before, from any of them.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use raymond_core::graph::Leads;
use raymond_core::workflow::Platform;

use super::{Files, read};
use crate::author::load::load;
use crate::error::UserError;
use crate::paths::normalise;
use crate::workflow::scope::{BUNDLE, BUNDLE_HOME, base_path, locate_from};

/// Enough for any workflow, and an end for those that lead to ever more.
const MAX_CALLED: usize = 1_000;

/// The files of a bundle of the workflow at `from`.
pub fn bundle(from: &Path) -> Result<Files, UserError> {
    let mut files = read(from)?;
    if files.keys().any(|name| name.starts_with(&format!("{BUNDLE}/"))) {
        return Err(UserError::usage(format!("{} is a bundle already", from.display())));
    }
    let called = called_from(from)?;
    let Some(common) = common_folder(from, called.keys()) else { return Ok(files) };
    let path_in = |path: &Path| -> Result<String, UserError> {
        let parts: Option<Vec<&str>> =
            path.strip_prefix(&common).ok().and_then(|path| path.iter().map(|part| part.to_str()).collect());
        parts
            .map(|parts| parts.join("/"))
            .ok_or_else(|| UserError::usage(format!("the name of {} is not text", path.display())))
    };
    files.insert(BUNDLE_HOME.to_owned(), format!("{}\n", path_in(from)?).into_bytes());
    for (written, scope) in &called {
        let folder = path_in(written)?;
        for (name, bytes) in read(scope)? {
            files.insert(format!("{BUNDLE}/{folder}/{name}"), bytes);
        }
    }
    Ok(files)
}

/// The workflows that can be reached: by the path that names them, where they are. Those in the folder of the workflow
/// itself are packed with it.
fn called_from(from: &Path) -> Result<BTreeMap<PathBuf, PathBuf>, UserError> {
    let mut called = BTreeMap::new();
    let mut to_visit = vec![from.to_owned()];
    let mut seen = BTreeSet::from([from.to_owned()]);
    while let Some(scope) = to_visit.pop() {
        for (name, way) in named_by(&scope)? {
            let path = match way {
                Way::Extended => base_path(&name, &scope).map_err(UserError::usage)?,
                Way::Called => locate_from(&name, &scope, Platform::current())
                    .map_err(|error| {
                        error.hint(format!("{} calls it, so the bundle needs it", scope.display()))
                    })?
                    .scope
                    .path()
                    .to_owned(),
            };
            let written = written_path(&normalise(&scope, Path::new(&name)), &path);
            let is_own = path == from || (from.is_dir() && path.is_dir() && path.starts_with(from));
            if seen.insert(path.clone()) {
                to_visit.push(path.clone());
            }
            if !is_own {
                called.insert(written, path);
            }
            if called.len() > MAX_CALLED {
                return Err(UserError::usage(format!("it calls more than {MAX_CALLED} workflows")));
            }
        }
    }
    Ok(called)
}

/// The path by which a scope was named: without a state, and without an extension that was left out.
fn written_path(target: &Path, scope: &Path) -> PathBuf {
    let is_scope = target == scope || scope.with_extension("") == *target;
    match target.parent() {
        Some(parent) if !is_scope => parent.to_owned(),
        _ => target.to_owned(),
    }
}

/// How a workflow needs another one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Way {
    Called,
    Extended,
}

/// The other workflows that the states of one name. What only a run can know cannot be packed.
fn named_by(scope: &Path) -> Result<BTreeSet<(String, Way)>, UserError> {
    let platform = Platform::current();
    let given = scope.to_str().ok_or_else(|| UserError::usage("the path is not valid UTF-8"))?;
    let mut loaded =
        load(given, Path::new("/"), platform).map_err(|fault| UserError::usage(fault.to_string()))?;
    let graph = loaded.graph(platform);
    let exits = graph.states.iter().flat_map(|state| &state.exits);
    let targets = exits.filter_map(|exit| exit.target.as_ref());
    let called = targets.filter(|target| target.leads == Leads::Elsewhere);
    let called = called.map(|target| (target.name.clone(), Way::Called));
    Ok(called.chain(loaded.manifest.extends.clone().map(|name| (name, Way::Extended))).collect())
}

/// The deepest folder that the workflow and all that it calls are in; `None` if it calls none.
fn common_folder<'p>(from: &Path, called: impl Iterator<Item = &'p PathBuf>) -> Option<PathBuf> {
    let mut called = called.peekable();
    called.peek()?;
    let mut common = from.parent()?.to_owned();
    for path in called {
        while !path.starts_with(&common) || *path == common {
            common = common.parent()?.to_owned();
        }
    }
    Some(common)
}
