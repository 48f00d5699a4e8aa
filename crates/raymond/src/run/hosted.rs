//! Steps of runs that are decided elsewhere: this machine carries out single attempts and says how each ended.
//!
//! The paths of such a run are those of the machine on which it was started. Here each of them lies below one of two
//! folders ([`Roots`]): one with a copy of the workflows, and one that belongs to the agent alone. A path is put below its
//! root on the way in, and the root is taken off on the way out.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use jiff::Timestamp;
use raymond_core::event::{Body, Event, RunStarted, StepStarted};
use raymond_core::evolve;
use raymond_core::input::{
    Ended, FailedTurn, FaultClass, Input, Lookups, Plan, ScopeEntry, ScriptOutcome, ShownOutput, StepOutcome,
    TurnCost, TurnOutcome,
};
use raymond_core::payload::Payload;
use raymond_core::run::{Agent, Run, Session, Status};
use raymond_core::snapshot::FilesSnapshot;
use raymond_core::workflow::Platform;
use raymond_core::worktree::Worktree;
use serde::{Deserialize, Serialize};
use tokio::sync::oneshot;

use super::engine::{States, StepLaunch};
use super::executor::{Executor, RecordedEnd};
use super::frozen::not_on;
use super::job::{StepJob, StepNeeds, token};
use super::lookups;
use super::mailbox::{Message, Receiver, mailbox};
use super::prepare::Preparer;
use super::step::{Gate, Groups, LocalExecutor, LocalSteps, OwnProgram, Unpacked, leftovers};
use crate::agent::registry::Backends;
use crate::agent::session::{SessionPlace, export, import};
use crate::agent::{AgentProgram, DEFAULT_BACKEND};
use crate::git::snapshots::{INDEXES, Snapshots};
use crate::git::worktrees::Worktrees;
use crate::paths::shown;
use crate::process::secrets::Secrets;
use crate::process::{Reaper, Target, file_limit};
use crate::store::{PayloadSource, Payloads, StoreError, reference_to};
use crate::view::debug::{DEFAULT_KEPT_STEPS, DebugFolder, LeftFiles, NO_MORE_FILES, StepName};
use crate::workflow::reach::Reach;
use crate::workflow::scope::Scope;
use crate::workflow::scopes::{Allowed, Scopes};

/// Distinguishes the processes of such a run from those of a local copy of it.
const IDENTITY: &str = "hosted";
/// The folder for task folders, among the folders of an agent. No path of a run begins with it.
const TASKS: &str = ".tasks";

/// Which workflows are on the machines of a run.
const ONLY_NAMED: &str = "on other machines a run has only the workflows that its states name, in a tag or in `allowed_transitions`";

/// One attempt at a step, as the machine is told that carries it out. All paths are those of the run.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct StepOrder {
    pub id: String,
    pub run: Box<RunStarted>,
    /// The folder of the project in which the run was started.
    pub project: String,
    /// Folders, beside the project, whose workflows may be entered.
    pub workflow_paths: Vec<String>,
    /// Folders, beside the project, that models may choose.
    pub cd_paths: Vec<String>,
    pub agent: Agent,
    pub started: StepStarted,
    pub plan: Plan,
    /// The long texts that the step is handed, by their hashes: those that its run has itself, and for the machine that
    /// carries it out all of them.
    pub payloads: BTreeMap<String, String>,
    /// The run's folder of debug files, where it was started.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub debug_folder: Option<String>,
    /// The branches that the step needs, by the names of their worktrees: that of its own worktree, and those that its input
    /// names.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub branches: BTreeMap<String, Branch>,
}

/// The branch of a worktree, as the last step of its worker left it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Branch {
    pub commit: String,
    /// Where its commits are kept. Without it, the commit is one of those that worktrees or the run began with.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub blob: Option<String>,
}

impl StepOrder {
    /// The mark of the attempt: on its processes, and in the records of the machine that carries it out.
    pub fn token(&self) -> String {
        token(&self.run.nonce, IDENTITY, self.started.step, self.started.attempt)
    }

    /// The attempt that debug files belong to.
    fn attempt(&self) -> StepName<'_> {
        let StepStarted { agent, state, step, attempt, .. } = &self.started;
        StepName { agent, state, step: *step, attempt: *attempt }
    }

    /// Where a debug file of this machine is found in the end.
    fn place_of(&self, debug_file: &str) -> Option<String> {
        let (folder, name) = (self.debug_folder.as_ref()?, Path::new(debug_file).file_name()?);
        Some(as_text(&Path::new(folder).join(name)))
    }
}

/// How an attempt ended.
#[derive(Debug, Serialize, Deserialize)]
pub struct StepReport {
    pub duration_ms: u64,
    pub outcome: StepOutcome,
    pub lookups: Lookups,
    pub said: Vec<Said>,
    /// The backends whose programs are on the machine, if the attempt was a turn.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub backends: Option<Vec<String>>,
}

/// What was reported while the attempt ran.
#[derive(Debug, Serialize, Deserialize)]
pub enum Said {
    Print(Payload),
    Warning(String),
    /// The session that the program has chosen.
    Session(String),
}

impl StepReport {
    /// The report as inputs for the run, in their order.
    pub fn into_inputs(self, started: &StepStarted, mut plan: Plan) -> Vec<Input> {
        let StepStarted { agent, step, attempt, .. } = started;
        // A turn is not handed on to a backend that is not there.
        if let (Plan::Prompt(prompt), Some(backends)) = (&mut plan, &self.backends) {
            prompt.fallbacks.retain(|name| backends.contains(name));
        }
        let (step, attempt) = (*step, *attempt);
        let input = |said| match said {
            Said::Print(text) => Input::Print { agent: agent.clone(), step, attempt, text },
            Said::Warning(message) => Input::Warning { agent: Some(agent.clone()), message },
            Said::Session(session) => Input::SessionKnown { agent: agent.clone(), step, attempt, session },
        };
        let mut inputs: Vec<Input> = self.said.into_iter().map(input).collect();
        inputs.push(Input::Ended(Box::new(Ended {
            agent: agent.clone(),
            step,
            attempt,
            duration_ms: self.duration_ms,
            plan,
            outcome: self.outcome,
            lookups: self.lookups,
        })));
        inputs
    }

    /// An attempt that could not be begun.
    pub fn not_started(plan: &Plan, error: String) -> Self {
        let outcome = match plan {
            Plan::Script(_) => StepOutcome::Script(ScriptOutcome::NotStarted { error }),
            Plan::Prompt(_) => StepOutcome::Turn(TurnOutcome::Failed(FailedTurn {
                error,
                class: FaultClass::Final,
                cost: TurnCost::default(),
                session: None,
                exit_code: None,
                message: None,
            })),
        };
        Self { duration_ms: 0, outcome, lookups: Lookups::default(), said: Vec::new(), backends: None }
    }

    /// An attempt that this machine cannot begin, because it lacks the program of the chosen backend and the state's list has
    /// others. Nothing if it can be begun. A backend that is the only one is started in any case, and says what it lacks.
    pub fn not_installed(plan: &Plan, backends: &[String], machine: &str) -> Option<Self> {
        let Plan::Prompt(prompt) = plan else { return None };
        if prompt.fallbacks.is_empty() || backends.contains(&prompt.backend) {
            return None;
        }
        let is_any_there = prompt.fallbacks.iter().any(|name| backends.contains(name));
        let others = prompt.fallbacks.iter().filter(|_| !is_any_there);
        let missing: Vec<String> = std::iter::once(&prompt.backend).chain(others).cloned().collect();
        let mut report = Self::not_started(plan, not_on(machine, &missing));
        if let StepOutcome::Turn(TurnOutcome::Failed(turn)) = &mut report.outcome {
            turn.class = FaultClass::NotInstalled;
        }
        report.backends = Some(backends.to_vec());
        Some(report)
    }

    /// An attempt that has ended and whose report cannot be sent. What it cost counts all the same.
    pub fn not_sent(plan: &Plan, error: String, report: &Self) -> Self {
        let mut short = Self { duration_ms: report.duration_ms, ..Self::not_started(plan, error) };
        if let (StepOutcome::Turn(TurnOutcome::Failed(turn)), StepOutcome::Turn(done)) =
            (&mut short.outcome, &report.outcome)
        {
            turn.cost = match done {
                TurnOutcome::Completed(done) => done.cost,
                TurnOutcome::Failed(done) => done.cost,
            };
        }
        short
    }

    /// Does not say where the whole output is: it is not kept.
    pub fn forget_output_file(&mut self) {
        self.map_output_file(|_| None);
    }

    fn map_output_file(&mut self, map: impl FnOnce(&str) -> Option<String>) {
        let file = match &mut self.outcome {
            StepOutcome::Turn(TurnOutcome::Completed(turn)) => &mut turn.file,
            StepOutcome::Script(ScriptOutcome::Exited { shown, .. }) => &mut shown.file,
            StepOutcome::Turn(TurnOutcome::Failed(_))
            | StepOutcome::Script(_)
            | StepOutcome::Interrupted { .. } => return,
        };
        *file = file.as_deref().and_then(map);
    }

    /// Takes out the texts that are longer than this, by their hashes, and leaves references to them.
    pub fn take_texts(&mut self, longest: usize) -> Result<BTreeMap<String, String>, StoreError> {
        if let StepOutcome::Turn(TurnOutcome::Completed(turn)) = &mut self.outcome
            && let Some(message) = turn.message.text().filter(|text| text.len() > longest)
        {
            turn.last_lines = Some(ShownOutput::of_message(message, None).last_lines);
        }
        let prints = self.said.iter_mut().filter_map(|said| match said {
            Said::Print(text) => Some(text),
            Said::Warning(_) | Said::Session(_) => None,
        });
        let mut taken = BTreeMap::new();
        for payload in self.outcome.payloads_mut().into_iter().chain(prints) {
            if let Some(text) = payload.text().filter(|text| text.len() > longest) {
                let (reference, text) = (reference_to(text)?, text.to_owned());
                if let Payload::Stored { payload: hash, .. } = &reference {
                    taken.insert(hash.clone(), text);
                }
                *payload = reference;
            }
        }
        Ok(taken)
    }

    /// The conversation as the attempt left it.
    pub fn session(&self) -> Option<&Session> {
        match &self.outcome {
            StepOutcome::Turn(TurnOutcome::Completed(turn)) => turn.session.as_ref(),
            StepOutcome::Turn(TurnOutcome::Failed(turn)) => turn.session.as_ref(),
            StepOutcome::Script(_) | StepOutcome::Interrupted { .. } => None,
        }
    }
}

/// Where the paths of a run are found on this machine.
#[derive(Clone, Debug)]
pub struct Roots {
    /// Holds a copy of the workflows.
    pub workflows: PathBuf,
    /// Holds the folders of one agent.
    pub folder: PathBuf,
}

impl Roots {
    /// The place of one of the agent's folders.
    pub fn folder_of(&self, path: &str) -> PathBuf {
        below(&self.folder, path)
    }

    fn workflow_of(&self, path: &str) -> PathBuf {
        below(&self.workflows, path)
    }

    /// The agent as this machine sees it.
    fn enter(&self, agent: &mut Agent) {
        let folder = |path: &mut String| *path = as_text(&self.folder_of(path));
        let workflow = |path: &mut String| *path = as_text(&self.workflow_of(path));
        let session = |session: &mut Option<Session>| {
            session.as_mut().and_then(|session| session.cwd.as_mut()).map(folder).unwrap_or_default();
        };
        let visits = agent.visits_here();
        folder(&mut agent.cwd);
        agent.scope.as_mut().map(workflow).unwrap_or_default();
        // States are counted by the paths of their workflows.
        agent.visits.insert(agent.place(), visits);
        session(&mut agent.session);
        if let Some(worktree) = &mut agent.worktree {
            folder(&mut worktree.path);
            folder(&mut worktree.repository);
        }
        for frame in &mut agent.stack {
            folder(&mut frame.cwd);
            frame.scope.as_mut().map(workflow).unwrap_or_default();
            session(&mut frame.session);
        }
    }

    /// A path, or a text with paths, without the roots.
    fn leave(&self, text: &mut String) {
        for root in [&self.workflows, &self.folder] {
            // Messages name files relative to the folder in which the worker was started.
            for root in [root.as_path(), shown(root)] {
                if let Some(root) = root.to_str().filter(|root| !root.is_empty() && text.contains(root)) {
                    *text = text.replace(root, "");
                }
            }
        }
    }

    /// The report as the run sees it.
    fn report(&self, mut report: StepReport) -> StepReport {
        let Lookups { states, directories, scopes, files, snapshot, worktrees, .. } = &mut report.lookups;
        states.values_mut().filter_map(|state| state.as_mut().err()).for_each(|error| self.leave(error));
        files.values_mut().filter_map(|file| file.as_mut().err()).for_each(|error| self.leave(error));
        for found in directories.values_mut() {
            match found {
                Ok(folder) => {
                    self.leave(&mut folder.path);
                    folder.outside.iter_mut().for_each(|why| self.leave(why));
                }
                Err(error) => self.leave(error),
            }
        }
        for found in scopes.values_mut() {
            match found {
                Ok(entry) => self.leave_entry(entry),
                Err(error) => self.leave(error),
            }
        }
        for found in worktrees.values_mut() {
            match found {
                Ok(new) => {
                    let Worktree { path, repository, .. } = &mut new.worktree;
                    [path, repository, &mut new.cwd].into_iter().for_each(|path| self.leave(path));
                }
                Err(error) => self.leave(error),
            }
        }
        if let Some(snapshot) = snapshot {
            self.leave(&mut snapshot.folder);
            self.leave(&mut snapshot.repository);
        }
        let session = match &mut report.outcome {
            StepOutcome::Turn(TurnOutcome::Completed(turn)) => turn.session.as_mut(),
            StepOutcome::Turn(TurnOutcome::Failed(turn)) => turn.session.as_mut(),
            StepOutcome::Script(_) | StepOutcome::Interrupted { .. } => None,
        };
        session.and_then(|session| session.cwd.as_mut()).into_iter().for_each(|cwd| self.leave(cwd));
        report
    }

    fn leave_entry(&self, entry: &mut ScopeEntry) {
        self.leave(&mut entry.scope);
        if let Some(Ok(text) | Err(text)) = &mut entry.directory {
            self.leave(text);
        }
    }
}

fn below(root: &Path, path: &str) -> PathBuf {
    root.join(path.trim_start_matches('/'))
}

fn as_text(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}

/// The steps of one run on this machine.
pub struct HostedRun {
    steps: Rc<RefCell<LocalSteps>>,
    waiting: Rc<RefCell<BTreeMap<String, Waiting>>>,
    backends: Backends,
    debug: DebugFolder,
    /// The variables that every program inherits.
    secrets: Secrets,
    scratch: PathBuf,
    reaper: Reaper,
}

/// An attempt that runs.
struct Waiting {
    order: StepOrder,
    /// The agent as this machine sees it.
    agent: Agent,
    scopes: Rc<RefCell<Scopes>>,
    roots: Roots,
    debug: DebugFolder,
    secrets: Secrets,
    said: Vec<Said>,
    shortage: Option<String>,
    report: oneshot::Sender<Done>,
}

/// The end of an attempt.
#[derive(Debug)]
pub struct Done {
    pub report: StepReport,
    /// The files that it has left, with paths of this machine.
    pub files: Option<FilesSnapshot>,
    /// Its debug files, if it has left some.
    pub debug: Option<LeftFiles>,
    /// Why it was interrupted: this machine could not start its program, now or when it wanted to go on.
    pub shortage: Option<String>,
}

impl HostedRun {
    /// `scratch` is a folder of this run alone. Must be called on a `LocalSet`.
    /// `grace` is how long programs that are told to end may take to do so. Without `takes_snapshots` the files that steps
    /// leave are not told, and git is not started for them. Without a folder for them there are no debug files.
    pub fn open(
        id: &str,
        scratch: &Path,
        backends: Backends,
        grace: Duration,
        takes_snapshots: bool,
        debug: Option<PathBuf>,
    ) -> io::Result<Self> {
        crate::files::create_private_folders(scratch)?;
        let (sender, messages) = mailbox();
        let mut reaper = Reaper::with_grace(grace)?;
        reaper.contain(id, scratch);
        let snapshots = || {
            let indexes = scratch.join(format!("{INDEXES}{}", std::process::id()));
            Arc::new(Snapshots::new(id, indexes, scratch.to_owned(), &BTreeMap::new()))
        };
        let debug = debug.map_or_else(DebugFolder::off, |path| DebugFolder::open(path, DEFAULT_KEPT_STEPS));
        let secrets = Secrets::of(std::env::vars_os());
        let executor = LocalExecutor {
            began: SystemTime::now(),
            platform: Platform::current(),
            unpacked: Unpacked::new(scratch.to_owned()),
            groups: Groups::new(scratch),
            scratch: scratch.to_owned(),
            reaper,
            debug: debug.clone(),
            secrets: secrets.clone(),
            backends: backends.clone(),
            messages: sender,
            shows_output: false,
            own_program: OwnProgram::find(),
            running_groups: RefCell::default(),
            cgroups: RefCell::default(),
            gate: Gate::for_files(file_limit()).with_other_hosts(),
            recorder: None,
            snapshots: takes_snapshots.then(snapshots),
            busy_folders: RefCell::default(),
            view: None,
        };
        let hosted = Self {
            steps: Rc::new(RefCell::new(LocalSteps::new(executor))),
            waiting: Rc::default(),
            backends,
            debug,
            secrets,
            scratch: scratch.to_owned(),
            reaper: Reaper::with_grace(grace)?,
        };
        let (steps, waiting) = (Rc::clone(&hosted.steps), Rc::clone(&hosted.waiting));
        tokio::task::spawn_local(pass_on(messages, steps, waiting));
        Ok(hosted)
    }

    /// Starts an attempt. Its agent's folder must be there.
    pub fn start(&self, order: StepOrder, roots: &Roots) -> oneshot::Receiver<Done> {
        let (report, done) = oneshot::channel();
        match self.prepare(&order, roots) {
            Ok((agent, scopes, needs)) => {
                let secrets = self.secrets.joined(&needs.secrets);
                let launch = StepLaunch {
                    started: order.started.clone(),
                    agent: agent.clone(),
                    plan: order.plan.clone(),
                    job: needs,
                };
                let job = StepJob::new(&order.run.nonce, IDENTITY, launch);
                let key = agent.id.to_string();
                let (roots, debug) = (roots.clone(), self.debug.clone());
                let (said, shortage) = (Vec::new(), None);
                let waiting = Waiting { order, agent, scopes, roots, debug, secrets, said, shortage, report };
                self.waiting.borrow_mut().insert(key, waiting);
                self.steps.borrow_mut().start(job);
            }
            Err(mut error) => {
                roots.leave(&mut error);
                let failed = StepReport::not_started(&order.plan, error);
                let _ = report.send(Done { report: failed, files: None, debug: None, shortage: None });
            }
        }
        done
    }

    /// Ends the attempt of an agent, which then reports that it was interrupted.
    pub fn cancel(&self, order: &StepOrder) {
        self.steps.borrow().cancel(&order.agent.id);
    }

    /// Ends what an earlier process of this machine has left of an attempt. Returns the processes that could not be ended.
    pub async fn end_leftovers(&self, order: &StepOrder) -> Vec<i32> {
        self.reaper.end(left_behind(&self.scratch, vec![order.token()])).await
    }

    /// The debug files of an attempt that an earlier process of this machine has begun.
    pub fn debug_left_by(&self, order: &StepOrder) -> Option<LeftFiles> {
        let secrets = self.secrets.joined(&Secrets::of(&order.agent.attributes));
        left_files(&self.debug, order, secrets, Vec::new())
    }

    /// The agent program's own record of a conversation, if it can be copied.
    pub fn conversation(&self, session: &Session, cwd: &str, roots: &Roots) -> io::Result<Option<Vec<u8>>> {
        self.with_place(session, cwd, roots, |program, place| export(program, place)).unwrap_or(Ok(None))
    }

    /// Puts a conversation where the agent program finds it.
    pub fn bring_conversation(
        &self,
        session: &Session,
        cwd: &str,
        roots: &Roots,
        bytes: &[u8],
    ) -> io::Result<bool> {
        let bring = |program: &dyn AgentProgram, place: &SessionPlace<'_>| import(program, place, bytes);
        self.with_place(session, cwd, roots, bring).unwrap_or(Ok(false))
    }

    /// `cwd` is the agent's folder, which counts unless the session names another one.
    fn with_place<T>(
        &self,
        session: &Session,
        cwd: &str,
        roots: &Roots,
        act: impl FnOnce(&dyn AgentProgram, &SessionPlace<'_>) -> T,
    ) -> Option<T> {
        let program = self.backends.get(session.backend.as_deref().unwrap_or(DEFAULT_BACKEND)).ok()?;
        let cwd = roots.folder_of(session.cwd.as_deref().unwrap_or(cwd));
        let variable = |name: &str| -> Option<OsString> { std::env::var_os(name) };
        Some(act(&**program, &SessionPlace { session: &session.id, cwd: &cwd, variable: &variable }))
    }

    fn prepare(
        &self,
        order: &StepOrder,
        roots: &Roots,
    ) -> Result<(Agent, Rc<RefCell<Scopes>>, StepNeeds), String> {
        let mut agent = order.agent.clone();
        roots.enter(&mut agent);
        stay_with_backend(&mut agent, &order.plan);
        let scopes = Rc::new(RefCell::new(scopes_of(order, roots)?));
        let mut preparer = Preparer {
            scopes: Rc::clone(&scopes),
            options: order.run.options.clone(),
            payloads: Payloads::new(Handed(order.payloads.clone())),
            backends: self.backends.clone(),
            tasks: roots.folder.join(TASKS),
            project: roots.folder_of(&order.project),
            keeps_portable: false,
        };
        let run = run_of(order).ok_or("the order does not begin with a run")?;
        let (prepared, needs) =
            preparer.prepare(&run, &agent).map_err(|error| error.to_string()).and_then(|ready| ready)?;
        if let (Plan::Prompt(here), Plan::Prompt(chosen)) = (&prepared.plan, &order.plan)
            && here.backend != chosen.backend
        {
            return Err(format!("the program of the backend `{}` is not on this machine", chosen.backend));
        }
        Ok((agent, scopes, needs))
    }
}

/// The debug files of an attempt, if the run keeps them.
fn left_files(
    debug: &DebugFolder,
    order: &StepOrder,
    secrets: Secrets,
    roots: Vec<PathBuf>,
) -> Option<LeftFiles> {
    let left = debug.left_by(order.attempt())?.without(secrets, roots);
    // The run has got this option after its first step here.
    if order.run.options.no_debug {
        left.remove();
        return None;
    }
    Some(left)
}

/// What is left of attempts, as it is found without the process that has started them. `scratch` is the folder that
/// their run was opened with, and the tokens are those of their orders.
pub fn left_behind(scratch: &Path, tokens: Vec<String>) -> Vec<Target> {
    leftovers(scratch, tokens).into_iter().map(|left| left.target).collect()
}

/// The backend was chosen, and is recorded. A program that was installed since does not change it.
fn stay_with_backend(agent: &mut Agent, plan: &Plan) {
    if let (Plan::Prompt(prompt), Status::Running { work, .. }) = (plan, &mut agent.status) {
        work.fallback = Some(prompt.backend.clone());
    }
}

/// What preparing a step needs of its run.
fn run_of(order: &StepOrder) -> Option<Run> {
    let body = Body::RunStarted(order.run.clone());
    let event = Event { seq: 1, time: Timestamp::UNIX_EPOCH, run: order.id.clone(), body };
    evolve::evolve(None, &event)
}

fn scopes_of(order: &StepOrder, roots: &Roots) -> Result<Scopes, String> {
    let own = Scope::open(&roots.workflow_of(&order.run.scope), Platform::current())
        .map_err(|error| error.message)?;
    let listed = |paths: &[String], root: &Path| -> Vec<String> {
        paths.iter().map(|path| as_text(&below(root, path))).collect()
    };
    let allowed = Allowed::new(
        &own,
        &roots.workflow_of(&order.project),
        &listed(&order.workflow_paths, &roots.workflows),
    );
    let cwd = roots.folder_of(&order.run.cwd);
    let reach =
        Reach::new(&roots.folder_of(&order.project), &[&cwd], &listed(&order.cd_paths, &roots.folder));
    let scopes = Scopes::new(own, Platform::current(), allowed).within(reach).below(&roots.workflows);
    Ok(scopes.with_worktrees(worktrees_of(order, roots)))
}

/// The worktree of the order's agent, and those that it asks for. An agent has at most one of its own in its folders.
pub fn worktrees_of(order: &StepOrder, roots: &Roots) -> Worktrees {
    let folder = roots.folder_of(&order.project).join(".raymond/worktrees").join(&order.id);
    Worktrees::new(folder, &order.id)
}

/// Passes on what the steps say, until the run's steps are dropped.
async fn pass_on(
    mut messages: Receiver,
    steps: Rc<RefCell<LocalSteps>>,
    waiting: Rc<RefCell<BTreeMap<String, Waiting>>>,
) {
    let (mut trouble, mut warnings) = (None, Vec::new());
    while let Some(message) = messages.recv().await {
        let mut waiting = waiting.borrow_mut();
        let mut say = |agent: &str, said| {
            if let Some(waiting) = waiting.get_mut(agent) {
                waiting.said.push(said);
            }
        };
        match message {
            Message::Input(Input::Ended(ended)) => {
                let Some(mut done) = waiting.remove(ended.agent.as_str()) else { continue };
                done.said.extend(warnings.drain(..).map(Said::Warning));
                let end = if ended.outcome.has_succeeded() { RecordedEnd::Kept } else { RecordedEnd::Failed };
                steps.borrow_mut().recorded(&ended.agent, end);
                done.finish(*ended, trouble.take());
            }
            Message::Input(Input::Print { agent, text, .. }) => say(agent.as_str(), Said::Print(text)),
            Message::Input(Input::SessionKnown { agent, session, .. }) => {
                say(agent.as_str(), Said::Session(session));
            }
            Message::Input(Input::Warning { agent: Some(agent), message }) => {
                say(agent.as_str(), Said::Warning(message));
            }
            // It comes just before the end of the step that has met it. Others that are about no agent are about snapshots,
            // which are taken here even if the run did not ask for any.
            Message::Input(Input::Warning { agent: None, message }) if message.ends_with(NO_MORE_FILES) => {
                warnings.push(message);
            }
            Message::Trouble(error) => trouble = Some(error),
            Message::Shortage { agent, error } => {
                if let Some(waiting) = waiting.get_mut(agent.as_str()) {
                    waiting.shortage = Some(error);
                }
                steps.borrow().cancel(&agent);
            }
            Message::Input(_) | Message::Output { .. } => {}
        }
    }
}

impl Waiting {
    /// Looks up the names in the output, and reports.
    fn finish(self, mut ended: Ended, trouble: Option<String>) {
        let files = ended.lookups.snapshot.take();
        let mut report = match trouble {
            Some(error) => StepReport::not_started(&ended.plan, error),
            None => {
                let mut lookups = lookups::of_ended(&mut self.scopes.borrow_mut(), &self.agent, &ended);
                self.explain_missing(&mut lookups.scopes);
                lookups.snapshot = files.clone().filter(|_| self.order.run.options.snapshots);
                let Ended { duration_ms, outcome, .. } = ended;
                StepReport { duration_ms, outcome, lookups, said: Vec::new(), backends: None }
            }
        };
        report.said = self.said;
        let mut report = self.roots.report(report);
        let roots = vec![self.roots.workflows, self.roots.folder];
        let debug = left_files(&self.debug, &self.order, self.secrets, roots);
        report.map_output_file(|file| self.order.place_of(file).filter(|_| debug.is_some()));
        let (files, shortage) = (files.map(|files| *files), self.shortage);
        let _ = self.report.send(Done { report, files, debug, shortage });
    }

    /// Says why a workflow may be missing here although it is there where the run was started.
    fn explain_missing(&self, found: &mut BTreeMap<String, Result<ScopeEntry, String>>) {
        let mut scopes = self.scopes.borrow_mut();
        for (written, found) in found {
            if let Err(error) = found
                && !scopes.is_there(&self.agent, written)
            {
                *error = format!("{error}; {ONLY_NAMED}");
            }
        }
    }
}

/// The long texts that came with an order.
#[derive(Debug)]
struct Handed(BTreeMap<String, String>);

impl PayloadSource for Handed {
    fn get(&self, hash: &str) -> Result<String, StoreError> {
        self.0.get(hash).cloned().ok_or(StoreError::NotAHash)
    }
}

#[cfg(test)]
mod tests;
