//! Runs that other machines carry out: which program has the engine for them, and copies that are up to date.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use super::args::{Command, Place};
use super::brought::bring;
use super::find::{load_config, state_dir};
use super::print::say;
use crate::config::Config;
use crate::error::{ExitKind, UserError};
use crate::fleet::mirror::{Keeper, Mirror};
use crate::fleet::{Address, ENGINE_PROGRAM, Fleet, KnownRun, PATIENCE, installed};
use crate::run::driver::now;
use crate::store::{Elsewhere, FolderStore, RunHandle, RunStore, check_new_run_id};
use crate::view::text::local_time;

/// What a command has to do with runs that are elsewhere.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Concern {
    /// It cannot do without an engine.
    Needs,
    /// It looks at runs, or leaves messages for them.
    Looks,
    /// It works with runs for as long as it lasts.
    Lasts,
    None,
}

impl Concern {
    fn of(command: &Command) -> Self {
        match command {
            Command::Run(args) if args.engine.on.is_some() => Self::Needs,
            Command::Worker(_) => Self::Needs,
            Command::List(_) | Command::Status(_) | Command::Show(_) | Command::Export(_) => Self::Looks,
            Command::Log(args) if !args.follow => Self::Looks,
            Command::Log(_) | Command::Answer(_) | Command::Stop(_) | Command::Serve(_) => Self::Lasts,
            Command::Resume(_) | Command::Branch(_) | Command::Rewind(_) | Command::Retry(_) => Self::Looks,
            Command::Jump(_) | Command::Clean(_) | Command::Record(_) => Self::Looks,
            _ => Self::None,
        }
    }
}

/// Gives the command line to the program that has an engine, if the command is about runs elsewhere and this program
/// has none. Returns what that program exited with; nothing if this program goes on.
pub(super) fn hand_over(command: &Command) -> Result<Option<ExitKind>, UserError> {
    let concern = Concern::of(command);
    if installed().is_some() || concern == Concern::None {
        return Ok(None);
    }
    let is_concerned = concern == Concern::Needs || command.place().is_some_and(has_runs_elsewhere);
    if !is_concerned {
        return Ok(None);
    }
    match engine_program() {
        Some(program) => replace_with(&program).map(Some),
        None if concern == Concern::Needs => Err(not_installed()),
        None => {
            say(&format!(
                "warning: {ENGINE_PROGRAM} was not found; runs on other machines are shown as last seen"
            ));
            Ok(None)
        }
    }
}

pub(super) fn not_installed() -> UserError {
    UserError::usage(format!("runs on other machines need the program {ENGINE_PROGRAM}, which was not found"))
        .hint("put it beside this program or on the PATH; it is built in the folder `temporal`")
}

/// Whether there are copies of such runs, or engines that may have some.
fn has_runs_elsewhere(place: &Place) -> bool {
    let has_copies = state_dir(place)
        .is_ok_and(|dir| FolderStore::new(dir).elsewhere().is_ok_and(|runs| !runs.is_empty()));
    // A mistake in the config file is reported by the command itself.
    has_copies || load_config().is_ok_and(|config| !config.engine.is_empty())
}

fn engine_program() -> Option<PathBuf> {
    let name = format!("{ENGINE_PROGRAM}{}", std::env::consts::EXE_SUFFIX);
    let beside = std::env::current_exe().ok().and_then(|own| Some(own.parent()?.join(&name)));
    let on_path = std::env::var_os("PATH")
        .into_iter()
        .flat_map(|path| std::env::split_paths(&path).map(|folder| folder.join(&name)).collect::<Vec<_>>());
    beside.into_iter().chain(on_path).find(|program| program.is_file())
}

#[cfg(unix)]
fn replace_with(program: &std::path::Path) -> Result<ExitKind, UserError> {
    use std::os::unix::process::CommandExt;
    let error = std::process::Command::new(program).args(own_arguments()).exec();
    Err(UserError::failed(format!("cannot start {}: {error}", program.display())))
}

#[cfg(not(unix))]
fn replace_with(program: &std::path::Path) -> Result<ExitKind, UserError> {
    let cannot = |error| UserError::failed(format!("cannot start {}: {error}", program.display()));
    let status = std::process::Command::new(program).args(own_arguments()).status().map_err(cannot)?;
    // The exit codes of both programs are the same.
    std::process::exit(status.code().unwrap_or(1))
}

fn own_arguments() -> Vec<OsString> {
    std::env::args_os().skip(1).collect()
}

/// Brings the copies up to date before a command looks at them. What cannot be reached in time is said. The returned
/// value keeps copies up to date while the command lasts, where it does.
pub(super) fn prepare(command: &Command) -> Option<Keeping> {
    let (fleet, place) = (installed()?, command.place()?);
    let concern = Concern::of(command);
    if matches!(concern, Concern::None | Concern::Needs) {
        return None;
    }
    let store: Arc<dyn RunStore> = Arc::new(FolderStore::new(state_dir(place).ok()?));
    let engines = engines_of(&*store, &load_config().unwrap_or_default());
    catch_up(fleet, &store, engines);
    bring(fleet, &store, command);
    let keepers = match concern {
        Concern::Lasts => keep_open_runs(fleet, &store),
        _ => Vec::new(),
    };
    if matches!(command, Command::Serve(_)) {
        look_for_runs_from_now_on(fleet, store);
    }
    Some(Keeping { keepers })
}

/// All engines that may have runs: those of the config file, and those that runs were started on.
fn engines_of(store: &dyn RunStore, config: &Config) -> BTreeMap<String, Address> {
    let configured = config.engine.values().filter_map(|settings| Address::of_settings(settings).ok());
    let marked = open_runs(store).into_iter().filter_map(|(_, mark)| Address::parse(&mark.engine).ok());
    configured.chain(marked).map(|address| (address.to_string(), address)).collect()
}

/// The marked runs that were going on when they were last seen.
fn open_runs(store: &dyn RunStore) -> Vec<(Arc<dyn RunHandle>, Elsewhere)> {
    let runs = store.elsewhere().unwrap_or_default();
    let marked = runs.iter().filter_map(|id| {
        let run = store.run(id).ok()?;
        let mark = run.elsewhere()?;
        Some((run, mark))
    });
    marked.filter(|(_, mark)| mark.is_open).collect()
}

/// Asks all engines at once, and goes on without those that do not answer in time.
fn catch_up(fleet: &'static dyn Fleet, store: &Arc<dyn RunStore>, engines: BTreeMap<String, Address>) {
    let (sender, answers) = channel();
    let mut waiting: BTreeSet<String> = engines.keys().cloned().collect();
    for (name, address) in engines {
        let (store, sender) = (Arc::clone(store), sender.clone());
        std::thread::spawn(move || {
            let done = catch_up_with(fleet, &store, &address);
            let _ = sender.send((name, done));
        });
    }
    drop(sender);
    let deadline = Instant::now() + PATIENCE;
    while !waiting.is_empty()
        && let Ok((name, done)) = answers.recv_timeout(deadline.saturating_duration_since(Instant::now()))
    {
        waiting.remove(&name);
        if let Err(why) = done {
            say(&format!("warning: {name}: {why}; its runs are shown as {}", last_seen(&**store, &name)));
        }
    }
    for name in waiting {
        say(&format!(
            "warning: {name} does not answer in time; its runs are shown as {}",
            last_seen(&**store, &name)
        ));
    }
}

fn last_seen(store: &dyn RunStore, engine: &str) -> String {
    let of_engine = open_runs(store).into_iter().filter(|(_, mark)| mark.engine == engine);
    match of_engine.map(|(_, mark)| mark.seen_at).min() {
        Some(time) => format!("they were at {}", local_time(time)),
        None => "they were last seen".to_owned(),
    }
}

/// How many runs of an engine are asked at once. One that does not answer keeps the others waiting only if there are so many.
const RUNS_AT_ONCE: usize = 8;

/// Finds the runs of one engine and copies what is new in them.
fn catch_up_with(fleet: &'static dyn Fleet, store: &Arc<dyn RunStore>, at: &Address) -> Result<(), String> {
    let engine = at.to_string();
    let known = fleet.runs(at).map_err(|trouble| trouble.to_string())?;
    for run in known {
        note(&**store, &engine, &run).map_err(|error| error.to_string())?;
    }
    let open: Vec<_> = open_runs(&**store).into_iter().filter(|(_, mark)| mark.engine == engine).collect();
    let (next, trouble) = (AtomicUsize::new(0), Mutex::new(Ok(())));
    std::thread::scope(|scope| {
        for _ in 0..RUNS_AT_ONCE.min(open.len()) {
            scope.spawn(|| {
                while let Some((run, _)) = open.get(next.fetch_add(1, Ordering::Relaxed)) {
                    if let Err(why) = catch_up_run(fleet, store, run.id()) {
                        let mut trouble = trouble.lock().unwrap_or_else(PoisonError::into_inner);
                        *trouble = Err(format!("{}: {why}", run.id()));
                    }
                }
            });
        }
    });
    trouble.into_inner().unwrap_or_else(PoisonError::into_inner)
}

fn catch_up_run(fleet: &'static dyn Fleet, store: &Arc<dyn RunStore>, run: &str) -> Result<(), String> {
    let mirror = Mirror::of(fleet, Arc::clone(store), run).map_err(|error| error.to_string())?;
    let Some(mut mirror) = mirror else { return Ok(()) };
    mirror.catch_up(Duration::ZERO).map(drop).map_err(|error| error.to_string())
}

/// Marks a run that is not known here yet, or goes on again. A run of the same name that is of this machine stays.
fn note(store: &dyn RunStore, engine: &str, known: &KnownRun) -> Result<(), crate::store::StoreError> {
    if check_new_run_id(&known.id).is_err() {
        return Ok(());
    }
    let run = store.run(&known.id)?;
    let mark = match run.elsewhere() {
        Some(mark) if mark.engine != engine || mark.is_open == known.is_open => return Ok(()),
        Some(mark) if !known.is_open => mark,
        Some(mark) => Elsewhere { is_open: true, ..mark },
        None if store.list()?.iter().any(|entry| entry.run.id() == known.id) => return Ok(()),
        // What has ended is copied too, once.
        None => {
            Elsewhere { engine: engine.to_owned(), is_open: true, hosts: BTreeMap::new(), seen_at: now() }
        }
    };
    store.mark_elsewhere(&known.id, &mark)
}

fn keep_open_runs(fleet: &'static dyn Fleet, store: &Arc<dyn RunStore>) -> Vec<Keeper> {
    let started =
        |(run, _): (Arc<dyn RunHandle>, Elsewhere)| Keeper::start(fleet, store, run.id()).ok().flatten();
    open_runs(&**store).into_iter().filter_map(started).collect()
}

/// How often a program that goes on for long looks for runs that were started since.
const LOOK_FOR_RUNS: Duration = Duration::from_secs(5);

fn look_for_runs_from_now_on(fleet: &'static dyn Fleet, store: Arc<dyn RunStore>) {
    std::thread::spawn(move || {
        let mut kept: BTreeMap<String, Keeper> = BTreeMap::new();
        loop {
            for (_, at) in engines_of(&*store, &load_config().unwrap_or_default()) {
                // An engine that is away is asked again the next time.
                let known = fleet.runs(&at).unwrap_or_default();
                for run in known {
                    let _ = note(&*store, &at.to_string(), &run);
                }
            }
            kept.retain(|_, keeper| !keeper.is_done());
            for (run, _) in open_runs(&*store) {
                if !kept.contains_key(run.id())
                    && let Ok(Some(keeper)) = Keeper::start(fleet, &store, run.id())
                {
                    kept.insert(run.id().to_owned(), keeper);
                }
            }
            std::thread::sleep(LOOK_FOR_RUNS);
        }
    });
}

/// Copies that are kept up to date while a command works.
pub(super) struct Keeping {
    keepers: Vec<Keeper>,
}

impl Keeping {
    /// Waits until the messages that the command left are delivered.
    pub(super) fn finish(self) {
        if !self.keepers.iter().all(Keeper::deliver_all) {
            say("warning: the engine does not answer; it gets the message when a command reaches it again");
        }
    }
}
