//! The lease of a run: the lock file `RUN.lock`.
//!
//! The system releases the lock when its holder dies, however it dies, so a lock is never stale. The file is never
//! renamed or deleted: otherwise two processes could lock two different files of the same name, and both would write
//! the run. A user or a step may delete it all the same, so the holder also locks the first segment of the journal,
//! where the system allows others to read a locked file. The text in the file only tells people which process holds the lock. On Windows a locked file cannot be
//! read, so that text is in `RUN.holder` beside it.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use super::disk::{is_at, private_options};
use super::place::RunPaths;
use crate::files::{open_plain, open_plain_as};
use crate::store::error::StoreError;
use crate::store::home::{Holder, Lease, pid_namespace};

/// How long taking the lock is tried. A process that only asks whether a run is live holds it for a moment.
const PATIENCE: Duration = Duration::from_millis(1000);

/// How long it is tried if the holder named in the file is dead. A child process that it had just forked has inherited
/// the lock and holds it until it executes its program.
const PATIENCE_WITH_THE_DEAD: Duration = Duration::from_secs(30);

/// How long to wait between two tries.
const PAUSE: Duration = Duration::from_millis(5);

/// The text about a holder is always shorter.
const MAX_HOLDER_BYTES: u64 = 4096;

/// The right to write a run, until it is dropped or the process ends.
#[derive(Debug)]
pub struct RunLock {
    /// Closing it releases the lock.
    file: File,
    /// The first segment of the journal, locked as well.
    journal: Option<File>,
    path: PathBuf,
    incarnation: String,
}

impl RunLock {
    /// Takes the lock of a run that may exist already. The journal comes first, so that a process that is refused does
    /// not create the lock file anew.
    pub fn of_run(paths: &RunPaths) -> Result<Self, StoreError> {
        let journal = lock_journal(paths)?;
        Ok(Self { journal, ..Self::acquire(&paths.lock())? })
    }

    /// Locks the journal too, if it was just created.
    pub fn include_journal(&mut self, paths: &RunPaths) -> Result<(), StoreError> {
        if self.journal.is_none() {
            self.journal = lock_journal(paths)?;
        }
        Ok(())
    }

    /// Whether the lock file is still the one that is locked. Otherwise another process can lock the new one.
    pub fn is_in_place(&self) -> bool {
        is_at(&self.file, &self.path)
    }

    /// Takes the lock, creating its file; the folder exists.
    pub fn acquire(path: &Path) -> Result<Self, StoreError> {
        let io = |error| StoreError::io(path.display(), "lock", error);
        let mut options = private_options();
        let options = options.read(true).write(true).create(true).truncate(false);
        let file = open_plain_as(options, path).map_err(io)?;
        let mut said = holder_file(path, &file, options).map_err(io)?;
        if !lock_patiently(&file, &mut said).map_err(io)? {
            let run = path.file_stem().unwrap_or_default().display().to_string();
            return Err(StoreError::Held { run, holder: read_holder(&mut said) });
        }
        let incarnation = uuid::Uuid::new_v4().to_string();
        write_holder(&mut said, &incarnation).map_err(io)?;
        Ok(Self { file, journal: None, path: path.to_owned(), incarnation })
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    pub fn incarnation(&self) -> &str {
        &self.incarnation
    }
}

impl Lease for RunLock {}

/// Locks the first segment of a run's journal, if it is there.
#[cfg(unix)]
fn lock_journal(paths: &RunPaths) -> Result<Option<File>, StoreError> {
    let path = paths.segment(0);
    let io = |error| StoreError::io(path.display(), "lock", error);
    let file = match open_plain(&path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        other => other.map_err(io)?,
    };
    // Without a lock file it is not known which process the holder is.
    let mut said = open_plain(&paths.lock()).or_else(|_| file.try_clone()).map_err(io)?;
    match lock_patiently(&file, &mut said).map_err(io)? {
        true => Ok(Some(file)),
        false => Err(StoreError::Held { run: paths.id().to_owned(), holder: read_holder(&mut said) }),
    }
}

/// Here no other process could read a journal that is locked, and a file that is open keeps its name.
#[cfg(windows)]
fn lock_journal(_paths: &RunPaths) -> Result<Option<File>, StoreError> {
    Ok(None)
}

/// The file that tells who the holder is: the one that is locked.
#[cfg(unix)]
fn holder_file(_path: &Path, lock: &File, _options: &OpenOptions) -> io::Result<File> {
    lock.try_clone()
}

/// Here no other process can read a file that is locked, so it is one beside it.
#[cfg(windows)]
fn holder_file(path: &Path, _lock: &File, options: &OpenOptions) -> io::Result<File> {
    open_plain_as(&mut options.clone(), &path.with_extension("holder"))
}

/// False if a living process holds the lock for longer than asking takes.
fn lock_patiently(file: &File, said: &mut File) -> io::Result<bool> {
    let begin = Instant::now();
    loop {
        match file.try_lock() {
            Ok(()) => return Ok(true),
            Err(TryLockError::Error(error)) => return Err(error),
            Err(TryLockError::WouldBlock) if begin.elapsed() < PATIENCE => {}
            Err(TryLockError::WouldBlock) => {
                let may_end = begin.elapsed() < PATIENCE_WITH_THE_DEAD && is_known_dead(&read_holder(said));
                if !may_end {
                    return Ok(false);
                }
            }
        }
        std::thread::sleep(PAUSE);
    }
}

fn write_holder(file: &mut File, incarnation: &str) -> io::Result<()> {
    let holder = Holder {
        pid: Some(std::process::id()),
        pid_namespace: pid_namespace(),
        incarnation: Some(incarnation.to_owned()),
        since: Some(crate::clock::now().to_string()),
    };
    let mut text = serde_json::to_string(&holder)?;
    text.push('\n');
    file.seek(SeekFrom::Start(0))?;
    file.write_all(text.as_bytes())?;
    // What an earlier holder wrote may be longer. Cut afterwards, and only if needed: a file that is emptied first is
    // sent to the disk by some file systems as soon as it is closed.
    let length = text.len() as u64;
    if file.metadata()?.len() > length { file.set_len(length) } else { Ok(()) }
}

/// If the text is missing or half written, the holder is unknown. The lock is held all the same.
fn read_holder(file: &mut File) -> Holder {
    let mut text = String::new();
    let read =
        file.seek(SeekFrom::Start(0)).and_then(|_| file.take(MAX_HOLDER_BYTES).read_to_string(&mut text));
    match read {
        Ok(_) => serde_json::from_str(&text).unwrap_or_default(),
        Err(_) => Holder::default(),
    }
}

/// The process that holds a run's lock, if there is one. Creates nothing.
pub fn holder_of(paths: &RunPaths) -> io::Result<Option<Holder>> {
    let lock = paths.lock();
    match cfg!(unix) && !lock.exists() {
        // A live run whose lock file was deleted still holds its journal.
        true => is_live(&paths.segment(0)),
        false => is_live(&lock),
    }
}

/// The process that holds a lock, if there is one.
fn is_live(path: &Path) -> io::Result<Option<Holder>> {
    let file = match open_plain(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        other => other?,
    };
    match file.try_lock_shared() {
        Ok(()) => Ok(None),
        Err(TryLockError::WouldBlock) => {
            let said = holder_file(path, &file, File::options().read(true));
            let holder = said.map_or_else(|_| Holder::default(), |mut said| read_holder(&mut said));
            Ok(Some(holder).filter(|holder| !is_known_dead(holder)))
        }
        Err(TryLockError::Error(error)) => Err(error),
    }
}

/// Whether the holder has died. A child that it had just forked may hold the lock for a moment longer.
#[cfg(unix)]
fn is_known_dead(holder: &Holder) -> bool {
    if !holder.is_in_this_namespace() {
        return false;
    }
    let pid = holder.pid.and_then(|pid| i32::try_from(pid).ok()).and_then(rustix::process::Pid::from_raw);
    pid.is_some_and(|pid| rustix::process::test_kill_process(pid) == Err(rustix::io::Errno::SRCH))
}

/// Children do not inherit locks here, so a lock that is held has a living holder.
#[cfg(windows)]
fn is_known_dead(_holder: &Holder) -> bool {
    false
}

#[cfg(test)]
mod tests {
    use super::*;
    use tempfile::tempdir;

    #[test]
    fn the_second_is_refused_and_told_who_is_first() {
        let dir = tempdir().unwrap();
        let path = dir.path().join("r.lock");
        let first = RunLock::acquire(&path).unwrap();
        let error = RunLock::acquire(&path).unwrap_err();
        let expected = format!("another Raymond is running r (process {})", std::process::id());
        assert_eq!(error.to_string(), expected);
        let StoreError::Held { holder, .. } = error else { panic!() };
        assert_eq!(holder.incarnation.as_deref(), Some(first.incarnation()));
        drop(first);
        let second = RunLock::acquire(&path).unwrap();
        assert_ne!(Some(second.incarnation()), holder.incarnation.as_deref());
    }

    /// A pid of another container says nothing here.
    #[cfg(target_os = "linux")]
    #[test]
    fn who_lives_elsewhere_is_not_known_to_be_dead() {
        let nobody = Holder { pid: Some(i32::MAX.unsigned_abs()), ..Holder::default() };
        assert!(is_known_dead(&nobody));
        assert!(is_known_dead(&Holder { pid_namespace: pid_namespace(), ..nobody.clone() }));
        assert!(!is_known_dead(&Holder { pid_namespace: Some("pid:[1]".to_owned()), ..nobody }));
    }

    #[test]
    fn liveness_is_seen_and_leaves_no_trace() {
        let dir = tempdir().unwrap();
        let path = dir.path().join("r.lock");
        assert_eq!(is_live(&path).unwrap(), None);
        assert!(!path.exists());
        let lock = RunLock::acquire(&path).unwrap();
        assert_eq!(is_live(&path).unwrap().unwrap().pid, Some(std::process::id()));
        drop(lock);
        // A program that another test is about to start may hold it for a moment longer.
        let begin = Instant::now();
        while is_live(&path).unwrap().is_some() {
            assert!(begin.elapsed() < PATIENCE_WITH_THE_DEAD, "it is still held");
        }
        assert!(path.exists());
    }

    #[test]
    fn a_look_in_passing_does_not_keep_a_run_from_starting() {
        let dir = tempdir().unwrap();
        let path = dir.path().join("r.lock");
        drop(RunLock::acquire(&path).unwrap());
        let looking = File::open(&path).unwrap();
        looking.lock_shared().unwrap();
        let thread = std::thread::spawn(move || drop(looking));
        RunLock::acquire(&path).unwrap();
        thread.join().unwrap();
    }

    #[cfg(unix)]
    #[test]
    fn what_is_left_of_a_dead_holder_is_waited_for() {
        let dir = tempdir().unwrap();
        let path = dir.path().join("r.lock");
        let mut dead = std::process::Command::new("true").spawn().unwrap();
        dead.wait().unwrap();
        std::fs::write(&path, format!("{{\"pid\":{}}}\n", dead.id())).unwrap();
        let left = File::open(&path).unwrap();
        left.lock().unwrap();
        let begin = Instant::now();
        let thread = std::thread::spawn(move || {
            std::thread::sleep(PATIENCE + Duration::from_millis(300));
            drop(left);
        });
        RunLock::acquire(&path).unwrap();
        assert!(begin.elapsed() > PATIENCE);
        thread.join().unwrap();
    }

    #[test]
    fn a_half_written_holder_is_unknown_but_live() {
        let dir = tempdir().unwrap();
        let path = dir.path().join("r.lock");
        std::fs::write(&path, "{\"pid\":1").unwrap();
        let held = File::open(&path).unwrap();
        held.lock().unwrap();
        assert_eq!(is_live(&path).unwrap(), Some(Holder::default()));
    }

    #[cfg(unix)]
    #[test]
    fn the_file_is_for_the_owner() {
        use std::os::unix::fs::PermissionsExt;
        let dir = tempdir().unwrap();
        let path = dir.path().join("r.lock");
        let _lock = RunLock::acquire(&path).unwrap();
        assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    }
}
