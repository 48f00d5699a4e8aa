//! Where the files of runs are.
//!
//! Finding them creates nothing, so commands that only read leave no trace. [`StateDir::create`] is for commands that
//! start a run.

use std::collections::{BTreeMap, HashMap};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::SystemTime;

use super::disk::{Disk, SystemDisk, count_listing, create_private_dir, private_options};
use super::elsewhere;
use super::own::{Own, SealedFile, mark_path};
use super::skip::begins_run;
use crate::files::{self, open_plain_as};
use crate::store::id::{BadRunId, check_run_id, split_segment_digits};
use crate::store::payload::hash_of;
use crate::trust::is_safe;

/// How much of a hash tells folders apart.
const IDENTITY_LETTERS: usize = 16;

/// The folder that holds config and state of a project.
pub(super) const HOME_NAME: &str = ".raymond";

/// The folder of the journals, which may not exist yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StateDir {
    path: PathBuf,
    /// The `.raymond` folder around it, unless the folder was named by the user.
    home: Option<PathBuf>,
    /// Which of its files count.
    own: Own,
}

/// The files of one run, as a listing of the folder shows them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Listed {
    pub(super) id: String,
    /// When the journal was last written.
    pub(super) modified: SystemTime,
    /// The newest segment; 0 is the first.
    pub(super) last_segment: u32,
    /// How long the newest segment is.
    pub(super) bytes: u64,
}

impl Listed {
    /// Changes whenever the journal is written: it grows, or a torn end is cut off.
    pub(super) fn version(&self) -> Option<String> {
        let time = self.modified.duration_since(SystemTime::UNIX_EPOCH).ok()?;
        Some(format!("{}-{}-{}", self.last_segment, self.bytes, time.as_nanos()))
    }
}

/// What a listing of the folders shows of a run, even if its journal is gone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trace {
    /// When anything of it was last changed.
    pub modified: SystemTime,
    /// The segments of its journal.
    pub segments: Vec<u32>,
}

/// Runs stay on this machine; settings may be shared.
const IGNORED: &str = "*\n!.gitignore\n!config.toml\n";

impl StateDir {
    /// The state folder that belongs to a working directory.
    ///
    /// That is the nearest `.raymond` upwards, looked for no higher than the folder that holds
    /// `.git`; where there is none, it is to be created beside `.git`, or else in `cwd`.
    pub fn find(cwd: &Path) -> io::Result<Self> {
        let cwd = std::path::absolute(cwd)?;
        let top = cwd.ancestors().find(|folder| folder.join(HOME_NAME).is_dir() || holds_git(folder));
        let home = top.unwrap_or(&cwd).join(HOME_NAME);
        let path = home.join("state");
        let own = Own::of_project(&path, home.parent().unwrap_or(&cwd));
        Ok(Self { path, home: Some(home), own })
    }

    /// The state folder that the user named; journals are directly in it.
    pub fn at(dir: impl Into<PathBuf>) -> Self {
        let path = dir.into();
        let own = Own::named(&path);
        Self { path, home: None, own }
    }

    /// Where the journals are.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Which of its files count.
    pub fn own(&self) -> &Own {
        &self.own
    }

    /// A file that Raymond keeps for itself: in `.raymond`, or in the folder that the user named.
    pub fn own_file(&self, name: &str) -> SealedFile {
        SealedFile::new(self.around().join(name), self.own.clone())
    }

    /// The same folder for someone who looks at all that is in it, whoever made it.
    #[must_use]
    pub fn whatever_is_there(&self) -> Self {
        Self { own: Own::default(), ..self.clone() }
    }

    /// A link in the place of a folder of `.raymond`, and where it leads. It may have come with a clone: what lies there, in the
    /// project or elsewhere, would be taken for Raymond's own.
    pub fn stray_link(&self) -> Option<(PathBuf, PathBuf)> {
        let home = self.home.as_deref()?;
        let project = home.parent()?;
        let places = [
            home.to_owned(),
            self.path.clone(),
            self.path.join(elsewhere::FOLDER),
            home.join("debug"),
            home.join("worktrees"),
        ];
        let stray = |path: PathBuf| std::fs::read_link(&path).ok().map(|target| (path, target));
        places.into_iter().find_map(stray).filter(|_| !is_safe(project).unwrap_or(false))
    }

    fn refuse_stray_link(&self) -> io::Result<()> {
        let Some((link, target)) = self.stray_link() else { return Ok(()) };
        let error = format!(
            "{} is a link, to {}; put a folder there, list the project under safe_folders in your own config file, or name another place with --state-dir",
            link.display(),
            target.display()
        );
        Err(io::Error::new(io::ErrorKind::InvalidInput, error))
    }

    /// The `.raymond` folder; none if the user named the state folder.
    pub fn home(&self) -> Option<&Path> {
        self.home.as_deref()
    }

    /// Creates the folders that are missing, for the owner only.
    pub fn create(&self) -> io::Result<()> {
        self.create_home()?;
        create_private_dir(&self.path)?;
        let Some(home) = &self.home else { return Ok(()) };
        if files::read_text(&home.join(".gitignore"), files::MAX_SETTINGS_BYTES)
            .is_ok_and(|text| text == IGNORED)
        {
            return Ok(());
        }
        // `.raymond` came with a `.gitignore` of its own. Then runs are kept out of commits by one beside them.
        [self.path.clone(), home.join("debug"), home.join("worktrees")].iter().try_for_each(|folder| {
            create_private_dir(folder)?;
            keep_from_git(folder)
        })
    }

    /// Whether the token of a server could get into a commit: `.raymond` came with a `.gitignore` of its own.
    pub fn is_ignored_otherwise(&self) -> bool {
        let given = self.home.as_ref().map(|home| home.join(".gitignore"));
        given.is_some_and(|given| {
            files::read_text(&given, files::MAX_SETTINGS_BYTES).is_ok_and(|text| text != IGNORED)
        })
    }

    /// Creates `.raymond` with its own `.gitignore`, without the folder of the journals.
    pub fn create_home(&self) -> io::Result<()> {
        let Some(home) = &self.home else { return Ok(()) };
        self.refuse_stray_link()?;
        create_private_dir(home)?;
        let ignore = open_plain_as(private_options().write(true).create_new(true), &home.join(".gitignore"));
        match ignore {
            Ok(mut file) => file.write_all(IGNORED.as_bytes()),
            // The user may have changed it.
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// The paths of a run, whether it exists or not.
    pub fn run(&self, id: &str) -> Result<RunPaths, BadRunId> {
        check_run_id(id)?;
        let (disk, known) = (Arc::new(SystemDisk), KnownSegments::default());
        Ok(RunPaths { dir: self.path.clone(), id: id.to_owned(), disk, known, own: self.own.clone() })
    }

    /// The folder in which the steps of a run leave files. Steps run on this machine wherever the run itself is kept.
    pub fn scratch(&self, id: &str) -> Result<PathBuf, BadRunId> {
        Ok(self.run(id)?.scratch())
    }

    /// Where the task folders of a run are put together that goes on from an earlier point. Ids never begin with a dot, so no run
    /// has this folder.
    pub fn staged_scratch(&self, id: &str) -> Result<PathBuf, BadRunId> {
        check_run_id(id)?;
        Ok(self.path.join(format!(".{id}.tasks")))
    }

    /// The folder that holds the debug files of all runs.
    pub fn debug(&self) -> PathBuf {
        self.around().join("debug")
    }

    /// The worktrees of a run's workers.
    pub fn worktrees(&self, id: &str) -> PathBuf {
        self.around().join("worktrees").join(id)
    }

    /// What says that a run was made by this user's Raymond.
    pub fn mark(&self, id: &str) -> PathBuf {
        mark_path(&self.path, id)
    }

    /// The folder of what belongs to runs and is not part of their journals.
    fn around(&self) -> &Path {
        self.home().unwrap_or(self.path())
    }

    /// The first segment of a run that is being removed. It shows whose the rest is.
    pub fn removed_journal(&self, id: &str) -> PathBuf {
        self.path.join(format!(".{id}.jsonl{REMOVED}"))
    }

    /// Whether what lies here under the name of a run is one that Raymond has made: it has a mark of this user, or, in a folder
    /// that a person has named, a journal that begins with an event of it. In such a folder may be files of others with the same
    /// endings.
    pub fn has_run(&self, id: &str) -> bool {
        if elsewhere::is_own(&self.path, id, &self.own) {
            return true;
        }
        match self.own.is_strict() {
            true => self.own.has(id),
            false => {
                let journals = [self.path.join(format!("{id}.jsonl")), self.removed_journal(id)];
                self.own.run(id).is_some() || journals.iter().any(|journal| begins_run(journal, id))
            }
        }
    }

    /// Everything that may be there of a run, except its worktrees, in the order in which it is to be removed. Without
    /// the first segment there is no run that could be resumed, and as long as its lock is there, no other process writes
    /// it.
    pub fn files_of(&self, id: &str) -> Result<Vec<PathBuf>, BadRunId> {
        let numbers = self.run(id)?.segments().unwrap_or_default();
        self.files_with(id, &numbers)
    }

    /// The same where a listing has shown these segments. There may be more since.
    pub fn files_with(&self, id: &str, listed: &[u32]) -> Result<Vec<PathBuf>, BadRunId> {
        let paths = self.run(id)?;
        let newest = listed.iter().max().copied().unwrap_or(0);
        let newer = (newest + 1..).take_while(|number| paths.segment(*number).exists());
        let numbers = listed.iter().copied().filter(|number| *number > 0).chain(newer);
        let segments: Vec<u32> = std::iter::once(0).chain(numbers).collect();
        // One more may have been begun and have no name yet.
        let unfinished = segments.iter().copied().chain(segments.iter().max().map(|last| last + 1));
        let mut files: Vec<PathBuf> = segments.iter().map(|number| paths.segment(*number)).collect();
        files.extend(unfinished.map(|number| paths.unfinished_segment(number)));
        files.extend([paths.payloads(), paths.inbox(), self.staged_scratch(id)?, self.scratch(id)?]);
        // Nothing is removed through a link. In a project, none is followed that its user has not permitted.
        let is_link = std::fs::symlink_metadata(self.debug()).is_ok_and(|data| data.is_symlink());
        files.extend(Some(self.debug().join(id)).filter(|_| self.home.is_some() || !is_link));
        files.extend([elsewhere::path_of(&self.path, id), paths.with_suffix("holder")]);
        files.extend([self.removed_journal(id), mark_path(&self.path, id), paths.lock()]);
        Ok(files)
    }

    /// Every run of which something is there, even if its journal is gone. What Raymond has not made is no run.
    pub fn traces(&self) -> io::Result<BTreeMap<String, Trace>> {
        let mut found: BTreeMap<String, Trace> = BTreeMap::new();
        let mut note = |id: &str, segment: Option<u32>, entry: &std::fs::DirEntry| {
            let Ok(time) = entry.metadata().and_then(|data| data.modified()) else { return };
            let new = || Trace { modified: time, segments: Vec::new() };
            let trace = found.entry(id.to_owned()).or_insert_with(new);
            trace.modified = time.max(trace.modified);
            trace.segments.extend(segment);
        };
        if self.own.is_strict() && self.stray_link().is_some() {
            return Ok(found);
        }
        for entry in entries_of(&self.path)? {
            let name = entry.file_name();
            let Some(name) = name.to_str() else { continue };
            if let Some((id, segment)) = parse_journal_name(name) {
                note(id, Some(segment), &entry);
                continue;
            }
            let removed =
                name.strip_prefix('.').and_then(|name| name.strip_suffix(REMOVED)?.strip_suffix(".jsonl"));
            let beside = || {
                ["d", "in", "tasks", "lock", "mark"]
                    .iter()
                    .find_map(|suffix| name.strip_suffix(suffix)?.strip_suffix('.'))
            };
            if let Some(id) = removed.or_else(beside).filter(|id| check_run_id(id).is_ok()) {
                note(id, None, &entry);
            }
        }
        for folder in ["debug", "worktrees"] {
            for entry in entries_of(&self.around().join(folder))? {
                let name = entry.file_name();
                if let Some(id) = name.to_str().filter(|id| check_run_id(id).is_ok()) {
                    note(id, None, &entry);
                }
            }
        }
        found.retain(|id, _| self.has_run(id));
        Ok(found)
    }

    /// The run that a file of this name is a journal of.
    pub fn run_of_file(name: &str) -> Option<&str> {
        parse_journal_name(name).map(|(id, _)| id)
    }

    /// The segments of all journals, in no order.
    pub(super) fn segments(&self) -> io::Result<Vec<(String, u32)>> {
        if self.own.is_strict() && self.stray_link().is_some() {
            return Ok(Vec::new());
        }
        Ok(journal_files(&self.path)?.into_iter().map(|(id, segment, _)| (id, segment)).collect())
    }

    /// All runs, the one written last first.
    pub(super) fn runs(&self) -> io::Result<Vec<Listed>> {
        let mut found: BTreeMap<String, Listed> = BTreeMap::new();
        let mut with_first_segment = Vec::new();
        for (id, segment, entry) in journal_files(&self.path)? {
            // A file can be deleted between the listing and this call.
            let Ok(data) = entry.metadata() else { continue };
            let Ok(modified) = data.modified() else { continue };
            let bytes = data.len();
            if segment == 0 {
                with_first_segment.push(id.clone());
            }
            let this = Listed { id: id.clone(), modified, last_segment: segment, bytes };
            let run = found.entry(id).or_insert_with(|| this.clone());
            run.modified = run.modified.max(modified);
            if segment > run.last_segment {
                (run.last_segment, run.bytes) = (segment, bytes);
            }
        }
        let mut runs: Vec<Listed> = with_first_segment.iter().filter_map(|id| found.remove(id)).collect();
        runs.sort_by(|a, b| (b.modified, &b.id).cmp(&(a.modified, &a.id)));
        Ok(runs)
    }
}

/// What the journal of a run that is being removed has behind its name. Ids never begin with a dot, so no run has this file.
const REMOVED: &str = ".removed";

const ALL_IGNORED: &str = "*\n";

fn keep_from_git(folder: &Path) -> io::Result<()> {
    let own = folder.join(".gitignore");
    match files::read_text(&own, files::MAX_SETTINGS_BYTES) {
        Ok(text) if text == ALL_IGNORED => Ok(()),
        _ => files::replace_private(&own, ALL_IGNORED.as_bytes()),
    }
}

/// In a linked worktree or a submodule, `.git` is a file.
fn holds_git(folder: &Path) -> bool {
    folder.join(".git").exists()
}

/// The entries of a folder; none if there is no folder.
fn entries_of(dir: &Path) -> io::Result<Vec<std::fs::DirEntry>> {
    count_listing();
    match std::fs::read_dir(dir) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
        other => other?.collect(),
    }
}

/// Every journal file in a folder with its run and segment; none if there is no folder.
fn journal_files(dir: &Path) -> io::Result<Vec<(String, u32, std::fs::DirEntry)>> {
    let mut files = Vec::new();
    for entry in entries_of(dir)? {
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
            // A journal never wrote a file with another spelling of the number.
            if segment == 0 || format!("{segment:04}") != digits {
                return None;
            }
            (id, segment)
        }
    };
    check_run_id(id).is_ok().then_some((id, segment))
}

/// The paths of one run.
#[derive(Clone, Debug)]
pub struct RunPaths {
    dir: PathBuf,
    id: String,
    disk: Arc<dyn Disk>,
    known: KnownSegments,
    own: Own,
}

/// The segments of all runs in a folder, for as long as the folder does not change. A process that looks at many runs
/// would list the whole folder for each of them otherwise.
#[derive(Clone, Debug, Default)]
pub(super) struct KnownSegments(Arc<Mutex<Option<Listing>>>, Option<Arc<HashMap<String, Vec<u32>>>>);

impl KnownSegments {
    /// The segments that a listing has shown, for a process that changes the folder itself. Newer ones are looked for by name.
    pub(super) fn listed(segments: Vec<(String, u32)>) -> Self {
        let mut all: HashMap<String, Vec<u32>> = HashMap::new();
        segments.into_iter().for_each(|(id, number)| all.entry(id).or_default().push(number));
        all.values_mut().for_each(|numbers| numbers.sort_unstable());
        Self(Arc::default(), Some(Arc::new(all)))
    }
}

#[derive(Debug)]
struct Listing {
    changed: SystemTime,
    /// None until the folder is listed for the second time: most processes do that once.
    segments: Option<HashMap<String, Vec<u32>>>,
}

impl RunPaths {
    /// The same paths on another disk.
    pub fn on(self, disk: Arc<dyn Disk>) -> Self {
        Self { disk, known: KnownSegments::default(), ..self }
    }

    /// The same paths with what others know of their folder.
    pub(super) fn knowing(self, known: KnownSegments) -> Self {
        Self { known, ..self }
    }

    /// The paths of another run in the same folder.
    pub fn sibling(&self, id: &str) -> Result<Self, BadRunId> {
        check_run_id(id)?;
        Ok(Self { id: id.to_owned(), ..self.clone() })
    }

    /// The paths of all other runs in the same folder.
    pub(super) fn others(&self) -> io::Result<Vec<Self>> {
        let names = self.disk.names(&self.dir)?;
        let first_segments = names.iter().filter_map(|name| parse_journal_name(name));
        let others = first_segments.filter(|(id, segment)| *segment == 0 && *id != self.id);
        Ok(others.map(|(id, _)| Self { id: id.to_owned(), ..self.clone() }).collect())
    }

    /// What the journal is written with.
    pub(super) fn disk(&self) -> &dyn Disk {
        &*self.disk
    }

    pub(super) fn shared_disk(&self) -> Arc<dyn Disk> {
        Arc::clone(&self.disk)
    }

    pub fn id(&self) -> &str {
        &self.id
    }

    /// Which runs of the folder count.
    pub fn own(&self) -> &Own {
        &self.own
    }

    /// Tells the folder that holds the run from a copy of it.
    pub fn identity(&self) -> String {
        let text = folder_identity(&self.dir).unwrap_or_else(|_| self.dir.display().to_string());
        let mut hash = hash_of(text.as_bytes());
        hash.truncate(IDENTITY_LETTERS);
        hash
    }

    /// The folder that holds all files of the run.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// A segment of the journal; 0 is `RUN.jsonl`.
    pub fn segment(&self, number: u32) -> PathBuf {
        self.dir.join(self.segment_name(number))
    }

    /// Where a segment is written before it is renamed. Ids never begin with a dot, so no run has this file.
    pub(super) fn unfinished_segment(&self, number: u32) -> PathBuf {
        self.dir.join(format!(".{}.tmp", self.segment_name(number)))
    }

    pub fn lock(&self) -> PathBuf {
        self.with_suffix("lock")
    }

    /// The folder of all runs.
    pub fn folder(&self) -> &Path {
        &self.dir
    }

    /// Messages from other processes.
    pub fn inbox(&self) -> PathBuf {
        self.with_suffix("in")
    }

    /// Payloads too long for the journal.
    pub fn payloads(&self) -> PathBuf {
        self.with_suffix("d")
    }

    /// The numbers of the segments that exist, rising.
    pub fn segments(&self) -> io::Result<Vec<u32>> {
        if let Some(listed) = &self.known.1 {
            let mut numbers = listed.get(&self.id).cloned().unwrap_or_default();
            let next = numbers.last().map_or(0, |last| last + 1);
            numbers.extend((next..).take_while(|number| self.disk.length(&self.segment(*number)).is_some()));
            return Ok(numbers);
        }
        // Looked at first: a change during the listing makes it count as old.
        let Some(changed) = self.disk.changed(&self.dir) else { return self.list_segments() };
        let mut known = self.known.0.lock().unwrap_or_else(PoisonError::into_inner);
        match &mut *known {
            Some(listing) if listing.changed == changed => {
                let segments = match &mut listing.segments {
                    Some(segments) => segments,
                    none => none.insert(self.list_all_segments()?),
                };
                Ok(segments.get(&self.id).cloned().unwrap_or_default())
            }
            _ => {
                *known = Some(Listing { changed, segments: None });
                drop(known);
                self.list_segments()
            }
        }
    }

    fn list_all_segments(&self) -> io::Result<HashMap<String, Vec<u32>>> {
        let mut all: HashMap<String, Vec<u32>> = HashMap::new();
        for (id, number) in self.disk.names(&self.dir)?.iter().filter_map(|name| parse_journal_name(name)) {
            all.entry(id.to_owned()).or_default().push(number);
        }
        all.values_mut().for_each(|numbers| numbers.sort_unstable());
        Ok(all)
    }

    fn list_segments(&self) -> io::Result<Vec<u32>> {
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

    /// The folder in which its steps leave files.
    pub fn scratch(&self) -> PathBuf {
        self.with_suffix("tasks")
    }

    fn with_suffix(&self, suffix: &str) -> PathBuf {
        self.dir.join(format!("{}.{suffix}", self.id))
    }
}

/// The same by every path that leads to the folder, and after the folder was renamed.
#[cfg(unix)]
fn folder_identity(folder: &Path) -> io::Result<String> {
    use std::os::unix::fs::MetadataExt;
    let data = std::fs::metadata(folder)?;
    Ok(format!("{} {}", data.dev(), data.ino()))
}

/// Numbers of files are not the same on every file system here.
#[cfg(windows)]
fn folder_identity(folder: &Path) -> io::Result<String> {
    Ok(folder.canonicalize()?.display().to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::time::Duration;
    use tempfile::tempdir;

    #[test]
    fn segments_are_known_until_the_folder_changes() {
        let (dir, state) = state_with(&["r.jsonl", "r.0001.jsonl", "s.jsonl"]);
        let age = |seconds: u64| {
            let long_ago = SystemTime::now() - Duration::from_secs(seconds);
            fs::File::open(dir.path()).unwrap().set_modified(long_ago).unwrap();
        };
        age(100);
        let run = state.run("r").unwrap();
        let other = run.sibling("s").unwrap();
        for _ in 0..3 {
            assert_eq!(run.segments().unwrap(), [0, 1]);
            assert_eq!(other.segments().unwrap(), [0]);
        }
        fs::write(dir.path().join("r.0002.jsonl"), "").unwrap();
        assert_eq!(run.segments().unwrap(), [0, 1, 2], "also right after the change");
        age(50);
        for _ in 0..3 {
            assert_eq!(run.segments().unwrap(), [0, 1, 2]);
        }
    }

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
        assert_eq!(fs::read_to_string(root.path().join(".raymond/.gitignore")).unwrap(), IGNORED);
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
        // It need not keep runs out of commits.
        assert_eq!(fs::read_to_string(root.path().join(".raymond/state/.gitignore")).unwrap(), "*\n");
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
        assert_eq!(state.run("old").unwrap().segments().unwrap(), [0, 1, 2]);
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
        assert_eq!(StateDir::at("/s").scratch("r.1").unwrap(), Path::new("/s/r.1.tasks"));
    }
}
