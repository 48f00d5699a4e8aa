//! Talks to a program for a short time.

use std::io::{Read, Write};
use std::process::{Command, ExitStatus, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use crate::process::Input;

/// How much of an answer is read.
const MOST_BYTES: u64 = 1024 * 1024;
/// How long to wait between two looks whether the program has ended.
const PAUSE: Duration = Duration::from_millis(10);

/// Who talks to a program.
pub(super) trait Partner {
    /// What the program is told now; asked for at the start and after each piece of its output.
    fn input(&mut self) -> Input;

    fn heard(&mut self, stdout: &[u8]);
}

/// Says nothing and listens.
#[derive(Default)]
pub(super) struct Listener(pub(super) Vec<u8>);

impl Partner for Listener {
    fn input(&mut self) -> Input {
        Input::default()
    }

    fn heard(&mut self, stdout: &[u8]) {
        self.0.extend_from_slice(stdout);
    }
}

/// How a program ended.
pub(super) struct Ended {
    pub(super) status: ExitStatus,
    pub(super) stderr: String,
}

/// Why there is no answer.
pub(super) enum NoAnswer {
    NotThere,
    NotStarted(String),
    TooSlow,
}

/// Runs a program to its end; one that takes too long is ended.
pub(super) fn talk(
    command: &mut Command,
    partner: &mut dyn Partner,
    patience: Duration,
) -> Result<Ended, NoAnswer> {
    let piped = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = piped.spawn().map_err(|error| match error.kind() {
        std::io::ErrorKind::NotFound => NoAnswer::NotThere,
        _ => NoAnswer::NotStarted(error.to_string()),
    })?;
    let mut stdin = child.stdin.take();
    let stdout = pieces(child.stdout.take());
    let stderr = pieces(child.stderr.take());
    let deadline = Instant::now() + patience;
    let status = loop {
        let input = partner.input();
        // The program may end before it has read everything.
        let is_read = stdin.as_mut().is_some_and(|stdin| stdin.write_all(&input.bytes).is_ok());
        stdin = stdin.filter(|_| is_read && !input.is_last);
        if let Ok(piece) = stdout.recv_timeout(PAUSE) {
            partner.heard(&piece);
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
    // A process that it left behind may hold the pipes open, so their end is not waited for long.
    while let Ok(piece) = stdout.recv_timeout(PAUSE) {
        partner.heard(&piece);
    }
    let mut said = Vec::new();
    while let Ok(piece) = stderr.recv_timeout(PAUSE) {
        said.extend(piece);
    }
    Ok(Ended { status, stderr: String::from_utf8_lossy(&said).into_owned() })
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
