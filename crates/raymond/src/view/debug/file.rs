//! Debug files: bounded in size, and never overwritten.

use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use super::name::{Suffix, in_round};
use super::{Trouble, cannot_write};
use crate::files::{open_plain_as, private_options};

/// The most bytes of a step's output that a debug file holds.
pub const MOST_FILE_BYTES: u64 = 64 * 1024 * 1024;

/// How often the same attempt may be started, each time after Raymond was killed.
pub(super) const MOST_ROUNDS: u32 = 1000;

/// A file that ignores what is written beyond a bound.
#[derive(Debug)]
pub(super) struct BoundedFile {
    file: File,
    path: PathBuf,
    room: u64,
    suffix: Suffix,
    is_cut: bool,
}

impl BoundedFile {
    pub(super) fn write(&mut self, bytes: &[u8]) -> Result<(), Trouble> {
        if self.is_cut || bytes.is_empty() {
            return Ok(());
        }
        self.write_bounded(bytes).map_err(|error| cannot_write(&self.path, &error))
    }

    fn write_bounded(&mut self, bytes: &[u8]) -> io::Result<()> {
        let length = bytes.len() as u64;
        if length <= self.room {
            self.room -= length;
            return self.file.write_all(bytes);
        }
        let fitting = usize::try_from(self.room).unwrap_or(bytes.len()).min(bytes.len());
        self.is_cut = true;
        self.file.write_all(&bytes[..fitting])?;
        self.file.write_all(cut_note(self.suffix).as_bytes())
    }

    #[cfg(test)]
    pub(super) fn set_room(&mut self, room: u64) {
        self.room = room;
    }
}

/// The end of a file that was cut. In a file of JSON lines, the note must be a JSON line too.
pub(super) fn cut_note(suffix: Suffix) -> &'static str {
    match suffix {
        Suffix::Stream => "\n{\"type\":\"raymond_cut\",\"message\":\"the rest was not kept\"}\n",
        Suffix::Prompt | Suffix::Stdout | Suffix::Stderr | Suffix::Meta | Suffix::Error => {
            "\n[raymond: the rest was not kept]\n"
        }
    }
}

pub(super) fn path(folder: &Path, stem: &str, round: u32, suffix: Suffix) -> PathBuf {
    folder.join(in_round(stem, round) + suffix.as_str())
}

/// Creates a file under the first free name, starting with `round`; returns it with the round of that name.
pub(super) fn create(
    folder: &Path,
    stem: &str,
    round: u32,
    suffix: Suffix,
) -> Result<(BoundedFile, u32), Trouble> {
    let mut round = round;
    loop {
        let path = path(folder, stem, round, suffix);
        match open_plain_as(private_options().write(true).create_new(true), &path) {
            Ok(file) => {
                let file = BoundedFile { file, path, room: MOST_FILE_BYTES, suffix, is_cut: false };
                return Ok((file, round));
            }
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists && round < MOST_ROUNDS => round += 1,
            Err(error) => return Err(cannot_write(&path, &error)),
        }
    }
}
