//! One file becomes another, where that can be done without the risk of replacing a third.

use std::fs::{File, OpenOptions};
use std::io::{self, ErrorKind};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;

use rustix::fs::{CWD, RenameFlags, renameat_with};

/// Makes a file the new, empty one at `path`, unless it is gone itself.
pub(super) fn take_over(spare: &Path, path: &Path) -> io::Result<Option<File>> {
    match empty(spare) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        emptied => emptied?,
    }
    renameat_with(CWD, spare, CWD, path, RenameFlags::NOREPLACE)?;
    OpenOptions::new().write(true).open(path).map(Some)
}

/// Empties a file that is nobody else's too. It is closed again on purpose: ext4 flushes a file that was emptied
/// and written in one go, and that costs more than opening it twice.
fn empty(path: &Path) -> io::Result<()> {
    let file = OpenOptions::new().write(true).custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK).open(path)?;
    let metadata = file.metadata()?;
    if !metadata.is_file() || metadata.nlink() != 1 {
        return Err(ErrorKind::InvalidInput.into());
    }
    file.set_len(0)
}
