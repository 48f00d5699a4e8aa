//! An independent account of steps, agents, questions and money, separate from Raymond's own.

use std::collections::{BTreeMap, BTreeSet};

use raymond_core::event::{
    AskClosed, Body, Closed, Event, Interrupted, NextTry, Retry, StepFinished, StepStarted,
};
use raymond_core::evolve::evolve;
use raymond_core::money::Usd;
use raymond_core::name::AgentId;
use raymond_core::run::{Run, Status};
use raymond_core::tag::TagName;
use raymond_core::workflow::StateFile;

/// The state of the last attempt of a step.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Attempt {
    Running,
    /// Its program never reported its end. The flag says whether the journal has recorded that.
    Lost {
        is_noted: bool,
    },
    /// Another attempt follows.
    Again {
        session: Option<String>,
    },
    Over,
}

#[derive(Clone, Debug)]
struct Step {
    last: StepStarted,
    attempt: Attempt,
    /// The step as it was before its last attempt started.
    before: Option<Box<Step>>,
}

/// A workflow and a folder.
type Place = (Option<String>, String);

#[derive(Clone, Debug, Default)]
pub struct Account {
    steps: BTreeMap<u64, Step>,
    /// The last step of each agent.
    last_steps: BTreeMap<AgentId, u64>,
    /// Programs that have ended, with their cost and the estimate of it.
    pub programs: BTreeMap<(u64, u32), (Usd, Usd)>,
    /// Attempts whose cost is counted.
    paid: BTreeSet<(u64, u32)>,
    pub spent: Usd,
    agents: BTreeSet<AgentId>,
    ended_agents: BTreeSet<AgentId>,
    joined: BTreeSet<AgentId>,
    pub closed_asks: BTreeSet<String>,
    /// The place and conversation of each agent at each of its open calls, the last call last.
    calls: BTreeMap<AgentId, Vec<(Place, Option<String>)>>,
    /// The place in which each agent must start its next step.
    places: BTreeMap<AgentId, Place>,
    /// The conversation that each agent must continue with its next turn.
    conversations: BTreeMap<AgentId, String>,
    /// The state to which a person has sent an agent, until a step there has finished.
    sent_to: BTreeMap<AgentId, StateFile>,
    /// Agents that have failed and not started again.
    failed: BTreeSet<AgentId>,
    /// Those that a person has named to try again with the next resume.
    named: BTreeSet<AgentId>,
    /// Those that do nothing since that resume, because they were not named.
    held: BTreeSet<AgentId>,
    /// The first answer that was posted to each question.
    pub first_answers: BTreeMap<String, String>,
}

impl Account {
    pub fn is_running(&self, step: u64, attempt: u32) -> bool {
        self.steps
            .get(&step)
            .is_some_and(|step| step.last.attempt == attempt && step.attempt == Attempt::Running)
    }

    /// Adds an event, and returns what is wrong with it. `run` is the state before it.
    pub fn check(&mut self, run: Option<&Run>, event: &Event) -> Vec<String> {
        let mut wrong = Vec::new();
        match (&event.body, run) {
            (Body::AgentStarted(started), _) => {
                let is_new = self.agents.insert(started.agent.clone());
                let scope = started.workflow.as_ref().map(|workflow| workflow.scope.clone());
                self.places.insert(started.agent.clone(), (scope, started.cwd.clone()));
                wrong.extend((!is_new).then(|| format!("{} is started twice", started.agent)));
            }
            (Body::StepStarted(started), Some(run)) => self.started(run, started, &mut wrong),
            (Body::AgentFinished { agent, .. }, _) => {
                let is_new = self.ended_agents.insert(agent.clone());
                wrong.extend((!is_new).then(|| format!("{agent} ends twice")));
            }
            (Body::Joined { workers, .. }, _) => {
                for worker in workers {
                    if !self.joined.insert(worker.clone()) {
                        wrong.push(format!("{worker} is joined twice"));
                    }
                }
            }
            (Body::AskClosed(closed), _) => self.closed(closed, &mut wrong),
            (Body::AskOpened(opened), _) => self.acts(&opened.agent, &mut wrong),
            (Body::AgentRetried { agent, .. }, _) => {
                let has_failed = self.failed.contains(agent);
                wrong.extend((!has_failed).then(|| format!("{agent} tries again, but it has not failed")));
                self.named.insert(agent.clone());
            }
            (Body::AgentMoved { agent, target, .. }, _) => self.sent(agent, target, &mut wrong),
            (Body::RunStarted(started), _) if started.origin.is_some() => self.leave_behind(),
            (Body::RunResumed(resumed), _) => {
                for step in self.steps.values_mut().filter(|step| step.attempt == Attempt::Running) {
                    step.attempt = Attempt::Lost { is_noted: false };
                }
                self.interrupted(&resumed.interrupted, &mut wrong);
                let named = std::mem::take(&mut self.named);
                self.held = if named.is_empty() { BTreeSet::new() } else { &self.failed - &named };
            }
            (Body::RunStopped { interrupted, .. }, _) => self.interrupted(interrupted, &mut wrong),
            (body, Some(run)) => {
                if let Some(agent) = body.ended_attempt_of() {
                    self.ended(run, agent, body, &mut wrong);
                }
                match body {
                    Body::StepFinished(finished) => self.moved(finished),
                    Body::StepFailed(failed) => drop(self.failed.insert(failed.agent.clone())),
                    _ => {}
                }
            }
            _ => {}
        }
        wrong.into_iter().map(|what| format!("event {}: {what}", event.seq)).collect()
    }

    fn started(&mut self, run: &Run, started: &StepStarted, wrong: &mut Vec<String>) {
        let StepStarted { step, attempt, .. } = *started;
        self.acts(&started.agent, wrong);
        self.failed.remove(&started.agent);
        if let Some(target) = self.sent_to.get(&started.agent).filter(|target| **target != started.state) {
            wrong.push(format!("{} starts {} but was sent to {target}", started.agent, started.state));
        }
        let place = run.agents.get(&started.agent).map(|agent| (agent.scope.clone(), agent.cwd.clone()));
        if place.as_ref() != self.places.get(&started.agent) {
            let right = self.places.get(&started.agent);
            wrong.push(format!("step {step} starts in {place:?} instead of {right:?}"));
        }
        if run.halt.is_some() {
            wrong.push(format!("step {step} starts in a halted run"));
        }
        let budget = run.options.budget_usd;
        if !budget.is_zero() && run.cost_usd > budget {
            wrong.push(format!("step {step} starts over budget"));
        }
        if attempt == 1 && run.options.max_steps.is_some_and(|most| step > most) {
            wrong.push(format!("step {step} starts over the limit of steps"));
        }
        let prompts = run.running_agents().filter(|id| run.agents[*id].state.kind().is_prompt()).count();
        if started.turn.is_some() && prompts >= run.options.max_parallel {
            wrong.push(format!("step {step} starts beside {prompts} other prompts"));
        }
        if let Some(before) = self.last_steps.insert(started.agent.clone(), step)
            && before != step
            && self.steps.get(&before).is_some_and(|before| before.attempt != Attempt::Over)
        {
            wrong.push(format!("step {step} starts, but {} has not finished step {before}", started.agent));
        }
        match self.steps.get(&step) {
            None if attempt == 1 => self.continues(started, wrong),
            None => wrong.push(format!("step {step} starts with attempt {attempt}")),
            Some(before) => again(before, started, wrong),
        }
        let before = self.steps.remove(&step).map(Box::new);
        self.steps.insert(step, Step { last: started.clone(), attempt: Attempt::Running, before });
    }

    /// The account of the events up to a point, to which a run goes back. What has ended there has cost what it cost.
    pub fn at(&self, events: &[Event]) -> Self {
        let mut account = Self {
            programs: self.programs.clone(),
            first_answers: self.first_answers.clone(),
            ..Self::default()
        };
        let mut run = None;
        for event in events {
            // It was checked when it came.
            account.check(run.as_ref(), event);
            run = evolve(run, event);
        }
        let Self { programs, paid, steps, .. } = &mut account;
        programs.retain(|(step, attempt), _| {
            let is_kept = |kept: &Step| kept.attempt != Attempt::Running && kept.last.attempt == *attempt;
            paid.contains(&(*step, *attempt)) || steps.get(step).is_some_and(is_kept)
        });
        account.first_answers.retain(|ask, _| account.closed_asks.contains(ask));
        account
    }

    /// What runs at the point from which a run goes on belongs to what it leaves behind.
    fn leave_behind(&mut self) {
        let running = |step: &Step| step.attempt == Attempt::Running;
        let left: Vec<u64> =
            self.steps.iter().filter(|(_, step)| running(step)).map(|(number, _)| *number).collect();
        for number in left {
            let Some(step) = self.steps.remove(&number) else { continue };
            match step.before {
                Some(before) => drop(self.steps.insert(number, *before)),
                None => drop(self.last_steps.remove(&step.last.agent)),
            }
        }
    }

    /// The first turn of a step continues the conversation of the last one, and nothing that came later.
    fn continues(&self, started: &StepStarted, wrong: &mut Vec<String>) {
        let known = self.conversations.get(&started.agent).map(String::as_str);
        let from = branch_of(started);
        if started.turn.is_some() && from != known {
            wrong.push(format!("step {} continues from {from:?} instead of {known:?}", started.step));
        }
    }

    /// Only an agent that may try again does something.
    fn acts(&self, agent: &AgentId, wrong: &mut Vec<String>) {
        if self.held.contains(agent) {
            wrong.push(format!("{agent} goes on, but only others were to try again"));
        }
    }

    /// A person sends an agent elsewhere: what it was about to do is left undone.
    fn sent(&mut self, agent: &AgentId, target: &StateFile, wrong: &mut Vec<String>) {
        self.sent_to.insert(agent.clone(), target.clone());
        self.failed.remove(agent);
        self.held.remove(agent);
        let last = self.last_steps.get(agent).and_then(|step| self.steps.get_mut(step));
        let Some(step) = last else { return };
        if matches!(step.attempt, Attempt::Running | Attempt::Lost { is_noted: false }) {
            wrong.push(format!("{agent} is sent to {target} while it is {:?}", step.attempt));
        }
        step.attempt = Attempt::Over;
    }

    /// A step says where its agent goes next; a return goes back to the place and the conversation of the call.
    fn moved(&mut self, finished: &StepFinished) {
        let agent = &finished.agent;
        self.sent_to.remove(agent);
        let Some(place) = self.places.get_mut(agent) else { return };
        let calls = self.calls.entry(agent.clone()).or_default();
        let mut conversation = self.conversations.remove(agent);
        if let Some(session) = &finished.session {
            conversation = Some(session.id.clone());
        }
        let led_to = finished.led_to.parts();
        match led_to.tag {
            TagName::Call | TagName::Function | TagName::CallWorkflow | TagName::FunctionWorkflow => {
                calls.push((place.clone(), conversation.clone()));
            }
            TagName::ResetWorkflow => calls.clear(),
            TagName::Result => {
                if let Some(call) = calls.pop() {
                    (*place, conversation) = call;
                }
            }
            _ => {}
        }
        if !is_fresh_after(led_to.tag)
            && let Some(conversation) = conversation
        {
            self.conversations.insert(agent.clone(), conversation);
        }
        if let Some(cwd) = led_to.cwd {
            place.1 = cwd.to_owned();
        }
        if let Some(workflow) = led_to.workflow {
            place.0 = Some(workflow.scope.clone());
        }
    }

    /// The end of an attempt is recorded once, after its program has ended, with the program's cost.
    fn ended(&mut self, run: &Run, agent: &AgentId, body: &Body, wrong: &mut Vec<String>) {
        let Some(Status::Running { work, .. }) = run.agents.get(agent).map(|agent| &agent.status) else {
            if !matches!(body, Body::StepFailed(failed) if failed.step.is_none()) {
                wrong.push(format!("the end of a step of {agent}, which runs none"));
            }
            return;
        };
        let attempt = (work.step, work.attempt);
        match self.programs.get(&attempt) {
            None => wrong.push(format!("the end of {attempt:?} is recorded, but its program still runs")),
            Some((cost, _)) if *cost != body.cost() => {
                wrong.push(format!("{attempt:?} cost {cost}, but {} is recorded", body.cost()));
            }
            Some(_) => {}
        }
        if !self.paid.insert(attempt) {
            wrong.push(format!("{attempt:?} is counted twice in the cost"));
        }
        self.spent += body.cost();
        let Some(step) = self.steps.get_mut(&work.step) else {
            wrong.push(format!("step {} ends but never started", work.step));
            return;
        };
        if step.attempt != Attempt::Running {
            wrong.push(format!("{attempt:?} ends, but it is {:?}", step.attempt));
        }
        step.attempt = match body {
            Body::Reminder(reminder) => Attempt::Again { session: Some(reminder.session.id.clone()) },
            Body::Retry(Retry { next_try: NextTry::GoOn(session), .. }) => {
                Attempt::Again { session: Some(session.id.clone()) }
            }
            Body::Retry(Retry { next_try: NextTry::AfterLoss, .. }) => Attempt::Lost { is_noted: true },
            Body::Retry(_) | Body::LimitWaiting(_) => {
                Attempt::Again { session: branch_of(&step.last).map(str::to_owned) }
            }
            _ => Attempt::Over,
        };
    }

    /// Lost attempts are recorded, and their estimated cost is counted once.
    fn interrupted(&mut self, interrupted: &[Interrupted], wrong: &mut Vec<String>) {
        for lost in interrupted {
            let Some(step) = self.steps.get_mut(&lost.step) else {
                wrong.push(format!("step {} was interrupted but never started", lost.step));
                continue;
            };
            if !matches!(step.attempt, Attempt::Running | Attempt::Lost { .. }) {
                wrong.push(format!("step {} was interrupted, but it is {:?}", lost.step, step.attempt));
            }
            step.attempt = Attempt::Lost { is_noted: true };
            let attempt = (lost.step, step.last.attempt);
            let cost = lost.estimated_cost_usd;
            if cost.is_zero() {
                continue;
            }
            if self.programs.get(&attempt).is_none_or(|(_, estimate)| *estimate != cost) {
                wrong.push(format!("{attempt:?} was lost, and {cost} is not its estimated cost"));
            }
            if !self.paid.insert(attempt) {
                wrong.push(format!("{attempt:?} was lost and is counted twice in the cost"));
            }
            self.spent += cost;
        }
    }

    /// A question is closed once, by the first answer that was posted.
    fn closed(&mut self, closed: &AskClosed, wrong: &mut Vec<String>) {
        if !self.closed_asks.insert(closed.ask.clone()) {
            wrong.push(format!("{} is closed twice", closed.ask));
        }
        let first = self.first_answers.get(&closed.ask);
        if let Closed::Answered { answer_id, .. } = &closed.how
            && answer_id.as_ref() != first
        {
            wrong.push(format!("{} took {answer_id:?}, the first was {first:?}", closed.ask));
        }
    }
}

/// Whether an agent begins a new conversation after a step that ended with this tag.
fn is_fresh_after(tag: TagName) -> bool {
    use TagName::{Function, FunctionWorkflow, Reset, ResetWorkflow};
    matches!(tag, Reset | Function | ResetWorkflow | FunctionWorkflow)
}

/// A step continues with its next attempt, from the conversation that the end of the last attempt left.
fn again(before: &Step, started: &StepStarted, wrong: &mut Vec<String>) {
    let step = started.step;
    let last = &before.last;
    if started.attempt != last.attempt + 1 || started.agent != last.agent || started.state != last.state {
        wrong.push(format!("step {step} continues as {started:?} after {last:?}"));
    }
    let branch = match &before.attempt {
        Attempt::Running => return wrong.push(format!("step {step} starts again while it runs")),
        Attempt::Over => return wrong.push(format!("step {step} starts again after its end")),
        Attempt::Lost { is_noted: false } => {
            return wrong.push(format!("step {step} was lost, but the journal does not record it"));
        }
        Attempt::Lost { .. } => {
            let number = |started: &StepStarted| started.turn.as_ref().map(|turn| turn.number);
            if number(started) != number(last) {
                wrong.push(format!("step {step} is repeated as another turn"));
            }
            branch_of(last)
        }
        Attempt::Again { session } => session.as_deref(),
    };
    let from = branch_of(started);
    if from != branch {
        wrong.push(format!("step {step} continues from {from:?} instead of {branch:?}"));
    }
}

fn branch_of(started: &StepStarted) -> Option<&str> {
    started.turn.as_ref().and_then(|turn| turn.branch_of.as_deref())
}
