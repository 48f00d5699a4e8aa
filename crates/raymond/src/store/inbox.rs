//! The one way in for other processes: complete files in `RUN.in/`.
//!
//! A message is written under another name and linked into place, so it is read whole or not at
//! all, and of several under one name the first stays. That works whether a Raymond runs or not.
//! Bounds: [`MAX_MESSAGE_BYTES`] a message, [`MAX_MESSAGES_AT_ONCE`] read in one go.

use std::fs::{DirEntry, File};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use super::disk::{create_private_dir, private_options, remove_if_there, sync_dir};

/// The longest message: an answer of 1 MiB and what is around it.
pub const MAX_MESSAGE_BYTES: u64 = 1024 * 1024 + 64 * 1024;

/// How many messages are read at once; the others wait until these are removed.
pub const MAX_MESSAGES_AT_ONCE: usize = 256;

/// The longest name of a message.
const MAX_NAME_BYTES: usize = 128;

/// How coarse the times of a file system may be.
const TIME_GRAIN: Duration = Duration::from_secs(2);

/// What became of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Posted {
    Posted,
    /// There is one of this name, and it stays.
    AlreadyThere,
}

/// A message as found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message {
    pub name: String,
    pub content: Content,
}

/// What a message holds, or why that cannot be told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Content {
    Text(String),
    TooLong {
        bytes: u64,
    },
    NotUtf8,
    /// The system refused to read it; the reason.
    Unreadable(String),
}

/// Leaves a message, creating the folder; on disk when this returns.
pub fn post(dir: &Path, name: &str, content: &str) -> io::Result<Posted> {
    check_name(name)?;
    if content.len() as u64 > MAX_MESSAGE_BYTES {
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, "the message is too long"));
    }
    create_private_dir(dir)?;
    let unfinished = dir.join(format!(".{}.tmp", uuid::Uuid::new_v4()));
    let linked = write_and_link(&unfinished, &dir.join(name), content);
    // Tidied up in any case; what failed before matters more than what fails here.
    let removed = remove_if_there(&unfinished);
    match linked {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(Posted::AlreadyThere),
        Err(error) => Err(error),
        Ok(()) => {
            removed?;
            sync_dir(dir)?;
            Ok(Posted::Posted)
        }
    }
}

fn write_and_link(unfinished: &Path, path: &Path, content: &str) -> io::Result<()> {
    let mut file = private_options().write(true).create_new(true).open(unfinished)?;
    file.write_all(content.as_bytes())?;
    file.sync_all()?;
    // Unlike a rename, a link never replaces what is there.
    std::fs::hard_link(unfinished, path)
}

/// Names come from ids of asks and the like, and must stay within the folder.
fn check_name(name: &str) -> io::Result<()> {
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'-');
    let good = !name.is_empty()
        && name.len() <= MAX_NAME_BYTES
        && !name.starts_with('.')
        && name.bytes().all(allowed);
    match good {
        true => Ok(()),
        false => Err(io::Error::new(io::ErrorKind::InvalidInput, "this cannot be the name of a message")),
    }
}

/// The messages that wait, oldest first; they stay until they are removed.
pub fn take_all(dir: &Path) -> io::Result<Vec<Message>> {
    let entries = match std::fs::read_dir(dir) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        other => other?,
    };
    let mut waiting = Vec::new();
    for entry in entries {
        waiting.extend(age_and_name(&entry?));
    }
    waiting.sort();
    waiting.truncate(MAX_MESSAGES_AT_ONCE);
    let read = |(_, name): (SystemTime, String)| {
        read_message(&dir.join(&name)).map(|content| Message { name, content })
    };
    Ok(waiting.into_iter().filter_map(read).collect())
}

/// None for what is no message: unfinished ones, folders, links and pipes, names that nobody posts.
fn age_and_name(entry: &DirEntry) -> Option<(SystemTime, String)> {
    let name = entry.file_name().into_string().ok()?;
    check_name(&name).ok()?;
    let data = entry.metadata().ok().filter(|data| data.is_file())?;
    Some((data.modified().unwrap_or(SystemTime::UNIX_EPOCH), name))
}

/// None if it has gone.
fn read_message(path: &Path) -> Option<Content> {
    let mut bytes = Vec::new();
    let read = File::open(path).and_then(|file| {
        let length = file.metadata()?.len();
        file.take(MAX_MESSAGE_BYTES + 1).read_to_end(&mut bytes)?;
        Ok(length.max(bytes.len() as u64))
    });
    Some(match read {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return None,
        Err(error) => Content::Unreadable(error.to_string()),
        Ok(length) if length > MAX_MESSAGE_BYTES => Content::TooLong { bytes: length },
        Ok(_) => String::from_utf8(bytes).map_or(Content::NotUtf8, Content::Text),
    })
}

/// Removes a message once its effect is in the journal; one that has gone is fine.
pub fn remove(dir: &Path, name: &str) -> io::Result<()> {
    check_name(name)?;
    remove_if_there(&dir.join(name))
}

/// Tells cheaply whether looking into an inbox is worth it.
#[derive(Debug)]
pub struct Watch {
    dir: PathBuf,
    seen: Option<SystemTime>,
    /// Whether a change after the last look would have shown in the folder's time.
    settled: bool,
}

impl Watch {
    pub fn new(dir: impl Into<PathBuf>) -> Self {
        Self { dir: dir.into(), seen: None, settled: false }
    }

    /// Whether there may be messages that came since the last call; read them after this, not before.
    ///
    /// Two changes within one tick of the file system's clock give one time. So a folder that
    /// changed just now counts as changed again until its time is safely past.
    pub fn changed(&mut self) -> bool {
        let modified = std::fs::metadata(&self.dir).and_then(|data| data.modified()).ok();
        let Some(time) = modified else {
            self.seen = None;
            return false;
        };
        let changed = self.seen != modified || !self.settled;
        self.seen = modified;
        self.settled = SystemTime::now().duration_since(time).is_ok_and(|age| age > TIME_GRAIN);
        changed
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use tempfile::{TempDir, tempdir};

    fn inbox() -> (TempDir, PathBuf) {
        let dir = tempdir().unwrap();
        let inbox = dir.path().join("r.in");
        (dir, inbox)
    }

    fn text(name: &str, content: &str) -> Message {
        Message { name: name.to_owned(), content: Content::Text(content.to_owned()) }
    }

    fn set_age(path: &Path, seconds: u64) {
        let time = SystemTime::now() - Duration::from_secs(seconds);
        File::open(path).unwrap().set_modified(time).unwrap();
    }

    #[test]
    fn the_first_of_several_answers_wins() {
        let (_dir, inbox) = inbox();
        assert_eq!(take_all(&inbox).unwrap(), []);
        assert_eq!(post(&inbox, "ask-1", "yes").unwrap(), Posted::Posted);
        assert_eq!(post(&inbox, "ask-1", "no").unwrap(), Posted::AlreadyThere);
        assert_eq!(take_all(&inbox).unwrap(), [text("ask-1", "yes")]);
        assert_eq!(fs::read_dir(&inbox).unwrap().count(), 1);
        remove(&inbox, "ask-1").unwrap();
        remove(&inbox, "ask-1").unwrap();
        assert_eq!(take_all(&inbox).unwrap(), []);
    }

    #[test]
    fn only_one_of_many_at_once_wins() {
        let (_dir, inbox) = inbox();
        let posters: Vec<_> = (0..8)
            .map(|number| {
                let inbox = inbox.clone();
                std::thread::spawn(move || post(&inbox, "ask", &number.to_string()).unwrap())
            })
            .collect();
        let results: Vec<Posted> = posters.into_iter().map(|poster| poster.join().unwrap()).collect();
        assert_eq!(results.iter().filter(|result| **result == Posted::Posted).count(), 1);
        assert_eq!(fs::read_dir(&inbox).unwrap().count(), 1);
    }

    #[test]
    fn messages_come_oldest_first() {
        let (_dir, inbox) = inbox();
        for (name, age) in [("a", 10), ("b", 30), ("c", 20)] {
            post(&inbox, name, name).unwrap();
            set_age(&inbox.join(name), age);
        }
        let names: Vec<String> = take_all(&inbox).unwrap().into_iter().map(|message| message.name).collect();
        assert_eq!(names, ["b", "c", "a"]);
    }

    #[test]
    fn what_is_no_message_is_passed_over() {
        let (_dir, inbox) = inbox();
        post(&inbox, "good", "x").unwrap();
        fs::write(inbox.join(".half.tmp"), "x").unwrap();
        fs::write(inbox.join("a b"), "x").unwrap();
        fs::create_dir(inbox.join("folder")).unwrap();
        #[cfg(unix)]
        std::os::unix::fs::symlink("/etc/passwd", inbox.join("link")).unwrap();
        assert_eq!(take_all(&inbox).unwrap(), [text("good", "x")]);
    }

    #[test]
    fn too_long_and_unreadable_messages_are_told() {
        let (_dir, inbox) = inbox();
        let longest = "x".repeat(MAX_MESSAGE_BYTES as usize);
        post(&inbox, "longest", &longest).unwrap();
        assert!(post(&inbox, "too-long", &format!("{longest}x")).is_err());
        fs::write(inbox.join("huge"), format!("{longest}xyz")).unwrap();
        fs::write(inbox.join("latin"), b"\xe4").unwrap();
        let mut found = take_all(&inbox).unwrap();
        found.sort_by(|a, b| a.name.cmp(&b.name));
        assert_eq!(found[0].content, Content::TooLong { bytes: MAX_MESSAGE_BYTES + 3 });
        assert_eq!(found[1].content, Content::NotUtf8);
        assert_eq!(found[2].content, Content::Text(longest));
    }

    #[test]
    fn a_flood_is_read_in_parts() {
        let (_dir, inbox) = inbox();
        fs::create_dir(&inbox).unwrap();
        for number in 0..MAX_MESSAGES_AT_ONCE + 1 {
            fs::write(inbox.join(number.to_string()), "x").unwrap();
        }
        let first = take_all(&inbox).unwrap();
        assert_eq!(first.len(), MAX_MESSAGES_AT_ONCE);
        for message in first {
            remove(&inbox, &message.name).unwrap();
        }
        assert_eq!(take_all(&inbox).unwrap().len(), 1);
    }

    #[test]
    fn names_stay_within_the_folder() {
        let (_dir, inbox) = inbox();
        for name in ["", ".x", "../x", "a/b", "a\0", &"x".repeat(129)] {
            assert!(post(&inbox, name, "x").is_err());
            assert!(remove(&inbox, name).is_err());
        }
        assert!(!inbox.exists());
    }

    /// Elsewhere a folder's time cannot be set so easily.
    #[cfg(unix)]
    #[test]
    fn a_watch_tells_of_changes_and_then_rests() {
        let (_dir, inbox) = inbox();
        let mut watch = Watch::new(&inbox);
        assert!(!watch.changed());
        post(&inbox, "a", "x").unwrap();
        assert!(watch.changed());
        // The change is so fresh that another could hide behind the same time.
        assert!(watch.changed());
        set_age(&inbox, 60);
        assert!(watch.changed());
        assert!(!watch.changed());
        post(&inbox, "b", "x").unwrap();
        assert!(watch.changed());
    }

    #[cfg(unix)]
    #[test]
    fn messages_are_for_the_owner() {
        use std::os::unix::fs::PermissionsExt;
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        let (_dir, inbox) = inbox();
        post(&inbox, "a", "x").unwrap();
        assert_eq!(mode(&inbox), 0o700);
        assert_eq!(mode(&inbox.join("a")), 0o600);
    }
}
