//! Starting `raymond` processes that outlive this one.
//!
//! Which runs were started is written down before their process starts, so that the next `serve` can resume those whose
//! process died.

use std::collections::{BTreeMap, BTreeSet};
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
use super::schedule;
use crate::error::{ExitKind, UserError};
use crate::files::{open_own_as, private_options};
use crate::handover::{self, Handover, NotBegun};
use crate::run::answering::message_name;
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
    skip_permissions: bool,
    /// The folder for files of our own.
    folder: PathBuf,
    /// The file with the runs that were started from here.
    list: SealedFile,
    running: Mutex<Vec<Child>>,
    /// The ids of the runs that are just being made.
    claimed: Mutex<BTreeSet<String>>,
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
    /// The run that is not remembered if the process ends at once.
    forget: Option<String>,
}

/// The right to make a run of an id, until it is dropped.
pub struct Claim<'a> {
    pub run: String,
    claimed: &'a Mutex<BTreeSet<String>>,
}

impl Drop for Claim<'_> {
    fn drop(&mut self) {
        self.claimed.lock().unwrap_or_else(PoisonError::into_inner).remove(&self.run);
    }
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
            claimed: Mutex::default(),
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

    /// The id of a run that is about to be made. Of several requests that want the same, one gets it.
    pub fn claim(&self, run: &str) -> Result<Claim<'_>, Problem> {
        let mut claimed = self.claimed.lock().unwrap_or_else(PoisonError::into_inner);
        match claimed.insert(run.to_owned()) {
            true => Ok(Claim { run: run.to_owned(), claimed: &self.claimed }),
            false => Err(Problem::conflict(format!("a run `{run}` is just being started"))),
        }
    }

    /// Starts a process for a run.
    pub fn launch(
        &self,
        run: &str,
        steps: u64,
        mut order: Handover,
        (folder, environment): (&Path, &[(&str, &str)]),
    ) -> Result<Launched, Problem> {
        let known = self.started().get(run).copied();
        let before = known.unwrap_or_default();
        let resumes = if steps > before.steps { 0 } else { before.resumes };
        self.note(run, Started { steps, resumes })?;
        order.words.extend(["--on-ask".to_owned(), "wait".to_owned()]);
        let mut command = self.command(order, folder)?;
        command.envs(environment.iter().copied());
        detach(&mut command);
        let forget = known.is_none().then(|| run.to_owned());
        Ok(Launched { forget, ..self.spawn(command)? })
    }

    /// Runs a command about a run, which starts nothing that goes on, to its end.
    pub fn call(&self, words: Vec<String>, run: &str) -> Result<(), Problem> {
        // The command comes first; an id may begin with a dash.
        let order = Handover { words, ..Handover::default() };
        let mut called = self.spawn(self.command_about(order, Some(run), &self.project)?)?;
        match called.child.wait().map_err(cannot_start)? {
            status if status.success() => Ok(()),
            status => Err(called.refusal(status.code())),
        }
    }

    fn command(&self, order: Handover, folder: &Path) -> Result<Command, Problem> {
        self.command_about(order, None, folder)
    }

    /// This program with another command line, for the same runs. What people typed stands in it, so it is handed over where
    /// others cannot read it.
    fn command_about(
        &self,
        mut order: Handover,
        run: Option<&str>,
        folder: &Path,
    ) -> Result<Command, Problem> {
        order.words.push("--quiet".to_owned());
        order.words.extend(self.permissions(&order).map(str::to_owned));
        if let Some(dir) = &self.state_dir {
            order.words.push(format!("--state-dir={}", text_of(dir)?));
        }
        order.words.extend(run.iter().flat_map(|run| ["--", run]).map(str::to_owned));
        let mut command = Command::new(&self.program);
        let stdin = order.to_json().and_then(|json| self.file_with(&json)).map_err(cannot_start)?;
        command.arg(handover::ARGUMENT).stdin(stdin).current_dir(folder);
        Ok(command)
    }

    /// What the agents of a process that is started here may do. Without a flag of this server they always ask, whatever
    /// the config file says and whatever the options are with which a run was started elsewhere.
    fn permissions(&self, order: &Handover) -> Option<&'static str> {
        let is_new = order.nonce.is_some();
        match self.skip_permissions {
            false => Some("--ask-permissions"),
            true => is_new.then_some("--dangerously-skip-permissions"),
        }
    }

    fn spawn(&self, mut command: Command) -> Result<Launched, Problem> {
        let said = self.scratch_file().map_err(cannot_start)?;
        command.stdout(Stdio::null()).stderr(said.try_clone().map_err(cannot_start)?);
        let child = command.spawn().map_err(cannot_start)?;
        Ok(Launched { child, said, forget: None })
    }

    /// A file without a name, which is gone when both processes have closed it.
    fn scratch_file(&self) -> std::io::Result<File> {
        let path = self.folder.join(format!("serve.{}.tmp", uuid::Uuid::new_v4().simple()));
        let file = open_own_as(private_options().read(true).append(true).create_new(true), &path)?;
        let _ = std::fs::remove_file(&path);
        Ok(file)
    }

    fn file_with(&self, text: &[u8]) -> std::io::Result<File> {
        let mut file = self.scratch_file()?;
        file.write_all(text)?;
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
                if let Some(run) = &launched.forget {
                    self.forget(run);
                }
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

    /// A run that has stopped, is gone or never began need not be remembered.
    fn forget(&self, run: &str) {
        let mut all = self.started();
        if all.remove(run).is_some() {
            let _ = self.save(&all);
        }
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

/// A path as a word of a command line that is handed over.
pub fn text_of(path: &Path) -> Result<String, Problem> {
    let text = path.to_str().map(str::to_owned);
    text.ok_or_else(|| Problem::internal(format!("the path {} is not text", path.display())))
}

fn cannot_start(error: std::io::Error) -> Problem {
    Problem::internal(format!("cannot start raymond: {error}"))
}

impl Launched {
    /// Why a process has ended before its run began.
    fn refusal(&mut self, code: Option<i32>) -> Problem {
        let mut text = String::new();
        let _ = self.said.seek(SeekFrom::Start(0));
        let _ = (&mut self.said).take(MOST_SAID).read_to_string(&mut text);
        let text = text.trim().trim_start_matches("error: ").to_owned();
        let is = |known: i32| code == Some(known);
        match () {
            () if is(NotBegun::WrongWord as i32) => Problem::malformed(text),
            () if is(NotBegun::Held as i32) => Problem::conflict(text),
            () if is(ExitKind::Usage as i32) => Problem::new(422, text),
            () => Problem::internal(format!("raymond ended at once: {text}")),
        }
    }
}

/// Starts the program in a session of its own, so that it outlives this process and is not reached by its signals.
#[cfg(unix)]
pub fn detach(command: &mut Command) {
    os_process::detach(command);
}

/// Starts the program outside of this process' job and console, so that it outlives them.
#[cfg(windows)]
pub fn detach(command: &mut Command) {
    use std::os::windows::process::CommandExt;
    const DETACHED_PROCESS: u32 = 0x8;
    const CREATE_NEW_PROCESS_GROUP: u32 = 0x200;
    const CREATE_BREAKAWAY_FROM_JOB: u32 = 0x0100_0000;
    command.creation_flags(DETACHED_PROCESS | CREATE_NEW_PROCESS_GROUP | CREATE_BREAKAWAY_FROM_JOB);
}

/// Resumes a run. It has begun when this returns.
pub fn resume(server: &Server, run: &Arc<dyn RunHandle>, options: Vec<String>) -> Result<(), Problem> {
    let (seq, steps) = server.index.with_run(run, |state| (state.seq, state.steps_completed))?;
    let launcher = &server.launcher;
    let mut order = Handover { words: options, ..Handover::default() };
    // As one word, because an id may begin with a dash.
    order.words.push(format!("--resume={}", run.id()));
    let launched = launcher.launch(run.id(), steps, order, (&launcher.project, &[]))?;
    // A run on other machines goes on when its engine has been told, though its first event may be long in coming.
    let goes_on_there = || run.elsewhere().is_some_and(|mark| mark.is_open);
    let has_begun =
        || goes_on_there() || server.index.with_run(run, |state| state.seq > seq).unwrap_or(false);
    launcher.wait(launched, has_begun)
}

/// Lets a run go on that has got the answer to a question. Returns whether it goes on because of this: another process may have
/// taken the answer up.
pub fn go_on_with_answer(server: &Server, run: &Arc<dyn RunHandle>, ask: &str) -> Result<bool, Problem> {
    let deadline = Instant::now() + PATIENCE;
    loop {
        match resume(server, run, Vec::new()) {
            Ok(()) => return Ok(true),
            Err(_) if !run.inbox().contains(&message_name(ask)) => return Ok(false),
            // Others who answer hold the lease for a moment, too.
            Err(problem) if problem.status == 409 && Instant::now() < deadline => {}
            Err(problem) => return Err(problem),
        }
    }
}

/// Resumes the runs that an earlier `serve` started and whose process died. What a person stopped stays stopped.
pub fn resume_dead(server: &Server) {
    let known: Vec<(String, Started)> =
        server.launcher.started().iter().map(|(run, started)| (run.clone(), *started)).collect();
    for (id, started) in known {
        let Ok(run) = server.index.find(&id) else {
            server.launcher.forget(&id);
            continue;
        };
        let state = server.index.with_run(&run, |state| {
            let is_held = || schedule::is_held(&state.labels, &state.scope);
            (state.status, state.steps_completed, state.status == RunStatus::Running && is_held())
        });
        let Ok((status, steps, is_held)) = state else { continue };
        let is_ended = run.elsewhere().is_some_and(|mark| mark.ended.is_some());
        if status != RunStatus::Running || is_ended {
            server.launcher.forget(&id);
            continue;
        }
        let resumes = if steps > started.steps { 0 } else { started.resumes };
        if holds(&*run) || resumes >= MOST_RESUMES {
            continue;
        }
        if is_held {
            eprintln!(
                "{id} is not resumed: its schedule began it, and its workflow is not trusted as it is now"
            );
            continue;
        }
        let noted = server.launcher.note(&id, Started { steps, resumes: resumes + 1 });
        let resumed = noted.and_then(|()| resume(server, &run, Vec::new()));
        if let Err(problem) = resumed {
            tracing::warn!(run = id, problem = problem.detail, "cannot resume a run whose process died");
        }
    }
}
