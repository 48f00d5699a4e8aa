//! A cgroup for each step, where this user may make cgroups: as root with a writable cgroup file system (version 2), or
//! in a part of it that belongs to the user. No process can leave its cgroup by itself, so the processes in it are the
//! step's, whatever they did to their environment, session, group and parents.
//!
//! A run has a folder of its own below Raymond's own cgroup, and in it a numbered cgroup for each step that runs. Making
//! one takes longer than starting a program, so it is used again by a later step once it is empty, unless it was killed. One in which a
//! successful step has left background children is not empty, and so it is left alone.
//!
//! Nothing depends on it: wherever something about cgroups fails, processes are found in the other ways. Bounds: as many
//! cgroups as steps that run at once, and one for each step whose background children still live.

use std::collections::VecDeque;
use std::fs::{self, File};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rustix::fs::{CWD, FlockOperation, Mode, OFlags};
use rustix::process::{Pid, Signal};

use super::table;
use crate::files;

/// Set to `off`, cgroups are not used.
const VARIABLE: &str = "RAYMOND_CGROUP";

/// How the folders of runs begin.
const PREFIX: &str = "raymond-";

/// How long the part of their names is that differs from process to process.
const MARK_LETTERS: usize = 8;

/// `CGROUP2_SUPER_MAGIC`, the number of the file system.
const FILE_SYSTEM: u64 = 0x6367_7270;

/// How many cgroups are looked at for one that is empty before another one is made.
const LOOKS: usize = 4;

/// How deep cgroups are looked into. A step that runs Raymond itself adds two levels.
const MAX_DEPTH: u32 = 16;

/// The file beside the hints of a run that tells the next process where the run's cgroups are: the path, and the host.
const NOTE: &str = "cgroup";
const MAX_NOTE_BYTES: u64 = 16 * 1024;

/// The cgroups of a run.
#[derive(Debug)]
pub struct Cgroups {
    home: Arc<Home>,
}

#[derive(Debug)]
struct Home {
    path: PathBuf,
    /// What distinguishes it from the folders of other processes.
    mark: String,
    note: PathBuf,
    /// Locked as long as this process uses it, so that no other process clears it away.
    _lock: OwnedFd,
    slots: Mutex<Slots>,
}

#[derive(Debug, Default)]
struct Slots {
    made: u32,
    /// Those that no step uses. There may still be background children in them.
    resting: VecDeque<u32>,
    /// The kernel did not start a program in one of them.
    is_refused: bool,
}

/// The cgroup of a step.
#[derive(Debug)]
pub struct Cgroup {
    path: PathBuf,
    /// The folder's mark and the number in it.
    name: String,
    /// Where it is given back to; none if an earlier process made it.
    home: Option<(Arc<Home>, u32)>,
    /// Whether it may not be used again.
    was_killed: AtomicBool,
}

impl Cgroups {
    /// Makes the folder of a run, if this user may, and notes it in the run's folder for files of steps. Folders that are
    /// no longer used are cleared away.
    pub fn open(run: &str, scratch: &Path) -> Option<Self> {
        let note = scratch.join(NOTE);
        if let Some(earlier) = noted_folder(scratch) {
            clear_away(&earlier);
        }
        let made = own_folder().filter(|_| is_wanted()).and_then(|own| {
            clear_siblings(&own);
            Home::make(&own, run, note.clone()).ok()
        });
        if made.is_none() {
            let _ = fs::remove_file(note);
        }
        made.map(|home| Cgroups { home: Arc::new(home) })
    }

    /// An empty cgroup for the next step; none if there is no such thing at the moment.
    pub(super) fn take(&self) -> Option<Arc<Cgroup>> {
        let home = &self.home;
        let mut slots = home.slots();
        if slots.is_refused {
            return None;
        }
        let number = home.rested(&mut slots).or_else(|| home.another(&mut slots))?;
        Some(Arc::new(Cgroup {
            path: home.path.join(number.to_string()),
            name: format!("{}/{number}", home.mark),
            home: Some((Arc::clone(home), number)),
            was_killed: AtomicBool::new(false),
        }))
    }
}

impl Home {
    fn make(own: &Path, run: &str, note: PathBuf) -> io::Result<Self> {
        let mark = format!("{:08x}", uuid::Uuid::new_v4().as_fields().0);
        let path = own.join(format!("{PREFIX}{run}-{mark}"));
        let host = table::host().ok_or(io::ErrorKind::Unsupported)?;
        make(&path)?;
        let home = || {
            let lock = lock(&path)?;
            files::create_private_folders(note.parent().ok_or(io::ErrorKind::InvalidInput)?)?;
            files::write_private(&note, format!("{}\n{host}\n", text(&path)?).as_bytes())?;
            Ok(Home { path: path.clone(), mark, note, _lock: lock, slots: Mutex::default() })
        };
        home().inspect_err(|_| drop(fs::remove_dir(&path)))
    }

    fn slots(&self) -> MutexGuard<'_, Slots> {
        self.slots.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// One that was used before and is empty.
    fn rested(&self, slots: &mut Slots) -> Option<u32> {
        for _ in 0..LOOKS.min(slots.resting.len()) {
            let number = slots.resting.pop_front()?;
            let path = self.path.join(number.to_string());
            if is_empty(&path) {
                return Some(number);
            }
            // One that another process has killed is gone.
            if path.is_dir() {
                slots.resting.push_back(number);
            }
        }
        None
    }

    fn another(&self, slots: &mut Slots) -> Option<u32> {
        make(&self.path.join(slots.made.to_string())).ok()?;
        slots.made += 1;
        Some(slots.made - 1)
    }
}

impl Drop for Home {
    /// What is not empty stays, for the background children in it. A later process clears it away.
    fn drop(&mut self) {
        remove(&self.path, MAX_DEPTH);
    }
}

impl Cgroup {
    /// The cgroup of a step of an earlier process, by its name in a hint.
    pub fn left_behind(scratch: &Path, name: &str) -> Option<Arc<Self>> {
        let (mark, number) = name.split_once('/')?;
        let number: u32 = number.parse().ok()?;
        let home = noted_folder(scratch)?;
        let is_named = home.file_name()?.to_str()?.strip_suffix(mark)?.ends_with('-');
        let path = home.join(number.to_string());
        (is_named && path.is_dir() && !contains_raymond(&path)).then(|| {
            Arc::new(Cgroup { path, name: name.to_owned(), home: None, was_killed: AtomicBool::new(false) })
        })
    }

    /// What a later process of the run finds it by.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The folder, to start a program in.
    pub(super) fn open(&self) -> io::Result<OwnedFd> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        Ok(rustix::fs::openat(CWD, &self.path, flags, Mode::empty())?)
    }

    /// The kernel did not start a program in it, so no other is tried.
    pub(super) fn refuse(&self) {
        if let Some((home, _)) = &self.home {
            home.slots().is_refused = true;
            let _ = fs::remove_file(&home.note);
        }
    }

    /// The living processes in it, and in cgroups that a step made below it.
    pub(super) fn pids(&self) -> Vec<i32> {
        let mut pids = Vec::new();
        collect_pids(&self.path, MAX_DEPTH, &mut pids);
        pids
    }

    /// Kills everything in it at once; no process can escape that by starting another. Returns whether there was
    /// anything.
    pub(super) fn kill(&self) -> bool {
        if is_empty(&self.path) {
            return false;
        }
        self.was_killed.store(true, Ordering::Relaxed);
        if write(&self.path, "cgroup.kill", "1").is_err() {
            self.kill_each();
        }
        true
    }

    /// For kernels before 5.14. While the processes are frozen they start no others, and can be killed.
    fn kill_each(&self) {
        let _ = write(&self.path, "cgroup.freeze", "1");
        for pid in self.pids().into_iter().filter_map(Pid::from_raw) {
            let _ = rustix::process::kill_process(pid, Signal::KILL);
        }
        let _ = write(&self.path, "cgroup.freeze", "0");
    }
}

impl PartialEq for Cgroup {
    fn eq(&self, other: &Self) -> bool {
        self.path == other.path
    }
}

impl Eq for Cgroup {}

impl Drop for Cgroup {
    fn drop(&mut self) {
        // Some kernels kill every process that is started in a cgroup after that cgroup was killed once. So it must not be
        // there for the process that has made it, either.
        if self.was_killed.load(Ordering::Relaxed) {
            remove(&self.path, MAX_DEPTH);
        } else if let Some((home, number)) = &self.home {
            home.slots().resting.push_back(*number);
        }
    }
}

/// Whether the last process of a run had cgroups.
pub(super) fn is_noted(scratch: &Path) -> bool {
    note_in(scratch).is_some()
}

/// The folder with the cgroups of an earlier process of the run, if it is of this start of this host.
fn noted_folder(scratch: &Path) -> Option<PathBuf> {
    let (path, host) = note_in(scratch)?;
    let path = PathBuf::from(path);
    let is_ours = path.file_name()?.to_str()?.starts_with(PREFIX);
    (is_ours && host == table::host()? && is_in_cgroup_file_system(&path)).then_some(path)
}

fn note_in(scratch: &Path) -> Option<(String, String)> {
    let note = String::from_utf8(files::read(&scratch.join(NOTE), MAX_NOTE_BYTES).ok()?).ok()?;
    let (path, host) = note.trim_end().rsplit_once('\n')?;
    Some((path.to_owned(), host.to_owned()))
}

fn is_wanted() -> bool {
    std::env::var_os(VARIABLE).is_none_or(|value| value != "off")
}

/// Whether this user may make cgroups here.
pub(super) fn is_possible() -> bool {
    let Some(own) = own_folder().filter(|_| is_wanted()) else { return false };
    let probe = own.join(format!("{PREFIX}probe-{}", std::process::id()));
    let is_made = make(&probe).is_ok();
    let _ = fs::remove_dir(probe);
    is_made
}

/// The folder of Raymond's own cgroup.
fn own_folder() -> Option<PathBuf> {
    let mounts = mounts()?;
    let own = own_path()?;
    folder_of(&own, &mounts).filter(|folder| is_in_cgroup_file_system(folder))
}

/// Whether a process is in a cgroup of a run: below the noted folder or, if the run's id is given, in a folder that is
/// named after it. What steps have left in the cgroups of an earlier process of the run is only found by that name.
pub(super) fn holds(scratch: &Path, run: Option<&str>, pid: i32) -> bool {
    let Some(path) = path_of(&pid.to_string()) else { return false };
    let is_named = |name: &str, run: &str| {
        let mark = name.strip_prefix(PREFIX).and_then(|rest| rest.strip_prefix(run)?.strip_prefix('-'));
        mark.is_some_and(|mark| {
            mark.len() == MARK_LETTERS && mark.bytes().all(|byte| byte.is_ascii_hexdigit())
        })
    };
    if run.is_some_and(|run| path.split('/').any(|name| is_named(name, run))) {
        return true;
    }
    let Some(home) = noted_folder(scratch) else { return false };
    let Some(mounts) = mounts() else { return false };
    folder_of(&path, &mounts).is_some_and(|folder| folder.starts_with(home))
}

fn mounts() -> Option<String> {
    files::read_text(Path::new("/proc/self/mountinfo"), files::MAX_GIVEN_BYTES).ok()
}

/// Raymond's own cgroup, as the kernel names it.
fn own_path() -> Option<String> {
    path_of("self")
}

/// The cgroup of a process, as the kernel names it.
fn path_of(pid: &str) -> Option<String> {
    let path = format!("/proc/{pid}/cgroup");
    let cgroups = files::read_text(Path::new(&path), files::MAX_GIVEN_BYTES).ok()?;
    cgroups.lines().find_map(|line| line.strip_prefix("0::")).map(str::to_owned)
}

/// Where a cgroup is mounted, by the lines of `/proc/self/mountinfo`: `… ROOT FOLDER OPTIONS … - TYPE SOURCE OPTIONS`.
fn folder_of(cgroup: &str, mounts: &str) -> Option<PathBuf> {
    mounts.lines().find_map(|line| {
        let (mount, file_system) = line.split_once(" - ")?;
        if !file_system.starts_with("cgroup2 ") {
            return None;
        }
        let mut fields = mount.split(' ').skip(3);
        let (root, folder) = (fields.next()?, fields.next()?);
        let below = Path::new(cgroup).strip_prefix(root).ok()?;
        // A folder whose name has blanks is written with escapes. It is not used.
        (!folder.contains('\\')).then(|| Path::new(folder).join(below))
    })
}

fn is_in_cgroup_file_system(folder: &Path) -> bool {
    rustix::fs::statfs(folder)
        .is_ok_and(|found| u64::try_from(found.f_type).is_ok_and(|it| it == FILE_SYSTEM))
}

/// Whether this process is in the cgroup: a step may itself resume the run that it was a part of.
fn contains_raymond(cgroup: &Path) -> bool {
    own_folder().is_none_or(|own| own.starts_with(cgroup))
}

fn is_empty(cgroup: &Path) -> bool {
    files::read(&cgroup.join("cgroup.events"), files::MAX_GIVEN_BYTES)
        .is_ok_and(|events| events.starts_with(b"populated 0"))
}

fn write(cgroup: &Path, file: &str, text: &str) -> io::Result<()> {
    use io::Write;
    files::open_plain_as(File::options().write(true), &cgroup.join(file))?.write_all(text.as_bytes())
}

fn collect_pids(cgroup: &Path, depth: u32, pids: &mut Vec<i32>) {
    let listed = files::read_text(&cgroup.join("cgroup.procs"), files::MAX_GIVEN_BYTES).unwrap_or_default();
    // Processes that cannot be seen from here are listed as 0.
    pids.extend(listed.lines().filter_map(|pid| pid.parse::<i32>().ok()).filter(|pid| *pid > 1));
    if let Some(depth) = depth.checked_sub(1) {
        below(cgroup).for_each(|cgroup| collect_pids(&cgroup, depth, pids));
    }
}

/// The cgroups in a cgroup. Everything else in its folder is a file.
fn below(cgroup: &Path) -> impl Iterator<Item = PathBuf> {
    let entries = fs::read_dir(cgroup).into_iter().flatten().flatten();
    entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir())).map(|entry| entry.path())
}

/// Makes a cgroup in which the kernel does not keep account of pressure: that would make each switch between processes
/// slower.
fn make(cgroup: &Path) -> io::Result<()> {
    fs::create_dir(cgroup)?;
    // Kernels before 6.1 do not have it.
    let _ = write(cgroup, "cgroup.pressure", "0");
    Ok(())
}

/// Removes a cgroup with all below it, except those with processes in them and above those.
fn remove(cgroup: &Path, depth: u32) {
    if let Some(depth) = depth.checked_sub(1) {
        below(cgroup).for_each(|cgroup| remove(&cgroup, depth));
    }
    let _ = fs::remove_dir(cgroup);
}

/// Clears away what Raymonds have left behind that were killed, or whose steps left background children.
fn clear_siblings(own: &Path) {
    below(own).filter(|folder| is_of_a_run(folder)).for_each(|folder| clear_away(&folder));
}

fn is_of_a_run(folder: &Path) -> bool {
    folder.file_name().and_then(|name| name.to_str()).is_some_and(|name| name.starts_with(PREFIX))
}

/// Removes the folder of a run if no process uses it.
fn clear_away(folder: &Path) {
    if lock(folder).is_ok() {
        remove(folder, MAX_DEPTH);
    }
}

/// Fails if another process has it.
fn lock(folder: &Path) -> io::Result<OwnedFd> {
    let opened = OwnedFd::from(files::open_folder(folder)?);
    rustix::fs::flock(opened.as_fd(), FlockOperation::NonBlockingLockExclusive)?;
    Ok(opened)
}

fn text(path: &Path) -> io::Result<&str> {
    path.to_str().ok_or_else(|| io::ErrorKind::InvalidInput.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_own_cgroup_is_found_in_every_kind_of_mount() {
        let line = |root: &str, folder: &str, kind: &str| {
            format!("35 24 0:30 {root} {folder} rw,nosuid shared:9 - {kind} cgroup2 rw\n")
        };
        let version_1 = line("/", "/sys/fs/cgroup/memory", "cgroup");
        let own = "/user.slice/a.scope";
        let found = |mounts: &str| folder_of(own, mounts);
        let hybrid = version_1.clone() + &line("/", "/sys/fs/cgroup/unified", "cgroup2");
        assert_eq!(found(&hybrid), Some("/sys/fs/cgroup/unified/user.slice/a.scope".into()));
        let of_a_part = line("/other.slice", "/mnt", "cgroup2") + &line("/user.slice", "/cg", "cgroup2");
        assert_eq!(found(&of_a_part), Some("/cg/a.scope".into()));
        assert_eq!(folder_of("/", &line("/", "/sys/fs/cgroup", "cgroup2")), Some("/sys/fs/cgroup/".into()));
        assert_eq!(found(&version_1), None);
        assert_eq!(found(&line("/", "/with\\040blank", "cgroup2")), None);
        assert_eq!(found(&line("/..", "/sys/fs/cgroup", "cgroup2")), None, "outside this namespace");
        assert_eq!(found("damaged\n"), None);
    }

    #[test]
    fn one_that_another_process_has_killed_is_not_used_again() {
        if !is_possible() {
            let (test, need) = ("the reuse of a cgroup", "a writable cgroup file system (version 2)");
            return test_kit::needs::say_skipped(test, need);
        }
        let folder = tempfile::tempdir().unwrap();
        let cgroups = Cgroups::open("killed", folder.path()).unwrap();
        let taken = cgroups.take().unwrap();
        let name = taken.name().to_owned();
        let mut child = std::process::Command::new("sleep").arg("317").spawn().unwrap();
        write(&taken.path, "cgroup.procs", &child.id().to_string()).unwrap();
        let elsewhere = Cgroup::left_behind(folder.path(), &name).unwrap();
        assert!(elsewhere.kill());
        child.wait().unwrap();
        drop((elsewhere, taken));
        let next = cgroups.take().unwrap();
        assert_ne!(next.name(), name);
        assert!(cgroups.home.slots().resting.is_empty(), "what is gone is not looked at again");
    }

    #[test]
    fn a_note_that_leads_elsewhere_counts_for_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let scratch = folder.path();
        let home = scratch.join("raymond-r-0a0b0c0d");
        fs::create_dir_all(home.join("0")).unwrap();
        fs::write(scratch.join(NOTE), format!("{}\n{}\n", home.display(), table::host().unwrap())).unwrap();
        assert!(is_noted(scratch));
        assert_eq!(noted_folder(scratch), None, "no file system of cgroups");
        assert_eq!(Cgroup::left_behind(scratch, "0a0b0c0d/0"), None);
        for damaged in [&b""[..], b"/sys", b"\xff\n\xff\n", b"relative\nhost\n"] {
            fs::write(scratch.join(NOTE), damaged).unwrap();
            assert_eq!(noted_folder(scratch), None);
        }
    }
}
