//! Starting a program, and explaining why it could not be started.

use std::ffi::OsString;
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use tokio::process::Command;

use super::cgroup::Cgroup;
use super::child::Child;
use super::streams::Streams;
use super::{TOKEN_VARIABLE, system};

/// A race: a file that was just written may still be open in another child between fork and exec.
const BUSY_ATTEMPTS: u32 = 6;
const BUSY_PAUSE: Duration = Duration::from_millis(10);

/// A program to start.
#[derive(Clone, Debug)]
pub struct ProgramSpec {
    /// A name that is looked up on PATH, or an absolute path.
    pub program: OsString,
    pub args: Vec<OsString>,
    pub cwd: PathBuf,
    /// Changes to the inherited environment: `Some` sets a variable, `None` removes it.
    pub env: Vec<(OsString, Option<OsString>)>,
    /// Written to the program's stdin, which is then closed. If empty, the program reads from the null device.
    pub stdin: Vec<u8>,
    /// Unique to this attempt of this step; the value of [`TOKEN_VARIABLE`].
    pub token: String,
    pub on_parent_death: ParentDeath,
}

impl ProgramSpec {
    /// A program without arguments, input or changes to its environment.
    pub fn new(program: impl Into<OsString>, cwd: impl Into<PathBuf>, token: impl Into<String>) -> Self {
        ProgramSpec {
            program: program.into(),
            args: Vec::new(),
            cwd: cwd.into(),
            env: Vec::new(),
            stdin: Vec::new(),
            token: token.into(),
            on_parent_death: ParentDeath::default(),
        }
    }
}

/// What happens to the program when Raymond is killed. On Linux only the program itself gets the signal, not its
/// children. On Windows all processes of the step are ended in any case.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ParentDeath {
    /// For programs that clean up after themselves, such as agents.
    Terminate,
    /// For programs that may ignore a request to terminate, such as scripts.
    #[default]
    Kill,
}

/// Why a program could not be started.
#[derive(Debug)]
pub enum SpawnError {
    DirectoryMissing(PathBuf),
    NotADirectory(PathBuf),
    NotOnPath(OsString),
    FileMissing(OsString),
    InterpreterMissing(OsString),
    PermissionDenied { program: OsString, cwd: PathBuf },
    FileBusy(OsString),
    TooLong(OsString),
    Other { program: OsString, error: io::Error },
}

impl fmt::Display for SpawnError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SpawnError::DirectoryMissing(cwd) => {
                write!(formatter, "the working directory {} does not exist", cwd.display())
            }
            SpawnError::NotADirectory(cwd) => {
                write!(formatter, "the working directory {} is not a directory", cwd.display())
            }
            SpawnError::NotOnPath(program) => {
                write!(formatter, "the program `{}` was not found on PATH", program.display())
            }
            SpawnError::FileMissing(program) => {
                write!(formatter, "the program {} does not exist", program.display())
            }
            SpawnError::InterpreterMissing(program) => {
                write!(formatter, "the interpreter that {} asks for was not found", program.display())
            }
            SpawnError::PermissionDenied { program, cwd } => write!(
                formatter,
                "no permission to run {} in {}; is it executable?",
                program.display(),
                cwd.display()
            ),
            SpawnError::FileBusy(program) => {
                write!(formatter, "{} cannot be run while something writes to it", program.display())
            }
            SpawnError::TooLong(program) => write!(
                formatter,
                "the arguments and environment for {} are longer than the system allows",
                program.display()
            ),
            SpawnError::Other { program, error } => {
                write!(formatter, "cannot start {}: {error}", program.display())
            }
        }
    }
}

impl SpawnError {
    /// Whether the host is short of processes, file descriptors or memory, so that it may work later.
    pub fn is_shortage(&self) -> bool {
        matches!(self, SpawnError::Other { error, .. } if system::is_shortage(error))
    }
}

impl std::error::Error for SpawnError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            SpawnError::Other { error, .. } => Some(error),
            _ => None,
        }
    }
}

/// Starts the program on the calling thread, with pipes for its output and, if there is any input, for its stdin; in the
/// cgroup, if that works.
pub(super) async fn start(
    spec: &ProgramSpec,
    cgroup: Option<&Cgroup>,
) -> Result<(Child, Streams), SpawnError> {
    let mut attempt = 1;
    loop {
        match start_once(spec, cgroup).await {
            Ok(started) => return Ok(started),
            Err(error) if error.kind() == io::ErrorKind::ExecutableFileBusy && attempt < BUSY_ATTEMPTS => {
                tokio::time::sleep(BUSY_PAUSE * attempt).await;
                attempt += 1;
            }
            Err(error) => {
                check_directory(&spec.cwd)?;
                return Err(explain(spec, error));
            }
        }
    }
}

async fn start_once(spec: &ProgramSpec, cgroup: Option<&Cgroup>) -> io::Result<(Child, Streams)> {
    #[cfg(target_os = "linux")]
    match super::linux::start(spec, cgroup) {
        Err(error) if error.kind() == io::ErrorKind::Unsupported => {}
        other => return other,
    }
    #[cfg(not(target_os = "linux"))]
    let _ = cgroup;
    start_commonly(spec).await
}

/// Starts the program with the standard library, which works on every system.
pub(super) async fn start_commonly(spec: &ProgramSpec) -> io::Result<(Child, Streams)> {
    let mut command = command(spec);
    let outputs = system::Outputs::of(&mut command).await?;
    let (child, streams) = system::adopt(command.spawn()?, outputs, spec)?;
    Ok((Child::Common(child), streams))
}

fn command(spec: &ProgramSpec) -> Command {
    let mut command = Command::new(system::program_of(spec));
    command.args(&spec.args).current_dir(&spec.cwd);
    for (name, value) in &spec.env {
        match value {
            Some(value) => command.env(name, value),
            None => command.env_remove(name),
        };
    }
    // Last, so that no variable of the step can replace it.
    command.env(TOKEN_VARIABLE, &spec.token);
    command.stdin(if spec.stdin.is_empty() { Stdio::null() } else { Stdio::piped() });
    system::isolate(&mut command, spec.on_parent_death);
    command
}

/// The system reports a missing directory and a missing program with the same error.
fn check_directory(cwd: &Path) -> Result<(), SpawnError> {
    if cwd.is_dir() {
        Ok(())
    } else if cwd.exists() {
        Err(SpawnError::NotADirectory(cwd.to_owned()))
    } else {
        Err(SpawnError::DirectoryMissing(cwd.to_owned()))
    }
}

fn explain(spec: &ProgramSpec, error: io::Error) -> SpawnError {
    let program = spec.program.clone();
    let path = Path::new(&program);
    let is_bare_name = path.components().count() == 1 && !path.has_root();
    match error.kind() {
        io::ErrorKind::NotFound if is_bare_name => SpawnError::NotOnPath(program),
        io::ErrorKind::NotFound if spec.cwd.join(path).exists() => SpawnError::InterpreterMissing(program),
        io::ErrorKind::NotFound => SpawnError::FileMissing(program),
        io::ErrorKind::PermissionDenied => SpawnError::PermissionDenied { program, cwd: spec.cwd.clone() },
        io::ErrorKind::ExecutableFileBusy => SpawnError::FileBusy(program),
        io::ErrorKind::ArgumentListTooLong => SpawnError::TooLong(program),
        _ => SpawnError::Other { program, error },
    }
}
