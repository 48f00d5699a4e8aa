//! A conversation of an agent whose run is decided elsewhere. It may be copied from and to the machine.

use std::io;
use std::path::PathBuf;

use crate::agent::registry::Backend;
use crate::agent::session::{SessionFiles, SessionPlace, export, import};

/// Where the agent program has a conversation, or would have it. It reads and writes long files, so it may be used on any
/// thread.
#[derive(Clone, Debug)]
pub struct Conversation {
    pub(super) program: Backend,
    pub(super) session: String,
    /// The folder that the program runs in.
    pub(super) cwd: PathBuf,
}

impl Conversation {
    /// Whether it could be brought here and is not here yet.
    pub fn is_wanted(&self) -> bool {
        self.files().is_some_and(|files| !files.are_there())
    }

    /// Whether the program keeps conversations and this one is not among them, as far as that can be told.
    pub fn is_missing(&self) -> bool {
        let keeps_some = self.program.inspection().is_some() && self.program.capabilities().resume;
        keeps_some && self.files().is_none_or(|files| !files.are_there())
    }

    /// The program's own record of it, if it can be copied.
    pub fn export(&self) -> io::Result<Option<Vec<u8>>> {
        self.at_its_place(|place| export(&*self.program, place))
    }

    /// Puts it where the program finds it. False if the program's conversations cannot be copied.
    pub fn import(&self, bytes: &[u8]) -> io::Result<bool> {
        self.at_its_place(|place| import(&*self.program, place, bytes))
    }

    fn files(&self) -> Option<SessionFiles> {
        self.at_its_place(|place| self.program.session_files(place))
    }

    fn at_its_place<T>(&self, act: impl FnOnce(&SessionPlace<'_>) -> T) -> T {
        let variable = |name: &str| std::env::var_os(name);
        act(&SessionPlace { session: &self.session, cwd: &self.cwd, variable: &variable })
    }
}
