//! A run as a workflow of the engine.
//!
//! Everything here follows from the history: no clock, no disk, no random source, no map without an order. Futures are
//! polled in the order in which they were made, because a set of futures that wakes itself fails the workflow's tasks. What
//! is decided together is what came before one task of the workflow, which the history tells, too: see [`whole`].

mod alarm;
mod course;
mod steps;
mod store;
mod whole;

use std::time::SystemTime;

use jiff::Timestamp;
use raymond_core::input::Input;
use raymond_core::run::RunStatus;
use serde::Serialize;
use serde::de::DeserializeOwned;
use temporalio_common::error::ApplicationFailure;
use temporalio_macros::{workflow, workflow_methods};
use temporalio_sdk::{SyncWorkflowContext, WorkflowContext, WorkflowContextView, WorkflowResult};

use crate::machine::Machine;
use crate::messages::{From, JournalPart, Mail, RunInput, Snapshot, Told};
use crate::packed::{MOST_BYTES, Packed};
use course::{Course, Next};
pub use whole::NOT_DECIDED;
use whole::in_whole_tasks;

/// The name of the workflow's type.
pub const RUN: &str = "raymond_run";

/// A run whose history is so many times as long as it should be starts no more steps until those that run have ended.
const MUCH_TOO_LONG: u32 = 4;
/// A history with so many bytes of orders and reports is long, however few its events are. The server ends a run at 50 MB.
const LONG_HISTORY_BYTES: u64 = 4_000_000;
/// With so many, nothing is added to it that could be left out.
const MOST_HISTORY_BYTES: u64 = 30_000_000;

/// Marks a history that is decided by these rules: the run waits for the store of blobs beside its steps, has one timer at
/// a time, ignores stops from before its last resume, and counts what a turn may have cost that was stopped after its machine was
/// lost. A history that was begun by an earlier version is decided as it was begun.
const RULES: &str = "rules-2";

#[workflow]
pub struct RaymondRun {
    machine: Machine,
    inbox: Vec<Mail>,
    taken: u64,
    /// How much this history holds of what is long: orders, reports, and parts of the journal.
    bytes: u64,
    /// How long the history was when the run did not fit in the message that begins another one.
    was_too_large_at: Option<u32>,
}

#[workflow_methods]
impl RaymondRun {
    #[init]
    fn new(ctx: &WorkflowContextView, input: RunInput) -> Self {
        let RunInput { settings, from } = input;
        let mut from = from.open().expect("the run was packed by this program");
        let inbox = match &mut from {
            From::Start { .. } => Vec::new(),
            From::Snapshot(snapshot) => std::mem::take(&mut snapshot.inbox),
        };
        let now = timestamp(ctx.start_time());
        let machine = Machine::new(ctx.workflow_id(), now, settings, from).expect("the run can be begun");
        Self { machine, inbox, taken: 0, bytes: 0, was_too_large_at: None }
    }

    #[run(name = "raymond_run")]
    pub async fn run(ctx: &mut WorkflowContext<Self>) -> WorkflowResult<String> {
        let course = async {
            let mut course = Course::new(ctx);
            loop {
                match course.go_on()? {
                    Next::End => return Ok(RunStatus::Completed.as_str().to_owned()),
                    Next::Again => {}
                    Next::Wait { now, until } => course.wait(now, until).await?,
                }
            }
        };
        in_whole_tasks(ctx, course).await
    }

    /// A message from outside. A signal is in the history as soon as the server has it, so none is lost.
    #[signal]
    pub fn deliver(&mut self, _ctx: &mut SyncWorkflowContext<Self>, mail: Mail) {
        self.inbox.push(mail);
    }

    /// The journal behind an event.
    #[query]
    pub fn news(&self, _ctx: &WorkflowContextView, after: u64) -> Told {
        let (part, first) = self.machine.journal_after(after);
        Told {
            part: Packed::new(&part).expect("events can be written"),
            first,
            hosts: self.machine.hosts(),
            is_open: self.machine.is_open() || self.machine.is_about_to_go_on(),
            taken: self.taken,
            untaken: self.inbox.len() as u64,
            is_about_to_go_on: self.machine.is_about_to_go_on(),
            why_stopped: self.machine.why_stopped().map(str::to_owned),
        }
    }
}

impl RaymondRun {
    fn take_mail(&mut self) -> Vec<Input> {
        let mail = std::mem::take(&mut self.inbox);
        self.taken += mail.len() as u64;
        mail.into_iter().flat_map(|mail| self.machine.take(mail)).collect()
    }

    fn part_to_keep(&self, all: bool) -> anyhow::Result<Option<(JournalPart, u64)>> {
        let Some((first, part)) = self.machine.part_to_keep(all) else { return Ok(None) };
        let last = part.last().unwrap_or(first);
        let run = self.machine.run().id.clone();
        Ok(Some((JournalPart { run, first, part: Packed::new(&part)? }, last)))
    }

    /// What the next history of the run begins with, unless that is too large for a message. Then the inputs stay.
    fn next_history(&mut self, inputs: &mut Vec<Input>) -> anyhow::Result<Option<RunInput>> {
        let inbox = std::mem::take(&mut self.inbox);
        let snapshot: Snapshot = self.machine.snapshot(std::mem::take(inputs), inbox)?;
        let from = From::Snapshot(Box::new(snapshot));
        let packed = Packed::new(&from)?;
        if packed.bytes() < MOST_BYTES {
            return Ok(Some(RunInput { settings: self.machine.settings().clone(), from: packed }));
        }
        if let From::Snapshot(snapshot) = from {
            *inputs = snapshot.inputs;
            self.inbox = snapshot.inbox;
        }
        Ok(None)
    }
}

/// The run cannot go on.
fn broken(error: anyhow::Error) -> ApplicationFailure {
    ApplicationFailure::from(error)
}

/// A time of the server as events tell it.
pub fn timestamp(time: Option<SystemTime>) -> Timestamp {
    let time = time.and_then(|time| Timestamp::try_from(time).ok());
    time.and_then(|time| Timestamp::from_millisecond(time.as_millisecond()).ok())
        .unwrap_or(Timestamp::UNIX_EPOCH)
}

/// Whether this history is decided by the newer rules.
fn has_newer_rules(ctx: &WorkflowContext<RaymondRun>) -> bool {
    ctx.patched(RULES)
}

/// Whether the history is so many times as long as it should be.
fn is_long(ctx: &WorkflowContext<RaymondRun>, times: u32) -> bool {
    let (most, bytes) = ctx.state(|run| (run.machine.settings().continue_after, run.bytes));
    let is_suggested = times == 1 && ctx.continue_as_new_suggested();
    is_suggested
        || ctx.history_length() >= most.saturating_mul(times)
        || bytes >= LONG_HISTORY_BYTES * u64::from(times)
}

/// Whether the run may go on with another history. One that was too large for that tries again when its history has grown.
fn can_change_history(ctx: &WorkflowContext<RaymondRun>) -> bool {
    let length = ctx.history_length();
    ctx.state(|run| {
        let pause = run.machine.settings().continue_after;
        let is_due = run.was_too_large_at.is_none_or(|tried| length >= tried.saturating_add(pause));
        is_due && run.machine.can_change_history()
    })
}

/// Notes how much longer the history gets by a message.
fn add_bytes<T: Serialize + DeserializeOwned>(ctx: &WorkflowContext<RaymondRun>, message: &Packed<T>) {
    ctx.state_mut(|run| run.bytes += message.bytes() as u64);
}
