//! The files of a zip archive, or why it is refused.

use std::collections::BTreeMap;
use std::io::{Cursor, Read};

use raymond_core::workflow::wording::{quoted, quoted_list};
use zip::ZipArchive;
use zip::read::{ZipFile, ZipReadOptions};
use zip::result::ZipError;

use crate::workflow::scope::{MAX_BYTES, MAX_FILES, name_problem};

/// What every entry of an archive's directory begins with.
const ENTRY_MARK: &[u8] = b"PK\x01\x02";
/// Files in an archive may contain such marks themselves, so only far more marks than entries are allowed are proof.
const MOST_MARKS: usize = 10 * MAX_FILES;
/// The bits of a Unix mode that tell files, folders and links apart.
const FILE_TYPE: u32 = 0o170_000;
const PLAIN_FILE: u32 = 0o100_000;
const FOLDER: u32 = 0o040_000;
/// The Unix mode is the upper half of an entry's attributes.
const MODE_SHIFT: u32 = 16;

/// Unpacks an archive that is flat or has one folder at its top; that folder's name is left out.
pub fn unpack(bytes: &[u8]) -> Result<BTreeMap<String, Vec<u8>>, String> {
    // Reading the directory takes memory for each entry, so too many are refused before that.
    if memchr::memmem::find_iter(bytes, ENTRY_MARK).nth(MOST_MARKS).is_some() {
        return Err(too_many());
    }
    let mut archive = ZipArchive::new(Cursor::new(bytes)).map_err(not_an_archive)?;
    if archive.len() > MAX_FILES {
        return Err(too_many());
    }
    if archive.has_duplicate_names() {
        return Err("two of its entries have the same name".to_owned());
    }
    let names = entry_names(&mut archive)?;
    let folder = common_folder(names.iter().map(String::as_str))?.map(str::to_owned);
    let mut files = BTreeMap::new();
    let mut left = MAX_BYTES;
    let mut scratch = Vec::new();
    for (index, name) in names.iter().enumerate() {
        if name.ends_with('/') {
            continue;
        }
        let content = read_entry(&mut archive, index, name, left, &mut scratch)?;
        left -= content.len() as u64;
        let name = folder.as_deref().and_then(|folder| name.strip_prefix(folder)).unwrap_or(name);
        // Two names in different encodings may be the same once they are decoded.
        if files.insert(name.trim_start_matches('/').to_owned(), content).is_some() {
            return Err(format!("two of its entries are called {}", quoted(name)));
        }
    }
    Ok(files)
}

fn too_many() -> String {
    format!("it has more than {MAX_FILES} entries")
}

fn not_an_archive(error: ZipError) -> String {
    match error {
        ZipError::Io(error) => format!("it is damaged or cut short ({error})"),
        ZipError::UnsupportedArchive(what) => format!("it cannot be unpacked ({what})"),
        _ => "it is not a zip archive, or it is damaged or cut short".to_owned(),
    }
}

/// Every entry's name, in order, after checking that all can be used.
fn entry_names(archive: &mut ZipArchive<Cursor<&[u8]>>) -> Result<Vec<String>, String> {
    let mut names = Vec::with_capacity(archive.len());
    for index in 0..archive.len() {
        let entry = archive.by_index_raw(index).map_err(not_an_archive)?;
        let name = entry.name().map_err(not_an_archive)?.into_owned();
        check_name(&name)?;
        check_kind(&entry, &name)?;
        names.push(name);
    }
    Ok(names)
}

fn check_name(name: &str) -> Result<(), String> {
    let has_drive = matches!(name.as_bytes(), [letter, b':', ..] if letter.is_ascii_alphabetic());
    if name.starts_with('/') || has_drive {
        return Err(format!("the entry {} has an absolute name", quoted(name)));
    }
    let parts = name.strip_suffix('/').unwrap_or(name).split('/');
    match parts.into_iter().find_map(name_problem) {
        Some(problem) => Err(format!("the entry {} has {problem}", quoted(name))),
        None => Ok(()),
    }
}

fn check_kind<R: Read>(entry: &ZipFile<'_, R>, name: &str) -> Result<(), String> {
    if entry.encrypted() {
        return Err(format!("the entry {} is encrypted", quoted(name)));
    }
    match (entry.external_attributes() >> MODE_SHIFT) & FILE_TYPE {
        0 | PLAIN_FILE => Ok(()),
        FOLDER if name.ends_with('/') => Ok(()),
        _ => Err(format!("the entry {} is a link or a device, not a file", quoted(name))),
    }
}

/// The one folder that everything is in, or `None` if the archive is flat.
fn common_folder<'n>(names: impl Iterator<Item = &'n str> + Clone) -> Result<Option<&'n str>, String> {
    let mut folders: Vec<&str> = names.clone().filter_map(|name| Some(name.split_once('/')?.0)).collect();
    folders.sort_unstable();
    folders.dedup();
    let beside = names.clone().find(|name| !name.contains('/'));
    let folder = match (folders.as_slice(), beside) {
        ([], _) => return Ok(None),
        ([folder], None) => *folder,
        ([folder, ..], Some(file)) => {
            return Err(format!("the file {} lies beside the folder {}", quoted(file), quoted(folder)));
        }
        (several, None) => {
            const SHOWN: usize = 3;
            let shown = several.get(..SHOWN).unwrap_or(several);
            return Err(format!("it has several folders at its top, such as {}", quoted_list(shown, "and")));
        }
    };
    match names.clone().find(|name| name.split_once('/').is_some_and(|(_, rest)| rest.contains('/'))) {
        Some(nested) => Err(format!("the entry {} is nested too deep", quoted(nested))),
        None => Ok(Some(folder)),
    }
}

/// Unpacks one entry. The limit counts the bytes that really come out, not the size that its header claims.
fn read_entry(
    archive: &mut ZipArchive<Cursor<&[u8]>>,
    index: usize,
    name: &str,
    left: u64,
    scratch: &mut Vec<u8>,
) -> Result<Vec<u8>, String> {
    let damaged = |error: &dyn std::fmt::Display| format!("the entry {} is damaged ({error})", quoted(name));
    let entry = archive.by_index_with_options(index, ZipReadOptions::new()).map_err(|error| match error {
        ZipError::UnsupportedArchive(what) => {
            format!("the entry {} cannot be unpacked ({what})", quoted(name))
        }
        other => damaged(&other),
    })?;
    // `read_to_end` may reserve far more memory than a file needs, so one buffer serves all entries.
    scratch.clear();
    let result = entry.take(left + 1).read_to_end(scratch);
    if scratch.len() as u64 > left {
        return Err(format!("it holds more than {} MiB unpacked", MAX_BYTES / (1024 * 1024)));
    }
    result.map_err(|error| damaged(&error))?;
    Ok(scratch.as_slice().to_vec())
}
