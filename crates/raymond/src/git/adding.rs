//! Brings an index to what is in the working folder, as `git add --all` does.
//!
//! That command itself is not used: it starts another git in each repository inside of the folder, to see whether it has
//! changes, and that git obeys the config there. An agent can make such a repository with a few files. Of a repository
//! inside of the folder, the index gets the commit that is checked out, and its files are not read.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};

use super::repository::Repository;
use super::{Git, GitError, MOST_BYTES, path_of};

/// How often git is asked to add the files while other processes create and remove some.
const TRIES: usize = 12;

/// Adds everything that git does not ignore, but for a folder below the top. Files that cannot be read stay in the index as
/// they are. Returns whether anything may have changed. `is_new` says that the index was not brought up to date yet.
pub fn add_all(git: &Git, top: &Path, without: Option<&str>, is_new: bool) -> Result<bool, GitError> {
    patiently(|| {
        let mut list: Vec<OsString> =
            LIST.iter().chain(&["--exclude-standard", "--", ":/"]).map(OsString::from).collect();
        list.extend(without.map(|without| format!(":(top,exclude,literal){without}").into()));
        try_to_add(git, top, &list, is_new)
    })
}

/// The same with files that git ignores. Returns whether anything may have changed.
pub fn add_everything(git: &Git, top: &Path) -> Result<bool, GitError> {
    let list: Vec<OsString> = LIST.iter().map(OsString::from).collect();
    patiently(|| try_to_add(git, top, &list, false))
}

const LIST: [&str; 6] = ["ls-files", "-z", "--others", "--modified", "--deleted", "--deduplicate"];

fn patiently(mut add: impl FnMut() -> Result<bool, GitError>) -> Result<bool, GitError> {
    let mut tried = 0;
    loop {
        tried += 1;
        match add() {
            // A file that vanishes while git reads it makes it give up, and nothing is added then.
            Err(GitError::Failed { .. }) if tried < TRIES => {}
            done => return done,
        }
    }
}

fn try_to_add(git: &Git, top: &Path, list: &[OsString], is_new: bool) -> Result<bool, GitError> {
    let Sorted { present, gone, nested } = sorted(top, changed(git, list)?);
    if present.is_empty() && gone.is_empty() && nested.is_empty() && !is_new {
        return Ok(false);
    }
    if !gone.is_empty() {
        git.bytes(&["update-index", "--force-remove", "-z", "--stdin"], &listed(&gone))?;
    }
    let update = ["update-index", "-q", "--unmerged", "--refresh", "--add", "--remove", "--replace"];
    git.bytes(&[&update[..], &["-z", "--stdin"]].concat(), &listed(&present))?;
    if !nested.is_empty() {
        git.bytes(&["update-index", "--add", "--remove", "--replace", "-z", "--stdin"], &listed(&nested))?;
    }
    Ok(true)
}

/// The names of files that are not as the index says, from the top of the worktree.
fn changed(git: &Git, list: &[OsString]) -> Result<Vec<Vec<u8>>, GitError> {
    let names = git.bytes(list, &[])?;
    if names.len() as u64 >= MOST_BYTES {
        return Err(GitError::NotStarted("more files have changed than can be listed".to_owned()));
    }
    let names = names.split(|byte| *byte == 0).filter(|name| !name.is_empty());
    Ok(names.map(<[u8]>::to_vec).collect())
}

#[derive(Default)]
struct Sorted {
    /// Files and links that can be read, and those that are missing.
    present: Vec<Vec<u8>>,
    /// What is behind a link now, and so no longer in the folder, and files in whose place there is a folder.
    gone: Vec<Vec<u8>>,
    /// Repositories that the index does not know, or knows with another commit.
    nested: Vec<Vec<u8>>,
}

fn sorted(top: &Path, names: Vec<Vec<u8>>) -> Sorted {
    let mut sorted = Sorted::default();
    let mut links = BTreeMap::new();
    for mut name in names {
        // So does git list a repository that it does not know.
        if name.last() == Some(&b'/') {
            name.pop();
        }
        let path = top.join(path_of(&name));
        let is_behind_link = path.strip_prefix(top).ok().and_then(Path::parent).is_some_and(|around| {
            let around = around.ancestors().filter(|around| !around.as_os_str().is_empty());
            around.map(|around| top.join(around)).any(|around| is_link(&mut links, around))
        });
        match kind_of(&path) {
            _ if is_behind_link => sorted.gone.push(name),
            Kind::Repository => sorted.nested.extend(has_commit(&path).then_some(name)),
            // It was a file. What is in the folder has its own names.
            Kind::Folder => sorted.gone.push(name),
            Kind::Readable => sorted.present.push(name),
            Kind::Other => {}
        }
    }
    sorted
}

fn is_link(known: &mut BTreeMap<PathBuf, bool>, folder: PathBuf) -> bool {
    if let Some(known) = known.get(&folder) {
        return *known;
    }
    let is_link = fs::symlink_metadata(&folder).is_ok_and(|data| data.is_symlink());
    known.insert(folder, is_link);
    is_link
}

enum Kind {
    /// Git can add it, or remove it because it is missing. It gives up at the first file that it cannot read.
    Readable,
    Folder,
    Repository,
    Other,
}

fn kind_of(path: &Path) -> Kind {
    match fs::symlink_metadata(path) {
        Ok(data) if data.is_file() && crate::files::open_plain(path).is_err() => Kind::Other,
        Ok(data) if data.is_file() || data.is_symlink() => Kind::Readable,
        Ok(data) if data.is_dir() && path.join(".git").exists() => Kind::Repository,
        Ok(data) if data.is_dir() => Kind::Folder,
        Ok(_) => Kind::Other,
        Err(_) => Kind::Readable,
    }
}

/// Whether something is checked out in a repository, as far as its files say. Without that, git cannot add it.
fn has_commit(folder: &Path) -> bool {
    let Ok(repository) = Repository::around(folder) else { return false };
    let read = |path: PathBuf| crate::files::read_text(&path, MOST_BYTES).unwrap_or_default();
    let head = read(repository.own.join("HEAD"));
    match head.trim().strip_prefix("ref: ") {
        Some(name) => {
            repository.common.join(name).is_file()
                || read(repository.common.join("packed-refs"))
                    .lines()
                    .any(|line| line.split_once(' ').is_some_and(|(_, known)| known == name))
        }
        None => !head.trim().is_empty(),
    }
}

pub(super) fn listed(names: &[Vec<u8>]) -> Vec<u8> {
    names.iter().flat_map(|name| name.iter().copied().chain([0])).collect()
}
