//! What the store of blobs does for a run: it keeps parts of the journal and texts, and a resume reads the states from it.
//!
//! A store may be away for long, and the engine asks a machine again until it works. So the run waits for the store beside
//! its steps, and not instead of them. One thing is kept at a time: while the store is away, only one of these activities is
//! pending, and one that reads states.
//!
//! These activities are not cancelled with the workflow. Who waits for them notices that the workflow is.

use std::future::poll_fn;
use std::task::{Context, Poll};
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::{FusedFuture, LocalBoxFuture};
use jiff::Timestamp;
use temporalio_sdk::{ActivityCancellationType, ActivityOptions, WorkflowCancellationToken, WorkflowContext};

use super::{MOST_HISTORY_BYTES, RaymondRun, add_bytes, has_newer_rules};
use crate::host::Host;
use crate::messages::{JournalPart, StatesWanted, TextsPart};
use crate::packed::Packed;

/// How long a machine may take for one attempt.
const LONGEST_ATTEMPT: Duration = Duration::from_secs(60);

/// What the store is asked for now.
pub struct Store<'a> {
    ctx: &'a WorkflowContext<RaymondRun>,
    keeping: Option<Keeping<'a>>,
    reading: Option<Reading<'a>>,
}

struct Keeping<'a> {
    since: Timestamp,
    end: LocalBoxFuture<'a, anyhow::Result<()>>,
}

struct Reading<'a> {
    token: WorkflowCancellationToken,
    end: LocalBoxFuture<'a, Result<(), String>>,
}

/// What has come to an end.
pub enum Stored {
    Kept(anyhow::Result<()>),
    /// The states were read again. An error says why that cannot be done.
    Read(Result<(), String>),
}

impl<'a> Store<'a> {
    pub fn new(ctx: &'a WorkflowContext<RaymondRun>) -> Self {
        Self { ctx, keeping: None, reading: None }
    }

    /// Whether something is being kept, and since when.
    pub fn keeps_since(&self) -> Option<Timestamp> {
        self.keeping.as_ref().map(|keeping| keeping.since)
    }

    pub fn is_keeping(&self) -> bool {
        self.keeping.is_some()
    }

    pub fn is_busy(&self) -> bool {
        self.is_keeping() || self.is_reading()
    }

    pub fn is_reading(&self) -> bool {
        self.reading.is_some()
    }

    /// Has a part of the journal kept, up to the event `last`.
    pub fn keep_journal(&mut self, now: Timestamp, part: JournalPart, last: u64) {
        let end = Box::pin(keep_journal(self.ctx, part, last));
        self.keeping = Some(Keeping { since: now, end });
    }

    /// Has the texts of the run's state kept, so that the state gets shorter. False if there are none, or if this history
    /// has no room for them.
    pub fn keep_texts(&mut self, now: Timestamp) -> bool {
        let has_some = !texts_to_keep(self.ctx).is_empty();
        if has_some {
            self.keeping = Some(Keeping { since: now, end: Box::pin(keep_texts(self.ctx)) });
        }
        has_some
    }

    /// Has the states read again by any machine.
    pub fn read_states(&mut self, wanted: StatesWanted) {
        let token = WorkflowCancellationToken::new();
        let end = Box::pin(read_states(self.ctx, wanted, token.clone()));
        self.reading = Some(Reading { token, end });
    }

    /// The states are not wanted any more.
    pub fn stop_reading(&mut self) {
        if let Some(reading) = self.reading.take() {
            reading.token.cancel_with_reason("the run stops");
        }
    }

    /// Waits until something has come to an end.
    pub fn next(&mut self) -> impl FusedFuture<Output = Stored> + '_ {
        poll_fn(|context| self.poll(context)).fuse()
    }

    fn poll(&mut self, context: &mut Context<'_>) -> Poll<Stored> {
        if let Some(keeping) = &mut self.keeping
            && let Poll::Ready(kept) = keeping.end.as_mut().poll(context)
        {
            self.keeping = None;
            return Poll::Ready(Stored::Kept(kept));
        }
        if let Some(reading) = &mut self.reading
            && let Poll::Ready(read) = reading.end.as_mut().poll(context)
        {
            self.reading = None;
            return Poll::Ready(Stored::Read(read));
        }
        Poll::Pending
    }
}

fn options(token: WorkflowCancellationToken) -> ActivityOptions {
    ActivityOptions::with_start_to_close_timeout(LONGEST_ATTEMPT)
        .cancellation_token(token)
        .cancellation_type(ActivityCancellationType::TryCancel)
        .build()
}

async fn keep_journal(ctx: &WorkflowContext<RaymondRun>, part: JournalPart, last: u64) -> anyhow::Result<()> {
    add_bytes(ctx, &part.part);
    // It is tried again until it works, so there is no other end.
    let options = options(WorkflowCancellationToken::new());
    if ctx.execute_activity(Host::keep_journal, part, options).await.is_ok() {
        ctx.state_mut(|run| run.machine.forget_up_to(last));
    }
    Ok(())
}

/// Texts of the run's state to keep in the store, as many as fit in a message, if this history has room for them.
fn texts_to_keep(ctx: &WorkflowContext<RaymondRun>) -> Vec<String> {
    ctx.state_mut(|run| match run.bytes > MOST_HISTORY_BYTES {
        true => Vec::new(),
        false => run.machine.texts_to_keep(),
    })
}

async fn keep_texts(ctx: &WorkflowContext<RaymondRun>) -> anyhow::Result<()> {
    loop {
        let texts = texts_to_keep(ctx);
        if texts.is_empty() {
            return Ok(());
        }
        let run = ctx.state(|run| run.machine.run().id.clone());
        let part = TextsPart { run, texts: Packed::new(&texts)? };
        add_bytes(ctx, &part.texts);
        // It is tried again until it works, so there is no other end.
        let options = options(WorkflowCancellationToken::new());
        if ctx.execute_activity(Host::keep_texts, part, options).await.is_ok() {
            ctx.state_mut(|run| run.machine.keeps_elsewhere(&texts))?;
        }
        // Steps that run meanwhile leave more texts. The next part is kept if the run still does not fit in a message.
        if has_newer_rules(ctx) {
            return Ok(());
        }
    }
}

async fn read_states(
    ctx: &WorkflowContext<RaymondRun>,
    wanted: StatesWanted,
    token: WorkflowCancellationToken,
) -> Result<(), String> {
    add_bytes(ctx, &wanted.states);
    let states = match ctx.execute_activity(Host::read_states, wanted, options(token)).await {
        Ok(states) => states.open().map_err(|error| error.to_string())?,
        Err(error) => {
            let why = error.reason().map(|why| why.failure().message.clone());
            return Err(why.unwrap_or_else(|| error.to_string()));
        }
    };
    ctx.state_mut(|run| run.machine.use_states(states));
    Ok(())
}
