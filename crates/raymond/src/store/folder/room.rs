//! Room on the disk for what running steps will report.
//!
//! A step that has started costs money, so its end must be recorded even if the disk fills up meanwhile. The room for
//! it is reserved before it starts, in large pieces, because a call for each step would take time.

use std::io;

use super::disk::DiskFile;
use crate::store::error::is_full;

/// How much is reserved at once if the disk has so much.
const PIECE_BYTES: u64 = 64 * 1024;

/// What is reserved behind the end of a file.
#[derive(Debug, Default)]
pub(super) struct Room {
    /// Where the reserved part of the file ends.
    end: u64,
    /// How much has to be free behind a batch.
    pub(super) aside: u64,
    /// Whether the file system cannot reserve anything.
    unsupported: bool,
}

impl Room {
    /// Makes sure that a batch can be written at the end of the file, and that the rest fits behind it.
    pub(super) fn ensure(
        &mut self,
        file: &dyn DiskFile,
        length: u64,
        batch: u64,
    ) -> Result<(), io::ErrorKind> {
        let needed = length + batch + self.aside;
        if needed <= self.end || self.unsupported {
            return Ok(());
        }
        let from = self.end.max(length);
        let mut refused = io::ErrorKind::StorageFull;
        for end in [needed + PIECE_BYTES, needed] {
            match file.reserve(from, end - from) {
                Ok(()) => {
                    self.end = end;
                    return Ok(());
                }
                Err(error) if is_full(error.kind()) => refused = error.kind(),
                // Then the write itself shows whether there is room.
                Err(_) => {
                    self.unsupported = true;
                    return Ok(());
                }
            }
        }
        Err(refused)
    }

    /// Another file is written from now on.
    pub(super) fn begin_file(&mut self) {
        self.end = 0;
    }

    /// Whether more is reserved than the file is long; it is given up by this.
    pub(super) fn release(&mut self, length: u64) -> bool {
        let has_more = self.end > length;
        self.end = 0;
        has_more
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Write};
    use std::sync::Mutex;

    const FULL: io::ErrorKind = io::ErrorKind::StorageFull;

    /// A file on a disk with so many bytes left behind offset 0.
    #[derive(Debug)]
    struct Small {
        bytes: u64,
        calls: Mutex<u32>,
    }

    impl DiskFile for Small {
        fn sync_data(&self) -> io::Result<()> {
            Ok(())
        }

        fn sync_all(&self) -> io::Result<()> {
            Ok(())
        }

        fn set_len(&self, _bytes: u64) -> io::Result<()> {
            Ok(())
        }

        fn reserve(&self, from: u64, bytes: u64) -> io::Result<()> {
            *self.calls.lock().unwrap() += 1;
            match from + bytes <= self.bytes {
                true => Ok(()),
                false => Err(io::ErrorKind::StorageFull.into()),
            }
        }
    }

    impl Read for Small {
        fn read(&mut self, _buffer: &mut [u8]) -> io::Result<usize> {
            Ok(0)
        }
    }

    impl Write for Small {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn what_was_set_aside_is_there_when_it_is_needed() {
        let file = Small { bytes: 10_000, calls: Mutex::default() };
        let mut room = Room { aside: 4_000, ..Room::default() };
        assert_eq!(room.ensure(&file, 0, 5_000), Ok(()));
        assert_eq!(room.ensure(&file, 5_000, 2_000), Err(FULL), "it would use what was set aside");
        room.aside = 0;
        assert_eq!(room.ensure(&file, 5_000, 4_000), Ok(()));
        assert_eq!(room.ensure(&file, 9_000, 2_000), Err(FULL));
    }

    #[test]
    fn many_batches_need_few_calls() {
        let file = Small { bytes: u64::MAX, calls: Mutex::default() };
        let mut room = Room { aside: 4_000, ..Room::default() };
        for batch in 0..100 {
            room.ensure(&file, batch * 1_000, 1_000).unwrap();
        }
        assert!(*file.calls.lock().unwrap() <= 2);
    }
}
