//! Which files of a project's `.raymond` this user's Raymond has made here.
//!
//! A clone, an archive or a pull may bring a `.raymond` with runs and all else in it. Of what lies there, only what carries
//! a mark of this user for this folder counts (see [`crate::trust::marks`]). Everything that reads or writes such a file
//! asks here.
//!
//! A run has its mark in `RUN.mark`, written before its first event. The mark also stands for the nonces of the run: its
//! own, and one for each time that it was rewound. They are random, so another journal in the place of the run's does not
//! fit. Other files carry their mark in their last line ([`Own::seal`]).
//!
//! A folder that a person has named (`--state-dir`) needs no marks. Bounds: [`MAX_MARK_BYTES`].

use std::collections::HashSet;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use serde::{Deserialize, Serialize};

use super::disk::{remove_if_there, sync_dir};
use crate::files;
use crate::store::error::StoreError;
use crate::trust::marks::{Key, NoKey};

/// How long the mark of a run may be: that of one that was rewound some 20,000 times.
const MAX_MARK_BYTES: u64 = 1024 * 1024;

/// How the last line of a file with a mark begins.
const SEAL: &str = "#mark ";

/// Tells the files that count in a state folder from those that do not.
#[derive(Clone, Debug, Default)]
pub struct Own(Option<Arc<Inner>>);

#[derive(Debug)]
struct Inner {
    /// The folder of the journals.
    dir: PathBuf,
    /// The folder that contains `.raymond`.
    project: PathBuf,
    /// Whether only what is marked counts. In a folder that a person has named, all does; runs are marked there as well
    /// if it is that of a project.
    is_strict: bool,
    /// Filled in when they are there.
    key: OnceLock<Key>,
    real_dir: OnceLock<PathBuf>,
    /// The runs whose marks were found to fit.
    known: Mutex<HashSet<String>>,
}

impl PartialEq for Own {
    fn eq(&self, other: &Self) -> bool {
        let compared = |own: &Self| own.0.as_ref().map(|inner| (inner.dir.clone(), inner.is_strict));
        compared(self) == compared(other)
    }
}

impl Eq for Own {}

/// What `RUN.mark` holds.
#[derive(Debug, Serialize, Deserialize)]
struct RunMark {
    nonces: Vec<String>,
    /// The project in which the mark was made, for people.
    project: String,
    /// The project in which the run was recorded, if it was adopted from there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    moved_from: Option<String>,
    mark: String,
}

/// What is known of a run that has a mark.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OwnRun {
    pub nonces: Vec<String>,
    /// The project that it is in.
    pub project: String,
    /// The project in which it was recorded before it was adopted here.
    pub moved_from: Option<String>,
}

/// What the mark of a run says that does not fit here. It is only a claim.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Claim {
    /// The project in which the run is said to have been recorded.
    pub project: String,
}

impl Own {
    /// The files below the `.raymond` of a project.
    pub(super) fn of_project(dir: &Path, project: &Path) -> Self {
        Self::new(dir, project, true)
    }

    /// The files of a folder that a person has named. Where it is that of a project, what is made there is marked.
    pub(super) fn named(dir: &Path) -> Self {
        let home =
            dir.parent().filter(|home| home.ends_with(super::place::HOME_NAME) && dir.ends_with("state"));
        home.and_then(Path::parent).map_or_else(Self::default, |project| Self::new(dir, project, false))
    }

    fn new(dir: &Path, project: &Path, is_strict: bool) -> Self {
        Self(Some(Arc::new(Inner {
            dir: dir.to_owned(),
            project: project.to_owned(),
            is_strict,
            key: OnceLock::new(),
            real_dir: OnceLock::new(),
            known: Mutex::default(),
        })))
    }

    /// Where marks count.
    fn strict(&self) -> Option<&Inner> {
        self.0.as_deref().filter(|inner| inner.is_strict)
    }

    /// Makes sure that what is made from now on can be marked.
    pub fn prepare(&self) -> Result<(), StoreError> {
        let Some(inner) = self.strict() else { return Ok(()) };
        inner.make_key().map(drop).map_err(|why| StoreError::NoKey { why: why.to_string() })
    }

    /// Why no marks can be read here, if that is so.
    pub fn trouble(&self) -> Option<NoKey> {
        self.strict().and_then(|inner| Key::find(&inner.project).err())
    }

    /// Whether a run counts.
    pub fn has(&self, id: &str) -> bool {
        let Some(inner) = self.strict() else { return true };
        let known = || inner.known.lock().unwrap_or_else(PoisonError::into_inner);
        if known().contains(id) {
            return true;
        }
        let has_mark = inner.mark_of(id).is_some();
        if has_mark {
            known().insert(id.to_owned());
        }
        has_mark
    }

    /// What is known of a run that has a mark. Nothing where runs need none.
    pub fn run(&self, id: &str) -> Option<OwnRun> {
        let mark = self.0.as_deref()?.mark_of(id)?;
        Some(OwnRun { nonces: mark.nonces, project: mark.project, moved_from: mark.moved_from })
    }

    /// What a mark says that need not fit.
    pub fn claim(&self, id: &str) -> Option<Claim> {
        let mark = read(&self.0.as_deref()?.path_of(id))?;
        Some(Claim { project: mark.moved_from.unwrap_or(mark.project) })
    }

    /// Refuses a run that does not count.
    pub fn check(&self, id: &str) -> Result<(), StoreError> {
        match self.strict() {
            Some(inner) if inner.mark_of(id).is_none() => Err(inner.not_own(id)),
            _ => Ok(()),
        }
    }

    /// Refuses a journal that is not the one of the run: this nonce is in it.
    pub fn check_nonce(&self, id: &str, nonce: &str) -> Result<(), StoreError> {
        let Some(inner) = self.strict() else { return Ok(()) };
        let mark = inner.mark_of(id).ok_or_else(|| inner.not_own(id))?;
        match mark.nonces.iter().any(|known| known == nonce) {
            true => Ok(()),
            false => {
                let place = inner.dir.join(format!("{id}.jsonl")).display().to_string();
                Err(StoreError::Replaced { run: id.to_owned(), place })
            }
        }
    }

    /// Whether journals are compared with their marks.
    pub fn is_strict(&self) -> bool {
        self.strict().is_some()
    }

    /// Marks a run that is about to get its first event with this nonce, or is rewound and gets another one. The history of
    /// a branch was recorded where that of its origin was.
    pub(super) fn mark(
        &self,
        id: &str,
        nonce: &str,
        origin: Option<&str>,
        is_synced: bool,
    ) -> Result<(), StoreError> {
        let Some(inner) = self.0.as_deref() else { return Ok(()) };
        let (mut nonces, mut moved_from) = match inner.mark_of(id) {
            Some(mark) => (mark.nonces, mark.moved_from),
            None => (Vec::new(), None),
        };
        if let Some(origin) = origin.and_then(|origin| inner.mark_of(origin)) {
            moved_from = moved_from.or(origin.moved_from);
        }
        if nonces.iter().any(|known| known == nonce) {
            return Ok(());
        }
        nonces.push(nonce.to_owned());
        match inner.write(id, nonces, moved_from, is_synced) {
            Err(_) if !inner.is_strict => Ok(()),
            other => other,
        }
    }

    /// Marks a run with everything that its journal holds now, as one that a person has looked at.
    pub fn adopt(&self, id: &str, nonces: Vec<String>, moved_from: Option<String>) -> Result<(), StoreError> {
        match self.0.as_deref() {
            Some(inner) => inner.write(id, nonces, moved_from, false),
            None => Ok(()),
        }
    }

    /// A mark of something else than a run. None where nothing can be marked.
    pub fn mark_for(&self, kind: &str, parts: &[&[u8]]) -> Option<String> {
        let inner = self.0.as_deref()?;
        let (key, dir) = (inner.key()?, inner.real_dir()?);
        Some(key.mark(kind, &[&[dir.as_os_str().as_encoded_bytes()], parts].concat()))
    }

    /// Whether this is the mark of something else than a run. Where nothing needs a mark, it is.
    pub fn fits(&self, mark: &str, kind: &str, parts: &[&[u8]]) -> bool {
        let Some(inner) = self.strict() else { return true };
        let (Some(key), Some(dir)) = (inner.key(), inner.real_dir()) else { return false };
        key.fits(mark, kind, &[&[dir.as_os_str().as_encoded_bytes()], parts].concat())
    }

    /// The content of a file with its mark in a line of its own behind it.
    pub fn seal(&self, kind: &str, name: &str, content: &[u8]) -> Vec<u8> {
        let mut sealed = content.to_vec();
        if let Some(mark) = self.mark_for(kind, &[name.as_bytes(), content]) {
            sealed.extend(format!("\n{SEAL}{mark}\n").into_bytes());
        }
        sealed
    }

    /// The content of a file that was sealed here.
    pub fn unseal(&self, kind: &str, name: &str, sealed: &[u8]) -> Option<Vec<u8>> {
        let line = format!("\n{SEAL}");
        let at = memchr::memmem::rfind(sealed, line.as_bytes());
        let (content, mark) = match at {
            Some(at) => {
                (&sealed[..at], std::str::from_utf8(&sealed[at + line.len()..]).unwrap_or_default().trim())
            }
            None => (sealed, ""),
        };
        self.fits(mark, kind, &[name.as_bytes(), content]).then(|| content.to_vec())
    }
}

impl Inner {
    fn path_of(&self, id: &str) -> PathBuf {
        mark_path(&self.dir, id)
    }

    /// The key, if it is there.
    fn key(&self) -> Option<&Key> {
        match self.key.get() {
            Some(key) => Some(key),
            None => {
                let key = Key::find(&self.project).ok().flatten()?;
                Some(self.key.get_or_init(|| key))
            }
        }
    }

    fn make_key(&self) -> Result<&Key, NoKey> {
        match self.key.get() {
            Some(key) => Ok(key),
            None => {
                let key = Key::find_or_make(&self.project)?;
                Ok(self.key.get_or_init(|| key))
            }
        }
    }

    /// By which path the folder is reached makes no difference. It need not be there yet: a server has files beside it.
    fn real_dir(&self) -> Option<PathBuf> {
        if let Some(dir) = self.real_dir.get() {
            return Some(dir.clone());
        }
        if let Ok(dir) = self.dir.canonicalize() {
            return Some(self.real_dir.get_or_init(|| dir).clone());
        }
        let existing = self.dir.ancestors().find_map(|above| Some((above, above.canonicalize().ok()?)));
        existing.and_then(|(above, real)| Some(real.join(self.dir.strip_prefix(above).ok()?)))
    }

    /// The mark of a run, if it fits.
    fn mark_of(&self, id: &str) -> Option<RunMark> {
        let mark = read(&self.path_of(id))?;
        let (key, dir) = (self.key()?, self.real_dir()?);
        let fits = key.fits(
            &mark.mark,
            "run",
            &parts(&dir, id, &mark.nonces, &mark.project, mark.moved_from.as_deref()),
        );
        fits.then_some(mark)
    }

    fn write(
        &self,
        id: &str,
        nonces: Vec<String>,
        moved_from: Option<String>,
        is_synced: bool,
    ) -> Result<(), StoreError> {
        let path = self.path_of(id);
        let io = |error| StoreError::io(path.display(), "write", error);
        let key = self.make_key().map_err(|why| StoreError::NoKey { why: why.to_string() })?;
        let dir = self.real_dir().ok_or_else(|| io(io::ErrorKind::NotFound.into()))?;
        let project = self.project.canonicalize().unwrap_or_else(|_| self.project.clone());
        let project = project.to_string_lossy().into_owned();
        let mark = key.mark("run", &parts(&dir, id, &nonces, &project, moved_from.as_deref()));
        let text = serde_json::to_string(&RunMark { nonces, project, moved_from, mark })
            .map_err(|error| io(io::Error::other(error)))?;
        replace(&self.dir, id, &path, &format!("{text}\n"), is_synced).map_err(io)?;
        self.known.lock().unwrap_or_else(PoisonError::into_inner).insert(id.to_owned());
        Ok(())
    }

    fn not_own(&self, id: &str) -> StoreError {
        StoreError::NotOwn { run: id.to_owned(), place: self.dir.display().to_string() }
    }
}

/// A file that Raymond keeps for itself beside the runs, which counts only with its mark.
#[derive(Clone, Debug)]
pub struct SealedFile {
    path: PathBuf,
    own: Own,
}

impl SealedFile {
    pub(super) fn new(path: PathBuf, own: Own) -> Self {
        Self { path, own }
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    fn name(&self) -> String {
        self.path.file_name().unwrap_or_default().to_string_lossy().into_owned()
    }

    /// What this user's Raymond has written to it, if it is not longer than `most`.
    pub fn read(&self, most: u64) -> Option<Vec<u8>> {
        self.own.unseal("file", &self.name(), &files::read(&self.path, most).ok()?)
    }

    /// The content with its mark, for who writes the file in another way.
    pub fn sealed(&self, content: &[u8]) -> Vec<u8> {
        self.own.seal("file", &self.name(), content)
    }

    /// Replaces it. Where nothing can be marked, it could not be read again, and is left as it is.
    pub fn write(&self, content: &[u8]) -> io::Result<()> {
        if self.own.prepare().is_err() {
            return Ok(());
        }
        files::replace_private(&self.path, &self.sealed(content))
    }
}

/// Where the mark of a run is.
pub(super) fn mark_path(dir: &Path, id: &str) -> PathBuf {
    dir.join(format!("{id}.mark"))
}

fn read(path: &Path) -> Option<RunMark> {
    serde_json::from_slice(&files::read(path, MAX_MARK_BYTES).ok()?).ok()
}

fn parts<'a>(
    dir: &'a Path,
    id: &'a str,
    nonces: &'a [String],
    project: &'a str,
    moved_from: Option<&'a str>,
) -> Vec<&'a [u8]> {
    let fixed = [dir.as_os_str().as_encoded_bytes(), id.as_bytes(), project.as_bytes()];
    let moved_from: &[u8] = moved_from.unwrap_or_default().as_bytes();
    fixed.into_iter().chain([moved_from]).chain(nonces.iter().map(|nonce| nonce.as_bytes())).collect()
}

/// Writes a file as a whole: under another name first. No link in its place is followed.
fn replace(dir: &Path, id: &str, path: &Path, text: &str, is_synced: bool) -> io::Result<()> {
    let unfinished = dir.join(format!(".{id}-{}.tmp", uuid::Uuid::new_v4()));
    let opened = files::open_own_as(files::private_options().write(true).create_new(true), &unfinished);
    let written = opened.and_then(|mut file| {
        file.write_all(text.as_bytes())?;
        if is_synced { file.sync_all() } else { Ok(()) }
    });
    if let Err(error) = written.and_then(|()| std::fs::rename(&unfinished, path)) {
        let _ = remove_if_there(&unfinished);
        return Err(error);
    }
    if is_synced { sync_dir(dir) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A folder with a key, as if the user had one.
    fn own(dir: &Path, strict: bool) -> Own {
        let own = Own::new(dir, dir, strict);
        let inner = own.0.as_deref().unwrap();
        let keys = tempfile::tempdir().unwrap();
        inner.key.get_or_init(|| crate::trust::marks::tests_key(keys.path()));
        own
    }

    #[test]
    fn a_run_counts_in_the_folder_and_under_the_id_that_it_was_marked_for() {
        let (dir, copy) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let here = own(dir.path(), true);
        assert!(!here.has("r"));
        assert!(matches!(here.check("r"), Err(StoreError::NotOwn { .. })));
        here.mark("r", "n1", None, false).unwrap();
        here.mark("r", "n2", None, false).unwrap();
        assert!(here.has("r") && here.check("r").is_ok());
        assert_eq!(here.run("r").unwrap().nonces, ["n1", "n2"]);
        assert!(here.check_nonce("r", "n1").is_ok() && here.check_nonce("r", "n2").is_ok());
        assert!(matches!(here.check_nonce("r", "n3"), Err(StoreError::Replaced { .. })));
        std::fs::copy(mark_path(dir.path(), "r"), mark_path(dir.path(), "s")).unwrap();
        assert!(!here.has("s"), "under another id");
        std::fs::copy(mark_path(dir.path(), "r"), mark_path(copy.path(), "r")).unwrap();
        let there = Own::new(copy.path(), copy.path(), true);
        there.0.as_deref().unwrap().key.get_or_init(|| here.0.as_deref().unwrap().key().unwrap().clone());
        assert!(!there.has("r"), "in another folder, with the same key");
        let project = dir.path().canonicalize().unwrap().display().to_string();
        assert_eq!(there.claim("r").unwrap().project, project);
        let text = std::fs::read_to_string(mark_path(dir.path(), "r")).unwrap();
        std::fs::write(mark_path(dir.path(), "r"), text.replace("n2", "n3")).unwrap();
        assert!(own(dir.path(), true).run("r").is_none() && here.run("r").is_none(), "with another nonce");
    }

    #[test]
    fn a_file_counts_with_the_seal_of_its_folder_name_and_kind() {
        let dir = tempfile::tempdir().unwrap();
        let here = own(dir.path(), true);
        let sealed = here.seal("list", "a", b"one\ntwo");
        assert_eq!(here.unseal("list", "a", &sealed).unwrap(), b"one\ntwo");
        assert!(here.unseal("list", "b", &sealed).is_none() && here.unseal("other", "a", &sealed).is_none());
        assert!(here.unseal("list", "a", b"one\ntwo").is_none());
        let changed = String::from_utf8(sealed.clone()).unwrap().replace("two", "six").into_bytes();
        assert!(here.unseal("list", "a", &changed).is_none());
        // In a folder that a person has named, all counts, and a seal is no part of the content.
        let named = Own::named(dir.path());
        assert_eq!(named.unseal("list", "a", &sealed).unwrap(), b"one\ntwo");
        assert_eq!(named.unseal("list", "a", b"one\ntwo").unwrap(), b"one\ntwo");
        assert_eq!(named.seal("list", "a", b"x"), b"x");
    }
}
