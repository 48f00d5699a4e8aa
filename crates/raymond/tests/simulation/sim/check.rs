//! Whole runs: without faults to know what comes of a program, then with them.

use std::collections::BTreeMap;

use raymond_core::event::Body;
use raymond_core::run::RunStatus;

use super::fault::{Fault, Site};
use super::host::{Host, Manner};
use super::life::Death;
use super::program::Program;

/// How often a run is started before it counts as one that never ends.
const MOST_LIVES: u32 = 60;

/// What came of a run, as far as faults must not change it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Outcome {
    pub result: Option<String>,
    /// The steps that each agent finished, in order.
    steps: BTreeMap<String, Vec<String>>,
    /// The workers of each agent, in order.
    workers: BTreeMap<String, Vec<String>>,
    /// What each agent left.
    results: BTreeMap<String, String>,
}

/// A run to its end.
pub struct Ran {
    pub outcome: Outcome,
    /// The points that it passed.
    pub sites: Vec<Site>,
    pub broken: Option<String>,
    pub log: Vec<String>,
}

/// Runs a program to its end, starting it again as often as it takes.
pub fn run(program: &Program, seed: u64, plan: &[Fault], manner: Manner) -> Ran {
    let mut host = Host::new(program, seed, plan, manner);
    while host.life < MOST_LIVES {
        match host.live() {
            Death::Exit(RunStatus::Completed) => break,
            Death::Broken => break,
            Death::Exit(status) => host.react(status),
            Death::Crashed | Death::Refused(_) => {}
        }
        host.go_down();
        if !host.monitor.broken.is_empty() {
            break;
        }
    }
    host.monitor.look();
    let is_completed = host.monitor.run.as_ref().is_some_and(|run| run.status == RunStatus::Completed);
    let lives = host.life;
    host.monitor.expect(is_completed, || format!("the run is not over after {lives} lives"));
    let outcome = outcome(&host);
    let (sites, log) =
        host.disk.tape(|tape| (std::mem::take(&mut tape.sites), tape.log.take().unwrap_or_default()));
    Ran { outcome, sites, broken: host.monitor.broken.first().cloned(), log }
}

fn outcome(host: &Host<'_>) -> Outcome {
    let mut outcome = Outcome::default();
    for event in &host.monitor.events {
        match &event.body {
            Body::StepFinished(finished) => {
                let to =
                    finished.next.as_ref().or(finished.target.as_ref()).map_or("", |state| state.as_str());
                let step = format!("{} {} {to}", finished.state, finished.tag);
                outcome.steps.entry(finished.agent.to_string()).or_default().push(step);
            }
            Body::AgentStarted(started) => {
                let parent = started.parent.as_ref().map_or(String::new(), ToString::to_string);
                let worker = format!("{} {} {:?}", started.agent, started.state, started.attributes);
                outcome.workers.entry(parent).or_default().push(worker);
            }
            Body::AgentFinished { agent, result } => {
                outcome.results.insert(agent.to_string(), host.monitor.text_of(result));
            }
            Body::RunFinished { result: Some(result), .. } => {
                outcome.result = Some(host.monitor.text_of(result));
            }
            _ => {}
        }
    }
    outcome
}

/// A program that went wrong, with the fewest faults that make it so.
pub struct Failure {
    pub seed: u64,
    pub plan: Vec<Fault>,
    pub why: String,
    pub log: Vec<String>,
}

/// Runs a program with faults and says how it differs from a run without.
pub fn check(program: &Program, expected: &Outcome, seed: u64, plan: &[Fault]) -> Result<Ran, Box<Failure>> {
    let ran = run(program, seed, plan, Manner::default());
    if trouble(&ran, expected).is_none() {
        return Ok(ran);
    }
    let mut smallest = plan.to_vec();
    let mut index = 0;
    while index < smallest.len() {
        let mut fewer = smallest.clone();
        fewer.remove(index);
        match trouble(&run(program, seed, &fewer, Manner::default()), expected) {
            Some(_) => smallest = fewer,
            None => index += 1,
        }
    }
    let ran = run(program, seed, &smallest, Manner { keeps_log: true, ..Manner::default() });
    let why = trouble(&ran, expected).unwrap_or_else(|| "it went well when tried again".to_owned());
    Err(Box::new(Failure { seed, plan: smallest, why, log: ran.log }))
}

fn trouble(ran: &Ran, expected: &Outcome) -> Option<String> {
    if let Some(broken) = &ran.broken {
        return Some(broken.clone());
    }
    (ran.outcome != *expected)
        .then(|| format!("another outcome: {:#?}\ninstead of: {expected:#?}", ran.outcome))
}

/// Everything that somebody needs who has to find the cause.
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
            .states
            .values()
            .map(|state| (state.file.as_str(), &state.text, &state.visits))
            .collect::<Vec<_>>(),
    )
}
