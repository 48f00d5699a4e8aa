//! A table whose newest rows are in memory and all others in a file, so that a long run takes no more memory than a short
//! one.
//!
//! The file is a part of this process's memory on disk: it has no name, and is gone with the process. If there is no room
//! for it, all rows stay in memory.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::Path;
use std::sync::Arc;

use crate::files::{open_plain_as, private_options};

/// How many of the newest rows are at least in memory. What is written to the file at once is as long.
const RECENT_ROWS: usize = 4096;
/// How many rows are read at once.
const ROWS_AT_ONCE: usize = 1024;

/// A row that takes the same number of bytes whatever it holds.
pub trait Row: Copy {
    const BYTES: usize;

    fn write(&self, bytes: &mut Vec<u8>);

    fn read(bytes: &[u8]) -> Self;
}

pub struct Table<R> {
    /// The folder for the file.
    folder: Arc<Path>,
    file: Option<File>,
    /// How many rows are in the file.
    stored: usize,
    recent: Vec<R>,
    is_in_memory: bool,
}

impl<R: Row> Table<R> {
    pub fn new(folder: Arc<Path>) -> Self {
        Self { folder, file: None, stored: 0, recent: Vec::new(), is_in_memory: false }
    }

    pub fn len(&self) -> usize {
        self.stored + self.recent.len()
    }

    pub fn push(&mut self, row: R) {
        if self.recent.len() >= 2 * RECENT_ROWS && !self.is_in_memory {
            // A disk that is full must not keep a run from being shown.
            self.is_in_memory = self.store_oldest().is_err();
        }
        self.recent.push(row);
    }

    fn store_oldest(&mut self) -> io::Result<()> {
        let mut bytes = Vec::with_capacity(RECENT_ROWS * R::BYTES);
        self.recent[..RECENT_ROWS].iter().for_each(|row| row.write(&mut bytes));
        let file = match &mut self.file {
            Some(file) => file,
            none => none.insert(nameless_file(&self.folder)?),
        };
        file.seek(SeekFrom::Start(Self::offset(self.stored)))?;
        file.write_all(&bytes)?;
        self.stored += RECENT_ROWS;
        self.recent.drain(..RECENT_ROWS);
        Ok(())
    }

    fn offset(place: usize) -> u64 {
        (place * R::BYTES) as u64
    }

    pub fn get(&self, place: usize) -> io::Result<Option<R>> {
        match place.checked_sub(self.stored) {
            Some(recent) => Ok(self.recent.get(recent).copied()),
            None => Ok(self.stored_rows(place, 1)?.first().copied()),
        }
    }

    /// Changes a row, if it is there.
    pub fn update(&mut self, place: usize, change: impl FnOnce(&mut R)) -> io::Result<()> {
        if let Some(recent) = place.checked_sub(self.stored) {
            if let Some(row) = self.recent.get_mut(recent) {
                change(row);
            }
            return Ok(());
        }
        let (Some(mut row), Some(file)) = (self.get(place)?, &mut self.file) else { return Ok(()) };
        change(&mut row);
        let mut bytes = Vec::with_capacity(R::BYTES);
        row.write(&mut bytes);
        file.seek(SeekFrom::Start(Self::offset(place)))?;
        file.write_all(&bytes)
    }

    /// The place of the first row that is not `before` what is wanted. The rows that are come first.
    pub fn partition_point(&self, is_before: impl Fn(&R) -> bool) -> io::Result<usize> {
        if self.recent.first().is_some_and(&is_before) {
            return Ok(self.stored + self.recent.partition_point(is_before));
        }
        let (mut from, mut to) = (0, self.stored);
        while from < to {
            let middle = from + (to - from) / 2;
            match self.get(middle)?.is_some_and(|row| is_before(&row)) {
                true => from = middle + 1,
                false => to = middle,
            }
        }
        Ok(from)
    }

    /// All rows from a place on.
    pub fn rows(&self, from: usize) -> Rows<'_, R> {
        Rows { table: self, next: from, read: Vec::new().into_iter() }
    }

    fn stored_rows(&self, from: usize, count: usize) -> io::Result<Vec<R>> {
        let Some(mut file) = self.file.as_ref() else { return Ok(Vec::new()) };
        let mut bytes = vec![0; count.min(self.stored - from) * R::BYTES];
        file.seek(SeekFrom::Start(Self::offset(from)))?;
        file.read_exact(&mut bytes)?;
        Ok(bytes.chunks_exact(R::BYTES).map(R::read).collect())
    }
}

/// Reads rows in order.
pub struct Rows<'a, R> {
    table: &'a Table<R>,
    /// The place behind those that were read.
    next: usize,
    read: std::vec::IntoIter<R>,
}

impl<R: Row> Iterator for Rows<'_, R> {
    type Item = io::Result<R>;

    fn next(&mut self) -> Option<Self::Item> {
        if let Some(row) = self.read.next() {
            return Some(Ok(row));
        }
        if let Some(recent) = self.next.checked_sub(self.table.stored) {
            self.next += 1;
            return self.table.recent.get(recent).copied().map(Ok);
        }
        match self.table.stored_rows(self.next, ROWS_AT_ONCE) {
            Ok(rows) => {
                self.next += rows.len();
                self.read = rows.into_iter();
                self.read.next().map(Ok)
            }
            Err(error) => {
                self.next = self.table.len();
                Some(Err(error))
            }
        }
    }
}

/// Texts in a file, one behind the other.
pub struct Texts {
    /// The folder for the file.
    folder: Arc<Path>,
    file: Option<File>,
    length: u64,
}

/// Where a text is in the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TextPlace {
    pub offset: u64,
    pub bytes: u64,
}

impl Texts {
    pub fn new(folder: Arc<Path>) -> Self {
        Self { folder, file: None, length: 0 }
    }

    pub fn push(&mut self, text: &str) -> io::Result<TextPlace> {
        let file = match &mut self.file {
            Some(file) => file,
            none => none.insert(nameless_file(&self.folder)?),
        };
        let place = TextPlace { offset: self.length, bytes: text.len() as u64 };
        file.seek(SeekFrom::Start(place.offset))?;
        file.write_all(text.as_bytes())?;
        self.length += place.bytes;
        Ok(place)
    }

    pub fn get(&self, place: TextPlace) -> io::Result<String> {
        let Some(mut file) = self.file.as_ref() else { return Ok(String::new()) };
        let mut text = String::new();
        file.seek(SeekFrom::Start(place.offset))?;
        file.take(place.bytes).read_to_string(&mut text)?;
        Ok(text)
    }
}

/// A file that is gone once it is closed.
fn nameless_file(folder: &Path) -> io::Result<File> {
    let path = folder.join(format!("serve.{}.rows", uuid::Uuid::new_v4().simple()));
    let mut options = private_options();
    options.read(true).write(true).create_new(true);
    #[cfg(windows)]
    {
        const DELETE_ON_CLOSE: u32 = 0x0400_0000;
        std::os::windows::fs::OpenOptionsExt::custom_flags(&mut options, DELETE_ON_CLOSE);
    }
    let file = open_plain_as(&mut options, &path)?;
    #[cfg(unix)]
    std::fs::remove_file(&path)?;
    Ok(file)
}

#[cfg(test)]
mod tests {
    use super::*;

    impl Row for u64 {
        const BYTES: usize = 8;

        fn write(&self, bytes: &mut Vec<u8>) {
            bytes.extend_from_slice(&self.to_le_bytes());
        }

        fn read(bytes: &[u8]) -> Self {
            u64::from_le_bytes(bytes.try_into().unwrap())
        }
    }

    fn filled(folder: &Path, rows: usize) -> Table<u64> {
        let mut table = Table::new(folder.into());
        (0..rows as u64).for_each(|row| table.push(2 * row));
        table
    }

    #[test]
    fn old_rows_are_read_found_and_changed_like_new_ones_and_take_no_memory() {
        let folder = tempfile::tempdir().unwrap();
        let count = 10 * RECENT_ROWS + 7;
        let mut table = filled(folder.path(), count);
        assert_eq!(table.len(), count);
        assert!(table.recent.len() <= 2 * RECENT_ROWS, "{}", table.recent.len());
        for place in [0, 1, RECENT_ROWS, 5 * RECENT_ROWS + 3, count - 1] {
            assert_eq!(table.get(place).unwrap(), Some(2 * place as u64));
            assert_eq!(table.partition_point(|row| *row < 2 * place as u64).unwrap(), place);
            table.update(place, |row| *row += 1).unwrap();
        }
        assert_eq!(table.get(count).unwrap(), None);
        assert_eq!(table.partition_point(|_| true).unwrap(), count);
        let all: Vec<u64> = table.rows(0).collect::<io::Result<_>>().unwrap();
        assert_eq!(all.len(), count);
        assert!(all.iter().enumerate().all(|(place, row)| row / 2 == place as u64));
        assert_eq!(all.iter().filter(|row| *row % 2 == 1).count(), 5);
        assert_eq!(table.rows(count - 2).count(), 2);
    }

    #[test]
    fn texts_are_read_as_they_were_written() {
        let folder = tempfile::tempdir().unwrap();
        let mut texts = Texts::new(folder.path().into());
        let places: Vec<TextPlace> = ["one", "", "zwei ä\n"].map(|text| texts.push(text).unwrap()).into();
        let read: Vec<String> = places.iter().map(|place| texts.get(*place).unwrap()).collect();
        assert_eq!(read, ["one", "", "zwei ä\n"]);
    }

    #[cfg(unix)]
    #[test]
    fn the_file_has_no_name_and_its_folder_may_be_missing() {
        let folder = tempfile::tempdir().unwrap();
        let table = filled(folder.path(), 3 * RECENT_ROWS);
        assert!(table.file.is_some());
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
        let table = filled(&folder.path().join("missing"), 3 * RECENT_ROWS);
        assert_eq!(table.get(5).unwrap(), Some(10));
        assert_eq!(table.len(), 3 * RECENT_ROWS);
    }
}
