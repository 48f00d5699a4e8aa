//! Steps of runs that are decided elsewhere: this machine carries out single attempts and says how each ended.
//!
//! The paths of such a run are those of the machine on which it was started. Here each of them lies below one of two
//! folders ([`Roots`]): one with a copy of the workflows, and one that belongs to the agent alone. A path is put below its
//! root on the way in, and the root is taken off on the way out.

mod conversation;
mod order;
mod report;
mod roots;

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::error::Error;
use std::io;
use std::path::{Path, PathBuf};
use std::rc::{Rc, Weak};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use jiff::Timestamp;
use raymond_core::event::{Body, Event};
use raymond_core::evolve;
use raymond_core::input::{Ended, Input, Plan, ScopeEntry};
use raymond_core::run::{Agent, Run, Session, Status};
use raymond_core::workflow::Platform;
use tokio::sync::oneshot;

use super::engine::{States, StepLaunch};
use super::executor::{Executor, RecordedEnd};
use super::job::{StepJob, StepNeeds};
use super::lookups;
use super::mailbox::{Message, Receiver, Trouble, mailbox};
use super::prepare::Preparer;
use super::step::{Gate, Groups, LocalExecutor, LocalSteps, OwnProgram, Unpacked, leftovers};
use crate::agent::DEFAULT_BACKEND;
use crate::agent::registry::Backends;
use crate::files::is_shortage;
use crate::git::GitError;
use crate::git::snapshots::{INDEXES, Snapshots};
use crate::git::worktrees::Worktrees;
use crate::process::secrets::Secrets;
use crate::process::{Reaper, Target, file_limit};
use crate::store::{PayloadSource, Payloads, StoreError};
use crate::view::debug::{DEFAULT_KEPT_STEPS, DebugFolder, LeftFiles};
use crate::workflow::reach::Reach;
use crate::workflow::scope::Scope;
use crate::workflow::scopes::{Allowed, Scopes};
pub use conversation::Conversation;
pub use order::{Branch, StepOrder};
pub use report::{Said, StepReport};
pub use roots::Roots;
use roots::{as_text, below};

/// Distinguishes the processes of such a run from those of a local copy of it.
const IDENTITY: &str = "hosted";

/// Which workflows are on the machines of a run.
const ONLY_NAMED: &str = "on other machines a run has only the workflows that its states name, in a tag or in `allowed_transitions`";

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
    snapshots: Arc<Snapshots>,
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
    /// Its debug files, if it has left some.
    pub debug: Option<LeftFiles>,
    /// Why it was interrupted: this machine could not start its program, now or when it wanted to go on.
    pub shortage: Option<String>,
}

impl HostedRun {
    /// `scratch` is a folder of this run alone. Must be called on a `LocalSet`.
    /// `grace` is how long programs that are told to end may take to do so. Without a folder for them there are no debug
    /// files.
    pub fn open(
        id: &str,
        scratch: &Path,
        backends: Backends,
        grace: Duration,
        debug: Option<PathBuf>,
    ) -> io::Result<Self> {
        crate::files::create_private_folders(scratch)?;
        let (sender, messages) = mailbox();
        let mut reaper = Reaper::with_grace(grace)?;
        reaper.contain(id, scratch);
        let indexes = scratch.join(format!("{INDEXES}{}", std::process::id()));
        let snapshots = Arc::new(Snapshots::new(id, indexes, scratch.to_owned(), None, &BTreeMap::new()));
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
            snapshots: Some(Arc::clone(&snapshots)),
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
            snapshots,
        };
        let (steps, waiting) = (Rc::downgrade(&hosted.steps), Rc::clone(&hosted.waiting));
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
                let _ = report.send(Done { report: failed, debug: None, shortage: None });
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

    /// Whether this is said about the order's agent for the first time.
    pub fn is_news(&self, order: &StepOrder, warning: &str) -> bool {
        self.snapshots.is_news(&format!("{}: {warning}", order.agent.id))
    }

    /// Reads the files of agents. It may be used on any thread.
    pub fn snapshots(&self) -> Arc<Snapshots> {
        Arc::clone(&self.snapshots)
    }

    /// A conversation of an agent, if its backend is known here. `cwd` is the agent's folder, which counts unless the session
    /// names another one.
    pub fn conversation(&self, session: &Session, cwd: &str, roots: &Roots) -> Option<Conversation> {
        let program = self.backends.get(session.backend.as_deref().unwrap_or(DEFAULT_BACKEND)).ok()?.clone();
        let cwd = roots.folder_of(session.cwd.as_deref().unwrap_or(cwd));
        Some(Conversation { program, session: session.id.clone(), cwd })
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
            tasks: roots.tasks(),
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

/// Whether an error, given with its causes, is about this machine. What failed with it may work on another one.
pub fn is_of_this_machine<'e>(causes: impl IntoIterator<Item = &'e (dyn Error + 'static)>) -> bool {
    let is_it = |cause: &(dyn Error + 'static)| {
        cause.downcast_ref::<io::Error>().is_some_and(is_shortage)
            || cause.downcast_ref::<GitError>().is_some_and(GitError::is_shortage)
    };
    causes.into_iter().any(is_it)
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
    Ok(scopes.with_worktrees(worktrees_of(order, roots).of_run_in(&cwd)))
}

/// The worktree of the order's agent, and those that it asks for. An agent has at most one of its own in its folders.
pub fn worktrees_of(order: &StepOrder, roots: &Roots) -> Worktrees {
    let folder = roots.folder_of(&order.project).join(".raymond/worktrees").join(&order.id);
    Worktrees::new(folder, &order.id)
}

/// Passes on what the steps say, until the run's steps are dropped. It must not own them: the channel ends when they do.
async fn pass_on(
    mut messages: Receiver,
    steps: Weak<RefCell<LocalSteps>>,
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
                if let Some(steps) = steps.upgrade() {
                    steps.borrow_mut().recorded(&ended.agent, end);
                }
                done.finish(*ended, trouble.take());
            }
            Message::Input(Input::Print { agent, text, .. }) => say(agent.as_str(), Said::Print(text)),
            Message::Input(Input::SessionKnown { agent, session, .. }) => {
                say(agent.as_str(), Said::Session(session));
            }
            Message::Input(Input::Warning { agent: Some(agent), message })
            | Message::Warning { agent, message } => say(agent.as_str(), Said::Warning(message)),
            // It is about debug files, and is told with the step that ends next.
            Message::Input(Input::Warning { agent: None, message }) => warnings.push(message),
            Message::Trouble(error) => trouble = Some(error),
            Message::Shortage { agent, error } => {
                if let Some(waiting) = waiting.get_mut(agent.as_str()) {
                    waiting.shortage = Some(error);
                }
                if let Some(steps) = steps.upgrade() {
                    steps.borrow().cancel(&agent);
                }
            }
            Message::Input(_) | Message::Output { .. } => {}
        }
    }
}

impl Waiting {
    /// Looks up the names in the output, and reports.
    fn finish(mut self, mut ended: Ended, trouble: Option<Trouble>) {
        let snapshot = ended.lookups.snapshot.take();
        let is_shortage = trouble.as_ref().is_some_and(|trouble| trouble.is_shortage);
        let trouble = trouble.map(|trouble| trouble.error);
        if is_shortage {
            self.shortage.clone_from(&trouble);
        }
        // The step was interrupted by a shortage, and has not failed.
        let mut report = match trouble.filter(|_| !is_shortage) {
            Some(error) => StepReport::not_started(&ended.plan, error),
            None => {
                let mut lookups = lookups::of_ended(&mut self.scopes.borrow_mut(), &self.agent, &ended);
                self.explain_missing(&mut lookups.scopes);
                lookups.snapshot = snapshot;
                let Ended { duration_ms, outcome, .. } = ended;
                StepReport { duration_ms, outcome, lookups, said: Vec::new(), backends: None }
            }
        };
        report.said = self.said;
        for said in &mut report.said {
            if let Said::Warning(warning) = said {
                self.roots.leave(warning);
            }
        }
        let mut report = self.roots.report(report);
        let roots = vec![self.roots.workflows, self.roots.folder];
        let debug = left_files(&self.debug, &self.order, self.secrets, roots);
        report.map_output_file(|file| self.order.place_of(file).filter(|_| debug.is_some()));
        let _ = self.report.send(Done { report, debug, shortage: self.shortage });
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
