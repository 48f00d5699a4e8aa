//! Asks a program for a short answer, and does not wait for it long.

use std::io::{Read, Write};
use std::process::{Command, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant};

/// How much of an answer is read.
const MOST_BYTES: u64 = 1024 * 1024;
/// How long to wait between two looks whether the program has ended.
const PAUSE: Duration = Duration::from_millis(10);

/// What a program said.
pub(super) struct Answer {
    pub(super) status: ExitStatus,
    pub(super) stdout: Vec<u8>,
    pub(super) stderr: String,
}

/// Why there is no answer.
pub(super) enum NoAnswer {
    NotThere,
    NotStarted(String),
    TooSlow,
}

/// Runs a program with this input; one that takes too long is ended.
pub(super) fn ask(command: &mut Command, input: Vec<u8>, patience: Duration) -> Result<Answer, NoAnswer> {
    let piped = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = piped.spawn().map_err(|error| match error.kind() {
        std::io::ErrorKind::NotFound => NoAnswer::NotThere,
        _ => NoAnswer::NotStarted(error.to_string()),
    })?;
    let mut stdin = child.stdin.take();
    // The program may end before it has read everything.
    thread::spawn(move || stdin.take().map(|mut stdin| stdin.write_all(&input)));
    let stdout = reading(child.stdout.take());
    let stderr = reading(child.stderr.take());
    let deadline = Instant::now() + patience;
    let status = loop {
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
    let stderr = String::from_utf8_lossy(&stderr.join().unwrap_or_default()).into_owned();
    Ok(Answer { status, stdout: stdout.join().unwrap_or_default(), stderr })
}

fn reading(pipe: Option<impl Read + Send + 'static>) -> thread::JoinHandle<Vec<u8>> {
    thread::spawn(move || {
        let mut bytes = Vec::new();
        if let Some(pipe) = pipe {
            let _ = pipe.take(MOST_BYTES).read_to_end(&mut bytes);
        }
        bytes
    })
}
