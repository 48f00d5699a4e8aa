//! Asks a server about its runs, and gives them messages.

use std::collections::BTreeMap;
use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use anyhow::Context;
use futures_util::FutureExt;
use raymond::fleet::{Address, News, PATIENCE, Standing, Trouble};
use raymond_core::event::Body;
use temporalio_client::errors::{WorkflowInteractionError, WorkflowQueryError};
use temporalio_client::tonic::Code;
use temporalio_client::{
    Client, RpcOptions, WorkflowExecutionStatus, WorkflowQueryOptions, WorkflowSignalOptions,
    WorkflowTerminateOptions,
};
use tokio::time::timeout;

use super::{ASK_EVERY, away, in_patience, refused};
use crate::blobs::Blobs;
use crate::client::{NoAnswer, connect};
use crate::host::journal_folder;
use crate::messages::{Mail, Part, Told};
use crate::packed::Packed;
use crate::server::{ended_how, is_queue_read, is_untaken, opening, status_of, why_wedged};
use crate::workflow::{NOT_DECIDED, RaymondRun};

/// How long a worker may take to answer before the run is shown as it was last seen. A command that waits for the server no
/// longer than [`PATIENCE`] has to know by then that it was not the server.
const PATIENCE_WITH_WORKERS: Duration = Duration::from_millis(1500);
/// After so long without an answer it is looked whether a worker reads the queue at all.
const LOOK_FOR_WORKERS: Duration = Duration::from_millis(100);
/// How much longer an answer is waited for if none seems to. One may have come just now.
const LAST_CHANCE: Duration = Duration::from_millis(300);
/// How long workers that did not answer are not waited for again.
const SILENT_FOR: Duration = Duration::from_secs(2);
/// What the server says to a question if no worker has read the queue lately.
const NO_WORKER: &str = "no poller seen";

/// What is remembered between calls.
#[derive(Default)]
pub(super) struct Known {
    /// Connections, by server and namespace.
    clients: Mutex<BTreeMap<String, Client>>,
    /// When workers did not answer, by queue or by run.
    silent: Mutex<BTreeMap<String, Instant>>,
}

impl Known {
    pub async fn client(&self, at: &Address) -> Result<Client, Trouble> {
        let key = format!("{}/{}", at.server(), at.namespace);
        let known = lock(&self.clients).get(&key).cloned();
        if let Some(client) = known {
            return Ok(client);
        }
        let client = connect(at, "raymond", PATIENCE).await.map_err(away)?;
        lock(&self.clients).insert(key, client.clone());
        Ok(client)
    }

    fn is_silent(&self, key: &str) -> bool {
        lock(&self.silent).get(key).is_some_and(|since| since.elapsed() < SILENT_FOR)
    }

    fn note_silence(&self, key: String) {
        lock(&self.silent).insert(key, Instant::now());
    }
}

pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A server that answers, and what is known of its workers.
pub(crate) struct Server {
    pub(crate) at: Address,
    pub(crate) client: Client,
    pub(super) known: Arc<Known>,
}

/// What a run says.
pub(crate) enum Answer {
    Told(Box<Told>),
    /// No worker answers; why.
    Unheard(String),
    NotThere,
}

impl Server {
    /// Asks a run for its journal behind an event. Workers that were silent just now are not waited for again.
    pub(crate) async fn question(&self, run: &str, after: u64) -> Result<Answer, Trouble> {
        let queue = format!("the queue {} of {}", self.at.queue, self.at.server());
        let was_silent = self.known.is_silent(&queue) || self.known.is_silent(run);
        let mut query = pin!(self.query(run, after).fuse());
        let at_first = if was_silent { Duration::ZERO } else { LOOK_FOR_WORKERS };
        let is_hopeless = match timeout(at_first, &mut query).await {
            Ok(answer) => match answer? {
                Some(answer) => return Ok(answer),
                None => true,
            },
            Err(_) => false,
        };
        let looked = timeout(PATIENCE_WITH_WORKERS, is_queue_read(&self.client, &self.at)).await;
        let is_read = looked.map_err(|_| away(NoAnswer))?.map_err(away)?;
        let longer = match (is_read, was_silent) {
            _ if is_hopeless => Duration::ZERO,
            (true, false) => PATIENCE_WITH_WORKERS,
            (true, true) | (false, false) => LAST_CHANCE,
            (false, true) => Duration::ZERO,
        };
        if let Ok(answer) = timeout(longer, &mut query).await
            && let Some(answer) = answer?
        {
            return Ok(answer);
        }
        // A worker that comes back must be waited for long enough some time, so this is not noted again and again.
        if !was_silent {
            self.known.note_silence(if is_read { run.to_owned() } else { queue.clone() });
        }
        Ok(Answer::Unheard(match is_read {
            true => format!("no worker of {queue} answers"),
            false => format!("no worker reads {queue}"),
        }))
    }

    /// Nothing if no worker has answered.
    async fn query(&self, run: &str, after: u64) -> Result<Option<Answer>, Trouble> {
        let handle = self.client.get_workflow_handle::<RaymondRun>(run);
        let status = loop {
            let in_time = RpcOptions::builder().timeout(PATIENCE_WITH_WORKERS).build();
            let options = WorkflowQueryOptions::builder().rpc_options(in_time).build();
            match handle.query(RaymondRun::news, after, options).await {
                Ok(told) => return Ok(Some(Answer::Told(Box::new(told)))),
                Err(WorkflowQueryError::NotFound(_)) => return Ok(Some(Answer::NotThere)),
                Err(WorkflowQueryError::Rpc(status)) if status.message().contains(NOT_DECIDED) => {}
                Err(WorkflowQueryError::Rpc(status)) => break status,
                Err(error) => return Err(away(error)),
            }
            tokio::time::sleep(ASK_EVERY).await;
        };
        match status.code() {
            Code::DeadlineExceeded | Code::Cancelled => Ok(None),
            _ if status.message().contains(NO_WORKER) => Ok(None),
            // A worker could not read it or decide about it, so this is about the run and not about the server.
            Code::InvalidArgument | Code::FailedPrecondition => {
                Err(refused(format!("the run {run} cannot be read: {}", status.message())))
            }
            _ => Err(away(status.message())),
        }
    }

    /// What a run tells, with what it has left in the store of blobs.
    pub(super) async fn news_of(&self, told: Told, run: &str, after: u64) -> Result<News, Trouble> {
        let part = match after + 1 < told.first {
            true => self.kept_after(run, after).await?,
            false => told.part.open().map_err(refused)?,
        };
        let standing = if told.is_open { Standing::Open } else { Standing::Over };
        Ok(News { batches: part.batches, payloads: part.payloads, hosts: told.hosts, standing })
    }

    /// What is known of a run while no worker answers: how it begins and, once it has ended, its journal.
    pub(super) async fn news_without_workers(
        &self,
        run: &str,
        after: u64,
        why: String,
    ) -> Result<News, Trouble> {
        let status = status_of(&self.client, run).await.map_err(away)?;
        let is_terminated = status == Some(WorkflowExecutionStatus::Terminated);
        let standing = match (ended_how(status), status) {
            _ if is_terminated && is_untaken(&self.client, run).await.map_err(away)? => {
                Standing::Ended("was ended before any worker had taken it".to_owned())
            }
            (Some(how), _) => Standing::Ended(how.to_owned()),
            (None, Some(WorkflowExecutionStatus::Completed)) => Standing::Over,
            (None, _) => match why_wedged(&self.client, run).await.map_err(away)? {
                Some(why) => Standing::Wedged(why),
                None => Standing::Unheard(why),
            },
        };
        if status.is_none() {
            return Ok(nothing_new(standing));
        }
        let part = match standing {
            Standing::Over => self.kept_after(run, after).await?,
            _ if after == 0 => {
                let cannot = |error| refused(format!("the run {run} cannot be read: {error:#}"));
                opening(&self.client, run).await.map_err(cannot)?
            }
            _ => Part::default(),
        };
        Ok(News { batches: part.batches, payloads: part.payloads, ..nothing_new(standing) })
    }

    /// The part of a journal in the store of blobs that has the event behind this one.
    async fn kept_after(&self, run: &str, after: u64) -> Result<Part, Trouble> {
        let blobs = self.at.blobs.as_deref();
        let cannot = |error| refused(format!("its journal cannot be read: {error:#}"));
        kept_after(blobs, run, after).await.map_err(cannot)
    }

    /// Gives a message to a run, and waits until it is taken. False if the server has it and no worker answers.
    pub(super) async fn signal(&self, run: &str, mail: Mail) -> Result<bool, Trouble> {
        let handle = self.client.get_workflow_handle::<RaymondRun>(run);
        let options = WorkflowSignalOptions::builder().rpc_options(in_patience()).build();
        match timeout(PATIENCE, handle.signal(RaymondRun::deliver, mail, options)).await {
            Ok(Ok(())) => {}
            Ok(Err(WorkflowInteractionError::NotFound(_))) => {
                return Err(refused(format!("the run {run} has ended, or is not there")));
            }
            Ok(Err(error)) => return Err(away(error)),
            Err(_) => return Err(away(NoAnswer)),
        }
        // An answer of the run comes after everything that the server had before the question.
        let until = Instant::now() + PATIENCE_WITH_WORKERS;
        loop {
            match self.question(run, u64::MAX).await {
                Ok(Answer::Told(told)) if told.untaken > 0 && Instant::now() < until => {}
                Ok(Answer::Told(_) | Answer::NotThere) => return Ok(true),
                Ok(Answer::Unheard(_)) | Err(_) => return Ok(false),
            }
            tokio::time::sleep(ASK_EVERY).await;
        }
    }

    /// Whether the server has ended a run without asking it, or cannot have it decided any further. It lets neither be asked.
    pub(super) async fn cannot_be_asked(&self, run: &str) -> Result<bool, Trouble> {
        Ok(ended_how(status_of(&self.client, run).await.map_err(away)?).is_some()
            || why_wedged(&self.client, run).await.map_err(away)?.is_some())
    }

    /// Ends a run of which nothing has been done.
    pub(super) async fn end_if_untaken(&self, run: &str) -> Result<(), Trouble> {
        if !is_untaken(&self.client, run).await.map_err(away)? {
            return Ok(());
        }
        let handle = self.client.get_workflow_handle::<RaymondRun>(run);
        let reason = "it was stopped before any worker had taken it".to_owned();
        let options = WorkflowTerminateOptions::builder().reason(reason).rpc_options(in_patience()).build();
        handle.terminate(options).await.map_err(away)
    }
}

fn nothing_new(standing: Standing) -> News {
    News { batches: Vec::new(), payloads: Vec::new(), hosts: BTreeMap::new(), standing }
}

/// The part of a journal in the store of blobs that has the event behind this one.
async fn kept_after(address: Option<&str>, run: &str, after: u64) -> anyhow::Result<Part> {
    let blobs = Blobs::open(address)?;
    let folder = journal_folder(run);
    let first_of = |name: &str| name.strip_suffix(".json").and_then(|name| name.parse::<u64>().ok());
    let names = blobs.list(&folder).await?;
    let name = names.iter().rev().find(|name| first_of(name).is_some_and(|first| first <= after + 1));
    let name = name.with_context(|| {
        let store = address.unwrap_or("of this machine, because none is named");
        format!("a part of it is not in the blob store {store}; name the one that the workers have")
    })?;
    let bytes = blobs.get(&format!("{folder}/{name}")).await?.unwrap_or_default();
    let part = serde_json::from_slice::<Packed<Part>>(&bytes)?.open()?;
    rest_behind(part, after)
}

/// What a part of a journal has behind this event. It is an error if that is not the next event, unless the run has finished
/// and there is none: a shared disk may not list the newest part yet, and an earlier one was read in its place.
fn rest_behind(mut part: Part, after: u64) -> anyhow::Result<Part> {
    let is_end = part.batches.iter().flatten().any(|event| matches!(event.body, Body::RunFinished { .. }));
    part.batches.retain(|batch| batch.last().is_some_and(|event| event.seq > after));
    match part.batches.first().and_then(|batch| batch.first()) {
        Some(event) if event.seq == after + 1 => Ok(part),
        None if is_end => Ok(part),
        _ => anyhow::bail!("event {} is not in the blob store yet", after + 1),
    }
}

pub(super) fn is_running(found: &temporalio_client::WorkflowExecution) -> bool {
    found.status() == WorkflowExecutionStatus::Running
}

#[cfg(test)]
mod tests {
    use raymond_core::event::{Event, FinishedStatus, Totals};
    use raymond_core::money::Usd;

    use super::*;

    /// A part of a journal that is one batch.
    fn part(numbers: std::ops::RangeInclusive<u64>, is_end: bool) -> Part {
        let last = *numbers.end();
        let body = |seq: u64| match is_end && seq == last {
            true => Body::RunFinished {
                status: FinishedStatus::Completed,
                result: None,
                totals: Totals {
                    steps: 1,
                    agents: 1,
                    cost_usd: Usd::default(),
                    duration_ms: 1,
                    failed_workers: 0,
                },
            },
            false => Body::Warning { agent: None, step: None, state: None, message: seq.to_string() },
        };
        let event = |seq| {
            let (time, run) = (jiff::Timestamp::UNIX_EPOCH, "r".to_owned());
            Event { seq, time, run, body: body(seq) }
        };
        Part { batches: vec![numbers.map(event).collect()], payloads: Vec::new() }
    }

    /// The numbers of the events behind this one, or why they cannot be had.
    async fn behind(address: &str, after: u64) -> Result<Vec<u64>, String> {
        let part = kept_after(Some(address), "r", after).await.map_err(|error| error.to_string())?;
        Ok(part.batches.iter().flatten().map(|event| event.seq).collect())
    }

    #[tokio::test]
    async fn a_part_that_is_not_listed_yet_is_not_taken_for_the_end_of_a_journal() {
        let folder = tempfile::tempdir().unwrap();
        let address = format!("file://{}", folder.path().display());
        let blobs = Blobs::open(Some(&address)).unwrap();
        let keep = async |first: u64, part: Part| {
            let bytes = serde_json::to_vec(&Packed::new(&part).unwrap()).unwrap();
            blobs.put(&format!("{}/{first:012}.json", journal_folder("r")), bytes).await.unwrap();
        };
        keep(1, part(1..=3, false)).await;
        let later = Err("event 4 is not in the blob store yet".to_owned());
        assert_eq!((behind(&address, 0).await, behind(&address, 3).await), (Ok(vec![1, 2, 3]), later));
        keep(4, part(4..=5, true)).await;
        assert_eq!(behind(&address, 3).await, Ok(vec![4, 5]));
        assert_eq!(behind(&address, 5).await, Ok(vec![]), "all of a finished run is copied");
    }
}
