use std::fs;
use std::io::{Cursor, Write};

use proptest::prelude::*;
use zip::unstable::write::FileOptionsExt;
use zip::write::SimpleFileOptions;
use zip::{CompressionMethod, ZipWriter};

use super::*;
use crate::workflow::scope::MAX_FILES;

const STATE: &[u8] = b"echo '<result>ok</result>'";

fn zip_of(names: &[&str]) -> Vec<u8> {
    zip_with(|writer| {
        for name in names {
            add(writer, name, STATE);
        }
    })
}

fn zip_with(fill: impl FnOnce(&mut ZipWriter<Cursor<Vec<u8>>>)) -> Vec<u8> {
    let mut writer = ZipWriter::new(Cursor::new(Vec::new()));
    fill(&mut writer);
    writer.finish().unwrap().into_inner()
}

fn add(writer: &mut ZipWriter<Cursor<Vec<u8>>>, name: &str, content: &[u8]) {
    if let Some(folder) = name.strip_suffix('/') {
        return writer.add_directory(folder, SimpleFileOptions::default()).unwrap();
    }
    writer.start_file(name, SimpleFileOptions::default()).unwrap();
    writer.write_all(content).unwrap();
}

/// An archive with names that the zip library refuses to write. They replace names of the same length afterwards.
fn renamed(names: &[(&str, &str)]) -> Vec<u8> {
    let mut bytes = zip_of(&names.iter().map(|(before, _)| *before).collect::<Vec<_>>());
    for (before, after) in names {
        assert_eq!(before.len(), after.len());
        replace(&mut bytes, before.as_bytes(), after.as_bytes());
    }
    bytes
}

fn replace(bytes: &mut [u8], before: &[u8], after: &[u8]) {
    let places: Vec<usize> = memchr::memmem::find_iter(bytes, before).collect();
    assert!(!places.is_empty());
    for place in places {
        bytes[place..place + after.len()].copy_from_slice(after);
    }
}

fn link() -> Vec<u8> {
    zip_with(|writer| {
        add(writer, "START.sh", STATE);
        writer.add_symlink("LINK.sh", "/etc/passwd", SimpleFileOptions::default()).unwrap();
    })
}

fn encrypted() -> Vec<u8> {
    zip_with(|writer| {
        let options = SimpleFileOptions::default().with_deprecated_encryption(b"secret").unwrap();
        writer.start_file("START.sh", options).unwrap();
        writer.write_all(STATE).unwrap();
    })
}

/// A little more than may be unpacked, in a few kilobytes.
fn bomb() -> Vec<u8> {
    zip_with(|writer| {
        add(writer, "START.sh", STATE);
        for part in 0..5 {
            add(writer, &format!("part{part}"), &vec![0; usize::try_from(MAX_BYTES).unwrap() / 4]);
        }
    })
}

/// A bomb whose headers claim that it is small.
fn lying_bomb() -> Vec<u8> {
    let size = u32::try_from(MAX_BYTES + 1).unwrap();
    let mut bytes = zip_with(|writer| {
        add(writer, "START.sh", STATE);
        add(writer, "big", &vec![0; size as usize]);
    });
    replace(&mut bytes, &size.to_le_bytes(), &10_u32.to_le_bytes());
    bytes
}

fn damaged() -> Vec<u8> {
    let mut bytes = zip_with(|writer| {
        let stored = SimpleFileOptions::default().compression_method(CompressionMethod::Stored);
        writer.start_file("START.sh", stored).unwrap();
        writer.write_all(STATE).unwrap();
    });
    replace(&mut bytes, b"result", b"RESULT");
    bytes
}

fn too_many() -> Vec<u8> {
    zip_with(|writer| (0..=MAX_FILES).for_each(|number| add(writer, &number.to_string(), b"")))
}

fn refusal(bytes: &[u8]) -> String {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("wf.zip");
    fs::write(&path, bytes).unwrap();
    let error = Archive::open(&path, Platform::Unix).unwrap_err();
    let start = format!("cannot use the archive {}: ", path.display());
    error.message.strip_prefix(&start).unwrap_or_else(|| panic!("{}", error.message)).to_owned()
}

#[test]
fn flat_archives_and_those_with_one_folder_hold_the_same() {
    let flat = unpack(&zip_of(&["START.sh", "notes.txt"])).unwrap();
    assert_eq!(flat.keys().collect::<Vec<_>>(), ["START.sh", "notes.txt"]);
    assert_eq!(unpack(&zip_of(&["wf/START.sh", "wf/notes.txt"])).unwrap(), flat);
    assert_eq!(unpack(&zip_of(&["wf/", "wf/START.sh", "wf/notes.txt"])).unwrap(), flat);
    let as_many_as_may_be =
        zip_with(|writer| (0..MAX_FILES).for_each(|number| add(writer, &number.to_string(), b"")));
    assert_eq!(unpack(&as_many_as_may_be).unwrap().len(), MAX_FILES);
}

#[test]
fn folders_below_the_start_state_hold_data_and_keep_their_paths() {
    let flat = unpack(&zip_of(&["START.sh", "data/deep/x.txt", "more/START.sh", "none/"])).unwrap();
    assert_eq!(flat.keys().collect::<Vec<_>>(), ["START.sh", "data/deep/x.txt", "more/START.sh"]);
    let in_folder = zip_of(&["wf/START.sh", "wf/data/deep/x.txt", "wf/more/START.sh"]);
    assert_eq!(unpack(&in_folder).unwrap(), flat);
    let without_start = unpack(&zip_of(&["A.sh", "data/x"])).unwrap();
    assert_eq!(without_start.keys().collect::<Vec<_>>(), ["A.sh", "data/x"]);
}

#[test]
fn whatever_is_wrong_is_refused_with_its_reason() {
    let whole = zip_of(&["START.sh", "B.sh"]);
    let cases: Vec<(Vec<u8>, &str)> = vec![
        (zip_of(&["a/START.sh", "b/START.sh"]), "it has several folders at its top, such as `a` and `b`"),
        (zip_of(&["A.sh", "a/START.sh"]), "the file `A.sh` lies beside the folder `a`; the start state must"),
        (zip_of(&["a/b/START.sh", "a/C.sh"]), "its start state `a/b/START.sh` is more than one folder deep"),
        (zip_of(&["START.sh", "a", "a/b"]), "the entry `a` is a file and a folder at once"),
        (zip_of(&["notes.txt"]), "there is no state in it"),
        (zip_of(&[]), "there is no state in it"),
        (
            renamed(&[("xx/START.sh", "../START.sh")]),
            "the entry `../START.sh` has a name that leads elsewhere",
        ),
        (renamed(&[("a/xx/B.sh", "a/../B.sh")]), "the entry `a/../B.sh` has a name that leads elsewhere"),
        (renamed(&[("xSTART.sh", "/START.sh")]), "the entry `/START.sh` has an absolute name"),
        (renamed(&[("CxSTART.sh", "C:START.sh")]), "the entry `C:START.sh` has an absolute name"),
        (renamed(&[("axSTART.sh", "a\\START.sh")]), "the entry `a\\START.sh` has a `\\` in a name"),
        (renamed(&[("a/xSTART.sh", "a//START.sh")]), "the entry `a//START.sh` has an empty name"),
        (renamed(&[("STARTx.sh", "START\n.sh")]), "the entry `START\\n.sh` has control characters in a name"),
        (
            renamed(&[("START.sh", "START.sh"), ("STARX.sh", "START.sh")]),
            "two of its entries are called `START.sh`",
        ),
        (link(), "the entry `LINK.sh` is a link or a device, not a file"),
        (encrypted(), "the entry `START.sh` is encrypted"),
        (too_many(), "it has more than 10000 entries"),
        (bomb(), "it holds more than 64 MiB unpacked"),
        (damaged(), "the entry `START.sh` is damaged (Invalid checksum)"),
        (b"PK, but not really".to_vec(), "it is not a zip archive, or it is damaged or cut short"),
        (Vec::new(), "it is not a zip archive, or it is damaged or cut short"),
        (whole[..whole.len() - 10].to_vec(), "it is not a zip archive, or it is damaged or cut short"),
        (whole[..whole.len() / 2].to_vec(), "it is not a zip archive, or it is damaged or cut short"),
        (whole[10..].to_vec(), ""),
    ];
    for (bytes, reason) in cases {
        let refusal = refusal(&bytes);
        assert!(refusal.starts_with(reason), "{refusal}\n  instead of: {reason}");
    }
}

#[test]
fn a_bomb_that_claims_to_be_small_is_refused_too() {
    let refusal = refusal(&lying_bomb());
    assert!(refusal.contains("the entry `big` is damaged") || refusal.contains("64 MiB"), "{refusal}");
}

#[test]
fn marks_without_an_archive_cost_nothing() {
    let marks = ENTRY.repeat(200_000);
    assert_eq!(unpack(&marks).unwrap_err(), "it has more than 10000 entries");
}

const ENTRY: &[u8] = b"PK\x01\x02 and what follows it in a directory.....";

#[test]
fn the_manifest_and_other_files_are_read_from_the_archive() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("wf.zip");
    let archive = |manifest: &str| {
        zip_with(|writer| {
            add(writer, "wf/START.md", b"x");
            add(writer, "wf/workflow.yaml", manifest.as_bytes());
            add(writer, "wf/replies.yaml", b"START: <result>1</result>");
        })
    };
    fs::write(&path, archive("id: demo")).unwrap();
    let scope = crate::workflow::scope::Scope::open(&path, Platform::Unix).unwrap();
    assert_eq!(scope.manifest().id.as_deref(), Some("demo"));
    let replies = crate::agent::WorkflowFiles::file(&scope, "replies.yaml", false).unwrap();
    assert_eq!(replies.text.as_deref(), Some("START: <result>1</result>"));
    fs::write(&path, archive("id: []")).unwrap();
    let error = Archive::open(&path, Platform::Unix).unwrap_err().message;
    assert!(
        error.ends_with("workflow.yaml: line 1, column 5: `id` must be text, not a list, in `id: []`"),
        "{error}"
    );
}

#[test]
fn the_hash_tells_archives_apart() {
    let folder = tempfile::tempdir().unwrap();
    let hash = |bytes: &[u8]| {
        let path = folder.path().join("wf.zip");
        fs::write(&path, bytes).unwrap();
        Archive::open(&path, Platform::Unix).unwrap().hash().to_owned()
    };
    assert_eq!(hash(&zip_of(&["A.sh"])), hash(&zip_of(&["A.sh"])));
    assert_ne!(hash(&zip_of(&["A.sh"])), hash(&zip_of(&["B.sh"])));
}

proptest! {
    #[test]
    fn no_bytes_panic(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        let _ = unpack(&bytes);
    }

    /// Bytes that are nearly an archive get further than arbitrary ones.
    #[test]
    fn no_damage_panics(changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..8), cut in 0_usize..40) {
        let mut bytes = zip_of(&["wf/START.sh", "wf/B.md", "wf/notes.txt"]);
        for (place, byte) in changes {
            let place = place.index(bytes.len());
            bytes[place] = byte;
        }
        bytes.truncate(bytes.len() - cut);
        if let Ok(files) = unpack(&bytes) {
            prop_assert!(files.keys().all(|name| crate::workflow::scope::path_problem(name).is_none()));
        }
    }
}
