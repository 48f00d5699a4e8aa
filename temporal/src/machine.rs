//! Raymond's engine without a disk and without a clock, as a workflow needs it: everything follows from its inputs.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use jiff::Timestamp;
use raymond::run::driver::{ANSWER_MESSAGE, Answer, STOP_MESSAGE, StopRequest};
use raymond::run::engine::{Command, Engine, Preparation, States, StepLaunch};
use raymond::run::frozen::{FrozenStates, MachineFacts};
use raymond::run::hosted::{Branch, StepOrder};
use raymond::store::{PayloadSource, Payloads, Room, RunWriter, StoreError, reference_to};
use raymond_core::event::{Body, Event, RunStarted, SnapshotLine};
use raymond_core::input::Input;
use raymond_core::join::{self, Joined};
use raymond_core::limits::MAX_INLINE_PAYLOAD_BYTES;
use raymond_core::name::AgentId;
use raymond_core::payload::Payload;
use raymond_core::run::{Agent, Options, Run, RunStatus};

use crate::messages::{
    FilesOfRun, From, Home, Left, Mail, Part, Settings, Snapshot, StatesWanted, StopKind, WorkflowsNow,
};
use crate::packed::{MOST_BYTES, Packed};
use crate::places::Places;

/// How long the part of a journal may be that is kept at once, and that is told at once. It must fit in a message of the
/// engine even if it cannot be compressed. A single event that is longer came in one message, and fits.
const PART_BYTES: usize = 1_300_000;
/// A text of the state that is so short is as long as a reference to it, or not much longer.
const SHORT_TEXT_BYTES: usize = 512;
/// What is left in a message for the rest of an order, beside the text that the step is handed.
const ROOM_FOR_ORDER: usize = 200_000;
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
        let (engine, states, places, stop, brought) = match from {
            From::Start { mut opening, states } => {
                for body in &mut opening {
                    if let Body::RunStarted(started) = body {
                        limit(&mut started.options);
                    }
                }
                let (engine, _) = Engine::create(id, now, opening, journal.clone())?;
                (engine, states, Places::default(), None, Vec::new())
            }
            From::Snapshot(snapshot) => {
                let Snapshot { run, states, places, stop, payloads, inputs, .. } = *snapshot;
                let seq = run.seq;
                journal.kept().payloads = payloads;
                journal.kept().next = seq + 1;
                let run = raymond_core::evolve::restore(run, seq);
                (Engine::take_up(run, journal.clone()), states, places, stop, inputs)
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
                if let Ok(StopRequest { now, .. }) = serde_json::from_str(&content) {
                    self.stop(if now { StopKind::Now } else { StopKind::Gently });
                }
                Vec::new()
            }
            Mail::Message { .. } => Vec::new(),
            Mail::Resume { options, waits_for_answers, workflows } => {
                self.resume(options, waits_for_answers, workflows.map(|now| *now))
            }
        }
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
        let interrupted = run.interrupted();
        self.to_read = self.to_read_for(*options != run.options, workflows);
        self.why_stopped = None;
        self.started.options = (*options).clone();
        self.engine = Engine::take_up(run, self.journal.clone());
        self.settings.waits_for_answers = waits_for_answers.unwrap_or(self.settings.waits_for_answers);
        self.engine.wait_for_answers(self.settings.waits_for_answers);
        self.stop = None;
        self.joins.clear();
        let resume = Input::Resume { options, interrupted, forgotten: Vec::new() };
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

/// The journal of a run in memory. It can be made again from the engine's history, so nothing of it need be durable.
#[derive(Clone, Debug, Default)]
struct Journal {
    kept: Arc<Mutex<Kept>>,
    /// Whether long texts lie in the store of blobs.
    keeps_texts: bool,
}

#[derive(Debug, Default)]
struct Kept {
    batches: Vec<Vec<Event>>,
    bytes: usize,
    /// The number of the next event.
    next: u64,
    /// The long texts that are in no store of blobs: all of them in a run of an earlier version.
    payloads: BTreeMap<String, String>,
}

impl Kept {
    fn first(&self) -> u64 {
        self.batches.first().and_then(|batch| batch.first()).map_or(self.next, |event| event.seq)
    }

    /// The first of these batches, with the texts that they name.
    fn part(&self, batches: impl Iterator<Item = Vec<Event>>) -> Part {
        let mut part = Part::default();
        let mut bytes = 0;
        for batch in batches {
            bytes += self.length(&batch);
            if bytes > PART_BYTES && !part.batches.is_empty() {
                break;
            }
            part.payloads.extend(self.texts_of(&batch).into_iter().cloned());
            part.batches.push(batch);
        }
        part
    }

    /// About how long a batch is as text, with the texts that it names.
    fn length(&self, batch: &[Event]) -> usize {
        let events = batch.iter().map(|event| serde_json::to_string(event).map_or(0, |text| text.len()));
        events.sum::<usize>() + self.texts_of(batch).into_iter().map(String::len).sum::<usize>()
    }

    fn texts_of(&self, batch: &[Event]) -> Vec<&String> {
        let mut batch = batch.to_vec();
        let payloads = batch.iter_mut().flat_map(|event| event.body.payloads_mut());
        payloads
            .filter_map(|payload| match payload {
                Payload::Stored { payload, .. } => self.payloads.get(payload),
                Payload::Inline(_) => None,
            })
            .collect()
    }
}

impl Journal {
    fn new(keeps_texts: bool) -> Self {
        Self { keeps_texts, ..Self::default() }
    }

    fn kept(&self) -> MutexGuard<'_, Kept> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The long texts that the run may still hand on. Those that only its earlier events name stay with these.
    fn payloads_in(&self, run: &Run) -> anyhow::Result<BTreeMap<String, String>> {
        let run = serde_json::to_string(run)?;
        let mut payloads = self.kept().payloads.clone();
        payloads.retain(|hash, _| run.contains(hash));
        Ok(payloads)
    }

    /// Those of the texts that are here.
    fn texts_of<'p>(&self, payloads: impl Iterator<Item = &'p Payload>) -> BTreeMap<String, String> {
        let kept = self.kept();
        payloads
            .filter_map(|payload| match payload {
                Payload::Stored { payload: hash, .. } => {
                    kept.payloads.get(hash).map(|text| (hash.clone(), text.clone()))
                }
                Payload::Inline(_) => None,
            })
            .collect()
    }
}

impl PayloadSource for Journal {
    fn get(&self, hash: &str) -> Result<String, StoreError> {
        let text = self.kept().payloads.get(hash).cloned();
        text.ok_or_else(|| StoreError::PayloadElsewhere { hash: hash.to_owned() })
    }
}

impl RunWriter for Journal {
    fn incarnation(&self) -> &str {
        "engine"
    }

    fn keep_payload(&mut self, text: &str) -> Result<Payload, StoreError> {
        let reference = reference_to(text)?;
        if let Payload::Stored { payload, .. } = &reference {
            self.kept().payloads.insert(payload.clone(), text.to_owned());
        }
        Ok(reference)
    }

    fn load_payload(&self, payload: &Payload) -> Result<String, StoreError> {
        match payload {
            Payload::Inline(text) => Ok(text.clone()),
            Payload::Stored { payload, .. } => self.get(payload),
        }
    }

    fn room_for(&self, text: &str) -> Room {
        let fits = |packed: Packed<String>| packed.bytes() <= MOST_BYTES - ROOM_FOR_ORDER;
        if text.len() <= MAX_INLINE_PAYLOAD_BYTES {
            Room::Here
        } else if self.keeps_texts {
            Room::Elsewhere
        } else if text.len() <= PART_BYTES || Packed::new(&text.to_owned()).is_ok_and(fits) {
            Room::Here
        } else {
            Room::Nowhere
        }
    }

    fn commit(&mut self, batch: &[Event]) -> Result<(), StoreError> {
        let mut kept = self.kept();
        kept.next = batch.last().map_or(kept.next, |event| event.seq + 1);
        // The reports of several steps may be in one batch, and each of them may fill a message.
        let (mut piece, mut bytes) = (Vec::new(), 0);
        for event in batch {
            let length = kept.length(std::slice::from_ref(event));
            if bytes + length > PART_BYTES && !piece.is_empty() {
                kept.batches.push(std::mem::take(&mut piece));
                bytes = 0;
            }
            piece.push(event.clone());
            bytes += length;
            kept.bytes += length;
        }
        kept.batches.push(piece);
        Ok(())
    }

    fn rewind(&mut self, start: &Event) -> Result<(), StoreError> {
        self.commit(std::slice::from_ref(start))
    }

    fn snapshot_if_long(&mut self, _: SnapshotLine<'_>) -> Result<(), StoreError> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use raymond_core::decide;
    use raymond_core::workflow::StateFile;
    use serde_json::json;

    use super::*;
    use crate::messages::FilesOfRun;

    #[test]
    fn no_more_steps_are_started_than_a_history_has_room_for() {
        for (asked, allowed) in [(1, 1), (MOST_STARTED, MOST_STARTED), (5_000, MOST_STARTED)] {
            let mut options =
                Options { max_parallel: asked, max_parallel_scripts: asked, ..Options::default() };
            limit(&mut options);
            assert_eq!((options.max_parallel, options.max_parallel_scripts), (allowed, allowed));
        }
    }

    /// A run that has stopped, because its only state is missing.
    fn stopped() -> Machine {
        let mut machine = run_with(String::new());
        machine.round(Timestamp::UNIX_EPOCH, Vec::new()).unwrap();
        assert!(!machine.is_open());
        machine
    }

    #[test]
    fn a_resume_reads_states_again_only_if_they_may_be_others() {
        let now = |bundle: &str, scopes: &[&str]| WorkflowsNow {
            bundle: bundle.to_owned(),
            scopes: scopes.iter().map(|path| (*path).to_owned()).collect(),
            workflow_paths: Vec::new(),
            cd_paths: Vec::new(),
        };
        let model = |name: &str| Options { model: Some(name.to_owned()), ..Options::default() };
        let cases = [
            (Options::default(), None, None),
            (Options::default(), Some(now("old", &[])), None),
            (model("other"), None, Some("old")),
            (Options::default(), Some(now("new", &[])), Some("new")),
            (Options::default(), Some(now("old", &["/home/me/other"])), Some("old")),
        ];
        for (options, workflows, expected) in cases {
            let mut machine = stopped();
            let case = format!("{workflows:?}");
            let mail = Mail::Resume {
                options: Box::new(options),
                waits_for_answers: None,
                workflows: workflows.map(Box::new),
            };
            machine.take(mail);
            let wanted = machine.states_wanted().unwrap().map(|wanted| wanted.bundle);
            assert_eq!(wanted.as_deref(), expected, "{case}");
        }
    }

    #[test]
    fn a_run_has_the_new_files_only_when_its_states_were_read_from_them() {
        let resume = || {
            let (scopes, paths) = (vec!["/home/me/wf".to_owned()], vec!["/shared".to_owned()]);
            let workflows =
                WorkflowsNow { bundle: "new".to_owned(), scopes, workflow_paths: paths, cd_paths: vec![] };
            Mail::Resume {
                options: Box::default(),
                waits_for_answers: None,
                workflows: Some(Box::new(workflows)),
            }
        };
        let mut machine = stopped();
        let inputs = machine.take(resume());
        machine.stay_stopped("the store is away".to_owned(), inputs);
        assert_eq!(machine.settings().files.bundle, "old");
        assert!(!machine.is_about_to_go_on());
        machine.take(resume());
        machine.use_states(FrozenStates::default());
        let files = &machine.settings().files;
        assert_eq!((files.bundle.as_str(), files.workflow_paths.len()), ("new", 1));
        assert!(machine.states_wanted().unwrap().is_none());
    }

    /// Messages of earlier versions have only the options.
    #[test]
    fn a_resume_of_an_earlier_version_is_understood() {
        let options = serde_json::to_value(Options::default()).unwrap();
        let mail: Mail =
            serde_json::from_value(serde_json::json!({ "Resume": { "options": options } })).unwrap();
        assert!(matches!(mail, Mail::Resume { workflows: None, .. }));
        let home: Home = serde_json::from_str(r#"{"host":"a","queue":"q.a"}"#).unwrap();
        assert_eq!(home.backends, None);
    }

    /// A text that cannot be made much shorter.
    fn noise(length: usize) -> String {
        let letters = b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789+-";
        let next = |state: &u64| Some(state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1));
        let numbers = std::iter::successors(Some(1_u64), next).skip(1);
        numbers.map(|number| letters[(number >> 58) as usize] as char).take(length).collect()
    }

    #[test]
    fn results_that_are_long_together_are_put_together_by_a_machine_and_not_in_a_message() {
        let (of_before, of_now) = (Journal::new(false), Journal::new(true));
        let short = noise(MAX_INLINE_PAYLOAD_BYTES);
        let cases = [
            (short, Room::Here, Room::Here),
            (noise(PART_BYTES), Room::Here, Room::Elsewhere),
            (noise(3 * PART_BYTES), Room::Nowhere, Room::Elsewhere),
            ("x".repeat(3 * PART_BYTES), Room::Here, Room::Elsewhere),
        ];
        for (text, before, now) in cases {
            assert_eq!((of_before.room_for(&text), of_now.room_for(&text)), (before, now), "{}", text.len());
        }
    }

    /// A run of one agent, which is handed a text.
    fn run_with(input: String) -> Machine {
        let started = RunStarted {
            version: raymond_core::event::FORMAT_VERSION,
            workflow: "wf".to_owned(),
            scope: "/wf".to_owned(),
            scope_hash: None,
            entry: StateFile::new("START.sh").unwrap(),
            cwd: "/".to_owned(),
            nonce: "nonce".to_owned(),
            labels: BTreeMap::new(),
            inputs: BTreeMap::new(),
            options: Options::default(),
            moved: Default::default(),
            origin: None,
        };
        let files = FilesOfRun {
            bundle: "old".to_owned(),
            project: "/".to_owned(),
            workflow_paths: Vec::new(),
            cd_paths: Vec::new(),
            repository: None,
            debug_folder: None,
        };
        let settings = Settings {
            queue: "q".to_owned(),
            heartbeat_ms: 1,
            patience_ms: 1,
            continue_after: 1,
            waits_for_answers: true,
            keeps_texts: true,
            files,
        };
        let opening = decide::start(started, Some(input));
        let from = From::Start { opening, states: FrozenStates::default() };
        Machine::new("r", Timestamp::UNIX_EPOCH, settings, from).unwrap()
    }

    #[test]
    fn texts_of_a_state_that_is_too_large_are_replaced_by_references() {
        let text = noise(MAX_INLINE_PAYLOAD_BYTES);
        let mut machine = run_with(text.clone());
        let texts = machine.texts_to_keep();
        assert_eq!(texts, std::slice::from_ref(&text));
        machine.keeps_elsewhere(&texts).unwrap();
        assert!(machine.texts_to_keep().is_empty());
        let main = &machine.run().agents[&AgentId::main()];
        assert_eq!(main.payload, Some(reference_to(&text).unwrap()));
        assert!(run_with(noise(SHORT_TEXT_BYTES)).texts_to_keep().is_empty());
    }

    /// What failed may have run again since.
    #[test]
    fn what_was_put_together_before_a_resume_is_not_wanted() {
        let mut machine = run_with(String::new());
        let main = AgentId::main();
        let first = machine.join_order(main.clone()).unwrap();
        machine.stop(StopKind::Now);
        machine.round(Timestamp::UNIX_EPOCH, Vec::new()).unwrap();
        assert!(machine.wants_no_joins());
        machine.resume(Box::default(), None, None);
        assert!(!machine.has_joined(&main, first.number));
        let second = machine.join_order(main.clone()).unwrap();
        assert!(!machine.has_joined(&main, first.number));
        assert!(machine.has_joined(&main, second.number));
    }

    #[test]
    fn each_part_of_the_joined_workers_fits_in_a_message() {
        let worker = |n: usize| {
            let result = noise(MAX_INLINE_PAYLOAD_BYTES);
            let worker = json!({
                "agent": format!("main_w{n}"), "state": "W.sh", "attributes": {}, "status": "done",
                "result": result, "error": null,
            });
            serde_json::from_value::<Joined>(worker).unwrap()
        };
        let workers: Vec<Joined> = (0..60).map(worker).collect();
        let parts = in_parts(workers.clone());
        assert!(parts.len() > 2);
        assert!(parts.iter().all(|part| Packed::new(part).unwrap().bytes() < MOST_BYTES));
        assert_eq!(parts.concat(), workers);
    }

    #[test]
    fn a_batch_of_several_long_reports_is_told_in_parts() {
        let long = |seq: u64| {
            let body =
                Body::Warning { agent: None, step: None, state: None, message: noise(PART_BYTES - 1000) };
            Event { seq, time: Timestamp::UNIX_EPOCH, run: "r".to_owned(), body }
        };
        let mut journal = Journal::default();
        journal.commit(&[long(1), long(2), long(3)]).unwrap();
        let kept = journal.kept();
        let part = kept.part(kept.batches.iter().cloned());
        assert_eq!((kept.batches.len(), part.last()), (3, Some(1)));
        assert!(Packed::new(&part).unwrap().bytes() < MOST_BYTES);
    }
}
