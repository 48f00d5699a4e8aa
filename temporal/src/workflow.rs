//! A run as a workflow of the engine.
//!
//! Everything here follows from the history: no clock, no disk, no random source, no map without an order. Futures are
//! polled in the order in which they were made, because a set of futures that wakes itself fails the workflow's tasks.

use std::collections::{BTreeMap, VecDeque};
use std::future::poll_fn;
use std::task::Poll;
use std::time::{Duration, SystemTime};

use futures_util::FutureExt;
use futures_util::future::{FusedFuture, LocalBoxFuture};
use jiff::Timestamp;
use raymond::run::hosted::{StepOrder, StepReport};
use raymond_core::event::StepStarted;
use raymond_core::input::{Ended, Input, Lookups, Plan, StepOutcome};
use raymond_core::join::EMPTY;
use raymond_core::money::Usd;
use raymond_core::name::AgentId;
use raymond_core::payload::Payload;
use raymond_core::run::RunStatus;
use serde::Serialize;
use serde::de::DeserializeOwned;
use temporalio_common::RetryPolicy;
use temporalio_common::error::ApplicationFailure;
use temporalio_macros::{workflow, workflow_methods};
use temporalio_sdk::workflows::select;
use temporalio_sdk::{
    ActivityCancellationType, ActivityExecutionError, ActivityOptions, ContinueAsNewOptions,
    SyncWorkflowContext, WorkflowCancellationToken, WorkflowContext, WorkflowContextView, WorkflowResult,
};

use crate::host::{Host, agents_queue};
use crate::machine::{JoinOrder, MOST_STARTED, Machine};
use crate::messages::{
    Delivered, Delivery, From, Home, JoinPart, JournalPart, Mail, RunInput, Settings, Snapshot, StatesWanted,
    TextsPart, Told,
};
use crate::packed::{MOST_BYTES, Packed};

/// The name of the workflow's type.
pub const RUN: &str = "raymond_run";

/// No step takes longer; the limits of the state itself are held by the machine that runs it.
const LONGEST_STEP: Duration = Duration::from_secs(30 * 24 * 3600);
/// A run whose history is so many times as long as it should be starts no more steps until those that run have ended.
const MUCH_TOO_LONG: u32 = 4;
/// A history with so many bytes of orders and reports is long, however few its events are. The server ends a run at 50 MB.
const LONG_HISTORY_BYTES: u64 = 4_000_000;
/// With so many, nothing is added to it that could be left out.
const MOST_HISTORY_BYTES: u64 = 30_000_000;
/// How long a machine may take to put a part of the workers' results together.
const LONGEST_JOIN: Duration = Duration::from_secs(5 * 60);
/// So many steps are with the server at once. The server refuses a run with 2,000 pending activities, and becomes slow
/// long before that.
const MOST_PENDING: usize = MOST_STARTED;
/// Their orders have so many bytes at most. All of them may be given to the server at once, in a message of 4 MB at most.
const MOST_PENDING_BYTES: usize = 3_000_000;

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
        let ctx = &*ctx;
        let mut steps = Steps::new(ctx);
        let mut inputs = Vec::new();
        loop {
            let now = timestamp(ctx.workflow_time());
            inputs.extend(ctx.state_mut(|run| run.take_mail()));
            if let Some(wanted) = ctx.state(|run| run.machine.states_wanted()).map_err(broken)? {
                if let Err(why) = read_states_again(ctx, wanted).await {
                    let decided = std::mem::take(&mut inputs);
                    inputs = ctx.state_mut(|run| run.machine.stay_stopped(why, decided));
                }
                continue;
            }
            let is_quiet = steps.is_empty();
            if is_quiet && is_long(ctx, 1) && can_change_history(ctx) {
                if let Some(part) = ctx.state(|run| run.part_to_keep(true)).map_err(broken)? {
                    keep(ctx, part).await;
                    continue;
                }
                // Pending activities do not survive this, so it comes when none is left. What has not been decided goes along.
                if let Some(next) = ctx.state_mut(|run| run.next_history(&mut inputs)).map_err(broken)? {
                    ctx.continue_as_new(next, ContinueAsNewOptions::default())?;
                }
                if keep_texts(ctx).await.map_err(broken)? {
                    continue;
                }
                let length = ctx.history_length();
                ctx.state_mut(|run| run.was_too_large_at = Some(length));
            }
            if is_quiet || !is_long(ctx, MUCH_TOO_LONG) {
                let decided = std::mem::take(&mut inputs);
                let orders = ctx.state_mut(|run| run.machine.round(now, decided)).map_err(broken)?;
                orders.cancel.iter().for_each(|agent| steps.cancel(agent));
                for order in orders.start {
                    steps.start(order);
                }
                for order in orders.join {
                    steps.join(order);
                }
            }
            if ctx.state(|run| run.machine.wants_no_joins()) {
                steps.cancel_joins();
            }
            if ctx.state(|run| run.machine.is_stopped_now()) {
                steps.cancel_all();
            }
            if ctx.state_mut(|run| run.machine.stops_late()) {
                continue;
            }
            let is_completed = ctx.state(|run| run.machine.run().status == RunStatus::Completed);
            if let Some(part) = ctx.state(|run| run.part_to_keep(is_completed)).map_err(broken)? {
                keep(ctx, part).await;
                continue;
            }
            if is_completed {
                return Ok(RunStatus::Completed.as_str().to_owned());
            }
            let next = ctx.state(|run| run.machine.run().next_wake(now));
            let wait = next.map(|time| Duration::try_from(time.duration_since(now)).unwrap_or_default());
            let timer = timer(ctx, wait);
            let mail = ctx.wait_condition(|run| !run.inbox.is_empty());
            futures_util::pin_mut!(timer, mail);
            select! {
                came = steps.next() => inputs.extend(came),
                mail = mail => { mail?; }
                () = timer => {}
            }
        }
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

async fn keep(ctx: &WorkflowContext<RaymondRun>, (part, last): (JournalPart, u64)) {
    let options = ActivityOptions::with_start_to_close_timeout(Duration::from_secs(60)).build();
    add_bytes(ctx, &part.part);
    // It is tried again until it works, so there is no other end.
    if ctx.execute_activity(Host::keep_journal, part, options).await.is_ok() {
        ctx.state_mut(|run| run.machine.forget_up_to(last));
    }
}

/// Has the texts of the run's state kept in the store of blobs, so that the state gets shorter. False if there are none, or
/// if this history has no room for them.
async fn keep_texts(ctx: &WorkflowContext<RaymondRun>) -> anyhow::Result<bool> {
    let mut has_kept = false;
    loop {
        let texts = ctx.state_mut(|run| run.machine.texts_to_keep());
        if texts.is_empty() || ctx.state(|run| run.bytes) > MOST_HISTORY_BYTES {
            return Ok(has_kept);
        }
        let run = ctx.state(|run| run.machine.run().id.clone());
        let part = TextsPart { run, texts: Packed::new(&texts)? };
        let options = ActivityOptions::with_start_to_close_timeout(Duration::from_secs(60)).build();
        add_bytes(ctx, &part.texts);
        // It is tried again until it works, so there is no other end.
        if ctx.execute_activity(Host::keep_texts, part, options).await.is_ok() {
            ctx.state_mut(|run| run.machine.keeps_elsewhere(&texts))?;
            has_kept = true;
        }
    }
}

/// Has the states read again by any machine. An error says why that cannot be done.
async fn read_states_again(ctx: &WorkflowContext<RaymondRun>, wanted: StatesWanted) -> Result<(), String> {
    let options = ActivityOptions::with_start_to_close_timeout(Duration::from_secs(60)).build();
    add_bytes(ctx, &wanted.states);
    let states = match ctx.execute_activity(Host::read_states, wanted, options).await {
        Ok(states) => states.open().map_err(|error| error.to_string())?,
        Err(error) => {
            return Err(error
                .reason()
                .map_or_else(|| error.to_string(), |why| why.failure().message.clone()));
        }
    };
    ctx.state_mut(|run| run.machine.use_states(states));
    Ok(())
}

fn timer<'a>(
    ctx: &'a WorkflowContext<RaymondRun>,
    wait: Option<Duration>,
) -> impl FusedFuture<Output = ()> + 'a {
    async move {
        match wait {
            Some(wait) => drop(ctx.timer(wait + Duration::from_millis(1)).await),
            None => std::future::pending().await,
        }
    }
    .fuse()
}

/// The steps and joins that run now, in the order in which they were started.
struct Steps<'a> {
    ctx: &'a WorkflowContext<RaymondRun>,
    running: Vec<Running<'a>>,
    /// Those that are started when others have ended.
    waiting: VecDeque<Waiting>,
    tokens: BTreeMap<AgentId, WorkflowCancellationToken>,
    joins: Vec<WorkflowCancellationToken>,
}

struct Running<'a> {
    bytes: usize,
    end: LocalBoxFuture<'a, Vec<Input>>,
}

enum Waiting {
    Step(Box<WaitingStep>),
    Join(WaitingJoin),
}

struct WaitingStep {
    order: StepOrder,
    packed: anyhow::Result<Packed<StepOrder>>,
    token: WorkflowCancellationToken,
}

struct WaitingJoin {
    order: JoinOrder,
    token: WorkflowCancellationToken,
}

impl Waiting {
    fn bytes(&self) -> usize {
        match self {
            Self::Step(step) => step.packed.as_ref().map_or(0, Packed::bytes),
            // One part after the other is with the server.
            Self::Join(join) => join.order.parts.iter().map(Packed::bytes).max().unwrap_or(0),
        }
    }
}

impl<'a> Steps<'a> {
    fn new(ctx: &'a WorkflowContext<RaymondRun>) -> Self {
        let (running, waiting) = (Vec::new(), VecDeque::new());
        Self { ctx, running, waiting, tokens: BTreeMap::new(), joins: Vec::new() }
    }

    fn start(&mut self, order: StepOrder) {
        let token = WorkflowCancellationToken::new();
        self.tokens.insert(order.agent.id.clone(), token.clone());
        let packed = Packed::new(&order);
        self.waiting.push_back(Waiting::Step(Box::new(WaitingStep { order, packed, token })));
        self.fill_up();
    }

    fn join(&mut self, order: JoinOrder) {
        let token = WorkflowCancellationToken::new();
        self.joins.push(token.clone());
        self.waiting.push_back(Waiting::Join(WaitingJoin { order, token }));
        self.fill_up();
    }

    fn fill_up(&mut self) {
        let running = self.running.iter().map(|step| step.bytes);
        let room = how_many_fit(running, self.waiting.iter().map(Waiting::bytes));
        for waiting in self.waiting.drain(..room) {
            let bytes = waiting.bytes();
            let end: LocalBoxFuture<'a, Vec<Input>> = match waiting {
                Waiting::Step(step) => Box::pin(carry_out(self.ctx, *step)),
                Waiting::Join(join) => Box::pin(put_together(self.ctx, join)),
            };
            self.running.push(Running { bytes, end });
        }
    }

    fn is_empty(&self) -> bool {
        self.running.is_empty()
    }

    fn cancel(&mut self, agent: &AgentId) {
        if let Some(token) = self.tokens.remove(agent) {
            token.cancel_with_reason("the run stops");
        }
    }

    fn cancel_joins(&mut self) {
        self.joins.drain(..).for_each(|token| token.cancel_with_reason("the run stops"));
    }

    fn cancel_all(&mut self) {
        let agents: Vec<AgentId> = self.tokens.keys().cloned().collect();
        agents.iter().for_each(|agent| self.cancel(agent));
    }

    /// Waits until steps have ended. All that have are told at once, so that each is looked at once for each task of the
    /// workflow, and not once for each step that ends.
    fn next(&mut self) -> impl FusedFuture<Output = Vec<Input>> + '_ {
        poll_fn(|context| {
            let mut ended = Vec::new();
            let before = self.running.len();
            self.running.retain_mut(|step| match step.end.as_mut().poll(context) {
                Poll::Ready(inputs) => {
                    ended.extend(inputs);
                    false
                }
                Poll::Pending => true,
            });
            // A join that is not wanted any more ends without an input.
            if self.running.len() == before {
                return Poll::Pending;
            }
            self.fill_up();
            Poll::Ready(ended)
        })
        .fuse()
    }
}

/// How many of the waiting orders the server may have beside those that it has. One is always allowed.
fn how_many_fit(
    running: impl ExactSizeIterator<Item = usize>,
    waiting: impl Iterator<Item = usize>,
) -> usize {
    let (mut steps, mut bytes) = (running.len(), running.sum::<usize>());
    let fits = |size: &usize| {
        let fits = steps == 0 || (steps < MOST_PENDING && bytes + size <= MOST_PENDING_BYTES);
        steps += 1;
        bytes += size;
        fits
    };
    waiting.take_while(fits).count()
}

/// Has an attempt carried out on the machine that its agent is on, or on one that takes the agent in.
async fn carry_out(ctx: &WorkflowContext<RaymondRun>, waiting: WaitingStep) -> Vec<Input> {
    let WaitingStep { order, packed, token } = waiting;
    let (started, plan) = (order.started.clone(), order.plan.clone());
    let agent = &order.agent.id;
    let order = match packed {
        Ok(packed) if packed.bytes() > MOST_BYTES => {
            let error = format!("it is handed more than a message of the engine holds ({MOST_BYTES} bytes)");
            return StepReport::not_started(&plan, error).into_inputs(&started, plan);
        }
        Ok(packed) => packed,
        Err(error) => return lost(&started, error.to_string(), None),
    };
    loop {
        add_bytes(ctx, &order);
        let home = match ctx.state(|run| run.machine.places.home_of(agent).cloned()) {
            Some(home) => home,
            None => match claim(ctx, token.clone()).await {
                Ok(home) => {
                    ctx.state_mut(|run| run.machine.places.moves_to(agent, Some(home.clone())));
                    home
                }
                Err(_) => return interrupted(&started, plan),
            },
        };
        match deliver(ctx, &home, order.clone(), &started, token.clone()).await {
            Ok(Delivered::Done { report, leaving, left, branch }) => {
                ctx.state_mut(|run| run.machine.ended_step_at(agent, &home, left, branch));
                leave(ctx, agent, leaving);
                add_bytes(ctx, &report);
                return match report.open() {
                    Ok(report) => {
                        ctx.state_mut(|run| run.machine.note_backends(agent, report.backends.as_ref()));
                        report.into_inputs(&started, plan)
                    }
                    Err(error) => lost(&started, error.to_string(), None),
                };
            }
            Ok(Delivered::Lost { why, cost, leaving }) => {
                leave(ctx, agent, leaving);
                return lost(&started, why, cost);
            }
            Err(ActivityExecutionError::Cancelled(_)) => return interrupted(&started, plan),
            Err(error) => {
                ctx.state_mut(|run| run.machine.places.moves_to(agent, None));
                // A machine begins only after the server has its first heartbeat. So without one, nothing was begun, and
                // another machine takes the same attempt.
                if has_begun(&error) {
                    return lost(
                        &started,
                        format!("the machine {} does not answer any more", home.host),
                        None,
                    );
                }
            }
        }
    }
}

/// Has the results of an agent's workers put together by machines that can read their texts. The run goes on meanwhile, and
/// if it is stopped there is no result.
async fn put_together(ctx: &WorkflowContext<RaymondRun>, waiting: WaitingJoin) -> Vec<Input> {
    let WaitingJoin { order, token } = waiting;
    let (agent, number) = (order.agent.clone(), order.number);
    let joined = joined(ctx, order, &token).await;
    let is_wanted = ctx.state_mut(|run| run.machine.has_joined(&agent, number));
    let result = match joined {
        Ok(result) => result,
        Err(ActivityExecutionError::Cancelled(_)) => return Vec::new(),
        Err(error) => Err(error.to_string()),
    };
    is_wanted.then_some(Input::Join { agent, result }).into_iter().collect()
}

async fn joined(
    ctx: &WorkflowContext<RaymondRun>,
    order: JoinOrder,
    token: &WorkflowCancellationToken,
) -> Result<Result<Payload, String>, ActivityExecutionError> {
    let run = ctx.state(|run| run.machine.run().id.clone());
    let mut before = None;
    for workers in order.parts {
        // It is tried again as long as the store of blobs is away.
        let options = ActivityOptions::with_start_to_close_timeout(LONGEST_JOIN)
            .cancellation_token(token.clone())
            .cancellation_type(ActivityCancellationType::TryCancel)
            .build();
        add_bytes(ctx, &workers);
        let part = JoinPart { run: run.clone(), count: order.count, before, workers };
        match ctx.execute_activity(Host::join, part, options).await? {
            Ok(result) => before = Some(result),
            Err(error) => return Ok(Err(error)),
        }
    }
    Ok(Ok(before.unwrap_or_else(|| EMPTY.into())))
}

fn leave(ctx: &WorkflowContext<RaymondRun>, agent: &AgentId, leaving: bool) {
    if leaving {
        ctx.state_mut(|run| run.machine.places.moves_to(agent, None));
    }
}

/// Whether a machine has said that it begins the attempt. That the server has handed it out proves nothing: a machine that
/// dies can leave an open question for work behind, and the server answers that.
fn has_begun(error: &ActivityExecutionError) -> bool {
    let Some(timeout) = error.as_timeout() else { return true };
    !matches!(timeout.last_heartbeat_details::<bool>(), Ok(None) | Ok(Some(false)))
}

async fn claim(
    ctx: &WorkflowContext<RaymondRun>,
    token: WorkflowCancellationToken,
) -> Result<Home, ActivityExecutionError> {
    let queue = ctx.state(|run| agents_queue(&run.machine.settings().queue));
    // A machine without room keeps the agent waiting for a while, and then another one is asked.
    let again =
        RetryPolicy::builder().initial_interval(Duration::from_millis(200)).backoff_coefficient(1.0).build();
    let options = ActivityOptions::with_start_to_close_timeout(Duration::from_secs(60))
        .task_queue(queue)
        .cancellation_token(token)
        .cancellation_type(ActivityCancellationType::TryCancel)
        .retry_policy(again)
        .build();
    ctx.execute_activity(Host::claim, (), options).await
}

/// Delivers an attempt to one machine. The engine delivers it again when the machine was silent: that is no new attempt,
/// because the machine keeps a record of what it has begun and ended.
async fn deliver(
    ctx: &WorkflowContext<RaymondRun>,
    home: &Home,
    order: Packed<StepOrder>,
    started: &StepStarted,
    token: WorkflowCancellationToken,
) -> Result<Delivered, ActivityExecutionError> {
    let settings = ctx.state(|run| run.machine.settings().clone());
    let nonce = ctx.state(|run| run.machine.run().nonce.clone());
    let again =
        RetryPolicy::builder().initial_interval(Duration::from_secs(1)).backoff_coefficient(1.0).build();
    let options = ActivityOptions::with_start_to_close_timeout(LONGEST_STEP)
        .activity_id(format!("{nonce}-{}-{}", started.step, started.attempt))
        .task_queue(home.queue.clone())
        .heartbeat_timeout(Duration::from_millis(settings.heartbeat_ms))
        .schedule_to_start_timeout(Duration::from_millis(settings.patience_ms))
        .cancellation_type(ActivityCancellationType::WaitCancellationCompleted)
        .cancellation_token(token)
        .retry_policy(again)
        .do_not_eagerly_execute(true)
        .build();
    let (left_at, left) = ctx.state(|run| {
        let places = &run.machine.places;
        (places.left_at(&started.agent).cloned(), places.left_by(&started.agent).cloned())
    });
    let Settings { files, heartbeat_ms, keeps_texts, .. } = settings;
    let delivery = Delivery { order, files, heartbeat_ms, left_at, left, keeps_texts };
    ctx.execute_activity(Host::run_step, delivery, options).await
}

/// A turn whose cost is not known may have used all of its share of the budget.
fn lost(started: &StepStarted, error: String, cost: Option<Usd>) -> Vec<Input> {
    let StepStarted { agent, step, attempt, turn, .. } = started;
    let cost = cost.or_else(|| turn.as_ref()?.share_usd).unwrap_or(Usd::ZERO);
    vec![Input::Lost { agent: agent.clone(), step: *step, attempt: *attempt, error, cost }]
}

/// The attempt was ended before it had begun, because the run stops.
fn interrupted(started: &StepStarted, plan: Plan) -> Vec<Input> {
    let StepStarted { agent, step, attempt, .. } = started;
    vec![Input::Ended(Box::new(Ended {
        agent: agent.clone(),
        step: *step,
        attempt: *attempt,
        duration_ms: 0,
        plan,
        outcome: StepOutcome::Interrupted { cost: Usd::ZERO },
        lookups: Lookups::default(),
    }))]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fleet::CONTINUE_AFTER;

    /// The server ends a run whose history is longer.
    const MOST_EVENTS: u64 = 51_200;
    /// An agent is taken in and its step delivered. Each of them is scheduled, starts and ends, and each end may have a task of
    /// the workflow, which is scheduled, starts and ends.
    const EVENTS_OF_A_STEP: u64 = 12;

    #[test]
    fn what_the_server_gets_at_once_is_limited_by_number_and_by_bytes() {
        let cases: [(&[usize], &[usize], usize); 6] = [
            (&[], &[10; 3], 3),
            (&[], &[1; MOST_PENDING + 5], MOST_PENDING),
            (&[1; MOST_PENDING - 1], &[1; 5], 1),
            (&[], &[MOST_PENDING_BYTES / 3; 5], 3),
            (&[MOST_PENDING_BYTES], &[1; 5], 0),
            (&[], &[2 * MOST_PENDING_BYTES, 1], 1),
        ];
        for (running, waiting, expected) in cases {
            let fit = how_many_fit(running.iter().copied(), waiting.iter().copied());
            assert_eq!(fit, expected, "{} running, {} waiting", running.len(), waiting.len());
        }
    }

    #[test]
    fn the_ends_of_all_started_steps_fit_in_a_history() {
        let (started, pending) = (2 * MOST_STARTED as u64, MOST_PENDING as u64);
        // All machines may be lost at once, and then what was with the server is delivered again.
        let to_come = (started + pending) * EVENTS_OF_A_STEP;
        assert!(CONTINUE_AFTER.1 * u64::from(MUCH_TOO_LONG) + to_come <= MOST_EVENTS);
    }
}
