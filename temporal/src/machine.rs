//! Raymond's engine without a disk and without a clock, as a workflow needs it: everything follows from its inputs.

mod journal;

use std::collections::BTreeMap;
use std::path::PathBuf;

use jiff::Timestamp;
use raymond::run::driver::{ANSWER_MESSAGE, Answer, STOP_MESSAGE, StopRequest};
use raymond::run::engine::{Command, Engine, Preparation, States, StepLaunch};
use raymond::run::frozen::{FrozenStates, MachineFacts};
use raymond::run::hosted::{Branch, StepOrder};
use raymond::store::{Payloads, StoreError, reference_to};
use raymond_core::event::{Body, RunStarted};
use raymond_core::input::Input;
use raymond_core::join::{self, Joined};
use raymond_core::name::AgentId;
use raymond_core::run::{Agent, Options, Run, RunStatus};

use crate::messages::{
    FilesOfRun, From, Home, Left, Mail, Part, Settings, Snapshot, StatesWanted, StopKind, WorkflowsNow,
};
use crate::packed::Packed;
use crate::places::Places;
use journal::Journal;

/// How long the part of a journal may be that is kept at once, and that is told at once. It must fit in a message of the
/// engine even if it cannot be compressed. A single event that is longer came in one message, and fits.
const PART_BYTES: usize = 1_300_000;
/// A text of the state that is so short is as long as a reference to it, or not much longer.
const SHORT_TEXT_BYTES: usize = 512;
/// A journal that is so long is kept elsewhere.
const LONG_BYTES: usize = 500_000;

/// So many scripts, and so many turns, of a run are started at once, even if its options allow more. The server does not
/// get more of them at once, and its history must have room for the ends of all that are started.
pub const MOST_STARTED: usize = 500;

/// A run and what belongs to it.
pub struct Machine {
    engine: Engine<Journal>,
    journal: Journal,
    states: Frozen,
    started: Box<RunStarted>,
    settings: Settings,
    pub places: Places,
    stop: Option<StopKind>,
    /// Whether a resume has been taken that was not decided yet.
    is_resuming: bool,
    /// The last event before the last resume. Who asks for a stop without having seen it means the run as it was before.
    resumed_after: u64,
    /// Whether a stop from before that resume is ignored. Earlier versions took every stop.
    ignores_old_stops: bool,
    /// A stop that came between a resume and its decision.
    late_stop: Option<StopKind>,
    /// Answers that came while the run was stopped. They are decided when it goes on.
    held_answers: Vec<Input>,
    /// What the states must be read again from before the run goes on, if they must.
    to_read: Option<ToRead>,
    /// Why the run could not go on when it was last told to.
    why_stopped: Option<String>,
    /// Inputs that came with the run from its last history.
    brought: Vec<Input>,
    /// Agents whose workers' results are being put together by a machine, with the number of the last event when that began.
    joins: BTreeMap<AgentId, u64>,
}

/// The files of a run that is resumed, and the workflows in them, if they are others than before.
struct ToRead {
    files: FilesOfRun,
    scopes: Option<Vec<String>>,
}

/// What a round leads to.
#[derive(Debug, Default)]
pub struct Orders {
    pub start: Vec<StepOrder>,
    /// Steps of these agents are ended.
    pub cancel: Vec<AgentId>,
    pub join: Vec<JoinOrder>,
}

/// An agent whose workers' results a machine puts together, because they are too long for the run.
#[derive(Debug)]
pub struct JoinOrder {
    pub agent: AgentId,
    /// Distinguishes it from other joins of the agent.
    pub number: u64,
    /// How many workers are joined.
    pub count: usize,
    /// The workers, as many at once as fit in a message.
    pub parts: Vec<Packed<Vec<Joined>>>,
}

impl Machine {
    pub fn new(id: &str, now: Timestamp, settings: Settings, from: From) -> anyhow::Result<Self> {
        let journal = Journal::new(settings.keeps_texts);
        let (engine, states, places, stop, brought, resumed_after) = match from {
            From::Start { mut opening, states } => {
                for body in &mut opening {
                    if let Body::RunStarted(started) = body {
                        limit(&mut started.options);
                    }
                }
                let (engine, _) = Engine::create(id, now, opening, journal.clone())?;
                (engine, states, Places::default(), None, Vec::new(), 0)
            }
            From::Snapshot(snapshot) => {
                let Snapshot { run, states, places, stop, payloads, inputs, resumed_after, .. } = *snapshot;
                let seq = run.seq;
                journal.kept().payloads = payloads;
                journal.kept().next = seq + 1;
                let run = raymond_core::evolve::restore(run, seq);
                (Engine::take_up(run, journal.clone()), states, places, stop, inputs, resumed_after)
            }
        };
        let started = Box::new(started_of(engine.run()));
        let texts = Payloads::new(journal.clone());
        let states = Frozen { states, texts, project: PathBuf::from(&settings.files.project) };
        let mut machine = Self {
            engine,
            journal,
            states,
            started,
            settings,
            places,
            stop: None,
            is_resuming: false,
            resumed_after,
            ignores_old_stops: false,
            late_stop: None,
            held_answers: Vec::new(),
            to_read: None,
            why_stopped: None,
            brought,
            joins: BTreeMap::new(),
        };
        machine.engine.wait_for_answers(machine.settings.waits_for_answers);
        stop.into_iter().for_each(|kind| machine.stop(kind));
        Ok(machine)
    }

    pub fn run(&self) -> &Run {
        self.engine.run()
    }

    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    pub fn is_open(&self) -> bool {
        self.run().status == RunStatus::Running
    }

    /// Whether the run may go on with another history. What only its engine knows would be lost, and so the run is
    /// ended first, if it is about to be.
    pub fn can_change_history(&self) -> bool {
        self.is_open() && !self.engine.has_interrupted_steps()
    }

    /// Whether results of workers are of no use now. A resume has them put together anew: what failed may have run again.
    pub fn wants_no_joins(&self) -> bool {
        self.stop.is_some() || !self.is_open()
    }

    pub fn is_stopping(&self) -> bool {
        self.stop.is_some()
    }

    pub fn is_stopped_now(&self) -> bool {
        self.stop == Some(StopKind::Now)
    }

    /// Takes what came from outside. Messages that mean nothing are ignored, as those in a local inbox are.
    pub fn take(&mut self, mail: Mail) -> Vec<Input> {
        match mail {
            Mail::Message { name, content } if name.starts_with(ANSWER_MESSAGE) => {
                let answer =
                    serde_json::from_str::<Answer>(&content).map(|answer| Input::Answer(answer.into()));
                self.take_answer(answer.ok())
            }
            Mail::Message { name, content } if name.starts_with(STOP_MESSAGE) => {
                if let Ok(request) = serde_json::from_str::<StopRequest>(&content)
                    && !self.is_old(&request)
                {
                    self.stop(if request.now { StopKind::Now } else { StopKind::Gently });
                }
                Vec::new()
            }
            Mail::Message { .. } => Vec::new(),
            Mail::Resume { options, waits_for_answers, workflows } => {
                self.resume(options, waits_for_answers, workflows.map(|now| *now))
            }
        }
    }

    /// Decides by the newer rules.
    pub fn use_newer_rules(&mut self) {
        self.ignores_old_stops = true;
    }

    /// Whether a stop was asked for by someone who did not know of the last resume.
    fn is_old(&self, request: &StopRequest) -> bool {
        self.ignores_old_stops && request.seen.is_some_and(|seen| seen < self.resumed_after)
    }

    /// A run that is stopped would ignore an answer.
    fn take_answer(&mut self, answer: Option<Input>) -> Vec<Input> {
        if self.is_open() || self.is_resuming || self.run().status == RunStatus::Completed {
            return answer.into_iter().collect();
        }
        self.held_answers.extend(answer);
        Vec::new()
    }

    fn stop(&mut self, kind: StopKind) {
        if self.is_resuming {
            self.late_stop = self.late_stop.max(Some(kind));
        }
        if !self.is_open() {
            return;
        }
        self.stop = self.stop.max(Some(kind));
        self.engine.drain();
        if kind == StopKind::Now {
            self.engine.terminated();
        }
    }

    /// Takes the stop that came between a resume and its decision. Says whether there was one.
    pub fn stops_late(&mut self) -> bool {
        let stop = if self.is_resuming { None } else { self.late_stop.take() };
        stop.into_iter().for_each(|kind| self.stop(kind));
        stop.is_some()
    }

    fn resume(
        &mut self,
        mut options: Box<Options>,
        waits_for_answers: Option<bool>,
        workflows: Option<WorkflowsNow>,
    ) -> Vec<Input> {
        if self.is_open() || self.is_resuming || self.run().status == RunStatus::Completed {
            return Vec::new();
        }
        self.is_resuming = true;
        limit(&mut options);
        let run = self.run().clone();
        self.resumed_after = run.seq;
        let interrupted = run.interrupted();
        self.to_read = self.to_read_for(*options != run.options, workflows);
        self.why_stopped = None;
        self.started.options = (*options).clone();
        self.engine = Engine::take_up(run, self.journal.clone());
        self.settings.waits_for_answers = waits_for_answers.unwrap_or(self.settings.waits_for_answers);
        self.engine.wait_for_answers(self.settings.waits_for_answers);
        self.stop = None;
        self.joins.clear();
        let resume = Input::Resume { options, interrupted, forgotten: Vec::new(), moved: None };
        std::iter::once(resume).chain(std::mem::take(&mut self.held_answers)).collect()
    }

    /// What a resume reads the states again from. Nothing if they would be the same.
    fn to_read_for(&self, has_other_options: bool, workflows: Option<WorkflowsNow>) -> Option<ToRead> {
        let (mut files, mut scopes) = (self.settings.files.clone(), None);
        if let Some(WorkflowsNow { bundle, scopes: paths, workflow_paths, cd_paths }) = workflows {
            files = FilesOfRun { bundle, workflow_paths, cd_paths, ..files };
            scopes = Some(paths).filter(|paths| !self.states.states.workflows().eq(paths));
        }
        let is_other = has_other_options || scopes.is_some() || files != self.settings.files;
        is_other.then_some(ToRead { files, scopes })
    }

    /// Whether the run is resumed as soon as its states have been read again.
    pub fn is_about_to_go_on(&self) -> bool {
        self.to_read.is_some()
    }

    /// Whether a stop has come before the states were read again. The run need not go on first.
    pub fn is_resume_called_off(&self) -> bool {
        self.to_read.is_some() && self.late_stop.is_some()
    }

    /// What the states must be read again with, if they must.
    pub fn states_wanted(&self) -> anyhow::Result<Option<StatesWanted>> {
        let Some(ToRead { files, scopes }) = &self.to_read else { return Ok(None) };
        let states = Packed::new(&self.states.states)?;
        let options = Box::new(self.started.options.clone());
        Ok(Some(StatesWanted { bundle: files.bundle.clone(), states, scopes: scopes.clone(), options }))
    }

    /// From now on the run has these states, and later steps the files that they were read from.
    pub fn use_states(&mut self, states: FrozenStates) {
        self.states.states = states;
        if let Some(ToRead { files, .. }) = self.to_read.take() {
            self.settings.files = files;
        }
    }

    /// The run does not go on after all, because its states could not be read again. Returns what is left to decide of the
    /// inputs. Answers are kept for the next resume.
    pub fn stay_stopped(&mut self, why: String, inputs: Vec<Input>) -> Vec<Input> {
        self.is_resuming = false;
        self.late_stop = None;
        self.started.options = self.run().options.clone();
        self.to_read = None;
        self.why_stopped = Some(why);
        let others = inputs.into_iter().filter(|input| !matches!(input, Input::Resume { .. }));
        let (answers, rest): (Vec<_>, Vec<_>) = others.partition(|input| matches!(input, Input::Answer(_)));
        self.held_answers.extend(answers);
        rest
    }

    pub fn why_stopped(&self) -> Option<&str> {
        self.why_stopped.as_deref()
    }

    /// An agent has ended a step on this machine.
    pub fn ended_step_at(
        &mut self,
        agent: &AgentId,
        home: &Home,
        left: Option<Left>,
        branch: Option<Branch>,
    ) {
        self.places.ended_step(agent, home, left);
        let worktree = self.run().agents.get(agent).and_then(|agent| agent.worktree.as_ref());
        if let (Some(worktree), Some(branch)) = (worktree.map(|worktree| worktree.name.clone()), branch) {
            self.places.set_branch(&worktree, branch);
        }
    }

    /// Notes which backends have their programs on the machine that an agent is on, if a report says it.
    pub fn note_backends(&mut self, agent: &AgentId, backends: Option<&Vec<String>>) {
        if let Some(backends) = backends {
            self.places.note_backends(agent, backends);
        }
    }

    pub fn hosts(&self) -> BTreeMap<AgentId, String> {
        let homes = self.places.homes();
        let alive = homes.iter().filter(|(agent, _)| self.run().agents.contains_key(*agent));
        alive.map(|(agent, home)| (agent.clone(), home.host.clone())).collect()
    }

    /// Decides about the inputs and everything that is due.
    pub fn round(&mut self, now: Timestamp, inputs: Vec<Input>) -> anyhow::Result<Orders> {
        let inputs: Vec<Input> = std::mem::take(&mut self.brought).into_iter().chain(inputs).collect();
        self.is_resuming = false;
        let mut states = AtHome { states: &self.states, homes: self.places.homes() };
        let round = self.engine.round(now, inputs, &mut states)?;
        if let Some(trouble) = round.trouble {
            return Err(trouble.into());
        }
        let mut orders = Orders::default();
        for command in round.commands {
            match command {
                Command::Launch(launch) => orders.start.push(self.order(*launch)),
                Command::EndScripts => orders.cancel.extend(self.run().running_scripts().cloned()),
                Command::Finish => {}
            }
        }
        for agent in round.joins_elsewhere {
            orders.join.push(self.join_order(agent)?);
        }
        for event in &round.events {
            if let Body::AgentFinished { agent, .. } = &event.body {
                self.places.forget(agent);
            }
        }
        Ok(orders)
    }

    fn join_order(&mut self, agent: AgentId) -> anyhow::Result<JoinOrder> {
        let number = self.run().seq;
        self.joins.insert(agent.clone(), number);
        let workers = join::workers(self.run(), &agent);
        let count = workers.len();
        let parts = in_parts(workers).iter().map(Packed::new).collect::<anyhow::Result<_>>()?;
        Ok(JoinOrder { agent, number, count, parts })
    }

    /// Notes that a join has ended. Says whether its result is wanted.
    pub fn has_joined(&mut self, agent: &AgentId, number: u64) -> bool {
        let is_current = self.joins.get(agent) == Some(&number);
        if is_current {
            self.joins.remove(agent);
        }
        is_current
    }

    fn order(&self, launch: StepLaunch<()>) -> StepOrder {
        let StepLaunch { started, agent, plan, .. } = launch;
        let files = &self.settings.files;
        let mut order = StepOrder {
            id: self.run().id.clone(),
            run: self.started.clone(),
            project: files.project.clone(),
            workflow_paths: files.workflow_paths.clone(),
            cd_paths: files.cd_paths.clone(),
            payloads: self.journal.texts_of(agent.needed_payloads()),
            debug_folder: files.debug_folder.clone(),
            branches: BTreeMap::new(),
            agent,
            started,
            plan,
        };
        order.branches = self.places.branches_for(&order);
        order
    }

    /// The journal behind an event, as much as fits in a message, and the first event that is still here.
    pub fn journal_after(&self, after: u64) -> (Part, u64) {
        let kept = self.journal.kept();
        let batches = kept.batches.iter().filter(|batch| batch.last().is_some_and(|event| event.seq > after));
        (kept.part(batches.cloned()), kept.first())
    }

    /// The first part of the journal, if it is so long that it should be kept elsewhere, or if all should.
    pub fn part_to_keep(&self, all: bool) -> Option<(u64, Part)> {
        let kept = self.journal.kept();
        (!kept.batches.is_empty() && (all || kept.bytes > LONG_BYTES))
            .then(|| (kept.first(), kept.part(kept.batches.iter().cloned())))
    }

    /// The journal up to this event is kept elsewhere.
    pub fn forget_up_to(&self, seq: u64) {
        let mut kept = self.journal.kept();
        kept.batches.retain(|batch| batch.last().is_some_and(|event| event.seq > seq));
        kept.bytes = kept.batches.iter().map(|batch| kept.length(batch)).sum();
    }

    /// Texts of the run's state that the store of blobs can keep instead, as many as fit in a message.
    pub fn texts_to_keep(&mut self) -> Vec<String> {
        let keeps_texts = self.settings.keeps_texts;
        let texts = self.engine.payloads_mut().into_iter().filter_map(|payload| payload.text());
        let texts = texts.filter(|text| keeps_texts && text.len() > SHORT_TEXT_BYTES);
        let mut bytes = 0;
        texts
            .take_while(|text| {
                // Each of them fits, however it is written as JSON.
                bytes += text.len();
                bytes <= PART_BYTES
            })
            .map(str::to_owned)
            .collect()
    }

    /// These texts are in the store of blobs now.
    pub fn keeps_elsewhere(&mut self, texts: &[String]) -> anyhow::Result<()> {
        let references: Result<BTreeMap<_, _>, _> =
            texts.iter().map(|text| reference_to(text).map(|reference| (text.as_str(), reference))).collect();
        let references = references?;
        for payload in self.engine.payloads_mut() {
            if let Some(reference) = payload.text().and_then(|text| references.get(text)) {
                *payload = reference.clone();
            }
        }
        Ok(())
    }

    /// The run, to go on with in another history.
    pub fn snapshot(&self, inputs: Vec<Input>, inbox: Vec<Mail>) -> anyhow::Result<Snapshot> {
        Ok(Snapshot {
            run: self.run().clone(),
            states: self.states.states.clone(),
            places: self.places.clone(),
            stop: self.stop,
            payloads: self.journal.payloads_in(self.run())?,
            inputs,
            inbox,
            resumed_after: self.resumed_after,
        })
    }
}

/// Divides workers so that each part fits in a message.
fn in_parts(workers: Vec<Joined>) -> Vec<Vec<Joined>> {
    let mut parts: Vec<Vec<Joined>> = Vec::new();
    let mut bytes = 0;
    for worker in workers {
        let length = serde_json::to_string(&worker).map_or(0, |text| text.len());
        match parts.last_mut() {
            Some(part) if bytes + length <= PART_BYTES => {
                part.push(worker);
                bytes += length;
            }
            _ => {
                parts.push(vec![worker]);
                bytes = length;
            }
        }
    }
    parts
}

fn limit(options: &mut Options) {
    options.max_parallel = options.max_parallel.min(MOST_STARTED);
    options.max_parallel_scripts = options.max_parallel_scripts.min(MOST_STARTED);
}

/// What the run was started with, as far as steps need it.
fn started_of(run: &Run) -> RunStarted {
    RunStarted {
        version: raymond_core::event::FORMAT_VERSION,
        workflow: run.workflow.clone(),
        scope: run.scope.clone(),
        scope_hash: run.scope_hash.clone(),
        entry: run.entry.clone(),
        cwd: run.cwd.clone(),
        nonce: run.nonce.clone(),
        labels: run.labels.clone(),
        inputs: run.inputs.values.clone(),
        options: run.options.clone(),
        moved: Default::default(),
        origin: None,
    }
}

/// The states as they were when the run was last started or resumed.
struct Frozen {
    states: FrozenStates,
    texts: Payloads,
    /// The folder of the project where the run was started.
    project: PathBuf,
}

/// The states for agents of which some are on machines.
struct AtHome<'a> {
    states: &'a Frozen,
    homes: &'a BTreeMap<AgentId, Home>,
}

impl States for AtHome<'_> {
    type Job = ();

    fn prepare(&mut self, run: &Run, agent: &Agent) -> Result<Preparation<()>, StoreError> {
        let Frozen { states, texts, project } = self.states;
        let machine = self
            .homes
            .get(&agent.id)
            .and_then(|home| Some(MachineFacts { name: &home.host, backends: home.backends.as_ref()? }));
        let prepared = states.prepare(run, agent, texts, project, machine)?;
        Ok(prepared.map(|prepared| (prepared, ())))
    }
}

#[cfg(test)]
mod tests;
