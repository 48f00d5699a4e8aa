//! Plays a program on the real core with random faults, and checks the whole journal afterwards.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use jiff::{SignedDuration, Timestamp};
use proptest::collection::vec;
use proptest::prelude::*;
use raymond_core::event::{Body, Event, NextTry, StepFailed};
use raymond_core::evolve::{apply, evolve};
use raymond_core::input::{Answer, FaultClass, Input, StepOutcome};
use raymond_core::join;
use raymond_core::money::Usd;
use raymond_core::name::AgentId;
use raymond_core::payload::Payload;
use raymond_core::run::{Agent, Ask, Mode, Options, Run, RunStatus, Status};
use serde_json::Value;

use crate::program::{LAST, Life, NAMES, Op, Seen, Worker, joined};
use crate::rig::{Rig, exited, fold, load, reading, success, through_json};

/// High enough that some runs exceed their budget.
const TURN_COST: f64 = 0.75;

/// A policy that permits any tag, so that only messages without a tag cause reminders.
const EVERYTHING: &str = "allowed_transitions: [ { tag: goto }, { tag: reset }, { tag: call }, { tag: function }, \
                          { tag: fork }, { tag: join }, { tag: ask }, { tag: result } ]";

/// More than any of these programs needs.
const MOST_MOVES: usize = 10_000;

/// What happens next to a running script, or to Raymond.
#[derive(Clone, Copy, Debug)]
pub enum Move {
    Succeed,
    Fail,
    /// Raymond is killed, and resumed.
    Crash,
    /// Nothing new starts.
    Stop,
    /// Running steps are interrupted.
    StopNow,
    /// A new segment of the journal begins, and the run is read back from its snapshot.
    Snapshot,
    /// A report from another attempt arrives.
    Stale,
    /// The machine of a step is lost; it is said twice, and then the step reports after all.
    Lose,
    /// Two scripts end in the same round.
    Both,
    /// A question is answered, or not.
    Answer,
    /// From now on the run waits for answers, or no longer does.
    TurnMode,
}

/// Moves, each with a number that picks the agent.
pub fn moves() -> impl Strategy<Value = Vec<(usize, Move)>> {
    let one = prop_oneof![
        12 => Just(Move::Succeed),
        3 => Just(Move::Fail),
        1 => Just(Move::Crash),
        1 => Just(Move::Stop),
        1 => Just(Move::StopNow),
        1 => Just(Move::Snapshot),
        2 => Just(Move::Stale),
        2 => Just(Move::Lose),
        2 => Just(Move::Both),
        2 => Just(Move::Answer),
        1 => Just(Move::TurnMode),
    ];
    vec((any::<usize>(), one), 0..60)
}

/// The part of each agent and its progress, derived only from the journal.
#[derive(Clone, Debug, Default)]
struct Cast<'p> {
    roles: BTreeMap<AgentId, (&'p Worker, usize)>,
    /// The workers that are about to be started, by parent.
    expected: BTreeMap<AgentId, VecDeque<&'p Worker>>,
}

impl<'p> Cast<'p> {
    fn follow(&mut self, main: &'p Worker, event: &Event) {
        match &event.body {
            Body::AgentStarted(started) => {
                let role = match started.parent() {
                    None => main,
                    Some(parent) => self.expected.get_mut(parent).unwrap().pop_front().unwrap(),
                };
                self.roles.insert(started.agent.clone(), (role, 0));
            }
            Body::StepFinished(finished) => {
                if let Op::Fork { workers, .. } = self.op(&finished.agent) {
                    self.expected.insert(finished.agent.clone(), workers.iter().collect());
                }
                self.roles.get_mut(&finished.agent).unwrap().1 += 1;
            }
            _ => {}
        }
    }

    /// The answer to the question that an agent has asked, if there is one.
    fn answer(&self, agent: &AgentId) -> Option<u8> {
        let (worker, at) = self.roles[agent];
        match worker.program.get(at.checked_sub(1)?) {
            Some(Op::Ask { answer, .. }) => *answer,
            _ => None,
        }
    }

    fn op(&self, agent: &AgentId) -> &'p Op {
        let (worker, at) = self.roles[agent];
        worker.program.get(at).unwrap_or(&LAST)
    }
}

#[derive(Clone, Debug)]
pub struct Play<'p> {
    pub rig: Rig,
    main: &'p Worker,
    cast: Cast<'p>,
    /// The run read back from the journal, batch by batch.
    folded: Run,
    seen: usize,
}

impl<'p> Play<'p> {
    pub fn new(main: &'p Worker) -> Self {
        let options = Options { budget_usd: Usd::from_dollars(2.0), ..Options::default() };
        let rig = Rig::with(NAMES[main.start.to], options);
        let mut play = Self::go_on(main, rig);
        play.rig.round([]);
        play.look();
        play
    }

    /// Continues a run from a journal.
    pub fn go_on(main: &'p Worker, rig: Rig) -> Self {
        // Some scripts fail and are retried, some fail the run, some only their agent. But the failure of a worker
        // would become part of a join's result.
        let fatal = if main.joins() { "run" } else { "agent" };
        let rig = rig
            .header("A", &format!("retry=1 backoff=1s fatal={fatal}"))
            .header("B", &format!("fatal={fatal}"))
            .header("WORKER", "retry=2 backoff=0")
            .prompt("P", EVERYTHING)
            .prompt("Q", "model: x");
        let mut cast = Cast::default();
        rig.journal.iter().for_each(|event| cast.follow(main, event));
        Self { folded: rig.run.clone(), seen: rig.journal.len(), rig, main, cast }
    }

    /// Reads the events of the last round; reading them back must give the same run.
    fn look(&mut self) {
        for event in through_json(&self.rig.journal[self.seen..]) {
            self.cast.follow(self.main, &event);
            apply(&mut self.folded, &event);
        }
        self.seen = self.rig.journal.len();
        assert_eq!(self.folded, self.rig.run);
    }

    /// Plays until the run is completed; without further faults it must complete.
    pub fn play_out(&mut self, moves: &[(usize, Move)]) {
        let moves = moves.iter().copied().chain(std::iter::repeat((0, Move::Succeed)));
        for (pick, next) in moves.take(MOST_MOVES) {
            if self.is_over() {
                return;
            }
            self.step(pick, next);
        }
        panic!("the run does not end: {:#?}", self.rig.run);
    }

    pub fn is_over(&self) -> bool {
        self.rig.run.status == RunStatus::Completed
    }

    /// Waits until something runs, then makes a move.
    pub fn step(&mut self, pick: usize, next: Move) {
        let mut waits = 0;
        while self.rig.running().is_empty() && !self.is_over() {
            waits += 1;
            assert!(waits < MOST_MOVES, "nothing ever runs: {:#?}", self.rig.run);
            match self.rig.run.status {
                RunStatus::Running => match self.answer(pick) {
                    Some(answer) => drop(self.rig.round([answer])),
                    None => self.wait(),
                },
                RunStatus::Waiting => {
                    let answer = self.answer(pick);
                    if answer.is_none() {
                        self.rig.now =
                            self.rig.run.next_wake(self.rig.now).unwrap_or(self.rig.now).max(self.rig.now);
                    }
                    self.rig.resume_and(answer);
                }
                RunStatus::OverBudget => {
                    let options = self.rig.budget(self.rig.run.cost_usd.dollars() + 1.0);
                    self.rig.resume_with(options);
                }
                _ => drop(self.rig.resume()),
            }
            self.look();
        }
        if !self.is_over() {
            self.make(next, &self.rig.running(), pick);
            self.look();
        }
    }

    fn wait(&mut self) {
        let next = self.rig.run.next_wake(self.rig.now).expect("something runs or is waited for");
        self.rig.now = next.max(self.rig.now);
        self.rig.round([]);
    }

    fn success(&self, agent: &str) -> Input {
        let op = self.cast.op(&AgentId::new(agent));
        if self.is_prompt(agent) {
            return self.rig.turn(agent, TURN_COST, &op.written());
        }
        self.rig.report(agent, success(reading(&op.written())))
    }

    fn is_prompt(&self, agent: &str) -> bool {
        self.rig.agent(agent).state.kind().is_prompt()
    }

    /// A turn fails in one of several ways; if workers are joined, only in ways that do not fail the step.
    fn trouble(&self, agent: &str, pick: usize) -> Input {
        let classes = [
            FaultClass::ShareUsed,
            FaultClass::Limit { until: None },
            FaultClass::Limit { until: Some(self.rig.now + SignedDuration::from_secs(7)) },
            FaultClass::Retry,
            FaultClass::Final,
        ];
        let work = self.rig.work(agent);
        let may_fail = !self.main.joins();
        let may_retry = may_fail || work.retries < 3;
        let may_be_reminded = self.rig.agent(agent).state.name() == "P" && work.reminders < 3;
        if pick % 7 == 6 && (may_fail || may_be_reminded) {
            return self.rig.turn(agent, TURN_COST, "no tag at all");
        }
        let choices = if may_fail { 5 } else { 3 + usize::from(may_retry) };
        self.rig.broken(agent, TURN_COST, classes[pick % choices])
    }

    /// Answers one of the questions that have an answer.
    fn answer(&self, pick: usize) -> Option<Input> {
        let asks = self.rig.run.asks();
        let answer = |(agent, ask): &(&Agent, &Ask)| Some((ask.id.clone(), self.cast.answer(&agent.id)?));
        let mut answers: Vec<_> = asks.iter().filter_map(answer).collect();
        if answers.is_empty() {
            return None;
        }
        let (ask, answer) = answers.swap_remove(pick % answers.len());
        Some(Input::Answer(Answer { ask, text: answer.to_string().into(), ..Answer::default() }))
    }

    fn make(&mut self, next: Move, running: &[String], pick: usize) {
        let agent = running[pick % running.len()].as_str();
        match next {
            Move::Succeed => {
                let input = self.success(agent);
                self.rig.round([input]);
            }
            Move::Fail if self.is_prompt(agent) => {
                let input = self.trouble(agent, pick);
                self.rig.round([input]);
            }
            Move::Fail => {
                self.rig.exits(agent, 1);
            }
            Move::Answer => {
                let inputs = self.answer(pick);
                self.rig.round(inputs);
            }
            Move::TurnMode => {
                self.rig.mode.waits_for_answers = !self.rig.mode.waits_for_answers;
            }
            Move::Both => {
                let other = running.iter().find(|other| *other != agent);
                let inputs: Vec<Input> = [Some(agent), other.map(String::as_str)]
                    .into_iter()
                    .flatten()
                    .map(|agent| self.success(agent))
                    .collect();
                self.rig.round(inputs);
            }
            Move::Crash => {
                self.rig.die();
                self.rig.resume();
            }
            Move::Stop => {
                self.rig.drain();
            }
            Move::StopNow => {
                self.rig.drain();
                let inputs: Vec<Input> = running.iter().map(|agent| self.rig.interrupted(agent)).collect();
                self.rig.round(inputs);
            }
            Move::Snapshot => self.rig.run = through_snapshot(&self.rig.run),
            Move::Stale => self.report_late(agent, pick),
            Move::Lose => self.lose(agent),
        }
    }

    fn report_late(&mut self, agent: &str, pick: usize) {
        let outcome = if pick.is_multiple_of(2) { exited(1) } else { success(reading("<goto>B</goto>")) };
        let mut ended = match self.success(agent) {
            Input::Ended(ended) if self.is_prompt(agent) => *ended,
            _ => self.rig.ended(agent, StepOutcome::Script(outcome)),
        };
        match pick % 3 {
            0 => ended.attempt += 1,
            1 => ended.attempt -= 1,
            _ => ended.step += 1,
        }
        let events = self.rig.round([Input::Ended(Box::new(ended))]);
        assert_eq!(events, []);
    }

    fn lose(&mut self, agent: &str) {
        let cost = if self.is_prompt(agent) { TURN_COST } else { 0.0 };
        let (lost, again, late) =
            (self.rig.lost(agent, cost), self.rig.lost(agent, cost), self.success(agent));
        let mut only_lost = self.rig.clone();
        let expected = only_lost.round([self.rig.lost(agent, cost)]);
        assert_eq!(self.rig.round([lost, again, late]), expected);
    }
}

/// The run, written to a snapshot and read back.
pub fn through_snapshot(run: &Run) -> Run {
    let event = Event {
        seq: run.seq,
        time: run.started_at,
        run: run.id.clone(),
        body: Body::Snapshot { state: Box::new(run.clone()) },
    };
    let read = through_json(&[event]);
    evolve(None, &read[0]).unwrap()
}

/// No query of a run panics.
pub fn ask_everything(run: &Run) {
    for (draining, waits_for_answers) in [(false, false), (true, false), (false, true), (true, true)] {
        for now in [run.started_at, run.last_time, Timestamp::MAX] {
            let _ = run.next_due(now, Mode { draining, waits_for_answers, interrupted: 0 });
        }
    }
    let _ = (run.next_wake(jiff::Timestamp::UNIX_EPOCH), run.interrupted(), run.asks(), run.budget_share());
    for agent in run.agents.keys() {
        let _ = join::results(run, agent, load);
    }
}

/// What each agent saw and did, according to the journal.
pub fn told(journal: &[Event]) -> Life {
    let mut lives: BTreeMap<AgentId, Life> = BTreeMap::new();
    let mut births = Vec::new();
    let mut run: Option<Run> = None;
    let mut conversations: BTreeMap<String, usize> = BTreeMap::new();
    for event in journal {
        match &event.body {
            Body::AgentStarted(started) => {
                lives.insert(started.agent.clone(), Life::default());
                births.push((started.parent().cloned(), started.agent.clone()));
            }
            Body::StepFinished(finished) => {
                let agent = &run.as_ref().unwrap().agents[&finished.agent];
                assert!(matches!(agent.status, Status::Running { .. }), "{agent:?}");
                let life = lives.get_mut(&finished.agent).unwrap();
                let conversation = agent.session.as_ref().map(|session| conversations[&session.id]);
                if let Some(session) = &finished.session {
                    assert_eq!(conversations.insert(session.id.clone(), life.seen.len()), None);
                }
                life.seen.push(seen(agent, conversation));
            }
            Body::AgentFinished { agent, result, .. } => {
                lives.get_mut(agent).unwrap().result = text(Some(result));
            }
            _ => {}
        }
        run = evolve(run, event);
    }
    // The youngest agents come first; all their workers have been added already.
    for (parent, agent) in births.into_iter().rev() {
        let life = lives.remove(&agent).unwrap();
        match parent {
            None => return life,
            Some(parent) => lives.get_mut(&parent).unwrap().workers.insert(0, life),
        }
    }
    panic!("there is no first agent");
}

fn seen(agent: &Agent, conversation: Option<usize>) -> Seen {
    Seen {
        state: agent.state.to_string(),
        input: text(agent.payload.as_ref()).map(told_by_join),
        returns: agent.stack.iter().map(|frame| frame.return_to.to_string()).collect(),
        cwd: agent.cwd.clone(),
        visits: agent.visits_here(),
        item: agent.attributes.get("item").cloned(),
        conversation,
    }
}

/// The result of a join in the format of the model; other text is unchanged.
fn told_by_join(text: String) -> String {
    let Ok(Value::Array(workers)) = serde_json::from_str(&text) else { return text };
    let word = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    workers
        .iter()
        .map(|worker| {
            let [state, status, result] = ["state", "status", "result"].map(|key| word(&worker[key]));
            joined(&state, &word(&worker["attributes"]["item"]), &status, &result)
        })
        .collect()
}

fn text(payload: Option<&Payload>) -> Option<String> {
    match payload? {
        Payload::Inline(text) => Some(text.clone()),
        Payload::Stored { .. } => panic!("payloads are short here"),
    }
}

/// Checks that hold for every journal.
pub fn check_journal(journal: &[Event]) {
    for (event, seq) in journal.iter().zip(1..) {
        assert_eq!(event.seq, seq);
    }
    check_steps(journal);
    check_names(journal);
    check_money(journal);
    check_asks(journal);
    check_sessions(journal);
    let run = fold(journal).unwrap();
    let finished = journal.iter().filter(|event| matches!(event.body, Body::StepFinished(_)));
    assert_eq!(run.steps_completed, finished.count() as u64);
}

/// Steps are numbered as they start, attempts increase by one, and a step that has ended never starts again.
fn check_steps(journal: &[Event]) {
    let mut attempts: BTreeMap<u64, u32> = BTreeMap::new();
    let mut over = BTreeSet::new();
    let mut running: BTreeMap<AgentId, u64> = BTreeMap::new();
    for event in journal {
        match &event.body {
            Body::StepStarted(started) => {
                let next = attempts.len() as u64 + 1;
                let attempt = attempts.entry(started.step).or_default();
                *attempt += 1;
                assert_eq!(started.attempt, *attempt);
                assert!(started.step <= next);
                assert!(!over.contains(&started.step), "{started:?}");
                assert_eq!(running.insert(started.agent.clone(), started.step), None);
            }
            Body::StepFinished(finished) => {
                assert_eq!(running.remove(&finished.agent), Some(finished.step));
                assert!(over.insert(finished.step));
            }
            Body::StepFailed(failed) => {
                assert_eq!(running.remove(&failed.agent), failed.step);
                over.extend(failed.step);
            }
            Body::Retry(retry) => assert_eq!(running.remove(&retry.agent), Some(retry.step)),
            Body::Reminder(reminder) => {
                assert_eq!(running.remove(&reminder.agent), Some(reminder.step));
            }
            Body::LimitWaiting(limit) => assert_eq!(running.remove(&limit.agent), Some(limit.step)),
            Body::RunResumed(resumed) => {
                let interrupted: BTreeSet<u64> = resumed.interrupted.iter().map(|step| step.step).collect();
                assert!(running.values().all(|step| interrupted.contains(step)));
                running.clear();
            }
            Body::RunStopped { interrupted, .. } => {
                for step in interrupted {
                    running.remove(&step.agent);
                }
                assert_eq!(running, BTreeMap::new());
            }
            _ => {}
        }
    }
}

/// The cost of a step is the sum of its attempts, the cost of the run is the sum of its steps, and `budget_exceeded` is
/// recorded once.
fn check_money(journal: &[Event]) {
    let mut steps: BTreeMap<u64, Usd> = BTreeMap::new();
    let mut total = Usd::ZERO;
    let mut is_exceeded = false;
    for event in journal {
        total += event.body.cost();
        match &event.body {
            Body::Retry(retry) => *steps.entry(retry.step).or_default() += retry.attempt_cost_usd,
            Body::Reminder(reminder) => {
                *steps.entry(reminder.step).or_default() += reminder.attempt_cost_usd;
            }
            Body::LimitWaiting(limit) => *steps.entry(limit.step).or_default() += limit.attempt_cost_usd,
            Body::StepFinished(finished) => {
                let before = steps.remove(&finished.step).unwrap_or_default();
                assert_eq!(finished.cost_usd, before + finished.attempt_cost_usd);
            }
            Body::StepFailed(StepFailed { step: Some(step), cost_usd, attempt_cost_usd, .. }) => {
                let before = steps.remove(step).unwrap_or_default();
                assert_eq!(*cost_usd, before + *attempt_cost_usd);
            }
            Body::BudgetExceeded { cost_usd, budget_usd } => {
                assert!(!is_exceeded, "recorded twice");
                assert_eq!(*cost_usd, total);
                assert!(cost_usd > budget_usd);
                is_exceeded = true;
            }
            Body::StepStarted(_) => assert!(!is_exceeded, "nothing starts over budget"),
            Body::RunResumed(_) => is_exceeded = false,
            Body::RunStopped { totals, .. } | Body::RunFinished { totals, .. } => {
                assert_eq!(totals.cost_usd, total);
            }
            _ => {}
        }
    }
}

/// Every question is closed once.
fn check_asks(journal: &[Event]) {
    let mut open = BTreeSet::new();
    let mut ever = BTreeSet::new();
    for event in journal {
        match &event.body {
            Body::AskOpened(opened) => {
                assert!(ever.insert(opened.ask.clone()));
                open.insert(opened.ask.clone());
            }
            Body::AskClosed(closed) => assert!(open.remove(&closed.ask)),
            Body::RunStopped { asks, .. } => {
                let listed: BTreeSet<String> = asks.iter().map(|ask| ask.ask.clone()).collect();
                assert_eq!(listed, open);
            }
            Body::RunFinished { .. } => assert!(open.is_empty()),
            _ => {}
        }
    }
}

/// No session is chosen twice, and an attempt continues only a turn that was completed or stopped at its share.
fn check_sessions(journal: &[Event]) {
    let mut chosen = BTreeSet::new();
    let mut kept = BTreeSet::new();
    for event in journal {
        match &event.body {
            Body::StepStarted(started) => {
                assert_eq!(started.turn.is_some(), started.state.kind().is_prompt());
                let Some(turn) = &started.turn else { continue };
                assert!(chosen.insert(turn.session.clone()));
                assert!(turn.branch_of.iter().all(|session| kept.contains(session)), "{turn:?}");
            }
            Body::StepFinished(finished) => kept.extend(finished.session.iter().map(|s| s.id.clone())),
            Body::Reminder(reminder) => drop(kept.insert(reminder.session.id.clone())),
            Body::Retry(retry) => {
                if let NextTry::GoOn(session) = &retry.next_try {
                    kept.insert(session.id.clone());
                }
            }
            _ => {}
        }
    }
}

/// The number in a worker's name is the parent's count of forks, increased until the name was never used before.
fn check_names(journal: &[Event]) {
    let mut used = BTreeSet::new();
    let mut forks: BTreeMap<&AgentId, u64> = BTreeMap::new();
    for event in journal {
        let Body::AgentStarted(started) = &event.body else {
            continue;
        };
        if let Some(parent) = started.parent() {
            let count = forks.entry(parent).or_default();
            *count += 1;
            let part: String = started.state.name().to_lowercase().chars().take(6).collect();
            let name =
                (*count..).map(|number| format!("{parent}_{part}{number}")).find(|name| !used.contains(name));
            assert_eq!(Some(started.agent.to_string()), name);
        }
        assert!(used.insert(started.agent.to_string()));
    }
}
