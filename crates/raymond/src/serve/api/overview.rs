//! A whole run at a glance: money, states, ways, agents over time. It is as long for a million steps as for a hundred.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use jiff::Timestamp;
use raymond_core::money::Usd;
use raymond_core::run::{Agent, Run};
use schemars::JsonSchema;
use serde::Serialize;

use super::runs::no_state;
use super::workflows::{GraphObject, draw};
use crate::serve::Server;
use crate::serve::index::holds;
use crate::serve::problem::Problem;
use crate::serve::route::{Answer, Call};
use crate::serve::story::{How, Story, Word};
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
    steps: usize,
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
    tag: String,
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

    fn overview(&self, buckets: usize) -> Overview {
        let started_at = self.story.started.unwrap_or(self.now.last_at);
        let steps = self.story.steps.iter();
        let agents = self.story.agents.iter().filter(|agent| agent.started_seq <= self.at).count();
        let started = self.story.steps.partition_point(|step| step.started_seq <= self.at);
        Overview {
            first_seq: 1,
            last_seq: self.at,
            last_step: self.story.steps[..started].last().map_or(0, |step| step.number),
            started_at,
            last_at: self.now.last_at,
            steps: steps.filter(|step| step.end.as_ref().is_some_and(|end| end.seq <= self.at)).count(),
            cost_usd: self.now.cost,
            budget_usd: self.now.budget,
            money: self.money(buckets),
            states: self.states(),
            edges: self.ways(),
            agents: self.agents(buckets, started_at),
            more: agents.saturating_sub(MOST_AGENTS),
            prints: self.prints(),
        }
    }

    fn money(&self, buckets: usize) -> Vec<Money> {
        let end = self.story.money.partition_point(|(seq, _, _)| *seq <= self.at);
        let all = &self.story.money[..end];
        let every = all.len().div_ceil(buckets).max(1);
        // The last one of each group, so that the end is always there.
        let groups = all.chunks(every).filter_map(|group| group.last());
        groups.map(|(seq, time, cost)| Money { time: *time, seq: *seq, cost_usd: *cost }).collect()
    }

    fn states(&self) -> Vec<StateSum> {
        #[derive(Default)]
        struct Sum {
            visits: u64,
            failed: u64,
            cost_usd: Usd,
            duration_ms: u64,
        }
        let mut sums: BTreeMap<(Option<Word>, Word), Sum> = BTreeMap::new();
        for step in self.story.steps.iter().filter(|step| step.started_seq <= self.at) {
            let sum = sums.entry((step.scope, step.state)).or_default();
            sum.visits += 1;
            if let Some(end) = step.end.as_ref().filter(|end| end.seq <= self.at) {
                sum.failed += u64::from(matches!(end.how, How::Failed));
                sum.cost_usd += end.cost;
                sum.duration_ms += end.duration_ms;
            }
        }
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

    fn ways(&self) -> Vec<Way> {
        // By scope, state, next state and tag.
        type Taken = (Option<Word>, Word, Option<Word>, &'static str);
        let mut counts: BTreeMap<Taken, u64> = BTreeMap::new();
        for step in &self.story.steps {
            let Some(end) = step.end.as_ref().filter(|end| end.seq <= self.at) else { continue };
            let How::Done { tag, target, next } = end.how else { continue };
            let mut count = |to, tag| *counts.entry((step.scope, step.state, to, tag)).or_default() += 1;
            match (target, next) {
                // The workers of a fork are counted below, each with its own state.
                (Some(_), Some(next)) => count(Some(next), "next"),
                (target, next) => count(target.or(next), tag.as_str()),
            }
        }
        for row in self.story.agents.iter().filter(|row| row.started_seq <= self.at) {
            let Some((scope, from)) = row.forked_at else { continue };
            *counts.entry((scope, from, Some(row.state), "fork")).or_default() += 1;
        }
        let ways = counts.into_iter().map(|((scope, from, to, tag), count)| Way {
            scope: scope.map(|scope| self.text(scope)),
            from: self.text(from),
            to: to.map_or("[end]".to_owned(), |to| self.text(to)),
            tag: tag.to_owned(),
            count,
        });
        ways.collect()
    }

    fn agents(&self, buckets: usize, started: Timestamp) -> Vec<AgentLine> {
        let rows = self.story.agents.iter().filter(|agent| agent.started_seq <= self.at).take(MOST_AGENTS);
        let mut lines: HashMap<Word, (u64, Usd, Vec<Span>)> =
            rows.clone().map(|row| (row.id, Default::default())).collect();
        for step in self.story.steps.iter().filter(|step| step.started_seq <= self.at) {
            let Some((steps, cost, spans)) = lines.get_mut(&step.agent) else { continue };
            let end = step.end.as_ref().filter(|end| end.seq <= self.at);
            *steps += 1;
            *cost += end.map_or(Usd::default(), |end| end.cost);
            spans.push(Span {
                from: step.started,
                to: end.map(|end| end.at),
                kind: "step",
                state: self.text(step.state),
                step: Some(step.number),
                steps: 1,
                failed: end.is_some_and(|end| matches!(end.how, How::Failed)),
            });
        }
        for pause in self.story.pauses.iter().filter(|pause| pause.from_seq <= self.at) {
            let Some((_, _, spans)) = lines.get_mut(&pause.agent) else { continue };
            spans.push(Span {
                from: pause.from,
                to: pause.to.filter(|(_, seq)| *seq <= self.at).map(|(time, _)| time),
                kind: pause.kind.as_str(),
                state: self.text(pause.state),
                step: None,
                steps: 0,
                failed: false,
            });
        }
        let whole = self.now.last_at.duration_since(started).as_millis().max(1);
        let width = whole / i128::try_from(buckets).unwrap_or(1);
        let line = |row: &crate::serve::story::AgentRow| {
            let (steps, cost_usd, spans) = lines.remove(&row.id).unwrap_or_default();
            let ended = row.ended.filter(|(_, seq)| *seq <= self.at);
            let id = self.text(row.id);
            let doing = self.now.doing.get(&id).map(|activity| activity.as_str());
            AgentLine {
                status: if ended.is_some() { "done" } else { doing.unwrap_or("done") }.to_owned(),
                title: row.title.map(|title| self.text(title)),
                parent: row.parent.map(|parent| self.text(parent)),
                started_at: row.started,
                ended_at: ended.map(|(time, _)| time),
                steps,
                cost_usd,
                spans: merged(spans, width, buckets),
                id,
            }
        };
        rows.map(line).collect()
    }

    fn prints(&self) -> Vec<PrintObject> {
        let prints = self.story.prints.iter().filter(|print| print.seq <= self.at);
        let object = |print: &crate::serve::story::Print| PrintObject {
            seq: print.seq,
            time: print.time,
            agent: self.text(print.agent),
            text: print.text.clone(),
        };
        prints.map(object).collect()
    }
}

/// Makes one span of neighbours that are shorter than a bucket, so that there are at most about so many.
fn merged(mut spans: Vec<Span>, width: i128, most: usize) -> Vec<Span> {
    spans.sort_by_key(|span| span.from);
    if spans.len() <= most {
        return spans;
    }
    let mut few: Vec<Span> = Vec::new();
    for span in spans {
        let is_near = |before: &Span| {
            before.kind == span.kind
                && span.to.is_some_and(|to| to.duration_since(before.from).as_millis() <= width)
        };
        match few.last_mut().filter(|before| is_near(before)) {
            Some(before) => {
                before.to = span.to;
                before.steps += span.steps;
                before.failed |= span.failed;
                before.state.clone_from(&span.state);
            }
            None => few.push(span),
        }
    }
    // Spans that alternate in kind cannot be merged; the oldest are left out.
    let surplus = few.len().saturating_sub(most);
    few.split_off(surplus)
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
        let mut others: Vec<Word> = story.steps.iter().filter_map(|step| step.scope).collect();
        others.sort_unstable();
        others.dedup();
        let others: Vec<String> = others.into_iter().map(|scope| story.word(scope).to_owned()).collect();
        (others, Looking { story, at: now.seq, now: &now }.ways())
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
