//! The folders to which a model may send agents.
//!
//! A `cd` in a model's message is text from outside. Where it leads is therefore looked up with all links followed, and
//! compared with folders that the user has chosen.

mod worktrees;

use std::collections::BTreeSet;
use std::fs;
use std::iter;
use std::path::{Component, Path, PathBuf};

use raymond_core::folder::{self, Folder};

use crate::paths::normalise;

#[derive(Clone, Debug)]
pub struct Reach {
    /// The project, the folder in which Raymond was started, and what the config file lists; links are followed.
    folders: Vec<PathBuf>,
}

impl Reach {
    /// `started_in` is where this and earlier processes of the run were started; `listed` are the config file's
    /// `cd_paths`, as written.
    pub fn new(project: &Path, started_in: &[&Path], listed: &[String]) -> Self {
        let listed = listed.iter().map(|path| normalise(project, Path::new(path)));
        let started_in = started_in.iter().map(|folder| folder.to_path_buf());
        let folders = iter::once(project.to_owned()).chain(started_in).chain(listed);
        Self { folders: folders.map(|folder| real(&folder)).collect() }
    }

    /// Looks up a folder for an agent that works in `cwd`, with the `cd` patterns of its state's policy.
    pub fn look_up(&self, cwd: &Path, written: &str, path: String, patterns: &[&str]) -> Folder {
        let real_path = real(Path::new(&path));
        let is_inside = self.contains(cwd, &real_path);
        let names = names_of(Path::new(&path));
        let real_names = names_of(&real_path);
        let matches = |pattern: &str| {
            let pattern = normalise(cwd, Path::new(pattern));
            // A link could lead from a folder that the pattern names to any other.
            is_match(&names_of(&real_start(&pattern)), &real_names)
                || is_inside && is_match(&names_of(&pattern), &names)
        };
        let matches: BTreeSet<String> =
            patterns.iter().filter(|pattern| matches(pattern)).map(|pattern| (*pattern).to_owned()).collect();
        let outside = (!is_inside).then(|| {
            format!(
                "`cd=\"{}\"` leads to {}, outside the project",
                written.escape_debug(),
                real_path.display()
            )
        });
        Folder { path, outside, matches }
    }

    /// Whether a model that works in `cwd` may choose this file.
    pub fn permits_file(&self, cwd: &Path, file: &Path) -> bool {
        self.contains(cwd, &real(file))
    }

    fn contains(&self, cwd: &Path, folder: &Path) -> bool {
        let is_in = |base: &PathBuf| folder.starts_with(base);
        let cwd = real(cwd);
        self.folders.iter().any(is_in)
            || is_in(&cwd)
            || worktrees::beside(&cwd).iter().any(is_in)
            || self.folders.first().is_some_and(|project| worktrees::beside(project).iter().any(is_in))
    }
}

fn real(path: &Path) -> PathBuf {
    fs::canonicalize(path).unwrap_or_else(|_| path.to_owned())
}

/// A pattern with the links followed in the part before its first wildcard.
fn real_start(pattern: &Path) -> PathBuf {
    let is_plain = |part: &Component<'_>| !folder::has_wildcards(&part.as_os_str().to_string_lossy());
    let start: PathBuf = pattern.components().take_while(is_plain).collect();
    let rest: PathBuf = pattern.components().skip_while(is_plain).collect();
    real(&start).join(rest)
}

fn names_of(path: &Path) -> Vec<String> {
    path.components().map(|part| part.as_os_str().to_string_lossy().into_owned()).collect()
}

fn is_match(pattern: &[String], path: &[String]) -> bool {
    fn texts(names: &[String]) -> Vec<&str> {
        names.iter().map(String::as_str).collect()
    }
    folder::matches(&texts(pattern), &texts(path))
}
