//! Where the files of a run lie, and how a run is found by its name.
//!
//! Finding creates nothing, so that commands that only look leave no trace; [`StateDir::create`]
//! is for those that start a run.

use std::collections::BTreeMap;
use std::error::Error;
use std::fmt;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

use super::disk::{Disk, SystemDisk, create_private_dir, excerpt, private_options};
use crate::paths::is_special_on_windows;

/// The folder that holds config and state of a project.
const HOME_NAME: &str = ".raymond";

/// The longest run id, in bytes.
const MAX_RUN_ID_BYTES: usize = 64;

/// How many run ids an error message lists.
const LISTED_RUNS: usize = 5;

/// The folder of the journals, which may not exist yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StateDir {
    path: PathBuf,
    /// The `.raymond` folder around it, unless the folder was named by the user.
    home: Option<PathBuf>,
}

/// One run in the list of all runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunEntry {
    pub id: String,
    /// When the journal was last written.
    pub modified: SystemTime,
    /// The newest segment, for [`super::read_segment`]; 0 is the first.
    pub last_segment: u32,
}

impl StateDir {
    /// The state folder that belongs to a working directory.
    ///
    /// That is the nearest `.raymond` upwards, looked for no higher than the folder that holds
    /// `.git`; where there is none, it is to be created beside `.git`, or else in `cwd`.
    pub fn find(cwd: &Path) -> io::Result<Self> {
        let cwd = std::path::absolute(cwd)?;
        let top = cwd.ancestors().find(|folder| folder.join(HOME_NAME).is_dir() || holds_git(folder));
        let home = top.unwrap_or(&cwd).join(HOME_NAME);
        Ok(Self { path: home.join("state"), home: Some(home) })
    }

    /// The state folder that the user named; journals lie directly in it.
    pub fn at(dir: impl Into<PathBuf>) -> Self {
        Self { path: dir.into(), home: None }
    }

    /// Where the journals lie.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The `.raymond` folder; none if the user named the state folder.
    pub fn home(&self) -> Option<&Path> {
        self.home.as_deref()
    }

    /// Creates what is missing of the folders, for the owner only.
    pub fn create(&self) -> io::Result<()> {
        self.create_home()?;
        create_private_dir(&self.path)
    }

    /// Creates `.raymond` with its own `.gitignore`, without the folder of the journals.
    pub fn create_home(&self) -> io::Result<()> {
        let Some(home) = &self.home else { return Ok(()) };
        create_private_dir(home)?;
        let ignore = private_options().write(true).create_new(true).open(home.join(".gitignore"));
        match ignore {
            Ok(mut file) => file.write_all(b"*\n"),
            // What the user made of it stays.
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// The paths of a run, whether it exists or not.
    pub fn run(&self, id: &str) -> Result<RunPaths, BadRunId> {
        check_run_id(id)?;
        Ok(RunPaths { dir: self.path.clone(), id: id.to_owned(), disk: Arc::new(SystemDisk) })
    }

    /// All runs, the one written last first.
    pub fn runs(&self) -> io::Result<Vec<RunEntry>> {
        let mut found: BTreeMap<String, RunEntry> = BTreeMap::new();
        let mut with_first_segment = Vec::new();
        for (id, segment, entry) in journal_files(&self.path)? {
            // A file can go between the listing and this look at it.
            let Ok(modified) = entry.metadata().and_then(|data| data.modified()) else {
                continue;
            };
            if segment == 0 {
                with_first_segment.push(id.clone());
            }
            let run = found.entry(id.clone()).or_insert(RunEntry { id, modified, last_segment: segment });
            run.modified = run.modified.max(modified);
            run.last_segment = run.last_segment.max(segment);
        }
        let mut runs: Vec<RunEntry> = with_first_segment.iter().filter_map(|id| found.remove(id)).collect();
        runs.sort_by(|a, b| (b.modified, &b.id).cmp(&(a.modified, &a.id)));
        Ok(runs)
    }

    /// The id of the run that was written last.
    pub fn latest(&self) -> io::Result<Option<String>> {
        Ok(self.runs()?.into_iter().next().map(|run| run.id))
    }

    /// The id that someone means who wrote an id or the unique start of one.
    pub fn lookup(&self, given: &str) -> Result<String, LookupError> {
        let ids: Vec<String> = self.runs().map_err(LookupError::Io)?.into_iter().map(|run| run.id).collect();
        if ids.iter().any(|id| id == given) {
            return Ok(given.to_owned());
        }
        let mut matches: Vec<String> = ids.iter().filter(|id| id.starts_with(given)).cloned().collect();
        match matches.len() {
            0 => Err(LookupError::Unknown { given: given.to_owned(), existing: ids }),
            1 => Ok(matches.remove(0)),
            _ => Err(LookupError::Ambiguous { given: given.to_owned(), matches }),
        }
    }
}

/// In a linked worktree or a submodule, `.git` is a file.
fn holds_git(folder: &Path) -> bool {
    folder.join(".git").exists()
}

/// Every journal file in a folder with its run and segment; none if there is no folder.
fn journal_files(dir: &Path) -> io::Result<Vec<(String, u32, std::fs::DirEntry)>> {
    let entries = match std::fs::read_dir(dir) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        other => other?,
    };
    let mut files = Vec::new();
    for entry in entries {
        let entry = entry?;
        let name = entry.file_name();
        if let Some((id, segment)) = name.to_str().and_then(parse_journal_name) {
            files.push((id.to_owned(), segment, entry));
        }
    }
    Ok(files)
}

/// Run id and segment number of `RUN.jsonl` or `RUN.NNNN.jsonl`.
fn parse_journal_name(name: &str) -> Option<(&str, u32)> {
    let stem = name.strip_suffix(".jsonl")?;
    let (id, segment) = match split_segment_digits(stem) {
        None => (stem, 0),
        Some((id, digits)) => {
            let segment: u32 = digits.parse().ok()?;
            // Another spelling of a number is not a file that a journal ever wrote.
            if segment == 0 || format!("{segment:04}") != digits {
                return None;
            }
            (id, segment)
        }
    };
    check_run_id(id).is_ok().then_some((id, segment))
}

/// Splits off a `.` and four or more digits at the end.
fn split_segment_digits(stem: &str) -> Option<(&str, &str)> {
    let (id, digits) = stem.rsplit_once('.')?;
    let looks_so = digits.len() >= 4 && digits.bytes().all(|byte| byte.is_ascii_digit());
    looks_so.then_some((id, digits))
}

/// Checks that a run id can be a file name on every system and is not mistaken for a segment of another run.
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

/// The paths of one run.
#[derive(Clone, Debug)]
pub struct RunPaths {
    dir: PathBuf,
    id: String,
    disk: Arc<dyn Disk>,
}

impl RunPaths {
    /// The same paths on another disk.
    pub fn on(self, disk: Arc<dyn Disk>) -> Self {
        Self { disk, ..self }
    }

    /// What the journal is written with.
    pub(super) fn disk(&self) -> &dyn Disk {
        &*self.disk
    }

    pub fn id(&self) -> &str {
        &self.id
    }

    /// The folder that all of the run's files lie in.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// A segment of the journal; 0 is `RUN.jsonl`.
    pub fn segment(&self, number: u32) -> PathBuf {
        self.dir.join(self.segment_name(number))
    }

    /// Where a segment is written before it gets its name; ids never begin with a dot, so it is no run's file.
    pub(super) fn unfinished_segment(&self, number: u32) -> PathBuf {
        self.dir.join(format!(".{}.tmp", self.segment_name(number)))
    }

    pub fn lock(&self) -> PathBuf {
        self.with_suffix("lock")
    }

    /// Messages from other processes.
    pub fn inbox(&self) -> PathBuf {
        self.with_suffix("in")
    }

    /// Payloads too long for the journal.
    pub fn payloads(&self) -> PathBuf {
        self.with_suffix("d")
    }

    /// What running steps leave outside of the journal.
    pub fn tasks(&self) -> PathBuf {
        self.with_suffix("tasks")
    }

    /// The numbers of the segments that exist, rising.
    pub fn segments(&self) -> io::Result<Vec<u32>> {
        let names = self.disk.names(&self.dir)?;
        let journals = names.iter().filter_map(|name| parse_journal_name(name));
        let mut numbers: Vec<u32> =
            journals.filter(|(id, _)| *id == self.id).map(|(_, number)| number).collect();
        numbers.sort_unstable();
        Ok(numbers)
    }

    fn segment_name(&self, number: u32) -> String {
        match number {
            0 => format!("{}.jsonl", self.id),
            _ => format!("{}.{number:04}.jsonl", self.id),
        }
    }

    fn with_suffix(&self, suffix: &str) -> PathBuf {
        self.dir.join(format!("{}.{suffix}", self.id))
    }
}

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

/// Why no single run is meant.
#[derive(Debug)]
pub enum LookupError {
    /// Nothing begins like this; `existing` has all ids, newest first.
    Unknown {
        given: String,
        existing: Vec<String>,
    },
    /// Several begin like this, newest first.
    Ambiguous {
        given: String,
        matches: Vec<String>,
    },
    Io(io::Error),
}

impl fmt::Display for LookupError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
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
            Self::Io(error) => write!(out, "cannot list the runs: {error}"),
        }
    }
}

impl Error for LookupError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::Io(error) => Some(error),
            _ => None,
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

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::time::Duration;
    use tempfile::tempdir;

    fn state_with(files: &[&str]) -> (tempfile::TempDir, StateDir) {
        let dir = tempdir().unwrap();
        for (age, name) in files.iter().enumerate() {
            let file = fs::File::create(dir.path().join(name)).unwrap();
            file.set_modified(SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000 - age as u64)).unwrap();
        }
        let state = StateDir::at(dir.path());
        (dir, state)
    }

    fn ids(state: &StateDir) -> Vec<String> {
        state.runs().unwrap().into_iter().map(|run| run.id).collect()
    }

    #[test]
    fn finding_walks_up_to_the_nearest_raymond_folder() {
        let root = tempdir().unwrap();
        let deep = root.path().join("a/b/c");
        fs::create_dir_all(&deep).unwrap();
        fs::create_dir(root.path().join("a/.raymond")).unwrap();
        fs::create_dir(root.path().join(".raymond")).unwrap();
        let state = StateDir::find(&deep).unwrap();
        assert_eq!(state.path(), root.path().join("a/.raymond/state"));
        assert_eq!(state.home(), Some(root.path().join("a/.raymond").as_path()));
    }

    #[test]
    fn finding_stops_at_git_whether_file_or_folder() {
        for git_is_file in [true, false] {
            let root = tempdir().unwrap();
            let deep = root.path().join("repo/src");
            fs::create_dir_all(&deep).unwrap();
            fs::create_dir(root.path().join(".raymond")).unwrap();
            let git = root.path().join("repo/.git");
            if git_is_file {
                fs::write(git, "gitdir: x").unwrap()
            } else {
                fs::create_dir(git).unwrap()
            }
            let state = StateDir::find(&deep).unwrap();
            assert_eq!(state.path(), root.path().join("repo/.raymond/state"));
        }
    }

    #[test]
    fn finding_and_listing_create_nothing() {
        let root = tempdir().unwrap();
        fs::create_dir(root.path().join(".git")).unwrap();
        let state = StateDir::find(root.path()).unwrap();
        assert!(state.runs().unwrap().is_empty());
        assert!(state.latest().unwrap().is_none());
        assert!(state.run("a").unwrap().segments().unwrap().is_empty());
        assert!(!root.path().join(".raymond").exists());
    }

    #[cfg(unix)]
    #[test]
    fn created_folders_are_for_the_owner_and_not_for_git() {
        use std::os::unix::fs::PermissionsExt;
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        let root = tempdir().unwrap();
        fs::create_dir(root.path().join(".git")).unwrap();
        let state = StateDir::find(root.path()).unwrap();
        state.create().unwrap();
        state.create().unwrap();
        assert_eq!(mode(state.home().unwrap()), 0o700);
        assert_eq!(mode(state.path()), 0o700);
        assert_eq!(fs::read_to_string(root.path().join(".raymond/.gitignore")).unwrap(), "*\n");
        let named = StateDir::at(root.path().join("x/y"));
        named.create().unwrap();
        assert_eq!(mode(named.path()), 0o700);
        assert!(!named.path().join(".gitignore").exists());
    }

    #[test]
    fn a_gitignore_of_the_user_stays() {
        let root = tempdir().unwrap();
        fs::create_dir(root.path().join(".raymond")).unwrap();
        fs::write(root.path().join(".raymond/.gitignore"), "state/\n").unwrap();
        StateDir::find(root.path()).unwrap().create().unwrap();
        assert_eq!(fs::read_to_string(root.path().join(".raymond/.gitignore")).unwrap(), "state/\n");
    }

    #[test]
    fn runs_are_listed_by_their_newest_segment() {
        let (_dir, state) = state_with(&[
            "old.0002.jsonl",
            "new.jsonl",
            "old.0001.jsonl",
            "old.jsonl",
            "orphan.0001.jsonl",
            ".old.0003.jsonl.tmp",
            "odd.00001.jsonl",
            "new.lock",
            "x y.jsonl",
        ]);
        assert_eq!(ids(&state), ["old", "new"]);
        assert_eq!(state.runs().unwrap()[0].last_segment, 2);
        assert_eq!(state.latest().unwrap().as_deref(), Some("old"));
        assert_eq!(state.run("old").unwrap().segments().unwrap(), [0, 1, 2]);
    }

    #[test]
    fn lookup_takes_a_unique_start_or_the_whole() {
        let (_dir, state) = state_with(&["build.jsonl", "build-2.jsonl", "test.jsonl"]);
        assert_eq!(state.lookup("build").unwrap(), "build");
        assert_eq!(state.lookup("t").unwrap(), "test");
        let ambiguous = state.lookup("bu").unwrap_err().to_string();
        assert_eq!(ambiguous, "'bu' could be build, build-2");
        let unknown = state.lookup("zz\x1b").unwrap_err().to_string();
        assert_eq!(unknown, "no run 'zz\\u{1b}'; the latest are build, build-2, test");
    }

    #[test]
    fn long_lists_are_clipped() {
        let (_dir, state) =
            state_with(&["a1.jsonl", "a2.jsonl", "a3.jsonl", "a4.jsonl", "a5.jsonl", "a6.jsonl"]);
        let text = state.lookup("a").unwrap_err().to_string();
        assert_eq!(text, "'a' could be a1, a2, a3, a4, a5 and 1 more");
        let none = StateDir::at("/nonexistent/raymond").lookup("a").unwrap_err().to_string();
        assert_eq!(none, "no run 'a'; there are none yet");
    }

    #[test]
    fn run_ids_are_checked() {
        let longest = "x".repeat(64);
        for good in ["a", "-a", "_", "review-20250101-1200-ab12", "v1.2.3", "a.123", &longest] {
            assert_eq!(check_run_id(good), Ok(()), "{good}");
        }
        let too_long = "x".repeat(65);
        for bad in ["", ".a", "..", "a/b", "a b", "ä", "a\n", "a.0001", "a.12345", &too_long] {
            assert!(check_run_id(bad).is_err(), "{bad}");
        }
        for elsewhere in ["a.", "nul", "Com1.x"] {
            assert_eq!(check_run_id(elsewhere).is_err(), cfg!(windows), "{elsewhere}");
        }
    }

    #[test]
    fn paths_of_a_run() {
        let run = StateDir::at("/s").run("r.1").unwrap();
        assert_eq!(run.segment(0), Path::new("/s/r.1.jsonl"));
        assert_eq!(run.segment(1), Path::new("/s/r.1.0001.jsonl"));
        assert_eq!(run.segment(12345), Path::new("/s/r.1.12345.jsonl"));
        assert_eq!(run.lock(), Path::new("/s/r.1.lock"));
        assert_eq!(run.inbox(), Path::new("/s/r.1.in"));
        assert_eq!(run.payloads(), Path::new("/s/r.1.d"));
        assert_eq!(run.tasks(), Path::new("/s/r.1.tasks"));
    }
}
