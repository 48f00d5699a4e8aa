//! Asking a person on the terminal that Raymond runs on.
//!
//! One question at a time, read by a thread of its own. The answer goes through the inbox like everybody else's, so
//! exactly one is ever taken. Waiting for a line can be called off when somebody answers elsewhere.

use std::collections::VecDeque;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};

use rustix::event::{PollFd, PollFlags, poll};

use super::inbox::{ANSWER_MESSAGE, Answer};
use crate::store::{Posted, post};
use crate::text::clean;

/// A question as the person sees it.
#[derive(Clone, Debug)]
pub struct Question {
    pub run: String,
    pub agent: String,
    pub ask: String,
    pub text: String,
}

pub struct Terminal {
    inbox: PathBuf,
    waiting: VecDeque<Question>,
    /// The question on the screen; dropping its end of the pipe calls it off.
    asked: Option<(String, OwnedFd)>,
}

impl Terminal {
    pub fn new(inbox: PathBuf) -> Self {
        Self { inbox, waiting: VecDeque::new(), asked: None }
    }

    pub(super) fn opened(&mut self, question: Question) {
        self.waiting.push_back(question);
        self.ask_next();
    }

    pub(super) fn closed(&mut self, ask: &str) {
        self.waiting.retain(|question| question.ask != ask);
        if self.asked.as_ref().is_some_and(|(asked, _)| asked == ask) {
            self.asked = None;
        }
        self.ask_next();
    }

    fn ask_next(&mut self) {
        if self.asked.is_some() {
            return;
        }
        let Some(question) = self.waiting.pop_front() else { return };
        // Without a pipe the question could not be called off; it is then left to `raymond answer`.
        let Ok((ended, end)) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC) else { return };
        self.asked = Some((question.ask.clone(), end));
        let inbox = self.inbox.clone();
        std::thread::spawn(move || ask(&question, &inbox, &ended));
    }
}

fn ask(question: &Question, inbox: &Path, called_off: &OwnedFd) {
    let mut stderr = io::stderr();
    let _ = write!(
        stderr,
        "\n[{}] asks ({}):\n{}\n(end a line with \\ to write more than one)\n> ",
        clean(&question.agent),
        question.ask,
        clean(question.text.trim_end())
    );
    let _ = stderr.flush();
    match read_answer(called_off) {
        Some(text) => {
            if let Err(error) = send(question, inbox, text) {
                let _ = writeln!(stderr, "{error}");
            }
        }
        None => {
            let _ = writeln!(stderr, "\n(left open: raymond answer {} {} TEXT)", question.run, question.ask);
        }
    }
}

/// The lines of an answer; nothing if the input ends or the question is called off.
fn read_answer(called_off: &OwnedFd) -> Option<String> {
    let mut answer = String::new();
    loop {
        let line = read_line(called_off)?;
        match line.strip_suffix('\\') {
            Some(more) => {
                answer.push_str(more);
                answer.push('\n');
            }
            None => {
                answer.push_str(&line);
                return Some(answer);
            }
        }
    }
}

/// One line. The terminal edits it, so it comes whole; reading byte by byte leaves the next line for the next question.
fn read_line(called_off: &OwnedFd) -> Option<String> {
    let stdin = io::stdin();
    let mut bytes = Vec::new();
    loop {
        let mut ends =
            [PollFd::new(&stdin, PollFlags::IN), PollFd::from_borrowed_fd(called_off.as_fd(), PollFlags::IN)];
        match poll(&mut ends, None) {
            Err(rustix::io::Errno::INTR) => continue,
            Err(_) => return None,
            Ok(_) if !ends[1].revents().is_empty() => return None,
            Ok(_) => {}
        }
        let mut byte = [0];
        match unbuffered_stdin().read(&mut byte) {
            Ok(1) if byte[0] == b'\n' => return Some(String::from_utf8_lossy(&bytes).into_owned()),
            Ok(1) => bytes.push(byte[0]),
            _ => return None,
        }
    }
}

/// Stdin without std's buffer, which would swallow lines that `poll` then cannot see.
fn unbuffered_stdin() -> impl Read {
    struct Stdin;
    impl Read for Stdin {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            Ok(rustix::io::read(io::stdin(), buffer)?)
        }
    }
    Stdin
}

fn send(question: &Question, inbox: &Path, text: String) -> Result<(), String> {
    let answer = Answer { ask: question.ask.clone(), text, answer_id: uuid::Uuid::new_v4().to_string() };
    let content = serde_json::to_string(&answer).map_err(|error| error.to_string())?;
    match post(inbox, &format!("{ANSWER_MESSAGE}{}", question.ask), &content) {
        Ok(Posted::Posted) => Ok(()),
        Ok(Posted::AlreadyThere) => Err("somebody else has answered first".to_owned()),
        Err(error) => Err(format!("cannot record the answer: {error}")),
    }
}
