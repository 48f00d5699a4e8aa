//! What `run` and `resume` share: put all parts together, drive the run to its end, print the result.

use std::cell::RefCell;
use std::io::{IsTerminal, Write};
use std::path::PathBuf;
use std::rc::Rc;
use std::sync::Arc;
use std::time::SystemTime;

use raymond_core::event::Event;
use raymond_core::input::Input;
use raymond_core::run::{Options, Run, RunStatus};
use raymond_core::workflow::Platform;

use super::args::{Place, RunOptions};
use super::find::{debug_folder, scratch_folder};
use super::print::{cannot_write, print_result, say};
use super::staging::Staged;
use crate::agent::registry::Backends;
use crate::config::{OnAsk, Settings};
use crate::error::{ExitKind, UserError};
use crate::fleet::debug::Rules;
use crate::git::snapshots::{INDEXES, Snapshots};
use crate::git::worktrees::{Unsaved, Worktrees};
use crate::process::Reaper;
use crate::process::secrets::Secrets;
use crate::recording::Traces;
use crate::run::driver::{Driver, Parts, Terminal};
use crate::run::engine::Engine;
use crate::run::mailbox::mailbox;
use crate::run::prepare::Preparer;
use crate::run::step::{Gate, Groups, LocalExecutor, LocalSteps, OwnProgram, Unpacked};
use crate::store::{RunHandle, RunWriter};
use crate::view::debug::{DEFAULT_KEPT_STEPS, DebugFolder};
use crate::view::notify::Notifier;
use crate::view::output::Output;
use crate::view::text::clean;
use crate::view::{Console, Detail, JsonLines, LiveView, View};
use crate::view::{draw_again_after_a_pause, is_live_view_wanted};
use crate::workflow::scopes::Scopes;

/// How a run is shown and where its debug files go.
pub(super) struct Manner {
    detail: Detail,
    json: bool,
    on_ask: OnAsk,
    debug: DebugFolder,
    notify: Option<String>,
}

impl Manner {
    pub(super) fn new(args: &RunOptions, place: &Place, settings: &Settings, run: &str) -> Self {
        let by_default = if is_terminal() { OnAsk::Prompt } else { OnAsk::Pause };
        Self::with(by_default, args, place, settings, run)
    }

    /// The same for a run that other machines carry out. Without a terminal the run stays open until
    /// it is answered: the answer may come from any machine, and this process need not live until then.
    pub(super) fn elsewhere(args: &RunOptions, place: &Place, settings: &Settings, run: &str) -> Self {
        let by_default = if is_terminal() { OnAsk::Prompt } else { OnAsk::Wait };
        Self::with(by_default, args, place, settings, run)
    }

    fn with(by_default: OnAsk, args: &RunOptions, place: &Place, settings: &Settings, run: &str) -> Self {
        Self {
            detail: args.detail(settings.verbose.unwrap_or(false)),
            json: args.json,
            on_ask: match args.stage {
                // A test gives the answers itself.
                Some(_) => OnAsk::Wait,
                None => args.on_ask.or(settings.on_ask).unwrap_or(by_default),
            },
            debug: open_debug_folder(args, place, settings, run),
            notify: settings.notify.clone(),
        }
    }

    /// Whether questions are asked on this terminal.
    pub(super) fn asks_here(&self) -> bool {
        self.on_ask == OnAsk::Prompt
    }

    /// Whether the run goes on for as long as only questions are left.
    pub(super) fn waits_for_answers(&self) -> bool {
        self.on_ask != OnAsk::Pause
    }

    pub(super) fn is_json(&self) -> bool {
        self.json
    }

    /// Where the debug files of the run are kept, if they are.
    pub(super) fn debug_rules(&self) -> Option<Rules> {
        let (folder, keep) = self.debug.kept_in()?;
        Some(Rules { root: folder.parent()?.to_owned(), keep })
    }

    /// The views of a run that another machine carries out, and what they write to. Its debug files are copied behind its
    /// events.
    pub(super) fn views(self, run: &Run, handle: &dyn RunHandle) -> Shown {
        let (live, stderr) = stderr_for(run, &self);
        let (stdout, payloads) = (Output::stdout(), handle.payloads());
        let outputs = vec![stdout.clone(), stderr.clone()];
        let asks_here = self.asks_here();
        let terminal = asks_here.then(|| Terminal::new(handle.inbox(), stderr.clone(), payloads.clone()));
        let mut views: Vec<Box<dyn View>> = Vec::new();
        if !stderr.is_nowhere() {
            let console = Console::new(coloured(stderr.clone()), self.detail, payloads.clone());
            views.push(Box::new(console.leave_questions(asks_here)));
        }
        views.extend(live.map(|view| Box::new(view) as Box<dyn View>));
        let notifier = self.notify.map(|command| Notifier::new(command, payloads.clone()));
        views.extend(notifier.clone().map(|notifier| Box::new(notifier) as Box<dyn View>));
        if self.json {
            views.push(Box::new(JsonLines::new(stdout, payloads)));
        }
        Shown { views, outputs, stderr, notifier, terminal }
    }
}

fn is_terminal() -> bool {
    std::io::stdin().is_terminal() && std::io::stderr().is_terminal()
}

/// The views of a run that another machine carries out.
pub(super) struct Shown {
    views: Vec<Box<dyn View>>,
    outputs: Vec<Output>,
    stderr: Output,
    notifier: Option<Notifier>,
    /// Where its questions are asked, if that is here.
    terminal: Option<Terminal>,
}

impl Shown {
    /// Shows the first batch, and asks the questions that are open then.
    pub(super) fn begin(&mut self, run: &Run, batch: &[Event]) {
        self.show(run, batch);
        if let Some(terminal) = &mut self.terminal {
            terminal.ask_again(run);
        }
    }

    pub(super) fn go_on(&mut self, run: &Run, batch: &[Event]) {
        self.show(run, batch);
        if let Some(terminal) = &mut self.terminal {
            batch.iter().for_each(|event| terminal.event(event));
        }
    }

    fn show(&mut self, run: &Run, batch: &[Event]) {
        for event in batch {
            self.views.iter_mut().for_each(|view| view.event(run, event));
        }
    }

    /// Says something between the lines of the views.
    pub(super) fn say(&mut self, text: &str) {
        let _ = writeln!(self.stderr, "{}", clean(text));
    }

    /// No more questions are asked here. Says whether some were.
    pub(super) fn stop_asking(&mut self) -> bool {
        self.terminal.take().is_some()
    }

    /// Waits until no more answers can be typed.
    pub(super) async fn stdin_ended(&self) {
        match &self.terminal {
            Some(terminal) => terminal.ended().await,
            None => std::future::pending().await,
        }
    }

    /// Waits until everything has been written, and for commands that still run.
    pub(super) async fn finish(mut self) {
        self.stop_asking();
        self.outputs.iter_mut().for_each(Output::close);
        for output in &self.outputs {
            output.drained().await;
        }
        drop(self.views);
        if let Some(notifier) = self.notifier
            && let Some(warning) = notifier.finish().await
        {
            say(&format!("warning: {warning}"));
        }
    }
}

fn open_debug_folder(args: &RunOptions, place: &Place, settings: &Settings, run: &str) -> DebugFolder {
    let is_off = args.no_debug || settings.no_debug.unwrap_or(false);
    match debug_folder(place, run) {
        Some((dir, path)) if !is_off => {
            // Trouble with the folder is a warning when the first file is written.
            let _ = dir.create_home();
            DebugFolder::open(path, settings.debug_steps.unwrap_or(DEFAULT_KEPT_STEPS))
        }
        _ => DebugFolder::off(),
    }
}

/// The debug files that earlier processes of a run left, whether or not this one writes any.
pub(super) fn kept_debug_files(place: &Place, run: &str) -> DebugFolder {
    debug_folder(place, run)
        .map_or_else(DebugFolder::off, |(_, path)| DebugFolder::open(path, DEFAULT_KEPT_STEPS))
}

/// What a run has left beside its journal.
pub(super) fn traces(place: &Place, run: &str) -> Result<Traces, UserError> {
    Ok(Traces { debug: kept_debug_files(place, run), scratch: scratch_folder(place, run)? })
}

/// A run that is ready to be driven.
pub(super) struct Ready {
    pub(super) engine: Engine<Box<dyn RunWriter>>,
    /// Events that are committed but not yet shown.
    pub(super) unseen: Vec<Event>,
    pub(super) opening: Vec<Input>,
    pub(super) scopes: Scopes,
    pub(super) run: Arc<dyn RunHandle>,
    /// The folder that holds everything of Raymond's own.
    pub(super) own_folder: PathBuf,
    /// The folder for the files of its steps.
    pub(super) scratch: PathBuf,
    pub(super) reaper: Reaper,
    pub(super) backends: Backends,
    pub(super) options: Options,
    pub(super) incarnation: String,
    pub(super) manner: Manner,
    pub(super) staged: Staged,
}

/// Drives a run to its end and prints its result.
pub(super) fn drive(mut ready: Ready) -> Result<ExitKind, UserError> {
    crate::process::raise_file_limit();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| UserError::failed(format!("cannot start: {error}")))?;
    let local = tokio::task::LocalSet::new();
    let payloads = ready.run.payloads();
    let json = ready.manner.json;
    let is_quiet = ready.manner.detail == Detail::Quiet;
    let worktrees = ready.scopes.worktrees().cloned();
    let stdout = Output::stdout();
    let events = stdout.clone();
    #[cfg(target_os = "linux")]
    {
        crate::process::adopt_orphans();
        local.spawn_local(crate::process::remove_dead_orphans());
    }
    let (exit, run) = local.block_on(&runtime, async move {
        let (unseen, opening) = (std::mem::take(&mut ready.unseen), std::mem::take(&mut ready.opening));
        let notifier = ready.manner.notify.take().map(|command| Notifier::new(command, ready.run.payloads()));
        let mut driver = prepare(ready, events, notifier.clone())?;
        driver.publish(&unseen);
        let exit = driver.drive(opening).await;
        let warning = match notifier {
            Some(notifier) => notifier.finish().await,
            None => None,
        };
        driver.flush().await;
        if let (Some(worktrees), RunStatus::Completed) = (&worktrees, driver.run().status) {
            tidy_worktrees(driver.run(), worktrees, is_quiet);
        }
        if let Some(warning) = warning {
            say(&format!("warning: {warning}"));
        }
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

/// Removes the worktrees of a completed run that hold nothing of their own, and says which ones stay.
pub(super) fn tidy_worktrees(run: &Run, worktrees: &Worktrees, is_quiet: bool) {
    let kept = worktrees.tidy(run.own_worktrees(), Unsaved::Keep);
    if !is_quiet {
        kept.iter().for_each(|kept| say(&kept.to_string()));
    }
}

fn prepare(
    mut ready: Ready,
    stdout: Output,
    notifier: Option<Notifier>,
) -> Result<Driver<Box<dyn RunWriter>, LocalSteps>, UserError> {
    let (sender, messages) = mailbox();
    let (inbox, payloads) = (ready.run.inbox(), ready.run.payloads());
    ready.engine.wait_for_answers(ready.manner.waits_for_answers());
    let run = ready.engine.run();
    let (view, stderr) = stderr_for(run, &ready.manner);
    ready.reaper.contain(&run.id, &ready.scratch);
    let snapshots = ready.options.snapshots.then(|| {
        let indexes = ready.scratch.join(format!("{INDEXES}{}", ready.incarnation));
        Arc::new(Snapshots::new(&run.id, indexes, ready.own_folder.clone(), &run.snapshots))
    });
    let executor = LocalExecutor {
        began: SystemTime::now(),
        platform: Platform::current(),
        unpacked: Unpacked::new(ready.scratch.clone()),
        groups: Groups::new(&ready.scratch),
        scratch: ready.scratch.clone(),
        reaper: ready.reaper,
        debug: ready.manner.debug.clone(),
        secrets: Secrets::of(std::env::vars_os()),
        backends: ready.backends.clone(),
        messages: sender,
        shows_output: ready.manner.detail == Detail::Verbose,
        own_program: OwnProgram::find(),
        running_groups: RefCell::default(),
        cgroups: RefCell::default(),
        gate: Gate::for_files(crate::process::file_limit()),
        recorder: ready.staged.recorder.clone(),
        snapshots,
        busy_folders: RefCell::default(),
        view: view.clone(),
    };
    let preparer = Preparer {
        scopes: Rc::new(RefCell::new(ready.scopes)),
        options: ready.options,
        payloads: payloads.clone(),
        backends: ready.backends,
        tasks: ready.scratch,
        project: ready.staged.project,
        keeps_portable: ready.staged.keeps_portable,
    };
    let asks_here = ready.manner.asks_here();
    let console = Console::new(coloured(stderr.clone()), ready.manner.detail, payloads.clone())
        .leave_questions(asks_here);
    let mut observers: Vec<Box<dyn View>> = vec![Box::new(ready.manner.debug.clone())];
    if !stderr.is_nowhere() {
        observers.push(Box::new(console));
    }
    observers.extend(ready.staged.recorder.map(|recorder| Box::new(recorder) as Box<dyn View>));
    observers.extend(view.map(|view| Box::new(view) as Box<dyn View>));
    observers.extend(notifier.map(|notifier| Box::new(notifier) as Box<dyn View>));
    if ready.manner.json {
        observers.push(Box::new(JsonLines::new(stdout.clone(), payloads.clone())));
    }
    Driver::new(Parts {
        engine: ready.engine,
        preparer,
        executor: LocalSteps::new(executor),
        messages,
        observers,
        terminal: asks_here.then(|| Terminal::new(Arc::clone(&inbox), stderr.clone(), payloads.clone())),
        inbox,
        identity: ready.run.identity(),
        outputs: vec![stdout, stderr],
        incarnation: ready.incarnation,
        clock: ready.staged.clock,
        rehearsal: ready.staged.rehearsal,
    })
}

/// Stderr, with a live view if it is a terminal that can show one.
fn stderr_for(run: &Run, manner: &Manner) -> (Option<LiveView>, Output) {
    let logs_here = super::diagnostics::writes_to_stderr();
    if manner.json || manner.detail == Detail::Quiet || logs_here || !is_live_view_wanted() {
        return (None, Output::stderr());
    }
    let (view, stderr) = LiveView::open(run);
    draw_again_after_a_pause(stderr.clone());
    (Some(view), stderr)
}

/// Keeps colours only if stderr is a terminal and the environment does not forbid them (`NO_COLOR`).
fn coloured(stderr: Output) -> Box<dyn Write> {
    match anstream::AutoStream::choice(&std::io::stderr()) {
        anstream::ColorChoice::Never => {
            Box::new(anstream::StripStream::new(Box::new(stderr) as Box<dyn Write>))
        }
        _ => {
            // This switches on escape sequences in a Windows terminal.
            let _ = anstream::AutoStream::always_ansi(std::io::stderr());
            Box::new(stderr)
        }
    }
}
