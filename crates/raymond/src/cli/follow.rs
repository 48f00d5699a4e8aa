//! Runs on other machines, as `raymond run --on` and `raymond resume` show them: started there, and followed here.

use std::sync::Arc;
use std::time::Duration;

use raymond_core::run::RunStatus;

use super::args::fleet::WorkerArgs;
use super::drive::Manner;
use super::elsewhere::{ended_there, not_installed};
use super::follower::{Followed, Follower};
use super::print::{print_result, print_stdout, say};
use crate::advice;
use crate::config::{Config, Timeout};
use crate::error::{ExitKind, UserError};
use crate::fleet::debug::DebugKeeper;
use crate::fleet::mirror::{Keeper, Mirror, MirrorError};
use crate::fleet::{Address, Fleet, NewRun, Patient, Resume, Resumed, Started, Trouble, Worker, installed};
use crate::run::driver::{exit_of, now};
use crate::store::{Elsewhere, RunStore, StoreError, check_new_run_id};
use crate::view::status::status_of;

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
fn fleet() -> Result<&'static Patient, UserError> {
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

/// Starts a run elsewhere, and notes here that it is there. What it begins with is copied at once, so that it can be looked
/// at when the engine is away.
pub(super) fn start(store: &Arc<dyn RunStore>, at: &Address, new: &NewRun) -> Result<(), UserError> {
    check_new_run_id(&new.id).map_err(StoreError::BadId)?;
    let fleet = fleet()?;
    match fleet.start(at, new).map_err(|trouble| refused(at, &trouble))? {
        Started::Begun => {}
        Started::IdInUse => {
            let message = format!("there is a run `{}` on {at} already", new.id);
            let removal = format!("`raymond clean {} --discard-changes`", new.id);
            return Err(UserError::usage(message).hint(format!(
                "choose another `--id`; {removal} removes a run for good that does not go on"
            )));
        }
    }
    mark_open(&**store, &new.id, at)?;
    if let Some(mut mirror) = Mirror::of(fleet, Arc::clone(store), &new.id)?
        && let Err(error) = mirror.catch_up(Duration::ZERO)
    {
        tracing::debug!(run = new.id, %error, "there is no copy yet");
    }
    Ok(())
}

/// Copies what is new in a run that is about to go on.
pub(super) fn look_before_resume(
    store: &Arc<dyn RunStore>,
    run: &str,
    at: &Address,
) -> Result<(), UserError> {
    let Some(mut mirror) = Mirror::of(fleet()?, Arc::clone(store), run)? else { return Ok(()) };
    match mirror.catch_up(Duration::ZERO) {
        Ok(_) => Ok(()),
        Err(MirrorError::Engine(trouble)) => Err(not_resumed(run, at, &trouble)),
        Err(error) => Err(UserError::failed(format!("{run} is not resumed: {error}"))),
    }
}

/// Lets a run that stopped elsewhere go on there, with the answers that were given to it meanwhile.
pub(super) fn resume(
    store: &Arc<dyn RunStore>,
    run: &str,
    at: &Address,
    resume: &Resume,
) -> Result<(), UserError> {
    let trouble = |trouble: Trouble| not_resumed(run, at, &trouble);
    let mirror = Mirror::of(fleet()?, Arc::clone(store), run)?;
    let delivered = mirror.map_or_else(|| Ok(Vec::new()), |mirror| mirror.deliver_all()).map_err(trouble)?;
    let resumed = fleet()?.resume(at, run, resume).map_err(trouble)?;
    mark_open(&**store, run, at)?;
    let inbox = store.run(run)?.inbox();
    delivered.iter().try_for_each(|name| inbox.remove(name))?;
    if resumed == Resumed::Later {
        say(&format!("{run} goes on as soon as its states can be read; does the store of blobs answer?"));
    }
    Ok(())
}

fn not_resumed(run: &str, at: &Address, trouble: &Trouble) -> UserError {
    match trouble {
        Trouble::Away(_) => UserError::failed(format!("{run} is not resumed: {at} {trouble}"))
            .hint(format!("try again when it answers: {}", advice::command(&format!("resume {run}")))),
        Trouble::Refused(_) => refused(at, trouble),
    }
}

fn mark_open(store: &dyn RunStore, run: &str, at: &Address) -> Result<(), StoreError> {
    let hosts = store.run(run)?.elsewhere().map(|mark| mark.hosts).unwrap_or_default();
    store.mark_elsewhere(run, &Elsewhere { hosts, ..Elsewhere::open(at.to_string(), now()) })
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
    let json = manner.is_json();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| UserError::failed(format!("cannot start: {error}")))?;
    let local = tokio::task::LocalSet::new();
    let state = match local.block_on(&runtime, Follower::new(&*run, &keeper, seen, manner).follow())? {
        Followed::Over(state) => state,
        Followed::Left(exit) => return Ok(exit),
    };
    if let Some(ended) = ended_there(&*run) {
        say(&ended);
        return Ok(ExitKind::Failed);
    }
    if state.status == RunStatus::Completed && !json {
        print_result(&state, &run.payloads())?;
    }
    // The result comes first: it does not have to wait for files.
    if let Some(debug) = debug {
        debug.finish();
    }
    let interrupted = if state.was_terminated { ExitKind::Terminated } else { ExitKind::Interrupted };
    Ok(exit_of(status_of(state.status, false), interrupted))
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
