//! Starting a program on Linux, without copying Raymond's memory.

use std::ffi::OsStr;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::OnceLock;

use os_process::Spawn;
use tokio::process::{ChildStderr, ChildStdin, ChildStdout};

use super::TOKEN_VARIABLE;
use super::cgroup::Cgroup;
use super::child::Child;
use super::spawn::ProgramSpec;
use super::streams::Streams;
use super::unix::isolation;

/// Fails with [`io::ErrorKind::Unsupported`] if the kernel cannot do it.
pub(super) fn start(spec: &ProgramSpec, cgroup: Option<&Cgroup>) -> io::Result<(Child, Streams)> {
    let (stdin, our_stdin) = stdin_pipe(spec)?.unzip();
    let (our_stdout, stdout) = io::pipe()?;
    let (our_stderr, stderr) = io::pipe()?;
    // What can fail comes first: a running program must not be reported as one that could not be started.
    let our_stdout = ChildStdout::from_std(OwnedFd::from(our_stdout).into())?;
    let our_stderr = ChildStderr::from_std(OwnedFd::from(our_stderr).into())?;
    let our_stdin = our_stdin.map(|pipe| ChildStdin::from_std(pipe.into())).transpose()?;
    let stdin = match &stdin {
        Some(pipe) => pipe.as_fd(),
        None => null_device()?,
    };
    let changes = spec.env.iter().map(|(name, value)| (name.as_os_str(), value.as_deref()));
    // Last, so that no variable of the step can replace it.
    let token = (OsStr::new(TOKEN_VARIABLE), Some(OsStr::new(&spec.token)));
    let env: Vec<_> = changes.chain([token]).collect();
    let cgroup = cgroup.and_then(|cgroup| cgroup.open().ok());
    let child = Spawn {
        program: &spec.program,
        args: &spec.args,
        env: &env,
        cwd: &spec.cwd,
        streams: [stdin, stdout.as_fd(), stderr.as_fd()],
        isolation: isolation(spec.on_parent_death),
        cgroup: cgroup.as_ref().map(AsFd::as_fd),
    }
    .start()?;
    Ok((Child::Vfork(child, our_stdin), Streams::new(Some(our_stdout), Some(our_stderr))))
}

/// The program's end of its stdin and our end of it, if there is something to write.
fn stdin_pipe(spec: &ProgramSpec) -> io::Result<Option<(OwnedFd, OwnedFd)>> {
    if spec.stdin.is_empty() {
        return Ok(None);
    }
    let (theirs, ours) = io::pipe()?;
    Ok(Some((theirs.into(), ours.into())))
}

/// The null device, opened once for all programs.
fn null_device() -> io::Result<BorrowedFd<'static>> {
    static NULL: OnceLock<File> = OnceLock::new();
    if let Some(file) = NULL.get() {
        return Ok(file.as_fd());
    }
    #[expect(clippy::disallowed_methods, reason = "this device is always there and never waits")]
    let file = File::open("/dev/null")?;
    Ok(NULL.get_or_init(|| file).as_fd())
}
