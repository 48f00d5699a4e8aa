//! The lines that people read about each event, each with the [`Detail`] from which on it is shown.

#![warn(clippy::wildcard_enum_match_arm, reason = "a new event has to be answered here")]

use std::borrow::Cow;
use std::path::Path;
use std::time::Duration;

use anstyle::{AnsiColor, Style};
use raymond_core::duration;
use raymond_core::event::{
    AgentStarted, AskClosed, AskOpened, Body, Closed, Event, OpenAsk, OtherWorkflow, RunStarted,
};
use raymond_core::event::{NextTry, Retry, RunResumed, StepFailed, StepFinished, StoppedStatus, Totals};
use raymond_core::name::AgentId;
use raymond_core::payload::Payload;
use raymond_core::run::RunStatus;
use raymond_core::workflow::StateFile;

use super::Detail;
use crate::advice;
use crate::store::Payloads;
use crate::view::status::workers_failed;
use crate::view::text::{below, clean, one_line};

/// The most characters of a text that a progress line shows.
const SHOWN_CHARS: usize = 100;

pub(super) const GOOD: Style = AnsiColor::Green.on_default();
pub(super) const BAD: Style = AnsiColor::Red.on_default().bold();
pub(super) const NOTE: Style = AnsiColor::Yellow.on_default();
pub(super) const DIM: Style = Style::new().dimmed();
pub(super) const BOLD: Style = Style::new().bold();

/// The lines of one event. What of them is more than one line is a text from outside, so its later lines are indented.
#[derive(Default)]
pub(super) struct Lines(pub(super) Vec<(Detail, String)>);

impl Lines {
    fn important(self, line: String) -> Self {
        self.with(Detail::Quiet, &line)
    }

    fn normal(self, line: String) -> Self {
        self.with(Detail::Normal, &line)
    }

    fn verbose(self, line: String) -> Self {
        self.with(Detail::Verbose, &line)
    }

    fn with(mut self, detail: Detail, line: &str) -> Self {
        self.0.push((detail, below(line)));
        self
    }
}

/// `within` is the name of the workflow that the event's agent is in, if that is another one than the run's;
/// `out_of_steps` is whether the run has used up `--max-steps`.
pub(super) fn lines(event: &Event, within: Option<&str>, out_of_steps: bool, payloads: &Payloads) -> Lines {
    let lines = Lines::default();
    let at = |agent: &AgentId, state: &StateFile| at(within, agent, state);
    match &event.body {
        Body::RunStarted(started) => lines.normal(run_started(&event.run, started)),
        Body::AgentRetried { agent, state } => {
            lines.normal(format!("{} {NOTE}tries again{NOTE:#} with the next resume", at(agent, state)))
        }
        Body::AgentMoved { agent, state, target, .. } => lines.normal(format!(
            "{} {NOTE}is sent to{NOTE:#} {} by a person",
            at(agent, state),
            clean(target.as_str())
        )),
        Body::RunResumed(resumed) => run_resumed(&event.run, resumed),
        Body::AgentStarted(started) => agent_started(started),
        Body::StepStarted(step) => {
            lines.verbose(format!("{} {DIM}starts (step {}){DIM:#}", at(&step.agent, &step.state), step.step))
        }
        Body::SessionStarted(started) => lines.verbose(format!(
            "{} {DIM}runs in the session {}{DIM:#}",
            at(&started.agent, &started.state),
            clean(&started.session)
        )),
        Body::StepFinished(step) => lines.normal(step_finished(within, step)),
        Body::StepFailed(failed) => step_failed(within, failed),
        Body::Retry(retry) => lines.normal(retried(event, within, retry)),
        Body::Reminder(reminder) => lines.normal(format!(
            "{} {NOTE}reminder {}{NOTE:#}: {}",
            at(&reminder.agent, &reminder.state),
            reminder.number,
            clean(&reminder.problem)
        )),
        Body::LimitWaiting(limit) => lines.important(match &limit.fallback {
            Some(fallback) => format!(
                "{} {NOTE}usage limit{NOTE:#} until {}, goes on with the backend `{}`",
                at(&limit.agent, &limit.state),
                clock(limit.until),
                clean(fallback)
            ),
            None => format!(
                "{} {NOTE}usage limit{NOTE:#}, waits until {}",
                at(&limit.agent, &limit.state),
                clock(limit.until)
            ),
        }),
        Body::Delayed { agent, state, until } => {
            lines.normal(format!("{} in {}", at(agent, state), wait(event, *until)))
        }
        Body::ExclusiveWaiting { agent, state, exclusive } => lines.verbose(format!(
            "{} {DIM}waits for its turn with `{}`{DIM:#}",
            at(agent, state),
            clean(exclusive)
        )),
        Body::Joined { agent, workers, .. } => {
            lines.normal(format!("{} {GOOD}joined{GOOD:#} {}", who(agent), count(workers.len(), "worker")))
        }
        Body::AskOpened(opened) => lines.important(ask_opened(opened)),
        Body::AskClosed(closed) => lines.normal(ask_closed(closed)),
        Body::AgentFinished { agent, title, result } => lines.normal(format!(
            "{}{} {GOOD}done{GOOD:#}: {}",
            who(agent),
            titled(title.as_deref()),
            brief(result)
        )),
        Body::Print { agent, text, .. } => {
            lines.normal(format!("{} {}", who(agent), text_of(text, payloads)))
        }
        Body::Warning { agent, message, .. } => {
            let agent = agent.as_ref().map(|agent| format!(" {}", who(agent))).unwrap_or_default();
            lines.important(format!("{NOTE}warning{NOTE:#}{agent}: {}", clean(message)))
        }
        Body::BudgetExceeded { cost_usd, budget_usd } => lines
            .important(format!("{BAD}over budget{BAD:#}: {cost_usd} of {budget_usd}; nothing new starts")),
        Body::RunFinished { totals, .. } => {
            let failed = match totals.failed_workers {
                0 => String::new(),
                failed => format!(", {BAD}{}{BAD:#}", workers_failed(failed)),
            };
            lines.normal(format!("{GOOD}completed{GOOD:#}{failed} {DIM}({}){DIM:#}", summary(totals)))
        }
        Body::RunStopped { status, error, asks, totals, .. } => {
            run_stopped(&event.run, *status, totals, error.as_deref(), asks, out_of_steps, payloads)
        }
        Body::Snapshot { .. } => lines,
    }
}

fn run_resumed(run: &str, resumed: &RunResumed) -> Lines {
    let lines = Lines::default().normal(format!("{} resumed", bold(run)));
    resumed.interrupted.iter().fold(lines, |lines, step| {
        lines.normal(format!("  {} was interrupted and runs again", at(None, &step.agent, &step.state)))
    })
}

fn agent_started(started: &AgentStarted) -> Lines {
    match started.parent() {
        Some(parent) => Lines::default().normal(format!(
            "{}{} forked from {} at {}",
            who(&started.agent),
            titled(started.title().as_deref()),
            clean(parent.as_str()),
            place(started.workflow.as_ref(), &started.state)
        )),
        None => Lines::default(),
    }
}

/// A state, with the name of its workflow if that is entered now.
fn place(entered: Option<&OtherWorkflow>, state: &StateFile) -> String {
    let name = entered.and_then(|workflow| Path::new(&workflow.scope).file_name());
    let name = name.map(|name| name.to_string_lossy());
    match name {
        Some(name) => format!("{}/{}", clean(&name), clean(state.as_str())),
        None => clean(state.as_str()).into_owned(),
    }
}

/// The transition that a step made, in words.
pub(super) fn led_to(step: &StepFinished) -> String {
    let led_to = step.led_to.parts();
    let target = led_to.target.map(|target| format!(" {}", place(led_to.workflow, target)));
    let part = |word: &str, state: Option<&StateFile>| {
        state.map(|state| format!("{word}{}", clean(state.as_str()))).unwrap_or_default()
    };
    format!(
        "{GOOD}{}{GOOD:#}{}{}{}",
        led_to.tag,
        target.unwrap_or_default(),
        part(", on at ", led_to.next),
        part(", back at ", led_to.return_to)
    )
}

fn step_finished(within: Option<&str>, step: &StepFinished) -> String {
    let cost = if step.cost_usd.is_zero() { String::new() } else { format!(" {}", step.cost_usd) };
    format!(
        "{} → {} {DIM}{}{cost}{DIM:#}",
        at(within, &step.agent, &step.state),
        led_to(step),
        took(step.duration_ms)
    )
}

fn step_failed(within: Option<&str>, failed: &StepFailed) -> Lines {
    let title = titled(failed.title.as_deref());
    let at = at_titled(within, &failed.agent, &title, &failed.state);
    let first = format!("{at} {BAD}failed{BAD:#}: {}", clean(&failed.error));
    let shown =
        |name: &'static str, text| lines_of(text).map(move |line| format!("  {DIM}{name}:{DIM:#} {line}"));
    let rest = shown("output", &failed.output)
        .chain(failed.output_file.iter().map(|file| format!("  {DIM}all of it:{DIM:#} {}", clean(file))))
        .chain(shown("stderr", &failed.stderr));
    rest.fold(Lines::default().important(first), Lines::important)
}

fn lines_of(text: &str) -> impl Iterator<Item = Cow<'_, str>> {
    text.lines().map(clean)
}

fn retried(event: &Event, within: Option<&str>, retry: &Retry) -> String {
    let (place, error) = (at(within, &retry.agent, &retry.state), clean(&retry.error));
    if retry.next_try == NextTry::AfterLoss {
        return format!("{place} {NOTE}was lost{NOTE:#} and runs again: {error}");
    }
    format!("{place} {NOTE}retry{NOTE:#} in {}: {error}", wait(event, retry.until))
}

/// Only the beginning of the question: the whole of it is shown when the run stops to wait for the answer.
fn ask_opened(opened: &AskOpened) -> String {
    let until = opened.deadline.map(|time| format!(" until {}", clock(time))).unwrap_or_default();
    let (agent, ask, question) = (who(&opened.agent), &opened.ask, brief(&opened.question));
    let title = titled(opened.title.as_deref());
    format!("{agent}{title} {NOTE}asks{NOTE:#} ({ask}){until}: {question}")
}

fn run_started(run: &str, started: &RunStarted) -> String {
    let Some(origin) = &started.origin else {
        return format!("{} runs {}", bold(run), clean(&started.workflow));
    };
    let after = match origin.step {
        Some(step) => format!("after step {step}"),
        None => format!("after event {}", origin.seq),
    };
    match &origin.dropped {
        Some(dropped) => {
            format!("{} goes on {after} again; what came then is in {}", bold(run), bold(dropped))
        }
        None => format!("{} goes on from {} {after}", bold(run), bold(&origin.run)),
    }
}

fn ask_closed(closed: &AskClosed) -> String {
    let how = match &closed.how {
        Closed::Answered { .. } => "answered",
        Closed::TimedOut { .. } | Closed::Unanswered => "not answered in time",
    };
    format!("{} {} {GOOD}{how}{GOOD:#}", who(&closed.agent), closed.ask)
}

fn run_stopped(
    run: &str,
    status: StoppedStatus,
    totals: &Totals,
    error: Option<&str>,
    asks: &[OpenAsk],
    out_of_steps: bool,
    payloads: &Payloads,
) -> Lines {
    let style = if status == StoppedStatus::Waiting { NOTE } else { BAD };
    let name = RunStatus::from(status).as_str().replace('_', " ");
    let run = argument(run);
    let mut lines =
        Lines::default().important(format!("{style}{name}{style:#} {DIM}({}){DIM:#}", summary(totals)));
    if let Some(error) = error {
        lines = lines.important(format!("  {}", clean(error)));
    }
    for ask in asks {
        let answer = bold(&advice::command(&format!("answer {run} {} 'your answer'", ask.ask)));
        lines = lines
            .important(format!(
                "{}{} asks: {}",
                who(&ask.agent),
                titled(ask.title.as_deref()),
                text_of(&ask.question, payloads)
            ))
            .important(format!("  answer with: {answer}"));
    }
    let more = match status {
        StoppedStatus::OverBudget => " --budget MORE",
        StoppedStatus::Failed if out_of_steps => " --max-steps MORE",
        StoppedStatus::Failed
        | StoppedStatus::Waiting
        | StoppedStatus::Limited
        | StoppedStatus::Interrupted => "",
    };
    lines.important(format!("  continue with: {}", bold(&advice::command(&format!("resume {run}{more}")))))
}

pub(super) fn who(agent: &AgentId) -> String {
    format!("{BOLD}[{}]{BOLD:#}", clean(agent.as_str()))
}

/// The title of a worker, to be put behind its name.
pub(super) fn titled(title: Option<&str>) -> String {
    title.map(|title| format!(" {DIM}({}){DIM:#}", clean(title))).unwrap_or_default()
}

fn at(within: Option<&str>, agent: &AgentId, state: &StateFile) -> String {
    at_titled(within, agent, "", state)
}

fn at_titled(within: Option<&str>, agent: &AgentId, title: &str, state: &StateFile) -> String {
    let within = within.map(|name| format!("{}/", clean(name))).unwrap_or_default();
    format!("{}{title} {within}{}", who(agent), clean(state.as_str()))
}

fn bold(text: &str) -> String {
    format!("{BOLD}{}{BOLD:#}", clean(text))
}

fn text_of(payload: &Payload, payloads: &Payloads) -> String {
    let text = payloads.text_of(payload).unwrap_or_default();
    clean(text.trim_end()).into_owned()
}

fn brief(payload: &Payload) -> String {
    match payload {
        Payload::Inline(text) => one_line(text, SHOWN_CHARS),
        Payload::Stored { bytes, .. } => format!("{bytes} bytes"),
    }
}

pub(super) fn count(number: usize, what: &str) -> String {
    format!("{number} {what}{}", if number == 1 { "" } else { "s" })
}

fn summary(totals: &Totals) -> String {
    let steps = count(usize::try_from(totals.steps).unwrap_or(usize::MAX), "step");
    let agents = count(usize::try_from(totals.agents).unwrap_or(usize::MAX), "agent");
    format!("{steps}, {agents}, {}, {}", totals.cost_usd, took(totals.duration_ms))
}

pub(super) fn took(milliseconds: u64) -> String {
    match milliseconds {
        0..1000 => format!("{milliseconds}ms"),
        1000..60_000 => format!("{:.1}s", milliseconds as f64 / 1000.0),
        _ => duration::format(Duration::from_secs(milliseconds / 1000)),
    }
}

fn wait(event: &Event, until: jiff::Timestamp) -> String {
    duration::format(Duration::try_from(until.duration_since(event.time)).unwrap_or_default())
}

fn clock(time: jiff::Timestamp) -> String {
    time.strftime("%Y-%m-%d %H:%M:%S UTC").to_string()
}

/// A run's id as it is written on a command line.
fn argument(run: &str) -> String {
    if run.starts_with('-') { format!("-- {run}") } else { run.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_later_line_of_a_text_looks_like_raymonds_own() {
        let lines = Lines::default()
            .important("[main] asks: a\n  answer with: b".to_owned())
            .normal("[main] a\n[main] done: b".to_owned())
            .verbose("[main] a\n\ncompleted (1 step)".to_owned());
        assert_eq!(lines.0.len(), 3);
        for (_, text) in &lines.0 {
            assert!(text.lines().skip(1).all(|line| line.is_empty() || line.starts_with("    ")), "{text}");
        }
    }
}
