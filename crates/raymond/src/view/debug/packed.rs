//! The debug files of an attempt on their way from the machine that ran it to the one that shows it.
//!
//! They travel as an archive in which each kind of file has one name. What the files are called on a machine follows
//! from the journal there, so nothing in an archive decides where anything is written.

use std::fs;
use std::io::{self, Cursor, Read, Write};
use std::path::{Path, PathBuf};

use zip::write::SimpleFileOptions;
use zip::{ZipArchive, ZipWriter};

use super::file::{self, cut_note};
use super::name::Suffix;
use crate::files::open_plain;
use crate::process::secrets::Secrets;

/// The most bytes that the files of an attempt have together when they travel. Of more, the longest are cut.
pub const MOST_PACKED_BYTES: u64 = 16 * 1024 * 1024;

/// What a whole archive may be longer than that: the notes in files that were cut, and the archive's own lists.
pub const MOST_ARCHIVE_BYTES: u64 = MOST_PACKED_BYTES + 64 * 1024;

/// What is read of a file beyond the part that travels, and then left out, so that no part of a secret is left where the
/// file is cut. No environment holds a longer value on Linux.
const LONGEST_SECRET_BYTES: u64 = 128 * 1024;

/// The files that travel. Why a step failed is written where its journal is.
const TRAVELLING: [Suffix; 5] =
    [Suffix::Prompt, Suffix::Stream, Suffix::Stdout, Suffix::Stderr, Suffix::Meta];

/// The files that an attempt has left on the machine that ran it.
#[derive(Debug)]
pub struct LeftFiles {
    files: Vec<(Suffix, PathBuf)>,
    /// Values that must not leave the machine.
    secrets: Secrets,
    /// Folders of the machine below which the paths of the run lie. They are taken off in prompts and meta files.
    roots: Vec<PathBuf>,
}

impl LeftFiles {
    /// The files of an attempt, if there are any. `stem` is what their names begin with.
    pub(super) fn find(folder: &Path, stem: &str, round: u32) -> Option<Self> {
        let path = |suffix| (suffix, file::path(folder, stem, round, suffix));
        let files: Vec<_> = TRAVELLING.map(path).into_iter().filter(|(_, path)| path.is_file()).collect();
        (!files.is_empty()).then(|| Self { files, secrets: Secrets::default(), roots: Vec::new() })
    }

    /// Leaves out these values and these folders.
    pub fn without(self, secrets: Secrets, roots: Vec<PathBuf>) -> Self {
        Self { secrets, roots, ..self }
    }

    /// All of them, packed. This takes time for long files.
    pub fn pack(&self) -> io::Result<Vec<u8>> {
        let lengths: Vec<u64> =
            self.files.iter().map(|(_, path)| Ok(fs::metadata(path)?.len())).collect::<io::Result<_>>()?;
        let mut archive = ZipWriter::new(Cursor::new(Vec::new()));
        for ((suffix, path), room) in self.files.iter().zip(shares(&lengths, MOST_PACKED_BYTES)) {
            archive.start_file(name_of(*suffix), SimpleFileOptions::default())?;
            archive.write_all(&self.text_of(*suffix, path, room)?)?;
        }
        Ok(archive.finish()?.into_inner())
    }

    pub fn remove(&self) {
        // What cannot be removed does no harm.
        self.files.iter().for_each(|(_, path)| drop(fs::remove_file(path)));
    }

    /// A file as it travels, with no more than `room` bytes and perhaps a note.
    fn text_of(&self, suffix: Suffix, path: &Path, room: u64) -> io::Result<Vec<u8>> {
        let mut bytes = Vec::new();
        open_plain(path)?.take(room + LONGEST_SECRET_BYTES).read_to_end(&mut bytes)?;
        let length = bytes.len() as u64;
        // The end of what was read may be the beginning of a secret, unless it is the end of the file.
        let unsure = if length < room + LONGEST_SECRET_BYTES { 0 } else { LONGEST_SECRET_BYTES as usize };
        let mut text =
            String::from_utf8(bytes).unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into());
        text = match suffix {
            Suffix::Stream => self.secrets.hide_in_lines(text),
            Suffix::Meta => self.secrets.hide_in_document(&text),
            Suffix::Prompt | Suffix::Stdout | Suffix::Stderr | Suffix::Error => self.secrets.hide(text),
        };
        if matches!(suffix, Suffix::Prompt | Suffix::Meta) {
            text = self.without_roots(text);
        }
        if length > room {
            let mut end = text.len().saturating_sub(unsure).min(room as usize);
            while !text.is_char_boundary(end) {
                end -= 1;
            }
            text.truncate(end);
            text.push_str(cut_note(suffix));
        }
        Ok(text.into_bytes())
    }

    fn without_roots(&self, mut text: String) -> String {
        for root in self.roots.iter().filter_map(|root| root.to_str()) {
            text = text.replace(&format!("{root}/"), "/");
        }
        text
    }
}

/// How much of each file is kept, so that all together are no more than `most`. The longest are cut, to the same length.
fn shares(lengths: &[u64], most: u64) -> Vec<u64> {
    let mut shares = vec![0; lengths.len()];
    let mut by_length: Vec<usize> = (0..lengths.len()).collect();
    by_length.sort_by_key(|at| lengths[*at]);
    let mut room = most;
    for (place, at) in by_length.iter().enumerate() {
        let others = (lengths.len() - place) as u64;
        shares[*at] = lengths[*at].min(room / others);
        room -= shares[*at];
    }
    shares
}

/// The name of a file in the archive.
fn name_of(suffix: Suffix) -> &'static str {
    suffix.as_str().trim_start_matches('.')
}

/// The files of an attempt that ran on another machine.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct BroughtFiles(Vec<(Suffix, Vec<u8>)>);

impl BroughtFiles {
    /// Reads an archive. It comes from another machine, so one that holds anything unexpected is refused as a whole.
    pub fn unpack(archive: &[u8]) -> Result<Self, String> {
        let unreadable = |error: &dyn std::fmt::Display| format!("they cannot be unpacked: {error}");
        let mut archive = ZipArchive::new(Cursor::new(archive)).map_err(|error| unreadable(&error))?;
        let mut files: Vec<(Suffix, Vec<u8>)> = Vec::new();
        let mut room = MOST_ARCHIVE_BYTES;
        for at in 0..archive.len() {
            let file = archive.by_index(at).map_err(|error| unreadable(&error))?;
            let name = file.name().map_err(|error| unreadable(&error))?.into_owned();
            let known = TRAVELLING.into_iter().find(|suffix| name_of(*suffix) == name);
            let suffix = known.ok_or_else(|| format!("they have an unexpected name: {name:?}"))?;
            let mut bytes = Vec::new();
            file.take(room + 1).read_to_end(&mut bytes).map_err(|error| unreadable(&error))?;
            room = room
                .checked_sub(bytes.len() as u64)
                .ok_or_else(|| format!("they are more than {} MiB", MOST_PACKED_BYTES >> 20))?;
            files.push((suffix, bytes));
        }
        Ok(Self(files))
    }

    /// Writes them under the names that they have here. The meta file comes last, and says that all are here.
    pub(super) fn write(&self, folder: &Path, stem: &str) -> Result<(), super::Trouble> {
        debug_assert!(TRAVELLING.is_sorted_by_key(|suffix| *suffix == Suffix::Meta));
        for suffix in TRAVELLING {
            let Some((_, bytes)) = self.0.iter().find(|(other, _)| *other == suffix) else { continue };
            let path = file::path(folder, stem, 1, suffix);
            let unfinished = folder.join(format!(".{stem}.new"));
            crate::files::write_private(&unfinished, bytes)
                .and_then(|()| fs::rename(&unfinished, &path))
                .map_err(|error| super::cannot_write(&path, &error))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Files of the attempt `main_A_1`, with these contents.
    fn left(folder: &Path, files: &[(Suffix, &[u8])]) -> LeftFiles {
        for (suffix, bytes) in files {
            fs::write(file::path(folder, "main_A_1", 1, *suffix), bytes).unwrap();
        }
        LeftFiles::find(folder, "main_A_1", 1).unwrap()
    }

    fn text(files: &BroughtFiles, suffix: Suffix) -> &str {
        let (_, bytes) = files.0.iter().find(|(other, _)| *other == suffix).unwrap();
        str::from_utf8(bytes).unwrap()
    }

    #[test]
    fn the_files_arrive_under_the_names_of_the_attempt_and_leave_the_machine_that_ran_it() {
        let (there, here) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        fs::write(there.path().join("main_A_1.error.txt"), "written elsewhere").unwrap();
        let left = left(
            there.path(),
            &[(Suffix::Stdout, b"out \xff"), (Suffix::Stderr, b""), (Suffix::Meta, b"{}")],
        );
        let brought = BroughtFiles::unpack(&left.pack().unwrap()).unwrap();
        left.remove();
        assert_eq!(fs::read_dir(there.path()).unwrap().count(), 1);
        brought.write(here.path(), "main_A_1").unwrap();
        let mut names: Vec<_> = fs::read_dir(here.path())
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        assert_eq!(names, ["main_A_1.meta.json", "main_A_1.stderr.txt", "main_A_1.stdout.txt"]);
        assert_eq!(fs::read_to_string(here.path().join("main_A_1.stdout.txt")).unwrap(), "out \u{fffd}");
    }

    #[test]
    fn secrets_and_folders_of_the_machine_stay_there() {
        let there = tempfile::tempdir().unwrap();
        let secrets = Secrets::of([("MY_TOKEN", "a\"secret")]);
        let said = "a\"secret in /work/main/home/me/x, /work/main_2/home";
        let json = serde_json::to_string(said).unwrap();
        let left = left(
            there.path(),
            &[
                (Suffix::Prompt, said.as_bytes()),
                (Suffix::Stderr, said.as_bytes()),
                (Suffix::Stream, json.as_bytes()),
            ],
        );
        let left = left.without(secrets, vec![PathBuf::from("/work/main")]);
        let brought = BroughtFiles::unpack(&left.pack().unwrap()).unwrap();
        assert_eq!(text(&brought, Suffix::Prompt), "*** in /home/me/x, /work/main_2/home");
        // What a program has said is not changed otherwise.
        assert_eq!(text(&brought, Suffix::Stderr), "*** in /work/main/home/me/x, /work/main_2/home");
        assert_eq!(text(&brought, Suffix::Stream), "\"*** in /work/main/home/me/x, /work/main_2/home\"");
    }

    #[test]
    fn the_longest_files_are_cut_and_say_so() {
        assert_eq!(shares(&[50, 3, 100], 63), [30, 3, 30]);
        assert_eq!(shares(&[50, 3, 100], 200), [50, 3, 100]);
        assert!(shares(&[], 63).is_empty());
        let there = tempfile::tempdir().unwrap();
        let secret = "s3cret".repeat(100);
        let secrets = Secrets::of([("MY_KEY", &secret)]);
        let x = |number: usize| "x".repeat(number);
        let note = "\n[raymond: the rest was not kept]\n";
        let cases = [
            (
                "a secret where the file is cut",
                format!("{}{secret} and more", x(990)),
                format!("{}*** and mo", x(990)),
            ),
            ("a secret behind that", format!("{}{secret}", x(2000)), x(1000)),
            // Replaced, all of it would fit; but the last one was not read to its end.
            ("nothing but secrets", secret.repeat(300), String::new()),
        ];
        for (case, text, kept) in cases {
            let left =
                left(there.path(), &[(Suffix::Stdout, text.as_bytes())]).without(secrets.clone(), Vec::new());
            let cut = left.text_of(Suffix::Stdout, &left.files[0].1, 1000).unwrap();
            assert_eq!(String::from_utf8(cut).unwrap(), format!("{kept}{note}"), "{case}");
        }
    }

    #[test]
    fn an_archive_with_anything_unexpected_is_refused() {
        let archive = |names: &[&str], length: usize| {
            let mut archive = ZipWriter::new(Cursor::new(Vec::new()));
            for name in names {
                archive.start_file(*name, SimpleFileOptions::default()).unwrap();
                archive.write_all(&vec![0; length]).unwrap();
            }
            archive.finish().unwrap().into_inner()
        };
        assert!(BroughtFiles::unpack(&archive(&["stdout.txt", "stderr.txt", "meta.json"], 1)).is_ok());
        let half = MOST_ARCHIVE_BYTES as usize / 2 + 1;
        let cases = [
            (archive(&["../stdout.txt"], 1), "they have an unexpected name: \"../stdout.txt\""),
            (archive(&["/etc/stdout.txt"], 1), "they have an unexpected name: \"/etc/stdout.txt\""),
            (archive(&["a/stdout.txt"], 1), "they have an unexpected name: \"a/stdout.txt\""),
            (archive(&["error.txt"], 1), "they have an unexpected name: \"error.txt\""),
            (archive(&["transitions.log"], 1), "they have an unexpected name: \"transitions.log\""),
            (archive(&[""], 1), "they have an unexpected name: \"\""),
            (archive(&["stdout.txt", "stderr.txt"], half), "they are more than 16 MiB"),
            (archive(&["jsonl"], 2 * half), "they are more than 16 MiB"),
            (b"no archive".to_vec(), "they cannot be unpacked: "),
        ];
        for (bytes, refusal) in cases {
            let error = BroughtFiles::unpack(&bytes).unwrap_err();
            assert!(error.starts_with(refusal), "{error}, not {refusal}");
        }
    }
}
