//! Heartbeats of one delivery, and the fence that follows from them.
//!
//! The server gives an attempt to another machine when it has heard nothing for the heartbeat timeout. So this machine
//! ends an attempt before that, when none of its heartbeats *succeeded* for half of the timeout. The time counts from the
//! moment in which the last successful one was sent, also while this process is frozen or the machine sleeps. The SDK's own
//! heartbeats would not do: they count as sent when they fail. If this process cannot end the attempt, its guard does.

use std::rc::Rc;
use std::time::Duration;

use temporalio_client::errors::AsyncActivityError;
use temporalio_client::{AsyncActivityHandle, Client, RpcOptions};
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::Instant;

use super::leases::Lease;
use crate::guard::since_boot;

/// What the heartbeats have shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pulse {
    /// The server has not answered yet.
    Unknown,
    Good,
    /// The run wants the attempt to be ended. Only the answer to a heartbeat says so: the SDK's own signal is the same for this
    /// and for a delivery that is not wanted any more.
    Cancelled,
    /// The server does not wait for this delivery any more.
    Unwanted,
    /// The server has not been heard of for too long.
    Silent,
}

impl Pulse {
    /// Whether nothing of the attempt may run.
    pub fn ends_the_step(self) -> bool {
        matches!(self, Self::Cancelled | Self::Unwanted | Self::Silent)
    }
}

/// Sends heartbeats until it is dropped.
pub struct Heart {
    pulse: watch::Receiver<Pulse>,
    begun: watch::Sender<bool>,
    task: JoinHandle<()>,
}

impl Heart {
    /// `limit` is the server's heartbeat timeout. Each heartbeat that succeeds renews the lease. `has_begun` says that an earlier
    /// delivery has begun the attempt here: the server must not be told otherwise, or it would think that nothing was lost.
    pub fn start(
        handle: AsyncActivityHandle<Client>,
        limit: Duration,
        lease: Rc<Lease>,
        has_begun: bool,
    ) -> Self {
        let (tell, pulse) = watch::channel(Pulse::Unknown);
        let (begun, has_begun) = watch::channel(has_begun);
        let task = tokio::task::spawn_local(beat(handle, limit, lease, tell, has_begun));
        Self { pulse, begun, task }
    }

    /// Waits until the server knows that the attempt begins. Nothing may be started before.
    pub async fn announce(&mut self) -> Pulse {
        // A pulse that ends the step is told once.
        let pulse = *self.pulse.borrow_and_update();
        if pulse.ends_the_step() {
            return pulse;
        }
        let _ = self.begun.send(true);
        loop {
            if self.pulse.changed().await.is_err() {
                return Pulse::Silent;
            }
            let pulse = *self.pulse.borrow_and_update();
            if pulse != Pulse::Unknown {
                return pulse;
            }
        }
    }

    /// Waits until the run wants the attempt to be ended.
    pub async fn cancelled(&mut self) {
        // It fails only if there are no more heartbeats, and then nothing more is heard of the run.
        if self.pulse.wait_for(|pulse| *pulse == Pulse::Cancelled).await.is_err() {
            std::future::pending().await
        }
    }

    /// Waits until the attempt must be ended.
    pub async fn fails(&mut self) -> Pulse {
        match self.pulse.wait_for(|pulse| pulse.ends_the_step()).await {
            Ok(pulse) => *pulse,
            Err(_) => Pulse::Silent,
        }
    }
}

impl Drop for Heart {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn beat(
    handle: AsyncActivityHandle<Client>,
    limit: Duration,
    lease: Rc<Lease>,
    tell: watch::Sender<Pulse>,
    mut begun: watch::Receiver<bool>,
) {
    let every = limit / 6;
    let mut next = Instant::now() + every;
    loop {
        tokio::select! {
            () = tokio::time::sleep_until(next) => {}
            _ = begun.changed() => {}
        }
        next = Instant::now() + every;
        let has_begun = *begun.borrow_and_update();
        let pulse = heartbeat(&handle, has_begun, every, &lease).await;
        // An `Unknown` says nothing new, and a pulse that ends the step stays.
        let is_news = pulse == Pulse::Good && has_begun == *begun.borrow() || pulse.ends_the_step();
        if is_news && !tell.borrow().ends_the_step() {
            let _ = tell.send(pulse);
        }
        // A step that is cancelled takes a while to end, and its machine must not count as lost meanwhile.
        if pulse.ends_the_step() && pulse != Pulse::Cancelled {
            return;
        }
    }
}

/// Sends one heartbeat. A lease that is over is not renewed: the guard may have ended the attempt.
async fn heartbeat(
    handle: &AsyncActivityHandle<Client>,
    has_begun: bool,
    every: Duration,
    lease: &Lease,
) -> Pulse {
    let sent = since_boot();
    if lease.is_over() {
        return Pulse::Silent;
    }
    let options = RpcOptions::builder().timeout(every).build();
    let answer = handle.heartbeat(Some(has_begun), options);
    let pulse = match tokio::time::timeout(every.min(lease.left()), answer).await {
        Ok(Ok(answer)) => {
            lease.renew(sent);
            if answer.cancel_requested { Pulse::Cancelled } else { Pulse::Good }
        }
        Ok(Err(AsyncActivityError::NotFound(_))) => Pulse::Unwanted,
        Ok(Err(_)) | Err(_) => Pulse::Unknown,
    };
    // This process may have been frozen since it sent the heartbeat.
    if lease.is_over() && !pulse.ends_the_step() { Pulse::Silent } else { pulse }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Nothing changes any more then, and a step must not wait for it.
    #[tokio::test(start_paused = true)]
    async fn an_attempt_that_was_cancelled_already_is_not_announced() {
        let tasks = tokio::task::LocalSet::new();
        let told = tasks.run_until(async {
            let (_tell, pulse) = watch::channel(Pulse::Cancelled);
            let (begun, _has_begun) = watch::channel(false);
            let task = tokio::task::spawn_local(std::future::pending());
            let mut heart = Heart { pulse, begun, task };
            tokio::time::timeout(Duration::from_secs(60), heart.announce()).await
        });
        assert_eq!(told.await.ok(), Some(Pulse::Cancelled));
    }
}
