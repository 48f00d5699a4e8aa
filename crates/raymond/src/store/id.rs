//! Which texts can be the id of a run.

use std::error::Error;
use std::fmt;

use super::text::excerpt;
use crate::paths::is_special_on_windows;

/// The longest run id, in bytes.
pub(super) const MAX_RUN_ID_BYTES: usize = 64;

/// A text that cannot be a run's id.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BadRunId {
    pub id: String,
    pub why: &'static str,
}

impl fmt::Display for BadRunId {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "'{}' cannot be a run's id: {}", excerpt(self.id.as_bytes(), MAX_RUN_ID_BYTES), self.why)
    }
}

impl Error for BadRunId {}

/// Checks that a run id can be a file name on every system and is not mistaken for a segment of another run.
///
/// The rules are the same in every form of store, so that a run can be moved from one to another.
pub fn check_run_id(id: &str) -> Result<(), BadRunId> {
    let bad = |why| Err(BadRunId { id: id.to_owned(), why });
    if id.is_empty() {
        return bad("it is empty");
    }
    if id.len() > MAX_RUN_ID_BYTES {
        return bad("it is longer than 64 characters");
    }
    if id.starts_with('.') {
        return bad("it begins with a dot");
    }
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'-');
    if !id.bytes().all(allowed) {
        return bad("only letters, digits, '.', '_' and '-' may be in it");
    }
    if cfg!(windows) && is_special_on_windows(id) {
        return bad("Windows does not allow files of this name");
    }
    if split_segment_digits(id).is_some() {
        return bad("it ends in a dot and digits, like a part of another run's journal");
    }
    Ok(())
}

/// The same for a run that is yet to be made: its id is also the name of branches and other git refs.
///
/// Runs of earlier versions may have other ids, so these rules do not hold for runs that exist.
pub fn check_new_run_id(id: &str) -> Result<(), BadRunId> {
    check_run_id(id)?;
    let bad = |why| Err(BadRunId { id: id.to_owned(), why });
    if id.contains("..") {
        return bad("it has two dots in a row, which git does not allow in names");
    }
    if id.ends_with('.') {
        return bad("it ends in a dot, which git does not allow in names");
    }
    if id.ends_with(".lock") {
        return bad("it ends in `.lock`, which git does not allow in names");
    }
    Ok(())
}

/// Splits off a `.` and four or more digits at the end.
pub(super) fn split_segment_digits(stem: &str) -> Option<(&str, &str)> {
    let (id, digits) = stem.rsplit_once('.')?;
    let looks_so = digits.len() >= 4 && digits.bytes().all(|byte| byte.is_ascii_digit());
    looks_so.then_some((id, digits))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn run_ids_are_checked() {
        let longest = "x".repeat(64);
        for good in ["a", "-a", "_", "review-20250101-1200-ab12", "v1.2.3", "a.123", &longest] {
            assert_eq!(check_new_run_id(good), Ok(()), "{good}");
        }
        for old in ["a..b", "a.lock"] {
            assert_eq!(check_run_id(old), Ok(()), "{old}");
            assert!(check_new_run_id(old).is_err(), "{old}");
        }
        assert!(check_new_run_id("a.").is_err());
        let too_long = "x".repeat(65);
        for bad in ["", ".a", "..", "a/b", "a b", "ä", "a\n", "a.0001", "a.12345", &too_long] {
            assert!(check_run_id(bad).is_err(), "{bad}");
        }
        for elsewhere in ["a.", "nul", "Com1.x"] {
            assert_eq!(check_run_id(elsewhere).is_err(), cfg!(windows), "{elsewhere}");
        }
    }
}
