//! Asks a person on the terminal that Raymond runs on.
//!
//! One question at a time, read by a separate thread. The answer is posted to the inbox like one from `raymond answer`,
//! so exactly one is taken. The wait for a line is cancelled if the question is answered in another way. Questions are
//! printed by stderr's own writer, which holds back all other output until the answer.

use std::collections::VecDeque;
use std::io::Write;
use std::sync::Arc;

use tokio::sync::Notify;

use super::inbox::{ANSWER_MESSAGE, Answer};
use super::keyboard::{CallOff, CalledOff, Line, call_off, read_line};
use crate::store::{Inbox, Posted};
use crate::view::output::Output;
use crate::view::text::clean;

/// A question as the person sees it.
#[derive(Clone, Debug)]
pub struct Question {
    pub run: String,
    pub agent: String,
    pub ask: String,
    pub text: String,
}

pub struct Terminal {
    inbox: Arc<dyn Inbox>,
    stderr: Output,
    /// Notified when stdin has ended, so that no more questions can be asked here.
    ended: Arc<Notify>,
    waiting: VecDeque<Question>,
    /// Whether no more questions are asked here.
    is_over: bool,
    /// The question on the screen; dropping the second part cancels the wait for its answer.
    asked: Option<(String, CallOff)>,
}

impl Terminal {
    pub fn new(inbox: Arc<dyn Inbox>, stderr: Output) -> Self {
        Self { inbox, stderr, ended: Arc::default(), waiting: VecDeque::new(), is_over: false, asked: None }
    }

    /// Waits until stdin has ended.
    pub(super) async fn ended(&self) {
        self.ended.notified().await;
    }

    pub(super) fn opened(&mut self, question: Question) {
        self.waiting.push_back(question);
        self.ask_next();
    }

    pub(super) fn closed(&mut self, ask: &str) {
        self.waiting.retain(|question| question.ask != ask);
        if self.asked.as_ref().is_some_and(|(asked, _)| asked == ask) {
            self.call_off();
        }
        self.ask_next();
    }

    /// From now on no questions are asked here.
    pub(super) fn stop_asking(&mut self) {
        self.is_over = true;
        self.call_off();
    }

    fn call_off(&mut self) {
        if self.asked.take().is_some() {
            self.stderr.go_on();
        }
    }

    fn ask_next(&mut self) {
        if self.asked.is_some() || self.is_over {
            return;
        }
        let Some(question) = self.waiting.pop_front() else { return };
        // Without a way to cancel the wait, the question is left to `raymond answer`.
        let Ok((ended, end)) = call_off() else { return };
        self.asked = Some((question.ask.clone(), end));
        self.stderr.ask(&wording(&question));
        let (inbox, stderr) = (Arc::clone(&self.inbox), self.stderr.clone());
        let stdin_ended = Arc::clone(&self.ended);
        std::thread::spawn(move || {
            if !answer(&question, &*inbox, &ended, stderr) {
                stdin_ended.notify_one();
            }
        });
    }
}

fn wording(question: &Question) -> String {
    format!(
        "\n[{}] asks ({}):\n{}\n(end a line with \\ to write more than one)\n> ",
        clean(&question.agent),
        question.ask,
        clean(question.text.trim_end())
    )
}

/// Reads an answer and posts it. Returns false if stdin has ended.
fn answer(question: &Question, inbox: &dyn Inbox, called_off: &CalledOff, mut stderr: Output) -> bool {
    match read_answer(called_off) {
        Line::Text(text) => {
            if let Err(error) = send(question, inbox, text) {
                let _ = writeln!(stderr, "{error}");
            }
            true
        }
        Line::CalledOff => true,
        Line::End => {
            let _ = writeln!(stderr);
            false
        }
    }
}

/// The lines of an answer.
fn read_answer(called_off: &CalledOff) -> Line {
    let mut answer = String::new();
    loop {
        let line = match read_line(called_off) {
            Line::Text(line) => line,
            other => return other,
        };
        match line.strip_suffix('\\') {
            Some(more) => {
                answer.push_str(more);
                answer.push('\n');
            }
            None => {
                answer.push_str(&line);
                return Line::Text(answer);
            }
        }
    }
}

fn send(question: &Question, inbox: &dyn Inbox, text: String) -> Result<(), String> {
    let answer = Answer { ask: question.ask.clone(), text, answer_id: uuid::Uuid::new_v4().to_string() };
    let content = serde_json::to_string(&answer).map_err(|error| error.to_string())?;
    match inbox.post(&format!("{ANSWER_MESSAGE}{}", question.ask), &content) {
        Ok(Posted::Posted) => Ok(()),
        Ok(Posted::AlreadyThere) => Err("another answer came first".to_owned()),
        Err(error) => Err(format!("cannot record the answer: {error}")),
    }
}
