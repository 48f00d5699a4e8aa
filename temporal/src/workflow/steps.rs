//! The steps and joins of a run that are with the server.

use std::collections::{BTreeMap, VecDeque};
use std::future::poll_fn;
use std::task::Poll;
use std::time::Duration;

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
use temporalio_common::RetryPolicy;
use temporalio_common::error::CancelledError;
use temporalio_sdk::{
    ActivityCancellationType, ActivityExecutionError, ActivityOptions, WorkflowCancellationToken,
    WorkflowContext,
};

use super::{RaymondRun, add_bytes, has_newer_rules, timestamp};
use crate::host::{Host, agents_queue};
use crate::machine::{JoinOrder, MOST_STARTED};
use crate::messages::{Delivered, Delivery, Home, JoinPart, Settings};
use crate::packed::{MOST_BYTES, Packed};

/// No step takes longer; the limits of the state itself are held by the machine that runs it.
const LONGEST_STEP: Duration = Duration::from_secs(30 * 24 * 3600);
/// How long a machine may take to put a part of the workers' results together.
const LONGEST_JOIN: Duration = Duration::from_secs(5 * 60);
/// So many steps are with the server at once. The server refuses a run with 2,000 pending activities, and becomes slow
/// long before that.
const MOST_PENDING: usize = MOST_STARTED;
/// Their orders have so many bytes at most. All of them may be given to the server at once, in a message of 4 MB at most.
const MOST_PENDING_BYTES: usize = 3_000_000;

/// The steps and joins that run now, in the order in which they were started.
pub struct Steps<'a> {
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
    pub fn new(ctx: &'a WorkflowContext<RaymondRun>) -> Self {
        let (running, waiting) = (Vec::new(), VecDeque::new());
        Self { ctx, running, waiting, tokens: BTreeMap::new(), joins: Vec::new() }
    }

    pub fn start(&mut self, order: StepOrder) {
        let token = WorkflowCancellationToken::new();
        self.tokens.insert(order.agent.id.clone(), token.clone());
        let packed = Packed::new(&order);
        self.waiting.push_back(Waiting::Step(Box::new(WaitingStep { order, packed, token })));
        self.fill_up();
    }

    pub fn join(&mut self, order: JoinOrder) {
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

    pub fn is_empty(&self) -> bool {
        self.running.is_empty()
    }

    pub fn cancel(&mut self, agent: &AgentId) {
        if let Some(token) = self.tokens.remove(agent) {
            token.cancel_with_reason("the run stops");
        }
    }

    pub fn cancel_joins(&mut self) {
        self.joins.drain(..).for_each(|token| token.cancel_with_reason("the run stops"));
    }

    pub fn cancel_all(&mut self) {
        let agents: Vec<AgentId> = self.tokens.keys().cloned().collect();
        agents.iter().for_each(|agent| self.cancel(agent));
    }

    /// Waits until steps have ended. All that have are told at once, so that each is looked at once for each task of the
    /// workflow, and not once for each step that ends.
    pub fn next(&mut self) -> impl FusedFuture<Output = Vec<Input>> + '_ {
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
                Err(_) => return interrupted(&started, plan, Usd::ZERO),
            },
        };
        let delivered = timestamp(ctx.workflow_time());
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
            Err(ActivityExecutionError::Cancelled(cancelled)) => {
                let cost = match may_have_begun(ctx, &cancelled, delivered) {
                    true => share_of(&started),
                    false => Usd::ZERO,
                };
                return interrupted(&started, plan, cost);
            }
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

/// Whether an attempt that was cancelled may have begun. If its machine says that it is cancelled, it has not begun. The
/// server says so itself, with a text, if the attempt waits for its machine. It tells nothing about earlier deliveries: a
/// machine may have begun the attempt and be lost. The server knows of a loss after the heartbeat timeout and not before.
fn may_have_begun(
    ctx: &WorkflowContext<RaymondRun>,
    cancelled: &CancelledError,
    delivered: Timestamp,
) -> bool {
    let is_by_server = matches!(cancelled.details::<String>(), Ok(Some(_)));
    let heartbeat = ctx.state(|run| Duration::from_millis(run.machine.settings().heartbeat_ms));
    let waited = timestamp(ctx.workflow_time()).duration_since(delivered);
    has_newer_rules(ctx) && is_by_server && Duration::try_from(waited).is_ok_and(|waited| waited >= heartbeat)
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
    let StepStarted { agent, step, attempt, .. } = started;
    let cost = cost.unwrap_or_else(|| share_of(started));
    vec![Input::Lost { agent: agent.clone(), step: *step, attempt: *attempt, error, cost }]
}

/// The share of the budget that a turn may use.
fn share_of(started: &StepStarted) -> Usd {
    started.turn.as_ref().and_then(|turn| turn.share_usd).unwrap_or(Usd::ZERO)
}

/// The attempt was ended without a report, because the run stops.
fn interrupted(started: &StepStarted, plan: Plan, cost: Usd) -> Vec<Input> {
    let StepStarted { agent, step, attempt, .. } = started;
    vec![Input::Ended(Box::new(Ended {
        agent: agent.clone(),
        step: *step,
        attempt: *attempt,
        duration_ms: 0,
        plan,
        outcome: StepOutcome::Interrupted { cost },
        lookups: Lookups::default(),
    }))]
}

#[cfg(test)]
mod tests {
    use super::super::MUCH_TOO_LONG;
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
