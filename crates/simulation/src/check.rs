//! Whole runs: first without faults to get the outcome of a program, then with faults.

use std::collections::BTreeMap;

use raymond_core::event::{Body, Event, StoppedStatus};
use raymond_core::payload::Payload;
use raymond_core::run::RunStatus;

use crate::fault::{Fault, Site};
use crate::host::{Host, Manner};
use crate::life::Death;
use crate::program::Program;

/// How many times a run may be started before it counts as a run that never ends.
const MOST_LIVES: u32 = 60;

/// The outcome of a run: everything that faults must not change.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Outcome {
    pub result: Option<String>,
    /// The steps that each agent finished, in order.
    steps: BTreeMap<String, Vec<String>>,
    /// The workers of each agent, in order.
    workers: BTreeMap<String, Vec<String>>,
    /// The result of each agent.
    results: BTreeMap<String, String>,
    /// How each part of a recorded run ended.
    ends: Vec<RunStatus>,
}

/// A finished run.
pub struct Ran {
    pub outcome: Outcome,
    /// The points that it reached.
    pub sites: Vec<Site>,
    pub broken: Option<String>,
    /// Whether it left the recorded course, so that its outcome cannot be compared.
    pub is_off_course: bool,
    /// All that is in its journal at the end.
    pub events: Vec<Event>,
    pub log: Vec<String>,
}

/// Runs a program to its end, and restarts it as often as needed.
pub fn run(program: &Program, seed: u64, plan: &[Fault], manner: Manner) -> Ran {
    let mut host = Host::new(program, seed, plan, manner);
    while host.life < MOST_LIVES {
        let death = if host.wish.is_some() { host.go_back() } else { host.live() };
        match death {
            Death::Exit(RunStatus::Completed) if program.course.is_none() => break,
            Death::Broken | Death::OffCourse => break,
            Death::Exit(status) if program.course.is_none() => host.react(status),
            Death::Exit(_) | Death::Crashed | Death::Refused(_) => {}
        }
        host.go_down();
        let is_over = program.course.as_ref().is_some_and(|course| host.go_on_as_recorded(course));
        if is_over || !host.monitor.broken.is_empty() {
            break;
        }
    }
    host.monitor.look();
    let status = host.monitor.run.as_ref().map(|run| run.status);
    let wanted = program.course.as_ref().map_or(RunStatus::Completed, |course| course.last_end());
    let (lives, is_off_course) = (host.life, host.is_off_course);
    host.monitor.expect(is_off_course || status == Some(wanted), || {
        format!("the run is {status:?} after {lives} lives")
    });
    host.check_left_behind();
    let text_of = |payload: &Payload| host.monitor.text_of(payload);
    let outcome = Outcome::of(&host.monitor.events, &text_of, program.course.is_some());
    let (sites, log) =
        host.disk.tape(|tape| (std::mem::take(&mut tape.sites), tape.log.take().unwrap_or_default()));
    let broken = host.monitor.broken.first().cloned();
    Ran { outcome, sites, broken, is_off_course, events: host.monitor.events, log }
}

impl Outcome {
    /// The steps in the events; with the agents' ends if those do not depend on the order.
    pub fn of(events: &[Event], text_of: &dyn Fn(&Payload) -> String, with_ends: bool) -> Self {
        let mut outcome = Outcome::default();
        for event in events {
            match &event.body {
                Body::StepFinished(finished) => {
                    let led_to = finished.led_to.parts();
                    let to = led_to.next.or(led_to.target).map_or("", |state| state.as_str());
                    let scope = led_to.workflow.map(|workflow| &workflow.scope);
                    let step = format!("{} {} {to} {scope:?} {:?}", finished.state, led_to.tag, led_to.cwd);
                    outcome.steps.entry(finished.agent.to_string()).or_default().push(step);
                }
                Body::AgentStarted(started) => {
                    let parent = started.parent().map_or(String::new(), ToString::to_string);
                    let scope = started.workflow.as_ref().map(|workflow| &workflow.scope);
                    let attributes = started.forked.as_ref().map(|forked| &forked.attributes);
                    let (agent, state, cwd) = (&started.agent, &started.state, &started.cwd);
                    let worker = format!("{agent} {state} {scope:?} {cwd} {attributes:?}");
                    outcome.workers.entry(parent).or_default().push(worker);
                }
                Body::AgentFinished { agent, result, .. } => {
                    outcome.results.insert(agent.to_string(), text_of(result));
                }
                Body::RunFinished { status, result, .. } => {
                    outcome.result = result.as_ref().map(text_of);
                    outcome.ends.extend(Some(RunStatus::from(*status)).filter(|_| with_ends));
                }
                Body::RunStopped { status, .. } if with_ends && *status != StoppedStatus::Interrupted => {
                    outcome.ends.push((*status).into());
                }
                _ => {}
            }
        }
        outcome
    }
}

/// A program that failed, with the smallest set of faults that causes it.
pub struct Failure {
    pub seed: u64,
    pub plan: Vec<Fault>,
    pub why: String,
    pub log: Vec<String>,
}

/// Runs a program with faults and returns how it differs from a run without.
pub fn check(program: &Program, expected: &Outcome, seed: u64, plan: &[Fault]) -> Result<Ran, Box<Failure>> {
    let ran = run(program, seed, plan, Manner::default());
    if trouble(program, &ran, expected).is_none() {
        return Ok(ran);
    }
    let mut smallest = plan.to_vec();
    let mut index = 0;
    while index < smallest.len() {
        let mut fewer = smallest.clone();
        fewer.remove(index);
        match trouble(program, &run(program, seed, &fewer, Manner::default()), expected) {
            Some(_) => smallest = fewer,
            None => index += 1,
        }
    }
    let ran = run(program, seed, &smallest, Manner { keeps_log: true, ..Manner::default() });
    let why = trouble(program, &ran, expected)
        .unwrap_or_else(|| "it did not fail when it was tried again".to_owned());
    Err(Box::new(Failure { seed, plan: smallest, why, log: ran.log }))
}

fn trouble(program: &Program, ran: &Ran, expected: &Outcome) -> Option<String> {
    if let Some(broken) = &ran.broken {
        return Some(broken.clone());
    }
    // The order of agents is random, and what each agent did may depend on it.
    let is_compared =
        !ran.is_off_course && !program.course.as_ref().is_some_and(|course| course.depends_on_order);
    (is_compared && ran.outcome != *expected)
        .then(|| format!("another outcome: {:#?}\ninstead of: {expected:#?}", ran.outcome))
}

/// Everything that is needed to find the cause.
pub fn report(program: &Program, failure: &Failure) -> String {
    let clip = |text: &str| text.chars().take(4_000).collect::<String>();
    let plan: Vec<String> = failure.plan.iter().map(ToString::to_string).collect();
    let from = failure.log.len().saturating_sub(150);
    format!(
        "{}: {}\nseed {}, faults: [{}]\n{}\nprogram: {:#?}",
        program.name,
        clip(&failure.why),
        failure.seed,
        plan.join(", "),
        failure.log[from..].join("\n"),
        program
            .workflows
            .iter()
            .flat_map(|workflow| workflow.states.iter().map(|state| (&workflow.name, state)))
            .map(|(workflow, state)| (workflow, state.file.as_str(), &state.text, &state.visits))
            .collect::<Vec<_>>(),
    )
}
