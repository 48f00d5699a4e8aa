//! The inbox of a run as files in `RUN.in/`.
//!
//! A message is written under a temporary name and then gets its own. So it is read whole or not at all, and of
//! several with one name the first stays. That works whether a Raymond runs or not.
//! Bounds: [`MAX_MESSAGE_BYTES`] a message, [`MAX_MESSAGES_AT_ONCE`] read in one go.

use std::fs::DirEntry;
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use super::disk::{create_private_dir, private_options, remove_if_there, sync_dir};
use crate::files::{name_first, open_plain, open_plain_as};
use crate::store::error::StoreError;
use crate::store::inbox::{
    Content, Inbox, MAX_MESSAGE_BYTES, MAX_MESSAGES_AT_ONCE, Message, Posted, Watch, is_message_name,
};

/// How coarse the times of a file system may be.
const TIME_GRAIN: Duration = Duration::from_secs(2);

/// The messages of one run.
#[derive(Clone, Debug)]
pub struct InboxFolder {
    dir: PathBuf,
    /// Whether it takes and gives no messages: that of a run that does not count.
    is_closed: bool,
}

impl InboxFolder {
    /// The folder is created with the first message.
    pub fn new(dir: impl Into<PathBuf>) -> Self {
        Self { dir: dir.into(), is_closed: false }
    }

    /// The same without messages, and without a way to leave one.
    #[must_use]
    pub fn closed(self) -> Self {
        Self { is_closed: true, ..self }
    }

    fn failed(&self, action: &'static str) -> impl FnOnce(io::Error) -> StoreError {
        let place = self.dir.display().to_string();
        move |error| StoreError::io(place, action, error)
    }
}

impl Inbox for InboxFolder {
    fn post(&self, name: &str, content: &str) -> Result<Posted, StoreError> {
        if self.is_closed {
            let why =
                io::Error::new(io::ErrorKind::PermissionDenied, "the run was not made here by your Raymond");
            return Err(self.failed("write to")(why));
        }
        post(&self.dir, name, content).map_err(self.failed("write to"))
    }

    fn messages(&self) -> Result<Vec<Message>, StoreError> {
        match self.is_closed {
            true => Ok(Vec::new()),
            false => messages(&self.dir).map_err(self.failed("read")),
        }
    }

    fn contains(&self, name: &str) -> bool {
        !self.is_closed && is_message_name(name) && self.dir.join(name).exists()
    }

    fn posted_at(&self, name: &str) -> Option<SystemTime> {
        let path = Some(self.dir.join(name)).filter(|_| !self.is_closed && is_message_name(name))?;
        path.metadata().and_then(|data| data.modified()).ok()
    }

    fn remove(&self, name: &str) -> Result<(), StoreError> {
        if self.is_closed {
            return Ok(());
        }
        let removed = check_name(name).and_then(|()| remove_if_there(&self.dir.join(name)));
        removed.map_err(self.failed("remove a message from"))
    }

    fn watch(&self) -> Box<dyn Watch> {
        Box::new(FolderWatch { dir: self.dir.clone(), seen: None, settled: false })
    }
}

/// Leaves a message, creating the folder; on disk when this returns.
fn post(dir: &Path, name: &str, content: &str) -> io::Result<Posted> {
    check_name(name)?;
    if content.len() as u64 > MAX_MESSAGE_BYTES {
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, "the message is too long"));
    }
    create_private_dir(dir)?;
    let unfinished = dir.join(format!(".{}.tmp", uuid::Uuid::new_v4()));
    let linked = write_and_link(&unfinished, &dir.join(name), content);
    // Removed in any case. An error from linking is reported first.
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
    let mut file = open_plain_as(private_options().write(true).create_new(true), unfinished)?;
    file.write_all(content.as_bytes())?;
    file.sync_all()?;
    name_first(unfinished, path)
}

/// Names must stay within the folder.
fn check_name(name: &str) -> io::Result<()> {
    match is_message_name(name) {
        true => Ok(()),
        false => Err(io::Error::new(io::ErrorKind::InvalidInput, "this cannot be the name of a message")),
    }
}

/// The messages that wait, oldest first; they stay until they are removed.
fn messages(dir: &Path) -> io::Result<Vec<Message>> {
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

/// None for what is not a message: unfinished ones, folders, links and pipes, names that cannot be posted.
fn age_and_name(entry: &DirEntry) -> Option<(SystemTime, String)> {
    let name = entry.file_name().into_string().ok()?;
    let name = Some(name).filter(|name| is_message_name(name))?;
    let data = entry.metadata().ok().filter(|data| data.is_file())?;
    Some((data.modified().unwrap_or(SystemTime::UNIX_EPOCH), name))
}

/// None if it was removed meanwhile.
fn read_message(path: &Path) -> Option<Content> {
    let mut bytes = Vec::new();
    let read = open_plain(path).and_then(|file| {
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

/// Looks at the time of the folder.
#[derive(Debug)]
struct FolderWatch {
    dir: PathBuf,
    seen: Option<SystemTime>,
    /// Whether a change after the last look would have shown in the folder's time.
    settled: bool,
}

impl Watch for FolderWatch {
    /// Two changes within one tick of the file system's clock leave the same time. So a folder that changed just now
    /// counts as changed again until that tick is safely over.
    fn changed(&mut self) -> bool {
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

    fn inbox() -> (TempDir, InboxFolder) {
        let dir = tempdir().unwrap();
        let inbox = InboxFolder::new(dir.path().join("r.in"));
        (dir, inbox)
    }

    fn text(name: &str, content: &str) -> Message {
        Message { name: name.to_owned(), content: Content::Text(content.to_owned()) }
    }

    fn set_age(path: &Path, seconds: u64) {
        let time = SystemTime::now() - Duration::from_secs(seconds);
        fs::File::open(path).unwrap().set_modified(time).unwrap();
    }

    #[test]
    fn messages_come_oldest_first() {
        let (_dir, inbox) = inbox();
        for (name, age) in [("a", 10), ("b", 30), ("c", 20)] {
            inbox.post(name, name).unwrap();
            set_age(&inbox.dir.join(name), age);
        }
        let names: Vec<String> = inbox.messages().unwrap().into_iter().map(|message| message.name).collect();
        assert_eq!(names, ["b", "c", "a"]);
    }

    #[test]
    fn what_is_no_message_is_passed_over() {
        let (_dir, inbox) = inbox();
        inbox.post("good", "x").unwrap();
        fs::write(inbox.dir.join(".half.tmp"), "x").unwrap();
        fs::write(inbox.dir.join("a b"), "x").unwrap();
        fs::create_dir(inbox.dir.join("folder")).unwrap();
        #[cfg(unix)]
        std::os::unix::fs::symlink("/etc/passwd", inbox.dir.join("link")).unwrap();
        assert_eq!(inbox.messages().unwrap(), [text("good", "x")]);
    }

    #[test]
    fn too_long_and_unreadable_messages_are_told() {
        let (_dir, inbox) = inbox();
        let longest = "x".repeat(MAX_MESSAGE_BYTES as usize);
        inbox.post("longest", &longest).unwrap();
        assert!(inbox.post("too-long", &format!("{longest}x")).is_err());
        fs::write(inbox.dir.join("huge"), format!("{longest}xyz")).unwrap();
        fs::write(inbox.dir.join("latin"), b"\xe4").unwrap();
        let mut found = inbox.messages().unwrap();
        found.sort_by(|a, b| a.name.cmp(&b.name));
        assert_eq!(found[0].content, Content::TooLong { bytes: MAX_MESSAGE_BYTES + 3 });
        assert_eq!(found[1].content, Content::NotUtf8);
        assert_eq!(found[2].content, Content::Text(longest));
    }

    #[test]
    fn a_flood_is_read_in_parts() {
        let (_dir, inbox) = inbox();
        fs::create_dir(&inbox.dir).unwrap();
        for number in 0..MAX_MESSAGES_AT_ONCE + 1 {
            fs::write(inbox.dir.join(number.to_string()), "x").unwrap();
        }
        let first = inbox.messages().unwrap();
        assert_eq!(first.len(), MAX_MESSAGES_AT_ONCE);
        for message in first {
            inbox.remove(&message.name).unwrap();
        }
        assert_eq!(inbox.messages().unwrap().len(), 1);
    }

    #[test]
    fn names_stay_within_the_folder() {
        let (_dir, inbox) = inbox();
        for name in ["", ".x", "../x", "a/b", "a\0", &"x".repeat(129)] {
            assert!(inbox.post(name, "x").is_err());
            assert!(inbox.remove(name).is_err());
        }
        assert!(!inbox.dir.exists());
    }

    /// Elsewhere a folder's time cannot be set so easily.
    #[cfg(unix)]
    #[test]
    fn a_watch_tells_of_changes_and_then_rests() {
        let (_dir, inbox) = inbox();
        let mut watch = inbox.watch();
        assert!(!watch.changed());
        inbox.post("a", "x").unwrap();
        assert!(watch.changed());
        // The change is so fresh that another could hide behind the same time.
        assert!(watch.changed());
        set_age(&inbox.dir, 60);
        assert!(watch.changed());
        assert!(!watch.changed());
        inbox.post("b", "x").unwrap();
        assert!(watch.changed());
    }

    #[cfg(unix)]
    #[test]
    fn messages_are_for_the_owner() {
        use std::os::unix::fs::PermissionsExt;
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        let (_dir, inbox) = inbox();
        inbox.post("a", "x").unwrap();
        assert_eq!(mode(&inbox.dir), 0o700);
        assert_eq!(mode(&inbox.dir.join("a")), 0o600);
    }
}
