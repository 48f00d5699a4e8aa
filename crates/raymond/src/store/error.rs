//! What can go wrong with the store of runs, in words that say what to do about it.

use std::error::Error;
use std::fmt;
use std::io;
use std::sync::Arc;

use super::home::Holder;
use super::id::{BadRunId, MAX_RUN_ID_BYTES};
use super::text::excerpt;
use crate::advice;
use crate::error::UserError;
use crate::files;

/// How many characters of a damaged line a message quotes.
const EXCERPT_CHARS: usize = 80;

/// How many run ids an error message lists.
const LISTED_RUNS: usize = 5;

/// Why a run cannot be found, created, read or written.
///
/// A `place` is a text for people: the path of a file where there is one. Lines count from 1; a line of 0 stands for
/// the whole file.
#[derive(Clone, Debug)]
pub enum StoreError {
    /// A text that cannot be a run's id.
    BadId(BadRunId),
    /// No run's id begins or ends like this; `existing` has all ids, newest first.
    Unknown { given: String, existing: Vec<String> },
    /// The ids of several runs begin or end like this, newest first.
    Ambiguous { given: String, matches: Vec<String> },
    /// A run of this id exists.
    Exists { run: String },
    /// There is no such run.
    Missing { place: String },
    /// Raymond died before the first batch was whole.
    Empty { place: String },
    /// Another process may write the run.
    Held { run: String, holder: Holder },
    /// The place holds something that no interrupted write explains.
    Damaged { place: String, line: u64, what: String, excerpt: String },
    /// Each event is whole, but one is missing or is there twice.
    OutOfOrder { place: String, line: u64, before: u64, now: u64 },
    /// The events do not begin with the start of a run.
    NoStart { place: String },
    /// An event that this version of Raymond does not know.
    UnknownEvent { place: String, line: u64, what: String },
    /// The run has a newer format than this version reads.
    NewerFormat { run: String, version: u32, newest_known: u32 },
    /// An earlier write failed, so what the journal holds is not known any more.
    Poisoned { place: String },
    /// The journal was deleted or replaced while this process wrote it. `rescued` is where its copy is, or why there is
    /// none.
    /// `is_marked` is whether the run needs its mark, which may be gone, too.
    JournalGone { run: String, place: String, rescued: Result<String, String>, is_marked: bool },
    /// The lock file was deleted or replaced while this process held it; all that happened is in the journal.
    LockGone { place: String },
    /// The disk has no room for what was to be written; nothing was written.
    Full { place: String, why: io::ErrorKind },
    /// The run was not made by this user's Raymond in this folder.
    NotOwn { run: String, place: String },
    /// The journal of a run is not the one that this user's Raymond made.
    Replaced { run: String, place: String },
    /// Something lies where a new run would be, and this user's Raymond has not put it there.
    Taken { run: String, place: String },
    /// What is made cannot be marked as made by this user's Raymond.
    NoKey { why: String },
    /// The caller asked for something that a reader would call damage; nothing was written.
    Refused { place: String, what: String },
    /// The history of a run begins in another one that cannot be read.
    OriginLost { run: String, origin: String, why: Box<StoreError> },
    /// An event names a payload by something that is not a hash.
    NotAHash,
    /// The payload is longer than the store takes.
    PayloadTooLong { bytes: u64 },
    /// An event names a payload that is not there.
    PayloadMissing { place: String },
    /// The payload is not here but where other machines read it.
    PayloadElsewhere { hash: String },
    /// The payload is not the text that was stored.
    PayloadDamaged { place: String },
    /// The system refused a call.
    Io { place: String, action: &'static str, source: Arc<io::Error> },
}

impl StoreError {
    pub(crate) fn io(place: impl ToString, action: &'static str, source: io::Error) -> Self {
        Self::Io { place: place.to_string(), action, source: Arc::new(source) }
    }

    pub(super) fn damaged(place: impl ToString, line: u64, what: impl Into<String>, bytes: &[u8]) -> Self {
        let excerpt = excerpt(bytes, EXCERPT_CHARS);
        Self::Damaged { place: place.to_string(), line, what: what.into(), excerpt }
    }

    pub(super) fn refused(place: impl ToString, what: impl Into<String>) -> Self {
        Self::Refused { place: place.to_string(), what: what.into() }
    }

    /// Whether the disk has no room left.
    pub(super) fn is_disk_full(&self) -> bool {
        match self {
            Self::Full { .. } => true,
            Self::Io { source, .. } => is_full(source.kind()),
            _ => false,
        }
    }

    /// Whether a file could be read, and what it holds makes no sense.
    pub(crate) fn is_nonsense(&self) -> bool {
        use io::ErrorKind::{InvalidData, UnexpectedEof};
        matches!(self, Self::Io { source, .. } if matches!(source.kind(), InvalidData | UnexpectedEof))
    }

    /// Whether the files of a run are there and cannot be used: what is in them is damaged, is of another user or folder, or is
    /// no plain file.
    pub(crate) fn is_about_files_of_run(&self) -> bool {
        match self {
            Self::Damaged { .. }
            | Self::OutOfOrder { .. }
            | Self::NoStart { .. }
            | Self::UnknownEvent { .. }
            | Self::NewerFormat { .. }
            | Self::JournalGone { .. }
            | Self::NotOwn { .. }
            | Self::Replaced { .. }
            | Self::Taken { .. }
            | Self::OriginLost { .. }
            | Self::NotAHash
            | Self::PayloadMissing { .. }
            | Self::PayloadDamaged { .. } => true,
            Self::Io { source, .. } => self.is_nonsense() || files::is_not_plain(source),
            _ => false,
        }
    }

    /// Whether the file that the error is about was not there.
    pub(crate) fn is_not_found(&self) -> bool {
        matches!(self, Self::Io { source, .. } if source.kind() == io::ErrorKind::NotFound)
    }
}

/// Whether an error means that there is no room. A file that may not become larger (`ulimit -f`) has none either.
pub(super) fn is_full(kind: io::ErrorKind) -> bool {
    use io::ErrorKind::{FileTooLarge, QuotaExceeded, StorageFull};
    matches!(kind, StorageFull | QuotaExceeded | FileTooLarge)
}

fn no_room(why: io::ErrorKind) -> &'static str {
    match why {
        io::ErrorKind::FileTooLarge => "it would become larger than files may be here (see `ulimit -f`)",
        io::ErrorKind::QuotaExceeded => "the disk quota is used up",
        _ => "No space left on the disk",
    }
}

impl fmt::Display for StoreError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::BadId(bad) => bad.fmt(out),
            Self::Unknown { given, existing } => {
                write!(out, "no run '{}'", excerpt(given.as_bytes(), MAX_RUN_ID_BYTES))?;
                match existing.is_empty() {
                    true => write!(out, "; there are none yet"),
                    false => write!(out, "; the latest are {}", listed(existing)),
                }
            }
            Self::Ambiguous { given, matches } => {
                let given = excerpt(given.as_bytes(), MAX_RUN_ID_BYTES);
                write!(out, "'{given}' could be {}", listed(matches))
            }
            Self::Exists { run } => write!(out, "there is a run `{run}` already"),
            Self::Missing { place } => write!(out, "there is no {place}"),
            Self::Empty { place } => {
                write!(
                    out,
                    "{place} holds no complete event, so nothing has run; `raymond clean` with the name of the run removes it"
                )
            }
            Self::Held { run, holder } => {
                write!(out, "another Raymond is running {run}")?;
                match holder.pid {
                    Some(pid) => write!(out, " (process {pid})"),
                    None => Ok(()),
                }
            }
            Self::Damaged { place, line, what, excerpt } => {
                write!(out, "{}: {what}", At(place, *line))?;
                if !excerpt.is_empty() {
                    write!(out, "; it begins: {excerpt}")?;
                }
                write!(out, "\nrestore the file from a copy, or move it away to give the run up")
            }
            Self::OutOfOrder { place, line, before, now } => {
                let at = At(place, *line);
                write!(out, "{at}: event {now} follows event {before}; events are missing or out of order")
            }
            Self::NoStart { place } => write!(out, "{place} does not begin with the start of a run"),
            Self::UnknownEvent { place, line, what } => {
                write!(out, "{}: not an event this version knows: {what}", At(place, *line))
            }
            Self::NewerFormat { run, version, newest_known } => {
                write!(out, "the run {run} has the format {version}, this version reads up to {newest_known}")
            }
            Self::Poisoned { place } => {
                write!(out, "an earlier write to {place} failed; the run has to be resumed")
            }
            Self::JournalGone { run, place, rescued, is_marked } => {
                write!(
                    out,
                    "the journal of {run} is gone: {place} was deleted or replaced while the run was live"
                )?;
                let adopt = if *is_marked {
                    advice::command(&format!("doctor --adopt {run}")) + ", and: "
                } else {
                    String::new()
                };
                match rescued {
                    Ok(copy) => write!(
                        out,
                        "\nall that was recorded is in {copy}; to go on, move it to {place}, then: {adopt}{}",
                        advice::command(&format!("resume {run}"))
                    ),
                    Err(error) => write!(out, "\nno copy of it could be written: {error}"),
                }
            }
            Self::LockGone { place } => {
                write!(
                    out,
                    "{place} was deleted or replaced while the run was live; another Raymond could begin to write the run"
                )
            }
            Self::Full { place, why } => write!(out, "cannot write {place}: {}", no_room(*why)),
            Self::NotOwn { run, place } => {
                write!(out, "the run {run} in {place} was not made there by your Raymond, so it is not used")
            }
            Self::Replaced { run, place } => {
                write!(out, "{place} is not the journal that your Raymond wrote for {run}, so it is not used")
            }
            Self::Taken { run, place } => {
                write!(out, "{run} is not begun: {place} is there already, and your Raymond has not made it")
            }
            Self::NoKey { why } => {
                write!(out, "what a run leaves cannot be marked as your own: {why}")
            }
            Self::Refused { place, what } => write!(out, "not written to {place}: {what}"),
            Self::OriginLost { run, origin, why } => {
                write!(out, "the history of {run} begins in the run {origin}, which cannot be read: {why}")
            }
            Self::NotAHash => write!(out, "the journal names a payload by something that is no hash"),
            Self::PayloadTooLong { bytes } => write!(out, "a payload of {bytes} bytes is too long"),
            Self::PayloadMissing { place } => {
                write!(out, "{place} is missing, though the journal names it; restore it from a copy")
            }
            Self::PayloadElsewhere { hash } => write!(out, "the payload {hash} is not here"),
            Self::PayloadDamaged { place } => {
                write!(out, "{place} is not what was written; restore it from a copy")
            }
            Self::Io { place, action, source } => write!(out, "cannot {action} {place}: {source}"),
        }
    }
}

/// A place with its line, if that is known.
struct At<'a>(&'a str, u64);

impl fmt::Display for At<'_> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.1 {
            0 => out.write_str(self.0),
            line => write!(out, "{} line {line}", self.0),
        }
    }
}

fn listed(ids: &[String]) -> String {
    let mut text = ids[..ids.len().min(LISTED_RUNS)].join(", ");
    if ids.len() > LISTED_RUNS {
        text.push_str(&format!(" and {} more", ids.len() - LISTED_RUNS));
    }
    text
}

impl Error for StoreError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::Io { source, .. } => Some(&**source),
            _ => None,
        }
    }
}

impl From<StoreError> for UserError {
    fn from(error: StoreError) -> Self {
        let is_held = matches!(error, StoreError::Held { .. });
        let user = UserError { is_held, ..UserError::usage(error.to_string()) };
        match error {
            StoreError::BadId(_) => user.hint("use letters, digits, `-`, `_` and `.`, at most 64 of them"),
            StoreError::Unknown { .. } | StoreError::Ambiguous { .. } => {
                user.hint(format!("`{}` shows all runs", advice::command("list")))
            }
            StoreError::Exists { run } => user
                .hint("choose another --id")
                .hint(format!("or continue it: {}", advice::command(&format!("resume {run}")))),
            StoreError::Held { run, .. } => user
                .hint(format!("see what it does: {}", advice::command(&format!("status {run}"))))
                .hint(format!("or stop it first: {}", advice::command(&format!("stop {run}")))),
            StoreError::OutOfOrder { .. } => {
                user.hint("restore the file from a copy, or move it away to give the run up")
            }
            StoreError::UnknownEvent { .. } => {
                user.hint("it was probably written by a newer Raymond; use that one")
            }
            StoreError::NewerFormat { .. } => user.hint("use a newer Raymond"),
            StoreError::NotOwn { run, .. } | StoreError::Replaced { run, .. } => user.hint(format!(
                "to look at it and adopt it: {}",
                advice::command(&format!("doctor --adopt {run}"))
            )),
            StoreError::Taken { .. } => user
                .hint("choose another --id")
                .hint(format!("or look at what is there: {}", advice::command("doctor --adopt"))),
            StoreError::NoKey { .. } => user
                .hint("set XDG_DATA_HOME to a folder of your own outside the project")
                .hint("or keep the run in a folder that you name: --state-dir DIR"),
            _ => user,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn damage_names_the_place_and_the_way_out() {
        let error = StoreError::damaged("s/a.jsonl", 7, "this is not JSON", b"{\"a\x07");
        assert_eq!(
            error.to_string(),
            "s/a.jsonl line 7: this is not JSON; it begins: {\"a\\u{7}\n\
             restore the file from a copy, or move it away to give the run up"
        );
    }

    #[test]
    fn a_whole_file_has_no_line() {
        let error = StoreError::damaged("a.jsonl", 0, "the file is missing", b"");
        assert!(error.to_string().starts_with("a.jsonl: the file is missing\n"));
    }

    #[test]
    fn long_lists_are_clipped() {
        let ids = |count: usize| (1..=count).map(|number| format!("a{number}")).collect::<Vec<_>>();
        let text = |matches| StoreError::Ambiguous { given: "a".to_owned(), matches }.to_string();
        assert_eq!(text(ids(2)), "'a' could be a1, a2");
        assert_eq!(text(ids(6)), "'a' could be a1, a2, a3, a4, a5 and 1 more");
    }

    #[test]
    fn what_the_user_typed_cannot_change_the_terminal() {
        let unknown = StoreError::Unknown { given: "zz\x1b".to_owned(), existing: vec!["a".to_owned()] };
        assert_eq!(unknown.to_string(), "no run 'zz\\u{1b}'; the latest are a");
    }
}
