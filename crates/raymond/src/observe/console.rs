//! Plain progress lines on stderr, for people.

use std::collections::BTreeMap;
use std::io::Write;
use std::time::Duration;

use anstyle::{AnsiColor, Style};
use raymond_core::duration;
use raymond_core::event::{AskOpened, Body, ClosedBy, Event, OpenAsk, StepFailed, StepFinished, Totals};
use raymond_core::name::AgentId;
use raymond_core::payload::Payload;
use raymond_core::run::RunStatus;
use raymond_core::tag::TagName;

use super::{Observer, Stream};
use crate::driver::Stop;
use crate::store::Payloads;
use crate::text::{clean, one_line};

/// How much of a text a progress line shows.
const SHOWN_CHARS: usize = 100;
/// An output line longer than this is shown in pieces, so that an endless line costs no memory.
const MAX_OUTPUT_LINE_BYTES: usize = 4096;

const GOOD: Style = AnsiColor::Green.on_default();
const BAD: Style = AnsiColor::Red.on_default().bold();
const NOTE: Style = AnsiColor::Yellow.on_default();
const DIM: Style = Style::new().dimmed();
const BOLD: Style = Style::new().bold();

/// How much is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Detail {
    Quiet,
    Normal,
    Verbose,
}

pub struct Console<W> {
    out: W,
    detail: Detail,
    payloads: Payloads,
    /// Failures are said once: when they happen, or if that was in an earlier process at the end.
    has_shown_failure: bool,
    /// Unfinished output lines by agent and stream.
    pending: BTreeMap<(AgentId, bool), Vec<u8>>,
}

/// How a run stopped.
struct Stopped<'a> {
    status: RunStatus,
    error: Option<&'a str>,
    asks: &'a [OpenAsk],
    totals: &'a Totals,
}

impl<W: Write> Console<W> {
    pub fn new(out: W, detail: Detail, payloads: Payloads) -> Self {
        Self { out, detail, payloads, has_shown_failure: false, pending: BTreeMap::new() }
    }

    /// Nobody is left to tell if stderr is gone.
    fn line(&mut self, text: std::fmt::Arguments<'_>) {
        let _ = writeln!(self.out, "{text}");
    }

    fn normal(&mut self, text: std::fmt::Arguments<'_>) {
        if self.detail >= Detail::Normal {
            self.line(text);
        }
    }

    fn verbose(&mut self, text: std::fmt::Arguments<'_>) {
        if self.detail >= Detail::Verbose {
            self.line(text);
        }
    }

    fn output_line(&mut self, agent: &AgentId, bytes: &[u8]) {
        let text = String::from_utf8_lossy(bytes);
        let text = clean(text.trim_end_matches('\n'));
        self.line(format_args!("{DIM}[{}] |{DIM:#} {text}", clean(agent.as_str())));
    }

    /// Shows what a step wrote last, without a line break.
    fn flush_output(&mut self, agent: &AgentId) {
        for is_stderr in [false, true] {
            if let Some(bytes) = self.pending.remove(&(agent.clone(), is_stderr)) {
                self.output_line(agent, &bytes);
            }
        }
    }

    fn finished_step(&mut self, step: &StepFinished) {
        let agent = clean(step.agent.as_str());
        let state = clean(step.state.as_str());
        let tag = step.tag;
        let took = took(step.duration_ms);
        let cost = if step.cost_usd.is_zero() { String::new() } else { format!(" {}", step.cost_usd) };
        let to = step.target.as_ref().map(|to| format!(" {}", clean(to.as_str()))).unwrap_or_default();
        let next = match (&step.next, step.tag) {
            (Some(next), _) => format!(", on at {}", clean(next.as_str())),
            (None, TagName::Call | TagName::Function) => step
                .return_to
                .as_ref()
                .map(|to| format!(", back at {}", clean(to.as_str())))
                .unwrap_or_default(),
            _ => String::new(),
        };
        self.normal(format_args!(
            "{BOLD}[{agent}]{BOLD:#} {state} → {GOOD}{tag}{GOOD:#}{to}{next} {DIM}{took}{cost}{DIM:#}"
        ));
    }

    fn ask_opened(&mut self, run: &str, opened: &AskOpened) {
        let until = opened.deadline.map(|time| format!(" until {}", time.strftime("%Y-%m-%d %H:%M:%S UTC")));
        let question = self.payloads.text_of(&opened.question).unwrap_or_default();
        let agent = clean(opened.agent.as_str());
        let ask = &opened.ask;
        self.line(format_args!(
            "{BOLD}[{agent}]{BOLD:#} {NOTE}asks{NOTE:#} ({ask}){}: {}",
            until.unwrap_or_default(),
            clean(question.trim_end())
        ));
        self.normal(format_args!("  {DIM}raymond answer {} {ask} 'your answer'{DIM:#}", argument(run)));
    }

    fn failed_step(&mut self, failed: &StepFailed) {
        self.has_shown_failure = true;
        let agent = clean(failed.agent.as_str());
        let state = clean(failed.state.as_str());
        self.line(format_args!(
            "{BOLD}[{agent}]{BOLD:#} {state} {BAD}failed{BAD:#}: {}",
            clean(&failed.error)
        ));
        for line in failed.stderr.lines() {
            self.line(format_args!("  {DIM}stderr:{DIM:#} {}", clean(line)));
        }
    }

    fn stopped(&mut self, run: &str, stopped: &Stopped<'_>) {
        let status = stopped.status.as_str().replace('_', " ");
        let style = if stopped.status == RunStatus::Waiting { NOTE } else { BAD };
        self.line(format_args!("{style}{status}{style:#} {DIM}({}){DIM:#}", summary(stopped.totals)));
        let is_news = stopped.status != RunStatus::Failed || !self.has_shown_failure;
        if let Some(error) = stopped.error.filter(|_| is_news) {
            self.line(format_args!("  {}", clean(error)));
        }
        let run = argument(run);
        for ask in stopped.asks {
            let question = self.payloads.text_of(&ask.question).unwrap_or_default();
            self.line(format_args!(
                "{BOLD}[{}]{BOLD:#} asks: {}",
                clean(ask.agent.as_str()),
                clean(question.trim_end())
            ));
            self.line(format_args!(
                "  answer with: {BOLD}raymond answer {run} {} 'your answer'{BOLD:#}",
                ask.ask
            ));
        }
        self.line(format_args!("  continue with: {BOLD}raymond resume {run}{BOLD:#}"));
    }
}

impl<W: Write> Observer for Console<W> {
    fn event(&mut self, event: &Event) {
        if let Some(agent) = event.body.ended_attempt_of() {
            self.flush_output(agent);
        }
        match &event.body {
            Body::RunStarted(started) => {
                self.normal(format_args!("{BOLD}{}{BOLD:#} runs {}", event.run, clean(&started.workflow)));
            }
            Body::RunResumed(resumed) => {
                self.normal(format_args!("{BOLD}{}{BOLD:#} resumed", event.run));
                for step in &resumed.interrupted {
                    let state = clean(step.state.as_str());
                    self.normal(format_args!(
                        "  {state} of {} was interrupted and runs again",
                        clean(step.agent.as_str())
                    ));
                }
            }
            Body::AgentStarted(started) => {
                if let Some(parent) = &started.parent {
                    let (agent, state) = (clean(started.agent.as_str()), clean(started.state.as_str()));
                    self.normal(format_args!(
                        "{BOLD}[{agent}]{BOLD:#} forked from {} at {state}",
                        clean(parent.as_str())
                    ));
                }
            }
            Body::StepStarted(step) => {
                let (agent, state) = (clean(step.agent.as_str()), clean(step.state.as_str()));
                self.verbose(format_args!(
                    "{BOLD}[{agent}]{BOLD:#} {state} {DIM}starts (step {}){DIM:#}",
                    step.step
                ));
            }
            Body::StepFinished(step) => self.finished_step(step),
            Body::StepFailed(failed) => self.failed_step(failed),
            Body::Joined { agent, workers, .. } => {
                let count = workers.len();
                let plural = if count == 1 { "" } else { "s" };
                self.normal(format_args!(
                    "{BOLD}[{}]{BOLD:#} {GOOD}joined{GOOD:#} {count} worker{plural}",
                    clean(agent.as_str())
                ));
            }
            Body::AskOpened(opened) => self.ask_opened(&event.run, opened),
            Body::AskClosed(closed) => {
                let how = match closed.by {
                    ClosedBy::Answer => "answered",
                    ClosedBy::Timeout => "not answered in time",
                };
                self.normal(format_args!(
                    "{BOLD}[{}]{BOLD:#} {} {GOOD}{how}{GOOD:#}",
                    clean(closed.agent.as_str()),
                    closed.ask
                ));
            }
            Body::Retry(retry) => {
                let (agent, state) = (clean(retry.agent.as_str()), clean(retry.state.as_str()));
                let wait = until(event, retry.until);
                let error = clean(&retry.error);
                self.normal(format_args!(
                    "{BOLD}[{agent}]{BOLD:#} {state} {NOTE}{error}{NOTE:#}; attempt {} in {wait}",
                    retry.attempt
                ));
            }
            Body::Reminder(reminder) => {
                let (agent, state) = (clean(reminder.agent.as_str()), clean(reminder.state.as_str()));
                self.normal(format_args!(
                    "{BOLD}[{agent}]{BOLD:#} {state} {NOTE}reminder {}{NOTE:#}",
                    reminder.number
                ));
            }
            Body::LimitWaiting(limit) => {
                let agent = clean(limit.agent.as_str());
                self.line(format_args!(
                    "{BOLD}[{agent}]{BOLD:#} {NOTE}usage limit{NOTE:#}, waits until {}",
                    limit.until
                ));
            }
            Body::Delayed { agent, state, until: time } => {
                let wait = until(event, *time);
                self.normal(format_args!(
                    "{BOLD}[{}]{BOLD:#} {} in {wait}",
                    clean(agent.as_str()),
                    clean(state.as_str())
                ));
            }
            Body::AgentFinished { agent, result } => {
                let shown = match result {
                    Payload::Inline(text) => one_line(text, SHOWN_CHARS),
                    Payload::Stored { bytes, .. } => format!("{bytes} bytes"),
                };
                self.normal(format_args!(
                    "{BOLD}[{}]{BOLD:#} {GOOD}done{GOOD:#}: {shown}",
                    clean(agent.as_str())
                ));
            }
            Body::Print { agent, text, .. } => {
                if let Ok(text) = self.payloads.text_of(text) {
                    self.normal(format_args!(
                        "{BOLD}[{}]{BOLD:#} {}",
                        clean(agent.as_str()),
                        clean(text.trim_end())
                    ));
                }
            }
            Body::Warning { agent, message, .. } => {
                let who =
                    agent.as_ref().map(|agent| format!(" [{}]", clean(agent.as_str()))).unwrap_or_default();
                self.line(format_args!("{NOTE}warning{NOTE:#}{who}: {}", clean(message)));
            }
            Body::BudgetExceeded { cost_usd, budget_usd } => {
                self.line(format_args!(
                    "{BAD}over budget{BAD:#}: {cost_usd} of {budget_usd}; nothing new starts"
                ));
            }
            Body::RunFinished { totals, .. } => {
                self.normal(format_args!("{GOOD}completed{GOOD:#} {DIM}({}){DIM:#}", summary(totals)));
            }
            Body::RunStopped { status, error, asks, totals, .. } => {
                let stopped = Stopped { status: *status, error: error.as_deref(), asks, totals };
                self.stopped(&event.run, &stopped);
            }
            Body::Snapshot { .. } => {}
        }
    }

    fn stopping(&mut self, how: Stop, running: usize) {
        let steps = if running == 1 { "step" } else { "steps" };
        match how {
            Stop::Gently => self.line(format_args!(
                "{NOTE}stopping{NOTE:#}: {running} running {steps} may finish; press Ctrl-C again to end them"
            )),
            Stop::Now => self.line(format_args!("{NOTE}stopping{NOTE:#}: ending {running} running {steps}")),
        }
    }

    /// Shows whole lines, so that the output of agents that run side by side does not mix.
    fn output(&mut self, agent: &AgentId, stream: Stream, bytes: &[u8]) {
        if self.detail < Detail::Verbose {
            return;
        }
        let key = (agent.clone(), stream == Stream::Stderr);
        let mut pending = self.pending.remove(&key).unwrap_or_default();
        for piece in
            bytes.split_inclusive(|byte| *byte == b'\n').flat_map(|line| line.chunks(MAX_OUTPUT_LINE_BYTES))
        {
            pending.extend_from_slice(piece);
            if pending.ends_with(b"\n") || pending.len() >= MAX_OUTPUT_LINE_BYTES {
                self.output_line(agent, &pending);
                pending.clear();
            }
        }
        if !pending.is_empty() {
            self.pending.insert(key, pending);
        }
    }
}

fn summary(totals: &Totals) -> String {
    let plural = |count: u64, what: &str| format!("{count} {what}{}", if count == 1 { "" } else { "s" });
    format!(
        "{}, {}, {}, {}",
        plural(totals.steps, "step"),
        plural(totals.agents, "agent"),
        totals.cost_usd,
        took(totals.duration_ms)
    )
}

fn took(milliseconds: u64) -> String {
    match milliseconds {
        0..1000 => format!("{milliseconds}ms"),
        1000..60_000 => format!("{:.1}s", milliseconds as f64 / 1000.0),
        _ => duration::format(Duration::from_secs(milliseconds / 1000)),
    }
}

fn until(event: &Event, time: jiff::Timestamp) -> String {
    let wait = Duration::try_from(time.duration_since(event.time)).unwrap_or_default();
    duration::format(wait)
}

/// A run's id as it is written on a command line.
fn argument(run: &str) -> String {
    if run.starts_with('-') { format!("-- {run}") } else { run.to_owned() }
}
