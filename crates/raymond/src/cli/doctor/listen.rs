//! Starts a program and listens to it for a short time.

use std::io::Read;
use std::process::{Command, ExitStatus, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

/// How much of an answer is read.
const MOST_BYTES: u64 = 1024 * 1024;
/// How long to wait between two looks whether the program has ended.
const PAUSE: Duration = Duration::from_millis(10);

/// What a program said before it ended.
pub(super) struct Heard {
    pub(super) status: ExitStatus,
    pub(super) stdout: String,
}

/// Why there is no answer.
pub(super) enum NoAnswer {
    NotThere,
    NotStarted(String),
    TooSlow,
}

/// Runs a program to its end, without input; one that takes too long is ended.
pub(super) fn listen(command: &mut Command, patience: Duration) -> Result<Heard, NoAnswer> {
    let quiet = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut child = quiet.spawn().map_err(|error| match error.kind() {
        std::io::ErrorKind::NotFound => NoAnswer::NotThere,
        _ => NoAnswer::NotStarted(error.to_string()),
    })?;
    let pieces = pieces(child.stdout.take());
    let deadline = Instant::now() + patience;
    let mut stdout = Vec::new();
    let status = loop {
        if let Ok(piece) = pieces.recv_timeout(PAUSE) {
            stdout.extend(piece);
            continue;
        }
        match child.try_wait() {
            Ok(Some(status)) => break status,
            Ok(None) if Instant::now() < deadline => thread::sleep(PAUSE),
            Ok(None) | Err(_) => {
                let _ = child.kill();
                let _ = child.wait();
                return Err(NoAnswer::TooSlow);
            }
        }
    };
    // A process that it left behind may hold the pipe open, so its end is not waited for long.
    while let Ok(piece) = pieces.recv_timeout(PAUSE) {
        stdout.extend(piece);
    }
    Ok(Heard { status, stdout: String::from_utf8_lossy(&stdout).into_owned() })
}

/// What comes out of a pipe, as it comes.
fn pieces(pipe: Option<impl Read + Send + 'static>) -> mpsc::Receiver<Vec<u8>> {
    let (sender, receiver) = mpsc::channel();
    thread::spawn(move || {
        let Some(pipe) = pipe else { return };
        let mut pipe = pipe.take(MOST_BYTES);
        let mut piece = [0; 8192];
        while let Ok(length) = pipe.read(&mut piece) {
            if length == 0 || sender.send(piece[..length].to_vec()).is_err() {
                break;
            }
        }
    });
    receiver
}
