//! Runs on other machines, as `raymond run --on` and `raymond resume` show them: started there, and followed here.

use std::sync::Arc;
use std::time::Duration;

use raymond_core::event::Event;
use raymond_core::evolve;
use raymond_core::run::{Options, Run, RunStatus};

use super::args::fleet::WorkerArgs;
use super::drive::{self, Manner};
use super::elsewhere::not_installed;
use super::print::{print_result, print_stdout, say};
use crate::advice;
use crate::config::{Config, Timeout};
use crate::error::{ExitKind, UserError};
use crate::fleet::debug::DebugKeeper;
use crate::fleet::mirror::{Keeper, Mirror};
use crate::fleet::{Address, Fleet, NewRun, Trouble, Worker, Workflows, installed};
use crate::run::driver::{StopRequest, exit_of, now};
use crate::store::{Elsewhere, RunHandle, RunStore, Start, StoreError, check_new_run_id};
use crate::view::View;
use crate::view::status::status_of;

/// How often the copy of a run that is followed is looked at.
const LOOK_AGAIN: Duration = Duration::from_millis(50);
/// How long nothing is heard of a run before the user is told that it waits.
const WITHOUT_NEWS: Duration = Duration::from_secs(5);
/// How long after the first Ctrl-C a second one stops the run.
const SECOND_THOUGHTS: Duration = Duration::from_secs(3);

/// The engine that `--on` names.
pub(super) fn engine_named(given: &str, config: &Config) -> Result<Address, UserError> {
    if let Some(settings) = config.engine.get(given) {
        return Address::of_settings(settings).map_err(UserError::usage);
    }
    Address::parse(given).map_err(|error| {
        let names: Vec<&str> = config.engine.keys().map(String::as_str).collect();
        let known = match names.is_empty() {
            true => "the config file has no table [engine.NAME]".to_owned(),
            false => format!("engines of the config file: {}", names.join(", ")),
        };
        UserError::usage(error).hint(known)
    })
}

/// The engine of this program.
fn fleet() -> Result<&'static dyn Fleet, UserError> {
    installed().ok_or_else(not_installed)
}

fn refused(at: &Address, trouble: &Trouble) -> UserError {
    let error = UserError::failed(format!("{at}: {trouble}"));
    match trouble {
        Trouble::Away(_) => {
            error.hint("is the address right, does its server run, and does it want a certificate or a key?")
        }
        Trouble::Refused(_) => error,
    }
}

/// Starts a run elsewhere, and notes here that it is there. What it has recorded so far is copied at once if a worker
/// answers, so that it can be looked at when the engine is away.
pub(super) fn start(store: &Arc<dyn RunStore>, at: &Address, new: &NewRun) -> Result<(), UserError> {
    check_new_run_id(&new.id).map_err(StoreError::BadId)?;
    let fleet = fleet()?;
    fleet.start(at, new).map_err(|trouble| refused(at, &trouble))?;
    mark_open(&**store, &new.id, at)?;
    if let Some(mut mirror) = Mirror::of(fleet, Arc::clone(store), &new.id)?
        && let Err(error) = mirror.catch_up(Duration::ZERO)
    {
        tracing::debug!(run = new.id, %error, "there is no copy yet");
    }
    Ok(())
}

/// Lets a run that stopped elsewhere go on there.
pub(super) fn resume(
    store: &dyn RunStore,
    run: &str,
    at: &Address,
    options: &Options,
    workflows: Option<&Workflows>,
) -> Result<(), UserError> {
    fleet()?.resume(at, run, options, workflows).map_err(|trouble| refused(at, &trouble))?;
    Ok(mark_open(store, run, at)?)
}

fn mark_open(store: &dyn RunStore, run: &str, at: &Address) -> Result<(), crate::store::StoreError> {
    let hosts = store.run(run)?.elsewhere().map(|mark| mark.hosts).unwrap_or_default();
    let mark = Elsewhere { engine: at.to_string(), is_open: true, hosts, seen_at: now() };
    store.mark_elsewhere(run, &mark)
}

/// Shows a run from the event behind `seen` until it is over, and prints its result.
pub(super) fn follow(
    store: &Arc<dyn RunStore>,
    id: &str,
    seen: u64,
    manner: Manner,
) -> Result<ExitKind, UserError> {
    let fleet = fleet()?;
    let keeper = Keeper::start(fleet, store, id)?
        .ok_or_else(|| UserError::failed(format!("{id} is not carried out elsewhere")))?;
    let run = store.run(id)?;
    let debug = manner.debug_rules().map(|rules| DebugKeeper::start(fleet, Arc::clone(&run), rules));
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| UserError::failed(format!("cannot start: {error}")))?;
    let local = tokio::task::LocalSet::new();
    let shown = local.block_on(&runtime, show(&*run, &keeper, seen, manner))?;
    match shown {
        Shown::Over { state, json } => {
            if let Some(debug) = debug {
                debug.finish();
            }
            if state.status == RunStatus::Completed && !json {
                print_result(&state, &run.payloads())?;
            }
            let interrupted = if state.was_terminated { ExitKind::Terminated } else { ExitKind::Interrupted };
            Ok(exit_of(status_of(state.status, false), interrupted))
        }
        Shown::Left => {
            say(&format!(
                "{id} goes on; see it again with: {}",
                advice::command(&format!("log --follow {id}"))
            ));
            Ok(ExitKind::Interrupted)
        }
    }
}

/// How showing a run has ended.
enum Shown {
    Over {
        state: Box<Run>,
        json: bool,
    },
    /// The user has left; the run goes on.
    Left,
}

async fn show(run: &dyn RunHandle, keeper: &Keeper, seen: u64, manner: Manner) -> Result<Shown, UserError> {
    let json = manner.is_json();
    let mut state: Option<Run> = None;
    let mut shown: Option<drive::Shown> = None;
    let mut manner = Some(manner);
    let mut events = None;
    let mut left_at = None;
    let mut silent_since = Some(tokio::time::Instant::now());
    loop {
        // Whether the run is over is read first: what came before that is read below.
        let is_over = keeper.is_done();
        if events.is_none() && run.load().is_ok() {
            events = Some(run.events(Start::After(0))?);
        }
        while let Some(batch) = events.as_mut().map(|events| events.next_batch()).transpose()?.flatten() {
            for event in &batch {
                state = evolve::evolve(state, event);
            }
            let is_new = batch.last().is_some_and(|event| event.seq > seen);
            let Some(state) = state.as_ref().filter(|_| is_new) else { continue };
            if let Some(manner) = manner.take() {
                shown = Some(manner.views(state, run.payloads()));
            }
            if let Some(shown) = &mut shown {
                publish(&mut shown.views, state, &batch);
            }
        }
        if is_over && let Some(state) = state.take() {
            if let Some(shown) = shown {
                shown.finish().await;
            }
            return Ok(Shown::Over { state: Box::new(state), json });
        }
        if events.is_none() && silent_since.take_if(|since| since.elapsed() > WITHOUT_NEWS).is_some() {
            let id = run.id();
            say(&format!("{id} waits for a worker that reads its queue, or the server does not answer"));
        }
        tokio::select! {
            _ = tokio::signal::ctrl_c() => {
                if left_at.is_some() {
                    stop(run)?;
                    left_at = None;
                } else {
                    say(&format!("{} goes on elsewhere; Ctrl-C again stops it", run.id()));
                    left_at = Some(tokio::time::Instant::now());
                }
            }
            () = tokio::time::sleep(LOOK_AGAIN) => {}
        }
        if left_at.is_some_and(|left| left.elapsed() > SECOND_THOUGHTS) {
            if let Some(shown) = shown {
                shown.finish().await;
            }
            return Ok(Shown::Left);
        }
    }
}

fn publish(views: &mut [Box<dyn View>], state: &Run, batch: &[Event]) {
    for event in batch {
        views.iter_mut().for_each(|view| view.event(state, event));
    }
}

/// Asks the run to stop, as `raymond stop` does.
fn stop(run: &dyn RunHandle) -> Result<(), UserError> {
    let request = StopRequest { incarnation: None, now: false };
    let content = serde_json::to_string(&request).map_err(|error| UserError::failed(error.to_string()))?;
    run.inbox().post(&StopRequest::name(None, false), &content)?;
    say(&format!("{}: stops when its running steps are done", run.id()));
    Ok(())
}

/// Prints the id of a run that is not followed.
pub(super) fn leave(id: &str) -> Result<ExitKind, UserError> {
    print_stdout(format!("{id}\n").as_bytes())?;
    Ok(ExitKind::Completed)
}

/// `raymond worker`
pub(super) fn worker(args: WorkerArgs) -> Result<ExitKind, UserError> {
    let mut at = args.temporal;
    at.namespace = args.namespace.unwrap_or(at.namespace);
    at.queue = args.queue.unwrap_or(at.queue);
    at.blobs = args.blobs.or(at.blobs);
    let cwd = super::find::working_folder()?;
    let work = match args.work {
        Some(folder) => cwd.join(folder),
        None => super::find::own_folder(&super::args::Place::default())?.join("worker"),
    };
    let unless_zero =
        |time: Timeout| Some(Duration::from_millis(time.milliseconds)).filter(|time| !time.is_zero());
    let (drain_timeout, keep) = (args.drain_timeout.and_then(unless_zero), unless_zero(args.keep));
    fleet()?.work(&Worker { at, slots: args.slots.get(), work, drain_timeout, keep })
}
