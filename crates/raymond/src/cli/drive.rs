//! What running and resuming share, and what all commands need.

use std::cell::RefCell;
use std::io::{IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::rc::Rc;

use raymond_core::event::Event;
use raymond_core::input::Input;
use raymond_core::payload::Payload;
use raymond_core::run::{Options, Run, RunStatus};
use raymond_core::workflow::Platform;
use tokio::sync::mpsc;

use super::args::Place;
use crate::backend::registry::Backends;
use crate::config::{self, Config, Settings};
use crate::driver::{Driver, Parts};
use crate::engine::Engine;
use crate::error::{Exit, UserError};
use crate::journal_store::JournalStore;
use crate::observe::{Console, Detail, JsonLines, Observer};
use crate::process::Reaper;
use crate::scope::Folder;
use crate::states::ScopeStates;
use crate::step::StepContext;
use crate::store::{JournalOptions, LockError, Payloads, RunLock, RunPaths, StateDir};
use crate::text::clean;

/// Where the user is.
pub(super) fn working_folder() -> Result<PathBuf, UserError> {
    std::env::current_dir()
        .map_err(|error| UserError::usage(format!("cannot tell the working directory: {error}")))
}

pub(super) fn state_dir(place: &Place) -> Result<StateDir, UserError> {
    let cwd = working_folder()?;
    match &place.state_dir {
        Some(dir) => Ok(StateDir::at(cwd.join(dir))),
        None => {
            StateDir::find(&cwd).map_err(|error| UserError::usage(format!("cannot find .raymond: {error}")))
        }
    }
}

/// The config file lies in `.raymond`, wherever the journals are.
pub(super) fn load_config() -> Result<Config, UserError> {
    let home = StateDir::find(&working_folder()?).ok().and_then(|dir| dir.home().map(Path::to_owned));
    home.map_or_else(|| Ok(Config::default()), |home| config::load(&home.join("config.toml")))
}

/// A run by its id or the start of it, or the latest.
pub(super) fn find_run(dir: &StateDir, given: Option<&str>) -> Result<RunPaths, UserError> {
    let id = match given {
        Some(given) => dir
            .lookup(given)
            .map_err(|error| UserError::usage(error.to_string()).hint("`raymond list` shows all runs"))?,
        None => dir
            .latest()
            .map_err(|error| UserError::usage(format!("cannot read {}: {error}", dir.path().display())))?
            .ok_or_else(|| {
                UserError::usage(format!("there are no runs in {}", dir.path().display()))
                    .hint("start one: raymond WORKFLOW")
            })?,
    };
    dir.run(&id).map_err(|error| UserError::usage(error.to_string()))
}

pub(super) fn acquire(paths: &RunPaths) -> Result<RunLock, UserError> {
    RunLock::acquire(&paths.lock()).map_err(|error| match error {
        LockError::Held { .. } => UserError::usage(format!("{}: {error}", paths.id()))
            .hint(format!("see what it does: raymond status {}", paths.id()))
            .hint(format!("or stop it first: raymond stop {}", paths.id())),
        LockError::Io { .. } => UserError::usage(error.to_string()),
    })
}

pub(super) fn journal_options(settings: &Settings) -> JournalOptions {
    JournalOptions {
        durability: settings.durability(),
        keep_segments: settings.keep_segments,
        ..Default::default()
    }
}

/// A run that is ready to be driven.
pub(super) struct Ready {
    pub(super) engine: Engine<JournalStore>,
    /// Events that are committed and that nobody has seen.
    pub(super) unseen: Vec<Event>,
    pub(super) opening: Vec<Input>,
    pub(super) scope: Folder,
    pub(super) paths: RunPaths,
    pub(super) payloads: Payloads,
    pub(super) reaper: Reaper,
    pub(super) backends: Backends,
    pub(super) options: Options,
    pub(super) incarnation: String,
    pub(super) detail: Detail,
    pub(super) json: bool,
}

/// Drives a run to its end and prints its result.
pub(super) fn drive(mut ready: Ready) -> Result<Exit, UserError> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| UserError::failed(format!("cannot start: {error}")))?;
    let local = tokio::task::LocalSet::new();
    let payloads = ready.payloads.clone();
    let json = ready.json;
    let (exit, run) = local.block_on(&runtime, async move {
        let (unseen, opening) = (std::mem::take(&mut ready.unseen), std::mem::take(&mut ready.opening));
        let mut driver = prepare(ready)?;
        driver.publish(&unseen);
        let exit = driver.drive(opening).await?;
        Ok::<_, UserError>((exit, driver.run().clone()))
    })?;
    if !json && run.status == RunStatus::Completed {
        print_result(&run, &payloads)?;
    }
    Ok(exit)
}

fn prepare(ready: Ready) -> Result<Driver<JournalStore>, UserError> {
    let (sender, messages) = mpsc::unbounded_channel();
    let scope = Rc::new(RefCell::new(ready.scope));
    let run = ready.engine.run();
    let context = StepContext {
        run_id: run.id.clone(),
        nonce: run.nonce.clone(),
        platform: Platform::current(),
        scope: Rc::clone(&scope),
        paths: ready.paths,
        payloads: ready.payloads.clone(),
        reaper: ready.reaper,
        backends: ready.backends,
        skip_permissions: ready.options.skip_permissions,
        messages: sender,
        shows_output: ready.detail == Detail::Verbose,
    };
    let mut observers: Vec<Box<dyn Observer>> = vec![Box::new(Console::stderr(ready.detail))];
    if ready.json {
        observers.push(Box::new(JsonLines::new(ready.payloads)));
    }
    Driver::new(Parts {
        engine: ready.engine,
        states: ScopeStates { scope, options: ready.options },
        context: Rc::new(context),
        messages,
        observers,
        incarnation: ready.incarnation,
    })
}

/// Stdout carries nothing but this, so that it can be piped on.
pub(super) fn print_result(run: &Run, payloads: &Payloads) -> Result<(), UserError> {
    let Some(text) = result_text(run, payloads)? else {
        return Ok(());
    };
    let shown = if std::io::stdout().is_terminal() { clean(&text).into_owned() } else { text };
    let mut bytes = shown.into_bytes();
    if !bytes.ends_with(b"\n") {
        bytes.push(b'\n');
    }
    print_stdout(&bytes);
    Ok(())
}

pub(super) fn result_text(run: &Run, payloads: &Payloads) -> Result<Option<String>, UserError> {
    match &run.result {
        None => Ok(None),
        Some(Payload::Inline(text)) => Ok(Some(text.clone())),
        Some(Payload::Stored { payload, .. }) => {
            payloads.get(payload).map(Some).map_err(|error| UserError::usage(error.to_string()))
        }
    }
}

/// Whoever reads stdout may have left; that is no error of ours.
pub(super) fn print_stdout(bytes: &[u8]) {
    let mut stdout = std::io::stdout().lock();
    let _ = stdout.write_all(bytes).and_then(|()| stdout.flush());
}
