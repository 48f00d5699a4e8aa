//! A conversation that has several files, as one archive. It may hold as much as that of a workflow.

use std::collections::BTreeMap;
use std::fs;
use std::io::{self, Cursor, Write};
use std::path::{Path, PathBuf};

use zip::ZipWriter;
use zip::result::ZipError;
use zip::write::SimpleFileOptions;

use super::{aside, put};
use crate::files;
use crate::workflow::scope::{MAX_BYTES, MAX_FILES, check_name, unpack_all};

/// How deep the folders in a conversation's folder may be.
const MOST_FOLDERS: usize = 16;

type Files = BTreeMap<String, Vec<u8>>;

/// All plain files in a folder and below it, but those with the names in `without`.
pub(super) fn pack(folder: &Path, without: &[&str]) -> io::Result<Vec<u8>> {
    let mut found = Files::new();
    let mut left = MAX_BYTES;
    add(&mut found, &mut left, folder, "", without)?;
    zipped(&found).map_err(io::Error::other)
}

/// These files of a folder.
pub(super) fn pack_some(folder: &Path, some: &[PathBuf]) -> io::Result<Vec<u8>> {
    let mut found = Files::new();
    let mut left = MAX_BYTES;
    for file in some {
        let inside = file.strip_prefix(folder).map_err(io::Error::other)?;
        let names: Option<Vec<&str>> = inside.iter().map(|name| name.to_str()).collect();
        let name = names.ok_or_else(|| io::Error::other("the name of a file is not text"))?.join("/");
        let bytes = files::read(file, left)?;
        left = left.saturating_sub(bytes.len() as u64);
        found.insert(name, bytes);
    }
    zipped(&found).map_err(io::Error::other)
}

fn add(found: &mut Files, left: &mut u64, folder: &Path, above: &str, without: &[&str]) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        // A name that is not text is none that the program has chosen.
        let Ok(name) = entry.file_name().into_string() else { continue };
        if without.contains(&name.as_str()) {
            continue;
        }
        let kind = entry.file_type()?;
        let name = format!("{above}{name}");
        // The file could not be unpacked, and the program does not choose such names for its own.
        if check_name(&name).is_err() {
            continue;
        }
        if kind.is_dir() {
            if name.matches('/').count() >= MOST_FOLDERS {
                return Err(io::Error::other(format!("{name} is too deep in it")));
            }
            add(found, left, &entry.path(), &format!("{name}/"), without)?;
        } else if kind.is_file() {
            let bytes = files::read(&entry.path(), *left)?;
            *left = left.saturating_sub(bytes.len() as u64);
            found.insert(name, bytes);
        }
        if found.len() > MAX_FILES {
            return Err(io::Error::other(format!("it has more than {MAX_FILES} files")));
        }
    }
    Ok(())
}

fn zipped(files: &Files) -> Result<Vec<u8>, ZipError> {
    let mut writer = ZipWriter::new(Cursor::new(Vec::new()));
    for (name, bytes) in files {
        writer.start_file(name.as_str(), SimpleFileOptions::default().unix_permissions(0o600))?;
        writer.write_all(bytes)?;
    }
    Ok(writer.finish()?.into_inner())
}

/// Unpacks an archive to a folder with other files. Conversations only grow, so a file that is there and as long is kept.
pub(super) fn unpack_beside(folder: &Path, bytes: &[u8]) -> io::Result<()> {
    for (name, bytes) in unpacked(bytes)? {
        let file = folder.join(name);
        let is_there = fs::metadata(&file).is_ok_and(|about| about.len() >= bytes.len() as u64);
        if !is_there {
            put(&file, &bytes)?;
        }
    }
    Ok(())
}

fn unpacked(bytes: &[u8]) -> io::Result<Files> {
    unpack_all(bytes).map_err(|why| io::Error::new(io::ErrorKind::InvalidData, why))
}

/// Unpacks an archive to this folder, which takes the place of an older one once it is whole.
pub(super) fn unpack(folder: &Path, bytes: &[u8]) -> io::Result<()> {
    let found = unpacked(bytes)?;
    let aside = aside(folder);
    remove(&aside)?;
    let placed =
        write_all(&aside, &found).and_then(|()| remove(folder)).and_then(|()| fs::rename(&aside, folder));
    if placed.is_err() {
        let _ = remove(&aside);
    }
    placed
}

fn write_all(folder: &Path, found: &Files) -> io::Result<()> {
    files::create_private_folders(folder)?;
    for (name, bytes) in found {
        let file = folder.join(name);
        files::create_private_folders(file.parent().unwrap_or(folder))?;
        files::write_private(&file, bytes)?;
    }
    Ok(())
}

fn remove(folder: &Path) -> io::Result<()> {
    match fs::remove_dir_all(folder) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_takes_the_place_of_an_older_one() {
        let root = tempfile::tempdir().unwrap();
        let (from, to) = (root.path().join("from"), root.path().join("to"));
        fs::create_dir_all(from.join("notes")).unwrap();
        fs::create_dir_all(&to).unwrap();
        for (name, text) in [
            ("events", "new"),
            ("notes/START.md", "a note"),
            ("notes/own", ""),
            ("own", ""),
            ("C:\\strange", ""),
        ] {
            fs::write(from.join(name), text).unwrap();
        }
        fs::write(to.join("events"), "old").unwrap();
        fs::write(to.join("old"), "").unwrap();
        unpack(&to, &pack(&from, &["own"]).unwrap()).unwrap();
        assert_eq!(fs::read_to_string(to.join("events")).unwrap(), "new");
        assert_eq!(fs::read_to_string(to.join("notes/START.md")).unwrap(), "a note");
        assert!(!to.join("own").exists() && !to.join("notes/own").exists() && !to.join("old").exists());
        assert_eq!(fs::read_dir(&to).unwrap().count(), 2);
        assert_eq!(fs::read_dir(root.path()).unwrap().count(), 2, "nothing else is left");
    }

    #[test]
    fn files_are_put_beside_others_that_stay() {
        let root = tempfile::tempdir().unwrap();
        let (from, to) = (root.path().join("from"), root.path().join("to"));
        let names = ["a/short", "a/long", "new"];
        for (folder, texts) in [(&from, ["22", "22", "22"]), (&to, ["1", "333", ""])] {
            fs::create_dir_all(folder.join("a")).unwrap();
            for (name, text) in names.iter().zip(texts).filter(|(_, text)| !text.is_empty()) {
                fs::write(folder.join(name), text).unwrap();
            }
        }
        fs::write(to.join("other"), "").unwrap();
        unpack_beside(&to, &pack_some(&from, &names.map(|name| from.join(name))).unwrap()).unwrap();
        assert_eq!(names.map(|name| fs::read_to_string(to.join(name)).unwrap()), ["22", "333", "22"]);
        assert!(to.join("other").exists());
    }

    #[test]
    fn nothing_is_unpacked_outside_the_folder() {
        let root = tempfile::tempdir().unwrap();
        let folder = root.path().join("a/conversation");
        for name in ["../out", "/out", "x/../../out", "C:/out", "..\\out"] {
            let bytes = zipped(&Files::from([(name.to_owned(), b"x".to_vec())])).unwrap();
            assert!(unpack(&folder, &bytes).is_err(), "{name}");
            assert!(unpack_beside(&folder, &bytes).is_err(), "{name}");
        }
        assert!(unpack(&folder, b"no archive").is_err());
        assert_eq!(fs::read_dir(root.path()).unwrap().count(), 0);
    }
}
