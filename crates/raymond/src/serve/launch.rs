//! Starting `raymond` processes that outlive this one.
//!
//! Which runs were started is written down before their process starts, so that the next `serve` can resume those whose
//! process died.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs::File;
use std::io::{Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use raymond_core::run::RunStatus;
use serde::{Deserialize, Serialize};

use super::Server;
use super::index::holds;
use super::problem::Problem;
use crate::error::{ExitKind, UserError};
use crate::files::private_options;
use crate::store::{RunHandle, SealedFile};

/// How long a new process may take until its run can be seen.
const PATIENCE: Duration = Duration::from_secs(60);
/// How often a run whose process died is resumed without a finished step in between.
const MOST_RESUMES: u32 = 3;
/// How long the list of the runs that were started may be.
const MOST_LISTED: u64 = 16 * 1024 * 1024;
/// How much of what a process says is shown if it ends at once.
const MOST_SAID: u64 = 64 * 1024;

/// Starts processes, and knows which runs they are for.
pub struct Launcher {
    program: PathBuf,
    /// Where the processes work, unless the workflow is of another project.
    pub project: PathBuf,
    /// The folder of `--state-dir`, if it was given.
    state_dir: Option<PathBuf>,
    pub skip_permissions: bool,
    /// The folder for files of our own.
    folder: PathBuf,
    /// The file with the runs that were started from here.
    list: SealedFile,
    running: Mutex<Vec<Child>>,
    started: Mutex<BTreeMap<String, Started>>,
}

/// What is remembered of a run that was started from here.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
struct Started {
    /// How many steps were done when it was started last.
    steps: u64,
    /// How often it was resumed since then without a finished step.
    resumes: u32,
}

/// A process that was just started.
pub struct Launched {
    child: Child,
    /// What it writes to stderr.
    said: File,
}

impl Launcher {
    pub fn new(
        project: PathBuf,
        state_dir: Option<PathBuf>,
        folder: PathBuf,
        list: SealedFile,
        skip_permissions: bool,
    ) -> Result<Self, UserError> {
        let program = std::env::current_exe()
            .map_err(|error| UserError::failed(format!("cannot find this program: {error}")))?;
        let launcher = Self {
            program,
            project,
            state_dir,
            skip_permissions,
            folder,
            list,
            running: Mutex::default(),
            started: Mutex::default(),
        };
        let known = launcher.list.read(MOST_LISTED);
        *launcher.started() = known.and_then(|text| serde_json::from_slice(&text).ok()).unwrap_or_default();
        Ok(launcher)
    }

    fn started(&self) -> MutexGuard<'_, BTreeMap<String, Started>> {
        self.started.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Writes down that a run is started from here.
    fn note(&self, run: &str, started: Started) -> Result<(), Problem> {
        let mut all = self.started();
        all.insert(run.to_owned(), started);
        self.save(&all)
    }

    fn save(&self, all: &BTreeMap<String, Started>) -> Result<(), Problem> {
        let text = serde_json::to_vec(all).map_err(Problem::internal)?;
        self.list.write(&text).map_err(|error| {
            Problem::internal(format!("cannot write {}: {error}", self.list.path().display()))
        })
    }

    /// Starts a process for a run.
    pub fn launch(
        &self,
        run: &str,
        steps: u64,
        args: Vec<OsString>,
        stdin: Option<&str>,
        folder: &Path,
    ) -> Result<Launched, Problem> {
        let before = self.started().get(run).copied().unwrap_or_default();
        let resumes = if steps > before.steps { 0 } else { before.resumes };
        self.note(run, Started { steps, resumes })?;
        let stdin = stdin.map(|text| self.file_with(text)).transpose().map_err(cannot_start)?;
        let mut command = self.command(args, folder);
        command.args(["--on-ask", "wait"]);
        command.stdin(stdin.map_or_else(Stdio::null, Stdio::from));
        detach(&mut command);
        self.spawn(command)
    }

    /// Runs a command about a run, which starts nothing that goes on, to its end.
    pub fn call(&self, args: Vec<OsString>, run: &str) -> Result<(), Problem> {
        let mut command = self.command(args, &self.project);
        // An id may begin with a dash.
        command.stdin(Stdio::null()).arg("--").arg(run);
        let mut called = self.spawn(command)?;
        match called.child.wait().map_err(cannot_start)? {
            status if status.success() => Ok(()),
            status => Err(called.refusal(status.code())),
        }
    }

    /// This program with other arguments, for the same runs.
    fn command(&self, args: Vec<OsString>, folder: &Path) -> Command {
        let mut command = Command::new(&self.program);
        command.args(args).arg("--quiet").current_dir(folder);
        if let Some(dir) = &self.state_dir {
            command.arg("--state-dir").arg(dir);
        }
        command
    }

    fn spawn(&self, mut command: Command) -> Result<Launched, Problem> {
        let said = self.scratch_file().map_err(cannot_start)?;
        command.stdout(Stdio::null()).stderr(said.try_clone().map_err(cannot_start)?);
        let child = command.spawn().map_err(cannot_start)?;
        Ok(Launched { child, said })
    }

    /// A file without a name, which is gone when both processes have closed it.
    fn scratch_file(&self) -> std::io::Result<File> {
        let path = self.folder.join(format!("serve.{}.tmp", uuid::Uuid::new_v4().simple()));
        let file = private_options().read(true).append(true).create_new(true).open(&path)?;
        let _ = std::fs::remove_file(&path);
        Ok(file)
    }

    fn file_with(&self, text: &str) -> std::io::Result<File> {
        let mut file = self.scratch_file()?;
        file.write_all(text.as_bytes())?;
        file.seek(SeekFrom::Start(0))?;
        Ok(file)
    }

    /// Waits until the process has got so far, or has ended.
    pub fn wait(&self, mut launched: Launched, mut has_begun: impl FnMut() -> bool) -> Result<(), Problem> {
        let deadline = Instant::now() + PATIENCE;
        loop {
            // In this order: a short run may have begun and ended meanwhile.
            let ended = launched.child.try_wait().ok().flatten();
            if has_begun() {
                break;
            }
            if let Some(status) = ended {
                return Err(launched.refusal(status.code()));
            }
            if Instant::now() > deadline {
                self.keep(launched.child);
                return Err(Problem::internal("the run has not begun within a minute"));
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        self.keep(launched.child);
        Ok(())
    }

    /// Remembers a process, so that it is cleared away when it has ended.
    fn keep(&self, child: Child) {
        let mut running = self.running.lock().unwrap_or_else(PoisonError::into_inner);
        running.push(child);
    }

    /// Clears away processes that have ended.
    pub fn clear_ended(&self) {
        let mut running = self.running.lock().unwrap_or_else(PoisonError::into_inner);
        running.retain_mut(|child| !matches!(child.try_wait(), Ok(Some(_)) | Err(_)));
    }
}

fn cannot_start(error: std::io::Error) -> Problem {
    Problem::internal(format!("cannot start raymond: {error}"))
}

/// What stands below an error about the value of an option, and only there.
const HINT_AT_HELP: &str = "For more information, try '--help'.";

impl Launched {
    /// Why a process has ended before its run began.
    fn refusal(&mut self, code: Option<i32>) -> Problem {
        let mut text = String::new();
        let _ = self.said.seek(SeekFrom::Start(0));
        let _ = (&mut self.said).take(MOST_SAID).read_to_string(&mut text);
        let text = text.trim().trim_start_matches("error: ").to_owned();
        match (code, text.strip_suffix(HINT_AT_HELP)) {
            (Some(code), Some(text)) if code == ExitKind::Usage as i32 => Problem::malformed(text.trim()),
            (Some(code), None) if code == ExitKind::Usage as i32 => Problem::new(422, text),
            _ => Problem::internal(format!("raymond ended at once: {text}")),
        }
    }
}

/// Starts the program in a session of its own, so that it outlives this process and is not reached by its signals.
#[cfg(unix)]
fn detach(command: &mut Command) {
    os_process::detach(command);
}

/// Starts the program outside of this process' job and console, so that it outlives them.
#[cfg(windows)]
fn detach(command: &mut Command) {
    use std::os::windows::process::CommandExt;
    const DETACHED_PROCESS: u32 = 0x8;
    const CREATE_NEW_PROCESS_GROUP: u32 = 0x200;
    const CREATE_BREAKAWAY_FROM_JOB: u32 = 0x0100_0000;
    command.creation_flags(DETACHED_PROCESS | CREATE_NEW_PROCESS_GROUP | CREATE_BREAKAWAY_FROM_JOB);
}

/// Resumes a run. It has begun when this returns.
pub fn resume(server: &Server, run: &Arc<dyn RunHandle>, options: Vec<OsString>) -> Result<(), Problem> {
    let (seq, steps) = server.index.with_run(run, |state| (state.seq, state.steps_completed))?;
    let launcher = &server.launcher;
    let mut args = options;
    // As one word, because an id may begin with a dash.
    args.push(format!("--resume={}", run.id()).into());
    let launched = launcher.launch(run.id(), steps, args, None, &launcher.project)?;
    // A run on other machines goes on when its engine has been told, though its first event may be long in coming.
    let goes_on_there = || run.elsewhere().is_some_and(|mark| mark.is_open);
    let has_begun =
        || goes_on_there() || server.index.with_run(run, |state| state.seq > seq).unwrap_or(false);
    launcher.wait(launched, has_begun)
}

/// Resumes the runs that an earlier `serve` started and whose process died. What a person stopped stays stopped.
pub fn resume_dead(server: &Server) {
    let known: Vec<(String, Started)> =
        server.launcher.started().iter().map(|(run, started)| (run.clone(), *started)).collect();
    for (id, started) in known {
        let Ok(run) = server.index.find(&id) else {
            forget(server, &id);
            continue;
        };
        let state = server.index.with_run(&run, |state| (state.status, state.steps_completed));
        let Ok((status, steps)) = state else { continue };
        let is_ended = run.elsewhere().is_some_and(|mark| mark.ended.is_some());
        if status != RunStatus::Running || is_ended {
            forget(server, &id);
            continue;
        }
        let resumes = if steps > started.steps { 0 } else { started.resumes };
        if holds(&*run) || resumes >= MOST_RESUMES {
            continue;
        }
        let noted = server.launcher.note(&id, Started { steps, resumes: resumes + 1 });
        let resumed = noted.and_then(|()| resume(server, &run, Vec::new()));
        if let Err(problem) = resumed {
            tracing::warn!(run = id, problem = problem.detail, "cannot resume a run whose process died");
        }
    }
}

/// A run that has stopped or is gone need not be remembered.
fn forget(server: &Server, run: &str) {
    let mut all = server.launcher.started();
    if all.remove(run).is_some() {
        let _ = server.launcher.save(&all);
    }
}
