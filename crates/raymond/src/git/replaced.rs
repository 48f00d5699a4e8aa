//! What putting files back would replace or remove, although git does not list it: files that it ignores.

use std::collections::HashSet;
use std::fs;
use std::path::Path;

use super::adding::listed;
use super::{Git, GitError, path_of};

/// The mode of a commit of another repository.
const REPOSITORY: &[u8] = b"160000";

/// Adds to the index what is in the folder, is not in the index, and lies where a commit has files. `now` is the tree of the index.
/// Returns the names of what was added. What the index cannot hold is an error, which names it: it could not be kept.
pub fn add_what_is_in_the_way(
    git: &Git,
    top: &Path,
    now: &str,
    commit: &str,
) -> Result<Vec<Vec<u8>>, GitError> {
    let mut found = Vec::new();
    for Place { name, holds_file } in new_places(git, now, commit)? {
        collect(top, &name, holds_file, &mut found)?;
    }
    if found.is_empty() {
        return Ok(found);
    }
    let known = git.bytes(&["ls-files", "-z", "--cached"], &[])?;
    let known: HashSet<&[u8]> = known.split(|byte| *byte == 0).collect();
    found.retain(|name| !known.contains(name.as_slice()));
    found.sort();
    found.dedup();
    git.bytes(&["update-index", "--add", "-z", "--stdin"], &listed(&found))?;
    Ok(found)
}

/// Where a commit has something that a tree does not have.
struct Place {
    name: Vec<u8>,
    /// Whether that is a file or a link. A commit of another repository needs only a folder.
    holds_file: bool,
}

fn new_places(git: &Git, now: &str, commit: &str) -> Result<Vec<Place>, GitError> {
    let compare = ["diff-tree", "-r", "-z", "--raw", "--no-renames", "--diff-filter=AT", now, commit, "--"];
    let raw = git.bytes(&compare, &[])?;
    let mut fields = raw.split(|byte| *byte == 0);
    let mut places = Vec::new();
    while let (Some(about), Some(name)) = (fields.next(), fields.next()) {
        let mut modes = about.strip_prefix(b":").unwrap_or(about).split(|byte| *byte == b' ');
        let (old, new) = (modes.next().unwrap_or_default(), modes.next().unwrap_or_default());
        // A file that becomes a link, or the other way round, is in the tree as it is now.
        if old == b"000000" || old == REPOSITORY {
            places.push(Place { name: name.to_vec(), holds_file: new != REPOSITORY });
        }
    }
    Ok(places)
}

/// Finds what lies at a place: a file there, a file in the place of one of the folders around it, or all files of a folder there.
fn collect(top: &Path, name: &[u8], holds_file: bool, found: &mut Vec<Vec<u8>>) -> Result<(), GitError> {
    let ends = name.iter().enumerate().filter(|(_, byte)| **byte == b'/').map(|(end, _)| end);
    for end in ends.chain([name.len()]) {
        let part = &name[..end];
        let Ok(data) = fs::symlink_metadata(top.join(path_of(part))) else { return Ok(()) };
        if !data.is_dir() {
            return note(top, part, &data, found);
        }
    }
    if holds_file { collect_all(top, name, found) } else { Ok(()) }
}

fn collect_all(top: &Path, folder: &[u8], found: &mut Vec<Vec<u8>>) -> Result<(), GitError> {
    let path = top.join(path_of(folder));
    let cannot = |error: std::io::Error| GitError::NotStarted(format!("{}: {error}", path.display()));
    for entry in fs::read_dir(&path).map_err(cannot)? {
        let entry = entry.map_err(cannot)?;
        if entry.file_name() == ".git" {
            let error = format!("{} is a repository of its own; move it away", path.display());
            return Err(GitError::NotStarted(error));
        }
        let name = [folder, b"/", entry.file_name().as_encoded_bytes()].concat();
        let data = fs::symlink_metadata(entry.path()).map_err(cannot)?;
        match data.is_dir() {
            true => collect_all(top, &name, found)?,
            false => note(top, &name, &data, found)?,
        }
    }
    Ok(())
}

fn note(top: &Path, name: &[u8], data: &fs::Metadata, found: &mut Vec<Vec<u8>>) -> Result<(), GitError> {
    if data.is_file() || data.is_symlink() {
        found.push(name.to_vec());
        return Ok(());
    }
    let path = top.join(path_of(name));
    Err(GitError::NotStarted(format!("{} is neither a file nor a folder; move it away", path.display())))
}
