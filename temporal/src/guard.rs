//! The guard: a process beside a worker that ends the worker's steps when the worker itself cannot.
//!
//! A worker that is killed, frozen or hung does not end its steps, and the server gives them to another machine. So the
//! worker tells its guard which attempts run and how long they may, and tells it again after each heartbeat that the server
//! has answered. An attempt whose time is over, and all attempts of a worker that is gone, are ended with SIGKILL. Their
//! processes are found by what the worker has left on disk and by the marks on them, as a restarted worker finds them.
//!
//! A worker that stays silent is ended too. The server would go on giving work to it: that of its open questions if it is
//! frozen, and all work of its queue if only the thread hangs that carries out steps.
//!
//! Each line that the guard reads is a list of [`Message`]s, and it answers each with an empty line, so that the worker
//! knows that it is there. Bounds: one entry for each attempt that runs.

mod silence;
mod table;

use std::io::{self, Write};
use std::os::fd::AsFd;
use std::path::PathBuf;
use std::process::{ExitCode, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use raymond::process::{Reaper, TOKEN_VARIABLE, Target};
use raymond::run::hosted::left_behind;
use rustix::process::{Pid, Signal as Kill, getppid, kill_process};
use rustix::time::{ClockId, clock_gettime};
use serde::{Deserialize, Serialize};
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::net::unix::pipe;
use tokio::process::Command;
use tokio::signal::unix::{Signal, SignalKind, signal};

use silence::Silence;
use table::{Attempt, Table};

/// The argument that makes this program a guard. It is no command of Raymond.
const ARGUMENT: &str = "guard-of-a-worker";

/// While attempts run, the guard looks at the clock at least so often: its own timer stands still while the machine sleeps.
const LONGEST_PAUSE: Duration = Duration::from_millis(500);

/// How often a worker tells its guard something, even if there is nothing to tell.
pub const TELL_EVERY: Duration = Duration::from_secs(5);
/// A worker that was silent for so long is ended.
const LONGEST_SILENCE: Duration = Duration::from_secs(60);

/// What a worker tells its guard.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Message {
    /// The attempt may run until then, by [`since_boot`].
    MayRun { token: String, scratch: PathBuf, until: Duration },
    /// Its end is recorded. What it has left in the background may go on.
    Ended { token: String },
    /// The worker does not know any more how it goes. Its processes are ended now.
    Dropped { token: String },
}

impl Message {
    /// The token of the attempt that it is about.
    pub fn token(&self) -> &str {
        match self {
            Self::MayRun { token, .. } | Self::Ended { token } | Self::Dropped { token } => token,
        }
    }
}

/// The time since the machine was started. All processes of the machine have the same, and it counts while the machine sleeps.
pub fn since_boot() -> Duration {
    // On macOS the usual clock goes on in sleep, too.
    #[cfg(target_os = "linux")]
    let clock = ClockId::Boottime;
    #[cfg(not(target_os = "linux"))]
    let clock = ClockId::Monotonic;
    let time = clock_gettime(clock);
    Duration::new(u64::try_from(time.tv_sec).unwrap_or(0), u32::try_from(time.tv_nsec).unwrap_or(0))
}

/// How long an attempt may run after the worker has sent the last heartbeat that the server answered. The worker itself
/// gives up after half of the server's limit, and has a quarter to end the processes. What is left is for the guard.
pub fn right_to_run(heartbeat_limit: Duration) -> Duration {
    heartbeat_limit / 8 * 7
}

/// The command that starts a guard. It leads a session of its own, so that no signal to the worker's group or terminal
/// reaches it, and has nothing of the worker but a place for its last words.
pub fn command() -> io::Result<Command> {
    // The program on disk may be a newer one by now.
    #[cfg(target_os = "linux")]
    let program = PathBuf::from("/proc/self/exe");
    #[cfg(not(target_os = "linux"))]
    let program = std::env::current_exe()?;
    let mut command = std::process::Command::new(program);
    // A worker may run in a step. The guard must not count as a process of it.
    command.arg(ARGUMENT).current_dir("/").env_remove(TOKEN_VARIABLE);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::inherit());
    os_process::detach(&mut command);
    Ok(command.into())
}

/// Whether this process was started as a guard.
pub fn is_wanted() -> bool {
    std::env::args_os().nth(1).is_some_and(|argument| argument == ARGUMENT)
}

/// Guards until the worker is gone.
pub fn main() -> ExitCode {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    match runtime.and_then(|runtime| runtime.block_on(guard())) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            say(&format!("the guard of the worker ends: {error}"));
            ExitCode::FAILURE
        }
    }
}

async fn guard() -> io::Result<()> {
    let _survived = survive_signals()?;
    let reaper = Arc::new(Reaper::with_grace(Duration::ZERO)?);
    let from_worker = pipe::Receiver::from_owned_fd(io::stdin().as_fd().try_clone_to_owned()?)?;
    let mut lines = BufReader::new(from_worker).lines();
    let mut table = Table::default();
    let (worker, mut silence, mut is_told) = (getppid(), Silence::new(Instant::now()), false);
    loop {
        let pause = table.pause(since_boot()).map_or(TELL_EVERY, |pause| pause.min(LONGEST_PAUSE));
        let line = tokio::select! {
            // What the worker has already said counts.
            biased;
            line = lines.next_line() => Some(line),
            () = tokio::time::sleep(pause) => None,
        };
        match line.map(heard) {
            Some(Some(messages)) => {
                silence.ends(Instant::now());
                messages.into_iter().for_each(|message| table.hear(message));
                answer();
            }
            Some(None) => break,
            None => {}
        }
        let due = table.take_due(since_boot());
        if !due.is_empty() {
            end_soon(&reaper, due);
        }
        if silence.goes_on(Instant::now()) > LONGEST_SILENCE && !table.may_any_run() {
            is_told = end_worker(worker, is_told);
        }
    }
    end_all(&reaper, table.into_attempts()).await;
    Ok(())
}

/// What a line says; nothing if there is none, or none that can be read: then it is not known any more what may run.
fn heard(line: io::Result<Option<String>>) -> Option<Vec<Message>> {
    serde_json::from_str(&line.ok()??).ok()
}

/// The worker sends no line before it has this answer, so the pipe is never full.
fn answer() {
    let mut stdout = io::stdout();
    let _ = stdout.write_all(b"\n").and_then(|()| stdout.flush());
}

/// Ends attempts while the worker lives. It is not waited for: other attempts have to be ended in time, too.
///
/// The disk is read in another thread. It may be the one that does not answer, and then the worker hangs on it as well.
fn end_soon(reaper: &Arc<Reaper>, attempts: Vec<Attempt>) {
    drop(reaper.end(by_token(&attempts)));
    let reaper = Arc::clone(reaper);
    tokio::task::spawn_blocking(move || {
        drop(reaper.end(attempts.iter().flat_map(beside_the_worker).collect()));
    });
}

/// Ends what a worker has left that is gone.
async fn end_all(reaper: &Reaper, attempts: Vec<Attempt>) {
    if attempts.is_empty() {
        return;
    }
    let (count, by_token) = (attempts.len(), reaper.end(by_token(&attempts)));
    let found = tokio::task::spawn_blocking(move || attempts.iter().flat_map(left_by_the_worker).collect());
    by_token.await;
    let survivors = reaper.end(found.await.unwrap_or_default()).await;
    say(&format!("the worker is gone; its {count} running steps were ended"));
    if !survivors.is_empty() {
        say(&format!("these processes of them could not be ended: {survivors:?}"));
    }
}

/// All that can be found of attempts without the disk.
fn by_token(attempts: &[Attempt]) -> Vec<Target> {
    attempts.iter().map(|attempt| Target::by_token(&attempt.token)).collect()
}

fn left_by_the_worker(attempt: &Attempt) -> Vec<Target> {
    left_behind(&attempt.scratch, vec![attempt.token.clone()])
}

/// While the worker lives, a program that it is just starting has all its pipes open for a moment, so they prove nothing.
fn beside_the_worker(attempt: &Attempt) -> Vec<Target> {
    let targets = left_by_the_worker(attempt);
    targets.into_iter().map(|target| Target { pipes: Vec::new(), ..target }).collect()
}

/// Ends the worker, if that is still the process that has started this guard. The end of its pipe ends the guard, too. A worker
/// that waits for a disk ends only when that answers. Returns whether it is told by now.
fn end_worker(worker: Option<Pid>, is_told: bool) -> bool {
    let Some(worker) = worker.filter(|worker| getppid() == Some(*worker)) else { return is_told };
    let _ = kill_process(worker, Kill::KILL);
    if !is_told {
        say(&format!("the worker was silent for {} s and is ended", LONGEST_SILENCE.as_secs()));
    }
    true
}

/// Where a service is stopped, all of its processes may get these. The guard ends with the worker, and not before it.
fn survive_signals() -> io::Result<[Signal; 3]> {
    Ok([signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?, signal(SignalKind::hangup())?])
}

/// The worker's log may be gone with the worker.
fn say(text: &str) {
    let _ = writeln!(io::stderr(), "raymond: {text}");
}
