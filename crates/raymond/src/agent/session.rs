//! Carrying a conversation elsewhere: to another folder, or to another machine.
//!
//! A program keeps a conversation in a file of its own ([`super::AgentProgram::session_file`]). To carry it is to copy that file to
//! where the program will look for it there.

use std::ffi::OsString;
use std::fs;
use std::io::{self, Write};
use std::path::Path;

use super::AgentProgram;

/// Where a conversation is kept, or is to be kept.
#[derive(Clone, Copy)]
pub struct SessionPlace<'a> {
    pub session: &'a str,
    /// The working folder of its turns.
    pub cwd: &'a Path,
    /// What the program finds in its environment.
    pub variable: &'a dyn Fn(&str) -> Option<OsString>,
}

/// Everything that the program keeps of a conversation, or `None` if it cannot be carried.
pub fn export(program: &dyn AgentProgram, place: &SessionPlace<'_>) -> io::Result<Option<Vec<u8>>> {
    program.session_file(place).map(fs::read).transpose()
}

/// Lets the program find a conversation at a place; `false` if it cannot be carried.
pub fn import(program: &dyn AgentProgram, place: &SessionPlace<'_>, bytes: &[u8]) -> io::Result<bool> {
    let Some(file) = program.session_file(place) else { return Ok(false) };
    create_private_folders(file.parent().unwrap_or(Path::new(".")))?;
    // Aside first: half a conversation must never be found.
    let mut aside = file.clone().into_os_string();
    aside.push(".new");
    let aside = Path::new(&aside);
    let placed = write_private_file(aside, bytes).and_then(|()| fs::rename(aside, &file));
    if placed.is_err() {
        let _ = fs::remove_file(aside);
    }
    placed.map(|()| true)
}

fn create_private_folders(folder: &Path) -> io::Result<()> {
    let mut builder = fs::DirBuilder::new();
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.recursive(true).create(folder)
}

fn write_private_file(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut options = fs::OpenOptions::new();
    options.write(true).create(true).truncate(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.open(path)?.write_all(bytes)
}
