//! Makes a course from the journal of a real run: the end of each attempt is turned back into what its program did.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::Path;
use std::time::Duration;

use jiff::Timestamp;
use raymond::run::lookups;
use raymond::workflow::scope::Scope;
use raymond::workflow::scopes::entry_into;
use raymond_core::event::{
    AgentStarted, AskOpened, Body, Closed, Event, LedTo, NextTry, StepFailed, StepFinished,
};
use raymond_core::evolve::evolve;
use raymond_core::input::{FaultClass, Plan};
use raymond_core::name::AgentId;
use raymond_core::payload::Payload;
use raymond_core::run::{Agent, Run, RunStatus};
use raymond_core::tag::{TagCollector, TagName};
use raymond_core::transition::{self, Transition};
use raymond_core::variable::Rules;
use raymond_core::workflow::Platform;

use crate::check::Outcome;
use crate::course::{Course, Part, Visit, add};
use crate::host::NONCE;
use crate::library::RealStates;
use crate::program::{Act, Does};

/// Why a run cannot be replayed.
pub type Unplayable = String;

/// Reads a run after each of its processes, while its files are still as that process read them.
pub struct Recorder {
    run: Option<Run>,
    /// Everything so far.
    events: Vec<Event>,
    course: Option<Course>,
    /// Attempts that have not ended.
    open: BTreeMap<AgentId, (Visit, Timestamp)>,
    /// What was printed since an attempt started.
    prints: BTreeMap<AgentId, String>,
    began: Timestamp,
}

/// How the texts and the states of a run are read.
pub struct Means<'a> {
    pub text_of: &'a dyn Fn(&Payload) -> String,
    pub states: &'a RealStates,
}

impl Default for Recorder {
    fn default() -> Self {
        Self {
            run: None,
            events: Vec::new(),
            course: None,
            open: BTreeMap::new(),
            prints: BTreeMap::new(),
            began: Timestamp::UNIX_EPOCH,
        }
    }
}

impl Recorder {
    pub fn seen(&self) -> usize {
        self.events.len()
    }

    /// Adds the events of one process to the recording.
    pub fn take(&mut self, events: &[Event], means: &mut Means<'_>) -> Result<(), Unplayable> {
        for (index, event) in events.iter().enumerate() {
            self.one(event, &events[index + 1..], means)?;
            self.run = evolve(self.run.take(), event);
            self.events.push(event.clone());
        }
        Ok(())
    }

    pub fn finish(mut self, text_of: &dyn Fn(&Payload) -> String) -> Result<Course, Unplayable> {
        let mut course = self.course.take().ok_or("its journal has no start")?;
        let is_over = self.events.last().is_some_and(|event| event.body.is_last());
        if !is_over {
            return Err("its journal has no end".to_owned());
        }
        course.outcome = Outcome::of(&self.events, text_of, true);
        let agents = self.run.as_ref().map_or(0, |run| run.agents_started);
        let halts =
            course.parts.iter().any(|part| !matches!(part.end, RunStatus::Completed | RunStatus::Waiting));
        course.depends_on_order = agents > 1 && halts;
        Ok(course)
    }

    fn one(&mut self, event: &Event, following: &[Event], means: &mut Means<'_>) -> Result<(), Unplayable> {
        match &event.body {
            Body::RunStarted(started) if started.origin.is_some() => {
                return Err("its history begins in another run, or it was rewound".to_owned());
            }
            Body::AgentRetried { .. } | Body::AgentMoved { .. } => {
                return Err("a person moves its agents".to_owned());
            }
            Body::RunStarted(started) => {
                let mut started = (**started).clone();
                started.nonce = NONCE.to_owned();
                self.began = event.time;
                let part = Part::new(started.options.clone(), 0);
                self.course = Some(Course {
                    began: event.time,
                    started,
                    input: None,
                    parts: vec![part],
                    entered: BTreeMap::new(),
                    outcome: Outcome::default(),
                    depends_on_order: false,
                });
            }
            Body::AgentStarted(started) if started.forked.is_none() => {
                self.course()?.input = started.input.as_ref().map(means.text_of);
            }
            Body::RunResumed(resumed) => {
                let begin = millis(self.began, event.time);
                let part = Part::new(resumed.options.clone(), begin);
                self.course()?.parts.push(part);
                self.open.clear();
            }
            Body::StepStarted(started) => {
                let agent = self.agent(&started.agent)?.clone();
                self.note_state(&agent, Some(&started.hash), means)?;
                let visit = (agent.id.clone(), agent.place(), started.visits);
                self.open.insert(agent.id, (visit, event.time));
            }
            Body::Print { agent, text, .. } => {
                let text = (means.text_of)(text);
                let prints = self.prints.entry(agent.clone()).or_default();
                let _ = write!(prints, "<print>{text}</print>");
            }
            Body::StepFailed(failed) if failed.step.is_none() => {
                let agent = self.agent(&failed.agent)?.clone();
                self.note_state(&agent, None, means)?;
            }
            Body::AskClosed(closed) => {
                if let Closed::Answered { answer, .. } = &closed.how {
                    let answer = (closed.agent.clone(), (means.text_of)(answer));
                    let part = self.part()?;
                    if !part.acts.is_empty() {
                        return Err("a question is answered while it runs".to_owned());
                    }
                    part.answers.push(answer);
                }
            }
            Body::RunFinished { status, .. } => self.end_part((*status).into())?,
            Body::RunStopped { status, .. } => self.end_part((*status).into())?,
            body => {
                if let Some(agent) = body.ended_attempt_of() {
                    self.attempt_ended(agent, event, following, means)?;
                }
            }
        }
        Ok(())
    }

    fn course(&mut self) -> Result<&mut Course, Unplayable> {
        self.course.as_mut().ok_or_else(|| "its journal has no start".to_owned())
    }

    fn part(&mut self) -> Result<&mut Part, Unplayable> {
        self.course()?.parts.last_mut().ok_or_else(|| "its journal has no start".to_owned())
    }

    fn agent(&self, id: &AgentId) -> Result<&Agent, Unplayable> {
        self.run.as_ref().and_then(|run| run.agents.get(id)).ok_or_else(|| format!("{id} does not exist"))
    }

    /// Reads a state as the process read it, if the state has not changed since.
    fn note_state(
        &mut self,
        agent: &Agent,
        hash: Option<&str>,
        means: &mut Means<'_>,
    ) -> Result<(), Unplayable> {
        let prepared = means.states.read(agent);
        if let (Some(hash), found) = (hash, &prepared)
            && found.as_ref().map(|found| found.hash.as_str()) != Ok(hash)
        {
            return Err(format!("{} changes while it runs", agent.place()));
        }
        if let Ok(prepared) = &prepared
            && let Plan::Prompt(plan) = &prepared.plan
        {
            if plan.result_schema.is_some() {
                return Err("a result is checked against a schema".to_owned());
            }
            let found = lookups::of_turn(&mut means.states.scopes.borrow_mut(), agent, plan, None);
            self.part()?.policies.insert(agent.place(), found);
        }
        self.part()?.states.insert(agent.place(), prepared);
        Ok(())
    }

    fn attempt_ended(
        &mut self,
        id: &AgentId,
        event: &Event,
        following: &[Event],
        means: &Means<'_>,
    ) -> Result<(), Unplayable> {
        let Some((visit, began)) = self.open.remove(id) else {
            return Err(format!("{id} ends a step that never started"));
        };
        let agent = self.agent(id)?.clone();
        let prints = self.prints.remove(id).unwrap_or_default();
        let does = match &event.body {
            Body::StepFinished(finished) => match &finished.message {
                Some(message) => self.spoke(&agent, &visit, message, means)?,
                None => {
                    let said = self.said(&agent, finished, event.time, following, means)?;
                    Does::Says(prints + &said)
                }
            },
            Body::StepFailed(failed) => why_failed(&agent, failed),
            Body::Reminder(reminder) => {
                let message = reminder.message.as_ref().ok_or("a reminder without a message")?;
                self.spoke(&agent, &visit, message, means)?
            }
            Body::Retry(retry) => match &retry.next_try {
                NextTry::GoOn(_) => Does::Fails(FaultClass::ShareUsed, retry.error.clone()),
                NextTry::FromTheStart if agent.state.kind().is_prompt() => {
                    Does::Fails(FaultClass::Retry, retry.error.clone())
                }
                NextTry::FromTheStart => how_ended(&retry.error, None),
                NextTry::AfterLoss => return Err("the machine of a step is lost".to_owned()),
            },
            Body::LimitWaiting(limit) => {
                let class = FaultClass::Limit { until: Some(limit.until) };
                Does::Fails(class, limit.error.clone())
            }
            _ => Does::GoesOn,
        };
        let time = Duration::from_millis(millis(began, event.time));
        let act = Act { cost: event.body.cost(), time, ..Act::new(does) };
        self.part()?.acts.entry(visit).or_default().push(act);
        Ok(())
    }

    fn end_part(&mut self, status: RunStatus) -> Result<(), Unplayable> {
        if status == RunStatus::Interrupted {
            return Err("it is stopped by a person".to_owned());
        }
        let open = std::mem::take(&mut self.open);
        let part = self.part()?;
        part.end = status;
        part.pauses = status == RunStatus::Waiting;
        for (visit, _) in open.into_values() {
            part.acts.entry(visit).or_default().push(Act::new(Does::GoesOn));
        }
        Ok(())
    }

    /// An agent's final message, and what the names in it resolved to.
    fn spoke(
        &mut self,
        agent: &Agent,
        visit: &Visit,
        message: &Payload,
        means: &Means<'_>,
    ) -> Result<Does, Unplayable> {
        let text = (means.text_of)(message);
        let part = self.part()?;
        let Some(Ok(prepared)) = part.states.get(&visit.1) else {
            return Err(format!("{} was never read", visit.1));
        };
        if let Plan::Prompt(plan) = &prepared.plan
            && let Some(transition) = transition_in(&text)
        {
            let found =
                lookups::of_turn(&mut means.states.scopes.borrow_mut(), agent, plan, Some(&transition));
            add(part.said.entry(visit.clone()).or_default(), &found);
        }
        Ok(Does::Says(text))
    }

    /// The tags that a finished script has printed, with their names resolved.
    fn said(
        &mut self,
        agent: &Agent,
        finished: &StepFinished,
        time: Timestamp,
        following: &[Event],
        means: &Means<'_>,
    ) -> Result<String, Unplayable> {
        let text = |payload: &Payload| (means.text_of)(payload);
        let led_to = finished.led_to.parts();
        let target = led_to.target.map_or(String::new(), ToString::to_string);
        let mut tag = Written::new(led_to.tag);
        let delay = following.iter().find_map(|event| match &event.body {
            Body::Delayed { agent: whose, until, .. } if *whose == agent.id => Some(millis(time, *until)),
            _ => None,
        });
        // What follows the agent's next step is not part of this one.
        let delay = delay.filter(|_| !starts_before_delay(agent, following));
        match &finished.led_to {
            LedTo::Return { input: result, .. } | LedTo::End { result } => return Ok(tag.with(&text(result))),
            LedTo::Ask { .. } => return opened(agent, following).map(|ask| asked(tag, ask, &text)),
            LedTo::Fork { next, input, joins, .. } => {
                let mut said = String::new();
                for worker in workers(agent, following) {
                    said += &self.forked(agent, worker, &text);
                }
                let mut go = Written::new(if *joins { TagName::Join } else { TagName::Goto });
                go.attribute("input", input.as_ref().map(text));
                go.attribute("delay", delay.map(|delay| format!("{delay}ms")));
                return Ok(said + &go.with(next.as_str()));
            }
            _ => {}
        }
        tag.attribute("input", led_to.input.map(text));
        tag.attribute("return", led_to.return_to.map(ToString::to_string));
        tag.attribute("cd", led_to.cwd.map(str::to_owned));
        tag.attribute("delay", delay.map(|delay| format!("{delay}ms")));
        // An input that was not given is an empty text.
        for (name, value) in led_to
            .workflow
            .iter()
            .filter_map(|workflow| workflow.inputs.as_ref())
            .flat_map(|inputs| &inputs.values)
        {
            tag.attribute(name, Some(value.clone()).filter(|value| !value.is_empty()));
        }
        Ok(match led_to.workflow {
            Some(workflow) => tag.with(&self.entered(&workflow.scope, &target)),
            None => tag.with(&target),
        })
    }

    fn forked(&mut self, parent: &Agent, worker: &AgentStarted, text: &dyn Fn(&Payload) -> String) -> String {
        let state = worker.state.to_string();
        let scope = worker.workflow.as_ref().map(|workflow| &workflow.scope);
        let (mut tag, target) = match scope {
            Some(scope) if parent.scope.as_ref() != Some(scope) => {
                (Written::new(TagName::ForkWorkflow), self.entered(scope, &state))
            }
            _ => (Written::new(TagName::Fork), state),
        };
        tag.attribute("input", worker.input.as_ref().map(text));
        tag.attribute("cd", Some(worker.cwd.clone()).filter(|cwd| *cwd != parent.cwd));
        for (name, value) in worker.forked.iter().flat_map(|forked| &forked.attributes) {
            tag.attribute(name, Some(value.clone()));
        }
        tag.with(&target)
    }

    /// How another workflow is named: with its full path.
    fn entered(&mut self, scope: &str, state: &str) -> String {
        let name = format!("{scope}/{state}");
        let Some(course) = &mut self.course else { return name };
        if let Some(entry) = raymond_core::workflow::StateFile::new(state)
            && let Ok(known) = Scope::open(Path::new(scope), Platform::Unix)
        {
            course.entered.insert(name.clone(), entry_into(&known, scope.to_owned(), entry));
        }
        name
    }
}

impl Part {
    fn new(options: raymond_core::run::Options, begin: u64) -> Self {
        Self {
            options,
            begin,
            pauses: false,
            answers: Vec::new(),
            states: BTreeMap::new(),
            policies: BTreeMap::new(),
            said: BTreeMap::new(),
            acts: BTreeMap::new(),
            end: RunStatus::Running,
        }
    }
}

/// What a message of an agent asks for, if it can be parsed.
fn transition_in(text: &str) -> Option<Transition> {
    let mut tags = TagCollector::new();
    tags.feed(text.as_bytes(), &mut |_| {}).ok()?;
    let collected = tags.finish(&mut |_| {}).ok()?;
    transition::read(collected, Rules { from_model: true, case_insensitive: false })
        .ok()
        .map(|reading| reading.transition)
}

fn millis(from: Timestamp, to: Timestamp) -> u64 {
    u64::try_from(to.as_millisecond() - from.as_millisecond()).unwrap_or(0)
}

fn starts_before_delay(agent: &Agent, following: &[Event]) -> bool {
    let next = following.iter().find(|event| match &event.body {
        Body::Delayed { agent: whose, .. } => *whose == agent.id,
        Body::StepStarted(started) => started.agent == agent.id,
        _ => false,
    });
    matches!(next, Some(event) if matches!(event.body, Body::StepStarted(_)))
}

/// The workers of a fork follow directly after it.
fn workers<'e>(parent: &'e Agent, following: &'e [Event]) -> impl Iterator<Item = &'e AgentStarted> {
    following.iter().skip_while(|event| matches!(event.body, Body::Delayed { .. })).map_while(|event| {
        match &event.body {
            Body::AgentStarted(started) if started.parent() == Some(&parent.id) => Some(&**started),
            _ => None,
        }
    })
}

fn opened<'e>(agent: &Agent, following: &'e [Event]) -> Result<&'e AskOpened, Unplayable> {
    let opened = following.iter().find_map(|event| match &event.body {
        Body::AskOpened(opened) if opened.agent == agent.id => Some(opened),
        _ => None,
    });
    opened.ok_or_else(|| format!("{} asks nothing", agent.id))
}

fn asked(mut tag: Written, opened: &AskOpened, text: &dyn Fn(&Payload) -> String) -> String {
    tag.attribute("next", Some(opened.next.to_string()));
    tag.attribute("timeout", opened.timeout_ms.map(|millis| format!("{millis}ms")));
    tag.attribute("timeout_next", opened.timeout_next.as_ref().map(ToString::to_string));
    tag.attribute("empty", opened.empty_ok.then(|| "ok".to_owned()));
    tag.with(&text(&opened.question))
}

fn why_failed(agent: &Agent, failed: &StepFailed) -> Does {
    if !agent.state.kind().is_prompt() {
        return how_ended(&failed.error, failed.exit_code);
    }
    // Earlier tries do not matter: this is the result.
    Does::Fails(FaultClass::Final, failed.error.clone())
}

/// How a script ended that failed with this message.
fn how_ended(error: &str, exit_code: Option<i32>) -> Does {
    let number = |prefix: &str| error.strip_prefix(prefix).and_then(|rest| rest.parse().ok());
    match exit_code.or_else(|| number("ended with exit code ")) {
        Some(code) => Does::Exits(code),
        None if error.starts_with("timed out: no output") => Does::Hangs,
        None if error.starts_with("timed out: ") => Does::Overruns,
        None => match number("was ended by signal ") {
            Some(signal) => Does::DiesBySignal(signal),
            None => Does::Babbles(error.to_owned()),
        },
    }
}

/// A tag as a program writes it.
struct Written {
    name: TagName,
    attributes: String,
}

impl Written {
    fn new(name: TagName) -> Self {
        Self { name, attributes: String::new() }
    }

    fn attribute(&mut self, name: &str, value: Option<String>) {
        if let Some(value) = value {
            let value =
                value.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;");
            let _ = write!(self.attributes, " {name}=\"{value}\"");
        }
    }

    fn with(self, content: &str) -> String {
        format!("<{name}{}>{content}</{name}>", self.attributes, name = self.name)
    }
}
