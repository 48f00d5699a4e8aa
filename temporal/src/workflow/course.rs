//! How a run goes on: what it decides, and what it waits for.

use std::time::Duration;

use jiff::Timestamp;
use raymond_core::input::Input;
use raymond_core::run::RunStatus;
use temporalio_sdk::workflows::select;
use temporalio_sdk::{ContinueAsNewOptions, WorkflowContext, WorkflowResult};

use super::alarm::Alarm;
use super::steps::Steps;
use super::store::{Store, Stored};
use super::{MUCH_TOO_LONG, RaymondRun, broken, can_change_history, has_newer_rules, is_long, timestamp};

/// So long a run with a long history starts nothing, so that its journal can be kept and another history can begin. If
/// the store of blobs is away, it goes on then. It has much room left in its history.
const LONGEST_PAUSE: Duration = Duration::from_secs(10);

/// A run on its way.
pub struct Course<'a> {
    ctx: &'a WorkflowContext<RaymondRun>,
    steps: Steps<'a>,
    store: Store<'a>,
    alarm: Alarm<'a>,
    /// What has come and was not decided yet.
    inputs: Vec<Input>,
    /// Whether the run waits for the store beside its steps. Histories of earlier versions wait for it alone.
    waits_beside: bool,
}

/// What comes next.
pub enum Next {
    End,
    Again,
    /// Something must come first, or a time.
    Wait {
        now: Timestamp,
        until: Option<Timestamp>,
    },
}

/// What a run has waited for.
enum Came {
    Inputs(Vec<Input>),
    Stored(Stored),
    MailOrTime,
}

impl<'a> Course<'a> {
    pub fn new(ctx: &'a WorkflowContext<RaymondRun>) -> Self {
        let waits_beside = has_newer_rules(ctx);
        if waits_beside {
            ctx.state_mut(|run| run.machine.use_newer_rules());
        }
        Self {
            ctx,
            steps: Steps::new(ctx),
            store: Store::new(ctx),
            alarm: Alarm::new(ctx, !waits_beside),
            inputs: Vec::new(),
            waits_beside,
        }
    }

    /// Decides what there is to decide.
    pub fn go_on(&mut self) -> WorkflowResult<Next> {
        let ctx = self.ctx;
        let now = timestamp(ctx.workflow_time());
        self.inputs.extend(ctx.state_mut(|run| run.take_mail()));
        if ctx.state(|run| run.machine.is_about_to_go_on()) {
            return self.read_states(now);
        }
        let is_quiet = self.steps.is_empty();
        if is_quiet && let Some(pause) = self.change_history(now)? {
            return Ok(pause);
        }
        if is_quiet || !is_long(ctx, MUCH_TOO_LONG) {
            self.decide(now)?;
        }
        if ctx.state(|run| run.machine.wants_no_joins()) {
            self.steps.cancel_joins();
        }
        if ctx.state(|run| run.machine.is_stopped_now()) {
            self.steps.cancel_all();
        }
        if ctx.state_mut(|run| run.machine.stops_late()) {
            return Ok(Next::Again);
        }
        self.keep_or_end(now)
    }

    /// Has the states read again, as a resume wants it. A stop calls the resume off: the store may be away for long.
    fn read_states(&mut self, now: Timestamp) -> WorkflowResult<Next> {
        if self.waits_beside && self.ctx.state(|run| run.machine.is_resume_called_off()) {
            self.store.stop_reading();
            self.stay_stopped("it was stopped again before its states were read".to_owned());
            return Ok(Next::Again);
        }
        if !self.store.is_reading()
            && let Some(wanted) = self.ctx.state(|run| run.machine.states_wanted()).map_err(broken)?
        {
            self.store.read_states(wanted);
        }
        Ok(Next::Wait { now, until: None })
    }

    fn stay_stopped(&mut self, why: String) {
        let inputs = std::mem::take(&mut self.inputs);
        self.inputs = self.ctx.state_mut(|run| run.machine.stay_stopped(why, inputs));
    }

    /// Goes on with another history if this one is long and nothing runs. The journal must be kept before; says what is
    /// waited for until then, if nothing may start meanwhile.
    fn change_history(&mut self, now: Timestamp) -> WorkflowResult<Option<Next>> {
        let ctx = self.ctx;
        if !is_long(ctx, 1) || !can_change_history(ctx) {
            return Ok(None);
        }
        if !self.store.is_keeping() {
            if let Some((part, last)) = ctx.state(|run| run.part_to_keep(true)).map_err(broken)? {
                self.store.keep_journal(now, part, last);
            } else if let Some(next) =
                ctx.state_mut(|run| run.next_history(&mut self.inputs)).map_err(broken)?
            {
                // Pending activities do not survive this, so it comes when none is left. What has not been decided goes along.
                ctx.continue_as_new(next, ContinueAsNewOptions::default())?;
            } else if !self.store.keep_texts(now) {
                let length = ctx.history_length();
                ctx.state_mut(|run| run.was_too_large_at = Some(length));
            }
        }
        Ok(self.pause(now))
    }

    /// How long nothing may start because something is being kept. A stop is decided at once.
    fn pause(&self, now: Timestamp) -> Option<Next> {
        let since = self.store.keeps_since()?;
        if !self.waits_beside {
            return Some(Next::Wait { now, until: None });
        }
        if self.ctx.state(|run| run.machine.is_stopping()) {
            return None;
        }
        let until = match is_long(self.ctx, MUCH_TOO_LONG) {
            true => None,
            false => Some(since.checked_add(LONGEST_PAUSE).ok().filter(|until| *until > now)?),
        };
        Some(Next::Wait { now, until })
    }

    fn decide(&mut self, now: Timestamp) -> WorkflowResult<()> {
        let inputs = std::mem::take(&mut self.inputs);
        let orders = self.ctx.state_mut(|run| run.machine.round(now, inputs)).map_err(broken)?;
        orders.cancel.iter().for_each(|agent| self.steps.cancel(agent));
        for order in orders.start {
            self.steps.start(order);
        }
        for order in orders.join {
            self.steps.join(order);
        }
        Ok(())
    }

    /// Has a long journal kept. A run that has completed ends when all of its journal is.
    fn keep_or_end(&mut self, now: Timestamp) -> WorkflowResult<Next> {
        let ctx = self.ctx;
        let is_completed = ctx.state(|run| run.machine.run().status == RunStatus::Completed);
        if !self.store.is_keeping() {
            match ctx.state(|run| run.part_to_keep(is_completed)).map_err(broken)? {
                Some((part, last)) => self.store.keep_journal(now, part, last),
                None if is_completed => return Ok(Next::End),
                None => {}
            }
        }
        let until = ctx.state(|run| run.machine.run().next_wake(now));
        Ok(Next::Wait { now, until })
    }

    /// Waits until something has come, or a time. Ends the run if the workflow was cancelled, which only Temporal's own tools do.
    pub async fn wait(&mut self, now: Timestamp, until: Option<Timestamp>) -> WorkflowResult<()> {
        let came = if self.waits_beside || !self.store.is_busy() {
            self.next(now, until).await?
        } else {
            self.next_of_store().await?
        };
        match came {
            Came::Inputs(inputs) => self.inputs.extend(inputs),
            Came::Stored(Stored::Kept(kept)) => kept.map_err(broken)?,
            Came::Stored(Stored::Read(Err(why))) => self.stay_stopped(why),
            Came::Stored(Stored::Read(Ok(()))) | Came::MailOrTime => {}
        }
        Ok(())
    }

    async fn next(&mut self, now: Timestamp, until: Option<Timestamp>) -> WorkflowResult<Came> {
        let mail = self.ctx.wait_condition(|run| !run.inbox.is_empty());
        let mut alarm = self.alarm.until(until, now);
        futures_util::pin_mut!(mail);
        Ok(select! {
            inputs = self.steps.next() => Came::Inputs(inputs),
            stored = self.store.next() => Came::Stored(stored),
            mail = mail => {
                mail?;
                Came::MailOrTime
            }
            () = alarm => Came::MailOrTime,
        })
    }

    /// Waits for the store alone, as earlier versions did.
    async fn next_of_store(&mut self) -> WorkflowResult<Came> {
        let cancelled = self.ctx.wait_condition(|_| false);
        futures_util::pin_mut!(cancelled);
        select! {
            stored = self.store.next() => Ok(Came::Stored(stored)),
            cancelled = cancelled => {
                cancelled?;
                Ok(Came::MailOrTime)
            }
        }
    }
}
