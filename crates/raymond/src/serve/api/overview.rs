//! A whole run at a glance: money, states, ways, agents over time. It is as long for a million steps as for a hundred.

use std::collections::{BTreeMap, HashMap};
use std::io;
use std::sync::Arc;

use jiff::Timestamp;
use raymond_core::diagram::Style;
use raymond_core::money::Usd;
use raymond_core::run::{Agent, Run};
use raymond_core::tag::TagName;
use schemars::JsonSchema;
use serde::Serialize;

use super::runs::no_state;
use super::workflows::{GraphObject, draw, way_key};
use crate::serve::Server;
use crate::serve::index::holds;
use crate::serve::problem::Problem;
use crate::serve::route::{Answer, Call};
use crate::serve::story::{AgentRow, By, END, How, Pause, Print, Step, Story, Word, thinned};
use crate::store::RunHandle;
use crate::view::status::Activity;

const USUAL_BUCKETS: usize = 120;
const MOST_BUCKETS: usize = 1000;
/// How many agents are told of.
const MOST_AGENTS: usize = 500;

/// A whole run.
#[derive(Serialize, JsonSchema)]
pub struct Overview {
    first_seq: u64,
    last_seq: u64,
    /// The number of the step that was started last.
    last_step: u64,
    started_at: Timestamp,
    last_at: Timestamp,
    /// How many steps are completed.
    steps: u64,
    cost_usd: Usd,
    budget_usd: Option<Usd>,
    /// What the run had cost, over time.
    money: Vec<Money>,
    states: Vec<StateSum>,
    edges: Vec<Way>,
    agents: Vec<AgentLine>,
    /// How many agents are left out.
    more: usize,
    /// The last texts for people.
    prints: Vec<PrintObject>,
}

#[derive(Serialize, JsonSchema)]
struct Money {
    time: Timestamp,
    seq: u64,
    cost_usd: Usd,
}

/// What all steps of a state add up to.
#[derive(Serialize, JsonSchema)]
struct StateSum {
    state: String,
    scope: Option<String>,
    visits: u64,
    failed: u64,
    cost_usd: Usd,
    duration_ms: u64,
}

/// How often a way was taken.
#[derive(Serialize, JsonSchema)]
pub struct Way {
    scope: Option<String>,
    from: String,
    to: String,
    /// The tag, or `next` beside a fork, `timeout` of a question, `start` of a workflow.
    tag: String,
    /// Which edge of the graph it is.
    way: String,
    count: u64,
}

/// An agent over time.
#[derive(Serialize, JsonSchema)]
struct AgentLine {
    id: String,
    /// What its fork called it.
    title: Option<String>,
    parent: Option<String>,
    started_at: Timestamp,
    ended_at: Option<Timestamp>,
    status: String,
    steps: u64,
    cost_usd: Usd,
    spans: Vec<Span>,
}

/// What an agent did for some time. Many short spans are one.
#[derive(Clone, Serialize, JsonSchema)]
struct Span {
    from: Timestamp,
    /// Null if it goes on.
    to: Option<Timestamp>,
    /// `step`, `wait`, `ask`, `join`, `delay` or `limit`.
    kind: &'static str,
    state: String,
    step: Option<u64>,
    /// How many steps it stands for.
    steps: u64,
    failed: bool,
}

#[derive(Serialize, JsonSchema)]
struct PrintObject {
    seq: u64,
    time: Timestamp,
    agent: String,
    text: String,
}

pub fn overview(server: &Arc<Server>, call: &Call) -> Result<Answer, Problem> {
    let run = server.index.find(call.part("run"))?;
    let at = call.number::<u64>("at")?;
    let buckets = call.number::<usize>("buckets")?.unwrap_or(USUAL_BUCKETS).clamp(1, MOST_BUCKETS);
    Answer::json(&of(server, &run, at, buckets)?)
}

/// A run at a glance, now or as it was after an event.
pub fn of(
    server: &Server,
    run: &Arc<dyn RunHandle>,
    at: Option<u64>,
    buckets: usize,
) -> Result<Overview, Problem> {
    let now = Now::of(server, run, at)?;
    Ok(server.stories.with(run, |story| Looking { story, at: now.seq, now: &now }.overview(buckets))?)
}

/// A run at a glance in a state that it was in.
pub fn of_state(
    server: &Server,
    handle: &Arc<dyn RunHandle>,
    run: &Run,
    buckets: usize,
) -> Result<Overview, Problem> {
    let now = Now::read(run, true);
    Ok(server.stories.with(handle, |story| Looking { story, at: now.seq, now: &now }.overview(buckets))?)
}

/// What the state of the run tells.
struct Now {
    seq: u64,
    last_at: Timestamp,
    budget: Option<Usd>,
    cost: Usd,
    /// What each agent that has not ended is doing.
    doing: HashMap<String, Activity>,
}

impl Now {
    fn read(run: &Run, is_live: bool) -> Self {
        let doing = |agent: &Agent| (agent.id.to_string(), Activity::of(&agent.status, is_live));
        Self {
            seq: run.seq,
            last_at: run.last_time,
            budget: Some(run.options.budget_usd).filter(|budget| !budget.is_zero()),
            cost: run.cost_usd,
            doing: run.agents.values().map(doing).collect(),
        }
    }

    fn of(server: &Server, handle: &Arc<dyn RunHandle>, at: Option<u64>) -> Result<Self, Problem> {
        match at {
            Some(at) => {
                Ok(Self::read(&server.index.state_at(handle, at).map_err(|error| no_state(error, at))?, true))
            }
            None => {
                let is_live = holds(&**handle);
                Ok(server.index.with_run(handle, |run| Self::read(run, is_live))?)
            }
        }
    }
}

struct Looking<'a> {
    story: &'a Story,
    at: u64,
    now: &'a Now,
}

impl Looking<'_> {
    fn text(&self, word: Word) -> String {
        self.story.word(word).to_owned()
    }

    /// Adds up all steps so far.
    fn tally(&self) -> io::Result<Tally> {
        let mut tally = Tally::default();
        self.each_step(|step| {
            tally.add(step, self.at);
            Ok(())
        })?;
        tally.agents = self.agents().count();
        for way in self.story.ways.rows(0) {
            let way = way?;
            if way.seq > self.at {
                break;
            }
            let count = tally.ways.entry((way.scope, way.from, way.to, way.by)).or_default();
            *count = if way.is_taken_back { count.saturating_sub(1) } else { *count + 1 };
        }
        Ok(tally)
    }

    fn each_step(&self, mut show: impl FnMut(&Step) -> io::Result<()>) -> io::Result<()> {
        for step in self.story.steps.rows(0) {
            let step = step?;
            if step.started_seq > self.at {
                break;
            }
            show(&step)?;
        }
        Ok(())
    }

    /// The agents that had started.
    fn agents(&self) -> impl Iterator<Item = &AgentRow> + Clone {
        self.story.agents.iter().filter(|agent| agent.started_seq <= self.at)
    }

    fn overview(&self, buckets: usize) -> io::Result<Overview> {
        let started_at = self.story.started.unwrap_or(self.now.last_at);
        let tally = self.tally()?;
        Ok(Overview {
            first_seq: 1,
            last_seq: self.at,
            last_step: tally.last_step,
            started_at,
            last_at: self.now.last_at,
            steps: tally.done,
            cost_usd: self.now.cost,
            budget_usd: self.now.budget,
            money: self.money(buckets),
            more: tally.agents.saturating_sub(MOST_AGENTS),
            states: self.states(tally.states),
            edges: self.ways(tally.ways),
            agents: self.lines(buckets, started_at)?,
            prints: self.prints()?,
        })
    }

    fn money(&self, buckets: usize) -> Vec<Money> {
        let end = self.story.money.partition_point(|(seq, _, _)| *seq <= self.at);
        let from = self.story.started.unwrap_or(self.now.last_at);
        let few = thinned(&self.story.money[..end], from, buckets);
        let mut money: Vec<Money> =
            few.into_iter().map(|(seq, time, cost_usd)| Money { time, seq, cost_usd }).collect();
        // Of very many amounts some were left out, and the last one may be among them.
        let last = money.last().map_or(Usd::ZERO, |last| last.cost_usd);
        if last != self.now.cost {
            money.push(Money { time: self.now.last_at, seq: self.at, cost_usd: self.now.cost });
        }
        money
    }

    fn states(&self, sums: BTreeMap<(Option<Word>, Word), Sum>) -> Vec<StateSum> {
        let sums = sums.into_iter().map(|((scope, state), Sum { visits, failed, cost_usd, duration_ms })| {
            StateSum {
                state: self.text(state),
                scope: scope.map(|scope| self.text(scope)),
                visits,
                failed,
                cost_usd,
                duration_ms,
            }
        });
        sums.collect()
    }

    fn ways(&self, counts: BTreeMap<Taken, u64>) -> Vec<Way> {
        let taken = counts.into_iter().filter(|(_, count)| *count > 0);
        let ways = taken.map(|((scope, from, to, by), count)| {
            let (from, to) = (self.text(from), self.text(to));
            Way {
                scope: scope.map(|scope| self.text(scope)),
                way: way_key(&from, &to, style_of(by, &to)),
                from,
                to,
                tag: by.as_str().to_owned(),
                count,
            }
        });
        ways.collect()
    }

    /// The first agents over time.
    fn lines(&self, buckets: usize, started: Timestamp) -> io::Result<Vec<AgentLine>> {
        let whole = self.now.last_at.duration_since(started).as_millis().max(1);
        let width = whole / i128::try_from(buckets).unwrap_or(1);
        let few = || Line { steps: 0, cost: Usd::default(), spans: Spans::new(width, buckets) };
        let rows = self.agents().take(MOST_AGENTS);
        let mut lines: HashMap<Word, Line> = rows.clone().map(|row| (row.id, few())).collect();
        // Both tables are in the order of time; so are the spans of an agent.
        let mut pauses = self.story.pauses.rows(0).peekable();
        self.each_step(|step| {
            while let Some(pause) = pauses.next_if(|pause| is_before(pause, step.started_seq)) {
                self.add_pause(&mut lines, &pause?);
            }
            if let Some(line) = lines.get_mut(&step.agent) {
                line.add(step, self.at);
            }
            Ok(())
        })?;
        for pause in pauses {
            self.add_pause(&mut lines, &pause?);
        }
        Ok(rows.map(|row| self.line(row, lines.remove(&row.id).unwrap_or_else(few))).collect())
    }

    fn add_pause(&self, lines: &mut HashMap<Word, Line>, pause: &Pause) {
        let Some(line) = lines.get_mut(&pause.agent).filter(|_| pause.from_seq <= self.at) else { return };
        line.spans.push(RawSpan {
            from: pause.from,
            to: pause.to.filter(|(_, seq)| *seq <= self.at).map(|(time, _)| time),
            kind: pause.kind.as_str(),
            state: pause.state,
            step: None,
            steps: 0,
            failed: false,
        });
    }

    fn line(&self, row: &AgentRow, line: Line) -> AgentLine {
        let until_now = |event: Option<(Timestamp, u64)>| event.filter(|(_, seq)| *seq <= self.at);
        let id = self.text(row.id);
        let doing = self.now.doing.get(&id).map(|activity| activity.as_str());
        // A worker whose failure a join has taken is gone, and has not ended otherwise.
        let failed = until_now(row.failed).filter(|_| doing.is_none());
        let (status, ended) = match (until_now(row.ended), failed) {
            (Some(ended), _) => ("done", Some(ended)),
            (None, Some(failed)) => (Activity::Failed.as_str(), Some(failed)),
            (None, None) => (doing.unwrap_or("done"), None),
        };
        let span = |span: RawSpan| Span {
            from: span.from,
            to: span.to,
            kind: span.kind,
            state: self.text(span.state),
            step: span.step,
            steps: span.steps,
            failed: span.failed,
        };
        AgentLine {
            status: status.to_owned(),
            title: row.title.map(|title| self.text(title)),
            parent: row.parent.map(|parent| self.text(parent)),
            started_at: row.started,
            ended_at: ended.map(|(time, _)| time),
            steps: line.steps,
            cost_usd: line.cost,
            spans: line.spans.finish().into_iter().map(span).collect(),
            id,
        }
    }

    fn prints(&self) -> io::Result<Vec<PrintObject>> {
        let object =
            |Print { seq, time, agent, text }| PrintObject { seq, time, agent: self.text(agent), text };
        Ok(self.story.prints_until(self.at)?.into_iter().map(object).collect())
    }
}

fn is_before(pause: &io::Result<Pause>, seq: u64) -> bool {
    pause.as_ref().is_ok_and(|pause| pause.from_seq < seq)
}

/// A way that was taken: the workflow, the nodes, and why.
type Taken = (Option<Word>, Word, Word, By);

/// How the edge of a way is drawn.
fn style_of(by: By, to: &str) -> Style {
    match by {
        By::Tag(TagName::Result) if to != END => Style::Return,
        By::Tag(tag) if tag.is_call() => Style::Call,
        By::Tag(tag) if tag.is_fork() => Style::Fork,
        By::Tag(_) | By::Next | By::Timeout | By::Start => Style::Plain,
    }
}

/// What all steps up to an event add up to.
#[derive(Default)]
struct Tally {
    last_step: u64,
    done: u64,
    agents: usize,
    states: BTreeMap<(Option<Word>, Word), Sum>,
    ways: BTreeMap<Taken, u64>,
}

#[derive(Default)]
struct Sum {
    visits: u64,
    failed: u64,
    cost_usd: Usd,
    duration_ms: u64,
}

impl Tally {
    fn add(&mut self, step: &Step, at: u64) {
        self.last_step = step.number;
        let sum = self.states.entry((step.scope, step.state)).or_default();
        sum.visits += 1;
        let Some(end) = step.end_at(at) else { return };
        sum.failed += u64::from(matches!(end.how, How::Failed));
        sum.cost_usd += end.cost;
        sum.duration_ms += end.duration_ms;
        self.done += u64::from(matches!(end.how, How::Done { .. }));
    }
}

/// An agent over time, as it is added up.
struct Line {
    steps: u64,
    cost: Usd,
    spans: Spans,
}

impl Line {
    fn add(&mut self, step: &Step, at: u64) {
        let end = step.end_at(at);
        self.steps += 1;
        self.cost += end.map_or(Usd::default(), |end| end.cost);
        self.spans.push(RawSpan {
            from: step.started,
            to: end.map(|end| end.at),
            kind: "step",
            state: step.state,
            step: Some(step.number),
            steps: 1,
            failed: end.is_some_and(|end| matches!(end.how, How::Failed)),
        });
    }
}

/// A [`Span`] whose state is not written out yet.
#[derive(Clone, Debug, PartialEq)]
struct RawSpan {
    from: Timestamp,
    to: Option<Timestamp>,
    kind: &'static str,
    state: Word,
    step: Option<u64>,
    steps: u64,
    failed: bool,
}

/// Spans in the order of time. If there are too many, neighbours that are short together become one.
struct Spans {
    /// How long, in milliseconds, a span may become by that.
    width: i128,
    most: usize,
    spans: Vec<RawSpan>,
}

impl Spans {
    fn new(width: i128, most: usize) -> Self {
        Self { width, most, spans: Vec::new() }
    }

    fn push(&mut self, span: RawSpan) {
        self.spans.push(span);
        // To merge them now and then gives the same as to merge all of them at the end, in less memory.
        if self.spans.len() >= 4 * self.most {
            self.merge();
        }
    }

    fn finish(mut self) -> Vec<RawSpan> {
        if self.spans.len() > self.most {
            self.merge();
        }
        let surplus = self.spans.len().saturating_sub(self.most);
        self.spans.split_off(surplus)
    }

    fn merge(&mut self) {
        let mut few: Vec<RawSpan> = Vec::new();
        for span in self.spans.drain(..) {
            let is_near = |before: &RawSpan| {
                before.kind == span.kind
                    && span.to.is_some_and(|to| to.duration_since(before.from).as_millis() <= self.width)
            };
            match few.last_mut().filter(|before| is_near(before)) {
                Some(before) => {
                    before.to = span.to;
                    before.steps += span.steps;
                    before.failed |= span.failed;
                    before.state = span.state;
                }
                None => few.push(span),
            }
        }
        // Spans that alternate in kind cannot be merged; the oldest are left out.
        let surplus = few.len().saturating_sub(2 * self.most);
        self.spans = few.split_off(surplus);
    }
}

/// The drawings of all workflows that a run was in, and how often each way was taken.
#[derive(Serialize, JsonSchema)]
pub struct RunGraph {
    scopes: Vec<ScopeGraph>,
    counts: Vec<Way>,
}

#[derive(Serialize, JsonSchema)]
struct ScopeGraph {
    /// An absolute path.
    path: String,
    workflow_id: Option<String>,
    graph: Option<GraphObject>,
    /// Why there is no drawing.
    missing: Option<String>,
}

pub fn graph(server: &Arc<Server>, call: &Call) -> Result<Answer, Problem> {
    let run = server.index.find(call.part("run"))?;
    Answer::json(&graph_of(server, &run, call.number::<u64>("at")?)?)
}

/// The drawings for a run, now or as it was after an event.
pub fn graph_of(server: &Server, run: &Arc<dyn RunHandle>, at: Option<u64>) -> Result<RunGraph, Problem> {
    let own = server.index.with_run(run, |run| run.scope.clone())?;
    let now = Now::of(server, run, at)?;
    let (others, mut counts) = server.stories.with(run, |story| {
        let others: Vec<String> = story.scopes.iter().map(|scope| story.word(*scope).to_owned()).collect();
        let looking = Looking { story, at: now.seq, now: &now };
        Ok((others, looking.ways(looking.tally()?.ways)))
    })?;
    for way in &mut counts {
        way.scope.get_or_insert_with(|| own.clone());
    }
    let scope = |path: String| {
        let drawn = draw(std::path::Path::new(&path), &[]);
        let workflow_id = server.workflow_id(&path);
        match drawn {
            Ok(graph) => ScopeGraph { path, workflow_id, graph: Some(graph), missing: None },
            Err(problem) => ScopeGraph { path, workflow_id, graph: None, missing: Some(problem.detail) },
        }
    };
    let scopes = std::iter::once(own.clone()).chain(others.into_iter().filter(|other| *other != own));
    Ok(RunGraph { scopes: scopes.map(scope).collect(), counts })
}
