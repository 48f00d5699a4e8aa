//! Runs on other machines: the seam to an engine that carries them out.
//!
//! Raymond itself knows no engine. A program that has one is built around this crate: it implements [`Fleet`] and
//! starts with [`crate::cli::main_with`]. A run that is elsewhere is copied into the local store, batch by batch
//! ([`mirror`]), so that every view of a run works on it. The copy is for looking only. What the engine has is the truth.

mod address;
pub mod debug;
pub mod delivery;
#[cfg(test)]
pub(crate) mod fake;
pub mod mirror;
mod patience;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::OnceLock;
use std::time::Duration;

use raymond_core::event::{Body, Event};
use raymond_core::name::AgentId;
use raymond_core::run::Options;

pub use address::Address;
pub use patience::Patient;

use crate::config::Config;
use crate::error::{ExitKind, UserError};

/// How long a call to an engine may take before the engine counts as away. A command waits for it once, and no longer.
pub const PATIENCE: Duration = Duration::from_secs(2);

/// The program that has an engine for addresses of this scheme.
pub const ENGINE_PROGRAM: &str = "raymond-temporal";

/// An engine for runs on many machines.
pub trait Fleet: Send + Sync {
    /// Starts a run. Returns when the engine has it for good.
    fn start(&self, at: &Address, new: &NewRun) -> Result<Started, Trouble>;

    /// Whether it answers.
    fn answers(&self, at: &Address) -> Result<(), Trouble>;

    /// All runs that it knows.
    fn runs(&self, at: &Address) -> Result<Vec<KnownRun>, Trouble>;

    /// The committed batches behind the event `after`, as many as fit in a message. Waits up to `wait` for the first. What
    /// a run begins with is told even if no worker has taken it.
    fn news(&self, at: &Address, run: &str, after: u64, wait: Duration) -> Result<News, Trouble>;

    /// A long text that an event of a run names by its hash, checked to be that text.
    fn text(&self, at: &Address, run: &str, hash: &str) -> Result<String, Trouble>;

    /// Gives a message to a run, with the names and contents that messages in a local inbox have. Returns when its
    /// effect is committed, or when the engine has it for good and no worker answers. A message that is given twice has its
    /// effect once. A stop with `now` ends a run that no worker has ever taken.
    fn deliver(&self, at: &Address, run: &str, name: &str, content: &str) -> Result<(), Trouble>;

    /// Lets a run that has stopped go on.
    fn resume(&self, at: &Address, run: &str, resume: &Resume) -> Result<Resumed, Trouble>;

    /// The debug files of an attempt that has ended, packed; nothing if it has left none.
    fn debug_files(
        &self,
        _at: &Address,
        _run: &str,
        _step: u64,
        _attempt: u32,
    ) -> Result<Option<Vec<u8>>, Trouble> {
        Ok(None)
    }

    /// Removes a run that does not go on, with everything that its agents have left for other machines.
    fn forget(&self, at: &Address, run: &str) -> Result<(), Trouble>;

    /// Carries out steps on this machine until it is told to stop.
    fn work(&self, worker: &Worker) -> Result<ExitKind, UserError>;
}

/// A run that is about to begin.
#[derive(Debug)]
pub struct NewRun {
    pub id: String,
    /// Its first events.
    pub opening: Vec<Body>,
    /// The project's folder, and the folder in which its first agent works.
    pub project: PathBuf,
    pub cwd: PathBuf,
    /// The workflows that it can reach, its own first: folders, archives and files.
    pub scopes: Vec<PathBuf>,
    /// Where its debug files will be here; nothing if it leaves none.
    pub debug_folder: Option<PathBuf>,
    pub config: Config,
    /// Whether it goes on for as long as only questions are left, and does not stop.
    pub waits_for_answers: bool,
}

/// What has become of a run that was to be started.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Started {
    Begun,
    /// The engine has a run of this id already, and that stays as it is.
    IdInUse,
}

/// What a run goes on with.
#[derive(Clone, Debug)]
pub struct Resume {
    pub options: Options,
    /// Whether it goes on for as long as only questions are left; nothing leaves it as it was.
    pub waits_for_answers: Option<bool>,
    /// Its workflows as they are now. Without them it goes on with those that it has.
    pub workflows: Option<Workflows>,
}

/// What has become of a run that was to be resumed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Resumed {
    /// It goes on, or does so when a worker takes it up.
    GoesOn,
    /// It goes on as soon as its states have been read, and that takes long.
    Later,
}

/// The workflows of a run as they are when it is resumed.
#[derive(Clone, Debug)]
pub struct Workflows {
    /// Those that it can reach, its own first: folders, archives and files.
    pub scopes: Vec<PathBuf>,
    /// Folders, beside the project, whose workflows may be entered.
    pub workflow_paths: Vec<String>,
    /// Folders, beside the project, that models may choose.
    pub cd_paths: Vec<String>,
}

/// A run that an engine knows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KnownRun {
    pub id: String,
    /// Whether the engine still has something to do with it. It may have stopped and wait for a resume.
    pub is_open: bool,
}

/// What has happened in a run.
#[derive(Debug)]
pub struct News {
    pub batches: Vec<Vec<Event>>,
    /// Long texts that these events name. Others are asked for.
    pub payloads: Vec<String>,
    /// The machine that each agent is on.
    pub hosts: BTreeMap<AgentId, String>,
    pub standing: Standing,
}

/// How a run stands with its engine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Standing {
    /// It goes on.
    Open,
    /// It has finished or stopped.
    Over,
    /// The engine has ended it without asking it, so that it never goes on. The text is a phrase such as `was terminated`.
    Ended(String),
    /// No worker answers, so it stands as when it was last heard of.
    Unheard(String),
    /// The engine cannot have it decided any further, and why.
    Wedged(String),
}

/// Why an engine did not do what it was asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Trouble {
    /// It does not answer.
    Away(String),
    Refused(String),
}

impl Trouble {
    pub fn why(&self) -> &str {
        match self {
            Self::Away(why) | Self::Refused(why) => why,
        }
    }
}

impl std::fmt::Display for Trouble {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Away(why) => write!(f, "does not answer: {why}"),
            Self::Refused(why) => f.write_str(why),
        }
    }
}

/// How a machine takes part.
#[derive(Clone, Debug)]
pub struct Worker {
    pub at: Address,
    /// How many steps it runs at once.
    pub slots: usize,
    /// Where its files are.
    pub work: PathBuf,
    /// How long running steps may take to finish once it was told to stop.
    pub drain_timeout: Option<Duration>,
    /// How long its files of a run stay that has not ended and that no step uses. Without it they stay.
    pub keep: Option<Duration>,
}

static INSTALLED: OnceLock<Patient> = OnceLock::new();

/// Gives this program its engine, once.
pub(crate) fn install(fleet: &'static dyn Fleet) {
    let _ = INSTALLED.set(Patient::new(fleet));
}

/// The engine of this program, if it has one.
pub fn installed() -> Option<&'static Patient> {
    INSTALLED.get()
}
