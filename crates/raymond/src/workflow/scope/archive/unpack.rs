//! The files of a zip archive, or why it is refused.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{Cursor, Read};

use raymond_core::workflow::wording::{quoted, quoted_list};
use raymond_core::workflow::{Listing, StateFile};
use zip::ZipArchive;
use zip::read::{ZipFile, ZipReadOptions};
use zip::result::ZipError;

use crate::workflow::scope::{MAX_BYTES, MAX_FILES, file_and_folder, path_problem};

/// What every entry of an archive's directory begins with.
const ENTRY_MARK: &[u8] = b"PK\x01\x02";
/// How long an entry is without its name, its extra fields and its comment.
const ENTRY_BYTES: usize = 46;
/// Files in an archive may contain such marks themselves, so only far more marks than entries are allowed are proof.
const MOST_MARKS: usize = 10 * MAX_FILES;
/// The bits of a Unix mode that tell files, folders and links apart.
const FILE_TYPE: u32 = 0o170_000;
const PLAIN_FILE: u32 = 0o100_000;
const FOLDER: u32 = 0o040_000;
/// The Unix mode is the upper half of an entry's attributes.
const MODE_SHIFT: u32 = 16;

/// Unpacks an archive that holds a workflow at its top or in one folder; that folder's name is left out.
pub fn unpack(bytes: &[u8]) -> Result<BTreeMap<String, Vec<u8>>, String> {
    unpack_below(bytes, |names| Ok(common_folder(names.iter().map(String::as_str))?.map(str::to_owned)))
}

/// Unpacks an archive of any files. Their names are as they are there, and none leads out of a folder.
pub fn unpack_all(bytes: &[u8]) -> Result<BTreeMap<String, Vec<u8>>, String> {
    unpack_below(bytes, |_| Ok(None))
}

/// Unpacks an archive; `top` chooses the folder whose name is left out.
fn unpack_below(
    bytes: &[u8],
    top: impl FnOnce(&[String]) -> Result<Option<String>, String>,
) -> Result<BTreeMap<String, Vec<u8>>, String> {
    // Reading the directory takes memory for each entry, so too many are refused before that.
    if memchr::memmem::find_iter(bytes, ENTRY_MARK).nth(MOST_MARKS).is_some() {
        return Err(too_many());
    }
    let mut archive = ZipArchive::new(Cursor::new(bytes)).map_err(not_an_archive)?;
    if archive.len() > MAX_FILES {
        return Err(too_many());
    }
    if archive.has_duplicate_names() {
        let name = repeated_name(bytes, archive.central_directory_start());
        return Err(match name {
            Some(name) => format!("two of its entries are called {}", quoted(&name)),
            None => "two of its entries have the same name".to_owned(),
        });
    }
    let names = entry_names(&mut archive)?;
    let folder = top(&names)?;
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
    if let Some(both) = file_and_folder(files.keys().map(String::as_str)) {
        return Err(format!("the entry {} is a file and a folder at once", quoted(both)));
    }
    Ok(files)
}

/// The first name that the archive's directory lists twice. The parsed directory has each name only once.
fn repeated_name(bytes: &[u8], directory: u64) -> Option<String> {
    let mut rest = bytes.get(usize::try_from(directory).ok()?..)?;
    let mut seen = BTreeSet::new();
    while rest.starts_with(ENTRY_MARK) {
        let length = |at: usize| Some(usize::from(u16::from_le_bytes([*rest.get(at)?, *rest.get(at + 1)?])));
        let (name, extra, comment) = (length(28)?, length(30)?, length(32)?);
        let name = rest.get(ENTRY_BYTES..ENTRY_BYTES + name)?;
        if !seen.insert(name) {
            return Some(String::from_utf8_lossy(name).into_owned());
        }
        rest = rest.get(ENTRY_BYTES + name.len() + extra + comment..)?;
    }
    None
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

/// Whether a name leads to a place in the archive's folder, on every platform.
pub fn check_name(name: &str) -> Result<(), String> {
    let has_drive = matches!(name.as_bytes(), [letter, b':', ..] if letter.is_ascii_alphabetic());
    if name.starts_with('/') || has_drive {
        return Err(format!("the entry {} has an absolute name", quoted(name)));
    }
    match path_problem(name.strip_suffix('/').unwrap_or(name)) {
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

/// The folder that the workflow is in, or `None` if that is the top of the archive. The start state says which: folders
/// below it hold data.
fn common_folder<'n>(names: impl Iterator<Item = &'n str> + Clone) -> Result<Option<&'n str>, String> {
    let mut folders: Vec<&str> = names.clone().filter_map(|name| Some(name.split_once('/')?.0)).collect();
    folders.sort_unstable();
    folders.dedup();
    let starts = || names.clone().filter(|name| is_start(name));
    let at_top = names.clone().find(|name| !name.contains('/'));
    let has_start_at_top = starts().any(|name| !name.contains('/'));
    match (folders.as_slice(), at_top) {
        (_, Some(_)) if has_start_at_top || starts().next().is_none() => Ok(None),
        ([], _) => Ok(None),
        ([folder, ..], Some(file)) => {
            let hint = "the start state must be at the top or in the only folder";
            Err(format!("the file {} lies beside the folder {}; {hint}", quoted(file), quoted(folder)))
        }
        ([folder], None) => match starts().min_by_key(|name| name.matches('/').count()) {
            Some(deep) if deep.matches('/').count() > 1 => {
                Err(format!("its start state {} is more than one folder deep", quoted(deep)))
            }
            _ => Ok(Some(*folder)),
        },
        (several, None) => {
            const SHOWN: usize = 3;
            let shown = several.get(..SHOWN).unwrap_or(several);
            let shown = quoted_list(shown, "and");
            Err(format!("it has several folders at its top, such as {shown}, and no start state beside them"))
        }
    }
}

/// Whether an entry is called like a state that a run can begin with, on any platform.
fn is_start(entry: &str) -> bool {
    let name = entry.rsplit('/').next().unwrap_or(entry);
    StateFile::new(name).is_some_and(|state| Listing::is_entry_name(state.name()))
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
