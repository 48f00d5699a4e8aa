//! Drives a run: feeds the engine from one channel, publishes what it committed and carries out what it says.

mod inbox;
mod keyboard;
mod signals;
mod terminal;

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use raymond_core::event::{Body, Event};
use raymond_core::input::{Ended, Input};
use raymond_core::run::{Run, RunStatus};

pub use inbox::{ANSWER_MESSAGE, Answer, STOP_MESSAGE, StopRequest, Way};
pub use terminal::Terminal;

use crate::advice;
use crate::error::{ExitKind, UserError};
use crate::run::engine::{Command, Engine, Round};
use crate::run::executor::{Executor, RecordedEnd};
use crate::run::job::{StepJob, StepNeeds};
use crate::run::lookups;
use crate::run::mailbox::{Message, Receiver, Trouble};
use crate::run::prepare::Preparer;
use crate::run::rehearsal::{Clock, Rehearsal};
use crate::run::stop::Stop;
use crate::store::{self, RunWriter, StoreError};
use crate::view::View;
use crate::view::output::Output;
use inbox::{Found, Inbox};
use signals::{Asked, Signals};

/// How much one round takes in, so that a flood of messages cannot keep the first from being committed, and no batch
/// of events gets too long.
const MAX_MESSAGES_PER_ROUND: usize = 1024;
const MAX_BYTES_PER_ROUND: usize = 8 * 1024 * 1024;
/// The clock may be set while Raymond sleeps, so it looks at least this often.
const LONGEST_SLEEP: Duration = Duration::from_secs(30);
/// How long the last lines of a run that is ended may take to be read.
const LAST_WORDS: Duration = Duration::from_secs(2);
/// How often a reader that is far behind is looked at.
const SLOW_READER_POLL: Duration = Duration::from_millis(5);

pub struct Driver<S, E> {
    parts: Parts<S, E>,
    signals: Signals,
    inbox: Inbox,
    /// Messages of the inbox that the next round deals with.
    taken: Vec<String>,
    /// When it was last decided what is due.
    looked_at: Timestamp,
    stopping: Option<Stop>,
    /// Set when the store failed a step.
    trouble: Option<String>,
    /// What the program exits with if a stop ends it.
    stop_exit: ExitKind,
    /// Whether a test has come to the point where nothing can happen any more.
    is_at_end: bool,
}

/// Everything a driver needs.
pub struct Parts<S, E> {
    pub engine: Engine<S>,
    pub preparer: Preparer,
    pub executor: E,
    pub messages: Receiver,
    pub observers: Vec<Box<dyn View>>,
    /// The streams that the observers write to.
    pub outputs: Vec<Output>,
    /// Where questions are asked, if anywhere.
    pub terminal: Option<Terminal>,
    /// Where other processes leave messages for the run.
    pub inbox: Arc<dyn store::Inbox>,
    /// Distinguishes the run from copies of it.
    pub identity: String,
    /// Distinguishes this process from earlier ones on the same run.
    pub incarnation: String,
    pub clock: Clock,
    /// Set if the run is that of a test.
    pub rehearsal: Option<Rehearsal>,
}

impl<S: RunWriter, E: Executor> Driver<S, E> {
    pub fn new(parts: Parts<S, E>) -> Result<Self, UserError> {
        let signals = Signals::listen()
            .map_err(|error| UserError::failed(format!("cannot listen for signals: {error}")))?;
        let inbox = Inbox::new(Arc::clone(&parts.inbox), parts.incarnation.clone());
        Ok(Self {
            looked_at: parts.clock.now(),
            parts,
            signals,
            inbox,
            taken: Vec::new(),
            stopping: None,
            trouble: None,
            stop_exit: ExitKind::Interrupted,
            is_at_end: false,
        })
    }

    pub fn run(&self) -> &Run {
        self.parts.engine.run()
    }

    /// Tells the observers of events that are committed.
    pub fn publish(&mut self, events: &[Event]) {
        for event in events {
            for observer in &mut self.parts.observers {
                observer.event(self.parts.engine.run(), event);
            }
            self.ask_on_terminal(event);
        }
    }

    /// Drives the run until it is over, or as far as this process can take it.
    pub async fn drive(&mut self, opening: Vec<Input>) -> Result<ExitKind, UserError> {
        let mut inputs = opening;
        let mut asks_again = true;
        let found = self.inbox.look();
        self.take_found(found, &mut inputs);
        loop {
            self.looked_at = self.parts.clock.now();
            match self.parts.engine.round(self.looked_at, inputs, &mut self.parts.preparer) {
                Ok(round) => {
                    self.inbox.remove(&std::mem::take(&mut self.taken));
                    if let Some(rehearsal) = &mut self.parts.rehearsal {
                        rehearsal.note(&round.events);
                        rehearsal.kill_if_due(self.parts.engine.run());
                    }
                    let trouble =
                        self.trouble.take().or_else(|| round.trouble.as_ref().map(ToString::to_string));
                    let exit = self.carry_out(round).await;
                    if let Some(error) = trouble {
                        return Err(self.give_up(error).await);
                    }
                    if let Some(exit) = exit {
                        self.parts.executor.settle().await;
                        return Ok(exit);
                    }
                    if std::mem::take(&mut asks_again) {
                        self.ask_again();
                    }
                }
                // The journal itself is gone, so nothing is safe, and the error says how to go on.
                Err(error @ StoreError::JournalGone { .. }) => {
                    self.end_and_wait().await;
                    return Err(UserError::failed(error.to_string()).hint("every step was ended"));
                }
                Err(error) => return Err(self.give_up(error.to_string()).await),
            }
            inputs = self.wait().await;
            if self.run().has_overdue_question(self.parts.clock.now()) {
                // An answer that was given in time may lie in the inbox.
                let found = self.inbox.look();
                self.take_found(found, &mut inputs);
            }
        }
    }

    /// Waits until everything has been written, unless a person is tired of waiting.
    pub async fn flush(&mut self) {
        let patience = if self.stopping == Some(Stop::Now) { LAST_WORDS } else { Duration::MAX };
        self.parts.outputs.iter_mut().for_each(Output::close);
        let drained = async {
            for output in &self.parts.outputs {
                output.drained().await;
            }
        };
        tokio::select! {
            biased;
            () = drained => {}
            _ = self.signals.next() => {}
            () = tokio::time::sleep(patience) => {}
        }
    }

    async fn carry_out(&mut self, round: Round<StepNeeds>) -> Option<ExitKind> {
        for event in &round.events {
            if let Body::AgentFinished { agent, .. } = &event.body {
                self.parts.preparer.clear_away(agent);
            } else if let Body::Joined { workers, .. } = &event.body {
                // Those that failed have ended with the join.
                workers.iter().for_each(|worker| self.parts.preparer.clear_away(worker));
            }
            if let Some(agent) = event.body.ended_attempt_of() {
                let failed = matches!(event.body, Body::StepFailed(_));
                let end = if failed { RecordedEnd::Failed } else { RecordedEnd::Kept };
                self.parts.executor.recorded(agent, end);
            }
        }
        let mut is_over = false;
        for command in round.commands {
            match command {
                Command::Launch(launch) => {
                    let job = StepJob::new(&self.parts.engine.run().nonce, &self.parts.identity, *launch);
                    tracing::debug!(attempt = %job.attempt, "start");
                    self.parts.executor.start(job);
                }
                Command::EndScripts => self.end_scripts(),
                Command::Finish => is_over = true,
            }
        }
        // The programs start here; what is told about them is put into words while they run.
        tokio::task::yield_now().await;
        self.publish(&round.events);
        is_over.then(|| exit_of(self.run().status, self.stop_exit))
    }

    fn end_scripts(&self) {
        for agent in self.run().running_scripts() {
            self.parts.executor.cancel(agent);
        }
    }

    /// Waits until something happens and takes in all that has.
    async fn wait(&mut self) -> Vec<Input> {
        // After a stop with `--now`, a slow reader does not hold the run up any more.
        let is_reader_behind =
            self.stopping != Some(Stop::Now) && self.parts.outputs.iter().any(Output::is_full);
        let sleep = if is_reader_behind { SLOW_READER_POLL } else { self.sleep() };
        let mut inputs = Vec::new();
        if self.rehearse(&mut inputs) {
            return inputs;
        }
        tokio::select! {
            Some(message) = self.parts.messages.recv(), if !is_reader_behind => {
                self.take_messages(message, &mut inputs);
            }
            asked = self.signals.next() => match asked {
                Asked::ToStop(stop, exit) => self.stop_by_signal(stop, exit),
                Asked::ToSuspend => self.suspend(),
            },
            found = self.inbox.next() => self.take_found(found, &mut inputs),
            () = terminal_closed(self.parts.terminal.as_ref()) => self.stop_waiting_for_answers(),
            () = tokio::time::sleep(sleep) => {}
        }
        inputs
    }

    /// A test does not wait for what is sure to come: questions are answered and time passes at once, as long as
    /// nothing runs. Returns whether there is something to decide about now.
    fn rehearse(&mut self, inputs: &mut Vec<Input>) -> bool {
        if self.parts.rehearsal.is_none() || self.stopping.is_some() || self.parts.executor.is_busy() {
            return false;
        }
        if let Some(message) = self.parts.messages.try_recv() {
            self.take_messages(message, inputs);
            return true;
        }
        let found = self.inbox.look();
        self.take_found(found, inputs);
        let Some(rehearsal) = &mut self.parts.rehearsal else { return false };
        let (run, now) = (self.parts.engine.run(), self.parts.clock.now());
        inputs.extend(rehearsal.answer(run, now).into_iter().map(Input::Answer));
        if !inputs.is_empty() || rehearsal.pass_time(run, &self.parts.clock, self.looked_at) {
            return true;
        }
        // Nothing can happen any more, so the questions that are open stay open.
        self.parts.engine.wait_for_answers(false);
        !std::mem::replace(&mut self.is_at_end, true)
    }

    fn sleep(&self) -> Duration {
        let until_wake = self.run().next_wake(self.looked_at).map(|time| {
            Duration::try_from(time.duration_since(self.parts.clock.now())).unwrap_or_default()
                + Duration::from_millis(1)
        });
        until_wake.map_or(LONGEST_SLEEP, |wait| wait.min(LONGEST_SLEEP))
    }

    fn take_messages(&mut self, first: Message, inputs: &mut Vec<Input>) {
        let mut bytes = first.weight();
        self.take_message(first, inputs);
        for _ in 1..MAX_MESSAGES_PER_ROUND {
            if bytes > MAX_BYTES_PER_ROUND {
                return;
            }
            let Some(message) = self.parts.messages.try_recv() else { return };
            bytes += message.weight();
            self.take_message(message, inputs);
        }
    }

    fn take_message(&mut self, message: Message, inputs: &mut Vec<Input>) {
        match message {
            Message::Input(Input::Ended(mut ended)) => {
                tracing::debug!(agent = %ended.agent, step = ended.step, attempt = ended.attempt, outcome = ended.outcome.name(), ms = ended.duration_ms, "ended");
                self.look_up(&mut ended);
                inputs.push(Input::Ended(ended));
            }
            Message::Input(input) => inputs.push(input),
            Message::Warning { message, .. } => inputs.push(Input::Warning { agent: None, message }),
            Message::Trouble(Trouble { error, .. }) | Message::Shortage { error, .. } => {
                // What other steps report in this round is still recorded; nothing new starts.
                self.parts.engine.drain();
                self.trouble.get_or_insert(error);
            }
            Message::Output { .. } if self.stopping == Some(Stop::Now) => {}
            Message::Output { agent, stream, bytes } => {
                for observer in &mut self.parts.observers {
                    observer.output(&agent, stream, &bytes);
                }
            }
        }
    }

    /// What the names in a step's output stand for is found here, where the workflows are.
    fn look_up(&mut self, ended: &mut Ended) {
        if let Some(agent) = self.parts.engine.run().agents.get(&ended.agent) {
            let snapshot = ended.lookups.snapshot.take();
            ended.lookups = lookups::of_ended(&mut self.parts.preparer.scopes.borrow_mut(), agent, ended);
            ended.lookups.snapshot = snapshot;
        }
    }

    fn take_found(&mut self, found: Found, inputs: &mut Vec<Input>) {
        self.taken.extend(found.names);
        inputs.extend(found.answers.into_iter().map(|answer| Input::Answer(answer.into())));
        if let Some(stop) = found.stop {
            self.stop(stop, if stop == Stop::Now { ExitKind::Terminated } else { ExitKind::Interrupted });
        }
    }

    fn stop_waiting_for_answers(&mut self) {
        self.parts.engine.wait_for_answers(false);
        self.stop_asking();
    }

    fn stop_asking(&mut self) {
        if let Some(terminal) = &mut self.parts.terminal {
            terminal.stop_asking();
        }
    }

    fn ask_on_terminal(&mut self, event: &Event) {
        if let Some(terminal) = &mut self.parts.terminal {
            terminal.event(event);
        }
    }

    /// Questions that an earlier process opened are asked again, after the first round: what answers them may have
    /// come meanwhile, and that the run goes on is said before.
    fn ask_again(&mut self) {
        if let Some(terminal) = &mut self.parts.terminal {
            terminal.ask_again(self.parts.engine.run());
        }
    }

    /// Ctrl-Z. The steps are suspended, too, and their time limits stand still.
    fn suspend(&mut self) {
        tracing::debug!(steps = self.run().running(), "suspend");
        self.parts.executor.suspend();
        tracing::debug!("continued");
    }

    /// A second Ctrl-C means it.
    fn stop_by_signal(&mut self, stop: Stop, exit: ExitKind) {
        self.parts.executor.announce_stop();
        let stop = if self.stopping.is_some() { Stop::Now } else { stop };
        self.stop(stop, exit);
    }

    fn stop(&mut self, stop: Stop, exit: ExitKind) {
        if self.stopping >= Some(stop) {
            return;
        }
        tracing::debug!(?stop, "asked to stop");
        self.stopping = Some(stop);
        self.stop_exit = exit;
        self.parts.engine.drain();
        if exit == ExitKind::Terminated {
            self.parts.engine.terminated();
        }
        self.stop_asking();
        let running = self.run().running();
        for observer in &mut self.parts.observers {
            observer.stopping(stop, running);
        }
        if stop == Stop::Now {
            crate::git::give_up();
            self.end_everything();
        }
    }

    fn end_everything(&self) {
        for agent in self.run().running_agents() {
            self.parts.executor.cancel(agent);
        }
    }

    /// Ends every step. What they still report cannot be recorded any more.
    async fn end_and_wait(&mut self) {
        self.end_everything();
        while self.parts.executor.is_busy() {
            match self.parts.messages.recv().await {
                Some(message) => self.take_message(message, &mut Vec::new()),
                None => break,
            }
        }
    }

    /// The store fails: nothing may be done that is not recorded or not as recorded, so everything ends.
    async fn give_up(&mut self, error: String) -> UserError {
        self.end_and_wait().await;
        UserError::failed(error)
            .hint("every step was ended; what was recorded is safe")
            .hint(format!("fix the cause, then: {}", advice::command(&format!("resume {}", self.run().id))))
    }
}

/// Waits until standard input is at its end, so that no more answers can come from there.
async fn terminal_closed(terminal: Option<&Terminal>) {
    match terminal {
        Some(terminal) => terminal.ended().await,
        None => std::future::pending().await,
    }
}

/// What the program exits with when a run stands like this.
pub fn exit_of(status: RunStatus, interrupted: ExitKind) -> ExitKind {
    match status {
        RunStatus::Completed => ExitKind::Completed,
        RunStatus::Failed | RunStatus::Running | RunStatus::Wedged => ExitKind::Failed,
        RunStatus::Waiting => ExitKind::Waiting,
        RunStatus::OverBudget => ExitKind::OverBudget,
        RunStatus::Limited => ExitKind::Limited,
        RunStatus::Interrupted => interrupted,
    }
}

/// The system's time as events tell it.
pub fn now() -> Timestamp {
    Clock::default().now()
}
