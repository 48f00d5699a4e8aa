//! The time at which a run does something next.

use std::future::poll_fn;
use std::task::{Context, Poll};
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::{FusedFuture, LocalBoxFuture};
use jiff::Timestamp;
use temporalio_sdk::{TimerOptions, WorkflowCancellationToken, WorkflowContext};

use super::RaymondRun;

/// One timer of the server, for as long as the run waits for the same time.
///
/// A timer that is dropped goes on: the server counts it, and it fires. So a timer that is not wanted any more is cancelled.
pub struct Alarm<'a> {
    ctx: &'a WorkflowContext<RaymondRun>,
    timer: Option<Timer<'a>>,
    /// Whether a history was begun with a timer for each wait, and none of them cancelled.
    starts_anew: bool,
}

struct Timer<'a> {
    at: Timestamp,
    token: WorkflowCancellationToken,
    end: LocalBoxFuture<'a, ()>,
}

impl<'a> Alarm<'a> {
    pub fn new(ctx: &'a WorkflowContext<RaymondRun>, starts_anew: bool) -> Self {
        Self { ctx, timer: None, starts_anew }
    }

    /// Waits until this time, or for ever. A timer is only started when this is polled.
    pub fn until(
        &mut self,
        at: Option<Timestamp>,
        now: Timestamp,
    ) -> impl FusedFuture<Output = ()> + use<'_, 'a> {
        let mut is_set = false;
        poll_fn(move |context| {
            if !std::mem::replace(&mut is_set, true) {
                self.set(at, now);
            }
            self.poll(context)
        })
        .fuse()
    }

    fn set(&mut self, at: Option<Timestamp>, now: Timestamp) {
        let is_right = !self.starts_anew && self.timer.as_ref().map(|timer| timer.at) == at;
        if is_right {
            return;
        }
        if let Some(timer) = self.timer.take()
            && !self.starts_anew
        {
            timer.token.cancel();
        }
        self.timer = at.map(|at| self.start(at, now));
    }

    fn start(&self, at: Timestamp, now: Timestamp) -> Timer<'a> {
        let wait = Duration::try_from(at.duration_since(now)).unwrap_or_default() + Duration::from_millis(1);
        let token = WorkflowCancellationToken::new();
        // Those of earlier versions are cancelled with the workflow.
        let own = (!self.starts_anew).then(|| token.clone());
        let options = TimerOptions::builder(wait).maybe_cancellation_token(own).build();
        Timer { at, token, end: self.ctx.timer(options).map(drop).boxed_local() }
    }

    fn poll(&mut self, context: &mut Context<'_>) -> Poll<()> {
        let Some(timer) = &mut self.timer else { return Poll::Pending };
        let fired = timer.end.as_mut().poll(context);
        if fired.is_ready() {
            self.timer = None;
        }
        fired
    }
}
