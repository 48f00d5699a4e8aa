//! The program `git`, the only way in which Raymond touches a repository.
//!
//! Each call has a fixed environment and a time limit. No hook runs, no optional lock is taken, so that the index of the
//! user is not written by looking at it, and nothing is asked on a terminal. Names that a model may choose are checked
//! before they come here, and never stand where an option could.

pub mod making;
pub mod relink;
pub mod snapshots;
pub mod worktrees;

use std::ffi::{OsStr, OsString};
use std::fmt;
use std::fs::File;
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::Duration;

/// How long a call may take that only looks something up.
const PATIENCE: Duration = Duration::from_secs(60);
/// How often a call is repeated that has met a worktree that is not whole yet, and how long it waits before.
const MOST_REPETITIONS: u32 = 20;
const REPETITION_PAUSE: Duration = Duration::from_millis(50);
/// How much of what git says is read.
const MOST_BYTES: u64 = 64 * 1024 * 1024;
/// How much of its words an error repeats.
const MOST_SHOWN_CHARS: usize = 500;

/// Settings that hold for every call. Hooks and programs that watch files could do anything.
const SETTINGS: [&str; 5] = [
    "core.hooksPath=/dev/null",
    "core.fsmonitor=false",
    "gc.auto=0",
    "maintenance.auto=false",
    "submodule.recurse=false",
];

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
    /// What comes before the name of a command.
    options: Vec<OsString>,
    variables: Vec<(OsString, Option<OsString>)>,
    patience: Duration,
    /// A locked file. Git inherits it, so the lock lasts until both Raymond and git have ended.
    held: Option<Arc<File>>,
}

/// Why git did not do what it was told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum GitError {
    NotInstalled,
    NotStarted(String),
    TooSlow(Duration),
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
            Self::TooSlow(limit) => write!(f, "git took longer than {} s and was ended", limit.as_secs()),
            Self::Failed { words, .. } if !words.is_empty() => write!(f, "git says: {words}"),
            Self::Failed { code: Some(code), .. } => write!(f, "git ended with exit code {code}"),
            Self::Failed { code: None, .. } => f.write_str("git was ended by a signal"),
        }
    }
}

impl std::error::Error for GitError {}

impl GitError {
    /// Whether git has come upon a worktree that another git is just making. It gives up then, before it does anything.
    /// What it says is in the language of the user, but the name of the file is not.
    fn is_about_half_made_worktree(&self) -> bool {
        matches!(self, Self::Failed { words, .. } if words.contains("/commondir"))
    }
}

impl Git {
    /// Git as it works in a folder.
    pub fn in_folder(folder: impl Into<PathBuf>) -> Self {
        let settings = SETTINGS.iter().flat_map(|setting| ["-c", setting]).map(OsString::from);
        let removed = MISLEADING_VARIABLES.map(|name| (OsString::from(name), None));
        let set = [("GIT_OPTIONAL_LOCKS", "0"), ("GIT_TERMINAL_PROMPT", "0")];
        let set = set.map(|(name, value)| (OsString::from(name), Some(OsString::from(value))));
        Self {
            folder: folder.into(),
            options: settings.collect(),
            variables: removed.into_iter().chain(set).collect(),
            patience: PATIENCE,
            held: None,
        }
    }

    /// Git for a repository, given by the folder in which git keeps it.
    pub fn of_repository(repository: &Path) -> Self {
        let mut git = Self::in_folder(repository);
        let mut option = OsString::from("--git-dir=");
        option.push(repository);
        git.options.push(option);
        git
    }

    /// With more settings, which come before those of the repository.
    #[must_use]
    pub fn settings(mut self, settings: &[&str]) -> Self {
        self.options.extend(settings.iter().flat_map(|setting| ["-c", setting]).map(OsString::from));
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

    #[must_use]
    pub fn variable(mut self, name: &str, value: impl Into<OsString>) -> Self {
        self.variables.push((name.into(), Some(value.into())));
        self
    }

    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Everything after the name of the program.
    pub fn arguments<A: AsRef<OsStr>>(&self, arguments: &[A]) -> Vec<OsString> {
        let own = arguments.iter().map(|argument| argument.as_ref().to_owned());
        self.options.iter().cloned().chain(own).collect()
    }

    /// Variables to set, or to remove where there is no value.
    pub fn variables(&self) -> &[(OsString, Option<OsString>)] {
        &self.variables
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
        let none = "0".repeat(commit.len());
        let set = || self.text(&["update-ref", name, commit, expected.unwrap_or(&none)]).map(drop);
        let Err(error) = set() else { return Ok(()) };
        let lock = ["rev-parse", "--path-format=absolute", "--git-path", &format!("{name}.lock")];
        let lock = PathBuf::from(self.text(&lock)?);
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
        let mut command = Command::new("git");
        command.args(self.arguments(arguments)).current_dir(&self.folder);
        for (name, value) in &self.variables {
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
        run(command, input, self.patience)
    }
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
    if let Err(mpsc::RecvTimeoutError::Timeout) = both(&done, patience) {
        end(&mut child);
        return Err(GitError::TooSlow(patience));
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

/// Waits until both streams are at their end.
fn both(done: &mpsc::Receiver<()>, patience: Duration) -> Result<(), mpsc::RecvTimeoutError> {
    let start = std::time::Instant::now();
    done.recv_timeout(patience)?;
    done.recv_timeout(patience.saturating_sub(start.elapsed()))
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
