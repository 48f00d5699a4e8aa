//! The view's lines, for a terminal of a certain size. A pure function of the scene and the time.

use std::fmt::Write;
use std::time::Duration;

use anstyle::Style;
use jiff::Timestamp;

use super::fit::{clip, clip_start, column, width};
use super::picture::{MOST_ROWS, Picture, Row, since};
use super::scene::Scene;
use crate::process::OutputTail;
use crate::view::status::Activity;
use crate::view::text::{clean, one_line};
use crate::view::wording::{BAD, BOLD, DIM, NOTE, count};

/// How wide a column may be, however long the names in it are.
const MOST_AGENT: usize = 24;
const MOST_STATE: usize = 20;
const MOST_TITLE: usize = 24;
/// `59m59s` and `~$12.34`.
const TIME: usize = 6;
const COST: usize = 7;
/// The longest word for an agent's activity.
const WORD: usize = 7;
/// Other parts of the heading are left out before less than this of the run's name is shown.
const LEAST_RUN: usize = 12;
/// A shorter piece of a step's output is of no use and is left out.
const LEAST_DETAIL: usize = 12;
/// How many of a step's last lines are searched for one that is not blank.
const SEARCHED_LINES: usize = 8;
/// More characters of a line than a terminal can show.
const MOST_CHARS: usize = 1000;

/// One line of the view: pieces of text, each with its style.
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

    /// The line, cut to a width.
    fn cut(self, most: usize) -> Self {
        let mut room = most;
        let pieces = self.0.into_iter().map(|(style, text)| {
            let text = clip(&text, room);
            room = room.saturating_sub(width(&text));
            (style, text)
        });
        Self(pieces.collect())
    }

    /// The line as it is sent to a terminal.
    pub(super) fn ansi(&self) -> String {
        self.0.iter().fold(String::new(), |mut line, (style, text)| {
            let _ = write!(line, "{style}{text}{style:#}");
            line
        })
    }
}

/// The whole view: a heading and the agents for which there is room, in the order they were started. It leaves a third
/// of the terminal to the lines above it, and the last column free.
pub(super) fn render(scene: &Scene, now: Timestamp, width: usize, height: usize) -> Vec<Line> {
    let picture = &scene.picture;
    let width = width.saturating_sub(1);
    let room = (height * 2 / 3).max(1) - 1;
    // Agents come first where there is little room.
    let fan_outs: Vec<_> = picture.fan_outs.iter().take(room / 4).collect();
    let room = room - fan_outs.len();
    let all_fit = picture.agents() <= room.min(MOST_ROWS);
    let shown = if all_fit { room } else { room.saturating_sub(1) };
    let mut rows: Vec<&Row> = picture.rows.iter().take(shown).collect();
    rows.sort_by_key(|row| row.birth);
    let mut lines = vec![heading(scene, now, width)];
    lines.extend(fan_outs.iter().map(|fan_out| Line::default().with(NOTE, clean(&fan_out.to_string()))));
    let columns = Columns::fit(&rows, scene, width);
    lines.extend(rows.iter().map(|row| columns.line(row, scene, now)));
    if !all_fit && room > 0 {
        lines.push(Line::default().with(DIM, rest(picture, &rows)));
    }
    lines.into_iter().map(|line| line.cut(width)).collect()
}

/// The title of the terminal's window.
pub(super) fn title(picture: &Picture) -> String {
    let asks = picture.counts().any(|(activity, count)| activity == Activity::Asking && count > 0);
    let what = match picture.rows.as_slice() {
        _ if asks => "asks".to_owned(),
        [] => "ends".to_owned(),
        [row] => clean(row.state.as_str()).into_owned(),
        _ => count(picture.agents(), "agent"),
    };
    format!("raymond {} · {what}", clean(&picture.run))
}

/// Run, time, cost and so on: as much of it as there is room for.
fn heading(scene: &Scene, now: Timestamp, width: usize) -> Line {
    let picture = &scene.picture;
    let budget = picture.budget.map(|budget| format!(" of {budget}")).unwrap_or_default();
    let mut parts = vec![
        short(picture.elapsed(now)),
        format!("{}{budget}", scene.with_spending(picture.cost, None)),
        count(usize::try_from(picture.steps).unwrap_or(usize::MAX), "step"),
        count(picture.agents(), "agent"),
    ];
    let halted = halted(scene);
    if let Some(halted) = halted {
        parts.insert(0, halted.to_owned());
    }
    let run = clean(&picture.run);
    let rest = |parts: &[String]| parts.iter().map(|part| format!(" · {part}")).collect::<String>();
    let least = if halted.is_some() { 2 } else { 1 };
    let least_run = self::width(&run).min(LEAST_RUN);
    while parts.len() > least && least_run + self::width(&rest(&parts)) > width {
        parts.pop();
    }
    let rest = clip(&rest(&parts), width);
    let run = clip(&run, width - self::width(&rest));
    let rule = width - self::width(&run) - self::width(&rest);
    let style = if halted.is_some() { NOTE } else { Style::new() };
    Line::default()
        .with(BOLD, run)
        .with(style, rest)
        .with(DIM, format!(" {:─>1$}", "", rule.saturating_sub(1)))
}

/// Why no new step starts.
fn halted(scene: &Scene) -> Option<&'static str> {
    match scene.picture.is_over_budget {
        _ if scene.is_stopping => Some("stopping"),
        true => Some("over budget"),
        false => None,
    }
}

/// The agents for which there is no room.
fn rest(picture: &Picture, shown: &[&Row]) -> String {
    let mut parts = Vec::new();
    for (activity, count) in picture.counts() {
        let hidden = count - shown.iter().filter(|row| row.activity == activity).count();
        if hidden > 0 {
            parts.push(format!("{hidden} {activity}"));
        }
    }
    match picture.agents() - shown.len() {
        all if shown.is_empty() => format!("{}: {}", count(all, "agent"), parts.join(", ")),
        more => format!("… and {more} more: {}", parts.join(", ")),
    }
}

/// The width of each column; a column without width is left out.
struct Columns {
    agent: usize,
    title: usize,
    state: usize,
    cost: usize,
    detail: usize,
}

impl Columns {
    fn fit(rows: &[&Row], scene: &Scene, width: usize) -> Self {
        let widest = |text: fn(&Row) -> &str, most: usize| {
            rows.iter().map(|row| self::width(&clean(text(row)))).max().unwrap_or(0).min(most)
        };
        let costs = rows.iter().map(|row| scene.with_spending(row.cost, Some(&row.agent)));
        let widest_cost = costs.filter(|cost| !cost.usd.is_zero()).map(|cost| self::width(&cost.to_string()));
        let cost = widest_cost.max().map_or(0, |widest| widest.max(COST) + 1);
        let agent = widest(|row| row.agent.as_str(), MOST_AGENT.min(width / 3)) + 1;
        let state = widest(|row| row.state.as_str(), MOST_STATE.min(width / 4)) + 1;
        let title = widest(|row| row.title.as_deref().unwrap_or_default(), MOST_TITLE.min(width / 4));
        let title = if title > 0 { title + 1 } else { 0 };
        let mut columns = Self { agent, title, state, cost, detail: 0 };
        let mut room = width.checked_sub(columns.fixed());
        // If there is too little room, the title is left out first, then the cost, then the state.
        if room.is_none_or(|room| room < LEAST_DETAIL) {
            columns.title = 0;
            room = width.checked_sub(columns.fixed());
        }
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
        self.agent + self.title + self.state + WORD + 1 + TIME + self.cost
    }

    fn line(&self, row: &Row, scene: &Scene, now: Timestamp) -> Line {
        let text = |text: &str, width: usize| match width {
            0 => String::new(),
            _ => format!("{} ", column(&clean(text), width - 1)),
        };
        let cost = scene.with_spending(row.cost, Some(&row.agent));
        let cost = if cost.usd.is_zero() { String::new() } else { cost.to_string() };
        let line = Line::default()
            .with(
                BOLD,
                text(&clip_start(&clean(row.agent.as_str()), self.agent.saturating_sub(1)), self.agent),
            )
            .with(DIM, text(row.title.as_deref().unwrap_or_default(), self.title))
            .with(Style::new(), text(row.state.as_str(), self.state));
        if self.detail == 0
            && matches!(row.activity, Activity::Delayed | Activity::Limited)
            && let Some(until) = row.until
        {
            return line.with(style(row.activity), column(&briefly_until(until, now), WORD + 1 + TIME));
        }
        let line = line
            .with(style(row.activity), text(row.activity.as_str(), WORD + 1))
            .with(Style::new(), format!("{:>TIME$}", short(since(row.since, now))))
            .with(DIM, if self.cost > 0 { format!("{cost:>0$}", self.cost) } else { String::new() });
        if self.detail == 0 {
            return line;
        }
        let style = if row.activity == Activity::Running { DIM } else { style(row.activity) };
        line.with(style, format!("  {}", clip(&detail(row, scene, now), self.detail)))
    }
}

/// Waiting and failed agents stand out.
fn style(activity: Activity) -> Style {
    match activity {
        Activity::Asking => NOTE.bold(),
        Activity::Limited | Activity::Delayed | Activity::Joining => NOTE,
        Activity::Failed => BAD,
        Activity::Running => Style::new(),
        Activity::Ready => DIM,
    }
}

/// What an agent has printed last, or what it waits for.
fn detail(row: &Row, scene: &Scene, now: Timestamp) -> String {
    let text = match (row.activity, row.until) {
        (Activity::Running, _) => scene.output_of(&row.agent).map(last_line).unwrap_or_default(),
        (Activity::Asking, deadline) => question(row, deadline, now),
        (Activity::Limited, Some(time)) => format!("usage limit {}", until(time, now)),
        (Activity::Delayed, Some(time)) => match &row.retry {
            Some(error) => format!("retry in {}: {error}", short(since(now, time))),
            None => until(time, now),
        },
        (Activity::Failed, _) => row.error.clone().unwrap_or_default(),
        (Activity::Joining, _) => format!("waits for {}", count(row.workers, "worker")),
        (Activity::Ready, _) | (Activity::Limited | Activity::Delayed, None) => String::new(),
    };
    text.replace(['\t', '\n'], " ")
}

fn question(row: &Row, deadline: Option<Timestamp>, now: Timestamp) -> String {
    let Some(question) = &row.question else { return String::new() };
    let deadline = deadline.map(|time| format!(" until {}", clock(time, now))).unwrap_or_default();
    format!("{}{deadline}: {}", question.ask, question.text)
}

/// The last line that is not blank. Of a line that was overwritten, as by a progress bar, it is what was written last.
fn last_line(output: &OutputTail) -> String {
    let lines = output.last_lines(SEARCHED_LINES);
    let plain = anstream::adapter::strip_str(&lines).to_string();
    let last = plain.split(['\n', '\r']).map(str::trim).rfind(|line| !line.is_empty());
    one_line(last.unwrap_or_default(), MOST_CHARS)
}

fn until(time: Timestamp, now: Timestamp) -> String {
    format!("until {}, {} left", clock(time, now), short(since(now, time)))
}

/// A time, with its date if that is not today.
fn clock(time: Timestamp, now: Timestamp) -> String {
    let format = if is_today(time, now) { "%H:%M:%S UTC" } else { "%Y-%m-%d %H:%M:%S UTC" };
    time.strftime(format).to_string()
}

/// The same for a narrow terminal.
fn briefly_until(time: Timestamp, now: Timestamp) -> String {
    let format = if is_today(time, now) { "until %H:%M:%S" } else { "until %m-%d" };
    time.strftime(format).to_string()
}

fn is_today(time: Timestamp, now: Timestamp) -> bool {
    let day = |time: Timestamp| time.strftime("%Y-%m-%d").to_string();
    day(time) == day(now)
}

/// A duration, in at most six characters if it is less than a hundred days.
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
