//! The process of `raymond worker`: it connects, takes work, and leaves.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::Path;
use std::rc::Rc;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

use anyhow::Context;
use raymond::agent::registry::Backends;
use raymond::fleet::Worker as WorkerSettings;
use temporalio_client::Client;
use temporalio_common::worker::{VersioningBehavior, WorkerDeploymentOptions, WorkerDeploymentVersion};
use temporalio_sdk::runtime::worker_tuner::{FixedSizeSlotSupplier, TunerHolder};
use temporalio_sdk::{Runtime, Worker, WorkerOptions};
use tokio::runtime::Builder;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::Notify;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

use super::load::Load;
use super::steps::{Steps, Task};
use super::tidy::Tidying;
use super::{Host, agents_queue, host};
use crate::blobs::Blobs;
use crate::client::{NoAnswer, connect};
use crate::messages::Home;
use crate::workflow::RaymondRun;

/// A machine asks for so many agents at once. The others wait with the server, for the machine that has room first.
const CLAIMS_AT_ONCE: usize = 2;
/// How many threads of a runtime may wait for the disk at once.
const DISK_THREADS: usize = 32;
/// How long they stay when they have nothing to do: for good.
const THREADS_STAY: Duration = Duration::from_secs(365 * 24 * 60 * 60);
/// How long the server may take to answer when a worker starts.
const PATIENCE: Duration = Duration::from_secs(10);
/// How long a worker waits before it tries again to connect.
const CONNECT_AGAIN: Duration = Duration::from_secs(1);
/// How long a machine that leaves waits for the reports of steps that it has ended.
const LAST_REPORTS: Duration = Duration::from_secs(30);
/// How often a machine that leaves looks whether its steps have ended.
const DRAIN_POLL: Duration = Duration::from_millis(50);
/// The deployment and the build that this worker belongs to, as Temporal's controller for Kubernetes sets them.
const VERSION_VARIABLES: [&str; 2] = ["TEMPORAL_DEPLOYMENT_NAME", "TEMPORAL_WORKER_BUILD_ID"];

/// A runtime for a worker. Where no more threads can be started, tokio uses those that wait for the disk again, and ends the
/// program if there is none. So there is always one.
pub fn runtime(mut kind: Builder) -> io::Result<tokio::runtime::Runtime> {
    kind.enable_all().max_blocking_threads(DISK_THREADS).thread_keep_alive(THREADS_STAY);
    let runtime = kind.build()?;
    drop(runtime.spawn_blocking(|| ()));
    Ok(runtime)
}

/// Carries out steps until this process is told to stop.
pub async fn work(worker: &WorkerSettings, backends: Backends) -> anyhow::Result<()> {
    // Conversations and clones are for no one else on this machine.
    let made = fs::DirBuilder::new().recursive(true).mode(0o700).create(&worker.work);
    made.with_context(|| format!("cannot make {}", worker.work.display()))?;
    let work = fs::canonicalize(&worker.work)?;
    let _alone = alone_in(&work)?;
    let name = name_in(&work)?;
    let client = connected(worker, &name).await?;
    let blobs = Blobs::open(worker.at.blobs.as_deref())?;
    let (tasks, received) = unbounded_channel();
    let load = Arc::new(Load::default());
    let host = Arc::new(Host {
        home: Home { host: name.clone(), queue: format!("{}.{name}", worker.at.queue), backends: None },
        work: work.clone(),
        backends: backends.clone(),
        blobs: blobs.clone(),
        slots: worker.slots,
        load: Arc::clone(&load),
        claims: Mutex::default(),
        tasks,
    });
    let runtime = Runtime::from_current_tokio(Default::default())?;
    let mut workers = [
        runs_worker(&runtime, &client, &worker.at.queue, &host)?,
        agents_worker(&runtime, &client, &worker.at.queue, &host)?,
        steps_worker(&runtime, &client, &host)?,
    ];
    let stops: Vec<_> = workers.iter().map(Worker::shutdown_handle).collect();
    let (at_leave, slots) = (Arc::clone(&load), worker.slots);
    let home = host.home.clone();
    let keep = worker.keep;
    let make = move || {
        let steps = Steps::new(client.clone(), home, work.clone(), blobs, backends, slots, at_leave);
        let steps = Rc::new(steps);
        let tidying = Tidying { steps: Rc::clone(&steps), client, work, keep };
        tokio::task::spawn_local(tidying.go_on());
        steps
    };
    let (end_steps, steps_ended) = run_steps(make, received)?;
    drop(host);
    eprintln!("raymond: {name} takes up to {slots} steps from {}", worker.at);
    let failed = Notify::new();
    let leave = async {
        tokio::select! {
            asked = asked_to_stop() => asked?,
            () = failed.notified() => {}
        }
        load.is_leaving.store(true, Ordering::Relaxed);
        eprintln!("raymond: {name} takes no more agents; {} steps run", load.steps.load(Ordering::Relaxed));
        stops.iter().for_each(|stop| stop());
        drain(&load, worker.drain_timeout, &end_steps).await;
        anyhow::Ok(())
    };
    let [runs, agents, steps] = &mut workers;
    // A worker that does not get work any more must not look as if it did.
    let run = async |worker: &mut Worker| worker.run().await.inspect_err(|_| failed.notify_one());
    let (runs, agents, steps, left) = tokio::join!(run(runs), run(agents), run(steps), leave);
    runs.and(agents).and(steps)?;
    left?;
    drop(workers);
    let _ = steps_ended.join();
    eprintln!("raymond: {name} has left");
    Ok(())
}

/// Connects to the server. A worker may be started before the server, so one that does not answer is waited for.
async fn connected(worker: &WorkerSettings, name: &str) -> anyhow::Result<Client> {
    let mut is_first = true;
    loop {
        match connect(&worker.at, name, PATIENCE).await {
            Ok(client) => return Ok(client),
            Err(error) if error.is::<NoAnswer>() => {
                if std::mem::take(&mut is_first) {
                    eprintln!("raymond: {name} waits for {}: {error}", worker.at.server());
                }
            }
            Err(error) => return Err(error),
        }
        tokio::select! {
            () = tokio::time::sleep(CONNECT_AGAIN) => {}
            stopped = asked_to_stop() => {
                stopped?;
                anyhow::bail!("{} never answered", worker.at.server());
            }
        }
    }
}

/// The worker for runs and their journals. It alone has a version: a run is decided to its end by the build that began it,
/// and its steps are carried out by all builds.
fn runs_worker(runtime: &Runtime, client: &Client, queue: &str, host: &Arc<Host>) -> anyhow::Result<Worker> {
    let mut options = WorkerOptions::new(queue)
        .register_workflow::<RaymondRun>()?
        .register_activity::<host::KeepJournal>(Arc::clone(host))
        .register_activity::<host::ReadStates>(Arc::clone(host))
        .register_activity::<host::KeepTexts>(Arc::clone(host))
        .register_activity::<host::Join>(Arc::clone(host))
        .build();
    if let Some(version) = version(&|name| std::env::var(name).ok())? {
        options.deployment_options = WorkerDeploymentOptions::new(version)
            .use_worker_versioning(true)
            .default_versioning_behavior(VersioningBehavior::Pinned)
            .build();
    }
    Worker::new(runtime, client.clone(), options).map_err(|error| anyhow::anyhow!("{error}"))
}

/// The version of this worker, if it has one.
fn version(variable: &dyn Fn(&str) -> Option<String>) -> anyhow::Result<Option<WorkerDeploymentVersion>> {
    let [deployment, build] = VERSION_VARIABLES.map(|name| variable(name).filter(|value| !value.is_empty()));
    match (deployment, build) {
        (Some(deployment), Some(build)) => {
            Ok(Some(WorkerDeploymentVersion::builder().deployment_name(deployment).build_id(build).build()))
        }
        (None, None) => Ok(None),
        _ => anyhow::bail!(
            "a version needs both: set {} and {}, or neither",
            VERSION_VARIABLES[0],
            VERSION_VARIABLES[1]
        ),
    }
}

/// The worker for agents that have no machine yet.
fn agents_worker(
    runtime: &Runtime,
    client: &Client,
    queue: &str,
    host: &Arc<Host>,
) -> anyhow::Result<Worker> {
    let few = || FixedSizeSlotSupplier::new(CLAIMS_AT_ONCE);
    let tuner = TunerHolder::builder()
        .workflow_task_slot_supplier(few())
        .activity_task_slot_supplier(few())
        .local_activity_task_slot_supplier(few())
        .nexus_task_slot_supplier(few())
        .build();
    let options = WorkerOptions::new(agents_queue(queue))
        .tuner(tuner)
        .register_activity::<host::Claim>(Arc::clone(host))
        .build();
    Worker::new(runtime, client.clone(), options).map_err(|error| anyhow::anyhow!("{error}"))
}

/// The worker for steps of agents that are on this machine.
fn steps_worker(runtime: &Runtime, client: &Client, host: &Arc<Host>) -> anyhow::Result<Worker> {
    let options = WorkerOptions::new(host.home.queue.clone())
        .register_activity::<host::RunStep>(Arc::clone(host))
        .build();
    Worker::new(runtime, client.clone(), options).map_err(|error| anyhow::anyhow!("{error}"))
}

/// Carries out deliveries on a thread of their own, with a guard beside it, until the channel is closed. What is returned
/// ends all steps.
fn run_steps(
    make: impl FnOnce() -> Rc<Steps> + Send + 'static,
    mut tasks: UnboundedReceiver<Task>,
) -> anyhow::Result<(UnboundedSender<()>, JoinHandle<()>)> {
    let (end, mut ended) = unbounded_channel();
    let runtime = runtime(Builder::new_current_thread())?;
    let thread = std::thread::Builder::new().name("steps".to_owned()).spawn(move || {
        tokio::task::LocalSet::new().block_on(&runtime, async move {
            let steps = make();
            let guarded = tokio::task::spawn_local(Rc::clone(&steps.leases).keep_guarded());
            loop {
                tokio::select! {
                    task = tasks.recv() => match task {
                        Some(task) => drop(tokio::task::spawn_local(Rc::clone(&steps).carry_out(task))),
                        None => break,
                    },
                    Some(()) = ended.recv() => steps.end_now(),
                }
            }
            steps.leases.leave();
            let _ = guarded.await;
        });
    })?;
    Ok((end, thread))
}

/// Waits until all steps have ended and are reported. Those that take too long, or longer than until a second signal, are
/// ended.
async fn drain(load: &Load, limit: Option<Duration>, end: &UnboundedSender<()>) {
    let drained = async || {
        while load.steps.load(Ordering::Relaxed) > 0 {
            tokio::time::sleep(DRAIN_POLL).await;
        }
    };
    let limit = limit.unwrap_or(Duration::MAX);
    tokio::select! {
        () = drained() => return,
        () = tokio::time::sleep(limit) => {}
        _ = asked_to_stop() => {}
    }
    let _ = end.send(());
    // Results that the server does not take now are on disk. They are reported when the worker is started again.
    if tokio::time::timeout(LAST_REPORTS, drained()).await.is_err() {
        eprintln!("raymond: {} results wait here for the server", load.steps.load(Ordering::Relaxed));
    }
}

async fn asked_to_stop() -> io::Result<()> {
    let mut terminate = signal(SignalKind::terminate())?;
    tokio::select! {
        _ = terminate.recv() => Ok(()),
        interrupted = tokio::signal::ctrl_c() => interrupted,
    }
}

/// Keeps a second worker out of the folder: it could not know what the first has begun.
fn alone_in(work: &Path) -> anyhow::Result<File> {
    let file = File::create(work.join("lock"))?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(_) => anyhow::bail!("another worker uses {}; give each its own `--work`", work.display()),
    }
}

/// The name of this machine, which stays the same when its worker is started again.
fn name_in(work: &Path) -> anyhow::Result<String> {
    let file = work.join("name");
    if let Ok(name) = fs::read_to_string(&file) {
        return Ok(name.trim().to_owned());
    }
    let id = uuid::Uuid::new_v4().simple().to_string();
    let name = format!("{}-{}", host_name(), &id[..6]);
    fs::write(&file, &name).with_context(|| format!("cannot write {}", file.display()))?;
    Ok(name)
}

fn host_name() -> String {
    let name = fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    let name: String = name.trim().chars().filter(|c| c.is_ascii_alphanumeric() || *c == '-').collect();
    if name.is_empty() { "machine".to_owned() } else { name }
}

#[cfg(test)]
mod tests {
    use super::version;

    #[test]
    fn a_version_has_two_parts() {
        let given = |names: &'static [&str]| move |name: &str| names.contains(&name).then(|| "x".to_owned());
        assert!(version(&given(&[])).unwrap().is_none());
        assert!(
            version(&given(&["TEMPORAL_DEPLOYMENT_NAME", "TEMPORAL_WORKER_BUILD_ID"])).unwrap().is_some()
        );
        assert!(version(&given(&["TEMPORAL_WORKER_BUILD_ID"])).is_err());
    }
}
