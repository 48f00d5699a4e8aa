//! Plain progress lines on stderr, for people.

#![warn(clippy::wildcard_enum_match_arm, reason = "a new event has to be answered here")]

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::io::Write;

use raymond_core::event::{Body, Event, StoppedStatus};
use raymond_core::money::Usd;
use raymond_core::name::AgentId;
use raymond_core::run::Run;

use super::costs::Costs;
use super::progress::Progress;
use super::whereabouts::Whereabouts;
use super::wording::{DIM, NOTE, count, lines};
use super::{Stream, View};
use crate::run::stop::Stop;
use crate::store::Payloads;
use crate::view::text::clean;

/// A longer line of output is shown in pieces, so that memory does not grow with the length of a line.
const MAX_OUTPUT_LINE_BYTES: usize = 4096;

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
    /// Whether questions are asked on the same terminal, so that they need no line here.
    leaves_questions: bool,
    /// A failure is shown once: when it happens or, if that was in an earlier process, at the end.
    has_shown_failure: bool,
    costs: Costs,
    whereabouts: Whereabouts,
    /// Whether the run has used up `--max-steps`, so that it needs more to continue.
    out_of_steps: bool,
    /// The budget that the run is over.
    exceeded: Option<Usd>,
    progress: Progress,
    /// Incomplete lines of output, by agent and stream.
    pending: BTreeMap<(AgentId, Stream), Vec<u8>>,
}

impl<W: Write> Console<W> {
    pub fn new(out: W, detail: Detail, payloads: Payloads) -> Self {
        Self {
            out,
            detail,
            payloads,
            leaves_questions: false,
            has_shown_failure: false,
            costs: Costs::default(),
            whereabouts: Whereabouts::default(),
            out_of_steps: false,
            exceeded: None,
            progress: Progress::default(),
            pending: BTreeMap::new(),
        }
    }

    /// Shows no line for a question if `leave` is set, because it is asked on the same terminal.
    pub fn leave_questions(mut self, leave: bool) -> Self {
        self.leaves_questions = leave;
        self
    }

    /// Writes a line. An error is ignored: if stderr is closed, there is no place to report it.
    fn line(&mut self, text: &str) {
        let _ = writeln!(self.out, "{text}");
    }

    fn output_line(&mut self, agent: &AgentId, bytes: &[u8]) {
        let text = String::from_utf8_lossy(bytes);
        let text = clean(text.trim_end_matches('\n'));
        self.line(&format!("{DIM}[{}] |{DIM:#} {text}", clean(agent.as_str())));
    }

    /// Shows the end of a step's output that has no line break.
    fn flush_output(&mut self, agent: &AgentId) {
        for stream in [Stream::Stdout, Stream::Stderr] {
            if let Some(bytes) = self.pending.remove(&(agent.clone(), stream)) {
                self.output_line(agent, &bytes);
            }
        }
    }

    /// Adds what each state has cost, below the first line of the summary.
    fn add_costs(&self, event: &Event, lines: &mut Vec<(Detail, String)>) {
        if let Body::RunFinished { totals, .. } | Body::RunStopped { totals, .. } = &event.body
            && let Some(costs) = self.costs.line(totals.cost_usd)
            && let Some((needed, _)) = lines.first()
        {
            lines.insert(1, (*needed, costs));
        }
    }

    /// A run that ends over its budget, with nothing left to do, says by how much.
    fn add_excess(&mut self, event: &Event, lines: &mut Vec<(Detail, String)>) {
        if let Body::BudgetExceeded { budget_usd, .. } = &event.body {
            self.exceeded = Some(*budget_usd);
        } else if let Body::RunResumed(_) = &event.body {
            self.exceeded = None;
        } else if let Body::RunFinished { totals, .. }
        | Body::RunStopped { status: StoppedStatus::Failed, totals, .. } = &event.body
            && let Some(budget) = self.exceeded
        {
            let excess = totals.cost_usd.saturating_sub(budget);
            let line = format!("  {NOTE}{excess} over the budget{NOTE:#} of {budget}");
            lines.insert(lines.len().min(1), (Detail::Quiet, line));
        }
    }

    /// The event that ends a failed run repeats its first failure. It is removed if it was shown when it happened.
    fn without_shown_failure<'a>(&self, event: &'a Event) -> Cow<'a, Event> {
        let mut event = Cow::Borrowed(event);
        if matches!(event.body, Body::RunStopped { status: StoppedStatus::Failed, .. })
            && self.has_shown_failure
            && let Body::RunStopped { error, .. } = &mut event.to_mut().body
        {
            *error = None;
        }
        event
    }

    /// Shows the lines of an event.
    pub fn show(&mut self, event: &Event) {
        if let Some(agent) = event.body.ended_attempt_of() {
            self.flush_output(agent);
        }
        if self.leaves_questions && matches!(event.body, Body::AskOpened(_)) {
            return;
        }
        self.has_shown_failure |= matches!(event.body, Body::StepFailed(_));
        self.costs.add(event);
        if matches!(event.body, Body::StepStarted(_)) && self.detail < Detail::Verbose {
            // Every step has this event, so its text is made only if it is shown.
            return;
        }
        let within = self.whereabouts.workflow_of(event);
        let shown = self.without_shown_failure(event);
        let mut lines = lines(&shown, within.as_deref(), self.out_of_steps, &self.payloads).0;
        self.whereabouts.follow(event);
        self.add_costs(event, &mut lines);
        self.add_excess(event, &mut lines);
        for (needed, line) in lines {
            if self.detail >= needed {
                self.line(&line);
            }
        }
    }
}

impl<W: Write> View for Console<W> {
    fn event(&mut self, run: &Run, event: &Event) {
        if let Body::RunResumed(_) = &event.body {
            self.whereabouts = Whereabouts::of(run);
        }
        self.out_of_steps = run.is_out_of_steps();
        self.show(event);
        for line in self.progress.lines(run, event) {
            if self.detail >= Detail::Normal {
                self.line(&line);
            }
        }
    }

    fn stopping(&mut self, how: Stop, running: usize) {
        if running == 0 {
            return self.line(&format!("{NOTE}stopping{NOTE:#}"));
        }
        let steps = count(running, "running step");
        self.line(&match how {
            Stop::Gently => {
                format!("{NOTE}stopping{NOTE:#}: {steps} may finish; press Ctrl-C again to end them")
            }
            Stop::Now => format!("{NOTE}stopping{NOTE:#}: ending {steps}"),
        });
    }

    /// Shows whole lines, so that the output of agents that run at the same time does not mix within a line.
    fn output(&mut self, agent: &AgentId, stream: Stream, bytes: &[u8]) {
        if self.detail < Detail::Verbose {
            return;
        }
        let key = (agent.clone(), stream);
        let mut pending = self.pending.remove(&key).unwrap_or_default();
        let pieces = bytes.split_inclusive(|byte| *byte == b'\n');
        for piece in pieces.flat_map(|line| line.chunks(MAX_OUTPUT_LINE_BYTES)) {
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
