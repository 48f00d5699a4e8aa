//! The program `git`, the only way in which Raymond touches a repository.
//!
//! Each call is built by [`Git::call`]: it has a repository that was found before, a fixed environment and a time limit, and
//! starts nothing that a tree or a repository brings. What the repository's own config says is not obeyed, but for what
//! [`settings`] lists; git is given a [`stand_in`] instead. No hook runs, nothing is fetched from elsewhere, no optional
//! lock is taken, so that the index of the user is not written by looking at it, and nothing is asked on a terminal. Names
//! that a model may choose are checked before they come here, and never stand where an option could.
//!
//! Some commands of git start another git in each submodule, which would obey the config there. They are not used: see
//! [`adding`] and [`submodules`].

pub mod adding;
mod hidden;
pub mod making;
pub mod relink;
mod replaced;
pub mod repository;
mod settings;
pub mod snapshots;
mod stand_in;
pub mod submodules;
pub mod task_files;
pub mod worktrees;

#[cfg(test)]
mod tests;

use std::ffi::{OsStr, OsString};
use std::fmt;
use std::fs::File;
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::Duration;

use repository::{Repository, registrations};
use settings::Settings;
use stand_in::StandIn;

/// The program.
pub const PROGRAM: &str = "git";
/// How long a call may take that only looks something up.
const PATIENCE: Duration = Duration::from_secs(60);
/// The same for a command that a person waits for, which can do without the answer.
pub const SHORT_PATIENCE: Duration = Duration::from_secs(5);
/// How often a call is repeated that has met a worktree that is not whole yet, and how long it waits before.
const MOST_REPETITIONS: u32 = 20;
const REPETITION_PAUSE: Duration = Duration::from_millis(50);
/// How much of what git says is read.
const MOST_BYTES: u64 = 64 * 1024 * 1024;
/// How much of its words an error repeats.
const MOST_SHOWN_CHARS: usize = 500;

/// Settings that hold for every call, before those of the user. Hooks and programs that watch files could do anything,
/// and an index is one file.
const SETTINGS: [&str; 12] = [
    "core.hooksPath=/dev/null",
    "core.fsmonitor=false",
    "core.splitIndex=false",
    "safe.bareRepository=explicit",
    "gc.auto=0",
    "maintenance.auto=false",
    "submodule.recurse=false",
    "fetch.recurseSubmodules=false",
    "commit.gpgSign=false",
    "tag.gpgSign=false",
    "worktree.useRelativePaths=false",
    "core.pager=cat",
];

/// Variables that hold for every call. Replaced objects and grafts would show other files than those of a commit, and an
/// object that is missing would be fetched by the programs that the repository names.
const VARIABLES: [(&str, &str); 8] = [
    ("GIT_OPTIONAL_LOCKS", "0"),
    ("GIT_TERMINAL_PROMPT", "0"),
    ("GIT_NO_REPLACE_OBJECTS", "1"),
    ("GIT_GRAFT_FILE", "/dev/null"),
    ("GIT_NO_LAZY_FETCH", "1"),
    ("GIT_ALLOW_PROTOCOL", "file"),
    ("GIT_PAGER", "cat"),
    ("GIT_EDITOR", ":"),
];

/// What the names of all variables of git begin with. They are removed, but for these, which say where the user's own
/// config and git itself are.
const PREFIX: &str = "GIT_";
const KEPT_VARIABLES: [&str; 4] =
    ["GIT_CONFIG_GLOBAL", "GIT_CONFIG_SYSTEM", "GIT_CONFIG_NOSYSTEM", "GIT_EXEC_PATH"];

/// Variables that would lead git to another repository, or to other files of this one.
pub const MISLEADING_VARIABLES: [&str; 12] = [
    "GIT_DIR",
    "GIT_WORK_TREE",
    "GIT_INDEX_FILE",
    "GIT_COMMON_DIR",
    "GIT_PREFIX",
    "GIT_NAMESPACE",
    "GIT_OBJECT_DIRECTORY",
    "GIT_ALTERNATE_OBJECT_DIRECTORIES",
    "GIT_CONFIG",
    "GIT_CONFIG_PARAMETERS",
    "GIT_LITERAL_PATHSPECS",
    "GIT_ICASE_PATHSPECS",
];

/// Git in a folder, or for a repository.
#[derive(Clone, Debug)]
pub struct Git {
    folder: PathBuf,
    place: Place,
    /// Settings of this caller, which come before those of the repository.
    settings: Vec<OsString>,
    variables: Vec<(OsString, Option<OsString>)>,
    /// Attributes of all files, whatever the repository says.
    attributes: Option<&'static str>,
    patience: Duration,
    /// A locked file. Git inherits it, so the lock lasts until both Raymond and git have ended.
    held: Option<Arc<File>>,
}

/// Which repository it works in.
#[derive(Clone, Debug)]
enum Place {
    /// The one around its folder.
    Around,
    This(Repository),
    /// None: it makes one, or needs none.
    Nowhere,
    /// None that Raymond has found. Git may look for one itself, and tell whether it would use it.
    Unknown,
}

/// A call that is ready to be made. What it needs is removed with it.
#[derive(Debug)]
pub struct Call {
    pub folder: PathBuf,
    pub arguments: Vec<OsString>,
    /// Variables to set, or to remove where there is no value.
    pub variables: Vec<(OsString, Option<OsString>)>,
    adds_worktree: bool,
    common: Option<PathBuf>,
    stand_in: Option<StandIn>,
    /// Keys of filters in the repository's own config, which git is not told of.
    filters: Vec<String>,
}

/// Why git did not do what it was told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum GitError {
    NotInstalled,
    NotStarted(String),
    TooSlow(Duration),
    /// The run is to stop at once.
    Stopped,
    /// A pipe, a device or a folder is in the place of this file of the repository. Git would wait for it.
    NotPlain(PathBuf),
    /// The repository's own config has these keys.
    NamesPrograms(Vec<String>),
    Failed {
        code: Option<i32>,
        /// What it said about it.
        words: String,
    },
}

impl fmt::Display for GitError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotInstalled => f.write_str("the program `git` was not found on PATH"),
            Self::NotStarted(error) => write!(f, "the program `git` could not be started: {error}"),
            Self::Stopped => f.write_str("git was ended, because the run is stopped"),
            Self::NotPlain(path) => {
                write!(f, "git was not started, because {} is no plain file", path.display())
            }
            Self::TooSlow(limit) => write!(f, "git took longer than {} s and was ended", limit.as_secs()),
            Self::NamesPrograms(keys) => {
                let keys = keys.join(", ");
                write!(
                    f,
                    "the repository's own config names programs that git would start ({keys}); move them to your own, with `git config --global`"
                )
            }
            Self::Failed { words, .. } if !words.is_empty() => write!(f, "git says: {words}"),
            Self::Failed { code: Some(code), .. } => write!(f, "git ended with exit code {code}"),
            Self::Failed { code: None, .. } => f.write_str("git was ended by a signal"),
        }
    }
}

impl std::error::Error for GitError {}

impl GitError {
    /// Whether it was not found out what git would say.
    pub fn is_no_answer(&self) -> bool {
        matches!(self, Self::TooSlow(_) | Self::Stopped | Self::NotPlain(_) | Self::NotStarted(_))
    }

    /// Whether the disk is full, as git says it where it speaks English.
    pub fn is_shortage(&self) -> bool {
        const SHORTAGES: [&str; 3] =
            ["No space left on device", "Read-only file system", "Disk quota exceeded"];
        matches!(self, Self::Failed { words, .. } if SHORTAGES.iter().any(|shortage| words.contains(shortage)))
    }

    /// Whether git has come upon a worktree that another git is just making. It gives up then, before it does anything.
    /// What it says is in the language of the user, but the name of the file is not.
    fn is_about_half_made_worktree(&self) -> bool {
        matches!(self, Self::Failed { words, .. } if words.contains("/commondir"))
    }
}

impl Git {
    /// Git as it works in a folder, in the repository around it.
    pub fn in_folder(folder: impl Into<PathBuf>) -> Self {
        Self::new(folder.into(), Place::Around)
    }

    /// Git for a repository, given by the folder in which git keeps what its worktrees share.
    pub fn of_repository(common: &Path) -> Self {
        let common = common.canonicalize().unwrap_or_else(|_| common.to_owned());
        let repository = Repository { top: common.clone(), own: common.clone(), common };
        Self::in_repository(&repository)
    }

    /// Git in the top folder of a worktree.
    pub fn in_repository(repository: &Repository) -> Self {
        Self::new(repository.top.clone(), Place::This(repository.clone()))
    }

    /// Git for what needs no repository, or makes one.
    pub fn in_no_repository(folder: &Path) -> Self {
        Self::new(folder.to_owned(), Place::Nowhere)
    }

    fn new(folder: PathBuf, place: Place) -> Self {
        Self {
            folder,
            place,
            settings: Vec::new(),
            variables: Vec::new(),
            patience: PATIENCE,
            attributes: None,
            held: None,
        }
    }

    /// Git may look for a repository itself.
    fn lets_it_look(self) -> Self {
        Self { place: Place::Unknown, ..self }
    }

    /// With more settings, which come before those of the repository.
    #[must_use]
    pub fn settings(mut self, settings: &[&str]) -> Self {
        self.settings.extend(settings.iter().flat_map(|setting| ["-c", setting]).map(OsString::from));
        self
    }

    #[must_use]
    pub fn patience(self, patience: Duration) -> Self {
        Self { patience, ..self }
    }

    /// Holds a locked file until the last call has ended, even if Raymond is killed meanwhile. Such calls read no input.
    #[must_use]
    pub fn holding(self, file: File) -> Self {
        Self { held: Some(Arc::new(file)), ..self }
    }

    /// Files have these attributes, where there is a stand-in for the repository's own folder.
    #[must_use]
    pub fn attributes(self, attributes: &'static str) -> Self {
        Self { attributes: Some(attributes), ..self }
    }

    #[must_use]
    pub fn variable(mut self, name: &str, value: impl Into<OsString>) -> Self {
        self.variables.push((name.into(), Some(value.into())));
        self
    }

    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// The repository that it works in.
    pub fn repository(&self) -> Result<Repository, GitError> {
        match &self.place {
            Place::This(repository) => Ok(repository.clone()),
            Place::Around => Repository::around(&self.folder),
            Place::Nowhere | Place::Unknown => {
                Err(GitError::NotStarted(format!("{} is in no repository", self.folder.display())))
            }
        }
    }

    /// Builds a call. No other function in Raymond does, so this is what decides what git may start.
    pub fn call<A: AsRef<OsStr>>(&self, arguments: &[A]) -> Result<Call, GitError> {
        let settings = SETTINGS.iter().flat_map(|setting| ["-c", setting]).map(OsString::from);
        let own = arguments.iter().map(|argument| argument.as_ref().to_owned());
        let present = std::env::vars_os().map(|(name, _)| name).filter(|name| is_of_git(name));
        let fixed = VARIABLES.map(|(name, value)| (OsString::from(name), Some(OsString::from(value))));
        let mut call = Call {
            folder: self.folder.clone(),
            arguments: settings.chain(self.settings.iter().cloned()).chain(own).collect(),
            variables: present.map(|name| (name, None)).chain(fixed).collect(),
            adds_worktree: is_adding_worktree(arguments),
            common: None,
            stand_in: None,
            filters: Vec::new(),
        };
        match &self.place {
            Place::Unknown => {}
            // Even a command that needs no repository reads the config of one that it finds.
            Place::Nowhere => {
                let around = self.folder.parent().unwrap_or(&self.folder).to_owned();
                call.set("GIT_CEILING_DIRECTORIES", around);
            }
            Place::Around | Place::This(_) => {
                let repository = self.repository()?;
                if call.adds_worktree {
                    // Git cannot make it through the stand-in.
                    let _ = std::fs::create_dir(repository.common.join("worktrees"));
                }
                call.lead_to(&repository, self.attributes)?;
            }
        }
        call.variables.extend(self.variables.iter().cloned());
        Ok(call)
    }

    /// What a command says, as text without the line end.
    pub fn text<A: AsRef<OsStr>>(&self, arguments: &[A]) -> Result<String, GitError> {
        let bytes = self.bytes(arguments, &[])?;
        let text = String::from_utf8_lossy(&bytes);
        Ok(text.strip_suffix('\n').unwrap_or(&text).to_owned())
    }

    /// What a command says that reads `input`.
    pub fn bytes<A: AsRef<OsStr>>(&self, arguments: &[A], input: &[u8]) -> Result<Vec<u8>, GitError> {
        for _ in 0..MOST_REPETITIONS {
            match self.bytes_at_once(arguments, input) {
                Err(error) if error.is_about_half_made_worktree() => thread::sleep(REPETITION_PAUSE),
                done => return done,
            }
        }
        self.bytes_at_once(arguments, input)
    }

    /// Sets a ref that only the run uses which this process holds, if it is still at `expected` or still missing.
    pub fn set_own_ref(&self, name: &str, commit: &str, expected: Option<&str>) -> Result<(), GitError> {
        let common = self.repository()?.common;
        // Where a branch was at a time is remembered there.
        let _ = std::fs::create_dir(common.join("logs"));
        let none = "0".repeat(commit.len());
        let set = || self.text(&["update-ref", name, commit, expected.unwrap_or(&none)]).map(drop);
        let Err(error) = set() else { return Ok(()) };
        let lock = common.join(format!("{name}.lock"));
        if !lock.exists() {
            return Err(error);
        }
        // A git that outlives a killed Raymond needs a moment. A git that was killed too has left its lock for good.
        for _ in 0..MOST_REPETITIONS {
            thread::sleep(REPETITION_PAUSE);
            if !lock.exists() {
                return set();
            }
        }
        let _ = std::fs::remove_file(lock);
        set()
    }

    fn bytes_at_once<A: AsRef<OsStr>>(&self, arguments: &[A], input: &[u8]) -> Result<Vec<u8>, GitError> {
        let call = self.call(arguments)?;
        let mut command = Command::new(PROGRAM);
        command.args(&call.arguments).current_dir(&call.folder);
        for (name, value) in &call.variables {
            match value {
                Some(value) => command.env(name, value),
                None => command.env_remove(name),
            };
        }
        #[cfg(unix)]
        // A Ctrl-C is for Raymond, which may want to finish what it has begun.
        std::os::unix::process::CommandExt::process_group(&mut command, 0);
        tracing::debug!(folder = %self.folder.display(), command = %words_of(arguments), "git");
        match self.held.as_deref().map(File::try_clone) {
            Some(file) => command.stdin(file.map_err(|error| GitError::NotStarted(error.to_string()))?),
            None => command.stdin(Stdio::piped()),
        };
        let done = run(command, input, self.patience);
        call.lead_back();
        done.map_err(|error| call.explained(error))
    }
}

impl Call {
    fn set(&mut self, name: &str, value: impl Into<OsString>) {
        self.variables.push((name.into(), Some(value.into())));
    }

    /// Fixes the repository, and puts the stand-in where its config would be.
    fn lead_to(&mut self, repository: &Repository, attributes: Option<&str>) -> Result<(), GitError> {
        repository.check_files()?;
        let settings = Settings::of(repository)?;
        self.set("GIT_DIR", &repository.own);
        // A bare repository has no worktree, and in the folder of a repository itself there is none either.
        if repository.top != repository.common && !(settings.is_bare && repository.is_main()) {
            self.set("GIT_WORK_TREE", &repository.top);
        }
        if cfg!(unix) {
            let stand_in = StandIn::of(repository, &settings, attributes)
                .map_err(|error| GitError::NotStarted(format!("its own folder cannot be made: {error}")))?;
            self.set("GIT_COMMON_DIR", stand_in.path());
            self.stand_in = Some(stand_in);
        } else if !settings.programs.is_empty() {
            // Links need a permission here that few users have.
            return Err(GitError::NamesPrograms(settings.programs));
        }
        self.common = Some(repository.common.clone());
        self.filters = settings.filters;
        Ok(())
    }

    /// Lets new worktrees lead to their repository. Git has written into them that they are of the stand-in.
    fn lead_back(&self) {
        let (Some(common), Some(stand_in), true) = (&self.common, &self.stand_in, self.adds_worktree) else {
            return;
        };
        for new in registrations(common).filter(|known| known.leads_into(stand_in.path())) {
            // Without it, git finds no repository there, and says so in the next call.
            let _ = new.lead_back();
        }
    }

    /// What to say if the repository has filters whose programs are not run.
    pub fn about_filters(&self) -> Option<String> {
        settings::about_filters(self.common.as_deref()?, &self.filters)
    }

    /// An error in words that mean something to the user.
    pub fn explained(&self, error: GitError) -> GitError {
        let GitError::Failed { code, mut words } = error else { return error };
        if let (Some(stand_in), Some(common)) = (&self.stand_in, &self.common) {
            words = words.replace(&*stand_in.path().to_string_lossy(), &common.to_string_lossy());
        }
        if words.contains("filter")
            && let Some(about) = self.about_filters()
        {
            words = format!("{words}; {about}");
        }
        GitError::Failed { code, words }
    }
}

/// A name as git writes it, from the top of the worktree.
#[cfg(unix)]
fn path_of(name: &[u8]) -> &Path {
    use std::os::unix::ffi::OsStrExt;
    Path::new(OsStr::from_bytes(name))
}

#[cfg(not(unix))]
fn path_of(name: &[u8]) -> PathBuf {
    String::from_utf8_lossy(name).into_owned().into()
}

fn is_adding_worktree<A: AsRef<OsStr>>(arguments: &[A]) -> bool {
    arguments.iter().map(AsRef::as_ref).take(2).eq(["worktree", "add"].map(OsStr::new))
}

fn is_of_git(name: &OsStr) -> bool {
    let name = name.to_string_lossy().to_ascii_uppercase();
    name.starts_with(PREFIX) && !KEPT_VARIABLES.contains(&name.as_str())
}

/// The version that is installed, as it says itself.
pub fn version(patience: Duration) -> Result<String, GitError> {
    Git::in_no_repository(&std::env::temp_dir()).patience(patience).text(&["--version"])
}

fn words_of<A: AsRef<OsStr>>(arguments: &[A]) -> String {
    arguments.iter().map(|argument| argument.as_ref().to_string_lossy()).collect::<Vec<_>>().join(" ")
}

fn run(mut command: Command, input: &[u8], patience: Duration) -> Result<Vec<u8>, GitError> {
    let piped = command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = piped.spawn().map_err(|error| match error.kind() {
        std::io::ErrorKind::NotFound => GitError::NotInstalled,
        _ => GitError::NotStarted(error.to_string()),
    })?;
    let mut stdin = child.stdin.take();
    let (sender, done) = mpsc::channel();
    let stdout = reading(child.stdout.take(), sender.clone());
    let stderr = reading(child.stderr.take(), sender);
    let input = input.to_owned();
    // It may end before it has read everything.
    thread::spawn(move || stdin.take().map(|mut stdin| stdin.write_all(&input)));
    match both(&done, patience) {
        Waited::Ended => {}
        Waited::TooLong => {
            end(&mut child);
            return Err(GitError::TooSlow(patience));
        }
        Waited::GaveUp => {
            end(&mut child);
            return Err(GitError::Stopped);
        }
    }
    let status = child.wait().map_err(|error| GitError::NotStarted(error.to_string()))?;
    let stdout = stdout.join().unwrap_or_default();
    match status.success() {
        true => Ok(stdout),
        false => {
            let words = shown(&String::from_utf8_lossy(&stderr.join().unwrap_or_default()));
            Err(GitError::Failed { code: status.code(), words })
        }
    }
}

/// Whether this process waits for no git any more.
static HAS_GIVEN_UP: AtomicBool = AtomicBool::new(false);

/// Ends all calls, those that go on and later ones: a run that is to stop at once must not wait for a git that reads a pipe in the
/// place of a file, or a disk that hangs.
pub fn give_up() {
    HAS_GIVEN_UP.store(true, Ordering::Relaxed);
}

/// Why waiting for a call is over.
enum Waited {
    Ended,
    TooLong,
    GaveUp,
}

/// Waits until both streams are at their end.
fn both(done: &mpsc::Receiver<()>, patience: Duration) -> Waited {
    const LOOK_EVERY: Duration = Duration::from_millis(100);
    let start = std::time::Instant::now();
    let mut open = 2;
    while open > 0 {
        let left = patience.saturating_sub(start.elapsed());
        match done.recv_timeout(left.min(LOOK_EVERY)) {
            Ok(()) => open -= 1,
            Err(mpsc::RecvTimeoutError::Disconnected) => return Waited::Ended,
            Err(mpsc::RecvTimeoutError::Timeout) if HAS_GIVEN_UP.load(Ordering::Relaxed) => {
                return Waited::GaveUp;
            }
            Err(mpsc::RecvTimeoutError::Timeout) if left.is_zero() => return Waited::TooLong,
            Err(mpsc::RecvTimeoutError::Timeout) => {}
        }
    }
    Waited::Ended
}

fn end(child: &mut Child) {
    let _ = child.kill();
    let _ = child.wait();
}

fn reading(pipe: Option<impl Read + Send + 'static>, done: mpsc::Sender<()>) -> thread::JoinHandle<Vec<u8>> {
    thread::spawn(move || {
        let mut bytes = Vec::new();
        if let Some(pipe) = pipe {
            let _ = pipe.take(MOST_BYTES).read_to_end(&mut bytes);
        }
        let _ = done.send(());
        bytes
    })
}

/// What git said, on one line. Its prefixes and progress say nothing here.
pub fn shown(stderr: &str) -> String {
    let is_progress =
        |line: &&str| !line.starts_with("Preparing worktree") && !line.starts_with("HEAD is now");
    let lines = stderr.split(['\n', '\r']).map(str::trim).filter(|line| !line.is_empty()).filter(is_progress);
    let lines = lines.map(|line| {
        let prefixes = ["fatal: ", "error: ", "warning: "];
        prefixes.iter().find_map(|prefix| line.strip_prefix(prefix)).unwrap_or(line)
    });
    let text = lines.collect::<Vec<_>>().join("; ");
    text.chars().take(MOST_SHOWN_CHARS).collect()
}
