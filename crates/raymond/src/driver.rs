//! Drives a run: feeds the engine from one channel, publishes what it committed and carries out what it says.

mod inbox;
mod signals;

use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::Duration;

use jiff::Timestamp;
use raymond_core::event::Event;
use raymond_core::input::Input;
use raymond_core::name::AgentId;
use raymond_core::run::{Run, RunStatus};
use tokio::sync::mpsc::UnboundedReceiver;

pub use inbox::{STOP_MESSAGE, StopRequest};

use crate::engine::{Command, Engine, EventStore, Launch, Round, StoreError};
use crate::error::{Exit, UserError};
use crate::observe::Observer;
use crate::process::StopSignal;
use crate::states::ScopeStates;
use crate::step::{Message, StepContext};
use inbox::Inbox;
use signals::Signals;

/// How many messages one round takes in, so that a flood of them cannot keep the first from being committed.
const MAX_MESSAGES_PER_ROUND: usize = 1024;
/// The clock may be set while Raymond sleeps, so it looks at least this often.
const LONGEST_SLEEP: Duration = Duration::from_secs(30);

/// How eagerly the run is to stop.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Stop {
    /// Running steps finish.
    Gently,
    /// Running steps are ended.
    Now,
}

pub struct Driver<S> {
    engine: Engine<S>,
    states: ScopeStates,
    context: Rc<StepContext>,
    messages: UnboundedReceiver<Message>,
    observers: Vec<Box<dyn Observer>>,
    /// How to end each attempt that runs.
    running: BTreeMap<AgentId, StopSignal>,
    signals: Signals,
    inbox: Inbox,
    stopping: Option<Stop>,
    /// What the program exits with if a stop ends it.
    stop_exit: Exit,
}

/// Everything a driver needs.
pub struct Parts<S> {
    pub engine: Engine<S>,
    pub states: ScopeStates,
    pub context: Rc<StepContext>,
    pub messages: UnboundedReceiver<Message>,
    pub observers: Vec<Box<dyn Observer>>,
    /// Distinguishes this process from earlier ones on the same run.
    pub incarnation: String,
}

impl<S: EventStore> Driver<S> {
    pub fn new(parts: Parts<S>) -> Result<Self, UserError> {
        let signals = Signals::listen()
            .map_err(|error| UserError::failed(format!("cannot listen for signals: {error}")))?;
        let inbox = Inbox::new(parts.context.paths.inbox(), parts.incarnation);
        Ok(Self {
            engine: parts.engine,
            states: parts.states,
            context: parts.context,
            messages: parts.messages,
            observers: parts.observers,
            running: BTreeMap::new(),
            signals,
            inbox,
            stopping: None,
            stop_exit: Exit::Interrupted,
        })
    }

    pub fn run(&self) -> &Run {
        self.engine.run()
    }

    /// Tells the observers of events that were committed elsewhere.
    pub fn publish(&mut self, events: &[Event]) {
        for event in events {
            for observer in &mut self.observers {
                observer.event(event);
            }
        }
    }

    /// Drives the run until it is over, or as far as this process can take it.
    pub async fn drive(&mut self, opening: Vec<Input>) -> Result<Exit, UserError> {
        let mut inputs = opening;
        loop {
            match self.engine.round(now(), inputs, &mut self.states) {
                Ok(round) => {
                    if let Some(exit) = self.carry_out(round) {
                        return Ok(exit);
                    }
                }
                Err(error) => return Err(self.give_up(error).await),
            }
            inputs = self.wait().await;
        }
    }

    fn carry_out(&mut self, round: Round) -> Option<Exit> {
        self.publish(&round.events);
        let mut is_over = false;
        for command in round.commands {
            match command {
                Command::Launch(launch) => self.launch(*launch),
                Command::EndScripts => self.end_scripts(),
                Command::Finish => is_over = true,
            }
        }
        is_over.then(|| self.exit())
    }

    fn launch(&mut self, launch: Launch) {
        let stop = StopSignal::new();
        self.running.insert(launch.agent.id.clone(), stop.clone());
        let context = Rc::clone(&self.context);
        tokio::task::spawn_local(async move { context.run(launch, stop).await });
    }

    fn end_scripts(&self) {
        for agent in self.engine.run().running_scripts() {
            if let Some(stop) = self.running.get(agent) {
                stop.trigger();
            }
        }
    }

    /// Waits until something happens and takes in all that has.
    async fn wait(&mut self) -> Vec<Input> {
        let sleep = self.sleep();
        let mut inputs = Vec::new();
        tokio::select! {
            Some(message) = self.messages.recv() => {
                self.take_message(message, &mut inputs);
                for _ in 1..MAX_MESSAGES_PER_ROUND {
                    let Ok(message) = self.messages.try_recv() else { break };
                    self.take_message(message, &mut inputs);
                }
            }
            (stop, exit) = self.signals.next() => self.stop_by_signal(stop, exit),
            stop = self.inbox.next() => self.stop(stop, if stop == Stop::Now { Exit::Terminated } else { Exit::Interrupted }),
            () = tokio::time::sleep(sleep) => {}
        }
        inputs
    }

    fn sleep(&self) -> Duration {
        let until_wake = self.engine.run().next_wake().map(|time| {
            Duration::try_from(time.duration_since(now())).unwrap_or_default() + Duration::from_millis(1)
        });
        until_wake.map_or(LONGEST_SLEEP, |wait| wait.min(LONGEST_SLEEP))
    }

    fn take_message(&mut self, message: Message, inputs: &mut Vec<Input>) {
        match message {
            Message::Input(input) => {
                if let Input::Ended(ended) = &input {
                    self.running.remove(&ended.agent);
                }
                inputs.push(input);
            }
            Message::Output { agent, stream, bytes } => {
                for observer in &mut self.observers {
                    observer.output(&agent, stream, &bytes);
                }
            }
        }
    }

    /// A second Ctrl-C means it.
    fn stop_by_signal(&mut self, stop: Stop, exit: Exit) {
        let stop = if self.stopping.is_some() { Stop::Now } else { stop };
        self.stop(stop, exit);
    }

    fn stop(&mut self, stop: Stop, exit: Exit) {
        if self.stopping >= Some(stop) {
            return;
        }
        self.stopping = Some(stop);
        self.stop_exit = exit;
        self.engine.drain();
        for observer in &mut self.observers {
            observer.stopping(stop, self.running.len());
        }
        if stop == Stop::Now {
            self.end_everything();
        }
    }

    fn end_everything(&self) {
        for stop in self.running.values() {
            stop.trigger();
        }
    }

    /// The journal cannot be written: nothing may be done that is not recorded, so everything ends.
    async fn give_up(&mut self, error: StoreError) -> UserError {
        self.end_everything();
        while !self.running.is_empty() {
            match self.messages.recv().await {
                Some(message) => self.take_message(message, &mut Vec::new()),
                None => break,
            }
        }
        UserError::failed(error.0)
            .hint("every step was ended; what was recorded is safe")
            .hint(format!("mend the cause, then: raymond resume {}", self.engine.run().id))
    }

    fn exit(&self) -> Exit {
        exit_of(self.engine.run().status, self.stop_exit)
    }
}

/// What the program exits with when a run stands like this.
pub fn exit_of(status: RunStatus, interrupted: Exit) -> Exit {
    match status {
        RunStatus::Completed => Exit::Completed,
        RunStatus::Failed | RunStatus::Running => Exit::Failed,
        RunStatus::Waiting => Exit::Waiting,
        RunStatus::OverBudget => Exit::OverBudget,
        RunStatus::Limited => Exit::Limited,
        RunStatus::Interrupted => interrupted,
    }
}

/// The time as events tell it: milliseconds are enough.
pub fn now() -> Timestamp {
    let now = Timestamp::now();
    Timestamp::from_millisecond(now.as_millisecond()).unwrap_or(now)
}
