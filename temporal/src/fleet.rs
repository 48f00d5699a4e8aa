//! What Raymond's command line asks of the engine.

use std::collections::{BTreeMap, BTreeSet};
use std::future::Future;
use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use anyhow::Context;
use futures_util::{FutureExt, StreamExt};
use raymond::agent::registry::Backends;
use raymond::error::{ExitKind, UserError};
use raymond::fleet::{
    Address, Fleet, KnownRun, NewRun, News, PATIENCE, Resume, Standing, Trouble, Worker, Workflows,
};
use raymond::run::driver::{ANSWER_MESSAGE, Answer as GivenAnswer, STOP_MESSAGE, StopRequest};
use raymond::run::frozen::FrozenStates;
use raymond::view::debug::MOST_ARCHIVE_BYTES;
use raymond_core::event::{Body, RunStarted};
use raymond_core::limits::MAX_INLINE_PAYLOAD_BYTES;
use temporalio_client::errors::{WorkflowInteractionError, WorkflowQueryError, WorkflowStartError};
use temporalio_client::tonic::Code;
use temporalio_client::{
    Client, RpcOptions, WorkflowExecutionStatus, WorkflowIdReusePolicy, WorkflowQueryOptions,
    WorkflowSignalOptions, WorkflowStartOptions, WorkflowTerminateOptions,
};
use tokio::runtime::Runtime;
use tokio::time::timeout;

use crate::blobs::{Blobs, TooLong};
use crate::bundle::{keep_repository, keep_workflows};
use crate::client::{NoAnswer, connect};
use crate::forget::LONGEST_FORGETTING;
use crate::host::{self, debug_key, journal_folder};
use crate::messages::{FilesOfRun, From, Mail, Part, RunInput, Settings, Told, WorkflowsNow};
use crate::packed::{MOST_BYTES, Packed};
use crate::server::{ended_how, is_queue_read, is_untaken, opening, status_of};
use crate::texts::{NoText, Texts};
use crate::workflow::{RUN, RaymondRun};

/// How long a server that is connected may take to start a run or let it go on. No view waits for it.
const PATIENCE_FOR_START: Duration = Duration::from_secs(15);
/// How long a worker may take to answer before the run is shown as it was last seen. A command that waits for the server no
/// longer than [`PATIENCE`] has to know by then that it was not the server.
const PATIENCE_WITH_WORKERS: Duration = Duration::from_millis(1500);
/// After so long without an answer it is looked whether a worker reads the queue at all.
const LOOK_FOR_WORKERS: Duration = Duration::from_millis(100);
/// How much longer an answer is waited for if none seems to. One may have come just now.
const LAST_CHANCE: Duration = Duration::from_millis(300);
/// How long workers that did not answer are not waited for again.
const SILENT_FOR: Duration = Duration::from_secs(2);
/// How long a worker may take to decide. It may first have to decide all again that its history holds, and what comes until
/// then is not lost but slows it down.
const LONGEST_DECISION: Duration = Duration::from_secs(30);
/// How long the store of blobs may take for a text.
const PATIENCE_FOR_TEXT: Duration = Duration::from_secs(30);
/// How often a run is asked for news while nothing happens.
const ASK_EVERY: Duration = Duration::from_millis(100);
/// Variables that set how long a machine may be silent, and how long a step waits for its agent's machine, in milliseconds.
const HEARTBEAT: (&str, u64) = ("RAYMOND_HEARTBEAT_MS", 30_000);
const PATIENCE_FOR_HOME: (&str, u64) = ("RAYMOND_HOST_PATIENCE_MS", 60_000);
/// After how many events of the engine's history a run continues with a new one.
pub(crate) const CONTINUE_AFTER: (&str, u64) = ("RAYMOND_CONTINUE_AFTER", 8_000);

/// What the server says to a question if no worker has read the queue lately.
const NO_WORKER: &str = "no poller seen";

/// Temporal as an engine for runs.
#[derive(Default)]
pub struct Temporal {
    runtime: OnceLock<Runtime>,
    known: OnceLock<Arc<Known>>,
    /// Stores of blobs that are read often, by their addresses.
    stores: Mutex<BTreeMap<Option<String>, Blobs>>,
}

/// What is remembered between calls.
#[derive(Default)]
struct Known {
    /// Connections, by server and namespace.
    clients: Mutex<BTreeMap<String, Client>>,
    /// When workers did not answer, by queue or by run.
    silent: Mutex<BTreeMap<String, Instant>>,
}

impl Known {
    async fn client(&self, at: &Address) -> Result<Client, Trouble> {
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

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A server that answers, and what is known of its workers.
pub(crate) struct Server {
    pub(crate) at: Address,
    pub(crate) client: Client,
    known: Arc<Known>,
}

/// What a run says.
pub(crate) enum Answer {
    Told(Box<Told>),
    /// No worker answers; why.
    Unheard(String),
    NotThere,
}

impl Temporal {
    pub const fn new() -> Self {
        Self { runtime: OnceLock::new(), known: OnceLock::new(), stores: Mutex::new(BTreeMap::new()) }
    }

    fn blobs_at(&self, at: &Address) -> Result<Blobs, Trouble> {
        let mut stores = lock(&self.stores);
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

    /// Asks a server something that it may take so long for, once it is connected.
    fn ask<T, F>(
        &self,
        at: &Address,
        patience: Duration,
        act: impl FnOnce(Server) -> F + Send + 'static,
    ) -> Result<T, Trouble>
    where
        T: Send + 'static,
        F: Future<Output = Result<T, Trouble>> + Send,
    {
        let (at, known) = (at.clone(), Arc::clone(self.known.get_or_init(Arc::default)));
        self.call(async move {
            let client = known.client(&at).await?;
            let late = |_| Trouble::Away(format!("no answer within {} s", patience.as_secs()));
            timeout(patience, act(Server { at, client, known })).await.map_err(late)?
        })?
    }
}

impl Fleet for Temporal {
    fn start(&self, at: &Address, new: &NewRun) -> Result<(), Trouble> {
        let (id, queue) = (new.id.clone(), at.queue.clone());
        let input = self.input_of(at, new)?;
        self.ask(at, PATIENCE_FOR_START, async move |server: Server| {
            let options = WorkflowStartOptions::new(queue, id)
                .id_reuse_policy(WorkflowIdReusePolicy::RejectDuplicate)
                .task_timeout(LONGEST_DECISION)
                .build();
            match server.client.start_workflow(RaymondRun::run, input, options).await {
                Ok(_) => Ok(()),
                Err(WorkflowStartError::Rpc(status)) => Err(Trouble::Away(status.message().to_owned())),
                Err(error) => Err(Trouble::Refused(error.to_string())),
            }
        })
    }

    fn answers(&self, at: &Address) -> Result<(), Trouble> {
        self.ask(at, PATIENCE, async move |server: Server| {
            is_queue_read(&server.client, &server.at).await.map(drop).map_err(away)
        })
    }

    fn runs(&self, at: &Address) -> Result<Vec<KnownRun>, Trouble> {
        let wanted = format!("WorkflowType = '{RUN}' AND TaskQueue = '{}'", at.queue);
        self.ask(at, PATIENCE, async move |server: Server| {
            let mut stream = server.client.list_workflows(wanted, Default::default());
            let mut runs = BTreeMap::new();
            while let Some(found) = stream.next().await {
                let found = found.map_err(away)?;
                let is_open = *runs.entry(found.id().to_owned()).or_default() || is_running(&found);
                runs.insert(found.id().to_owned(), is_open);
            }
            Ok(runs.into_iter().map(|(id, is_open)| KnownRun { id, is_open }).collect())
        })
    }

    fn news(&self, at: &Address, run: &str, after: u64, wait: Duration) -> Result<News, Trouble> {
        let run = run.to_owned();
        self.ask(at, PATIENCE + wait, async move |server: Server| {
            let until = Instant::now() + wait;
            loop {
                let news = match server.question(&run, after).await {
                    Ok(Answer::Told(told)) => server.news_of(*told, &run, after).await?,
                    Ok(Answer::Unheard(why)) => return server.news_without_workers(&run, after, why).await,
                    Ok(Answer::NotThere) => {
                        return server.news_without_workers(&run, after, String::new()).await;
                    }
                    // The server does not let a run be asked that it has ended and that no worker had taken.
                    Err(Trouble::Refused(why)) if server.has_ended(&run).await? => {
                        return server.news_without_workers(&run, after, why).await;
                    }
                    Err(trouble) => return Err(trouble),
                };
                if !news.batches.is_empty() {
                    return Ok(news);
                }
                if news.standing == Standing::Over || Instant::now() >= until {
                    // The server can end a run without asking it. The run itself does not know that.
                    let ended = ended_how(status_of(&server.client, &run).await.map_err(away)?);
                    let ended = ended.map(|how| Standing::Ended(how.to_owned()));
                    return Ok(News { standing: ended.unwrap_or(news.standing), ..news });
                }
                tokio::time::sleep(ASK_EVERY).await;
            }
        })
    }

    fn text(&self, at: &Address, run: &str, hash: &str) -> Result<String, Trouble> {
        let (blobs, run, hash) = (at.blobs.clone(), run.to_owned(), hash.to_owned());
        self.call(async move {
            let texts = Texts::of(&Blobs::open(blobs.as_deref()).map_err(away)?, &run);
            let found = tokio::time::timeout(PATIENCE_FOR_TEXT, texts.get(&hash)).await;
            match found.map_err(|_| away("the blob store takes too long"))? {
                Ok(text) => Ok(text),
                Err(NoText::Away(error)) => Err(away(format!("the blob store: {error:#}"))),
                Err(NoText::Missing(why)) => Err(refused(why)),
            }
        })?
    }

    fn deliver(&self, at: &Address, run: &str, name: &str, content: &str) -> Result<(), Trouble> {
        let ends_now = name.starts_with(STOP_MESSAGE)
            && serde_json::from_str::<StopRequest>(content).is_ok_and(|request| request.now);
        let content = match name.starts_with(ANSWER_MESSAGE) && content.len() > MAX_INLINE_PAYLOAD_BYTES {
            true => self.with_its_text_kept(at, run, content)?,
            false => content.to_owned(),
        };
        let mail = Mail::Message { name: name.to_owned(), content };
        let run = run.to_owned();
        self.ask(at, 2 * PATIENCE, async move |server: Server| {
            let is_heard = server.signal(&run, mail).await?;
            match is_heard || !ends_now {
                true => Ok(()),
                false => server.end_if_untaken(&run).await,
            }
        })
    }

    fn resume(&self, at: &Address, run: &str, resume: &Resume) -> Result<(), Trouble> {
        let Resume { options, waits_for_answers, workflows } = resume.clone();
        let workflows = workflows.map(|workflows| self.keep(at, &workflows)).transpose()?.map(Box::new);
        let mail = Mail::Resume { options: Box::new(options), waits_for_answers, workflows };
        let run = run.to_owned();
        self.ask(at, PATIENCE_FOR_START, async move |server: Server| {
            // If no worker answers, the run goes on when one does.
            let mut is_heard = server.signal(&run, mail).await?;
            while is_heard {
                match server.question(&run, u64::MAX).await {
                    Ok(Answer::Told(told)) => match told.why_stopped {
                        Some(why) => return Err(refused(format!("the run {run} cannot go on: {why}"))),
                        None if told.is_about_to_go_on => tokio::time::sleep(ASK_EVERY).await,
                        None => is_heard = false,
                    },
                    _ => is_heard = false,
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
        let got = async move { blobs.get_up_to(&key, MOST_ARCHIVE_BYTES).await.map_err(trouble) };
        self.call(async move {
            timeout(PATIENCE, got).await.map_err(|_| away("the store of blobs cannot be reached"))?
        })?
    }

    fn forget(&self, at: &Address, run: &str) -> Result<(), Trouble> {
        let run = run.to_owned();
        self.ask(at, LONGEST_FORGETTING, async move |server: Server| server.forget(&run).await)
    }

    fn work(&self, worker: &Worker) -> Result<ExitKind, UserError> {
        let config =
            raymond::config::load_both(raymond::config::user_file().as_deref(), None, &|_, _| Ok(()))?;
        let backends = Backends::new(&config)?;
        let mut builder = tokio::runtime::Builder::new_multi_thread();
        builder.worker_threads(2);
        let runtime = host::runtime(builder);
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
        let (id, mut opening) = (new.id.clone(), new.opening.clone());
        let kept = self.call(async move {
            let blobs = Blobs::open(blobs.as_deref())?;
            Texts::of(&blobs, &id).keep_those_of(&mut opening).await?;
            let (bundle, repository) =
                (keep_workflows(&blobs, &scopes).await?, keep_repository(&blobs, &cwd).await?);
            anyhow::Ok((bundle, repository, opening))
        })?;
        let (bundle, repository, opening) = kept.map_err(|error| refused(format!("{error:#}")))?;
        let settings = Settings {
            queue: at.queue.clone(),
            heartbeat_ms: variable(HEARTBEAT),
            patience_ms: variable(PATIENCE_FOR_HOME),
            continue_after: u32::try_from(variable(CONTINUE_AFTER)).unwrap_or(u32::MAX),
            waits_for_answers: new.waits_for_answers,
            keeps_texts: true,
            files: FilesOfRun {
                bundle,
                project: new.project.to_string_lossy().into_owned(),
                workflow_paths: new.config.raymond.workflow_paths.clone(),
                cd_paths: new.config.raymond.cd_paths.clone(),
                repository,
                debug_folder: new.debug_folder.as_ref().map(|path| path.to_string_lossy().into_owned()),
            },
        };
        let from = Packed::new(&From::Start { opening, states }).map_err(refused)?;
        match from.bytes() < MOST_BYTES {
            true => Ok(RunInput { settings, from }),
            false => Err(refused("the workflow's states are too large for a message of the engine")),
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

    /// An answer whose text is in the store of blobs. What cannot be read as an answer, or has no text, stays as it is: the run
    /// decides about it.
    fn with_its_text_kept(&self, at: &Address, run: &str, content: &str) -> Result<String, Trouble> {
        let Ok(mut answer) = serde_json::from_str::<GivenAnswer>(content) else {
            return Ok(content.to_owned());
        };
        let Some(text) = answer.text.text().filter(|text| !text.trim().is_empty()) else {
            return Ok(content.to_owned());
        };
        let (blobs, run, text) = (at.blobs.clone(), run.to_owned(), text.to_owned());
        let kept = self.call(async move {
            let texts = Texts::of(&Blobs::open(blobs.as_deref())?, &run);
            tokio::time::timeout(PATIENCE_FOR_TEXT, texts.keep_if_long(text)).await?
        })?;
        answer.text = kept.map_err(|error| away(format!("the blob store: {error:#}")))?;
        serde_json::to_string(&answer).map_err(refused)
    }
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
        let in_time = RpcOptions::builder().timeout(PATIENCE_WITH_WORKERS).build();
        let options = WorkflowQueryOptions::builder().rpc_options(in_time).build();
        let status = match handle.query(RaymondRun::news, after, options).await {
            Ok(told) => return Ok(Some(Answer::Told(Box::new(told)))),
            Err(WorkflowQueryError::NotFound(_)) => return Ok(Some(Answer::NotThere)),
            Err(WorkflowQueryError::Rpc(status)) => status,
            Err(error) => return Err(away(error)),
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
    async fn news_of(&self, told: Told, run: &str, after: u64) -> Result<News, Trouble> {
        let part = match after + 1 < told.first {
            true => self.kept_after(run, after).await?,
            false => told.part.open().map_err(refused)?,
        };
        let standing = if told.is_open { Standing::Open } else { Standing::Over };
        Ok(News { batches: part.batches, payloads: part.payloads, hosts: told.hosts, standing })
    }

    /// What is known of a run while no worker answers: how it begins and, once it has ended, its journal.
    async fn news_without_workers(&self, run: &str, after: u64, why: String) -> Result<News, Trouble> {
        let status = status_of(&self.client, run).await.map_err(away)?;
        let is_terminated = status == Some(WorkflowExecutionStatus::Terminated);
        let standing = match (ended_how(status), status) {
            _ if is_terminated && is_untaken(&self.client, run).await.map_err(away)? => {
                Standing::Ended("was ended before any worker had taken it".to_owned())
            }
            (Some(how), _) => Standing::Ended(how.to_owned()),
            (None, Some(WorkflowExecutionStatus::Completed)) => Standing::Over,
            (None, _) => Standing::Unheard(why),
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
    async fn signal(&self, run: &str, mail: Mail) -> Result<bool, Trouble> {
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

    /// Whether the server has ended a run without asking it.
    async fn has_ended(&self, run: &str) -> Result<bool, Trouble> {
        Ok(ended_how(status_of(&self.client, run).await.map_err(away)?).is_some())
    }

    /// Ends a run of which nothing has been done.
    async fn end_if_untaken(&self, run: &str) -> Result<(), Trouble> {
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
    let mut part = serde_json::from_slice::<Packed<Part>>(&bytes)?.open()?;
    part.batches.retain(|batch| batch.last().is_some_and(|event| event.seq > after));
    Ok(part)
}

fn is_running(found: &temporalio_client::WorkflowExecution) -> bool {
    found.status() == WorkflowExecutionStatus::Running
}

pub(crate) fn in_patience() -> RpcOptions {
    RpcOptions::builder().timeout(PATIENCE).build()
}

pub(crate) fn away(error: impl std::fmt::Display) -> Trouble {
    Trouble::Away(format!("{error:#}"))
}

pub(crate) fn refused(error: impl std::fmt::Display) -> Trouble {
    Trouble::Refused(error.to_string())
}

fn variable((name, default): (&str, u64)) -> u64 {
    std::env::var(name).ok().and_then(|value| value.parse().ok()).unwrap_or(default)
}
