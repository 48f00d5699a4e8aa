//! The workflows below the roots.
//!
//! Bound: [`MAX_FOLDERS`] folders are looked at.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use raymond_core::workflow::Platform;

use crate::files;
use crate::workflow::scope::{Form, MAX_BYTES, Scope, list_folder, parse_leniently};

/// How many folders are looked at.
const MAX_FOLDERS: usize = 10_000;
/// Folders with these names hold no workflows of the project.
const PASSED_OVER: [&str; 4] = [".git", ".raymond", "node_modules", "target"];
/// How long a listing is used again: by those who want to see workflows, and to name the workflows of runs.
const FRESH: Duration = Duration::from_secs(2);
const FRESH_FOR_NAMES: Duration = Duration::from_secs(30);

/// How long what was read of workflows counts. Their own files are looked at each time, but they may name others.
const TRUSTED: Duration = Duration::from_secs(30);

/// A workflow that was found.
#[derive(Clone, Debug)]
pub struct Found {
    /// Its path under its root, with `~` for `/` and `~~` for `~`.
    pub id: String,
    pub path: PathBuf,
    pub form: Form,
}

/// Finds workflows below some folders.
pub struct Workflows {
    pub roots: Vec<PathBuf>,
    last: Mutex<Option<(Instant, Arc<Listing>)>>,
    /// Held while the folders are looked at, which may take long.
    looking: Mutex<()>,
}

/// All workflows, by id.
pub struct Listing {
    pub all: Vec<Found>,
    by_path: HashMap<PathBuf, usize>,
}

impl Workflows {
    pub fn new(roots: Vec<PathBuf>) -> Self {
        Self { roots, last: Mutex::default(), looking: Mutex::default() }
    }

    pub fn list(&self) -> Arc<Listing> {
        self.not_older_than(FRESH)
    }

    fn not_older_than(&self, age: Duration) -> Arc<Listing> {
        if let Some(listing) = self.last(age) {
            return listing;
        }
        let looking = self.looking.lock().unwrap_or_else(PoisonError::into_inner);
        // Another thread may have looked meanwhile.
        self.last(age).unwrap_or_else(|| self.look(&looking))
    }

    /// The last listing, if it is not older.
    fn last(&self, age: Duration) -> Option<Arc<Listing>> {
        let last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        last.as_ref().filter(|(time, _)| time.elapsed() < age).map(|(_, listing)| Arc::clone(listing))
    }

    fn look(&self, _looking: &MutexGuard<'_, ()>) -> Arc<Listing> {
        let begun = Instant::now();
        let all = discover(&self.roots);
        let paths = all.iter().enumerate().map(|(place, found)| (found.path.clone(), place));
        let listing = Arc::new(Listing { by_path: paths.collect(), all });
        // A listing that takes long is kept for longer.
        let kept = (Instant::now() + begun.elapsed() * 4, Arc::clone(&listing));
        *self.last.lock().unwrap_or_else(PoisonError::into_inner) = Some(kept);
        listing
    }

    pub fn find(&self, id: &str) -> Option<Found> {
        self.list().all.iter().find(|found| found.id == id).cloned()
    }

    /// The id of the workflow at a path.
    pub fn id_of(&self, path: &Path) -> Option<String> {
        // Those who want to see runs do not wait for a disk on which workflows are.
        let listing = self.last(FRESH_FOR_NAMES).or_else(|| match self.looking.try_lock() {
            Ok(looking) => Some(self.look(&looking)),
            Err(_) => self.last(Duration::MAX),
        })?;
        let place = listing.by_path.get(path)?;
        listing.all.get(*place).map(|found| found.id.clone())
    }
}

/// What was read of workflows, for as long as their files are the same.
pub struct Readings<T>(Mutex<HashMap<String, Reading<T>>>);

struct Reading<T> {
    files: u64,
    time: Instant,
    value: Arc<T>,
}

impl<T> Default for Readings<T> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<T> Readings<T> {
    /// What a function reads of a workflow, now or a short while ago.
    pub fn get(&self, found: &Found, read: impl FnOnce() -> T) -> Arc<T> {
        let files = identity(&found.path);
        let known = || self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(reading) = known().get(&found.id)
            && reading.files == files
            && reading.time.elapsed() < TRUSTED
        {
            return Arc::clone(&reading.value);
        }
        let (time, value) = (Instant::now(), Arc::new(read()));
        let mut known = known();
        // Workflows that are gone leave with the others that were not asked for.
        known.retain(|_, reading| reading.time.elapsed() < 2 * TRUSTED);
        known.insert(found.id.clone(), Reading { files, time, value: Arc::clone(&value) });
        value
    }
}

/// Something that changes when a file of a workflow is changed: names, sizes and times of all of them.
fn identity(path: &Path) -> u64 {
    let mut hash = DefaultHasher::new();
    let mut add = |path: &Path| {
        let data = path.symlink_metadata();
        path.hash(&mut hash);
        data.map(|data| (data.len(), data.modified().ok())).ok().hash(&mut hash);
    };
    add(path);
    let mut names: Vec<PathBuf> =
        std::fs::read_dir(path).into_iter().flatten().flatten().map(|entry| entry.path()).collect();
    names.sort_unstable();
    names.iter().for_each(|name| add(name));
    hash.finish()
}

fn discover(roots: &[PathBuf]) -> Vec<Found> {
    let mut found = Vec::new();
    let mut left = MAX_FOLDERS;
    for root in roots {
        // A pile of folders that are still to be looked at, so that no nesting is too deep.
        let mut pile = vec![root.clone()];
        while let Some(folder) = pile.pop() {
            if left == 0 {
                break;
            }
            left -= 1;
            look_into(&folder, root, &mut pile, &mut found);
        }
    }
    name_all(roots, found)
}

/// Looks for workflows in one folder.
fn look_into(folder: &Path, root: &Path, pile: &mut Vec<PathBuf>, found: &mut Vec<(PathBuf, PathBuf, Form)>) {
    if has_start(folder) {
        found.push((root.to_owned(), folder.to_owned(), Form::Folder));
    }
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let Some(name) = name.to_str() else { continue };
        let Ok(kind) = entry.file_type() else { continue };
        let path = entry.path();
        // A link may lead out of the root or back to a folder above.
        if kind.is_dir() && !PASSED_OVER.contains(&name) {
            pile.push(path);
        } else if kind.is_file()
            && let Some(form) = Form::of_name(&path)
            && is_packed_workflow(&path, form)
        {
            found.push((root.to_owned(), path, form));
        }
    }
}

fn has_start(folder: &Path) -> bool {
    list_folder(folder).is_ok_and(|listing| listing.entry(Platform::current()).is_ok())
}

/// Whether a file is a workflow. Most `.yaml` files are something else.
fn is_packed_workflow(path: &Path, form: Form) -> bool {
    match form {
        Form::Folder => false,
        Form::Archive => Scope::open(path, Platform::current()).is_ok_and(|scope| scope.entry().is_ok()),
        Form::OneFile => {
            let text = files::read_text(path, MAX_BYTES);
            // A file with mistakes is still shown, with its findings.
            text.is_ok_and(|text| {
                text.contains("states:")
                    && parse_leniently(&text).is_ok_and(|(contents, _)| !contents.states.is_empty())
            })
        }
    }
}

/// Gives each workflow an id that no other one has.
fn name_all(roots: &[PathBuf], found: Vec<(PathBuf, PathBuf, Form)>) -> Vec<Found> {
    let prefixes = root_names(roots);
    let mut taken = BTreeSet::new();
    let mut seen = BTreeSet::new();
    let mut all = Vec::new();
    for (root, path, form) in found {
        // Roots may lie in each other.
        if !seen.insert(path.clone()) {
            continue;
        }
        let below = path.strip_prefix(&root).unwrap_or(&path);
        let inside = below.components().map(|part| part.as_os_str().to_string_lossy().replace('~', "~~"));
        let own = prefixes.get(&root).cloned().filter(|_| roots.len() > 1 || below.as_os_str().is_empty());
        let parts: Vec<String> = own.into_iter().chain(inside).collect();
        let plain = parts.join("~");
        let numbered = (2..).map(|number| format!("{plain}-{number}"));
        let id = std::iter::once(plain.clone()).chain(numbered).find(|id| !taken.contains(id));
        let id = id.unwrap_or(plain);
        taken.insert(id.clone());
        all.push(Found { id, path, form });
    }
    all.sort_by(|a, b| a.id.cmp(&b.id));
    all
}

/// What the ids of workflows below each root begin with, if there are several: the name of its folder.
fn root_names(roots: &[PathBuf]) -> BTreeMap<PathBuf, String> {
    let mut names = BTreeMap::new();
    let mut taken = BTreeSet::new();
    for root in roots {
        let name = root.file_name().map_or("root".into(), |name| name.to_string_lossy().replace('~', "~~"));
        let numbered = (2..).map(|number| format!("{name}-{number}"));
        let own = std::iter::once(name.clone()).chain(numbered).find(|name| !taken.contains(name));
        let own = own.unwrap_or(name);
        taken.insert(own.clone());
        names.insert(root.clone(), own);
    }
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ids(roots: &[&Path]) -> Vec<String> {
        let roots: Vec<PathBuf> = roots.iter().map(|root| root.to_path_buf()).collect();
        discover(&roots).into_iter().map(|found| found.id).collect()
    }

    #[test]
    fn a_workflow_is_read_again_when_a_file_of_it_has_changed() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("START.sh");
        std::fs::write(&file, "one").unwrap();
        let found = Found { id: "a".to_owned(), path: folder.path().to_owned(), form: Form::Folder };
        let readings = Readings::default();
        let read = |number: u32| *readings.get(&found, || number);
        assert_eq!((read(1), read(2)), (1, 1));
        std::fs::write(&file, "three").unwrap();
        assert_eq!((read(3), read(4)), (3, 3));
        std::fs::write(folder.path().join("NEW.sh"), "").unwrap();
        assert_eq!(read(5), 5);
    }

    #[test]
    fn workflows_of_all_forms_are_found_and_named_by_their_place() {
        let root = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| {
            let path = root.path().join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        };
        for folder in ["a/b", "a~b", "node_modules/x", ".raymond/y", "target/z", "deep/er/est"] {
            write(&format!("{folder}/START.sh"), "echo '<result>x</result>'");
        }
        write("one.yaml", "states:\n  START:\n    sh: echo\n");
        write("values.yaml", "some: states\n");
        write("a/b/replies.yaml", "START: x\n");
        assert_eq!(ids(&[root.path()]), ["a~b", "a~~b", "deep~er~est", "one.yaml"]);
        let (a, deep) = (root.path().join("a"), root.path().join("deep"));
        assert_eq!(ids(&[&a, &deep]), ["a~b", "deep~er~est"]);
        let b = root.path().join("a/b");
        assert_eq!(ids(&[&b]), ["b"]);
    }
}
