//! What Raymond's command line asks of the engine.

use std::collections::{BTreeMap, BTreeSet};
use std::future::Future;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use futures_util::StreamExt;
use raymond::agent::registry::Backends;
use raymond::error::{ExitKind, UserError};
use raymond::fleet::{Address, Fleet, KnownRun, NewRun, News, PATIENCE, Trouble, Worker, Workflows};
use raymond::run::frozen::FrozenStates;
use raymond::view::debug::MOST_ARCHIVE_BYTES;
use raymond_core::event::{Body, RunStarted};
use raymond_core::run::Options;
use temporalio_client::errors::{WorkflowInteractionError, WorkflowQueryError, WorkflowStartError};
use temporalio_client::{
    Client, RpcOptions, WorkflowDescribeOptions, WorkflowExecutionStatus, WorkflowIdReusePolicy,
    WorkflowQueryOptions, WorkflowSignalOptions, WorkflowStartOptions,
};
use tokio::runtime::Runtime;

use crate::blobs::{Blobs, TooLong};
use crate::bundle::{keep_repository, keep_workflows};
use crate::client::connect;
use crate::host::{self, debug_key, journal_folder};
use crate::messages::{FilesOfRun, From, Mail, Part, RunInput, Settings, Told, WorkflowsNow};
use crate::packed::{MOST_BYTES, Packed};
use crate::workflow::{RUN, RaymondRun};

/// How long the server may take to answer before a run is not started. No view waits for it.
const PATIENCE_FOR_START: Duration = Duration::from_secs(15);
/// How long a worker may take to decide. It may first have to decide all again that its history holds, and what comes until
/// then is not lost but slows it down.
const LONGEST_DECISION: Duration = Duration::from_secs(30);
/// How often a run is asked for news while nothing happens.
const ASK_EVERY: Duration = Duration::from_millis(100);
/// Variables that set how long a machine may be silent, and how long a step waits for its agent's machine, in milliseconds.
const HEARTBEAT: (&str, u64) = ("RAYMOND_HEARTBEAT_MS", 30_000);
const PATIENCE_FOR_HOME: (&str, u64) = ("RAYMOND_HOST_PATIENCE_MS", 60_000);
/// After how many events of the engine's history a run continues with a new one.
pub(crate) const CONTINUE_AFTER: (&str, u64) = ("RAYMOND_CONTINUE_AFTER", 8_000);

/// The numbers of two statuses of a call: an invalid argument, and a precondition that does not hold.
const ABOUT_THE_RUN: [i32; 2] = [3, 9];

/// Temporal as an engine for runs.
#[derive(Default)]
pub struct Temporal {
    runtime: OnceLock<Runtime>,
    clients: OnceLock<Clients>,
    /// Stores of blobs that are read often, by their addresses.
    stores: Mutex<BTreeMap<Option<String>, Blobs>>,
}

/// Connections, by server and namespace.
type Clients = Arc<Mutex<BTreeMap<String, Client>>>;

impl Temporal {
    pub const fn new() -> Self {
        Self { runtime: OnceLock::new(), clients: OnceLock::new(), stores: Mutex::new(BTreeMap::new()) }
    }

    fn blobs_at(&self, at: &Address) -> Result<Blobs, Trouble> {
        let mut stores = self.stores.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(blobs) = stores.get(&at.blobs) {
            return Ok(blobs.clone());
        }
        let blobs = Blobs::open(at.blobs.as_deref()).map_err(away)?;
        stores.insert(at.blobs.clone(), blobs.clone());
        Ok(blobs)
    }

    /// Runs something to its end, wherever it is called from.
    fn call<T: Send + 'static>(&self, act: impl Future<Output = T> + Send + 'static) -> Result<T, Trouble> {
        let runtime = self.runtime.get_or_init(|| {
            let mut builder = tokio::runtime::Builder::new_multi_thread();
            builder.worker_threads(1).enable_all().build().expect("a thread can be started")
        });
        let (tell, told) = std::sync::mpsc::channel();
        runtime.spawn(async move { tell.send(act.await) });
        told.recv().map_err(|_| Trouble::Away("the connection was lost".to_owned()))
    }

    fn with_client<T, F>(
        &self,
        at: &Address,
        patience: Duration,
        act: impl FnOnce(Client) -> F + Send + 'static,
    ) -> Result<T, Trouble>
    where
        T: Send + 'static,
        F: Future<Output = Result<T, Trouble>> + Send,
    {
        let (at, clients) = (at.clone(), Arc::clone(self.clients.get_or_init(Clients::default)));
        self.call(async move {
            let lock = || clients.lock().unwrap_or_else(PoisonError::into_inner);
            let key = format!("{}/{}", at.server(), at.namespace);
            let known = lock().get(&key).cloned();
            let client = match known {
                Some(client) => client,
                None => connect(&at, "raymond", patience).await.map_err(away)?,
            };
            lock().insert(key, client.clone());
            act(client).await
        })?
    }
}

impl Fleet for Temporal {
    fn start(&self, at: &Address, new: &NewRun) -> Result<(), Trouble> {
        let (id, queue) = (new.id.clone(), at.queue.clone());
        let input = self.input_of(at, new)?;
        self.with_client(at, PATIENCE_FOR_START, async move |client: Client| {
            let options = WorkflowStartOptions::new(queue, id)
                .id_reuse_policy(WorkflowIdReusePolicy::RejectDuplicate)
                .task_timeout(LONGEST_DECISION)
                .build();
            match client.start_workflow(RaymondRun::run, input, options).await {
                Ok(_) => Ok(()),
                Err(WorkflowStartError::Rpc(status)) => Err(Trouble::Away(status.message().to_owned())),
                Err(error) => Err(Trouble::Refused(error.to_string())),
            }
        })
    }

    fn runs(&self, at: &Address) -> Result<Vec<KnownRun>, Trouble> {
        let wanted = format!("WorkflowType = '{RUN}' AND TaskQueue = '{}'", at.queue);
        self.with_client(at, PATIENCE, async move |client: Client| {
            let listed = async {
                let mut stream = client.list_workflows(wanted, Default::default());
                let mut runs = BTreeMap::new();
                while let Some(found) = stream.next().await {
                    let found = found.map_err(away)?;
                    let is_open = *runs.entry(found.id().to_owned()).or_default() || is_running(&found);
                    runs.insert(found.id().to_owned(), is_open);
                }
                Ok(runs.into_iter().map(|(id, is_open)| KnownRun { id, is_open }).collect())
            };
            in_time(listed).await
        })
    }

    fn news(&self, at: &Address, run: &str, after: u64, wait: Duration) -> Result<News, Trouble> {
        let (run, blobs) = (run.to_owned(), at.blobs.clone());
        self.with_client(at, PATIENCE, async move |client: Client| {
            let until = Instant::now() + wait;
            loop {
                let news = news_of(&client, blobs.as_deref(), &run, after).await?;
                if !news.batches.is_empty() || !news.is_open {
                    return Ok(news);
                }
                if Instant::now() >= until {
                    check_that_it_goes_on(&client, &run).await?;
                    return Ok(news);
                }
                tokio::time::sleep(ASK_EVERY).await;
            }
        })
    }

    fn deliver(&self, at: &Address, run: &str, name: &str, content: &str) -> Result<(), Trouble> {
        self.signal(at, run, Mail::Message { name: name.to_owned(), content: content.to_owned() })
    }

    fn resume(
        &self,
        at: &Address,
        run: &str,
        options: &Options,
        workflows: Option<&Workflows>,
    ) -> Result<(), Trouble> {
        let workflows = workflows.map(|workflows| self.keep(at, workflows)).transpose()?.map(Box::new);
        self.signal(at, run, Mail::Resume { options: Box::new(options.clone()), workflows })?;
        let run = run.to_owned();
        self.with_client(at, PATIENCE, async move |client: Client| {
            let until = Instant::now() + PATIENCE_FOR_START;
            // If no worker answers, the run goes on when one does.
            while let Ok(told) = ask(&client, &run, u64::MAX).await
                && Instant::now() < until
            {
                match told.why_stopped {
                    Some(why) => return Err(refused(format!("the run {run} cannot go on: {why}"))),
                    None if told.is_about_to_go_on => tokio::time::sleep(ASK_EVERY).await,
                    None => break,
                }
            }
            Ok(())
        })
    }

    fn debug_files(
        &self,
        at: &Address,
        run: &str,
        step: u64,
        attempt: u32,
    ) -> Result<Option<Vec<u8>>, Trouble> {
        let key = debug_key(run, step, attempt);
        let blobs = self.blobs_at(at)?;
        let trouble = |error: anyhow::Error| match error.is::<TooLong>() {
            true => refused(error),
            false => away(error),
        };
        self.call(in_time(async move { blobs.get_up_to(&key, MOST_ARCHIVE_BYTES).await.map_err(trouble) }))?
    }

    fn work(&self, worker: &Worker) -> Result<ExitKind, UserError> {
        let config =
            raymond::config::load_both(raymond::config::user_file().as_deref(), None, &|_, _| Ok(()))?;
        let backends = Backends::new(&config)?;
        let mut builder = tokio::runtime::Builder::new_multi_thread();
        let runtime = builder.worker_threads(2).enable_all().build();
        let runtime = runtime.map_err(|error| UserError::failed(format!("cannot start: {error}")))?;
        // The SDK's workers are not `Send`.
        let local = tokio::task::LocalSet::new();
        local
            .block_on(&runtime, host::work(worker, backends))
            .map_err(|error| UserError::failed(format!("{error:#}")))?;
        Ok(ExitKind::Completed)
    }
}

impl Temporal {
    /// Everything that a run is begun with. Its files are in the store of blobs then.
    fn input_of(&self, at: &Address, new: &NewRun) -> Result<RunInput, Trouble> {
        let started = new.opening.iter().find_map(|body| match body {
            Body::RunStarted(started) => Some(started),
            _ => None,
        });
        let started: &RunStarted = started.ok_or_else(|| refused("the run has no beginning"))?;
        let backends = Backends::new(&new.config).map_err(|error| refused(error.message))?;
        let states = FrozenStates::read(&new.scopes, &started.options, &backends)
            .map_err(|error| refused(error.message))?;
        let (blobs, scopes, cwd) = (at.blobs.clone(), new.scopes.clone(), new.cwd.clone());
        let kept = self.call(async move {
            let blobs = Blobs::open(blobs.as_deref())?;
            anyhow::Ok((keep_workflows(&blobs, &scopes).await?, keep_repository(&blobs, &cwd).await?))
        })?;
        let (bundle, repository) = kept.map_err(|error| refused(format!("{error:#}")))?;
        let settings = Settings {
            queue: at.queue.clone(),
            heartbeat_ms: variable(HEARTBEAT),
            patience_ms: variable(PATIENCE_FOR_HOME),
            continue_after: u32::try_from(variable(CONTINUE_AFTER)).unwrap_or(u32::MAX),
            files: FilesOfRun {
                bundle,
                project: new.project.to_string_lossy().into_owned(),
                workflow_paths: new.config.raymond.workflow_paths.clone(),
                cd_paths: new.config.raymond.cd_paths.clone(),
                repository,
                debug_folder: new.debug_folder.as_ref().map(|path| path.to_string_lossy().into_owned()),
            },
        };
        let from = Packed::new(&From::Start { opening: new.opening.clone(), states }).map_err(refused)?;
        match from.bytes() < MOST_BYTES {
            true => Ok(RunInput { settings, from }),
            false => {
                Err(refused("the workflow's states and input are too large for a message of the engine"))
            }
        }
    }

    /// Puts the workflows of a run into the store of blobs.
    fn keep(&self, at: &Address, workflows: &Workflows) -> Result<WorkflowsNow, Trouble> {
        let (blobs, paths) = (at.blobs.clone(), workflows.scopes.clone());
        let kept = self.call(async move { keep_workflows(&Blobs::open(blobs.as_deref())?, &paths).await })?;
        let scopes = workflows.scopes.iter().map(|path| path.to_string_lossy().into_owned());
        Ok(WorkflowsNow {
            bundle: kept.map_err(|error| refused(format!("{error:#}")))?,
            scopes: scopes.collect::<BTreeSet<_>>().into_iter().collect(),
            workflow_paths: workflows.workflow_paths.clone(),
            cd_paths: workflows.cd_paths.clone(),
        })
    }

    /// Gives a message to a run, and waits until it is taken.
    fn signal(&self, at: &Address, run: &str, mail: Mail) -> Result<(), Trouble> {
        let run = run.to_owned();
        self.with_client(at, PATIENCE, async move |client: Client| {
            let handle = client.get_workflow_handle::<RaymondRun>(run.clone());
            let taken = async || ask(&client, &run, u64::MAX).await.map(|told| told.taken);
            let before = taken().await.ok();
            let options = WorkflowSignalOptions::builder().rpc_options(in_patience()).build();
            match handle.signal(RaymondRun::deliver, mail, options).await {
                Ok(()) => {}
                Err(WorkflowInteractionError::NotFound(_)) => {
                    return Err(refused(format!("the run {run} has ended, or is not there")));
                }
                Err(error) => return Err(away(error)),
            }
            // The server has it now. If no worker answers, it is taken later.
            let until = Instant::now() + PATIENCE;
            while before.is_some() && taken().await.ok() == before && Instant::now() < until {
                tokio::time::sleep(ASK_EVERY).await;
            }
            Ok(())
        })
    }
}

async fn ask(client: &Client, run: &str, after: u64) -> Result<Told, WorkflowQueryError> {
    let handle = client.get_workflow_handle::<RaymondRun>(run);
    let options = WorkflowQueryOptions::builder().rpc_options(in_patience()).build();
    handle.query(RaymondRun::news, after, options).await
}

/// What a run tells, with what it has left in the store of blobs.
async fn news_of(client: &Client, blobs: Option<&str>, run: &str, after: u64) -> Result<News, Trouble> {
    let told = match in_time(async { Ok(ask(client, run, after).await) }).await? {
        Ok(told) => told,
        Err(WorkflowQueryError::NotFound(_)) => return Err(refused(format!("there is no run {run}"))),
        // A worker could not read it or decide about it, so this is about the run and not about the server.
        Err(WorkflowQueryError::Rpc(status)) if ABOUT_THE_RUN.contains(&(status.code() as i32)) => {
            return Err(refused(format!("the run {run} cannot be read: {}", status.message())));
        }
        Err(error) => return Err(away(error)),
    };
    let part = match after + 1 < told.first {
        true => kept_after(blobs, run, after).await.map_err(|error| away(format!("{error:#}")))?,
        false => told.part.open().map_err(refused)?,
    };
    Ok(News { batches: part.batches, payloads: part.payloads, hosts: told.hosts, is_open: told.is_open })
}

/// The server can end a run without asking it. The run itself does not know that.
async fn check_that_it_goes_on(client: &Client, run: &str) -> Result<(), Trouble> {
    let handle = client.get_workflow_handle::<RaymondRun>(run);
    let options = WorkflowDescribeOptions::builder().rpc_options(in_patience()).build();
    let status = handle.describe(options).await.map_err(away)?.status();
    match status {
        WorkflowExecutionStatus::Running | WorkflowExecutionStatus::Completed => Ok(()),
        ended => Err(refused(format!("the server has ended the run {run} ({ended:?})"))),
    }
}

/// The part of a journal in the store of blobs that has the event behind this one.
async fn kept_after(blobs: Option<&str>, run: &str, after: u64) -> anyhow::Result<Part> {
    let blobs = Blobs::open(blobs)?;
    let folder = journal_folder(run);
    let first_of = |name: &str| name.strip_suffix(".json").and_then(|name| name.parse::<u64>().ok());
    let names = blobs.list(&folder).await?;
    let name = names.iter().rev().find(|name| first_of(name).is_some_and(|first| first <= after + 1));
    let name = name.ok_or_else(|| anyhow::anyhow!("a part of the journal is not in the blob store"))?;
    let bytes = blobs.get(&format!("{folder}/{name}")).await?.unwrap_or_default();
    let mut part = serde_json::from_slice::<Packed<Part>>(&bytes)?.open()?;
    part.batches.retain(|batch| batch.last().is_some_and(|event| event.seq > after));
    Ok(part)
}

fn is_running(found: &temporalio_client::WorkflowExecution) -> bool {
    found.status() == WorkflowExecutionStatus::Running
}

fn in_patience() -> RpcOptions {
    RpcOptions::builder().timeout(PATIENCE).build()
}

async fn in_time<T>(act: impl Future<Output = Result<T, Trouble>>) -> Result<T, Trouble> {
    let late = |_| Trouble::Away(format!("no answer within {} s", PATIENCE.as_secs()));
    tokio::time::timeout(PATIENCE, act).await.map_err(late)?
}

fn away(error: impl std::fmt::Display) -> Trouble {
    Trouble::Away(format!("{error:#}"))
}

fn refused(error: impl std::fmt::Display) -> Trouble {
    Trouble::Refused(error.to_string())
}

fn variable((name, default): (&str, u64)) -> u64 {
    std::env::var(name).ok().and_then(|value| value.parse().ok()).unwrap_or(default)
}
