//! Asks a person on the terminal that Raymond runs on.
//!
//! One question at a time, read by a separate thread. The answer is posted to the inbox like one from `raymond answer`,
//! so exactly one is taken. The wait for a line is cancelled if the question is answered in another way. Questions are
//! printed by stderr's own writer, which holds back all other output until the answer.

use std::collections::VecDeque;
use std::io::Write;
use std::sync::{Arc, mpsc};
use std::time::Duration;

use jiff::Timestamp;
use raymond_core::event::{Body, Event};
use raymond_core::payload::Payload;
use raymond_core::run::Run;
use tokio::sync::Notify;

use super::inbox::{ANSWER_MESSAGE, Answer, Way};
use super::keyboard::{CallOff, CalledOff, Keyboard, Line, call_off};
use crate::store::{Inbox, Payloads, Posted};
use crate::view::output::Output;
use crate::view::text::{clean, indented};

/// How long to wait until the terminal is as it was. A terminal that is stopped with Ctrl-S takes longer.
const PATIENCE: Duration = Duration::from_secs(1);

/// A question as the person sees it.
#[derive(Clone, Debug)]
struct Question {
    agent: String,
    ask: String,
    asked_at: Timestamp,
    text: String,
    /// Whether an empty answer counts.
    empty_ok: bool,
}

pub struct Terminal {
    inbox: Arc<dyn Inbox>,
    stderr: Output,
    payloads: Payloads,
    /// Notified when stdin has ended, so that no more questions can be asked here.
    ended: Arc<Notify>,
    waiting: VecDeque<Question>,
    /// Whether no more questions are asked here.
    is_over: bool,
    asked: Option<Asked>,
}

/// The question on the screen.
struct Asked {
    ask: String,
    /// Dropping it cancels the wait for its answer.
    call_off: CallOff,
    /// Disconnected when the thread that reads has ended and left the terminal as it was.
    has_ended: mpsc::Receiver<()>,
}

impl Terminal {
    pub fn new(inbox: Arc<dyn Inbox>, stderr: Output, payloads: Payloads) -> Self {
        Self {
            inbox,
            stderr,
            payloads,
            ended: Arc::default(),
            waiting: VecDeque::new(),
            is_over: false,
            asked: None,
        }
    }

    /// Waits until stdin has ended.
    pub async fn ended(&self) {
        self.ended.notified().await;
    }

    /// Asks a question that was just opened, and withdraws one that was closed.
    pub fn event(&mut self, event: &Event) {
        match &event.body {
            Body::AskOpened(opened) => {
                let text = self.text_of(&opened.question);
                let (agent, ask) = (opened.agent.to_string(), opened.ask.clone());
                let empty_ok = opened.empty_ok;
                self.opened(Question { agent, ask, asked_at: event.time, text, empty_ok });
            }
            Body::AskClosed(closed) => self.closed(&closed.ask),
            _ => {}
        }
    }

    /// Asks the questions of a run that are open already.
    pub fn ask_again(&mut self, run: &Run) {
        for (agent, ask) in run.asks() {
            let text = self.text_of(&ask.question);
            let (agent, asked_at) = (agent.id.to_string(), ask.opened_at);
            self.opened(Question { agent, ask: ask.id.clone(), asked_at, text, empty_ok: ask.empty_ok });
        }
    }

    fn text_of(&self, question: &Payload) -> String {
        self.payloads.text_of(question).unwrap_or_default()
    }

    fn opened(&mut self, question: Question) {
        self.waiting.push_back(question);
        self.ask_next();
    }

    fn closed(&mut self, ask: &str) {
        self.waiting.retain(|question| question.ask != ask);
        if self.asked.as_ref().is_some_and(|asked| asked.ask == ask) {
            self.call_off();
        }
        self.ask_next();
    }

    /// From now on no questions are asked here.
    pub fn stop_asking(&mut self) {
        self.is_over = true;
        self.call_off();
    }

    fn call_off(&mut self) {
        if let Some(Asked { call_off, has_ended, .. }) = self.asked.take() {
            drop(call_off);
            let _ = has_ended.recv_timeout(PATIENCE);
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
        let (running, has_ended) = mpsc::channel();
        self.asked = Some(Asked { ask: question.ask.clone(), call_off: end, has_ended });
        let shown = self.stderr.ask(&wording(&question));
        let (inbox, stderr) = (Arc::clone(&self.inbox), self.stderr.clone());
        let stdin_ended = Arc::clone(&self.ended);
        std::thread::spawn(move || {
            // What is typed before the question is on the screen is no answer to it.
            let _ = shown.recv();
            if !answer(&question, &*inbox, &ended, stderr) {
                stdin_ended.notify_one();
            }
            drop(running);
        });
    }
}

/// The terminal is left as it was, however the run ends.
impl Drop for Terminal {
    fn drop(&mut self) {
        self.stop_asking();
    }
}

fn wording(question: &Question) -> String {
    format!(
        "\n[{}] asks ({}):\n    {}\n(end a line with \\ to write more than one)\n",
        clean(&question.agent),
        question.ask,
        indented(question.text.trim_end())
    )
}

/// Reads an answer and posts it. Returns false if stdin has ended.
fn answer(question: &Question, inbox: &dyn Inbox, called_off: &CalledOff, mut stderr: Output) -> bool {
    match read_answer(question, called_off) {
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

/// The lines of an answer. Without any text it is asked for again.
fn read_answer(question: &Question, called_off: &CalledOff) -> Line {
    let mut keyboard = Keyboard::open(called_off);
    let mut answer = String::new();
    loop {
        let line = match keyboard.read_line() {
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
                if question.empty_ok || !answer.trim().is_empty() {
                    return Line::Text(answer);
                }
                answer.clear();
                eprintln!("(an empty answer does not count; type one, or press Ctrl-C to answer later)");
            }
        }
    }
}

fn send(question: &Question, inbox: &dyn Inbox, text: String) -> Result<(), String> {
    let answer = Answer::new((&question.ask, question.asked_at), text, Way::Terminal);
    let content = serde_json::to_string(&answer).map_err(|error| error.to_string())?;
    match inbox.post(&format!("{ANSWER_MESSAGE}{}", question.ask), &content) {
        Ok(Posted::Posted) => Ok(()),
        Ok(Posted::AlreadyThere) => Err("another answer came first".to_owned()),
        Err(error) => Err(format!("cannot record the answer: {error}")),
    }
}
