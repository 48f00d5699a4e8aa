//! One turn at a time in a conversation that is continued itself.

use std::fs::{File, TryLockError};
use std::path::Path;

use crate::agent::TurnFault;
use crate::config::user_state_folder;
use crate::files::{create_private_folders, open_plain_as};
use crate::store::hash_of;

/// The right to run a turn in a session, until it is dropped or the process ends. The file is never deleted: otherwise
/// two processes could lock two files of the same name.
#[derive(Debug)]
pub(super) struct SessionLock {
    /// Closing it releases the lock.
    _file: File,
}

impl SessionLock {
    /// `None` if there is no place for the lock.
    pub(super) fn take(backend: &str, session: &str) -> Result<Option<Self>, TurnFault> {
        match user_state_folder() {
            Some(folder) => Self::take_in(&folder.join("sessions"), backend, session),
            None => Ok(None),
        }
    }

    fn take_in(folder: &Path, backend: &str, session: &str) -> Result<Option<Self>, TurnFault> {
        let name = hash_of(format!("{backend}\n{session}").as_bytes());
        let opened = create_private_folders(folder).and_then(|()| {
            open_plain_as(File::options().create(true).append(true), &folder.join(&name[..32]))
        });
        let failed = |error: std::io::Error| TurnFault::SessionInUse {
            message: format!("its lock in {} cannot be taken: {error}", folder.display()),
        };
        let file = opened.map_err(failed)?;
        match file.try_lock() {
            Ok(()) => Ok(Some(Self { _file: file })),
            Err(TryLockError::WouldBlock) => {
                Err(TurnFault::SessionInUse { message: format!("another turn runs in session {session}") })
            }
            Err(TryLockError::Error(error)) => Err(failed(error)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_session_is_held_by_one_turn_at_a_time() {
        let folder = tempfile::tempdir().unwrap();
        let take = |backend: &str, session: &str| SessionLock::take_in(folder.path(), backend, session);
        let first = take("a", "s1").unwrap();
        let error = take("a", "s1").unwrap_err();
        assert_eq!(error.to_string(), "the session id is taken: another turn runs in session s1");
        take("a", "s2").expect("another session");
        take("b", "s1").expect("another backend");
        drop(first);
        take("a", "s1").expect("it is free again");
    }
}
