//! Runs steps in this process: the local executor.

mod gate;
mod groups;
mod interpreter;
mod own_program;
mod prompt;
mod runnable;
mod script;
mod snapshot;
#[cfg(test)]
mod tests;
mod unpacked;
mod worktree;

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use raymond_core::input::{Ended, Input, Lookups, Plan, ScriptOutcome, StepOutcome, TurnOutcome};
use raymond_core::money::Usd;
use raymond_core::name::AgentId;
use raymond_core::workflow::Platform;

use crate::files;
use tokio::task::JoinSet;

pub use gate::Gate;
pub use groups::{Groups, leftovers, traces};
pub use own_program::OwnProgram;
pub use unpacked::Unpacked;

use gate::{Advice, Place};
use runnable::Runnable;

use super::executor::{Executor, RecordedEnd};
use super::job::{Attempt, StepJob};
use super::mailbox::{Message, Sender, Trouble};
use crate::agent::registry::Backends;
use crate::git::snapshots::Snapshots;
use crate::process::secrets::Secrets;
use crate::process::{Cgroup, Reaper, SpawnError, Started, StopSignal, Target, Trace};
use crate::view::debug::{DebugFolder, Status, StepName, Verdict};
use crate::view::recorder::Recorder;
use crate::view::{LiveView, Stream};

/// What is needed to run any step here.
pub struct LocalExecutor {
    pub platform: Platform,
    /// The folder for files of steps that are not part of the run.
    pub scratch: PathBuf,
    /// When this process began to run steps. All programs of earlier processes were ended before.
    pub began: SystemTime,
    pub unpacked: Unpacked,
    pub groups: Groups,
    pub reaper: Reaper,
    pub debug: DebugFolder,
    /// The variables that every program inherits.
    pub secrets: Secrets,
    pub backends: Backends,
    pub messages: Sender,
    /// Whether all output is shown.
    pub shows_output: bool,
    /// Where steps find Raymond itself; absent if that is not known.
    pub own_program: Option<OwnProgram>,
    /// The process groups of the programs that run now.
    pub running_groups: RefCell<BTreeMap<AgentId, i32>>,
    /// The cgroups of attempts whose end is not recorded.
    pub cgroups: RefCell<BTreeMap<AgentId, Arc<Cgroup>>>,
    /// How many steps this host can carry at once.
    pub gate: Gate,
    /// Writes finished turns to a recording, if there is one.
    pub recorder: Option<Recorder>,
    /// Keeps the files that steps leave, if the run takes snapshots.
    pub snapshots: Option<Arc<Snapshots>>,
    /// The worktrees in which steps run now, if the run takes snapshots.
    pub busy_folders: RefCell<BTreeMap<AgentId, PathBuf>>,
    /// The live view, which shows only the end of the output.
    pub view: Option<LiveView>,
}

/// Runs steps as tasks of this process.
pub struct LocalSteps {
    executor: Rc<LocalExecutor>,
    running: Rc<RefCell<BTreeMap<AgentId, StopSignal>>>,
    /// The token of each attempt that has started and whose end is not recorded.
    unrecorded: BTreeMap<AgentId, String>,
    /// Failed attempts whose remaining processes are being ended.
    cleaning: JoinSet<()>,
}

impl LocalSteps {
    pub fn new(executor: LocalExecutor) -> Self {
        Self {
            executor: Rc::new(executor),
            running: Rc::default(),
            unrecorded: BTreeMap::new(),
            cleaning: JoinSet::new(),
        }
    }
}

impl Drop for LocalSteps {
    /// Processes that failed attempts have left are ended all the same.
    fn drop(&mut self) {
        self.cleaning.detach_all();
    }
}

impl Executor for LocalSteps {
    fn start(&mut self, job: StepJob) {
        let agent = job.attempt.agent.clone();
        let stop = StopSignal::new();
        self.unrecorded.insert(agent.clone(), job.attempt.token.clone());
        self.running.borrow_mut().insert(agent.clone(), stop.clone());
        let (executor, running) = (Rc::clone(&self.executor), Rc::clone(&self.running));
        tokio::task::spawn_local(async move {
            let ended = executor.run(job, stop).await;
            running.borrow_mut().remove(&agent);
            executor.send(Message::Input(Input::Ended(Box::new(ended))));
        });
    }

    fn cancel(&self, agent: &AgentId) {
        if let Some(stop) = self.running.borrow().get(agent) {
            stop.trigger();
        }
    }

    fn announce_stop(&self) {
        self.running.borrow().values().for_each(StopSignal::announce);
    }

    fn recorded(&mut self, agent: &AgentId, end: RecordedEnd) {
        self.executor.groups.forget(agent);
        let token = self.unrecorded.remove(agent);
        let cgroup = self.executor.cgroups.borrow_mut().remove(agent);
        // A step that exited with 0 and still failed may have left processes behind.
        if let (RecordedEnd::Failed, Some(token)) = (end, token) {
            let executor = Rc::clone(&self.executor);
            let target = Target { cgroup, ..Target::by_token(token) };
            self.cleaning.spawn_local(async move {
                executor.reaper.end(vec![target]).await;
            });
        }
    }

    fn suspend(&self) {
        let groups: Vec<i32> = self.executor.running_groups.borrow().values().copied().collect();
        crate::process::suspend(&groups);
    }

    fn is_busy(&self) -> bool {
        !self.running.borrow().is_empty()
    }

    async fn settle(&mut self) {
        while self.cleaning.join_next().await.is_some() {}
    }
}

impl LocalExecutor {
    /// Runs an attempt to its end.
    async fn run(&self, job: StepJob, stop: StopSignal) -> Ended {
        let mut clock = tokio::time::Instant::now();
        let outcome = match self.gate.enter(&stop).await {
            Some(place) => {
                clock = tokio::time::Instant::now();
                self.run_in(&place, &job, stop).await
            }
            None => StepOutcome::Interrupted { cost: Usd::ZERO },
        };
        let duration_ms = u64::try_from(clock.elapsed().as_millis()).unwrap_or(u64::MAX);
        let snapshot = snapshot::after(self, &job, &outcome).await;
        let unrecorded = self.recorder.as_ref().and_then(Recorder::take_warning);
        for message in self.debug.take_warning().into_iter().chain(unrecorded) {
            self.send(Message::Input(Input::Warning { agent: None, message }));
        }
        Ended {
            agent: job.attempt.agent,
            step: job.attempt.step,
            attempt: job.attempt.number,
            duration_ms,
            plan: job.plan,
            outcome,
            lookups: Lookups { snapshot: snapshot.map(Box::new), ..Lookups::default() },
        }
    }

    async fn run_in(&self, place: &Place<'_>, job: &StepJob, stop: StopSignal) -> StepOutcome {
        let Attempt { agent, state, step, number, .. } = &job.attempt;
        let mut files = self.debug.begin(StepName { agent, state, step: *step, attempt: *number });
        files.hide(&job.needs.secrets);
        if let Err(ended) = worktree::make(self, job, &stop).await {
            files.finish(verdict(&ended));
            return ended;
        }
        snapshot::before(self, job).await;
        let mut outcome = match &job.plan {
            Plan::Script(header) => script::run(self, job, place, header, stop, &mut files).await,
            // Boxed, because a turn is much larger than a script and thousands of scripts may run.
            Plan::Prompt(_) => Box::pin(prompt::run(self, job, place, stop, &mut files)).await,
        };
        self.running_groups.borrow_mut().remove(agent);
        for told in outcome.told_mut() {
            *told = self.without_secrets(job, std::mem::take(told));
        }
        files.finish(verdict(&outcome));
        outcome
    }

    /// The program could not be started. A shortage of the host is not the step's failure, so it is waited for.
    fn start_again_after(&self, job: &StepJob, place: &Place<'_>, error: &SpawnError) -> Option<Duration> {
        if !error.is_shortage() {
            return None;
        }
        match place.shortage() {
            Advice::TryAgain { after, is_first } => {
                if is_first {
                    let message = format!("{error}; fewer steps run at once until that works");
                    self.send(Message::Input(Input::Warning {
                        agent: Some(job.attempt.agent.clone()),
                        message,
                    }));
                }
                Some(after)
            }
            Advice::GiveUp => {
                let (agent, error) =
                    (job.attempt.agent.clone(), format!("{error}, and it does not get better"));
                self.send(Message::Shortage { agent, error });
                // It is cancelled now.
                Some(Duration::MAX)
            }
        }
    }

    fn send(&self, message: Message) {
        self.messages.send(message);
    }

    /// Shows a piece of output, if output is shown.
    fn show(&self, agent: &AgentId, stream: Stream, bytes: &[u8]) {
        if let Some(view) = &self.view {
            view.glimpse(agent, bytes);
        }
        if self.shows_output {
            self.send(Message::Output { agent: agent.clone(), stream, bytes: bytes.to_vec() });
        }
    }

    /// Shows what a running turn has cost so far.
    fn show_spending(&self, agent: &AgentId, so_far: Usd) {
        if let Some(view) = &self.view {
            view.spending(agent, so_far);
        }
    }

    /// A text that may be recorded: without the secrets in the environment of the step's programs.
    fn without_secrets(&self, job: &StepJob, text: String) -> String {
        if text.is_empty() {
            return text;
        }
        self.secrets.joined(&job.needs.secrets).hide(text)
    }

    /// The run ends, and a resume will run this step again.
    fn give_up(&self, trouble: Trouble) -> StepOutcome {
        self.send(Message::Trouble(trouble));
        StepOutcome::Interrupted { cost: Usd::ZERO }
    }

    /// Writes a hint for the next process of this run, so that it finds the processes of this attempt if this process
    /// is killed.
    fn remember(&self, job: &StepJob, Started { trace, cgroup }: Started) {
        let Attempt { agent, token, .. } = &job.attempt;
        if let Some(Trace { group, .. }) = trace {
            self.running_groups.borrow_mut().insert(agent.clone(), group.id);
        }
        self.groups.remember(agent, token, trace, cgroup.as_deref().map(Cgroup::name));
        if let Some(cgroup) = cgroup {
            self.cgroups.borrow_mut().insert(agent.clone(), cgroup);
        }
    }
}

/// Creates the agent's own folder and the file with the script's input.
fn make_folders(job: &StepJob) -> Result<(), NotReady> {
    let folder = &job.needs.task_folder;
    files::create_private_folders(folder)
        .map_err(|error| NotReady::Store(Trouble::new("make", folder, &error)))?;
    let Some(handed) = &job.needs.handed else { return Ok(()) };
    // The previous state may have replaced the file or made it read-only.
    let _ = fs::remove_file(&handed.file);
    files::write_private(&handed.file, handed.text.as_bytes())
        .map_err(|error| NotReady::Store(Trouble::new("write", &handed.file, &error)))
}

/// A job's variables, including the paths that only this host knows: of the file that runs, and of Raymond itself.
fn environment(executor: &LocalExecutor, job: &StepJob, runnable: &Runnable) -> super::job::VariableChanges {
    let mut changes = job.needs.environment.clone();
    if let Some(own) = &executor.own_program {
        let set = changes.iter().rev().find(|(name, _)| name == "PATH").and_then(|(_, value)| value.clone());
        let path = own.behind(set.or_else(|| std::env::var_os("PATH")));
        changes.push(("RAYMOND".into(), Some(own.path.clone().into())));
        changes.push(("PATH".into(), Some(path)));
    }
    changes.push(("RAYMOND_STATE_FILE".into(), Some(runnable.path().into())));
    if let Some(folder) = runnable.workflow_folder() {
        changes.push(("RAYMOND_STATE_DIR".into(), Some(folder.into())));
    }
    // Shells and other programs trust this variable, and inherited it would be Raymond's own folder.
    changes.push(("PWD".into(), Some(job.needs.cwd.clone().into())));
    changes
}

/// The result of an attempt, as far as it is known before the decision.
fn verdict(outcome: &StepOutcome) -> Verdict {
    let failed =
        |error: &str, cost_usd| Verdict { status: Status::Failed, error: Some(error.to_owned()), cost_usd };
    match outcome {
        StepOutcome::Interrupted { cost } => {
            Verdict { status: Status::Interrupted, error: None, cost_usd: *cost }
        }
        StepOutcome::Script(ScriptOutcome::Exited { exit, reading, .. }) => match reading {
            _ if !exit.is_success() => failed(&exit.to_string(), Usd::ZERO),
            Ok(_) => Verdict { status: Status::Succeeded, error: None, cost_usd: Usd::ZERO },
            Err(error) => failed(error, Usd::ZERO),
        },
        StepOutcome::Script(ScriptOutcome::TimedOut { .. }) => failed("timed out", Usd::ZERO),
        StepOutcome::Script(ScriptOutcome::BadOutput { error, .. } | ScriptOutcome::NotStarted { error }) => {
            failed(error, Usd::ZERO)
        }
        StepOutcome::Turn(TurnOutcome::Failed(turn)) => failed(&turn.error, turn.cost.usd()),
        StepOutcome::Turn(TurnOutcome::Completed(turn)) => match &turn.reading {
            Err(message) if !message.has_no_tag => failed(&message.problem, turn.cost.usd()),
            _ => Verdict { status: Status::Succeeded, error: None, cost_usd: turn.cost.usd() },
        },
    }
}

/// Why a step's program is not started.
enum NotReady {
    /// The step fails.
    Step(String),
    /// Raymond's own files cannot be read or written. A workflow could not handle that, so the run ends.
    Store(Trouble),
}

impl From<String> for NotReady {
    fn from(error: String) -> Self {
        Self::Step(error)
    }
}
