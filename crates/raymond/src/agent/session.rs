//! Copies a conversation to another folder or to another machine.
//!
//! A program keeps a conversation in a file of its own ([`super::AgentProgram::session_file`]). That file is copied to
//! the path where the program will look for it.

use std::ffi::OsString;
use std::fs;
use std::io;
use std::path::Path;

use super::AgentProgram;
use crate::files;

/// Where a conversation is, or will be, kept.
#[derive(Clone, Copy)]
pub struct SessionPlace<'a> {
    pub session: &'a str,
    /// The working folder of its turns.
    pub cwd: &'a Path,
    /// The program's environment variables.
    pub variable: &'a dyn Fn(&str) -> Option<OsString>,
}

/// All data that the program keeps of a conversation, or `None` if conversations cannot be copied.
pub fn export(program: &dyn AgentProgram, place: &SessionPlace<'_>) -> io::Result<Option<Vec<u8>>> {
    program.session_file(place).map(fs::read).transpose()
}

/// Puts a conversation where the program finds it; `false` if conversations cannot be copied.
pub fn import(program: &dyn AgentProgram, place: &SessionPlace<'_>, bytes: &[u8]) -> io::Result<bool> {
    let Some(file) = program.session_file(place) else { return Ok(false) };
    files::create_private_folders(file.parent().unwrap_or(Path::new(".")))?;
    // Write to another name first: the program must never find half a conversation.
    let mut aside = file.clone().into_os_string();
    aside.push(".new");
    let aside = Path::new(&aside);
    let placed = files::write_private(aside, bytes).and_then(|()| fs::rename(aside, &file));
    if placed.is_err() {
        let _ = fs::remove_file(aside);
    }
    placed.map(|()| true)
}
