//! What Raymond's command line asks of the engine.

mod asking;

use std::collections::{BTreeMap, BTreeSet};
use std::future::Future;
use std::sync::{Arc, Mutex, OnceLock};
use std::time::{Duration, Instant};

use futures_util::StreamExt;
use raymond::agent::registry::Backends;
use raymond::error::{ExitKind, UserError};
use raymond::fleet::{
    Address, Fleet, KnownRun, NewRun, News, PATIENCE, Resume, Resumed, Standing, Started, Trouble, Worker,
    Workflows,
};
use raymond::run::driver::{ANSWER_MESSAGE, Answer as GivenAnswer, STOP_MESSAGE, StopRequest};
use raymond::run::frozen::FrozenStates;
use raymond::view::debug::MOST_ARCHIVE_BYTES;
use raymond_core::event::{Body, RunStarted};
use raymond_core::limits::MAX_INLINE_PAYLOAD_BYTES;
use temporalio_client::errors::WorkflowStartError;
use temporalio_client::{RpcOptions, WorkflowIdReusePolicy, WorkflowStartOptions};
use tokio::runtime::Runtime;
use tokio::time::timeout;

use crate::blobs::{Blobs, TooLong};
use crate::bundle::{keep_repository, keep_workflows};
use crate::forget::LONGEST_FORGETTING;
use crate::host::{self, debug_key};
use crate::messages::{FilesOfRun, From, Mail, RunInput, Settings, Told, WorkflowsNow};
use crate::packed::{MOST_BYTES, Packed};
use crate::server::{ended_how, is_queue_read, status_of};
use crate::texts::{NoText, Texts};
use crate::workflow::{RUN, RaymondRun};
pub(crate) use asking::{Answer, Server};
use asking::{Known, is_running, lock};

/// How long a server that is connected may take to start a run or let it go on. No view waits for it.
const PATIENCE_FOR_START: Duration = Duration::from_secs(15);
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

/// Temporal as an engine for runs.
#[derive(Default)]
pub struct Temporal {
    runtime: OnceLock<Runtime>,
    known: OnceLock<Arc<Known>>,
    /// Stores of blobs that are read often, by their addresses.
    stores: Mutex<BTreeMap<Option<String>, Blobs>>,
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
    fn start(&self, at: &Address, new: &NewRun) -> Result<Started, Trouble> {
        let (id, queue) = (new.id.clone(), at.queue.clone());
        let input = self.input_of(at, new)?;
        self.ask(at, PATIENCE_FOR_START, async move |server: Server| {
            let options = WorkflowStartOptions::new(queue, id)
                .id_reuse_policy(WorkflowIdReusePolicy::RejectDuplicate)
                .task_timeout(LONGEST_DECISION)
                .build();
            match server.client.start_workflow(RaymondRun::run, input, options).await {
                Ok(_) => Ok(Started::Begun),
                Err(error) => not_begun(error),
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
                    // The server does not let a run be asked that it has ended and that no worker had taken, or that is wedged.
                    Err(Trouble::Refused(why)) if server.cannot_be_asked(&run).await? => {
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

    fn resume(&self, at: &Address, run: &str, resume: &Resume) -> Result<Resumed, Trouble> {
        let Resume { options, waits_for_answers, workflows } = resume.clone();
        let workflows = workflows.map(|workflows| self.keep(at, &workflows)).transpose()?.map(Box::new);
        let mail = Mail::Resume { options: Box::new(options), waits_for_answers, workflows };
        let run = run.to_owned();
        // A signal and each question have shorter limits of their own.
        self.ask(at, 2 * PATIENCE_FOR_START, async move |server: Server| {
            if !server.signal(&run, mail).await? {
                // No worker answers. The run goes on when one does.
                return Ok(Resumed::GoesOn);
            }
            let begun = Instant::now();
            while let Ok(Answer::Told(told)) = server.question(&run, u64::MAX).await {
                if let Some(resumed) = resumed(&run, &told, begun.elapsed()) {
                    return resumed;
                }
                tokio::time::sleep(ASK_EVERY).await;
            }
            Ok(Resumed::GoesOn)
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
        let config = raymond::config::load_own()?;
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

/// Why a run was not started.
fn not_begun(error: WorkflowStartError) -> Result<Started, Trouble> {
    match error {
        WorkflowStartError::AlreadyStarted { .. } => Ok(Started::IdInUse),
        WorkflowStartError::Rpc(status) => Err(Trouble::Away(status.message().to_owned())),
        error => Err(refused(error)),
    }
}

/// What has become of a run that took a resume so long ago; nothing if it has to be asked again. The run has the resume for
/// good, so it goes on later if its states take long to be read.
fn resumed(run: &str, told: &Told, waited: Duration) -> Option<Result<Resumed, Trouble>> {
    match &told.why_stopped {
        Some(why) => Some(Err(refused(format!("the run {run} cannot go on: {why}")))),
        None if !told.is_about_to_go_on => Some(Ok(Resumed::GoesOn)),
        None if waited >= PATIENCE_FOR_START => Some(Ok(Resumed::Later)),
        None => None,
    }
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

#[cfg(test)]
mod tests {
    use temporalio_client::tonic::Status;

    use super::*;
    use crate::messages::Part;

    #[test]
    fn an_id_that_the_server_knows_is_in_use() {
        let source = Status::already_exists("Workflow execution is already running.");
        let known = WorkflowStartError::AlreadyStarted { run_id: None, source };
        assert_eq!(not_begun(known), Ok(Started::IdInUse));
        let away = WorkflowStartError::Rpc(Status::unavailable("no route"));
        assert_eq!(not_begun(away), Err(Trouble::Away("no route".to_owned())));
    }

    #[test]
    fn a_run_whose_states_cannot_be_read_yet_is_resumed_all_the_same() {
        let told = |is_about_to_go_on: bool, why_stopped: Option<&str>| Told {
            part: Packed::new(&Part::default()).unwrap(),
            first: 1,
            hosts: BTreeMap::new(),
            is_open: true,
            taken: 1,
            untaken: 0,
            is_about_to_go_on,
            why_stopped: why_stopped.map(str::to_owned),
        };
        let (at_first, at_last) = (Duration::ZERO, PATIENCE_FOR_START);
        assert_eq!(resumed("r", &told(true, None), at_first), None);
        assert_eq!(resumed("r", &told(true, None), at_last), Some(Ok(Resumed::Later)));
        assert_eq!(resumed("r", &told(false, None), at_last), Some(Ok(Resumed::GoesOn)));
        let refusal = refused("the run r cannot go on: no such model");
        assert_eq!(resumed("r", &told(false, Some("no such model")), at_first), Some(Err(refusal)));
    }
}
