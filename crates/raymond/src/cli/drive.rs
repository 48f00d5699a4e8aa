//! What running and resuming share: everything is put together, driven to the end, and the result printed.

use std::cell::RefCell;
use std::io::{IsTerminal, Write};
use std::rc::Rc;

use raymond_core::event::Event;
use raymond_core::input::Input;
use raymond_core::run::{Options, RunStatus};
use raymond_core::workflow::Platform;

use super::args::RunOptions;
use super::print::{cannot_write, print_result};
use crate::backend::registry::Backends;
use crate::config::{OnAsk, Settings};
use crate::driver::{Driver, Parts, Terminal};
use crate::engine::Engine;
use crate::error::{Exit, UserError};
use crate::journal_store::JournalStore;
use crate::mailbox::mailbox;
use crate::observe::{Console, Detail, JsonLines, Observer};
use crate::output::Output;
use crate::process::Reaper;
use crate::scope::Scope;
use crate::states::ScopeStates;
use crate::step::StepContext;
use crate::store::{Payloads, RunPaths};

/// How a run is watched, whatever it is.
pub(super) struct Manner {
    detail: Detail,
    json: bool,
    on_ask: OnAsk,
}

impl Manner {
    pub(super) fn new(args: &RunOptions, settings: &Settings) -> Self {
        let is_terminal = std::io::stdin().is_terminal() && std::io::stderr().is_terminal();
        let by_default = if is_terminal { OnAsk::Prompt } else { OnAsk::Pause };
        Self {
            detail: args.detail(settings.verbose.unwrap_or(false)),
            json: args.json,
            on_ask: args.on_ask.or(settings.on_ask).unwrap_or(by_default),
        }
    }
}

/// A run that is ready to be driven.
pub(super) struct Ready {
    pub(super) engine: Engine<JournalStore>,
    /// Events that are committed and that nobody has seen.
    pub(super) unseen: Vec<Event>,
    pub(super) opening: Vec<Input>,
    pub(super) scope: Scope,
    pub(super) paths: RunPaths,
    pub(super) payloads: Payloads,
    pub(super) reaper: Reaper,
    pub(super) backends: Backends,
    pub(super) options: Options,
    pub(super) incarnation: String,
    pub(super) manner: Manner,
}

/// Drives a run to its end and prints its result.
pub(super) fn drive(mut ready: Ready) -> Result<Exit, UserError> {
    crate::process::raise_file_limit();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| UserError::failed(format!("cannot start: {error}")))?;
    let local = tokio::task::LocalSet::new();
    let payloads = ready.payloads.clone();
    let json = ready.manner.json;
    let stdout = Output::stdout();
    let events = stdout.clone();
    let (exit, run) = local.block_on(&runtime, async move {
        let (unseen, opening) = (std::mem::take(&mut ready.unseen), std::mem::take(&mut ready.opening));
        let mut driver = prepare(ready, events)?;
        driver.publish(&unseen);
        let exit = driver.drive(opening).await;
        driver.flush().await;
        Ok::<_, UserError>((exit?, driver.run().clone()))
    })?;
    if let Some(error) = stdout.failure() {
        return Err(cannot_write(&error));
    }
    if !json && run.status == RunStatus::Completed {
        print_result(&run, &payloads)?;
    }
    Ok(exit)
}

fn prepare(mut ready: Ready, stdout: Output) -> Result<Driver<JournalStore>, UserError> {
    let (sender, messages) = mailbox();
    let scope = Rc::new(RefCell::new(ready.scope));
    let inbox = ready.paths.inbox();
    ready.engine.wait_for_answers(ready.manner.on_ask != OnAsk::Pause);
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
        shows_output: ready.manner.detail == Detail::Verbose,
    };
    let stderr = Output::stderr();
    let console = Console::new(coloured(stderr.clone()), ready.manner.detail, ready.payloads.clone());
    let mut observers: Vec<Box<dyn Observer>> = vec![Box::new(console)];
    if ready.manner.json {
        observers.push(Box::new(JsonLines::new(stdout.clone(), ready.payloads)));
    }
    Driver::new(Parts {
        engine: ready.engine,
        states: ScopeStates { scope, options: ready.options },
        context: Rc::new(context),
        messages,
        observers,
        outputs: vec![stdout, stderr],
        terminal: (ready.manner.on_ask == OnAsk::Prompt).then(|| Terminal::new(inbox)),
        incarnation: ready.incarnation,
    })
}

/// Colours only where a terminal shows them and nobody said no.
fn coloured(stderr: Output) -> Box<dyn Write> {
    match anstream::AutoStream::choice(&std::io::stderr()) {
        anstream::ColorChoice::Never => {
            Box::new(anstream::StripStream::new(Box::new(stderr) as Box<dyn Write>))
        }
        _ => Box::new(stderr),
    }
}
