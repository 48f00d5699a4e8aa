//! The view's lines, made of its model for a terminal of a certain size. Pure: the same always looks the same.

use std::fmt::Write;
use std::time::Duration;

use anstyle::Style;
use jiff::Timestamp;

use super::fit::{clip, clip_start, column, width};
use super::model::{Doing, Model, Row, since};
use crate::process::Tail;
use crate::view::text::{clean, one_line};
use crate::view::wording::{BAD, BOLD, DIM, NOTE, count};

/// What a column may take of a row, however long the names are.
const MOST_AGENT: usize = 24;
const MOST_STATE: usize = 20;
/// `59m59s` and `$12.34`.
const TIME: usize = 6;
const COST: usize = 7;
/// The longest of the words for what an agent does.
const WORD: usize = 7;
/// How much of the run's name is kept before other things are left out for it.
const LEAST_RUN: usize = 12;
/// Less of a step's output than this says nothing.
const LEAST_DETAIL: usize = 12;
/// How many of a step's last lines are looked through for one that is not blank.
const LINES_LOOKED_AT: usize = 8;
/// More of a line than any terminal shows.
const MOST_CHARS: usize = 1000;

/// One line of the view: pieces of text, each with its look.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Line(Vec<(Style, String)>);

impl Line {
    fn with(mut self, style: Style, text: impl Into<String>) -> Self {
        self.0.push((style, text.into()));
        self
    }

    pub(super) fn width(&self) -> usize {
        self.0.iter().map(|(_, text)| width(text)).sum()
    }

    /// The line, no wider than it may be.
    fn cut(self, most: usize) -> Self {
        let mut room = most;
        let pieces = self.0.into_iter().map(|(style, text)| {
            let text = clip(&text, room);
            room = room.saturating_sub(width(&text));
            (style, text)
        });
        Self(pieces.collect())
    }

    /// As a terminal is sent it.
    pub(super) fn ansi(&self) -> String {
        self.0.iter().fold(String::new(), |mut line, (style, text)| {
            let _ = write!(line, "{style}{text}{style:#}");
            line
        })
    }
}

/// The whole view: a heading and the agents that deserve most to be seen, in the order they were born. It leaves a
/// third of the terminal to what has happened, and its last column free.
pub(super) fn render(model: &Model, now: Timestamp, width: usize, height: usize) -> Vec<Line> {
    let width = width.saturating_sub(1);
    let rows = (height * 2 / 3).max(1) - 1;
    let all_fit = model.agents() <= rows;
    let shown = if all_fit { rows } else { rows.saturating_sub(1) };
    let mut agents = model.first(shown);
    agents.sort_by_key(|row| row.birth);
    let mut lines = vec![heading(model, now, width)];
    let columns = Columns::fit(&agents, width);
    lines.extend(agents.iter().map(|row| columns.line(row, now)));
    if !all_fit && rows > 0 {
        lines.push(Line::default().with(DIM, rest(model, &agents)));
    }
    lines.into_iter().map(|line| line.cut(width)).collect()
}

/// What the terminal's window is called.
pub(super) fn title(model: &Model) -> String {
    let asks = model.counts().any(|(word, count)| word == "asking" && count > 0);
    let what = match model.first(2).as_slice() {
        _ if asks => "asks".to_owned(),
        [] => "ends".to_owned(),
        [row] => clean(row.state.as_str()).into_owned(),
        _ => count(model.agents(), "agent"),
    };
    format!("raymond {} · {what}", clean(&model.run))
}

/// Run, time, cost and the like: as much of it as there is room for.
fn heading(model: &Model, now: Timestamp, width: usize) -> Line {
    let budget = if model.budget.is_zero() { String::new() } else { format!(" of {}", model.budget) };
    let mut parts = vec![
        short(model.elapsed(now)),
        format!("{}{budget}", model.cost),
        count(usize::try_from(model.steps).unwrap_or(usize::MAX), "step"),
        count(model.agents(), "agent"),
    ];
    if let Some(halted) = model.halted {
        parts.insert(0, halted.to_owned());
    }
    let run = clean(&model.run);
    let rest = |parts: &[String]| parts.iter().map(|part| format!(" · {part}")).collect::<String>();
    let least = if model.halted.is_some() { 2 } else { 1 };
    let least_run = self::width(&run).min(LEAST_RUN);
    while parts.len() > least && least_run + self::width(&rest(&parts)) > width {
        parts.pop();
    }
    let rest = clip(&rest(&parts), width);
    let run = clip(&run, width - self::width(&rest));
    let rule = width - self::width(&run) - self::width(&rest);
    let style = if model.halted.is_some() { NOTE } else { Style::new() };
    Line::default()
        .with(BOLD, run)
        .with(style, rest)
        .with(DIM, format!(" {:─>1$}", "", rule.saturating_sub(1)))
}

/// Those for whom there was no room.
fn rest(model: &Model, shown: &[&Row]) -> String {
    let mut parts = Vec::new();
    for (word, count) in model.counts() {
        let hidden = count - shown.iter().filter(|row| row.doing.word() == word).count();
        if hidden > 0 {
            parts.push(format!("{hidden} {word}"));
        }
    }
    match model.agents() - shown.len() {
        all if shown.is_empty() => format!("{}: {}", count(all, "agent"), parts.join(", ")),
        more => format!("… and {more} more: {}", parts.join(", ")),
    }
}

/// How wide each column is; one of no width is left out.
struct Columns {
    agent: usize,
    state: usize,
    cost: usize,
    detail: usize,
}

impl Columns {
    fn fit(rows: &[&Row], width: usize) -> Self {
        let widest = |text: fn(&Row) -> &str, most: usize| {
            rows.iter().map(|row| self::width(&clean(text(row)))).max().unwrap_or(0).min(most)
        };
        let cost = if rows.iter().all(|row| row.cost.is_zero()) { 0 } else { COST + 1 };
        let agent = widest(|row| row.agent.as_str(), MOST_AGENT.min(width / 3)) + 1;
        let state = widest(|row| row.state.as_str(), MOST_STATE.min(width / 4)) + 1;
        let mut columns = Self { agent, state, cost, detail: 0 };
        let mut room = width.checked_sub(columns.fixed());
        // What is left out when there is too little room: first the cost, then the state.
        if room.is_none_or(|room| room < LEAST_DETAIL) {
            columns.cost = 0;
            room = width.checked_sub(columns.fixed());
        }
        if room.is_none() {
            columns.state = 0;
            room = width.checked_sub(columns.fixed());
        }
        if room.is_none() {
            columns.agent = width.saturating_sub(WORD + 1 + TIME);
            room = Some(0);
        }
        columns.detail = room.unwrap_or(0).saturating_sub(2);
        if columns.detail + 2 < LEAST_DETAIL {
            columns.detail = 0;
        }
        columns
    }

    fn fixed(&self) -> usize {
        self.agent + self.state + WORD + 1 + TIME + self.cost
    }

    fn line(&self, row: &Row, now: Timestamp) -> Line {
        let text = |text: &str, width: usize| match width {
            0 => String::new(),
            _ => format!("{} ", column(&clean(text), width - 1)),
        };
        let cost = if row.cost.is_zero() { String::new() } else { row.cost.to_string() };
        let line = Line::default()
            .with(
                BOLD,
                text(&clip_start(&clean(row.agent.as_str()), self.agent.saturating_sub(1)), self.agent),
            )
            .with(Style::new(), text(row.state.as_str(), self.state));
        if self.detail == 0
            && let Doing::Delayed { until, .. } | Doing::Limited { until } = &row.doing
        {
            return line.with(look(&row.doing), column(&briefly_until(*until, now), WORD + 1 + TIME));
        }
        let line = line
            .with(look(&row.doing), text(row.doing.word(), WORD + 1))
            .with(Style::new(), format!("{:>TIME$}", short(since(row.since, now))))
            .with(DIM, if self.cost > 0 { format!(" {cost:>COST$}") } else { String::new() });
        if self.detail == 0 {
            return line;
        }
        let style = if matches!(row.doing, Doing::Running { .. }) { DIM } else { look(&row.doing) };
        line.with(style, format!("  {}", clip(&detail(row, now), self.detail)))
    }
}

/// What waits stands out.
fn look(doing: &Doing) -> Style {
    match doing {
        Doing::Asking { .. } => NOTE.bold(),
        Doing::Limited { .. } | Doing::Delayed { .. } | Doing::Joining => NOTE,
        Doing::Failed { .. } => BAD,
        Doing::Running { .. } => Style::new(),
        Doing::Ready => DIM,
    }
}

/// What there is to say about an agent beside what it does: its last words, or what it waits for.
fn detail(row: &Row, now: Timestamp) -> String {
    let text = match &row.doing {
        Doing::Running { output } => last_line(output),
        Doing::Asking { ask, question, deadline: None } => format!("{ask}: {question}"),
        Doing::Asking { ask, question, deadline: Some(deadline) } => {
            format!("{ask} until {}: {question}", clock(*deadline, now))
        }
        Doing::Limited { until: time } => format!("usage limit {}", until(*time, now)),
        Doing::Delayed { until: time, retry: None } => until(*time, now),
        Doing::Delayed { until: time, retry: Some(error) } => {
            format!("retry in {}: {error}", short(since(now, *time)))
        }
        Doing::Failed { error } => error.clone(),
        Doing::Joining => format!("waits for {}", count(row.workers, "worker")),
        Doing::Ready => String::new(),
    };
    text.replace(['\t', '\n'], " ")
}

/// Of a line that was written over again and again, what was written last.
fn last_line(output: &Tail) -> String {
    let lines = output.last_lines(LINES_LOOKED_AT);
    let plain = anstream::adapter::strip_str(&lines).to_string();
    let last = plain.split(['\n', '\r']).map(str::trim).rfind(|line| !line.is_empty());
    one_line(last.unwrap_or_default(), MOST_CHARS)
}

fn until(time: Timestamp, now: Timestamp) -> String {
    format!("until {}, {} left", clock(time, now), short(since(now, time)))
}

/// The date only if it is another day.
fn clock(time: Timestamp, now: Timestamp) -> String {
    let format = if is_today(time, now) { "%H:%M:%S UTC" } else { "%Y-%m-%d %H:%M:%S UTC" };
    time.strftime(format).to_string()
}

/// The same where there is hardly any room.
fn briefly_until(time: Timestamp, now: Timestamp) -> String {
    let format = if is_today(time, now) { "until %H:%M:%S" } else { "until %m-%d" };
    time.strftime(format).to_string()
}

fn is_today(time: Timestamp, now: Timestamp) -> bool {
    let day = |time: Timestamp| time.strftime("%Y-%m-%d").to_string();
    day(time) == day(now)
}

/// A time in at most six characters, as long as it is less than a hundred days.
fn short(time: Duration) -> String {
    let seconds = time.as_secs();
    match seconds {
        0..60 => format!("{seconds}s"),
        60..3_600 => format!("{}m{:02}s", seconds / 60, seconds % 60),
        3_600..86_400 => format!("{}h{:02}m", seconds / 3_600, seconds % 3_600 / 60),
        _ => format!("{}d{:02}h", seconds / 86_400, seconds % 86_400 / 3_600),
    }
}

#[cfg(test)]
mod tests;
